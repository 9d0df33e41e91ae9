"""A breaker for each host and credential, beside that of the tool."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lastcall import Guard, MemoryStore, Policy, Stopped
from lastcall.rules import Breaker
from lastcall.rules.streak import Streak
from lastcall.testing import FailingStore
from lastcall_http import async_client, client
from lastcall_http.credentials import credential_of

from .conftest import Client
from .service import DROP, Answer, Service

POLICY = Policy().replaced(Breaker(failures=3), Streak(passing=0))


@pytest.fixture
def guard(make_guard, events):
    return make_guard(POLICY, listeners=[events.append])


def asking(url, headers=None):
    def body():
        answer = yield "GET", url, {"headers": headers or {}}
        return {"status_code": answer.status_code}

    return body


def tried(http, guard, url, run, headers=None, name="tool", **settings):
    """What becomes of a call: a status, or the reason of a stop."""
    wrap = guard.wrap(name=name)
    try:
        return http.call(guard, asking(url, headers), run=run, guarded=wrap, **settings)[
            "status_code"
        ]
    except Stopped as stopped:
        return (stopped.stop.reason, stopped.stop.dependency)


def test_tools_of_one_host_share_it(http, serve, guard, events):
    service = serve(503)
    for n, name in enumerate("abc"):
        assert tried(http, guard, service.url, f"r{n}", name=name) == 503
    assert tried(http, guard, service.url, "r9", name="d") == ("breaker", service.host)
    assert service.requests == 3
    said = [event.message for event in events if event.kind == "breaker"]
    assert any(f"{service.host}: open after 3 in a row: HTTP 503" in message for message in said)
    assert guard.report("r9").blocked == (service.host,)


def test_other_hosts_go_on(http, serve, guard):
    down, well = serve(503), serve(200)
    for n, name in enumerate("abc"):
        tried(http, guard, down.url, f"r{n}", name=name)
    assert tried(http, guard, well.url, "r9", name="d") == 200


def test_other_credentials_go_on(http, serve, guard):
    service = serve(429)
    for n, name in enumerate("abc"):
        tried(http, guard, service.url, f"r{n}", {"Authorization": "Bearer one"}, name)
    one, two = {"authorization": "Bearer one"}, {"Authorization": "Bearer two"}
    assert tried(http, guard, service.url, "r8", one, "d") == ("breaker", service.host)
    assert tried(http, guard, service.url, "r9", two, "e") == 429


def test_names_of_ones_own(http, serve, guard):
    service = serve(503)
    names = {"dependency": lambda request: "bank", "credential": lambda request: "account-1"}
    for n, name in enumerate("abc"):
        tried(http, guard, service.url, f"r{n}", name=name, **names)
    assert tried(http, guard, service.url, "r8", name="d", **names) == ("breaker", "bank")
    assert tried(http, guard, service.url, "r9", name="e") == 503


def test_one_trial_closes_it_again(http, serve, guard, clock):
    service = serve(503, 503, 503, 200)
    for n, name in enumerate("abc"):
        tried(http, guard, service.url, f"r{n}", name=name)
    clock.tick(30)
    assert [tried(http, guard, service.url, f"t{n}", name=f"t{n}") for n in range(3)] == [200] * 3
    assert guard.store.peek(("dependency", f"{service.host}/"), clock()) == {}


@pytest.mark.parametrize("sick", [503, DROP])
def test_a_call_that_it_refused_says_nothing_good_of_its_own_service(
    http, serve, make_guard, clock, sick
):
    """The tool's trial meets the open breaker of the host: it is no proof that the tool is well."""
    service = serve(sick)
    guard = make_guard(POLICY)

    def ask(run, name):
        try:
            return tried(http, guard, service.url, run, name=name)
        except Exception as error:
            return error

    for n in range(3):
        ask(f"r{n}", "tool")
    # Another tool keeps the host's breaker open, while that of the tool has waited long enough.
    clock.tick(30)
    ask("other", "other")
    assert ask("again", "tool") == ("breaker", service.host)
    record = guard.store.peek(("dependency", "tool/"), clock())
    assert {state.phase for state in record.values()} == {"open"}


def test_cancelled_requests_are_no_failures(serve, guard, clock):
    over = threading.Event()
    began: list[Any] = []

    def hang(number, asked):
        began.pop()()
        over.wait(5)
        return Answer(200)

    service = serve(by=hang)

    async def main():
        async with async_client(guard, verify=False) as client:

            @guard.wrap
            async def tool(n):
                return (await client.get(service.url)).status_code

            with guard.within(run="r"):
                for n in range(5):
                    arrived = asyncio.Event()
                    loop = asyncio.get_running_loop()
                    began.append(lambda: loop.call_soon_threadsafe(arrived.set))
                    task = asyncio.ensure_future(tool(n))
                    await asyncio.wait_for(arrived.wait(), 5)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task

    asyncio.run(main())
    over.set()
    assert guard.store.peek(("dependency", f"{service.host}/"), clock()) == {}
    assert guard.report("r").totals.failed == 0


