"""Language models behind HTTP: the APIs of Anthropic and OpenAI, which other servers speak too, and that of Ollama."""

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar

from msgspec import Struct, field

from memorist.embed.remote import OLLAMA, OPENAI
from memorist.errors import ChatError, ConfigError
from memorist.model_client import (
    Failure,
    JsonObject,
    ModelClient,
    RetryPolicy,
    Service,
    Sleep,
    parse_events,
    parse_json_lines,
    parse_json_object,
)
from memorist.validation import chat_model

# Once more where the server is busy, after a Retry-After of up to 30 seconds.
_RETRY = RetryPolicy(1, 600.0, max_delay=30.0, first_delay=1.0, jitter=0.0, statuses=(429, 503, 529))

# Parameters that some servers refuse and that can be left out, with phrases of their refusals: Ollama's of tools that a
# model cannot call, other servers' of reporting the tokens used.
_OPTIONAL_PARAMETERS = {"tools": ("does not support tools",), "stream_options": ("stream_options", "include_usage")}

_MAX_COUNT = 10**12  # of tokens
_MAX_TOKENS = 4096  # of an answer: every model of Anthropic's can give as many
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_ANTHROPIC_CUT_REASONS: Mapping[str | None, str] = {
    "max_tokens": f"it reached {_MAX_TOKENS:,} tokens",
    "model_context_window_exceeded": "the conversation is as long as the model can read",
    "refusal": "the model declines to go on",
}
_OPENAI_CUT_REASONS = {
    "length": "it reached the most tokens that the server gives",
    "content_filter": "the server's filter stopped it",
}

Write = Callable[[str], None]  # receives an answer piece by piece, as it arrives


class Tool(Struct, frozen=True):
    """A function that a model may call. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ToolCall(Struct, frozen=True):
    """A call that a model asked for. `arguments` is None where they could not be parsed."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None


class ToolResult(Struct, frozen=True):
    """The result of a call."""

    call: ToolCall
    text: str


class Message(Struct, frozen=True):
    """A message of one side: text, with the calls an assistant asked for, or the results of calls."""

    role: str  # user or assistant
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class Usage(Struct, frozen=True):
    """Tokens, as the provider counts them."""

    input: int = 0
    output: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input + other.input, self.output + other.output)


class Reply(Struct, frozen=True):
    """A whole answer. `cut_reason` says why it ends early, where it does."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cut_reason: str | None = None


class _StreamReader(ABC):
    """Assembles an answer from the events of its stream."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.cut_reason: str | None = None
        self.complete = False

    @abstractmethod
    def read(self, event: JsonObject) -> str:
        """Return the text that an event adds, and keep what else it holds; raise where it has another form."""

    @abstractmethod
    def calls(self) -> list[ToolCall]:
        """Return the calls that the answer asks for."""


class Provider(ABC):
    """A language model behind HTTP, with its server and key from the environment."""

    name: str  # as in the settings: "anthropic:MODEL"
    _service: ClassVar[Service]
    _path: ClassVar[str]
    _reader: ClassVar[type[_StreamReader]]

    def __init__(self, model: str, *, timeout: float, environ: Mapping[str, str], sleep: Sleep) -> None:
        self._model = model
        self._refused: set[str] = set()  # optional parameters that this server does not take
        self._client = ModelClient(
            self._service, model, environ=environ, timeout=timeout, error=_make_error, sleep=sleep
        )
        self.name = self._client.name
        if message := self._client.missing_key:
            raise ConfigError(message)

    def answer(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool], write: Write, *, allow_calls: bool = True
    ) -> Reply:
        """
        Return the model's answer, whose text is also passed to `write` as it arrives.

        Without `allow_calls` the model may call no tool. Raises ChatError where the answer is missing or incomplete.
        """
        while True:
            payload = {"model": self._model, "stream": True} | self._format_messages(system, messages)
            if tools and self.supports_tools:
                payload |= self._format_tools(tools, allow_calls)
            try:
                return self._read({name: payload[name] for name in payload if name not in self._refused}, write)
            except _UnsupportedParameter as exc:  # no text has arrived yet
                if exc.parameter in self._refused:
                    raise
                self._refused.add(exc.parameter)

    @property
    def supports_tools(self) -> bool:
        """True until the model refuses a request because of its tools."""
        return "tools" not in self._refused

    def close(self) -> None:
        self._client.close()

    def _read(self, payload: JsonObject, write: Write) -> Reply:
        reader, pieces, understood = self._reader(), list[str](), False
        with closing(self._client.stream(self._path, payload, _RETRY)) as lines:
            for event in self._parse_stream(lines):
                if event.get("error"):
                    raise self._client.interruption_error(event)
                try:
                    text = reader.read(event)
                except (LookupError, TypeError, AttributeError):  # it does not have the form of this API
                    break
                understood = True
                if text:
                    pieces.append(text)
                    write(text)
                if reader.complete and reader.usage != Usage():
                    break
        if reader.complete:
            return Reply("".join(pieces), tuple(reader.calls()), reader.usage, reader.cut_reason)
        if understood:
            raise self._client.interruption_error()
        url, hint = self._client.url, self._client.server_hint
        raise ChatError(f"{url} answered with something that is no answer of a model: {hint}")

    @abstractmethod
    def _format_messages(self, system: str, messages: Sequence[Message]) -> JsonObject:
        """Return the parameters of a request that hold the conversation."""

    @abstractmethod
    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        """Return the parameters of a request that offer tools."""

    def _parse_stream(self, lines: Iterable[str]) -> Iterator[JsonObject]:
        return parse_events(lines)


