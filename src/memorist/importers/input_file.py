"""
Give importers a plain file to read, also for input from a pipe or compressed with gzip or Zstandard.

A small file can be packed so that it unpacks to terabytes, and a pipe may have no end: what is written to disk or
memory has a limit, and so has the ratio by which a file is packed. Text is packed ten times, seldom fifty.

What somebody sends to a server has limits on its JSON as well. Python's objects take up to a hundred times the memory
of the JSON they come from, and nothing else runs while they are made: so values are counted before a text is parsed.
"""

import gzip
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from msgspec import Struct
from msgspec.structs import replace

from memorist import validation
from memorist.errors import InvalidInput, MissingExtra
from memorist.nesting import count_values
from memorist.reports import ImportReport

_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SUFFIXES = (".gz", ".zst")
_PIPE_NAME = "standard input"
_PIECE_BYTES = 1 << 20
MAX_INPUT_BYTES = 4_000_000_000  # of a pipe, or unpacked; a plain file may be larger
MAX_DOCUMENT_BYTES = 1_000_000_000  # of a JSON document, which has to be held in memory as a whole
_MAX_RATIO = 200  # of unpacked to packed bytes,
_MIN_RATIO_BYTES = 10_000_000  # from this size on: a short text may repeat itself


_ADVICE = (
    "too much for a server to read at once: split the file, or import it on the machine of the memory, "
    "by `memorist import FILE`"
)


class _JsonLimits(Struct, frozen=True):
    """The most that is parsed at once: of one document, all documents of one zip, or one line."""

    bytes: int
    containers: int  # objects and lists
    values: int


# Messages in the form of ChatGPT's exports have 13,000 objects and lists to the megabyte if they have no text at all,
# and 8,000 with 500 characters each: an export of 100 MB fits.
_UPLOAD_LIMITS = _JsonLimits(128 << 20, 1_500_000, 5_000_000)

_limits: ContextVar[_JsonLimits | None] = ContextVar("memorist_json_limits", default=None)


@contextmanager
def limit_json() -> Iterator[None]:
    """Have what is imported within the block keep to the limits of what is sent to a server."""
    token = _limits.set(_UPLOAD_LIMITS)
    try:
        yield
    finally:
        _limits.reset(token)


class JsonBudget:
    """A count, against the limits, of the texts that are in memory together."""

    def __init__(self) -> None:
        self._limits = _limits.get()
        self._bytes = self._containers = self._values = 0

    def spend(self, text: str, name: str) -> None:
        """Count a text before it is parsed; InvalidInput if that would be too much."""
        if self._limits is None:
            return
        self._bytes += len(text)
        if self._bytes > self._limits.bytes:
            raise InvalidInput(f"{name} has more than {self._limits.bytes:,} bytes of JSON, {_ADVICE}")
        containers, values = count_values(text)
        self._containers += containers
        self._values += values
        if self._containers > self._limits.containers:
            raise InvalidInput(f"{name} has more than {self._limits.containers:,} objects and lists, {_ADVICE}")
        if self._values > self._limits.values:
            raise InvalidInput(f"{name} has more than {self._limits.values:,} values, {_ADVICE}")


def check_json(text: str, name: str) -> None:
    """Raise InvalidInput if a text has too much for the limits to be parsed."""
    limits = _limits.get()
    if limits and len(text) > min(limits.containers, limits.values):  # a shorter one cannot have so many
        JsonBudget().spend(text, name)


def load_json(data: str | bytes, name: str) -> Any:
    """Parse a text or bytes as JSON within the limits; what is no JSON raises as of `json.loads`."""
    if isinstance(data, bytes):
        data = data.decode(json.detect_encoding(data), "surrogatepass")
    check_json(data, name)
    return json.loads(data)


class _InputFile(Struct, frozen=True):
    """A plain file, and the name that the user knows it by."""

    file: Path
    name: str

    def restore_names(self, report: ImportReport) -> ImportReport:
        """Replace the path of a temporary file in a report by the name that the user knows."""
        skipped = tuple((self.restore_name(place), self.restore_name(reason)) for place, reason in report.skipped)
        return replace(report, skipped=skipped)

    def restore_name(self, text: str) -> str:
        return text.replace(str(self.file), self.name)


