"""What strangers and attackers hand to a guard: it decides all the same, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid

import pytest

from lastcall import Call, Guard, Outcome, Policy, PolicyError, Stop, Stopped, Where
from lastcall.report import RESULTS_SIZE
from lastcall.rules import Ceiling, Cycle
from lastcall.testing import assert_stopped

HERE = Where(run="r", turn="t")
HALF = "\ud800"
"""Half a character, as models write it and as names of files hold it."""


class Unprocessable(Exception):
    status_code = 422


def asked(guard, n=0, tool="search", where=HERE, **fields):
    return guard.decide(Call(tool, {"n": n}, where, **fields))


def made(guard, n=0, result="ok", **fields):
    verdict = asked(guard, n, **fields)
    if verdict.ticket is None:
        return verdict
    return guard.observe(verdict.ticket, Outcome(content=result))


class TestOddNames:
    @pytest.mark.parametrize("odd", [7, uuid.UUID(int=7), HALF])
    def test_a_refusal_comes_about_whatever_names_are_given(self, make_guard, odd):
        guard = make_guard(Policy(max_calls=1))
        where = Where(odd, odd, odd, odd, odd, odd, (odd,))
        made(guard, 1, where=where, id=odd, reply=odd)
        stop = asked(guard, 2, where=where, id=odd, reply=odd).stop
        assert_stopped(stop, reason="ceiling")
        assert Stop.model_validate_json(stop.model_dump_json()) == stop
        assert guard.report(odd).totals.refused == 1

    def test_a_block_may_be_named_by_a_number(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        with guard.within(run=42, user=7):
            guard.wrap(lambda n: n, name="look")(1)
            with pytest.raises(Stopped) as stopped:
                guard.wrap(lambda n: n, name="look")(2)
        assert (stopped.value.stop.run, stopped.value.stop.user) == ("42", "7")

    def test_half_a_character_hides_no_final_status(self, make_guard):
        guard = make_guard()
        with (
            guard.within(run="r"),
            pytest.raises(Stopped) as stopped,
            guard.calling("look", {"q": HALF}, id=HALF, reply=HALF),
        ):
            raise Unprocessable(f"no file {HALF}")
        stop = assert_stopped(stopped.value, reason="terminal", status=422)
        assert stop.model_dump_json()

    def test_results_with_half_a_character_are_gathered(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        made(guard, 1, f"found {HALF}")
        stop = asked(guard, 2).stop
        assert '"found ?"' in stop.model_dump_json()

    def test_words_may_give_anything(self, make_guard):
        guard = make_guard(Policy(max_calls=1), words=lambda stop: 5)
        made(guard, 1)
        assert asked(guard, 2).stop.text == "5"


class TestFaults:
    @pytest.mark.parametrize("clock", [lambda: 1 / 0, lambda: 1.8e15])
    def test_a_clock_that_fails_is_a_fault_like_any_other(self, clock, caplog):
        caplog.set_level(logging.CRITICAL)
        heard = []
        guard = Guard(Policy(max_calls=1), clock=clock, listeners=[heard.append])
        verdicts = [made(guard, n) for n in range(2)]
        assert verdicts[1].stop.reason == "fault"
        assert "fault" in {event.kind for event in heard}

    @pytest.mark.parametrize("policy", ["strict", {"max_calls": 8}, Policy])
    def test_what_is_no_policy_is_refused_at_once(self, policy):
        with pytest.raises(TypeError, match="must be a Policy"):
            Guard(policy)


class TestOtherContexts:
    def test_a_generator_may_be_gone_on_with_in_another_task(self, make_guard):
        guard = make_guard()

        async def pages():
            with guard.within(run="r"), guard.calling("look", 1) as call:
                yield 1
                call.result("found")

        async def each():
            reading = pages()
            for _ in range(2):
                await asyncio.gather(anext(reading, None))

        asyncio.run(each())
        assert len(guard.store) == 0
        incident = guard.report("r")
        assert (incident.status, incident.totals.executed) == ("finished", 1)

    def test_an_answer_after_the_end_of_its_run_leaves_nothing(self, make_guard):
        guard = make_guard()
        with guard.within(run="r"):
            guard.wrap(lambda: "early", name="look")()
            late = guard.decide(Call("wait"))
        assert guard.observe(late.ticket, Outcome(content="late")).stop is None
        assert len(guard.store) == 0
        incident = guard.report("r")
        assert (incident.status, incident.totals.executed) == ("finished", 2)

    def test_a_run_of_the_same_name_is_a_new_one(self, make_guard):
        guard = make_guard()
        for _ in range(2):
            with guard.within(run="r"):
                guard.wrap(lambda: "x", name="look")()
        assert guard.report("r").totals.executed == 1


class TestCodeOfOthers:
    """Objects that call the guard when they are looked at."""

    def odd(self, guard):
        class Odd:
            __slots__ = ()

            def __repr__(self):
                return f"odd {made(guard, 1, tool='inner', where=Where('other', 'other'))}"

        return Odd()

    def test_in_arguments(self, make_guard):
        guard = make_guard()
        self.ends(lambda: guard.decide(Call("look", {"q": self.odd(guard)}, HERE)))

    def test_in_results(self, make_guard):
        guard = make_guard()
        self.ends(lambda: [made(guard, 1, self.odd(guard)) for _ in range(2)])

    def ends(self, work):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()


class TestReport:
    def test_one_refused_call_counts_once_also_when_it_ends_the_run(self, make_guard):
        guard = make_guard(Policy(max_repeats=1))
        for n in range(3):
            made(guard, id=f"c{n}", reply=f"m{n}", size=1)
        guard.decide(Call("", None, HERE, kind="model"))
        incident = guard.report("r")
        assert (incident.totals.executed, incident.totals.refused) == (1, 2)
        assert incident.tools.keys() == {"search"}

    def test_the_stop_that_ends_a_run_names_the_call_that_it_answers(self, make_guard):
        guard = make_guard(Policy(max_repeats=1))
        for n in range(3):
            made(guard, tool="a", id=f"c{n}", reply=f"m{n}")
        stop = asked(guard, tool="b", id="c3", reply="m3").stop
        assert_stopped(stop, reason="refusals", scope="run")
        assert (stop.tool, stop.call_id) == ("b", "c3")
        assert stop.fingerprint == Call("b", {"n": 0}).fingerprint
        assert guard.report("r").tools["b"].refused == 1

    def test_results_are_held_within_their_bound_and_no_more(self, make_guard):
        guard = make_guard()
        for n in range(60):
            made(guard, n, f"{n:05}" + "é" * 8000)
        notes = guard._reporter._ledger._running["r"]
        assert sum(one.size for one in notes._kept) <= RESULTS_SIZE
        results = [one.result for one in guard.report("r").gathered]
        assert len(results) == 50
        assert results[-1].startswith("00059")
        assert results[0] is None
        assert 10 <= sum(result is not None for result in results) <= 16

    def test_one_calling_used_twice_is_two_calls(self, make_guard):
        guard = make_guard()
        with guard.within(run="r"):
            again = guard.calling("look", 1)
            with again as call:
                call.result("found")
            with again:
                pass
        assert [one.result for one in guard.report("r").gathered] == ["found", "null"]


def test_a_reply_of_many_calls_resumed_counts_once(make_guard):
    guard = make_guard(Policy(max_calls=100))
    for _ in range(2):
        for n in range(100):
            verdict = asked(guard, n, id=f"c{n}", reply="m", size=100)
            guard.observe(verdict.ticket, Outcome("paused"))
    assert (guard.report("r").totals.executed, guard.report("r").totals.attempts) == (100, 200)


def test_a_reply_refused_as_a_whole_is_told_as_it_is(make_guard):
    guard = make_guard(Policy(max_calls=10, batch="all-or-none"))
    for n in range(5):
        made(guard, n, reply="1", size=5)
    stops = [asked(guard, n, reply="2", size=30).stop for n in range(5, 7)]
    assert (stops[0].limit, stops[0].observed, stops[0].remaining) == (10, 35, {"calls": 5})
    assert stops[1].observed > 10
    assert all("spent" not in stop.text and "more calls than" in stop.text for stop in stops)


class TestPolicies:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"rules": [Cycle]}, r"the policy takes Cycle\(\)"),
            ({"rules": [Ceiling(), "cycle"]}, "is no rule: it has no name"),
            ({"rules": 3}, "rules must be a list"),
            ({"tools": ["search"]}, "tools"),
            ({"tools": 3}, "tools"),
        ],
    )
    def test_what_cannot_be_is_said(self, settings, said):
        with pytest.raises(PolicyError, match=said):
            Policy(**settings)

    def test_a_rule_without_a_member_is_refused_with_its_name(self):
        class Half:
            name, kinds, enforce = "half", frozenset({"tool"}), True

            def record(self, tool):
                return "turn"

        with pytest.raises(PolicyError, match="no quiet and no start and no before and no refused"):
            Policy(rules=[Half()])

    @pytest.mark.parametrize("text", ["preset = 3", 'preset = ["strict"]', "tools = 3"])
    def test_what_a_file_cannot_say(self, text):
        with pytest.raises(PolicyError):
            Policy.from_toml(text)

    def test_a_file_that_is_no_text_and_one_with_a_mark(self, tmp_path):
        path = tmp_path / "p.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(PolicyError, match="not TOML"):
            Policy.from_toml(path)
        path.write_bytes(b"\xef\xbb\xbfmax_calls = 3\r\n")
        assert Policy.from_toml(path) == Policy(max_calls=3)

    def test_a_setting_of_a_wrapped_function_names_the_nearest(self):
        with pytest.raises(PolicyError, match="did you mean 'reads'"):
            Guard().wrap(read=True)(time.sleep)


class TestSnapshots:
    @pytest.mark.parametrize("policy", [Policy.permissive(), Policy(rules=()), Policy(max_calls=9)])
    def test_records_of_rules_that_are_gone_are_left_out(self, make_guard, policy):
        one, other = make_guard(Policy.strict()), make_guard(policy)
        for n in range(3):
            made(one, n)
        other.restore(one.snapshot("r"))
        assert made(other, 9).stop is None
