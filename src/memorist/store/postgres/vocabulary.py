"""The vocabulary of a namespace on PostgreSQL, for suggesting corrections of a query."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from memorist.forks import renew_after_fork
from memorist.records import Term
from memorist.store.database import Connection
from memorist.store.postgres.text_index import Phrase, as_array
from memorist.store.sqlite.vocabulary import (
    MAX_NEW_MEMORIES,
    MAX_WORD_CHARACTERS,
    QUICK_READ_SECONDS,
    REREAD_FACTOR,
)
from memorist.store.word_matching import Atom
from memorist.text.spelling import Lexicon, max_typos
from memorist.text.tokenizer import find_unspaced_runs, fold, stem_words

_MAX_COUNTED = 1000  # memories with a word; enough to tell the common from the rare
_MAX_SPELT, _MAX_SPELLINGS = 5, 10  # words whose spelling is looked up, and memories it is looked up in
_LAST_CHARACTER = "\U0010ffff"  # no word goes on with it

_EXPAND = """
    select p.value, v.term
    from json_array_elements_text(cast(:prefixes as json)) p
    cross join lateral (
        select term from vocabulary
        where namespace = :namespace and stemmed = (:stemmed = 1)
          and term >= p.value collate "C" and term < (p.value || :last) collate "C"
        limit :most) v
"""

_READ_LIST = """
    select string_agg(term, ' ') from vocabulary
    where namespace = :namespace and not stemmed and length(term) between 2 and :longest and term ~ '[^0-9]'
"""

_STATE = """
    select
        (select changes from text_statistics where namespace = :namespace),
        (select coalesce(max(rid), 0) from memory_texts
         where tenant = current_setting('memorist.tenant', true) and namespace = :namespace)
"""

_NEW_WORDS = """
    select distinct unnest(tsvector_to_array(words)) from memory_texts
    where tenant = current_setting('memorist.tenant', true) and namespace = :namespace and rid > :newest
"""

_COUNT_MEMORIES = f"""
    select term, least(count, {_MAX_COUNTED}) from vocabulary
    where namespace = :namespace and not stemmed and term = any(cast(:words as text[]))
"""

# The latest memories with a word, their texts in the order in which a spelling is looked for.
_SPELLINGS = f"""
    select concat_ws(' ', m.title, m.content, m.tags, m.source, m.facts)
    from (
        select rid from find_texts(:namespace, false, cast(:query as tsquery), null)
        order by rid desc limit {_MAX_SPELLINGS}) f
    join memories m on m.rid = f.rid
"""

_HAS_TEXT = """
    select exists (select 1 from find_texts(:namespace, :stemmed = 1, cast(:query as tsquery), cast(:loose as tsquery)))
