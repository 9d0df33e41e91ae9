"""`guard.retrying(...)`: functions that are guarded and retried, each attempt with the guard's leave."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from msgspec.structs import replace
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, Retrying

from lastcall.call import Call, Outcome
from lastcall.idempotency import remembered
from lastcall.policy_file import PolicyError, explained
from lastcall.retrying.budgets import RetryBudget
from lastcall.retrying.outcomes import passing
from lastcall.retrying.waits import CAP, Draw, floored, wait_full_jitter
from lastcall.stop import Stop, Stopped
from lastcall.tool import ToolPolicy
from lastcall.verdict import Ticket, Verdict
from lastcall.wrapping import Arguments, Calling, body_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastcall.guard import Guard

P = ParamSpec("P")
R = TypeVar("R")

LAYERS: ContextVar[tuple[str, ...]] = ContextVar("lastcall_retrying", default=())
"""The retrying layers, by the names of their tools, inside which this is asked."""

SEAM = "retrying"

SETTINGS = ("attempts", "deadline", "budget", "wait", "longest", "repeatable", "alert", "name")

LONGEST = 300.0
"""Seconds that a service may ask to be waited for."""


class Retries:
    """Guards a function, as `guard.wrap` does, and retries what failed in passing.

    A call is decided once, and observed with what it came to in the end. Each further attempt passes the
    guard as a call of the kind "attempt": it is counted, and may be refused. What is given up for a
    deadline, a budget or the guard raises Stopped; when *attempts* are used up, the last answer or
    exception is the call's own.

    Inside another such layer it makes one attempt: only one layer retries.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        attempts: int = 3,
        deadline: float | None = None,
        budget: RetryBudget | None = None,
        wait: Callable[[RetryCallState], float] | None = None,
        longest: float = LONGEST,
        repeatable: bool = False,
        alert: int | None = 60,
        sleep: Callable[[float], None] = time.sleep,
        asleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Draw = random.random,
        **tool: Any,
    ) -> None:
        if type(attempts) is not int or attempts < 1:
            raise ValueError(f"attempts are a whole number from 1, not {attempts!r}")
        for name, seconds in (("deadline", deadline), ("longest", longest)):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} must be more than 0 seconds, not {seconds!r}")
        self.guard = guard
        self.attempts = attempts
        self.deadline = deadline
        self.budget = budget
        self.wait = floored(
            wait or wait_full_jitter(cap=CAP, draw=draw, clock=guard.clock), draw, guard.clock
        )
        self.longest = longest
        self.repeatable = repeatable
        self.alert = alert
        self.sleep = sleep
        self.asleep = asleep
        self._named: str | None = tool.pop("name", None)
        try:
            self._tool = ToolPolicy(**tool)
        except ValidationError as error:
            raise PolicyError(explained(error, (*SETTINGS, *ToolPolicy.model_fields))) from None

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """*fn*, guarded and retried, with its name, signature and docstring. Takes `def` and `async def`."""
        body = body_of(fn)
        if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
            raise TypeError(f"{fn!r} is a generator; guard and retry the function that reads it")
        if hasattr(fn, "__lastcall__"):
            raise TypeError(f"{fn!r} is guarded already; guard.retrying guards what it retries")
        own = str(getattr(fn, "__name__", type(fn).__name__))
        name = self._named or own
        arguments = Arguments(fn, body)
        self.guard.declare(name, self._tool)

        def retried(*args: Any, **kwargs: Any) -> Any:
            run = Run(self, Call(name, arguments(args, kwargs)), self._tool)
            return run.through(lambda: fn(*args, **kwargs))

        async def aretried(*args: Any, **kwargs: Any) -> Any:
            run = Run(self, Call(name, arguments(args, kwargs)), self._tool)
            return await run.athrough(lambda: cast("Awaitable[Any]", fn(*args, **kwargs)))

        wrapper: Any = aretried if inspect.iscoroutinefunction(body) else retried
        update_wrapper(wrapper, fn)
        wrapper.__signature__ = arguments.signature
        wrapper.__lastcall__ = self.guard
        wrapper.__lastcall_name__ = name
        wrapper.__lastcall_tool__ = self._tool
        return cast("Callable[P, R]", wrapper)


