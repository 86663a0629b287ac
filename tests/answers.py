"""What the answers of a memory hold: ids, texts, or every field of every record."""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from memorist import Memorist


def ids(found: Iterable[Any]) -> list[str]:
    """Return the ids of memories, hits, or related ones, in order."""
    return [getattr(one, "memory", one).id for one in found]


def texts(found: Iterable[Any]) -> list[str]:
    """Return the contents of memories, hits, or related ones, in order."""
    return [getattr(one, "memory", one).content for one in found]


def all_texts(memory: Memorist) -> set[str]:
    """Return the contents of all that a memory lists."""
    return set(texts(memory.list(limit=100_000)))


def show_fields(answer: Any) -> str:
    """Return every field of every record in an answer as text, however deep: its `repr` is shortened for people."""
    if is_dataclass(answer) and not isinstance(answer, type):
        inside = ", ".join(f"{field.name}={show_fields(getattr(answer, field.name))}" for field in fields(answer))
        return f"{type(answer).__name__}({inside})"
    if isinstance(answer, dict):
        return f"{{{', '.join(f'{key!r}: {show_fields(value)}' for key, value in answer.items())}}}"
    if isinstance(answer, list | tuple | set | frozenset):
        return f"[{', '.join(map(show_fields, answer))}]"
    return repr(answer)
