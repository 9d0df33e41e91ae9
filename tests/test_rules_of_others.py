"""Rules that somebody else wrote by the page of contracts, among the others of a policy."""

from __future__ import annotations

from typing import ClassVar

from lastcall import Call, Guard, Outcome, Policy, Stop, Where
from lastcall.rules import Stale

HERE = Where(run="r", turn="t")


class Base:
    """What each of them has."""

    kinds: ClassVar = frozenset({"tool"})
    enforce = True
    quiet = False
    name = "base"

    def record(self, tool):
        return "turn"

    def start(self):
        return 0

    def before(self, state, call, now):
        return state

    def refused(self, state, call, stop, now):
        return state

    def after(self, state, call, outcome, now):
        return state


class Quiet(Base):
    """It counts the calls after a failure, and relies on not being asked before the first."""

    quiet = True

    def __init__(self, name, tool):
        self.name = name
        self.tool = tool

    def before(self, state, call, now):
        return state + 1

    def after(self, state, call, outcome, now):
        return 1 if outcome.kind == "error" and call.tool == self.tool else state


class Lists(Base):
    """Its records are lists, and it does not mind changing one."""

    name = "lists"

    def start(self):
        return []

    def before(self, state, call, now):
        state.append(call.tool)
        if len(state) > 2:
            return Stop.of(call, "repeat", "call", now, rule=self.name)
        return list(state)


class Pastless(Base):
    """It keeps no record, and has nothing to say."""

    name = "pastless"
    kinds: ClassVar = frozenset({"tool", "model"})

    def record(self, tool):
        return "none"

    def start(self):
        return ()

    def before(self, state, call, now):
        return None


def guard_by(clock, *rules):
    """A guard by these rules alone."""
    return Guard(Policy(rules=rules), clock=clock)


def made(guard, tool="a", outcome=None, where=HERE):
    verdict = guard.decide(Call(tool, {}, where))
    if verdict.ticket is not None:
        guard.observe(verdict.ticket, outcome or Outcome(content="ok"))
    return verdict


def kept(guard, name):
    return guard.store.peek(("run", "r"), guard.clock()).get((("run", "r"), name, "t"))


def test_a_quiet_one_without_a_record_is_not_asked_though_another_has_one(clock):
    guard = guard_by(clock, Quiet("one", "a"), Quiet("other", "b"))
    for tool in ("a", "b"):
        made(guard, tool, Outcome("error") if tool == "a" else None)
        made(guard, "c")
    assert (kept(guard, "one"), kept(guard, "other")) == (4, None)


def test_records_that_can_be_changed_are_each_their_own(clock):
    guard = guard_by(clock, Lists())
    for run in ("r", "s", "t"):
        where = Where(run=run, turn=run)
        stops = [made(guard, where=where).stop is not None for _ in range(3)]
        assert stops == [False, False, True]


def test_one_without_a_record_that_says_nothing_forgets_nothing(clock):
    """What is written at the place of no record would be the turn's."""
    guard = guard_by(clock, Pastless())
    for kind in ("tool", "model", "tool"):
        ticket = guard.decide(Call("a", {}, HERE, kind=kind)).ticket
        guard.observe(ticket, Outcome(content="ok"))
    assert guard.store.peek(("run", "r"), clock())[("run", "r"), "turn"].order == 2


class Hasty(Stale, frozen=True):
    """A rule of ours with another idea of what to say."""

    def before(self, state, call, now):
        return Stop.of(call, "stale", "call", now, rule=self.name)


class Familiar(Hasty, frozen=True):
    """One that says of this idea too that it knows nothing of new calls."""

    familiar: ClassVar = True

    def before(self, state, call, now):
        return super().before(state, call, now)


def test_what_a_rule_of_ours_says_of_its_calls_is_not_said_of_another_made_from_it():
    call = Call("t", {"n": 1}, HERE)
    assert Guard(Policy().replaced(Hasty())).decide(call).stop.reason == "stale"
    assert Guard(Policy().replaced(Familiar())).decide(call).stop is None
