"""What fuzzing has found stays mended; and the targets hold on every sample of a transcript."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
SAMPLES = sorted([*(HERE.parent / "transcripts" / "data").iterdir(), *(HERE / "seeds").iterdir()])
FINDINGS = sorted(path for path in (HERE / "findings").rglob("*") if path.is_file())


def _module() -> ModuleType:
    # Not part of a package, so that the fuzzer can run it as it is.
    spec = importlib.util.spec_from_file_location("lastcall_fuzz_targets", HERE / "targets.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


targets = _module()


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_finding_is_mended(path: Path) -> None:
    targets.TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", targets.TARGETS)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_targets_hold_on_samples(path: Path, target: str) -> None:
    targets.TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", targets.TARGETS)
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff", b"{", b"[" * 2000, b'{"a": 1e999}'])
def test_targets_hold_on_odds_and_ends(data: bytes, target: str) -> None:
    targets.TARGETS[target](data)
