"""K32 Read the value, not the word: as object and as JSON text, short and padded."""

from __future__ import annotations

import json

import pytest

from lastcall.replay import Replayer
from lastcall.transcripts.recorded import RecordedCall, Transcript

from .playing import Body, stop_of

SUCCESSES = {
    "a zero failure count with a success flag": {"success": True, "failures": 0, "failed": 0},
    "a null error inside a result list": {
        "results": [{"id": 1, "error": None}, {"id": 2, "error": None}]
    },
    "error text nested in returned data with a success flag": {
        "success": True,
        "data": {"log": "error: HTTP 404 not found", "error": "old news"},
    },
    "failed false": {"failed": False, "rows": 3},
    "an empty error string": {"error": "", "rows": 3},
}
FAILURES = {
    "success false": {"success": False, "rows": 0},
    "a non-empty top-level error": {"error": "no such customer"},
    "status error": {"status": "error", "rows": 0},
}
PADDING = "x" * 600

FORMS = {
    "object": lambda value: value,
    "text": json.dumps,
    "padded object": lambda value: {**value, "padding": PADDING},
    "padded text": lambda value: json.dumps({**value, "padding": PADDING}),
    "text padded in front": lambda value: json.dumps({"padding": PADDING, **value}),
}

EVERY = [
    pytest.param(shape(value), failures, id=f"{name}, as {form}")
    for values, failures in ((SUCCESSES, 0), (FAILURES, 1))
    for name, value in values.items()
    for form, shape in FORMS.items()
]


@pytest.mark.parametrize(("result", "failures"), EVERY)
def test_through_the_decorator(make_guard, result, failures):
    guard = make_guard()
    with guard.within(run="r"):
        assert stop_of(guard.wrap(Body(result))) is None
    report = guard.report("r")
    assert (report.totals.executed, report.totals.failed) == (1, failures)
    assert report.gathered[0].failed == bool(failures)


@pytest.mark.parametrize(("result", "failures"), EVERY)
def test_in_a_recording(result, failures):
    # A failure shows in the reason: the fourth that failed alike is refused as failing, the fourth that
    # came out alike as the same.
    calls = tuple(RecordedCall("look", {}, reply=n, result=result) for n in range(4))
    stops = Replayer().replay(Transcript("file", "run", "jsonl", calls)).stops
    assert [(stop.index, stop.reason) for stop in stops] == [(3, "failing" if failures else "same")]
