"""The page on writes: its program prints what it says, and its commands are the command's."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

from lastcall import Call, Guard, ToolPolicy, Where
from lastcall.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "writes.md").read_text()


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_prints_what_the_page_says(capsys):
    (program,), (printed,) = blocks("python"), blocks("text")
    exec(program, {})
    assert capsys.readouterr().out == printed


def test_the_commands_are_those_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (commands,) = blocks("sh")
    listing, settling = (shlex.split(line)[1:] for line in commands.splitlines())
    policy = ToolPolicy(writes=True, timeout=0.001)
    call = Call("pay", {"invoice": "inv-9"}, Where(run="r", turn="r", tenant="acme"))
    guard = Guard(store="sqlite:///lastcall.db", clock=lambda: time.time() - 3600)
    key = guard.decide(call, policy).call.key
    guard.close()
    assert main(listing) == 0
    assert key in capsys.readouterr().out
    settling[2] = key
    assert main(settling) == 0
    assert capsys.readouterr().out == f"settled: {key}: it happened\n"
