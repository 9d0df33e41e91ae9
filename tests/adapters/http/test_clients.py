"""Clients of others, with the guard beneath them: a refusal is theirs neither to catch nor to retry."""

from __future__ import annotations

import os

os.environ.setdefault("OPENAI_API_KEY", "none")

import asyncio
import contextvars
import copy
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import openai
import pytest
from langchain_openai import ChatOpenAI

import lastcall_http
from lastcall import Guard, Policy, Stopped
from lastcall.rules import Breaker, Budget, Streak
from lastcall_http import AsyncGuardTransport, GuardTransport, async_client, client, session
from lastcall_http.missing import loaded

from ..endpoint import Endpoint, says  # noqa: TID252 - a sibling folder
from .service import Answer

BUSY = Answer(429, {"error": {"message": "slow down"}}, {"Retry-After-Ms": "1"})
MESSAGES: Any = [{"role": "user", "content": "hi"}]


def limited(most: int) -> Policy:
    limits = ({"quantity": "retries", "per": "run", "window": None, "most": most},)
    return Policy().replaced(Budget(limits=limits))


class TestOpenAI:
    @pytest.mark.parametrize("library", ["httpx2", "httpx"])
    def test_a_refusal_is_not_retried(self, serve, make_guard, library):
        """Of six attempts that it would make, the guard lets three through."""
        service = serve(BUSY)
        guard = make_guard(limited(2))
        with client(guard, library=library, verify=False) as http:
            made = openai.OpenAI(base_url=service.url, api_key="k", max_retries=5, http_client=http)

            @guard.wrap
            def tool():
                return made.chat.completions.create(model="m", messages=MESSAGES)

            with guard.within(run="r"), pytest.raises(Stopped) as stopped:
                tool()
        assert stopped.value.stop.budget == "retries/run"
        assert service.requests == 3

    def test_nor_by_the_async_client(self, serve, make_guard):
        service = serve(BUSY)
        guard = make_guard(limited(2))

        async def main():
            async with async_client(guard, verify=False) as http:
                made = openai.AsyncOpenAI(
                    base_url=service.url, api_key="k", max_retries=5, http_client=http
                )

                @guard.wrap
                async def tool():
                    return await made.chat.completions.create(model="m", messages=MESSAGES)

                with guard.within(run="r"):
                    await tool()

        with pytest.raises(Stopped) as stopped:
            asyncio.run(main())
        assert stopped.value.stop.budget == "retries/run"
        assert service.requests == 3

    def test_an_open_breaker_is_not_knocked_at(self, serve, make_guard):
        service = serve(Answer(500, {"error": {"message": "down"}}, {"Retry-After-Ms": "1"}))
        guard = make_guard(Policy().replaced(Breaker(failures=3), Streak(passing=0)))
        with client(guard, verify=False) as http:
            made = openai.OpenAI(base_url=service.url, api_key="k", max_retries=5, http_client=http)

            @guard.wrap
            def tool(n):
                return made.chat.completions.create(model="m", messages=MESSAGES)

            for n in range(3):
                with guard.within(run=f"r{n}"), pytest.raises(Stopped) as stopped:
                    tool(n)
                assert stopped.value.stop.reason == "breaker"
        assert service.requests == 3

    def test_a_stream_passes_unchanged(self, make_guard):
        guard = make_guard()
        with Endpoint() as endpoint, client(guard, verify=False) as http:
            endpoint.on("hi", says("a reply of some words"))
            made = openai.OpenAI(base_url=endpoint.url, api_key="k", http_client=http)

            @guard.wrap
            def tool():
                stream = made.chat.completions.create(model="m", messages=MESSAGES, stream=True)
                return "".join(each.choices[0].delta.content or "" for each in stream)

            with guard.within(run="r"):
                assert tool() == "a reply of some words"


