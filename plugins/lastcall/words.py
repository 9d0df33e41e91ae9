"""What the model reads. The text never contradicts the data (requirement A8)."""

from __future__ import annotations

import re

from lastcall.stop import Stop

DETAIL = 500
"""Characters of a service's own answer that are passed on."""

INVITATION = re.compile(
    r"\b(?:try|trying)\s+(?:\S+\s+){0,3}?(?:again|later)\b|retr(?:y|ies|ied)", re.IGNORECASE
)

PIECE = re.compile(r'[\n"{}]+|[^\n"{}]+?(?:(?<=[.!?])[ \t]+|(?=[\n"{}])|\Z)')
"""A sentence, or a string within JSON: what goes when an invitation is in it, and no more."""

MARK = "\0"

TOO_LARGE = "this reply asks for more calls than the budget of {limit} for this turn has left"
"""The reason of a ceiling that is not reached yet: a reply was refused as a whole."""

REASONS = {
    "ceiling": "the budget of {limit} calls for this {where} is spent",
    "repeat": "this exact call was already made {limit} times this turn",
    "same": "equal calls keep bringing an equal result",
    "near": "calls that differ only in form keep bringing nothing new",
    "cycle": "the same few calls go round with the same results",
    "stale": "the last {limit} calls brought nothing that was not known before",
    "failing": "it failed {limit} times in a row",
    "terminal": "it was answered with a final status",
    "malformed": "{limit} calls in a row could not be read or named no tool that exists",
    "refusals": "calls kept coming after they had been refused",
    "attempts": "this call was already started {limit} times",
    "fault": "the guard could not decide because of a fault of its own",
    "budget": "the budget of {limit}{budget} is spent",
    "unpriced": "what the requests of this run cost is not known, so its budget cannot be kept",
    "concurrency": "{limit} calls run already, which is as many as may at once",
    "quarantine": "this exact call was answered with a final status a short while ago, in this run or in"
    " another",
    "cooling": "a run of this agent was stopped a short while ago, and the agent rests",
    "path": "agents called each other in a circle, or more than {limit} deep",
    "breaker": "the service behind it failed a short while ago, and nothing is sent to it for now",
    "ramp": "the service behind it is coming back, and only some calls are let through",
    "retry_budget": "it failed, and there is no budget left for another attempt",
    "deadline": "it failed, and another attempt would come too late",
    "no_key": "it changes something, and the arguments that say which operation it is are missing",
    "conflict": "the same operation was already asked for with other parameters",
    "in_progress": "the same operation is being carried out right now",
    "unknown_outcome": "the same operation was begun before, and nobody knows whether it was carried out",
    "done": "the same operation was carried out already",
    "kill": "it was stopped from outside, by the kill switch",
    "store": "the guard cannot reach its store, so it cannot decide",
}

OWN = frozenset({"fault", "store", "retry_budget", "deadline"})
"""Reasons that say nothing of the call."""


INSTEAD = {
    "no_key": "make it with all of its arguments, or tell the user what is missing",
    "conflict": "tell the user what differs",
    "unknown_outcome": "tell the user that somebody must look whether it was carried out",
    "done": "go on from what it brought",
    "path": "answer from what is known already",
}
"""What to do in place of one call, by the reason; of others, to correct it."""


def words(stop: Stop) -> str:
    """The text of *stop* for the model, in the present tense, naming the scope and making no claim
    beyond it."""
    where = "tool and turn" if stop.scope == "tool" else stop.scope
    known = REASONS.get(stop.reason)
    if stop.reason == "ceiling" and stop.scope == "turn" and stop.remaining.get("calls"):
        known = TOO_LARGE
    budget = f" ({stop.budget})" if stop.budget else ""
    reason = (
        known.format(limit=stop.limit, where=where, budget=budget)
        if known
        else stop.reason.replace("_", " ")
    )
    status = f" (HTTP {stop.status})" if stop.status is not None else ""
    until = f" This holds until {stop.resets_at:%Y-%m-%d %H:%M:%S} UTC." if stop.resets_at else ""
    head = f"Stopped: {stop.tool}: {reason}{status}. {advice(stop)}{until}"
    if not stop.detail:
        return head
    return f"{head}\n{'Said' if stop.reason == 'kill' else 'The service answered'}: {stop.detail}"


def advice(stop: Stop) -> str:
    """What to do now, by how far the stop reaches."""
    if stop.retryable:
        after = f" in {stop.retry_after:g} seconds" if stop.retry_after else ""
        return f"The same call may be made again{after}."
    if stop.scope == "call":
        if stop.reason in OWN:
            return "This exact call is not made now; go on without it this turn, or tell the user."
        instead = INSTEAD.get(stop.reason, "correct the arguments or tell the user what is missing")
        return f"This exact call will be refused again this turn; {instead}."
    if stop.scope == "tool":
        return f"Do not call {stop.tool} again this turn; tell the user what is missing."
    if stop.scope in ("turn", "run", "thread"):
        return f"This {stop.scope} is ended: do not call any tool again in it; tell the user."
    whom = "anybody" if stop.scope == "all" else f"this {stop.scope}"
    return f"No tool is open to {whom} now: do not call any; tell the user."


def answered(text: str | None) -> str | None:
    """A service's own words, cut to 500 characters and without its invitations to repeat."""
    if not text:
        return None
    marked = INVITATION.sub(MARK, text[: 4 * DETAIL].replace(MARK, " "))
    kept = "".join(piece for piece in PIECE.findall(marked) if MARK not in piece).strip()
    return (kept if len(kept) <= DETAIL else kept[: DETAIL - 1].rstrip() + "…") or None
