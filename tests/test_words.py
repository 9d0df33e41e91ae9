"""What the model reads of a stop (requirement A8)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Call, Policy, Stop, Where
from lastcall.reporter import Reporter
from lastcall.stop import NARROW, Scope
from lastcall.words import DETAIL, REASONS, answered, words

SCOPES = get_args(Scope)

INVITATIONS = [
    "Please try again.",
    "Try again later.",
    "try again in 30 seconds",
    "TRY AGAIN",
    "You can try your request again.",
    "Please try\nagain",
    "Please  try  again  later!",
    "Retry after 30 seconds.",
    "Please retry.",
    "Retrying may help.",
    "It was retried 3 times, please wait.",
    "Up to 5 retries are allowed.",
    "Retry-After: 120",
    "This error is retryable.",
    "should_retry=true",
    "max_retries: 5",
]


def stop(reason="same", scope="call", *, tool="search", **fields):
    call = Call(tool, {"q": "x"}, Where(run="r", turn="t"))
    return Stop.of(
        call, reason, scope, 1_800_000_000.0, rule=reason, **{"limit": 3, "observed": 4} | fields
    )


def full(made):
    """The stop as it leaves the guard, with its own text and the service's words."""
    return Reporter(lambda: 0.0, (), words).full(made)


def invites(text):
    return re.search(r"try\s+again|retry|retri", text, re.IGNORECASE)


@pytest.mark.parametrize("reason", [*REASONS, "of_somebody_else"])
class TestEveryText:
    """In every scope: two thousand texts, which are no two thousand tests."""

    def test_of_a_final_stop_invites_to_nothing(self, reason):
        for scope in SCOPES:
            assert not invites(words(stop(reason, scope))), scope

    def test_does_not_pass_on_the_invitations_of_a_service(self, reason):
        for scope, invitation in product(SCOPES, INVITATIONS):
            detail = f"Field n is missing. {invitation}"
            made = full(stop(reason, scope, detail=detail, status=503))
            assert not invites(made.text), scope
            assert "Field n is missing." in made.text, scope

    def test_is_never_empty_and_names_the_tool(self, reason):
        for scope in SCOPES:
            assert "search" in words(stop(reason, scope)), scope

    def test_names_its_scope(self, reason):
        named = {"call": "This exact call", "tool": "Do not call search again this turn"}
        for scope in SCOPES:
            assert named.get(scope, scope) in words(stop(reason, scope))

    def test_says_no_more_than_its_scope(self, reason):
        for scope in SCOPES:
            text = words(stop(reason, scope)).lower()
            assert not re.search(r"\b(never|ever|always|permanent\w*|any more|forever)\b", text), (
                scope
            )
            if scope in NARROW:
                assert "this turn" in text, scope
                assert "any tool" not in text, scope

    def test_leaves_nothing_to_fill_in(self, reason):
        for scope in SCOPES:
            text = words(stop(reason, scope))
            assert "{" not in text, scope
            assert "None" not in text, scope
            assert "_" not in text, scope

    def test_does_not_mind_a_stop_without_numbers(self, reason):
        for scope in SCOPES:
            assert words(stop(reason, scope, limit=None, observed=None)), scope


def test_a_call_that_will_be_refused_again_may_be_corrected():
    text = words(stop("terminal", "call", status=422))
    assert "This exact call will be refused again" in text
    assert "correct the arguments or tell the user what is missing" in text


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope != "call"])
def test_anything_wider_says_not_to_call_and_to_tell_the_user(scope):
    text = words(stop("terminal", scope))
    assert "do not call" in text.lower()
    assert "tell the user" in text
    assert "correct the arguments" not in text


def test_the_status_and_the_limit_are_named():
    assert "HTTP 422" in words(stop("terminal", "call", status=422))
    assert "HTTP" not in words(stop("same"))
    assert "budget of 7 calls for this turn" in words(stop("ceiling", "turn", limit=7))
    assert "budget of 7 calls for this tool and turn" in words(stop("ceiling", "tool", limit=7))


def test_a_retryable_stop_says_when():
    text = words(stop("concurrency", retryable=True, retry_after=1.0))
    assert "in 1 seconds" in text
    assert "refused again" not in text


