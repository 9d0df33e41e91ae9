"""What a person may do instead of a stop: let a call pass, raise a limit, end the run."""

from __future__ import annotations

import pytest

from lastcall import Call, Outcome, Policy, Usage, Where
from lastcall.rules import Ceiling, Refusals
from lastcall.testing import assert_stopped

HERE = Where(run="r", turn="t")


def ask(guard, n=0, tool="search", **fields):
    fields = {"reply": f"m{n}", "id": f"c{n}", **fields}
    return guard.decide(Call(tool, {"n": n}, HERE, **fields))


def make(guard, n=0, outcome=None, **fields):
    verdict = ask(guard, n, **fields)
    if verdict.ticket is not None:
        guard.observe(verdict.ticket, outcome or Outcome(content="x"))
    return verdict


class TestPardon:
    def test_a_ceiling_gives_its_limit_again(self, make_guard):
        guard = make_guard(Policy(max_calls=2))
        for n in range(2):
            make(guard, n)
        guard.person.pardon(ask(guard, 2))
        for n in range(2, 4):
            assert make(guard, n).stop is None
        stop = assert_stopped(ask(guard, 4).stop, reason="ceiling", scope="turn")
        assert (stop.limit, stop.observed, stop.budget) == (4, 5, "calls")

    def test_or_as_much_as_is_said(self, make_guard):
        guard = make_guard(Policy(max_calls=2))
        for n in range(2):
            make(guard, n)
        guard.person.pardon(ask(guard, 2), 1)
        assert make(guard, 2).stop is None
        assert ask(guard, 3).stop.limit == 3

    def test_what_is_left_counts_what_was_added(self, make_guard):
        events = []
        guard = make_guard(Policy(max_calls=2), listeners=[events.append])
        for n in range(2):
            make(guard, n)
        guard.person.pardon(ask(guard, 2), 5)
        make(guard, 2)
        assert events[-1].remaining == {"calls": 4}

    def test_under_all_or_none_a_reply_that_fits_by_then_runs(self, make_guard):
        guard = make_guard(Policy(rules=[Refusals(), Ceiling(calls=2, batch="all-or-none")]))
        verdict = ask(guard, 0, size=3, reply="m")
        assert verdict.stop.reason == "ceiling"
        guard.person.pardon(verdict, 1)
        for n in range(3):
            assert make(guard, n, size=3, reply="m").stop is None

    def test_the_limit_of_one_tool(self, make_guard):
        guard = make_guard(Policy(tools={"search": {"max_calls": 1}}))
        make(guard, 0)
        verdict = ask(guard, 1)
        assert verdict.stop.budget == "calls:search"
        assert guard.closed("r") == {"search": "ceiling"}
        guard.person.pardon(verdict, 2)
        assert guard.closed("r") == {}
        assert make(guard, 1).stop is None
        assert make(guard, 2).stop is None
        assert ask(guard, 3).stop.limit == 3

    @pytest.mark.parametrize("policy", [Policy(max_repeats=2), Policy()])
    def test_a_repeat_starts_anew(self, make_guard, policy):
        guard = make_guard(policy)
        times = 0
        while ask(guard, 0, id=f"c{times}", reply=f"m{times}").ticket is not None:
            make(guard, 0, id=f"d{times}", reply=f"m{times}")
            times += 1
        guard.person.pardon(ask(guard, 0, id="last"))
        assert make(guard, 0, id="again").stop is None

    def test_a_final_status_is_forgotten(self, make_guard):
        guard = make_guard()
        final = Outcome("error", "no", 422, "final", "no")
        make(guard, 0, final)
        verdict = ask(guard, 0, id="c1", reply="m1")
        assert_stopped(verdict.stop, reason="terminal")
        guard.person.pardon(verdict)
        assert make(guard, 0, id="c1", reply="m1").stop is None

    def test_a_turn_that_was_ended_goes_on(self, make_guard):
        guard = make_guard(Policy.strict())
        make(guard, 0, Outcome("error", "no", 404, "final", "no"))
        verdict = ask(guard, 1)
        assert_stopped(verdict.stop, reason="terminal", scope="turn")
        guard.person.pardon(verdict)
        assert make(guard, 1).stop is None

    def test_a_cycle_has_to_be_run_again_from_its_start(self, make_guard):
        guard = make_guard()
        at = 0
        while ask(guard, at % 2, id=f"x{at}", reply=f"x{at}").ticket is not None:
            make(guard, at % 2, id=f"c{at}", reply=f"c{at}", outcome=Outcome(content=f"{at % 2}"))
            at += 1
        verdict = ask(guard, at % 2, id="y", reply="y")
        guard.person.pardon(verdict)
        assert make(guard, at % 2, id="z", reply="z").stop is None

    def test_refusals_that_were_taken_back_were_not_ignored(self, make_guard):
        guard = make_guard(Policy(max_calls=1, max_refusals=2))
        make(guard, 0)
        for n in range(1, 6):
            verdict = ask(guard, n, size=1)
            assert verdict.stop.reason == "ceiling"
            guard.person.pardon(verdict, 1)
            assert make(guard, n, size=1).stop is None

    def test_the_call_knows_how_often_it_was_asked_about(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        make(guard, 0)
        guard.person.pardon(ask(guard, 1), 1, asked=3)
        assert ask(guard, 1).call.asked == 3
        assert ask(guard, 2).call.asked == 0


class TestEnd:
    def test_everything_after_it_is_refused_by_it(self, make_guard):
        guard = make_guard(Policy(max_repeats=1))
        make(guard, 0)
        stop = guard.person.end(ask(guard, 0, id="c1", reply="m1"))
        assert (stop.reason, stop.scope, stop.asked) == ("repeat", "run", True)
        assert stop.text
        again = ask(guard, 7).stop
        assert (again.reason, again.scope, again.asked) == ("repeat", "run", True)
        assert guard.report("r").stopped_by.asked

    def test_where_nothing_was_refused_there_is_nothing_to_end(self, make_guard):
        guard = make_guard()
        with pytest.raises(ValueError, match="nothing was refused"):
            guard.person.end(ask(guard))


class TestRaiseLimit:
    def test_of_a_run_on_its_way(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        make(guard, 0)
        guard.raise_limit("r", 2)
        assert make(guard, 1).stop is None
        assert make(guard, 2).stop is None
        assert ask(guard, 3).stop.limit == 3

    def test_of_a_run_that_had_ended_by_it(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        make(guard, 0)
        assert ask(guard, 1).stop is not None
        guard.raise_limit("r", 1)
        assert make(guard, 1).stop is None

    def test_another_limit_ends_it_all_the_same(self, make_guard):
        guard = make_guard(Policy.strict())
        make(guard, 0, Outcome("error", "no", 404, "final", "no"))
        guard.raise_limit("r", 50)
        assert_stopped(ask(guard, 1).stop, reason="terminal")

    @pytest.mark.parametrize("by", [0, -1, True, 1.0, "5", None])
    def test_a_number_that_cannot_be_is_refused(self, make_guard, by):
        with pytest.raises(ValueError, match="whole number from 1"):
            make_guard().raise_limit("r", by)


class TestRequests:
    def model(self, guard, **outcome):
        ticket = guard.decide(Call("model", kind="model", where=HERE)).ticket
        guard.observe(ticket, Outcome(**outcome))

    def test_what_requests_used_adds_up(self, make_guard):
        guard = make_guard()
        self.model(guard, usage=Usage("m", 10, 5, 3, 2))
        self.model(guard, usage=Usage("m", 1, 1))
        self.model(guard)
        self.model(guard, kind="error")
        self.model(guard, kind="cancelled")
        requests = guard.report("r").requests
        assert (requests.made, requests.failed, requests.untold) == (4, 1, 2)
        assert (requests.input_tokens, requests.output_tokens) == (11, 6)
        assert (requests.cached_tokens, requests.reasoning_tokens) == (3, 2)
        assert guard.report("r").totals.executed == 0

    def test_hosted_calls_are_counted_or_unknown(self, make_guard):
        guard = make_guard()
        self.model(guard, hosted={"search": None, "code": 2})
        self.model(guard, hosted={"search": None, "code": None})
        assert guard.report("r").hosted == {"search": None, "code": 2}
        self.model(guard, hosted={"search": 1})
        assert guard.report("r").hosted == {"search": 1, "code": 2}

    def test_a_request_let_through_beside_the_rules_is_noted(self, make_guard):
        guard = make_guard()
        guard.note(Call("model", kind="model", where=HERE), Outcome(usage=Usage("m", 3, 4)))
        assert guard.report("r").requests.input_tokens == 3


class TestPaused:
    def test_a_thread_knows_the_run_that_waits_in_it(self, make_guard):
        guard = make_guard()
        assert guard.pauses.find("t", "g") is None
        guard.pauses.keep("r", "t", "g")
        assert guard.pauses.find("t", "g").run == "r"
        assert guard.pauses.find("t", "other") is None
        guard.pauses.drop("t", "g")
        assert guard.pauses.find("t", "g") is None
        assert len(guard.store) == 0

    def test_a_snapshot_of_the_thread_has_the_run(self, make_guard):
        guard = make_guard(Policy(max_calls=2))
        make(guard, 0)
        guard.pauses.keep("r", "t", None)
        other = make_guard(Policy(max_calls=2))
        other.restore(guard.snapshot(thread="t"))
        assert other.pauses.find("t", None).run == "r"
        assert make(other, 1).stop is None
        assert_stopped(ask(other, 2).stop, reason="ceiling")


class TestScope:
    def test_a_function_wins_field_by_field_and_what_is_set_by_hand_wins_over_it(self, make_guard):
        guard = make_guard(scope=lambda: Where(user="ann", tenant="acme"))
        verdict = guard.decide(Call("a", {}, Where(run="r", turn="t", user="theirs")))
        where = verdict.call.where
        assert (where.run, where.turn, where.user, where.tenant) == ("r", "t", "ann", "acme")
        with guard.within(user="me"):
            where = guard.decide(Call("a", {}, Where(run="r", turn="t"))).call.where
        assert (where.user, where.tenant) == ("me", "acme")

    def test_agents_of_one_name_that_run_at_once_have_refusals_of_their_own(self, make_guard):
        guard = make_guard(Policy(max_repeats=1, max_refusals=2))

        def refused(lane, n):
            where = Where("r", "t", agent="helper", lane=lane)
            call = Call("a", {}, where, reply=f"{lane}{n}", id=f"{lane}{n}", size=1)
            return guard.decide(call).stop

        first = guard.decide(Call("a", {}, Where("r", "t", agent="helper", lane="1"), reply="x"))
        guard.observe(first.ticket, Outcome(content="x"))
        assert refused("1", 0).reason == "repeat"
        assert refused("2", 0).reason == "repeat"
        assert refused("1", 1).reason == "repeat"
        assert guard.report("r").status == "stopped"
        assert guard.report("r").stopped_by.observed == 2


def test_where_a_person_is_asked_is_a_setting(make_guard):
    policy = Policy(on_stop="ask")
    assert Policy.from_toml(policy.to_toml()) == policy
    with pytest.raises(ValueError, match="on_stop"):
        Policy(on_stop="perhaps")
