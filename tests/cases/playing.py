"""What the cases share: a tool whose body counts, and calls whose stops are values."""

from __future__ import annotations

import asyncio
import threading

from lastcall import Call, Outcome, Stopped, Where


class HttpError(Exception):
    """An error with a status on itself."""

    def __init__(self, status_code, message="refused"):
        super().__init__(message)
        self.status_code = status_code


class ResponseError(Exception):
    """An error with a status on its response."""

    def __init__(self, status_code, message="refused"):
        super().__init__(message)
        self.response = type("Response", (), {"status_code": status_code, "headers": {}})()


class Body:
    """A tool's body: counts its starts, and answers what it was given (raises exceptions)."""

    def __init__(self, *answers, name="look"):
        self.answers = answers or ("ok",)
        self.__name__ = name
        self.started = []
        self._lock = threading.Lock()

    def __call__(self, **args):
        with self._lock:
            at = len(self.started)
            self.started.append(args)
        answer = self.answers[min(at, len(self.answers) - 1)]
        if callable(answer):
            answer = answer(**args)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def runs(self):
        return len(self.started)


def stop_of(fn, *args, **kwargs):
    """The stop that a call of a wrapped function meets; None when it returns or fails by itself."""
    try:
        fn(*args, **kwargs)
    except Stopped as stopped:
        return stopped.stop
    except Exception:
        return None
    return None


def stops_of(fn, *calls):
    """The stop that each call meets."""
    return [stop_of(fn, **args) for args in calls]


async def astop_of(fn, *args, **kwargs):
    """The same of a coroutine function."""
    try:
        await fn(*args, **kwargs)
    except Stopped as stopped:
        return stopped.stop
    except Exception:
        return None
    return None


def reasons(stops):
    return [stop and stop.reason for stop in stops]


class Run:
    """A hand-made loop over replies, as an adapter would drive the guard."""

    def __init__(self, guard, run="r", turn="t", thread=None):
        self.guard = guard
        self.where = Where(run=run, turn=turn, thread=thread)
        self.requests = 0
        self.bodies = 0
        self.ended = None

    def call(self, tool, args=None, answer="ok", /, **fields):
        """Make one call; the stop that it met."""
        verdict = self.guard.decide(Call(tool, args, self.where, **fields))
        if verdict.ticket is not None and fields.get("kind") != "malformed":
            self.bodies += 1
            answer = answer() if callable(answer) else answer
            if isinstance(answer, Outcome):
                outcome = answer
            elif isinstance(answer, BaseException):
                outcome = self.guard.raised(verdict.ticket, answer)
            else:
                outcome = self.guard.returned(verdict.ticket, answer)
            verdict = self.guard.observe(verdict.ticket, outcome)
        elif verdict.ticket is not None:
            verdict = self.guard.observe(
                verdict.ticket, Outcome("error", "not parsed", error="not parsed")
            )
        self.ended = self.ended or verdict.ending
        return verdict.stop

    def reply(self, *calls):
        """One reply of the model: (tool, args) or (tool, args, answer) each; the stops of its calls."""
        self.requests += 1
        return [
            self.call(
                *each,
                id=f"c{self.requests}.{index}",
                reply=str(self.requests),
                index=index,
                size=len(calls),
            )
            for index, each in enumerate(calls)
        ]


def at_once(count, work):
    """Run *work(index)* on so many threads that begin together; the results in order."""
    barrier = threading.Barrier(count)
    results = [None] * count
    errors = []

    def one(index):
        try:
            barrier.wait(timeout=30)
            results[index] = work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    if errors:
        raise errors[0]
    return results


def gathered(count, work):
    """The same with coroutines on one event loop."""

    async def every():
        return await asyncio.gather(*(work(index) for index in range(count)))

    return asyncio.run(every())
