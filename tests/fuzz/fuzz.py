"""Fuzzes one target, guided by coverage: `python tests/fuzz/fuzz.py TARGET [libFuzzer's options]`.

`.ci/fuzz` calls it. Needs atheris, which is in no extra: it is for this alone.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["lastcall"]):
    from targets import TARGETS

    from lastcall.transcripts import readers

    readers()


def main() -> None:
    """Run until something is found, or as long as the options say."""
    name, *options = sys.argv[1:]
    target = TARGETS[name]

    def one(data: bytes) -> None:
        target(data)

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
