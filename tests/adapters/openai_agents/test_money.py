"""Money and tokens of a run, from the usage that the SDK's responses carry."""

from __future__ import annotations

from decimal import Decimal

from agents import Agent, function_tool

from lastcall import Guard, Policy
from lastcall.rules import Budget, Limit, Refusals
from lastcall_openai_agents import guard_agent

from .scripted import call, play, script
from .test_requests import Telling, entries, guarded, incident, options

PRICES = {"*": {"input": 100_000, "output": 250_000}}
"""One request of 10 and 4 tokens costs 2.00."""


def guarding(*limits):
    return Guard(Policy(rules=[Refusals(), Budget(limits=limits)], prices=PRICES))


def asks(number):
    return Telling(script(*[call("look", {"q": i}, f"c{i}") for i in range(number)]).replies)


@entries
def test_a_run_ends_when_its_money_is_spent(entry):
    guard = guarding(Limit(quantity="money", per="run", window=None, most="6.00", alert=0.5))
    played = play(guarded(entry, guard, asks(9)), **options(entry, guard))
    report = incident(guard)
    assert (played.requests, played.stop.cause) == (3, "money/run")
    assert report.stopped_by.cause == "money/run"
    assert (report.spent, report.incomplete) == (Decimal("6.00"), False)
    assert report.alerts == ("money/run: 4.00 of 6.00",)


@entries
def test_so_it_does_when_its_tokens_are(entry):
    guard = guarding(Limit(quantity="tokens", per="run", window=None, most=30, reserve=15))
    played = play(guarded(entry, guard, asks(9)), **options(entry, guard))
    assert (played.requests, played.stop.cause) == (2, "tokens/run")


@entries
def test_usage_that_is_not_told_ends_it_too(entry, mode):
    guard = guarding(Limit(quantity="money", per="run", window=None, most="6.00"))
    model = script(*[call("look", {"q": i}, f"c{i}") for i in range(9)])
    played = play(guarded(entry, guard, model), mode, **options(entry, guard))
    assert (played.requests, played.stop.cause) == (1, "unpriced")


def test_a_tool_says_what_it_cost(mode):
    guard = guarding(Limit(quantity="money", per="run", window=None, most="100", reserve="2.00"))

    @function_tool
    def pay(q: int) -> str:
        guard.spent("0.25")
        return f"paid {q}"

    model = script(call("pay", {"q": 1}), "done")
    agent = guard_agent(Agent("A", tools=[pay], model=model), guard)
    assert play(agent, mode).stop is None
    report = incident(guard)
    assert (report.spent, report.requests.unpriced) == (Decimal("0.25"), 2)
