"""`lastcall tune`: the calmest policy that stops the bad runs and no good one, and how sure that is."""

from __future__ import annotations

import json
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall import Policy
from lastcall.calmest import allowed, calmest
from lastcall.cli import main
from lastcall.lattice import DIALS, Dial, aside, composed, dials
from lastcall.policy import SUPERSEDED
from lastcall.replay import Replayer
from lastcall.sounding import Run, Sounding, passes
from lastcall.transcripts import RecordedCall, Transcript
from lastcall.tune import Tuner

BASE = Policy()
LEVELS = {dial: dial.at(BASE) for dial in dials(BASE)}
BY_NAME = {dial.name: dial for dial in LEVELS}


def transcript(calls, run="r"):
    return Transcript("file", run, "jsonl", tuple(calls))


def call(n=0, result="x", reply=0, **fields):
    return RecordedCall("search", {"n": n}, reply=reply, result=result, **fields)


def polling(times, run="r", status=200):
    """Calls between two others, which always bring the same."""
    calls = [
        call(1 if n % 2 else 100 + n, "same" if n % 2 else f"r{n}", n, status=status)
        for n in range(2 * times)
    ]
    return transcript(calls, run)


def fresh(length, run="r"):
    """Calls that each bring something new."""
    return transcript([call(n, f"r{n}", n, status=200) for n in range(length)], run)


calls = st.builds(
    RecordedCall,
    st.sampled_from("ab"),
    st.sampled_from([{"q": "x"}, {"q": "X"}, {"p": "x"}, {"q": "y"}]),
    turn=st.integers(0, 1),
    result=st.sampled_from(["one", "two"]),
    status=st.sampled_from([None, 200, 404, 422, 503]),
    malformed=st.booleans(),
)


def laid_out(found):
    """The calls in turns, each a reply of its own."""
    ordered = sorted(found, key=lambda one: one.turn)
    return transcript(
        RecordedCall(c.tool, c.args, c.turn, n, None, None, c.result, c.status, None, c.malformed)
        for n, c in enumerate(ordered)
    )


@pytest.fixture(scope="module")
def alone():
    """By dial and level: a replayer, and the same in the shadow."""
    off = dict.fromkeys(LEVELS, 0)
    made = {}
    for dial in LEVELS:
        for level in range(1, len(dial.levels)):
            policy = composed(BASE, {**off, dial: level}, alone=True)
            made[dial, level] = Replayer(policy), Sounding(policy)
    return made


class TestTable:
    """What is found out in the shadow is what replay says of each setting alone."""

    @settings(max_examples=25)
    @given(found=st.lists(calls, max_size=24))
    def test_in_the_shadow_as_in_earnest_and_a_stricter_level_stops_no_less(self, alone, found):
        run = laid_out(found)
        calmer = {}
        for (dial, level), (replayer, sounding) in alone.items():
            stopped = replayer.replay(run).stopped
            assert (dial.rule in sounding.sound(run)) == stopped, dial.levels[level]
            assert stopped or not calmer.get(dial, False)
            calmer[dial] = stopped

    @settings(max_examples=25)
    @given(found=st.lists(calls, min_size=1, max_size=24), seed=st.integers())
    def test_any_policy_stops_what_the_table_says(self, found, seed):
        tuner = Tuner()
        tuner.add(laid_out(found), good=True)
        chance = random.Random(seed)
        levels = {dial: chance.randrange(len(dial.levels)) for dial in LEVELS}
        policy = composed(BASE, levels)
        assert tuner.good[0].stopped(levels) == Replayer(policy).replay(laid_out(found)).stopped

    def test_what_is_on_no_dial_counts_too(self):
        base = Policy(tools={"search": {"max_calls": 3}})
        tuner = Tuner(base)
        tuner.add(fresh(5), good=True)
        tuner.add(polling(20), good=False)
        assert tuner.good[0].fixed
        assert tuner.tuned().stopped_good == ("file [r]",)

    def test_passes_sound_each_level_once_and_no_rule_disturbs_another(self):
        planned = passes(tuple(LEVELS))
        probes = [probe for each in planned for probe in each.items()]
        assert len(probes) == len(set(probes)) == sum(len(dial.levels) - 1 for dial in LEVELS)
        for each in planned:
            rules = [dial.rule for dial in each]
            assert len(rules) == len(set(rules))
            assert "repeat" not in rules or not SUPERSEDED & set(rules)


