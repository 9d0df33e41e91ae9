"""The last answer of a run that is to end: one more request to the model, with tools withdrawn."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from lastcall import Guard, Stop, Verdict
from lastcall_langchain.control import bubbles
from lastcall_langchain.places import run_of
from lastcall_langchain.roots import agent_of
from lastcall_langchain.runs import RUNS
from lastcall_langchain.stops import farewell, mark, marked

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse

OWN = frozenset({"turn", "run", "thread"})
"""Scopes after whose stop one may still be asked. Beyond them (a user's budget, a kill switch) others
are stopped as well, and a request is just what must not be made."""

ABOUT_TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
"""Model settings that providers refuse where there are no tools."""

log = logging.getLogger("lastcall")


def due(guard: Guard, verdict: Verdict, messages: Sequence[BaseMessage]) -> bool:
    """Whether the agent in which this is asked gives a last answer before *verdict* ends it."""
    run = run_of()
    if run is None:
        return False
    agent, stop = agent_of(run), verdict.ending
    if stop is None:
        RUNS.last.answers(agent, guard, verdict.call.where.run)
        return False
    # Where nothing was asked yet in this turn there is nothing to answer from.
    begun = any(isinstance(each, AIMessage) for each in this_turn(messages))
    asks = begun and stop.scope in OWN and stop.reason != "kill" and not given(messages)
    return asks and RUNS.last.answer(agent, guard, stop)


def given(messages: Sequence[BaseMessage]) -> bool:
    """Whether the last words of this turn are said."""
    return any(isinstance(each, AIMessage) and marked(each) for each in this_turn(messages))


def asked_for(guard: Guard) -> Stop | None:
    """The stop for which the model is about to be asked once more; None for any other request."""
    run = run_of()
    return None if run is None else RUNS.last.opens(agent_of(run), guard)


def request_for(stop: Stop, request: ModelRequest) -> ModelRequest:
    """*request* without tools and with the text of *stop* among its instructions."""
    settings = without_tools(request.model_settings)
    # A schema would have the model make up what it did not find.
    bare = request.override(
        tools=[], tool_choice=None, response_format=None, model_settings=settings
    )
    return with_instruction(bare, stop.text)


def with_instruction(request: ModelRequest, text: str) -> ModelRequest:
    """*request* with *text* at the end of its instructions."""
    # At the front: some providers take nothing but a reply after the results of tools.
    if not hasattr(request, "system_message"):
        # The first langchain 1.x has but a text.
        before: Any = request.system_prompt
        said: Any = {"system_prompt": f"{before}\n\n{text}" if before else text}
        return request.override(**said)
    return request.override(system_message=instructed(request.system_message, text))


def without_tools(settings: Mapping[str, Any]) -> dict[str, Any]:
    """*settings* of a model, for a request that has no tools."""
    return {name: value for name, value in settings.items() if name not in ABOUT_TOOLS}


def instructed(system: SystemMessage | None, text: str) -> SystemMessage:
    """*system* with *text* at its end."""
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": text}]})


def given_by(response: ModelResponse | AIMessage, stop: Stop) -> AIMessage:
    """The model's answer as the last message: its text, marked; a call in it is nobody's to answer."""
    messages = [response] if isinstance(response, AIMessage) else response.result
    said = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
    if said is None:
        return farewell(stop)
    text = str(said.text).strip()
    if text and not said.tool_calls and not said.invalid_tool_calls:
        metadata = {**said.response_metadata, **mark(stop)}
        return said.model_copy(update={"response_metadata": metadata})
    # Calls stand in many places of a message, and what led to them goes with them.
    return AIMessage(
        text or stop.text,
        id=said.id,
        name=said.name,
        usage_metadata=said.usage_metadata,
        response_metadata=mark(stop),
    )


def not_given(error: Exception, stop: Stop) -> AIMessage:
    """The last message of a run whose model could not be asked; LangGraph's control flow goes on."""
    if bubbles(error):
        raise error
    log.warning("no last answer was given: %r", error)
    return farewell(stop)


def this_turn(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages after the user's last."""
    at = next(
        (i for i, each in enumerate(reversed(messages)) if isinstance(each, HumanMessage)), None
    )
    return messages if at is None else messages[len(messages) - at :]
