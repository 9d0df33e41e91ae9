"""What a run came to, as one object: its stops, attempts, results and totals."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from lastcall.stop import Gathered, Stop


class Totals(BaseModel):
    """Counts of one run, or of one tool in it."""

    model_config = ConfigDict(frozen=True)

    executed: int = 0
    """Calls that were made, each once."""
    attempts: int = 0
    """Bodies that were started: a resumed or retried call starts more than once."""
    refused: int = 0
    failed: int = 0


class Requests(BaseModel):
    """Requests to models in one run, as far as the guard was told."""

    model_config = ConfigDict(frozen=True)

    made: int = 0
    refused: int = 0
    failed: int = 0
    untold: int = 0
    """Requests of which nobody said what they used; the tokens below leave them out."""
    unpriced: int = 0
    """Requests whose cost nobody knows, under a limit of money; *spent* of the incident leaves them out."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """A part of the input."""
    reasoning_tokens: int = 0
    """A part of the output."""


class Incident(BaseModel):
    """One run, as far as the guard saw it."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    run: str
    status: str
    """running, finished or stopped; a stopped run did not fail."""
    stopped_by: Stop | None = None
    """The stop that ended the run or its turn, where one did. Its `cause` names the budget or the reason."""
    spent: Decimal | None = None
    """What calls and requests cost, as far as it is known; None without a limit of money."""
    incomplete: bool = False
    """Whether it is not known of all of them."""
    stops: tuple[Stop, ...] = ()
    """The newest 100 stops, in order, also those of single calls."""
    shadow: tuple[Stop, ...] = ()
    """Stops that rules without `enforce` would have made."""
    alerts: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    gathered: tuple[Gathered, ...] = ()
    """The newest 50 results, in order; larger ones as digests alone."""
    totals: Totals = Totals()
    tools: dict[str, Totals] = Field(default_factory=dict)
    requests: Requests = Requests()
    hosted: dict[str, int | None] = Field(default_factory=dict)
    """Calls that providers of models made by themselves, which no guard can stop, by the tool's name.
    None: the tool was offered, and whether it was called is not shown."""
    blocked: tuple[str, ...] = ()
    """Dependencies to which a breaker let a call of the run not through, in the order in which it met them."""


def totals_of(counts: Mapping[tuple[str, str, str], int]) -> dict[str, Totals]:
    """The totals of each tool, of calls counted by tool, kind, and what they came to."""
    tools: dict[str, dict[str, int]] = {}
    for (tool, kind, came_to), count in counts.items():
        of = tools.setdefault(tool, dict.fromkeys(Totals.model_fields, 0))
        if came_to == "refused":
            of["refused"] += count
            continue
        of["executed"] += count if kind == "tool" else 0
        of["attempts"] += count if kind != "malformed" else 0
        of["failed"] += count if came_to == "error" else 0
    return {tool: Totals(**of) for tool, of in tools.items()}
