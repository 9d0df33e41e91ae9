"""Calls find their answers by id, else by order; turns and replies are counted."""

from __future__ import annotations

from lastcall.transcripts.pairing import Pairing


def results(pairing: Pairing) -> list[object]:
    return [call.result for call in pairing.calls()]


def test_answers_find_their_calls_by_id_in_any_order() -> None:
    pairing = Pairing()
    pairing.call("f", id="a")
    pairing.call("f", id="b")
    pairing.answer("B", id="b")
    pairing.answer("A", id="a")
    assert results(pairing) == ["A", "B"]


def test_answers_without_ids_go_to_the_first_open_call_of_that_tool() -> None:
    pairing = Pairing()
    pairing.call("f")
    pairing.call("g")
    pairing.call("g")
    pairing.answer("G", tool="g")
    pairing.answer("first open")
    assert results(pairing) == ["first open", "G", None]


def test_a_second_answer_to_one_call_is_not_given_to_another() -> None:
    pairing = Pairing()
    pairing.call("f", id="a")
    pairing.call("f", id="b")
    pairing.answer("A", id="a")
    pairing.answer("A again", id="a")
    assert results(pairing) == ["A", None]


def test_an_id_used_again_belongs_to_the_later_reply() -> None:
    pairing = Pairing()
    pairing.reply()
    pairing.call("f", id="a")
    pairing.reply()
    pairing.call("f", id="a")
    pairing.answer("late", id="a")
    assert results(pairing) == [None, "late"]


def test_equal_ids_in_one_reply_are_answered_in_order() -> None:
    pairing = Pairing()
    pairing.call("f", id="a")
    pairing.call("f", id="a")
    pairing.answer("one", id="a")
    pairing.answer("two", id="a")
    assert results(pairing) == ["one", "two"]


def test_an_answer_never_reaches_back_over_a_reply() -> None:
    pairing = Pairing()
    pairing.reply()
    pairing.call("f")
    pairing.reply()
    pairing.call("f")
    pairing.answer("one")
    pairing.answer("two")
    assert results(pairing) == ["two", "one"]


def test_an_answer_to_nothing_is_dropped() -> None:
    pairing = Pairing()
    pairing.answer("what?", id="a")
    assert pairing.calls() == ()


def test_a_turn_starts_with_a_user_message_after_the_agent_spoke() -> None:
    pairing = Pairing()
    pairing.user()
    pairing.user()
    pairing.reply()
    pairing.call("f")
    pairing.user()
    pairing.user()
    pairing.reply()
    pairing.call("f")
    assert [(call.turn, call.reply) for call in pairing.calls()] == [(0, 0), (1, 1)]


def test_a_nameless_call_is_malformed() -> None:
    pairing = Pairing()
    pairing.call(None, {})
    (call,) = pairing.calls()
    assert (call.tool, call.malformed) == ("?", True)


def test_the_error_flag_of_a_shell_says_nothing() -> None:
    pairing = Pairing()
    pairing.call("Bash", {}, id="a")
    pairing.call("look", {}, id="b")
    pairing.answer("exit code 1", id="a", failed=True)
    pairing.answer("no", id="b", failed=True)
    assert [(call.shell, call.failed) for call in pairing.calls()] == [(True, None), (False, True)]
