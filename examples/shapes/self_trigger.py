"""Self-trigger: an agent is woken by its own write, and each write wakes it again.

A bot comments on every change of a ticket, and its comment is a change. There is no loop in any one run: each has
one call, so no rule that looks at a run can see it. Governed, the comment is declared a write of its own text: an
equal one is answered by the first result, nothing is written, and nobody is woken. Where the words differ each
time, a budget per agent and hour ends it, and says when it lifts. (Origins of events, which would drop the very
first one, are not here yet.)

Run: python examples/shapes/self_trigger.py
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from story import line

from lastcall import Guard, Policy, Stopped
from lastcall.rules import Budget, Limit
from lastcall.testing import FakeClock

MORNING = 500
"""Wake-ups after which somebody looks at the bill."""

HOURLY = 20

Words = Callable[[int], str]


def noted(_: int) -> str:
    """The same comment each time."""
    return "Thanks, we look into it."


def counted(number: int) -> str:
    """Another one each time."""
    return f"Thanks! This ticket has {number} changes by now."


def night(words: Words, guard: Guard | None, clock: FakeClock) -> tuple[int, int, str]:
    """Wake-ups, comments written, and how it ended."""
    changes = deque(["the customer wrote"])
    comments: list[str] = []

    def comment(ticket: str, text: str) -> dict[str, int]:
        comments.append(text)
        changes.append("a comment was added")  # which is what wakes the bot
        return {"comment": len(comments)}

    write = comment
    if guard:
        write = guard.wrap(writes=True, identity=["ticket", "text"], on_repeat="replay")(comment)
    woken, ending = 0, "nothing woke it any more"
    while changes and woken < MORNING:
        changes.popleft()
        woken += 1
        clock.tick(30)
        if guard is None:
            write("T-1", words(woken))
            continue
        with guard.within(run=f"wake-up {woken}", agent="greeter"):
            try:
                write("T-1", words(woken))
            except Stopped as stopped:
                ending = f"stopped by {stopped.stop.cause} until {stopped.stop.resets_at:%H:%M} UTC"
    if woken == MORNING:
        ending = "somebody looked at the bill"
    return woken, len(comments), ending


def main() -> None:
    """Two kinds of words, ungoverned beside governed."""
    for what, words in (
        ("The same comment each time", noted),
        ("Another comment each time", counted),
    ):
        print(what)
        for who in ("ungoverned", "governed"):
            clock = FakeClock()
            hourly = Limit(per="agent", window="hour", most=HOURLY, tools=("comment",))
            policy = Policy().replaced(Budget(limits=(hourly,)))
            guard = Guard(policy, clock=clock) if who == "governed" else None
            woken, written, ending = night(words, guard, clock)
            line(who, f"{written:>3} written", f"woken {woken} times; {ending}")


if __name__ == "__main__":
    main()
