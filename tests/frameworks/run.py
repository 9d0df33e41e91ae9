"""Runs the frameworks' own test suites, unchanged, without and with a guard, and compares them test by test.

    run.py prepare SUITE...         environments, and tests from the sdists of the same releases
    run.py run POINT SUITE...       one run of each suite
    run.py compare POINT SUITE...   with the last run of `none`; exit code 1 on what allow.toml does not name
    run.py prove POINT SUITE...     of a deny point: tests fail, and just such in which the guard was asked
    run.py all SUITE...             prepare, run `none` and the suite's own points, compare

POINT: none; instrument, middleware (a permissive guard); deny-instrument, deny-middleware (one that refuses
every call: what fails is what the point reaches); bystander (a middleware and a handler that do nothing).

Work folder: LASTCALL_FRAMEWORKS, default ~/.cache/lastcall-frameworks. Workers: LASTCALL_WORKERS, default 2.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from time import monotonic

import outcomes
from prepare import prepare, register
from suites import HERE, ROOT, Suite

WORKERS = int(os.environ.get("LASTCALL_WORKERS", "2"))
PATIENCE = 1800
"""Seconds for one suite; a refused call can leave a test waiting for ever."""

GUARDED = ("instrument", "middleware", "deny-instrument", "deny-middleware")
POINTS = ("none", "bystander", *GUARDED)


def run(suite, point):
    """Run *suite* with a guard at *point*; its results are files."""
    if point not in POINTS:
        raise SystemExit(f"no point {point!r}; there are {', '.join(POINTS)}")
    if not suite.bin.exists():
        raise SystemExit(f"{suite.name} is not there yet: run.py prepare {suite.name}")
    if point in GUARDED:
        register(suite)
    for old in suite.result(point, "").parent.glob(f"{suite.name}.{point}.*"):
        old.unlink()
    log = suite.result(point, ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    began = monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(
            command(suite, point),
            cwd=suite.tests,
            env=variables(suite, point),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            say(f"{suite.name} {point}: not over after {PATIENCE} s; ended")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    took = monotonic() - began
    said = outcomes.of(suite.result(point, ".xml"))
    if not said:
        raise SystemExit(f"{suite.name} {point}: no results; see {log}")
    notes = outcomes.notes(suite.result(point, ""))
    say(f"{suite.name} {point}: {outcomes.counted(said)}, {took:.0f} s{notes.summary()}")
    if point in GUARDED and not notes.tests:
        raise SystemExit(f"{suite.name} {point}: no test reached the guard; see {log}")
    if notes.wrong:
        say(*(f"  the guard itself failed in {each}" for each in notes.wrong))
        return False
    return True


def command(suite, point):
    """How pytest is started. The suite's own options are about its log, so they give way."""
    args = [suite.bin / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    args += ["--tb=short", f"--junitxml={suite.result(point, '.xml')}"]
    workers = suite.says.get("workers", WORKERS)
    args += ["-n", str(workers)] if workers else []
    if point != "none":
        args += ["-p", "lastcall_point"]
        args += [
            f"--deselect={test}"
            for out in suite.allowed("left-out", point)
            for test in out["tests"]
        ]
    return [*args, *suite.says.get("options", []), *suite.says["tests"]]


def variables(suite, point):
    """The environment of the tests: nothing of Lastcall in it for *point* none, and for
    bystander nothing but what puts that in."""
    path = [suite.tests / suite.says["source"]] if "source" in suite.says else []
    given = {
        "PATH": f"{suite.bin}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(suite.bin.parent),
        "LANGSMITH_TRACING": "false",
        **suite.says.get("variables", {}),
    }
    if point in GUARDED:
        path += [ROOT / "plugins", ROOT / "adapters", suite.guard]
    if point != "none":
        path.append(HERE / "plugin")
        given |= {
            "LASTCALL_POINT": point,
            "LASTCALL_ADAPTER": suite.says["adapter"],
            "LASTCALL_NOTES": str(suite.result(point, "")),
        }
    given["PYTHONPATH"] = os.pathsep.join(map(str, path))
    return {**os.environ, **given, "PYTHONDONTWRITEBYTECODE": "1"}


def compare(suite, point):
    """Whether the run at *point* ended as the one without a guard did, but for what is allowed."""
    rest, named, stale = difference(suite, point)
    say(f"{suite.name} {point}: {len(rest)} tests differ, and {len(named)} that allow.toml names")
    say(*(f"  {was} -> {now}  {test}" for test, (was, now) in rest.items()))
    say(*(f"  no longer so, take it out of allow.toml: {test}" for test in stale))
    return not rest and not stale


def prove(suite, point):
    """Whether refusing every call makes tests fail, and only tests that the guard saw calls of."""
    rest, _, _ = difference(suite, point)
    asked = {outcomes.key(test) for test in outcomes.notes(suite.result(point, "")).tests}
    blind = sorted(rest.keys() - asked)
    say(f"{suite.name} {point}: {len(rest)} tests differ, the guard was asked in {len(asked)}")
    say(*(f"  differs, though the guard was not asked: {test}" for test in blind))
    return bool(rest) and not blind


def difference(suite, point):
    """The tests that ended otherwise than without a guard; those of them that are allowed; those that
    are allowed and did not."""
    runs = [outcomes.of(suite.result(each, ".xml")) for each in ("none", point)]
    if not all(runs):
        raise SystemExit(f"{suite.name}: run it at both points, none and {point}, before comparing")
    allowed = (list(suite.allowed(kind, point)) for kind in ("left-out", "differs"))
    return outcomes.explained(outcomes.differences(*runs), *allowed)


def everything(suite):
    """Prepare and run *suite*, and compare it at each of its points."""
    prepare(suite)
    run(suite, "none")
    equal = True
    for point in suite.points:
        sound = run(suite, point)
        equal &= compare(suite, point) and sound
    return equal


def say(*lines):
    for line in lines:
        print(line, flush=True)


def main(args):
    steps = {"run": run, "compare": compare, "prove": prove}
    match args:
        case ["prepare", *names] if names:
            done = [prepare(Suite(name)) for name in names]
        case ["all", *names] if names:
            done = [everything(Suite(name)) for name in names]
        case [step, point, *names] if step in steps and names:
            done = [steps[step](Suite(name), point) for name in names]
        case _:
            say(__doc__)
            return 2
    return int(False in done)


if __name__ == "__main__":
    # Not to leave a suite running: its servers are many.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main(sys.argv[1:]))
