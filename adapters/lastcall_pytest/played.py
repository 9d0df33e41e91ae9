"""What the fixture gives: runs as the guard would have treated them, and what one may assert of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import orjson
import pytest

from lastcall import Policy
from lastcall.commands.printed import located
from lastcall.commands.replay import policy_of
from lastcall.expectation import Expectation, cut
from lastcall.redaction import Redactor
from lastcall.replay import Replayed, ReplayedStop, Replayer
from lastcall.timeline import indented, timeline
from lastcall.transcripts import Transcript, find, read
from lastcall.visible import visible
from lastcall_pytest.policies import chosen

Saved = str | PathLike[str] | Iterable[Mapping[str, Any]] | Transcript
"""A path, calls as a plain log has them, or a run that was read already."""


class Played:
    """Runs that were replayed."""

    __tracebackhide__ = True

    def __init__(self, runs: Iterable[tuple[Transcript, Replayed]], policy: Policy) -> None:
        self._runs = tuple(runs)
        self._policy = policy

    @property
    def runs(self) -> tuple[Replayed, ...]:
        """What the guard would have done to each."""
        return tuple(done for _, done in self._runs)

    @property
    def stop(self) -> ReplayedStop | None:
        """Where the first run that would have been cut short ends; None: none would."""
        return next(filter(None, map(cut, self.runs)), None)

    @property
    def timeline(self) -> str:
        """All runs as text in 80 columns."""
        return "\n\n".join(self._shown(run, done) for run, done in self._runs)

    def assert_clean(self, *, unjudged: Iterable[str] = ()) -> Played:
        """No run would have been cut short. Rules that could not tell fail it too, but for those that are
        known to be *unjudged*. Raises AssertionError."""
        __tracebackhide__ = True
        return self._checked(Expectation(expect="clean", unjudged=tuple(unjudged)))

    def assert_stopped(
        self, *, reason: str | None = None, tool: str | None = None, by_call: int | None = None
    ) -> Played:
        """Each run would have been cut short, for that *reason*, at that *tool*, at that call or before
        (counted from 1). Raises AssertionError."""
        __tracebackhide__ = True
        return self._checked(Expectation(expect="stop", reason=reason, tool=tool, by_call=by_call))

    def _checked(self, wanted: Expectation) -> Played:
        __tracebackhide__ = True
        for run, done in self._runs:
            problem = wanted.missed(done)
            if problem is not None:
                problem = Redactor.of_environment().text(problem)
                raise AssertionError(visible(f"{problem}\n\n{self._shown(run, done)}"))
        return self

    def _shown(self, run: Transcript, done: Replayed) -> str:
        head = Redactor.of_environment().text(f"{run.file}, run {run.run}")
        return f"{head}\n{indented(timeline(run, done, self._policy))}"


class Player:
    """The fixture's value: called, it replays."""

    def __init__(self, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> None:
        self._config = request.config
        self._here = request.path.parent
        self._folders = folders

    def __call__(self, saved: Saved, policy: Policy | str | PathLike[str] | None = None) -> Played:
        """Replay *saved*. Raises AssertionError, and PolicyError."""
        __tracebackhide__ = True
        if policy is None:
            _, policy = chosen(self._config)
        elif not isinstance(policy, Policy):
            policy = policy_of(str(policy), "policy", self._here)
        replayer = Replayer(policy)
        played = Played(((run, replayer.replay(run)) for run in self._read(saved)), policy)
        if not played.runs:
            raise AssertionError(f"no run in {saved}")
        return played

    def _read(self, saved: Saved) -> Iterator[Transcript]:
        __tracebackhide__ = True
        if isinstance(saved, Transcript):
            yield saved
            return
        if isinstance(saved, str | PathLike):
            beside = self._here / saved
            path = beside if beside.exists() else self._config.rootpath / saved
            named = not path.is_dir()
        else:
            path, named = self._written(saved), True
        for file in find([path]):
            for found in read(file):
                if isinstance(found, Transcript):
                    yield found
                elif named or not found.foreign:
                    said = located(found, Redactor.of_environment().text)
                    raise AssertionError(visible(said))

    def _written(self, calls: Iterable[Mapping[str, Any]]) -> Path:
        """*calls* as the file that a recorder would have written."""
        path = self._folders.mktemp("lastcall") / "calls.jsonl"
        # A plain log tells a call by its arguments or its time.
        rows = [{"args": {}, **call} for call in calls]
        if not rows:
            raise AssertionError("no run in a list without a call")
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        return path
