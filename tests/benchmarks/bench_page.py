"""A page of 10,000 calls in headless Chromium: when it paints first, and how long a filter takes.

Run: python tests/benchmarks/bench_page.py [calls]. Wanted, on two cores: 1,500 ms and 150 ms.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "page"))

from browser import Browser, found

from lastcall.cli import main

TIMES = 7
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
# From the key to the frame in which the new rows are there.
FILTER = """new Promise(done => {
  const field = document.querySelector("#words");
  const start = performance.now();
  field.value = %s;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => { const one = new MessageChannel(); one.port1.onmessage = () =>
    done(performance.now() - start); one.port2.postMessage(0); });
})"""


def written(path: Path, calls: int) -> Path:
    """A run with results of up to 2 KB, of which the last third goes round."""
    dice = random.Random(4)
    tools = [f"tool_{n}" for n in range(12)]
    with path.open("w") as file:
        for n in range(calls):
            loop = n > calls * 2 // 3
            row = {
                "ts": 1_795_831_200 + 7 * n,
                "turn": n // 900,
                "name": "get_order" if loop else dice.choice(tools),
                "args": {"id": n % 3 if loop else dice.randrange(3000), "page": n % 40},
                "status": 503 if loop else dice.choice([200, 200, 404, 500]),
                "result": {"n": n, "text": "a line of a result " * dice.randrange(100)},
            }
            file.write(json.dumps(row) + "\n")
    return path


def measured(calls: int) -> None:
    """Print it."""
    program = found()
    if program is None:
        raise SystemExit("no Chromium on this machine: apt install chromium")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "page.html")
        log = written(Path(folder, "run.jsonl"), calls)
        main(["report", str(log), "-o", str(output)])
        print(f"{calls:,} calls, {output.stat().st_size / 1e6:.1f} MB")
        browser = Browser(program)
        browser.view()
        paints, filters = [], []
        for _ in range(TIMES):
            browser.open(output)
            browser.settled()
            paints.append(browser.run(PAINT))
            filters += [
                browser.run(FILTER % json.dumps(word)) for word in ("result", "503", "tool_3", "")
            ]
        browser.close()
    told("first paint", paints)
    told("filter", filters)


def told(what: str, spans: list[float]) -> None:
    """One line."""
    print(f"{what:12} median {statistics.median(spans):6.0f} ms   worst {max(spans):6.0f} ms")


if __name__ == "__main__":
    measured(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
