"""The simulated service (K1), on a virtual clock and over real HTTP."""

from __future__ import annotations

import threading

import httpx
import pytest
import requests

from lastcall.simulated import LostAnswerError, Pending, Request, SimulatedProvider
from lastcall.simulated_http import served

PAY = {"invoice": 7, "amount": 20}


@pytest.fixture
def make(clock):
    return lambda **settings: SimulatedProvider(clock, **settings)


def statuses(provider, *requests):
    return [provider.handle(request).status for request in requests]


def test_a_charge_without_a_key_is_made_each_time(make):
    provider = make()
    assert statuses(provider, Request(PAY), Request(PAY)) == [201, 201]
    assert [charge.number for charge in provider.charges] == [1, 2]


def test_the_limit_is_one_of_fixed_windows(make, clock):
    provider = make(limit=3, window=10.0)
    clock.tick(-clock() % 10 + 4)
    assert statuses(provider, *[Request(PAY)] * 5) == [201, 201, 201, 429, 429]
    answer = provider.handle(Request(PAY))
    assert answer.headers == {"Retry-After": "6"}
    clock.tick(5.9)
    assert statuses(provider, Request(PAY)) == [429]
    clock.tick(0.1)
    assert statuses(provider, Request(PAY)) == [201]
    assert (provider.requests, provider.rejected) == (8, 4)


def test_an_account_that_hammers_is_disabled_for_good(make, clock):
    provider = make(limit=1, window=60.0, disable_after=60)
    assert statuses(provider, *[Request(PAY)] * 62) == [201, *[429] * 60, 403]
    clock.tick(86_400)
    answer = provider.handle(Request(PAY))
    assert (answer.status, answer.body["error"]["code"]) == (403, "account_disabled")
    assert provider.disabled_at is not None


def test_an_outage_has_a_beginning_and_an_end(make, clock):
    now = clock()
    provider = make(outages=[(now + 10, now + 20)])
    seen = []
    for _ in range(4):
        seen += statuses(provider, Request(PAY))
        clock.tick(10)
    assert seen == [201, 503, 201, 201]


def test_a_key_is_answered_from_what_was_kept(make, clock):
    provider = make()
    first = provider.handle(Request(PAY, "k"))
    again = provider.handle(Request({"amount": 20, "invoice": 7}, "k"))
    assert (again.status, again.body) == (first.status, first.body)
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (len(provider.charges), provider.replayed) == (1, 1)
    clock.tick(86_400)
    assert provider.handle(Request(PAY, "k")).headers == {}, "keys are pruned after a day"
    assert len(provider.charges) == 2


def test_a_key_with_other_parameters_is_a_mismatch(make):
    provider = make()
    provider.handle(Request(PAY, "k"))
    answer = provider.handle(Request({**PAY, "amount": 21}, "k"))
    assert (answer.status, answer.body["error"]["code"]) == (400, "idempotency_mismatch")
    assert len(provider.charges) == 1


def test_the_second_while_the_first_is_in_flight_is_told_so(make):
    provider = make()
    first = provider.begin(Request(PAY, "k"))
    assert isinstance(first, Pending)
    assert provider.handle(Request(PAY, "k")).status == 409
    assert first.finish().status == 201
    assert provider.handle(Request(PAY, "k")).status == 201
    assert len(provider.charges) == 1


def test_what_was_not_kept_may_be_corrected_under_its_key(make, clock):
    """A 422, a 429 and a 503 are not kept; a decline is."""
    provider = make(
        limit=2,
        window=10.0,
        outages=[(clock() + 20, clock() + 30)],
        invalid=lambda body: None if body.get("amount") else "amount is missing",
        declined=lambda body: "no funds" if body.get("amount") == 13 else None,
    )
    clock.tick(-clock() % 10)
    assert statuses(provider, Request({"invoice": 7}, "a"), Request(PAY, "a")) == [422, 201]
    assert statuses(provider, Request(PAY, "b")) == [429], "the rate limit comes before the key"
    clock.tick(10)
    assert statuses(provider, Request(PAY, "b")) == [201]
    clock.tick(10)
    declined = {"amount": 13}
    while provider.handle(Request(declined, "c")).status == 503:
        clock.tick(10)
    again = provider.handle(Request(declined, "c"))
    assert (again.status, again.headers) == (402, {"Idempotent-Replayed": "true"})
    assert len(provider.charges) == 2


def test_an_answer_that_is_lost_was_a_charge(make):
    provider = make()
    provider.lose_answers()
    with pytest.raises(LostAnswerError):
        provider.handle(Request(PAY, "k"))
    assert provider.handle(Request(PAY, "k")).headers["Idempotent-Replayed"] == "true"
    assert len(provider.charges) == 1


def test_threads_are_counted_one_by_one(make):
    provider = make()
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        for n in range(50):
            provider.handle(Request({"n": n % 10}, f"k{n % 10}"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert provider.requests == 400
    assert len(provider.charges) == 10


def test_over_http_it_is_the_same(make, clock):
    provider = make(limit=4, window=60.0)
    clock.tick(-clock() % 60)
    with served(provider) as url, httpx.Client(base_url=url) as client:
        keyed = {"Idempotency-Key": "k"}
        assert client.post("/charges", json=PAY, headers=keyed).json()["id"] == "ch_1"
        again = requests.post(f"{url}/charges", json=PAY, headers=keyed, timeout=10)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert client.get("/charges").json() == {"charges": 1}
        assert client.post("/charges", content=b"{").status_code == 400
        provider.lose_answers()
        with pytest.raises(httpx.RemoteProtocolError):
            client.post("/charges", json=PAY)
        limited = client.post("/charges", json=PAY)
        assert (limited.status_code, limited.headers["Retry-After"]) == (429, "60")
    assert len(provider.charges) == 2


@pytest.mark.parametrize("settings", [{"limit": 0}, {"window": 0.0}, {"window": float("nan")}])
def test_a_setting_that_cannot_be_is_refused(make, settings):
    with pytest.raises(ValueError, match="must be"):
        make(**settings)
