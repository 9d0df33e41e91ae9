from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Ceiling

from .driving import Count, call, failed, ok, tool

OTHER_TURN = Where(run="run", turn="another")


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_so_many_calls_run_and_no_more(limit):
    count = Count(Ceiling(calls=limit))
    said = [count.play(call("look", {"n": n})) for n in range(limit + 2)]
    assert [stop is None for stop in said] == [True] * limit + [False, False]
    stop = said[limit]
    assert (stop.reason, stop.scope, stop.rule) == ("ceiling", "turn", "ceiling")
    assert (stop.limit, stop.observed, stop.executed) == (limit, limit + 1, False)


def test_the_default_is_200():
    count = Count(Ceiling())
    assert [count.play(call("look", n)) for n in range(200)] == [None] * 200
    assert count.play(call("look", 200)).limit == 200


def test_none_counts_without_a_limit():
    count = Count(Ceiling(calls=None))
    assert all(count.play(call("look", n)) is None for n in range(500))
    assert list(count.counters.values()) == [500]


def test_every_tool_counts():
    count = Count(Ceiling(calls=2))
    assert count.play(call("one")) is None
    assert count.play(call("two")) is None
    assert count.play(call("three")).scope == "turn"


def test_the_next_turn_begins_at_zero():
    count = Count(Ceiling(calls=1))
    assert count.play(call("look")) is None
    assert count.play(call("look", where=OTHER_TURN)) is None
    assert count.play(call("look", where=OTHER_TURN)) is not None


class TestOfOneTool:
    def test_has_its_own_limit_beside_the_total(self):
        count = Count(Ceiling(calls=20))
        dear, cheap = tool(max_calls=2), tool(max_calls=10)
        assert [count.play(call("dear", n, policy=dear)) for n in range(2)] == [None, None]
        stop = count.play(call("dear", 3, policy=dear))
        assert (stop.reason, stop.scope, stop.limit, stop.observed) == ("ceiling", "tool", 2, 3)
        assert [count.play(call("cheap", n, policy=cheap)) for n in range(10)] == [None] * 10
        assert count.play(call("cheap", 11, policy=cheap)).scope == "tool"
        assert count.play(call("free")) is None

    def test_a_refused_one_takes_nothing_from_the_total(self):
        count = Count(Ceiling(calls=3))
        dear = tool(max_calls=1)
        assert count.play(call("dear", policy=dear)) is None
        assert [count.play(call("dear", policy=dear)).scope for _ in range(5)] == ["tool"] * 5
        assert count.play(call("free", 1)) is None
        assert count.play(call("free", 2)) is None
        assert count.play(call("free", 3)).scope == "turn"

    def test_where_both_are_used_up_the_tool_is_named(self):
        count = Count(Ceiling(calls=1))
        dear = tool(max_calls=1)
        count.play(call("dear", policy=dear))
        assert count.play(call("dear", policy=dear)).scope == "tool"

    def test_two_servers_have_a_counter_each(self):
        count = Count(Ceiling())
        dear = tool(max_calls=1)
        assert count.play(call("dear", policy=dear, server="a")) is None
        assert count.play(call("dear", policy=dear, server="b")) is None
        assert count.play(call("dear", policy=dear, server="a")).server == "a"


def test_an_alert_belongs_to_its_counter():
    ceiling = Ceiling(calls=10, alert=8)
    asked = call(policy=tool(alert_calls=2))
    of_tool, of_turn = ceiling.takes(asked)
    assert ceiling.alert_at(asked, of_tool) == 2
    assert ceiling.alert_at(asked, of_turn) == 8
    assert ceiling.budget(asked, of_tool) == ("calls:look", None)
    assert ceiling.budget(asked, of_turn) == ("calls", 10)
    assert of_tool.limit is None


def test_a_failure_gives_nothing_back():
    for outcome in (ok(), failed()):
        assert Ceiling().settle(call(), outcome, 0.0) == ()


def test_only_calls_of_tools_count():
    assert Ceiling().kinds == {"tool"}


@given(
    st.lists(st.sampled_from("abc"), max_size=40),
    st.integers(1, 12),
    st.fixed_dictionaries({name: st.none() | st.integers(1, 5) for name in "abc"}),
)
def test_it_agrees_with_plain_counting(names, limit, own):
    count = Count(Ceiling(calls=limit))
    ran = []
    for name in names:
        stop = count.play(call(name, policy=tool(max_calls=own[name])))
        full_tool = own[name] is not None and ran.count(name) >= own[name]
        assert (stop is not None) == (full_tool or len(ran) >= limit)
        if stop is None:
            ran.append(name)
        else:
            assert stop.scope == ("tool" if full_tool else "turn")
