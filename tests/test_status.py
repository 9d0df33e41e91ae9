"""What a status means and where it is found: requirements A4 and A5, cases K30 to K32, theme E."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lastcall.phrases import status_in
from lastcall.status import grade, raised, retry_after, returned
from lastcall.tool import PLAIN, Grade, ToolPolicy

SHELL = ToolPolicy(shell=True)


class Failure(Exception):
    """An exception that carries whatever it is given."""

    def __init__(self, message: str = "boom", **carried: Any) -> None:
        super().__init__(message)
        for name, value in carried.items():
            setattr(self, name, value)


class Hostile:
    """Raises whatever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


# --- A4: what a status means ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 409, 410, 418, 422, 451, 499])
def test_a_4xx_is_final(status: int) -> None:
    assert grade(status) == "final"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_heal_is_passing(status: int) -> None:
    assert grade(status) == "passing"


@pytest.mark.parametrize("status", [501, 505])
def test_what_the_server_cannot_do_is_final(status: int) -> None:
    assert grade(status) == "final"


@pytest.mark.parametrize("status", [506, 507, 508, 511, 520, 599])
def test_any_other_5xx_is_an_ordinary_failure(status: int) -> None:
    assert grade(status) == "failed"


@pytest.mark.parametrize("status", [100, 200, 204, 301, 304, 399])
def test_below_400_is_ok(status: int) -> None:
    assert grade(status) == "ok"


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"code": "insufficient_quota"}}',
        "You exceeded your current quota, please check your plan and billing details.",
        "Quota exceeded",
        "monthly quota has been exhausted",
        "Billing hard limit has been reached",
        "billing_hard_limit_reached",
        "Budget exceeded for project 7",
        "budget_exceeded",
    ],
)
def test_a_429_whose_quota_is_gone_is_final(body: str) -> None:
    assert grade(429, body=body) == "final"


@pytest.mark.parametrize(
    "body",
    [
        "Too Many Requests",
        "Rate limit reached for requests",
        "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute'",
    ],
)
def test_a_429_of_a_rate_is_passing(body: str) -> None:
    assert grade(429, body=body) == "passing"


def test_a_quota_is_read_for_a_429_only() -> None:
    assert grade(503, body="quota exceeded") == "passing"


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "3"}, {"X-RateLimit-Remaining": "0"}, {"ratelimit-remaining": "0"}],
)
def test_a_403_with_rate_limit_headers_is_passing(headers: Mapping[str, str]) -> None:
    assert grade(403, headers=headers) == "passing"


def test_a_403_with_something_left_is_final() -> None:
    assert grade(403, headers={"X-RateLimit-Remaining": "10"}) == "final"


# --- overriding -----------------------------------------------------------------------------------


def test_the_tools_map_wins_over_its_terminal_statuses_and_over_the_guards() -> None:
    tool = ToolPolicy(statuses={409: "passing"}, terminal_statuses=(409,))
    assert grade(409, tool, terminal=(409,), statuses={409: "failed"}) == "passing"


def test_the_tools_terminal_statuses_win_over_the_guards_map() -> None:
    assert grade(503, ToolPolicy(terminal_statuses=(503,)), statuses={503: "ok"}) == "final"


def test_the_guards_map_wins_over_its_terminal_statuses() -> None:
    assert grade(503, terminal=(503,), statuses={503: "failed"}) == "failed"


def test_a_map_wins_over_body_and_headers() -> None:
    assert grade(429, statuses={429: "passing"}, body="insufficient_quota") == "passing"
    assert grade(403, terminal=(403,), headers={"Retry-After": "1"}) == "final"


