"""What holds for clients that no transport is beneath, of which aiohttp is the one most used."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from lastcall import Stopped


def call(guard, body, **session):
    async def main():
        async with aiohttp.ClientSession(**session) as http:

            @guard.wrap(name="tool", writes=True)
            async def tool():
                return await body(http)

            with guard.within(run="r"):
                return await tool()

    return asyncio.run(main())


def outcomes(events):
    return [(event.outcome, event.status) for event in events if event.kind == "attempt"]


def test_a_status_that_is_raised_is_read(serve, guard, events):
    service = serve(422)

    async def body(http):
        async with http.post(service.url) as answer:
            return await answer.text()

    with pytest.raises(Stopped) as stopped:
        call(guard, body, raise_for_status=True)
    assert stopped.value.stop.status == 422
    assert outcomes(events) == [("error", 422)]


def test_one_that_is_hidden_is_not_and_no_key_is_sent(serve, guard, events):
    service = serve(422)

    async def body(http):
        async with http.post(service.url):
            return "Sorry, that did not work out."

    assert call(guard, body) == "Sorry, that did not work out."
    assert outcomes(events) == [("ok", None)]
    assert service.header("idempotency-key") == [None]
