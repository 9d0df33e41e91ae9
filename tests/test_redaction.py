"""Redaction: what is found, what stays, and that equal secrets stay equal."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.fingerprint import exact
from lastcall.redaction import VARIABLE, Redactor
from lastcall.sensitive import MARK, kind_of

REDACTOR = Redactor(b"a key")
SK = "sk-ant-api03-" + "Ab1_" * 8
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
CARD = "4111 1111 1111 1111"

SHAPED = {
    "api-key": [
        SK,
        "sk-proj-" + "a1B2" * 10,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 10,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghij",
        "sk_live_" + "a1B2" * 6,
        "glpat-" + "a1B2" * 5,
        "AIza" + "Sy1-" * 9,
        "hf_" + "a1B2" * 8,
    ],
    "jwt": [JWT],
    "private-key": [PEM, PEM[:50]],
    "email": ["ann.lee+x@mail.example.com"],
    "card": [CARD, "4111-1111-1111-1111", "4111111111111111", "378282246310005"],
}


@pytest.mark.parametrize(
    ("kind", "secret"), [(kind, secret) for kind, all_ in SHAPED.items() for secret in all_]
)
def test_a_secret_is_found_by_what_it_looks_like(kind, secret):
    said = REDACTOR.text(secret)
    assert MARK.fullmatch(said)
    assert said.split(":")[1] == kind
    if not (kind == "private-key" and len(secret) == 50):
        assert REDACTOR.text(f"see ({secret}), please") == f"see ({said}), please"
    assert REDACTOR.value({"note": [secret]}) == {"note": [said]}


@pytest.mark.parametrize(
    "secret", [each for kind, all_ in SHAPED.items() if kind != "private-key" for each in all_]
)
def test_it_is_found_behind_an_escape_and_a_colour(secret):
    said = REDACTOR.text(secret)
    for before in ("a\n", "\t", "\r\n"):
        text = REDACTOR.text(json.dumps({"out": before + secret}))
        assert json.loads(text) == {"out": before + said}
    for before in ("\x1b[31m", "\x1b[1;32m", "\\x1b[0m", "\\u001b[31m"):
        for text in (before + secret, json.dumps(before + secret)):
            assert secret not in REDACTOR.text(text)


NAMES = [
    "password", "PASSWORD", "db_password", "userPassword", "DB-PASSWD", "passphrase", "secret", "clientSecret",
    "token", "access_token", "X-Auth-Token", "refreshToken", "api_key", "apiKey", "APIKey", "X-API-Key",
    "aws_secret_access_key", "authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "credentials",
    "private_key", "cvv", "cardNumber", "pin", "connectionString", "db_pwd",
]  # fmt: skip
OTHERS = [
    "user", "monkey", "nextPageToken", "page_token", "max_tokens", "total_tokens", "tokens", "secretary",
    "token_type", "secret_name", "pwd", "key", "shipping", "passage", "stop_token", "author", "cookie_count",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_is_found_by_the_name_it_is_under(name):
    one = REDACTOR.value({name: "hunter two"})[name]
    assert MARK.fullmatch(one)
    # As a JSON text, and that as a string in a JSON text.
    plain = json.dumps({name: "hunter two", "n": 1})
    for text in (plain, json.dumps(plain), repr({name: "hunter two"})):
        said = REDACTOR.text(text)
        assert "hunter" not in said
        assert one in said
    assert json.loads(REDACTOR.text(plain)) == {name: one, "n": 1}
    assert "1234567" not in REDACTOR.text(f"{name}=1234567&x=1")
    assert REDACTOR.text(f"{name}=1234567&x=1").endswith("&x=1")


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_left_alone(name):
    assert kind_of(name) is None
    assert REDACTOR.value({name: "hunter two"}) == {name: "hunter two"}
    text = json.dumps({name: "hunter two"})
    assert REDACTOR.text(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Authorization: Bearer abc.def.123\nHost: x", ("Authorization: Bearer [", "\nHost: x")),
        ('curl -H "Authorization: Basic dXNlcjpwYXNz" http://x', ("Basic [", '" http://x')),
        ("Cookie: a=hunter; b=hunter\r\nHost: x", ("Cookie: [", "]\r\nHost: x")),
        ("https://ann:hunter@host:80/x", ("https://ann:[", "]@host:80/x")),
        ("deploy --db-password hunter --n 3", ("--db-password [", "] --n 3")),
        ("<password>hunter</password>", ("<password>[", "]</password>")),
        ("PASSWORD='hunter' other", ("PASSWORD='[", "]' other")),
        (r"{\"secret\": \"hunter \\\" two\"}", (r"{\"secret\": \"[", r"]\"}")),
        ('{"password": "hunter cut of', ('{"password": "[', "]")),
    ],
)
def test_what_stands_around_a_secret_stays(text, kept):
    said = REDACTOR.text(text)
    assert said.startswith(kept[0]) or kept[0] in said
    assert said.endswith(kept[1])
    assert "hunter" not in said
    assert "dXNlcjpwYXNz" not in said
    assert REDACTOR.text(said) == said


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox; 12 items at 3.50 (see docs/page.html#x), 50 % of it.",
        "password: null, token: None, secret: true",
        "basic understanding of a bearer of news",
        "Unexpected token: 'x' at line 4",
        "sk-learn-contrib-extra-package",
        "task-1234567890123456789 risk-aaaaaaaaaaaaaaaaaaaa",
        "2026-11-30T10:00:00Z 1795831200000 5.4111111111111111",
        "2019 2020 2021 2022",
        "4111 1111 1111 1112",
        "@decorator x@y npm i @scope/name lodash@4.17.21",
    ],
)
def test_what_is_no_secret_stays(text):
    assert REDACTOR.text(text) == text


def test_a_card_is_found_beside_other_numbers_and_json_stays_json():
    said = REDACTOR.text(f"order 1234 {CARD} 99")
    assert said.startswith("order 1234 [redacted:card:")
    assert said.endswith("] 99")
    assert json.loads(REDACTOR.text('{"n": 4111111111111111, "pin": 1234}')).keys() == {"n", "pin"}
    assert MARK.fullmatch(REDACTOR.value(4111111111111111))


def test_equal_secrets_stay_equal_and_others_differ():
    one, two = REDACTOR.value({"password": "a"}), REDACTOR.value({"password": "b"})
    assert one != two
    assert one == Redactor(b"a key").value({"password": "a"})
    assert one != Redactor(b"another key").value({"password": "a"})
    assert exact("login", one) == exact("login", REDACTOR.value({"password": "a"}))
    # Under a name and in a text it is seen to be the same one.
    assert REDACTOR.value({"token": SK})["token"] == REDACTOR.text(SK)
    assert REDACTOR.value({"authorization": f"Bearer {JWT}"})["authorization"] == REDACTOR.text(
        f"Bearer {JWT}"
    )


def test_without_a_key_a_process_agrees_with_itself(monkeypatch):
    assert Redactor().text(SK) == Redactor().text(SK)
    monkeypatch.setenv(VARIABLE, "a key")
    assert Redactor.of_environment().text(SK) == REDACTOR.text(SK)
    monkeypatch.delenv(VARIABLE)
    assert Redactor.of_environment().text(SK) == Redactor().text(SK)


def test_a_redactor_says_nothing_of_its_key():
    assert "a key" not in repr(REDACTOR)


def test_own_fields_and_patterns():
    own = Redactor(b"k", fields=["patientId", "mrn"], patterns={"ticket": r"T-\d+"})
    assert own.value({"patient_id": "p 7", "MRN": 12, "n": "see T-12"}).keys() == {
        "patient_id", "MRN", "n",
    }  # fmt: skip
    said = own.text('{"patientId": "p 7", "the-mrn": 12} T-12 T-13')
    assert "p 7" not in said
    assert "T-1" not in said
    assert said.count("[redacted:patient-id:") == said.count("[redacted:mrn:") == 1
    assert own.text(said) == said
    with pytest.raises(TypeError, match="collection"):
        Redactor(fields="mrn")


@pytest.mark.parametrize("named", ["name", "key"])
def test_names_and_values_that_are_kept_as_pairs(named):
    pairs = [
        {named: "DB_PASSWORD", "value": "hunter2"},
        {named: "Authorization", "value": "Bearer zzz"},
        {named: "HOME", "value": "/x"},
        {named: 7, "value": "/x"},
        {"value": "/x"},
    ]
    said = REDACTOR.value(pairs)
    assert said[0]["value"].startswith("[redacted:password:")
    assert said[1]["value"].startswith("Bearer [redacted:credential:")
    assert said[2:] == pairs[2:]
    for indent in (None, 2):
        text = REDACTOR.text(json.dumps(pairs, indent=indent))
        assert json.loads(text) == said
        assert REDACTOR.text(text) == text
    assert "ter" not in REDACTOR.text(json.dumps({named: "PASSWORD", "value": 'hun"ter2'}))


def test_everything_under_a_secret_name_goes_but_yes_and_no():
    said = REDACTOR.value({"credentials": {"user": "ann", "pin": [1, 2.5], "on": True, "x": None}})
    inside = said["credentials"]
    assert MARK.fullmatch(inside["user"])
    assert all(MARK.fullmatch(each) for each in inside["pin"])
    assert (inside["on"], inside["x"]) == (True, None)


@dataclass
class Login:
    user: str
    password: str


class Word(str):
    __slots__ = ()


def test_values_of_any_kind():
    day = datetime(2026, 1, 1, tzinfo=UTC)
    kept = {"a": 1, "b": [1.5, None, True], "day": day, "cost": Decimal("0.10"), 3: "x"}
    assert REDACTOR.value(kept) == kept
    said = REDACTOR.value(
        {"login": Login("ann", "hunter"), "raw": b"ann@example.com", ("ann@example.com",): 1,
         "ordered": OrderedDict(token="hunter"), "word": Word("ann@example.com"),
         4111111111111111: 1, "pin": 10**6000}
    )  # fmt: skip
    assert said["login"].keys() == {"user", "password"}
    assert "hunter" not in str(said)
    assert "example.com" not in str(said)
    assert "4111111111111111" not in str(said)


def test_deep_and_endless_values_end():
    deep: object = "hunter"
    for _ in range(100_000):
        deep = {"password": [deep]}
    endless: list[object] = ["ann@example.com"]
    endless.append(endless)
    ordered: object = "ann@example.com"
    for _ in range(3000):
        ordered = OrderedDict(hunter=ordered)
    for value in (deep, endless, ordered):
        said = REDACTOR.value(value)
        assert "hunter" not in json.dumps(said)
        assert "example" not in json.dumps(said)
        assert REDACTOR.value(said) == said


PIECES = st.sampled_from(
    [
        SK, JWT, PEM, CARD, "ann@example.com", "AKIAIOSFODNN7EXAMPLE", "password", "token", "api_key", "cookie",
        "Authorization", "Bearer ", "Basic ", "dXNlcjpwYXNz", "abc123def", ":", "=", ": ", " ", "\n", '"', "'", "\\",
        '\\"', "{", "}", "[", "]", ",", "-", "--", ".", "@", "_", "://", "/", "&", ">", "<", "%", "+", "a", "1",
        "[redacted:email:0123456789ab]", "[redacted:", "]", "é", "\ud800", "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----", "eyJ", "sk-", "4", "4111", "key",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=14).map("".join))
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.floats(), st.booleans(), st.none(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(TEXTS, st.sampled_from(NAMES)), inner, max_size=4),
    ),
    max_leaves=12,
)
OWN = Redactor(b"k", fields=["order no"], patterns={"digits": r"[0-9a-f]{3,}|redacted"})


@given(TEXTS)
def test_text_redacted_twice_is_as_redacted_once(text):
    for redactor in (REDACTOR, OWN):
        once = redactor.text(text)
        assert redactor.text(once) == once


@given(VALUES)
def test_values_redacted_twice_are_as_redacted_once(value):
    once = REDACTOR.value(value)
    # NaN is not equal to itself.
    assert repr(REDACTOR.value(once)) == repr(once)


@given(st.sampled_from([SK, JWT, "ann.lee@example.com", "AKIAIOSFODNN7EXAMPLE"]), TEXTS, TEXTS)
def test_a_secret_between_blanks_never_passes(secret, before, after):
    assert f" {secret} " not in REDACTOR.text(f"{before} {secret} {after}")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1))
def test_what_is_under_a_secret_name_never_passes_as_json(secret):
    text = json.dumps({"password": secret, "n": 1})
    said = json.loads(REDACTOR.text(text))
    if secret.strip().lower() not in (
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "required",
        "",
    ):
        assert said["password"] != secret or MARK.fullmatch(secret)
    assert said["n"] == 1
