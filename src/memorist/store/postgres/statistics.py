"""The numbers of memories with each word, phrase and beginning of a word: of a namespace, or of one project of it."""

import json
import threading
import time
from collections.abc import Mapping, Sequence

from memorist.forks import renew_after_fork
from memorist.store.database import Connection
from memorist.store.postgres.text_index import Phrase, as_array
from memorist.store.word_matching import QueryToken

IN_WALL = "m.namespace = :namespace and m.project = :project and m.deleted_at is null"
_MAX_COUNTS = 20_000  # remembered
_COUNTS_SECONDS, _COUNTS_DRIFT = 60.0, 0.02  # the age, and the change in rows, at which counts are read again
_LENGTH_SAMPLE = 1000  # of the newest memories of a project

# The vocabulary counts single tokens; it is read every time.
_READ_COUNTS = """
    select cast(null as text), memories, tokens, changes from text_statistics where namespace = :namespace
    union all
    select term, count, 1, 0 from vocabulary
    where namespace = :namespace and stemmed and term = any(cast(:stems as text[]))
    union all
    select term, count, 0, 0 from vocabulary
    where namespace = :namespace and not stemmed and term = any(cast(:words as text[]))
"""

# What it does not count is found and counted, which may take a while, and remembered.
_COUNT_PHRASES = """
    select (
        select count(*)
        from find_texts(:namespace, q.stemmed, cast(q.query as tsquery), cast(q.loose as tsquery)) f {wall})
    from json_to_recordset(cast(:phrases as json)) as q(place bigint, stemmed boolean, query text, loose text)
    order by q.place
"""
_WALL = f"join memories m on m.rid = f.rid and {IN_WALL}"

_MEASURE_PROJECT = f"""
    select
        (select count(*) from memories m where {IN_WALL}),
        (select avg(cast(t.length as double precision)) from memory_texts t
         where t.tenant = current_setting('memorist.tenant', true) and t.rid in (
            select m.rid from memories m where {IN_WALL} order by m.rid desc limit {_LENGTH_SAMPLE}))
"""

Key = tuple[Phrase, bool]  # whether it is one of stems


class TokenStatistics:
    """The statistics of one namespace that scores depend on."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._phrases: dict[str | None, _KnownCounts] = {}  # by project
        self._lock = threading.RLock()  # Ctrl-C at the end of a `with` may leave it held: not against its own thread
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def count(
        self, connection: Connection, atoms: Mapping[QueryToken, bool], project: str | None
    ) -> tuple[int, float, dict[QueryToken, int]]:
        """
        Return the number of all memories, their mean length in tokens, and how many have each atom.

        `atoms` are told to be stemmed or not. Those of a project are counted there alone.
        """
        keys = {atom: (Phrase.from_atom(atom, stemmed=stemmed), stemmed) for atom, stemmed in atoms.items()}
        memories, tokens, changes, words = self._read(connection, list(keys.values()))
        remembered = self._recall(project, memories, changes)
        if project is None:
            rows, mean = memories, tokens / (memories or 1)
        else:
            if remembered.size is None:
                rows, mean = connection.fetch_value(
                    _MEASURE_PROJECT, {"namespace": self._namespace, "project": project}
                )
                remembered.size = rows, mean or 1.0
            rows, mean = remembered.size
        known = {key: self._bound(key, words) for key in keys.values()}
        if project is None:
            known |= {key: words.get((key[0].tokens[0], key[1]), 0) for key in known if key[0].is_word}
        missing = [key for key, count in known.items() if count is None and key not in remembered.counts]
        if missing:
            remembered.counts |= self._count_phrases(connection, missing, project)
        counts = {}
        for atom, key in keys.items():
            count = known[key]
            counts[atom] = remembered.counts[key] if count is None else count
        return rows, mean, counts

    def _read(self, connection: Connection, keys: Sequence[Key]) -> tuple[int, int, int, dict[tuple[str, bool], int]]:
        tokens = {
            stemmed: as_array({token for phrase, each in keys if each == stemmed for token in _list_whole(phrase)})
            for stemmed in (True, False)
        }
        values = {"namespace": self._namespace, "stems": tokens[True], "words": tokens[False]}
        total, words = (0, 0, 0), {}
        for term, count, flag, changes in connection.fetch(_READ_COUNTS, values):
            if term is None:
                total = count, flag, changes
            else:
                words[term, bool(flag)] = count
        return *total, words

    def _bound(self, key: Key, words: Mapping[tuple[str, bool], int]) -> int | None:
        """Return 0 for what cannot be in any memory, as one of its words is in none; None for the rest."""
        phrase, stemmed = key
        tokens = _list_whole(phrase)
        return 0 if not phrase.tokens or any(not words.get((token, stemmed)) for token in tokens) else None

    def _count_phrases(self, connection: Connection, keys: Sequence[Key], project: str | None) -> dict[Key, int]:
        asked = []
        for place, (phrase, stemmed) in enumerate(keys):
            query, loose = phrase.write(), phrase.write(loose=True)
            asked.append(
                {"place": place, "stemmed": stemmed, "query": query, "loose": loose if loose != query else None}
            )
        sql = _COUNT_PHRASES.format(wall="" if project is None else _WALL)
        values = {"namespace": self._namespace, "phrases": json.dumps(asked)}
        values |= {} if project is None else {"project": project}
        return {key: count for key, (count,) in zip(keys, connection.fetch(sql, values), strict=True)}

    def _recall(self, project: str | None, rows: int, changes: int) -> "_KnownCounts":
        """Return what is remembered of a project, or of all, unless too much has changed since."""
        with self._lock:
            memory = self._phrases.get(project)
            if memory is None or memory.is_outdated(rows, changes):
                if sum(len(each.counts) + 1 for each in self._phrases.values()) > _MAX_COUNTS:
                    self._phrases.clear()
                memory = self._phrases[project] = _KnownCounts(changes)
            return memory


class _KnownCounts:
    """Counts, remembered for a while."""

    def __init__(self, changes: int) -> None:
        self.counts: dict[Key, int] = {}
        self.size: tuple[int, float] | None = None  # the number of memories and their mean length
        self._changes = changes
        self._expires = time.monotonic() + _COUNTS_SECONDS

    def is_outdated(self, rows: int, changes: int) -> bool:
        rows = rows if self.size is None else self.size[0]
        return time.monotonic() > self._expires or abs(changes - self._changes) > _COUNTS_DRIFT * rows


def _list_whole(phrase: Phrase) -> Sequence[str]:
    """Return the tokens of a phrase that are whole words."""
    return phrase.tokens[:-1] if phrase.prefix else phrase.tokens
