"""N replicas mean N times the limit: where that is so, it is said when the guard is made."""

from __future__ import annotations

import logging

import pytest

from lastcall import Guard, Policy
from lastcall.rules import Budget, Concurrency, Cooling, Limit, Quarantine
from lastcall.stores.sqlite import SQLiteStore

PER_RUN = Budget(limits=(Limit(per="run", most=5),))


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ((), ""),
        ((PER_RUN,), ""),
        ((Budget(limits=(Limit(per="user", most=5),)),), "budget: "),
        ((Concurrency(limit=2, per="agent"), Quarantine(), Cooling()), "quarantine, concurrency, cooling: "),
    ],
)  # fmt: skip
def test_a_note_names_the_limits_that_are_one_processs_own(rules, named, caplog):
    caplog.set_level(logging.INFO, "lastcall")
    Guard(Policy().replaced(*rules))
    said = [record.getMessage() for record in caplog.records]
    if not named:
        assert said == []
        return
    assert len(said) == 1
    names, _, note = said[0].partition(": ")
    assert sorted(names.split(", ")) == sorted(named.removesuffix(": ").split(", "))
    assert note.startswith("counted in this process alone")


def test_where_processes_share_them_there_is_nothing_to_say(tmp_path, caplog):
    caplog.set_level(logging.INFO, "lastcall")
    guard = Guard(Policy().replaced(Cooling()), store=SQLiteStore(tmp_path / "x.db"))
    assert caplog.records == []
    guard.close()
