"""The `lastcall` command."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version

from lastcall.commands import (
    baseline,
    explain,
    fingerprints,
    kill,
    quarantine,
    raising,
    ready,
    replay,
    report,
    revive,
    status,
    tune,
    writes,
)
from lastcall.commands.codes import INTERRUPTED, OK, UNUSABLE, CommandError
from lastcall.contracts import Clock
from lastcall.policy_file import PolicyError
from lastcall.visible import visible

COMMANDS = (
    replay,
    report,
    fingerprints,
    baseline,
    tune,
    explain,
    kill,
    revive,
    status,
    ready,
    quarantine,
    writes,
    raising,
)


def main(argv: Sequence[str] | None = None, *, clock: Clock = time.time) -> int:
    """Run the command; the exit code says how it went. *clock* gives epoch seconds."""
    options = parser().parse_args(argv, argparse.Namespace(clock=clock))
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads us, `head` perhaps, has seen enough; what is left is for nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (CommandError, PolicyError, OSError) as error:
        # Names of files and words of the command are in it.
        print(f"lastcall: {visible(str(error))}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def parser() -> argparse.ArgumentParser:
    """The command's words."""
    top = argparse.ArgumentParser(
        prog="lastcall", description="Stops an AI agent's runaway tool calls."
    )
    top.add_argument("--version", action="version", version=f"lastcall {version('lastcall')}")
    words = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(words)
    return top


if __name__ == "__main__":
    raise SystemExit(main())
