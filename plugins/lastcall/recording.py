"""Writes down live runs as a plain log, from which replay reaches the same verdicts (requirement H8).

A line is a call that was asked for (`call`), what it came to (`result`), both with the number of the call in
its file, or a run that is over (`over`). Where runs go on in the next file, a last line says in which (`more`),
and the first line there from which and which runs (`from`). Lines are written whole, one by one, as things
happen: a process that is killed loses the line it was writing, and nothing else.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from lastcall.call import Call, Outcome, Usage
from lastcall.events import Event
from lastcall.fingerprint import canonical, key_of, keyed
from lastcall.redaction import Redactor
from lastcall.stop import Stop
from lastcall.tool import PLAIN, ToolPolicy

LEFT_OUT = "lastcall:left out"
"""In place of what is too large: its bytes."""

VERSION = 1
"""Of the lines. It goes up when a field changes its meaning."""

SUFFIX = ".lastcall.jsonl"

MIB = 1024 * 1024

LARGEST = 64 * 1024
"""Bytes of one result, or of one call's arguments, that are written; of a larger one its digest is."""

log = logging.getLogger("lastcall")


class Recorder:
    """A listener that writes all calls of a guard into *folder*: `Guard(listeners=[Recorder("runs")])`.

    Each process writes files of its own, `TIME-PID-NUMBER.lastcall.jsonl`; one that has *max_bytes* is
    followed by the next as soon as no run is under way, or at twice that size: then the next one goes on with
    the runs, and replay joins them. The *keep* newest files of the folder stay. *redactor* takes secrets out of arguments, results and names (False: nothing is taken out; None: one
    with the key of `LASTCALL_REDACTION_KEY`); the
    fingerprints and digests written beside them are those of the real ones, under *fingerprint_key* (at least 16
    bytes) their HMAC: else who has the file can try out what was redacted. A file that cannot be written
    is named in the log, once, and no run is the worse for it.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        max_bytes: int = 64 * MIB,
        keep: int = 100,
        redactor: Redactor | Literal[False] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        fingerprint_key: bytes | None = None,
    ) -> None:
        if max_bytes < 1 or keep < 1:
            raise ValueError("max_bytes and keep are whole numbers from 1")
        self.folder = Path(folder)
        self._max_bytes = max_bytes
        self._keep = keep
        self._redact = Redactor.of_environment() if redactor is None else redactor or None
        self._clock = clock
        self._key = key_of(fingerprint_key)
        self._lock = threading.Lock()
        self._fd = -1
        self._pid = 0
        self._files = 0
        self._name = ""
        self._size = 0
        self._calls = 0
        self._open: set[str | None] = set()
        """Runs that are not over, and of which the newest file has lines."""
        self._failed = False

    def __call__(self, event: Event) -> None:
        """Hear that a run is over."""
        if event.kind == "finished":
            with self._lock:
                # A fork says nothing in its parent's file.
                if event.run in self._open and self._pid == os.getpid():
                    self._write({"lastcall": VERSION, "over": self._shown(event.run)})
                    self._open.discard(event.run)

    def decided(self, call: Call, stops: Sequence[Stop], now: float) -> None:
        """*call* was allowed, or refused by *stops*."""
        line = {
            "lastcall": VERSION,
            "call": 0,
            "ts": now,
            "name": call.name,
            "args": self._shown(call.args),
            **bare(
                kind=call.kind if call.kind != "tool" else None,
                fingerprint=None if call.kind == "model" else keyed(call.fingerprint, self._key),
                near=self._keyed(vars(call).get("near")),
                id=self._name_of(call.id),
                reply=self._name_of(call.reply),
                index=call.index or None,
                size=call.size,
                # Of a write made for it, it ends in a hash of arguments, as the next one is.
                key=self._name_of(call.key) if self._key is None else self._keyed(call.key),
                params=self._keyed(call.params or None),
                # As the names in its path are, which it is compared with.
                into=self._shown(call.into),
                tool=described(call.policy),
                policy=call.version,
                refused=[[stop.reason, stop.scope] for stop in stops] or None,
            ),
            **{
                name: self._shown(value)
                for name in call.where.__struct_fields__
                if (value := getattr(call.where, name))
            },
        }
        with self._lock:
            self._turn_over(call.where.run)
            self._calls += 1
            call.mark(self, (self._name, self._calls))
            line["call"] = self._calls
            self._write(line)

    def settled(self, call: Call, outcome: Outcome, stops: Sequence[Stop], now: float) -> None:
        """*call* came to *outcome*, which led to *stops*."""
        known = outcome.known
        line = {
            "lastcall": VERSION,
            "result": 0,
            "ts": now,
            "outcome": outcome.kind,
            **bare(
                content=self._shown(outcome.content) if known else None,
                error=outcome.error and self._text(outcome.error),
                digest=keyed(outcome.digest, self._key) if known else None,
                like=self._keyed(vars(outcome).get("like")),
                status=outcome.status,
                grade=outcome.grade,
                retry_after=outcome.retry_after,
                transport=outcome.transport or None,
                unrecorded=not outcome.recorded or None,
                unstarted=not outcome.started or None,
                kept=outcome.kept is not None or None,
                cost=None if outcome.cost is None else str(outcome.cost),
                usage=used(outcome.usage),
                stopped=[[stop.reason, stop.scope] for stop in stops] or None,
            ),
        }
        with self._lock:
            place: tuple[str, int] | None = call.marked(self)
            if place is None:
                return
            self._have_file()
            file, line["result"] = place
            if file != self._name:
                # Its call stands in an earlier file, or was made by the process that this one came from.
                line["of"] = file
            self._write(line)

    def close(self) -> None:
        """Let go of the file; what comes later begins another one."""
        with self._lock:
            self._close()

    def _shown(self, value: Any) -> Any:
        """*value* as plain data without secrets; a large one only by its size."""
        shown = plain(value) if self._redact is None else self._redact.value(value)
        size = len(written(shown))
        return shown if size <= LARGEST else {LEFT_OUT: size}

    def _keyed(self, print_: str | None) -> str | None:
        return None if print_ is None else keyed(print_, self._key)

    def _text(self, text: str) -> str:
        return text if self._redact is None else self._redact.text(text)

    def _name_of(self, name: str | None) -> str | None:
        """A name that somebody else gave, and may have put anything into."""
        return None if name is None else self._text(name)

    def _turn_over(self, run: str | None) -> None:
        """Have a file to write a call of *run* to: the next one where this is full."""
        full = self._size >= self._max_bytes
        if self._fd >= 0 and full and (not self._open or self._size >= 2 * self._max_bytes):
            self._close()
        self._have_file()
        self._open.add(run)

    def _have_file(self) -> None:
        """Have a file of this process."""
        if self._pid != os.getpid():
            # A fork has its parent's file, and must not write into it.
            self._close()
            self._pid, self._files, self._name, self._open = os.getpid(), 0, "", set()
        if self._fd < 0 and not self._failed:
            self._begin()

    def _begin(self) -> None:
        """Open the next file, which goes on with the runs of the one before."""
        before, runs = self._name, self._open
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._open_next()
            self._prune()
            if runs:
                self._link(before, {"lastcall": VERSION, "more": self._name})
                went_on = [self._shown(run) for run in runs]
                self._write({"lastcall": VERSION, "from": before, "runs": went_on})
        except OSError as error:
            self._fail(error)

    def _open_next(self) -> None:
        while self._fd < 0:
            self._files += 1
            moment = self._clock().strftime("%Y%m%dT%H%M%S")
            self._name = f"{moment}-{self._pid}-{self._files:06}{SUFFIX}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL
            with suppress(FileExistsError):
                # Another recorder of this process may have it.
                self._fd = os.open(self.folder / self._name, flags, 0o600)
        self._size = self._calls = 0

    def _link(self, before: str, line: Mapping[str, Any]) -> None:
        """Have the file *before* end with *line*; it may be gone by now."""
        with suppress(FileNotFoundError):
            fd = os.open(self.folder / before, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(fd, written(line) + b"\n")
            finally:
                os.close(fd)

    def _prune(self) -> None:
        """Take away the oldest files, and never the one that was just begun."""
        names = sorted(each.name for each in self.folder.glob(f"*{SUFFIX}"))
        for old in names[: -self._keep]:
            if old == self._name:
                continue
            try:
                (self.folder / old).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s is not taken away: %s", self.folder / old, error)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._fd < 0:
            return
        data = written(line) + b"\n"
        try:
            # In one piece, so that no other thread's line is in the middle of it.
            done = os.write(self._fd, data)
        except OSError as error:
            self._fail(error)
            return
        if done < len(data):
            self._fail(OSError("the disk is full"))
        self._size += done

    def _fail(self, error: OSError) -> None:
        self._failed = True
        self._close()
        log.error("%s: nothing is recorded from now on: %s", self.folder, error)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size = -1, 0


def plain(value: Any) -> Any:
    """*value* as JSON knows it; of what that does not know, what its fingerprint is of."""
    if value is None:
        return None
    data = canonical(value)
    try:
        return orjson.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def written(value: Any) -> bytes:
    """*value* as JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a character, from a model, or a number of more than 64 bits.
        return json.dumps(value, default=str).encode()


def bare(**fields: Any) -> dict[str, Any]:
    """Those that are set."""
    return {name: value for name, value in fields.items() if value is not None}


def described(tool: ToolPolicy) -> dict[str, Any] | None:
    """What was said of a tool."""
    if tool is PLAIN:
        return None
    return tool.model_dump(mode="json", include=tool.model_fields_set) or None


def used(usage: Usage | None) -> dict[str, Any] | None:
    """What a request used."""
    if usage is None:
        return None
    return bare(**{name: getattr(usage, name) or None for name in usage.__struct_fields__})
