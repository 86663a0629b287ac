"""All that an answer tells, as text: what a record prints is shortened for people."""

from dataclasses import fields, is_dataclass
from typing import Any


def told(answer: Any) -> str:
    """Return every field of every record in an answer, however deep."""
    if is_dataclass(answer) and not isinstance(answer, type):
        inside = ", ".join(f"{field.name}={told(getattr(answer, field.name))}" for field in fields(answer))
        return f"{type(answer).__name__}({inside})"
    if isinstance(answer, dict):
        return f"{{{', '.join(f'{key!r}: {told(value)}' for key, value in answer.items())}}}"
    if isinstance(answer, list | tuple | set | frozenset):
        return f"[{', '.join(map(told, answer))}]"
    return repr(answer)
