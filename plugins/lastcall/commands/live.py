"""`lastcall replay --live module:agent`: saved runs lived again by the user's own agent."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from lastcall.commands.codes import OK, UNEXPECTED, UNUSABLE, CommandError
from lastcall.commands.printed import Words, of_run, say, unread
from lastcall.commands.recorded import Wanted
from lastcall.course import Diverged
from lastcall.live_agent import AgentError, LiveAgent
from lastcall.lived import Lived, LivedTurn, NotLived
from lastcall.plural import counted
from lastcall.policy import Policy
from lastcall.transcripts import Transcript, Unreadable, read
from lastcall.transcripts.said import Said, said, said_by_hand
from lastcall.visible import one_line

Part = TypeVar("Part", Lived, LivedTurn)

UNSAID = "what the user said is not found in it; say it with --prompt TEXT"


def relived(
    options: Namespace,
    files: Sequence[Path],
    named: Collection[Path],
    wanted: Wanted,
    policy_of: Callable[[Path], Policy],
    show: Callable[[Lived, str | None], str],
    text: Words,
) -> int:
    """Live every run of *files* again and print how it went, as *show* puts it, with names and texts as *text*
    has them. Returns the exit code."""
    runs = failed = unreadable = errors = 0
    with asyncio.Runner() as loop:
        try:
            agent = LiveAgent(options.live, loop)
        except AgentError as error:
            raise CommandError(f"--live {text(str(error))}") from error
        for what, why in agent.gaps():
            say(f"lastcall: {text(what)} runs for real: {why}", error=True)
        for file in files:
            policy = policy_of(file)
            for found, spoken in prompted(file, named, options.prompt):
                if isinstance(found, Unreadable):
                    unreadable += 1
                    say(unread(found, text), error=True)
                    continue
                if spoken is None or not spoken.turns:
                    unreadable += 1
                    where = f"{text(found.file)} [{text(found.run)}]"
                    say(f"lastcall: {where}: {UNSAID}", error=True)
                    continue
                try:
                    done = agent.relive(found, spoken, policy)
                except AgentError as error:
                    raise CommandError(f"--live {text(str(error))}") from error
                runs += 1
                errors += done.error is not None
                missed = wanted.missed(done) if done.error is None else None
                failed += missed is not None
                print(show(redacted(done, text), None if missed is None else text(missed)))
    if not runs and not unreadable:
        say("lastcall: none of these files is a transcript", error=True)
        return UNUSABLE
    return UNUSABLE if unreadable or errors else UNEXPECTED if failed else OK


def prompted(
    file: Path, named: Collection[Path], prompts: Sequence[str] | None
) -> Iterator[tuple[Transcript | Unreadable, Said | None]]:
    """What is in *file*, each run with what the user said in its turns: *prompts*, else its own words."""
    found = [
        each
        for each in read(file)
        if isinstance(each, Transcript) or not each.foreign or file in named
    ]
    runs = [each for each in found if isinstance(each, Transcript)]
    told = said(file, runs) if prompts is None else [said_by_hand(run, prompts) for run in runs]
    words = iter(told)
    for each in found:
        yield each, next(words) if isinstance(each, Transcript) else None


def redacted(done: Lived, text: Words) -> Lived:
    """*done* without secrets in names, and in what the agent said."""

    def some(words: str | None) -> str | None:
        return None if words is None else text(words)

    def plain(one: Part) -> Part:
        left = one.diverged
        return replace(
            one,
            diverged=left and replace(left, tool=some(left.tool), recorded=some(left.recorded)),
            output=some(one.output),
            ended=some(one.ended),
            error=some(one.error),
        )

    return replace(plain(of_run(done, text)), turns=tuple(map(plain, done.turns)))


def told(done: Lived, missed: str | None, place: Callable[..., str]) -> str:
    """A run for a person; *place* says where and why a stop is."""
    last = f"turn {len(done.turns)}: " if len(done.turns) > 1 else ""
    mark = "error" if done.error else "stop " if done.stopped else "clean"
    head = f"{mark}  {done.file}"
    if done.run not in Path(done.file).name:
        head += f" [{done.run}]"
    of = f" of {counted(len(done.turns), 'turn')}" if len(done.turns) > 1 else ""
    head += f"  live: {done.calls} calls in {done.requests} requests{of}; recorded: {done.recorded}"
    if missed is not None:
        head += f"  NOT AS EXPECTED: {missed}"
    lines = [head, *courses(done)]
    if done.unrecorded:
        lines.append(f"{done.unrecorded} of the calls had no recording to answer them")
    if done.stops:
        first = next((stop for stop in done.stops if stop.refused), done.stops[0])
        lines.append(
            f"{place(first)} {'was refused' if first.refused else 'was answered by a stop'}"
        )
    for at, turn in enumerate(done.turns, 1):
        if turn.ended is not None:
            lines.append(f"turn {at}: ended by {turn.ended}" if last else f"ended by {turn.ended}")
    if done.error is not None:
        hint = "" if done.calls else "; its model is asked for real: are its key and network there?"
        lines.append(f"{last}the agent failed: {done.error}{hint}")
    if done.not_lived is not None:
        lines.append(unlived(done.not_lived))
    # What others named, or a service answered, does nothing to a terminal.
    return "\n       ".join(map(one_line, lines))


def courses(done: Lived) -> Iterator[str]:
    """Where each turn of a run left its recording."""
    if len(done.turns) < 2 or done.diverged is None:  # noqa: PLR2004 - more than one
        yield course(done.diverged)
        return
    for at, turn in enumerate(done.turns, 1):
        if turn.diverged is not None:
            yield f"turn {at} {course(turn.diverged)}"


def unlived(rest: NotLived) -> str:
    """What of a run was not lived, and why."""
    return f"{counted(rest.turns, 'turn')} not lived: {rest.why}"


def course(diverged: Diverged | None) -> str:
    """Where a run left its recording."""
    if diverged is None:
        return "as recorded, call by call"
    now = diverged.tool or "the run ended"
    then = diverged.recorded or "the run ended"
    if now == then:
        then += " with other arguments"
    return f"diverged at call {diverged.index + 1}: {now}; recorded: {then}"
