"""After every kind of stop the provider takes the next turn (I5, K17), from a session, from the list of a
result or from what an exception carries. The real client, over HTTP, against a strict endpoint."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    SQLiteSession,
)
from openai import AsyncOpenAI, BadRequestError, InternalServerError

from lastcall import Guard, Policy, Switch
from lastcall.rules import Refusals
from lastcall_openai_agents import RunStopped, guard_agent

from ..endpoint import Endpoint, Reply, asks, fails  # noqa: TID252 - a sibling folder
from .playing import ENTRIES, MODES, agent_of, play, tools_of
from .scripted import Played
from .test_requests import Few

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}

THANKS = {"role": "user", "content": "thanks"}

UNKNOWN = RunConfig(tool_not_found_behavior="return_error_to_model")
"""Without it the SDK itself ends a run in which a tool is asked for that there is not."""


class Provider(NamedTuple):
    endpoint: Endpoint
    client: AsyncOpenAI

    def model(self, api: str) -> Any:
        return MODELS[api]("m", self.client)


def provided(keeps: bool) -> Iterator[Provider]:
    with Endpoint(keeps=keeps) as endpoint:
        client = AsyncOpenAI(base_url=endpoint.url, api_key="none", max_retries=0)
        yield Provider(endpoint, client)


@pytest.fixture(scope="module")
def served() -> Iterator[Provider]:
    yield from provided(keeps=False)


@pytest.fixture
def provider(served: Provider) -> Provider:
    """The strict provider, without scripts; a client costs more than a test, so all share one."""
    served.endpoint.forget()
    served.endpoint.on("thanks", asks(("look", {"q": 7})))
    return served


def each(name: str, *many: int) -> tuple[Reply, ...]:
    """Replies with one call each."""
    return tuple(asks((name, {"q": q})) for q in many)


def at_once(name: str, *many: int) -> Reply:
    """One reply with a call for each."""
    return asks(*((name, {"q": q}) for q in many), text="Let me see.")


class Kind(NamedTuple):
    """A kind of stop: what leads to it, and what comes of it."""

    policy: Policy
    replies: tuple[Reply, ...]
    reason: str | None = None
    """For which the run ends; None when the model comes to an end by itself."""
    unasked: tuple[str, ...] = ()
    """The entries that are not asked about what leads to it, so the model comes to an end."""


SECOND = ("transfer_to_second",)

TOOLS = ("guard_tools", "decorated")
"""Entries that guard tools, and are not asked about others or about what is no tool."""

KINDS = {
    "a call is refused": Kind(Policy(max_repeats=1), each("look", 1, 1, 2)),
    "a tool is closed": Kind(Policy(), (*each("order", 1, 2, 3, 4), *each("look", 1))),
    "an answer is final": Kind(
        Policy(), (asks(("order", {"q": 1}), ("look", {"q": 1})), *each("look", 2))
    ),
    "the turn ends": Kind(Policy(max_calls=3), each("look", *range(9)), "ceiling"),
    "it ends within a reply": Kind(
        Policy(max_calls=3), (at_once("look", 1, 2), at_once("look", 3, 4, 5, 6)), "ceiling"
    ),
    "a reply is too large": Kind(
        Policy(max_calls=3, batch="all-or-none"),
        (*each("look", 1), at_once("look", 2, 3, 4)),
        "ceiling",
    ),
    "the run ends": Kind(Policy(max_repeats=1), each("look", *[1] * 9), "refusals"),
    "a final answer ends the turn": Kind(Policy.strict(), each("order", *range(9)), "terminal"),
    "it does so beside others": Kind(
        Policy.strict(),
        (asks(("order", {"q": 1}), ("look", {"q": 1})), *each("look", 2)),
        "terminal",
    ),
    "calls are malformed": Kind(
        Policy(), (asks(("look", "{bad")),) * 9, "malformed", ("decorated",)
    ),
    "there is no such tool": Kind(Policy(), each("nothing", *range(9)), "malformed", TOOLS),
    "a nested agent ends its parent": Kind(
        Policy(max_calls=4),
        tuple(asks(("delegate", {"input": f"inside {n}"})) for n in range(9)),
        "ceiling",
    ),
    "a hand-over is asked for beside the last call": Kind(
        Policy(max_calls=1), (asks(("look", {"q": 1}), ("look", {"q": 2}), SECOND),), "ceiling"
    ),
    "a hand-over comes too late": Kind(
        Policy(max_calls=1), (*each("look", 1), asks(SECOND)), "ceiling", TOOLS
    ),
    "no further request may be made": Kind(
        Policy(rules=[Refusals(), Few(2)]), each("look", *range(9)), "requests"
    ),
}


NAMES = ("alone", "beside others", "nested")


class Talk:
    """A conversation with one agent, guarded through one entry, that has two tools: one finds something,
    and one is told 422 whatever it asks for. It leads to another agent, and may ask a third."""

    def __init__(
        self, provider: Provider, guard: Guard, entry: str, mode: str, api: str = "responses"
    ) -> None:
        self.provider, self.guard, self.entry, self.mode = provider, guard, entry, mode
        self.ran: list[tuple[str, int]] = []
        self.meanwhile: Callable[[], object] = lambda: None
        """What somebody else does as soon as a tool is at work."""
        self.session = SQLiteSession("s", ":memory:")
        model = provider.model(api)
        inner, second = (self.made(model, name) for name in ("inner", "second"))
        (delegate,) = tools_of([inner.as_tool("delegate", "Ask another agent.")], guard, entry)
        self.agent = self.made(model, "first", delegate)
        self.agent.handoffs = [second]

    def made(self, model: Any, name: str, *tools: Any) -> Agent[Any]:
        def look(q: int) -> str:
            """Look."""
            self.ran.append(("look", q))
            self.meanwhile()
            return f"found {q}"

        def order(q: int) -> dict[str, Any]:
            """Look up an order."""
            self.ran.append(("order", q))
            return {"status_code": 422, "error": f"no such order {q}"}

        return agent_of(self.guard, self.entry, model, look, order, *tools, name=name)

    def say(self, given: Any = "go", **options: Any) -> Played:
        options.setdefault("session", self.session)
        options.setdefault("run_config", UNKNOWN)
        return play(self.guard, self.entry, self.agent, self.mode, given, **options)


def left(played: Played) -> list[Any]:
    """The history that a turn leaves to who keeps it himself."""
    if played.error is None:
        return list(played.result.to_input_list())
    data = played.error.run_data  # type: ignore[attr-defined]
    began = [{"role": "user", "content": data.input}] if isinstance(data.input, str) else data.input
    return [*began, *(item.to_input_item() for item in data.new_items)]


def nothing_removed(provider: Provider) -> bool:
    """Whether each request of the first turn has all that the one before it had, word for word."""
    sent = [request.history for request in provider.endpoint.requests]
    sent = [[item for item in each if item.get("role") != "system"] for each in sent]
    sent = [each for each in sent if each[0]["content"] == "go"]
    return all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(sent))


def accepted(talk: Talk, first: Played) -> None:
    """Check that the provider takes the turn after *first*, whoever kept the history."""
    assert not first.unanswered
    assert first.session[1:] == left(first)[1:]
    after = [
        talk.say("thanks"),
        talk.say([*left(first), THANKS], session=None),
    ]
    assert talk.provider.endpoint.refused == []
    for each in after:
        assert (each.error, each.stop) == (None, None)
        assert each.result.final_output == "done"


def rounds(names: Iterable[str], others: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Each of *names* through every entry, either of them in every mode and with each of *others*; all
    that there is would take minutes."""
    return [
        (name, entry, MODES[(at + nth) % len(MODES)], others[(at + nth) % len(others)])
        for at, name in enumerate(names)
        for nth, entry in enumerate(ENTRIES)
    ]


