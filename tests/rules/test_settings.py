from __future__ import annotations

import pytest
from pydantic import ValidationError

from lastcall import Where, rules
from lastcall.lineup import Lineup, keys_of
from lastcall.policy import DEFAULT
from lastcall.tool import PLAIN, Limit, ToolPolicy

from .driving import CANCELLED, LOST, NOW, PAUSED, call, final, ok


class AtMostThree(rules.Concurrency, frozen=True):
    """It has no limit of its own."""

    limit: Limit = 3


OFF = [rules.Breaker, rules.Budget, AtMostThree, rules.Cooling, rules.Path, rules.Quarantine]
"""Rules that somebody has to ask for."""

ON = [type(rule) for rule in DEFAULT]
RULES = ON + OFF
FOLDED = [rule for rule in RULES if hasattr(rule, "record")]

NO_LIMITS = frozenset(
    (
        "enforce",
        "closes",
        "limits",
        "per",
        "seconds",
        "ttl",
        "wait",
        "rate",
        "ramp",
        "keep",
        "declined",
    )
)

LIMITS = [(rule, name) for rule in RULES for name in rule.model_fields if name not in NO_LIMITS]

SPANS = [
    (rules.Breaker, "wait"),
    (rules.Breaker, "ttl"),
    (rules.Cooling, "seconds"),
    (rules.Quarantine, "seconds"),
    (rules.Writes, "keep"),
    (AtMostThree, "ttl"),
]


def test_every_rule_is_on_or_off():
    public = {getattr(rules, name) for name in rules.__all__} - {rules.Settings, rules.Limit}
    assert public == {*ON, *OFF, rules.Concurrency} - {AtMostThree}


@pytest.mark.parametrize("rule", ON, ids=lambda rule: rule.name)
def test_a_default_rule_is_there_under_its_own_name(rule):
    assert [each.name for each in DEFAULT].count(rule.name) == 1
    assert rule() in DEFAULT


@pytest.mark.parametrize("rule", OFF, ids=lambda rule: rule.name)
def test_what_others_count_too_is_off_by_default(rule):
    assert rule.name not in [each.name for each in DEFAULT]


@pytest.mark.parametrize(("rule", "name"), SPANS, ids=lambda it: getattr(it, "__name__", it))
@pytest.mark.parametrize("value", [True, 0, -1.5, float("inf"), float("nan"), "3"], ids=repr)
def test_a_time_span_is_a_number_above_zero(rule, name, value):
    with pytest.raises(ValidationError):
        rule(**{name: value})
    assert getattr(rule(**{name: 2}), name) == 2.0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
class TestEveryRule:
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
@pytest.mark.parametrize(("rule", "name"), LIMITS, ids=lambda it: getattr(it, "__name__", it))
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
        (rules.Concurrency, "limit", 1),
        (rules.Limit, "most", 1),
        (rules.Quarantine, "alert", 1),
        (rules.Writes, "max_replays", 1),
        (rules.Breaker, "successes", 1),
        (rules.Breaker, "window", 2),
    ],
    ids=lambda it: str(getattr(it, "__name__", it)),
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

    @pytest.mark.parametrize(
        "outcome", [ok(), final(), PAUSED, CANCELLED, LOST], ids=lambda o: o.kind
    )
    def test_an_outcome_nobody_asked_about_breaks_nothing(self, rule, outcome):
        rule.after(rule.start(), call(), outcome, NOW)

    def test_one_with_a_record_keeps_it_small_and_comparable(self, rule):
        assert rule.start() == rule.start()


PARTS = [
    (rules.Refusals(), PLAIN, "agent"),
    (rules.Malformed(), PLAIN, "turn"),
    (rules.Terminal(), PLAIN, "call"),
    (rules.Repeat(), PLAIN, None),
    (rules.Repeat(max_repeats=0), PLAIN, None),
    (rules.Repeat(max_repeats=2), PLAIN, "call"),
    (rules.Repeat(max_repeats=2), ToolPolicy(max_repeats=0), None),
    (rules.Repeat(), ToolPolicy(max_repeats=3), "call"),
    (rules.Failing(), PLAIN, "thread"),
    (rules.Streak(), PLAIN, "tool"),
    (rules.Streak(), ToolPolicy(shell=True), None),
    (rules.Same(), PLAIN, "call"),
    (rules.Near(), PLAIN, "turn"),
    (rules.Near(in_a_row=0), PLAIN, None),
    (rules.Cycle(), PLAIN, "none"),
    (rules.Stale(), PLAIN, "none"),
    (rules.Path(), PLAIN, "none"),
    (rules.Quarantine(), PLAIN, "shared"),
    (rules.Writes(), PLAIN, None),
    (rules.Writes(), ToolPolicy(writes=True), "shared"),
    (rules.Cooling(), PLAIN, "shared"),
    (rules.Breaker(), PLAIN, "shared"),
]


@pytest.mark.parametrize(
    ("rule", "policy", "part"), PARTS, ids=lambda it: str(getattr(it, "name", ""))
)
def test_what_the_record_of_a_rule_is_about(rule, policy, part):
    assert rule.record(policy) == part


class OfPart(rules.Near, frozen=True):
    name = "rule"
    part: str

    def record(self, tool):
        return self.part


class TestKeys:
    """The name of a record tells apart what must not mix, and nothing more."""

    HERE = Where("run", "turn", "thread", "agent")

    def key(self, part, **changed):
        asked = call(changed.pop("tool", "look"), changed.pop("args", 1), where=self.where(changed))
        rule = OfPart(part=part)
        return keys_of(asked, Lineup.of([rule], PLAIN, "tool", enforce=True))[-1]

    def where(self, changed):
        fields = {
            name: changed.get(name, getattr(self.HERE, name)) for name in Where.__struct_fields__
        }
        return Where(**fields)

    @pytest.mark.parametrize(
        ("part", "apart"),
        [
            ("turn", {"run", "turn"}),
            ("agent", {"run", "turn", "agent"}),
            ("tool", {"run", "turn", "tool"}),
            ("call", {"run", "turn", "tool", "args"}),
            ("thread", {"thread", "tool", "args"}),
            ("none", {"run"}),
        ],
    )
    def test_tell_apart(self, part, apart):
        for name in ("run", "turn", "thread", "agent", "tool", "args"):
            assert (self.key(part) != self.key(part, **{name: "another"})) == (name in apart), name

    def test_without_a_thread_it_is_the_run_that_counts(self):
        one = self.key("thread", thread=None)
        assert one != self.key("thread", thread=None, run="another")
        assert one == self.key("thread", thread=None, turn="another")
