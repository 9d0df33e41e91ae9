"""Makes a finding small: `python tests/fuzz/minimise.py TARGET FILE` leaves out of FILE whatever can be
left out while the target still raises the same kind of error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from targets import TARGETS

TRIES = 20_000


def minimised(data: bytes, target: Callable[[bytes], None]) -> bytes:
    """*data* without the parts that do not matter, in ever smaller pieces; as it is when it raises
    nothing."""
    wanted, tries = raised_by(data, target), 0
    size = len(data) // 2 if wanted else 0
    while size:
        place = 0
        while place < len(data) and tries < TRIES:
            tries += 1
            less = data[:place] + data[place + size :]
            if raised_by(less, target) is wanted:
                data = less
            else:
                place += size
        size //= 2
    return data


def raised_by(data: bytes, target: Callable[[bytes], None]) -> type[BaseException] | None:
    """The kind of error that *target* raises of *data*."""
    try:
        target(data)
    except Exception as error:
        return type(error)
    return None


def main() -> None:
    """Minimise the file in place."""
    name, file = sys.argv[1:]
    path = Path(file)
    path.write_bytes(minimised(path.read_bytes(), TARGETS[name]))


if __name__ == "__main__":
    main()
