"""K11 A model that ignores refusals is not asked again for ever; a tool error is no refusal."""

from __future__ import annotations

from itertools import count

import pytest

from lastcall import Policy
from lastcall.testing import assert_stopped

from .playing import Run


@pytest.mark.parametrize("ending", [True, False], ids=["ended by the stop", "which is ignored"])
def test_a_model_that_asks_for_ever(make_guard, ending):
    run = Run(make_guard(Policy(max_calls=10)))
    for n in count():
        assert run.requests <= 12, "nobody ended the run"
        stops = run.reply(("look", {"n": n}, f"result {n}"))
        if run.ended and (ending or stops[0].scope == "run"):
            break
        if run.requests == 12:
            break
    assert run.bodies == 10
    assert_stopped(run.ended, reason="ceiling", scope="turn")


def test_a_model_that_ignores_refusals_of_calls(make_guard):
    # Below the ceiling: every refusal is of one call alone, so it is their number that ends the run.
    run = Run(make_guard(Policy(max_repeats=2)))
    while run.ended is None:
        assert run.requests < 12, "nobody ended the run"
        run.reply(("look", {"q": "x"}))
    assert_stopped(run.ended, reason="refusals", scope="run")
    assert (run.bodies, run.requests) == (2, 4)


def test_a_batch_in_which_every_call_fails_by_an_ordinary_error(make_guard):
    run = Run(make_guard(Policy(max_calls=10)))
    for reply in range(2):
        stops = run.reply(*(("look", {"n": (reply, n)}, ValueError(f"no {n}")) for n in range(4)))
        assert stops == [None] * 4
    assert run.ended is None
    assert run.guard.report("r").totals.failed == 8


def test_a_batch_with_one_executed_and_one_refused_call(make_guard):
    run = Run(make_guard(Policy(max_repeats=1)))
    run.reply(("look", {"q": "x"}))
    for n in range(6):
        executed, refused = run.reply(("look", {"n": n}), ("look", {"q": "x"}))
        assert executed is None
        assert_stopped(refused, reason="repeat", scope="call")
    assert run.ended is None
