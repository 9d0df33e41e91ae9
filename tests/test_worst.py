"""The worst case of a policy, as numbers: against plain arithmetic, and by `lastcall explain`."""

from __future__ import annotations

import json
import logging
from decimal import Decimal

import pytest

from lastcall import Policy
from lastcall.cli import main
from lastcall.events import log
from lastcall.rules import Breaker, Budget, Concurrency, Limit
from lastcall.worst import Worst
from lastcall.worst import worst as counted


def worst(policy, tool, **settings):
    """It, counted no further than these tests need."""
    return counted(policy, tool, **{"most": 1300, **settings})


HOURLY = Budget(limits=(Limit(per="user", window="hour", most=50),))


class TestNumbers:
    def test_the_default_limits_a_run_and_a_call(self):
        assert worst(Policy(), "t") == Worst(3, 200, None, None)

    def test_strict_ends_a_run_sooner(self):
        assert worst(Policy.strict(), "t").run == 8

    def test_without_rules_there_is_no_limit(self):
        assert worst(Policy.preset("permissive"), "t") == Worst(None, None, None, None)

    @pytest.mark.parametrize(("attempts", "call", "run"), [(1, 3, 200), (3, 9, 600)])
    def test_a_retrying_layer_multiplies(self, attempts, call, run):
        found = worst(Policy().replaced(HOURLY_OFF), "t", attempts=attempts)
        assert (found.call, found.run) == (call, run)

    def test_calls_one_at_a_time_are_closed_after_five_failures(self):
        assert worst(Policy(), "t", at_once=1).run == 5
        policy = Policy().replaced(Concurrency(limit=2, per="run"))
        assert worst(policy, "t").run == 6

    def test_a_window_is_spent_as_often_as_a_day_has_one(self):
        assert worst(Policy().replaced(HOURLY), "t").user == 50 * 24

    def test_what_never_lifts_is_spent_once(self):
        limits = (Limit(per="user", window=None, most=7),)
        found = worst(Policy().replaced(Budget(limits=limits)), "t", workers=3)
        assert (found.run, found.user, found.fleet) == (7, 7, 21)

    def test_workers_are_users_of_their_own(self):
        assert worst(Policy().replaced(HOURLY), "t", workers=3).fleet == 150

    def test_one_limit_for_all_is_one(self):
        limits = (Limit(per="all", window="minute", most=7),)
        assert worst(Policy().replaced(Budget(limits=limits)), "t", workers=9).fleet == 7 * 60

    def test_a_breaker_lets_through_what_is_under_way_and_then_the_trials(self):
        policy = Policy().replaced(Breaker(wait=30))
        found = worst(policy, "t", workers=60, at_once=1)
        assert found.fleet == 60 + 119
        assert found.run == 5
        policy = Policy().replaced(Breaker(wait=60), Concurrency(limit=2, per="run"))
        assert worst(policy, "t", workers=10, attempts=3).fleet == 10 * 2 * 3 + 59

    def test_a_budget_of_retries_limits_them(self):
        limits = (Limit(quantity="retries", per="run", window=None, most=2),)
        policy = Policy(max_calls=4).replaced(Budget(limits=limits))
        assert worst(policy, "t", attempts=3).run == 6

    def test_money_goes_by_what_the_tool_costs_at_most(self):
        policy = Policy(max_calls=4, tools={"pay": {"cost": {"ok": "0.60", "429": "0.01"}}})
        found = worst(policy, "pay")
        assert found.cost == Decimal("0.60")
        assert found.money(found.run) == Decimal("2.40")
        assert found.money(None) is None
        assert worst(policy, "other").money(4) is None


HOURLY_OFF = Breaker(failures=10_000)
"""A rule that never gets as far."""

POLICY = """
max_calls = 4

[rules.breaker]
wait = 30

[[rules.budget.limits]]
per = "user"
window = "hour"
most = 10

[tools.pay]
cost = "0.60"
"""


class TestExplain:
    @pytest.fixture
    def explain(self, tmp_path, capsys):
        file = tmp_path / "policy.toml"
        file.write_text(POLICY)

        def call(*words):
            try:
                code = main(["explain", str(file), *words])
            except SystemExit as error:
                code = error.code
            said = capsys.readouterr()
            return code, said.out, said.err

        return call

    def test_prints_attempts_and_money(self, explain, caplog):
        with caplog.at_level(logging.INFO, "lastcall"):
            code, out, err = explain("--tool", "pay", "--workers", "20")
        assert (code, err, caplog.records) == (0, "", [])
        assert out == (
            "attempts of 'pay' that reach a service which never recovers, at most:\n"
            "  one call                             3   1.80\n"
            "  one run                              4   2.40\n"
            "  one user, one day                  240   144.00\n"
            "  20 workers, one hour               199   119.40\n"
        )
        assert not log.disabled

    def test_without_a_price_attempts_alone(self, explain, capsys):
        _, out, _ = explain("--attempts", "2")
        assert "  one run                              8\n" in out
        assert main(["explain", "default", "--most", "300"]) == 0
        out = capsys.readouterr().out
        assert "  one user, one day          300 or more\n" in out
        assert "  1 worker, one hour " in out

    def test_as_json(self, explain):
        _, out, _ = explain("--tool", "pay", "--json", "--at-once", "1")
        found = json.loads(out)
        assert found["tool"] == "pay"
        assert found["worst"]["run"] == {"attempts": 4, "money": "2.40"}
        assert sorted(found["worst"]) == ["call", "fleet", "run", "user"]

    @pytest.mark.parametrize(
        "words", [["--attempts", "0"], ["--workers", "x"], ["--at-once", "-1"], ["--most", "0"]]
    )
    def test_numbers_are_whole_and_from_1(self, explain, words):
        code, _, err = explain(*words)
        assert code == 2
        assert "a whole number from 1" in err

    def test_a_policy_that_is_none_is_said_so(self, capsys):
        assert main(["explain", "strickt"]) == 2
        assert "neither one of" in capsys.readouterr().err
