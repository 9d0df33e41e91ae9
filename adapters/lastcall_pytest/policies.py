"""Which policy judges a transcript."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastcall import Policy
from lastcall.commands.replay import PRESETS, policy_of


def chosen(
    config: pytest.Config, own: str | None = None, folder: Path | None = None
) -> tuple[str, Policy]:
    """Its name and the policy: the command line's, else *own* (from *folder*), else the setting's, else the
    default. Raises PolicyError."""
    named: str | None = config.getoption("--lastcall-policy")
    if named is not None:
        return named, policy_of(named, "--lastcall-policy", config.invocation_params.dir)
    if own is not None:
        return own, policy_of(own, "policy =", folder)
    written: str = config.getini("lastcall_policy")
    if written:
        home = config.rootpath if config.inipath is None else config.inipath.parent
        return written, policy_of(written, "lastcall_policy =", home)
    return "default", Policy()


def kept(config: pytest.Config, own: str | None, transcript: Path) -> str | None:
    """The policy to be written beside *transcript*: the command line's, which later runs may leave out,
    else its *own*."""
    named: str | None = config.getoption("--lastcall-policy")
    if named is None or named in PRESETS:
        return own if named is None else named
    return Path(os.path.relpath(config.invocation_params.dir / named, transcript.parent)).as_posix()
