"""Guards plain functions and hand-made loops; the only places of the core that raise Stopped."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, update_wrapper
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self, cast, get_args, get_type_hints

from pydantic import ValidationError

from lastcall.call import Call, FirstResult, Outcome
from lastcall.idempotency import remembered
from lastcall.policy_file import PolicyError, explained
from lastcall.stop import Stopped
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.verdict import Ticket, Verdict

if TYPE_CHECKING:
    from lastcall.guard import Guard

FRAMEWORKS = frozenset({"langchain_core", "langchain", "langgraph", "agents", "mcp", "fastmcp"})
"""A parameter typed by a class of these is the framework's, not the model's."""


SKIPPING = frozenset({"wrap", "retrying"})
"""Seams that answer a write by what it brought before, in place of running its body."""


class Calling:
    """One guarded call, for `with` and `async with` alike."""

    def __init__(
        self, guard: Guard, call: Call, declared: ToolPolicy = PLAIN, *, seam: str = "calling"
    ) -> None:
        self._guard = guard
        self._call = call
        self._declared = declared
        self._seam = seam
        self._at = guard.caller()
        self._ticket: Ticket | None = None
        self._token: Any = None
        self._outcome: Outcome | None = None
        self._known = False
        self.replay: FirstResult | None = None
        """What the call brought when it was made before, and then its body is not to run."""

    def result(self, value: Any, *, failed: bool | None = None, status: int | None = None) -> Any:
        """Say what the call brought, and get it back. *failed* and *status* are what is known beside
        it. Without this the result counts as unchanged."""
        if self._ticket is not None:
            outcome = self._guard.returned(
                self._ticket, self._guard.shown(value), failed=failed, status_code=status
            )
            self._outcome = remembered(self._ticket, outcome, value)
        return value

    @property
    def ticket(self) -> Ticket | None:
        """What it was granted by; None before that, or where the call is guarded at another seam."""
        return self._ticket

    def came_to(self, outcome: Outcome) -> None:
        """Say what the call came to, where that is known already."""
        self._outcome, self._known = outcome, True

    def handed_over(self) -> Ticket | None:
        """The ticket, to be settled by somebody else."""
        ticket, self._ticket = self._ticket, None
        return ticket

    def __enter__(self) -> Self:
        if not self._guard.bodies.inside(self._call.name, self._seam, self._at):
            self._begin(self._guard.decide(self._call, self._declared, wait=True))
        return self

    async def __aenter__(self) -> Self:
        if not self._guard.bodies.inside(self._call.name, self._seam, self._at):
            self._begin(await self._guard.adecide(self._call, self._declared, wait=True))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        outcome = self._over(error)
        if self._ticket is not None:
            self._end(self._guard.observe(self._ticket, outcome), error)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        outcome = self._over(error)
        if self._ticket is not None:
            self._end(await self._guard.aobserve(self._ticket, outcome), error)

    def _begin(self, verdict: Verdict) -> None:
        self._outcome = None
        self.replay = verdict.replay
        if self.replay is not None:
            if self._seam in SKIPPING:
                return
            # Nothing can skip the body of a `with`.
            verdict = self._guard.unreplayed(verdict)
        if verdict.stop is not None:
            raise self._guard.stopped(verdict.ending or verdict.stop)
        self._ticket = verdict.ticket
        self._token = self._guard.bodies.enter(self._call.name, self._seam, self._at, self._ticket)

    def _over(self, error: BaseException | None) -> Outcome:
        if self._token is not None:
            self._guard.bodies.leave(self._token)
            self._token = None
        if self._ticket is not None and error is not None and not self._made():
            return self._guard.raised(self._ticket, error)
        outcome = self._outcome or Outcome(recorded=False)
        if self._ticket is None or self._known:
            return self._guard.bodies.paid(outcome)
        return self._guard.bodies.seen(self._ticket, outcome)

    def _made(self) -> bool:
        """Whether it is a write of which it was said that it was carried out: that is so, whatever was
        raised since."""
        outcome, ticket = self._outcome, self._ticket
        return (
            outcome is not None
            and outcome.kind == "ok"
            and ticket is not None
            and ticket.call.policy.writes
        )

    def _end(self, verdict: Verdict, error: BaseException | None) -> None:
        if verdict.stop is not None and not isinstance(error, Stopped):
            raise self._guard.stopped(verdict.ending or verdict.stop) from error


def wrapped(
    guard: Guard, fn: Callable[..., Any], /, *, name: str | None = None, **tool: Any
) -> Callable[..., Any]:
    """*fn*, guarded, with its name, signature, docstring and annotations."""
    if getattr(fn, "__lastcall__", None) is guard:
        return fn
    body = body_of(fn)
    if not callable(fn):
        raise TypeError(f"guard.wrap takes a function or a callable object, not {fn!r}")
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise TypeError(
            f"{fn!r} is a generator, and a call of one only begins when it is read; guard the function"
            " that reads it, or return a list"
        )
    try:
        declared = ToolPolicy(**tool)
    except ValidationError as error:
        raise PolicyError(explained(error, (*ToolPolicy.model_fields, "name"))) from None
    own = getattr(fn, "__name__", type(fn).__name__)
    called = name or str(own)
    arguments = Arguments(fn, body)

    def calling(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Calling:
        call = Call(called, arguments(args, kwargs))
        return Calling(guard, call, declared, seam="wrap")

    def guarded(*args: Any, **kwargs: Any) -> Any:
        with calling(args, kwargs) as call:
            if call.replay is not None:
                return call.replay.result
            value = fn(*args, **kwargs)
            if not inspect.isawaitable(value):
                return call.result(value)
            ticket = call.handed_over()
        return awaited(guard, ticket, value)

    async def aguarded(*args: Any, **kwargs: Any) -> Any:
        async with calling(args, kwargs) as call:
            if call.replay is not None:
                return call.replay.result
            return call.result(await fn(*args, **kwargs))

    wrapper: Any = aguarded if inspect.iscoroutinefunction(body) else guarded
    update_wrapper(wrapper, fn)
    wrapper.__name__ = own
    wrapper.__signature__ = arguments.signature
    # Who asks for the types looks names up in the globals of what is wrapped; an object has none.
    plain = hasattr(fn, "__globals__")
    wrapper.__annotations__ = dict(getattr(body, "__annotations__", {})) if plain else hints(body)
    wrapper.__lastcall__ = guard
    wrapper.__lastcall_name__ = called
    wrapper.__lastcall_tool__ = declared
    guard.declare(called, declared)
    return cast("Callable[..., Any]", wrapper)


def body_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that runs when *fn* is called, as far as it can be seen."""
    while isinstance(fn, partial):
        fn = fn.func
    return fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - its kind is asked


