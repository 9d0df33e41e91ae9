"""Takes one call past the guard: decide, let the body run, observe, hand over. Shared by every seam."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from lastcall import Call, Guard, Outcome, Stop, Stopped, Ticket, ToolPolicy, Verdict

from lastcall_langchain.stops import KEY, answer, refusal
from lastcall_langchain.tracker import TRACKER, Place, bubbles, pauses

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = ToolPolicy()
"""A tool of which nothing was said. One object, so that the guard knows it again."""

KNOWN_POLICIES = 1024
_POLICIES: dict[str, ToolPolicy] = {}

_HEARD: ContextVar[list[Any] | None] = ContextVar("lastcall_heard", default=None)
"""Where a tool's body leaves its raw result or exception, before LangChain makes text of it."""


class Passage:
    """One call at one seam, and the pure halves of taking it past the guard."""

    def __init__(
        self,
        guard: Guard,
        seam: str,
        call: Call,
        *,
        place: Place | None = None,
        declared: ToolPolicy = PLAIN,
    ) -> None:
        self.guard = guard
        self.seam = seam
        self.call = call
        self.place = place
        self.declared = declared

    @property
    def inside(self) -> bool:
        """Whether another seam has judged this call already."""
        return self.guard.inside(self.call.name, self.seam)

    @contextmanager
    def body(self) -> Iterator[list[Any]]:
        """Mark the body of the call, and listen to what it leaves."""
        heard: list[Any] = []
        listening = _HEARD.set(heard)
        mark = self.guard.enter(self.call.name, self.seam)
        try:
            yield heard
        finally:
            self.guard.leave(mark)
            _HEARD.reset(listening)

    def refused(self, verdict: Verdict) -> Any:
        """The refusal, for the model where it asked, else as an exception."""
        stop = verdict.ending or verdict.stop
        assert stop is not None, "a verdict without a ticket has a stop"
        drain(self.place, stop)
        return self.said(stop)

    def said(self, stop: Stop, cause: BaseException | None = None, value: Any = None) -> Any:
        """*stop* as the answer to the call, in place of *value* or *cause*."""
        if self.call.id is None:
            raise refusal(stop) from cause
        told = answer(stop, self.call.id, self.call.tool)
        # What else a tool gave beside its text is for programs, and stays.
        return (
            told
            if not isinstance(value, ToolMessage)
            else told.model_copy(
                update={"artifact": value.artifact, "id": value.id, "name": value.name}
            )
        )

    def returned(self, ticket: Ticket, value: Any, heard: list[Any]) -> Outcome:
        """The outcome of a body that returned *value*."""
        return read(self.guard, ticket, value, heard)

    def raised(self, ticket: Ticket, error: BaseException) -> Outcome:
        """The outcome of a body that raised *error*."""
        return failure(self.guard, ticket, error)

    def handed(self, verdict: Verdict, value: Any) -> Any:
        """The result as the model gets it: as it is, or the stop that it led to."""
        self.tidy()
        stop = verdict.ending or verdict.stop
        return value if stop is None else self.said(stop, value=value)

    def thrown(self, verdict: Verdict, error: BaseException) -> Any:
        """What becomes of an exception: a stop answers the call, anything else goes on unchanged."""
        self.tidy()
        stop = verdict.ending or verdict.stop
        if isinstance(error, Stopped) and self.call.id is not None:
            return self.said(error.stop, error)
        if stop is None or isinstance(error, Stopped):
            raise error
        return self.said(stop, error)

    def tidy(self) -> None:
        """Forget once more a run that ended while the body still ran."""
        if self.place is not None and self.place.root.over:
            self.guard.finish(self.place.root.run)


def passed(passage: Passage, body: Callable[[], Any]) -> Any:
    """Take a call past the guard. `apassed` differs in `await` alone."""
    if passage.inside:
        return body()
    verdict = passage.guard.decide(passage.call, passage.declared)
    ticket = verdict.ticket
    if ticket is None:
        return passage.refused(verdict)
    try:
        with passage.body() as heard:
            value = body()
    except BaseException as error:
        outcome = passage.raised(ticket, error)
        return passage.thrown(passage.guard.observe(ticket, outcome), error)
    outcome = passage.returned(ticket, value, heard)
    return passage.handed(passage.guard.observe(ticket, outcome), value)


