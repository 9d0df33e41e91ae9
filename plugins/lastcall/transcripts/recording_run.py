"""One run of a recording, while its lines are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from msgspec import convert
from msgspec.structs import replace

from lastcall.call import Outcome, Usage, Where
from lastcall.recording import LEFT_OUT
from lastcall.transcripts.fields import arguments, http, seconds, text
from lastcall.transcripts.live import Live
from lastcall.transcripts.pairing import SHELLS
from lastcall.transcripts.recorded import RecordedCall, RecordedReply, Transcript

NAME = "lastcall"
"""The format's id."""

WHERE = frozenset(Where.__struct_fields__)
OWN = frozenset(
    (
        "fingerprint",
        "near",
        "reply",
        "index",
        "size",
        "key",
        "params",
        "into",
        "tool",
        "policy",
        "refused",
    )
)
"""What of a line goes into `Live` as it is."""

KINDS = Literal["ok", "error", "cancelled", "paused", "lost"]
GRADES = Literal["final", "passing"] | None


class Run:
    """Takes in the lines of one run: raises what `msgspec.convert` does, and KeyError, for broken ones."""

    def __init__(self) -> None:
        self._calls: list[RecordedCall] = []
        self._live: list[Live] = []
        self._turns: dict[str | None, int] = {}
        self._replies: dict[str | None, int] = {}
        self._open: dict[tuple[str | None, str | None], int] = {}
        """Calls that are not settled, by their identity."""

    def begin(self, row: dict[str, Any], line: int) -> int:
        """A call; gives its place."""
        where = convert({name: row[name] for name in row.keys() & WHERE}, Where, strict=False)
        kind = text(row.get("kind")) or "tool"
        reply, call_id = text(row.get("reply")), text(row.get("id"))
        same = (call_id, text(row.get("fingerprint")))
        live = convert(
            {
                **{name: row[name] for name in row.keys() & OWN},
                "where": where,
                "kind": kind,
                "begun": line,
                "inside": kind == "attempt" and same in self._open,
            },
            Live,
            strict=False,
        )
        turn = self._turns.setdefault(where.turn, len(self._turns))
        if reply is None:
            number_of = len(self._replies)
            self._replies[f"\0{number_of}"] = number_of
        else:
            number_of = self._replies.setdefault(reply, len(self._replies))
        args, broken = arguments(row.get("args"))
        name = str(row["name"])
        self._calls.append(
            RecordedCall(
                tool=name,
                args=args,
                turn=turn,
                reply=number_of,
                id=call_id,
                ts=seconds(row.get("ts")),
                malformed=kind == "malformed" or broken,
                shell=bool(live.tool.get("shell")) or name.lower() in SHELLS,
                agent=where.agent,
            )
        )
        self._live.append(live)
        at = len(self._live) - 1
        if not live.refused and not live.inside:
            self._open[same] = at
        return at

    def end(self, at: int, row: dict[str, Any], line: int) -> None:
        """The result of the call at that place."""
        content = row.get("content")
        if isinstance(content, dict) and content.keys() == {LEFT_OUT}:
            content = None
        usage, cost = row.get("usage"), row.get("cost")
        outcome = Outcome(
            convert(row["outcome"], KINDS),
            content,
            http(row.get("status")),
            convert(row.get("grade"), GRADES),
            text(row.get("error")),
            seconds(row.get("retry_after")),
            recorded=not row.get("unrecorded"),
            usage=None if usage is None else convert(usage, Usage),
            transport=bool(row.get("transport")),
            cost=None if cost is None else Decimal(cost),
            started=not row.get("unstarted"),
            # That it was kept counts; replay hands it to nobody.
            kept="null" if row.get("kept") else None,
        )
        for name in ("digest", "like"):
            if row.get(name) is not None:
                # The real result's; what is written here may have been redacted, or left out.
                vars(outcome)[name] = text(row[name])
        live, call = self._live[at], self._calls[at]
        self._live[at] = replace(
            live,
            ended=line,
            settled_at=seconds(row.get("ts")),
            outcome=outcome,
            stopped=convert(row.get("stopped") or (), tuple[tuple[str, str], ...]),
        )
        self._calls[at] = replace(
            call,
            result=content,
            status=outcome.status,
            failed=outcome.kind == "error",
        )
        same = (call.id, live.fingerprint)
        if self._open.get(same) == at:
            del self._open[same]

    def transcript(self, file: str, run: str) -> Transcript:
        """All of it."""
        calls: list[RecordedCall] = []
        asked: list[RecordedReply] = []
        for call, live in zip(self._calls, self._live, strict=True):
            if live.kind == "model":
                came = live.outcome or Outcome()
                asked.append(
                    RecordedReply(call.reply, call.turn, call.ts, came.usage, came.cost, live)
                )
            else:
                calls.append(replace(call, live=live))
        return Transcript(file, run, NAME, tuple(calls), tuple(asked))
