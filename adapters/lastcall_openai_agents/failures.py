"""What the model reads of a tool that raised a stop: the stop, and not what is said of failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from lastcall import Stopped
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.seams import Seam


def wording(word: Callable[..., Any]) -> Callable[..., Any]:
    """*word*, which puts failures into words. A guarded function, or a nested run, has said itself what the
    model should read; where failures are meant for the caller of the run, so are stops."""

    @wraps(word)
    async def worded(**given: Any) -> Any:
        error, tool, ctx = given["error"], given["function_tool"], given["context"]
        if not isinstance(error, Stopped) or _sdk.raises(tool, ctx):
            return await word(**given)
        _sdk.bypass_schema(tool, ctx)
        return error.stop.text

    return worded


SEAM = Seam(_sdk.WORDING, wording)
"""Open as long as the adapter is loaded: a function that is only decorated has no other way to answer."""
