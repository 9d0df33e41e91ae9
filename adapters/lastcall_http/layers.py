"""Which layers send a request again: a client's own retries, urllib3's, tenacity's, the guard's.

Asked only once a request comes a second time: the stack is looked at then, and no layer is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

COUNT = "x-stainless-retry-count"
"""The header in which clients made by Stainless (OpenAI's, Anthropic's) say how often they retried."""

CLIENT = "the client's own retries (max_retries)"
URLLIB3 = "urllib3's Retry on the adapter (max_retries)"
LOOP = "a loop around it"

DEEP = 200
"""Frames that are looked at."""


def layers_of(headers: Mapping[str, str]) -> list[str]:
    """The layers that have retried by now, innermost first, as far as headers and the stack tell; at least
    a loop that nobody knows."""
    found: list[str] = []
    if str(headers.get(COUNT, "0")) not in ("0", "false"):
        found.append(CLIENT)
    found += on_stack(sys._getframe(1))  # noqa: SLF001 - the documented way to one's own frames
    return found or [LOOP]


def on_stack(frame: FrameType | None) -> list[str]:
    """The layers that are on the stack and in a second attempt or later, innermost first."""
    found: list[str] = []
    for _ in range(DEEP):
        if frame is None:
            break
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        layer = LOOKS[package](frame.f_locals) if package in LOOKS else None
        if layer is not None and layer not in found:
            found.append(layer)
        frame = frame.f_back
    return found


def of_tenacity(variables: Mapping[str, Any]) -> str | None:
    """Tenacity's loop: its state counts the attempts."""
    number = getattr(variables.get("retry_state"), "attempt_number", 1)
    if not isinstance(number, int) or number < 2:  # noqa: PLR2004 - the first repeats nothing
        return None
    function = getattr(variables.get("retry_state"), "fn", None)
    # The guard's own layers run on tenacity, too, and say whose they are.
    layer = getattr(getattr(function, "__self__", None), "layer_name", None)
    return layer or f"tenacity around {getattr(function, '__qualname__', 'a block')}"


def of_backoff(variables: Mapping[str, Any]) -> str | None:
    """Backoff's loop counts its tries."""
    tries = variables.get("tries")
    if not isinstance(tries, int) or tries < 2:  # noqa: PLR2004
        return None
    return f"backoff around {getattr(variables.get('target'), '__qualname__', 'a function')}"


LOOKS = {"tenacity": of_tenacity, "backoff": of_backoff}
"""How a frame of each package is read."""
