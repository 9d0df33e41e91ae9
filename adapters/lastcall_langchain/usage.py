"""What a model's answer says of itself: tokens, and the tools that its provider ran."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from lastcall import Guard, Usage

OWN = frozenset({"function", "input_schema", "parameters", "args_schema"})
"""A tool with one of these is one that the client runs."""

log = logging.getLogger("lastcall")

_NAMED: WeakKeyDictionary[Guard, set[str]] = WeakKeyDictionary()


def usage(response: Any) -> Usage | None:
    """The tokens of all answers in *response*, an LLMResult; None when it does not tell."""
    told = [each for each in map(tokens, messages_of(response)) if each is not None]
    if not told:
        return None
    return Usage(
        model=told[0].model,
        input=sum(each.input for each in told),
        output=sum(each.output for each in told),
        cached=sum(each.cached for each in told),
        reasoning=sum(each.reasoning for each in told),
    )


def tokens(message: Any) -> Usage | None:
    """The tokens that one message says it cost."""
    said = getattr(message, "usage_metadata", None)
    if not isinstance(said, Mapping):
        return None
    about = getattr(message, "response_metadata", None) or {}
    read = said.get("input_token_details") or {}
    written = said.get("output_token_details") or {}
    return Usage(
        model=about.get("model_name") or about.get("model"),
        input=said.get("input_tokens") or 0,
        output=said.get("output_tokens") or 0,
        cached=read.get("cache_read") or 0,
        reasoning=written.get("reasoning") or 0,
    )


def messages_of(response: Any) -> Iterator[Any]:
    """Every message in an LLMResult."""
    for generations in response.generations:
        for each in generations:
            message = getattr(each, "message", None)
            if message is not None:
                yield message


def offered(params: Any) -> tuple[str, ...]:
    """The tools among the parameters of a request that its provider runs by itself."""
    tools = params.get("tools") if isinstance(params, Mapping) else None
    return tuple(hosted_names(tools)) if isinstance(tools, Sequence) else ()


def hosted_names(tools: Sequence[Any]) -> Iterator[str]:
    """The names of those of *tools* that are nothing but a description for the provider."""
    for each in tools:
        if not isinstance(each, Mapping) or not each or OWN & each.keys():
            continue
        if each.get("type") in ("function", "custom"):
            continue
        yield str(each.get("name") or each.get("type") or next(iter(each)))


def hosted(response: Any, offers: tuple[str, ...]) -> dict[str, int | None]:
    """The calls that the provider made by itself, as far as *response* shows them."""
    seen: Counter[str] = Counter()
    for message in messages_of(response):
        if not isinstance(getattr(message, "content", None), list):
            continue
        for block in message.content_blocks:
            if block["type"] == "server_tool_call":
                seen[str(block.get("name"))] += 1
    return {**dict.fromkeys(offers), **seen}


def name_hosted(guard: Guard, tools: tuple[str, ...]) -> None:
    """Say once of each of *tools* that *guard* cannot stop it."""
    named = _NAMED.setdefault(guard, set()) if tools else set()
    for tool in tools:
        if tool not in named:
            named.add(tool)
            log.warning(
                "%s is run by the model's provider: it is not guarded, and its calls are counted only"
                " where the answer shows them",
                tool,
            )