class TestLangChain:
    def test_a_model_in_a_tool(self, serve, make_guard):
        service = serve(BUSY)
        guard = make_guard(limited(1))
        with client(guard, verify=False) as http:
            model = ChatOpenAI(
                model="m", base_url=service.url, api_key="k", max_retries=5, http_client=http
            )

            @guard.wrap
            def tool():
                return model.invoke("hi").content

            with guard.within(run="r"), pytest.raises(Stopped):
                tool()
        assert service.requests == 2

    def test_and_in_an_event_loop(self, serve, make_guard):
        service = serve(BUSY)
        guard = make_guard(limited(1))

        async def main():
            async with async_client(guard, verify=False) as http:
                model = ChatOpenAI(
                    model="m",
                    base_url=service.url,
                    api_key="k",
                    max_retries=5,
                    http_async_client=http,
                )

                @guard.wrap
                async def tool():
                    return (await model.ainvoke("hi")).content

                with guard.within(run="r"):
                    await tool()

        with pytest.raises(Stopped):
            asyncio.run(main())
        assert service.requests == 2

    def test_outside_a_tool_it_is_a_plain_client(self, make_guard):
        guard = make_guard(limited(1))
        with Endpoint() as endpoint, client(guard, verify=False) as http:
            endpoint.on("hi", says("hello"))
            model = ChatOpenAI(model="m", base_url=endpoint.url, api_key="k", http_client=http)
            assert model.invoke("hi").content == "hello"


class TestThreads:
    """What a thread sends belongs to the call when the context came along."""

    def body(self, guard, service, send):
        @guard.wrap
        def tool():
            send()
            return "nothing"

        with guard.within(run="r"):
            try:
                tool()
            except Stopped as stopped:
                return stopped.stop.status
        return None

    def test_a_copied_context_is_the_calls(self, serve, make_guard):
        service, guard = serve(422), make_guard()
        with client(guard, verify=False) as http, ThreadPoolExecutor(1) as pool:

            def send():
                pool.submit(contextvars.copy_context().run, http.get, service.url).result()

            assert self.body(guard, service, send) == 422

    def test_a_bare_thread_is_nobodys(self, serve, make_guard):
        service, guard = serve(422), make_guard()
        with client(guard, verify=False) as http:

            def send():
                thread = threading.Thread(target=http.get, args=(service.url,))
                thread.start()
                thread.join()

            assert self.body(guard, service, send) is None
        assert service.requests == 1

    def test_to_thread_copies_it(self, serve, make_guard):
        service, guard = serve(422), make_guard()

        async def main():
            @guard.wrap
            async def tool():
                with client(guard, verify=False) as http:
                    await asyncio.to_thread(http.get, service.url)
                return "nothing"

            with guard.within(run="r"):
                await tool()

        with pytest.raises(Stopped) as stopped:
            asyncio.run(main())
        assert stopped.value.stop.status == 422

    def test_many_at_once_share_one_budget(self, serve, make_guard):
        service, guard = serve(503), make_guard(limited(7))
        with client(guard, verify=False) as http, ThreadPoolExecutor(8) as pool:

            def again():
                # More than there are, so that none can be done before the others begin.
                for _ in range(8):
                    http.get(service.url)

            def send():
                http.get(service.url)
                contexts = [contextvars.copy_context() for _ in range(8)]
                waits = [pool.submit(each.run, again) for each in contexts]
                refused = [wait for wait in waits if isinstance(wait.exception(), Stopped)]
                assert len(refused) == 8

            self.body(guard, service, send)
        assert service.requests == 1 + 7


def test_a_def_that_returns_something_to_await(serve, make_guard):
    """What it sends while that is awaited is its own."""
    service, guard = serve(422), make_guard()

    async def main():
        async with async_client(guard, verify=False) as http:

            async def work():
                await http.get(service.url)
                return "nothing"

            with guard.within(run="r"):
                await guard.wrap(lambda: work(), name="tool")()

    with pytest.raises(Stopped) as stopped:
        asyncio.run(main())
    assert stopped.value.stop.status == 422


def test_outside_of_calls_there_is_no_body(make_guard):
    guard = make_guard()
    assert guard.bodies.innermost() is None
    assert not guard.spent(1)


