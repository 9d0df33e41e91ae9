from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Stop, Where
from lastcall.rules import Refusals

from .driving import NOW, Drive, call, final, ok


class Rounds:
    """Replies of calls, of which a test says whether they run or are refused by another rule."""

    def __init__(self, rule=None, *, sized=True):
        self.drive = Drive(rule or Refusals())
        self.sized = sized
        self.replies = 0
        self.ended = None

    def reply(self, calls, *, reason="same"):
        """One reply: `r` for a call that is refused, `x` for one that runs. The stop that ends the run."""
        self.replies += 1
        for index, kind in enumerate(calls):
            asked = call(
                "look",
                (self.replies, index),
                reply=str(self.replies),
                index=index,
                size=len(calls) if self.sized else None,
            )
            stop = self.one(asked, kind, reason)
            if stop is not None:
                return stop
        return None

    def one(self, asked, kind, reason="same"):
        drive = self.drive
        if kind == "r":
            # What the fold does: `before` first, and what it says of the state is thrown away.
            placed = drive.placed(asked)
            key = drive.key(placed)
            if key in drive.records:
                said = drive.rule.before(drive.state(key), placed, NOW)
                if isinstance(said, Stop):
                    return said
            return drive.refuse(placed, Stop.of(placed, reason, "call", NOW, rule=reason))
        said = drive.ask(asked)
        return said if isinstance(said, Stop) else drive.settle(said, ok())

    def model(self):
        said = self.drive.ask(call("model", kind="model"))
        return said if isinstance(said, Stop) else None


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_so_many_rounds_in_a_row_end_the_run(limit):
    rounds = Rounds(Refusals(max_refusals=limit))
    said = [rounds.reply("rr") for _ in range(limit)]
    assert said[:-1] == [None] * (limit - 1)
    stop = said[-1]
    assert (stop.reason, stop.scope, stop.rule) == ("refusals", "run", "refusals")
    assert (stop.limit, stop.observed, stop.executed) == (limit, limit, False)


def test_the_default_is_two():
    rounds = Rounds()
    assert rounds.reply("r") is None
    assert rounds.reply("r").scope == "run"


def test_the_stop_comes_with_the_last_call_of_the_reply():
    rounds = Rounds(Refusals(max_refusals=1))
    asked = [call("look", n, reply="1", index=n, size=3) for n in range(3)]
    assert [rounds.one(each, "r") is not None for each in asked] == [False, False, True]


def test_an_executed_round_starts_again():
    rounds = Rounds()
    assert [rounds.reply(calls) for calls in ("r", "x", "r", "xx", "r")] == [None] * 5
    assert rounds.reply("r") is not None


@pytest.mark.parametrize("mixed", ["rx", "xr", "xrr", "rxr"])
def test_a_mixed_reply_neither_adds_nor_resets(mixed):
    rounds = Rounds()
    assert [rounds.reply(calls) for calls in ("r", mixed, mixed)] == [None] * 3
    assert rounds.reply("r") is not None
    rounds = Rounds()
    assert [rounds.reply(mixed) for _ in range(9)] == [None] * 9


@pytest.mark.parametrize("reason", ["concurrency", "ramp"])
def test_a_refusal_worth_repeating_is_no_round(reason):
    rounds = Rounds()
    assert [rounds.reply("r", reason=reason) for _ in range(9)] == [None] * 9
    assert rounds.drive.state(rounds.drive.key(call())) == Refusals().start()


def test_a_stop_made_after_the_body_ran_is_no_refusal():
    rounds = Rounds()
    for n in range(9):
        assert rounds.drive.play(call("look", n, reply=str(n), size=1), final()) is None


class TestWhereTheSizeOfAReplyIsNotKnown:
    def test_the_next_reply_shows_that_it_is_over(self):
        rounds = Rounds(sized=False)
        assert rounds.reply("rr") is None
        assert rounds.reply("rrr") is None
        assert rounds.reply("x").reason == "refusals"

    def test_so_does_a_request_to_the_model(self):
        rounds = Rounds(sized=False)
        assert rounds.reply("r") is None
        assert rounds.model() is None
        assert rounds.reply("r") is None
        assert rounds.model().scope == "run"

    def test_asking_the_model_twice_counts_once(self):
        rounds = Rounds(sized=False)
        rounds.reply("r")
        assert [rounds.model() for _ in range(5)] == [None] * 5

    def test_asking_the_model_starts_nothing_again(self):
        rounds = Rounds()
        rounds.reply("r")
        rounds.model()
        assert rounds.reply("r") is not None


def test_where_the_reply_is_not_known_each_call_is_one():
    rounds = Rounds()
    assert rounds.one(call("look", 1), "r") is None
    assert rounds.one(call("look", 2), "r").reason == "refusals"


def test_where_the_reply_is_not_known_an_executed_call_starts_again():
    rounds = Rounds()
    kinds = "rxrxr"
    assert [rounds.one(call("look", n), kind) for n, kind in enumerate(kinds)] == [None] * 5


def test_a_reply_that_ran_a_call_before_the_first_refusal_is_mixed():
    # Nothing is written while nothing is refused; the turn knows the reply of the last granted call.
    rounds = Rounds(Refusals(max_refusals=1))
    assert rounds.reply("xr") is None


def test_each_agent_has_its_own():
    rounds = Rounds()
    for agent in "ab":
        asked = call("look", where=Where("run", "turn", agent=agent), reply=agent, size=1)
        assert rounds.one(asked, "r") is None


def test_the_next_turn_begins_at_zero():
    rounds = Rounds()
    assert rounds.reply("r") is None
    assert rounds.one(call(where=Where("run", "another"), reply="9", size=1), "r") is None


def test_a_model_request_that_is_refused_is_no_round():
    rounds = Rounds(Refusals(max_refusals=1))
    asked = call("model", kind="model")
    assert rounds.drive.refuse(asked, Stop.of(asked, "kill", "all", NOW, rule="switch")) is None


@given(
    st.lists(st.text("rx", min_size=1, max_size=4), max_size=20),
    st.integers(1, 3),
    st.booleans(),
)
def test_it_agrees_with_plain_counting_over_replies(replies, limit, sized):
    rounds = Rounds(Refusals(max_refusals=limit), sized=sized)
    row = 0
    for calls in replies:
        stop = rounds.reply(calls)
        late = not sized and row >= limit  # seen only when the next reply begins
        if not late and "x" not in calls:
            row += 1
        elif not late and "r" not in calls:
            row = 0
        assert (stop is not None) == (late or (sized and row >= limit))
        if stop is not None:
            assert stop.observed == row
            break
