"""A run recorded from each framework, replayed, gives the identical list of stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lastcall import Guard, Policy
from lastcall.recording import Recorder
from lastcall.replay import Replayer
from lastcall.transcripts import Transcript, find, read


class Stops:
    """What the guard said live, in the words of replay."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, str, bool]] = []
        self._numbers: dict[str | None, int] = {}

    def __call__(self, event: Any) -> None:
        pass

    def decided(self, call: Any, stops: Any, now: float) -> None:
        if call.kind != "model":
            run = call.where.run
            self._numbers[run] = self._numbers.get(run, -1) + 1
            call.mark(self, self._numbers[run])
            self._tell(call, stops, refused=True)

    def settled(self, call: Any, outcome: Any, stops: Any, now: float) -> None:
        if call.kind != "model":
            self._tell(call, stops, refused=False)

    def _tell(self, call: Any, stops: Any, *, refused: bool) -> None:
        if stops:
            stop = next((each for each in stops if each.ends_run), stops[0])
            self.told.append((call.marked(self), stop.reason, stop.scope, refused))


def replayed(folder: Path, policy: Policy) -> list[tuple[int, str, str, bool]]:
    replayer, told = Replayer(policy), []
    for path in find([folder]):
        for found in read(path):
            assert isinstance(found, Transcript), found
            done = replayer.replay(found)
            told += [(each.index, each.reason, each.scope, each.refused) for each in done.stops]
    return told


def rejected(due: str) -> dict[str, Any]:
    """Remind."""
    return {"status": 422, "error": {"message": f"{due!r} is not a date"}}


def found(due: str) -> str:
    """Look."""
    return "nothing new"


async def busy(due: str) -> dict[str, Any]:
    """Ask."""
    return {"status_code": 503, "error": "busy"}


NIGHTS = {
    "422 with other dates": (rejected, lambda i: {"due": f"2026-02-{i % 4}"}),
    "422 again and again": (rejected, lambda i: {"due": "soon"}),
    "nothing new": (found, lambda i: {"due": "x"}),
    "busy": (busy, lambda i: {"due": f"{i % 2}"}),
}
POLICIES = {
    "default": Policy(),
    "strict": Policy.strict(),
    "few": Policy(max_calls=5, batch="all-or-none"),
}

nights = pytest.mark.parametrize("night", NIGHTS)
policies = pytest.mark.parametrize("policy", POLICIES)


@nights
@policies
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
def test_langchain(night: str, policy: str, entry: str, tmp_path: Path) -> None:
    from .langchain.playing import build, config_of, play
    from .langchain.scripted import asking, reply, scripted

    body, args = NIGHTS[night]
    stops, by = Stops(), POLICIES[policy]
    recorder = Recorder(tmp_path)
    guard = Guard(by, listeners=[stops, recorder])
    name = body.__name__
    pairs = [
        reply(asking(name, args(i), f"a{i}"), asking(name, args(i + 1), f"b{i}")) for i in range(20)
    ]
    agent = build(entry, "create_agent", guard, scripted(*pairs), body)
    mode = "ainvoke" if asyncio.iscoroutinefunction(body) else "invoke"
    play(agent, config_of(guard, entry), mode)
    recorder.close()
    assert stops.told
    assert replayed(tmp_path, by) == stops.told


@nights
@policies
@pytest.mark.parametrize(
    "entry", ["guard_agent", "guard_tools", "GuardHooks", "decorated", "instrument"]
)
def test_the_agents_sdk(night: str, policy: str, entry: str, tmp_path: Path) -> None:
    from .openai_agents.playing import agent_of, play
    from .openai_agents.scripted import call, script

    body, args = NIGHTS[night]
    stops, by = Stops(), POLICIES[policy]
    recorder = Recorder(tmp_path)
    guard = Guard(by, listeners=[stops, recorder])
    name = body.__name__
    pairs = [[call(name, args(i), f"a{i}"), call(name, args(i + 1), f"b{i}")] for i in range(20)]
    played = play(guard, entry, agent_of(guard, entry, script(*pairs, "done"), body))
    assert played.stop
    recorder.close()
    assert stops.told
    assert replayed(tmp_path, by) == stops.told
