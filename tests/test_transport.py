"""Failed connections and time-outs are told from other failures, whichever library they come from."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import urllib.error

import aiohttp
import botocore.exceptions
import httpx
import httpx2
import openai
import pytest
import redis
import requests
import urllib3

from lastcall.status import raised, returned

REQUEST = httpx.Request("GET", "http://localhost")

UNREACHED = [
    ConnectionRefusedError("no"),
    ConnectionResetError("no"),
    TimeoutError("late"),
    OSError(errno.EHOSTUNREACH, "no route"),
    socket.gaierror(8, "unknown name"),
    ssl.SSLEOFError("gone"),
    http.client.RemoteDisconnected("gone"),
    http.client.IncompleteRead(b""),
    urllib.error.URLError("no"),
    urllib3.exceptions.ProtocolError("gone"),
    urllib3.exceptions.ReadTimeoutError(None, "", "late"),
    requests.ConnectionError("no"),
    requests.ReadTimeout("late"),
    httpx.ConnectError("no"),
    httpx.ReadTimeout("late"),
    httpx.PoolTimeout("late"),
    httpx.RemoteProtocolError("gone"),
    httpx2.ConnectTimeout("late"),
    aiohttp.ServerDisconnectedError(),
    aiohttp.ServerTimeoutError(),
    botocore.exceptions.EndpointConnectionError(endpoint_url="x"),
    botocore.exceptions.ReadTimeoutError(endpoint_url="x"),
    openai.APIConnectionError(request=REQUEST),
    openai.APITimeoutError(request=REQUEST),
    redis.ConnectionError("no"),
]

OTHERS = [
    ValueError("no"),
    KeyError("x"),
    FileNotFoundError(errno.ENOENT, "no"),
    PermissionError(errno.EACCES, "no"),
    ssl.SSLCertVerificationError("whose?"),
    httpx.UnsupportedProtocol("ftp"),
    httpx.LocalProtocolError("ours"),
    httpx.InvalidURL("x"),
    requests.exceptions.InvalidURL("x"),
    requests.exceptions.MissingSchema("x"),
    aiohttp.InvalidURL("x"),
    botocore.exceptions.NoCredentialsError(),
    redis.ResponseError("wrong"),
]


def name(error):
    kind = type(error)
    return f"{kind.__module__}.{kind.__name__}"


@pytest.mark.parametrize("error", UNREACHED, ids=name)
def test_a_service_was_not_reached(error):
    outcome = raised(error)
    assert (outcome.kind, outcome.transport, outcome.status) == ("error", True, None)
    assert returned(error).transport


@pytest.mark.parametrize("error", OTHERS, ids=name)
def test_it_was_something_else(error):
    assert raised(error).transport is False


def test_a_cause_counts_as_its_status_does():
    error = ValueError("the tool failed")
    error.__cause__ = httpx.ConnectError("no")
    assert raised(error).transport
    assert raised(ExceptionGroup("several", [error])).transport


def test_an_answer_with_a_status_is_an_answer():
    response = httpx.Response(503, request=REQUEST)
    error = httpx.HTTPStatusError("503", request=REQUEST, response=response)
    error.__cause__ = TimeoutError()
    assert (raised(error).status, raised(error).transport) == (503, False)
    urls = urllib.error.HTTPError("http://localhost", 404, "no", {}, None)
    with urls:
        assert (raised(urls).status, raised(urls).transport) == (404, False)


def test_a_class_without_a_module_is_none():
    kind = type("ConnectError", (Exception,), {"__module__": None})
    assert raised(kind()).transport is False
