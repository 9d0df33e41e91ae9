"""How commands print what others named: without secrets where it comes from saved runs, and text to a terminal."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from lastcall.redaction import Redactor
from lastcall.replay import Replayed, ReplayedStop
from lastcall.transcripts import Unreadable
from lastcall.visible import one_line, visible

Words = Callable[[str], str]
"""Takes the secrets out of a name or a text."""

Done = TypeVar("Done", bound=Replayed)

NAMES = 256
"""Names that are remembered: a tool is in many stops, and a file may have many runs."""


def words(*, redact: bool = True) -> Words:
    """Without secrets; as they are, where not *redact*."""
    return lru_cache(NAMES)(Redactor.of_environment().text) if redact else str


def may_show(command: ArgumentParser) -> None:
    """Let *command* leave secrets in, on demand."""
    command.add_argument(
        "--no-redact", action="store_true", help="leave secrets in: for nobody's eyes but yours"
    )


def say(line: str, *, error: bool = False) -> None:
    """Print *line*, to standard error where it is about one."""
    print(one_line(line), file=sys.stderr if error else sys.stdout)


def as_json(value: Any) -> str:
    """*value* as JSON in one line of ASCII, which is the same in every encoding; no control among it."""
    return visible(json.dumps(to_builtins(value)))


def of_run(done: Done, text: Words) -> Done:
    """*done* without secrets in its names."""
    stops = tuple(of_stop(stop, text) for stop in done.stops)
    return replace(done, file=text(done.file), run=text(done.run), stops=stops)


def of_stop(stop: ReplayedStop, text: Words) -> ReplayedStop:
    """*stop* without secrets in its names."""
    return replace(stop, tool=text(stop.tool))


def located(found: Unreadable, text: Words) -> str:
    """The file, the line where there is one, and why it could not be read."""
    # Each alone: a file may be called `token`, and no value stands behind that and a colon.
    at = "" if found.line is None else f":{found.line}"
    return f"{text(found.file)}{at}: {text(found.problem)}"


def unread(found: Unreadable, text: Words) -> str:
    """The same, as commands say it."""
    return f"lastcall: {located(found, text)}"
