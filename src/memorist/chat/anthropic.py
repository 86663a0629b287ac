"""Anthropic's Messages API."""

from collections.abc import Mapping, Sequence

from memorist.chat.base import Message, Tool, ToolCall, Usage
from memorist.chat.http_provider import HttpProvider, StreamReader, require_text, sum_tokens
from memorist.http import JsonObject, Service, parse_json_object

_MAX_TOKENS = 4096  # of an answer: every model of theirs can give as many
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_CUT_REASONS: Mapping[str | None, str] = {
    "max_tokens": f"it reached {_MAX_TOKENS:,} tokens",
    "model_context_window_exceeded": "the conversation is as long as the model can read",
    "refusal": "the model declines to go on",
}


class _AnthropicReader(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, tuple[str, str, list[str]]] = {}  # id, name, and the pieces of the arguments

    def read(self, event: JsonObject) -> str:
        match event["type"]:
            case "message_start":
                self.usage = Usage(sum_tokens(event["message"].get("usage") or {}, *_INPUT_COUNTS))
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                block = event["content_block"]
                self._calls[event["index"]] = (require_text(block["id"]), require_text(block["name"]), [])
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                self._calls[event["index"]][2].append(require_text(event["delta"]["partial_json"]))
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                return str(event["delta"]["text"])
            case "message_delta":
                self.usage = Usage(self.usage.input, sum_tokens(event.get("usage") or {}, "output_tokens"))
                self.cut_reason = _CUT_REASONS.get(event["delta"].get("stop_reason"))
            case "message_stop":
                self.complete = True
        return ""

    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(id, name, parse_json_object("".join(pieces) or "{}")) for id, name, pieces in self._calls.values()
        ]


class AnthropicProvider(HttpProvider):
    """Claude, with a key in ANTHROPIC_API_KEY; ANTHROPIC_BASE_URL is for gateways that speak the same API."""

    _service = Service(
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        key_header="x-api-key",
        key_host="api.anthropic.com",
        headers={"anthropic-version": "2023-06-01"},
    )
    _path = "/v1/messages"
    _reader = _AnthropicReader

    def _format_messages(self, system: str, messages: Sequence[Message]) -> JsonObject:
        return {"max_tokens": _MAX_TOKENS, "system": system, "messages": [_format_message(one) for one in messages]}

    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        # A conversation that has calls in it needs the tools, even where no further call is allowed.
        described = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
        return {"tools": described, "tool_choice": {"type": "auto" if allow_calls else "none"}}


PROVIDER = AnthropicProvider


def _format_message(message: Message) -> JsonObject:
    blocks: list[JsonObject] = [
        {"type": "tool_result", "tool_use_id": result.call.id, "content": result.text} for result in message.results
    ]
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments or {}} for call in message.calls
    ]
    return {"role": message.role, "content": blocks}
