"""The rules that are off by default: in a policy file, and at their place in the order of checks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Policy, PolicyError, ToolPolicy
from lastcall.order import ORDER
from lastcall.policy import DEFAULT
from lastcall.rules import (
    Breaker,
    Budget,
    Ceiling,
    Concurrency,
    Cooling,
    Cycle,
    Limit,
    Path,
    Quarantine,
    Refusals,
)

NEW = (Budget(limits=(Limit(most=9),)), Concurrency(limit=3), Cooling(), Quarantine(), Breaker())


def names(policy):
    return [rule.name for rule in policy.rules]


class TestOrder:
    def test_is_that_of_the_requirements(self):
        assert names(Policy().replaced(*NEW, Path())) == list(ORDER)

    @pytest.mark.parametrize("order", list(itertools.permutations(NEW)))
    def test_does_not_depend_on_who_came_first(self, order):
        assert names(Policy().replaced(*order, Path())) == list(ORDER)

    def test_of_the_default_rules_is_the_same(self):
        assert [name for name in ORDER if name in names(Policy())] == [one.name for one in DEFAULT]

    def test_of_rules_that_stand_otherwise_is_left_alone(self):
        policy = Policy(rules=[Ceiling(), Cycle()]).replaced(Quarantine())
        assert names(policy) == ["quarantine", "ceiling", "cycle"]

    def test_somebody_elses_rule_goes_to_the_end(self):
        class Mine(Refusals, frozen=True):
            name = "mine"

        assert names(Policy().replaced(Mine()))[-1] == "mine"
        assert names(Policy().replaced(Mine(), Quarantine()))[-1] == "mine"

    def test_a_file_puts_a_new_rule_there_too(self):
        text = "[rules.budget]\n[rules.quarantine]\n[rules.concurrency]\nlimit = 3\n[rules.cooling]"
        text += "\n[rules.breaker]\n[rules.path]"
        assert names(Policy.from_toml(text)) == list(ORDER)


class TestFile:
    def test_is_read(self):
        policy = Policy.from_toml(
            """
            [rules.concurrency]
            limit = 4
            per = "tenant"

            [rules.quarantine]
            seconds = 60
            alert = false

            [rules.cooling]
            seconds = 30.5

            [rules.breaker]
            failures = 3
            wait = 60
            rate = 0.5
            window = 10
            ramp = true

            [[rules.budget.limits]]
            per = "user"
            window = "day"
            most = 100
            alert = 80

            [[rules.budget.limits]]
            quantity = "requests"
            per = "run"
            window = false
            most = 50

            [[rules.budget.limits]]
            window = 90
            most = 5
            tools = ["search_*"]

            [tools.book]
            timeout = 20
            credential = "crm"
            dependency = "crm.example"
            """
        )
        found = {rule.name: rule for rule in policy.rules}
        assert found["concurrency"] == Concurrency(limit=4, per="tenant")
        assert found["quarantine"] == Quarantine(seconds=60, alert=None)
        assert found["cooling"] == Cooling(seconds=30.5)
        assert found["breaker"] == Breaker(failures=3, wait=60, rate=0.5, window=10, ramp=True)
        assert found["budget"] == Budget(
            limits=(
                Limit(per="user", window="day", most=100, alert=80),
                Limit(quantity="requests", per="run", window=None, most=50),
                Limit(window=90, most=5, tools=("search_*",)),
            )
        )
        assert policy.tool("book") == ToolPolicy(
            timeout=20, credential="crm", dependency="crm.example"
        )

    def test_may_leave_out_what_was_not_there(self):
        assert Policy.from_toml("[rules]\nquarantine = false\nbudget = false") == Policy()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[rules.concurrency]", "rules.concurrency: limit: Field required"),
            ("[rules.concurrency]\nlimt = 3", "rules.concurrency"),
            ("[rules.concurrency]\nlimit = 3\npr = 'run'", "no key 'pr'; did you mean 'per'"),
            ("[rules.breaker]\nfailures = 0", "it would never open"),
            ("[rules.breaker]\nrate = 1.5", "rules.breaker: rate"),
            ("[rules.breaker]\nwindow = 61", "rules.breaker: window"),
            ("[rules.quarantine]\nsecond = 3", "did you mean 'seconds'"),
            ("[[rules.budget.limits]]\nmost = 3\nwindw = 'day'", "did you mean 'window'"),
            ("[[rules.budget.limits]]\nmost = 3\nper = 'turn'", "rules.budget: limits.0.per"),
            ("[[rules.budget.limits]]\nmost = 0", "rules.budget: limits.0.most"),
            (
                "[[rules.budget.limits]]\nmost = 1\n[[rules.budget.limits]]\nmost = 2",
                "two limits named 'calls/hour/agent'",
            ),
            ("[tools.a]\ntimeout = 0", "tools.a.timeout"),
            ("[tools.a]\ntimeout = true", "tools.a.timeout"),
            ("[tools.a]\ncredential = ''", "tools.a.credential"),
            ("[tools.a]\ndependancy = 'x'", "did you mean 'dependency'"),
        ],
    )
    def test_an_error_says_where_what_and_what_instead(self, text, message):
        with pytest.raises(PolicyError) as error:
            Policy.from_toml(text)
        assert message in str(error.value)

    @given(
        st.lists(
            st.builds(
                Limit,
                per=st.sampled_from(["run", "thread", "agent", "user", "tenant", "all"]),
                window=st.sampled_from(["minute", "hour", "day", 90, 0.25, None]),
                most=st.integers(1, 10**9),
                alert=st.none() | st.integers(1, 99),
                tools=st.lists(st.text(min_size=1, max_size=5), max_size=2),
            ),
            max_size=4,
            unique_by=lambda limit: limit.name,
        ),
        st.floats(0.001, 1e6),
        st.permutations(NEW[1:]),
        st.booleans(),
    )
    def test_survives_being_written_and_read(self, limits, seconds, others, enforce):
        rules = [Budget(limits=limits, enforce=enforce), *others]
        tools = {"a": {"timeout": seconds, "credential": "x", "dependency": None}}
        for policy in (
            Policy(rules=rules, tools=tools),
            Policy().replaced(*rules, tools=tools),
            Policy.strict().replaced(*rules),
        ):
            assert Policy.from_toml(policy.to_toml()) == policy