class _UnsupportedParameter(ChatError):
    """A server refuses a parameter that can be left out."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


def _make_error(message: str, failure: Failure | None) -> ChatError:
    if failure and failure.status in (400, 422):
        for parameter, phrases in _OPTIONAL_PARAMETERS.items():
            if any(phrase in failure.text for phrase in phrases):
                return _UnsupportedParameter(message, parameter)
    return ChatError(message)


def _require_text(value: object) -> str:
    """Return a value that has to be text; TypeError where it is something else."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _sum_tokens(usage: Mapping[str, Any], *names: str) -> int:
    """Add up the counts of tokens that a server reports under these names; what cannot be a count is left out."""
    counts = (usage.get(name) for name in names)
    return sum(count for count in counts if type(count) is int and 0 <= count <= _MAX_COUNT)


class _AnthropicReader(_StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, tuple[str, str, list[str]]] = {}  # id, name, and the pieces of the arguments

    def read(self, event: JsonObject) -> str:
        match event["type"]:
            case "message_start":
                self.usage = Usage(_sum_tokens(event["message"].get("usage") or {}, *_INPUT_COUNTS))
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                block = event["content_block"]
                self._calls[event["index"]] = (_require_text(block["id"]), _require_text(block["name"]), [])
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                self._calls[event["index"]][2].append(_require_text(event["delta"]["partial_json"]))
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                return str(event["delta"]["text"])
            case "message_delta":
                self.usage = Usage(self.usage.input, _sum_tokens(event.get("usage") or {}, "output_tokens"))
                self.cut_reason = _ANTHROPIC_CUT_REASONS.get(event["delta"].get("stop_reason"))
            case "message_stop":
                self.complete = True
        return ""

    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(id, name, parse_json_object("".join(pieces) or "{}")) for id, name, pieces in self._calls.values()
        ]


class _AnthropicProvider(Provider):
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
        return {"max_tokens": _MAX_TOKENS, "system": system, "messages": [_anthropic_message(one) for one in messages]}

    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        # A conversation that has calls in it needs the tools, even where no further call is allowed.
        described = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
        return {"tools": described, "tool_choice": {"type": "auto" if allow_calls else "none"}}


def _anthropic_message(message: Message) -> JsonObject:
    blocks: list[JsonObject] = [
        {"type": "tool_result", "tool_use_id": result.call.id, "content": result.text} for result in message.results
    ]
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments or {}} for call in message.calls
    ]
    return {"role": message.role, "content": blocks}


