"""The suites as the files beside this one describe them, and where their things are."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
WORK = Path(os.environ.get("LASTCALL_FRAMEWORKS") or CACHE / "lastcall-frameworks").absolute()
PINS = tomllib.loads((HERE / "pins.toml").read_text())
SUITES = tomllib.loads((HERE / "suites.toml").read_text())
ALLOWED = tomllib.loads((HERE / "allow.toml").read_text())


class Suite:
    """One suite: its files and folders in the work folder."""

    def __init__(self, name):
        if name not in SUITES["suites"]:
            raise SystemExit(f"no suite {name!r}; there are {', '.join(SUITES['suites'])}")
        self.name = name
        self.says = SUITES["suites"][name]
        self.environment = self.says["environment"]
        self.pins = PINS["every"] | PINS.get(self.environment, {})
        self.release = f"{self.says['release']}-{self.pins[self.says['release']]}"
        self.tests = WORK / "tests" / self.release
        self.bin = WORK / "environments" / self.environment / "bin"
        self.guard = WORK / "guard" / self.environment

    @property
    def points(self):
        """Where a guard can be put in this suite."""
        return self.says.get("points", ["instrument"])

    def result(self, point, suffix):
        """A file of the last run at *point*."""
        return WORK / "results" / f"{self.name}.{point}{suffix}"

    def allowed(self, kind, point):
        """The entries of allow.toml for a run at *point*."""
        for entry in ALLOWED.get(kind, []):
            if self.name in entry["suites"] and point.removeprefix("deny-") in entry["points"]:
                yield entry
