"""The chat completions API of OpenAI, and of every server that speaks it."""

import json
from collections.abc import Sequence

from memorist.chat.base import Message, Tool, ToolCall, Usage
from memorist.chat.http_provider import HttpProvider, StreamReader, require_text, sum_tokens
from memorist.http import OPENAI, JsonObject, parse_json_object

_CUT_REASONS = {
    "length": "it reached the most tokens that the server gives",
    "content_filter": "the server's filter stopped it",
}


class _OpenAIReader(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, dict[str, str]] = {}

    def read(self, event: JsonObject) -> str:
        if usage := event.get("usage"):
            self.usage = Usage(sum_tokens(usage, "prompt_tokens"), sum_tokens(usage, "completion_tokens"))
        if not event.get("choices"):  # the last event has the usage alone
            return ""
        choice = event["choices"][0]
        delta = choice.get("delta") or {}
        for piece in delta.get("tool_calls") or ():
            self._read_call(piece)
        if reason := choice.get("finish_reason"):
            self.complete, self.cut_reason = True, _CUT_REASONS.get(reason)
        return str(delta.get("content") or delta.get("refusal") or "")

    def _read_call(self, piece: JsonObject) -> None:
        """Keep a piece of a call: the first has its id and its name, and each some of the arguments."""
        begins = 1 if piece.get("id") else 0  # for servers that do not number their calls
        index = piece.get("index", max(0, len(self._calls) - 1 + begins))
        call = self._calls.setdefault(
            index, {"id": require_text(piece.get("id") or f"call_{index}"), "name": "", "arguments": ""}
        )
        function = piece.get("function") or {}
        call["name"] = require_text(function.get("name") or call["name"])
        call["arguments"] += function.get("arguments") or ""

    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(call["id"], call["name"], parse_json_object(call["arguments"] or "{}"))
            for call in self._calls.values()
        ]


class OpenAIProvider(HttpProvider):
    """Models of OpenAI (which needs a key), or of any server that speaks its API: LM Studio, vLLM, llama.cpp."""

    _service = OPENAI
    _path = "/chat/completions"
    _reader = _OpenAIReader

    def _format_messages(self, system: str, messages: Sequence[Message]) -> JsonObject:
        formatted = [part for message in messages for part in _format_message(message)]
        return {
            "messages": [{"role": "system", "content": system}, *formatted],
            "stream_options": {"include_usage": True},
        }

    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        return {"tools": format_functions(tools), "tool_choice": "auto" if allow_calls else "none"}


PROVIDER = OpenAIProvider


def format_functions(tools: Sequence[Tool]) -> list[JsonObject]:
    """Describe tools as this API and Ollama's expect them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _format_message(message: Message) -> list[JsonObject]:
    if message.results:
        return [{"role": "tool", "tool_call_id": result.call.id, "content": result.text} for result in message.results]
    if not message.calls:
        return [{"role": message.role, "content": message.text}]
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments or {})},
        }
        for call in message.calls
    ]
    return [{"role": message.role, "content": message.text or None, "tool_calls": calls}]
