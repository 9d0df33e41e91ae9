"""What the user said in each turn of a saved run, wherever its format keeps that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from lastcall.plural import counted
from lastcall.transcripts.claude_code import ASIDE
from lastcall.transcripts.conversations import records
from lastcall.transcripts.fields import text
from lastcall.transcripts.items import ANSWERS, CALLS
from lastcall.transcripts.langchain_messages import SUMMARY, opened
from lastcall.transcripts.opening import opened as document_of
from lastcall.transcripts.prompt import (
    DEPTH,
    OF_CALLS,
    PLAIN,
    SAYING,
    by_user,
    each_record,
    prompts,
    text_of,
)
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript

UNPLACED = "which words of the user belong to which turn is not found in the file"
UNWORDED = "what the user said then is no text"

SILENT = OF_CALLS - {"output"}
"""Under which names there is nobody who speaks; a response has its items as its output."""

BLOCKS = ANSWERS | {"tool_use", "tool_result", "toolCall", "toolResult"}
"""The types of calls and answers within messages, and of answers that are items of their own."""

Places = dict[str, set[int]]
"""In which turns something is found, by what it is."""


class Said(Struct, frozen=True):
    """*turns*: the words of the user, turn by turn from the first on, each with the number that the calls of
    the turn have. *known*: how many turns the run has, as far as that is told. *why*: why there are no words of
    those after; None where there are none after."""

    turns: tuple[tuple[int, str], ...] = ()
    known: int = 0
    why: str | None = None


class _Turn:
    """One turn of a list of messages, while it is walked."""

    def __init__(self) -> None:
        self.words: list[str | None] = []
        """What the user said, message by message; None for one that is no text."""
        self.answered = False

    @property
    def said(self) -> str | None:
        """Its words; None where nobody spoke, or something that is no text was among them."""
        texts = [each for each in self.words if each]
        return "\n\n".join(texts) if texts and None not in self.words else None


def said(path: Path, runs: Sequence[Transcript]) -> list[Said]:
    """What the user said in each of the *runs*, which are all of the file's."""
    if not runs:
        return []
    form = runs[0].format
    firsts = prompts(path, form, len(runs))
    document = None if form in PLAIN else document_of(path)
    if not isinstance(document, Document) or document.database:
        return [_first(run, words, 1) for run, words in zip(runs, firsts, strict=True)]
    if len(runs) == 1:
        everything = [record for _, record in records(document)]
        return [_of(runs[0], everything, firsts[0])]
    each = each_record(document, len(runs)) or [None] * len(runs)
    return [_of(run, [own], words) for run, own, words in zip(runs, each, firsts, strict=True)]


def said_by_hand(run: Transcript, words: Sequence[str]) -> Said:
    """*words* as those of the first turns of *run* that have calls, one after the other; those that are left
    are turns after the last."""
    turns = list(dict.fromkeys(call.turn for call in run.calls))
    after = max(turns, default=-1) + 1
    numbers = [*turns, *range(after, after + len(words))]
    why = f"--prompt has the words of {counted(len(words), 'turn')}"
    return Said(tuple(zip(numbers, words, strict=False)), max(len(turns), len(words)), why)


def _of(run: Transcript, values: list[Any], first: str | None) -> Said:
    """What was said in *run*, which is what *values* hold: in the first list of messages whose calls are in the
    turns in which the reader found them, which tells that it has the turns right."""
    # A tracer keeps the requests of one turn, each with all that was said before.
    if "turns" in run.lacks:
        return _first(run, first, 1)
    wanted = _wanted(run.calls)
    most = 1
    for messages in _lists(values):
        turns, places = _heard(messages, wanted)
        if _placed(run.calls, turns, places, wanted):
            return _told(run, turns)
        # Where there are calls, their reader knows better how many turns there are.
        most = most if run.calls else max(most, sum(turn.answered for turn in turns))
    turns, places = _heard(values, wanted)
    if _placed(run.calls, turns, places, wanted):
        return _told(run, turns)
    return _first(run, first, most)


def _placed(
    calls: Iterable[RecordedCall], turns: Sequence[_Turn], places: Places, wanted: Places
) -> bool:
    """Whether the *calls* are in *turns* where their reader found them."""
    if not wanted or places != wanted:
        return False
    return all(call.turn < len(turns) and turns[call.turn].answered for call in calls)


