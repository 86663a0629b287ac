"""Ollama's own chat API."""

from collections.abc import Iterable, Iterator, Sequence

from memorist.chat.base import Message, Tool, ToolCall, Usage
from memorist.chat.http_provider import HttpProvider, StreamReader, require_text, sum_tokens
from memorist.chat.openai import format_functions
from memorist.http import OLLAMA, JsonObject, parse_json_lines


class _OllamaReader(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: list[ToolCall] = []

    def read(self, event: JsonObject) -> str:
        message = event["message"]
        for call in message.get("tool_calls") or ():
            name, arguments = require_text(call["function"]["name"]), call["function"].get("arguments")
            id = require_text(call.get("id") or f"call_{len(self._calls)}")
            self._calls.append(ToolCall(id, name, arguments if isinstance(arguments, dict) else None))
        if event.get("done"):
            self.complete = True
            if event.get("done_reason") == "length":
                self.cut_reason = "it reached the most tokens that Ollama gives"
            self.usage = Usage(sum_tokens(event, "prompt_eval_count"), sum_tokens(event, "eval_count"))
        return str(message.get("content") or "")

    def calls(self) -> list[ToolCall]:
        return self._calls


class OllamaProvider(HttpProvider):
    """Models that Ollama serves, at OLLAMA_HOST (which may lack scheme and port) or else on this machine."""

    _service = OLLAMA
    _path = "/api/chat"
    _reader = _OllamaReader

    def _format_messages(self, system: str, messages: Sequence[Message]) -> JsonObject:
        formatted = [part for message in messages for part in _format_message(message)]
        return {"messages": [{"role": "system", "content": system}, *formatted]}

    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        return {"tools": format_functions(tools)} if allow_calls else {}

    def _parse_stream(self, lines: Iterable[str]) -> Iterator[JsonObject]:
        return parse_json_lines(lines)


PROVIDER = OllamaProvider


def _format_message(message: Message) -> list[JsonObject]:
    if message.results:
        return [{"role": "tool", "tool_name": result.call.name, "content": result.text} for result in message.results]
    formatted: JsonObject = {"role": message.role, "content": message.text}
    if message.calls:
        formatted["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments or {}}} for call in message.calls
        ]
    return [formatted]
