"""The postmortem of saved runs, for people: what was called, where it would have stopped, what that saves.

`building` makes a `RunPage` of a run (`model`), `findings` its sentences; `as_html`, `as_svg`, `as_markdown` and `as_json`
write them. Nothing here opens a file of a run, or decides anything.
"""

from __future__ import annotations

from lastcall.page.as_html import html
from lastcall.page.as_json import plain
from lastcall.page.as_markdown import markdown
from lastcall.page.as_svg import svg
from lastcall.page.building import run_page
from lastcall.page.model import Page, RunPage, named

__all__ = ["Page", "RunPage", "html", "markdown", "named", "plain", "run_page", "svg"]
