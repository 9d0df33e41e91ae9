from __future__ import annotations

import pytest
from pydantic import ValidationError

from lastcall import Where, rules
from lastcall.policy import DEFAULT
from lastcall.rules.settings import in_turn

from .driving import CANCELLED, LOST, NOW, PAUSED, call, final, ok

RULES = [getattr(rules, name) for name in rules.__all__ if name != "Settings"]
FOLDED = [rule for rule in RULES if hasattr(rule, "key")]

LIMITS = [
    (rule, name)
    for rule in RULES
    for name in rule.model_fields
    if name not in ("enforce", "closes")
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
class TestEveryRule:
    def test_is_in_the_default_policy_under_its_own_name(self, rule):
        assert [each.name for each in DEFAULT].count(rule.name) == 1
        assert rule() in DEFAULT

    def test_enforces_unless_told_otherwise(self, rule):
        assert rule().enforce
        assert not rule(enforce=False).enforce

    def test_refuses_an_unknown_setting(self, rule):
        with pytest.raises(ValidationError, match="extra"):
            rule(max_cals=3)

    def test_is_frozen(self, rule):
        with pytest.raises(ValidationError, match="frozen"):
            rule().enforce = False

    def test_with_equal_settings_is_equal(self, rule):
        assert rule() == rule()
        assert rule() != rule(enforce=False)


@pytest.mark.parametrize("value", [True, -1, 1.5, "3"], ids=repr)
@pytest.mark.parametrize(("rule", "name"), LIMITS, ids=lambda it: getattr(it, "name", it))
def test_a_limit_is_a_whole_number(rule, name, value):
    with pytest.raises(ValidationError):
        rule(**{name: value})


@pytest.mark.parametrize(
    ("rule", "name", "least"),
    [
        (rules.Ceiling, "calls", 1),
        (rules.Ceiling, "alert", 1),
        (rules.Refusals, "max_refusals", 1),
        (rules.Malformed, "in_a_row", 1),
        (rules.Failing, "times", 1),
        (rules.Stale, "in_a_row", 1),
        (rules.Cycle, "rounds", 2),
        (rules.Cycle, "longest", 2),
        (rules.Repeat, "max_repeats", 0),
        (rules.Same, "in_a_row", 0),
        (rules.Same, "in_turn", 0),
        (rules.Same, "reads", 0),
        (rules.Same, "no_write", 0),
        (rules.Near, "in_a_row", 0),
        (rules.Streak, "final", 0),
        (rules.Streak, "passing", 0),
    ],
    ids=lambda it: str(getattr(it, "name", it)),
)
def test_a_limit_has_a_least_value(rule, name, least):
    assert getattr(rule(**{name: least}), name) == least
    with pytest.raises(ValidationError):
        rule(**{name: least - 1})


@pytest.mark.parametrize("rule", [rule() for rule in FOLDED], ids=lambda rule: rule.name)
class TestEveryRuleOfStates:
    def test_a_quiet_one_lets_the_first_call_pass(self, rule):
        # The fold does not even ask a quiet rule that has no record.
        if rule.quiet:
            said = rule.before(rule.start(), call(reply="1"), NOW)
            assert isinstance(said, type(rule.start()))

    @pytest.mark.parametrize("outcome", [ok(), final(), PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
    def test_an_outcome_nobody_asked_about_breaks_nothing(self, rule, outcome):
        rule.after(rule.start(), call(), outcome, NOW)

    def test_another_turn_is_another_record(self, rule):
        if rule.name == "failing":
            # In the thread, where it is known, else in the run.
            return
        rule = type(rule)(max_repeats=1) if rule.name == "repeat" else rule
        assert rule.key(call()) != rule.key(call(where=Where(run="run", turn="another")))

    def test_another_run_is_another_record(self, rule):
        rule = type(rule)(max_repeats=1) if rule.name == "repeat" else rule
        assert rule.key(call()) != rule.key(call(where=Where(run="another", turn="turn")))


def test_a_record_of_the_turn_lies_in_the_shard_of_the_run():
    asked = call()
    assert in_turn(asked, "rule", "more") == (("run", "run"), "rule", "turn", "more")
    assert in_turn(asked, "rule")[0] is asked.shard
