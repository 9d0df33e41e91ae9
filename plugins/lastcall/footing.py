"""What all rooms stand on, loaded at once by the first import of any of them.

Rooms load nothing else from outside (`tests/test_import.py`): several threads may open different rooms for the
first time, and most libraries cannot be loaded by several threads from several ends.
"""

from __future__ import annotations

# ruff: noqa: F401 - it is the loading that counts
import asyncio
import email.utils
import hashlib
import hmac
import http
import json
import logging
import unicodedata

import msgspec.json
import msgspec.structs
import orjson
from pydantic import BaseModel


class Footing(BaseModel):
    """Pydantic loads most of itself, and its plugins, with the first model that is made."""

    field: int = 0
