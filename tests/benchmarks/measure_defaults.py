"""What the default table does to real runs: prints the table of docs/rules.md.

Run: python tests/benchmarks/measure_defaults.py [FOLDER with index.jsonl]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lastcall import Policy
from lastcall.policy import DEFAULT
from lastcall.replay import Replayer
from lastcall.transcripts import Transcript, read

FOLDER = Path(__file__).parents[2].parent / "shared" / "transcripts"

Group = list[Transcript]


def groups(folder: Path) -> dict[str, Group]:
    """The runs of *folder* by what its index says of them."""
    found: dict[str, Group] = {"good": [], "loop": [], "other": []}
    for row in map(json.loads, (folder / "index.jsonl").read_text().splitlines()):
        kind = (
            "loop"
            if row["reviewed_loop"]
            else "good"
            if row["outcome_label"] == "success"
            else "other"
        )
        found[kind] += [run for run in read(folder / row["file"]) if isinstance(run, Transcript)]
    return found


def policies() -> Iterator[tuple[str, Policy]]:
    """Each rule alone, the presets whole."""
    for rule in DEFAULT:
        yield f"`{rule.name}` alone", Policy(rules=[rule])
    yield "**default**", Policy()
    for preset in (Policy.dialogue, Policy.coding, Policy.strict):
        made: Callable[[], Policy] = preset
        yield f"`{preset.__name__}`", made()


def stopped(policy: Policy, runs: Group) -> tuple[int, int, Counter[str]]:
    """How many of *runs* had a call refused, how many calls that saved, and by which rules."""
    replayer, reasons, saved = Replayer(policy), Counter[str](), 0
    for run in runs:
        done = replayer.replay(run)
        first = next((stop for stop in done.stops if stop.refused), None)
        if first is not None:
            reasons[first.reason] += 1
            saved += done.saved
    return sum(reasons.values()), saved, reasons


def main(folder: Path = FOLDER) -> None:
    """Print the table."""
    if not (folder / "index.jsonl").exists():
        raise SystemExit(f"no index.jsonl in {folder}")
    of = groups(folder)
    calls = sum(len(run.calls) for run in of["loop"])
    print(
        f"| rule | good runs touched (of {len(of['good'])}) | loops stopped (of {len(of['loop'])}) "
        f"| calls of loops saved (of {calls}) | other runs stopped (of {len(of['other'])}) |"
    )
    print("| --- | --- | --- | --- | --- |")
    for name, policy in policies():
        row: list[Any] = [name, stopped(policy, of["good"])[0]]
        loops, saved, _ = stopped(policy, of["loop"])
        row += [loops, f"{saved} ({round(100 * saved / calls)} %)", stopped(policy, of["other"])[0]]
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
