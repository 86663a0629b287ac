"""
The words of a namespace, for a question whose words are not among them.

The index holds all namespaces together, and so does the list of its words. So that list only says where to look: no
word counts for anything before a live memory of the namespace was found that holds it.
"""

import json
import threading
import time
from collections.abc import Sequence

import apsw

from memorist.forks import renew_after_fork
from memorist.records import Term
from memorist.store.coverage import Atom
from memorist.store.sqlite.connections import fetch, value
from memorist.store.sqlite.keyword import STEMS, WORDS
from memorist.text.spelling import Lexicon, max_typos
from memorist.text.tokenizer import find_unspaced_runs, fold, list_tokens

LONGEST = 40  # characters; nobody types a longer word
QUICK = 0.01  # seconds; a list that is read in less is read whenever the index has changed
PATIENCE = 100  # a longer list is read again only after this many times as long as reading it took
MOST_COUNTED = 1000
MOST_NEW = 1000  # memories whose words are added to a list one by one

_LIST = f"create virtual table if not exists temp.vocabulary using fts5vocab(main, {WORDS}, row)"

# This takes a moment: SQLite counts the memories of every word on the way.
_READ = """
    select group_concat(term, ' ')
    from temp.vocabulary
    where length(term) between 2 and :longest and term glob '*[^0-9]*'
"""

# The index's record of its own parts (FTS5 keeps it at 10), which every write changes, and the newest memory.
_STATE = f"""
    select (select block from {WORDS}_data where id = 10), (select coalesce(max(rid), 0) from memories)
"""

_NEW = """
    select concat_ws(' ', title, content, tags, source, facts)
    from memories
    where rid > :seen and +namespace = :namespace and deleted_at is null
"""

_STANDS = """
    exists (
        select 1
        from {index} cross join memories m on m.rid = {index}.rowid
        where {index} match :{wanted} and m.namespace = :namespace)
"""

# In how many memories of the namespace each word stands: enough of them to tell the common from the rare.
_COUNTED = f"""
    select c.value, (
        select count(*) from (
            select 1
            from {WORDS} cross join memories m on m.rid = {WORDS}.rowid
            where {WORDS} match '"' || c.value || '"' and m.namespace = :namespace
            limit {MOST_COUNTED}))
    from json_each(:words) c
"""


class Vocabulary:
    """
    Which words stand in the live memories of a namespace, and which of them a misspelt one could have been.

    The list of words is kept in memory. Words of a new memory are found at once; those of a changed or restored one
    when the list is read again: at once in a small store, after some seconds in one of 100,000 memories.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._list = self._added = Lexicon()
        self._new: set[str] = set()
        self._parts: bytes | None = None  # the index as it was when the list was read
        self._seen = 0  # the newest memory whose words are in the list, or were added to it
        self._took = self._again = 0.0

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def known(self, connection: apsw.Connection, terms: Sequence[Term]) -> set[Term]:
        """Those of the terms that a live memory holds: beginnings as they are, everything else by its stems."""
        if not terms:
            return set()
        indexes = [WORDS if term.prefix else STEMS for term in terms]
        asked = (_STANDS.format(index=index, wanted=f"wanted{number}") for number, index in enumerate(indexes))
        values = {f"wanted{number}": Atom(term.text, term.prefix).sql for number, term in enumerate(terms)}
        (stand,) = fetch(connection, f"select {', '.join(asked)}", values | {"namespace": self._namespace})
        return {term for term, stands in zip(terms, stand, strict=True) if stands}

    def similar(self, connection: apsw.Connection, word: str) -> list[str]:
        """
        What a word could have been: as few slips away as there is anything; what stands in more memories first.

        The words are in small letters and without accents, as the index has them.
        """
        plain = fold(word)
        if not 2 <= len(plain) <= LONGEST or find_unspaced_runs(plain):
            return []
        near = {
            other: slips
            for other, slips in self._near(connection, plain, max_typos(plain)).items()
            if not find_unspaced_runs(other)
        }
        if not near:
            return []
        values = {"words": json.dumps(list(near)), "namespace": self._namespace}
        mine = {other: count for other, count in fetch(connection, _COUNTED, values) if count}
        fewest = min((near[other] for other in mine), default=0)
        return sorted((other for other in mine if near[other] == fewest), key=lambda other: (-mine[other], other))

    def _near(self, connection: apsw.Connection, word: str, slips: int) -> dict[str, int]:
        with self._lock:
            self._follow(connection)
            whole, added = self._list, self._added
        return whole.find_near(word, slips) | added.find_near(word, slips)

    def _follow(self, connection: apsw.Connection) -> None:
        """Keep up with what was written since the list was read, by whichever process."""
        parts, newest = value(connection, _STATE)
        if parts == self._parts:
            return
        if self._took < QUICK or time.monotonic() > self._again or newest - self._seen > MOST_NEW:
            self._read(connection)
            self._parts = parts
        elif newest > self._seen:
            values = {"seen": self._seen, "namespace": self._namespace}
            found = (token for (text,) in fetch(connection, _NEW, values) for token in list_tokens(text))
            self._new.update(token for token in found if 2 <= len(token) <= LONGEST)
            self._added = Lexicon(list(self._new))
        self._seen = newest

    def _read(self, connection: apsw.Connection) -> None:
        started = time.thread_time()  # of work: a busy machine makes no list long
        connection.execute(_LIST)
        words: str | None = value(connection, _READ, {"longest": LONGEST})
        self._list, self._added, self._new = Lexicon(words.split(" ") if words else []), Lexicon(), set()
        self._took = time.thread_time() - started
        self._again = time.monotonic() + PATIENCE * self._took