class TestMadeByHand:
    def test_around_a_transport_of_ones_own(self, make_guard):
        guard = make_guard()
        inner = httpx2.MockTransport(lambda request: httpx2.Response(422))
        with httpx2.Client(transport=GuardTransport(guard, inner)) as http:
            tool = guard.wrap(lambda: f"said {http.get('http://x/').status_code}", name="tool")
            with guard.within(run="r"), pytest.raises(Stopped):
                tool()

    def test_around_an_async_one(self, make_guard):
        guard = make_guard()

        async def main():
            inner = httpx.MockTransport(lambda request: httpx.Response(422))
            async with httpx.AsyncClient(transport=AsyncGuardTransport(guard, inner)) as http:

                @guard.wrap
                async def tool():
                    return f"said {(await http.get('http://x/')).status_code}"

                with guard.within(run="r"):
                    await tool()

        with pytest.raises(Stopped):
            asyncio.run(main())

    @pytest.mark.parametrize("library", [httpx, httpx2])
    def test_without_one_it_makes_the_librarys_own(self, serve, make_guard, library):
        service, guard = serve(200), make_guard()
        with library.Client(transport=GuardTransport(guard)) as http:
            assert http.get(service.url).status_code == 200

        async def main():
            async with library.AsyncClient(transport=AsyncGuardTransport(guard)) as http:
                return (await http.get(service.url)).status_code

        assert asyncio.run(main()) == 200
        GuardTransport(guard).close()
        asyncio.run(AsyncGuardTransport(guard).aclose())
        with GuardTransport(guard):
            pass

        async def unused():
            async with AsyncGuardTransport(guard):
                pass

        asyncio.run(unused())

    def test_what_is_inside_is_closed_with_it(self, make_guard):
        closed = []

        class Inner(httpx2.MockTransport):
            def close(self):
                closed.append("sync")

            async def aclose(self):
                closed.append("async")

        guard, inner = make_guard(), Inner(lambda request: httpx2.Response(200))
        httpx2.Client(transport=GuardTransport(guard, inner)).close()
        made = httpx2.AsyncClient(transport=AsyncGuardTransport(guard, inner))
        asyncio.run(made.aclose())
        assert closed == ["sync", "async"]

    def test_two_beneath_each_other_count_once(self, serve, make_guard):
        """A refusal further in is the same refusal, and no answer."""
        service, guard = serve(503, 200), make_guard(limited(9))
        inner = GuardTransport(guard, httpx2.HTTPTransport(verify=False))
        with httpx2.Client(transport=GuardTransport(guard, inner)) as http:

            @guard.wrap
            def tool():
                http.get(service.url)
                return http.get(service.url).status_code

            with guard.within(run="r"):
                assert tool() == 200
        assert guard.report("r").totals.attempts == 2

    def test_a_refused_answer_is_closed(self, make_guard, clock):
        closed = []

        class Body(httpx2.SyncByteStream):
            def __iter__(self):
                yield b"x"

            def close(self):
                closed.append(True)

        guard = make_guard()
        inner = httpx2.MockTransport(lambda request: httpx2.Response(503, stream=Body()))
        layer = guard.retrying(deadline=1.0, wait=lambda state: 5.0, sleep=clock.tick)
        with httpx2.Client(transport=GuardTransport(guard, inner, retries=layer)) as http:
            tool = guard.wrap(lambda: http.get("http://x/").status_code, name="tool")
            with guard.within(run="r"), pytest.raises(Stopped):
                tool()
        assert closed == [True]


