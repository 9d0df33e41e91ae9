"""Scripted models on the real SDK: no network, no mocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCustomToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from lastcall_openai_agents import stop_of

ASKS = 40


class Script(Model):
    """Gives one reply a request, whole or streamed, whatever it is told. The SDK has one like it, but
    only since lately, and it does not stream custom tools."""

    def __init__(self, replies: Any) -> None:
        self.replies = list(replies)
        self.calls: list[Any] = []
        """What it was asked, by request."""

    async def get_response(
        self, system_instructions: Any, input: Any, *rest: Any, **more: Any
    ) -> Any:
        return ModelResponse(output=self._next(input), usage=Usage(requests=1), response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *rest: Any, **more: Any
    ) -> Any:
        response = Response(
            id="r",
            created_at=0,
            model="script",
            object="response",
            output=self._next(input),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )

    def _next(self, asked: Any) -> list[Any]:
        self.calls.append(asked)
        assert self.replies, "asked more often than there are replies"
        return self.replies.pop(0)


def call(name: str, args: Any = None, id: str = "c1") -> Any:
    text = args if isinstance(args, str) else json.dumps({} if args is None else args)
    return ResponseFunctionToolCall(
        id=id, call_id=id, type="function_call", name=name, arguments=text
    )


def custom_call(name: str, text: str, id: str) -> Any:
    return ResponseCustomToolCall(type="custom_tool_call", name=name, call_id=id, input=text)


def script(*replies: Any) -> Script:
    """A model that gives *replies*, one a request: a text, a call, or a list of calls."""
    return Script(_reply(each) for each in replies)


def stubborn(name: str, args: Callable[[int], Any], times: int = ASKS) -> Script:
    """A model that asks *times* times, whatever it is told."""
    return script(*[call(name, args(i), f"call-{i}") for i in range(times)], "done")


def _reply(reply: Any) -> list[Any]:
    if isinstance(reply, str):
        text = ResponseOutputText(text=reply, type="output_text", annotations=[], logprobs=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        return [message]
    return list(reply) if isinstance(reply, list) else [reply]


@dataclass
class Played:
    model: Script
    result: Any = None
    error: BaseException | None = None
    session: list[Any] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return len(self.model.calls)

    @property
    def stop(self) -> Any:
        return stop_of(self.error if self.error is not None else self.result)

    @property
    def items(self) -> list[Any]:
        if self.error is not None:
            return [each.raw_item for each in self.error.run_data.new_items]
        return [each.raw_item for each in self.result.new_items]

    @property
    def outputs(self) -> dict[str, str]:
        """What the model was told, by call id."""
        return {
            get(item, "call_id"): get(item, "output")
            for item in self.items
            if str(get(item, "type")).endswith("_output")
        }

    @property
    def unanswered(self) -> list[str]:
        return unanswered(self.items) + unanswered(self.session)


def unanswered(items: list[Any]) -> list[str]:
    asked = [
        get(i, "call_id") for i in items if get(i, "type") in ("function_call", "custom_tool_call")
    ]
    told = {get(i, "call_id") for i in items if str(get(i, "type")).endswith("_output")}
    return [each for each in asked if each not in told]


def get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else getattr(item, key, None)


async def aplay(agent: Agent[Any], mode: str = "run", text: Any = "hi", **options: Any) -> Played:
    """Run *agent*, and tell what came of it."""
    options.setdefault("max_turns", 100)
    session = options.setdefault("session", SQLiteSession("s", ":memory:"))
    played = Played(agent.model)  # type: ignore[arg-type]
    try:
        if mode == "run":
            played.result = await Runner.run(agent, text, **options)
        else:
            played.result = Runner.run_streamed(agent, text, **options)
            async for _ in played.result.stream_events():
                pass
    except Exception as error:
        played.error = error
    played.session = await session.get_items()
    return played


def play(agent: Agent[Any], mode: str = "run", text: Any = "hi", **options: Any) -> Played:
    return asyncio.run(aplay(agent, mode, text, **options))
