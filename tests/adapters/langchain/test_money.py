"""Money and tokens of a run, from the usage that LangChain's messages carry."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import Command

from lastcall import Guard, Policy
from lastcall.rules import Budget, Limit, Refusals

from .playing import config_of
from .scripted import USER, asking, reply, scripted, stubborn
from .test_ask import asked, counted, questions
from .test_requests import entries, incident, look, modes, run, used

PRICES = {"m-1": {"input": 100_000, "output": 250_000}}
"""One request of 10 and 4 tokens costs 2.00."""


def guarding(*limits: Limit, **more: Any) -> Guard:
    return Guard(Policy(rules=[Refusals(), Budget(limits=limits)], prices=PRICES, **more))


def asks(number: int) -> list[AIMessage]:
    return [used(reply(asking("look", {"q": i}, f"c{i}"))) for i in range(number)]


@entries
@modes
def test_a_run_ends_when_its_money_is_spent(entry: str, mode: str) -> None:
    guard = guarding(Limit(quantity="money", per="run", window=None, most="6.00", alert=0.5))
    model = scripted(*asks(9))
    run(entry, guard, model, mode)
    report = incident(guard)
    assert len(model.asked) == 3
    assert report.stopped_by.cause == "money/run"
    assert (report.stopped_by.limit, report.spent) == (Decimal("6.00"), Decimal("6.00"))
    assert (report.incomplete, report.alerts) == (False, ("money/run: 4.00 of 6.00",))


@entries
@modes
def test_so_it_does_when_its_tokens_are(entry: str, mode: str) -> None:
    guard = guarding(Limit(quantity="tokens", per="run", window=None, most=30, reserve=15))
    model = scripted(*asks(9))
    run(entry, guard, model, mode)
    assert len(model.asked) == 2
    assert incident(guard).stopped_by.cause == "tokens/run"


@pytest.mark.parametrize("entry", ["middleware", "handler", "instrument"])
def test_a_tool_says_what_it_cost(entry: str) -> None:
    guard = guarding(Limit(quantity="money", per="run", window=None, most="100"))

    @tool
    def pay(q: int) -> str:
        """Pay."""
        assert guard.spent("0.25")
        return f"paid {q}"

    model = scripted(
        used(reply(asking("pay", {"q": 1}, "c1"), asking("look", {"q": 1}, "c2"))),
        used(AIMessage("done")),
    )
    result = run(entry, guard, model, "invoke", (pay, look))
    assert not isinstance(result, Exception)
    assert incident(guard).spent == Decimal("4.25")


@pytest.mark.parametrize("answer", ["go_on", {"raise": "1.00"}, {"raise": 1}])
def test_a_person_may_add_money(answer: Any) -> None:
    limit = Limit(quantity="money", per="run", window=None, most="1.00", tools=("look",))
    rules = [Refusals(), Budget(limits=(limit,))]
    guard = Guard(Policy(rules=rules, on_stop="ask", tools={"look": {"cost": "0.50"}}))
    agent, ran = counted(stubborn(lambda i: {"q": i}), guard, "middleware", "create_agent")
    config = config_of(guard, "middleware")
    (question,) = questions(asked(agent, USER, config, "invoke"))
    assert question["answers"] == ["go_on", {"raise": "1.00"}, "end"]
    asked(agent, Command(resume={"raise": "nonsense"}), config, "invoke")
    assert ran == [0, 1]
    asked(agent, Command(resume=answer), config, "invoke")
    assert ran == [0, 1, 2, 3]
