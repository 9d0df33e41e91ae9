"""What the stories share: answers as exceptions, as HTTP clients raise them, and lines of one width."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from lastcall import Stopped
from lastcall.testing import Response

# What the guard logs, the stories tell by themselves.
logging.getLogger("lastcall").addHandler(logging.NullHandler())


class HttpError(Exception):
    """An answer that is no success. The guard reads its status and its headers."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"HTTP {response.status}: {response.body['error']['message']}")
        self.status_code = response.status
        self.headers = response.headers


def checked(response: Response) -> dict[str, Any]:
    """The body of *response*. Raises HttpError for what is no success."""
    if response.status >= HTTPStatus.BAD_REQUEST:
        raise HttpError(response)
    return dict(response.body)


def line(who: str, what: str, ending: str = "") -> None:
    """One line: *who*, *what* it cost, and how it ended."""
    print(f"  {who:<36}{what:<20}{ending}".rstrip())


def said(stopped: Stopped) -> str:
    """The first line of what the model, or who else asked, reads of a stop."""
    return stopped.stop.text.splitlines()[0]
