"""The page on the wire: every block runs and prints what the page says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from lastcall_http import AsyncGuardTransport, GuardAdapter, GuardTransport

PAGE = (Path(__file__).parents[1] / "docs" / "http.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def test_every_block_does_what_the_page_says(capsys):
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```python")
    assert sum(bool(printed) for _, printed in blocks) == PAGE.count("```text")
    given = {}
    for code, printed in blocks:
        exec(compile(code, "docs/http.md", "exec"), given)
        assert capsys.readouterr().out == printed


def test_the_table_names_every_setting():
    for made in (GuardTransport, AsyncGuardTransport, GuardAdapter):
        asked = inspect.signature(made.__init__).parameters.values()
        settings = [
            each.name
            for each in asked
            if each.name not in ("self", "guard") and each.kind is not each.VAR_KEYWORD
        ]
        assert [name for name in settings if f"| `{name}` |" not in PAGE] == []