@pytest.mark.parametrize(("name", "entry", "mode", "api"), rounds(KINDS, ["responses", "chat"]))
def test_the_next_turn_is_accepted_when(name, entry, mode, api, provider):
    kind = KINDS[name]
    provider.endpoint.on("go", *kind.replies)
    for n in range(9):
        provider.endpoint.on(f"inside {n}", *each("look", *range(9)))
    talk = Talk(provider, Guard(kind.policy), entry, mode, api)
    first = talk.say()
    assert (first.stop and first.stop.reason) == (None if entry in kind.unasked else kind.reason)
    # Where an agent is guarded, its run ends with a result.
    assert entry != "guard_agent" or first.error is None
    assert nothing_removed(provider)
    accepted(talk, first)


@pytest.mark.parametrize(
    ("name", "entry", "mode", "api"),
    rounds(NAMES, ["responses", "chat"]),
)
def test_the_next_turn_is_accepted_when_a_switch_was_set(
    name, entry, mode, api, provider, tmp_path
):
    # Whether the calls of one reply begin before it is set is anybody's guess.
    endpoint, nested = provider.endpoint, asks(("delegate", {"input": "inside"}))
    endpoint.on("go", *(each("look", 1, 2), (at_once("look", 1, 2),), (nested,))[NAMES.index(name)])
    endpoint.on("inside", *each("look", 1, 2))
    switch = Switch(tmp_path / "switch.json", ttl=0)
    talk = Talk(provider, Guard(switch=switch), entry, mode, api)
    talk.meanwhile = partial(switch.kill, all=True)
    first = talk.say()
    asked = len(endpoint.requests)
    assert (first.stop.reason, first.stop.scope) == ("kill", "all")
    assert asked == (2 if name == "nested" else 1)
    again = talk.say("thanks", session=None)
    # Who guards tools is not asked before the first call.
    assert again.stop.reason == "kill"
    assert len(talk.ran) <= 2
    switch.revive(all=True)
    talk.meanwhile = lambda: None
    accepted(talk, first)


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fallen", [False, True], ids=["answered", "fallen"])
def test_the_next_turn_is_accepted_when_a_last_answer_was_asked_for(fallen, mode, api, provider):
    endpoint = provider.endpoint
    endpoint.on("go", *each("look", *range(9)))
    if fallen:
        endpoint.bare = fails(500)
    guard = Guard(Policy(max_calls=3))
    talk = Talk(provider, guard, "guard_agent", mode, api)
    talk.agent = guard_agent(talk.agent, guard, last_answer=True)
    first = talk.say()
    assert [bool(request.tools) for request in endpoint.requests] == [True] * 4 + [False]
    assert first.stop.reason == "ceiling"
    assert [each.result for each in first.stop.gathered] == ["found 0", "found 1", "found 2"]
    if fallen:
        assert isinstance(first.error, RunStopped)
        assert isinstance(first.error.__cause__, InternalServerError)
    else:
        assert first.result.final_output == endpoint.bare.text
    assert nothing_removed(provider)
    accepted(talk, first)


