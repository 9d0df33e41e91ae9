"""What came of a run of tests, read from the files that it left; pure."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


def of(report):
    """The outcome of each test in a JUnit file: passed, skipped, xfailed, or how it failed."""
    if not report.exists():
        return {}
    found = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own pytest wrote it
        test = f"{case.get('classname')}::{case.get('name')}"
        said = sorted(filter(None, map(outcome, case)))
        found.setdefault(test, []).extend(said or ["passed"])
    return {test: "+".join(said) for test, said in found.items()}


def outcome(part):
    """What one part of a test's report says; the kind of exception tells one failure from another."""
    if part.tag == "skipped":
        return "xfailed" if part.get("type") == "pytest.xfail" else "skipped"
    if part.tag == "failure":
        kind = re.match(r"[\w.]+", part.get("message", ""))
        return f"failed {kind[0]}" if kind else "failed"
    return "error" if part.tag == "error" else None


def counted(said):
    """The outcomes in numbers."""
    numbers = Counter(each.partition(" ")[0] for each in said.values())
    return ", ".join(f"{number} {each}" for each, number in sorted(numbers.items()))


def key(nodeid):
    """The name that the JUnit file has for a test."""
    file, _, rest = nodeid.partition("::")
    head, bracket, params = rest.partition("[")
    *classes, name = head.split("::")
    return f"{'.'.join([file.removesuffix('.py').replace('/', '.'), *classes])}::{name}{bracket}{params}"


def differences(without, with_it):
    """The tests that ended otherwise, with both outcomes."""
    return {
        test: (was, now)
        for test in sorted(without.keys() | with_it.keys())
        if (was := without.get(test, "absent")) != (now := with_it.get(test, "absent"))
    }


def explained(different, left_out, differs):
    """*different* without what is named, then what is named, then what is named and not so, unless that
    is only `sometimes` so."""
    rest, named, stale = dict(different), [], []
    absent = [{"was": "*", "now": "absent", **entry} for entry in left_out]
    for entry in (*absent, *differs):
        for test in map(key, entry["tests"]):
            was, now = rest.get(test, ("", ""))
            if fnmatchcase(was, entry["was"]) and fnmatchcase(now, entry["now"]):
                named.append(test)
                del rest[test]
            elif not entry.get("sometimes"):
                stale.append(test)
    return rest, named, stale


@dataclass
class Notes:
    """What the guards of all workers noted."""

    events: Counter = field(default_factory=Counter)
    tests: set = field(default_factory=set)
    wrong: list = field(default_factory=list)
    left: int = 0

    def summary(self):
        """Said after the outcomes; nothing where there was no guard."""
        if not self.events:
            return ""
        calls = ", ".join(f"{number} {kind}" for kind, number in sorted(self.events.items()))
        return f"; {calls} in {len(self.tests)} tests, {self.left} records left"


def notes(prefix):
    """What was noted in a run; *prefix* is the start of its files' names."""
    total = Notes()
    for file in prefix.parent.glob(f"{prefix.name}.*.json"):
        said = json.loads(file.read_text())
        total.events.update(said["events"])
        total.tests.update(said["tests"])
        total.wrong += said["wrong"]
        total.left += said["left"]
    return total
