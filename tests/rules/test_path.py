"""Agents that call each other (requirement G2)."""

from __future__ import annotations

import pytest

from lastcall import Call, Policy, Where
from lastcall.replay import Replayer
from lastcall.rules import Path
from lastcall.transcripts.recorded import RecordedCall, Transcript

POLICY = Policy().replaced(Path())


@pytest.fixture
def guard(make_guard):
    return make_guard(POLICY)


def asked(guard, *path, n=0):
    return guard.decide(Call("look", {"n": n}, where=Where(run="r", path=path)))


@pytest.mark.parametrize(
    "path", [(), ("A",), ("A", "B"), ("A", "B", "C"), tuple("ABCDEFGH")], ids="".join
)
def test_agents_that_call_others_go_on(guard, path):
    assert asked(guard, *path).stop is None


@pytest.mark.parametrize("path", [("A", "B", "A"), ("A", "A"), ("X", "A", "B", "A")], ids="".join)
def test_one_that_is_at_work_further_out_does_not(guard, path):
    stop = asked(guard, *path).stop
    assert (stop.reason, stop.scope, stop.rule) == ("path", "call", "path")
    assert (stop.path, stop.executed, stop.retryable) == (path, False, False)
    assert "circle" in stop.text
    assert "answer from what is known already" in stop.text


@pytest.mark.parametrize(("path", "into"), [("AB", "A"), ("A", "A"), ("ABCDEFGH", "I")])
def test_nor_is_it_let_go_to_work(guard, path, into):
    stop = guard.decide(Call("ask", {}, Where(run="r", path=tuple(path)), into=into)).stop
    assert (stop.reason, stop.path, stop.observed) == ("path", tuple(path), len(path) + 1)
    assert guard.decide(Call("ask", {}, Where(run="r", path=("A",)), into="C")).stop is None


def test_nor_one_that_is_too_deep(make_guard):
    stop = asked(make_guard(POLICY), *"ABCDEFGHI").stop
    assert (stop.reason, stop.limit, stop.observed) == ("path", 8, 9)
    guard = make_guard(Policy().replaced(Path(depth=2)))
    assert asked(guard, "A", "B").stop is None
    assert asked(guard, "A", "B", "C").stop.limit == 2


def test_those_around_it_go_on(guard):
    assert asked(guard, "A", "B", "A").stop is not None
    assert asked(guard, "A", "B", n=1).stop is None
    assert asked(guard, "A", n=2).stop is None


def test_in_the_shadow_it_refuses_nothing(make_guard):
    guard = make_guard(Policy().replaced(Path(enforce=False)))
    assert asked(guard, "A", "A").stop is None


def test_it_is_off_until_asked_for(make_guard):
    assert "path" not in {rule.name for rule in Policy().rules}
    assert asked(make_guard(), "A", "A").stop is None


def test_files_have_it():
    (rule,) = (
        rule for rule in Policy.from_toml("[rules.path]\ndepth = 3").rules if rule.name == "path"
    )
    assert rule == Path(depth=3)


def test_by_hand_it_is_said_where_one_is(guard):
    @guard.wrap
    def look():
        return "seen"

    with guard.within(run="r", path=("A", "B")):
        assert look() == "seen"
        with guard.within(path=("A", "B", "A")):
            verdict = guard.decide(Call("look", {"n": 1}))
    assert verdict.stop is not None
    assert verdict.stop.reason == "path"


def test_a_saved_run_tells_of_no_agents():
    run = Transcript("f", "r", "x", (RecordedCall("f", {}),))
    assert Replayer(Policy(rules=[Path()])).replay(run).not_judged == ("path",)