class TestLattice:
    def test_the_default_is_on_it_and_composes_to_itself(self):
        assert composed(BASE, LEVELS) == BASE
        assert all(dial.levels[0] is None for dial in DIALS)

    @pytest.mark.parametrize("preset", ["strict", "dialogue", "coding", "permissive", "empty"])
    def test_so_is_every_preset(self, preset):
        base = Policy.preset(preset)
        levels = {dial: dial.at(base) for dial in dials(base)}
        assert composed(base, levels) == base

    def test_a_level_of_ones_own_is_put_in_its_place(self):
        base = Policy(max_calls=37)
        (dial,) = (dial for dial in dials(base) if dial.rule == "ceiling")
        assert dial.levels == (None, 400, 200, 100, 50, 37, 25, 15, 8)

    def test_limits_of_reads_are_tried_where_tools_are_said_to_read(self):
        assert "same.reads" not in BY_NAME
        reading = Policy(tools={"search": {"reads": True}})
        tuner = Tuner(reading)
        assert {"same.reads", "same.no_write"} <= {dial.name for dial in tuner.dials}
        tuner.add(fresh(10, "g"), good=True)
        tuner.add(polling(5, "b"), good=False)
        (change,) = tuner.tuned().changes
        assert change.dial.name in ("same.reads", "same.no_write")

    def test_who_lets_equal_calls_be_is_not_contradicted(self):
        base = Policy(max_repeats=0)
        assert not {d.rule for d in dials(base)} & {"repeat", "same", "stale"}
        tuner = Tuner(base)
        tuner.add(fresh(10), good=True)
        tuner.add(polling(20), good=False)
        # Nothing is left that looks at equal calls, but the rule that looks at rounds of them.
        made = {rule.name: rule for rule in tuner.tuned().policy.rules}
        assert made["repeat"].max_repeats == 0


names = st.sampled_from(["stale.in_a_row", "cycle.rounds", "repeat.max_repeats", "near.in_a_row"])
tables = st.lists(
    st.dictionaries(names, st.integers(1, 3), max_size=3).map(
        lambda fires: Run("r", "r", 9, {SMALL[name]: level for name, level in fires.items()}, False)
    ),
    max_size=5,
)
SMALL = {
    dial.name: dial
    for dial in (
        Dial("stale", "in_a_row", (None, 20, 10, 5)),
        Dial("cycle", "rounds", (None, 4, 3, 2)),
        Dial("near", "in_a_row", (None, 5, 3, 2)),
        Dial("repeat", "max_repeats", (None, 8, 4, 2)),
    )
}


class TestSearch:
    @settings(max_examples=200)
    @given(good=tables, bad=tables, at=st.tuples(*[st.integers(0, 3)] * 4))
    def test_nothing_is_better(self, good, bad, at):
        base = dict(zip(SMALL.values(), at, strict=True))
        found = calmest(base, good, bad)
        safe = {dial: allowed(dial, good) for dial in base}
        start = {dial: min(level, safe[dial]) for dial, level in base.items()}

        def rank(levels):
            missed = sum(not run.stopped(levels) for run in bad)
            return missed, sum(dial.steps(start[dial], level) for dial, level in levels.items())

        possible = (
            dict(zip(SMALL.values(), levels, strict=True)) for levels in product(range(4), repeat=4)
        )
        tried = [
            levels
            for levels in possible
            if all(start[dial] <= level <= safe[dial] for dial, level in levels.items())
        ]
        assert not any(run.stopped(found) for run in good)
        assert rank(found) == min(map(rank, tried))

    def test_many_ways_lead_to_one_place(self):
        stale, cycle, near, repeat = SMALL.values()
        base = {stale: 1, cycle: 1, near: 1, repeat: 0}
        pairs = [(stale, cycle), (cycle, near), (stale, near)]
        bad = [Run("b", "b", 9, dict.fromkeys(pair, 2), False) for pair in pairs]
        found = calmest(base, [], bad)
        assert sum(found.values()) == sum(base.values()) + 2
        assert all(run.stopped(found) for run in bad)

    def test_of_equals_the_one_that_good_runs_are_furthest_from(self):
        stale, near = SMALL["stale.in_a_row"], SMALL["near.in_a_row"]
        base = {**dict.fromkeys(SMALL.values(), 1), SMALL["repeat.max_repeats"]: 0}
        bad = [Run("b", "b", 9, {stale: 2, near: 2}, False)]
        close = [Run("g", "g", 9, {stale: 3}, False)]
        assert calmest(base, close, bad)[near] == 2
        assert calmest(base, [Run("g", "g", 9, {near: 3}, False)], bad)[stale] == 2


