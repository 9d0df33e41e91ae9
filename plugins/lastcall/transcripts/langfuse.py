"""Langfuse exports: traces with their observations, or the observations alone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lastcall.transcripts import chat
from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import arguments, decoded, mapping, objects, seconds, text
from lastcall.transcripts.gathering import gathered
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable
from lastcall.transcripts.usage import amount, usage

KEYS = ("data", "traces", "observations")
"""Where an answer of the API, or a trace, keeps what it holds."""

TYPES = frozenset({
    "SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING",
    "GUARDRAIL",
})  # fmt: skip

Seen = dict[str, Any]


class Langfuse:
    """Observations of type TOOL are calls; where a trace has none, the calls are those that its
    generations asked for."""

    name = "langfuse-observations"
    specificity = 50
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Observations, or objects that hold some."""
        return any(_observations(record) for record in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trace."""
        file, names = str(document.path), Names(document)
        for found in gathered(document, _traced, "no observations"):
            if isinstance(found, Unreadable):
                yield found
                continue
            trace, seen = found
            pairing = _heard(seen)
            yield Transcript(
                file, names.name(trace or None), self.name, pairing.calls(), pairing.replies()
            )


def _is_one(record: Seen) -> bool:
    return (
        str(record.get("type")) in TYPES
        and _of(record, "startTime") is not None
        and ("traceId" in record or "trace_id" in record or "parentObservationId" in record)
    )


def _observations(record: Any) -> list[Seen]:
    """The observations a record is or holds, two levels deep: answers of traces of observations."""
    found: list[Seen] = []
    waiting = [(record, 0)]
    while waiting:
        here, depth = waiting.pop()
        fields = mapping(here)
        if _is_one(fields):
            found.append(fields)
        elif depth < len(KEYS):
            inside = [one for key in KEYS for one in objects(fields.get(key))]
            waiting += ((one, depth + 1) for one in reversed(inside))
    return found


def _traced(record: Any) -> Iterator[tuple[str, Seen]]:
    for seen in _observations(record):
        kind = seen["type"]
        # The others hold copies of what goes through them.
        yield text(_of(seen, "traceId")) or "", seen if kind in ("TOOL", "GENERATION") else {}


def _of(seen: Seen, name: str) -> Any:
    """A field of an observation, as the API writes its name or as blob exports do."""
    if name in seen:
        return seen[name]
    return seen.get(
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    )


def _heard(all_seen: list[Seen]) -> Pairing:
    pairing, spoken = Pairing(), False
    ordered = sorted(filter(None, all_seen), key=lambda one: seconds(_of(one, "startTime")) or 0.0)
    tools = any(one["type"] == "TOOL" for one in ordered)
    for seen in ordered:
        began = seconds(_of(seen, "startTime"))
        if seen["type"] == "TOOL":
            if not spoken:
                pairing.reply()
            _call(pairing, seen, began)
            continue
        spoken = True
        if tools:
            pairing.reply()
        else:
            _talk(pairing, seen, began)
        pairing.spent(_usage(seen), cost=_cost(seen), ts=began)
    return pairing


def _call(pairing: Pairing, seen: Seen, began: float | None) -> None:
    given, broken = arguments(seen.get("input"))
    output = _plain(seen.get("output"))
    level = _of(seen, "level")
    failed = level == "ERROR" if isinstance(level, str) else None
    args = {"input": seen.get("input")} if broken else given
    pairing.call(seen.get("name"), args, id=seen.get("id"), ts=began)
    result = output if output is not None else _of(seen, "statusMessage")
    if result is not None or _of(seen, "endTime") is not None:
        pairing.answer(result, id=seen.get("id"), failed=failed)


def _talk(pairing: Pairing, seen: Seen, began: float | None) -> None:
    """What is new in one generation: what follows the model's last message, and its answer."""
    asked = _plain(seen.get("input"))
    messages = objects(asked) or objects(mapping(asked).get("messages"))
    last = max((n for n, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)
    for message in messages[last + 1 :]:
        chat.hear(pairing, message)
    said = _plain(seen.get("output"))
    answers = objects(said) or [mapping(said)]
    choices = objects(answers[0].get("choices"))
    message = mapping(choices[0].get("message")) if choices else answers[0]
    chat.hear(pairing, {**message, "role": "assistant"}, ts=began)


def _usage(seen: Seen) -> Any:
    model = _of(seen, "providedModelName") or seen.get("model")
    told = (_of(seen, "usageDetails"), seen.get("usage"), seen)
    return next((found for one in told if (found := usage(_plain(one), model))), None)


def _cost(seen: Seen) -> Decimal | None:
    details = mapping(_plain(_of(seen, "costDetails")))
    total = _of(seen, "calculatedTotalCost")
    return amount(details.get("total") if total is None else total)


def _plain(value: Any) -> Any:
    """A value out of the JSON text that some exports keep it in."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return decoded(value)
        except ValueError:
            return value
    return value
