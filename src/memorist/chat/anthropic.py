"""Anthropic's Messages API."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from memorist.chat.base import Call, Message, Tool, Usage
from memorist.chat.remote import Reader, Remote, arguments, required_text, tokens

MAX_TOKENS = 4096  # of an answer: every model of theirs can give as many


class _Reader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, tuple[str, str, list[str]]] = {}  # id, name, and the pieces of the arguments

    def take(self, event: dict[str, Any]) -> str:
        match event["type"]:
            case "message_start":
                # All that were read, also those that were kept from a request before.
                self.usage = Usage(tokens(event["message"].get("usage") or {}, *_INPUT))
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                block = event["content_block"]
                self._calls[event["index"]] = (required_text(block["id"]), required_text(block["name"]), [])
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                self._calls[event["index"]][2].append(required_text(event["delta"]["partial_json"]))
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                return str(event["delta"]["text"])
            case "message_delta":
                self.usage = Usage(self.usage.input, tokens(event.get("usage") or {}, "output_tokens"))
                self.cut = _CUTS.get(event["delta"].get("stop_reason"))
            case "message_stop":
                self.complete = True
        return ""

    def calls(self) -> list[Call]:
        return [Call(id, name, arguments("".join(parts))) for id, name, parts in self._calls.values()]


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_CUTS: Mapping[str | None, str] = {
    "max_tokens": f"it reached {MAX_TOKENS:,} tokens",
    "model_context_window_exceeded": "the conversation is as long as the model can read",
    "refusal": "the model declines to go on",
}


class Anthropic(Remote):
    """Claude, with a key in ANTHROPIC_API_KEY; ANTHROPIC_BASE_URL is for gateways that speak the same API."""

    _provider, _path = "anthropic", "/v1/messages"
    _url_setting, _key_setting, _key_header = "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "x-api-key"
    _needs_key = "api.anthropic.com"
    _hints: ClassVar[Mapping[str, str]] = {
        "key": "set ANTHROPIC_API_KEY to one it accepts",
        "model": "check the name of the model, and ANTHROPIC_BASE_URL if you set it",
        "server": "check the network, and ANTHROPIC_BASE_URL if you set it",
    }
    _reader = _Reader

    def _url(self, given: str) -> str:
        return given or "https://api.anthropic.com"

    def _headers(self) -> Mapping[str, str]:
        return {"anthropic-version": "2023-06-01"}

    def _payload(self, system: str, messages: Sequence[Message]) -> dict[str, object]:
        return {
            "model": self._model,
            "max_tokens": MAX_TOKENS,
            "system": system,
            "messages": [_message(one) for one in messages],
            "stream": True,
        }

    def _offer(self, tools: Sequence[Tool], call: bool) -> dict[str, object]:
        named = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]  # which has to be done where the conversation has calls in it, called or not
        return {"tools": named, "tool_choice": {"type": "auto" if call else "none"}}


def _message(message: Message) -> dict[str, object]:
    blocks: list[dict[str, object]] = [
        {"type": "tool_result", "tool_use_id": result.call.id, "content": result.text} for result in message.results
    ]
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments or {}} for call in message.calls
    ]
    return {"role": message.role, "content": blocks}
