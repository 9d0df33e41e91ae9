"""LangGraph checkpoints in SQLite (langgraph-checkpoint-sqlite)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from lastcall.transcripts.conversations import Names
from lastcall.transcripts.database import DAMAGED, columns, damage, reading
from lastcall.transcripts.fields import decoded, mapping, objects, text
from lastcall.transcripts.langchain_messages import KINDS, hear, opened
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable

NESTED = 20
"""How deep packed values may lie in packed values."""


CHANNEL = "messages"
"""Where agents keep their messages."""

EVERY = "__remove_all__"
"""The id in the order to forget all messages."""

LAST = """
select thread_id, checkpoint_ns, checkpoint_id, type, checkpoint from checkpoints as one
where checkpoint_id = (
    select max(checkpoint_id) from checkpoints as other
    where other.thread_id = one.thread_id and other.checkpoint_ns = one.checkpoint_ns
)
order by checkpoint_id"""

WRITTEN = """
select type, value from writes
where thread_id = ? and checkpoint_ns = ? and channel = ? and checkpoint_id <= ?
order by checkpoint_id, task_id, idx"""
PENDING = WRITTEN.replace("<=", "=")

FORGOTTEN = """
select count(*) from (
    select 1 from writes
    where thread_id = ? and checkpoint_ns = ? and channel = ? and instr(value, ?) limit 1
)"""
ORDER = b"RemoveMessage"
"""What is in an order to forget messages."""

BEFORE = """
with recursive past(id, parent) as (
    select checkpoint_id, parent_checkpoint_id from checkpoints
    where thread_id = :thread and checkpoint_ns = :space and checkpoint_id = :last
    union
    select one.checkpoint_id, one.parent_checkpoint_id from checkpoints as one
    join past on one.checkpoint_id = past.parent
    where one.thread_id = :thread and one.checkpoint_ns = :space
)
select type, checkpoint from checkpoints
where thread_id = :thread and checkpoint_ns = :space and checkpoint_id in (select id from past)
order by checkpoint_id"""


class LangGraphCheckpoints:
    """The last checkpoint of a thread holds its messages; those that were forgotten (trimmed, or summed up) are in
    earlier ones."""

    name = "langgraph-checkpoints"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """A database with LangGraph's table of checkpoints."""
        wanted = {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint"}
        return wanted <= columns(document, "checkpoints")

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a thread, and one each part of it (`thread/namespace`) that keeps messages of its own."""
        file, names, empty = str(document.path), Names(document), True
        try:
            with reading(document.path) as database:
                for thread, space, checkpoint, kind, blob in database.execute(LAST):
                    empty = False
                    name = f"{thread}/{space}" if space else str(thread)
                    try:
                        channel, messages = _messages(kind, blob)
                        # What the tasks after it wrote; where messages are kept as differences, all that
                        # tasks ever wrote.
                        after = (thread, space, channel, checkpoint)
                        found = database.execute(PENDING if messages else WRITTEN, after)
                        messages = _folded(messages, (_value(*one) for one in found))
                        (forgotten,) = database.execute(
                            FORGOTTEN, (thread, space, channel, ORDER)
                        ).fetchone()
                        if forgotten:
                            chain = {"thread": thread, "space": space, "last": checkpoint}
                            past: dict[str, dict[str, Any]] = {}
                            for one in database.execute(BEFORE, chain):
                                try:
                                    past |= _by_id(_messages(*one)[1])
                                except ValueError as error:
                                    problem = f"thread {name}, before its end: {error}"
                                    yield Unreadable(file, None, problem)
                            messages = _whole(past, messages)
                    except ValueError as error:
                        yield Unreadable(file, None, f"thread {name}: {error}")
                        continue
                    # A part of a graph without messages of its own is no run.
                    if messages or not space:
                        pairing = _heard(messages)
                        yield Transcript(
                            file, names.name(name), self.name, pairing.calls(), pairing.replies()
                        )
        except DAMAGED as error:
            yield Unreadable(file, None, damage(error))
            return
        if empty:
            yield Unreadable(file, None, "no checkpoint in it")


def _heard(messages: list[dict[str, Any]]) -> Pairing:
    pairing = Pairing()
    for message in messages:
        hear(pairing, message)
    return pairing


def _messages(kind: Any, blob: Any) -> tuple[str, list[dict[str, Any]]]:
    """The longest list of messages in a checkpoint, and the name of its channel. Raises ValueError."""
    checkpoint = mapping(_value(kind, blob))
    lists = {
        str(channel): [one for one in objects(value) if _message(one)]
        for channel, value in mapping(checkpoint.get("channel_values")).items()
    }
    channel = max(lists, key=lambda name: len(lists[name]), default=CHANNEL)
    return (channel, lists[channel]) if lists.get(channel) else (CHANNEL, [])


def _folded(messages: list[dict[str, Any]], writes: Iterable[Any]) -> list[dict[str, Any]]:
    """*messages* with those in *writes*: new ones behind, one with the id of another in its place."""
    told: dict[Any, dict[str, Any]] = {}
    for place, message in enumerate(messages):
        told[_id(message) or place] = message
    for write in writes:
        for message in objects([write] if isinstance(write, dict) else write):
            if opened(message)[0] == "remove":
                told = {} if _id(message) == EVERY else told
                told.pop(_id(message), None)
            elif _message(message):
                told[_id(message) or object()] = message
    return list(told.values())


def _by_id(messages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: message for message in messages if (name := _id(message))}


def _whole(past: dict[str, dict[str, Any]], messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """*messages*, and before them those of *past* that are not among them; but no calls that were never answered:
    those were taken back, not made."""
    kept = _by_id(messages)
    answered = {text(opened(one)[1].get("tool_call_id")) for one in (*past.values(), *messages)}
    gone = [
        message
        for name, message in past.items()
        if name not in kept
        and answered.issuperset(
            text(call.get("id")) for call in objects(opened(message)[1].get("tool_calls"))
        )
    ]
    return gone + messages


def _id(message: dict[str, Any]) -> str | None:
    return text(opened(message)[1].get("id"))


def _message(value: dict[str, Any]) -> bool:
    kind, fields = opened(value)
    return kind in KINDS and "content" in fields


def _value(kind: Any, blob: bytes | str | None) -> Any:
    content: bytes = blob.encode() if isinstance(blob, str) else blob or b""
    if kind == "json":
        return decoded(content)
    if kind != "msgpack":
        raise ValueError(f"its checkpoint is written as {kind}, which is read by LangGraph alone")
    try:
        return _unpacked(content, 0)
    except (msgspec.MsgspecError, UnicodeError, TypeError, RecursionError) as error:
        raise ValueError(f"its checkpoint is damaged: {error}") from None


def _unpacked(content: bytes | memoryview, depth: int) -> Any:
    """A packed value; objects of classes come as their fields, and no class is made or asked."""
    if depth > NESTED:
        raise ValueError("its checkpoint is nested too deep")

    def extended(_: int, data: memoryview) -> Any:
        # Module, name, what the object is made of, and the method that makes it, if any.
        match _unpacked(data, depth + 1):
            case [_, _, fields, *_]:
                return fields
            case other:
                return other

    return msgspec.msgpack.decode(content, ext_hook=extended)
