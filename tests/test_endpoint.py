"""The strict endpoint of the adapters' tests: what it takes, what it refuses, how it answers. Asked by
OpenAI's own client, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from openai import (
    APIStatusError,
    AsyncOpenAI,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
)

from .adapters.endpoint import Ask, Endpoint, Reply, asks, fails, says

USER = {"role": "user", "content": "go"}
LOOK = {"name": "look", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOLS = [{"type": "function", "function": LOOK}]
TOOLS = [{"type": "function", "strict": False, **LOOK}]


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def client(served: Endpoint) -> Iterator[OpenAI]:
    with OpenAI(base_url=served.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(autouse=True)
def endpoint(served: Endpoint) -> Endpoint:
    """The endpoint, with nothing in it of another test."""
    served.forget()
    return served


def chat(client: OpenAI, *messages: Any, **more: Any) -> Any:
    given: Any = {"tools": CHAT_TOOLS, **more}
    return client.chat.completions.create(model="m", messages=list(messages), **given)


def respond(client: OpenAI, *items: Any, **more: Any) -> Any:
    given: Any = {"tools": TOOLS, **more}
    return client.responses.create(model="m", input=list(items), **given)


def call(*ids: str) -> dict[str, Any]:
    """A reply of Chat Completions with calls of these ids."""
    calls = [
        {"id": id_, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for id_ in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "found"}


def item(id_: str, **more: Any) -> dict[str, Any]:
    """A call among the items of the Responses API."""
    return {"type": "function_call", "call_id": id_, "name": "look", "arguments": "{}", **more}


def output(id_: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": "found"}


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": text}


OPEN = "did not have response messages: {}"
STRAY = "must be a response to a preceeding message"

REFUSED_BY_CHAT = {
    "an unanswered call": ([USER, call("a")], OPEN.format("a")),
    "one of two unanswered": ([USER, call("a", "b"), answer("b")], OPEN.format("a")),
    "an unanswered call long ago": ([USER, call("a"), USER, said("well"), USER], OPEN.format("a")),
    "an answer without its call": ([USER, answer("a")], STRAY),
    "an answer to another call": ([USER, call("a"), answer("b")], STRAY),
    "an answer after a user's word": ([USER, call("a"), USER, answer("a")], OPEN.format("a")),
    "a word among the answers": (
        [USER, call("a", "b"), answer("a"), said("wait"), answer("b")],
        OPEN.format("b"),
    ),
    "an instruction among the answers": (
        [USER, call("a", "b"), answer("a"), said("be brief", "system"), answer("b")],
        OPEN.format("b"),
    ),
    "a second answer": ([USER, call("a"), answer("a"), answer("a"), USER], STRAY),
    "a second answer later": ([USER, call("a"), answer("a"), said("so"), answer("a")], STRAY),
    "nothing at all": ([], "too short - 'messages'"),
    "a reply of nothing": ([USER, {"role": "assistant", "content": None}, USER], "got null"),
    "no calls, said as a list": ([USER, {**said("x"), "tool_calls": []}, USER], "too short"),
}

REFUSED_BY_RESPONSES = {
    "an unanswered call": ([USER, item("a")], "No tool output found for function call a"),
    "one of two unanswered": (
        [USER, item("a"), item("b"), output("b"), USER],
        "No tool output found for function call a",
    ),
    "an answer without its call": ([USER, output("a")], "No tool call found"),
    "a word among the answers": (
        [USER, item("a"), item("b"), output("a"), USER, output("b")],
        "No tool output found for function call b",
    ),
    "a second answer": ([USER, item("a"), output("a"), output("a")], "No tool call found"),
    "an item twice": (
        [USER, item("a", id="fc_1"), output("a"), item("b", id="fc_1"), output("b")],
        "Duplicate item found with id fc_1",
    ),
    "nothing at all": ([], "too short - 'input'"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", REFUSED_BY_CHAT)
def test_chat_completions_refuses(
    name: str, stream: bool, endpoint: Endpoint, client: OpenAI
) -> None:
    messages, why = REFUSED_BY_CHAT[name]
    with pytest.raises(BadRequestError, match=why) as refused:
        chat(client, *messages, stream=stream)
    assert refused.value.type == "invalid_request_error"
    assert [why in each for each in endpoint.refused] == [True]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", REFUSED_BY_RESPONSES)
def test_responses_refuses(name: str, stream: bool, endpoint: Endpoint, client: OpenAI) -> None:
    items, why = REFUSED_BY_RESPONSES[name]
    with pytest.raises(BadRequestError, match=why):
        respond(client, *items, stream=stream)
    assert [why in each for each in endpoint.refused] == [True]


def test_a_refusal_says_where_the_history_breaks(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as refused:
        chat(client, USER, call("a", "b"), answer("a"), USER)
    assert refused.value.param == "messages.[3].role"


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [said("be brief", "system"), USER],
        [USER, call("a", "b"), answer("b"), answer("a")],
        [USER, call("a"), answer("a"), call("b"), answer("b"), said("so"), USER],
        # A turn that was ended without a last word.
        [USER, call("a"), answer("a"), USER],
    ],
)
def test_chat_completions_takes_a_history_in_order(
    messages: list[Any], endpoint: Endpoint, client: OpenAI
) -> None:
    assert chat(client, *messages).choices[0].message.content == "done"
    assert endpoint.refused == []


@pytest.mark.parametrize(
    "items",
    [
        [USER],
        [USER, item("a"), item("b"), output("b"), output("a")],
        # All that the model made in a row is one reply, whatever stands where in it.
        [
            USER,
            {"type": "reasoning", "id": "rs_1", "summary": []},
            item("a"),
            said("so"),
            output("a"),
        ],
        [USER, item("a"), output("a"), said("so"), USER],
    ],
)
def test_responses_takes_a_history_in_order(
    items: list[Any], endpoint: Endpoint, client: OpenAI
) -> None:
    assert respond(client, *items).output_text == "done"
    assert endpoint.refused == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"tools": []}, "too short - 'tools'"),
        ({"tools": None, "tool_choice": "auto"}, "only allowed when 'tools' are specified"),
        ({"tools": None, "parallel_tool_calls": False}, "only allowed when 'tools' are specified"),
    ],
)
def test_what_is_said_of_tools_needs_tools(more: dict[str, Any], why: str, client: OpenAI) -> None:
    given = {name: value for name, value in more.items() if value is not None}
    with pytest.raises(BadRequestError, match=why):
        client.chat.completions.create(model="m", messages=[USER], **given)  # type: ignore[call-overload]


def test_a_name_that_no_tool_may_have_is_refused(client: OpenAI) -> None:
    reply = call("a")
    reply["tool_calls"][0]["function"]["name"] = "look up"
    with pytest.raises(BadRequestError, match="does not match pattern"):
        chat(client, USER, reply, answer("a"))


def test_a_history_that_the_provider_should_keep_is_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="keeps no history"):
        respond(client, USER, previous_response_id="resp_1")


def test_any_other_address_is_unknown(endpoint: Endpoint, client: OpenAI) -> None:
    with pytest.raises(NotFoundError):
        client.embeddings.create(model="m", input="x")
    assert endpoint.requests == []


SCRIPT = asks(("look", {"q": 1}), ("look", {"q": "zwei"}), text="Let me see.")


def told(message: Any) -> list[tuple[str, Any]]:
    return [(each.function.name, each.function.arguments) for each in message.tool_calls or ()]


def test_a_script_is_told_whole_and_streamed_alike_by_chat_completions(
    endpoint: Endpoint, client: OpenAI
) -> None:
    endpoint.on("go", SCRIPT)
    whole = chat(client, USER).choices[0]
    with client.chat.completions.stream(
        model="m",
        messages=[USER],  # type: ignore[list-item]
        tools=CHAT_TOOLS,  # type: ignore[arg-type]
        stream_options={"include_usage": True},
    ) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_completion()
    for choice in (whole, streamed.choices[0]):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me see."
        assert told(choice.message) == [("look", '{"q": 1}'), ("look", '{"q": "zwei"}')]
    assert kinds.count("content.delta") >= 2
    assert streamed.usage is not None
    # No call has the id of another, in whatever reply.
    calls = [*whole.message.tool_calls, *(streamed.choices[0].message.tool_calls or ())]
    assert len({each.id for each in calls}) == 4


def test_a_script_is_told_whole_and_streamed_alike_by_responses(
    endpoint: Endpoint, client: OpenAI
) -> None:
    endpoint.on("go", SCRIPT)
    whole = respond(client, USER)
    with client.responses.stream(model="m", input="go", tools=TOOLS) as stream:  # type: ignore[arg-type]
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    for response in (whole, streamed):
        assert response.status == "completed"
        assert response.output_text == "Let me see."
        calls = [(each.name, each.arguments) for each in response.output[1:]]
        assert calls == [("look", '{"q": 1}'), ("look", '{"q": "zwei"}')]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert kinds.count("response.output_item.done") == 3


def test_its_own_replies_are_taken_back(endpoint: Endpoint, client: OpenAI) -> None:
    endpoint.on("go", SCRIPT, asks(("look", {"q": 3})))
    items: list[Any] = [USER]
    while True:
        response = respond(client, *items)
        # What the SDKs send back are the items themselves, less what is unset.
        made = [each.model_dump(exclude_none=True) for each in response.output]
        items += made
        calls = [each["call_id"] for each in made if each["type"] == "function_call"]
        items += [output(id_) for id_ in calls]
        if not calls:
            break
    assert [each.get("type") for each in items].count("function_call") == 3
    assert response.output_text == "done"
    assert len(endpoint.requests) == 3
    assert endpoint.refused == []


def test_the_replies_since_the_users_last_word_tell_which_is_next(
    endpoint: Endpoint, client: OpenAI
) -> None:
    endpoint.on("go", says("first"), says("second"))
    endpoint.on("stop", says("stopped"))

    def next_of(*messages: Any) -> Any:
        return chat(client, *messages).choices[0].message.content

    assert next_of(USER) == "first"
    assert next_of(USER, said("first")) == "second"
    assert next_of(USER, said("first"), said("second")) == "done"
    assert next_of(USER, said("first"), USER) == "first"
    assert next_of(USER, said("first"), said("stop", "user")) == "stopped"
    assert next_of(said("who?", "user")) == "done"


def test_nothing_is_asked_for_where_nothing_is_offered(endpoint: Endpoint, client: OpenAI) -> None:
    endpoint.on("go", SCRIPT)
    bare = client.chat.completions.create(model="m", messages=[USER])  # type: ignore[list-item]
    assert bare.choices[0].message.content == endpoint.bare.text
    assert bare.choices[0].message.tool_calls is None


def test_a_script_may_have_errors_and_arguments_that_are_no_json(
    endpoint: Endpoint, client: OpenAI
) -> None:
    endpoint.on("go", fails(500))
    for ask in (chat, respond):
        with pytest.raises(InternalServerError):
            ask(client, USER)
    # The request was in order; what failed was its answer.
    assert endpoint.refused == []
    endpoint.on("go", Reply(calls=(Ask("look", "{bad", id="mine"),)))
    (made,) = chat(client, USER).choices[0].message.tool_calls
    assert (made.id, made.function.arguments) == ("mine", "{bad")


def test_every_request_is_kept(endpoint: Endpoint, client: OpenAI) -> None:
    chat(client, USER)
    with suppress(APIStatusError):
        chat(client, USER, call("a"))
    respond(client, USER)
    assert [len(each.history) for each in endpoint.requests] == [1, 2, 1]
    assert [each.fault is None for each in endpoint.requests] == [True, False, True]
    assert {each.tools for each in endpoint.requests} == {("look",)}
    endpoint.forget()
    assert endpoint.requests == []


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "streamed"])
@pytest.mark.parametrize("made", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
def test_the_agents_sdk_gets_along_with_it(made: Any, streamed: bool, endpoint: Endpoint) -> None:
    endpoint.on("go", SCRIPT, asks(("look", {"q": 3})))
    ran: list[int] = []

    @function_tool
    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    async def turns() -> list[str]:
        async with AsyncOpenAI(base_url=endpoint.url, api_key="none", max_retries=0) as client:
            model = made(model="m", openai_client=client)
            agent = Agent("clerk", tools=[look], model=model)
            items: list[Any] = []
            outputs = []
            for text in ("go", "thanks"):
                items.append(said(text, "user"))
                quiet = RunConfig(tracing_disabled=True)
                if streamed:
                    result: Any = Runner.run_streamed(agent, items, run_config=quiet)
                    async for _ in result.stream_events():
                        pass
                else:
                    result = await Runner.run(agent, items, run_config=quiet)
                items = result.to_input_list()
                outputs.append(result.final_output)
            return outputs

    assert asyncio.run(turns()) == ["done", "done"]
    assert ran == [1, 3]
    assert endpoint.refused == []


def test_many_clients_at_once_are_answered_each_by_its_own(endpoint: Endpoint) -> None:
    for i in range(8):
        endpoint.on(f"go {i}", asks(("look", {"q": i})))

    async def every() -> list[Any]:
        async with AsyncOpenAI(base_url=endpoint.url, api_key="none", max_retries=0) as client:
            asked = (
                client.chat.completions.create(
                    model="m",
                    messages=[said(f"go {i}", "user")],  # type: ignore[list-item]
                    tools=CHAT_TOOLS,  # type: ignore[arg-type]
                )
                for i in range(8)
            )
            return await asyncio.gather(*asked)

    given = [told(each.choices[0].message)[0][1] for each in asyncio.run(every())]
    assert [json.loads(each)["q"] for each in given] == list(range(8))
