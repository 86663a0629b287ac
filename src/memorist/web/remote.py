"""
A memory on a server: `memorist.connect` gives the same `Memorist` as `memorist.open`, over HTTP.

Times in words, such as "yesterday", are understood by the server, in its time zone. Paths of indexed files are those of
the server's machine; what would read or write its files is done there, and raises an error here.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from msgspec.structs import replace

from memorist import __version__, validation
from memorist.arguments import MAX_PAGE
from memorist.contract import EVENTS, JSON, LINES, MULTIPART, Operation, Transport
from memorist.engine.memory import Memorist
from memorist.engine.transfer import open_export
from memorist.errors import ConfigError, InvalidInput, MemoristError, StoreError
from memorist.http import Answer, HttpClient, Unreachable
from memorist.nesting import refuse_excess
from memorist.present.codec import decode
from memorist.records import check_version
from memorist.reports import ImportReport
from memorist.views import Change, ReviewPage
from memorist.web.problems import BASE, ERROR_CLASSES, URN

_FILE_CHUNK = 256 << 10
_MAX_PROBLEM_BYTES = 1 << 20
_MAX_TAIL = 200  # bytes of an export, in which its last record is
_NOT_IN_TAG = re.compile(r"[^!#-+\--~]")  # of characters, in an ETag; no version has one
_END_RECORDS = (b'"type": "end"', b'"type":"end"')

Progress = Callable[[int], None]


def connect(url: str, *, token: str | None = None, namespace: str | None = None, timeout: float = 60.0) -> Memorist:
    """
    Connect to the memory that `memorist serve` offers at an address.

    The `token` is printed by `memorist token`, or is the server's `http_token`. A `namespace` other than that of
    the token or the server can be chosen with the latter alone. Nothing is sent before the first call.
    """
    return Memorist(Remote(url, token, namespace, timeout))


class Remote(Transport):
    """Has a server run operations."""

    def __init__(self, url: str, token: str | None, namespace: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise InvalidInput(f"{url!r} is not the address of a server; write it like http://127.0.0.1:8377")
        try:
            parts.port  # noqa: B018
        except ValueError:
            raise InvalidInput(f"{url!r} has a port that is no number from 0 to 65535") from None
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/").removesuffix(BASE) + BASE
        self._headers = {"User-Agent": f"memorist/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_as_header(token, 'token')}"
        if namespace is not None:
            self._headers["Memorist-Namespace"] = _as_header(namespace, "namespace")
        self._http = HttpClient(parts, timeout=timeout)
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._http.close()

    def call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        if operation.gives == LINES:
            return self._download(operation, **arguments)
        if operation.takes == MULTIPART:
            return self._upload(operation, **arguments)
        if operation.gives == EVENTS:
            return self._follow(operation, **arguments)
        limit = arguments.get("limit")
        if isinstance(limit, int) and limit > MAX_PAGE and _is_page(operation.returns):
            return self._collect_pages(operation, arguments, limit)
        return self._send(operation, arguments)

    def _send(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        """Send a request without what was left open, and return its answer as the method would."""
        sent = operation.write_arguments(arguments)
        for name, value in sent.items():
            if isinstance(value, Mapping | list | tuple):
                refuse_excess(value, name)
        headers = _condition(operation, arguments.get("if_version"))
        query = _as_query(sent) if operation.body is None else None
        body = None
        if operation.body is not None and sent:
            body, headers["Content-Type"] = _encode_json(_as_json(sent)), JSON
        if operation.method != "GET":
            headers["Idempotency-Key"] = str(uuid4())  # so that a request whose answer was lost can be sent again
        with self._open(operation, arguments, query=query, body=body, headers=headers) as answer:
            try:
                content = json.loads(answer.read())
            except ValueError:
                raise MemoristError(f"{self.url} gave an answer that is not JSON; is it a Memorist server?") from None
        if operation.returns is type(None):
            return None
        return decode(operation.returns, content if operation.member is None else content[operation.member])

    @contextmanager
    def _open(
        self,
        operation: Operation,
        arguments: Mapping[str, Any],
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Answer]:
        """Send a request, and give its answer to be read; an error is raised as the engine raised it there."""
        if self._is_closed:
            raise StoreError("this connection has been closed; connect again")
        target = self._base + _fill_path(operation, arguments)
        target += f"?{urlencode(query, doseq=True)}" if query else ""
        try:
            with self._http.send(operation.method, target, body, {**self._headers, **(headers or {})}) as answer:
                if answer.status >= 300:
                    raise _read_problem(answer, self.url)
                yield answer
        except Unreachable as exc:
            raise StoreError(f"{self.url} gave no answer ({exc}); is `memorist serve` running there?") from exc

    def _collect_pages(self, operation: Operation, arguments: Mapping[str, Any], limit: int) -> Any:
        """Return one long page, made of several requests."""
        page = self._send(operation, {**arguments, "limit": MAX_PAGE})
        items = page.__struct_fields__[0]
        while page.cursor is not None and len(page) < limit:
            more = {"limit": min(limit - len(page), MAX_PAGE), "cursor": page.cursor}
            following = self._send(operation, {**arguments, **more})
            page = replace(page, **{items: (*page, *following), "cursor": following.cursor})
        return page

    def _download(
        self,
        operation: Operation,
        path: str | Path | BinaryIO,
        format: str = "jsonl",
        progress: Progress | None = None,
        **options: Any,
    ) -> int:
        """Write an export to a file on this machine; return how many records."""
        if format != "jsonl":
            raise _not_over_http(
                "export", f"cannot write {format}: export jsonl, and import it into a memory on this machine"
            )
        query = _as_query(operation.write_arguments(options))
        lines, tail = 0, b""
        with (
            _open_output(path) as file,
            self._open(operation, {}, query=query) as answer,
        ):
            while chunk := answer.read(_FILE_CHUNK):
                file.write(chunk)
                lines += chunk.count(b"\n")
                tail = (tail + chunk)[-_MAX_TAIL:]
            if not any(end in tail for end in _END_RECORDS):
                raise MemoristError("the export broke off; try again")
        records = lines - 2  # without the first and the last line
        if progress:
            progress(records)
        return records

    def _upload(
        self, operation: Operation, path: str | Path | BinaryIO, progress: Progress | None = None, **options: Any
    ) -> ImportReport:
        """Send a file, and have it imported there."""
        texts = {name: _as_text(value) for name, value in operation.write_arguments(options).items()}
        fields = [(name, one) for name, text in texts.items() for one in (text if isinstance(text, list) else [text])]
        with _open_import(path) as (name, file):
            kind, pieces = multipart(name, iter(lambda: file.read(_FILE_CHUNK), b""), fields)
            with self._open(operation, {}, body=pieces, headers={"Content-Type": kind}) as answer:
                report: ImportReport = decode(ImportReport, json.loads(answer.read()))
        if progress:
            progress(report.added + report.known)
        return report

    def _follow(self, operation: Operation, position: str | None = None) -> Iterator[Change]:
        headers = {"Accept": EVENTS} | ({"Last-Event-ID": position} if position else {})
        with self._open(operation, {}, headers=headers) as answer:
            fields: dict[str, str] = {}
            while line := answer.readline().decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if name and value:
                    fields[name] = value
                elif "data" in fields:
                    new = json.loads(fields["data"])["new"]
                    yield Change(fields["id"], {kind: tuple(ids) for kind, ids in new.items()})
                    fields = {}
        raise StoreError("the server has ended the stream; go on from the last position")


def _is_page(record: Any) -> bool:
    return record is not ReviewPage and "cursor" in getattr(record, "__struct_fields__", ())


def _fill_path(operation: Operation, arguments: Mapping[str, Any]) -> str:
    parts = operation.path.strip("/").split("/")
    filled = (_as_id(arguments[part[1:-1]]) if part.startswith("{") else part for part in parts)
    return "".join(f"/{quote(part, safe=':')}" for part in filled)  # an id may hold any character


def _as_id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"an id must be text, not {value!r:.60}")
    return value


def _condition(operation: Operation, version: str | Sequence[str] | None) -> dict[str, str]:
    """Return the header that says which versions of a memory may be changed."""
    if version is None:
        return {"If-Match": "*"} if operation.must_match else {}
    check_version(version)  # raises for what cannot be one
    versions = [version] if isinstance(version, str) else version
    return {"If-Match": ", ".join(f'"{_NOT_IN_TAG.sub("?", one)}"' for one in versions)}


def _not_over_http(name: str, reason: str) -> MemoristError:
    return MemoristError(f"{name} cannot be called over HTTP: it {reason}")


def _as_header(value: str, what: str) -> str:
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise InvalidInput(f"the {what} must be text of printable ASCII characters")
    return value


def _read_problem(answer: Answer, url: str) -> Exception:
    """Return the error that an answer tells of, of the class that the engine has raised."""
    if location := answer.getheader("Location"):
        return ConfigError(f"{url} answered {answer.status} and sends you to {location[:200]!r}; connect to that")
    try:
        problem = json.loads(answer.read(_MAX_PROBLEM_BYTES))
        name, detail = problem["type"].removeprefix(URN), problem["detail"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return MemoristError(f"{url} answered {answer.status} {answer.reason}; is it a Memorist server?")
    if answer.status in (401, 403):
        return ConfigError(detail)
    return ERROR_CLASSES.get(name, InvalidInput if answer.status < 500 else MemoristError)(detail)


def _encode_json(body: Any) -> bytes:
    try:
        return json.dumps(body, default=_as_plain).encode("utf-8", "replace")
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"arguments must be made of what JSON knows: {exc}") from exc


def _as_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def multipart(name: str, chunks: Iterable[bytes], fields: Iterable[tuple[str, str]]) -> tuple[str, Iterator[bytes]]:
    """Return the content type and the pieces of a form with a file in it."""
    boundary = uuid4().hex
    safe = "".join(one if one.isprintable() and one not in '"\\' else "_" for one in name)

    def pieces() -> Iterator[bytes]:
        for key, value in fields:
            yield f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        disposition = f'Content-Disposition: form-data; name="file"; filename="{safe}"'
        yield f"--{boundary}\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()
        yield from chunks
        yield f"\r\n--{boundary}--\r\n".encode()

    return f"{MULTIPART}; boundary={boundary}", pieces()


def _as_query(sent: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in sent.items():
        if isinstance(value, list | tuple) and not value:
            raise InvalidInput(f"{name} is an empty list, which nothing can match: leave it out to search in all")
    return {name: _as_text(value) for name, value in sent.items()}


def _as_json(value: Any) -> Any:
    """Return an argument as JSON has it; times as ISO 8601, but for metadata, which are stored as they are."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): item if key == "metadata" else _as_json(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_as_json(item) for item in value]
    return value


def _as_text(value: Any) -> Any:
    """Return an argument as a URL has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = _as_json(value)
    if isinstance(plain, dict):
        return json.dumps(plain)
    return plain if isinstance(plain, list) else str(plain)


@contextmanager
def _open_output(path: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(path, str | Path) and hasattr(path, "write"):
        yield path
        return
    with open_export(validation.path(path)) as file:
        yield file


@contextmanager
def _open_import(path: str | Path | BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    if not isinstance(path, str | Path) and hasattr(path, "read"):
        yield Path(str(getattr(path, "name", "import"))).name, path
        return
    source = validation.path(path)
    if source.is_dir():
        raise _not_over_http("import_", f"sends one file, and {source} is a folder: import its files one by one")
    try:
        with source.open("rb") as file:
            yield source.name, file
    except OSError as exc:
        raise InvalidInput(f"cannot read {source}: {exc.strerror}") from exc
