from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Policy, PolicyError, ToolPolicy
from lastcall.policy import DEFAULT
from lastcall.rules import Ceiling, Cycle, Near, Refusals, Repeat, Same, Stale, Terminal


def rule(policy, name):
    return next(one for one in policy.rules if one.name == name)


class TestShortForm:
    def test_it_adjusts_the_default_rules(self):
        policy = Policy(max_calls=8, max_repeats=2, max_refusals=3)
        assert rule(policy, "ceiling").calls == 8
        assert rule(policy, "repeat").max_repeats == 2
        assert rule(policy, "refusals").max_refusals == 3
        assert [one.name for one in policy.rules] == [one.name for one in DEFAULT]

    def test_tools_are_given_as_settings_or_as_objects(self):
        policy = Policy(tools={"a": {"reads": True}, "b": ToolPolicy(polls=True)})
        assert policy.tool("a").reads
        assert policy.tool("b").polls

    @pytest.mark.parametrize("limit", [True, 0, -1, 1.5, "8"])
    def test_a_ceiling_that_cannot_be_is_an_error_where_it_is_made(self, limit):
        with pytest.raises(PolicyError, match="max_calls"):
            Policy(max_calls=limit)

    @pytest.mark.parametrize("limit", [True, -1, 1.5])
    def test_a_repeat_limit_that_cannot_be_is_an_error_too(self, limit):
        with pytest.raises(PolicyError, match="max_repeats"):
            Policy(max_repeats=limit)

    def test_zero_repeats_switch_the_limit_off(self):
        assert rule(Policy(max_repeats=0), "repeat").max_repeats == 0

    def test_the_short_form_needs_its_rule(self):
        with pytest.raises(PolicyError, match="max_calls needs its rule"):
            Policy(rules=[Cycle()], max_calls=3)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"enforced": True}, "no key 'enforced'; did you mean 'enforce'"),
            ({"max_call": 3}, "no key 'max_call'; did you mean 'max_calls'"),
            ({"on_fault": "maybe"}, "on_fault"),
            ({"tools": {"a": {"pols": True}}}, "did you mean 'polls'"),
            ({"tools": {"a": {"max_calls": True}}}, "tools.a.max_calls"),
            ({"statuses": {99: "final"}}, "statuses"),
            ({"terminal_statuses": ["404"]}, "terminal_statuses"),
            ({"rules": [object()]}, "is no rule"),
            ({"rules": [Cycle(), Cycle(rounds=2)]}, "two rules named 'cycle'"),
        ],
    )
    def test_an_error_names_the_key_and_the_nearest_valid_one(self, settings, message):
        with pytest.raises(PolicyError, match=message):
            Policy(**settings)


class TestLongForm:
    def test_the_rules_given_are_the_rules_in_their_order(self):
        policy = Policy(rules=[Ceiling(calls=3), Cycle()])
        assert [one.name for one in policy.rules] == ["ceiling", "cycle"]

    def test_replaced_keeps_the_place_of_a_namesake(self):
        policy = Policy().replaced(Cycle(rounds=2))
        assert [one.name for one in policy.rules] == [one.name for one in DEFAULT]
        assert rule(policy, "cycle").rounds == 2

    def test_a_policy_cannot_be_changed(self):
        with pytest.raises(ValueError, match="frozen"):
            Policy().enforce = False


class TestPresets:
    def test_strict_is_the_table_of_the_design(self):
        policy = Policy.strict()
        assert rule(policy, "ceiling") == Ceiling(calls=8)
        assert rule(policy, "repeat") == Repeat(max_repeats=2)
        assert rule(policy, "near") == Near(in_a_row=2)
        assert rule(policy, "cycle") == Cycle(rounds=2)
        assert rule(policy, "terminal") == Terminal(closes="turn")
        assert rule(policy, "refusals") == Refusals(max_refusals=1)

    def test_the_default_is_the_table_of_the_design(self):
        policy = Policy()
        assert rule(policy, "ceiling").calls == 200
        assert rule(policy, "repeat").max_repeats is None
        assert rule(policy, "same") == Same(in_a_row=3, in_turn=8, reads=6, no_write=5)
        assert rule(policy, "near").in_a_row == 3
        assert (rule(policy, "cycle").rounds, rule(policy, "cycle").longest) == (3, 12)
        assert rule(policy, "failing").times == 3
        assert rule(policy, "stale") == Stale(in_a_row=10)
        assert rule(policy, "terminal").closes == "call"
        assert (rule(policy, "streak").final, rule(policy, "streak").passing) == (3, 5)
        assert rule(policy, "malformed").in_a_row == 3
        assert rule(policy, "refusals").max_refusals == 2

    def test_dialogue_and_coding(self):
        assert rule(Policy.dialogue(), "ceiling").calls == 25
        assert rule(Policy.coding(), "ceiling").calls == 200
        assert Policy.coding().tool("bash").shell
        assert not Policy().tool("bash").shell

    def test_permissive_only_counts(self):
        assert Policy.permissive().rules == (Ceiling(calls=None),)

    def test_a_preset_takes_settings(self):
        assert not Policy.strict(enforce=False).enforce
        assert rule(Policy.strict(enforce=False), "ceiling").calls == 8
        assert rule(Policy.dialogue(max_repeats=2), "repeat").max_repeats == 2

    def test_an_unknown_preset_names_the_nearest(self):
        with pytest.raises(PolicyError, match="did you mean 'strict'"):
            Policy.preset("strikt")


