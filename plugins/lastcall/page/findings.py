"""What is to be said of a run in a sentence or two: which tool, how often, what differed, where it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from lastcall.call import Call
from lastcall.fingerprint import canonical
from lastcall.replay import ReplayedStop
from lastcall.visible import cut, visible

__all__ = ["WHY", "Finding", "Looking", "counted", "listed"]

EQUAL: Final = frozenset({"repeat", "same", "failing", "quarantine", "attempts"})
"""Reasons that are about one exact call."""

WHOLE: Final = frozenset({"ceiling", "cycle", "stale", "refusals", "malformed", "budget"})
"""Reasons that may be about calls of several tools."""

WHY: Final = {
    "ceiling": "the limit of calls was reached",
    "repeat": "this exact call had been made as often as it may",
    "same": "equal calls kept bringing an equal result",
    "near": "calls that differ only in form kept bringing nothing new",
    "cycle": "the same few calls went round with the same results",
    "stale": "nothing new had come for a long time",
    "failing": "this exact call kept failing with the same error",
    "terminal": "an answer before it was final, and asking again could not change it",
    "streak": "the tool failed time after time",
    "malformed": "its calls could not be read, or named no tool that exists",
    "refusals": "it kept calling after it had been refused",
    "budget": "a budget was spent",
    "quarantine": "this exact call had failed for good a short while before",
    "breaker": "the service behind it was down",
}
"""Why a call would have been refused, after "because"."""

FEW: Final = 20
"""Exact calls of which it is worth saying that there is only little in which they differ."""

ANSWERED: Final = {"terminal": "its answer was final, and asking again could not change it"}
"""The same of a call whose answer was the stop, where that is said otherwise."""

UNTOLD: Final = {
    "same": "equal calls kept coming, and what is not told counts as unchanged",
    "cycle": "the same few calls went round, and what is not told counts as unchanged",
}
"""The same where a transcript has no results."""

WELL: Final = "answered without an error"

NAMES: Final = 6
"""Arguments that are named one by one."""


class Finding(Struct, frozen=True):
    """What the run is about: the tool of its stop, or the one that was called most."""

    tool: str
    calls: int
    """Calls of it, in the whole run."""
    exact: bool
    """Whether they are one exact call."""
    among: int
    """Calls of the tool, these and others."""
    variants: int
    """Exact calls among them."""
    differing: tuple[str, ...]
    """Arguments by which they differ, those that all have first; the others are equal in all."""
    telling: tuple[str, ...]
    """Those of them that tell one exact call from the others: not what most have, and with one value."""
    answers: tuple[tuple[str, int], ...]
    """What they brought, most often first."""


class _Tool:
    """One tool while its calls are counted."""

    def __init__(self) -> None:
        self.calls = self.named = 0
        self.prints: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.values: dict[str, bytes] = {}
        self.present: Counter[str] = Counter()
        self.differing: set[str] = set()

    def add(self, call: Call, args: Any, answer: str) -> None:
        self.calls += 1
        self.prints[call.fingerprint] += 1
        self.answers[answer] += 1
        if not isinstance(args, dict) or self.prints[call.fingerprint] > 1:
            return
        self.named += 1
        for name, data in ((str(name), canonical(value)) for name, value in args.items()):
            self.present[name] += 1
            if self.values.setdefault(name, data) != data:
                self.differing.add(name)

    def finding(self, tool: str) -> Finding:
        if self.named < len(self.prints):
            # Not all of them have named arguments, so there is more that differs.
            self.differing, self.present = set(), Counter()
        some = {name for name, times in self.present.items() if times < self.named}
        rare = {name for name in some if 2 * self.present[name] < self.named}
        return Finding(
            quotable(tool),
            self.calls,
            len(self.prints) == 1,
            self.calls,
            len(self.prints),
            tuple(
                quotable(cut(name, 60)) for name in (*sorted(self.differing - some), *sorted(some))
            ),
            tuple(
                quotable(cut(name, 60)) for name in (*sorted(rare), *sorted(self.differing - rare))
            ),
            tuple(self.answers.most_common(4)),
        )


class Looking:
    """Looks at the calls of a run as they go by."""

    def __init__(self, stop: ReplayedStop | None, words: Callable[[str], str] = visible) -> None:
        self._stop, self._words = stop, words
        self._tools: dict[str, _Tool] = {}
        self._answers: Counter[str] = Counter()
        """What the very call brought that the stop is about."""

    def add(self, call: Call, args: Any, answer: str) -> None:
        """Take in one call; *args* are without secrets."""
        if self._stop is not None and call.fingerprint == self._stop.fingerprint:
            self._answers[answer] += 1
        self._tools.setdefault(call.name, _Tool()).add(call, args, answer)

    def finding(self) -> Finding:
        """What was found."""
        stop, tools = self._stop, self._tools
        if not tools:
            return Finding("", 0, False, 0, 0, (), (), ())
        named = tools.get(stop.tool) if stop is not None else None
        if stop is not None and named is not None and stop.reason in EQUAL:
            times, answers = self._answers.total(), tuple(self._answers.most_common(4))
            return Finding(
                quotable(self._words(stop.tool)), times, True, named.calls, 1, (), (), answers
            )
        if stop is not None and named is not None and stop.reason not in WHOLE:
            return named.finding(self._words(stop.tool))
        tool = max(tools, key=lambda name: tools[name].calls)
        return tools[tool].finding(self._words(tool))


def headline(
    finding: Finding, stop: ReplayedStop | None, calls: int, executed: int, saved: int
) -> str:
    """The run in one sentence or two, in Markdown."""
    if not calls:
        return "No call was made."
    if stop is None:
        return f"{counted(calls, 'call')}, and nothing to stop."
    times = "once" if finding.calls == 1 else f"{finding.calls:,} times"
    said = f"`{finding.tool}` was called {times}."
    if finding.calls < finding.among:
        said = f"One call of `{finding.tool}` was made {times}."
    elif several(finding, stop, calls):
        said = f"{counted(calls, 'call')} were made."
    if not saved:
        return f"{said} The answer to call {stop.index + 1:,} would have ended the {stop.scope}."
    if not executed:
        return f"{said} Not one of them would have been made."
    return f"{said} Call {executed:,} would have been the last; {counted(saved, 'call')} saved."


def story(finding: Finding, stop: ReplayedStop | None, calls: int, *, untold: bool = False) -> str:
    """What differed, what came back and why it would have ended, in Markdown; *untold*: the transcript does not
    say which calls failed."""
    said: list[str] = []
    if not calls:
        return ""
    if stop is None and finding.calls == finding.variants:
        return ""
    if finding.calls > 1:
        differed = _differed(finding, alone=stop is None or several(finding, stop, calls))
        said.append(differed.replace(WELL, "answered") if untold else differed)
    if stop is not None:
        status = "" if stop.status is None else f" (HTTP {stop.status})"
        why = WHY.get(stop.reason, f"the rule `{quotable(stop.reason)}` says so")
        verb = "would have been refused" if stop.refused else f"would have ended the {stop.scope}"
        if all(word == "not told" for word, _ in finding.answers):
            why = UNTOLD.get(stop.reason, why)
        if not stop.refused:
            why = ANSWERED.get(stop.reason, why)
        tool = quotable(stop.tool)
        of = "" if tool == finding.tool else f", of `{tool}`,"
        said.append(f"Call {stop.index + 1:,}{of} {verb} because {why}{status}.")
    return " ".join(said)


def several(finding: Finding, stop: ReplayedStop, calls: int) -> bool:
    """Whether the run is about the calls of several tools, none of which made most of them."""
    return stop.reason in WHOLE and 2 * finding.calls < calls


def _differed(finding: Finding, *, alone: bool) -> str:
    who = (
        f"The {finding.calls:,} calls of `{finding.tool}`"
        if alone
        else f"The {finding.calls:,} calls"
    )
    if finding.exact:
        how = "are one and the same, argument for argument"
    elif finding.differing:
        named = [f"`{name}`" for name in finding.differing[:NAMES]]
        more = len(finding.differing) - NAMES
        if more > 0:
            named.append(f"{counted(more, 'more argument')}")
        only = " only" if finding.variants <= FEW else ""
        how = f"were {finding.variants:,} different ones, which differ{only} in {listed(named)}"
    else:
        how = f"were {finding.variants:,} different ones"
    return f"{who} {how}; {answers(finding)}."


def answers(finding: Finding) -> str:
    """What the calls brought, in words."""
    shown = [(word, times) for word, times in finding.answers if word != "not told"]
    if not shown:
        return "what they brought is not told"
    word, times = shown[0]
    if times == finding.calls:
        return f"every one {_came(word, 1)}"
    return listed([f"{times:,} {_came(word, times)}" for word, times in shown])


def _came(word: str, times: int) -> str:
    was = "was" if times == 1 else "were"
    if word == "failed":
        return "failed"
    if word == "malformed":
        return f"{was} malformed"
    return f"{was} {WELL if word == 'ok' else f'answered {word}'}"


def quotable(name: str) -> str:
    """*name* fit to stand between backticks."""
    return visible(name).replace("`", "'").replace("\n", " ")


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def counted(number: int, noun: str) -> str:
    """`1 run`, `2,000 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
