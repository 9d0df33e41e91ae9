from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.past import HALF, NOTHING, PAIR, SIZE, Past, find, packed

from .driving import CANCELLED, LOST, PAUSED, call, digest, failed, ok

A, B = call("a"), call("b")


def pairs(past):
    """The past as (call, result) pairs of bytes."""
    return [
        (past.pairs[at : at + HALF], past.pairs[at + HALF : at + PAIR])
        for at in range(0, len(past.pairs), PAIR)
    ]


def pair(asked, content):
    return (packed(asked.fingerprint), packed(digest(content)))


def test_slots_are_taken_in_decision_order_and_filled_on_settlement():
    past = NOTHING.taken(A).taken(B)
    past = past.settled(B, ok("of b")).settled(A, ok("of a"))
    assert pairs(past) == [pair(A, "of a"), pair(B, "of b")]
    assert past.open == 0
    assert len(past) == 2


def test_equal_calls_settle_oldest_first():
    past = NOTHING.taken(A).taken(A)
    past = past.settled(A, ok("first"))
    assert pairs(past)[0] == pair(A, "first")
    assert past.open == 0b01
    past = past.settled(A, ok("second"))
    assert pairs(past) == [pair(A, "first"), pair(A, "second")]


def test_a_call_in_flight_counts_as_equal_to_the_last_of_its_kind():
    past = NOTHING.taken(A).settled(A, ok("x")).taken(B).taken(A)
    assert pairs(past)[2] == pair(A, "x")
    assert past.open == 0b011


def test_a_first_call_in_flight_has_no_result():
    assert pairs(NOTHING.taken(A)) == [(packed(A.fingerprint), bytes(HALF))]


def test_only_so_many_are_kept():
    past = NOTHING
    for n in range(SIZE + 10):
        asked = call("a", n)
        past = past.taken(asked).settled(asked, ok(n))
    assert pairs(past) == [pair(call("a", n), n) for n in range(10, SIZE + 10)]
    assert past.open == 0


def test_a_call_that_fell_off_changes_nothing_when_it_settles():
    past = NOTHING.taken(A)
    for _ in range(SIZE):
        past = past.taken(B)
    assert past.settled(A, ok()) is past
    assert past.settled(A, CANCELLED) is past
    assert past.open == (1 << SIZE) - 1


@pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
def test_what_brought_no_result_leaves_its_slot_as_it_is(outcome):
    past = NOTHING.taken(A).settled(A, ok("x")).taken(A)
    past = past.settled(A, outcome)
    assert pairs(past) == [pair(A, "x")] * 2
    assert past.open == 0
    # The next answer belongs to the next call.
    past = past.taken(A).settled(A, ok("y"))
    assert pairs(past)[-1] == pair(A, "y")


def test_it_holds_what_was_taken():
    assert not NOTHING.holds(A)
    assert NOTHING.taken(A).holds(A)
    assert not NOTHING.taken(A).holds(B)


def told(*steps):
    """The count of calls without news after each of *steps*, a call and an outcome."""
    past, counts = NOTHING, []
    for asked, outcome in steps:
        past = past.taken(asked).settled(asked, outcome)
        counts.append(past.stale)
    return counts


class TestNews:
    def test_is_a_pair_not_seen_before(self):
        assert told((A, ok("x")), (B, ok("x")), (A, ok("x")), (B, ok("x"))) == [0, 0, 1, 2]

    def test_is_a_new_result(self):
        assert told((A, ok("x")), (A, ok("x")), (A, ok("y")), (A, ok("x"))) == [0, 1, 0, 1]

    def test_may_be_a_failure(self):
        assert told((A, failed("x")), (A, failed("x")), (A, failed("y"))) == [0, 1, 0]

    def test_is_not_what_differs_in_volatile_parts_from_the_third_on(self):
        # The first is kept raw: masking what is seen once would cost every call.
        times = [ok(f"done at 2024-01-01T00:00:0{second}Z") for second in range(4)]
        assert told(*((A, outcome) for outcome in times)) == [0, 0, 1, 2]

    def test_is_not_made_by_a_call_that_is_its_own_past(self):
        past = NOTHING.taken(A).taken(A)
        past = past.settled(A, ok("x"))
        assert past.stale == 0
        assert past.settled(A, ok("x")).stale == 1

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
    def test_is_neither_here_nor_there_without_a_result(self, outcome):
        assert told((A, ok("x")), (A, ok("x")), (A, outcome), (B, outcome)) == [0, 1, 1, 1]


def test_a_result_that_looks_like_a_call_is_not_found_as_one():
    one, other = b"\x01" * HALF, b"\x02" * HALF
    past = Past(other + one + other + other)
    assert find(past.pairs, one) == -1
    assert past.last(one) == bytes(HALF)
    assert past.last(other) == other


def test_bytes_across_two_pairs_are_not_found_as_a_call():
    run = bytes(range(HALF))
    cut = HALF // 2
    past = Past(b"\xff" * HALF + b"\xee" * (HALF - cut) + run + b"\xdd" * (PAIR - HALF + cut))
    assert len(past) == 2
    assert len(past.pairs) % PAIR == 0
    assert run in past.pairs
    assert find(past.pairs, run) == -1
    assert past.last(run) == bytes(HALF)


@given(st.lists(st.sampled_from("abc"), max_size=30), st.data())
def test_it_agrees_with_a_plain_list_of_slots(names, data):
    past, slots, results = NOTHING, [], iter(range(1000))
    flying = []
    for name in names:
        last = next((slot[1] for slot in reversed(slots) if slot[0] == name), None)
        slots.append([name, last, True])
        past = past.taken(call(name))
        flying.append(name)
        while flying and data.draw(st.booleans()):
            settled = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            drop = data.draw(st.booleans())
            result = next(results)
            slot = next(each for each in slots if each[0] == settled and each[2])
            slot[2] = False
            slot[1] = slot[1] if drop else result
            past = past.settled(call(settled), CANCELLED if drop else ok(result))
    assert pairs(past) == [
        (packed(call(name).fingerprint), bytes(HALF) if of is None else packed(digest(of)))
        for name, of, _ in slots
    ]
    assert [bool(past.open >> back & 1) for back in range(len(past))][::-1] == [
        slot[2] for slot in slots
    ]
