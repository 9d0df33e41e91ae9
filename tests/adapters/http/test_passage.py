"""One request and what it is settled by."""

from __future__ import annotations

import asyncio

from requests import Request

from lastcall_http.passage import Passage, Wire, causes, shorter
from lastcall_http.sending import OfRequests


def test_it_is_settled_once(make_guard):
    events = []
    guard = make_guard(listeners=[events.append])
    sending = OfRequests(Request("GET", "http://x/").prepare())
    with guard.within(run="r"):

        @guard.wrap
        def tool():
            body = guard.bodies.innermost()
            assert body is not None
            assert body.ticket is not None
            passage = Passage(Wire(guard), body, body.ticket, sending)
            passage.admit("a loop of the test")
            passage.answered(503, {}, None)
            passage.settle()
            passage.settle()
            asyncio.run(passage.asettle())
            return {"status_code": 200}

        tool()
    assert [event.status for event in events if event.kind == "attempt"] == [503, 200]


def test_causes_have_an_end():
    error: BaseException = ValueError("0")
    for n in range(20):
        try:
            raise ValueError(n) from error
        except ValueError as further:
            error = further
    assert len(list(causes(error))) == 8
    assert len(list(causes(ValueError()))) == 1


def test_time_outs_are_never_longer_than_they_were():
    assert shorter(None, 5) == 5
    assert shorter(3, 5) == 3
    assert shorter(9, 5) == 5
