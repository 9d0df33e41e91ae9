"""What a saved run is expected to come to: a few lines of TOML beside it.

`night.transcript.jsonl` has its expectation in `night.expect.toml`. Without one the run is taken for a
healthy one, which nothing may stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator

from lastcall.policy_file import PolicyError, explained, literal, parsed
from lastcall.replay import Replayed, ReplayedStop
from lastcall.switch_file import replace
from lastcall.tool import Limit

MIDDLE, ENDING = ".transcript.", ".expect.toml"


class ExpectationError(ValueError):
    """A file of expectations that cannot be read; the message names it, the key and the nearest valid one."""


class Expectation(BaseModel):
    """What one run is expected to come to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expect: Literal["stop", "clean"]
    """stop: the run must be cut short. clean: it must not."""
    reason: StrictStr | None = None
    """Why, as a stop says it."""
    tool: StrictStr | None = None
    """The tool whose call is stopped."""
    by_call: Limit | None = None
    """The stop comes at this call or before, counted from 1."""
    unjudged: tuple[StrictStr, ...] = ()
    """Rules that are known to need more than the transcript has."""

    @model_validator(mode="after")
    def _of_a_stop(self) -> Self:
        told = [name for name in ("reason", "tool", "by_call") if getattr(self, name) is not None]
        if told and self.expect == "clean":
            raise ValueError(f"{' and '.join(told)} are said of a stop, and none is expected")
        return self

    @classmethod
    def of(cls, done: Replayed) -> Self:
        """That *done* comes to what it came to."""
        stop = cut(done)
        if stop is None:
            return cls(expect="clean", unjudged=done.not_judged)
        return cls(expect="stop", reason=stop.reason, tool=stop.tool, by_call=stop.index + 1)

    def missed(self, done: Replayed) -> str | None:
        """In which way *done* is not as expected; None when it is."""
        stop = cut(done)
        if self.expect == "clean":
            if stop is not None:
                return f"expected clean, and call {stop.index + 1} would have been the last"
            silent = [name for name in done.not_judged if name not in self.unjudged]
            if silent:
                lacks = f": it does not tell {', '.join(done.lacks)}" if done.lacks else ""
                return f"cannot be judged by {', '.join(silent)}{lacks}"
            return None
        if stop is None:
            return "expected a stop, and nothing would have stopped it"
        wanted = (("reason", self.reason, stop.reason), ("tool", self.tool, stop.tool))
        for name, want, is_ in wanted:
            if want is not None and want != is_:
                return f"stopped at call {stop.index + 1}, but the {name} is {is_}, not {want}"
        if self.by_call is not None and stop.index >= self.by_call:
            return f"stopped at call {stop.index + 1}, later than at call {self.by_call}"
        return None


CLEAN = Expectation(expect="clean")


class Expectations(BaseModel):
    """What the runs of one file are expected to come to, and by which policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Annotated[StrictStr, Field(min_length=1)] | None = None
    """A preset, or a TOML file, from the folder of this one; None: whoever replays says which."""
    every: Expectation = CLEAN
    """Of a run that has none of its own."""
    runs: Mapping[str, Expectation] = Field(default_factory=dict)
    """By name of the run, for a file with several."""

    def of(self, run: str) -> Expectation:
        """What is expected of the run of that name."""
        return self.runs.get(run, self.every)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Those written in the file *path*. Raises ExpectationError, and OSError."""
        try:
            table = parsed(path.read_bytes(), str(path))
        except PolicyError as error:
            raise ExpectationError(str(error)) from None
        kept: dict[str, Any] = {
            name: table.pop(name) for name in ("policy", "runs") if name in table
        }
        if table:
            kept["every"] = table
        try:
            return cls(**kept)
        except ValidationError as error:
            raise ExpectationError(f"{path}: {said(error)}") from None

    def text(self) -> str:
        """The TOML that `read` reads back as equal ones."""
        lines = ["# What replay is expected to find in the transcript beside this file."]
        if self.policy is not None:
            lines.append(f"policy = {literal(self.policy)}")
        if self.every != CLEAN or not self.runs:
            lines += fields(self.every)
        for run, one in self.runs.items():
            lines += ["", f"[runs.{literal(run)}]", *fields(one)]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Put them into *path*, whole or not at all. Raises OSError."""
        replace(path, self.text().encode())


def fields(one: Expectation) -> list[str]:
    """The lines that say *one*."""
    told = one.model_dump(exclude_defaults=True)
    return [f"{name} = {literal(value)}" for name, value in told.items()]


def said(error: ValidationError) -> str:
    """What is wrong in a file, by the file's own words."""
    first: Any = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"] if part != "every")
    if first["type"] == "missing":
        return f'{path or "expect"} is missing; say expect = "stop" or expect = "clean"'
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    known = (*Expectation.model_fields, "policy", "runs")
    return explained(error, known).replace("every.", "")


def beside(transcript: Path) -> Path:
    """The file of expectations that belongs to *transcript*, whether it is there or not."""
    stem, middle, _ = transcript.name.rpartition(MIDDLE)
    return transcript.with_name((stem if middle else transcript.name.split(".")[0]) + ENDING)


def expected(transcript: Path) -> Expectations | None:
    """What is expected of *transcript*; None: nothing is beside it. Raises ExpectationError, and OSError."""
    path = beside(transcript)
    return Expectations.read(path) if path.is_file() else None


def meant(path: Path) -> list[Path]:
    """The transcripts that a file of expectations is about; of any other file itself. Whoever has changed
    the one may name it alone."""
    if not path.name.endswith(ENDING) or not path.is_file():
        return [path]
    stem = path.name.removesuffix(ENDING)
    found = sorted(each for each in path.parent.iterdir() if each.name.startswith(stem + MIDDLE))
    return found or [path]


def cut(done: Replayed) -> ReplayedStop | None:
    """Where the run would have been cut short: the first call refused, or whose answer ended turn or run."""
    wide = ("call", "tool")
    return next((stop for stop in done.stops if stop.refused or stop.scope not in wide), None)
