"""What the user said in each turn of a saved run, and when that is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lastcall.transcripts import Transcript, read
from lastcall.transcripts.said import UNPLACED, UNWORDED, Said, said

ONE = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
TWO = {"id": "c2", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
def told(tmp_path):
    """What is said in the one run of a file."""

    def find(value, name="run.json"):
        path = tmp_path / name
        lines = value if isinstance(value, list) and name.endswith("l") else [value]
        path.write_text("\n".join(map(json.dumps, lines)))
        (found,) = said(path, [each for each in read(path) if isinstance(each, Transcript)])
        return found

    return find


def user(words):
    return {"role": "user", "content": words}


def asks(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answer(id_="c1"):
    return {"role": "tool", "tool_call_id": id_, "content": "found"}


SAYS = {"role": "assistant", "content": "done"}


def test_a_turn_begins_where_the_user_speaks_after_the_agent(told):
    found = told([user("a"), user("b"), asks(ONE), answer(), SAYS, user("c"), SAYS])
    assert (found.turns, found.known, found.why) == (((0, "a\n\nb"), (1, "c")), 2, None)


def test_words_that_nobody_answered_begin_none(told):
    assert told([user("a"), asks(ONE), answer(), SAYS, user("STOP")]).turns == ((0, "a"),)


def test_an_agent_that_speaks_first_says_it_to_nobody(told):
    found = told([SAYS, user("a"), asks(ONE), answer(), SAYS])
    assert (found.turns, found.known, found.why) == (((1, "a"),), 1, None)


def test_calls_before_the_user_spoke_are_told_of(told):
    found = told([asks(ONE), answer(), user("a"), asks(TWO), answer("c2"), SAYS])
    assert (found.turns, found.known, found.why) == (((1, "a"),), 2, "nobody had spoken before")


def test_words_that_are_no_text_are_not_made_up(told):
    picture = [{"type": "image_url", "image_url": {"url": "data:"}}]
    found = told([user("a"), asks(ONE), answer(), SAYS, user(picture), SAYS, user("c"), SAYS])
    assert (found.turns, found.known, found.why) == (((0, "a"),), 3, UNWORDED)


def test_a_request_that_says_everything_again_begins_no_turn():
    """A log of requests, each with all that was said before."""
    path = Path(__file__).parent / "data" / "litellm-completion-log.json"
    (found,) = said(path, list(read(path)))
    assert (found.turns, found.known, found.why) == (((0, "Fix it."),), 1, None)


def test_ids_that_are_used_again_are_in_both_turns(told):
    found = told([user("a"), asks(ONE), answer(), SAYS, user("b"), asks(ONE), answer(), SAYS])
    assert found.turns == ((0, "a"), (1, "b"))


def test_without_ids_only_the_first_words_are_known(told):
    call = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "look", "arguments": "{}"},
    }
    heard = {"role": "function", "name": "look", "content": "found"}
    found = told([user("a"), call, heard, SAYS, user("b"), call, heard, SAYS])
    assert (found.turns, found.known, found.why) == (((0, "a"),), 2, UNPLACED)


def test_a_conversation_without_calls_has_its_first_words_alone(told):
    found = told([user("a"), SAYS, user("b"), SAYS])
    assert (found.turns, found.known, found.why) == (((0, "a"),), 2, UNPLACED)


def test_answers_in_the_users_name_are_not_the_users_words(told):
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
    reminder = {"type": "text", "text": "A reminder."}
    found = told(
        [
            user([{"type": "text", "text": "a"}]),
            {"role": "assistant", "content": [use]},
            user([result, reminder]),
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            user("b"),
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        ]
    )
    assert found.turns == ((0, "a"), (1, "b"))


def test_what_a_program_says_in_the_users_name_is_left_out(told):
    def row(kind, content, **more):
        message = {"role": kind, "content": content}
        return {"type": kind, "parentUuid": None, "sessionId": "s", "message": message, **more}

    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
    rows = [
        row("user", "Caveat.", isMeta=True), row("user", "a"), row("assistant", [use]),
        row("user", [result]), row("assistant", "done"), row("user", "b"), row("assistant", "done"),
    ]  # fmt: skip
    assert told(rows, "session.jsonl").turns == ((0, "a"), (1, "b"))


def test_who_is_spoken_of_in_calls_and_answers_says_nothing(told):
    other = [user("no"), SAYS, user("never")]
    use = {"type": "tool_use", "id": "c1", "name": "send", "input": {"messages": other}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": other}
    schema = {"type": ["object", "null"], "role": ["user"], "action": {}, "content": {}}
    block = {"role": "assistant", "content": [use]}
    messages = [user("a"), block, user([result]), SAYS, user("b"), SAYS]
    found = told({"tools": [schema], "extra": schema, "messages": messages})
    assert found.turns == ((0, "a"), (1, "b"))


def test_messages_of_langchain(told):
    def message(kind, content, **more):
        return {"type": kind, "data": {"type": kind, "content": content, **more}}

    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    summary = message("human", "So far.", additional_kwargs={"lc_source": "summarization"})
    found = told(
        [
            message("human", "a"),
            message("ai", "", tool_calls=[call]),
            message("tool", "found", tool_call_id="c1"),
            summary,
            message("ai", "done"),
            message("human", "b"),
            message("ai", "done"),
        ]
    )
    assert found.turns == ((0, "a"), (1, "b"))


def test_a_plain_log_and_no_file_at_all(told, tmp_path):
    lines = [{"name": "look", "args": {}, "turn": n} for n in range(2)]
    found = told(lines, "log.jsonl")
    assert (found.turns, found.known) == ((), 2)
    assert said(tmp_path / "absent", []) == []


def test_each_run_of_a_file_has_its_own(tmp_path):
    path = tmp_path / "many.jsonl"
    one = [user("a"), asks(ONE), answer(), SAYS, user("b"), SAYS]
    other = [user("c"), asks(TWO), answer("c2"), SAYS]
    path.write_text("\n".join(json.dumps({"messages": each}) for each in (one, other)))
    assert [found.turns for found in said(path, list(read(path)))] == [
        ((0, "a"), (1, "b")), ((0, "c"),),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"), [("openai-agents-run-state.json", "hi"), ("langsmith-runs.jsonl", None)]
)
def test_formats_of_one_turn(name, words):
    path = Path(__file__).parent / "data" / name
    (found,) = said(path, list(read(path)))
    assert found == Said(() if words is None else ((0, words),), 1)


def test_what_is_nested_beyond_reason(told):
    deep = user("deep")
    for _ in range(30):
        deep = {"inner": [deep]}
    found = told({"messages": [user("a"), asks(ONE), answer(), SAYS], "more": deep})
    assert found.turns == ((0, "a"),)
    found = told({"more": deep, "messages": [{**asks(ONE), "more": deep}, answer()]})
    assert found.turns == ()


def test_of_most_real_conversations_all_turns_are_known(corpus):
    known = {}
    for row in map(json.loads, (corpus / "index.jsonl").read_text().splitlines()):
        form = row["format"]
        if form not in ("tau-bench-traj", "tau2-results") or len(known.setdefault(form, [])) >= 20:
            continue
        path = corpus / row["file"]
        runs = [each for each in read(path) if isinstance(each, Transcript)]
        for run, found in zip(runs, said(path, runs), strict=True):
            spoken = {number for number, _ in found.turns}
            known[form].append(found.why is None and {call.turn for call in run.calls} <= spoken)
    assert {form: sum(told) / len(told) >= 0.9 for form, told in known.items()} == {
        "tau-bench-traj": True, "tau2-results": True,
    }  # fmt: skip
