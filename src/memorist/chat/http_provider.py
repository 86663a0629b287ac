"""The base class of chat providers: it sends a conversation, and reads the answer from a stream of events."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar

from memorist.chat.base import Message, Reply, Tool, ToolCall, Usage, Write
from memorist.errors import ChatError, ConfigError
from memorist.http import Failure, JsonObject, ModelClient, RetryPolicy, Service, Sleep, parse_events

# Once more where the server is busy, after a Retry-After of up to 30 seconds.
_RETRY = RetryPolicy(1, 600.0, max_delay=30.0, first_delay=1.0, jitter=0.0, statuses=(429, 503, 529))

# Parameters that some servers refuse and that can be left out, with phrases of their refusals: Ollama's of tools that a
# model cannot call, other servers' of reporting the tokens used.
_OPTIONAL_PARAMETERS = {"tools": ("does not support tools",), "stream_options": ("stream_options", "include_usage")}


class StreamReader(ABC):
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


class HttpProvider(ABC):
    """A model behind HTTP, with its server and key from the environment."""

    _service: ClassVar[Service]
    _path: ClassVar[str]
    _reader: ClassVar[type[StreamReader]]

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


def require_text(value: object) -> str:
    """Return a value that has to be text; TypeError where it is something else."""
    if not isinstance(value, str):
        raise TypeError
    return value


def sum_tokens(usage: Mapping[str, Any], *names: str) -> int:
    """Add up the counts of tokens that a server reports under these names."""
    return sum(count for name in names if isinstance(count := usage.get(name), int))
