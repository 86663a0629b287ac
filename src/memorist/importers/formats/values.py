"""
Values of other programs' JSON, which may have any type, because files are damaged and programs change.

Each function returns a value in the form that conversations hold, or None for what it does not know. None raises.
A value is looked up in a table by `look_up` only: a list cannot be a key, and to ask for one raises.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

from memorist.errors import InvalidInput
from memorist.importers.input_file import load_json
from memorist.validation import MAX_NAME_CHARACTERS, clean

_ROLES = (
    dict.fromkeys(("user", "human"), "user")
    | dict.fromkeys(("assistant", "ai", "bot", "model", "gpt", "claude", "chatgpt"), "assistant")
    | {"system": "system", "developer": "system", "tool": "tool", "function": "tool"}
)
SESSION_KEYS = "sessionId session_id session conversation_id conversationId conversation thread_id chat_id".split()


_TEXT_TYPES = ("text", "input_text", "output_text", "audio_transcription")


def extract_text(content: Any, clean_part: Callable[[str], str] = str.strip) -> str:
    """Join the texts among the parts of a message, without thoughts, tool calls, images and files."""
    words = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and part.get("type", part.get("content_type", "text")) in _TEXT_TYPES:
            part = part.get("text")
        if isinstance(part, str):
            words.append(clean_part(part))
    return "\n\n".join(filter(None, words))


_Value = TypeVar("_Value")


def look_up(table: Mapping[Any, _Value], key: Any) -> _Value | None:
    """Return what a table has under a key, which may be a value of any type."""
    return table.get(key) if isinstance(key, str | int) else None


def first_value(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def parse_id(value: Any) -> str | None:
    """Return an id of another program, or a digest of it if it is not one line of up to 128 characters."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:d}" if abs(value) < 10**100 else None
    text = value.strip() if isinstance(value, str) else ""
    return (text if _USABLE_ID.fullmatch(text) else digest(text)) if text else None


_USABLE_ID = re.compile(r"[^\x00-\x1f\ud800-\udfff]{1,128}")


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parse_title(value: Any) -> str | None:
    """Return a title as one line, however long: a secret in it is recognised only before it is cut."""
    return " ".join(clean(value).split()) or None if isinstance(value, str) else None


def parse_label(value: Any) -> str | None:
    """Return a name as one line of at most the length that can be stored; None if there is none."""
    label = parse_title(value[: 4 * MAX_NAME_CHARACTERS]) if isinstance(value, str) else None
    return label[:MAX_NAME_CHARACTERS].strip() if label else None


def parse_time(value: Any) -> datetime | None:
    """Parse ISO text (UTC if it has no zone) or epoch seconds, milliseconds or less; return None for anything else."""
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            text = value.strip()[:100]
            if not _EPOCH.fullmatch(text):
                moment = datetime.fromisoformat(text)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            value = float(text)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e19:
            return None
        while value > 1e11:  # in seconds, the year 5138: so the unit is smaller
            value /= 1000
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


_EPOCH = re.compile(r"[0-9]{9,19}(\.[0-9]+)?")


def parse_role(value: Any) -> str | None:
    return _ROLES.get(value.strip().lower()) if isinstance(value, str) else None


def parse_object(data: Any) -> dict[str, Any] | None:
    """Return the JSON object that a text or bytes hold."""
    try:
        value = load_json(data, "a value")
    except (InvalidInput, ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def project_of_folder(folder: Any) -> str | None:
    """Return the project name for sessions in a folder: the name of the folder."""
    return parse_label(re.split(r"[\\/]", folder.rstrip("\\/"))[-1]) if isinstance(folder, str) else None
