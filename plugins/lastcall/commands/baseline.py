"""`lastcall baseline`: a policy whose limits come from healthy runs."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from lastcall.baseline import Baseline
from lastcall.commands.codes import OK, UNUSABLE, CommandError
from lastcall.commands.printed import say, unread, words
from lastcall.plural import counted
from lastcall.switch_file import replace
from lastcall.transcripts import Transcript, find, read


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "baseline",
        help="derive the limits of a policy from healthy runs",
        description="Reads saved runs that went well and writes a policy: for each quantity the alert is "
        "the 99th percentile of its own, the limit twice that.",
        epilog="Exit code: 0 written, 2 when something could not be read or written, or the command was "
        "used wrongly; what could be read is in the policy all the same.",
    )
    one.set_defaults(run=run)
    one.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    one.add_argument(
        "-o", "--output", type=Path, metavar="POLICY", help="the file (default: standard output)"
    )


def run(options: Namespace) -> int:
    """Derive it. Returns the exit code."""
    baseline = Baseline()
    text = words()
    unreadable = passed_over = 0
    for file in find(options.paths):
        for found in read(file):
            if isinstance(found, Transcript):
                baseline.add(found)
            elif found.foreign and file not in options.paths:
                passed_over += 1
            else:
                unreadable += 1
                say(unread(found, text), error=True)
    if not baseline.calls:
        paths = ", ".join(map(str, options.paths))
        raise CommandError(f"no run with a call in {paths}; there is nothing to derive limits from")
    policy = baseline.policy()
    output: Path | None = options.output
    if output is None:
        print(policy, end="")
    else:
        replace(output, policy.encode())
    said = [
        f"{counted(baseline.transcripts, 'transcript')}, {counted(baseline.calls, 'call')}",
        f"not judged: {', '.join(baseline.untold())}",
    ]
    if unreadable:
        said.append(f"{unreadable} unreadable")
    if passed_over:
        said.append(f"{counted(passed_over, 'file')} passed over, no transcripts")
    # The policy itself may be what is printed.
    print("; ".join(said), file=sys.stderr if output is None else sys.stdout)
    return UNUSABLE if unreadable else OK