@pytest.mark.parametrize(
    ("status", "meaning", "kind", "graded"),
    [
        (401, "passing", "error", "passing"),
        (503, "final", "error", "final"),
        (404, "failed", "error", None),
        (404, "ok", "ok", None),
        (202, "failed", "error", None),
    ],
)
def test_a_map_decides_both_ways(
    status: int, meaning: Grade, kind: str, graded: str | None
) -> None:
    for outcome in (
        returned({"status": status}, ToolPolicy(statuses={status: meaning})),
        returned({"status": status}, statuses={status: meaning}),
        returned(json.dumps({"status": status}), statuses={status: meaning}),
    ):
        assert (outcome.kind, outcome.status, outcome.grade) == (kind, status, graded)


def test_a_status_mapped_to_ok_explains_the_error_text_beside_it() -> None:
    answer = {"status": 404, "error": "no such customer", "ok": False}
    assert returned(answer, statuses={404: "ok"}).kind == "ok"


def test_a_status_mapped_to_ok_does_not_unsay_the_channel() -> None:
    outcome = returned({"status": 404}, failed=True, statuses={404: "ok"})
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", 404, None)
    assert raised(Failure(status_code=404), statuses={404: "ok"}).kind == "error"


# --- K30: statuses of exceptions ------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_k30_final_on_the_response_or_on_the_error(status: int) -> None:
    for error in (
        Failure(response=SimpleNamespace(status_code=status)),
        Failure(response=SimpleNamespace(status=status)),
        Failure(status_code=status),
        Failure(status=status),
        Failure(code=status),
    ):
        outcome = raised(error)
        assert (outcome.kind, outcome.status, outcome.grade) == ("error", status, "final")


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_k30_passing_on_the_response_or_on_the_error(status: int) -> None:
    for error in (
        Failure(response=SimpleNamespace(status_code=status)),
        Failure(status_code=status),
        Failure(status_code=HTTPStatus(status)),
    ):
        outcome = raised(error)
        assert (outcome.kind, outcome.status, outcome.grade) == ("error", status, "passing")


def test_k30_the_users_map_overrides_both_ways() -> None:
    assert raised(Failure(status=422), statuses={422: "passing"}).grade == "passing"
    assert raised(Failure(status=503), terminal=(503,)).grade == "final"


def test_r147_a_401_in_the_users_map_may_heal() -> None:
    assert raised(Failure(status=401), statuses={401: "passing"}).grade == "passing"


@pytest.mark.parametrize("value", [True, 99, 600, 4040, -404, "404", 404.0, None, lambda: 404])
def test_what_is_no_status_is_not_taken_for_one(value: object) -> None:
    assert raised(Failure(status_code=value, status=value, code=value)).status is None


def test_the_response_is_asked_before_the_code() -> None:
    error = Failure(response=SimpleNamespace(status_code=503), code=404)
    assert raised(error).status == 503


def test_content_has_the_type_and_the_message_and_error_the_message() -> None:
    outcome = raised(ValueError("bad date"))
    assert (outcome.content, outcome.error) == ("ValueError: bad date", "bad date")


def test_an_exception_without_a_message_is_named() -> None:
    outcome = raised(TimeoutError())
    assert (outcome.content, outcome.error) == ("TimeoutError", "TimeoutError")


def test_a_long_message_is_shortened_in_error_only() -> None:
    outcome = raised(ValueError("x" * 900))
    assert outcome.error == "x" * 500
    assert outcome.content == "ValueError: " + "x" * 900


def chained(*errors: Exception) -> Exception:
    for outer, inner in pairwise(errors):
        outer.__cause__ = inner
    return errors[0]


def test_a_cause_of_a_cause_is_asked() -> None:
    error = chained(ValueError(), RuntimeError(), Failure(status_code=404))
    assert raised(error).status == 404


def test_the_nearest_status_counts() -> None:
    assert raised(chained(Failure(status_code=422), Failure(status_code=503))).status == 422


def test_a_context_is_asked_unless_suppressed() -> None:
    error = ValueError()
    error.__context__ = Failure(status_code=404)
    assert raised(error).status == 404
    error.__suppress_context__ = True
    assert raised(error).status is None


