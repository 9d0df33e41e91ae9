"""A run as text that fits into 80 columns: which calls, how often each, what they brought, and where it was stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import orjson
from msgspec import Struct

from lastcall.expectation import cut
from lastcall.fingerprint import canonical
from lastcall.policy import Policy
from lastcall.recalled import call_of, outcome_of
from lastcall.redaction import Redactor
from lastcall.replay import Replayed, ReplayedStop
from lastcall.transcripts.recorded import RecordedCall, Transcript

WIDTH = 78
"""Columns of a line; two are left for whoever indents."""

FIRST, LAST = 6, 14
"""Rows that are shown of the beginning, and up to the stop; what is between is counted."""

PLACE, TIMES, ANSWER = 9, 4, 19
"""The width of the columns; the call itself has what is left."""


class Row(Struct, frozen=True):
    """Equal calls in a row that brought the like, by the numbers of the first and the last."""

    first: int
    last: int
    nth: int
    """The how-manieth call of its fingerprint the last one is."""
    fingerprint: str
    call: str
    answer: str


def timeline(
    transcript: Transcript, done: Replayed, policy: Policy, redactor: Redactor | None = None
) -> list[str]:
    """The lines. *done* is what a replay of *transcript* under *policy* came to. Secrets in arguments are
    taken out by *redactor*; None: by that of the environment."""
    redactor = Redactor.of_environment() if redactor is None else redactor
    stops = {stop.index: stop for stop in reversed(done.stops)}
    end = cut(done)
    upto = None if end is None else end.index + 1
    rows = folded(islice(transcript.calls, upto), stops, policy, redactor)
    lines = [line("call", "nth", "tool and arguments", "answer")]
    if len(rows) > FIRST + LAST + 1:
        between = rows[FIRST:-LAST]
        calls = between[-1].last - between[0].first + 1
        lines += map(of_row, rows[:FIRST])
        lines.append(line("...", "", f"{calls} more calls", ""))
        rows = rows[-LAST:]
    lines += map(of_row, rows)
    if end is not None:
        lines[-1] = ">" + lines[-1][1:]
        lines += after(len(transcript.calls), end)
    return lines


def folded(
    calls: Iterable[RecordedCall],
    stops: Mapping[int, ReplayedStop],
    policy: Policy,
    redactor: Redactor,
) -> list[Row]:
    """The rows of *calls*."""
    rows: list[Row] = []
    times: dict[str, int] = {}
    before: dict[str, Any] = {}
    for number, recorded in enumerate(calls, 1):
        call = call_of(recorded, policy)
        print_ = call.fingerprint
        times[print_] = times.get(print_, 0) + 1
        answer = answered(recorded, stops.get(number - 1), policy)
        last = rows[-1] if rows else None
        if last is not None and (last.fingerprint, last.answer) == (print_, answer):
            rows[-1] = Row(last.first, number, times[print_], print_, last.call, answer)
        else:
            args = shown(recorded.args, redactor)
            text = f"{redactor.text(call.name)}({told(args, before.get(call.name))})"
            before[call.name] = args
            rows.append(Row(number, number, times[print_], print_, text, answer))
    return rows


def answered(recorded: RecordedCall, stop: ReplayedStop | None, policy: Policy) -> str:
    """What became of a call, in a word or two."""
    if stop is not None and stop.refused:
        return f"refused: {stop.reason}"
    outcome = outcome_of(recorded, call_of(recorded, policy), policy)
    failed = outcome.kind == "error"
    if outcome.status is not None:
        word = str(outcome.status) if failed or outcome.status < 400 else f"{outcome.status}, ok"  # noqa: PLR2004
    elif recorded.malformed:
        word = "malformed"
    elif failed or outcome.kind in ("cancelled", "paused"):
        word = "failed" if failed else outcome.kind
    else:
        told = recorded.result is not None or (recorded.live is not None and outcome.kind == "ok")
        word = "ok" if told else "not told"
    if stop is None:
        return word
    return f"{word}, {'closes' if stop.scope in ('call', 'tool') else 'ends'} {stop.scope}"


def after(calls: int, end: ReplayedStop) -> list[str]:
    """What is to be said of the stop, and of what came after it."""
    status = "" if end.status is None else f", HTTP {end.status}"
    lines = [line("", "", f"^ {end.reason}, scope {end.scope}{status}", "")]
    left = calls - end.index - 1
    if left:
        lines.append(line(f"{end.index + 2}-{calls}", "", f"{left} more, saved", ""))
    return lines


def of_row(row: Row) -> str:
    """The line of a row."""
    place = str(row.last) if row.first == row.last else f"{row.first}-{row.last}"
    return line(place, f"x{row.nth}", row.call, row.answer)


def line(place: str, nth: str, call: str, answer: str) -> str:
    """One line, not longer than `WIDTH`."""
    room = WIDTH - PLACE - TIMES - ANSWER - 3
    return (
        f"{place:>{PLACE}} {nth:>{TIMES}} {cut_to(call, room):<{room}} {cut_to(answer, ANSWER)}"
    ).rstrip()


def shown(args: Any, redactor: Redactor) -> Any:
    """Arguments without secrets, of JSON text its value."""
    if isinstance(args, str):
        # As models write them: JSON in text, sometimes broken.
        try:
            args = orjson.loads(args)
        except ValueError:
            return redactor.text(args)
    return redactor.value({} if args is None else args)


def told(args: Any, before: Any) -> str:
    """*args* in one line; of those that the tool was called with *before*, only what is new."""
    if not isinstance(args, dict):
        return args if isinstance(args, str) else plain(args)
    known = before if isinstance(before, dict) else {}
    missing = object()
    new = {name: value for name, value in args.items() if known.get(name, missing) != value}
    if args and not new:
        return "as before"
    parts = [f"{name}={plain(value)}" for name, value in new.items()]
    return ", ".join(parts + ["..."] * (len(new) < len(args)))


def plain(value: Any) -> str:
    """*value* as JSON."""
    return canonical(value).decode("utf-8", "replace")


def printable(text: str) -> str:
    """*text* without line ends, colours and other surprises."""
    return "".join(each if each.isprintable() else " " for each in text)


def cut_to(text: str, room: int) -> str:
    """*text*, its end left out where it is longer than *room*."""
    text = printable(text)
    return text if len(text) <= room else f"{text[: room - 3]}..."


def indented(lines: Iterable[str], by: str = "  ") -> str:
    """*lines* as one text."""
    return "\n".join(f"{by}{each}".rstrip() for each in lines)
