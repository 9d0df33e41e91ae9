"""Langfuse exports: traces with their observations, or the observations alone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lastcall.transcripts import talk
from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import called, mapping, objects, plain, seconds, text, untold
from lastcall.transcripts.gathering import gathered
from lastcall.transcripts.langchain_messages import unwrapped
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
                file,
                names.name(trace or None),
                self.name,
                pairing.calls(),
                pairing.replies(),
                frozenset({"arguments"}) if _hidden(seen) else frozenset(),
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


def _hidden(all_seen: list[Seen]) -> bool:
    """Whether what went in was left out of all that is told, and not of tools without parameters alone: the
    client can be told to."""
    return any(seen.get("type") == "TOOL" for seen in all_seen) and not any(
        seen.get("input") is not None for seen in all_seen
    )


def _heard(all_seen: list[Seen]) -> Pairing:
    pairing, spoken = Pairing(), False
    ordered = sorted(filter(None, all_seen), key=lambda one: seconds(_of(one, "startTime")) or 0.0)
    tools, hidden = any(one["type"] == "TOOL" for one in ordered), _hidden(ordered)
    for seen in ordered:
        began = seconds(_of(seen, "startTime"))
        if seen["type"] == "TOOL":
            if not spoken:
                pairing.reply()
            _call(pairing, seen, began, hidden=hidden)
            continue
        spoken = True
        if tools:
            pairing.reply()
        else:
            _talk(pairing, seen, began)
        pairing.spent(_usage(seen), cost=_cost(seen), ts=began)
    return pairing


def _call(pairing: Pairing, seen: Seen, began: float | None, *, hidden: bool) -> None:
    output, told = unwrapped(seen.get("output"))
    level = _of(seen, "level")
    failed = level == "ERROR" or bool(told) if isinstance(level, str) else told
    pairing.call(
        seen.get("name"),
        untold(len(pairing)) if hidden else called(seen.get("input")),
        id=seen.get("id"),
        ts=began,
    )
    result = output if output is not None else _of(seen, "statusMessage")
    if result is not None or _of(seen, "endTime") is not None:
        pairing.answer(result, id=seen.get("id"), failed=failed)


def _talk(pairing: Pairing, seen: Seen, began: float | None) -> None:
    asked, said = plain(seen.get("input")), plain(seen.get("output"))
    around = mapping(asked)
    given = asked if isinstance(asked, list) else around.get("messages") or around.get("input")
    answers = talk.messages(said) or [mapping(said)]
    choices = objects(answers[0].get("choices"))
    if choices:
        answers = [mapping(choices[0].get("message"))]
    # Some keep the message without its role.
    told = [
        one if "role" in one or "type" in one else {**one, "role": "assistant"} for one in answers
    ]
    talk.hear(pairing, talk.messages(given), told, began)


def _usage(seen: Seen) -> Any:
    model = _of(seen, "providedModelName") or seen.get("model")
    told = (_of(seen, "usageDetails"), seen.get("usage"), seen)
    return next((found for one in told if (found := usage(plain(one), model))), None)


def _cost(seen: Seen) -> Decimal | None:
    details = mapping(plain(_of(seen, "costDetails")))
    total = _of(seen, "calculatedTotalCost")
    return amount(details.get("total") if total is None else total)
