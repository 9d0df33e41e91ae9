"""Cases from the field, through the Agents SDK: hooks, wrappers, faults of the guard, and errors of tools."""

from __future__ import annotations

import logging

import pytest
from agents import Agent, RunHooks, function_tool
from agents.tool_context import ToolContext

from lastcall import Guard, MemoryStore, Policy
from lastcall_openai_agents import stop_of

from .playing import ENTRIES, Kept, agent_of, play, tools_of
from .scripted import call, script, stubborn
from .test_cases import at_once, crossed, entries, looking, modes, one_by_one, refused


class Raising(RunHooks):
    """Fails once a tool is done."""

    async def on_tool_end(self, context, agent, tool, result):
        raise LookupError(f"no room for {result}")


@entries
@modes
def test_k37_r136_what_fails_after_a_result_is_seen_and_the_call_is_settled(entry, mode):
    def played(guard):
        ran = []
        by = entry if guard is not None else "nobody"
        guard, session = guard or Guard(), Kept()
        agent = agent_of(guard, by, script(*one_by_one("look", 1), "never"), looking(ran))
        found = play(guard, by, agent, mode, hooks=Raising(), session=session)
        return ran, repr(found.error), [each.get("type") for each in found.session]

    events = []
    guard = Guard(listeners=[events.append])
    guarded = played(guard)
    # The body ran once, the error reaches the caller, and what is saved is what the SDK saves.
    assert guarded == played(None)
    assert (guarded[0], "no room for found 1" in guarded[1]) == ([1], True)
    assert [each.outcome for each in events if each.tool == "look"] == ["ok"]
    assert len(guard.store) == 0


@crossed
def test_r124_an_event_sink_that_raises_changes_no_result(entry, mode, caplog):
    def sink(event):
        raise RuntimeError("the sink is full")

    texts = []
    for listeners in ([], [sink]):
        guard = Guard(Policy(max_calls=2), listeners=listeners)
        caplog.clear()
        with caplog.at_level(logging.ERROR, "lastcall"):
            model = stubborn("look", lambda i: {"q": i})
            played = play(guard, entry, agent_of(guard, entry, model, looking()), mode)
        texts.append(played.outputs)
        assert played.stop is not None
        logged = {(each.name, each.levelname) for each in caplog.records}
        assert logged == ({("lastcall", "ERROR")} if listeners else set())
    assert texts[0] == texts[1]


class Failing(MemoryStore):
    """Fails at one kind of step, once a model has been asked."""

    def __init__(self, at):
        super().__init__()
        self.at, self.on = at, False

    def update(self, keys, step, now):
        name = getattr(getattr(step, "func", step), "__name__", "")
        if self.on and name == self.at:
            raise ConnectionError("the store is down")
        return super().update(keys, step, now)


@crossed
@pytest.mark.parametrize("at", ["deciding", "observing"])
@pytest.mark.parametrize("on_fault", ["closed", "open"])
def test_r125_r095_a_fault_of_the_guard_is_contained_as_configured(
    entry, mode, at, on_fault, caplog
):
    ran, store = [], Failing(at)
    guard = Guard(Policy(on_fault=on_fault), store=store)

    class Telling(type(script())):
        def _next(self, asked):
            store.on = True
            return super()._next(asked)

    model = Telling(script(*one_by_one("look", 1), "done").replies)
    with caplog.at_level(logging.CRITICAL, "lastcall"):
        played = play(guard, entry, agent_of(guard, entry, model, looking(ran)), mode)
        store.on = False
    # Each call has exactly one answer, whatever becomes of the guard.
    assert list(played.outputs) == ["c0"]
    assert not played.unanswered
    assert ran == ([] if at == "deciding" and on_fault == "closed" else [1])
    if at == "deciding" and on_fault == "closed":
        assert played.outputs["c0"].startswith("Stopped: look")
        assert played.stop.reason == "fault"
    else:
        assert played.result.final_output == "done"


@crossed
def test_r133_the_sequence_of_decisions_is_the_same_every_time(entry, mode):
    told = []
    for _ in range(5):
        events = []
        guard = Guard(Policy(max_calls=4, max_repeats=1), listeners=[events.append])
        model = script(at_once("look", 1, 1, 2), at_once("look", 3, 3, 4, 5, ids="d"), "done")

        async def look(q: int) -> str:
            """Look."""
            return f"found {q}"

        play(guard, entry, agent_of(guard, entry, model, look), mode)
        told.append([(each.kind, each.call_id, each.reason) for each in events])
    assert told == told[:1] * 5


