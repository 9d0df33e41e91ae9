"""K31 Numbers that are no status, live and in a recording."""

from __future__ import annotations

import pytest

from lastcall import Stopped
from lastcall.replay import Replayer
from lastcall.testing import assert_stopped
from lastcall.transcripts.recorded import RecordedCall, Transcript

from .playing import Run

HARMLESS = [
    "done in 1429 ms",
    "40412 rows written",
    "worker 4013 took the job",
    "listening on port 14010",
    "restored checkpoint 24290",
]


@pytest.mark.parametrize("text", HARMLESS)
@pytest.mark.parametrize("shape", [str, lambda text: {"text": text}, lambda text: f"{text}\n" * 50])
def test_a_number_in_a_success_is_no_status(make_guard, text, shape):
    events = []
    guard = make_guard(listeners=[events.append])
    run = Run(guard)
    assert [run.call("look", n, shape(text)) for n in range(12)] == [None] * 12
    assert {(event.outcome, event.status) for event in events} == {("ok", None)}
    assert guard.report("r").totals.failed == 0


def test_a_status_named_by_an_error_result_is_one(make_guard):
    guard = make_guard()
    with guard.within(run="r"), pytest.raises(Stopped) as caught, guard.calling("look") as call:
        call.result("HTTP 404: no such page", failed=True)
    assert_stopped(caught.value, reason="terminal", status=404)


def recording(text, failed):
    calls = [RecordedCall("look", {"n": n}, result=text, reply=n, failed=failed) for n in range(2)]
    return Transcript("file", "run", "jsonl", tuple(calls))


@pytest.mark.parametrize("text", HARMLESS)
def test_nor_is_it_in_a_recording(text):
    assert Replayer().replay(recording(text, failed=None)).stops == ()


def test_in_a_recording_an_error_result_is_read_too():
    stops = Replayer().replay(recording("HTTP 404: no such page", failed=True)).stops
    assert (stops[0].reason, stops[0].status, stops[0].index, stops[0].refused) == (
        "terminal",
        404,
        0,
        False,
    )