async def awaited(guard: Guard, ticket: Ticket | None, value: Awaitable[Any]) -> Any:
    """The result of a plain function that turned out to be awaitable, settled once it is there."""
    if ticket is None:
        return await value
    try:
        result = await marked(guard, ticket, value)
    except BaseException as error:
        verdict = await guard.aobserve(ticket, guard.raised(ticket, error))
        if verdict.stop is not None:
            raise guard.stopped(verdict.ending or verdict.stop) from error
        raise
    # Not remembered: a repeat would have to give something to await, and nobody knows that beforehand.
    verdict = await guard.aobserve(ticket, guard.returned(ticket, guard.shown(result)))
    if verdict.stop is not None:
        raise guard.stopped(verdict.ending or verdict.stop)
    return result


async def marked(guard: Guard, ticket: Ticket, value: Awaitable[Any]) -> Any:
    """The result of *value*, which goes on in the body of the call of *ticket*."""
    token = guard.bodies.enter(ticket.call.name, "wrap", None, ticket)
    try:
        return await value
    finally:
        guard.bodies.leave(token)


class Arguments:
    """The model's own arguments of a function: by name, without what a framework injects."""

    def __init__(self, fn: Callable[..., Any], body: Callable[..., Any]) -> None:
        self.signature = inspect.signature(fn)
        self._body = body
        self._injected: frozenset[str] | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments as a mapping; what does not fit the signature is kept by position."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            return {"args": args, **kwargs} if args else dict(kwargs)
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif name not in self.injected:
                named[name] = value
        return named

    @property
    def injected(self) -> frozenset[str]:
        """Parameters that a framework fills: found late, when their types can be resolved."""
        if self._injected is None:
            names = {name for name, hint in hints(self._body).items() if foreign(hint)}
            first = next(iter(self.signature.parameters), "")
            self._injected = frozenset(names | ({first} & {"self", "cls"}))
        return self._injected


def hints(body: Callable[..., Any]) -> dict[str, Any]:
    """The resolved annotations, as far as they can be."""
    found: dict[str, Any] = {}
    for name, hint in getattr(body, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: hint})
        try:
            # One by one: a name that exists only while type checking must not hide the others.
            # The names are those of where it was written; a decorator of somebody else's has others.
            written = inspect.unwrap(body)
            found |= get_type_hints(
                alone, getattr(written, "__globals__", None), include_extras=True
            )
        except Exception:
            found[name] = hint
    return found


def foreign(hint: Any) -> bool:
    """Whether a framework's class is what a parameter is typed or marked by."""
    marks = (hint, *get_args(hint)) if hasattr(hint, "__metadata__") else (hint,)
    if not hasattr(hint, "__metadata__"):
        marks = (*marks, getattr(hint, "__origin__", None))
    return any(root(mark) in FRAMEWORKS for mark in (*marks, *getattr(hint, "__metadata__", ())))


def root(mark: Any) -> str:
    """The package that a class, or the class of an object, comes from."""
    of = mark if isinstance(mark, type) or hasattr(mark, "__supertype__") else type(mark)
    return str(getattr(of, "__module__", "")).partition(".")[0]
