"""Guards every run of the process without touching its code, as observability libraries do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lastcall import Guard
from lastcall_openai_agents import fields, handovers
from lastcall_openai_agents.computers import ACTING
from lastcall_openai_agents.functions import CHECKING, INVOKING
from lastcall_openai_agents.guards import EVERYWHERE
from lastcall_openai_agents.runner import install
from lastcall_openai_agents.seams import Seam

log = logging.getLogger("lastcall")
_LOCK = threading.Lock()


def instrument(guard: Guard) -> Callable[[], None]:
    """Take every call of every tool and every hand-over in this process past *guard*, and ask it before
    each request to a model; the function that is returned undoes it.

    It covers `Runner.run`, `run_sync`, `run_streamed` and the tools of realtime sessions. Asking twice
    for one guard is asking once. A call that is guarded by the same guard elsewhere too (`guard_agent`,
    `guard_tools`, `GuardHooks`, `guard.wrap`) counts once. What a release of the SDK does in a way that
    is not known here is named in the log; raises RuntimeError when that is function tools.
    """
    if not any(seam.there for seam in INVOKING):
        raise RuntimeError(
            f"this release of openai-agents has no agents.tool.{INVOKING[0].place.name} as it is known"
            " here, so instrument cannot see its tools; guard_agent(agent, guard) does"
        )
    install()
    with _LOCK:
        if guard not in EVERYWHERE:
            EVERYWHERE.append(guard)
        for what, seam in SEAMS:
            seam.open()
            if not seam.there:
                log.warning(
                    "%s is not guarded: this release of openai-agents has no %s",
                    what,
                    seam.place.name,
                )

    def undo() -> None:
        with _LOCK:
            if guard in EVERYWHERE:
                EVERYWHERE.remove(guard)
            if not EVERYWHERE:
                for _, seam in SEAMS:
                    seam.close()

    return undo


SEAMS: list[tuple[str, Seam | fields.Field]] = [
    *(("a function tool", seam) for seam in INVOKING),
    ("a function tool, before its hooks,", CHECKING),
    *fields.SEAMS.items(),
    ("a computer", ACTING),
    ("a hand-over", handovers.SEAM),
]
"""All that is needed, and what for."""
