"""Takes one call past the guard: decide, let the body run, observe, hand over. Shared by every seam."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import ToolMessage

from lastcall import Call, FirstResult, Guard, Outcome, Stop, Stopped, Ticket, ToolPolicy, Verdict
from lastcall_langchain import outcomes
from lastcall_langchain.ask import aleave, leave
from lastcall_langchain.places import PLAIN, Place, aplace, place, run_of
from lastcall_langchain.roots import Root
from lastcall_langchain.shown import show
from lastcall_langchain.stops import KEY, answer, refusal

KNOWN_POLICIES = 1024
_POLICIES: dict[str, ToolPolicy] = {}


class Passage:
    """One call at one seam, and the pure halves of taking it past the guard. *config* tells where."""

    def __init__(
        self,
        guard: Guard,
        seam: str,
        call: Call,
        config: Mapping[str, Any] | None,
        declared: ToolPolicy = PLAIN,
        aliases: frozenset[str] = frozenset(),
    ) -> None:
        self.guard = guard
        self.seam = seam
        self.call = call
        self.declared = declared
        self.aliases = aliases
        self.place: Place | None = None
        run = run_of(config)
        self.at = None if run is None else run.id
        self._config = config
        self._found = False

    def find(self) -> None:
        """Find out where the call is made; a second time it does nothing."""
        if not self._found:
            self._put(place(self.guard, self._config))

    async def afind(self) -> None:
        """`find` for an event loop."""
        if not self._found:
            self._put(await aplace(self.guard, self._config))

    @property
    def inside(self) -> bool:
        """Whether another seam has judged this call already."""
        return self.guard.bodies.inside(self.call.name, self.seam, self.at)

    @contextmanager
    def body(self, ticket: Ticket) -> Iterator[list[Any]]:
        """Mark the body of the call, and listen to what it leaves."""
        heard: list[Any] = []
        listening = outcomes.HEARD.set(heard)
        names = {self.call.name, *self.aliases}
        marks = [self.guard.bodies.enter(name, self.seam, self.at, ticket) for name in names]
        try:
            yield heard
        finally:
            for mark in reversed(marks):
                self.guard.bodies.leave(mark)
            outcomes.HEARD.reset(listening)

    def refused(self, verdict: Verdict) -> Any:
        """The refusal, for the model where it asked, else as an exception."""
        stop = stop_in(verdict)
        if stop is None:
            raise RuntimeError("a verdict has either a ticket or a stop")
        drain(self.place, stop)
        return self.told(stop)

    def replayed(self, replay: FirstResult) -> Any:
        """What a write brought when it was made, as the answer to this call."""
        self.tidy()
        if self.call.id is None:
            return replay.result
        return outcomes.message(replay.result, self.call.id, self.call.tool)

    def returned(self, ticket: Ticket, value: Any, heard: list[Any]) -> Outcome:
        """The outcome of a body that returned *value*."""
        return outcomes.returned(self.guard, ticket, value, heard)

    def raised(self, ticket: Ticket, error: BaseException) -> Outcome:
        """The outcome of a body that raised *error*."""
        return outcomes.raised(self.guard, ticket, error)

    def handed(self, verdict: Verdict, value: Any) -> Any:
        """The result as the model gets it: as it is, or the stop that it led to."""
        self.tidy()
        stop = stop_in(verdict)
        return value if stop is None else self.told(stop, value=value)

    def thrown(self, verdict: Verdict, error: BaseException) -> Any:
        """What becomes of an exception: a stop answers the call, anything else goes on unchanged."""
        self.tidy()
        if isinstance(error, Stopped):
            if self.call.id is None:
                raise error
            return self.told(error.stop)
        stop = stop_in(verdict)
        if stop is None:
            raise error
        return self.told(stop, cause=error)

    def told(self, stop: Stop, *, value: Any = None, cause: BaseException | None = None) -> Any:
        """*stop* as the answer to the call, in place of *value* or of the exception *cause*."""
        show(stop)
        if self.call.id is None:
            raise refusal(stop) from cause
        message = answer(stop, self.call.id, self.call.tool)
        if isinstance(value, ToolMessage):
            # What a tool gave beside its text is for programs, and stays.
            message.artifact, message.id = value.artifact, value.id
        return message

    def tidy(self) -> None:
        """Forget once more a run that ended while the body still ran."""
        if self.place is not None and self.place.root.over:
            self.guard.finish(self.place.root.run)

    def _put(self, where: Place | None) -> None:
        self._found, self.place, self.call = True, where, put(self.call, where)


def passed(passage: Passage, body: Callable[[], Any]) -> Any:
    """Take a call past the guard."""
    passage.find()
    if passage.inside:
        return body()
    verdict = leave(passage.guard, passage.call, passage.declared, wait=True)
    ticket = verdict.ticket
    if verdict.replay is not None:
        return passage.replayed(verdict.replay)
    if ticket is None:
        return passage.refused(verdict)
    try:
        with passage.body(ticket) as heard:
            value = body()
    except BaseException as error:
        outcome = passage.raised(ticket, error)
        return passage.thrown(passage.guard.observe(ticket, outcome), error)
    outcome = passage.returned(ticket, value, heard)
    return passage.handed(passage.guard.observe(ticket, outcome), value)


async def apassed(passage: Passage, body: Callable[[], Awaitable[Any]]) -> Any:
    """`passed` for an event loop."""
    await passage.afind()
    if passage.inside:
        return await body()
    verdict = await aleave(passage.guard, passage.call, passage.declared, wait=True)
    ticket = verdict.ticket
    if verdict.replay is not None:
        return passage.replayed(verdict.replay)
    if ticket is None:
        return passage.refused(verdict)
    try:
        with passage.body(ticket) as heard:
            value = await body()
    except BaseException as error:
        outcome = passage.raised(ticket, error)
        return passage.thrown(await passage.guard.aobserve(ticket, outcome), error)
    outcome = passage.returned(ticket, value, heard)
    return passage.handed(await passage.guard.aobserve(ticket, outcome), value)


def stop_in(verdict: Verdict) -> Stop | None:
    """The stop to tell of: the widest where one ends the run, else the verdict's own."""
    return verdict.ending or verdict.stop


