"""What is fuzzed: each target takes bytes, whatever they are, and raises when something is found."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lastcall import Policy
from lastcall.fingerprint import exact, loose, masked_digest
from lastcall.replay import Replayer
from lastcall.status import raised, returned
from lastcall.tool import ToolPolicy
from lastcall.transcripts import Transcript, Unreadable, read

PRINT = re.compile(r"[0-9a-f]{16}")
LIMIT = 1 << 20
"""Bytes of text a fuzzed file may hold at once, so that a bomb is found out soon."""

FOLDER = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
FILE = FOLDER / f"lastcall-fuzz-{os.getpid()}"
REPLAYERS = (Replayer(), Replayer(Policy.strict()))


class Finding(AssertionError):
    """Something that should not be."""


def readers(data: bytes) -> None:
    """Reading a file never raises, no reader stumbles, names are unique, and what is read can be
    replayed."""
    FILE.write_bytes(data)
    names = set()
    try:
        told = list(read(FILE, limit=LIMIT))
    finally:
        FILE.unlink()
    if not told and b'"lastcall"' not in data:
        # Only a recording may go on with a run that an earlier file tells of, and say nothing itself.
        raise Finding("nothing is said of the file")
    for one in told:
        if isinstance(one, Unreadable):
            if "stumbled" in one.problem:
                raise Finding(one.problem)
            continue
        if one.run in names:
            raise Finding(f"two runs are called {one.run}")
        names.add(one.run)
        _replayable(one)


def _replayable(run: Transcript) -> None:
    calls = list(run.calls)
    if len(calls) != len(run.calls):
        raise Finding("there are more or fewer calls than it says")
    for replayer in REPLAYERS:
        done = replayer.replay(run)
        if done.executed + done.saved != done.calls:
            raise Finding("calls went missing")


def fingerprint(data: bytes) -> None:
    """Fingerprints are made of anything, and are equal for calls that are."""
    text = data.decode(errors="surrogateescape")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    one = _prints(value)
    if one != _prints(_turned(value)):
        raise Finding("the order of keys makes a difference")
    if isinstance(value, dict) and _plain(value):
        spaced = json.dumps(value, indent=1)
        if exact("f", value) != exact("f", spaced):
            raise Finding("the text of arguments is another call than the arguments")
    if PRINT.fullmatch(masked_digest(text)) is None:
        raise Finding("a digest is not 16 hex characters")


def _prints(value: Any) -> list[str]:
    made = [exact("f", value), loose("f", value), loose("f", value, strict=True)]
    if not all(PRINT.fullmatch(each) for each in made):
        raise Finding(f"{made} are not 16 hex characters each")
    return made


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> bool:
    """Whether JSON gives *value* back: no numbers that are none, no half characters."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False).encode()) == value)
    except (ValueError, RecursionError):
        return False


SHELL = ToolPolicy(shell=True)


def status(data: bytes) -> None:
    """The status finder takes any result and any exception, and finds statuses or none."""
    text = data.decode(errors="surrogateescape")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    for failed in (None, False, True):
        for policy in (ToolPolicy(), SHELL):
            outcome = returned(value, policy, failed=failed)
            if failed and outcome.kind != "error":
                raise Finding("a failure is none")
            _sound(outcome.status)
    if (
        isinstance(value, str)
        and returned(value).kind != "ok"
        and not value.lstrip().startswith("{")
    ):
        raise Finding("plain text of a tool that did not fail is a failure")
    _sound(raised(RuntimeError(text)).status)
    if returned(text, SHELL, failed=True).status is not None and not isinstance(value, dict | list):
        raise Finding("a status is read from what a shell printed")


def _sound(found: Any) -> None:
    if found is not None and not (type(found) is int and 100 <= found <= 599):
        raise Finding(f"{found!r} is no status")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "readers": readers,
    "fingerprint": fingerprint,
    "status": status,
}
