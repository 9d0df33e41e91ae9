"""LangSmith run exports: a run of a tool, a model or a chain each, flat or nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts import talk
from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import mapping, objects, plain, printed, seconds, text, untold
from lastcall.transcripts.gathering import gathered
from lastcall.transcripts.langchain_messages import opened, unwrapped
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable
from lastcall.transcripts.usage import amount, usage

KEYS = ("runs", "data")
"""Where a whole answer of the API keeps its runs."""

Run = dict[str, Any]


class LangSmithRuns:
    """Runs of one trace in the order in which they began; a run of a model starts a reply. Where a trace has
    no runs of tools, the calls are those that its models asked for."""

    name = "langsmith-runs"
    specificity = 50
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Objects with a `run_type` and the place of a run in its trace."""
        return any(_is_run(run) for record in glance(document) for run in _outer(record))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trace."""
        file, names = str(document.path), Names(document)
        for found in gathered(document, _traced, "no run of LangSmith"):
            if isinstance(found, Unreadable):
                yield found
                continue
            trace, runs = found
            pairing = _heard(runs)
            yield Transcript(
                file,
                names.name(trace or None),
                self.name,
                pairing.calls(),
                pairing.replies(),
                frozenset({"arguments"}) if _hidden(runs) else frozenset(),
            )


def _is_run(record: Run) -> bool:
    return "run_type" in record and any(
        key in record for key in ("trace_id", "dotted_order", "parent_run_id", "child_runs")
    )


def _outer(record: Any) -> list[Run]:
    """The runs that a record is or holds."""
    fields = mapping(record)
    if _is_run(fields):
        return [fields]
    return [run for key in KEYS for run in objects(fields.get(key)) if _is_run(run)]


def _traced(record: Any) -> Iterator[tuple[str, Run]]:
    """All runs in a record, each with its trace: what matters of them, so that a trace of any size
    may wait for its end."""
    for outer in _outer(record):
        trace = text(outer.get("trace_id")) or _first(outer.get("dotted_order"))
        trace = trace or text(outer.get("id")) or ""
        waiting = [outer]
        while waiting:
            run = waiting.pop()
            if run.get("run_type") in ("tool", "llm"):
                yield trace, _kept(run)
            else:
                yield trace, {}
            waiting += reversed(objects(run.get("child_runs")))


def _kept(run: Run) -> Run:
    kept = {k: v for k, v in run.items() if k not in ("child_runs", "serialized", "events")}
    # Bulk exports are tables, in which these are text.
    return kept | {k: plain(kept[k]) for k in ("inputs", "outputs", "extra") if k in kept}


def _first(order: Any) -> str | None:
    """The id of the trace, with which a dotted order begins: `<time>Z<id>.<time>Z<id>`."""
    return order.partition(".")[0].partition("Z")[2] or None if isinstance(order, str) else None


def _hidden(runs: list[Run]) -> bool:
    """Whether what went in was left out of all runs, and not of tools without parameters alone: the client can
    be told to."""
    return any(run.get("run_type") == "tool" for run in runs) and not any(
        run.get("inputs") for run in runs
    )


def _heard(runs: list[Run]) -> Pairing:
    pairing, spoken = Pairing(), False
    asked: dict[str, Any] = {}
    tools, hidden = any(run.get("run_type") == "tool" for run in runs), _hidden(runs)
    for run in sorted(filter(None, runs), key=_order):
        began = seconds(run.get("start_time"))
        if run.get("run_type") == "llm":
            spoken = True
            if tools:
                pairing.reply()
            else:
                talk.hear(pairing, _asked(run), _answers(run), began)
            message = _said(run)
            asked.update(
                (id_, call.get("args"))
                for call in objects(message.get("tool_calls"))
                if (id_ := text(call.get("id")))
            )
            pairing.spent(_usage(run, message), cost=amount(run.get("total_cost")), ts=began)
            continue
        if not spoken:
            pairing.reply()
        _call(pairing, run, asked, began, hidden=hidden)
    return pairing


def _order(run: Run) -> tuple[float, str]:
    # The parts of a dotted order are as wide as each other, so that text sorts as time does; but a tool
    # inside a tool follows it, and other exports have the time alone.
    return seconds(run.get("start_time")) or 0.0, str(run.get("dotted_order") or "")


def _asked(run: Run) -> list[dict[str, Any]]:
    """The messages that a model was handed."""
    inputs = mapping(run.get("inputs"))
    return talk.messages(inputs.get("messages")) or talk.messages(inputs.get("input"))


def _answers(run: Run) -> list[dict[str, Any]]:
    """The message with which a model answered, or the items of its response."""
    outputs = mapping(run.get("outputs"))
    items = objects(outputs.get("output"))
    if items:
        return items
    message = _said(run) or (outputs if outputs.get("role") == "assistant" else {})
    return [message if "type" in message else {**message, "role": "assistant"}]


def _said(run: Run) -> dict[str, Any]:
    """The message with which a model answered."""
    outputs = mapping(run.get("outputs"))
    first: Any = outputs.get("generations")
    while isinstance(first, list) and first:
        first = first[0]
    for message in (mapping(first).get("message"), outputs.get("output"), outputs.get("message")):
        if isinstance(message, dict):
            return opened(message)[1]
    choices = objects(outputs.get("choices"))
    return mapping(choices[0].get("message")) if choices else {}


def _usage(run: Run, message: dict[str, Any]) -> Any:
    outputs, extra = mapping(run.get("outputs")), mapping(run.get("extra"))
    about = mapping(extra.get("metadata"))
    told = (
        message.get("usage_metadata"),
        about.get("usage_metadata"),
        outputs.get("usage_metadata"),
        mapping(outputs.get("llm_output")).get("token_usage"),
        outputs.get("usage"),
        run,
    )
    model = about.get("ls_model_name") or mapping(extra.get("invocation_params")).get("model")
    return next((found for one in told if (found := usage(one, model))), None)


def _call(
    pairing: Pairing, run: Run, asked: dict[str, Any], began: float | None, *, hidden: bool
) -> None:
    outputs = mapping(run.get("outputs"))
    output = outputs.get("output", outputs or None)
    message = opened(output)[1] if isinstance(output, dict) else {}
    result, told = unwrapped(output)
    about = mapping(run.get("extra"))
    id_ = text(message.get("tool_call_id")) or text(about.get("tool_call_id"))
    error = run.get("error")
    failed = bool(error) or bool(told)
    # Ids of calls come again in later replies; that of the run is its own.
    own = text(run.get("id")) or id_
    pairing.call(
        run.get("name"),
        untold(len(pairing)) if hidden else _given(run.get("inputs"), asked.get(id_ or "")),
        id=own,
        ts=began,
        agent=mapping(about.get("metadata")).get("lc_agent_name"),
    )
    ended = run.get("end_time") is not None or result is not None or bool(error)
    if ended:
        pairing.answer(error if error and result is None else result, id=own, failed=failed)


def _given(inputs: Any, asked: Any) -> dict[str, Any]:
    """The arguments: as the model gave them, else as the tool was handed them."""
    if isinstance(asked, dict):
        return asked
    fields = mapping(inputs)
    if set(fields) != {"input"} or not isinstance(fields["input"], str):
        return fields
    # Older tracers keep the text that Python made of the arguments.
    return printed(fields["input"]) or fields
