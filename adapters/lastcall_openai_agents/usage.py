"""What a model's response says of itself: tokens, and the tools that its provider ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from agents import Agent, ModelResponse, ShellTool

from lastcall import Outcome, Usage

CALL = "_call"
"""How the type of an item ends in which the provider tells of a call that it made."""

HERE = frozenset({"function", "custom_tool", "computer", "local_shell", "shell", "apply_patch"})
"""Types of calls that run here, without that ending."""

OURS = HERE | {"program"}
"""Those, and what only leads to them: they are no calls of the provider's own tools."""


def answered(agent: Agent[Any], response: ModelResponse) -> Outcome:
    """The outcome of a request by *agent* that brought *response*."""
    offered = dict.fromkeys(hosted_names(agent.tools))
    return Outcome(usage=used(agent, response), hosted={**offered, **hosted(response)})


def used(agent: Agent[Any], response: ModelResponse) -> Usage | None:
    """The tokens of *response*; None where its provider told none."""
    said = response.usage
    if not (said.input_tokens or said.output_tokens):
        return None
    model = agent.model
    return Usage(
        model=model if isinstance(model, str) else getattr(model, "model", None),
        input=said.input_tokens,
        output=said.output_tokens,
        cached=getattr(said.input_tokens_details, "cached_tokens", 0) or 0,
        reasoning=getattr(said.output_tokens_details, "reasoning_tokens", 0) or 0,
    )


def hosted(response: ModelResponse) -> dict[str, int]:
    """The calls that the provider made by itself, by the tool's name."""
    kinds = (kind_of(item) for item in response.output)
    return dict(Counter(kind for kind in kinds if kind is not None and kind not in OURS))


def kind_of(item: Any) -> str | None:
    """Which kind of call *item* of a response is; None for others."""
    kind = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    return kind.removesuffix(CALL) if isinstance(kind, str) and kind.endswith(CALL) else None


def run_here(agent: Agent[Any], item: Any) -> bool:
    """Whether *item* of a response to *agent* is a call that runs here. A shell may do so or not."""
    kind = kind_of(item)
    hosted = kind == "shell" and any(
        isinstance(tool, ShellTool) and tool.executor is None for tool in agent.tools
    )
    return kind in HERE and not hosted


def hosted_names(tools: Iterable[Any]) -> list[str]:
    """The names of those of *tools* that the provider runs, as its items are named."""
    return [HOSTED[type(tool).__name__] for tool in tools if type(tool).__name__ in HOSTED]


HOSTED = {
    "WebSearchTool": "web_search",
    "FileSearchTool": "file_search",
    "CodeInterpreterTool": "code_interpreter",
    "ImageGenerationTool": "image_generation",
    "HostedMCPTool": "mcp",
    "ToolSearchTool": "tool_search",
}
"""The SDK's classes of tools that run at the provider, and what the items of their calls are named."""
