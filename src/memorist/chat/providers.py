"""What all providers share: a request, an answer read as it arrives, and its end, without which it is none.

Anthropic's Messages API.
The chat completions of OpenAI, and of every server that speaks its API.
Ollama's own chat API.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from memorist.chat.base import Call, Message, Reply, Tool, Usage, Write
from memorist.errors import ConfigError
from memorist.http import OPENAI_URL, Endpoint, Sleep, StreamingClient, UnsupportedParameter, json_object, ollama_url


class StreamReader(ABC):
    """Puts an answer together from the events of its stream."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.cut: str | None = None
        self.complete = False

    @abstractmethod
    def take(self, event: dict[str, Any]) -> str:
        """The text that an event adds to the answer; whatever else is in it is kept."""

    @abstractmethod
    def calls(self) -> list[Call]:
        """The calls that the answer asks for."""


class HttpProvider(ABC):
    """A model behind HTTP, with its address and key from the environment."""

    _provider: ClassVar[str]
    _path: ClassVar[str]
    _url_setting: ClassVar[str]
    _key_setting: ClassVar[str]
    _key_header: ClassVar[str | None] = None
    _needs_key: ClassVar[str | None] = None  # the host that answers nobody without one
    _hints: ClassVar[Mapping[str, str]]
    _reader: ClassVar[type[StreamReader]]

    def __init__(self, model: str, *, timeout: float, environ: Mapping[str, str], sleep: Sleep) -> None:
        self.name, self._model = f"{self._provider}:{model}", model
        self._unwanted: set[str] = set()  # parts of a request that this server refuses
        self._address = Endpoint(
            self._url(environ.get(self._url_setting, "").strip()),
            environ.get(self._key_setting, ""),
            url_setting=self._url_setting,
            key_setting=self._key_setting,
            key_header=self._key_header,
        )
        if self._needs_key == self._address.host and not self._address.key:
            raise ConfigError(f"{self.name} needs a key: set {self._key_setting}")
        self._address.headers.update(self._headers())
        hints = {what: hint.format(model=model) for what, hint in self._hints.items()}
        self._wire = StreamingClient(self.name, self._address, timeout, hints, sleep)

    def answer(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool], write: Write, *, call: bool = True
    ) -> Reply:
        while True:
            payload = self._payload(system, messages)
            if tools and self.can_call:
                payload |= self._offer(tools, call)
            try:
                return self._read({part: payload[part] for part in payload if part not in self._unwanted}, write)
            except UnsupportedParameter as exc:  # which is said before anything else
                if exc.part in self._unwanted:
                    raise
                self._unwanted.add(exc.part)

    @property
    def can_call(self) -> bool:
        return "tools" not in self._unwanted

    def close(self) -> None:
        self._wire.close()

    def _read(self, payload: Mapping[str, object], write: Write) -> Reply:
        reader, parts, understood = self._reader(), list[str](), False
        try:
            for event in self._stream(payload):
                if event and event.get("error"):
                    raise self._wire.broke_off(event["error"])
                text = _taken(reader, event)
                if text is None:
                    break
                understood = True
                if text:
                    parts.append(text)
                    write(text)
                if reader.complete and reader.usage != Usage():
                    break
        finally:
            self._wire.close()
        if not reader.complete:
            raise self._wire.broke_off() if understood else self._wire.strange()
        return Reply("".join(parts), tuple(reader.calls()), reader.usage, reader.cut)

    @abstractmethod
    def _url(self, given: str) -> str:
        """The base URL that a setting means, which may be empty."""

    def _headers(self) -> Mapping[str, str]:
        """What goes with every request, beside the key."""
        return {}

    @abstractmethod
    def _payload(self, system: str, messages: Sequence[Message]) -> dict[str, object]:
        """A request for the answer to what was said."""

    @abstractmethod
    def _offer(self, tools: Sequence[Tool], call: bool) -> dict[str, object]:
        """What a request says of tools, and whether they may be called now."""

    def _stream(self, payload: Mapping[str, object]) -> Iterator[Any]:
        return self._wire.events(self._path, payload)


def _taken(reader: StreamReader, event: dict[str, Any] | None) -> str | None:
    """The text of an event; None where it is none of this API."""
    try:
        return None if event is None else reader.take(event)
    except (LookupError, TypeError, AttributeError):
        return None


def required_text(value: object) -> str:
    """What has to be text; an event where it is not is none of this API."""
    if not isinstance(value, str):
        raise TypeError
    return value


