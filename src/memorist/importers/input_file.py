"""Give importers a plain file to read, also for input from a pipe or compressed with gzip."""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from memorist import validation
from memorist.documents import ImportReport
from memorist.errors import InvalidInput

_GZIP_MAGIC = b"\x1f\x8b"
_PIPE_NAME = "standard input"


@dataclass(frozen=True, slots=True)
class InputFile:
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
def open_input(source: str | Path | BinaryIO) -> Iterator[InputFile]:
    """Yield a file or folder as it is; a stream of bytes or a compressed file as a temporary file, for readers seek."""
    is_stream = not isinstance(source, str | os.PathLike) and hasattr(source, "read")
    path = Path(_PIPE_NAME) if is_stream else validation.path(source)
    if not is_stream and not _is_compressed(path):
        yield InputFile(path, str(path))
        return
    with tempfile.TemporaryDirectory(prefix="memorist-") as folder:
        plain = InputFile(Path(folder, _plain_name(path)), str(path))
        try:
            packed = _save(cast(BinaryIO, source), Path(folder, "piped")) if is_stream else path
            _decompress(packed, plain.file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InvalidInput(f"{plain.name} is damaged: it cannot be unpacked ({exc}); take another copy") from exc
        except OSError as exc:
            raise InvalidInput(f"cannot unpack {plain.name}: {exc.strerror or exc}") from exc
        try:
            yield plain
        except InvalidInput as exc:
            raise type(exc)(plain.restore_name(str(exc))) from exc


def _is_compressed(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    except OSError:  # its reader will report it
        return False


def _plain_name(path: Path) -> str:
    return path.name[:-3] if path.suffix.lower() == ".gz" and len(path.name) > 3 else path.name


def _save(stream: BinaryIO, file: Path) -> Path:
    with file.open("wb") as saved:
        while part := stream.read(1 << 20):
            if not isinstance(part, bytes):
                raise InvalidInput("the file to import must be open for bytes, not for text")
            saved.write(part)
    return file


def _decompress(packed: Path, plain: Path) -> None:
    """Write a compressed or plain file as a plain one with the same time, which undated records take for theirs."""
    with gzip.open(packed) if _is_compressed(packed) else packed.open("rb") as source, plain.open("wb") as target:
        shutil.copyfileobj(source, target)
    modified = packed.stat().st_mtime
    os.utime(plain, (modified, modified))
