"""What a provider of language models is, and the records it exchanges with a conversation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Write = Callable[[str], None]  # is handed an answer piece by piece, as it arrives


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call: its name, what it is for, and its arguments as a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a model asked for. `arguments` is None where they could not be read."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave back."""

    call: Call
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """What one side said: text, with the calls an assistant asked for, or the results they gave."""

    role: str  # user or assistant
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counts them."""

    input: int = 0
    output: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input + other.input, self.output + other.output)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. `cut` says why it ends early, where it does."""

    text: str
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cut: str | None = None


class Provider(Protocol):
    """A language model behind a server. `name` is as it is set: "anthropic:MODEL"."""

    name: str

    @property
    def can_call(self) -> bool:
        """Whether it takes tools, as far as is known: a model that does not says so when it is first asked."""
        ...

    def answer(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool], write: Write, *, call: bool = True
    ) -> Reply:
        """
        The model's answer, whose text is also handed to `write` as it arrives; without `call` it may call no tool.

        Raises ChatError where there is none, or not all of one.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...