def test_causes_are_followed_eight_deep() -> None:
    layers = [ValueError(str(n)) for n in range(8)]
    assert raised(chained(*layers, Failure(status_code=404))).status == 404
    assert raised(chained(ValueError(), *layers, Failure(status_code=404))).status is None


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError(), RuntimeError()
    one.__cause__, two.__cause__ = two, one
    assert raised(one).status is None


def test_members_of_a_group_and_their_causes_are_asked() -> None:
    inner = ExceptionGroup("inner", [chained(KeyError(), Failure(status=503))])
    outcome = raised(ExceptionGroup("outer", [ValueError(), inner]))
    assert (outcome.kind, outcome.status) == ("error", 503)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(404), GeneratorExit()]
)
def test_called_off_is_not_failed(error: BaseException) -> None:
    outcome = raised(error)
    assert (outcome.kind, outcome.status, outcome.grade) == ("cancelled", None, None)


def test_a_group_of_cancellations_is_called_off() -> None:
    assert raised(BaseExceptionGroup("x", [asyncio.CancelledError()])).kind == "cancelled"
    mixed = BaseExceptionGroup("x", [asyncio.CancelledError(), ValueError()])
    assert raised(mixed).kind == "error"


def test_the_text_of_an_exception_is_read_last_and_not_for_a_shell() -> None:
    error = RuntimeError("HTTP 422: name is missing")
    assert raised(error).status == 422
    assert raised(error, SHELL).status is None
    assert raised(Failure("HTTP 422", status_code=503), SHELL).status == 503


def test_json_in_the_text_of_an_exception_is_read() -> None:
    assert raised(RuntimeError('{"error": {"code": 404, "message": "gone"}}')).status == 404


def test_an_exception_that_was_returned_is_read_as_one() -> None:
    error = Failure(status_code=404)
    outcome = returned(error)
    assert (outcome.kind, outcome.status, outcome.content) == ("error", 404, error)


def test_an_exhausted_quota_is_read_from_the_exception() -> None:
    assert raised(Failure("Error code: 429", status_code=429)).grade == "passing"
    assert raised(Failure("x", status_code=429, code="insufficient_quota")).grade == "final"
    kept = SimpleNamespace(status_code=429, _content=b'{"error": "budget exceeded"}')
    assert raised(Failure(response=kept)).grade == "final"


# --- Retry-After (RFC 9110, section 10.2.3; requirement C3) ---------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1.5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        ({"retry-after": "9" * 5000}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, None),
        (
            {
                "retry-after": "Sun, 06 Nov 1994 08:49:37 GMT",
                "date": "Sun, 06 Nov 1994 08:49:07 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Sunday, 06-Nov-94 08:49:37 GMT",
                "date": "Sun Nov  6 08:49:07 1994",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Sun, 06 Nov 1994 08:49:07 GMT",
                "date": "Sun, 06 Nov 1994 08:49:37 GMT",
            },
            0.0,
        ),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_comes_from_the_response_the_exception_or_a_returned_record() -> None:
    headers = {"RETRY-AFTER": "7"}
    response = SimpleNamespace(status_code=429, headers=headers)
    for outcome in (
        raised(Failure(response=response)),
        raised(Failure(status=429, headers=headers)),
        returned(response),
        returned({"status": 429, "headers": headers}),
    ):
        assert outcome.retry_after == 7.0


def test_a_returned_403_with_rate_limit_headers_is_passing() -> None:
    assert returned({"status": 403, "headers": {"Retry-After": "1"}}).grade == "passing"


# --- K31: numbers that are no status --------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "query finished in 1429 ms",
        "1429 ms",
        "40412 rows",
        "worker 4013 started",
        "listening on port 14010",
        "checkpoint 24290 saved",
        "404 rows matched",
        "HTTP 404 is what the log says",
        "status code 404 was fixed by this change",
    ],
)
def test_k31_a_success_has_no_status(text: str) -> None:
    outcome = returned(text)
    assert (outcome.kind, outcome.status, outcome.grade) == ("ok", None, None)
    assert outcome.content is text


