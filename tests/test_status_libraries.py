"""The real responses and exceptions of HTTP clients and SDKs, from a real server on loopback."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import botocore.config  # type: ignore[import-untyped]
import botocore.exceptions  # type: ignore[import-untyped]
import botocore.session  # type: ignore[import-untyped]
import httpx
import httpx2
import mcp
import mcp.types
import openai
import pytest
import requests
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from lastcall.call import Outcome
from lastcall.status import raised, returned

QUOTA = json.dumps({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
WAIT = {"Retry-After": "17"}


class Answer(BaseHTTPRequestHandler):
    """Answers /STATUS with that status; `?body=` and `?headers=` (JSON) say the rest."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = asked.get("body", "{}").encode()
        self.send_response(next(int(part) for part in parts.path.split("/") if part.isdigit()))
        for name, value in json.loads(asked.get("headers", "{}")).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_HEAD = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, *_: object) -> None:
        """Keep the test run quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def url(server: str, status: int, body: str = "{}", headers: dict[str, str] | None = None) -> str:
    query = httpx.QueryParams({"body": body, "headers": json.dumps(headers or {})})
    return f"{server}/{status}?{query}"


# --- each client: what it returns, and what it raises ---------------------------------------------


def get_httpx2(address: str) -> Any:
    with httpx2.Client(trust_env=False) as client:
        return client.get(address)


def get_httpx(address: str) -> Any:
    with httpx.Client(trust_env=False) as client:
        return client.get(address)


def get_requests(address: str) -> Any:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(address)


async def get_aiohttp(address: str) -> aiohttp.ClientResponse:
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        await response.read()
        return response


CLIENTS: list[Callable[[str], Any]] = [
    get_httpx2,
    get_httpx,
    get_requests,
    lambda address: asyncio.run(get_aiohttp(address)),
]
NAMES = ["httpx2", "httpx", "requests", "aiohttp"]
each_client = pytest.mark.parametrize("get", CLIENTS, ids=NAMES)


def both(get: Callable[[str], Any], address: str) -> tuple[Outcome, Outcome]:
    """The outcomes of returning the response and of its own `raise_for_status`."""
    response = get(address)
    with pytest.raises(Exception) as caught:  # each library has its own
        response.raise_for_status()
    return returned(response), raised(caught.value)


@each_client
@pytest.mark.parametrize(
    ("status", "grade"),
    [(400, "final"), (404, "final"), (422, "final"), (429, "passing"), (503, "passing")],
)
def test_a_status_is_found_on_the_response_and_on_the_exception(
    server: str, get: Callable[[str], Any], status: int, grade: str
) -> None:
    for outcome in both(get, url(server, status, headers=WAIT)):
        assert (outcome.kind, outcome.status, outcome.grade) == ("error", status, grade)
        assert outcome.retry_after == 17.0
        assert outcome.error


@each_client
def test_a_200_is_a_success(server: str, get: Callable[[str], Any]) -> None:
    response = get(url(server, 200, body='{"error": "in data"}'))
    outcome = returned(response)
    assert (outcome.kind, outcome.status, outcome.content) == ("ok", 200, response)


@each_client
def test_a_response_whose_status_is_mapped_to_ok_is_one(
    server: str, get: Callable[[str], Any]
) -> None:
    assert returned(get(url(server, 404)), statuses={404: "ok"}).kind == "ok"


@each_client
def test_an_exhausted_quota_is_found_in_the_body(server: str, get: Callable[[str], Any]) -> None:
    assert returned(get(url(server, 429, body=QUOTA))).grade == "final"


@pytest.mark.parametrize("get", CLIENTS[:3], ids=NAMES[:3])  # aiohttp's exception has no body
def test_an_exhausted_quota_is_found_behind_the_exception(
    server: str, get: Callable[[str], Any]
) -> None:
    assert both(get, url(server, 429, body=QUOTA))[1].grade == "final"


@each_client
def test_a_throttling_403_is_passing(server: str, get: Callable[[str], Any]) -> None:
    for outcome in both(get, url(server, 403, headers={"X-RateLimit-Remaining": "0"})):
        assert outcome.grade == "passing"


@each_client
def test_a_retry_date_counts_from_the_answers_own_date(
    server: str, get: Callable[[str], Any]
) -> None:
    # The server's Date header is now: a date in the past is no wait at all.
    headers = {"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"}
    for outcome in both(get, url(server, 503, headers=headers)):
        assert outcome.retry_after == 0.0


def test_a_streamed_body_is_not_read(server: str) -> None:
    with requests.Session() as session:
        session.trust_env = False
        with session.get(url(server, 429, body=QUOTA), stream=True) as response:
            assert returned(response).grade == "passing"
            assert response.raw.read() == QUOTA.encode()
    address = url(server, 429, body=QUOTA)
    with httpx.Client(trust_env=False) as client, client.stream("GET", address) as streamed:
        assert returned(streamed).grade == "passing"
        assert streamed.read() == QUOTA.encode()


def refused() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/"


@each_client
def test_a_transport_error_has_no_status(get: Callable[[str], Any]) -> None:
    with pytest.raises(Exception) as caught:  # each library has its own
        get(refused())
    outcome = raised(caught.value)
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", None, None)


def test_urllib(server: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url(server, 200)) as response:
        assert isinstance(response, http.client.HTTPResponse)
        assert (returned(response).kind, returned(response).status) == ("ok", 200)
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(url(server, 503, headers=WAIT))
    with caught.value:
        outcome = raised(caught.value)
    assert (outcome.status, outcome.grade, outcome.retry_after) == (503, "passing", 17.0)
    with pytest.raises(urllib.error.URLError) as lost:
        opener.open(refused())
    assert raised(lost.value).status is None


def test_http_client_responses_are_read_by_their_status(server: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(server).netloc)
    connection.request("GET", "/404")
    response = connection.getresponse()
    assert (returned(response).status, returned(response).grade) == (404, "final")
    assert response.read() == b"{}"
    connection.close()


@pytest.mark.parametrize(("status", "grade"), [(404, "final"), (503, "passing")])
def test_botocore(server: str, status: int, grade: str) -> None:
    config = botocore.config.Config(retries={"total_max_attempts": 1}, proxies={})
    client = botocore.session.Session().create_client(
        "s3",
        region_name="eu-central-1",
        endpoint_url=f"{server}/{status}",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=config.merge(botocore.config.Config(s3={"addressing_style": "path"})),
    )
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        client.head_object(Bucket="bucket", Key="key")
    outcome = raised(caught.value)
    assert (outcome.status, outcome.grade) == (status, grade)


@pytest.mark.parametrize(
    ("status", "body", "grade"),
    [
        (401, "{}", "final"),
        (429, "{}", "passing"),
        (429, QUOTA, "final"),
        (503, "{}", "passing"),
    ],
)
def test_openai(server: str, status: int, body: str, grade: str) -> None:
    # The SDK appends its paths to the base address, so the query travels by `default_query`.
    query = {"body": body, "headers": json.dumps(WAIT)}
    client = openai.OpenAI(
        api_key="x",
        base_url=f"{server}/{status}",
        max_retries=0,
        default_query=query,
    )
    with client, pytest.raises(openai.APIStatusError) as caught:
        client.models.list()
    outcome = raised(caught.value)
    assert (outcome.status, outcome.grade, outcome.retry_after) == (status, grade, 17.0)


def test_openai_connection_errors_have_no_status() -> None:
    client = openai.OpenAI(api_key="x", base_url=refused(), max_retries=0)
    with client, pytest.raises(openai.APIConnectionError) as caught:
        client.models.list()
    assert raised(caught.value).status is None


# --- wrapped by a tool ----------------------------------------------------------------------------


@each_client
def test_a_tool_that_wraps_the_exception_loses_nothing(
    server: str, get: Callable[[str], Any]
) -> None:
    response = get(url(server, 422))

    def tool() -> None:
        try:
            response.raise_for_status()
        except Exception as error:
            text = "the invoice could not be written"
            raise ToolException(text) from error

    with pytest.raises(ToolException) as caught:
        tool()
    outcome = raised(caught.value)
    assert (outcome.status, outcome.grade) == (422, "final")
    assert outcome.error == "the invoice could not be written"


@each_client
def test_a_tool_that_answers_with_the_text_of_the_exception(
    server: str, get: Callable[[str], Any]
) -> None:
    response = get(url(server, 404))
    with pytest.raises(Exception) as caught:  # each library has its own
        response.raise_for_status()
    assert returned({"error": str(caught.value)}).status == 404
    assert returned(str(caught.value), failed=True).status == 404
    assert raised(ToolException(str(caught.value))).status == 404


def test_r161_a_tool_exception_is_a_failure_without_status() -> None:
    outcome = raised(ToolException("the customer is unknown"))
    assert (outcome.kind, outcome.status) == ("error", None)


def test_a_task_group_hands_on_the_status_of_its_member(server: str) -> None:
    async def fetch() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            await session.get(url(server, 404))

    async def tool() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch())

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(tool())
    assert raised(caught.value).status == 404


def test_a_tool_message_with_status_error_is_a_failure() -> None:
    failed = ToolMessage("HTTP 404: no such page", tool_call_id="1", status="error")
    outcome = returned(failed)
    assert (outcome.kind, outcome.status, outcome.content) == ("error", 404, failed)
    assert returned(ToolMessage("HTTP 404 explained", tool_call_id="1")).kind == "ok"


# --- MCP ------------------------------------------------------------------------------------------


def mcp_server() -> MCPServer:
    service = MCPServer("test")

    @service.tool()
    def fine() -> str:
        return "HTTP 404 is explained in chapter 503"

    @service.tool()
    def sick() -> dict[str, int]:
        return {"status": 503}

    @service.tool()
    def broken(address: str) -> str:
        try:
            get_httpx(address).raise_for_status()
        except httpx.HTTPStatusError as error:
            raise ToolError(str(error)) from error
        return "unreachable"

    @service.tool()
    def confused() -> str:
        text = "no idea"
        raise ToolError(text)

    return service


def called(work: Callable[[mcp.Client], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        async with mcp.Client(mcp_server()) as client:
            return await work(client)

    return asyncio.run(session())


def test_an_mcp_result_is_read_by_its_flag_and_its_structure(server: str) -> None:
    fine = called(lambda client: client.call_tool("fine", {}))
    sick = called(lambda client: client.call_tool("sick", {}))
    broken = called(lambda client: client.call_tool("broken", {"address": url(server, 404)}))
    confused = called(lambda client: client.call_tool("confused", {}))
    assert isinstance(fine, mcp.types.CallToolResult)
    assert (returned(fine).kind, returned(fine).status) == ("ok", None)
    assert (returned(sick).status, returned(sick).grade) == (503, "passing")
    assert (returned(broken).status, returned(broken).grade) == (404, "final")
    assert (returned(confused).kind, returned(confused).status) == ("error", None)
    assert "no idea" in (returned(confused).error or "")


def test_an_mcp_result_reads_the_same_as_json(server: str) -> None:
    broken = called(lambda client: client.call_tool("broken", {"address": url(server, 404)}))
    for form in (broken.model_dump(), broken.model_dump(by_alias=True), broken.model_dump_json()):
        assert (returned(form).kind, returned(form).status) == ("error", 404)


def test_a_refusal_in_an_mcp_result_keeps_its_words() -> None:
    result = mcp.types.CallToolResult(
        content=[mcp.types.TextContent(type="text", text="The budget is used up.")],
        structured_content={"error": {"code": "budget_exhausted", "message": "used up"}},
        is_error=True,
    )
    outcome = returned(result)
    assert (outcome.kind, outcome.status, outcome.error) == ("error", None, "used up")


def test_an_mcp_protocol_error_has_no_http_status() -> None:
    error = mcp.MCPError(mcp.types.INVALID_PARAMS, "unknown tool")
    outcome = raised(error)
    assert (outcome.kind, outcome.status, outcome.error) == ("error", None, "unknown tool")
