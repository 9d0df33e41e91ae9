"""One `Runner.run`, root or nested: what its model asked for, and what guards said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from agents import Agent, ModelResponse, RunContextWrapper
from agents.tool_context import ToolContext
from msgspec.structs import replace

from lastcall import Call, FirstResult, Guard, Outcome, Stop, Ticket, Verdict, Where
from lastcall_openai_agents.paused import PAUSED, hash_of, waiting_in
from lastcall_openai_agents.runs import Run

Key = tuple[Guard, str, str]
"""A call that a guard has let pass: its id may be missing or repeated, so its arguments belong to it."""


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


def key_of(guard: Guard, ctx: ToolContext[Any]) -> Key:
    """How *guard* tells the call of *ctx* from the others of its reply."""
    return guard, ctx.tool_call_id, ctx.tool_arguments


def named(context: Any, name: str) -> str | None:
    """A field of the user's own context object or mapping."""
    if isinstance(context, RunContextWrapper):
        context = context.context
    found = context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
    return str(found) if isinstance(found, str | int | UUID) and found != "" else None
