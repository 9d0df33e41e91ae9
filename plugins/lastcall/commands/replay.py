"""`lastcall replay`: where saved runs would have been stopped."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import to_builtins

from lastcall.commands.codes import OK, UNEXPECTED, UNUSABLE
from lastcall.policy import Policy
from lastcall.policy_file import PolicyError, nearest
from lastcall.replay import Replayed, ReplayedStop, Replayer
from lastcall.transcripts import Transcript, Unreadable, find, read

PRESETS = ("default", "strict", "dialogue", "coding", "permissive")

MANY = 20
"""Files from which on a person would like to see how far it is."""


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "replay",
        help="see where saved runs would have been stopped",
        description="Replays saved runs through the guard: which call would have been the last, why, "
        "and what that would have saved.",
        epilog="Exit code: 0 as expected (or nothing was expected), 1 not as expected, 2 when something "
        "could not be read or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    one.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    one.add_argument(
        "--policy",
        default="default",
        metavar="POLICY",
        help=f"{', '.join(PRESETS)}, or a TOML file (default: default)",
    )
    one.add_argument(
        "--expect",
        choices=("stop", "clean"),
        help="fail unless every run would have been stopped, or none",
    )
    one.add_argument("--json", action="store_true", help="one JSON object a run")


def run(options: Namespace) -> int:
    """Replay every run in the paths and print what would have happened. Returns the exit code."""
    paths: Sequence[Path] = options.paths
    as_json: bool = options.json
    if isinstance(sys.stdout, TextIOWrapper):
        # JSON is UTF-8; and no name of a file is a reason to break off.
        encoding = "utf-8" if as_json else None
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")
    replayer = Replayer(policy_of(options.policy))
    named = set(paths)
    files = find(paths)
    if not files:
        print(f"lastcall: no files in {', '.join(map(str, paths))}", file=sys.stderr)
        return UNUSABLE
    tally = Tally(options.expect)
    with progress(files, shown=not as_json) as following:
        for file in following:
            for found in read(file):
                if isinstance(found, Transcript):
                    done = replayer.replay(found)
                    tally.add(done)
                    print(line(done) if as_json else told(done, tally.unexpected(done)))
                elif found.foreign and file not in named:
                    tally.passed_over += 1
                else:
                    tally.unreadable += 1
                    print(f"lastcall: {located(found)}: {found.problem}", file=sys.stderr)
    if not tally.runs and not tally.unreadable:
        print("lastcall: none of these files is a transcript", file=sys.stderr)
        return UNUSABLE
    if not as_json:
        print(tally.summary())
    return tally.code()


def policy_of(name: str) -> Policy:
    """The preset *name*, or the policy of the file *name*. Raises PolicyError."""
    if name in PRESETS:
        return Policy.preset(name)
    path = Path(name)
    if path.suffix != ".toml" and not path.exists():
        hint = nearest(name, PRESETS)
        raise PolicyError(f"--policy {name}: neither one of {', '.join(PRESETS)} nor a file{hint}")
    try:
        return Policy.from_toml(path)
    except OSError as error:
        raise PolicyError(f"--policy {name}: {error.strerror or error}") from None


class Tally:
    """What the command saw, for the summary and the exit code."""

    def __init__(self, expect: Literal["stop", "clean"] | None) -> None:
        self._expect = expect
        self.runs = self.calls = self.stopped = self.saved = 0
        self.failed = self.unreadable = self.passed_over = 0

    def add(self, done: Replayed) -> None:
        """Count one run."""
        self.runs += 1
        self.calls += done.calls
        self.stopped += done.stopped
        self.saved += done.saved
        self.failed += self.unexpected(done)

    def unexpected(self, done: Replayed) -> bool:
        """Whether the run is not as it was expected to be."""
        return self._expect is not None and done.stopped != (self._expect == "stop")

    def summary(self) -> str:
        """The last line."""
        seen = f"{counted(self.runs, 'run')}, {counted(self.calls, 'call')}"
        parts = [f"{seen}: {self.stopped} stopped, {counted(self.saved, 'call')} saved"]
        if self._expect is not None:
            wanted = "stopped" if self._expect == "stop" else "clean"
            parts.append(f"{self.failed} not {wanted} as expected")
        if self.unreadable:
            parts.append(f"{self.unreadable} unreadable")
        if self.passed_over:
            parts.append(f"{counted(self.passed_over, 'file')} passed over, no transcripts")
        return "; ".join(parts)

    def code(self) -> int:
        """The exit code."""
        return UNUSABLE if self.unreadable else UNEXPECTED if self.failed else OK


def line(done: Replayed) -> str:
    """A run as one JSON object."""
    plain = to_builtins(done)
    try:
        return orjson.dumps(plain).decode()
    except TypeError:
        # Half a character, from a model or in the name of a file.
        return json.dumps(plain)


def told(done: Replayed, unexpected: bool) -> str:  # noqa: FBT001 - one of two words of a line
    """A run for a person: one line, and one more for where it would have been stopped."""
    mark = "stop " if done.stopped else "clean"
    head = f"{mark}  {done.file}"
    if done.run not in Path(done.file).name:
        head += f" [{done.run}]"
    head += f"  {counted(done.calls, 'call')}, {done.format}"
    if unexpected:
        head += "  NOT AS EXPECTED"
    first = next((stop for stop in done.stops if stop.refused), None)
    if first is None:
        answered = [stop for stop in done.stops if not stop.refused]
        if not answered:
            return head
        return f"{head}\n       {place(answered[0])}: its answer is a stop; nothing came after it"
    share = round(100 * done.saved / done.calls)
    return (
        f"{head}\n       {place(first)} would have been refused; {counted(done.saved, 'call')} saved"
        f" ({share} %)"
    )


def place(stop: ReplayedStop) -> str:
    """Where and why a stop is."""
    status = f", HTTP {stop.status}" if stop.status is not None else ""
    return (
        f"call {stop.index + 1}, {stop.tool} ({stop.reason}{status}, scope {stop.scope},"
        f" fingerprint {stop.fingerprint})"
    )


def located(found: Unreadable) -> str:
    """The file, and the line where there is one."""
    return found.file if found.line is None else f"{found.file}:{found.line}"


def counted(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextmanager
def progress(files: Sequence[Path], *, shown: bool) -> Iterator[Iterable[Path]]:
    """*files*, with a bar on the terminal when there are many and somebody looks."""
    if not shown or len(files) < MANY or not sys.stderr.isatty():
        yield files
        return
    try:
        from rich.progress import Progress  # noqa: PLC0415 - an extra, and only for people
    except ImportError:
        print('lastcall: for a progress bar: pip install "lastcall[cli]"', file=sys.stderr)
        yield files
        return
    from rich.console import Console  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield bar.track(files, description="replaying")
