"""Files that come and go in a stream: an import that is uploaded, and an export that is sent while it is read."""

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio.to_thread
from msgspec import Struct
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from memorist.contract import MULTIPART, Operation
from memorist.engine import Memorist
from memorist.errors import InvalidInput, MemoristError
from memorist.importers.input_file import limit_json
from memorist.reports import ImportReport
from memorist.schemas import validate_object
from memorist.web.problems import Refusal
from memorist.web.requests import refuse_large

MAX_UPLOAD_BYTES = 2 << 30
_CHUNK_BYTES = 256 << 10
_CHUNKS_AHEAD = 2  # of the reader
MAX_EXPORTS = 8  # at once
_STALL_SECONDS = 30.0
_LEAST_BYTES_PER_SECOND = 1024
_MAX_NAME_BYTES = 100  # of the end of a file's name


class Upload(Struct, frozen=True):
    """A file that was uploaded, in a folder of its own, and the other fields of its form."""

    file: Path
    fields: Mapping[str, Any]
    digest: bytes

    @property
    def fingerprint(self) -> bytes:
        """All that was sent, in short."""
        return self.digest + json.dumps([self.file.name, self.fields], sort_keys=True).encode()


async def receive_upload(operation: Operation, request: Request) -> Upload:
    """Return an upload, whose folder the caller removes."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MULTIPART:
        raise Refusal(415, "unsupported-media-type", f"send the file as {MULTIPART}")
    refuse_large(request, MAX_UPLOAD_BYTES)
    limited = Request(request.scope, _limit(request.receive))
    try:
        form = await limited.form(max_files=1, max_fields=100, max_part_size=1 << 20)
    except (HTTPException, FormParserError) as exc:  # Starlette raises the first for what it cannot read
        reason = exc.detail if isinstance(exc, HTTPException) else str(exc)
        raise Refusal(400, "not-multipart", f"the body cannot be read: {reason}") from None
    except ClientDisconnect:
        raise Refusal(400, "incomplete", "the body ended early") from None
    try:
        upload = form.get("file")
        if not isinstance(upload, UploadFile):
            raise InvalidInput(f"{operation.name} needs a file, in the field `file`")
        fields: dict[str, Any] = {}
        for name, value in form.multi_items():
            if name == "file" or isinstance(value, UploadFile):
                continue
            if name == "allow":
                fields.setdefault(name, []).append(value)
            else:
                fields[name] = value == "true" if name in ("tools", "redact") and value in ("true", "false") else value
        known = {name: schema for name, schema in (operation.body or {}).items() if name != "file"}
        valid = validate_object(operation.name, {"properties": known, "additionalProperties": False}, fields)
        file, digest = await anyio.to_thread.run_sync(_save, upload.file, upload.filename or "import")
        return Upload(file, valid, digest)
    finally:
        await form.close()


def _limit(receive: Callable[[], Any]) -> Callable[[], Any]:
    """Return a `receive` that refuses a body which is too large, or comes too slowly."""
    size, started = 0, time.monotonic()

    async def receive_within_limits() -> Message:
        nonlocal size
        deadline = started + _STALL_SECONDS + size / _LEAST_BYTES_PER_SECOND
        try:
            async with asyncio.timeout(min(_STALL_SECONDS, deadline - time.monotonic())):
                message: Message = await receive()
        except TimeoutError:
            raise Refusal(408, "too-slow", "the file comes too slowly", {"Connection": "close"}) from None
        size += len(message.get("body", b""))
        if size > MAX_UPLOAD_BYTES:
            raise Refusal(
                413, "too-large", f"a file can have {MAX_UPLOAD_BYTES:,} bytes at most", {"Connection": "close"}
            )
        return message

    return receive_within_limits


def _save(source: BinaryIO, filename: str) -> tuple[Path, bytes]:
    """Copy an upload to a file of its own name, by which its format may be known; return it and its hash."""
    name = "".join(one for one in os.path.basename(filename.replace("\\", "/")) if one.isprintable())
    end = name.encode()[-_MAX_NAME_BYTES:].decode(errors="ignore").lstrip(".")
    folder = Path(tempfile.mkdtemp(prefix="memorist-import-"))
    target = folder / (end or "import")
    try:
        with target.open("w+b") as copy:
            shutil.copyfileobj(source, copy, _CHUNK_BYTES)
            copy.seek(0)
            return target, hashlib.file_digest(copy, "sha256").digest()
    except OSError:  # such as a full disk
        shutil.rmtree(folder, ignore_errors=True)
        raise


def import_upload(memory: Memorist, upload: Upload) -> ImportReport:
    """Import an uploaded file, and name places in it by the name it came with."""
    folder = str(upload.file.parent) + os.sep
    try:
        with limit_json():
            report = memory.transfer.import_(upload.file, **upload.fields)
    except MemoristError as exc:
        raise type(exc)(str(exc).replace(folder, ""), hint=exc.hint) from exc
    skipped = tuple((place.replace(folder, ""), reason.replace(folder, "")) for place, reason in report.skipped)
    return ImportReport(report.format, report.added, report.known, report.sessions, skipped, report.redacted)


class Exports:
    """The exports under way. Each has a thread and a connection to the database, so there may be some at once."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MAX_EXPORTS)

    def begin(self, use: Callable[[], AbstractContextManager[Memorist]], vectors: bool) -> "Export":
        """Return an export that has begun, or refuse to begin another."""
        if not self._places.acquire(blocking=False):
            raise Refusal(503, "too-many-exports", f"{MAX_EXPORTS} exports are under way", {"Retry-After": "1"})
        return Export(use, vectors, self._places.release)


