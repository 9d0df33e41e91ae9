from __future__ import annotations

import os

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
os.environ.setdefault("OPENAI_API_KEY", "none")

import logging

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def quiet():
    """The SDK prints every failing tool with its traceback."""
    logging.getLogger("openai.agents").setLevel(logging.CRITICAL)


@pytest.fixture(params=["run", "streamed"])
def mode(request):
    return request.param
