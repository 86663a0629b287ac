"""What comes through a pipe, or is packed with gzip, as a plain file while it is read: readers go back and forth."""

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

from memorist import inputs
from memorist.documents import ImportReport
from memorist.errors import InvalidInput

_GZIP = b"\x1f\x8b"
PIPED = "standard input"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A plain file, and what it is called by whoever handed it in."""

    file: Path
    name: str

    def named(self, report: ImportReport) -> ImportReport:
        return replace(report, skipped=tuple((self._told(place), self._told(why)) for place, why in report.skipped))

    def _told(self, text: str) -> str:
        return text.replace(str(self.file), self.name)


@contextmanager
def unpacked(given: str | Path | BinaryIO) -> Iterator[Unpacked]:
    """A file or folder as it is; a stream of bytes, or a file that is packed, as a file that is gone afterwards."""
    piped = not isinstance(given, str | os.PathLike) and hasattr(given, "read")
    place = Path(PIPED) if piped else inputs.path(given)
    if not piped and not _is_packed(place):
        yield Unpacked(place, str(place))
        return
    with tempfile.TemporaryDirectory(prefix="memorist-") as folder:
        found = Unpacked(Path(folder, _plain_name(place)), str(place))
        try:
            packed = _saved(cast(BinaryIO, given), Path(folder, "piped")) if piped else place
            _unpack(packed, found.file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InvalidInput(f"{found.name} is damaged: it cannot be unpacked ({exc}); take another copy") from exc
        except OSError as exc:
            raise InvalidInput(f"cannot unpack {found.name}: {exc.strerror or exc}") from exc
        try:
            yield found
        except InvalidInput as exc:
            raise type(exc)(found._told(str(exc))) from exc


def _is_packed(place: Path) -> bool:
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(_GZIP)) == _GZIP
    except OSError:  # whoever reads it will say so
        return False


def _plain_name(place: Path) -> str:
    return place.name[:-3] if place.suffix.lower() == ".gz" and len(place.name) > 3 else place.name


def _saved(stream: BinaryIO, file: Path) -> Path:
    with file.open("wb") as saved:
        while part := stream.read(1 << 20):
            if not isinstance(part, bytes):
                raise InvalidInput("what is imported must be open for bytes, not for text")
            saved.write(part)
    return file


def _unpack(packed: Path, plain: Path) -> None:
    """What is packed, or plain already, as a plain file of the same time: some of what it holds may have no other."""
    with gzip.open(packed) if _is_packed(packed) else packed.open("rb") as source, plain.open("wb") as target:
        shutil.copyfileobj(source, target)
    when = packed.stat().st_mtime
    os.utime(plain, (when, when))
