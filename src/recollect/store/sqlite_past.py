"""
Memories that said something else at the time that is asked about.

The indexes and the vector scan know the present. What has changed since is read as it was then and compared one by one;
all the rest is left to the indexes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from recollect.records import Filter, Match
from recollect.store import words
from recollect.store.coverage import Asked, coverage
from recollect.store.sqlite_filter import conditions
from recollect.store.sqlite_pool import fetch
from recollect.store.sqlite_rows import THEN

K1 = 1.2  # of BM25, as FTS5 has it

_CHANGED = f"""(
    select rid from memory_history where replaced_at > :as_of
    union
    select rid from facts where created_at > :as_of) c
    cross join {THEN} on m.rid = c.rid
"""
VECTOR = "(select v.vector from vectors v where v.rid = m.rid and v.model = {model})"
# The vector of what it said then: that of the version that was replaced next, or its own where the text is the same.
VECTOR_THEN = f"""
    case when m.reworded then (
        select o.vector from old_vectors o
        where o.rid = m.rid and o.version >= m.version and o.model = {{model}} order by o.version limit 1)
    else {VECTOR} end
"""
_FACTS = "(select group_concat(f.text, char(10)) from facts f where f.rid = m.rid and f.created_at <= :as_of)"


@dataclass(frozen=True, slots=True)
class Counted:
    """A word or phrase that is looked for, and its inverse document frequency."""

    asked: Asked
    idf: float

    def times(self, stems: Sequence[str]) -> int:
        """How often it stands in a text."""
        wanted, beginning = self.asked.stems, self.asked.beginning
        length = len(wanted) + (beginning is not None)
        if not length:
            return 0
        return sum(
            tuple(stems[at : at + len(wanted)]) == wanted
            and (beginning is None or stems[at + len(wanted)].startswith(beginning))
            for at in range(len(stems) - length + 1)
        )


def matches(
    connection: apsw.Connection,
    namespace: str,
    filter: Filter,
    counted: Sequence[Counted],
    weights: Mapping[str, float],
    *,
    all_needed: bool,
) -> list[Match]:
    """What held the words then, scored by BM25 without regard to length, which the index alone knows the mean of."""
    where, values = conditions(filter, then=True)
    rows = fetch(
        connection,
        f"""
        select m.rid, m.title, m.content, m.tags, m.source, {_FACTS}
        from {_CHANGED}
        where m.namespace = :namespace and m.deleted_at is null {where}
        """,
        values | {"namespace": namespace},
    )
    asked = [each.asked for each in counted]
    found = []
    for rid, title, content, tags, source, facts in rows:
        texts = {"title": title, "content": content, "tags": tags, "source": source, "facts": facts}
        texts["segments"] = words.segments(title, content, tags, facts)
        stems = {name: words.stems(text) for name, text in texts.items() if text}
        score, held = 0.0, 0
        for each in counted:
            times = {name: each.times(found_stems) for name, found_stems in stems.items()}
            held += any(times.values())
            weighed = sum(weights.get(name, 0.0) * count for name, count in times.items())
            score += each.idf * weighed * (K1 + 1) / (weighed + K1)
        if held == len(counted) or (held and not all_needed):
            text = " ".join(text for text in texts.values() if text)
            found.append(Match(rid, max(score, 1e-9), held == len(counted), coverage(asked, text)))
    return found


def vectors(connection: apsw.Connection, namespace: str, filter: Filter, model: str) -> list[tuple[int, bytes]]:
    """The vectors that changed memories had then, of those that had one."""
    where, values = conditions(filter, then=True)
    rows = fetch(
        connection,
        f"""
        select m.rid, {VECTOR_THEN.format(model="(select model from models where name = :model)")}
        from {_CHANGED}
        where m.namespace = :namespace and m.deleted_at is null {where}
        """,
        values | {"namespace": namespace, "model": model},
    )
    return [(rid, vector) for rid, vector in rows if vector is not None]
