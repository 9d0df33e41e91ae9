"""Several requests of one body at once: none hides another's failure, and their keys are not mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, permutations

import pytest

from lastcall import Stopped
from lastcall_http import async_client, client, session

from .service import DROP, Answer

WAITS = 20
"""Seconds after which a service gives up, where a test has gone wrong."""

KINDS = ["httpx-threads", "httpx-asyncio", "httpx2-threads", "httpx2-asyncio", "requests-threads"]

HERE = ("/a", "/b", "/c")


class AtOnce:
    """A client whose requests are sent at once: by threads, or by tasks of an event loop."""

    def __init__(self, kind):
        self.library, self.way = kind.split("-")
        module = importlib.import_module(self.library)
        self.failures = OSError if self.library == "requests" else module.TransportError

    def call(self, guard, phases, *, arrived=lambda path: None, declared=None, **settings):
        """What a tool gives that goes through *phases*: each is one flow or several at once, and a flow a
        list of requests (method, URL, what else), one after another. Failed connections are passed over;
        *arrived* is told the path of each answer."""
        wrap = guard.wrap(name="tool", **(declared or {}))
        if self.library != "requests":
            settings.setdefault("verify", False)
        by = self.tasks if self.way == "asyncio" else self.threads
        return by(guard, phases, arrived, wrap, settings)

    def threads(self, guard, phases, arrived, wrap, settings):
        if self.library == "requests":
            made = session(guard, **settings)
        else:
            made = client(guard, library=self.library, **settings)

        def flow(requests):
            for method, url, *more in requests:
                with contextlib.suppress(self.failures):
                    made.request(method, url, **dict(*more))
                arrived("/" + url.split("/", 3)[3])

        with made, ThreadPoolExecutor(8) as pool, guard.within(run="r"):

            @wrap
            def tool():
                for flows in phases:
                    if len(flows) == 1:
                        flow(flows[0])
                        continue
                    waits = [pool.submit(contextvars.copy_context().run, flow, f) for f in flows]
                    for each in waits:
                        each.result()
                return "what was found"

            return tool()

    def tasks(self, guard, phases, arrived, wrap, settings):
        async def main():
            async with async_client(guard, library=self.library, **settings) as made:

                async def flow(requests):
                    for method, url, *more in requests:
                        with contextlib.suppress(self.failures):
                            await made.request(method, url, **dict(*more))
                        arrived("/" + url.split("/", 3)[3])

                @wrap
                async def tool():
                    for flows in phases:
                        if len(flows) == 1:
                            await flow(flows[0])
                        else:
                            await asyncio.gather(*map(flow, flows))
                    return "what was found"

                with guard.within(run="r"):
                    return await tool()

        return asyncio.run(main())


@pytest.fixture(params=KINDS)
def at_once(request):
    return AtOnce(request.param)


class InOrder:
    """A service that waits until all of *at_once* (default: of *order*) were asked for, and gives each answer
    when the one before it has `arrived`. What else is asked for is answered at once."""

    def __init__(self, serve, statuses, order, at_once=None):
        self.statuses = statuses
        self.after = dict(pairwise(order))
        self.turns = {path: threading.Event() for path in order}
        self.turns[order[0]].set()
        self.at_once = at_once or order
        self.all = threading.Barrier(len(self.at_once))
        self.service = serve(by=self.answer)
        self.url = self.service.url

    def answer(self, number, asked):
        if asked.path in self.turns:
            if asked.path in self.at_once:
                self.all.wait(WAITS)
            assert self.turns[asked.path].wait(WAITS)
        given = self.statuses.get(asked.path, 200)
        return given if isinstance(given, Answer) else Answer(given, {})

    def arrived(self, path):
        if path in self.after:
            self.turns[self.after[path]].set()


def outcomes(events):
    return [(event.outcome, event.status) for event in events if event.kind == "attempt"]


def one_each(method, service, paths=HERE):
    """A flow for each path."""
    return [[(method, f"{service.url}{path}")] for path in paths]


@pytest.mark.parametrize("order", list(permutations(HERE)))
class TestInWhateverOrderTheyAreAnswered:
    def test_a_failure_among_successes_counts(self, at_once, serve, guard, events, order):
        service = InOrder(serve, {"/b": 422}, order)
        with pytest.raises(Stopped) as stopped:
            at_once.call(guard, [one_each("GET", service)], arrived=service.arrived)
        assert (stopped.value.stop.reason, stopped.value.stop.status) == ("terminal", 422)
        assert outcomes(events) == [("error", 422)]

    def test_so_does_the_worst_of_several(self, at_once, serve, guard, events, order):
        service = InOrder(serve, {"/a": 503, "/b": 404, "/c": DROP}, order)
        with pytest.raises(Stopped):
            at_once.call(guard, [one_each("GET", service)], arrived=service.arrived)
        assert outcomes(events) == [("error", 404)]

    def test_of_writes_what_may_have_been_made(self, at_once, serve, guard, events, order):
        service = InOrder(serve, {"/a": 422, "/b": 500}, order)
        at_once.call(
            guard,
            [one_each("PUT", service)],
            arrived=service.arrived,
            declared={"writes": True},
        )
        assert outcomes(events) == [("error", 500)]


class TestWhatIsSentAfterwards:
    def test_by_the_same_flow_makes_it_good(self, at_once, serve, guard, events):
        """Looks whether it is there and makes it where it is not, for several at once."""
        service = InOrder(serve, {"/a": 404, "/b": 404, "/new": 201}, ("/a", "/b"))
        flows = [
            [("GET", f"{service.url}{path}"), ("POST", f"{service.url}/new")]
            for path in ("/a", "/b")
        ]
        assert at_once.call(guard, [flows], arrived=service.arrived) == "what was found"
        assert outcomes(events) == [("ok", None)]

    @pytest.mark.parametrize("order", [("/a", "/b"), ("/b", "/a")])
    def test_but_not_what_another_met(self, at_once, serve, guard, events, order):
        """One is done early, and the other goes on."""
        service = InOrder(serve, {"/a": 404}, order)
        flows = [
            [("GET", f"{service.url}/a")],
            [("GET", f"{service.url}/b"), ("GET", f"{service.url}/next")],
        ]
        with pytest.raises(Stopped):
            at_once.call(guard, [flows], arrived=service.arrived)
        assert outcomes(events) == [("error", 404)]

    def test_so_does_a_retry_beneath_it(self, at_once, serve, guard, events):
        """While another is on its way all the time."""
        over, asked_for = threading.Event(), []

        def by(_, asked):
            asked_for.append(asked.path)
            if asked.path == "/b":
                assert over.wait(WAITS)
            return Answer(503 if asked_for.count("/a") == 1 and asked.path == "/a" else 200, {})

        async def asleep(seconds):
            """Nobody waits here."""

        service = serve(by=by)
        at_once.call(
            guard,
            [one_each("GET", service, ["/a", "/b"])],
            arrived=lambda path: over.set() if path == "/a" else None,
            retries=guard.retrying(sleep=lambda seconds: None, asleep=asleep),
        )
        assert service.requests == 3
        assert outcomes(events)[-1] == ("ok", None)

    def test_after_all_of_them_makes_all_good(self, at_once, serve, guard, events):
        service = InOrder(serve, {"/a": 404, "/b": 503, "/c": 404}, HERE)
        phases = [one_each("GET", service), one_each("GET", service, ["/other"])]
        assert at_once.call(guard, phases, arrived=service.arrived) == "what was found"
        assert outcomes(events) == [("ok", None)]

    def test_so_do_several_at_once(self, at_once, serve, guard, events):
        service = InOrder(serve, {"/a": 404, "/b": 404, "/c": 404}, HERE)
        phases = [one_each("GET", service), one_each("GET", service, ["/d", "/e"])]
        assert at_once.call(guard, phases, arrived=service.arrived) == "what was found"
        assert outcomes(events) == [("ok", None)]


class TestWhereTheToolItselfIsOneOfThem:
    """It begins a task or a thread, and goes on beside it."""

    def service(self, serve):
        sent, over = threading.Event(), threading.Event()

        def by(_, asked):
            if asked.path == "/own":
                sent.set()
                assert over.wait(WAITS)
            elif asked.path == "/beside":
                assert sent.wait(WAITS)
            return Answer(404 if asked.path == "/beside" else 200, {})

        return serve(by=by).url, over

    @pytest.mark.parametrize("then", [[], ["/instead"]])
    def test_as_a_task(self, guard, serve, events, then):
        url, over = self.service(serve)

        async def main():
            async with async_client(guard, verify=False) as made:

                async def beside():
                    await made.get(f"{url}/beside")
                    over.set()

                @guard.wrap
                async def tool():
                    task = asyncio.create_task(beside())
                    await made.get(f"{url}/own")
                    await task
                    for path in then:
                        await made.get(url + path)

                with guard.within(run="r"):
                    await tool()

        with contextlib.suppress(Stopped):
            asyncio.run(main())
        assert outcomes(events) == [("ok", None) if then else ("error", 404)]

    @pytest.mark.parametrize("then", [[], ["/instead"]])
    def test_as_a_thread(self, guard, serve, events, then):
        url, over = self.service(serve)
        with client(guard, verify=False) as made, ThreadPoolExecutor(1) as pool:

            def beside():
                made.get(f"{url}/beside")
                over.set()

            @guard.wrap
            def tool():
                task = pool.submit(contextvars.copy_context().run, beside)
                made.get(f"{url}/own")
                task.result()
                for path in then:
                    made.get(url + path)

            with contextlib.suppress(Stopped), guard.within(run="r"):
                tool()
        assert outcomes(events) == [("ok", None) if then else ("error", 404)]


WRITES = {"writes": True}

CHARGES = [f'{{"invoice": {n}}}' for n in range(3)]


def keys_of(service):
    """The key of each charge, by what it says; as many as there are."""
    found = {each.body.decode(): each.headers["idempotency-key"] for each in service.asked}
    assert len(found) == len(service.asked) == len(set(found.values()))
    return found


def charging(client, service, charges):
    """A request for each charge."""
    content = "data" if client.library == "requests" else "content"
    return [("POST", f"{service.url}/charges", {content: each}) for each in charges]


@pytest.fixture
def bank(serve):
    """Where *many* charges are asked for before one is made."""

    def start(many):
        all_of_them = threading.Barrier(many)

        def answer(number, asked):
            all_of_them.wait(WAITS)
            return Answer(201, {})

        return serve(by=answer)

    return start


class TestKeys:
    def test_by_what_they_say_are_the_same_in_any_order(self, http, serve, make_guard):
        service = serve(201)

        def keys(charges):
            def body():
                for each in charging(http, service, charges):
                    _ = yield each
                return "done"

            service.asked.clear()
            http.call(make_guard(), body, declared=WRITES, per_request=True)
            return keys_of(service)

        first = keys(CHARGES)
        assert all(len(key) <= 255 for key in first.values())
        assert keys(CHARGES[::-1]) == first
        # What was made already may be left out.
        assert keys(CHARGES[1:]) == {charge: first[charge] for charge in CHARGES[1:]}

    def test_so_they_are_at_once(self, at_once, bank, make_guard, events):
        service = bank(3)

        def keys(charges):
            service.asked.clear()
            flows = [[each] for each in charging(at_once, service, charges)]
            guard = make_guard(listeners=[events.append])
            at_once.call(guard, [flows], declared=WRITES, per_request=True)
            return keys_of(service)

        assert keys(CHARGES) == keys(CHARGES[::-1])
        assert [event.message for event in events if event.kind == "alert"] == []

    def test_by_their_order_are_told_of(self, at_once, bank, guard, events):
        service = bank(3)
        flows = [[each] for each in charging(at_once, service, CHARGES)]
        at_once.call(guard, [flows], declared=WRITES)
        first, *others = sorted(keys_of(service).values())
        assert others == [f"{first}:2", f"{first}:3"]
        said = [event.message for event in events if event.kind == "alert"]
        assert len(said) == 1
        assert "per_request=True" in said[0]

    def test_one_after_another_are_not(self, at_once, serve, guard, events):
        service = serve(201)
        at_once.call(guard, [[charging(at_once, service, CHARGES)]], declared=WRITES)
        assert [event for event in events if event.kind == "alert"] == []

    def test_an_equal_one_at_once_has_the_same(self, at_once, bank, guard, events):
        """It is sent twice so that one arrives, or by mistake."""
        service = bank(2)
        flows = [charging(at_once, service, CHARGES[:1])] * 2
        at_once.call(guard, [flows], declared=WRITES)
        one, other = service.header("idempotency-key")
        assert one == other is not None
        assert [event for event in events if event.kind == "alert"] == []


class TestKeysByWhatRequestsSay:
    def call(self, http, guard, *requests):
        def body():
            for each in requests:
                _ = yield each
            return "done"

        http.call(guard, body, declared=WRITES, per_request=True)

    def test_tell_methods_and_urls_apart(self, http, serve, guard):
        service = serve(201)
        paths = ("/a", "/b", "/a?c=1")
        self.call(
            http,
            guard,
            *((method, service.url + path) for path in paths for method in ("POST", "PUT")),
        )
        assert len(set(service.header("idempotency-key"))) == 6

    def test_go_along_with_a_redirect(self, http, serve, guard):
        service = serve(Answer(307, None, {"Location": "/there"}), 201)
        follow = {} if http.library == "requests" else {"follow_redirects": True}
        self.call(http, guard, ("POST", service.url, {"json": {"amount": 1}, **follow}))
        assert [each.path for each in service.asked] == ["/", "/there"]
        first, second = service.header("idempotency-key")
        assert first == second is not None

    def test_are_one_for_what_is_sent_again(self, http, serve, guard):
        service = serve(503, 201)
        self.call(http, guard, *charging(http, service, CHARGES[:1] * 2))
        first, second = service.header("idempotency-key")
        assert first == second is not None

    def test_of_streams_go_by_their_order(self, http, serve, guard):
        """Nobody can look at what they say."""
        if http.colour == "async":
            pytest.skip("the key is found in the same way")
        service = serve(201)
        content = "data" if http.library == "requests" else "content"
        streams = (iter([b"a"]), iter([b"b"]))
        self.call(http, guard, *(("POST", service.url, {content: each}) for each in streams))
        first, second = service.header("idempotency-key")
        assert second == f"{first}:2"
