"""
The vocabulary of a namespace, for suggesting corrections of a query.

The index holds all namespaces together, and so does the list of its words. The list only says where to look: a word
counts once a live memory of the namespace was found that contains it.
"""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence

from memorist.forks import renew_after_fork
from memorist.records import Term
from memorist.store.database import Connection
from memorist.store.keyword_search import STEMS, WORDS
from memorist.store.word_matching import Atom
from memorist.text.spelling import Lexicon, max_typos
from memorist.text.tokenizer import find_unspaced_runs, fold, list_tokens

MAX_WORD_CHARACTERS = 40  # nobody types a longer word
QUICK_READ_SECONDS = 0.01  # a list that takes less to read is read whenever the index has changed
REREAD_FACTOR = 100  # a longer one is read again only after this many times as long as reading it took
_MAX_COUNTED = 1000  # memories with a word; enough to tell the common from the rare
MAX_NEW_MEMORIES = 1000  # whose words are added to the list one by one
_MAX_SPELT, _MAX_SPELLINGS = 5, 10  # words whose spelling is looked up, and memories it is looked up in

_CREATE_LIST = f"create virtual table if not exists temp.vocabulary using fts5vocab(main, {WORDS}, row)"

# Slow: SQLite counts the memories of every word on the way.
_READ_LIST = """
    select group_concat(term, ' ')
    from temp.vocabulary
    where length(term) between 2 and :longest and term glob '*[^0-9]*'
"""

# The index's record of its segments (FTS5 keeps it at id 10), which every write changes, and the newest memory.
_INDEX_STATE = f"""
    select (select block from {WORDS}_data where id = 10), (select coalesce(max(rid), 0) from memories)
"""

_NEW_TEXTS = """
    select concat_ws(' ', title, content, tags, source, facts)
    from memories
    where rid > :newest and +namespace = :namespace and deleted_at is null
"""

_IS_KNOWN = """
    exists (
        select 1
        from {index} cross join memories m on m.rid = {index}.rowid
        where {index} match :{term} and m.namespace = :namespace)
"""

# The number of memories in the namespace with each word, up to a limit.
_COUNT_MEMORIES = f"""
    select c.value, (
        select count(*) from (
            select 1
            from {WORDS} cross join memories m on m.rid = {WORDS}.rowid
            where {WORDS} match '"' || c.value || '"' and m.namespace = :namespace
            limit {_MAX_COUNTED}))
    from json_each(:words) c
"""

# Passages around each word in the latest memories of the namespace, with the word between two control characters.
_SPELLINGS = f"""
    select c.value, (
        select json_group_array(passage) from (
            select snippet({WORDS}, -1, char(2), char(3), '', 1) as passage
            from {WORDS} cross join memories m on m.rid = {WORDS}.rowid
            where {WORDS} match '"' || c.value || '"' and m.namespace = :namespace
            order by {WORDS}.rowid desc
            limit {_MAX_SPELLINGS}))
    from json_each(:words) c
"""
_SPELT_WORD = re.compile("\x02([^\x03]*)\x03")


class Vocabulary:
    """
    The words of the live memories of a namespace, and those similar to a misspelt one.

    The list of words is kept in memory. The words of a new memory are known at once; those of a changed or restored one
    when the list is read again: at once in a small store, after some seconds in one of 100,000 memories.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._list = self._added = Lexicon()
        self._added_words: set[str] = set()
        self._segments: bytes | None = None  # those of the index when the list was read
        self._newest = 0  # the newest memory whose words are in the list, or were added to it
        self._read_seconds = self._reread_at = 0.0

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        """Return the terms that live memories contain: prefixes as they are, everything else by its stems."""
        if not terms:
            return set()
        indexes = [WORDS if term.prefix else STEMS for term in terms]
        tests = (_IS_KNOWN.format(index=index, term=f"term{number}") for number, index in enumerate(indexes))
        values = {f"term{number}": Atom(term.text, term.prefix).expression for number, term in enumerate(terms)}
        (answers,) = connection.fetch(f"select {', '.join(tests)}", values | {"namespace": self._namespace})
        return {term for term, is_known in zip(terms, answers, strict=True) if is_known}

    def find_similar(self, connection: Connection, word: str) -> list[str]:
        """Return the words with the fewest differences from a word, those of more memories first, spelt as stored."""
        plain = fold(word)
        if not 2 <= len(plain) <= MAX_WORD_CHARACTERS or find_unspaced_runs(plain):
            return []
        distances = {
            other: distance
            for other, distance in self._find_near(connection, plain, max_typos(plain)).items()
            if not find_unspaced_runs(other)
        }
        if not distances:
            return []
        values = {"words": json.dumps(list(distances)), "namespace": self._namespace}
        counts = {other: count for other, count in connection.fetch(_COUNT_MEMORIES, values) if count}
        least = min((distances[other] for other in counts), default=0)
        nearest = (other for other in counts if distances[other] == least)
        best = sorted(nearest, key=lambda other: (-counts[other], other))
        return self._spell_as_stored(connection, best)

    def _spell_as_stored(self, connection: Connection, words: Sequence[str]) -> list[str]:
        """Return words of the index, the first few with the capitals and accents that the latest memories give them."""
        values = {"words": json.dumps(words[:_MAX_SPELT]), "namespace": self._namespace}
        spelt: dict[str, str] = dict(connection.fetch(_SPELLINGS, values))
        return [_commonest(word, json.loads(spelt.get(word, "[]"))) for word in words]

    def _find_near(self, connection: Connection, word: str, distance: int) -> dict[str, int]:
        with self._lock:
            self._refresh(connection)
            listed, added = self._list, self._added
        return listed.find_near(word, distance) | added.find_near(word, distance)

    def _refresh(self, connection: Connection) -> None:
        """Take in what any process has written since the list was read."""
        segments, newest = connection.fetch_value(_INDEX_STATE)
        if segments == self._segments:
            return
        is_due = self._read_seconds < QUICK_READ_SECONDS or time.monotonic() > self._reread_at
        if is_due or newest - self._newest > MAX_NEW_MEMORIES:
            self._read_list(connection)
            self._segments = segments
        elif newest > self._newest:
            values = {"newest": self._newest, "namespace": self._namespace}
            words = (word for (text,) in connection.fetch(_NEW_TEXTS, values) for word in list_tokens(text))
            self._added_words.update(word for word in words if 2 <= len(word) <= MAX_WORD_CHARACTERS)
            self._added = Lexicon(list(self._added_words))
        self._newest = newest

    def _read_list(self, connection: Connection) -> None:
        started = time.thread_time()  # time at work: a busy machine makes no list long
        connection.execute(_CREATE_LIST)
        words: str | None = connection.fetch_value(_READ_LIST, {"longest": MAX_WORD_CHARACTERS})
        self._list, self._added, self._added_words = Lexicon(words.split(" ") if words else []), Lexicon(), set()
        self._read_seconds = time.thread_time() - started
        self._reread_at = time.monotonic() + REREAD_FACTOR * self._read_seconds


def _commonest(word: str, passages: Sequence[str]) -> str:
    """Return the commonest spelling of a word in passages that mark it; of equally common ones, small letters."""
    spellings = Counter(found for passage in passages for found in _SPELT_WORD.findall(passage) if fold(found) == word)
    return max(spellings, key=lambda spelling: (spellings[spelling], spelling), default=word)
