"""Calls of a server as methods make them: arguments in, typed records out, page by page where there are many."""

import builtins
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, get_origin

from memorist.atomic_file import is_stream, open_output
from memorist.errors import InvalidInput, MemoristError
from memorist.present.codec import decode
from memorist.web.transport import Transport, path_of

PAGE = 1000  # items of one request

T = TypeVar("T")


class RemoteCalls:
    """Requests whose answers are records."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _get(self, kind: type[T], /, *path: str, **query: Any) -> T:
        return self._call(kind, "GET", *path, query=query)

    def _post(self, kind: type[T], /, *path: str, **body: Any) -> T:
        return self._call(kind, "POST", *path, body=body)

    def _delete(self, kind: type[T], /, *path: str, **query: Any) -> T:
        return self._call(kind, "DELETE", *path, query=query)

    def _call(
        self,
        kind: type[T],
        /,
        method: str,
        *path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request without what was left open, and return its answer as a record, or as a list of them."""
        given = {name: as_text(value) for name, value in (query or {}).items() if value is not None}
        sent = as_json(drop_none(body)) if body else None
        answer = self._transport.call(method, path_of(*path), query=given, body=sent, headers=headers)
        found: T = decode(kind, answer["items"] if get_origin(kind) is list else answer)
        return found

    def _pages(self, kind: Any, items: str, limit: int, /, *path: str, **query: Any) -> builtins.list[Any]:
        """Return up to `limit` items, page by page."""
        found: builtins.list[Any] = []
        cursor = None
        while len(found) < limit or limit < 1:  # of a limit that cannot be used, the server says so
            page = self._get(kind, *path, limit=min(limit - len(found), PAGE), cursor=cursor, **query)
            found += getattr(page, items)
            cursor = page.cursor
            if cursor is None:
                break
        return found


def refuse(name: str, reason: str) -> NoReturn:
    """Raise the error of a method that only the server's machine can do."""
    raise MemoristError(f"{name} cannot be called over HTTP: it {reason}")


def drop_none(item: Any) -> Any:
    """Return a mapping without what was left open."""
    return {key: value for key, value in item.items() if value is not None} if isinstance(item, Mapping) else item


def as_json(value: Any) -> Any:
    """Return an argument as JSON has it; times as ISO 8601."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [as_json(item) for item in value]
    return value


def as_text(value: Any) -> Any:
    """Return an argument as a URL has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = as_json(value)
    if isinstance(plain, dict):
        return json.dumps(plain)
    return plain if isinstance(plain, list) else str(plain)


@contextmanager
def open_export(path: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(path, str | Path):
        yield path
        return
    from memorist.importers.memorist_export import is_export

    target = Path(path)
    if not is_stream(target) and target.exists() and target.stat().st_size and not is_export(target):
        raise InvalidInput(f"{target} exists and is not a Memorist export; choose another name")
    with open_output(target, new_mode=0o600) as file:  # it holds every memory
        yield file


@contextmanager
def open_import(path: str | Path | BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    if not isinstance(path, str | Path):
        yield Path(str(getattr(path, "name", "import"))).name, path
        return
    if Path(path).is_dir():
        refuse("import_", f"sends one file, and {path} is a folder: import its files one by one")
    try:
        with open(path, "rb") as file:
            yield Path(path).name, file
    except OSError as exc:
        raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc
