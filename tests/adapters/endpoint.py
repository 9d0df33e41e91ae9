"""A provider on loopback: speaks OpenAI's Chat Completions and Responses, whole and streamed, and is as
strict about a history as the real ones are."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple, Self

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a tool may be called."""

ABOUT_TOOLS = ("tool_choice", "parallel_tool_calls")
"""What may be said only beside tools."""

KEEPING = ("previous_response_id", "conversation")
"""What has the provider keep the history; one that does not refuses it rather than forget it."""


# What is said to it in a script.


class Ask(NamedTuple):
    """One tool call of a scripted reply; a text as *arguments* is sent as it is, JSON or not."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""
    """A new one where none is given."""

    @property
    def text(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else json.dumps(given)


@dataclass(frozen=True)
class Reply:
    """What the model answers one request with; a *status* other than 200 is an error in its place."""

    text: str = ""
    calls: tuple[Ask, ...] = ()
    status: int = 200


def says(text: str) -> Reply:
    """A reply that ends a turn."""
    return Reply(text)


def asks(*calls: tuple[Any, ...], text: str = "") -> Reply:
    """A reply with tool calls, each a name and its arguments."""
    return Reply(text, tuple(Ask(*call) for call in calls))


def fails(status: int) -> Reply:
    """An error in the place of a reply."""
    return Reply(status=status)


# What it finds in a history.


class Step(NamedTuple):
    """One step of a history, as either API tells it: what was said, asked for, or answered."""

    kind: Literal["said", "asked", "answered"]
    ids: tuple[str, ...]
    at: int


class Fault(NamedTuple):
    """What a request is refused for."""

    message: str
    param: str | None = None


class Broken(NamedTuple):
    """Calls that are *open* where something else stands, or an answer that answers none (*stray*)."""

    kind: Literal["open", "stray"]
    ids: tuple[str, ...]
    at: int


def broken(steps: Iterable[Step]) -> Broken | None:
    """The first step that no strict provider takes: each call is answered once, right after its reply."""
    waiting: list[str] = []
    at = -1
    for kind, ids, at in steps:
        if kind == "answered":
            # The second answer to a call answers none that is open.
            if ids[0] not in waiting:
                return Broken("stray", ids, at)
            waiting.remove(ids[0])
        elif waiting:
            return Broken("open", tuple(waiting), at)
        else:
            waiting = list(ids)
    return Broken("open", tuple(waiting), at + 1) if waiting else None


def turn_of(steps: Sequence[Step]) -> int:
    """How many replies stand after what was said last."""
    after = itertools.takewhile(lambda step: step.kind != "said", reversed(steps))
    return sum(step.kind == "asked" for step in after)


# The two APIs: how each tells a history, refuses one, and answers.


class Chat:
    """`POST /chat/completions`."""

    path = "/chat/completions"

    @staticmethod
    def history(body: dict[str, Any]) -> list[dict[str, Any]]:
        return list(body.get("messages") or [])

    @staticmethod
    def steps(history: Sequence[dict[str, Any]]) -> list[Step]:
        return [Chat.step(each, at) for at, each in enumerate(history)]

    @staticmethod
    def step(message: dict[str, Any], at: int) -> Step:
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or ()
            return Step("asked", tuple(call["id"] for call in calls), at)
        if message["role"] == "tool":
            return Step("answered", (message["tool_call_id"],), at)
        return Step("said", (), at)

    @staticmethod
    def fault(history: Sequence[dict[str, Any]]) -> Fault | None:
        if not history:
            return Fault("[] is too short - 'messages'", "messages")
        for at, message in enumerate(history):
            calls = message.get("tool_calls")
            if calls is not None and not calls:
                return Fault("[] is too short", f"messages[{at}].tool_calls")
            if message.get("content") is None and not calls:
                said = "Invalid value for 'content': expected a string, got null."
                return Fault(said, f"messages.[{at}].content")
            for n, call in enumerate(calls or ()):
                if not NAME.fullmatch(call["function"]["name"]):
                    where = f"messages[{at}].tool_calls[{n}].function.name"
                    return Fault(f"Invalid '{where}': string does not match pattern.", where)
        found = broken(Chat.steps(history))
        if found is None:
            return None
        param = f"messages.[{found.at}].role"
        if found.kind == "stray":
            said = "messages with role 'tool' must be a response to a preceeding message"
            return Fault(f"Invalid parameter: {said} with 'tool_calls'.", param)
        said = "An assistant message with 'tool_calls' must be followed by tool messages"
        ids = ", ".join(found.ids)
        missing = f"The following tool_call_ids did not have response messages: {ids}"
        return Fault(f"{said} responding to each 'tool_call_id'. {missing}", param)

    @staticmethod
    def said(history: Sequence[dict[str, Any]]) -> str:
        users = [each for each in history if each["role"] == "user"]
        return text_of(users[-1]["content"]) if users else ""

    @staticmethod
    def tools(body: dict[str, Any]) -> tuple[str, ...]:
        return tuple(each["function"]["name"] for each in body.get("tools") or ())

    @staticmethod
    def whole(reply: Reply, n: int, body: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}
                for id_, name, text in named(reply, n)
            ]
        finish = "tool_calls" if reply.calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return {**Chat.head(n, body, "chat.completion"), "choices": [choice], "usage": Chat.USAGE}

    USAGE = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}

    @staticmethod
    def head(n: int, body: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{n}", "object": kind, "created": 0, "model": body["model"]}

    @staticmethod
    def streamed(reply: Reply, n: int, body: dict[str, Any]) -> Iterator[str]:
        head = Chat.head(n, body, "chat.completion.chunk")
        for delta, finish in Chat.deltas(reply, n):
            choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
            yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
        if (body.get("stream_options") or {}).get("include_usage"):
            yield f"data: {json.dumps({**head, 'choices': [], 'usage': Chat.USAGE})}\n\n"
        yield "data: [DONE]\n\n"

    @staticmethod
    def deltas(reply: Reply, n: int) -> Iterator[tuple[dict[str, Any], str | None]]:
        yield {"role": "assistant", "content": ""}, None
        for piece in pieces(reply.text):
            yield {"content": piece}, None
        for index, (id_, name, text) in enumerate(named(reply, n)):
            made = {"index": index, "id": id_, "type": "function"}
            yield {"tool_calls": [{**made, "function": {"name": name, "arguments": ""}}]}, None
            for piece in pieces(text):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
        yield {}, "tool_calls" if reply.calls else "stop"


class Responses:
    """`POST /responses`."""

    path = "/responses"

    @staticmethod
    def history(body: dict[str, Any]) -> list[dict[str, Any]]:
        given = body.get("input") or []
        return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)

    @staticmethod
    def steps(history: Sequence[dict[str, Any]]) -> list[Step]:
        """One reply is many items there: all that the model made in a row."""
        steps: list[Step] = []
        for at, item in enumerate(history):
            kind = str(item.get("type", "message"))
            if kind.endswith("_call_output"):
                steps.append(Step("answered", (item["call_id"],), at))
            elif kind == "message" and item["role"] != "assistant":
                steps.append(Step("said", (), at))
            else:
                ids = (item["call_id"],) if "call_id" in item else ()
                if steps and steps[-1].kind == "asked":
                    ids = (*steps.pop().ids, *ids)
                steps.append(Step("asked", ids, at))
        return steps

    @staticmethod
    def fault(history: Sequence[dict[str, Any]]) -> Fault | None:
        if not history:
            return Fault("[] is too short - 'input'", "input")
        ids = [item["id"] for item in history if item.get("id")]
        twice = next((each for each in ids if ids.count(each) > 1), None)
        if twice is not None:
            said = f"Duplicate item found with id {twice}."
            return Fault(f"{said} Remove duplicate items from your input and try again.", "input")
        found = broken(Responses.steps(history))
        if found is None:
            return None
        if found.kind == "stray":
            said = f"No tool call found for function call output with call_id {found.ids[0]}."
            return Fault(said, "input")
        return Fault(f"No tool output found for function call {found.ids[0]}.", "input")

    @staticmethod
    def said(history: Sequence[dict[str, Any]]) -> str:
        users = [each for each in history if each.get("role") == "user"]
        return text_of(users[-1]["content"]) if users else ""

    @staticmethod
    def tools(body: dict[str, Any]) -> tuple[str, ...]:
        return tuple(each.get("name", each["type"]) for each in body.get("tools") or ())

    @staticmethod
    def items(reply: Reply, n: int) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        if reply.text or not reply.calls:
            part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            made.append({"id": f"msg_{n}", "type": "message", "role": "assistant"})
            made[-1] |= {"status": "completed", "content": [part]}
        for index, (id_, name, text) in enumerate(named(reply, n)):
            call = {"id": f"fc_{n}_{index}", "type": "function_call", "call_id": id_}
            made.append({**call, "name": name, "arguments": text, "status": "completed"})
        return made

    @staticmethod
    def whole(reply: Reply, n: int, body: dict[str, Any]) -> dict[str, Any]:
        return Responses.head(n, body, "completed", Responses.items(reply, n))

    @staticmethod
    def head(n: int, body: dict[str, Any], status: str, output: list[Any]) -> dict[str, Any]:
        usage = {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3}
        usage |= {"input_tokens_details": {"cached_tokens": 0}}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
        unset = ("error", "incomplete_details", "instructions", "temperature", "top_p")
        return {
            "id": f"resp_{n}",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "status": status,
            "output": output,
            "usage": usage if status == "completed" else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "metadata": {},
            **dict.fromkeys(unset),
        }

    @staticmethod
    def streamed(reply: Reply, n: int, body: dict[str, Any]) -> Iterator[str]:
        for number, (kind, event) in enumerate(Responses.events(reply, n, body)):
            told = json.dumps({"type": kind, "sequence_number": number, **event})
            yield f"event: {kind}\ndata: {told}\n\n"

    @staticmethod
    def events(reply: Reply, n: int, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        items = Responses.items(reply, n)
        for kind in ("created", "in_progress"):
            yield f"response.{kind}", {"response": Responses.head(n, body, "in_progress", [])}
        for index, item in enumerate(items):
            at = {"output_index": index}
            yield "response.output_item.added", {**at, "item": begun(item)}
            here = {**at, "item_id": item["id"]}
            if item["type"] == "message":
                yield from Responses.written(item["content"][0], {**here, "content_index": 0})
            else:
                told = "response.function_call_arguments"
                for piece in pieces(item["arguments"]):
                    yield f"{told}.delta", {**here, "delta": piece}
                done = {"name": item["name"], "arguments": item["arguments"]}
                yield f"{told}.done", {**here, **done}
            yield "response.output_item.done", {**at, "item": item}
        yield "response.completed", {"response": Responses.head(n, body, "completed", items)}

    @staticmethod
    def written(part: dict[str, Any], here: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "response.content_part.added", {**here, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield "response.output_text.delta", {**here, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**here, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**here, "part": part}


API = type[Chat] | type[Responses]


def named(reply: Reply, n: int) -> Iterator[tuple[str, str, str]]:
    """The id, name and arguments of each call of *reply*, the *n*-th that is given."""
    for index, call in enumerate(reply.calls):
        yield call.id or f"call_{n}_{index}", call.name, call.text


def pieces(text: str) -> Iterator[str]:
    """*text* in two, as tokens arrive."""
    half = len(text) // 2
    yield from (piece for piece in (text[:half], text[half:]) if piece)


def begun(item: dict[str, Any]) -> dict[str, Any]:
    """*item* before anything of it was made."""
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    return {**item, **empty, "status": "in_progress"}


def text_of(content: Any) -> str:
    """The text of a message that has parts or is one."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


