"""What all providers share: a request, an answer read as it arrives, and its end, without which it is none."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from memorist.chat.base import Call, Message, Reply, Tool, Usage, Write
from memorist.chat.wire import Sleep, Unwanted, Wire, json_object
from memorist.errors import ConfigError
from memorist.servers import Address


class Reader(ABC):
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


class Remote(ABC):
    """A model behind HTTP, with its address and key from the environment."""

    _provider: ClassVar[str]
    _path: ClassVar[str]
    _url_setting: ClassVar[str]
    _key_setting: ClassVar[str]
    _key_header: ClassVar[str | None] = None
    _needs_key: ClassVar[str | None] = None  # the host that answers nobody without one
    _hints: ClassVar[Mapping[str, str]]
    _reader: ClassVar[type[Reader]]

    def __init__(self, model: str, *, timeout: float, environ: Mapping[str, str], sleep: Sleep) -> None:
        self.name, self._model = f"{self._provider}:{model}", model
        self._unwanted: set[str] = set()  # parts of a request that this server refuses
        self._address = Address(
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
        self._wire = Wire(self.name, self._address, timeout, hints, sleep)

    def answer(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool], write: Write, *, call: bool = True
    ) -> Reply:
        while True:
            payload = self._payload(system, messages)
            if tools and self.can_call:
                payload |= self._offer(tools, call)
            try:
                return self._read({part: payload[part] for part in payload if part not in self._unwanted}, write)
            except Unwanted as exc:  # which is said before anything else
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


def _taken(reader: Reader, event: dict[str, Any] | None) -> str | None:
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
