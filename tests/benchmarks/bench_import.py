"""How long Lastcall takes to load, in fresh processes, beside what it is made of.

Run: python tests/benchmarks/bench_import.py [runs]. A machine changes its speed, so each round loads
everything once, and the ratios are those of the best of all rounds. Pydantic itself loads most of what it is
with the first model that is made, so a bare `import pydantic` is no more than half of what any model costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

DEPENDENCIES = "import asyncio, msgspec, orjson, pydantic"
MODEL = f"{DEPENDENCIES}\nclass Model(pydantic.BaseModel): field: int"

CASES = {
    "nothing": "",
    "the dependencies": DEPENDENCIES,
    "the dependencies and a model": MODEL,
    "import lastcall": "import lastcall",
    "Stop": "from lastcall import Stop",
    "Guard, Policy": "from lastcall import Guard, Policy",
    "Guard(Policy())": "from lastcall import Guard, Policy\nGuard(Policy())",
    "all public names, all rules": "from lastcall import *\nfrom lastcall.rules import *",
    "the command": "import lastcall.cli",
}
BASES = ("the dependencies", "the dependencies and a model")


def loaded(code: str, cache: str) -> float:
    """Seconds that *code* takes in a process of its own, whose bytecode is kept in *cache*."""
    timed = f"import time\nbegan = time.perf_counter()\n{code}\nprint(time.perf_counter() - began)"
    # Without it a checkout is compiled anew in every run where nothing may be written beside it.
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", timed]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measured(runs: int) -> dict[str, float]:
    """The best of *runs*, in seconds, by case."""
    with tempfile.TemporaryDirectory() as cache:
        for code in CASES.values():
            loaded(code, cache)
        rounds = [{case: loaded(code, cache) for case, code in CASES.items()} for _ in range(runs)]
    return {case: min(each[case] for each in rounds) for case in CASES}


def main(runs: int) -> None:
    """Print it."""
    best = measured(runs)
    print(f"{'':30}{'ms':>8}" + "".join(f"{f'/ {base}':>34}" for base in BASES))
    for case, seconds in best.items():
        ratios = "".join(f"{seconds / best[base]:34.2f}" for base in BASES)
        print(f"{case:30}{seconds * 1000:8.1f}{ratios}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
