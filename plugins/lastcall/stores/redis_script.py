"""The script of a decision in Redis: what it is sent, and what follows from what it answers. No I/O.

The client runs the rules on its own copy of the records and the script checks that the copy was fresh: for
a run, which one worker owns, it nearly always is.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha1
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from lastcall.contracts import Answer, Claim, Free, Key, Plan, Release, Shard, Step, Take
from lastcall.stores.copies import Copies
from lastcall.stores.lifetime import Lifetimes
from lastcall.stores.records import COUNTER, clean, counter_text, encoded, field_text, shard_text
from lastcall.stores.trouble import UnreadableRecordError

T = TypeVar("T")

SCRIPT = files("lastcall.stores").joinpath("decision.lua").read_text(encoding="utf-8")
DIGEST = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""The name by which the server knows the script."""

REFUSED, STALE, TOO_MUCH, UNREADABLE = 0, -1, -2, -3
"""What the script answers besides "granted"."""

HEAD = 3
"""The parts of an answer before what it says: the code, and the server's time in two parts."""

NOTHING: list[str] = []

META = "#"
"""What the names of fields begin with that are no records."""

COUNTS = 4096
"""Counters whose last value is remembered, to foresee a refusal."""


class Trip(msgspec.Struct, frozen=True):
    """One sending of the script."""

    keys: tuple[str, ...]
    body: list[Any]
    repeatable: bool
    """Whether it may be sent again when it is not known whether it arrived."""


Trips = Generator[Trip, Any, T]


class Decisions:
    """The decisions of one client, under the keys that begin with *prefix*. *types*: those of records, by
    the rule they belong to."""

    def __init__(self, prefix: str, lifetimes: Lifetimes, types: Mapping[str, Any]) -> None:
        self._prefix = prefix
        self._lifetimes = lifetimes
        self._types = types
        self._counts: dict[str, int] = {}
        self._name = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self.copies = Copies(types)
        """What the client knows of records; to be cleared when it is not known what the server did."""

    def key(self, shard: Shard) -> str:
        """The key of *shard*."""
        return f"{self._prefix}:{shard_text(shard)}"

    def token(self) -> str:
        """A version that nobody else gives."""
        return f"{self._name}-{next(self._numbers)}"

    def deciding(self, keys: Sequence[Key], step: Step[T], now: float) -> Trips[tuple[T, Answer]]:
        """Yields what is to be sent and is told the answers; returns what the decision came to. Raises
        ValueError when more is given back than was taken, and UnreadableRecordError."""
        fields = [field_text(key) for key in keys]
        foreseen = False
        while True:
            versions, records, assumed = self.copies.read(keys, fields)
            plan = step(records)
            foreseen = foreseen or self._full(plan.claims)
            instead = None
            if foreseen and plan.otherwise is not None:
                instead = [list(plan.otherwise(index)) for index in range(len(plan.claims))]
            token = self.token()
            trip = self._trip(keys, fields, versions, assumed, plan, instead, token, now)
            reply = yield trip
            code, said = reply[0], reply[HEAD:]
            if code == STALE:
                self._refresh(list(trip_shards(versions, plan)), keys, fields, said)
                continue
            if code == TOO_MUCH:
                give = plan.releases[said[0]]
                raise ValueError(
                    f"{getattr(give, 'amount', 1)} given back to {give.key!r}, which holds {said[1]}"
                )
            if code == UNREADABLE:
                raise UnreadableRecordError(f"the counter {said[1].decode()!r} in Redis is damaged")
            if code != REFUSED:
                self._wrote(keys, fields, versions, plan.writes, token)
                self._counted(plan.claims, said)
                return plan.value, Answer(None, tuple(said))
            index, written, observed = said[0], said[1], tuple(said[2:])
            self._counted(plan.claims, observed)
            if instead is not None and written:
                self._wrote(keys, fields, versions, instead[index], token)
            elif instead is None and plan.otherwise is not None and plan.otherwise(index):
                # It did not look full; what is written when it is goes along this time.
                foreseen = True
                continue
            return plan.value, Answer(index, observed)

    def _trip(
        self,
        keys: Sequence[Key],
        fields: Sequence[str],
        versions: Mapping[Shard, str],
        assumed: Mapping[Shard, list[str]],
        plan: Plan[Any],
        instead: Sequence[Sequence[tuple[int, Any]]] | None,
        token: str,
        now: float,
    ) -> Trip:
        places = {shard: index for index, shard in enumerate(trip_shards(versions, plan))}
        wanted: dict[Shard, list[str]] = {shard: [] for shard in places}
        for key, field in zip(keys, fields, strict=True):
            wanted[key[0]].append(field)
        shards = [
            [
                versions.get(shard, False),
                self._lifetimes.of(shard, plan.claims) or 0,
                wanted[shard],
                assumed.get(shard, NOTHING),
            ]
            for shard in places
        ]

        def rows(writes: Sequence[tuple[int, Any]]) -> list[Any]:
            return [
                [
                    places[keys[index][0]],
                    fields[index],
                    False if state is None else encoded(state, keys[index]),
                ]
                for index, state in writes
            ]

        body = [
            now,
            token,
            shards,
            rows(plan.writes),
            [claim_row(claim, places) for claim in plan.claims],
            [rows(each) or False for each in instead] if instead is not None else False,
            [release_row(release, places) for release in plan.releases],
            False,
        ]
        repeatable = instead is None and bool(plan.writes or not (plan.claims or plan.releases))
        return Trip(tuple(map(self.key, places)), body, repeatable)

    def _refresh(
        self, shards: Sequence[Shard], keys: Sequence[Key], fields: Sequence[str], said: list[Any]
    ) -> None:
        for place, version, whole, flat in said:
            shard = shards[place]
            pairs = {
                field: value
                for field, value in zip(texts(flat[::2]), texts(flat[1::2]), strict=True)
                if not field.startswith(META)
            }
            asked = [field for key, field in zip(keys, fields, strict=True) if key[0] == shard]
            self.copies.told(shard, version.decode(), pairs, whole=bool(whole), asked=asked)

    def _wrote(
        self,
        keys: Sequence[Key],
        fields: Sequence[str],
        versions: Mapping[Shard, str],
        writes: Sequence[tuple[int, Any]],
        token: str,
    ) -> None:
        states: dict[Shard, dict[str, Any]] = {}
        for index, state in writes:
            states.setdefault(keys[index][0], {})[fields[index]] = state
        for shard, written in states.items():
            self.copies.wrote(shard, versions[shard], token, written)

    def _full(self, claims: Sequence[Claim]) -> bool:
        """Whether one of *claims* will probably be refused."""
        return any(
            claim.limit is not None
            and self._counts.get(name_of(claim), 0) + amount_of(claim) > claim.limit
            for claim in claims
        )

    def _counted(self, claims: Sequence[Claim], observed: Sequence[int]) -> None:
        if len(self._counts) > COUNTS:
            self._counts.clear()
        for claim, count in zip(claims, observed, strict=True):
            self._counts[name_of(claim)] = count

    def putting(self, shard: Shard, rows: Sequence[tuple[Key, Any]], now: float) -> Trip:
        """What puts *rows* into *shard*, whatever is there."""
        counted = {key for key, _ in rows if self._types.get(key[1]) == COUNTER}
        writes = [
            [
                0,
                field_text(key),
                (counter_text if key in counted else partial(encoded, key=key))(state),
            ]
            for key, state in rows
        ]
        kept: list[Any] = [[False, self._lifetimes.of(shard) or 0, [], []]]
        token = self.token()
        body = [now, token, kept, writes, [], False, [], False]
        return Trip((self.key(shard),), body, repeatable=True)


