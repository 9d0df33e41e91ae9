"""One tool call on its way through the guard: asked before its body, observed after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from agents.tool_context import ToolContext

from lastcall import Call, Guard, Outcome, Stop, Stopped, Ticket, ToolPolicy, Verdict, Where
from lastcall.idempotency import remembered
from lastcall_openai_agents import realtime
from lastcall_openai_agents.around import at, inside
from lastcall_openai_agents.ask import asked_about
from lastcall_openai_agents.frames import Frame, Key, key_of

PLAIN = ToolPolicy()
"""A tool of which nothing was said; one object, since the guard keeps what it works out by it."""

Passing = tuple[Frame, str, Key]

NEARLY = 0.9
"""The part of its time-out from which on a body that is cancelled has outstayed it: the SDK's clock began
a little before ours."""

PASSING: ContextVar[tuple[Passing, ...]] = ContextVar("lastcall_openai_agents_passing", default=())
"""The calls in whose bodies this is asked: a body may be wrapped for one guard more than once."""


def plainly(result: Any) -> tuple[Any, bool | None]:
    """What a result is read from, and whether the SDK says that it is a failure: nothing."""
    return result, None


def text_of(stop: Stop, result: Any) -> Any:  # noqa: ARG001 - others look at it
    """What the model reads instead of *result*, or of a call that was refused."""
    return stop.text


class Passage:
    """What the guard must know of one tool to decide about its calls."""

    def __init__(
        self,
        guard: Guard,
        declared: ToolPolicy = PLAIN,
        *,
        server: str | None = None,
        alias: str | None = None,
        into: str | None = None,
    ) -> None:
        self.guard = guard
        self.declared = declared
        self.server = server
        self.alias = alias
        """The name under which the tool's function is guarded by itself."""
        self.into = into
        """The name of the agent that the tool is."""
        self.asks = False
        """Whether a person is asked about its refusals, and about nothing else of it."""
        self.replays = False
        """Whether what its body returns is a plain value, by which a write may be answered again."""

    async def ask(
        self,
        ctx: ToolContext[Any],
        frame: Frame,
        *,
        args: dict[str, Any] | None = None,
        exists: bool = True,
        wait: bool = False,
    ) -> Stop | None:
        """Decide about the call of *ctx*; its ticket is kept in *frame* until the body begins. A call
        whose ticket is there already (a check before an approval and one after) is not asked again, and one
        that has to wait for an equal write only when its body is to begin (*wait*)."""
        if frame.keeps(self.guard, ctx):
            return None
        # What is known of a run that another process let wait comes first: it tells which reply this is.
        await frame.run.ause(self.guard)
        call = self.call(ctx, frame, args, exists=exists)
        with inside(frame):
            if self.replays and not wait and self.guard.flying(call, self.declared):
                frame.postpone(self.guard, ctx)
                return None
            verdict = await self.decide(call, ctx, frame, wait=wait)
        if verdict.replay is not None:
            if self.replays:
                frame.keep_result(self.guard, ctx, verdict.replay)
                return None
            verdict = self.guard.unreplayed(verdict)
        if verdict.ticket is not None:
            frame.keep(self.guard, ctx, verdict.ticket)
        return told(verdict)

    async def decide(
        self, call: Call, ctx: ToolContext[Any], frame: Frame, *, wait: bool
    ) -> Verdict:
        """The verdict on *call*, about which a person may have been asked before."""
        foreseen = frame.foreseen.pop((self.guard, ctx.tool_call_id), None)
        if foreseen is not None and (foreseen.ticket is not None or not asked_about(foreseen)):
            return foreseen
        verdict = await self.guard.adecide(call, self.declared, wait=wait)
        approved = foreseen is not None or (
            frame.elsewhere and self.asks and ctx.is_tool_approved(ctx.tool_name, ctx.tool_call_id)
        )
        if verdict.ticket is None and approved and asked_about(verdict):
            stands = await self.guard.person.apardon(verdict, asked=0)
            verdict = stands or await self.guard.adecide(call, self.declared, wait=wait)
        return verdict

    def call(
        self, ctx: ToolContext[Any], frame: Frame, args: dict[str, Any] | None, *, exists: bool
    ) -> Call:
        """The call of *ctx* as the guard sees it."""
        found = arguments(ctx.tool_arguments) if args is None else args
        agent = ctx.agent or frame.agent
        index, size = self.position(ctx, frame)
        return Call(
            ctx.tool_name,
            ctx.tool_arguments if found is None else found,
            Where(agent=agent.name if agent else None),
            ctx.tool_call_id or None,
            "tool" if exists and found is not None else "malformed",
            realtime.reply(ctx) or frame.reply(ctx),
            index,
            size,
            self.server or ctx.tool_namespace,
            into=self.into,
        )

    def position(self, ctx: ToolContext[Any], frame: Frame) -> tuple[int, int | None]:
        """Where the call of *ctx* stands in its reply, and how many calls that has."""
        return frame.place(ctx.tool_call_id), frame.size

    async def run(
        self,
        ctx: ToolContext[Any],
        body: Callable[[], Awaitable[Any]],
        *,
        args: dict[str, Any] | None = None,
        patience: float | None = None,
        paused: Callable[[], bool] = lambda: False,
        raises: Callable[[], bool] = lambda: False,
        shown: Callable[[Any], tuple[Any, bool | None]] = plainly,
        answer: Callable[[Stop, Any], Any] = text_of,
    ) -> Any:
        """The result of *body*, or the *answer* that is made of the stop that keeps it from running or
        that its result is. *patience* is the time-out under which it runs; *raises* tells whether its
        failures are meant for the caller of the run; *shown* what a result is read from."""
        began = asyncio.get_running_loop().time()
        frame = at(ctx)
        passing = (frame, ctx.tool_name, key_of(self.guard, ctx))
        if passing in PASSING.get():
            return await body()
        before = frame.result_of(self.guard, ctx)
        if before is not None:
            return before.result
        ticket = frame.take(self.guard, ctx)
        if ticket is not None:
            # It may have been granted before a person was asked.
            stop = await self.guard.akilled(ticket)
            if stop is not None:
                return answer(stop, None)
        if ticket is None:
            stop = await self.ask(ctx, frame, args=args, wait=True)
            if stop is not None:
                return answer(stop, None)
            before = frame.result_of(self.guard, ctx)
            if before is not None:
                return before.result
            ticket = frame.take(self.guard, ctx)
            if ticket is None:
                return await body()
        try:
            result = await self.within(ticket, passing, body)
        except asyncio.CancelledError as error:
            late = asyncio.get_running_loop().time() - began
            over = patience is not None and late >= NEARLY * patience
            outcome = timed_out(ticket, late) if over else self.guard.raised(ticket, error)
            # Not awaited: what is being cancelled may not get to run again.
            self.settled(self.guard.observe(ticket, outcome), frame)
            raise
        except Stopped as stopped:
            # A guarded function, or a nested run, says itself what the model should read.
            stop = await self.settle(ticket, frame, self.guard.raised(ticket, stopped))
            return answer(stop or stopped.stop, None)
        except BaseException as error:
            stop = await self.settle(ticket, frame, self.guard.raised(ticket, error))
            if stop is None or raises() or not isinstance(error, Exception):
                raise
            return answer(stop, None)
        if paused():
            # The call goes on with the run that waits inside it, and is settled then.
            frame.keep(self.guard, ctx, ticket, begun=True)
            return result
        value, failed = shown(result)
        outcome = self.guard.returned(ticket, value, failed=failed)
        if self.replays:
            outcome = remembered(ticket, outcome, result)
        stop = await self.settle(ticket, frame, outcome)
        return result if stop is None else answer(stop, result)

    async def within(
        self, ticket: Ticket, passing: Passing, body: Callable[[], Awaitable[Any]]
    ) -> Any:
        """The result of *body*, in which guarded functions of the same name know they are guarded."""
        guard, frame = self.guard, passing[0]
        with inside(frame):
            mark = PASSING.set((*PASSING.get(), passing))
            token = guard.bodies.enter(ticket.call.name, "sdk", None, ticket)
            alias = (
                None if self.alias is None else guard.bodies.enter(self.alias, "sdk", None, ticket)
            )
            try:
                return await body()
            finally:
                if alias is not None:
                    guard.bodies.leave(alias)
                guard.bodies.leave(token)
                PASSING.reset(mark)

    async def settle(self, ticket: Ticket, frame: Frame, outcome: Outcome) -> Stop | None:
        """Observe *outcome*, and give the stop that it is, if it is one."""
        return self.settled(await self.guard.aobserve(ticket, outcome), frame)

    def settled(self, verdict: Verdict, frame: Frame) -> Stop | None:
        """What is left to do once a call was observed. A run that is over waits for no store."""
        if not frame.run.open:
            frame.run.finish()
        return told(verdict)


def told(verdict: Verdict) -> Stop | None:
    """The stop of *verdict* that the model should read."""
    return verdict.ending or verdict.stop


def arguments(text: str) -> dict[str, Any] | None:
    """The arguments in *text*; None when nobody can read them."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def timed_out(ticket: Ticket, after: float) -> Outcome:
    """The SDK cancels a body that outstays its time-out, and tells the model that it failed. Of a write nobody
    knows then whether it was carried out."""
    error = f"timed out after {after:.3g} seconds"
    return Outcome("error", "timed out", error=error, transport=ticket.call.policy.writes)
