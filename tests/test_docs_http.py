"""The page on the wire: every block runs and prints what the page says."""

from __future__ import annotations

import inspect

from lastcall_http import AsyncGuardTransport, GuardAdapter, GuardTransport

from .documented import Page

PAGE = Page("docs/http.md")


def test_every_block_does_what_the_page_says(capsys):
    PAGE.run({}, capsys)


def test_the_table_names_every_setting():
    for made in (GuardTransport, AsyncGuardTransport, GuardAdapter):
        asked = inspect.signature(made.__init__).parameters.values()
        settings = [
            each.name
            for each in asked
            if each.name not in ("self", "guard") and each.kind is not each.VAR_KEYWORD
        ]
        assert [name for name in settings if f"| `{name}` |" not in PAGE.text] == []
