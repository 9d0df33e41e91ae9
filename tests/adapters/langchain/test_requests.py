"""Requests to models are counted, can be stopped, and tell what they used."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from lastcall import Call, Guard, Policy, Stop
from lastcall.contracts import Take
from lastcall.rules import Refusals
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, instrument, stop_of
from lastcall_langchain.requests import REQUESTS

from .scripted import Scripted, asking, reply, scripted, stubborn

modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
entries = pytest.mark.parametrize("entry", ["middleware", "handler", "instrument", "all"])


class Few:
    """A tally of somebody else's: so many requests to models in one run."""

    name: ClassVar[Literal["few"]] = "few"
    kinds: ClassVar[Any] = frozenset({"model"})
    enforce = True

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def takes(self, call: Call) -> Any:
        return (Take((call.shard, self.name, call.where.run), 1, self.limit),)

    def stop(self, call: Call, claim: Any, observed: int, now: float) -> Stop:
        return Stop.of(
            call, "requests", "run", now, rule=self.name, limit=self.limit, observed=observed
        )

    def alert_at(self, call: Call, claim: Any) -> None:
        return None

    def budget(self, call: Call, claim: Any) -> tuple[str, int]:
        return "requests", self.limit

    def settle(self, call: Call, outcome: Any, taken_at: float) -> tuple[()]:
        return ()


@tool
def look(q: int) -> str:
    """Look."""
    return f"found {q}"


def used(message: AIMessage, **details: Any) -> AIMessage:
    usage = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14, **details}
    return message.model_copy(
        update={"usage_metadata": usage, "response_metadata": {"model_name": "m-1"}}
    )


def run(entry: str, guard: Guard, model: Any, mode: str = "invoke", tools: Any = (look,)) -> Any:
    """One run through *entry*; gives the result, or the exception it ended by."""
    every = entry == "all"
    middleware = [GuardMiddleware(guard)] if every or entry == "middleware" else []
    callbacks = [GuardCallbackHandler(guard)] if every or entry == "handler" else []
    undo = instrument(guard) if every or entry == "instrument" else (lambda: None)
    agent = create_agent(model, list(tools), middleware=middleware)
    given: Any = {"messages": [("user", "go")]}
    config: Any = {"callbacks": callbacks, "recursion_limit": 200}
    try:
        if mode == "invoke":
            return agent.invoke(given, config)
        if mode == "ainvoke":
            return asyncio.run(agent.ainvoke(given, config))
        if mode == "stream":
            return list(agent.stream(given, config))
        return asyncio.run(drained(agent.astream(given, config, stream_mode="messages")))
    except Exception as error:
        return error
    finally:
        undo()


async def drained(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


def incident(guard: Guard) -> Any:
    (run_id,) = guard._reporter._ledger._finished
    return guard.report(run_id)


@entries
@modes
def test_each_request_counts_once_and_tells_its_tokens(entry: str, mode: str) -> None:
    guard = Guard(Policy.permissive())
    details = {
        "input_token_details": {"cache_read": 3},
        "output_token_details": {"reasoning": 2},
    }
    model = scripted(
        used(reply(asking("look", {"q": 1}, "c1")), **details), used(AIMessage("done"))
    )
    assert not isinstance(run(entry, guard, model, mode), Exception)
    requests = incident(guard).requests
    assert (requests.made, requests.refused, requests.failed, requests.untold) == (2, 0, 0, 0)
    assert (requests.input_tokens, requests.output_tokens) == (20, 8)
    assert (requests.cached_tokens, requests.reasoning_tokens) == (3, 2)
    assert len(REQUESTS) == 0


@entries
@modes
def test_a_budget_of_requests_is_exact(entry: str, mode: str) -> None:
    guard = Guard(Policy(rules=[Refusals(), Few(3)]))
    model = stubborn(lambda i: {"q": i})
    result = run(entry, guard, model, mode)
    assert len(model.asked) == 3
    stop = stop_of(result) if mode != "astream" or isinstance(result, Exception) else None
    assert stop is not None or mode in ("stream", "astream")
    assert incident(guard).stopped_by.reason == "requests"
    assert (incident(guard).requests.made, incident(guard).requests.refused) == (3, 1)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_what_a_model_does_not_tell_is_not_taken_for_nothing(mode: str) -> None:
    guard = Guard(Policy.permissive())
    run("middleware", guard, scripted(AIMessage("done")), mode)
    assert incident(guard).requests.untold == 1


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_model_that_fails_is_settled(mode: str) -> None:
    class Broken(Scripted):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("gone")

    guard = Guard(Policy.permissive())
    result = run("middleware", guard, Broken(script=[]), mode)
    assert isinstance(result, ConnectionError)
    assert (incident(guard).requests.made, incident(guard).requests.failed) == (1, 1)
    assert len(REQUESTS) == 0


def test_a_request_that_was_never_made_is_none() -> None:
    class Answering(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return AIMessage("from a cache")

    guard = Guard(Policy.permissive())
    agent = create_agent(scripted(), [look], middleware=[GuardMiddleware(guard), Answering()])
    agent.invoke({"messages": [("user", "go")]})
    assert incident(guard).requests.made == 0


def test_every_request_of_a_middleware_that_repeats_is_counted() -> None:
    class Twice(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

    guard = Guard(Policy.permissive())
    agent = create_agent(scripted(), [look], middleware=[GuardMiddleware(guard), Twice()])
    agent.invoke({"messages": [("user", "go")]})
    assert incident(guard).requests.made == 2


def test_a_text_model_is_counted_too() -> None:
    guard = Guard(Policy.permissive())
    undo = instrument(guard)
    try:
        chain = FakeListLLM(responses=["a"]) | (lambda text: text)
        chain.invoke("q")
        asyncio.run(chain.ainvoke("q"))
    finally:
        undo()
    totals = [guard.report(each) for each in guard._reporter._ledger._finished]
    assert [each.requests.made for each in totals if each is not None] == [1, 1]


@modes
def test_tokens_of_a_stream_reach_other_handlers(mode: str) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    tokens: list[str] = []

    class Hearing(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            tokens.append(token)

    model = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    guard = Guard(Policy.permissive())
    config: Any = {"callbacks": [GuardCallbackHandler(guard), Hearing()]}

    async def streamed() -> list[Any]:
        return [each.content async for each in model.astream("q", config)]

    heard = (
        [each.content for each in model.stream("q", config)]
        if mode in ("invoke", "stream")
        else asyncio.run(streamed())
    )
    assert "".join(heard) == "one two three"
    assert "".join(tokens) == "one two three"


@pytest.mark.parametrize("entry", ["middleware", "handler", "instrument"])
def test_hosted_tools_are_named_and_never_counted_as_none(
    entry: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Binding(Scripted):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=tools)

    shown = [
        {"type": "server_tool_call", "name": "web_search", "id": "s1", "args": {"q": "x"}},
        {"type": "text", "text": "done"},
    ]
    model = Binding(
        script=[
            AIMessage(
                shown,
                response_metadata={"output_version": "v1"},
                tool_calls=[asking("look", {"q": 1}, "c1")],
            ),
            AIMessage("done"),
        ]
    )
    hosted = [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
    guard = Guard(Policy.permissive())
    with caplog.at_level(logging.WARNING, "lastcall"):
        run(entry, guard, model, tools=(look, *hosted))
    said = [each.getMessage() for each in caplog.records if "provider" in each.getMessage()]
    assert [each.split()[0] for each in said] == ["web_search", "code_interpreter"]
    assert incident(guard).hosted == {"web_search": 1, "code_interpreter": None}
    assert incident(guard).tools["look"].executed == 1
