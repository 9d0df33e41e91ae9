"""`lastcall tune`: the calmest policy that stops the bad runs and leaves the good ones alone."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from msgspec.structs import replace as altered

from lastcall.bounds import upper_bound
from lastcall.commands.codes import OK, UNUSABLE, CommandError
from lastcall.commands.printed import Words, may_show, say, unread, words
from lastcall.commands.replay import PRESETS, found_in, policy_of
from lastcall.expectation import cut
from lastcall.lattice import GONE
from lastcall.plural import counted
from lastcall.policy import Policy
from lastcall.policy_file import literal
from lastcall.replay import Replayer
from lastcall.switch_file import replace
from lastcall.transcripts import Transcript, Unreadable, find
from lastcall.tune import Change, Tuned, Tuner, Uncaught, level_text
from lastcall.what_if import placed

SHOWN = 5
"""Runs that are named of a change; the others are counted."""

WIDTH = 96
"""Columns of a comment in the policy."""


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "tune",
        help="find the calmest policy that stops bad runs and no good one",
        description="Tries settings of the rules on saved runs, the calmest first, and writes the policy "
        "that stops as many of the bad runs as it can without stopping a good one; says how sure that is.",
        epilog="Exit code: 0 written, 2 when something could not be read or written, or the command was "
        "used wrongly; what could be read is in the policy all the same.",
    )
    one.set_defaults(run=run)
    one.add_argument("good", type=Path, metavar="GOOD", help="runs that nothing may stop")
    one.add_argument("bad", type=Path, metavar="BAD", help="runs that should be stopped")
    one.add_argument(
        "-o", "--output", type=Path, metavar="POLICY", help="the file (default: standard output)"
    )
    one.add_argument(
        "--policy",
        default="default",
        metavar="POLICY",
        help=f"where to begin: {', '.join(PRESETS)}, or a TOML file (default: default)",
    )
    may_show(one)


def run(options: Namespace) -> int:
    """Find it, replay everything under it, write it. Returns the exit code."""
    tuner = Tuner(policy_of(options.policy))
    text, unreadable = words(redact=not options.no_redact), 0
    for good, found in runs(options):
        if isinstance(found, Transcript):
            tuner.add(found, good=good)
        else:
            unreadable += 1
            say(unread(found, text), error=True)
    for marked, path in ((tuner.good, options.good), (tuner.bad, options.bad)):
        if not marked:
            raise CommandError(f"no run with a call in {path}")
    tuned = redacted(tuner.tuned(), text)
    seen = Seen(tuned.policy)
    for good, found in runs(options):
        if isinstance(found, Transcript) and found.calls:
            seen.add(found, good=good)
    told = [*summary(tuned, seen), *(f"Not caught: {why(each)}" for each in tuned.uncaught)]
    if tuned.stopped_good:
        told.append(
            "Good, and stopped by limits of the policy that are not tuned: "
            f"{some(tuned.stopped_good)}."
        )
    policy = policy_text(tuned, options.policy, told)
    output: Path | None = options.output
    if output is None:
        print(policy, end="")
    else:
        replace(output, policy.encode())
    told += [
        f"{one.dial.name} = {level_text(one.dial, one.after)}: {moved(one)}"
        for one in tuned.changes
    ]
    if not tuned.changes:
        told.append("nothing was changed")
    if tuner.silent:
        told.append(f"{counted(tuner.silent, 'run')} without a call, not counted")
    for line in told:
        # The policy itself may be what is printed.
        say(line, error=output is None)
    return UNUSABLE if unreadable else OK


def runs(options: Namespace) -> Iterator[tuple[bool, Transcript | Unreadable]]:
    """Every run, and whether it is a good one. Raises CommandError for a file that is both."""
    good, bad = find([options.good]), find([options.bad])
    both = set(map(placed, good)) & set(map(placed, bad))
    if both:
        raise CommandError(f"{min(both)} cannot be both good and bad")
    for is_good, paths in ((True, good), (False, bad)):
        for found in found_in(paths, {options.good, options.bad}):
            yield is_good, found


def redacted(tuned: Tuned, text: Words) -> Tuned:
    """*tuned* without secrets in the names of runs."""
    return altered(
        tuned,
        changes=tuple(altered(one, runs=tuple(map(text, one.runs))) for one in tuned.changes),
        uncaught=tuple(altered(one, name=text(one.name)) for one in tuned.uncaught),
        stopped_good=tuple(map(text, tuned.stopped_good)),
    )


class Seen:
    """What the found policy does to all runs, by replay."""

    def __init__(self, policy: Policy) -> None:
        self.good = self.false = self.bad = self.caught = self.calls = self.saved = 0
        self._replayer = Replayer(policy)

    def add(self, transcript: Transcript, *, good: bool) -> None:
        """Replay one."""
        done = self._replayer.replay(transcript)
        stopped = cut(done) is not None
        if good:
            self.good += 1
            self.false += stopped
        else:
            self.bad += 1
            self.caught += stopped
            self.calls += done.calls
            self.saved += done.saved


def summary(tuned: Tuned, seen: Seen) -> list[str]:
    """What the policy does, and how sure that is."""
    share = round(100 * seen.saved / seen.calls)
    lines = [
        f"Good: {seen.false} of {counted(seen.good, 'run')} stopped.",
        f"Bad: {seen.caught} of {counted(seen.bad, 'run')} stopped, {share} % of their calls saved.",
    ]
    if tuned.unseen is None:
        lines.append(
            f"New runs: {seen.false} of {seen.good} says at most {bound(seen.false, seen.good)}, with 95 % "
            "confidence, and that of runs it was tuned on; from five good and five bad ones on, each is "
            "tried on a policy that was tuned without it."
        )
        return lines
    stopped, caught = tuned.unseen
    least = 100 * (1 - upper_bound(seen.bad - caught, seen.bad))
    lines.append(
        "New runs: each part of five was tried on a policy that was tuned on the other four. "
        f"{stopped} of {seen.good} good runs were stopped: at most {bound(stopped, seen.good)} of such, with "
        f"95 % confidence. {caught} of {seen.bad} bad ones were caught: at least {least:.1f} %."
    )
    return lines


def bound(events: int, trials: int) -> str:
    """The rate that is not exceeded, for people."""
    return f"{100 * upper_bound(events, trials):.1f} %"


def moved(change: Change) -> str:
    """Why a dial was moved."""
    was = level_text(change.dial, change.before)
    what = "stopped" if change.looser else "did not stop"
    kind = "good" if change.looser else "bad"
    return f"{was} {what} {counted(len(change.runs), f'{kind} run')}: {some(change.runs)}"


def some(names: Sequence[str]) -> str:
    """The first of *names*, and how many there are besides."""
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*names[:SHOWN], *more])


def why(missed: Uncaught) -> str:
    """Why a bad run is not stopped."""
    head = f"{missed.name}, {counted(missed.calls, 'call')}:"
    if missed.dial is None:
        return f"{head} no setting that was tried stops it."
    value = level_text(missed.dial, missed.level)
    return f"{head} {missed.dial.name} = {value} would, and {counted(missed.good, 'good run')} besides."


def policy_text(tuned: Tuned, named: str, told: Sequence[str]) -> str:
    """The policy file: what was changed of a preset, or a whole policy. Read back, it is an equal one."""
    head = ["By `lastcall tune`, from saved runs marked good and bad.", *told]
    lines = [f"# {line}" for each in head for line in wrapped(each)]
    by_rule: dict[str, list[Change]] = {}
    for change in tuned.changes:
        by_rule.setdefault(change.dial.rule, []).append(change)
    notes = {
        rule: [
            f"# {line}" for each in made for line in wrapped(f"{each.dial.field}: {moved(each)}")
        ]
        for rule, made in by_rule.items()
    }
    if named not in PRESETS:
        body = tuned.policy.to_toml()
        for rule, comment in notes.items():
            heading = f"\n[rules.{rule}]\n"
            body = body.replace(heading, "\n" + "\n".join(comment) + heading, 1)
        return "\n".join([*lines, "", body])
    lines += ["", f"preset = {literal(named)}"]
    kept = {rule.name: rule for rule in tuned.policy.rules}
    gone = [rule for rule in by_rule if rule in GONE and rule not in kept]
    if gone:
        lines += ["", "[rules]"]
        for rule in gone:
            lines += [*notes[rule], f"{rule} = false"]
    for rule, made in by_rule.items():
        if rule in gone:
            continue
        lines += ["", *notes[rule], f"[rules.{rule}]"]
        lines += [
            f"{each.dial.field} = {literal(getattr(kept[rule], each.dial.field))}" for each in made
        ]
    return "\n".join(lines) + "\n"


def wrapped(text: str) -> list[str]:
    """*text* in lines of a comment."""
    plain = "".join(each if each.isprintable() else "?" for each in text)
    return wrap(plain, WIDTH, break_long_words=False, break_on_hyphens=False)
