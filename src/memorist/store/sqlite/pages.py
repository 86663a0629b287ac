"""The pages of a damaged SQLite file, read without its help: rows of memories that no page leads to any more."""

from collections.abc import Iterator, Sequence
from struct import unpack_from
from typing import Any

_USUAL_PAGE = 4096  # bytes; where the header does not say
_TABLE_LEAF = 0x0D
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)  # by serial type; see https://www.sqlite.org/fileformat2.html
Stored = bytes | float | int | str | None


class Pages:
    """The bytes of a database, page by page."""

    def __init__(self, data: bytes) -> None:
        sound = data.startswith(b"SQLite format 3\0")
        size = unpack_from(">H", data, 16)[0] if sound else _USUAL_PAGE
        self._data = data
        self._size = 65536 if size == 1 else size
        self._usable = self._size - (data[20] if sound else 0)
        self._free = set(self._list_free()) if sound else set()

    def find_rows(self, columns: int, least: int) -> Iterator[tuple[int, list[Stored]]]:
        """Yield the key and the columns of each row of a table with so many, or `least`, if it was made before."""
        for number in range(2, len(self._data) // self._size + 1):
            if number in self._free or self._page(number)[0] != _TABLE_LEAF:
                continue
            for start in self._list_cells(number):
                try:
                    key, values = self._read_cell(number, start)
                except (ValueError, IndexError, OverflowError):
                    continue
                if least <= len(values) <= columns:
                    yield key, [*values, *[None] * (columns - len(values))]

    def _page(self, number: int) -> bytes:
        page = self._data[(number - 1) * self._size : number * self._size]
        if number < 1 or len(page) != self._size:
            raise ValueError(f"there is no page {number}")
        return page

    def _list_free(self) -> Iterator[int]:
        """Yield the pages that are free: what they hold was deleted."""
        seen: set[int] = set()
        (trunk,) = unpack_from(">I", self._data, 32)
        while trunk and trunk not in seen:
            seen.add(trunk)
            try:
                page = self._page(trunk)
            except ValueError:
                return
            following, count = unpack_from(">II", page)
            yield trunk
            yield from unpack_from(f">{min(count, self._usable // 4 - 2)}I", page, 8)
            trunk = following

    def _list_cells(self, number: int) -> Sequence[int]:
        page = self._page(number)
        (count,) = unpack_from(">H", page, 3)
        return unpack_from(f">{min(count, (self._size - 8) // 2)}H", page, 8)

    def _read_cell(self, number: int, start: int) -> tuple[int, list[Stored]]:
        page = self._page(number)
        length, start = _read_varint(page, start)
        key, start = _read_varint(page, start)
        if length > len(self._data):
            raise ValueError("a row longer than the file")
        return key, _read_record(self._read_payload(page, start, length))

    def _read_payload(self, page: bytes, start: int, length: int) -> bytes:
        """Return the bytes of a row; those that do not fit on its page are in a chain of others."""
        if length <= self._usable - 35:
            return page[start : start + length]
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (self._usable - 4)
        local = local if local <= self._usable - 35 else least
        payload = bytearray(page[start : start + local])
        (following,) = unpack_from(">I", page[start + local : start + local + 4].ljust(4, b"\0"))
        while len(payload) < length:
            page = self._page(following)
            (following,) = unpack_from(">I", page)
            payload += page[4 : self._usable]
        return bytes(payload[:length])


def _read_record(payload: bytes) -> list[Stored]:
    end, start = _read_varint(payload, 0)
    place, values = end, []
    while start < end:
        kind, start = _read_varint(payload, start)
        value, place = _read_value(payload, kind, place)
        if place > len(payload):
            raise ValueError("a value longer than its row")
        values.append(value)
    if start != end or place != len(payload):
        raise ValueError("not a row")
    return values


def _read_value(payload: bytes, kind: int, start: int) -> tuple[Any, int]:
    """Return the value of a serial type, and where it ends."""
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], start
    if kind == 7:
        return unpack_from(">d", payload.ljust(start + 8, b"\0"), start)[0], start + 8
    if kind < 7:
        end = start + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[start:end], "big", signed=True), end
    if kind < 12:
        raise ValueError("a serial type that is not in use")
    end = start + (kind - 12) // 2
    stored = payload[start:end]
    return (stored.decode(errors="replace") if kind % 2 else stored), end


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for place in range(start, start + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[start + 8], start + 9
