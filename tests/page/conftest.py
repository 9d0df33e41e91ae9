from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from lastcall.cli import main

HERE = Path(__file__).parent


def _module(name):
    spec = importlib.util.spec_from_file_location(f"page_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser():
    """A real browser; without one the tests are skipped, but not where one is required."""
    chromium = _module("browser")
    program = chromium.found()
    if program is None:
        if os.environ.get("LASTCALL_BROWSER") == "required":
            pytest.fail("no Chromium here, and LASTCALL_BROWSER says that there must be")
        pytest.skip("no Chromium on this machine: apt install chromium")
    one = chromium.Browser(program)
    yield one
    one.close()


@pytest.fixture
def page(browser, tmp_path):
    """Writes the page of *paths*, and opens it in the browser."""

    def opened(*paths, more=(), **view):
        output = tmp_path / "page.html"
        assert main(["report", *map(str, paths), "-o", str(output), *more]) == 0
        browser.view(**view)
        browser.open(output)
        return browser

    return opened
