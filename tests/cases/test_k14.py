"""K14 Copies share the counter."""

from __future__ import annotations

import copy

from lastcall import Policy
from lastcall.testing import assert_stopped

from .playing import Body, Run, stop_of


class Tool:
    """A framework's tool: an object around a function, deep-copied before each call."""

    def __init__(self, guard, fn):
        self.guard = guard
        self.fn = guard.wrap(fn)
        self.settings = {"tags": ["a"]}


def test_copies_of_a_tool_count_together(make_guard):
    guard, body = make_guard(Policy(max_calls=2)), Body()
    tool = Tool(guard, body)
    for run in ("1", "2"):
        with guard.within(run=run):
            stops = []
            for agent in ("one", "two"):
                with guard.within(agent=agent):
                    for n in range(2):
                        copied = copy.deepcopy(tool)
                        assert copied.settings is not tool.settings
                        stops.append(stop_of(copied.fn, n=(agent, n)))
        assert [stop is None for stop in stops] == [True, True, False, False]
        for stop in stops[2:]:
            assert_stopped(stop, reason="ceiling")
            assert stop.agent == "two"
        assert body.runs == 2 * int(run)


def test_a_copied_guard_counts_with_the_first(make_guard):
    guard = make_guard(Policy(max_calls=2))
    run = Run(guard)
    assert [run.call("look", 1), run.call("look", 2)] == [None, None]
    for copied in (copy.copy(guard), copy.deepcopy(guard), copy.deepcopy([guard])[0]):
        run.guard = copied
        assert_stopped(run.call("look", 3), reason="ceiling")