class _OpenAIReader(_StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, dict[str, str]] = {}

    def read(self, event: JsonObject) -> str:
        if usage := event.get("usage"):
            self.usage = Usage(_sum_tokens(usage, "prompt_tokens"), _sum_tokens(usage, "completion_tokens"))
        if not event.get("choices"):  # the last event has the usage alone
            return ""
        choice = event["choices"][0]
        delta = choice.get("delta") or {}
        for piece in delta.get("tool_calls") or ():
            self._read_call(piece)
        if reason := choice.get("finish_reason"):
            self.complete, self.cut_reason = True, _OPENAI_CUT_REASONS.get(reason)
        return str(delta.get("content") or delta.get("refusal") or "")

    def _read_call(self, piece: JsonObject) -> None:
        """Keep a piece of a call: the first has its id and its name, and each some of the arguments."""
        begins = 1 if piece.get("id") else 0  # for servers that do not number their calls
        index = piece.get("index", max(0, len(self._calls) - 1 + begins))
        call = self._calls.setdefault(
            index, {"id": _require_text(piece.get("id") or f"call_{index}"), "name": "", "arguments": ""}
        )
        function = piece.get("function") or {}
        call["name"] = _require_text(function.get("name") or call["name"])
        call["arguments"] += function.get("arguments") or ""

    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(call["id"], call["name"], parse_json_object(call["arguments"] or "{}"))
            for call in self._calls.values()
        ]


class _OpenAIProvider(Provider):
    """Models of OpenAI (which needs a key), or of any server that speaks its API: LM Studio, vLLM, llama.cpp."""

    _service = OPENAI
    _path = "/chat/completions"
    _reader = _OpenAIReader

    def _format_messages(self, system: str, messages: Sequence[Message]) -> JsonObject:
        formatted = [part for message in messages for part in _openai_messages(message)]
        return {
            "messages": [{"role": "system", "content": system}, *formatted],
            "stream_options": {"include_usage": True},
        }

    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        return {"tools": _format_functions(tools), "tool_choice": "auto" if allow_calls else "none"}


def _format_functions(tools: Sequence[Tool]) -> list[JsonObject]:
    """Describe tools as the APIs of OpenAI and Ollama expect them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _openai_messages(message: Message) -> list[JsonObject]:
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


class _OllamaReader(_StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._calls: list[ToolCall] = []

    def read(self, event: JsonObject) -> str:
        message = event["message"]
        for call in message.get("tool_calls") or ():
            name, arguments = _require_text(call["function"]["name"]), call["function"].get("arguments")
            id = _require_text(call.get("id") or f"call_{len(self._calls)}")
            self._calls.append(ToolCall(id, name, arguments if isinstance(arguments, dict) else None))
        if event.get("done"):
            self.complete = True
            if event.get("done_reason") == "length":
                self.cut_reason = "it reached the most tokens that Ollama gives"
            self.usage = Usage(_sum_tokens(event, "prompt_eval_count"), _sum_tokens(event, "eval_count"))
        return str(message.get("content") or "")

    def calls(self) -> list[ToolCall]:
        return self._calls


class _OllamaProvider(Provider):
    """Models that Ollama serves, at OLLAMA_HOST (which may lack scheme and port) or else on this machine."""

    _service = OLLAMA
    _path = "/api/chat"
    _reader = _OllamaReader

    def _format_messages(self, system: str, messages: Sequence[Message]) -> JsonObject:
        formatted = [part for message in messages for part in _ollama_messages(message)]
        return {"messages": [{"role": "system", "content": system}, *formatted]}

    def _format_tools(self, tools: Sequence[Tool], allow_calls: bool) -> JsonObject:
        return {"tools": _format_functions(tools)} if allow_calls else {}

    def _parse_stream(self, lines: Iterable[str]) -> Iterator[JsonObject]:
        return parse_json_lines(lines)


def _ollama_messages(message: Message) -> list[JsonObject]:
    if message.results:
        return [{"role": "tool", "tool_name": result.call.name, "content": result.text} for result in message.results]
    formatted: JsonObject = {"role": message.role, "content": message.text}
    if message.calls:
        formatted["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments or {}}} for call in message.calls
        ]
    return [formatted]


_PROVIDERS: Mapping[str, type[Provider]] = {
    "anthropic": _AnthropicProvider,
    "openai": _OpenAIProvider,
    "ollama": _OllamaProvider,
}


def create_provider(
    model: str, *, timeout: float, environ: Mapping[str, str] = os.environ, sleep: Sleep = time.sleep
) -> Provider:
    """Return the provider that a setting such as "ollama:qwen3" names, with its server and key from the environment."""
    provider, name = chat_model(model)
    return _PROVIDERS[provider](name, timeout=timeout, environ=environ, sleep=sleep)
