"""`lastcall report` without a browser: what is found, what is saved, and how it is written."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lastcall import Policy, ToolPolicy
from lastcall.call import Outcome, Where
from lastcall.cli import main
from lastcall.page import Page, html, markdown, plain, run_page, svg
from lastcall.page.as_html import embedded
from lastcall.page.as_json import sentence
from lastcall.page.building import LISTED, RESULT, ROOM, SHORT
from lastcall.page.findings import headline, story
from lastcall.page.folds import Fold, folds
from lastcall.page.labels import figures, label, money, span
from lastcall.prices import Price
from lastcall.redaction import Redactor
from lastcall.replay import Replayer
from lastcall.transcripts import RecordedCall, Transcript
from lastcall.transcripts.live import Live
from lastcall.transcripts.recorded import RecordedReply

REDACTOR = Redactor(b"k")
SECRET = "sk-ant-api03-" + "Ab1_" * 8


@pytest.fixture
def night(root):
    return root / "examples" / "night-422.jsonl"


def recorded(n=0, tool="search", args=None, **fields):
    args = {"q": f"word {n}"} if args is None else args
    return RecordedCall(tool, args, ts=float(n), reply=n, **{"result": f"hit {n}", **fields})


def paged(*calls, policy=None, redactor=REDACTOR, replies=(), **kw):
    transcript = Transcript("runs/a.jsonl", "a", "jsonl", calls, replies)
    policy = policy or Policy()
    done = Replayer(policy).replay(transcript)
    return run_page(transcript, done, policy, redactor, **kw)


def healthy_in(folder):
    folder.mkdir()
    rows = [{"ts": n, "name": "search", "args": {"q": n}, "result": str(n)} for n in range(3)]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run(capsys, *argv):
    code = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


class TestFindings:
    def test_one_call_that_is_made_again_and_again(self):
        page = paged(recorded(0), *[recorded(n, args={"q": "x"}, result="y") for n in range(1, 11)])
        assert sentence(page) == (
            "One call of `search` was made 10 times. Call 4 would have been the last; 7 calls saved."
        )
        assert story(page.finding, page.stop, page.calls) == (
            "The 10 calls are one and the same, argument for argument; every one was answered without an error."
            " Call 5 would have been refused because equal calls kept bringing an equal result."
        )

    def test_calls_that_differ_in_little(self):
        page = paged(
            *[recorded(n, args={"to": "a", "day": str(n % 4)}, status=422) for n in range(12)]
        )
        assert page.finding.differing == ("day",)
        assert (page.finding.calls, page.finding.variants) == (12, 4)
        assert "which differ only in `day`; every one was answered 422" in story(
            page.finding, page.stop, page.calls
        )

    def test_a_name_that_only_some_have_is_a_difference(self):
        sets = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 1}]
        page = paged(*[recorded(n, args=sets[n % 3], status=422) for n in range(9)])
        assert page.finding.differing == ("b", "c")
        assert page.finding.telling == ("c", "b")

    def test_arguments_without_names_are_not_said_to_differ_only_in_names(self):
        sets = [{"a": 1}, "not json", ["a"]]
        page = paged(*[recorded(n, args=sets[n % 3], status=422) for n in range(9)])
        assert page.finding.differing == ()
        assert page.finding.variants == 3

    def test_a_run_in_which_there_is_nothing_to_stop(self):
        page = paged(*map(recorded, range(5)))
        assert sentence(page) == "5 calls, and nothing to stop."
        assert page.stop is None
        assert page.executed == 5

    def test_a_run_without_a_call(self):
        page = paged()
        assert sentence(page) == "No call was made."
        for write in (html, svg, markdown):
            assert "No call was made." in write(Page((page,), "default"))

    def test_an_answer_that_ends_the_run_saves_nothing(self):
        page = paged(recorded(0), recorded(1, status=422), policy=Policy.preset("strict"))
        assert sentence(page).endswith("The answer to call 2 would have ended the turn.")
        assert "because its answer was final" in story(page.finding, page.stop, page.calls)
        assert page.saved.calls == 0

    def test_what_is_not_told_is_not_said(self):
        page = paged(*[recorded(n, args={"q": n % 2}, result=None) for n in range(4)])
        assert story(page.finding, page.stop, page.calls) == (
            "The 4 calls of `search` were 2 different ones, which differ only in `q`;"
            " what they brought is not told."
        )

    def test_a_run_of_which_not_one_call_would_have_been_made(self):
        policy = Policy(max_calls=1)
        page = paged(recorded(0), recorded(1), policy=policy)
        assert sentence(page).endswith("Call 1 would have been the last; 1 call saved.")
        assert "Not one of them would have been made." in headline(page.finding, page.stop, 2, 0, 2)

    def test_a_call_of_another_tool_than_most(self):
        page = paged(*map(recorded, range(5)), recorded(6, tool="list"), policy=Policy(max_calls=5))
        said = story(page.finding, page.stop, page.calls)
        assert said.endswith(
            "Call 6, of `list`, would have been refused because the limit of calls was reached."
        )

    def test_calls_of_many_tools_are_not_told_as_those_of_one(self):
        calls = [recorded(n, f"tool {n % 5}") for n in range(10)]
        page = paged(*calls, policy=Policy(max_calls=4))
        assert (
            sentence(page) == "10 calls were made. Call 4 would have been the last; 6 calls saved."
        )
        assert story(page.finding, page.stop, page.calls).startswith("The 2 calls of `tool 0` ")

    def test_calls_that_have_no_lanes_of_their_own_are_all_calls(self):
        page = paged(*(recorded(n) for n in range(10)))
        assert [lane.letter for lane in page.lanes] == [""]
        for text in (
            html(Page((page,), "default")),
            svg(Page((page,), "")),
            markdown(Page((page,), "")),
        ):
            assert "all calls" in text
            assert "other calls" not in text

    def test_many_arguments_are_not_all_named(self):
        sets = [{f"a{m}": n for m in range(9)} for n in (1, 2)]
        page = paged(*[recorded(n, args=sets[n % 2], status=422) for n in range(9)])
        assert "`a5` and 3 more arguments;" in story(page.finding, page.stop, page.calls)

    def test_calls_that_do_not_parse_and_calls_that_fail(self):
        page = paged(*[recorded(n, args="{", malformed=True, result=None) for n in range(5)])
        assert "every one was malformed" in story(page.finding, page.stop, page.calls)
        page = paged(
            *[recorded(n, args={"n": n % 2}, failed=bool(n % 3), result=n) for n in range(4)]
        )
        assert "2 were answered without an error and 2 failed" in story(page.finding, page.stop, 4)

    def test_a_recorded_answer_of_nothing_is_an_answer(self):
        live = Live(Where(), "tool", 0, outcome=Outcome())
        page = paged(recorded(0, result=None), recorded(1, result=None, live=live))
        assert [page.answers[line.answer] for line in page.lines] == ["not told", "ok"]

    def test_that_nothing_failed_is_not_said_where_it_is_not_told(self):
        page = paged(*[recorded(n, args={"q": "x"}, result="y", failed=None) for n in range(3)])
        blind = replace(page, lacks=("errors", "statuses"))
        assert (page.untold, blind.untold) == (False, True)
        told = story(page.finding, page.stop, 3, untold=blind.untold)
        assert told.endswith("every one was answered.")

    def test_no_name_breaks_out_of_its_quotes(self):
        page = paged(*[recorded(n, "a`b", {"x`y": n % 2}, status=422) for n in range(9)])
        assert sentence(page).count("`") == 2
        assert story(page.finding, page.stop, page.calls).count("`") == 2


class TestSaved:
    def test_what_is_not_told_is_neither_an_equal_result_nor_a_success(self):
        calls = [RecordedCall("look", {"n": 1}, reply=n) for n in range(9)]
        lacks = frozenset({"errors", "results", "statuses"})
        transcript = Transcript("f", "r", "x", calls, (), lacks)
        page = run_page(transcript, Replayer().replay(transcript), Policy(), REDACTOR)
        assert next(iter(figures(page))) == ("calls made", "9", "failures not told")
        said = story(page.finding, page.stop, page.calls)
        assert said.endswith(
            "because equal calls kept coming, and what is not told counts as unchanged."
        )

    def test_money_is_never_invented(self):
        page = paged(*[recorded(n, args={}, result="x") for n in range(10)])
        assert page.saved.cost is page.saved.all_cost is page.saved.tokens is None
        assert not any("money" in what for what, _, _ in figures(page))

    def test_what_tools_cost_by_the_policy(self):
        policy = Policy(tools={"search": ToolPolicy(cost=Decimal("0.25"))})
        page = paged(*[recorded(n, args={}, result="x") for n in range(10)], policy=policy)
        assert page.executed == 3
        assert (page.saved.cost, page.saved.all_cost) == (Decimal("1.75"), Decimal("2.50"))
        assert ("money saved", "1.75", "of 2.50") in list(figures(page))

    def test_what_model_messages_used_and_cost(self):
        from lastcall import Usage

        policy = Policy(prices={"m": Price(input=Decimal(1), output=Decimal(2))})
        replies = [RecordedReply(n, usage=Usage("m", 1_000_000, 0)) for n in range(10)]
        page = paged(
            *[recorded(n, args={}, result="x") for n in range(10)], policy=policy, replies=replies
        )
        # The request that asked for the refused call was made; those after it were not.
        assert page.executed == 3
        assert (page.saved.cost, page.saved.all_cost) == (Decimal(6), Decimal(10))
        assert page.saved.tokens == 6_000_000

    def test_where_not_every_price_is_known_that_is_said(self):
        from lastcall import Usage

        replies = [RecordedReply(n, usage=Usage("unheard-of", 5, 5), cost=None if n % 2 else Decimal(1))
                   for n in range(10)]  # fmt: skip
        page = paged(*[recorded(n, args={}, result="x") for n in range(10)], replies=replies)
        assert ("money saved", "3.00", "of 5.00, as far as it is told") in list(figures(page))
        assert ("tokens saved", "60", "") in list(figures(page))

    def test_what_a_run_cost_in_which_nothing_is_saved(self):
        policy = Policy(tools={"search": ToolPolicy(cost=Decimal("0.25"))})
        page = paged(*map(recorded, range(4)), policy=policy)
        assert ("money spent", "1.00", "") in list(figures(page))
        assert ("time taken", "3 s", "") in list(figures(page))

    def test_time(self):
        page = paged(*[recorded(n * 60, args={}, result="x") for n in range(10)])
        assert (page.saved.seconds, page.seconds) == (360, 540)
        assert [span(each) for each in (0.5, 7, 59, 425, 3723)] == [
            "0.5 s", "7 s", "59 s", "7 min 5 s", "1 h 2 min",
        ]  # fmt: skip

    def test_amounts(self):
        assert [money(Decimal(each)) for each in ("0", "12.345", "0.1", "0.0123", "0.00001234")] == [
            "0.00", "12.34", "0.10", "0.012", "0.000012",
        ]  # fmt: skip


class TestModel:
    def test_secrets_are_gone_and_fingerprints_stay(self):
        calls = [
            recorded(n, args={"token": "hunter" + str(n % 2), "to": "ann@example.com"},
                     result={"password": "hunter", "note": SECRET})
            for n in range(4)
        ]  # fmt: skip
        page = paged(*calls)
        for write in (html, svg, markdown, lambda page: json.dumps(plain(page))):
            said = write(Page((page,), "default"))
            for secret in ("hunter", "example.com", SECRET):
                assert secret not in said
        assert len(page.arguments) == 2
        bare = paged(*calls, redactor=None)
        assert [lane.fingerprint for lane in bare.lanes] == [
            lane.fingerprint for lane in page.lanes
        ]
        assert "hunter" in html(Page((bare,), "default", redacted=False))
        assert paged(recorded(args="to ann@example.com"), redactor=None).arguments[0].text == (
            "to ann@example.com"
        )

    def test_names_are_no_place_for_secrets_either(self):
        calls = [
            recorded(n, "mail/ann@example.com", {"ann@example.com": n}, status=422)
            for n in range(9)
        ]
        transcript = Transcript("runs/ann@example.com.jsonl", SECRET, "jsonl", tuple(calls))
        page = run_page(transcript, Replayer().replay(transcript), Policy(), REDACTOR)
        assert page.stop is not None
        assert page.stop.tool == page.finding.tool == page.tools[0] == page.lanes[0].tool
        for write in (html, svg, markdown, lambda page: json.dumps(plain(page))):
            said = write(Page((page,), "default"))
            assert "example.com" not in said
            assert SECRET not in said

    def test_a_secret_is_found_before_a_result_is_cut(self):
        page = paged(recorded(result="x " * (RESULT // 2 - 10) + SECRET))
        assert SECRET[:10] not in page.results[0].text

    def test_a_long_result_is_cut_and_its_length_kept(self):
        page = paged(recorded(0, result="x" * 5000), recorded(1, result="y" * 200_000))
        assert [(len(each.text), each.length) for each in page.results] == [
            (RESULT, 5000), (RESULT, 200_000),
        ]  # fmt: skip

    def test_when_there_is_no_more_room_results_are_short(self):
        page = paged(*[recorded(n, result=f"{n} " * 900) for n in range(5)], room=3000)
        assert [len(each.text) for each in page.results] == [1800, 1800, SHORT, SHORT, SHORT]
        assert ROOM > 1_000_000

    def test_the_frequent_fingerprints_have_lanes_and_the_others_share_one(self):
        page = paged(*[recorded(n, args={"n": n if n % 2 else 0}) for n in range(100)],
                     policy=Policy.preset("permissive"))  # fmt: skip
        assert [(lane.letter, lane.calls) for lane in page.lanes] == [("A", 50), ("", 50)]
        assert sum(len(lane.bars) for lane in page.lanes) == 100

    def test_a_lane_is_called_by_what_tells_it_from_the_others(self):
        sets = [{"to": "a", "n": 1}, {"to": "a", "n": [1, "b"]}]
        page = paged(
            *[recorded(n, args=sets[n % 2]) for n in range(4)], recorded(5, "list", {"to": "a"})
        )
        assert [label(lane, page) for lane in page.lanes] == ["n: 1", "n: 1, b", "to: a"]
        page = paged(recorded(0, args="not json"), recorded(1, args=["a"]))
        assert [label(lane, page) for lane in page.lanes] == ["not json", '["a"]']

    def test_a_run_that_is_too_long_is_listed_around_its_stop(self):
        total, loop = LISTED + 6000, 15_000
        calls = [
            recorded(n, args={"n": min(n, loop)}, result=min(n, loop), turn=n // 150)
            for n in range(total)
        ]
        page = paged(*calls)
        assert page.calls == total
        assert len(page.lines) == LISTED
        assert page.stop is not None
        assert page.first <= page.stop.index + 1 < page.first + LISTED
        assert page.first == page.stop.index - LISTED // 2 + 1
        assert f"Below are calls {page.first:,} to" in html(Page((page,), "default"))

    @given(st.lists(st.integers(0, 2), max_size=60), st.integers(-5, 70))
    def test_folds_are_true_and_apart(self, keys, border):
        at = 0
        for fold in folds(keys, border):
            assert fold.start >= at
            at = fold.start + fold.period * fold.times
            assert fold.times >= 3
            assert keys[fold.start : at] == keys[fold.start : fold.start + fold.period] * fold.times
            assert not fold.start < border < at
        assert at <= len(keys)

    def test_what_goes_round_is_one_fold(self):
        assert list(folds("xabcabcabcabcy", 0)) == [Fold(1, 3, 4)]
        assert list(folds("aaaaaa", 3)) == [Fold(0, 1, 3), Fold(3, 1, 3)]


class TestWriting:
    @given(st.text())
    def test_embedded_json_is_the_value_and_ends_nothing(self, text):
        said = embedded({text: [text]})
        assert json.loads(said) == {text: [text]}
        assert said.isascii()
        assert not set("<>&") & set(said)

    def test_the_html_is_whole_and_well_nested(self, night, tmp_path):
        said = _written(night, tmp_path / "page.html")
        _Nested().check(said)
        assert "$" not in re.sub(r"<script>.*?</script>", "", said, flags=re.DOTALL)
        assert re.search(r"https?://", said) is None

    def test_the_svg_is_xml_and_has_no_script(self, night, tmp_path):
        root = ET.fromstring(_written(night, tmp_path / "page.svg"))  # noqa: S314 - our own
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "35 calls saved" in root.attrib["aria-label"]
        names = {each.tag.rsplit("}")[-1] for each in root.iter()}
        assert names <= {"svg", "title", "style", "rect", "g", "path", "text"}

    def test_a_long_word_does_not_stick_out_of_the_picture(self):
        page = paged(*(recorded(1, "word " + "x" * 300) for _ in range(9)))
        lines = re.findall('<text class="head"[^>]*>([^<]*)<', svg(Page((page,), "")))
        assert max(map(len, lines)) < 90

    def test_hostile_names_stay_text_in_every_format(self):
        bad = "</script><img src=x onerror=alert(1)>|`\n\x00\ud800"
        run = paged(*[recorded(n, bad, {bad: n % 3}, status=422, result=bad) for n in range(9)])
        page = Page((run, run), bad, unreadable=(bad,))
        said = html(page)
        _Nested().check(said)
        assert "<img" not in said
        ET.fromstring(svg(page))  # noqa: S314 - our own
        json.dumps(plain(page)).encode()
        rows = [line for line in markdown(page).splitlines() if line.startswith("|")]
        assert all(len(re.findall(r"(?<!\\)\|", line)) in (6, 7) for line in rows)

    def test_what_could_not_be_judged_is_said(self):
        transcript = Transcript(
            "a.jsonl", "a", "jsonl", (recorded(0),), (), frozenset({"errors", "statuses"})
        )
        run = run_page(transcript, Replayer().replay(transcript), Policy(), REDACTOR)
        page = Page((run,), "default")
        assert "terminal" in run.not_judged
        assert "no errors, no statuses)." in markdown(page)
        assert "The transcript has no errors, no statuses." in html(page)
        assert "terminal" in plain(page)["runs"][0]["not_judged"]

    def test_json_has_every_call(self, night, tmp_path):
        said = json.loads(_written(night, tmp_path / "page.json"))
        (run,) = said["runs"]
        assert said["version"] == 1
        assert (run["calls"], run["executed"], run["saved"]["calls"]) == (40, 5, 35)
        assert [line["call"] for line in run["timeline"]] == list(range(1, 41))
        assert [line["made"] for line in run["timeline"]].count(True) == 5
        assert run["timeline"][2]["answer"] == "422"

    def test_markdown_says_the_same(self, night, tmp_path):
        said = _written(night, tmp_path / "page.md")
        assert said.startswith(
            "# `create_reminder` was called 38 times. Call 5 would have been the last;"
        )
        assert "35** (88 %)" in said


class TestCommand:
    def test_it_prints_or_writes(self, capsys, night, tmp_path):
        code, out, err = run(capsys, "report", night)
        assert code == 0
        assert out.startswith("<!doctype html>")
        assert err == "1 run, 40 calls: 1 stopped, 35 calls saved\n"
        page = tmp_path / "page.html"
        assert run(capsys, "report", night, "-o", page) == (
            0, f"{page}: 1 run, 40 calls: 1 stopped, 35 calls saved\n", "",
        )  # fmt: skip
        assert [each.name for each in tmp_path.iterdir()] == ["page.html"]

    def test_one_call_is_no_calls(self, capsys, tmp_path):
        for calls in (1, 4):
            rows = [{"name": "f", "args": {"i": 1}, "result": "same"}] * calls
            tmp_path.joinpath(f"{calls}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        _, out, err = run(capsys, "report", tmp_path)
        assert err == "2 runs, 5 calls: 1 stopped, 1 call saved\n"
        assert "<title>2 runs, 1 stopped, 1 call saved<" in out

    def test_a_terminal_is_no_place_for_html(self, capsys, night, monkeypatch):
        import sys

        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        code, out, err = run(capsys, "report", night)
        assert (code, out) == (2, "")
        assert "say -o page.html" in err

    def test_the_format_is_said_or_seen(self, capsys, night, tmp_path):
        page = tmp_path / "page.svg"
        assert run(capsys, "report", night, "-o", page)[0] == 0
        assert page.read_text().startswith("<svg")
        _, out, _ = run(capsys, "report", night, "--format", "md")
        assert out.startswith("# ")

    def test_a_key_makes_pages_agree(self, capsys, night, monkeypatch):
        monkeypatch.setenv("LASTCALL_REDACTION_KEY", "one")
        first = run(capsys, "report", night, "--format", "json")[1]
        assert first == run(capsys, "report", night, "--format", "json")[1]
        monkeypatch.setenv("LASTCALL_REDACTION_KEY", "two")
        assert first != run(capsys, "report", night, "--format", "json")[1]
        assert (
            "buyer@example.com"
            in run(capsys, "report", night, "--format", "json", "--no-redact")[1]
        )

    @pytest.mark.parametrize(
        ("output", "said"),
        [(".", "is a folder; name a file in it"), ("no/page.html", "is no folder; make it")],
    )
    def test_where_it_cannot_be_written_is_said_first(self, capsys, night, tmp_path, output, said):
        code, out, err = run(capsys, "report", night, "-o", tmp_path / output)
        assert (code, out) == (2, "")
        assert said in err

    def test_a_page_that_cannot_be_replaced_stays(self, capsys, night, tmp_path, monkeypatch):
        page = tmp_path / "page.html"
        page.write_text("before")

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        assert run(capsys, "report", night, "-o", page)[0] == 2
        assert page.read_text() == "before"
        assert [each.name for each in tmp_path.iterdir()] == ["page.html"]

    def test_an_error_names_the_file_that_was_asked_for(self, capsys, night, tmp_path):
        for argv in (("baseline", night), ("tune", healthy_in(tmp_path / "good"), night)):
            code, _, err = run(capsys, *argv, "-o", tmp_path / "no" / "p.toml")
            assert code == 2
            assert err.endswith(f"No such file or directory: '{tmp_path}/no/p.toml'\n")

    def test_a_link_stays_a_link_and_a_pipe_a_pipe(self, capsys, night, tmp_path):
        page, link, pipe = tmp_path / "page.html", tmp_path / "link.html", tmp_path / "pipe.html"
        page.write_text("before")
        link.symlink_to(page)
        os.mkfifo(pipe)
        assert run(capsys, "report", night, "-o", link)[0] == 0
        assert link.is_symlink()
        assert "create_reminder" in page.read_text()
        with ThreadPoolExecutor(1) as reader:
            read = reader.submit(pipe.read_text)
            assert run(capsys, "report", night, "-o", pipe)[0] == 0
            assert "create_reminder" in read.result()
        assert pipe.is_fifo()
        assert sorted(tmp_path.iterdir()) == [link, page, pipe]

    def test_the_name_of_a_run_is_that_of_its_file(self):
        done = Transcript("runs/a\x1b.jsonl", "a", "jsonl", (recorded(),))
        page = run_page(done, Replayer().replay(done), Policy(), REDACTOR)
        assert page.name == r"a\u001b.jsonl"

    def test_what_cannot_be_read_is_on_the_page_too(self, capsys, night, tmp_path):
        broken = tmp_path / "broken.jsonl"
        broken.write_bytes(night.read_bytes() + b'{"ts": 1, "na')
        code, out, err = run(capsys, "report", broken)
        assert code == 2
        assert "broken.jsonl:41" in err
        assert "1 unreadable" in err
        assert "Not read:</p>" in out
        assert "broken.jsonl:41" in out
        assert "create_reminder" in out

    def test_nothing_to_report_on(self, capsys, tmp_path):
        (tmp_path / "a.txt").write_text("prose\n")
        code, _, err = run(capsys, "report", tmp_path)
        assert code == 2
        assert "nothing to report on" in err
        assert run(capsys, "report", tmp_path / "none.jsonl")[0] == 2

    def test_files_and_runs_are_told_apart_by_name(self, capsys, night, tmp_path):
        for folder in "ab":
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "run.jsonl").write_bytes(night.read_bytes())
        rows = [{"ts": n, "name": "t", "args": {}, "run": f"r{n}"} for n in range(2)]
        (tmp_path / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        _, out, _ = run(capsys, "report", tmp_path, "--format", "md")
        for name in (
            f"{tmp_path}/a/run.jsonl",
            f"{tmp_path}/b/run.jsonl",
            "two.jsonl [r0]",
            "two.jsonl [r1]",
        ):
            assert f"| `{name}` |" in out

    def test_a_preset_or_a_file_of_rules(self, capsys, night):
        assert "1 stopped" in run(capsys, "report", night, "--policy", "strict")[2]
        code, _, err = run(capsys, "report", night, "--policy", "strickt")
        assert code == 2
        assert "strict" in err


def test_every_run_of_the_corpus_has_a_page(corpus, tmp_path):
    for each in ("tau-bench", "otel", "claude-code", "vcr-pydantic-ai"):
        page = tmp_path / f"{each}.html"
        assert main(["report", str(corpus / each), "-o", str(page)]) == 0
        _Nested().check(page.read_text("utf-8"))


def _written(path, output):
    assert main(["report", str(path), "-o", str(output)]) == 0
    return output.read_text("utf-8")


class _Nested(HTMLParser):
    """Checks that what is opened is closed, in order, and that no id is given twice."""

    VOID = {"meta", "input", "br", "img", "link"}

    def check(self, text):
        self.open, self.ids = [], []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass
