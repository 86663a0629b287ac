"""Candidates for tests of ranking, from the few numbers that a test is about."""

from typing import Any

from memorist.records import Match, Row
from memorist.search.fusion import Candidate

_LEG_FIELDS = ("vector_rank", "confidence", "feedback_gain")
_ROW: dict[str, Any] = dict(
    similarity=None, vector=None, created_at=0.0, updated_at=0.0, recorded_at=0.0, accessed_at=None, reinforced_at=0.0,
    salience=0.5, sector="semantic", kind=None, source=None, tags=(), superseded=False, session=None, position=None,
    role=None, length=0,
)  # fmt: skip


def make_candidate(
    key: int,
    bm25: float | None = None,
    keyword_rank: int | None = None,
    *,
    has_all_words: bool = False,
    coverage: float = 1.0,
    **fields: Any,
) -> Candidate:
    """Return a candidate; a field that is not given is that of a plain memory which no leg found."""
    of_legs = {name: fields.pop(name) for name in _LEG_FIELDS if name in fields}
    match = None if bm25 is None else Match(key, bm25, has_all_words, coverage)
    return Candidate(Row(key, **_ROW | fields), match, keyword_rank, **of_legs)