def test_k31_an_error_that_names_http_404_has_it() -> None:
    outcome = returned("request failed: HTTP 404", failed=True)
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", 404, "final")


@pytest.mark.parametrize(
    "text",
    ["1429 ms", "40412 rows", "worker 4013", "port 14010", "checkpoint 24290"],
)
def test_k31_bare_digits_of_an_error_are_no_status_either(text: str) -> None:
    assert returned(text, failed=True).status is None


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("HTTP 422", 422),
        ("HTTP/1.1 422 Unprocessable Entity", 422),
        ("HTTP Error 404: Not Found", 404),
        ("404 Client Error: Not Found for url: http://x/", 404),
        ("Client error '404 Not Found' for url 'http://x/'", 404),
        ("404, message='Not Found', url='http://x/'", 404),
        ("An error occurred (404) when calling the HeadObject operation: Not Found", 404),
        ("status code 404", 404),
        ("Request failed with status code: 404", 404),
        ("http_status=404", 404),
        ("status=404", 404),
        ("Error code: 429 - {'error': {}}", 429),
        ("503 Service Unavailable", 503),
        ("503 Service Temporarily Unavailable", 503),
        ("Error: 503 Service Unavailable", 503),
        ("Error: 503", 503),
        ("Error executing tool fetch: 422 Unprocessable Entity", 422),
        ("The remote server returned an error: (404) Not Found.", 404),
        ("404 page not found", 404),
        ("HTTP 404.", 404),
    ],
)
def test_an_anchored_phrase_of_an_error_is_read(text: str, status: int) -> None:
    assert status_in(text) == status
    assert returned(text, failed=True).status == status
    assert returned(text, failed=True, policy=SHELL).status is None


@pytest.mark.parametrize(
    "text",
    [
        "HTTP 4221",
        "HTTP 40412 rows",
        "HTTP 404 ms",
        "503 ms",
        "took 503 ms",
        "error 4040",
        "Error: 500 rows could not be written",
        "User 404 not found",
        "order 404 not found in warehouse 500",
        "exit status 404",
        "https://example.org/status/404",
        "version 4.0.4",
        "HTTP 404.5",
        "HTTP 200",
        "x" * 201 + " HTTP 422",
    ],
)
def test_what_is_no_anchored_phrase_is_not_read(text: str) -> None:
    assert status_in(text) is None


# --- K32: read the value, not the word ------------------------------------------------------------

SUCCESSES: list[dict[str, Any]] = [
    {"success": True, "failed": 0, "errors": 0, "passed": 12},
    {"results": [{"id": 1, "error": None}, {"id": 2, "error": None}]},
    {"success": True, "data": {"log": {"error": "HTTP 500 in the log", "status": 500}}},
    {"failed": False, "rows": 3},
    {"error": "", "response": "fine"},
]
FAILURES: list[dict[str, Any]] = [
    {"success": False},
    {"error": "no such table"},
    {"status": "error"},
]
PAD = {"pad": "lorem ipsum " * 60}
LEAD = {"lead": "lorem ipsum " * 60}


def forms(value: dict[str, Any]) -> list[object]:
    padded = [value, {**value, **PAD}, {**LEAD, **value}]
    return [*padded, *map(json.dumps, padded), *(json.dumps(each, indent=2) for each in padded)]


@pytest.mark.parametrize("value", SUCCESSES, ids=str)
def test_k32_a_success_in_every_form(value: dict[str, Any]) -> None:
    assert [returned(form).kind for form in forms(value)] == ["ok"] * 9
    assert [returned(form, failed=False).kind for form in forms(value)] == ["ok"] * 9


@pytest.mark.parametrize("value", FAILURES, ids=str)
def test_k32_a_failure_in_every_form(value: dict[str, Any]) -> None:
    assert [returned(form).kind for form in forms(value)] == ["error"] * 9
    assert [returned(form, failed=False).kind for form in forms(value)] == ["error"] * 9


