"""Runs, as the guard counts them: one root `Runner.run` with everything nested in it."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from agents import Agent, ModelResponse, RunContextWrapper
from agents.tool_context import ToolContext
from msgspec.structs import replace

from lastcall import Call, FirstResult, Guard, MemoryStore, Outcome, Stop, Ticket, Verdict, Where
from lastcall_openai_agents import _sdk

Key = tuple[Guard, str, str]
"""A call that a guard has let pass: its id may be missing or repeated, so its arguments belong to it."""

MARK = "_lastcall_guards"
"""Where a guarded copy of an agent keeps its guards."""

EVERYWHERE: list[Guard] = []
"""The guards that every run of the process passes, see `instrument`."""

PAUSES = 256
"""Runs that wait for a person, of which the counts are kept in this process."""


class Run:
    """One root run. *guards* are those that were asked in it; they forget it when it is over."""

    def __init__(self) -> None:
        catch_up()
        self.id = f"oa-{uuid4().hex}"
        self.open = True
        self.guards: list[Guard] = list(EVERYWHERE)
        self.frames = itertools.count()
        self.waiting: list[Frame] = []
        """The frame that goes on with a pause of another process."""
        # A thread that the SDK could not cancel may still settle a call after the end.
        self._over: list[str] = []
        when_gone(self, partial(swept, self._over, self.guards))

        self._asked: set[Guard] = set()
        """Guards that said whether they know a run that waits there."""
        self.foreign: tuple[str, str] | None = None
        """What names the pause that it goes on from, where another process paused it."""
        self.kept: tuple[str, str] | None = None
        """What names its own pause, where its guards keep that."""

    # The twins differ in `await` alone.

    def use(self, guard: Guard) -> None:
        """*guard* was asked about a call of this run."""
        if self._unheard(guard):
            self._heard(guard, guard.paused(*self.foreign) if self.foreign else None)

    async def ause(self, guard: Guard) -> None:
        """`use` for an event loop."""
        if self._unheard(guard):
            self._heard(guard, await guard.apaused(*self.foreign) if self.foreign else None)

    def keep(self, thread: str, pending: str, note: str) -> None:
        """Let every guard keep that it waits, for a resume in another process."""
        self.goes_on()
        self.kept = (thread, pending)
        for guard in tuple(self.guards):
            guard.pause(self.id, thread, pending, note)

    async def akeep(self, thread: str, pending: str, note: str) -> None:
        """`keep` for an event loop."""
        await self.agoes_on()
        self.kept = (thread, pending)
        for guard in tuple(self.guards):
            await guard.apause(self.id, thread, pending, note)

    def goes_on(self) -> None:
        """It waits no more."""
        kept, self.kept = self.kept, None
        if kept is not None:
            for guard in tuple(self.guards):
                guard.resumed(*kept)

    async def agoes_on(self) -> None:
        """`goes_on` for an event loop."""
        kept, self.kept = self.kept, None
        if kept is not None:
            for guard in tuple(self.guards):
                await guard.aresumed(*kept)

    def finish(self) -> None:
        """The root run is over."""
        self._ends()
        self.goes_on()
        self._ended()

    async def afinish(self) -> None:
        """`finish` for an event loop."""
        self._ends()
        await self.agoes_on()
        self._ended()

    def _unheard(self, guard: Guard) -> bool:
        """Whether *guard* has no part in this run yet, or was not asked what it knows of it."""
        new = not any(guard is known for known in self.guards)
        return new or (self.foreign is not None and guard not in self._asked)

    def _heard(self, guard: Guard, pause: Any) -> None:
        """*guard* has a part in this run, which goes on with the one that it knew to wait."""
        if pause is not None and pause.unread:
            # The store was out of reach: whoever asks next may hear more.
            pause = None
        else:
            self._asked.add(guard)
        # Another call of the same reply may have come first.
        if pause is not None and self.foreign is not None:
            self.id, self.kept, self.foreign = pause.run, self.foreign, None
            for frame in tuple(self.waiting):
                frame.replies = int(pause.note or 0)
                frame.elsewhere = True
        if not any(guard is known for known in self.guards):
            self.guards.append(guard)

    def _ends(self) -> None:
        self.open = False
        self._over.append(self.id)

    def _ended(self) -> None:
        # It does not wait for the store within an event loop.
        for guard in tuple(self.guards):
            guard.finish(self.id)


class Heard(NamedTuple):
    """A call that the model asked for, as it is told before anybody runs it."""

    id: str
    tool: str
    text: str = ""


class Told:
    """The stop by which a run ended, for its result to keep."""

    stop: Stop | None = None


class Frame:
    """One `Runner.run`, root or nested: whose turn it is, what its model asked for last, and the
    tickets of calls whose body has not begun."""

    def __init__(self, run: Run, outer: Frame | None = None, context: Any = None) -> None:
        self.run = run
        self.root = outer is None
        self.number = next(run.frames)
        self.agent: Agent[Any] | None = None
        self.path: tuple[str, ...] = ()
        self.thread: str | None = outer.thread if outer else None
        self.user: str | None = named(context, "user_id") or (outer.user if outer else None)
        self.tenant: str | None = named(context, "tenant_id") or (outer.tenant if outer else None)
        self.replies = 0
        self.answered = 0
        """Replies of which all calls are over, as far as an ending was asked about them."""
        self.size: int | None = None
        self.asking = False
        """Whether a request to the model is on its way."""
        self.last: Stop | None = None
        """The stop for which the model is asked for a last answer."""
        self.on_last: Callable[[], None] | None = None
        """What is done once it is clear that it will be asked for one."""
        self.response: ModelResponse | None = None
        """The last reply of the model."""
        self.sent: tuple[RunContextWrapper[Any], Agent[Any], list[Any]] | None = None
        """What it is asked with then: the whole history, where the provider keeps none."""
        self.told = Told()
        self.foreseen: dict[tuple[Guard, str], Verdict] = {}
        """What guards say of calls that may wait for a person first, by the id of the call."""
        self.elsewhere = False
        """Whether another process paused it: what was foreseen there is not known here."""
        self.hooked: tuple[Guard, ...] = ()
        """The guards of its hooks."""
        self.asked: set[Guard] = set()
        """Guards that were asked, since the last reply, whether the model may be."""
        self._calls: tuple[Heard, ...] = ()
        self._places: dict[str, int] = {}
        self._tickets: dict[Key, Ticket] = {}
        self._begun: set[Key] = set()
        """Of those, the calls whose body waits for a person, and goes on."""
        self._again: set[Key] = set()
        """Calls that have no leave yet, about which a guard is asked when their body begins."""
        self._results: dict[Key, FirstResult] = {}
        self._requests: list[tuple[Guard, Ticket]] = []
        """Leave for the request to the model that comes next, or is on its way."""

    def asks_once_more(self, stop: Stop) -> None:
        """The model is asked for a last answer, because of *stop*."""
        self.last = self.told.stop = stop
        if self.on_last is not None:
            self.on_last()

    def grant(self, guard: Guard, ticket: Ticket) -> None:
        """*guard* gave leave for the next request to the model."""
        self._requests.append((guard, ticket))

    def answered_by(self, outcome: Outcome) -> None:
        """The request on its way came to *outcome*."""
        while self._requests:
            guard, ticket = self._requests.pop()
            guard.observe(ticket, outcome)

    async def aanswered_by(self, outcome: Outcome) -> None:
        """`answered_by` for an event loop."""
        while self._requests:
            guard, ticket = self._requests.pop()
            await guard.aobserve(ticket, outcome)

    def heard(self, calls: Iterable[Heard]) -> None:
        """The model asked for *calls*."""
        self.replies += 1
        self._calls = tuple(calls)
        self._places = {call.id: index for index, call in enumerate(self._calls)}
        self.size = len(self._calls) or None
        self.asked.clear()

    def holds(self, call: str) -> bool:
        """Whether *call* is in the reply at hand."""
        return call in self._places

    def written(self, call: str) -> str:
        """What the model wrote as the arguments of *call*."""
        return self._calls[self._places[call]].text if call in self._places else ""

    def named(self, call: str) -> str | None:
        """The tool that the model asked for by *call*."""
        return self._calls[self._places[call]].tool if call in self._places else None

    def reply(self, ctx: ToolContext[Any]) -> str | None:
        """The name of the reply at hand. Where none was heard, the input tells it from others; a call
        that somebody makes by hand belongs to none."""
        if self.replies:
            return f"{self.number}.{self.replies}"
        if ctx.agent is None:
            return None
        told = f"{ctx.usage.requests}.{len(ctx.turn_input)}.{self.answered}"
        return f"{self.number}.{ctx.agent.name}.{told}"

    def meant(self, call: Call) -> Call:
        """*call*, of which only the tool is known, as what the model asked for: with the reply, and with
        the id where no other call of the reply can be meant."""
        if not self.replies:
            return call
        ids = [each.id for each in self._calls if each.tool == call.tool]
        return replace(
            call,
            reply=f"{self.number}.{self.replies}",
            id=call.id or (ids[0] if len(ids) == 1 else None),
            size=self.size if ids else None,
        )

    def place(self, call: str) -> int:
        """Where *call* stands in its reply."""
        return self._places.get(call, 0)

    def keep(
        self, guard: Guard, ctx: ToolContext[Any], ticket: Ticket, *, begun: bool = False
    ) -> None:
        """Keep *ticket* until the body of the call of *ctx* begins, or goes on where it has *begun*."""
        key = key_of(guard, ctx)
        self._tickets[key] = ticket
        if begun:
            self._begun.add(key)

    def postpone(self, guard: Guard, ctx: ToolContext[Any]) -> None:
        """Have *guard* asked about the call of *ctx* when its body begins."""
        self._again.add(key_of(guard, ctx))

    def keeps(self, guard: Guard, ctx: ToolContext[Any]) -> bool:
        """Whether the call of *ctx* has a ticket already, or what answers it."""
        key = key_of(guard, ctx)
        return key in self._tickets or key in self._results

    def take(self, guard: Guard, ctx: ToolContext[Any]) -> Ticket | None:
        """The ticket of the call of *ctx*, whose body begins."""
        key = key_of(guard, ctx)
        self._begun.discard(key)
        self._again.discard(key)
        return self._tickets.pop(key, None)

    def leave(self, call: str, arguments: str) -> Iterator[Guard]:
        """The guards that let *call* pass, or know its answer, where its body has not begun."""
        for guard, *key in (*self._tickets, *self._results, *self._again):
            if key == [call, arguments]:
                yield guard

    def keep_result(self, guard: Guard, ctx: ToolContext[Any], result: FirstResult) -> None:
        """Keep what the call of *ctx*, a write, brought before until its body would begin."""
        self._results[key_of(guard, ctx)] = result

    def result_of(self, guard: Guard, ctx: ToolContext[Any]) -> FirstResult | None:
        """That result."""
        return self._results.pop(key_of(guard, ctx), None)

    def settle(self) -> None:
        """Nothing more will come of the calls whose body has not begun, nor of requests."""
        self.answered_by(self._unanswered())
        self.drop()

    async def asettle(self) -> None:
        """`settle` for an event loop."""
        await self.aanswered_by(self._unanswered())
        await self.adrop()

    def drop(self) -> None:
        """Nothing more will come of the calls whose body has not begun."""
        for guard, ticket in self._unbegun():
            guard.observe(ticket, Outcome("cancelled", started=False))

    async def adrop(self) -> None:
        """`drop` for an event loop."""
        for guard, ticket in self._unbegun():
            await guard.aobserve(ticket, Outcome("cancelled", started=False))

    def _unanswered(self) -> Outcome:
        return Outcome("lost" if self.asking else "cancelled")

    def _unbegun(self) -> Iterator[tuple[Guard, Ticket]]:
        """Leave for calls whose body has not begun, which is kept no more."""
        for key, verdict in tuple(self.foreseen.items()):
            if verdict.ticket is not None and self.foreseen.pop(key, None) is not None:
                yield key[0], verdict.ticket
        while self._tickets:
            (guard, *_), ticket = self._tickets.popitem()
            yield guard, ticket

    def _unbegun_writes(self) -> Iterator[tuple[Guard, Ticket]]:
        """Leave for writes that wait for a person, kept no more: they are asked about again, perhaps in
        another process, and until then nothing of them is under way that others would wait for."""
        for key, ticket in tuple(self._tickets.items()):
            writes = ticket.call.policy.writes and key not in self._begun
            if writes and self._tickets.pop(key, None) is not None:
                self._again.add(key)
                yield key[0], ticket

    def where(self) -> Where:
        """The frame as the guard's scope."""
        return Where(
            run=self.run.id,
            turn=self.run.id,
            thread=self.thread,
            agent=self.agent.name if self.agent else None,
            user=self.user,
            tenant=self.tenant,
            path=self.path,
        )

    def close(self, pending: tuple[Any, ...] = ()) -> None:
        """This `Runner.run` is over, or waits for a person to decide on *pending* calls."""
        if pending:
            self.answered_by(Outcome("cancelled"))
            for guard, ticket in self._unbegun_writes():
                guard.observe(ticket, Outcome("paused", started=False))
            for forgotten in PAUSED.put(pending, self):
                forgotten.settle()
            if self.root:
                self.run.keep(*self._waits(pending))
            return
        self.settle()
        if self.root:
            self.run.finish()

    async def aclose(self, pending: tuple[Any, ...] = ()) -> None:
        """`close` for an event loop. What is called off in the middle of it may not get to wait again, so
        that closes the rest by itself."""
        try:
            await self._aclose(pending)
        except BaseException:
            self.close(pending)
            raise

    async def _aclose(self, pending: tuple[Any, ...]) -> None:
        if pending:
            await self.aanswered_by(Outcome("cancelled"))
            for guard, ticket in self._unbegun_writes():
                await guard.aobserve(ticket, Outcome("paused", started=False))
            for forgotten in PAUSED.put(pending, self):
                await forgotten.asettle()
            if self.root:
                await self.run.akeep(*self._waits(pending))
            return
        await self.asettle()
        if self.root:
            await self.run.afinish()

    def _waits(self, pending: tuple[Any, ...]) -> tuple[str, str, str]:
        """How its guards keep that it waits for *pending*."""
        return waiting_in(pending, self.thread), hash_of(pending), str(self.replies)


