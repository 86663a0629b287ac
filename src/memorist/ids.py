"""Ids: sortable by time, and named by their last characters."""

import os
import re
import time


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562): sortable by time to a quarter of a microsecond, the rest random."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def shorten_id(id: str) -> str:
    """Return the last 8 characters of a UUID, by which it can be named; an id of any other form stays whole."""
    return id[-8:] if _UUID.fullmatch(id) else id
