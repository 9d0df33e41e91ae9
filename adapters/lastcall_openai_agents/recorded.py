"""What stands in for the bodies of tools while a saved run is lived again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agents import ApplyPatchResult

from lastcall_openai_agents import _sdk

if TYPE_CHECKING:
    from lastcall.tape import Tape

TAPES: list[Tape] = []
"""The recording that answers, as long as a run is lived again in this process; no body runs then, but those
of agents that are used as tools: they are lived with, too."""


def answered() -> Any:
    """What the call in whose body this is asked was answered then. Raises what it failed with."""
    answer = TAPES[-1].answer()
    if answer.failure is not None:
        raise answer.failure
    return answer.content


async def text(*_: Any) -> str:
    """The same as text, for tools that can say nothing else."""
    content = answered()
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


class Editor:
    """An editor of files that writes none."""

    async def create_file(self, operation: Any) -> ApplyPatchResult:
        """What was answered then."""
        return ApplyPatchResult(output=await text(operation))

    update_file = delete_file = create_file


async def whole() -> Any:
    """The result of the call of a function tool that only looks like one."""
    return _sdk.refused(await text())


def body(field: str) -> Any:
    """What stands in for the *field* in which a tool keeps what it does."""
    return Editor() if field == "editor" else text
