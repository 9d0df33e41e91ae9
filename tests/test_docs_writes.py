"""The page on writes: its program prints what it says, and its commands are the command's."""

from __future__ import annotations

import shlex
import time

from lastcall import Call, Guard, ToolPolicy, Where
from lastcall.cli import main

from .documented import Page

PAGE = Page("docs/writes.md")


def test_the_program_prints_what_the_page_says(capsys):
    PAGE.run({}, capsys)
    assert len(PAGE.blocks("text")) == 1


def test_the_commands_are_those_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (commands,) = PAGE.blocks("sh")
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