async def apassed(passage: Passage, body: Callable[[], Awaitable[Any]]) -> Any:
    """`passed` for an event loop."""
    if passage.inside:
        return await body()
    verdict = await passage.guard.adecide(passage.call, passage.declared)
    ticket = verdict.ticket
    if ticket is None:
        return passage.refused(verdict)
    try:
        with passage.body() as heard:
            value = await body()
    except BaseException as error:
        outcome = passage.raised(ticket, error)
        return passage.thrown(await passage.guard.aobserve(ticket, outcome), error)
    outcome = passage.returned(ticket, value, heard)
    return passage.handed(await passage.guard.aobserve(ticket, outcome), value)


def hear(what: Any) -> None:
    """Tell whoever guards this call what its body returned or raised."""
    heard = _HEARD.get()
    if heard is not None:
        heard[:] = [what]


def read(guard: Guard, ticket: Ticket, value: Any, heard: list[Any]) -> Outcome:
    """The outcome of *value*, or better of the raw result or exception behind it."""
    failed = isinstance(value, ToolMessage) and value.status == "error"
    if heard and isinstance(heard[0], BaseException):
        # `handle_tool_error` made a text of it.
        return failure(guard, ticket, heard[0]) if failed else Outcome("ok", visible(value))
    if heard and not failed:
        raw = heard[0]
        if type(value).__name__ != "Command" and not isinstance(raw, ToolMessage):
            if isinstance(raw, tuple) and isinstance(value, ToolMessage) and len(raw) == 2:
                raw = value.content
            return guard.returned(ticket, raw)
    if isinstance(value, ToolMessage):
        return guard.returned(ticket, value.content, failed=failed or None)
    if type(value).__name__ == "Command" or isinstance(value, list):
        return Outcome("ok", visible(value))
    return guard.returned(ticket, value)


def failure(guard: Guard, ticket: Ticket, error: BaseException) -> Outcome:
    """The outcome of an exception. LangGraph's control flow and our own stops are no failures."""
    if pauses(error):
        return Outcome("paused")
    if bubbles(error):
        return Outcome("ok", visible(error.args[0] if error.args else None))
    if isinstance(error, Stopped):
        return Outcome("error", str(error), error=str(error))
    return guard.raised(ticket, error)


def visible(value: Any) -> Any:
    """The part of a result that the model sees, in which equal results are equal."""
    if isinstance(value, ToolMessage):
        return value.content
    if isinstance(value, list):
        return [visible(each) for each in value]
    if type(value).__name__ == "Command":
        update = value.update
        if isinstance(update, Mapping) and update.get("messages"):
            return [getattr(each, "content", None) for each in update["messages"]]
        return [str(value.goto), update]
    return value


def declared_in(metadata: Any, **said: Any) -> ToolPolicy:
    """What a tool's `metadata["lastcall"]` says of it, with *said* laid over that."""
    settings = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    if isinstance(settings, ToolPolicy):
        settings = settings.model_dump(include=settings.model_fields_set)
    if not isinstance(settings, Mapping):
        settings = {}
    if not settings and not said:
        return PLAIN
    key = repr((settings, said))
    policy = _POLICIES.get(key)
    if policy is None:
        if len(_POLICIES) >= KNOWN_POLICIES:
            _POLICIES.clear()
        policy = _POLICIES[key] = ToolPolicy(**{**settings, **said})
    return policy


def drain(place: Place | None, stop: Stop) -> None:
    """Ask the graph to end where nothing else will: its run is ended, and no model request of it was
    ever seen, so none can be refused."""
    if place is None or not stop.ends_run or place.root.requests:
        return
    try:
        from langgraph.runtime import get_runtime  # noqa: PLC0415 - langchain-core alone has none

        control = get_runtime().control
        if control is not None and hasattr(control, "request_drain"):
            place.root.stop = stop
            control.request_drain(f"lastcall: {stop.text}")
    except (ImportError, RuntimeError, KeyError, AttributeError):
        # Outside a graph, or an older LangGraph: its recursion limit remains.
        return


def located(guard: Guard, seam: str, config: Any, declared: ToolPolicy, call: Call) -> Passage:
    """The passage of *call*, placed by what *config* tells."""
    place = TRACKER.place(guard, config)
    return Passage(guard, seam, put(call, place), place=place, declared=declared)


def put(call: Call, place: Place | None) -> Call:
    """*call* where it is made."""
    if place is None:
        return call
    return Call(
        call.tool,
        call.args,
        place.where,
        call.id,
        call.kind,
        place.reply,
        call.index,
        call.size,
    )
