"""Plays agents of LangChain and LangGraph for `lastcall replay --live`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from lastcall import Stopped
from lastcall.live import Play, UnfinishedError
from lastcall_langchain import recorded
from lastcall_langchain.coverage import coverage
from lastcall_langchain.instrument import instrument
from lastcall_langchain.stops import stop_of

STEPS = 8
"""Steps of a graph for one request to its model: the model, the tools, and nodes of middleware around them."""


MESSAGES, AWAITED = "messages", "awaited"
"""Under which names it is kept from turn to turn what was said so far, and that the agent can only be awaited."""


class LangChainPlayer:
    """Plays compiled graphs and other runnables."""

    def plays(self, agent: object) -> bool:
        """Whether it is a runnable."""
        return isinstance(agent, Runnable)

    def gaps(self, agent: Any) -> Sequence[tuple[str, str]]:
        """Tools that run at the provider."""
        return coverage(agent).gaps

    def play(self, agent: Any, play: Play) -> Any:
        """Invoke the agent once, in the thread of the run; `ainvoke` where it has no `invoke`. One that takes
        messages and has no checkpointer is given those so far."""
        own = (getattr(agent, "config", None) or {}).get("recursion_limit", sys.maxsize)
        config = {
            "configurable": {"thread_id": play.thread},
            "recursion_limit": min(own, STEPS * play.most),
        }
        given = given_to(agent, play)
        undo = instrument(play.guard)
        recorded.TAPES.append(play.tape)
        try:
            result = invoked(agent, given, config, play)
        except Exception as error:
            keep(play, given, getattr(error, "messages", None))
            if type(error).__name__ == "GraphRecursionError":
                raise UnfinishedError(f"a limit: {str(error).split('. ')[0]}") from error
            stop = stop_of(error)
            if stop is None:
                raise
            raise Stopped(stop) from error
        finally:
            recorded.TAPES.remove(play.tape)
            undo()
        keep(play, given, result)
        stop = stop_of(result)
        if stop is not None:
            raise Stopped(stop)
        if isinstance(result, dict) and result.get("__interrupt__"):
            raise UnfinishedError("a pause: a person has to say how it goes on")
        return said(result)


def invoked(agent: Any, given: Any, config: dict[str, Any], play: Play) -> Any:
    """What *agent* comes to. One that can only be awaited says so before it calls anything."""
    if not play.kept.get(AWAITED):
        asked = play.tape.asked
        try:
            return agent.invoke(given, config)
        except (NotImplementedError, TypeError) as error:
            waits = isinstance(error, NotImplementedError) or "synchronous" in str(error)
            if not waits or play.tape.asked > asked:
                raise
        play.kept[AWAITED] = True
    return play.complete(agent.ainvoke(given, config))


def given_to(agent: Any, play: Play) -> Any:
    """What the user says as the agent takes it: a message of its state, a field `input`, or the text alone."""
    fields = fields_of(agent)
    if "messages" in fields:
        before = () if remembers(agent) else play.kept.get(MESSAGES, ())
        return {"messages": [*before, HumanMessage(play.prompt)]}
    return {"input": play.prompt} if "input" in fields else play.prompt


def remembers(agent: Any) -> bool:
    """Whether *agent* keeps the messages of a thread by itself."""
    return bool(getattr(agent, "checkpointer", None))


def keep(play: Play, given: Any, result: Any) -> None:
    """Keep the conversation as it is after a turn: as *result* has it, or the messages that a stopped run had come
    to, else what was *given* and the answer to that."""
    if not isinstance(given, dict) or "messages" not in given:
        return
    before = given["messages"]
    if isinstance(result, dict) and isinstance(result.get("messages"), list):
        play.kept[MESSAGES] = result["messages"]
    elif isinstance(result, tuple):
        play.kept[MESSAGES] = gone_on(before, result)
    elif isinstance(result, BaseMessage):
        play.kept[MESSAGES] = [*before, result]
    elif isinstance(result, str):
        play.kept[MESSAGES] = [*before, AIMessage(result)]
    else:
        play.kept[MESSAGES] = before


def gone_on(before: list[BaseMessage], read: tuple[BaseMessage, ...]) -> list[BaseMessage]:
    """The conversation *before*, as it had gone on when a model would have *read* that: without what the agent says to
    its model each time. As it was, where that model is another's, of an agent inside perhaps."""
    told = [one for one in read if one in before or not isinstance(one, SystemMessage)]
    begun = [one.content for one in told[: len(before)]]
    return told if begun == [one.content for one in before] else before


def fields_of(agent: Any) -> Collection[str]:
    """The names of what *agent* is given, as far as it tells."""
    channels = getattr(agent, "channels", None)
    if isinstance(channels, Mapping):
        return channels.keys()
    try:
        schema: dict[str, Any] = agent.get_input_jsonschema()
    except Exception:
        # It takes objects that no schema can describe.
        return ()
    named = schema.get("$defs", {}).get(str(schema.get("$ref")).rpartition("/")[2], schema)
    return frozenset(named.get("properties", ()))


def said(result: Any) -> Any:
    """The last answer in *result*."""
    if isinstance(result, dict):
        messages = result.get("messages")
        if isinstance(messages, list) and messages:
            return said(messages[-1])
        return result.get("output", result)
    return result.text if isinstance(result, BaseMessage) else result
