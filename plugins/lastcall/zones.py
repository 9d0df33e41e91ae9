"""Where on earth a day begins: how far the clock of a time zone is ahead of UTC (requirement B9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@cache
def zone_of(name: str) -> ZoneInfo:
    """The zone of that name in the IANA time zone database. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"no time zone {name!r}: a name of the IANA database, such as Europe/Berlin; on a machine without"
            ' that database: pip install "lastcall[zones]"'
        ) from None


@lru_cache(1024)
def offset_at(name: str, minute: int) -> float:
    """Seconds that the zone's clocks are ahead of UTC in that minute since the epoch."""
    ahead = datetime.fromtimestamp(60 * minute, zone_of(name)).utcoffset()
    return 0.0 if ahead is None else ahead.total_seconds()


def offset_of(name: str | None, now: float) -> float:
    """The same at *now*, in epoch seconds; without a zone it is UTC."""
    return 0.0 if name is None else offset_at(name, int(now // 60))


def midnight_after(name: str, now: float) -> float:
    """When the zone's next day begins, in epoch seconds; a day may have 23 or 25 hours."""
    zone = zone_of(name)
    day = datetime.fromtimestamp(now, zone).date() + timedelta(days=1)
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC).timestamp()