def test_in_shadow_mode_it_only_says_so(http, serve, make_guard, events):
    guard = make_guard(
        Policy().replaced(Breaker(failures=3, enforce=False), Streak(passing=0)),
        listeners=[events.append],
    )
    service = serve(503)
    for n, name in enumerate("abcd"):
        assert tried(http, guard, service.url, f"r{n}", name=name) == 503
    assert [event.reason for event in events if event.kind == "shadow"] == ["breaker"]


def test_an_attempt_that_it_refuses_is_given_back(http, serve, guard, events):
    service = serve(503)

    def body():
        while True:
            yield "GET", service.url

    with pytest.raises(Stopped) as stopped:
        http.call(guard, body)
    assert stopped.value.stop.reason == "breaker"
    assert service.requests == 3
    kinds = [event.outcome for event in events if event.kind == "attempt"]
    assert kinds == ["error", "error", "cancelled", "error"]


def test_a_request_that_is_called_off_while_the_store_is_asked(serve, clock):
    """What it was granted is given back."""
    store = SlowStore()
    guard = Guard(POLICY, store=store, clock=clock)
    service = serve(503)

    async def main():
        async with async_client(guard, verify=False) as client:

            @guard.wrap
            async def tool():
                await client.get(service.url)
                store.hangs = True
                await client.get(service.url)

            with guard.within(run="r"):
                task = asyncio.ensure_future(tool())
                await asyncio.wait_for(store.hanging.wait(), 5)
                store.hangs = False
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    assert service.requests == 1
    assert guard.report("r").totals.failed == 0


def test_a_request_that_is_interrupted_while_the_store_is_asked(serve, clock, events):
    """The attempt that it was granted is given back."""

    class Interrupted(MemoryStore):
        interrupts = False

        def update(self, keys, step, now):
            if self.interrupts and keys[0][0][0] == "dependency":
                self.interrupts = False
                raise KeyboardInterrupt
            return super().update(keys, step, now)

    store = Interrupted()
    guard = Guard(POLICY, store=store, clock=clock, listeners=[events.append])
    service = serve(503)
    with client(guard, verify=False) as http:

        @guard.wrap
        def tool():
            http.get(service.url)
            store.interrupts = True
            http.get(service.url)

        with guard.within(run="r"), pytest.raises(KeyboardInterrupt):
            tool()
    assert service.requests == 1
    attempts = [event.outcome for event in events if event.kind == "attempt"]
    assert attempts == ["cancelled", "cancelled"]  # the request and the call


def test_without_a_breaker_the_store_is_left_alone(http, serve, make_guard):
    guard = make_guard()
    service = serve(503)
    tried(http, guard, service.url, "r")
    assert guard.store.peek(("dependency", f"{service.host}/"), guard.clock()) == {}


def test_while_the_store_fails_the_policy_says_what_happens(serve, clock):
    http = Client("httpx2-sync")
    service = serve(200)
    store = FailingStore()
    guard = Guard(POLICY, store=store, clock=clock)

    def body():
        store.trouble = "refused"
        yield "GET", service.url
        return "done"

    with pytest.raises(Stopped) as stopped:
        http.call(guard, body)
    assert stopped.value.stop.reason == "store"
    assert service.requests == 0


class SlowStore(MemoryStore):
    """One that does not answer about hosts, when told so."""

    def __init__(self):
        super().__init__()
        self.hangs = False
        self.hanging = asyncio.Event()

    async def aupdate(self, keys, step, now):
        if self.hangs and keys[0][0][0] == "dependency":
            self.hanging.set()
            await asyncio.Event().wait()
        return await super().aupdate(keys, step, now)


class TestCredentials:
    def test_they_are_told_apart_and_never_told(self):
        one = credential_of({"authorization": "Bearer sk-secret"})
        two = credential_of({"authorization": "Bearer sk-other"})
        assert one
        assert two
        assert one != two
        assert "secret" not in one
        assert len(one) == 16

    def test_by_whatever_header(self):
        assert credential_of({"x-api-key": "a"}) not in (None, credential_of({"api-key": "a"}))
        assert credential_of({"authorization": "", "accept": "x"}) is None

    def test_equal_in_every_process(self):
        assert credential_of({"authorization": "Bearer x"}) == "68ea73d85a622bab"


def test_services_start(serve):
    assert isinstance(serve(), Service)


@pytest.mark.parametrize("kind", ["httpx2-sync", "httpx2-async"])
def test_workers_of_one_store_share_it(serve, clock, tmp_path, kind):
    http = Client(kind)
    service = serve(503)
    url = f"sqlite:///{tmp_path}/shared.db"
    first, second = (Guard(POLICY, store=url, clock=clock) for _ in range(2))
    for n, name in enumerate("abc"):
        assert tried(http, first, service.url, f"r{n}", name=name) == 503
    assert tried(http, second, service.url, "r9", name="d") == ("breaker", service.host)
    assert service.requests == 3
    first.close()
    second.close()
