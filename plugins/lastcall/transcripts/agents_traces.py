"""Traces of the OpenAI Agents SDK: what `export()` gives of its traces and spans, one a line, listed, or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.call import Usage
from lastcall.transcripts import talk
from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import literal, mapping, objects, seconds, text, untold, words
from lastcall.transcripts.gathering import gathered
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

TRACE = "trace"
SPAN = "trace.span"

TOOL = "function"
MODELS = frozenset({"generation", "response"})
AGENT = "agent"
TURN = "turn"
"""The SDK's own word for a request to the model and what came of it."""

DEEP = 100
"""In how many spans one lies at most; they may lie in each other."""

Span = dict[str, Any]


class AgentsTraces:
    """Spans of type `function` are calls; where a trace has none, the calls are those that its models asked for."""

    name = "openai-agents-traces"
    specificity = 50
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Objects that say they are traces or spans, or batches of them."""
        return any(next(_traced(record), None) for record in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trace."""
        file, names = str(document.path), Names(document)
        for found in gathered(document, _traced, "no traces and no spans"):
            if isinstance(found, Unreadable):
                yield found
                continue
            trace, spans = found
            lacks: frozenset[Aspect] = frozenset({"arguments"}) if _hidden(spans) else frozenset()
            heard = _Trace(spans)
            calls, replies = heard.pairing.calls(), heard.pairing.replies()
            yield Transcript(file, names.name(trace), self.name, calls, replies, lacks)


def _traced(record: Any) -> Iterator[tuple[str, Span]]:
    """What a record is, or holds as a batch, each with the id of its trace."""
    inside = mapping(record)
    for one in [inside] if "object" in inside else objects(inside.get("data")):
        if one.get("object") == SPAN and isinstance(one.get("span_data"), dict):
            yield text(one.get("trace_id")) or "", one
        elif one.get("object") == TRACE and "workflow_name" in one:
            yield text(one.get("id")) or "", {}


def _kind(span: Span) -> str | None:
    """Its type. What the SDK had no type for at first is custom, with a name."""
    about = mapping(span.get("span_data"))
    kind = text(about.get("type"))
    return text(about.get("name")) if kind == "custom" else kind


def _hidden(spans: list[Span]) -> bool:
    """Whether what went into the tools was left out: `trace_include_sensitive_data=False`."""
    tools = [mapping(span["span_data"]) for span in spans if _kind(span) == TOOL]
    return bool(tools) and all(about.get("input") is None for about in tools)


class _Trace:
    """The spans of one trace, heard in the order they began."""

    def __init__(self, spans: list[Span]) -> None:
        self.pairing = Pairing()
        self._placed = {id_: span for span in spans if (id_ := text(span.get("id")))}
        kinds = {_kind(span) for span in self._placed.values()}
        tools = TOOL in kinds
        asking = MODELS if kinds & MODELS else {TURN}
        spoken = False
        for span in sorted(self._placed.values(), key=lambda one: _began(one) or 0.0):
            kind = _kind(span)
            if kind in asking:
                spoken = True
                self._ask(span, hears=not tools and kind == "generation")
            elif kind == TOOL:
                if not spoken:
                    self.pairing.reply()
                self._call(span)

    def _ask(self, span: Span, *, hears: bool) -> None:
        about = mapping(span["span_data"])
        if hears:
            given, made = talk.messages(about.get("input")), talk.messages(about.get("output"))
            talk.hear(self.pairing, given, made, _began(span))
        else:
            self.pairing.reply()
        self.pairing.spent(self._used(span, about), ts=_began(span))

    def _used(self, span: Span, about: dict[str, Any]) -> Usage | None:
        if _kind(span) != TURN:
            return usage(about.get("usage"), about.get("model"))
        # A turn counts what the agents used that it called as tools.
        if any(_kind(one) == TURN for one in self._around(span)):
            return None
        return usage(mapping(about.get("data")).get("usage"))

    def _call(self, span: Span) -> None:
        about, id_ = mapping(span["span_data"]), text(span.get("id"))
        given, server = about.get("input"), text(mapping(about.get("mcp_data")).get("server"))
        tool = text(about.get("name"))
        self.pairing.call(
            tool if server is None or tool is None else f"{server}/{tool}",
            untold(len(self.pairing)) if given is None else given,
            id=id_,
            ts=_began(span),
            agent=next((_named(one) for one in self._around(span) if _kind(one) == AGENT), None),
        )
        if span.get("ended_at") is None:
            return
        error = mapping(span.get("error"))
        # Of a server's tool it is not told whether its answer was an error.
        failed = True if error else None if server is not None else False
        self.pairing.answer(_made(about) or _said(error), id=id_, failed=failed)

    def _around(self, span: Span) -> Iterator[Span]:
        """The spans that it lies in, from the inside."""
        for _ in range(DEEP):
            above = self._placed.get(text(span.get("parent_id")) or "")
            if above is None:
                return
            yield above
            span = above


def _began(span: Span) -> float | None:
    return seconds(span.get("started_at"))


def _named(span: Span) -> str | None:
    return text(mapping(span["span_data"]).get("name"))


def _made(about: dict[str, Any]) -> Any:
    """What a tool answered: the SDK prints what is no text, such as the blocks of a server's answer."""
    output = about.get("output")
    if not mapping(about.get("mcp_data")) or not isinstance(output, str):
        return output
    blocks = literal(output)
    said = words(blocks if isinstance(blocks, list) else [blocks])
    return said if isinstance(said, str) else output


def _said(error: dict[str, Any]) -> str | None:
    return text(mapping(error.get("data")).get("error")) or text(error.get("message"))