class TestTuner:
    def test_the_calmest_step_that_catches_the_bad_ones(self):
        tuner = Tuner()
        for n in range(3):
            tuner.add(fresh(10, f"g{n}"), good=True)
        tuner.add(polling(7, "b"), good=False)
        tuned = tuner.tuned()
        (change,) = tuned.changes
        assert (change.dial.name, change.dial.levels[change.after]) == ("same.in_turn", 6)
        assert change.runs == ("file [b]",)
        assert (tuned.caught, tuned.bad, tuned.uncaught) == (1, 1, ())
        assert tuned.policy == BASE.replaced(
            next(r for r in BASE.rules if r.name == "same").model_copy(update={"in_turn": 6})
        )

    def test_a_good_run_loosens_what_stopped_it(self):
        tuner = Tuner()
        tuner.add(polling(12, "g"), good=True)
        tuner.add(transcript([call(1, "same", n, status=200) for n in range(9)], "b"), good=False)
        tuned = tuner.tuned()
        moved = {change.dial.name: change for change in tuned.changes}
        assert moved["same.in_turn"].looser
        assert moved["same.in_turn"].runs == ("file [g]",)
        assert not any(run.stopped(tuned.levels) for run in tuner.good)
        assert tuned.caught == 1
        assert not Replayer(tuned.policy).replay(polling(12)).stopped

    def test_why_a_bad_run_is_not_caught(self):
        tuner = Tuner()
        tuner.add(fresh(60, "g"), good=True)
        tuner.add(fresh(60, "b"), good=False)
        tuner.add(fresh(3, "c"), good=False)
        long, short = tuner.tuned().uncaught
        assert (long.name, long.dial.name, long.dial.levels[long.level], long.good) == (
            "file [b]",
            "ceiling.calls",
            50,
            1,
        )
        assert (short.name, short.dial) == ("file [c]", None)

    def test_the_order_of_the_runs_is_all_the_same(self):
        runs = [(fresh(n, f"g{n}"), True) for n in range(1, 40, 3)]
        runs += [(polling(n, f"b{n}"), False) for n in range(3, 9)]
        found = []
        for seed in range(3):
            random.Random(seed).shuffle(runs)
            tuner = Tuner()
            for run, good in runs:
                tuner.add(run, good=good)
            tuned = tuner.tuned()
            found.append((tuned.policy, tuned.unseen))
        assert found[0] == found[1] == found[2]

    def test_each_is_tried_on_a_policy_that_did_not_know_it(self):
        tuner = Tuner()
        for n in range(9):
            tuner.add(fresh(10, f"g{n}"), good=True)
        tuner.add(polling(7, "odd"), good=True)
        for n in range(5):
            tuner.add(polling(7, f"b{n}"), good=False)
        tuned = tuner.tuned()
        # With the odd one in sight nothing can be caught; without it, it is stopped itself.
        assert tuned.caught == 0
        assert tuned.unseen == (1, 1)

    def test_too_few_to_try_that(self):
        tuner = Tuner()
        tuner.add(fresh(3), good=True)
        tuner.add(polling(9), good=False)
        assert tuner.tuned().unseen is None

    def test_runs_without_a_call_do_not_count(self):
        tuner = Tuner()
        tuner.add(transcript([]), good=True)
        assert (tuner.silent, tuner.good) == (1, [])
        with pytest.raises(ValueError, match="no bad run"):
            tuner.tuned()

    def test_a_rule_that_makes_others_stand_aside(self):
        repeat = BY_NAME["repeat.max_repeats"]
        on = {**LEVELS, repeat: 1}
        assert aside(BY_NAME["same.in_a_row"], on)
        assert not aside(BY_NAME["same.in_a_row"], LEVELS)
        # The results differ, so only a limit of equal calls stops it.
        spin = [call(1, f"r{n}", n, status=200) for n in range(14)]
        tuner = Tuner()
        tuner.add(fresh(10, "g"), good=True)
        tuner.add(fresh(30, "h"), good=True)
        tuner.add(transcript(spin, "b"), good=False)
        tuned = tuner.tuned()
        assert [change.dial for change in tuned.changes] == [repeat]
        assert Replayer(tuned.policy).replay(transcript(spin)).stopped