@entries
@modes
def test_r134_r135_the_stop_of_one_of_two_parallel_calls_reaches_the_caller(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=1))
    model = script(at_once("look", 1, 2), "never")
    played = play(guard, entry, agent_of(guard, entry, model, looking(ran)), mode)
    assert (len(ran), played.requests) == (1, 1)
    assert stop_of(played.error or played.result).reason == "ceiling"
    assert len(refused(played)) == 1


@crossed
def test_r211_what_is_said_of_a_tool_stays_with_its_own_calls(entry, mode):
    ran, guard = [], Guard(Policy(tools={"outer": {"max_calls": 1}}))
    inner_tool = looking(ran)
    inner = agent_of(guard, entry, script(at_once("look", 1, 2, 3), "looked"), inner_tool)
    tools = tools_of([inner.as_tool("outer", "Ask.")], guard, entry)
    agent = Agent("B", tools=tools, model=script(call("outer", {"input": "?"}), "done"))
    played = play(guard, entry, agent, mode)
    assert sorted(ran) == [1, 2, 3]
    assert (played.outputs["c1"], played.stop) == ("looked", None)


# E: errors of tools.


class Api(Exception):
    """An error as HTTP libraries raise it."""

    def __init__(self, status):
        super().__init__("not today")
        self.status_code = status


@entries
@modes
def test_r094_r165_each_call_of_a_batch_with_a_403_has_its_result_and_the_status_is_the_exceptions(
    entry, mode
):
    events = []
    guard = Guard(listeners=[events.append])

    def fetch(q: int) -> str:
        """Fetch."""
        if q == 1:
            raise Api(403)
        return f"fetched {q}"

    model = script(at_once("fetch", 1, 2), "done")
    played = play(guard, entry, agent_of(guard, entry, model, fetch), mode)
    assert list(played.outputs) == ["c0", "c1"]
    assert "HTTP 403" in played.outputs["c0"]
    assert played.outputs["c1"] == "fetched 2"
    # Of two equal tools a decorated function cannot tell which call it serves.
    assert {each.status for each in events if each.outcome == "error"} == {403}


@crossed
def test_r096_an_error_that_is_meant_for_the_caller_is_neither_hidden_nor_doubled(entry, mode):
    def played(by, guard):
        def fall(q: int) -> str:
            """Fall."""
            raise ValueError(f"fell over {q}")

        (tool,) = tools_of([fall], guard, by, failure_error_function=None)
        agent = Agent("A", tools=[tool], model=script(*one_by_one("fall", 1), "never"))
        found = play(guard, by, agent, mode)
        return type(found.error), str(found.error), repr(found.error.__cause__), found.session

    assert played(entry, Guard()) == played("nobody", Guard())


@crossed
def test_r161_an_exception_without_a_status_is_a_failure_and_nothing_more(entry, mode):
    events = []
    guard = Guard(listeners=[events.append])

    def fall(q: int) -> str:
        """Fall."""
        raise ValueError("no such thing")

    played = play(
        guard, entry, agent_of(guard, entry, script(*one_by_one("fall", 1), "done"), fall), mode
    )
    (seen,) = [each for each in events if each.tool == "fall"]
    assert (seen.kind, seen.outcome, seen.status) == ("attempt", "error", None)
    assert (played.stop, played.result.final_output) == (None, "done")


@crossed
def test_r162_failures_that_come_back_as_values_are_counted(entry, mode):
    guard = Guard(Policy.permissive())

    def ask(q: int) -> dict[str, str]:
        """Ask."""
        return {"error": f"nobody knows {q}"}

    model = script(*one_by_one("ask", *range(9)), "done")
    played = play(guard, entry, agent_of(guard, entry, model, ask), mode)
    (run,) = guard._reporter._ledger._finished
    assert guard.report(run).tools["ask"].failed == 9
    assert played.result.final_output == "done"


# K: the wrapper is invisible.


def plain(q: int, deep: bool = False) -> str:
    """Look for *q*.

    Args:
        q: What to look for.
        deep: Whether to look deeper.
    """
    return f"found {q}"


async def waiting(context: ToolContext[None], q: int) -> str:
    """Look for *q*."""
    return f"found {q}"


@pytest.mark.parametrize("body", [plain, waiting])
@pytest.mark.parametrize("entry", ENTRIES)
def test_k29_the_tool_is_the_same_to_the_model(entry, body):
    guard = Guard()
    bare, (tool,) = function_tool(body), tools_of([body], guard, entry)
    shown = ("name", "description", "params_json_schema", "strict_json_schema", "needs_approval")
    assert [getattr(tool, each) for each in shown] == [getattr(bare, each) for each in shown]
    agent = Agent("A", tools=[tool], model=script(call(body.__name__, {"q": 1}), "done"))
    assert play(guard, entry, agent).outputs == {"c1": "found 1"}
