"""What stands in for the bodies of tools while a saved run is lived again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from lastcall_langchain.outcomes import hear

if TYPE_CHECKING:
    from lastcall.tape import Tape

TAPES: list[Tape] = []
"""The recording that answers, as long as a run is lived again in this process; no body runs then."""


def answered(tool: BaseTool) -> Any:
    """What the call of *tool*, in whose body this is asked, was answered then."""
    answer = TAPES[-1].answer()
    content = answer.content
    if answer.failure is None:
        hear(content)
    else:
        # Not raised: what becomes of an exception in a graph is not recorded, that the model read it is.
        hear(answer.failure)
        content = str(answer.failure)
        if answer.call_id is not None:
            content = ToolMessage(
                content, tool_call_id=answer.call_id, name=tool.name, status="error"
            )
    return (content, None) if tool.response_format == "content_and_artifact" else content
