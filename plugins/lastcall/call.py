"""What is asked and what came of it: the values that travel through the guard.

They are msgspec Structs, not dataclasses, because four are built for every tool call.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Struct

from lastcall.fingerprint import digest, encoded, exact, loose, masked_digest
from lastcall.lazy import lazy
from lastcall.past import NOTHING, Past, packed
from lastcall.tool import PLAIN, ToolPolicy

Kind = Literal["tool", "model", "attempt", "malformed"]
"""tool: a call of a tool. model: a request to the model is about to be sent. attempt: a tool call
whose identity was seen before (resume, node retry, approval). malformed: arguments that do not
parse, or a tool that does not exist."""


class Where(Struct, frozen=True, gc=False):
    """Who calls, and in which run, turn and thread. None: not known."""

    run: str | None = None
    turn: str | None = None
    thread: str | None = None
    agent: str | None = None
    user: str | None = None
    tenant: str | None = None
    path: tuple[str, ...] = ()
    """The names of the agents, from the outermost to the one that calls."""
    lane: str | None = None
    """Tells agents of one name apart that run at once in one run; no name for people."""


NOWHERE = Where()

TEXT = frozenset((str, type(None)))
"""The types of names."""


def as_text(value: Any) -> str | None:
    """*value*, a number or a UUID perhaps, as the text that a store gives back for it."""
    if value is None or type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else str(value)


def in_text(where: Where) -> Where:
    """*where* with names that are text."""
    names = (where.run, where.turn, where.thread, where.agent, where.user, where.tenant, where.lane)
    if TEXT.issuperset(map(type, names)) and TEXT.issuperset(map(type, where.path)):
        return where
    return Where(
        as_text(where.run),
        as_text(where.turn),
        as_text(where.thread),
        as_text(where.agent),
        as_text(where.user),
        as_text(where.tenant),
        tuple(map(str, where.path)),
        as_text(where.lane),
    )


class Call(Struct, frozen=True, dict=True):
    """One call that somebody wants to make.

    *args* are the model's own arguments: a mapping, or the JSON text as the model wrote it.
    *reply* names the model message that asked for the call, *index* its place there and *size* how
    many calls that message holds (None: not known). *server* tells two tools of one name apart. *key*
    is the idempotency key of a write, where the caller has one. *policy* and everything else from
    *order* on are filled in by the guard.
    """

    tool: str
    args: Any = None
    where: Where = NOWHERE
    id: str | None = None
    kind: Kind = "tool"
    reply: str | None = None
    index: int = 0
    size: int | None = None
    server: str | None = None
    policy: ToolPolicy = PLAIN
    order: int = 0
    """The how-manieth decided call of its turn this is, from 1."""
    last_write: int = 0
    """The order of the last call in the turn, of another fingerprint, that was not declared `reads`."""
    last_reply: str | None = None
    """The reply of the last call in the turn that was granted."""
    reply_calls: int = 0
    """How many calls of that reply were granted."""
    past: Past = NOTHING
    """The last calls of the turn and what they brought."""
    raised: Mapping[str, int] = {}
    """By how much a person raised the limits of the run, by the budget's name."""
    asked: int = 0
    """The questions that were put to a person about this very call, who let it pass."""
    version: str | None = None
    """The version of the policy by which it is judged."""
    key: str | None = None
    """The idempotency key of a write: the caller's own, or what `idempotency.operation_key` makes. None: it
    is no write, or one that cannot be told from others."""
    params: str = ""
    """What tells the parameters of a write from other ones under the same key."""
    time: float = 0.0
    """When it is decided about, in epoch seconds."""
    into: str | None = None
    """The agent that would go to work by it, where the tool is an agent and the adapter can tell."""
    lived: tuple[str, ...] | None = None
    """Of a recorded call: the volatile arguments of then, by which the fingerprints that it brings along were
    worked out. None: it brings none."""

    @lazy
    def name(self) -> str:
        """The tool's name with its server's, where there is one: `server/tool`."""
        return self.tool if self.server is None else f"{self.server}/{self.tool}"

    @lazy
    def shard(self) -> tuple[str, str | None]:
        """The shard of the call's run; one object, so that stores see at a glance that it is the same."""
        return ("run", self.where.run)

    @lazy
    def fingerprint(self) -> str:
        """16 hex characters that are equal for equal calls (requirement A2)."""
        return exact(self.name, self.args, self.policy.volatile)

    @lazy
    def packed(self) -> bytes:
        """The first bytes of the fingerprint, as the past holds it."""
        return packed(self.fingerprint)

    @lazy
    def near(self) -> str:
        """16 hex characters that are equal for calls that differ in form only (requirement A3)."""
        return loose(self.name, self.args, self.policy.volatile, strict=self.policy.writes)

    def mark(self, by: object, what: Any) -> None:
        """Keep *what* with this very call for *by*: a listener that is shown it again once it is settled."""
        vars(self)[f"marked by {id(by)}"] = what

    def marked(self, by: object) -> Any:
        """What *by* kept with it; None: nothing."""
        return vars(self).get(f"marked by {id(by)}")


