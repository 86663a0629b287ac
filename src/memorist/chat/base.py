"""The provider protocol, and the records that a provider and a conversation exchange."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Write = Callable[[str], None]  # receives an answer piece by piece, as it arrives


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for. `arguments` is None where they could not be parsed."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call."""

    call: ToolCall
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message of one side: text, with the calls an assistant asked for, or the results of calls."""

    role: str  # user or assistant
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counts them."""

    input: int = 0
    output: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input + other.input, self.output + other.output)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. `cut_reason` says why it ends early, where it does."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cut_reason: str | None = None


class Provider(Protocol):
    """A language model behind a server. `name` is as in the settings: "anthropic:MODEL"."""

    name: str

    @property
    def supports_tools(self) -> bool:
        """True until the model refuses a request because of its tools."""
        ...

    def answer(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool], write: Write, *, allow_calls: bool = True
    ) -> Reply:
        """
        Return the model's answer, whose text is also passed to `write` as it arrives.

        Without `allow_calls` the model may call no tool. Raises ChatError where the answer is missing or incomplete.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
