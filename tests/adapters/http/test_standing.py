"""What stands of the answers of one body, told by hand in the order in which things happen."""

from __future__ import annotations

import contextvars
import gc

import pytest

from lastcall.body import Body, Seen
from lastcall_http.flow import FLOWS
from lastcall_http.standing import KEPT, Asked, Standing

from .test_ledger import sending


class Sends:
    """A body, and the requests that are sent in it."""

    def __init__(self):
        self.body = Body("tool", "wrap")
        self.standing = Standing()

    def ask(self, path, **headers):
        return Asked(self.standing, sending(f"http://x{path}", headers=headers))

    def answer(self, asked, status):
        seen = Seen(status)
        asked.answered(self.body, seen, seen.outcome(), writes=False)
        asked.is_over()

    def send(self, path, status):
        self.answer(self.ask(path), status)

    @property
    def counts(self):
        assert self.body.last is not None
        return self.body.last.status


@pytest.fixture
def sends():
    return Sends()


def elsewhere():
    """A task or thread that begins here."""
    return contextvars.copy_context().run


def test_of_one_after_another_the_last_counts(sends):
    for status in (200, 404, 503, 422, 200, 500):
        sends.send(f"/{status}", status)
        assert sends.counts == status
    assert len(sends.standing.failures) == 1


def test_so_it_is_where_each_has_a_task_of_its_own(sends):
    for status in (404, 503, 422, 200):
        elsewhere()(sends.send, f"/{status}", status)
        assert sends.counts == status


@pytest.mark.parametrize(("order", "counts"), [((404, 200), 503), ((200, 404), 404)])
def test_an_equal_one_tells_how_it_is_now_whoever_sends_it(sends, order, counts):
    """Each attempt may have a task of its own, and others are on their way meanwhile."""
    other = elsewhere()(sends.ask, "/other")
    for path, status in (("/a", order[0]), ("/b", 503), ("/a", order[1])):
        elsewhere()(sends.send, path, status)
    sends.answer(other, 200)
    assert sends.counts == counts


@pytest.mark.parametrize("beside", [None, 200, 503])
@pytest.mark.parametrize("order", [(409, 201), (201, 409)])
def test_of_equal_ones_at_once_one_that_went_well_is_enough(sends, order, beside):
    """Sent twice so that one arrives: a service answers the second under one key by 409."""
    flows = [elsewhere() for _ in range(2)]
    under_way = [flow(sends.ask, "/a") for flow in flows]
    other = None if beside is None else elsewhere()(sends.ask, "/b")
    for flow, asked, status in zip(flows, under_way, order, strict=True):
        flow(sends.answer, asked, status)
    if other is not None:
        sends.answer(other, beside)
    assert sends.counts == (503 if beside == 503 else beside or 201)
    sends.send("/a", 409)
    assert sends.counts == 409


def test_parts_of_one_thing_at_once_are_each_its_own(sends):
    flows = [elsewhere() for _ in range(2)]
    under_way = [flow(sends.ask, "/a", Range=f"bytes={n}-{n}") for n, flow in enumerate(flows)]
    for flow, asked, status in zip(flows, under_way, (503, 206), strict=True):
        flow(sends.answer, asked, status)
    assert sends.counts == 503


def test_what_began_it_all_knows_of_everything(sends):
    sends.send("/list", 200)
    flows = [elsewhere() for _ in range(3)]
    under_way = [flow(sends.ask, f"/{n}") for n, flow in enumerate(flows)]
    for flow, asked, status in zip(flows, under_way, (404, 200, 503), strict=True):
        flow(sends.answer, asked, status)
    assert sends.counts == 404
    flows[1](sends.send, "/more", 200)
    assert sends.counts == 404
    flows[0](sends.send, "/instead", 200)
    assert sends.counts == 503
    sends.send("/instead", 200)
    assert sends.counts == 200


def test_an_answer_that_breaks_later_is_a_failure_after_all(sends):
    asked = sends.ask("/a")
    sends.answer(asked, 200)
    asked.answered(sends.body, Seen(error="broke"), Seen().outcome(), writes=False)
    assert sends.body.last.error == "broke"
    sends.send("/b", 200)
    assert sends.counts == 200


def test_a_tool_within_leaves_what_was_met_alone(sends):
    """The outer body meets a failure, calls a guarded tool that sends something, and gets past it."""
    sends.send("/a", 404)
    within = Sends()
    within.send("/b", 503)
    assert (sends.counts, within.counts) == (404, 503)
    sends.send("/instead", 200)
    assert (sends.counts, within.counts) == (200, 503)
    flows = [elsewhere() for _ in range(2)]
    under_way = [flow(sends.ask, f"/{n}") for n, flow in enumerate(flows)]
    for flow, asked, status in zip(flows, under_way, (404, 200), strict=True):
        flow(sends.answer, asked, status)
    within.send("/b", 200)
    sends.send("/instead", 200)
    assert (sends.counts, within.counts) == (200, 200)


def test_bodies_that_are_over_are_forgotten():
    def run():
        for _ in range(3):
            Sends().send("/a", 503)
            gc.collect()
        kept = Sends()
        kept.send("/a", 503)
        assert [it() for it in FLOWS.get()] == [kept.standing]

    elsewhere()(run)


def test_what_another_thread_may_be_walking_does_not_change():
    def run():
        gone, kept = Sends(), Sends()
        gone.send("/a", 503)
        kept.send("/a", 503)
        walked = FLOWS.get()
        del gone
        gc.collect()
        assert len(walked) == 2
        kept.send("/b", 503)
        assert len(FLOWS.get()) == 1

    elsewhere()(run)


def test_only_so_many_are_remembered(sends):
    other = elsewhere()(sends.ask, "/other")
    for n in range(KEPT + 10):
        elsewhere()(sends.send, f"/{n}", 503)
    assert len(sends.standing.failures) == KEPT
    sends.answer(other, 200)
    assert sends.counts == 503


def test_bodies_know_nothing_of_each_other(sends):
    sends.send("/a", 503)
    later = Sends()
    later.send("/b", 200)
    assert (sends.counts, later.counts) == (503, 200)