# The server.


@dataclass(frozen=True)
class Request:
    """One request that arrived, and what it was refused for."""

    api: API
    body: dict[str, Any]
    fault: Fault | None

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.api.history(self.body)

    @property
    def tools(self) -> tuple[str, ...]:
        return self.api.tools(self.body)


@dataclass
class Endpoint:
    """Answers by scripts, one for each thing that a user may say: its n-th reply goes to the n-th
    request after that was said, whoever asks, so nothing is kept between requests but a record."""

    scripts: dict[str, tuple[Reply, ...]] = field(default_factory=dict)
    after: Reply = field(default_factory=lambda: says("done"))
    """What comes after a script, and where there is none."""
    bare: Reply = field(default_factory=lambda: says("That is what I have."))
    """What takes the place of a reply with calls when the request has no tools."""
    requests: list[Request] = field(default_factory=list)
    keeps: bool = False
    """Whether it keeps histories of the Responses API, and goes on with them."""
    kept: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Those histories, by the id of a response or a conversation."""

    def __post_init__(self) -> None:
        self._count = itertools.count()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(self))
        self._server.daemon_threads = True
        # Told twenty times a second whether it is to end, each test module would wait for it.
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What a client calls its base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def refused(self) -> list[str]:
        """What requests were refused for."""
        return [each.fault.message for each in self.requests if each.fault is not None]

    def on(self, said: str, *replies: Reply) -> None:
        """Give *replies*, one a request, after the user said *said*."""
        self.scripts[said] = replies

    def forget(self) -> None:
        """Begin anew: no scripts, no record."""
        self.scripts.clear()
        self.requests.clear()
        self.kept.clear()
        self.after, self.bare = says("done"), says("That is what I have.")

    def answered(self, path: str, body: dict[str, Any]) -> tuple[int, str, str]:
        """The status, media type and body of the answer to a request."""
        if self.keeps and path == "/v1/conversations":
            return 200, "application/json", json.dumps(self._conversation())
        api = next((each for each in (Chat, Responses) if path == f"/v1{each.path}"), None)
        if api is None:
            return refusal(404, Fault(f"Invalid URL (POST {path})"))
        before = kept_by(body)
        history = [*self.kept.get(before or "", ()), *api.history(body)]
        fault = fault_in(api, body, self.kept if self.keeps else None) or api.fault(history)
        self.requests.append(Request(api, body, fault))
        if fault is not None:
            return refusal(400, fault)
        reply = self._reply(api.said(history), turn_of(api.steps(history)), api.tools(body))
        if reply.status != 200:
            return refusal(reply.status, Fault("The server had an error."))
        n = next(self._count)
        if self.keeps and api is Responses:
            conversation = before if before and before.startswith("conv_") else f"resp_{n}"
            self.kept[conversation] = [*history, *Responses.items(reply, n)]
        if body.get("stream"):
            return 200, "text/event-stream", "".join(api.streamed(reply, n, body))
        return 200, "application/json", json.dumps(api.whole(reply, n, body))

    def _conversation(self) -> dict[str, Any]:
        made = f"conv_{next(self._count)}"
        self.kept[made] = []
        return {"id": made, "object": "conversation", "created_at": 0, "metadata": {}}

    def _reply(self, said: str, turn: int, tools: Sequence[str]) -> Reply:
        script = self.scripts.get(said, ())
        reply = script[turn] if turn < len(script) else self.after
        return self.bare if reply.calls and not tools else reply


def kept_by(body: dict[str, Any]) -> str | None:
    """The id of the history that a request goes on with, where the provider keeps it."""
    found = next((body[each] for each in KEEPING if body.get(each) is not None), None)
    return found["id"] if isinstance(found, dict) else found


def fault_in(api: API, body: dict[str, Any], kept: Container[str] | None) -> Fault | None:
    """What is wrong with a request besides its history; *kept* are the histories that it may go on with."""
    if not body.get("model"):
        return Fault("you must provide a model parameter")
    for each in KEEPING:
        if body.get(each) is not None and kept is None:
            return Fault(f"this endpoint keeps no history: {each}", each)
    before = kept_by(body)
    if before is not None and before not in (kept or ()):
        return Fault(f"'{before}' not found.")
    if "tools" in body and api is Chat and not body["tools"]:
        return Fault("[] is too short - 'tools'", "tools")
    for each in ABOUT_TOOLS:
        if api is Chat and each in body and not body.get("tools"):
            said = f"'{each}' is only allowed when 'tools' are specified."
            return Fault(f"Invalid value for '{each}': {said}", each)
    return None


def refusal(status: int, fault: Fault) -> tuple[int, str, str]:
    """An error as the provider writes it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": fault.message, "type": kind, "param": fault.param, "code": None}
    return status, "application/json", json.dumps({"error": error})


def handler_for(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    """The class of the server's handlers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One write, and none that waits for the last one's receipt.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, kind, text = endpoint.answered(self.path, body)
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            # Clients outlive the event loops of tests; a connection must not.
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