@contextmanager
def open_input(source: str | Path | BinaryIO) -> Iterator[_InputFile]:
    """Yield a file or folder as it is; a stream of bytes or a compressed file as a temporary file, for readers seek."""
    is_stream = not isinstance(source, str | os.PathLike) and hasattr(source, "read")
    path = Path(_PIPE_NAME) if is_stream else validation.path(source)
    if not is_stream and path.exists() and not path.is_file() and not path.is_dir():
        raise InvalidInput(f"cannot read {path}: it is a pipe or device, not a file; give a pipe as standard input")
    if not is_stream and _find_opener(path) is None:
        yield _InputFile(path, str(path))
        return
    with tempfile.TemporaryDirectory(prefix="memorist-") as folder:
        plain = _InputFile(Path(folder, _plain_name(path)), str(path))
        try:
            packed = _save(cast(BinaryIO, source), Path(folder, "piped")) if is_stream else path
            _decompress(packed, plain)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InvalidInput(f"{plain.name} is damaged: it cannot be unpacked ({exc}); take another copy") from exc
        except OSError as exc:
            raise InvalidInput(f"cannot unpack {plain.name}: {exc.strerror or exc}") from exc
        try:
            yield plain
        except InvalidInput as exc:
            raise type(exc)(plain.restore_name(str(exc))) from exc


def _find_opener(path: Path) -> Callable[[BinaryIO], AbstractContextManager[IO[bytes]]] | None:
    """Return what unpacks a file, by how it begins; None for a plain one."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            head = file.read(len(_ZSTD_MAGIC))
    except OSError:  # its reader will report it
        return None
    if head.startswith(_GZIP_MAGIC):
        return lambda raw: cast(AbstractContextManager[IO[bytes]], gzip.open(raw))
    return open_zstd if head == _ZSTD_MAGIC else None


@contextmanager
def open_zstd(packed: BinaryIO) -> Iterator[IO[bytes]]:
    """Open what is compressed with Zstandard; damage raises InvalidInput. Python has it since 3.14."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as exc:
        raise MissingExtra("Zstandard needs an extra before Python 3.14: pip install 'memorist[zstd]'") from exc
    try:
        with zstd.open(packed) as unpacked:
            yield cast(IO[bytes], unpacked)
    except zstd.ZstdError as exc:
        raise InvalidInput(f"what is compressed with Zstandard is damaged ({exc})") from exc


def _plain_name(path: Path) -> str:
    return path.stem if path.suffix.lower() in _SUFFIXES and path.stem else path.name


def _save(stream: BinaryIO, file: Path) -> Path:
    size = 0
    with file.open("wb") as saved:
        while part := stream.read(_PIECE_BYTES):
            if not isinstance(part, bytes):
                raise InvalidInput("the file to import must be open for bytes, not for text")
            size += len(part)
            if size > MAX_INPUT_BYTES:
                raise InvalidInput(f"{_PIPE_NAME} has more than {MAX_INPUT_BYTES / 1e9:g} GB; save it as a file first")
            saved.write(part)
    return file


def _read_unpacked(source: IO[bytes], packed_bytes: int, name: str) -> Iterator[bytes]:
    """Yield what a compressed file unpacks to, a piece at a time; InvalidInput where it grows beyond all measure."""
    size = 0
    while piece := source.read(_PIECE_BYTES):
        size += len(piece)
        if size > MAX_INPUT_BYTES:
            raise InvalidInput(f"{name} unpacks to more than {MAX_INPUT_BYTES / 1e9:g} GB; unpack it yourself")
        if size > max(_MIN_RATIO_BYTES, _MAX_RATIO * packed_bytes):
            raise InvalidInput(
                f"{name} unpacks to more than {_MAX_RATIO} times its size, as no text does; unpack it yourself if you "
                "trust it"
            )
        yield piece


def read_document(source: IO[bytes], packed_bytes: int, name: str) -> bytes:
    """Return what a compressed JSON document unpacks to; InvalidInput if that is too much for the memory."""
    data = bytearray()
    for piece in _read_unpacked(source, packed_bytes, name):
        data += piece
        if len(data) > max_document_bytes():
            raise InvalidInput(describe_too_large(name))
    return bytes(data)


def max_document_bytes() -> int:
    """Return how large a JSON document may be, which a server may limit further."""
    limits = _limits.get()
    return MAX_DOCUMENT_BYTES if limits is None else min(MAX_DOCUMENT_BYTES, limits.bytes)


def describe_too_large(name: str) -> str:
    most = max_document_bytes()
    if most < MAX_DOCUMENT_BYTES:
        return f"{name} has more than {most:,} bytes of JSON, {_ADVICE}"
    return f"{name} has more than {most / 1e9:g} GB, too much for one JSON document"


def _decompress(packed: Path, plain: _InputFile) -> None:
    """Write a compressed or plain file as a plain one with the same time, which undated records take for theirs."""
    open_packed = _find_opener(packed)
    if open_packed is None:
        packed.replace(plain.file)
        return
    with packed.open("rb") as raw, open_packed(raw) as source, plain.file.open("wb") as target:
        target.writelines(_read_unpacked(source, packed.stat().st_size, plain.name))
    modified = packed.stat().st_mtime
    os.utime(plain.file, (modified, modified))
