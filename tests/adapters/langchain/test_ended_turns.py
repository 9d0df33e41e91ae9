"""A turn that a stop ended by an exception goes on being that turn, whoever resumes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_langchain import RunStopped
from lastcall_langchain.runs import RUNS

from .playing import MODES, WAYS, build, config_of, play
from .scripted import asked_alone, scripted


def looking(ran: list[int]) -> Callable[[int], str]:
    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    return look


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("entry", "kind"), [way for way in WAYS if way[0] != "middleware"])
def test_a_turn_that_was_ended_is_refused_when_it_is_resumed(
    entry: str, kind: str, mode: str
) -> None:
    ran: list[int] = []
    events = list[Event]()
    guard = Guard(Policy(max_calls=2), listeners=[events.append])
    model = scripted(*asked_alone("look", ({"q": i} for i in range(6))))
    agent, config = build(entry, kind, guard, model, looking(ran)), config_of(guard, entry)
    first = play(agent, config, mode)
    asked = len(model.asked)
    for _ in range(3):
        again = play(agent, config, mode, None)
        assert isinstance(again.raised, RunStopped)
        assert first.stop is not None
        assert again.stop is not None
        assert (again.stop.run, again.stop.reason) == (first.stop.run, first.stop.reason)
    assert (ran, len(model.asked)) == ([0, 1], asked)
    assert again.unanswered == []
    # A new message begins a new turn, and the other one is over.
    run = first.stop.run or ""
    new = play(agent, config, mode)
    assert ran == [0, 1] * 2
    assert new.stop is not None
    assert new.stop.run != run
    assert [each.run for each in events if each.kind == "finished"] == [run]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_turn_whose_limit_is_raised_after_its_end_goes_on(mode: str) -> None:
    ran: list[int] = []
    guard = Guard(Policy(max_calls=2))
    model = scripted(*asked_alone("look", ({"q": i} for i in range(3))))
    agent, config = (
        build("tools", "create_agent", guard, model, looking(ran)),
        config_of(guard, "tools"),
    )
    stop = play(agent, config, mode).stop
    assert stop is not None
    guard.raise_limit(stop.run or "", 5)
    played = play(agent, config, mode, None)
    assert played.raised is None
    assert played.saved[-1].text == "done"
    assert len(RUNS) == 0
    assert len(guard.store) == 0  # type: ignore[arg-type]


def test_what_waits_after_a_stop_is_given_up_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[int] = []
    monkeypatch.setattr("lastcall_langchain.runs.MOST_PAUSED", 2)
    events = list[Event]()
    guard = Guard(Policy(max_calls=1), listeners=[events.append])
    model = scripted(*asked_alone("look", ({"q": i} for i in range(4))))
    agent = build("tools", "create_agent", guard, model, looking(ran))
    stops = [play(agent, config_of(guard, "tools", f"t{i}")).stop for i in range(4)]
    runs = [stop.run for stop in stops if stop is not None]
    assert [each.run for each in events if each.kind == "finished"] == runs[:2]
    assert len(RUNS) == 2
