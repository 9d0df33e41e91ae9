"""What tests of guarded agents need: a clock that stands still, and a look at a stop."""

from __future__ import annotations

from lastcall.stop import Stop, Stopped


class FakeClock:
    """A clock that only `tick` moves."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        """Epoch seconds."""
        return self._now

    def tick(self, seconds: float) -> None:
        """Let *seconds* pass. Raises ValueError for a negative number: no clock goes back."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back by {-seconds} seconds")
        self._now += seconds


def assert_stopped(
    stopped: Stop | Stopped | BaseException | None,
    *,
    reason: str | None = None,
    scope: str | None = None,
    status: int | None = None,
) -> Stop:
    """The stop in *stopped*, after checking what is given of it. Raises AssertionError otherwise."""
    stop = stopped if isinstance(stopped, Stop) else getattr(stopped, "stop", None)
    if not isinstance(stop, Stop):
        raise AssertionError(f"not stopped: {stopped!r}")  # noqa: TRY004 - it is a test's finding
    for name, wanted in (("reason", reason), ("scope", scope), ("status", status)):
        if wanted is not None and getattr(stop, name) != wanted:
            raise AssertionError(
                f"stopped, but its {name} is {getattr(stop, name)!r}, not {wanted!r}: {stop.text}"
            )
    return stop
