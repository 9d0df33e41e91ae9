"""Makes what a run needs: environments by the pins, tests from the sdists of the same releases."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tomllib
import venv

from suites import ROOT, SUITES, WORK

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def prepare(suite):
    """Make what a run needs; what is there and made of the same versions stays."""
    made = suite.bin.parent / "made-of.json"
    wanted = json.dumps([SUITES["environments"][suite.environment], suite.pins])
    if not made.exists() or made.read_text() != wanted:
        print(f"{suite.name}: installing {suite.environment}", flush=True)
        venv.create(suite.bin.parent, with_pip=True, clear=True, symlinks=os.name != "nt")
        pip(suite, "install", *SUITES["environments"][suite.environment])
        made.write_text(wanted)
    if not suite.tests.exists():
        print(f"{suite.name}: unpacking {suite.release}", flush=True)
        unpack(suite)
    complete(suite)


def unpack(suite):
    """The sdist, without the package: the tests import the wheel."""
    sdists = WORK / "sdists"
    wanted = f"{suite.says['release']}=={suite.pins[suite.says['release']]}"
    pip(suite, "download", "--no-deps", "--no-binary=:all:", f"--dest={sdists}", wanted)
    (sdist,) = sdists.glob(suite.release.replace("-", "?") + ".tar.gz")
    aside = suite.tests.with_name(suite.tests.name + ".unpacking")
    shutil.rmtree(aside, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(aside, filter="data")
    (unpacked,) = aside.iterdir()
    if "package" in suite.says:
        shutil.rmtree(unpacked / suite.says["package"])
    unpacked.rename(suite.tests)
    aside.rmdir()


def complete(suite):
    """Put what the guard needs and the environment lacks beside it; that one stays as it is pinned."""
    found = "import sys; from importlib.util import find_spec as f; print(*filter(f, sys.argv[1:]))"
    needs = {need.partition(">")[0] for need in PROJECT["dependencies"]}
    there = subprocess.check_output([suite.bin / "python", "-c", found, *needs], text=True).split()
    shutil.rmtree(suite.guard, ignore_errors=True)
    suite.guard.mkdir(parents=True)
    missing = sorted(needs - set(there))
    if missing:
        pip(suite, "install", "--no-deps", f"--target={suite.guard}", *missing)


def register(suite):
    """Write the entry points of the guard, whose sources are found by path alone."""
    info = suite.guard / f"{PROJECT['name']}-{PROJECT['version']}.dist-info"
    info.mkdir(exist_ok=True)
    head = ("Metadata-Version: 2.1", f"Name: {PROJECT['name']}", f"Version: {PROJECT['version']}")
    (info / "METADATA").write_text("\n".join(head) + "\n")
    lines = [
        line
        for group, points in PROJECT["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in points.items()), "")
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


def pip(suite, *args):
    """pip of the suite's environment, held to the pins."""
    pins = WORK / f"pins-{suite.environment}.txt"
    pins.parent.mkdir(parents=True, exist_ok=True)
    pins.write_text("".join(f"{name}=={version}\n" for name, version in suite.pins.items()))
    command = [suite.bin / "python", "-m", "pip", "-q", *args]
    subprocess.run(command, check=True, env={**os.environ, "PIP_CONSTRAINT": str(pins)})
