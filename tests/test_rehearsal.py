"""A replay goes straight through the fold; what it finds is what the guard itself says."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lastcall import Call, Guard, Policy, Where, rehearsal
from lastcall.call import Kind
from lastcall.contracts import Noted, Notice, Take
from lastcall.replay import Replayer
from lastcall.rules import Budget, Ceiling, Limit, Settings
from lastcall.sounding import Sounding
from lastcall.stores.memory import MemoryStore
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts import RecordedCall, Transcript

TOOLS = {
    "pay": ToolPolicy(writes=True, identity=["n"]),
    "book": ToolPolicy(writes=True, on_repeat="replay"),
    "poll": ToolPolicy(polls=True),
    "look": ToolPolicy(reads=True),
    "ask": ToolPolicy(volatile=["t"], max_repeats=2),
    "few": ToolPolicy(max_calls=3),
    "free": ToolPolicy(exempt=True),
    "dear": ToolPolicy(cost=Decimal("0.5")),
}


class Odd(Settings, frozen=True):
    """A rule of somebody else that fails now and then."""

    name: ClassVar[str] = "odd"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool"})
    quiet: ClassVar[bool] = False
    place: Literal["before", "after", "counts"] = "before"

    def record(self, tool: Any) -> Any:
        return "turn"

    def start(self) -> int:
        return 0

    def before(self, state: int, call: Call, now: float) -> int:
        if self.place == "before" and call.order % 3 == 2:
            raise RuntimeError("it was never tried")
        return state

    def after(self, state: int, call: Call, outcome: Any, now: float) -> Any:
        if self.place == "after" and call.order % 3 == 2:
            raise RuntimeError("nor was this")
        if self.place == "counts":
            count = Take((call.shard, "odd", None), 1, 2)
            return Noted(state + 1, Notice("alert", "one more", count))
        return state


def limited(**limit: Any) -> Budget:
    return Budget(limits=(Limit(**limit),))


POLICIES = {
    "default": Policy(tools=TOOLS),
    "strict": Policy.strict(tools=TOOLS),
    "low": Policy(tools=TOOLS, max_calls=6),
    "whole replies": Policy(tools=TOOLS).replaced(Ceiling(calls=6, batch="all-or-none")),
    "shadow": Policy(tools=TOOLS, max_calls=4, enforce=False),
    "ceiling in the shadow": Policy(tools=TOOLS).replaced(Ceiling(calls=4, enforce=False)),
    "money": Policy(tools=TOOLS).replaced(
        limited(quantity="money", per="run", window=None, most="2")
    ),
    "an hour": Policy(tools=TOOLS).replaced(limited(quantity="calls", per="agent", most=6)),
    "fails before, closed": Policy(tools=TOOLS).replaced(Odd()),
    "fails before, open": Policy(tools=TOOLS, on_fault="open").replaced(Odd()),
    "fails after": Policy(tools=TOOLS).replaced(Odd(place="after")),
    "notes what is not granted": Policy(tools=TOOLS).replaced(Odd(place="counts")),
}

ARGS = st.sampled_from(
    [
        {"n": 0},
        {"n": 1},
        {"n": 1, "t": 7},
        {"q": "A b"},
        {"q": " a  B"},
        '{"n": 1}',
        "{broken",
        None,
    ]
)
RESULTS = st.sampled_from(
    ["ok", "other", {"status": 422, "error": "bad"}, "HTTP 404: gone", "Error: no", None, {"v": 1}]
)
CALLS = st.builds(
    RecordedCall,
    st.sampled_from([*TOOLS, "search", "bash"]),
    ARGS,
    turn=st.just(0),
    id=st.sampled_from([None, "a", "b"]),
    ts=st.one_of(st.none(), st.floats(0, 9000)),
    result=RESULTS,
    status=st.sampled_from([None, None, None, 200, 403, 500]),
    failed=st.sampled_from([None, None, True, False]),
    malformed=st.sampled_from([False] * 7 + [True]),
    shell=st.booleans(),
    agent=st.sampled_from([None, None, "x"]),
)


@st.composite
def runs(draw: st.DrawFn) -> Transcript:
    """A run whose turns and replies go up, with calls that are often equal."""
    few = draw(st.lists(CALLS, min_size=1, max_size=5))
    turn = reply = 0
    calls = []
    for each in draw(st.lists(st.sampled_from(few), min_size=1, max_size=40)):
        turn += draw(st.sampled_from([0] * 9 + [1]))
        reply += draw(st.sampled_from([0, 1, 1]))
        calls.append(replace(each, turn=turn, reply=reply))
    return Transcript("file", "run", "jsonl", tuple(calls))


def by_guard(policy: Policy, run: Transcript) -> list[tuple[int, str, str, bool]]:
    """The stops of *run*, as the guard says them of one call after the other."""
    now, found = 0.0, []
    guard = Guard(policy, clock=lambda: now, store=MemoryStore(ttl=1e9, keep=1e9))
    for index, each in enumerate(run.calls):
        now = max(now, each.ts or 0.0)
        place = f"file:run#{each.turn}"
        size = sum((other.turn, other.reply) == (each.turn, each.reply) for other in run.calls)
        kind: Kind = "malformed" if each.malformed else "tool"
        where = Where(run=place, turn=place, thread="file:run", agent=each.agent)
        call = Call(each.tool, each.args, where, each.id, kind, str(each.reply), size=size)
        verdict = guard.decide(call, ToolPolicy(shell=True) if each.shell else PLAIN)
        if verdict.ticket is not None:
            ticket = verdict.ticket
            outcome = guard.returned(
                ticket, each.result, failed=each.failed, status_code=each.status
            )
            if each.result is None:
                outcome = replace(outcome, recorded=False)
            verdict = guard.observe(ticket, outcome)
        stop = verdict.stop and (verdict.ending or verdict.stop)
        if stop is not None:
            found.append((index, stop.reason, stop.scope, not stop.executed))
    return found


@pytest.mark.parametrize("name", POLICIES)
@given(run=runs())
def test_a_replay_finds_what_the_guard_says(name: str, run: Transcript) -> None:
    done = Replayer(POLICIES[name]).replay(run)
    found = [(stop.index, stop.reason, stop.scope, stop.refused) for stop in done.stops]
    assert found == by_guard(POLICIES[name], run)


@given(run=runs())
def test_the_guard_itself_is_not_asked(run: Transcript) -> None:
    """It would hide a mistake: what fails on the way is decided by the guard once more."""
    replayer = Replayer(POLICIES["low"])
    replayer._guard = None  # type: ignore[assignment]
    replayer._rehearsal._guarded = None  # type: ignore[assignment,method-assign]
    for recorded in run.calls:
        where = Where(run="r", turn="t", thread="f", agent=recorded.agent)
        replayer._rehearsal.judge(recorded, where, 1)


def test_a_rule_that_fails_is_seen_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    calls = tuple(RecordedCall("search", {"n": n}, reply=n, result="x") for n in range(6))
    done = Replayer(POLICIES["fails before, closed"]).replay(Transcript("f", "r", "jsonl", calls))
    assert [stop.reason for stop in done.stops] == ["fault"] * len(done.stops) != []
    assert "it was never tried" in caplog.text


def made(*tools: str) -> Transcript:
    """A run that calls *tools*, one a reply."""
    calls = (RecordedCall(tool, {"n": n}, reply=n, result="x") for n, tool in enumerate(tools))
    return Transcript("f", "r", "jsonl", tuple(calls))


def test_what_an_outcome_is_not_granted_is_not_written() -> None:
    """Of the third error a limit says no, and with it nothing of that outcome is kept."""
    calls = tuple(
        RecordedCall("search", {"n": n}, reply=n, result="HTTP 503", status=503) for n in range(9)
    )
    run = Transcript("file", "run", "jsonl", calls)
    policy = POLICIES["notes what is not granted"]
    done = Replayer(policy).replay(run)
    found = [(stop.index, stop.reason, stop.scope, stop.refused) for stop in done.stops]
    assert found == by_guard(policy, run)


def test_a_rule_that_fails_of_an_outcome_hides_no_stop_in_the_shadow() -> None:
    policy = Policy(max_calls=1).replaced(Odd(place="after"))
    assert Sounding(policy).sound(made("search", "search")) == {"ceiling"}


def test_a_run_that_is_replayed_again_fails_no_sooner() -> None:
    replayer = Replayer(POLICIES["fails before, closed"])
    run = made(*["search"] * 5)
    assert [replayer.replay(run) for _ in range(4)] == [replayer.replay(run)] * 4


def test_a_run_that_could_not_be_read_to_its_end_leaves_nothing() -> None:
    class Broken(list[RecordedCall]):
        def __iter__(self) -> Iterator[RecordedCall]:
            yield RecordedCall("search", {}, ts=9e9, result="x", failed=True)
            raise OSError("the disk is gone")

    spent = Policy().replaced(limited(quantity="calls", per="all", most=1))
    replayer = Replayer(spent)
    with pytest.raises(OSError, match="the disk is gone"):
        replayer.replay(Transcript("f", "q", "jsonl", Broken()))
    assert replayer.replay(made("search")).stops == ()
    assert replayer._rehearsal.now == 0.0


def test_tools_without_end_in_one_turn_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "MOST", 8)
    judging = rehearsal.Rehearsal(Guard())
    where = Where(run="r", turn="t", thread="f")
    for n in range(50):
        judging.judge(RecordedCall(f"tool {n}", {}, reply=n, result="x"), where, 1)
    assert len(judging._alike) <= 8