def trip_shards(versions: Mapping[Shard, str], plan: Plan[Any]) -> dict[Shard, None]:
    """The shards of a trip in order: those that were read, then those that are only counted in."""
    shards = dict.fromkeys(versions)
    for each in (*plan.claims, *plan.releases):
        shards[each.key[0]] = None
    return shards


def claim_row(claim: Claim, places: Mapping[Shard, int]) -> list[Any]:
    """A claim as the script takes it."""
    at = [places[claim.key[0]], field_text(claim.key)]
    limit = False if claim.limit is None else float(claim.limit)
    if isinstance(claim, Take):
        return [*at, "take", claim.amount, limit, claim.window or False, claim.offset]
    return [*at, "lease", clean(claim.holder), limit, claim.ttl]


def release_row(release: Release, places: Mapping[Shard, int]) -> list[Any]:
    """A release as the script takes it."""
    at = [places[release.key[0]], field_text(release.key)]
    if isinstance(release, Free):
        return [*at, "free", clean(release.holder)]
    window = release.window or False
    return [*at, "give", release.amount, window, release.taken_at, release.offset]


def amount_of(claim: Claim) -> int:
    """What a claim adds."""
    return claim.amount if isinstance(claim, Take) else 1


def name_of(claim: Claim) -> str:
    """A counter's whole name."""
    return f"{shard_text(claim.key[0])} {field_text(claim.key)}"


def packed(trip: Trip, again: bool) -> bytes:  # noqa: FBT001 - the last field of the message
    """The message."""
    trip.body[-1] = again
    return msgspec.msgpack.encode(trip.body)


def texts(values: Iterable[bytes]) -> list[str]:
    """What the server gives as bytes."""
    return [value.decode("utf-8", "replace") for value in values]
