"""The chat completions of OpenAI, and of every server that speaks its API."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from memorist.chat.base import Call, Message, Tool, Usage
from memorist.chat.remote import Reader, Remote, arguments, required_text, tokens
from memorist.servers import OPENAI_URL


class _Reader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, dict[str, str]] = {}

    def take(self, event: dict[str, Any]) -> str:
        if usage := event.get("usage"):
            self.usage = Usage(tokens(usage, "prompt_tokens"), tokens(usage, "completion_tokens"))
        if not event.get("choices"):  # the last event has the usage alone
            return ""
        choice = event["choices"][0]
        delta = choice.get("delta") or {}
        for piece in delta.get("tool_calls") or ():
            self._take_call(piece)
        if reason := choice.get("finish_reason"):
            self.complete, self.cut = True, _CUTS.get(reason)
        return str(delta.get("content") or delta.get("refusal") or "")

    def _take_call(self, piece: dict[str, Any]) -> None:
        """A piece of a call: the first has its id and its name, and each some of the arguments."""
        begins = 1 if piece.get("id") else 0  # where a server does not number its calls
        place = piece.get("index", max(0, len(self._calls) - 1 + begins))
        call = self._calls.setdefault(
            place, {"id": required_text(piece.get("id") or f"call_{place}"), "name": "", "arguments": ""}
        )
        function = piece.get("function") or {}
        call["name"] = required_text(function.get("name") or call["name"])
        call["arguments"] += function.get("arguments") or ""

    def calls(self) -> list[Call]:
        return [Call(call["id"], call["name"], arguments(call["arguments"])) for call in self._calls.values()]


_CUTS: Mapping[str, str] = {
    "length": "it reached the most tokens that the server gives",
    "content_filter": "the server's filter stopped it",
}


class OpenAI(Remote):
    """Models of OpenAI (which needs a key), or of any server that speaks its API: LM Studio, vLLM, llama.cpp."""

    _provider, _path = "openai", "/chat/completions"
    _url_setting, _key_setting = "OPENAI_BASE_URL", "OPENAI_API_KEY"
    _needs_key = "api.openai.com"
    _hints: ClassVar[Mapping[str, str]] = {
        "key": "set OPENAI_API_KEY to one it accepts",
        "model": "check the name of the model, and OPENAI_BASE_URL if you set it",
        "server": "check the network, and OPENAI_BASE_URL if you set it",
    }
    _reader = _Reader

    def _url(self, given: str) -> str:
        return given or OPENAI_URL

    def _payload(self, system: str, messages: Sequence[Message]) -> dict[str, object]:
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, *(part for one in messages for part in _parts(one))],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _offer(self, tools: Sequence[Tool], call: bool) -> dict[str, object]:
        return {"tools": functions(tools), "tool_choice": "auto" if call else "none"}


def functions(tools: Sequence[Tool]) -> list[dict[str, object]]:
    """Tools as this API names them, and Ollama's too."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _parts(message: Message) -> list[dict[str, object]]:
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