class Run:
    """One call and its attempts. The twins differ in `await` alone."""

    def __init__(self, by: Retries, call: Call, declared: ToolPolicy) -> None:
        self.by = by
        self.guard = by.guard
        self.call = call
        self.declared = declared
        self.ends = None if by.deadline is None else self.guard.clock() + by.deadline
        self.number = 0
        self.outcome = Outcome(recorded=False)
        """Of the latest attempt."""
        self.refusal: Stopped | None = None
        """Why there is no further one, where that is a stop."""
        self.reading = Ticket(call)
        """By whose policy answers are read."""

    def through(self, body: Callable[[], Any]) -> Any:
        """What *body* brings in the end."""
        self.call = self.guard.attempts.identified(self.call)
        engine = Retrying(
            sleep=self.by.sleep,
            stop=self.stop,
            wait=self.by.wait,
            retry=self.again,
            before_sleep=self.told,
            retry_error_callback=last,
        )
        value: Any = None
        failure: BaseException | None = None
        with Calling(self.guard, self.call, self.declared, seam=SEAM) as calling, self.layer():
            if calling.replay is not None:
                return calling.replay.result
            self.begun(calling)
            try:
                value = engine(self.attempt, body)
            except BaseException as error:
                failure = error
            calling.came_to(self.ended(failure, value))
        return self.result(value, failure)

    async def athrough(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """`through` for an event loop."""
        self.call = await self.guard.attempts.aidentified(self.call)
        engine = AsyncRetrying(
            sleep=self.by.asleep,
            stop=self.astop,  # type: ignore[arg-type]  # tenacity awaits it; its type says otherwise
            wait=self.by.wait,
            retry=self.aagain,
            before_sleep=self.told,
            retry_error_callback=last,
        )
        value: Any = None
        failure: BaseException | None = None
        async with Calling(self.guard, self.call, self.declared, seam=SEAM) as calling:
            if calling.replay is not None:
                return calling.replay.result
            with self.layer():
                self.begun(calling)
                try:
                    value = await engine(self.aattempt, body)
                except BaseException as error:
                    failure = error
                calling.came_to(self.ended(failure, value))
        return self.result(value, failure)

    def begun(self, calling: Calling) -> None:
        """The call is granted, or was so at another seam."""
        ticket = calling.ticket
        if ticket is None:
            self.reading = Ticket(replace(self.call, policy=self.declared))
        else:
            self.reading, self.call = ticket, ticket.call
        self.bounded()
        self.guard.bodies.held.add(self.call.where.run)

    def ended(self, failure: BaseException | None, value: Any) -> Outcome:
        """What the call came to: what its latest attempt did, unless it was called off meanwhile."""
        self.guard.bodies.held.discard(self.call.where.run)
        called_off = failure is not None and not isinstance(failure, Exception)
        if called_off and failure:
            return self.guard.raised(self.reading, failure)
        return remembered(self.reading, self.outcome, value)

    def result(self, value: Any, failure: BaseException | None) -> Any:
        """That for who called: a value, or an exception."""
        if self.refusal is not None and (failure is None or isinstance(failure, Exception)):
            raise self.refusal from None if failure is self.refusal else failure
        if failure is not None:
            raise failure
        return value

    @contextmanager
    def layer(self) -> Iterator[None]:
        """Nothing inside retries besides."""
        token = LAYERS.set((*LAYERS.get(), self.call.name))
        try:
            yield
        finally:
            LAYERS.reset(token)

    @property
    def layer_name(self) -> str:
        """What it is called beside other layers that retry."""
        return f"guard.retrying of {self.call.name}"

    # One attempt.

    def attempt(self, body: Callable[[], Any]) -> Any:
        """One more; from the second on by the guard's leave."""
        self.number += 1
        ticket = None
        if self.number > 1:
            ticket = self.granted(self.guard.decide(self.further(), self.declared))
        token = self.entered(ticket)
        try:
            value = plain(body())
        except BaseException as error:
            self.failed(error, ticket, token)
            if ticket is not None:
                self.answered(self.guard.observe(ticket, self.outcome))
            raise
        self.brought(value, ticket, token)
        if ticket is not None:
            self.answered(self.guard.observe(ticket, self.outcome))
        return value

    async def aattempt(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """`attempt` for an event loop."""
        self.number += 1
        ticket = None
        if self.number > 1:
            ticket = self.granted(await self.guard.adecide(self.further(), self.declared))
        token = self.entered(ticket)
        try:
            value = await body()
        except BaseException as error:
            self.failed(error, ticket, token)
            if ticket is not None:
                self.answered(await self.guard.aobserve(ticket, self.outcome))
            raise
        self.brought(value, ticket, token)
        if ticket is not None:
            self.answered(await self.guard.aobserve(ticket, self.outcome))
        return value

    def further(self) -> Call:
        """The call as a further attempt."""
        return replace(self.call, kind="attempt")

    def granted(self, verdict: Verdict) -> Ticket:
        """The ticket of a further attempt. Raises Stopped."""
        if verdict.ticket is not None:
            return verdict.ticket
        self.refusal = self.guard.stopped(cast("Stop", verdict.ending or verdict.stop))
        raise self.refusal

    def entered(self, ticket: Ticket | None) -> Any:
        """The mark of a further attempt's body; the first has the call's own."""
        if ticket is None:
            return None
        token = self.guard.bodies.enter(self.call.name, SEAM, None, ticket)
        self.bounded()
        return token

    def bounded(self) -> None:
        """Nothing in the body at hand goes on after the deadline."""
        body = self.guard.bodies.innermost()
        if body is not None:
            body.bounded(self.ends)

    def failed(self, error: BaseException, ticket: Ticket | None, token: Any) -> None:
        """The body raised *error*."""
        if token is not None:
            self.guard.bodies.leave(token)
        self.outcome = self.guard.raised(ticket or self.reading, error)
        if token is None:
            self.outcome = self.guard.bodies.so_far(self.reading, self.outcome)

    def brought(self, value: Any, ticket: Ticket | None, token: Any) -> None:
        """The body returned *value*."""
        if token is not None:
            self.guard.bodies.leave(token)
        self.outcome = self.guard.returned(ticket or self.reading, self.guard.shown(value))
        if token is None:
            self.outcome = self.guard.bodies.so_far(self.reading, self.outcome)

    def answered(self, verdict: Verdict) -> None:
        """The answer to a further attempt may be a stop itself."""
        if verdict.stop is not None:
            self.refusal = self.guard.stopped(verdict.ending or verdict.stop)

    # What tenacity asks.

    def again(self, state: RetryCallState) -> bool:
        """Whether the latest attempt is worth another."""
        budget = self.by.budget
        if budget is not None and self.counts(state):
            budget.told(self.guard.clock(), ok=self.outcome.kind == "ok")
        return self.worth(state)

    async def aagain(self, state: RetryCallState) -> bool:
        """`again` for an event loop."""
        budget = self.by.budget
        if budget is not None and self.counts(state):
            await budget.atold(self.guard.clock(), ok=self.outcome.kind == "ok")
        return self.worth(state)

    def counts(self, state: RetryCallState) -> bool:
        """Whether something was sent at all."""
        done = state.outcome
        return done is not None and not isinstance(done.exception(), Stopped)

    def worth(self, state: RetryCallState) -> bool:
        """Whether it failed in passing, and may be made again."""
        error = None if state.outcome is None else state.outcome.exception()
        if self.refusal is not None or isinstance(error, Stopped):
            return False
        if error is not None and not isinstance(error, Exception):
            # It was called off, though perhaps after its answer was read.
            return False
        if not passing(self.outcome):
            return False
        # Nobody knows whether it was carried out, and twice is once too often.
        return not (self.once and self.outcome.doubtful)

    @property
    def once(self) -> bool:
        """Whether it must not be carried out twice."""
        tool = self.reading.call.policy
        return tool.writes and not (tool.keyed or self.by.repeatable)

    def stop(self, state: RetryCallState) -> bool:
        """Whether it is given up. The budget is asked last, since that takes a retry."""
        if self.exhausted(state):
            return True
        budget = self.by.budget
        if budget is None or budget.take(self.guard.clock()):
            return False
        return self.gave_up("retry_budget", state)

    async def astop(self, state: RetryCallState) -> bool:
        """`stop` for an event loop."""
        if self.exhausted(state):
            return True
        budget = self.by.budget
        if budget is None or await budget.atake(self.guard.clock()):
            return False
        return self.gave_up("retry_budget", state)

    def exhausted(self, state: RetryCallState) -> bool:
        """Whether attempts or time are used up, or another layer retries."""
        if state.attempt_number >= self.by.attempts:
            return True
        outer = LAYERS.get()[:-1]
        if outer:
            told = f"{self.call.name} is retried inside {outer[-1]}, which retries too: it makes one attempt"
            self.guard.warned(self.call, told)
            return True
        pause = state.upcoming_sleep
        late = self.ends is not None and self.guard.clock() + pause >= self.ends
        if late or pause > self.by.longest:
            return self.gave_up("deadline", state)
        return False

    def gave_up(self, reason: str, state: RetryCallState) -> bool:
        """There is no further attempt, and that is a stop."""
        stop = Stop.of(
            self.call,
            reason,
            "call",
            self.guard.clock(),
            rule="retrying",
            status=self.outcome.status,
            detail=self.outcome.error,
            retry_after=self.outcome.retry_after or state.upcoming_sleep,
            observed=self.number,
            executed=True,
        )
        self.refusal = self.guard.stopped(self.guard.attempts.gave_up(self.call, stop))
        return True

    def told(self, state: RetryCallState) -> None:
        """A retry is an event, and many are an alert."""
        said = (
            "a failed connection or a time-out"
            if self.outcome.status is None
            else f"HTTP {self.outcome.status}"
        )
        self.guard.attempts.retried(
            self.call,
            f"attempt {self.number + 1} in {state.upcoming_sleep:.3g} s, after {said}",
            self.by.alert,
        )


def last(state: RetryCallState) -> Any:
    """What the last attempt brought: its value, or its exception."""
    return None if state.outcome is None else state.outcome.result()


def plain(value: Any) -> Any:
    """*value*. Raises TypeError for one that is to be awaited: it has not failed yet."""
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    raise TypeError(
        "a `def` that returns something to await cannot be retried; make it an `async def`"
    )
