"""A cache of reranker scores on disk, so that a run does not repeat the reading of an earlier one."""

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from memorist.embed.local import CrossEncoder


class CachedReranker:
    """
    A reranker that reads no (question, passage) pair whose score is in its file. Not thread-safe.

    A call with a time limit bypasses the cache: how much is read in that time must not depend on earlier runs. A
    question that is asked twice in a row is read twice, so that a first run takes as long as it would without a cache.
    """

    def __init__(self, reranker: CrossEncoder, file: Path) -> None:
        self._reranker, self._file = reranker, file
        self._question, self._new_scores = "", dict[str, float | None]()
        self.cache_hits = 0  # scores that came from the cache

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        """Score passages as `CrossEncoder.score_passages` does."""
        if seconds != math.inf:
            return self._reranker.score_passages(question, passages, seconds)
        if question != self._question:
            self._cache.update(self._new_scores)
            self._question, self._new_scores = question, {}
        keys = [self._key(question, passage) for passage in passages]
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in self._cache}
        self.cache_hits += sum(key in self._cache for key in keys)
        if missing:
            scores = self._reranker.score_passages(question, list(missing.values()), seconds)
            read = dict(zip(missing, scores, strict=True))
            self._new_scores.update(read)
            _append_scores(self._file, read)
        return [self._new_scores[key] if key in missing else self._cache[key] for key in keys]

    @cached_property
    def _cache(self) -> dict[str, float | None]:
        return _read_scores(self._file)

    def _key(self, question: str, passage: str) -> str:
        pair = json.dumps([self._reranker.model_id, question, passage])
        return hashlib.blake2b(pair.encode(), digest_size=16).hexdigest()


# Each line holds the scores of one call behind their checksum. A record starts with the newline: so a line that a crash
# cut short does not spoil the next one.


def _append_scores(file: Path, scores: Mapping[str, float | None]) -> None:
    text = json.dumps(scores).encode()
    with file.open("ab") as lines:
        lines.write(b"\n%08x %b" % (zlib.crc32(text), text))


def _read_scores(file: Path) -> dict[str, float | None]:
    """Return the scores of all intact lines."""
    scores: dict[str, float | None] = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        checksum, _, text = line.partition(b" ")
        if checksum == b"%08x" % zlib.crc32(text):
            scores.update(json.loads(text))
    return scores
