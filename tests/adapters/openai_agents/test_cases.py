"""Cases from the field, through the Agents SDK: what is counted, what is refused, and what the model reads.

K16 is in test_last_answer.py, K17 in test_history.py, K20 in test_elsewhere.py, K26 in test_parallel.py, K27
and R118 in test_graph_shapes.py, K29 in test_invisible.py, R158 and R163 in test_mcp_servers.py.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections import Counter

import pytest
from agents import ModelSettings, RunConfig, RunContextWrapper

from lastcall import Guard, Policy, ToolPolicy
from lastcall_openai_agents import GuardHooks, guard_agent, instrument

from .playing import ENTRIES, MODES, Kept, agent_of, aplay, guarding, play, tools_of
from .scripted import call, script, stubborn

entries = pytest.mark.parametrize("entry", ENTRIES)
modes = pytest.mark.parametrize("mode", MODES)
crossed = pytest.mark.parametrize(
    ("entry", "mode"), [(entry, MODES[at % len(MODES)]) for at, entry in enumerate(ENTRIES)]
)
"""Every entry once, and every mode, where they make no difference to what is looked at."""

UNKNOWN = RunConfig(tool_not_found_behavior="return_error_to_model")


def looking(ran=None, name="look"):
    """A tool that finds something, and notes for what it was asked."""

    def look(q: int) -> str:
        """Look."""
        if ran is not None:
            ran.append(q)
        return f"found {q}"

    look.__name__ = name
    return look


def at_once(name, *many, ids="c"):
    return [call(name, {"q": q}, f"{ids}{i}") for i, q in enumerate(many)]


def one_by_one(name, *many, ids="c"):
    return [[each] for each in at_once(name, *many, ids=ids)]


def refused(played):
    """The ids of the calls that the guard answered."""
    return [call_id for call_id, said in played.outputs.items() if said.startswith("Stopped: ")]


class Box:
    """Differs in every call; whoever looks into it fails."""

    def looked(self, *_):
        raise TypeError("not to be looked into")

    __repr__ = __str__ = __iter__ = __len__ = __reduce_ex__ = model_dump = looked


@entries
@modes
def test_k06_the_context_is_not_an_argument(entry, mode):
    seen, events, box = [], [], Box()

    def look(context: RunContextWrapper[Box], q: int) -> str:
        """Look."""
        seen.append(context.context)
        return "found"

    guard = Guard(Policy(max_repeats=2), listeners=[events.append])
    model = script(*one_by_one("look", 1, 1, 1), "done")
    played = play(guard, entry, agent_of(guard, entry, model, look), mode, context=box)
    assert [each is box for each in seen] == [True, True]
    assert refused(played) == ["c2"]
    assert played.result.final_output == "done"
    assert {each.fingerprint for each in events if each.tool == "look"} != {None}


@crossed
@pytest.mark.parametrize("batch", ["first", "all-or-none"])
@pytest.mark.parametrize("coloured", ["sync", "async"])
def test_k10_eight_asked_six_allowed(entry, mode, batch, coloured):
    starts = []

    def look(q: int) -> str:
        """Look."""
        starts.append(q)
        return f"found {q}"

    async def alook(q: int) -> str:
        """Look."""
        await asyncio.sleep(0)
        return look(q)

    alook.__name__ = "look"
    for _ in range(3):
        starts.clear()
        guard = Guard(Policy(max_calls=6, batch=batch))
        body = look if coloured == "sync" else alook
        model = script(at_once("look", *range(8)), "done")
        played = play(guard, entry, agent_of(guard, entry, model, body), mode)
        # A function that is only decorated learns of its reply from the runner, like all others.
        assert len(starts) == (6 if batch == "first" else 0)
        assert len(refused(played)) == 8 - len(starts)
        assert not played.unanswered


@entries
@modes
class TestK11:
    """A model that ignores refusals is not asked for ever; a tool error is no refusal."""

    def test_a_for_ever(self, entry, mode):
        ran, guard = [], Guard(Policy(max_calls=10))
        agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking(ran))
        played = play(guard, entry, agent, mode)
        assert (len(ran), played.requests) == (10, 11)
        assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")

    def test_b_a_batch_that_fails(self, entry, mode):
        def look(q: int) -> str:
            """Look."""
            raise ValueError(f"no {q}")

        guard = Guard(Policy(max_calls=10))
        agent = agent_of(guard, entry, script(at_once("look", *range(4)), "done"), look)
        played = play(guard, entry, agent, mode)
        assert (played.stop, refused(played), played.requests) == (None, [], 2)

    def test_c_one_executed_and_one_refused(self, entry, mode):
        replies = [
            [call("look", {"q": i}, f"new{i}"), call("look", {"q": -1}, f"old{i}")]
            for i in range(5)
        ]
        guard = Guard(Policy(max_repeats=1))
        played = play(
            guard, entry, agent_of(guard, entry, script(*replies, "done"), looking()), mode
        )
        assert played.stop is None
        assert refused(played) == ["old1", "old2", "old3", "old4"]
        assert played.result.final_output == "done"


@crossed
def test_k12_a_warning_does_not_hide_the_limit(entry, mode):
    for order in itertools.islice(itertools.permutations(range(4)), 0, None, 6):
        ran, events = [], []
        policy = Policy(tools={"look": ToolPolicy(reads=True, alert_calls=2, max_calls=3)})
        guard = Guard(policy, listeners=[events.append])
        model = script(at_once("look", *order), "done")
        played = play(guard, entry, agent_of(guard, entry, model, looking(ran)), mode)
        assert (len(ran), len(refused(played))) == (3, 1)
        alerts = [(each.observed, each.limit) for each in events if each.kind == "alert"]
        assert alerts == [(2, 3)]


@entries
@modes
def test_k14_copies_share_the_counter(entry, mode):
    ran, guard = [], Guard(Policy(tools={"look": {"max_calls": 2}}))
    for _ in range(2):
        ran.clear()
        first = agent_of(guard, entry, None, looking(ran), name="first")
        second = agent_of(guard, entry, None, name="second")
        second.tools = [copy.copy(each) for each in first.tools]
        first.model = script(
            *one_by_one("look", 0, 1, ids="a"), call("transfer_to_second", {}, "h")
        )
        second.model = script(*one_by_one("look", 2, 3, ids="b"), "done")
        first.handoffs = [second]
        played = play(guard, entry, first, mode)
        assert ran == [0, 1]
        assert refused(played) == ["b0", "b1"]


@crossed
def test_k15_the_text_says_how_long_and_the_next_turn_begins_anew(entry, mode):
    ran, session = [], Kept()
    said = lambda stop: f"Stopped: {stop.tool}, this {stop.scope}"
    for words, text in ((None, "This turn is ended"), (said, "Stopped: look, this turn")):
        guard = Guard(Policy(max_calls=2), **({} if words is None else {"words": words}))
        agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking(ran))
        played = play(guard, entry, agent, mode, session=session)
        assert played.stop.scope == "turn"
        assert text in played.outputs["call-2"]
        agent.model = script(call("look", {"q": 1}, "again"), "done")
        ran.clear()
        played = play(guard, entry, agent, mode, session=session)
        assert (ran, played.stop) == ([1], None)
        asyncio.run(session.clear_session())


@entries
def test_k21_neighbours_do_not_mix(entry):
    async def played():
        ran, guard = Counter(), Guard(Policy(max_repeats=2))

        async def look(context: RunContextWrapper[dict[str, str]], q: int) -> str:
            """Look."""
            await asyncio.sleep(0)
            ran[context.context["user_id"]] += 1
            return "found"

        async def turn(agent, user, times, **options):
            agent = agent.clone(model=script(*one_by_one("look", *[1] * times), "done"))
            options |= {"context": {"user_id": user}, "session": Kept(user)}
            return await aplay(agent, "run", "hi", **options)

        agent = agent_of(guard, entry, None, look)
        with guarding(entry, guard, agent, {}) as (guarded, more):
            a, b = await asyncio.gather(
                turn(guarded, "a", 3, **more), turn(guarded, "b", 1, **more)
            )
        return ran, refused(a), refused(b), len(guard.store)

    for _ in range(20):
        assert asyncio.run(played()) == ({"a": 2, "b": 1}, ["c2"], [], 0)


@crossed
@pytest.mark.parametrize(
    ("code", "ran", "reason"),
    [(code, 1, "terminal") for code in (400, 401, 403, 404, 422)]
    + [(code, 3, "failing") for code in (408, 429, 500, 503)],
)
@pytest.mark.parametrize("where", ["itself", "response"])
def test_k30_which_statuses_are_final(entry, mode, code, ran, reason, where):
    done, events = [], []

    class Told(Exception):
        pass

    def order(q: int) -> str:
        """Order."""
        done.append(q)
        error = Told("not today")
        at = error if where == "itself" else type("Response", (), {"headers": {}})()
        at.status_code = code
        error.response = at
        raise error

    guard = Guard(listeners=[events.append])
    played = play(
        guard, entry, agent_of(guard, entry, stubborn("order", lambda i: {"q": 1}), order), mode
    )
    assert len(done) == ran
    first = next(each for each in events if each.kind == "refused" and each.tool == "order")
    assert (first.reason, first.status) == (reason, code)
    assert played.stop is not None


# What the model reads.

FAILURES = {
    "unset": {},
    "custom": {"failure_error_function": lambda ctx, error: f"{error}. Please try again."},
    "again": {"failure_error_function": lambda ctx, error: "Please try again later."},
    "raises": {"failure_error_function": None},
}


class Missing(Exception):
    status_code = 404


@entries
@modes
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("strict", [False, True])
def test_the_model_never_reads_try_again_after_a_final_status(entry, mode, failure, strict):
    def order(q: int) -> str:
        """Order."""
        raise Missing(f"no order {q}")

    guard = Guard(Policy.strict() if strict else None)
    (tool,) = tools_of([order], guard, entry, **FAILURES[failure])
    agent = agent_of(guard, "made", stubborn("order", lambda i: {"q": i}))
    agent.tools = [tool]
    played = play(guard, entry, agent, mode)
    if failure == "raises":
        # Meant for the caller of the run, whom it reaches.
        assert isinstance(played.error.__cause__ or played.error, Missing) or played.stop
        assert played.outputs == {}
        return
    assert played.stop is not None
    assert played.stop.status == 404
    told = list(played.outputs.values())
    assert told
    for said in told:
        assert said.startswith("Stopped: order")
        assert "try again" not in said.lower()


@crossed
def test_r166_r071_a_stop_is_never_empty_and_says_whose_it_is(entry, mode):
    guard = Guard(Policy(max_calls=1))
    agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking())
    played = play(guard, entry, agent, mode)
    assert played.outputs["call-1"].startswith("Stopped: look")
    assert played.stop.text.startswith("Stopped: look")
    assert (played.stop.reason, played.stop.tool, played.stop.scope) == ("ceiling", "look", "turn")


# What is counted.


@entries
@modes
def test_r060_the_body_runs_once_a_call(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=9))
    model = script(at_once("look", 1, 2), call("look", {"q": 3}, "d"), "done")
    play(guard, entry, agent_of(guard, entry, model, looking(ran)), mode)
    assert sorted(ran) == [1, 2, 3]


@crossed
def test_r062_r066_only_the_excess_is_refused_and_the_next_turn_is_new(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=4))
    replies = [at_once("look", *range(3), ids="a"), at_once("look", *range(3, 6), ids="b")]
    agent = agent_of(guard, entry, None, looking(ran))
    for _ in range(2):
        ran.clear()
        agent.model = script(*replies, "done")
        played = play(guard, entry, agent, mode)
        assert (len(ran), len(refused(played))) == (4, 2)
        assert not played.unanswered


@crossed
def test_r065_one_guard_enforces_a_map_of_ten_limits(entry, mode):
    ran, names = Counter(), [f"tool_{i}" for i in range(10)]

    def body(name):
        def tool(q: int) -> str:
            """Do."""
            ran[name] += 1
            return f"done {q}"

        tool.__name__ = name
        return tool

    guard = Guard(Policy(tools={name: {"max_calls": i + 1} for i, name in enumerate(names)}))
    replies = [
        [call(name, {"q": q}, f"{name}-{q}") for name in names if q <= int(name[5:]) + 1]
        for q in range(11)
    ]
    agent = agent_of(guard, entry, script(*replies, "done"), *map(body, names))
    played = play(guard, entry, agent, mode)
    assert ran == {name: i + 1 for i, name in enumerate(names)}
    assert len(refused(played)) == 10


@crossed
def test_r018_r019_r067_the_lower_of_two_limits_holds_though_a_call_is_forced(entry, mode):
    for limit, turns in ((5, 100), (100, 5)):
        ran, guard = [], Guard(Policy(max_calls=limit))
        forced = ModelSettings(tool_choice="required")
        agent = agent_of(
            guard, entry, stubborn("look", lambda i: {"q": i}), looking(ran), model_settings=forced
        )
        agent.reset_tool_choice = False
        played = play(guard, entry, agent, mode, max_turns=turns)
        assert len(ran) == 5
        # R080: the guard's stop comes first where its limit is the lower one.
        assert (played.stop is None) == (limit > turns)
        assert not played.unanswered


@crossed
def test_r008_r068_one_execution_and_the_model_may_still_answer(entry, mode):
    ran, guard = [], Guard(Policy(tools={"look": {"max_calls": 1}}))
    model = script(*one_by_one("look", 1, 2), "judged")
    played = play(guard, entry, agent_of(guard, entry, model, looking(ran)), mode)
    assert (ran, played.result.final_output) == ([1], "judged")


@entries
def test_r082_r103_hundreds_of_runs_leave_nothing_behind(entry):
    guard = Guard(Policy(max_calls=2))
    for _ in range(40):
        agent = agent_of(guard, entry, script(*one_by_one("look", 1, 2, 3), "done"), looking())
        play(guard, entry, agent)
    assert len(guard.store) == 0


# Calls that nobody can execute.


@crossed
def test_r031_arguments_that_are_no_json_run_nothing(entry, mode):
    ran, guard, events = [], None, []
    guard = Guard(listeners=[events.append])
    model = script(call("look", "{bad", "c0"), call("look", {"q": 1}, "c1"), "done")
    played = play(guard, entry, agent_of(guard, entry, model, looking(ran)), mode)
    assert ran == [1]
    assert played.result.final_output == "done"
    prints = [each.fingerprint for each in events if each.tool == "look"]
    assert len(set(prints)) == len(prints)


ROADS = ("guard_agent", "GuardHooks", "instrument")
"""Those that are asked about tools that there are not."""


@modes
@pytest.mark.parametrize("entry", ROADS)
def test_r032_an_unknown_tool_is_answered_and_bounded(entry, mode):
    events, own = [], []
    guard = Guard(listeners=[events.append])

    def formatter(args):
        own.append(args.kind)
        return f"There is no {args.tool_name}."

    config = RunConfig(
        tool_not_found_behavior="return_error_to_model", tool_error_formatter=formatter
    )
    replies = one_by_one("look", 0), one_by_one("nothing", *range(9), ids="n")
    model = script(*replies[0], *replies[1], "done")
    played = play(guard, entry, agent_of(guard, entry, model, looking()), mode, run_config=config)
    assert played.requests == 4
    assert (played.stop.reason, played.stop.observed) == ("malformed", 3)
    assert [each.result for each in played.stop.gathered] == ["found 0"]
    assert played.outputs["n0"] == played.outputs["n1"] == "There is no nothing."
    if entry != "GuardHooks":
        # Hooks decide before the SDK looks for the tool, and it answers such a call by itself.
        assert played.outputs["n2"].startswith("Stopped: nothing")
    assert config.tool_error_formatter is formatter
    assert {each.call_id for each in events if each.tool == "nothing"} >= {"n2"}


@modes
def test_r032_by_every_road_at_once_it_counts_once_also_in_a_nested_run(mode):
    guard = Guard()
    inner = agent_of(
        guard, "made", script(*one_by_one("nothing", 0, 1, ids="i"), "found"), name="in"
    )
    outer = agent_of(
        guard,
        "made",
        script(
            call("ask", {"input": "?"}, "o"),
            *one_by_one("nothing", *range(9), ids="n"),
            "done",
        ),
        name="out",
    )
    outer.tools = [inner.as_tool("ask", "Ask.")]
    undo = instrument(guard)
    try:
        played = play(
            guard,
            "made",
            guard_agent(outer, guard),
            mode,
            run_config=UNKNOWN,
            hooks=GuardHooks(guard),
        )
    finally:
        undo()
    assert played.stop.reason == "malformed"
    # Two inside, and the third in a row ends both.
    assert (played.requests, len(inner.model.calls)) == (2, 3)


@modes
@pytest.mark.parametrize("entry", ENTRIES)
def test_r032_by_default_the_sdk_ends_the_run_and_nothing_is_left(entry, mode):
    guard = Guard()
    model = script(*one_by_one("look", 1), *one_by_one("nothing", 1, ids="n"))
    played = play(guard, entry, agent_of(guard, entry, model, looking()), mode)
    assert "nothing not found" in str(played.error)
    assert played.stop is None
    assert len(guard.store) == 0


@modes
def test_a_permissive_guard_changes_nothing_about_an_unknown_tool(mode):
    def outputs(entry):
        guard = Guard(Policy.permissive())
        model = script(*one_by_one("nothing", *range(5)), "done")
        agent = agent_of(guard, entry, model, looking())
        return play(guard, entry, agent, mode, run_config=UNKNOWN).outputs

    plain = outputs("nobody")
    assert [outputs(entry) for entry in ROADS] == [plain] * 3