"""


class PostgresVocabulary:
    """
    The words of the live memories of a namespace, and those similar to a misspelt one.

    The list of words is kept in memory, and read again as on SQLite: at once if that is quick, otherwise after a while;
    the words of new memories are known at once.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._list = self._added = Lexicon()
        self._added_words: set[str] = set()
        self._changes: int | None = None  # of the texts when the list was read
        self._newest = 0  # the newest memory whose words are in the list, or were added to it
        self._read_seconds = self._reread_at = 0.0

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def expand(
        self, connection: Connection, prefixes: Iterable[str], most: int, *, stemmed: bool
    ) -> dict[str, list[str]]:
        """Return the tokens that begin with each prefix, one more than `most` if there are more."""
        found: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
        values = {
            "namespace": self._namespace,
            "stemmed": int(stemmed),
            "prefixes": json.dumps(list(found)),
            "last": _LAST_CHARACTER,
            "most": most + 1,
        }
        for prefix, term in connection.fetch(_EXPAND, values):
            found[prefix].append(term)
        return found

    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        """Return the terms that live memories contain: prefixes as they are, everything else by its stems."""
        phrases = {term: Phrase.from_atom(Atom(term.text, term.prefix), stemmed=not term.prefix) for term in terms}
        words = {term: phrase.tokens[0] for term, phrase in phrases.items() if phrase.is_word}
        values = {"namespace": self._namespace, "words": as_array(set(words.values()))}
        listed = {term for (term,) in connection.fetch(_KNOWN_STEMS, values)} if words else set()
        known = {term for term, word in words.items() if word in listed}
        return known | {term for term in phrases.keys() - words.keys() if self._has_phrase(connection, phrases[term])}

    def _has_phrase(self, connection: Connection, phrase: Phrase) -> bool:
        if len(phrase.tokens) == 1:
            return any(self.expand(connection, phrase.tokens, 0, stemmed=False).values())
        query, loose = phrase.write(), phrase.write(loose=True)
        values = {"namespace": self._namespace, "stemmed": int(not phrase.prefix), "query": query, "loose": loose}
        return query is not None and bool(connection.fetch_value(_HAS_TEXT, values))

    def find_similar(self, connection: Connection, word: str) -> list[str]:
        """Return the words with the fewest differences from a word, those of more memories first, spelt as stored."""
        plain = fold(word)
        if not 2 <= len(plain) <= MAX_WORD_CHARACTERS or find_unspaced_runs(plain):
            return []
        near = self._find_near(connection, plain, max_typos(plain))
        distances = {other: distance for other, distance in near.items() if not find_unspaced_runs(other)}
        if not distances:
            return []
        counts = self._count_memories(connection, list(distances))
        least = min((distances[other] for other in counts), default=0)
        nearest = (other for other in counts if distances[other] == least)
        best = sorted(nearest, key=lambda other: (-counts[other], other))
        spelt = [self._spell_as_stored(connection, other) for other in best[:_MAX_SPELT]]
        return spelt + best[_MAX_SPELT:]

    def _count_memories(self, connection: Connection, words: Sequence[str]) -> Mapping[str, int]:
        values = {"namespace": self._namespace, "words": as_array(words)}
        return dict(connection.fetch(_COUNT_MEMORIES, values))

    def _spell_as_stored(self, connection: Connection, word: str) -> str:
        """Return a word with the capitals and accents that the latest memories give it; in doubt, small letters."""
        query = Phrase((word,), prefix=False).write()
        spellings: Counter[str] = Counter()
        for (text,) in connection.fetch(_SPELLINGS, {"namespace": self._namespace, "query": query}):
            spelt = (text[found.start : found.end] for found in stem_words(text))
            spellings.update([each for each in spelt if fold(each) == word][:1])
        return max(spellings, key=lambda spelling: (spellings[spelling], spelling), default=word)

    def _find_near(self, connection: Connection, word: str, distance: int) -> dict[str, int]:
        with self._lock:
            self._refresh(connection)
            listed, added = self._list, self._added
        return listed.find_near(word, distance) | added.find_near(word, distance)

    def _refresh(self, connection: Connection) -> None:
        """Take in what any process has written since the list was read."""
        changes, newest = connection.fetch_value(_STATE, {"namespace": self._namespace})
        if changes == self._changes:
            return
        is_due = self._read_seconds < QUICK_READ_SECONDS or time.monotonic() > self._reread_at
        if is_due or newest - self._newest > MAX_NEW_MEMORIES:
            self._read_list(connection)
            self._changes = changes
        elif newest > self._newest:
            words = connection.fetch(_NEW_WORDS, {"namespace": self._namespace, "newest": self._newest})
            self._added_words.update(word for (word,) in words if 2 <= len(word) <= MAX_WORD_CHARACTERS)
            self._added = Lexicon(list(self._added_words))
        self._newest = newest

    def _read_list(self, connection: Connection) -> None:
        started = time.monotonic()
        words: str | None = connection.fetch_value(
            _READ_LIST, {"namespace": self._namespace, "longest": MAX_WORD_CHARACTERS}
        )
        self._list, self._added, self._added_words = Lexicon(words.split(" ") if words else []), Lexicon(), set()
        self._read_seconds = time.monotonic() - started
        self._reread_at = time.monotonic() + REREAD_FACTOR * self._read_seconds


_KNOWN_STEMS = """
    select term from vocabulary where namespace = :namespace and stemmed and term = any(cast(:words as text[]))
"""