DOUBTFUL = frozenset((408, 500, 502, 504))
"""Statuses after which nobody knows whether the request was carried out."""


class Usage(Struct, frozen=True, gc=False):
    """What one request to a model used, in tokens, as its provider counts them. *cached* is a part of
    *input*, *reasoning* one of *output*."""

    model: str | None = None
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


class Outcome(Struct, frozen=True, dict=True):
    """What came of a call.

    ok: the tool answered. error: it failed, by exception, error flag or status. cancelled: it was
    called off, which is no failure. paused: it waits for a person. lost: nobody knows.
    *content* is the answer or the text of the exception; *error* the message of a failure;
    *retry_after* in seconds.
    """

    kind: Literal["ok", "error", "cancelled", "paused", "lost"] = "ok"
    content: Any = None
    status: int | None = None
    grade: Literal["final", "passing"] | None = None
    error: str | None = None
    retry_after: float | None = None
    recorded: bool = True
    """False: nobody said what the call brought, so it counts as unchanged."""
    usage: Usage | None = None
    """Of a request to a model; None: not told."""
    hosted: Mapping[str, int | None] = {}
    """Of a request to a model: the calls that its provider made by itself, by the tool's name. None: the
    tool was offered, and whether it was called is not shown."""
    transport: bool = False
    """Whether it failed because a service was not reached, or did not answer in time."""
    cost: Decimal | None = None
    """What it cost, in the currency of the policy; None: not known."""
    started: bool = True
    """False: its body never began, so nothing was spent."""
    kept: str | None = None
    """The result as JSON, for a repeat of a write that is answered by it (`idempotency.kept`)."""

    @property
    def doubtful(self) -> bool:
        """Whether nobody knows if the request was carried out: no answer came, or one that does not say."""
        return self.transport or self.status in DOUBTFUL

    @lazy
    def known(self) -> bool:
        """Whether there is a result to compare; what was called off, or waits, brought none."""
        return self.recorded and self.kind in ("ok", "error")

    @lazy
    def encoded(self) -> str | bytes:
        """The content as text, or as canonical JSON."""
        return encoded(self.content)

    @lazy
    def digest(self) -> str:
        """16 hex characters of the content as it is."""
        content = self.content
        return digest(content if type(content) is str else self.encoded)

    @lazy
    def like(self) -> str:
        """The same with white space, ids, times, durations and addresses masked; costs more."""
        return masked_digest(self.encoded)


class FirstResult(Struct, frozen=True, gc=False):
    """What a write brought when it was made, in answer to the same write once more."""

    kept: str
    """As JSON; `result` reads it."""
    at: float
    """When it was made, in epoch seconds."""
    run: str | None = None
    """The run that made it."""

    @property
    def result(self) -> Any:
        """What it brought, made anew at each reading."""
        return msgspec.json.decode(self.kept)