class Paused:
    """Frames that wait for a person, by what they wait for: a resume is a `Runner.run` of its own, also
    from JSON, and the turn goes on in it."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[tuple[Any, ...], Frame]] = deque()

    def put(self, pending: tuple[Any, ...], frame: Frame) -> list[Frame]:
        """*frame* waits for *pending*; gives the frames that this forgets, which are to be settled. Their
        counts stay where they are kept; a resume may come, or their time is over."""
        if not any(waits == pending and known is frame for waits, known in self._waiting):
            self._waiting.append((pending, frame))
        forgotten: list[Frame] = []
        while len(self._waiting) > PAUSES:
            forgotten.append(self._waiting.popleft()[1])
        return forgotten

    def waiting(self) -> tuple[tuple[tuple[Any, ...], Frame], ...]:
        """Every frame that waits, the newest last."""
        return tuple(self._waiting)

    def find(self, pending: tuple[Any, ...]) -> Frame | None:
        """The newest frame that waits for *pending*, which goes on waiting."""
        found = (frame for waits, frame in reversed(tuple(self._waiting)) if waits == pending)
        return next(found, None)

    def take(self, pending: tuple[Any, ...]) -> Frame | None:
        """The newest frame that waits for *pending*; each is given once, so that none is shared."""
        for waiting in reversed(tuple(self._waiting)):
            if waiting[0] == pending:
                with suppress(ValueError):
                    self._waiting.remove(waiting)
                return waiting[1] if waiting[1].run.open else None
        return None


PAUSED = Paused()
FRAME: ContextVar[Frame | None] = ContextVar("lastcall_openai_agents_frame", default=None)
SWAPS: ContextVar[Mapping[int, Agent[Any]]] = ContextVar("lastcall_openai_agents_swaps", default={})  # noqa: B039 - never written to
"""The guarded copies to run in place of the agents of agent tools, by the id of the agent."""
_ANCHORED: dict[int, Frame] = {}


_OVER: deque[Callable[[], None]] = deque()


def when_gone(anchor: object, work: Callable[[], None]) -> None:
    """Have *work* done soon after *anchor* is gone. Not at once: the collector may strike while a store
    is at work in the same thread."""

    def note() -> None:
        _OVER.append(work)
        with suppress(RuntimeError):
            asyncio.get_running_loop().call_soon(catch_up)

    weakref.finalize(anchor, note).atexit = False


def catch_up() -> None:
    """Do what is left to do for runs that are gone. Nobody can await it, so what a run under another runner
    left open waits for the store, in an event loop too."""
    with suppress(IndexError):
        while True:
            _OVER.popleft()()


def waiting_in(pending: tuple[Any, ...], thread: str | None) -> str:
    """The thread that a pause is kept with: that of the session, or one of its own."""
    return f"pause-{hash_of(pending)}" if thread is None else thread


def hash_of(pending: tuple[Any, ...]) -> str:
    """Names the calls that a person has to decide on, in any process."""
    return sha256(repr(pending).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def here() -> Frame | None:
    """The innermost `Runner.run` around us that is still going on."""
    frame = FRAME.get()
    return frame if frame is not None and frame.run.open else None


def around() -> Frame | None:
    """The same, also where another runner than ours is in use."""
    catch_up()
    frame = here()
    if frame is not None:
        return frame
    owner = _sdk.enclosing_run()
    return None if owner is None else anchored(owner)


def at(ctx: RunContextWrapper[Any]) -> Frame:
    """The `Runner.run` that *ctx* belongs to. Its usage object is shared by all of a root run."""
    return here() or anchored(ctx.usage, ctx.context)


@contextmanager
def inside(frame: Frame) -> Iterator[Frame]:
    """Let what is asked in the block be asked in *frame*."""
    token = FRAME.set(frame)
    try:
        yield frame
    finally:
        FRAME.reset(token)


def anchored(anchor: object, context: Any = None) -> Frame:
    """The frame of a run of which only *anchor* is known, an object that lives as long as it."""
    frame = _ANCHORED.get(id(anchor))
    if frame is None:
        made = Frame(Run(), context=context)
        # Two threads of one run may come at once; the first frame is that of both.
        frame = _ANCHORED.setdefault(id(anchor), made)
        if frame is made:
            when_gone(anchor, partial(loosened, id(anchor)))
    return frame


def loosened(anchor: int) -> None:
    """The anchor of a frame is gone, so its run is over."""
    frame = _ANCHORED.pop(anchor, None)
    if frame is not None:
        frame.close()


async def aloosened(anchor: int) -> None:
    """`loosened` for an event loop."""
    frame = _ANCHORED.pop(anchor, None)
    if frame is not None:
        await frame.aclose()


def swept(over: list[str], guards: list[Guard]) -> None:
    """Forget what came in after a run was over; one that waits may go on in another process."""
    for run, guard in product(over, guards):
        if isinstance(guard.store, MemoryStore) and guard.store.peek(("run", run), guard.clock()):
            guard.finish(run)


def passed_by(ctx: RunContextWrapper[Any], call: str, arguments: str) -> list[Guard]:
    """The guards that *call* meets where the SDK executes it: those of the moment, those of the run's hooks,
    and those that have let it pass and wait for what comes of it."""
    frame = here() or _ANCHORED.get(id(ctx.usage))
    if frame is None:
        return list(EVERYWHERE)
    return list(dict.fromkeys([*EVERYWHERE, *frame.hooked, *frame.leave(call, arguments)]))


def key_of(guard: Guard, ctx: ToolContext[Any]) -> Key:
    """How *guard* tells the call of *ctx* from the others of its reply."""
    return guard, ctx.tool_call_id, ctx.tool_arguments


def named(context: Any, name: str) -> str | None:
    """A field of the user's own context object or mapping."""
    if isinstance(context, RunContextWrapper):
        context = context.context
    found = context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
    return str(found) if isinstance(found, str | int | UUID) and found != "" else None


def marks(guarded: object) -> tuple[Guard, ...]:
    """The guards of an agent or a hand-over."""
    found: tuple[Guard, ...] = vars(guarded).get(MARK, ())
    return found
