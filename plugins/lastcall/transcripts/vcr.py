"""VCR cassettes of a talk with a model: calls are in responses, answers in the next request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from lastcall.transcripts import blocks, chat
from lastcall.transcripts.conversations import Names
from lastcall.transcripts.fields import decoded, mapping, objects
from lastcall.transcripts.items import Items
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.streamed import streamed
from lastcall.transcripts.usage import usage

HEAD = re.compile(r"(?:\s*#.*\n|\s*---.*\n|\s*\n)*interactions:")
HINT = 'a VCR cassette needs a YAML reader: pip install "lastcall[yaml]"'


class VcrCassette:
    """Requests repeat the whole history, so only what follows the last model message is new."""

    name = "vcr-cassette"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """YAML that begins with `interactions:`, or JSON with requests under it."""
        if isinstance(document.value, dict):
            first = objects(document.value.get("interactions"))[:1]
            return any("request" in one and "response" in one for one in first)
        return not document.rows and HEAD.match(document.start()) is not None

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a cassette."""
        file, value = str(document.path), document.value
        if value is None:
            loaded = _yaml(document.text)
            if isinstance(loaded, str):
                yield Unreadable(file, None, loaded)
                return
            value = loaded[0]
        pairing = Pairing()
        for number, one in enumerate(objects(mapping(value).get("interactions")), 1):
            asked, said = _body(one.get("request")), _body(one.get("response"))
            talk = next((talk for key, talk in TALKS.items() if key in asked), None)
            if talk is None:
                continue
            if not said:
                problem = f"the response of interaction {number} is no JSON object"
                yield Unreadable(file, None, problem)
            talk(pairing, asked, said)
        name = Names(document).name()
        yield Transcript(file, name, self.name, pairing.calls(), pairing.replies())


def _yaml(text: str) -> str | tuple[Any]:
    """The value of a YAML text, or why there is none."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        return HINT
    try:
        return (yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)),)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f"broken YAML: {error}"


def _body(message: Any) -> dict[str, Any]:
    """The JSON object a request or a response carries."""
    fields = mapping(message)
    body = fields.get("parsed_body") or fields.get("body")
    if isinstance(body, dict) and "string" in body:
        body = body["string"]
    if isinstance(body, str | bytes):
        try:
            body = body if isinstance(body, str) else body.decode()
            body = decoded(body)
        except ValueError:
            return streamed(body) if isinstance(body, str) else {}
    return mapping(body)


def _new(messages: Any, model: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The messages after the last one of the model."""
    some = objects(messages)
    last = max((n for n, message in enumerate(some) if model(message)), default=-1)
    return some[last + 1 :]


def _messages(pairing: Pairing, asked: dict[str, Any], said: dict[str, Any]) -> None:
    """Chat completions and Anthropic messages."""
    anthropic = said.get("type") == "message"
    for message in _new(asked["messages"], lambda one: one.get("role") == "assistant"):
        chat.hear(pairing, message) if not anthropic else blocks.hear(pairing, message)
    if anthropic:
        blocks.hear(pairing, said)
    for choice in objects(said.get("choices"))[:1]:
        chat.hear(pairing, mapping(choice.get("message")))
        pairing.spent(usage(said.get("usage"), said.get("model")))


def _items(pairing: Pairing, asked: dict[str, Any], said: dict[str, Any]) -> None:
    """OpenAI Responses."""
    heard = Items(pairing)
    if isinstance(asked["input"], str):
        pairing.user()
    for item in _new(asked["input"], _by_model):
        heard.hear(item)
    for item in objects(said.get("output")):
        heard.hear(item)
    if objects(said.get("output")):
        pairing.spent(usage(said.get("usage"), said.get("model")))


def _by_model(item: dict[str, Any]) -> bool:
    kind = str(item.get("type"))
    return item.get("role") == "assistant" or (
        item.get("role") is None and not kind.endswith("_output")
    )


def _contents(pairing: Pairing, asked: dict[str, Any], said: dict[str, Any]) -> None:
    """Gemini."""
    for content in _new(asked["contents"], lambda one: one.get("role") == "model"):
        parts = objects(content.get("parts"))
        answers = [
            mapping(part["functionResponse"]) for part in parts if "functionResponse" in part
        ]
        for answer in answers:
            pairing.answer(answer.get("response"), id=answer.get("id"), tool=answer.get("name"))
        if not answers:
            pairing.user()
    for candidate in objects(said.get("candidates"))[:1]:
        pairing.reply()
        pairing.spent(usage(said.get("usageMetadata"), said.get("modelVersion")))
        for part in objects(mapping(candidate.get("content")).get("parts")):
            call = mapping(part.get("functionCall"))
            if call:
                pairing.call(call.get("name"), call.get("args"), id=call.get("id"))


TALKS = {"messages": _messages, "input": _items, "contents": _contents}
"""The field of a request that tells whose API it is for, and who reads it."""
