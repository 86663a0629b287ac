"""Ollama's own chat API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from memorist.chat.base import Call, Message, Tool, Usage
from memorist.chat.openai import functions
from memorist.chat.remote import Reader, Remote, required_text, tokens
from memorist.servers import ollama_url


class _Reader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Call] = []

    def take(self, event: dict[str, Any]) -> str:
        message = event["message"]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            given = function.get("arguments")
            id = required_text(call.get("id") or f"call_{len(self._calls)}")
            self._calls.append(Call(id, required_text(function["name"]), given if isinstance(given, dict) else None))
        if event.get("done"):
            self.complete = True
            self.cut = "it reached the most tokens that Ollama gives" if event.get("done_reason") == "length" else None
            self.usage = Usage(tokens(event, "prompt_eval_count"), tokens(event, "eval_count"))
        return str(message.get("content") or "")

    def calls(self) -> list[Call]:
        return self._calls


class Ollama(Remote):
    """Models that Ollama serves, at OLLAMA_HOST (which may lack scheme and port) or else on this machine."""

    _provider, _path = "ollama", "/api/chat"
    _url_setting, _key_setting = "OLLAMA_HOST", "OLLAMA_API_KEY"
    _hints: ClassVar[Mapping[str, str]] = {
        "key": "set OLLAMA_API_KEY to one it accepts",
        "model": "run `ollama pull {model}`",
        "server": "start it with `ollama serve`, or set OLLAMA_HOST",
    }
    _reader = _Reader

    def _url(self, given: str) -> str:
        return ollama_url(given)

    def _payload(self, system: str, messages: Sequence[Message]) -> dict[str, object]:
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, *(part for one in messages for part in _parts(one))],
            "stream": True,
        }

    def _offer(self, tools: Sequence[Tool], call: bool) -> dict[str, object]:
        return {"tools": functions(tools)} if call else {}

    def _stream(self, payload: Mapping[str, object]) -> Iterator[Any]:
        return self._wire.values(self._path, payload)


def _parts(message: Message) -> list[dict[str, object]]:
    if message.results:
        return [{"role": "tool", "tool_name": result.call.name, "content": result.text} for result in message.results]
    said: dict[str, object] = {"role": message.role, "content": message.text}
    if message.calls:
        said["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments or {}}} for call in message.calls
        ]
    return [said]
