"""LangChain's own standard tests of tools (`langchain-tests`) pass for guarded ones, each kind of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool

from lastcall import Guard
from lastcall.events import Event
from lastcall_langchain import guard_tool, instrument

reason = "langchain-tests is not installed"
integration = pytest.importorskip("langchain_tests.integration_tests", reason=reason)
unit = pytest.importorskip("langchain_tests.unit_tests", reason=reason)


class Weighing:
    """What the tools do, and how often they did it."""

    def __init__(self) -> None:
        self.ran = 0

    def weigh(self, parcel: str, scale: int = 1) -> str:
        """Weigh a parcel."""
        self.ran += 1
        return f"{parcel}: {7 * scale} kg"

    async def aweigh(self, parcel: str, scale: int = 1) -> str:
        """Weigh a parcel."""
        return self.weigh(parcel, scale)

    def weigh_with_photo(self, parcel: str, scale: int = 1) -> tuple[str, dict[str, int]]:
        """Weigh a parcel."""
        return self.weigh(parcel, scale), {"photo": scale}


class Scale(BaseTool):
    """A tool by inheritance, with a body of its own for an event loop."""

    name: str = "weigh"
    description: str = "Weigh a parcel."
    weighing: Any

    def _run(self, parcel: str, scale: int = 1) -> str:
        return self.weighing.weigh(parcel, scale)


class AsyncScale(Scale):
    async def _arun(self, parcel: str, scale: int = 1) -> str:
        return await self.weighing.aweigh(parcel, scale)


def decorated(does: Weighing, guard: Guard) -> BaseTool:
    @tool
    @guard.wrap
    def weigh(parcel: str, scale: int = 1) -> str:
        """Weigh a parcel."""
        return does.weigh(parcel, scale)

    return weigh


def with_photo(does: Weighing) -> BaseTool:
    return StructuredTool.from_function(
        does.weigh_with_photo, name="weigh", response_format="content_and_artifact"
    )


def in_both(does: Weighing) -> BaseTool:
    return StructuredTool.from_function(does.weigh, does.aweigh, name="weigh")


KINDS: dict[str, Callable[[Weighing], BaseTool]] = {
    "sync": lambda does: StructuredTool.from_function(does.weigh, name="weigh"),
    "async": lambda does: StructuredTool.from_function(coroutine=does.aweigh, name="weigh"),
    "sync and async": in_both,
    "with an artifact": with_photo,
    "a subclass": lambda does: Scale(weighing=does),
    "a subclass with its own async body": lambda does: AsyncScale(weighing=does),
}
"""Tools that know nothing of a guard."""

WAYS = [
    *(("guard_tool", kind) for kind in KINDS),
    *(("instrument", kind) for kind in KINDS),
    ("guard.wrap", "decorated"),
]

BARE_TOO: dict[str, Any] = {
    "raises": NotImplementedError,
    "reason": "a tool that is asynchronous alone cannot be invoked, guarded or not",
}


class Guarded:
    """One tool for the standard tests; every call they make passes the guard, and is made."""

    @pytest.fixture(autouse=True, params=WAYS, ids="-".join)
    def guarded_tool(self, request: pytest.FixtureRequest) -> Iterator[None]:
        way, kind = request.param
        asked = request.node.name.startswith(("test_invoke", "test_async_invoke"))
        impossible = kind == "async" and request.node.name.startswith("test_invoke")
        if impossible:
            request.applymarker(pytest.mark.xfail(strict=True, **BARE_TOO))
        does, events = Weighing(), list[Event]()
        guard = Guard(listeners=[events.append])
        undo: Callable[[], None] | None = None
        if way == "guard.wrap":
            self.made = decorated(does, guard)
        elif way == "guard_tool":
            self.made = guard_tool(KINDS[kind](does), guard)
        else:
            self.made, undo = KINDS[kind](does), instrument(guard)
        try:
            yield
        finally:
            if undo is not None:
                undo()
        assert [each.tool for each in events if each.kind == "attempt"] == ["weigh"] * asked
        assert does.ran == (asked and not impossible)

    @property
    def tool_constructor(self) -> BaseTool:
        return self.made

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"parcel": "A 7", "scale": 2}


class TestUnit(Guarded, unit.ToolsUnitTests):
    pass


# Its tests carry no mark of their own, and the synchronous ones want none.
@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*it is not an async function:pytest.PytestWarning")
class TestIntegration(Guarded, integration.ToolsIntegrationTests):
    pass