# Histories that the provider keeps. It knows the calls of the last reply, and not yet their answers.


@pytest.fixture(scope="module")
def keeping_served() -> Iterator[Provider]:
    yield from provided(keeps=True)


@pytest.fixture
def keeping(keeping_served: Provider) -> Provider:
    """A provider that keeps histories, without scripts."""
    keeping_served.endpoint.forget()
    keeping_served.endpoint.on("thanks", asks(("look", {"q": 7})))
    return keeping_served


class Kept:
    """How a conversation goes on that the provider keeps: by its last response, or by its own id."""

    def __init__(self, keeping: Provider, how: str) -> None:
        self.how = how
        self.id = ""
        if how == "conversation_id":
            _, _, made = keeping.endpoint.answered("/v1/conversations", {})
            self.id = json.loads(made)["id"]

    @property
    def first(self) -> dict[str, Any]:
        return {self.how: self.id} if self.id else {"auto_previous_response_id": True}

    def after(self, played: Played) -> dict[str, Any]:
        return {self.how: self.id or data_of(played).raw_responses[-1].response_id}


HOWS = ("previous_response_id", "conversation_id")

OPEN = (
    "the turn ends",
    "it ends within a reply",
    "a hand-over is asked for beside the last call",
    "no further request may be made",
)
CLOSED = ("a call is refused", "a tool is closed", "an answer is final")


