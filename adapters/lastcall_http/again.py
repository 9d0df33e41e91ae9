"""Retries requests on the wire, as the one layer that does: by the settings of `guard.retrying`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, Retrying
from typing_extensions import override

from lastcall import Stopped
from lastcall.retrying import Retries
from lastcall.retrying.ready import LAYERS, Run, last
from lastcall_http.passage import Passage
from lastcall_http.sending import IDEMPOTENT


class Again(Run):
    """One request and its attempts, of which each is a passage of its own. *passage* makes them."""

    def __init__(self, by: Retries, passage: Callable[[], Passage]) -> None:
        self.make = passage
        self.passage = passage()
        super().__init__(by, self.passage.call, self.passage.call.policy)
        self.reading = self.passage.ticket
        self.repeats = self.passage.ledger.repeats(self.passage.sending)
        """Whether a layer outside sends it again already."""
        until = self.passage.body.until
        if until is not None:
            self.ends = until if self.ends is None else min(self.ends, until)

    @property
    @override
    def layer_name(self) -> str:
        return f"the transport's retries (of {self.call.name})"

    def send(self, once: Callable[[Passage], Any], close: Callable[[Any], None]) -> Any:
        """The answer in the end; *once* sends it, *close* lets go of an answer that nobody gets."""
        engine = Retrying(
            sleep=self.by.sleep,
            stop=self.stop,
            wait=self.by.wait,
            retry=self.again,
            before_sleep=lambda state: self.told_of(state, close),
            retry_error_callback=last,
        )
        value: Any = None
        failure: BaseException | None = None
        with self.layer():
            try:
                value = engine(self.attempt, lambda: once(self.passage))
            except BaseException as error:
                failure = error
        if self.refusal is not None and value is not None:
            close(value)
        return self.result(value, failure)

    async def asend(
        self, once: Callable[[Passage], Awaitable[Any]], close: Callable[[Any], Awaitable[None]]
    ) -> Any:
        """`send` for an event loop."""

        async def told(state: RetryCallState) -> None:
            self.told(state)
            response = answer_of(state)
            if response is not None:
                await close(response)

        engine = AsyncRetrying(
            sleep=self.by.asleep,
            stop=self.astop,  # type: ignore[arg-type]  # tenacity awaits it; its type says otherwise
            wait=self.by.wait,
            retry=self.aagain,
            before_sleep=told,
            retry_error_callback=last,
        )
        value: Any = None
        failure: BaseException | None = None
        with self.layer():
            try:
                value = await engine(self.aattempt, lambda: once(self.passage))
            except BaseException as error:
                failure = error
        if self.refusal is not None and value is not None:
            await close(value)
        return self.result(value, failure)

    @override
    def attempt(self, body: Callable[[], Any]) -> Any:
        self.next()
        try:
            return body()
        except Stopped as stopped:
            self.refusal = stopped
            raise
        finally:
            self.outcome = self.passage.outcome

    @override
    async def aattempt(self, body: Callable[[], Awaitable[Any]]) -> Any:
        self.next()
        try:
            return await body()
        except Stopped as stopped:
            self.refusal = stopped
            raise
        finally:
            self.outcome = self.passage.outcome

    def next(self) -> None:
        """Another attempt has a passage of its own."""
        self.number += 1
        if self.number > 1:
            self.passage = self.make()

    def told_of(self, state: RetryCallState, close: Callable[[Any], None]) -> None:
        """There is going to be another one, and the answer to this one is nobody's."""
        self.told(state)
        response = answer_of(state)
        if response is not None:
            close(response)

    @override
    def exhausted(self, state: RetryCallState) -> bool:
        outer = LAYERS.get()[:-1]
        if outer:
            both = f"{self.layer_name} and guard.retrying of {outer[-1]}"
            self.guard.warned(self.call, f"{both} both retry: the inner one makes one attempt")
            return True
        # A stream cannot be sent twice, and a layer that sends it again itself needs no second one.
        return self.passage.sending.body is None or self.repeats or super().exhausted(state)

    @property
    @override
    def once(self) -> bool:
        # What its method promises may be sent twice, whatever the tool does besides.
        return super().once and self.passage.sending.method not in IDEMPOTENT


def answer_of(state: RetryCallState) -> Any:
    """The answer to the latest attempt; None where there was none."""
    done = state.outcome
    return None if done is None or done.failed else done.result()