def tokens(usage: Mapping[str, Any], *names: str) -> int:
    """How many tokens were used, as far as a server tells."""
    return sum(count for name in names if isinstance(count := usage.get(name), int))


def arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a call, as a model wrote them; None where they cannot be read."""
    return json_object(text or "{}")


MAX_TOKENS = 4096  # of an answer: every model of theirs can give as many


class _AnthropicReader(StreamReader):
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
                self.cut = _ANTHROPIC_CUTS.get(event["delta"].get("stop_reason"))
            case "message_stop":
                self.complete = True
        return ""

    def calls(self) -> list[Call]:
        return [Call(id, name, arguments("".join(parts))) for id, name, parts in self._calls.values()]


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_ANTHROPIC_CUTS: Mapping[str | None, str] = {
    "max_tokens": f"it reached {MAX_TOKENS:,} tokens",
    "model_context_window_exceeded": "the conversation is as long as the model can read",
    "refusal": "the model declines to go on",
}


class Anthropic(HttpProvider):
    """Claude, with a key in ANTHROPIC_API_KEY; ANTHROPIC_BASE_URL is for gateways that speak the same API."""

    _provider, _path = "anthropic", "/v1/messages"
    _url_setting, _key_setting, _key_header = "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "x-api-key"
    _needs_key = "api.anthropic.com"
    _hints: ClassVar[Mapping[str, str]] = {
        "key": "set ANTHROPIC_API_KEY to one it accepts",
        "model": "check the name of the model, and ANTHROPIC_BASE_URL if you set it",
        "server": "check the network, and ANTHROPIC_BASE_URL if you set it",
    }
    _reader = _AnthropicReader

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


class _OpenAIReader(StreamReader):
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
            self.complete, self.cut = True, _OPENAI_CUTS.get(reason)
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


_OPENAI_CUTS: Mapping[str, str] = {
    "length": "it reached the most tokens that the server gives",
    "content_filter": "the server's filter stopped it",
}


class OpenAI(HttpProvider):
    """Models of OpenAI (which needs a key), or of any server that speaks its API: LM Studio, vLLM, llama.cpp."""

    _provider, _path = "openai", "/chat/completions"
    _url_setting, _key_setting = "OPENAI_BASE_URL", "OPENAI_API_KEY"
    _needs_key = "api.openai.com"
    _hints: ClassVar[Mapping[str, str]] = {
        "key": "set OPENAI_API_KEY to one it accepts",
        "model": "check the name of the model, and OPENAI_BASE_URL if you set it",
        "server": "check the network, and OPENAI_BASE_URL if you set it",
    }
    _reader = _OpenAIReader

    def _url(self, given: str) -> str:
        return given or OPENAI_URL

    def _payload(self, system: str, messages: Sequence[Message]) -> dict[str, object]:
        return {
            "model": self._model,
            "messages": [
                {"role": "system", "content": system},
                *(part for one in messages for part in _openai_parts(one)),
            ],
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


def _openai_parts(message: Message) -> list[dict[str, object]]:
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


class _OllamaReader(StreamReader):
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


class Ollama(HttpProvider):
    """Models that Ollama serves, at OLLAMA_HOST (which may lack scheme and port) or else on this machine."""

    _provider, _path = "ollama", "/api/chat"
    _url_setting, _key_setting = "OLLAMA_HOST", "OLLAMA_API_KEY"
    _hints: ClassVar[Mapping[str, str]] = {
        "key": "set OLLAMA_API_KEY to one it accepts",
        "model": "run `ollama pull {model}`",
        "server": "start it with `ollama serve`, or set OLLAMA_HOST",
    }
    _reader = _OllamaReader

    def _url(self, given: str) -> str:
        return ollama_url(given)

    def _payload(self, system: str, messages: Sequence[Message]) -> dict[str, object]:
        return {
            "model": self._model,
            "messages": [
                {"role": "system", "content": system},
                *(part for one in messages for part in _ollama_parts(one)),
            ],
            "stream": True,
        }

    def _offer(self, tools: Sequence[Tool], call: bool) -> dict[str, object]:
        return {"tools": functions(tools)} if call else {}

    def _stream(self, payload: Mapping[str, object]) -> Iterator[Any]:
        return self._wire.values(self._path, payload)


def _ollama_parts(message: Message) -> list[dict[str, object]]:
    if message.results:
        return [{"role": "tool", "tool_name": result.call.name, "content": result.text} for result in message.results]
    said: dict[str, object] = {"role": message.role, "content": message.text}
    if message.calls:
        said["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments or {}}} for call in message.calls
        ]
    return [said]