def _told(run: Transcript, turns: list[_Turn]) -> Said:
    # Words that were not answered any more, the end of a simulated user perhaps, began no turn.
    numbers = [n for n, turn in enumerate(turns) if turn.words and (turn.answered or n == 0)]
    found: list[tuple[int, str]] = []
    for n in numbers:
        words = turns[n].said
        if words is None:
            break
        found.append((n, words))
    unprompted = {call.turn for call in run.calls}.difference(numbers)
    known = len(numbers) + len(unprompted)
    if len(found) < len(numbers):
        return Said(tuple(found), known, UNWORDED)
    return Said(tuple(found), known, "nobody had spoken before" if unprompted else None)


def _first(run: Transcript, words: str | None, most: int) -> Said:
    """The first words alone; they are taken to be those of the first turn with calls, as long as nothing else
    is known."""
    turns = dict.fromkeys(call.turn for call in run.calls)
    known = max(len(turns), most)
    if words is None:
        return Said((), known)
    return Said(((next(iter(turns), 0), words),), known, UNPLACED if known > 1 else None)


def _wanted(calls: Iterable[RecordedCall]) -> Places:
    """The ids of the calls, each with the turns in which it is used."""
    found: Places = {}
    for call in calls:
        if call.id is not None:
            found.setdefault(call.id, set()).add(call.turn)
    return found


def _lists(value: Any, depth: int = 0) -> Iterator[list[Any]]:
    """The lists of messages in *value* that have some by the user, the outermost first."""
    if depth > DEPTH:
        return
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if isinstance(value, list) and any(isinstance(one, dict) and _users(one) for one in value):
        yield value
        return
    for one in inner:
        yield from _lists(one, depth + 1)


def _heard(values: Iterable[Any], wanted: Places) -> tuple[list[_Turn], Places]:
    """The turns of the messages in *values*, by the same count as readers have: a user who speaks begins one
    where the agent has said something in the one before. And in which of them the ids of calls are."""
    turns, places = [_Turn()], Places()
    for value in values:
        for kind, told in _events(value):
            if kind == "user":
                if turns[-1].answered:
                    turns.append(_Turn())
                turns[-1].words.append(told)
            elif kind == "agent":
                turns[-1].answered = True
            elif told in wanted:
                places.setdefault(told, set()).add(len(turns) - 1)
    return turns, places


def _events(
    value: Any, depth: int = 0, *, inside: bool = False
) -> Iterator[tuple[str, str | None]]:
    """Who speaks in *value*, and which ids are in it, in their order; the latter alone *inside* of what the agent
    says, of a call or of an answer: a user that is spoken of there is another one."""
    if depth > DEPTH:
        return
    if isinstance(value, list):
        for one in value:
            yield from _events(one, depth + 1, inside=inside)
        return
    if not isinstance(value, dict) or any(value.get(mark) is True for mark in ASIDE):
        return
    if not inside:
        given = value.get("original_input")
        if isinstance(given, str):
            yield "user", given
        elif _users(value):
            yield "user", _words(opened(value)[1])
            return
        elif _agents(value):
            yield "agent", None
            inside = True
        else:
            inside = value.get("role") in ("tool", "function") or _kind(value) in BLOCKS
    for name, one in value.items():
        if not isinstance(one, str):
            yield from _events(one, depth + 1, inside=inside or name in SILENT)
        elif name.lower().endswith("id"):
            yield "id", one


def _words(message: dict[str, Any]) -> str | None:
    """What is said in *message*, perhaps nothing: a user may use tools, too. None where it is no text."""
    return text_of(message) or (None if any(map(message.get, SAYING)) else "")


def _users(message: dict[str, Any]) -> bool:
    """Whether *message* has the user's own words, rather than answers to calls, what the program says in the
    user's name, or another message."""
    kind, fields = opened(message)
    if not by_user(message) and kind != "human":
        return False
    if isinstance(message.get("message"), dict) or "observation" in message:
        return False
    about = fields.get("additional_kwargs")
    if isinstance(about, dict) and about.get("lc_source") == SUMMARY:
        return False
    content = fields.get("content")
    answers = isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )
    return not answers and message.get("action") in (None, "message")


def _agents(message: dict[str, Any]) -> bool:
    """Whether the model says *message*."""
    kind, fields = opened(message)
    if kind in ("ai", "reasoning") or _kind(message) in CALLS:
        return True
    if fields.get("role") in ("assistant", "model"):
        return True
    return message.get("source") == "agent" and message.get("action") != "system"


def _kind(message: dict[str, Any]) -> str:
    return text(message.get("type")) or ""
