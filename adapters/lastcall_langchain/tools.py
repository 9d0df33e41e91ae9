"""Guards tools one by one, for agents that know nothing of it; nothing else of a tool changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial, wraps
from types import new_class
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as made

from lastcall import Call, Guard, ToolPolicy
from lastcall_langchain import recorded
from lastcall_langchain.arguments import own
from lastcall_langchain.outcomes import hear
from lastcall_langchain.passing import Passage, apassed, declared_in, passed
from lastcall_langchain.places import PLAIN

DECLARED = "__lastcall_tool__"
"""Where a function decorated with `@guard.wrap(...)` keeps what was said of it."""

STATE = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
"""All that a pydantic object is, beside its class."""

GUARDS = "__lastcall__"
"""Where a guarded copy keeps its guards, innermost first, each with what was said of the tool."""


def guard_tool(tool: BaseTool | Callable[..., Any], guard: Guard, **tool_policy: Any) -> BaseTool:
    """A guarded copy of *tool*, or of the tool that `@tool` makes of a function.

    *tool_policy* are fields of `ToolPolicy`; they win over those in `tool.metadata["lastcall"]`, and
    these over what `@guard.wrap(...)` says of its function.
    """
    given: BaseTool = tool if isinstance(tool, BaseTool) else made(tool)
    before = guards_of(given)
    if any(each is guard for each, _ in before) and not tool_policy:
        return given
    copy = swapped(given, guarded(type(given)))
    others = [pair for pair in before if pair[0] is not guard]
    pair = (guard, declared_by(given, **tool_policy))
    object.__setattr__(copy, GUARDS, (*others, pair))
    return copy


def guard_tools(tools: Iterable[BaseTool | Callable[..., Any]], guard: Guard) -> list[BaseTool]:
    """Guarded copies of *tools*, in their order."""
    return [guard_tool(tool, guard) for tool in tools]


def heard_tool(tool: BaseTool) -> BaseTool:
    """*tool* seen as one whose body tells what it returned or raised before LangChain makes text of it.

    No copy: both are one state, since a tool may count or cache in its own fields.
    """
    cls = listening(type(tool))
    if cls is type(tool):
        return tool
    seen = cls.__new__(cls)
    for name in STATE:
        object.__setattr__(seen, name, getattr(tool, name))
    return seen


def swapped(tool: BaseTool, cls: type[BaseTool]) -> BaseTool:
    """A copy of *tool* of the class *cls*, with its fields as they are."""
    copy = tool.model_copy()
    object.__setattr__(copy, "__class__", cls)
    return copy


@cache
def listening(cls: type[BaseTool]) -> type[BaseTool]:
    """A subclass of *cls* whose body is heard."""
    if getattr(cls, "__lastcall_heard__", False):
        return cls
    run, arun = cls._run, cls._arun

    @wraps(run)
    def _run(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        if recorded.TAPES:
            return recorded.answered(self)
        try:
            value = run(self, *args, **kwargs)
        except BaseException as error:
            hear(error)
            raise
        hear(value)
        return value

    @wraps(arun)
    async def _arun(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        if recorded.TAPES:
            return recorded.answered(self)
        try:
            value = await arun(self, *args, **kwargs)
        except BaseException as error:
            hear(error)
            raise
        hear(value)
        return value

    body: dict[str, Any] = {"_run": _run, "__lastcall_heard__": True}
    if arun is not BaseTool._arun:  # noqa: SLF001 - a method to override
        # LangChain asks whether a class has its own: the inherited one ends in `_run`.
        body["_arun"] = _arun
    return alike(cls, body)


@cache
def guarded(cls: type[BaseTool]) -> type[BaseTool]:
    """A subclass of *cls* that takes each call past the guards."""
    if getattr(cls, "__lastcall_guarded__", False):
        return cls
    heard = listening(cls)

    # Looked up at each call: `instrument` may have come since.
    @wraps(heard.run)
    def guarded_run(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        body = partial(heard.run, self, tool_input, *args, **kwargs)
        for passage in passages(self, tool_input, kwargs):
            # All of them have a part in the run, also where the outermost refuses.
            passage.find()
            body = partial(passed, passage, body)
        return body()

    @wraps(heard.arun)
    async def guarded_arun(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        body = partial(heard.arun, self, tool_input, *args, **kwargs)
        for passage in passages(self, tool_input, kwargs):
            await passage.afind()
            body = partial(apassed, passage, body)
        return await body()

    body = {"run": guarded_run, "arun": guarded_arun, "__lastcall_guarded__": True}
    return alike(heard, body)


def alike(cls: type[BaseTool], body: Mapping[str, Any]) -> type[BaseTool]:
    """A subclass of *cls* under its name."""
    same = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    return new_class(cls.__name__, (cls,), exec_body=lambda space: space.update(same, **body))


def declared_by(tool: BaseTool, **said: Any) -> ToolPolicy:
    """What is declared of *tool*: at its function, in its metadata, and *said* here."""
    bodies = (getattr(tool, name, None) for name in ("func", "coroutine"))
    found = (getattr(body, DECLARED, None) for body in bodies)
    of = next((each for each in found if isinstance(each, ToolPolicy)), PLAIN)
    return declared_in(tool.metadata, of, **said)


def guards_of(tool: BaseTool) -> tuple[tuple[Guard, ToolPolicy], ...]:
    """The guards of a guarded copy."""
    found: tuple[tuple[Guard, ToolPolicy], ...] = getattr(tool, GUARDS, ())
    return found


def passages(tool: BaseTool, tool_input: Any, kwargs: Mapping[str, Any]) -> Iterator[Passage]:
    """The passages of a call that `run` or `arun` was asked for, innermost first."""
    for guard, declared in guards_of(tool):
        yield passage_of(tool, guard, "tool", declared, tool_input, kwargs)


def passage_of(
    tool: BaseTool,
    guard: Guard,
    seam: str,
    declared: ToolPolicy,
    tool_input: Any,
    kwargs: Mapping[str, Any],
) -> Passage:
    """How a call that `run` or `arun` was asked for passes *guard* at *seam*."""
    args = tool_input
    if isinstance(tool_input, dict):
        # As LangChain's own callbacks do it.
        args = own(tool._filter_injected_args(tool_input))  # noqa: SLF001
    config = kwargs.get("config") or {"callbacks": kwargs.get("callbacks")}
    call = Call(tool.name, args, id=kwargs.get("tool_call_id"))
    return Passage(guard, seam, call, config, declared, aliases_of(tool, guard))


def aliases_of(tool: BaseTool, guard: Guard) -> frozenset[str]:
    """The names under which *guard* knows the functions of *tool* that it decorates."""
    bodies = [getattr(tool, name, None) for name in ("func", "coroutine")]
    guarded = [body for body in bodies if getattr(body, "__lastcall__", None) is guard]
    return frozenset(getattr(body, "__lastcall_name__", "") for body in guarded)