class TestTools:
    def test_an_exact_name_wins_over_a_pattern(self):
        policy = Policy(tools={"get_*": {"max_calls": 1}, "get_all": {"max_calls": 9}})
        assert policy.tool("get_all").max_calls == 9
        assert policy.tool("get_one").max_calls == 1
        assert policy.tool("put_one").max_calls is None

    def test_what_the_policy_sets_wins_and_what_it_leaves_stays(self):
        policy = Policy(tools={"a": {"max_calls": 2}})
        tool = policy.tool("a", ToolPolicy(max_calls=9, reads=True))
        assert (tool.max_calls, tool.reads) == (2, True)

    def test_an_exempt_tool_is_no_business_of_the_repeat_rules(self):
        names = [one.name for one in Policy().lineup(ToolPolicy(exempt=True))]
        assert names == ["refusals", "malformed", "writes", "terminal", "streak", "ceiling"]

    @pytest.mark.parametrize("limit", [0, 5])
    def test_where_max_repeats_speaks_the_result_rules_stand_aside(self, limit):
        names = {one.name for one in Policy().lineup(ToolPolicy(max_repeats=limit))}
        assert not names & {"same", "failing", "stale"}
        assert names >= {"repeat", "near", "cycle"}


class TestToml:
    def test_a_file_is_read(self, tmp_path):
        file = tmp_path / "policy.toml"
        file.write_text(
            """
            preset = "dialogue"
            max_repeats = 3
            terminal_statuses = [409]
            [statuses]
            401 = "passing"
            [rules]
            stale = false
            [rules.cycle]
            rounds = 2
            [tools."search_*"]
            reads = true
            volatile = ["since"]
            statuses = {404 = "ok"}
            """
        )
        policy = Policy.from_toml(file)
        assert rule(policy, "ceiling").calls == 25
        assert rule(policy, "repeat").max_repeats == 3
        assert rule(policy, "cycle").rounds == 2
        assert "stale" not in {one.name for one in policy.rules}
        assert policy.statuses == {401: "passing"}
        assert policy.tool("search_web").volatile == ("since",)
        assert policy.tool("search_web").statuses == {404: "ok"}

    @pytest.mark.parametrize(
        "policy",
        [
            Policy(),
            Policy.strict(),
            Policy.dialogue(),
            Policy.coding(),
            Policy.permissive(),
            Policy(rules=[Cycle(rounds=2), Ceiling(calls=5, alert=4)], enforce=False),
            Policy(
                max_repeats=0,
                statuses={401: "passing"},
                terminal_statuses=[418],
                on_fault="open",
                on_unscoped="error",
                tools={
                    'a "quoted" *': {"volatile": ["ä"], "statuses": {404: "ok"}, "max_calls": 1}
                },
            ),
        ],
    )
    def test_what_is_written_is_read_back_equal(self, policy):
        assert Policy.from_toml(policy.to_toml()) == policy

    @given(
        st.builds(
            ToolPolicy,
            reads=st.booleans(),
            volatile=st.lists(st.text(max_size=5), max_size=3),
            max_repeats=st.none() | st.integers(0, 9),
        ),
        st.text(min_size=1, max_size=8),
    )
    def test_any_tool_survives_the_file(self, tool, name):
        policy = Policy(tools={name: tool})
        assert Policy.from_toml(policy.to_toml()) == policy

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("max_calls = ", "not TOML"),
            ("max_cals = 3", "no key 'max_cals'; did you mean 'max_calls'"),
            ("max_calls = true", "max_calls"),
            ('preset = "strickt"', "did you mean 'strict'"),
            ("[rules.cycel]", "no rule named 'cycel'; did you mean 'cycle'"),
            ("[rules.cycle]\nround = 2", "no key 'round'; did you mean 'rounds'"),
            ("[rules.cycle]\nrounds = 1", "rules.cycle: rounds"),
            ("[rules]\ncycle = 3", "rules.cycle must be a table, or false"),
            ("rules = 3", "rules must be a table"),
            ("[tools.a]\nread = true", "did you mean 'reads'"),
            ('[statuses]\n404 = "fatal"', "statuses"),
            ('[statuses]\nnope = "final"', "statuses"),
        ],
    )
    def test_an_error_says_where_what_and_what_instead(self, text, message):
        with pytest.raises(PolicyError, match=message) as error:
            Policy.from_toml(text)
        assert str(error.value).startswith("policy: ")

    def test_an_error_in_a_file_names_the_file(self, tmp_path):
        file = tmp_path / "mine.toml"
        file.write_text("max_cals = 3")
        with pytest.raises(PolicyError, match="mine.toml"):
            Policy.from_toml(file)

    def test_a_missing_file_is_the_systems_error(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            Policy.from_toml(tmp_path / "none.toml")