class TestWhatOthersCountToo:
    RESETS = datetime(2026, 11, 30, 14, tzinfo=UTC)

    def test_a_budget_says_which_and_until_when(self):
        made = stop("budget", "user", limit=100, budget="calls/hour/user", resets_at=self.RESETS)
        text = words(made)
        assert "the budget of 100 (calls/hour/user) is spent" in text
        assert "No tool is open to this user now" in text
        assert text.endswith("This holds until 2026-11-30 14:00:00 UTC.")
        assert not invites(text)

    def test_a_stop_that_no_time_lifts_names_none(self):
        assert "until" not in words(stop("budget", "run", budget="requests/run"))

    def test_a_kill_says_who_and_why_and_not_that_a_service_did(self):
        made = full(stop("kill", "all", detail="The kill switch was set by ops. Why: a fire"))
        assert "by the kill switch" in made.text
        assert made.text.endswith("\nSaid: The kill switch was set by ops. Why: a fire")

    @pytest.mark.parametrize("reason", ["store", "fault"])
    def test_trouble_of_the_guard_itself_says_nothing_of_the_call(self, reason):
        text = words(stop(reason, "call"))
        assert "not made now" in text
        assert "refused again" not in text
        assert "correct the arguments" not in text


def test_the_reason_of_somebody_elses_rule_may_be_any_text():
    assert "odd {braces} and {0}" in words(stop("odd {braces} and {0}"))


class TestWhatTheServiceAnswered:
    def test_follows_as_data(self):
        made = full(stop("terminal", status=422, detail="customer_id must be a number"))
        assert made.text.endswith("\nThe service answered: customer_id must be a number")
        assert made.detail == "customer_id must be a number"

    def test_is_left_out_where_there_is_none(self):
        assert "answered:" not in full(stop()).text
        assert answered(None) is None
        assert answered("") is None
        assert answered("  \n ") is None

    @pytest.mark.parametrize("invitation", INVITATIONS)
    def test_that_is_nothing_but_an_invitation_is_left_out(self, invitation):
        assert not invites(answered(invitation) or "")

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ("Bad field. Please try again. See the docs.", "Bad field. See the docs."),
            ("Line one\nPlease retry\nLine three", "Line one\n\nLine three"),
            (
                "Limit is 2.5 per second. Retry in 0.5 seconds. Goodbye",
                "Limit is 2.5 per second. Goodbye",
            ),
            (
                '{"error": "no such field: n", "retryable": false}',
                '{"error": "no such field: n", "": false}',
            ),
            (
                '{"error": "Bad n. Try again later.", "field": "n"}',
                '{"error": "Bad n. ", "field": "n"}',
            ),
        ],
    )
    def test_keeps_everything_else(self, said, kept):
        assert answered(said) == kept

    @pytest.mark.parametrize(
        "said",
        [
            "The country of the entry is unknown.",
            "Trying to read property 'id' of null",
            "The geometry is invalid; the registry has no such tray.",
            "Retrieved nothing for order 12.",
            "The order was opened again on 3 May.",
        ],
    )
    def test_is_not_mistaken_for_an_invitation(self, said):
        assert answered(said) == said

    def test_is_500_characters_at_most(self):
        assert DETAIL == 500
        assert answered("x" * 500) == "x" * 500
        assert len(answered("x" * 501)) == 500
        assert answered("x" * 501).endswith("…")
        assert len(answered("word " * 10_000)) <= 500

    def test_of_many_invitations_is_short(self):
        assert (
            answered("Please try again. " * 1000 + "Bad field.") is None
            or len(answered("Please try again. " * 1000 + "Bad field.")) <= 500
        )

    @given(st.text(max_size=3000))
    def test_is_short_and_invites_to_nothing_whatever_it_is(self, said):
        kept = answered(said)
        assert kept is None or 0 < len(kept) <= 500

    @given(
        st.lists(
            st.sampled_from([*INVITATIONS, "Bad n.", "x{", '"', "\n", ", ", "1.5 "]), max_size=30
        )
    )
    def test_invites_to_nothing_however_it_is_put_together(self, parts):
        assert not invites(answered(" ".join(parts)) or "")


class TestAStopIsNeverWithoutWords:
    """Some providers refuse an empty result (R166)."""

    @pytest.mark.parametrize("text", [lambda stop: "", lambda stop: 1 / 0], ids=["empty", "raises"])
    def test_whatever_the_users_function_does(self, make_guard, text):
        guard = make_guard(Policy(max_calls=1), words=text)
        for n in range(2):
            verdict = guard.decide(Call("look", n, Where("r", "t")))
        assert verdict.stop.text.startswith("Stopped: look:")
