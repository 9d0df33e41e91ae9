"""A run that is to end may be given one more request, without tools, whose text is its output."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from lastcall import Guard, Policy, Stop
from lastcall.testing import FailingStore
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, RunStopped, stop_of
from lastcall_langchain.answers import instructed
from lastcall_langchain.runs import RUNS

from .playing import MODES, Played, play
from .scripted import USER, Scripted, asked_alone, asking, stubborn, unanswered

ANSWER = "I found three of them."
GATHERED = [(f"c{i}", "look", f"found {i}") for i in range(3)]


class Watched(Scripted):
    """Writes down its requests, refuses a history that no provider accepts, and without tools gives
    *last*."""

    last: Any = None
    requests: list[tuple[list[BaseMessage], tuple[str, ...], dict[str, Any]]] = []
    tools: tuple[str, ...] = ()

    def bind_tools(self, tools: Any, **kwargs: Any) -> Watched:
        return self.model_copy(update={"tools": tuple(each.name for each in tools)})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.requests.append((messages, self.tools, kwargs))
        assert unanswered(messages) == []
        if self.tools:
            return super()._generate(messages, stop, run_manager, **kwargs)
        if isinstance(self.last, Exception):
            raise self.last
        # A new message each time, as a provider's is.
        said = self.last.model_copy(update={"id": self.last.id or f"last-{uuid4().hex}"})
        return ChatResult(generations=[ChatGeneration(message=said)])

    @property
    def bare(self) -> list[list[BaseMessage]]:
        """The requests without tools."""
        return [messages for messages, tools, _ in self.requests if not tools]


def watched(last: Any = ANSWER, script: Sequence[AIMessage] | None = None) -> Watched:
    said = AIMessage(last) if isinstance(last, str) else last
    replies = asked_alone("look", ({"q": i} for i in range(6))) if script is None else script
    return Watched(script=list(replies), asked=[], requests=[], last=said)


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


def agent_of(model: Any, guard: Guard, *middleware: Any, **settings: Any) -> Any:
    ours = GuardMiddleware(guard, last_answer=True)
    return create_agent(
        model,
        [tool(look)],
        middleware=[ours, *middleware],
        checkpointer=InMemorySaver(),
        **settings,
    )


def played(agent: Any, mode: str = "invoke", **config: Any) -> Played:
    return play(agent, {"configurable": {"thread_id": "t"}, **config}, mode)


def gathered(stop: Stop | None) -> list[tuple[str | None, str, Any]]:
    assert stop is not None
    return [(each.call_id, each.tool, each.result) for each in stop.gathered]


@pytest.mark.parametrize("mode", MODES)
class TestK16:
    """Nothing gathered is lost."""

    def test_one_further_request_without_tools_gives_the_output(self, mode: str) -> None:
        model = watched()
        end = played(agent_of(model, Guard(Policy(max_calls=3))), mode)
        assert end.stop is not None
        assert (end.stop.reason, end.stop.limit) == ("ceiling", 3)
        assert gathered(end.stop) == GATHERED
        assert len(model.requests) == 5
        assert len(model.bare) == 1
        assert end.stop.text in model.bare[0][0].text
        assert end.saved[-1].text == ANSWER
        last = stop_of(end.saved[-1])
        assert last is not None
        assert gathered(last) == GATHERED
        assert end.unanswered == []
        # The instruction was the request's alone.
        assert {message.type for message in end.saved} == {"human", "ai", "tool"}
        assert len(RUNS) == 0

    def test_a_request_that_fails_leaves_the_results(self, mode: str) -> None:
        model = watched(RuntimeError("the provider is down"))
        end = played(agent_of(model, Guard(Policy(max_calls=3))), mode)
        assert end.raised is None
        assert gathered(end.stop) == GATHERED
        assert len(model.bare) == 1
        assert end.stop is not None
        assert end.saved[-1].text == end.stop.text
        assert end.unanswered == []

    def test_a_call_in_it_is_not_executed(self, mode: str) -> None:
        ran: list[int] = []

        @tool
        def look(q: int) -> str:
            """Look."""
            ran.append(q)
            return f"found {q}"

        last = AIMessage(
            [{"type": "text", "text": ANSWER}, {"type": "tool_use", "id": "x", "name": "look"}],
            tool_calls=[asking("look", {"q": 9}, "x")],
            id="last",
        )
        model = watched(last)
        agent = create_agent(
            model,
            [look],
            middleware=[GuardMiddleware(Guard(Policy(max_calls=3)), last_answer=True)],
            checkpointer=InMemorySaver(),
        )
        end = played(agent, mode)
        assert ran == [0, 1, 2]
        assert len(model.bare) == 1
        assert (end.saved[-1].content, end.saved[-1].id) == (ANSWER, "last")
        assert end.unanswered == []
        assert gathered(end.stop) == GATHERED

    def test_the_default_makes_none(self, mode: str) -> None:
        model = watched()
        middleware = [GuardMiddleware(Guard(Policy(max_calls=3)))]
        agent = create_agent(
            model, [tool(look)], middleware=middleware, checkpointer=InMemorySaver()
        )
        end = played(agent, mode)
        assert model.bare == []
        assert gathered(end.stop) == GATHERED


@pytest.mark.parametrize(
    "last", [AIMessage(""), AIMessage("", tool_calls=[asking("look", {}, "x")])]
)
def test_an_answer_without_words_gets_those_of_the_stop(last: AIMessage) -> None:
    end = played(agent_of(watched(last), Guard(Policy(max_calls=3))))
    assert end.stop is not None
    assert end.saved[-1].text == end.stop.text
    assert end.unanswered == []


def test_what_the_model_says_of_its_answer_stays() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    last = AIMessage(ANSWER, response_metadata={"model_name": "m"}, usage_metadata=usage)
    end = played(agent_of(watched(last), Guard(Policy(max_calls=3))))
    said = end.saved[-1]
    assert isinstance(said, AIMessage)
    assert (said.response_metadata["model_name"], said.usage_metadata) == ("m", usage)


def test_the_next_turn_of_the_thread_is_as_any_other() -> None:
    guard, model = Guard(Policy(max_calls=3)), watched()
    agent = agent_of(model, guard)
    for turn in range(1, 3):
        end = played(agent)
        assert end.saved[-1].text == ANSWER
        assert len(model.bare) == turn
        assert gathered(end.stop) == GATHERED
    # What one turn was told is no instruction of the next.
    assert not any(isinstance(each, SystemMessage) for each in model.requests[5][0])


def test_a_run_that_ends_by_itself_is_asked_nothing_more() -> None:
    model = watched(script=asked_alone("look", ({"q": i} for i in range(2))))
    end = played(agent_of(model, Guard(Policy(max_calls=3))))
    assert end.stop is None
    assert (len(model.requests), model.bare) == (3, [])


def test_a_model_that_ignores_refusals_is_asked_once_more() -> None:
    model = watched(script=stubborn(lambda i: {"q": 1}).script)
    end = played(agent_of(model, Guard(Policy(max_repeats=1))))
    assert end.stop is not None
    assert end.stop.reason == "refusals"
    assert end.saved[-1].text == ANSWER
    assert len(model.bare) == 1


class Retrying(AgentMiddleware):
    """Asks a model that fails three times."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        for _ in range(2):
            with suppress(RuntimeError):
                return handler(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        for _ in range(2):
            with suppress(RuntimeError):
                return await handler(request)
        return await handler(request)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
class TestOtherMiddleware:
    """Whatever else wraps the model, one request reaches it."""

    def test_that_tries_again(self, mode: str) -> None:
        for order in (0, 1):
            model = watched(RuntimeError("down"))
            again = Retrying()
            ours = GuardMiddleware(Guard(Policy(max_calls=3)), last_answer=True)
            middleware: list[Any] = [ours, again] if order else [again, ours]
            agent = create_agent(
                model, [tool(look)], middleware=middleware, checkpointer=InMemorySaver()
            )
            end = played(agent, mode)
            assert len(model.bare) == 1
            assert gathered(end.stop) == GATHERED

    def test_that_asks_another_model(self, mode: str) -> None:
        model, other = watched(RuntimeError("down")), watched()
        guard = Guard(Policy(max_calls=3))
        end = played(agent_of(model, guard, ModelFallbackMiddleware(other)), mode)
        assert (len(model.bare), len(other.bare)) == (1, 0)
        assert gathered(end.stop) == GATHERED

    def test_that_shortens_the_history_first(self, mode: str) -> None:
        model = watched()
        brief = Scripted(script=[AIMessage("much was looked at")], asked=[])
        shorter = SummarizationMiddleware(brief, trigger=("messages", 9), keep=("messages", 2))
        end = played(agent_of(model, Guard(Policy(max_calls=3)), shorter), mode)
        assert (len(model.bare), len(brief.asked)) == (1, 1)
        assert end.saved[-1].text == ANSWER
        assert "much was looked at" in end.saved[0].text

    def test_that_would_go_on(self, mode: str) -> None:
        class Again(AgentMiddleware):
            def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
                return None if state["messages"][-1].tool_calls else {"jump_to": "model"}

            after_model.__can_jump_to__ = ["model"]  # type: ignore[attr-defined]

        model = watched()
        end = played(agent_of(model, Guard(Policy(max_calls=3)), Again()), mode)
        assert len(model.bare) == 1
        assert end.saved[-1].text == ANSWER
        assert end.stop is not None

    def test_of_the_same_guard(self, mode: str) -> None:
        model, guard = watched(), Guard(Policy(max_calls=3))
        second = GuardMiddleware(guard, last_answer=True, name="Again")
        end = played(agent_of(model, guard, second), mode, callbacks=[GuardCallbackHandler(guard)])
        assert len(model.bare) == 1
        assert end.saved[-1].text == ANSWER
        assert end.stop is not None
        assert model.bare[0][0].text == end.stop.text

    def test_of_another_guard_that_ended_the_run_too(self, mode: str) -> None:
        model, other = watched(), Guard(Policy(max_calls=3))
        guard = Guard(Policy(max_calls=3))
        end = played(agent_of(model, guard), mode, callbacks=[GuardCallbackHandler(other)])
        assert len(model.bare) <= 1
        assert end.raised is None
        assert gathered(end.stop) == GATHERED


class Found(BaseModel):
    """What was found."""

    count: int


def test_a_schema_is_not_asked_for_what_was_not_found() -> None:
    model = watched()
    end = played(agent_of(model, Guard(Policy(max_calls=3)), response_format=Found))
    assert len(model.bare) == 1
    assert end.saved[-1].text == ANSWER
    assert end.stop is not None


@pytest.mark.parametrize(
    "system",
    [None, "Be brief.", SystemMessage([{"type": "text", "text": "Be brief.", "cache": True}])],
)
def test_the_instruction_stands_after_those_of_the_agent(system: Any) -> None:
    model = watched()
    end = played(agent_of(model, Guard(Policy(max_calls=3)), system_prompt=system))
    assert end.stop is not None
    first, *others = model.bare[0]
    assert isinstance(first, SystemMessage)
    assert not any(isinstance(each, SystemMessage) for each in others)
    assert first.text.startswith("Be brief." if system else end.stop.text)
    assert first.text.endswith(end.stop.text)
    if isinstance(system, SystemMessage):
        assert first.content[0] == system.content[0]
        assert len(system.content) == 1


def test_settings_about_tools_go_with_them() -> None:
    class Settings(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            settings = {"parallel_tool_calls": False, "seed": 7}
            return handler(request.override(model_settings=settings, tool_choice="any"))

    model, guard = watched(), Guard(Policy(max_calls=3))
    ours = GuardMiddleware(guard, last_answer=True)
    create_agent(model, [tool(look)], middleware=[Settings(), ours]).invoke(USER)
    assert model.requests[-1][2] == {"seed": 7}
    assert instructed(None, "x").content == "x"


def nested(inner: Any, mode: str) -> Any:
    @tool
    def delegate(q: int) -> str:
        """Ask another agent."""
        return str(inner.invoke(USER)["messages"][-1].content)

    @tool("delegate")
    async def adelegate(q: int) -> str:
        """Ask another agent."""
        return str((await inner.ainvoke(USER))["messages"][-1].content)

    return delegate if mode == "invoke" else adelegate


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
class TestNested:
    """One run has one last answer, whoever ended it."""

    def test_the_outer_agent_gives_it(self, mode: str) -> None:
        guard = Guard(Policy(max_calls=4))
        ours = GuardMiddleware(guard, last_answer=True)
        inner_model, outer_model = (
            watched(),
            watched(script=asked_alone("delegate", ({"q": i} for i in range(6)))),
        )
        inner = create_agent(inner_model, [tool(look)], middleware=[ours])
        agent = create_agent(
            outer_model, [nested(inner, mode)], middleware=[ours], checkpointer=InMemorySaver()
        )
        end = played(agent, mode)
        assert (len(inner_model.bare), len(outer_model.bare)) == (0, 1)
        assert len(outer_model.requests) == 2
        assert end.saved[-1].text == ANSWER
        assert end.stop is not None
        assert end.stop.reason == "ceiling"
        assert end.unanswered == []

    def test_the_inner_agent_gives_it_where_no_other_would(self, mode: str) -> None:
        guard = Guard(Policy(max_calls=3))
        model = watched()
        inner = create_agent(
            model, [tool(look)], middleware=[GuardMiddleware(guard, last_answer=True)]
        )
        outer = watched(script=asked_alone("delegate", ({"q": i} for i in range(6))))
        agent = create_agent(outer, [nested(inner, mode)], checkpointer=InMemorySaver())
        end = played(agent, mode)
        assert (len(model.bare), len(outer.requests)) == (1, 1)
        assert isinstance(end.raised, RunStopped)
        assert end.saved[-1].text == ANSWER
        assert end.stop is not None

    def test_a_smaller_run_inside_has_its_own(self, mode: str) -> None:
        guard = Guard(Policy(max_calls=3))
        ours = GuardMiddleware(guard, last_answer=True)
        model = watched()
        inner = create_agent(model, [tool(look)], middleware=[ours])

        @tool
        def delegate(q: int) -> str:
            """Ask another agent."""
            with guard.within(run=f"inner {q}"):
                return str(inner.invoke(USER)["messages"][-1].content)

        script = asked_alone("delegate", ({"q": i} for i in range(2)))
        outer = watched(script=script)
        agent = create_agent(outer, [delegate], middleware=[ours], checkpointer=InMemorySaver())
        end = played(agent, mode)
        assert (len(model.bare), len(outer.bare)) == (2, 0)
        assert end.stop is None
        assert [each.text for each in end.saved if each.type == "tool"] == [ANSWER, ANSWER]

    def test_agents_one_after_the_other_give_one(self, mode: str) -> None:
        guard = Guard(Policy(max_calls=3))
        models = watched(), watched()
        graph = StateGraph(MessagesState)
        for name, model in zip("ab", models, strict=True):
            ours = GuardMiddleware(guard, last_answer=True)
            graph.add_node(name, create_agent(model, [tool(look)], middleware=[ours]))
        graph.add_edge(START, "a")
        graph.add_edge("a", "b")
        end = played(graph.compile(checkpointer=InMemorySaver()), mode)
        assert [len(model.bare) for model in models] == [1, 0]
        assert len(models[1].requests) == 0
        assert end.saved[-1].text == ANSWER
        assert end.stop is not None


def test_a_turn_in_which_nothing_was_asked_yet_is_given_none() -> None:
    guard, model = Guard(Policy(max_calls=3)), watched()
    agent = create_agent(model, [tool(look)], middleware=[GuardMiddleware(guard, last_answer=True)])
    with guard.within(run="r", turn="t"):
        assert agent.invoke(USER)["messages"][-1].text == ANSWER
        again = agent.invoke(USER)["messages"]
    assert isinstance(again[0], HumanMessage)
    assert len(again) == 2
    assert stop_of(again) is not None
    assert len(model.bare) == 1


def test_a_guard_that_fails_asks_nothing() -> None:
    store = FailingStore()
    store.fail()
    guard, model = Guard(store=store), watched()
    assert stop_of(played(agent_of(model, guard)).result) is not None
    assert model.requests == []


def test_many_runs_at_once_are_each_asked_once() -> None:
    model, guard = watched(), Guard(Policy(max_calls=3))
    agent = agent_of(model, guard)

    async def all_at_once() -> list[Any]:
        configs: list[Any] = [{"configurable": {"thread_id": str(i)}} for i in range(8)]
        return await asyncio.gather(*(agent.ainvoke(USER, config) for config in configs))

    ended = asyncio.run(all_at_once())
    assert [each["messages"][-1].text for each in ended] == [ANSWER] * 8
    assert len({stop.run for each in ended if (stop := stop_of(each))}) == 8
    assert len(model.bare) == 8