@pytest.mark.parametrize(
    "value",
    [
        {"ok": False},
        {"status": "failure"},
        {"status": "Error", "data": None},
        {"status": "failed", "message": "could not connect"},
        {"errors": [{"message": "unknown field"}], "data": None},
        {"error": True, "message": "no"},
        {"error": 1},
        {"error": {"code": -32601, "message": "unknown method"}},
        {"errors": [0.5]},
        {"success": True, "error": "but it was not"},
    ],
    ids=str,
)
def test_what_says_that_it_failed_has_failed(value: dict[str, Any]) -> None:
    outcomes = [returned(form) for form in forms(value)]
    assert {(each.kind, each.status, each.grade) for each in outcomes} == {("error", None, None)}


@pytest.mark.parametrize(
    "value",
    [
        {"error": None},
        {"error": False},
        {"error": 0},
        {"error": {}},
        {"error": []},
        {"error": " "},
        {"error": "None"},
        {"error": {"code": None, "message": ""}},
        {"errors": [None]},
        {"estimate": 3.2, "error": 0.05},
        {"id": "pay_1", "status": "failed", "amount": 12},
        {"status": "failed", "data": {"tests": 3}},
        {"success": True, "errors": ["row 3 was skipped"]},
        {"status": "ok"},
        {"code": 404, "name": "area"},
        {"error": None, "code": 404},
        {"success": True, "response": {"status": 404}},
        {"data": {"error": "HTTP 404", "status": 404}},
        {"status": 4040},
        {"status": True},
    ],
    ids=str,
)
def test_what_does_not_say_that_it_failed_has_not(value: dict[str, Any]) -> None:
    outcomes = [returned(form) for form in forms(value)]
    assert {(each.kind, each.status) for each in outcomes} == {("ok", None)}


# --- A5: where a status is found in what was returned ---------------------------------------------


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"status_code": 404}, 404),
        ({"statusCode": 422, "body": "{}"}, 422),
        ({"http_status": "404"}, 404),
        ({"status": 503}, 503),
        ({"status": "503"}, 503),
        ({"error": {"code": 404, "message": "gone"}}, 404),
        ({"error": {"status": 404}}, 404),
        ({"error": "not found", "code": 404}, 404),
        ({"success": False, "code": "404"}, 404),
        ({"error": 404}, 404),
        ({"error": "HTTP 404"}, 404),
        ({"error": {"message": "status code 404"}}, 404),
        ({"errors": [{"status": "422", "title": "Invalid"}]}, 422),
        ({"response": {"status_code": 404}}, 404),
        ({"status": 200, "error": {"code": 404}}, 404),
        ({"type": "about:blank", "title": "Not Found", "status": 404}, 404),
    ],
)
def test_a_status_is_found_in_a_record(value: dict[str, Any], status: int) -> None:
    for form in forms(value):
        outcome = returned(form)
        assert (outcome.kind, outcome.status) == ("error", status)
        assert outcome.content is form


def test_r047_a_503_in_a_structured_body_is_passing() -> None:
    for form in forms({"status": 503, "message": "upstream is down"}):
        outcome = returned(form)
        assert (outcome.kind, outcome.grade) == ("error", "passing")
        assert outcome.error == "upstream is down"


def test_r162_an_error_text_as_value_is_a_failure() -> None:
    outcome = returned({"error": "connection refused"})
    assert (outcome.kind, outcome.error) == ("error", "connection refused")


def test_r161_an_ordinary_exception_is_a_failure_without_status() -> None:
    outcome = raised(ValueError("bad input"))
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", None, None)


class Model(BaseModel):
    status_code: int
    message: str = "gone"


class Open(BaseModel, extra="allow"):
    name: str = "x"


@dataclass
class Record:
    error: str | None = None
    status: int | None = None


@dataclass(slots=True)
class Slotted:
    statusCode: int  # noqa: N815  # as services spell it


