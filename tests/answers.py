"""What the answers of a memory hold: ids, texts, or every field of every record."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

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
    if isinstance(answer, Struct):
        inside = ", ".join(f"{name}={show_fields(value)}" for name, value in asdict(answer).items())
        return f"{type(answer).__name__}({inside})"
    if isinstance(answer, dict):
        return f"{{{', '.join(f'{key!r}: {show_fields(value)}' for key, value in answer.items())}}}"
    if isinstance(answer, list | tuple | set | frozenset):
        return f"[{', '.join(map(show_fields, answer))}]"
    return repr(answer)
