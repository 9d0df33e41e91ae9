"""What a body remembers of its requests stays small, and keys stay short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from requests import Request

from lastcall.body import Body
from lastcall_http.ledger import KEPT, LONGEST, Ledger, ledger_of
from lastcall_http.sending import OfRequests


def sending(url, method="GET", **given):
    return OfRequests(Request(method, url, **given).prepare())


def test_only_so_many_failures_are_remembered():
    ledger = Ledger(None)
    for n in range(KEPT + 10):
        ledger.answered(sending(f"http://x/{n}"), failed=True, passing=True)
    assert len(ledger.failed) == len(ledger.busy) == KEPT
    assert not ledger.further(sending("http://x/0"))
    assert ledger.further(sending(f"http://x/{KEPT}"))


def test_a_success_takes_a_failure_back():
    ledger = Ledger(None)
    one = sending("http://x/a")
    ledger.answered(one, failed=True, passing=True)
    ledger.answered(one, failed=False, passing=False)
    assert not ledger.further(one)
    assert not ledger.failed


def test_keys_have_room_for_their_number():
    ledger = Ledger(None)
    writes = [sending("http://x/", "POST", data=str(n)) for n in range(12)]
    keys = [ledger.key(each, "k" * LONGEST) for each in writes]
    assert {len(key) for key in keys} == {LONGEST}
    assert len(set(keys)) == 12


def test_a_key_that_a_correction_took_is_not_taken_twice():
    """Two equal writes at once: one is refused and corrected before the other is refused."""
    ledger = Ledger(None)
    wrong, *others = (sending("http://x/", "POST", data=str(n)) for n in range(3))
    key = ledger.key(wrong, "k")
    ledger.wrote(wrong, key, refused=True, redirected=False)
    assert ledger.key(others[0], "k") == key
    ledger.wrote(wrong, key, refused=True, redirected=False)
    assert ledger.key(others[1], "k") == f"{key}:2"


def test_a_stream_takes_no_key_that_says_what_another_write_does():
    ledger = Ledger(None)
    wrong = sending("http://x/", "POST", data="wrong")
    stream = sending("http://x/", "POST", data=iter([b"a"]))
    key = ledger.key(wrong, "k", by_what_it_says=True)
    ledger.wrote(wrong, key, refused=True, redirected=False)
    assert ledger.key(stream, "k", by_what_it_says=True) == "k"
    assert ledger.key(wrong, "k", by_what_it_says=True) == key


def test_an_attempt_has_a_ledger_of_its_own_within_that_of_the_call():
    call = Body("t", "wrap")
    attempt = Body("t", "retrying", of=call)
    assert ledger_of(attempt).whole is ledger_of(call)
    assert ledger_of(call).whole is ledger_of(call)


def test_a_stream_equals_itself_alone():
    one, two = (sending("http://x/", "POST", data=iter([b"a"])) for _ in range(2))
    assert one.body is None
    assert one.equal != two.equal
    assert one.equal == one.equal


def test_a_stream_that_is_gone_equals_no_later_one():
    """A later request is often given the id of one that is gone; its key would be that of another write."""
    ledger = Ledger(None)
    keys = [ledger.key(sending("http://x/", "POST", data=iter([b"a"])), "key") for _ in range(20)]
    assert len(set(keys)) == 20


def test_hosts_are_told_by_their_port():
    assert sending("http://X.org:80/a?b=1").host == "x.org"
    assert sending("https://x.org:443/").host == "x.org"
    assert sending("https://x.org:80/").host == "x.org:80"
    assert sending("http://user:secret@x.org:8080/a?b").host == "x.org:8080"
    assert sending("http://x.org/a?b=1").path == "/a"


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from(["ok", "refused", "lost"])),
    max_size=12,
)


@given(STEPS)
def test_a_key_never_stands_for_two_writes_that_may_both_have_been_made(steps):
    """And what may have been made keeps its key, however often it is asked for."""
    ledger = Ledger(None)
    made: dict[tuple[int, str], tuple[int, int]] = {}
    for place, body, answer in steps:
        write = (place, body)
        one = sending(f"http://x/{place}", "POST", data=str(body))
        sent = ledger.key(one, "k")
        key = (place, sent)
        assert made.get(key, write) == write
        assert {known for known, other in made.items() if other == write} <= {key}
        if answer != "refused":
            made[key] = write
        ledger.wrote(one, sent, refused=answer == "refused", redirected=False)