def put(call: Call, where: Place | None) -> Call:
    """*call* with the place it is made at."""
    if where is None:
        return call
    index, size = call.index, call.size
    if size is None and call.id in where.calls:
        index, size = where.calls.index(call.id), len(where.calls)
    return Call(call.tool, call.args, where.where, call.id, call.kind, where.reply, index, size)


def declared_in(metadata: Any, of: ToolPolicy = PLAIN, **said: Any) -> ToolPolicy:
    """What is said of a tool: *of* its function, over that its `metadata["lastcall"]`, over that *said*.
    Raises ValidationError for a field that there is not."""
    settings = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    laid = {**stated(of), **stated(settings), **said}
    if not laid:
        return PLAIN
    key = repr(laid)
    policy = _POLICIES.get(key)
    if policy is None:
        if len(_POLICIES) >= KNOWN_POLICIES:
            _POLICIES.clear()
        policy = _POLICIES[key] = ToolPolicy(**laid)
    return policy


def stated(settings: Any) -> dict[str, Any]:
    """The fields that a policy, or a mapping in its place, says something of."""
    if isinstance(settings, ToolPolicy):
        return settings.model_dump(include=settings.model_fields_set)
    return dict(settings) if isinstance(settings, Mapping) else {}


def drain(where: Place | None, stop: Stop) -> None:
    """Ask the graph to end where nothing else will: its run is ended, and no request to a model was
    ever seen in it, so none can be refused."""
    if where is not None:
        drain_root(where.root, stop)


def drain_root(root: Root, stop: Stop) -> None:
    """The same of a run whose root is known."""
    if not stop.ends_run or root.requests:
        return
    try:
        from langgraph.runtime import get_runtime  # noqa: PLC0415 - langchain-core alone has none

        control: Any = get_runtime().control
        request_drain = control.request_drain
    except (ImportError, RuntimeError, KeyError, AttributeError):
        # Outside a graph, or in an older LangGraph: the recursion limit remains.
        return
    root.stop = stop
    request_drain(f"lastcall: {stop.text}")
