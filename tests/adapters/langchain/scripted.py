"""Scripted chat models, and what the tests ask of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

STUBBORN = 40
"""How often a stubborn model asks, whatever it is told."""

USER: Any = {"messages": [("user", "go")]}


class Scripted(BaseChatModel):
    """Gives its replies one after the other, then says that it is done. It keeps no place of its own: the
    replies so far in the conversation tell which is next, so one model serves many runs at once."""

    script: list[AIMessage]
    asked: list[int] = []
    """One entry for each request, over all runs."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        last = max((i for i, m in enumerate(messages) if m.type == "human"), default=-1)
        turn = sum(isinstance(message, AIMessage) for message in messages[last + 1 :])
        self.asked.append(turn)
        said = self.script[turn] if turn < len(self.script) else AIMessage("done")
        said = said.model_copy(update={"id": f"ai-{uuid4().hex}"})
        return ChatResult(generations=[ChatGeneration(message=said)])


def scripted(*replies: AIMessage) -> Scripted:
    """A model that gives *replies* in every turn."""
    return Scripted(script=list(replies), asked=[])


def stubborn(make: Callable[[int], dict[str, Any]], name: str = "look") -> Scripted:
    """A model that asks for *name* 40 times, with `make(i)` as arguments."""
    return scripted(*(reply(asking(name, make(i), f"c{i}")) for i in range(STUBBORN)))


def asking(name: str, args: dict[str, Any], call_id: str) -> dict[str, Any]:
    """One tool call."""
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def reply(*calls: dict[str, Any], text: str = "") -> AIMessage:
    """One reply of a model."""
    return AIMessage(text, tool_calls=list(calls))


def asked_alone(name: str, many: Iterable[dict[str, Any]]) -> list[AIMessage]:
    """Replies with one call each."""
    return [reply(asking(name, args, f"c{i}")) for i, args in enumerate(many)]


def unanswered(messages: Sequence[BaseMessage]) -> list[str]:
    """Ids of calls that no message answers right after the reply that made them."""
    missing: list[str] = []
    for at, message in enumerate(messages):
        if isinstance(message, AIMessage) and message.tool_calls:
            answered: set[str] = set()
            for following in messages[at + 1 :]:
                if not isinstance(following, ToolMessage):
                    break
                answered.add(following.tool_call_id)
            missing += [str(c["id"]) for c in message.tool_calls if c["id"] not in answered]
    return missing