class Export:
    """An export that is sent while it is read from the memory; a reader that stalls, or leaves, ends it."""

    def __init__(
        self, use: Callable[[], AbstractContextManager[Memorist]], vectors: bool, end: Callable[[], object]
    ) -> None:
        self._loop, self._pieces = asyncio.get_running_loop(), asyncio.Queue[bytes | Exception | None]()
        self._room, self._left = threading.Semaphore(_CHUNKS_AHEAD), threading.Event()
        threading.Thread(target=self._work, args=(use, vectors, end), name="memorist-export").start()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the export; raise what went wrong, so that the reader is cut off and knows that it is not whole."""
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece
            self._room.release()

    def leave(self) -> None:
        """End the export, if it has not ended."""
        self._left.set()
        self._room.release()

    def _work(
        self, use: Callable[[], AbstractContextManager[Memorist]], vectors: bool, end: Callable[[], object]
    ) -> None:
        last: Exception | None = None
        try:
            with use() as memory, suppress(_ReaderLeft), _Sender(self._send) as output:
                memory.transfer.export(cast(BinaryIO, output), vectors=vectors)
        except Exception as exc:
            last = exc
        finally:
            end()
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, last)

    def _send(self, chunk: bytes) -> None:
        if not self._room.acquire(timeout=_STALL_SECONDS):
            raise ReaderStalled
        if self._left.is_set():
            raise _ReaderLeft
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, chunk)


class ReaderStalled(Exception):
    """The reader of an export does not read."""


class _ReaderLeft(Exception):
    """The reader of an export is not there any more."""


class _Sender:
    """A file to write to, whose bytes are handed to the event loop in pieces."""

    def __init__(self, send: Callable[[bytes], Any]) -> None:
        self._send, self._buffer = send, bytearray()

    def __enter__(self) -> "_Sender":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._buffer:
            self._flush()

    def write(self, data: bytes) -> int:
        self._buffer += data
        if len(self._buffer) >= _CHUNK_BYTES:
            self._flush()
        return len(data)

    def _flush(self) -> None:
        chunk, self._buffer = bytes(self._buffer), bytearray()
        self._send(chunk)
