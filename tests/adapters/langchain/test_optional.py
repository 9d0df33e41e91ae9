"""What is needed is asked for, and no more is loaded."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache

import pytest

import lastcall_langchain

SCRIPTS = {
    "callbacks_and_tools_need_langchain_core_only": """
        import sys
        sys.modules["langchain"] = sys.modules["langgraph"] = None
        from langchain_core.runnables import RunnableLambda
        from langchain_core.tools import tool
        from lastcall import Guard, Policy, Stopped
        from lastcall_langchain import GuardCallbackHandler, RunStopped, guard_tool, guard_tools, stop_of
        guard = Guard(Policy(max_calls=1))
        ran = []
        @tool
        def look(q: int) -> str:
            "Look."
            ran.append(q)
            return "found"
        guarded = guard_tool(look, guard)
        call = lambda i: {"name": "look", "args": {"q": i}, "id": f"c{i}", "type": "tool_call"}
        answers = RunnableLambda(lambda _: [guarded.invoke(call(i)) for i in range(2)]).invoke(0)
        assert [a.status for a in answers] == ["success", "error"], answers
        def asked(_):
            look.invoke({"q": 5})
            try:
                look.invoke({"q": 6})
            except Stopped as error:
                return error.stop.reason
        print(RunnableLambda(asked).invoke(0, {"callbacks": [GuardCallbackHandler(guard)]}), ran)
    """,
    "the_adapter_says_what_it_needs": """
        import sys
        sys.modules["langchain_core"] = None
        try:
            import lastcall_langchain
        except ImportError as error:
            print(error)
    """,
    "importing_the_adapter_loads_no_langgraph": """
        import sys, lastcall_langchain, lastcall_langchain.scope
        print([name for name in ("langgraph", "langchain", "langchain.agents") if name in sys.modules])
        sys.modules["langchain"] = sys.modules["langchain.agents"] = None
        try:
            lastcall_langchain.GuardMiddleware
        except ImportError as error:
            print(error)
    """,
    "a_guard_made_before_langchain_finds_its_runs": """
        from lastcall import Guard, Policy
        guard = Guard(Policy(max_calls=1))
        @guard.wrap
        def look(q):
            "Look."
            return q
        import sys
        assert "langchain_core" not in sys.modules
        from langchain_core.runnables import RunnableLambda
        def body(_):
            where = guard.here()
            return where is not None and look(1)
        guard.wrap(lambda q: q)
        print(RunnableLambda(body).invoke(0))
    """,
}
"""What each test runs in a process of its own."""

Alone = Callable[[str], str]


@pytest.fixture(scope="module")
def alone() -> Iterator[Alone]:
    """What a script prints. All start at once: each spends its time on importing LangChain."""
    started = {
        name: subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, code in SCRIPTS.items()
    }

    @cache
    def said(name: str) -> str:
        out, errors = started[name].communicate(timeout=60)
        assert started[name].returncode == 0, errors
        return out.strip()

    yield said
    for each in started.values():
        each.kill()
        each.communicate()


def test_callbacks_and_tools_need_langchain_core_only(alone: Alone) -> None:
    said = alone("callbacks_and_tools_need_langchain_core_only")
    assert said == "ceiling [0, 5]"


def test_the_adapter_says_what_it_needs(alone: Alone) -> None:
    said = alone("the_adapter_says_what_it_needs")
    assert 'pip install "lastcall[langchain]"' in said


def test_importing_the_adapter_loads_no_langgraph(alone: Alone) -> None:
    loaded, _ = alone("importing_the_adapter_loads_no_langgraph").split("\n")
    assert loaded == "[]"


def test_the_middleware_says_what_it_needs(alone: Alone) -> None:
    _, said = alone("importing_the_adapter_loads_no_langgraph").split("\n")
    assert 'pip install "lastcall[langchain]"' in said


def test_a_guard_made_before_langchain_finds_its_runs(alone: Alone) -> None:
    said = alone("a_guard_made_before_langchain_finds_its_runs")
    assert said == "1"


def test_the_public_face_is_sorted_and_whole() -> None:
    names = lastcall_langchain.__all__
    assert names == sorted(names)
    assert all(hasattr(lastcall_langchain, name) for name in names)
    with pytest.raises(AttributeError):
        lastcall_langchain.Nothing  # noqa: B018
