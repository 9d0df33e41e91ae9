"""Requests to models are counted, can be stopped before they are sent, and tell what they used."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest
from agents import Agent, ModelResponse, Usage, WebSearchTool, function_tool
from openai.types.responses import ResponseFunctionWebSearch
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from lastcall import Guard, Policy, Stop
from lastcall.contracts import Take
from lastcall.rules import Refusals
from lastcall_openai_agents import GuardHooks, guard_agent

from .scripted import Script, call, play, script, stubborn

entries = pytest.mark.parametrize("entry", ["agent", "hooks", "both"])


class Few:
    """A tally of somebody else's: so many requests to models in one run."""

    name: ClassVar[Literal["few"]] = "few"
    kinds = frozenset({"model"})
    enforce = True

    def __init__(self, limit):
        self.limit = limit

    def takes(self, call):
        return (Take((call.shard, self.name, call.where.run), 1, self.limit),)

    def stop(self, call, claim, observed, now):
        return Stop.of(
            call, "requests", "run", now, rule=self.name, limit=self.limit, observed=observed
        )

    def alert_at(self, call, claim):
        return None

    def budget(self, call, claim):
        return "requests", self.limit

    def settle(self, call, outcome, taken_at):
        return ()


class Telling(Script):
    """Tells what its answers used."""

    async def get_response(self, *args, **more):
        response = await super().get_response(*args, **more)
        usage = Usage(
            requests=1,
            input_tokens=10,
            output_tokens=4,
            total_tokens=14,
            input_tokens_details=InputTokensDetails(cached_tokens=3, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
        )
        return ModelResponse(output=response.output, usage=usage, response_id=None)


@function_tool
def look(q: int) -> str:
    return f"found {q}"


def guarded(entry, guard, model, **fields):
    agent = Agent("A", tools=[look, *fields.pop("hosted", ())], model=model)
    return guard_agent(agent, guard) if entry in ("agent", "both") else agent


def options(entry, guard):
    return {"hooks": GuardHooks(guard)} if entry in ("hooks", "both") else {}


def incident(guard):
    (run,) = guard._reporter._ledger._finished
    return guard.report(run)


@entries
def test_each_request_counts_once_and_tells_its_tokens(entry):
    guard = Guard(Policy.permissive())
    model = Telling(script(call("look", {"q": 1}), "done").replies)
    play(guarded(entry, guard, model), **options(entry, guard))
    requests = incident(guard).requests
    assert (requests.made, requests.refused, requests.untold) == (2, 0, 0)
    assert (requests.input_tokens, requests.output_tokens) == (20, 8)
    assert (requests.cached_tokens, requests.reasoning_tokens) == (6, 4)


@entries
def test_a_budget_of_requests_is_exact(entry, mode):
    guard = Guard(Policy(rules=[Refusals(), Few(3)]))
    model = stubborn("look", lambda i: {"q": i})
    played = play(guarded(entry, guard, model), mode, **options(entry, guard))
    assert played.requests == 3
    assert played.stop.reason == "requests"
    assert not played.unanswered
    assert incident(guard).requests.made == 3


@entries
def test_what_a_provider_does_not_tell_is_not_taken_for_nothing(entry, mode):
    guard = Guard(Policy.permissive())
    play(guarded(entry, guard, script("done")), mode, **options(entry, guard))
    assert incident(guard).requests.untold == 1 or entry == "agent"


def test_a_request_that_fails_is_settled(mode):
    class Broken(Script):
        async def get_response(self, *args, **more):
            raise ConnectionError("gone")

        async def stream_response(self, *args, **more):
            raise ConnectionError("gone")
            yield

    guard = Guard(Policy(rules=[Few(3)]))
    played = play(guarded("hooks", guard, Broken([])), mode, hooks=GuardHooks(guard))
    assert isinstance(played.error, ConnectionError)
    assert incident(guard).requests.made == 1
    assert len(guard.store) == 0


@entries
def test_hosted_calls_are_counted_where_they_are_shown(entry, mode):
    searched = ResponseFunctionWebSearch(
        id="w1",
        type="web_search_call",
        status="completed",
        action=ActionSearch(type="search", query="x"),
    )
    guard = Guard(Policy.permissive())
    model = script([searched, call("look", {"q": 1})], "done")
    agent = guarded(entry, guard, model, hosted=[WebSearchTool()])
    play(agent, mode, **options(entry, guard))
    assert incident(guard).hosted == {"web_search": 1}
    assert incident(guard).tools["look"].executed == 1


def test_hosted_calls_that_are_not_shown_are_unknown():
    guard = Guard(Policy.permissive())
    agent = Agent("A", tools=[look, WebSearchTool()], model=script(call("look", {"q": 1}), "done"))
    play(agent, hooks=GuardHooks(guard))
    assert incident(guard).hosted == {"web_search": None}