@pytest.mark.parametrize(
    ("value", "kind", "status"),
    [
        (Model(status_code=404), "error", 404),
        (Model(status_code=200), "ok", 200),
        (Open.model_validate({"error": "HTTP 404"}), "error", 404),
        (Open(), "ok", None),
        (Record(error="HTTP 404"), "error", 404),
        (Record(status=503), "error", 503),
        (Record(), "ok", None),
        (Slotted(404), "error", 404),
        (SimpleNamespace(status="error"), "error", None),
        (SimpleNamespace(error=Failure(status_code=404)), "error", 404),
    ],
)
def test_models_and_objects_are_read_like_mappings(
    value: object, kind: str, status: int | None
) -> None:
    outcome = returned(value)
    assert (outcome.kind, outcome.status, outcome.content) == (kind, status, value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        404,
        404.0,
        b'{"status": 404}',
        [{"status": 404}, {"error": "x"}],
        [{"error": "x"}],
        [],
        ("body", 404),
        {404},
        '[{"status": 404}]',
        "{'error': 'a Python repr'}",
        "{not json",
        "",
        "   ",
    ],
    ids=repr,
)
def test_other_values_say_nothing(value: object) -> None:
    outcome = returned(value)
    assert (outcome.kind, outcome.status) == ("ok", None)


def test_a_json_text_beyond_the_cap_is_not_parsed() -> None:
    assert returned(json.dumps({"status": 404, "pad": "x" * 300_000})).kind == "ok"
    assert returned(json.dumps({"status": 404, "pad": "x" * 200_000})).kind == "error"


def test_a_status_from_beside_the_answer_is_believed() -> None:
    assert returned("sorry", status=404).grade == "final"
    assert returned("sorry", status=404).error == "HTTP 404"
    assert returned("fine", status=200).kind == "ok"
    assert returned({"status": 200}, status=503).status == 503


def test_a_failure_by_channel_keeps_its_text() -> None:
    outcome = returned("no such file", failed=True)
    assert (outcome.kind, outcome.error, outcome.grade) == ("error", "no such file", None)
    assert returned("x" * 900, failed=True).error == "x" * 500
    assert returned(None, failed=True).kind == "error"
    assert returned([{"type": "text", "text": "HTTP 404"}], failed=True).status == 404
    assert returned('{"message": "HTTP 404"}', failed=True).status == 404


def test_a_failed_json_text_without_a_message_is_its_own_message() -> None:
    text = '{"why": "HTTP 429: the quota is used up, quota exceeded"}'
    outcome = returned(text, failed=True)
    assert (outcome.status, outcome.grade, outcome.error) == (429, "final", text)


# --- shell ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ['{"status": 404}', '{"error": "HTTP 404"}', "404 Not Found", "meta= isError=True"]
)
def test_a_shells_text_is_never_read(text: str) -> None:
    assert returned(text, SHELL).kind == "ok"
    assert returned(text, SHELL, failed=True).status is None
    assert returned([{"type": "text", "text": text}], SHELL).kind == "ok"


def test_a_shells_object_still_is() -> None:
    assert returned({"status": 404}, SHELL).status == 404
    outcome = returned({"error": "HTTP 404"}, SHELL)
    assert (outcome.kind, outcome.status) == ("error", None)


# --- MCP ------------------------------------------------------------------------------------------