def rows(run):
    return "".join(
        json.dumps({"name": c.tool, "args": c.args, "result": c.result, "status": c.status}) + "\n"
        for c in run.calls
    )


@pytest.fixture
def marked(tmp_path, monkeypatch):
    """Folders of good and bad runs, beside which the command is run."""
    monkeypatch.chdir(tmp_path)
    for name, run in [
        *[(f"good/g{n}.jsonl", fresh(6 + n)) for n in range(12)],
        *[(f"bad/b{n}.jsonl", polling(7)) for n in range(5)],
        ("bad/calm.jsonl", fresh(4)),
        ("good/long.jsonl", fresh(230)),
    ]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(rows(run))
    return tmp_path


def run(capsys, *argv):
    code = main(["tune", *[str(word) for word in argv]])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


NEW = (
    "New runs: each part of five was tried on a policy that was tuned on the other four. 1 of 13 good runs "
    "were stopped: at most 31.6 % of such, with 95 % confidence. 5 of 6 bad ones were caught: at least 41.8 %."
)


class TestCommand:
    def test_writes_a_policy_that_says_why_and_is_read_back(self, capsys, marked):
        code, out, err = run(capsys, "good", "bad", "-o", "policy.toml")
        assert (code, err) == (0, "")
        text = (marked / "policy.toml").read_text()
        assert text.splitlines()[-10:] == [
            'preset = "default"',
            "",
            "# in_turn: 8 did not stop 5 bad runs: bad/b0.jsonl, bad/b1.jsonl, bad/b2.jsonl, bad/b3.jsonl,",
            "# bad/b4.jsonl",
            "[rules.same]",
            "in_turn = 6",
            "",
            "# calls: 200 stopped 1 good run: good/long.jsonl",
            "[rules.ceiling]",
            "calls = 400",
        ]
        made = {rule.name: rule for rule in Policy.from_toml(marked / "policy.toml").rules}
        assert (made["same"].in_turn, made["ceiling"].calls) == (6, 400)
        assert out.splitlines() == [
            "Good: 0 of 13 runs stopped.",
            "Bad: 5 of 6 runs stopped, 7 % of their calls saved.",
            NEW,
            "Not caught: bad/calm.jsonl, 4 calls: no setting that was tried stops it.",
            f"same.in_turn = 6: 8 did not stop 5 bad runs: {', '.join(f'bad/b{n}.jsonl' for n in range(5))}",
            "ceiling.calls = 400: 200 stopped 1 good run: good/long.jsonl",
        ]

    def test_on_standard_output_there_is_the_policy_alone(self, capsys, marked):
        code, out, err = run(capsys, "good", "bad")
        assert code == 0
        assert Policy.from_toml(out)
        assert err.startswith("Good: 0 of 13 runs")

    @pytest.mark.parametrize("preset", ["strict", "permissive", "coding"])
    def test_from_another_preset(self, capsys, marked, preset):
        _, out, _ = run(capsys, "good", "bad", "--policy", preset)
        policy = Policy.from_toml(out)
        assert f'preset = "{preset}"' in out
        replayer = Replayer(policy)
        assert not replayer.replay(fresh(230)).stopped
        assert replayer.replay(polling(7)).stopped

    def test_from_a_policy_of_ones_own_which_is_kept(self, capsys, marked):
        own = 'on_store = "open"\n[rules]\nstale = false\n[tools.search]\nreads = true\n'
        (marked / "own.toml").write_text(own)
        _, out, _ = run(capsys, "good", "bad", "--policy", "own.toml")
        policy = Policy.from_toml(out)
        assert policy.on_store == "open"
        assert policy.tool("search").reads
        assert "stale" not in {rule.name for rule in policy.rules}
        assert "# calls: 200 stopped 1 good run: good/long.jsonl\n[rules.ceiling]\n" in out
        assert not Replayer(policy).replay(fresh(230)).stopped

    def test_a_rule_that_must_go(self, capsys, marked):
        stubborn = transcript([call(1, f"r{n}", n, status=422) for n in range(4)])
        (marked / "good" / "odd.jsonl").write_text(rows(stubborn))
        _, out, _ = run(capsys, "good", "bad")
        assert "# closes: call stopped 1 good run: good/odd.jsonl\nterminal = false\n" in out
        assert not Replayer(Policy.from_toml(out)).replay(stubborn).stopped

    def test_what_would_catch_a_bad_run_and_what_it_would_cost(self, capsys, marked):
        (marked / "bad" / "long.jsonl").write_text(rows(fresh(220)))
        (marked / "bad" / "mute.jsonl").write_text(
            json.dumps({"messages": [{"role": "user", "content": "hello"}]})
        )
        code, out, _ = run(capsys, "good", "bad", "-o", "p.toml")
        assert code == 0
        said = "Not caught: bad/long.jsonl, 220 calls: ceiling.calls = 200 would, and 1 good run besides."
        assert said in out
        assert said in (marked / "p.toml").read_text()

    def test_a_limit_that_is_not_tuned_is_named_where_it_stops_a_good_run(self, capsys, marked):
        (marked / "own.toml").write_text("[tools.search]\nmax_calls = 16\n")
        _, out, err = run(capsys, "good", "bad", "--policy", "own.toml")
        assert "Good: 2 of 13 runs stopped." in err
        said = "Good, and stopped by limits of the policy that are not tuned: good/g11.jsonl, good/long.jsonl."
        assert said in err
        assert Policy.from_toml(out).tool("search").max_calls == 16

    def test_few_runs_say_little_and_it_says_so(self, capsys, tmp_path):
        for name, found in (("good.jsonl", fresh(5)), ("bad.jsonl", polling(20))):
            (tmp_path / name).write_text(rows(found))
        code, _, err = run(capsys, tmp_path / "good.jsonl", tmp_path / "bad.jsonl")
        assert code == 0
        assert "0 of 1 says at most 95.0 %, with 95 % confidence" in err
        assert "nothing was changed" in err

    def test_what_cannot_be_read_is_said(self, capsys, marked):
        (marked / "bad" / "broken.jsonl").write_text(rows(polling(9)) + "{")
        code, out, err = run(capsys, "good", "bad")
        assert code == 2
        assert "bad/broken.jsonl:19: broken line" in err
        assert Policy.from_toml(out)

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (("good", "good"), "both good and bad"),
            (("good", "none"), "none: no such file"),
            (("good", "empty"), "no run with a call in empty"),
            (("good", "bad", "--policy", "strikt"), "did you mean 'strict'"),
            (("good", "bad", "-o", "no/p.toml"), "p.toml"),
        ],
    )
    def test_wrong_use(self, capsys, marked, argv, said):
        (marked / "empty").mkdir()
        code, out, err = run(capsys, *argv)
        assert (code, said in err) == (2, True), err
        assert "preset" not in out

    def test_real_runs(self, capsys, corpus, tmp_path):
        for row in map(json.loads, (corpus / "index.jsonl").read_text().splitlines()):
            if not row["reviewed_loop"] and row["outcome_label"] != "success":
                continue
            kind = "bad" if row["reviewed_loop"] else "good"
            link = tmp_path / kind / row["file"].replace("/", "-")
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(corpus / row["file"])
        code, out, err = run(capsys, tmp_path / "good", tmp_path / "bad")
        assert code == 0
        assert "Good: 0 of 260 runs stopped." in err
        assert "Bad: 20 of 20 runs stopped" in err
        assert Policy.from_toml(out)
