"""The turn's record: who is who (requirement A14), what was written, and how it ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lastcall import Call, Outcome, Policy, Stop, ToolPolicy, Where
from lastcall.rules import Ceiling
from lastcall.testing import assert_stopped
from lastcall.turn import KEPT, RECENT, Turn, identity_of

HERE = Where(run="r", turn="t")
READS = ToolPolicy(reads=True)


def call(tool="look", args=None, /, where=HERE, **fields):
    return Call(tool, args, where, **fields)


def granted(*calls):
    turn = Turn(turn="t")
    for each in calls:
        turn = turn.granted(each, identity_of(each))
    return turn


def made(guard, asked, outcome=None):
    """Make one whole call; the stop that it met."""
    verdict = guard.decide(asked)
    if verdict.ticket is not None:
        verdict = guard.observe(verdict.ticket, outcome or Outcome(content="ok"))
    return verdict.stop


class TestIdentity:
    def test_is_of_the_reply_the_id_and_the_fingerprint(self):
        one = identity_of(call("look", {"q": 1}, id="c1", reply="1"))
        assert one == identity_of(call("look", {"q": 1.0}, id="c1", reply="1"))
        others = [
            call("look", {"q": 1}, id="c1", reply="2"),
            call("look", {"q": 1}, id="c2", reply="1"),
            call("look", {"q": 2}, id="c1", reply="1"),
            call("seek", {"q": 1}, id="c1", reply="1"),
        ]
        assert one not in map(identity_of, others)
        assert len(set(map(identity_of, others))) == len(others)

    def test_does_not_run_reply_and_id_together(self):
        assert identity_of(call(id="b", reply="a1")) != identity_of(call(id="1b", reply="a"))

    @pytest.mark.parametrize(
        "missing", [{"id": "c1"}, {"reply": "1"}, {"id": "c1", "reply": "1", "kind": "malformed"}]
    )
    def test_is_none_where_calls_cannot_be_told_apart(self, missing):
        assert identity_of(call(**missing)) is None


class TestTheSameCallAgain:
    """On resume, node retry or approval."""

    ASKED = call("book", {"n": 1}, id="c1", reply="1")

    def test_counts_once_and_once_more_as_an_attempt(self, make_guard):
        guard = make_guard(Policy(max_calls=2, max_repeats=1))
        assert made(guard, self.ASKED, Outcome("paused")) is None
        verdict = guard.decide(self.ASKED)
        assert verdict.call.kind == "attempt"
        guard.observe(verdict.ticket, Outcome(content="booked"))
        assert made(guard, call("look", 1)) is None
        assert_stopped(made(guard, call("look", 2)), reason="ceiling")

    def test_may_be_started_three_times(self, make_guard):
        guard = make_guard()
        assert Policy().max_attempts == 3
        assert [made(guard, self.ASKED) for _ in range(3)] == [None] * 3
        stop = assert_stopped(made(guard, self.ASKED), reason="attempts", scope="call")
        assert (stop.limit, stop.observed, stop.executed) == (3, 4, False)
        assert_stopped(made(guard, self.ASKED), reason="attempts")

    def test_is_refused_when_its_answer_was_final(self, make_guard):
        guard = make_guard()
        final = Outcome("error", "no", 422, "final", "no")
        assert_stopped(made(guard, self.ASKED, final), reason="terminal")
        assert_stopped(made(guard, self.ASKED), reason="terminal", status=422)

    def test_in_flight_twice_is_one_call(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        first, second = guard.decide(self.ASKED), guard.decide(self.ASKED)
        assert (first.call.kind, second.call.kind) == ("tool", "attempt")

    def test_a_refused_one_is_no_attempt(self, make_guard):
        guard = make_guard(Policy(tools={"book": ToolPolicy(max_calls=1)}))
        made(guard, call("book", {"n": 0}, id="c0", reply="0"))
        for _ in range(4):
            # Refused before it was ever started: the ceiling stays the reason.
            verdict = guard.decide(self.ASKED)
            assert verdict.stop.reason == "ceiling"
            made(guard, call("look", {}, id="x", reply="0"))

    def test_an_attempt_moves_neither_the_order_nor_the_past(self):
        turn = granted(self.ASKED)
        again = turn.granted(replace(self.ASKED, kind="attempt"), identity_of(self.ASKED))
        assert again == replace(turn, seen=again.seen)
        assert again.attempts(identity_of(self.ASKED)) == 2


class TestAnotherCallUnderTheSameId:
    def test_in_another_reply_is_a_new_call(self, make_guard):
        guard = make_guard(Policy(max_calls=3))
        calls = [call("book", {"n": 1}, id="c1", reply=str(reply)) for reply in range(4)]
        assert [made(guard, each, Outcome(content=n)) for n, each in enumerate(calls[:3])] == [
            None
        ] * 3
        assert_stopped(made(guard, calls[3]))

    def test_with_other_arguments_is_a_new_call(self, make_guard):
        guard = make_guard(Policy(max_calls=3))
        calls = [call("book", {"n": n}, id="c1", reply="1") for n in range(4)]
        assert [made(guard, each) for each in calls[:3]] == [None] * 3
        assert_stopped(made(guard, calls[3]), reason="ceiling")

    def test_in_another_turn_is_a_new_call(self, make_guard):
        guard = make_guard()
        for turn in range(5):
            where = Where(run="r", turn=str(turn))
            verdict = guard.decide(call("book", {"n": 1}, where, id="c1", reply="1"))
            assert verdict.call.kind == "tool"

    def test_without_an_id_or_a_reply_each_is_a_call(self, make_guard):
        guard = make_guard(Policy(rules=[Ceiling(calls=5)]))
        for fields in ({"id": "c1"}, {"reply": "1"}, {}, {}, {}):
            assert made(guard, call("book", {"n": 1}, **fields)) is None
        assert_stopped(made(guard, call("book", {"n": 1})), reason="ceiling")


def test_only_so_many_identities_are_remembered():
    calls = [call("look", n, id=str(n), reply=str(n)) for n in range(RECENT + 1)]
    turn = granted(*calls)
    assert turn.attempts(identity_of(calls[0])) == 0
    assert [turn.attempts(identity_of(each)) for each in calls[1:]] == [1] * RECENT


def test_of_one_reply_more_are_remembered_and_for_one_reply_longer():
    calls = [call("look", n, id=str(n), reply="one") for n in range(KEPT)]
    following = call("look", 0, id="next", reply="two")
    turn = granted(*calls, following)
    assert [turn.attempts(identity_of(each)) for each in calls[1:]] == [1] * (KEPT - 1)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 2)), max_size=40
    )
)
def test_attempts_agree_with_plain_counting(asked):
    turn, seen = Turn(turn="t"), {}
    for reply, id_, args in asked:
        each = call("look", args, id=id_, reply=reply)
        identity = identity_of(each)
        assert turn.attempts(identity) == seen.get((reply, id_, args), 0)
        if turn.attempts(identity):
            each = call("look", args, id=id_, reply=reply, kind="attempt")
        turn = turn.granted(each, identity)
        seen[reply, id_, args] = seen.get((reply, id_, args), 0) + 1


class TestTheLastWrite:
    def test_is_the_last_call_of_another_fingerprint_that_was_not_declared_to_read(self):
        read, write = call("read", 1, policy=READS), call("write", 1)
        assert granted(read, write, read).last_write(read) == 2
        assert granted(read, read).last_write(call("write", 1)) == 0

    def test_leaves_out_equal_calls_of_the_one_that_asks(self):
        write, other = call("write", 1), call("write", 2)
        turn = granted(other, write, write)
        assert turn.last_write(write) == 1
        assert turn.last_write(other) == 3

    @given(
        st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30),
        st.sampled_from("abc"),
    )
    def test_agrees_with_plain_looking(self, steps, asker):
        calls = [
            call(name + str(reads), policy=READS if reads else ToolPolicy())
            for name, reads in steps
        ]
        me = call(asker + "False")
        plain = [
            order
            for order, each in enumerate(calls, 1)
            if not each.policy.reads and each.fingerprint != me.fingerprint
        ]
        assert granted(*calls).last_write(me) == (plain[-1] if plain else 0)


class TestItsEnd:
    def stop(self, scope, where=HERE):
        return Stop.of(call(where=where), scope, scope, 0.0, rule="rule")

    def test_a_stop_of_one_call_changes_nothing(self):
        turn = Turn(turn="t")
        assert turn.stopped(self.stop("call")) is turn

    def test_a_stop_of_a_tool_closes_it_once_and_for_this_turn(self):
        turn = Turn(turn="t").stopped(self.stop("tool"))
        assert turn.ended is None
        assert [each.tool for each in turn.closed] == ["look"]
        assert turn.stopped(self.stop("tool")) is turn
        assert turn.at(call(where=Where(run="r", turn="next"))).closed == ()
        late = self.stop("tool", Where(run="r", turn="earlier"))
        assert Turn(turn="t").stopped(late).closed == ()

    def test_a_pardon_opens_what_was_closed_and_raises_a_limit(self):
        turn = Turn(turn="t").stopped(self.stop("tool")).stopped(self.stop("turn"))
        free = turn.pardoned(call(id="c", reply="1"), {"calls": 5}, 2)
        assert (free.ended, free.closed, free.raised) == (None, (), {"calls": 5})
        assert free.asked == {"1 c": 2}
        assert free.pardoned(call(), {"calls": 2}, 1).raised == {"calls": 7}
        assert free.at(call(where=Where(run="r", turn="next"))).raised == {"calls": 5}

    def test_the_first_stop_stands(self):
        turn = Turn(turn="t").stopped(self.stop("turn"))
        assert turn.stopped(self.stop("turn")) is turn
        assert turn.ended.reason == "turn"

    def test_a_wider_one_takes_its_place_and_a_narrower_does_not(self):
        turn = Turn(turn="t").stopped(self.stop("turn")).stopped(self.stop("run"))
        assert turn.ended.scope == "run"
        assert turn.stopped(self.stop("turn")).ended.scope == "run"

    def test_a_turn_that_ended_is_over_with_the_next_turn_and_a_run_is_not(self):
        following = call(where=Where(run="r", turn="next"))
        assert Turn(turn="t").stopped(self.stop("turn")).at(following).ended is None
        assert Turn(turn="t").stopped(self.stop("run")).at(following).ended.scope == "run"

    def test_every_later_call_gets_that_stop_again(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        made(guard, call("look", 1))
        first = made(guard, call("look", 2, id="c2"))
        again = made(guard, call("seek", 3, id="c3"))
        assert_stopped(again, reason="ceiling", scope="turn")
        assert again.limit == first.limit
        assert (again.tool, again.call_id) == ("seek", "c3")

    def test_that_stop_still_tells_what_was_counted(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        made(guard, call("look", 1))
        first, again = made(guard, call("look", 2)), made(guard, call("seek", 3))
        assert again.observed == first.observed == 2

    def test_a_late_answer_to_a_call_of_an_earlier_turn_changes_nothing_in_this_one(
        self, make_guard
    ):
        guard = make_guard(Policy.strict())
        late = guard.decide(call("look", 1))
        now = Where(run="r", turn="next")
        for n in range(4):
            assert made(guard, call("seek", n, now)) is None
        stop = guard.observe(late.ticket, Outcome("error", "no", 422, "final", "no")).stop
        assert_stopped(stop, reason="terminal", scope="turn")
        for n in range(4, 8):
            assert made(guard, call("seek", n, now)) is None
        assert_stopped(made(guard, call("seek", 8, now)), reason="ceiling")


class TestCallsThatRepeatRulesDoNotLookAt:
    """They are no part of a past in which other calls would look like a loop."""

    @pytest.mark.parametrize(
        "policy", [ToolPolicy(exempt=True), ToolPolicy(max_repeats=0), ToolPolicy(max_repeats=30)]
    )
    def test_are_no_sign_that_a_turn_is_stale(self, make_guard, policy):
        guard = make_guard(Policy(tools={"wait": policy}))
        assert made(guard, call("look", 1)) is None
        assert [made(guard, call("wait")) for _ in range(12)] == [None] * 12
        assert made(guard, call("look", 1)) is None

    def test_are_no_part_of_a_cycle(self, make_guard):
        guard = make_guard(Policy(tools={"wait": ToolPolicy(exempt=True)}))
        for n in range(8):
            assert made(guard, call("look"), Outcome(content="same")) is None, n
            assert made(guard, call("wait"), Outcome(content="done")) is None
