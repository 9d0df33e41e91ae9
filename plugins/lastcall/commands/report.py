"""`lastcall report`: the postmortem of saved runs as one page."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from lastcall import page
from lastcall.commands.codes import OK, UNUSABLE, CommandError
from lastcall.commands.printed import located, may_show, say, words
from lastcall.commands.replay import PRESETS, found_in, policy_of, progress
from lastcall.expectation import ENDING
from lastcall.page.building import ROOM
from lastcall.plural import counted
from lastcall.redaction import VARIABLE, Redactor
from lastcall.replay import Replayer
from lastcall.switch_file import replace
from lastcall.transcripts import Transcript, find
from lastcall.visible import visible

FORMATS = ("html", "svg", "md", "json")


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "report",
        help="make a page of saved runs: the loop, the stop, what it saves",
        description="Writes one page of saved runs, which needs nothing else, for a browser, a ticket or a "
        "colleague: the calls over time, which of them are the same, where the guard would have ended it and "
        "what that would have saved.",
        epilog=f"Secrets are redacted; {VARIABLE} is the key by which equal ones look equal on several pages. "
        "Exit code: 0 written, 2 when something could not be read or written, or the command was used "
        "wrongly; what could be read is on the page all the same.",
    )
    one.set_defaults(run=run)
    one.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    one.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the page (default: standard output)"
    )
    one.add_argument(
        "--policy",
        default="default",
        metavar="POLICY",
        help=f"{', '.join(PRESETS)}, or a TOML file (default: default)",
    )
    one.add_argument(
        "--format", choices=FORMATS, help="(default: by the ending of FILE, else html)"
    )
    may_show(one)


def run(options: Namespace) -> int:
    """Write it. Returns the exit code."""
    output = checked(options.output)
    form: str = options.format or form_of(output)
    if output is None and form == "html" and sys.stdout.isatty():
        raise CommandError("a page is for a file: say -o page.html")
    policy = policy_of(options.policy)
    made, unreadable = read_all(options, policy)
    if not made.runs:
        raise CommandError(
            f"no run in {', '.join(map(str, options.paths))}; there is nothing to report on"
        )
    text = written(made, form)
    said = (
        f"{counted(len(made.runs), 'run')}, {counted(made.calls, 'call')}: {made.stopped} stopped,"
        f" {counted(made.saved, 'call')} saved"
    )
    if unreadable:
        said += f"; {unreadable} unreadable"
    if output is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(text)
        say(said, error=True)
    else:
        # At once: a page that is half written is never seen.
        replace(output, text.encode())
        say(f"{output}: {said}")
    return UNUSABLE if unreadable else OK


def read_all(options: Namespace, policy: Any) -> tuple[page.Page, int]:
    """The page of all runs in the paths, and how much could not be read."""
    redactor = None if options.no_redact else Redactor.of_environment()
    text = words(redact=not options.no_redact)
    replayer, named = Replayer(policy), set(options.paths)
    files = [
        each for each in find(options.paths) if each in named or not each.name.endswith(ENDING)
    ]
    runs: list[page.RunPage] = []
    problems: list[str] = []
    room = ROOM
    with progress(files, shown=options.output is not None) as following:
        for found in found_in(following, named):
            if isinstance(found, Transcript):
                done = replayer.replay(found)
                runs.append(page.run_page(found, done, policy, redactor, room=room))
                room -= runs[-1].weight
            else:
                problems.append(visible(located(found, text)))
                say(f"lastcall: {problems[-1]}", error=True)
    name = visible(text(options.policy))
    return page.Page(page.named(runs), name, redactor is not None, tuple(problems)), len(problems)


def checked(output: Path | None) -> Path | None:
    """The file to write, None for standard output. Raises CommandError before anything is read."""
    if output is None or str(output) == "-":
        return None
    if output.is_dir():
        raise CommandError(f"{output} is a folder; name a file in it: -o {output / 'page.html'}")
    if not output.parent.is_dir():
        raise CommandError(f"{output.parent} is no folder; make it, or name another file")
    return output


def form_of(output: Path | None) -> str:
    """The format that the ending of the file says."""
    ending = "" if output is None else output.suffix.lower().lstrip(".")
    return ending if ending in FORMATS else "html"


def written(made: page.Page, form: str) -> str:
    """The page in that format."""
    if form == "json":
        return json.dumps(page.plain(made), indent=1, default=str) + "\n"
    return {"svg": page.svg, "md": page.markdown}.get(form, page.html)(made)