def data_of(played: Played) -> Any:
    """What a turn has brought, whether it ended with a result or with an exception."""
    return played.result if played.error is None else played.error.run_data  # type: ignore[attr-defined]


def untold(played: Played) -> list[Any]:
    """The answers to the calls of the last reply, as docs/openai-agents.md finds them."""
    data = data_of(played)
    asked = {getattr(item, "call_id", None) for item in data.raw_responses[-1].output}
    items = [item.to_input_item() for item in data.new_items]
    answers = [item for item in items if str(item.get("type")).endswith("_output")]
    return [item for item in answers if item["call_id"] in asked]


@pytest.mark.parametrize(("name", "entry", "mode", "how"), rounds(OPEN, HOWS))
def test_a_provider_that_keeps_the_history_has_to_be_told_the_last_answers(
    name, entry, mode, how, keeping
):
    kind, endpoint = KINDS[name], keeping.endpoint
    endpoint.on("go", *kind.replies)
    talk, kept = Talk(keeping, Guard(kind.policy), entry, mode), Kept(keeping, how)
    talk.session = None
    first = talk.say(**kept.first)
    assert first.stop.reason == kind.reason
    assert endpoint.refused == []
    # The next turn alone is refused, as after any run of the SDK's that ends with its tools.
    alone = talk.say("thanks", **kept.after(first))
    assert isinstance(alone.error, BadRequestError)
    assert endpoint.refused[0].startswith("No tool output found for function call")
    after = talk.say([*untold(first), THANKS], **kept.after(first))
    assert (after.error, after.stop, after.result.final_output) == (None, None, "done")
    # And the turn after that is as any other.
    again = talk.say("thanks", **kept.after(after))
    assert (again.error, again.stop) == (None, None)
    assert len(endpoint.refused) == 1


@pytest.mark.parametrize(("name", "entry", "mode", "how"), rounds(CLOSED, HOWS))
def test_it_has_been_told_where_the_model_came_to_an_end(name, entry, mode, how, keeping):
    kind, endpoint = KINDS[name], keeping.endpoint
    endpoint.on("go", *kind.replies)
    talk, kept = Talk(keeping, Guard(kind.policy), entry, mode), Kept(keeping, how)
    talk.session = None
    first = talk.say(**kept.first)
    after = talk.say("thanks", **kept.after(first))
    assert (after.error, after.stop, after.result.final_output) == (None, None, "done")
    assert endpoint.refused == []


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fallen", [False, True], ids=["answered", "fallen"])
def test_it_is_told_with_the_request_for_a_last_answer(fallen, mode, how, keeping):
    endpoint, guard = keeping.endpoint, Guard(Policy(max_calls=3))
    endpoint.on("go", *each("look", *range(9)))
    if fallen:
        endpoint.bare = fails(500)
    talk, kept = Talk(keeping, guard, "guard_agent", mode), Kept(keeping, how)
    talk.agent, talk.session = guard_agent(talk.agent, guard, last_answer=True), None
    first = talk.say(**kept.first)
    assert first.stop.reason == "ceiling"
    # Where it failed, nothing was told by it.
    given = [*untold(first), THANKS] if fallen else "thanks"
    after = talk.say(given, **kept.after(first))
    assert (after.error, after.stop, after.result.final_output) == (None, None, "done")
    assert endpoint.refused == []
