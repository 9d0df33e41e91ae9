"""`lastcall replay`: where saved runs would have been stopped."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, get_args

from lastcall.commands import live
from lastcall.commands.codes import OK, UNEXPECTED, UNUSABLE, CommandError
from lastcall.commands.printed import Words, as_json, may_show, of_run, say, unread, words
from lastcall.commands.recorded import Expect, Wanted
from lastcall.commands.what_if import compared
from lastcall.expectation import ENDING, beside, meant
from lastcall.lived import Lived
from lastcall.plural import counted
from lastcall.policy import Policy
from lastcall.policy_file import PolicyError, nearest
from lastcall.redaction import VARIABLE
from lastcall.replay import Replayed, ReplayedStop, Replayer
from lastcall.transcripts import Transcript, Unreadable, find, read
from lastcall.visible import one_line

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
        epilog=f"Secrets in names and texts are redacted; {VARIABLE} is the key by which equal ones look equal "
        "everywhere. Exit code: 0 as expected (or nothing was expected), 1 not as expected, 2 when something "
        "could not be read or the command was used wrongly.",
    )
    one.set_defaults(run=run, wrong=one.error)
    one.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files and folders")
    one.add_argument(
        "--policy",
        metavar="POLICY",
        help=f"{', '.join(PRESETS)}, or a TOML file (default: default)",
    )
    one.add_argument(
        "--expect",
        choices=get_args(Expect),
        help="fail unless every run would have been stopped, or none; recorded: or as NAME.expect.toml "
        "beside NAME.transcript.jsonl says, else none, and where rules could not judge a run",
    )
    one.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="POLICY",
        help="compare with another policy, side by side; may be given several times",
    )
    one.add_argument(
        "--good",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="with --what-if: runs that nothing may stop",
    )
    one.add_argument(
        "--bad",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="with --what-if: runs that should be stopped",
    )
    one.add_argument(
        "--live",
        metavar="MODULE:AGENT",
        help="live the runs again with your own agent, turn by turn: its model is asked for real, its tools "
        "answer as recorded",
    )
    one.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="with --live: what the user says, else the words of the user in the run; given several times, "
        "turn by turn. No other turns are lived then",
    )
    one.add_argument("--json", action="store_true", help="one JSON object a run")
    may_show(one)


def run(options: Namespace) -> int:
    """Replay every run in the paths and print what would have happened. Returns the exit code."""
    paths: list[Path] = [*options.paths, *options.good, *options.bad]
    text = words(redact=not options.no_redact)
    if isinstance(sys.stdout, TextIOWrapper):
        # No name of a file is a reason to break off.
        sys.stdout.reconfigure(errors="backslashreplace")
    checked(options, paths)
    wanted = Wanted(options.expect)
    if options.expect == "recorded":
        paths = [each for path in paths for each in meant(path)]
    replayers: dict[tuple[str, Path | None], Replayer] = {}
    named = set(paths)
    files = [each for each in find(paths) if each in named or not each.name.endswith(ENDING)]
    if not files:
        say(f"lastcall: no files in {', '.join(map(str, paths))}", error=True)
        return UNUSABLE
    if options.what_if:
        names = dict.fromkeys([options.policy or "default", *options.what_if])
        compare = [
            (name, policy_of(name, "--what-if" if name in options.what_if else "--policy"))
            for name in names
        ]
        return compared(options, compare, found_in(files, named), text)
    if options.policy is not None:
        policy_of(options.policy)

    def own(file: Path) -> tuple[str, Path | None]:
        """The name of the policy for *file*, and the folder it was named in, if beside it."""
        told = None if options.policy else wanted.policy(file)
        return told or options.policy or "default", file.parent if told else None

    def policy_for(file: Path) -> Policy:
        name, folder = own(file)
        return policy_of(name, f"{beside(file)}: policy =" if folder else "--policy", folder)

    if options.live:

        def lived(done: Lived, missed: str | None) -> str:
            return as_json(done) if options.json else live.told(done, missed, place)

        return live.relived(options, files, named, wanted, policy_for, lived, text)
    tally = Tally(wanted)
    with progress(files, shown=not options.json) as following:
        for file in following:
            key = own(file)
            if key not in replayers:
                replayers[key] = Replayer(policy_for(file))
            replayer = replayers[key]
            for found in read(file):
                if isinstance(found, Transcript):
                    done = replayer.replay(found)
                    tally.add(done)
                    print(shown(done, wanted.missed(done), text, plain=options.json))
                elif found.foreign and file not in named:
                    tally.passed_over += 1
                else:
                    tally.unreadable += 1
                    say(unread(found, text), error=True)
    if not tally.runs and not tally.unreadable:
        say("lastcall: none of these files is a transcript", error=True)
        return UNUSABLE
    if not options.json:
        print(tally.summary())
        for unjudged in tally.unjudged():
            print(unjudged)
    return tally.code()


def checked(options: Namespace, paths: Sequence[Path]) -> None:
    """Whether the words of the command go together. Raises CommandError where they do not."""
    if not paths:
        options.wrong("which runs? Name files and folders")
    if (options.good or options.bad) and not options.what_if:
        raise CommandError("--good and --bad mark runs for --what-if")
    if options.what_if and options.expect:
        raise CommandError("--what-if compares and expects nothing; leave --expect out")
    if options.live and options.what_if:
        raise CommandError("--live lives under one policy; leave --what-if out")
    if options.prompt is not None and not options.live:
        raise CommandError("--prompt is what the user says with --live")


def found_in(files: Iterable[Path], named: Collection[Path]) -> Iterator[Transcript | Unreadable]:
    """What is in *files*, but for those that were not *named* and are no transcripts."""
    for file in files:
        for found in read(file):
            if isinstance(found, Transcript) or not found.foreign or file in named:
                yield found


def policy_of(name: str, said: str = "--policy", folder: Path | None = None) -> Policy:
    """The preset *name*, or the policy of the file *name*, from *folder* where it is relative. *said* is
    where it was named, for errors. Raises PolicyError."""
    if name in PRESETS:
        return Policy.preset(name)
    path = Path(name) if folder is None else folder / name
    if path.suffix != ".toml" and not path.exists():
        hint = nearest(name, PRESETS)
        raise PolicyError(f"{said} {name}: neither one of {', '.join(PRESETS)} nor a file{hint}")
    try:
        return Policy.from_toml(path)
    except OSError as error:
        raise PolicyError(f"{said} {name}: {error.strerror or error}") from None


class Tally:
    """What the command saw, for the summary and the exit code."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self.runs = self.calls = self.stopped = self.saved = 0
        self.failed = self.unreadable = self.passed_over = 0
        self._unjudged: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()

    def add(self, done: Replayed) -> None:
        """Count one run."""
        self.runs += 1
        self.calls += done.calls
        self.stopped += done.stopped
        self.saved += done.saved
        self.failed += self._wanted.missed(done) is not None
        if done.not_judged:
            self._unjudged[done.not_judged, done.lacks] += 1

    def summary(self) -> str:
        """The last line."""
        seen = f"{counted(self.runs, 'run')}, {counted(self.calls, 'call')}"
        parts = [f"{seen}: {self.stopped} stopped, {counted(self.saved, 'call')} saved"]
        expect = self._wanted.expect
        if expect is not None:
            wanted = {"stop": " stopped", "clean": " clean"}.get(expect, "")
            parts.append(f"{self.failed} not{wanted} as expected")
        if self.unreadable:
            parts.append(f"{self.unreadable} unreadable")
        if self.passed_over:
            parts.append(f"{counted(self.passed_over, 'file')} passed over, no transcripts")
        return "; ".join(parts)

    def unjudged(self) -> Iterator[str]:
        """A line for all runs in which the same rules could not be judged."""
        for (rules, lacks), runs in self._unjudged.most_common():
            why = f" (no {', no '.join(lacks)})" if lacks else ""
            yield f"not judged in {counted(runs, 'run')}: {', '.join(rules)}{why}"

    def code(self) -> int:
        """The exit code."""
        return UNUSABLE if self.unreadable else UNEXPECTED if self.failed else OK


def shown(done: Replayed, missed: str | None, text: Words, *, plain: bool) -> str:
    """A run without secrets: as one JSON object where *plain*, else for a person."""
    done = of_run(done, text)
    if plain:
        return as_json(done)
    return told(done, None if missed is None else text(missed))


def told(done: Replayed, missed: str | None) -> str:
    """A run for a person: one line, and one more for where it would have been stopped. *missed*: in which
    way it is not as expected."""
    mark = "stop " if done.stopped else "clean"
    head = f"{mark}  {one_line(done.file)}"
    if done.run not in Path(done.file).name:
        head += f" [{one_line(done.run)}]"
    head += f"  {counted(done.calls, 'call')}, {done.format}"
    if missed is not None:
        head += f"  NOT AS EXPECTED: {one_line(missed)}"
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
        f"call {stop.index + 1}, {one_line(stop.tool)} ({stop.reason}{status}, scope {stop.scope},"
        f" fingerprint {stop.fingerprint})"
    )


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
