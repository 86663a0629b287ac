"""Scores of (question, passage) pairs, kept: what the reranker has read in one run need not be read in the next."""

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from memorist.embed.reranker import CrossEncoder


class CachedReranker:
    """
    Reads as a reranker does, but no pair that it has kept the score of. For one thread.

    Where time is watched all is read: what there is time for must not depend on what was read before. And a question
    that asks again, with no other in between, is read again: so a first run takes the time that it takes without this.
    """

    def __init__(self, reranker: CrossEncoder, file: Path) -> None:
        self._reranker, self._file = reranker, file
        self._question, self._just_read = "", dict[str, float | None]()
        self.used = 0  # scores that were not read but kept

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        """As `Reranker.score_passages`."""
        if seconds != math.inf:
            return self._reranker.score_passages(question, passages, seconds)
        if question != self._question:
            self._kept.update(self._just_read)
            self._question, self._just_read = question, {}
        keys = [self._key(question, passage) for passage in passages]
        new = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in self._kept}
        self.used += sum(key in self._kept for key in keys)
        if new:
            read = self._reranker.score_passages(question, list(new.values()), seconds)
            self._just_read.update(zip(new, read, strict=True))
            _append(self._file, dict(zip(new, read, strict=True)))
        return [self._just_read[key] if key in new else self._kept[key] for key in keys]

    @cached_property
    def _kept(self) -> dict[str, float | None]:
        return _read(self._file)

    def _key(self, question: str, passage: str) -> str:
        whole = json.dumps([self._reranker.model_id, question, passage])
        return hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()


# A line for what was read together, behind its checksum. It begins with the line's end: one that a crash cut off takes
# none after it along.


def _append(file: Path, scores: Mapping[str, float | None]) -> None:
    text = json.dumps(scores).encode()
    with file.open("ab") as lines:
        lines.write(b"\n%08x %b" % (zlib.crc32(text), text))


def _read(file: Path) -> dict[str, float | None]:
    """All that is whole; the rest will be read again."""
    kept: dict[str, float | None] = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        checksum, _, text = line.partition(b" ")
        if checksum == b"%08x" % zlib.crc32(text):
            kept.update(json.loads(text))
    return kept