class TestPublic:
    def test_a_library_that_is_nowhere(self):
        with pytest.raises(ImportError, match="pip install"):
            loaded("httpx_of_tomorrow")

    def test_names_are_all_there(self):
        assert dir(lastcall_http) == lastcall_http.__all__ == sorted(lastcall_http.__all__)
        for name in lastcall_http.__all__:
            assert getattr(lastcall_http, name).__name__ == name
        with pytest.raises(AttributeError, match="nothing"):
            _ = lastcall_http.nothing

    @pytest.mark.parametrize("name", ["client", "session", "GuardAdapter"])
    def test_what_is_missing_is_named_with_its_cure(self, name):
        code = (
            "import sys\n"
            "for each in ('httpx', 'httpx2', 'requests'): sys.modules[each] = None\n"
            "import lastcall, lastcall_http\n"
            f"made = lastcall_http.{name}\n"
            "made(lastcall.Guard())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert 'pip install "lastcall[http]"' in done.stderr

    def test_the_import_brings_no_library(self):
        code = (
            "import sys, lastcall_http\n"
            "print(sorted({'httpx', 'httpx2', 'requests', 'tenacity'} & sys.modules.keys()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.stdout == "[]\n", done.stderr

    def test_one_library_is_enough(self, serve, make_guard):
        service = serve(422)
        code = (
            "import sys\n"
            "sys.modules['httpx2'] = sys.modules['requests'] = None\n"
            "import lastcall, lastcall_http\n"
            "guard = lastcall.Guard()\n"
            "http = lastcall_http.client(guard, library='httpx', verify=False)\n"
            f"tool = guard.wrap(lambda: str(http.get('{service.url}').status_code), name='t')\n"
            "with guard.within(run='r'):\n"
            "    try: tool()\n"
            "    except lastcall.Stopped as stopped: print(stopped.stop.status)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.stdout == "422\n", done.stderr

    def test_sessions_and_clients_are_the_libraries_own(self, make_guard):
        import requests

        guard = make_guard()
        with session(guard) as made:
            assert type(made) is requests.Session
        with client(guard, verify=False, base_url="http://x") as http:
            assert type(http) is httpx2.Client
            assert str(http.base_url) == "http://x"

    def test_classes_of_ones_own_are_the_librarys(self, make_guard):
        class Mine(httpx.Response):
            pass

        class Request(httpx.Request):
            pass

        guard = make_guard()
        inner = httpx.MockTransport(lambda request: Mine(200))
        with httpx.Client(transport=GuardTransport(guard, inner)) as http:
            tool = guard.wrap(lambda: http.send(Request("GET", "http://x/")), name="tool")
            with guard.within(run="r"):
                assert type(tool()) is Mine

    def test_a_copy_of_a_session_is_guarded(self, serve, make_guard):
        service, guard = serve(422), make_guard()
        with copy.deepcopy(session(guard)) as http:
            tool = guard.wrap(lambda: f"said {http.get(service.url).status_code}", name="tool")
            with guard.within(run="r"), pytest.raises(Stopped):
                tool()


LIBRARIES = [httpx, httpx2]


@pytest.mark.parametrize("library", LIBRARIES)
class TestRoads:
    """Which transport a request takes is as without a guard."""

    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch):
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)

    @pytest.mark.parametrize(
        "direct", ["", "*", "localhost,127.0.0.1,::1,.corp.example,example.org,https://a.test"]
    )
    def test_the_proxies_of_the_environment(self, serve, make_guard, monkeypatch, library, direct):
        proxy = serve(by=lambda number, asked: Answer(200, asked.path))
        service, guard = serve(200), make_guard()
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removeprefix("http://"))
        monkeypatch.setenv("NO_PROXY", direct)
        with client(guard, library=library.__name__, verify=False) as http:
            http.get(service.url)
            assert (service.requests, proxy.requests) == ((1, 0) if direct else (0, 1))
            if "corp" in direct:
                assert http.get("http://corp.example/").json() == "http://corp.example/"
                assert http.get("http://b.test/").json() == "http://b.test/"
                assert proxy.requests == 2

    def test_what_a_proxy_answers_is_seen(self, serve, make_guard, monkeypatch, library):
        proxy, guard = serve(422), make_guard()
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with client(guard, library=library.__name__, verify=False) as http:
            tool = guard.wrap(lambda: f"said {http.get('http://x.test/').status_code}", name="tool")
            with guard.within(run="r"), pytest.raises(Stopped):
                tool()
        assert proxy.requests == 1

    def test_unless_they_are_not_trusted(self, serve, make_guard, monkeypatch, library):
        proxy, service, guard = serve(200), serve(200), make_guard()
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        settings = {"library": library.__name__, "verify": False}
        with client(guard, trust_env=False, **settings) as http:
            http.get(service.url)
        other = serve(200)
        with client(guard, proxy=other.url, **settings) as http:
            http.get(service.url)
        assert (proxy.requests, service.requests, other.requests) == (0, 1, 1)

    def test_mounts_are_guarded(self, make_guard, library):
        guard = make_guard()
        inner = library.MockTransport(lambda request: library.Response(422))
        mounts = {"http://x.test": inner, "http://y.test": None}
        with client(guard, library=library.__name__, verify=False, mounts=mounts) as http:
            tool = guard.wrap(lambda: f"said {http.get('http://x.test/').status_code}", name="tool")
            with guard.within(run="r"), pytest.raises(Stopped):
                tool()


def test_guards_are_told_apart(serve):
    """A transport of one guard does nothing in the calls of another."""
    service, ours, theirs = serve(422), Guard(), Guard()
    with client(ours, verify=False) as http:
        tool = theirs.wrap(lambda: f"said {http.get(service.url).status_code}", name="tool")
        with theirs.within(run="r"):
            assert tool() == "said 422"


def test_a_library_that_is_none_of_ours():
    with pytest.raises(ValueError, match="one of httpx2, httpx, not 'urllib'"):
        client(Guard(), library="urllib")
