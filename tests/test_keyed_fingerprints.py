"""Fingerprints that go out, under a key: nobody can try out which arguments were meant (requirement H6)."""

from __future__ import annotations

import hmac
import json
import logging
from pathlib import Path

import pytest

from lastcall import Call, Event, Guard, Policy, Where
from lastcall.fingerprint import exact, keyed
from lastcall.recording import Recorder

KEY = b"one of thirty-two bytes, or more"
PLAIN = exact("look", {"email": "ann@example.com"})
KEYED = hmac.new(KEY, PLAIN.encode(), "sha256").hexdigest()[:16]


def looking(guard: Guard, times: int = 5) -> None:
    for n in range(times):
        call = Call("look", {"email": "ann@example.com"}, Where("r", "t"), f"c{n}", reply=str(n))
        verdict = guard.decide(call)
        if verdict.ticket is not None:
            guard.observe(verdict.ticket, guard.returned(verdict.ticket, "the same"))


def test_events_and_their_stops_tell_them_keyed(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []
    guard = Guard(listeners=[events.append], fingerprint_key=KEY)
    with caplog.at_level(logging.DEBUG, "lastcall"):
        looking(guard)
    assert {event.fingerprint for event in events} == {KEYED}
    assert [event.stop.fingerprint for event in events if event.stop] == [KEYED, KEYED]
    logged = [vars(record)["lastcall"]["fingerprint"] for record in caplog.records]
    assert set(logged) == {KEYED}
    report = guard.report("r")
    assert report is not None
    assert report.stops[0].fingerprint == PLAIN, "whoever reads reports sees results, too"


def test_nor_do_the_keys_of_writes_end_in_what_can_be_tried_out() -> None:
    events: list[Event] = []
    tools = {"look": {"writes": True}}
    guard = Guard(Policy(tools=tools), listeners=[events.append], fingerprint_key=KEY)
    first, second = (guard.decide(Call("look", {"n": 1}, Where("r", "t"))) for _ in range(2))
    assert first.ticket is not None
    assert second.stop is not None
    own = second.stop.key
    assert own is not None
    assert [event.stop.key for event in events if event.stop] == [keyed(own, KEY)]
    told = guard.hidden(second.stop)
    assert (told.fingerprint, told.key) == (keyed(second.stop.fingerprint, KEY), keyed(own, KEY))
    assert Guard().hidden(second.stop) == second.stop


def test_without_a_key_they_are_as_they_are() -> None:
    events: list[Event] = []
    looking(Guard(listeners=[events.append]))
    assert {event.fingerprint for event in events} == {PLAIN}


def test_a_recording_holds_nothing_to_compare_with(tmp_path: Path) -> None:
    tools = {"look": {"writes": True, "identity": ["email"]}}
    for name, key in (("plain", None), ("keyed", KEY)):
        recorder = Recorder(tmp_path / name, fingerprint_key=key)
        looking(Guard(Policy(tools=tools), listeners=[recorder]))
        recorder.close()
    told = [
        [
            json.loads(line)
            for file in (tmp_path / name).iterdir()
            for line in file.read_text().splitlines()
        ]
        for name in ("plain", "keyed")
    ]
    for plain, under in zip(*told, strict=True):
        for field in ("fingerprint", "near", "digest", "like", "key", "params"):
            assert (field in plain) == (field in under)
            assert field not in plain or plain[field] != under[field]
    assert told[1][0]["fingerprint"] == KEYED


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [("a text of enough letters", TypeError, "bytes, not str"), (b"short", ValueError, "16 bytes")],
)
def test_what_is_no_key_is_said_at_once(
    tmp_path: Path, key: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Guard(fingerprint_key=key)  # type: ignore[arg-type]
    with pytest.raises(error, match=words):
        Recorder(tmp_path, fingerprint_key=key)  # type: ignore[arg-type]
