"""Policies that change while runs go on, and policies of their own for some; each is named in the events."""

from __future__ import annotations

import pytest

from lastcall import Call, Outcome, Policy, PolicyError, Where

HERE = Where("r", "t", user="bob")


@pytest.fixture
def events():
    return []


def asked(guard, n, where=HERE):
    return guard.decide(Call("t", {"n": n}, where, id=f"c{n}", reply=f"r{n}"))


def test_another_policy_counts_from_the_next_decision_and_counts_stay(make_guard, events):
    guard = make_guard(Policy(max_calls=3), listeners=[events.append])
    for n in range(2):
        guard.observe(asked(guard, n).ticket, Outcome())
    guard.reload(Policy(max_calls=2))
    assert asked(guard, 2).stop.limit == 2
    changed = next(event for event in events if event.kind == "policy")
    assert changed.policy == Policy(max_calls=2).version
    assert Policy(max_calls=3).version in changed.message
    assert events[-1].policy == Policy(max_calls=2).version


def test_a_call_under_way_is_settled_by_the_policy_that_granted_it(make_guard):
    final = Policy(terminal_statuses=(503,))
    guard = make_guard(final)
    ticket = asked(guard, 1).ticket
    guard.reload(Policy())
    outcome = guard.returned(ticket, {"status": 503, "error": "down"}, failed=True, status_code=503)
    assert outcome.grade == "final"
    assert guard.observe(ticket, outcome).stop.reason == "terminal"
    later = guard.returned(asked(guard, 2).ticket, None, failed=True, status_code=503)
    assert later.grade == "passing"


def test_from_a_file_and_a_broken_one_leaves_everything_as_it_was(make_guard, tmp_path):
    guard = make_guard()
    file = tmp_path / "policy.toml"
    file.write_text("[rules.ceiling]\ncalls = 1\n")
    guard.reload(file)
    assert guard.policy.rules[-1].calls == 1
    file.write_text("[rules.ceiling]\ncals = 1\n")
    with pytest.raises(PolicyError, match="did you mean 'calls'"):
        guard.reload(file)
    with pytest.raises(OSError, match="nowhere"):
        guard.reload(tmp_path / "nowhere.toml")
    with pytest.raises(TypeError, match="Policy or the Path"):
        guard.reload("strict")
    assert guard.policy.rules[-1].calls == 1


def test_some_have_a_policy_of_their_own(make_guard, events):
    own = Policy(max_calls=1)
    guard = make_guard(
        Policy(max_calls=9),
        overrides=lambda where: own if where.user == "ann" else None,
        listeners=[events.append],
    )
    ann = Where("ra", "t", user="ann")
    for n in range(2):
        asked(guard, n)
        verdict = asked(guard, n, ann)
    assert verdict.stop.limit == 1
    assert {event.policy for event in events if event.user == "ann"} == {own.version}
    assert asked(guard, 5).stop is None


def test_an_override_that_fails_is_a_fault_of_the_guard(make_guard):
    def broken(where):
        raise LookupError("no such user")

    guard = make_guard(overrides=broken)
    assert asked(guard, 1).stop.reason == "fault"
    assert guard.report("r").faults == ("LookupError: no such user",)


def test_what_a_person_added_is_named_beside_the_version(make_guard, events):
    policy = Policy(max_calls=1)
    guard = make_guard(policy, listeners=[events.append])
    guard.observe(asked(guard, 1).ticket, Outcome())
    guard.raise_limit("r", 5)
    guard.observe(asked(guard, 2).ticket, Outcome())
    raised = next(event for event in events if event.kind == "raised")
    assert (raised.run, raised.message) == ("r", "calls +5")
    assert events[-1].policy == f"{policy.version}+calls:5"


def test_equal_policies_have_one_version():
    assert Policy(max_calls=3).version == Policy(max_calls=3).version
    assert Policy(max_calls=3).version != Policy(max_calls=4).version
    assert len(Policy.strict().version) == 8


@pytest.mark.parametrize("name", ["", "two words", "line\nbreak", 7])
def test_a_rule_whose_name_no_store_could_keep_is_refused(name):
    class Odd:
        kinds, enforce, quiet = frozenset({"tool"}), True, True
        record = start = before = refused = after = None

    Odd.name = name
    with pytest.raises(PolicyError, match="no name of a rule"):
        Policy(rules=[Odd()])
