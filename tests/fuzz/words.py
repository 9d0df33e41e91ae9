"""Writes libFuzzer's dictionary: the keys and short texts of the samples of transcripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lastcall.transcripts.opening import opened
from lastcall.transcripts.recorded import Document

LONGEST = 40


def words(value: Any) -> set[str]:
    """The keys and the short texts in a value."""
    if isinstance(value, dict):
        return set(value).union(*map(words, value.values()))
    if isinstance(value, list):
        return set().union(*map(words, value))
    return {value} if isinstance(value, str) and len(value) <= LONGEST else set()


def main() -> None:
    """Print the dictionary for the folders of samples that are named."""
    found: set[str] = set()
    for folder in sys.argv[1:]:
        for path in sorted(Path(folder).iterdir()):
            document = opened(path)
            if isinstance(document, Document):
                found |= words(document.value) | words([row for _, row in document.rows])
    for word in sorted(found):
        quoted = json.dumps(word)
        if quoted.isascii() and "\\" not in quoted[1:-1]:
            print(f'"\\"{word}\\""')


if __name__ == "__main__":
    main()
