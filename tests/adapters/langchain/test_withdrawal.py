"""`GuardMiddleware(guard, withdraw=True)`: a closed tool is not offered to the model any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from lastcall import Guard, Policy
from lastcall_langchain import GuardMiddleware

from .scripted import USER, Scripted, asking, reply

modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])


class Gone(Exception):
    status_code = 404


@tool
def find(q: int) -> str:
    """Find."""
    raise Gone


@tool
def look(q: int) -> str:
    """Look."""
    return f"found {q}"


class Offered(Scripted):
    """Notes what each request offers and is told."""

    requests: list[tuple[list[str], str, Any]] = []

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(offered=[each.name for each in tools], choice=kwargs.get("tool_choice"))

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        system = messages[0].text if messages[0].type == "system" else ""
        self.requests.append((kwargs.get("offered", []), system, kwargs.get("choice")))
        kwargs = {k: v for k, v in kwargs.items() if k not in ("offered", "choice")}
        return super()._generate(messages, *args, **kwargs)


def asked(
    model: Offered, guard: Guard, mode: str, tools: Any = (find, look), **options: Any
) -> Any:
    agent = create_agent(
        model,
        list(tools),
        system_prompt="Be brief.",
        middleware=[GuardMiddleware(guard, **options)],
    )
    return agent.invoke(USER) if mode == "invoke" else asyncio.run(agent.ainvoke(USER))


def failing() -> Offered:
    script = [reply(asking("find", {"q": i}, f"c{i}")) for i in range(3)]
    return Offered(script=[*script, reply(asking("look", {"q": 1}, "d"))], requests=[])


@modes
def test_a_closed_tool_is_gone_and_the_model_knows_why(mode: str) -> None:
    model = failing()
    result = asked(model, Guard(), mode, withdraw=True)
    assert [offered for offered, _, _ in model.requests[:3]] == [["find", "look"]] * 3
    offered, system, _ = model.requests[3]
    assert offered == ["look"]
    assert system.startswith("Be brief.")
    assert "find is closed for this turn (terminal, HTTP 404)" in system
    assert result["messages"][-2].content == "found 1"


@modes
def test_it_stays_where_nobody_wants_it_withdrawn(mode: str) -> None:
    model = failing()
    asked(model, Guard(), mode)
    assert [offered for offered, _, _ in model.requests] == [["find", "look"]] * 5


@modes
def test_the_next_turn_has_it_again(mode: str) -> None:
    model, guard = failing(), Guard()
    asked(model, guard, mode, withdraw=True)
    model.requests.clear()
    asked(model, guard, mode, withdraw=True)
    assert model.requests[0][0] == ["find", "look"]


def test_a_tool_whose_own_ceiling_is_reached_is_gone_after_the_refusal() -> None:
    script = [reply(asking("look", {"q": i}, f"c{i}")) for i in range(2)]
    model = Offered(script=[*script, AIMessage("done")], requests=[])
    guard = Guard(Policy(tools={"look": {"max_calls": 1}}))
    asked(model, guard, "invoke", withdraw=True)
    assert [offered for offered, _, _ in model.requests] == [
        ["find", "look"],
        ["find", "look"],
        ["find"],
    ]