def mcp(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


@pytest.mark.parametrize("value", [mcp("boom"), mcp("HTTP 404 in the log"), mcp("404 rows")])
def test_an_mcp_success_is_one(value: dict[str, Any]) -> None:
    assert [returned(form).kind for form in forms(value)] == ["ok"] * 9


def test_an_mcp_error_is_read_from_its_text() -> None:
    for form in forms(mcp("Error executing tool x: HTTP 404", isError=True)):
        outcome = returned(form)
        assert (outcome.kind, outcome.status) == ("error", 404)
        assert outcome.error == "Error executing tool x: HTTP 404"


def test_an_mcp_error_is_read_from_its_structured_content() -> None:
    structured = {"error": {"code": 429, "message": "budget exceeded"}}
    for key in ("structuredContent", "structured_content"):
        for is_error in (True, False):
            outcome = returned(mcp("no", isError=is_error, **{key: structured}))
            assert (outcome.kind, outcome.status, outcome.grade) == ("error", 429, "final")


def test_a_structured_answer_in_an_mcp_text_is_read() -> None:
    assert returned(mcp('{"status": 503}')).status == 503
    assert returned(mcp('{"status": 503}', structuredContent={"result": "…"})).status == 503
    assert returned([{"type": "text", "text": '{"status": 503}'}]).grade == "passing"


def test_an_anthropic_tool_result_is_read_like_mcps() -> None:
    block = {"type": "tool_result", "tool_use_id": "1", "content": "HTTP 404", "is_error": True}
    assert (returned(block).status, returned(block).error) == (404, "HTTP 404")


def test_mcps_flag_is_a_channel_that_a_map_does_not_unsay() -> None:
    outcome = returned(mcp("HTTP 404", isError=True), statuses={404: "ok"})
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", 404, None)


def test_a_printed_mcp_result_has_its_flag_at_the_very_end() -> None:
    said = "content=[TextContent(type='text', text='Error: HTTP 404', annotations=None)]"
    outcome = returned(f"meta=None {said} isError=True")
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", 404, "final")
    assert returned(f"meta=None {said} isError=False").kind == "ok"
    assert returned(f"{said} isError=True").kind == "ok"
    inner = "meta=None content=[TextContent(text='{\"isError\": true}')] isError=False"
    assert returned(inner).kind == "ok"


# --- R153: a fetched page that is only a status line ----------------------------------------------


@pytest.mark.parametrize(
    "page",
    [
        "404 Not Found",
        "404 Not Found\n\nnginx",
        "# 404 Not Found\n\nThe page you asked for is gone.",
        "Title: 404 Not Found\n\nURL Source: http://x/",
        "<html><head><title>404 Not Found</title></head><body>nginx</body></html>",
        "<!DOCTYPE html>\n<html>\n<head>\n<title> 404 Not Found\n</title>",
        "\n  <HTML><TITLE lang='en'>404 - Not Found</TITLE>",
        "<html><head><title>HTTP Status 404 \u2013 Not Found</title>",  # Tomcat's dash
        {"url": "http://x/", "title": "404 Not Found", "content": "nginx"},
    ],
)
def test_r153_a_page_titled_only_with_a_status_line_has_that_status(page: object) -> None:
    outcome = returned(page)
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", 404, "final")


@pytest.mark.parametrize(
    "page",
    [
        "404 Not Found: a history of the dead link",
        "# 404 Not Found pages we love\n\nAn article",
        "404 Nothing Here",
        "404 not a status\n",
        "200 OK",
        "404",
        "503 Not Found",
        "The server says\n404 Not Found",
        "<html><title>Why 404 Not Found matters</title><body>404 Not Found</body></html>",
        "<html><body>404 Not Found</body></html>",
        "<rss><title>404 Not Found</title></rss>",
        "<p>404 Not Found</p>",
        {"id": 7, "title": "404 Not Found", "content": "a bug report"},
        {"title": "404 Not Found"},
    ],
)
def test_r153_an_article_about_a_status_is_a_success(page: object) -> None:
    outcome = returned(page)
    assert (outcome.kind, outcome.status) == ("ok", None)


def test_nginx_prints_phrases_of_its_own() -> None:
    page = "<html><head><title>503 Service Temporarily Unavailable</title></head></html>"
    assert returned(page).grade == "passing"


# --- hostile values -------------------------------------------------------------------------------


class Loud:
    """Every property raises, also what is no Exception."""

    class Bang(BaseException):
        pass

    @property
    def status_code(self) -> int:
        raise self.Bang

    @property
    def status(self) -> int:
        return 404

    @property
    def error(self) -> str:
        raise MemoryError


class BadStatus(int):
    def __int__(self) -> int:
        raise ValueError

    def __eq__(self, other: object) -> bool:
        raise ValueError

    __hash__ = int.__hash__


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class BadClass:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError


class BadMapping(dict[str, object]):
    def get(self, *_: object) -> object:
        raise KeyError


def recursive() -> dict[str, object]:
    found: dict[str, object] = {}
    found.update(error=found, response=found, content=[found], structuredContent=found)
    return found


def test_hostile_values_were_returned_all_the_same() -> None:
    # Not parametrized: pytest itself cannot hold some of these.
    hostile = [Hostile(), BadClass(), BadMapping(status=404), {"a": Hostile()}, [Hostile()], Loud]
    for value in hostile:
        assert returned(value).kind == "ok"
        assert returned(value, failed=True).kind == "error"
        assert returned(value, status=404).status == 404


class Interrupted:
    """Ctrl-C arrives while a property is asked."""

    @property
    def status(self) -> int:
        raise KeyboardInterrupt


def test_a_real_interrupt_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        returned(Interrupted())

    class Speaking(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        raised(Speaking())


def test_a_property_that_raises_hides_only_itself() -> None:
    assert returned(Loud()).status == 404


@pytest.mark.parametrize("status", [404, 503])
def test_hostile_parts_beside_a_status_do_not_hide_it(status: int) -> None:
    value = {"status": status, "headers": Hostile(), "message": Hostile(), "response": Hostile()}
    assert returned(value).status == status
    error = Failure(status_code=status, response=Hostile(), headers=Hostile())
    assert raised(error).status == status


def test_recursion_and_depth_are_contained() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"error": deep}
    assert returned(deep).kind == "error"
    assert returned(recursive()).kind == "error"
    assert returned('{"error":' * 5000 + "1" + "}" * 5000).kind == "ok"
    while deep:  # unwound here, or the interpreter's own recursion ends the test run
        deep = deep.pop("error")  # type: ignore[assignment]


def test_hostile_exceptions_are_contained() -> None:
    outcome = raised(BadText())
    assert (outcome.kind, outcome.content, outcome.error) == ("error", "BadText", "BadText")
    assert raised(Failure(response=BadClass(), status_code=404)).status == 404
    assert raised(Failure(status_code=BadStatus(404))).status == 404


@given(st.text())
def test_any_text_is_contained(text: str) -> None:
    for failed in (None, False, True):
        assert returned(text, failed=failed).content is text
    assert raised(RuntimeError(text)).kind == "error"
    status_in(text)


WORDS = st.sampled_from(
    ["HTTP", "status", "code", "error", "Error:", "ms", "rows", "port", "Not", "Found", "failed:"]
)
DIGITS = st.integers(0, 99999).map(str)


@given(st.lists(WORDS | DIGITS, min_size=3).map(" ".join))
def test_success_text_of_words_and_digits_has_no_status(text: str) -> None:
    if text.endswith("Not Found") and text[0].isdigit() and text.count(" ") == 2:
        return  # the title of a dead page
    outcome = returned(text)
    assert (outcome.kind, outcome.status, outcome.grade, outcome.error) == ("ok", None, None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["status", "error", "errors", "code", "response", "content", "isError"])
            | st.text(max_size=8),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, True, False]), st.sampled_from([PLAIN, SHELL]))
def test_any_value_is_contained_and_returned_unchanged(
    value: object, failed: bool | None, policy: ToolPolicy
) -> None:
    outcome = returned(value, policy, failed=failed)
    assert outcome.content is value
    assert outcome.status is None or 100 <= outcome.status <= 599
    assert (outcome.kind == "error") or outcome.grade is None
    assert failed is not True or outcome.kind == "error"


def test_a_record_and_its_json_text_read_alike() -> None:
    for value in (*SUCCESSES, *FAILURES, {"status": 503, "message": "x"}, mcp("x", isError=True)):
        first, second = returned(value), returned(json.dumps(value))
        assert (first.kind, first.status, first.grade, first.error) == (
            second.kind,
            second.status,
            second.grade,
            second.error,
        )
