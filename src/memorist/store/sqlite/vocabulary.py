"""
The vocabulary of a namespace in FTS5.

The index holds all namespaces together, and so does the list of its words. The list only says where to look: a word
counts once a live memory of the namespace was found that contains it.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memorist.records import Term
from memorist.store.database import Connection
from memorist.store.keyword_search import STEMS, WORDS
from memorist.store.vocabulary import MAX_COUNTED, MAX_SPELLINGS, MAX_SPELT, MAX_WORD_CHARACTERS, Vocabulary
from memorist.store.word_matching import QueryToken
from memorist.text.tokenizer import fold, list_tokens

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
            limit {MAX_COUNTED}))
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
            limit {MAX_SPELLINGS}))
    from json_each(:words) c
"""
_SPELT_WORD = re.compile("\x02([^\x03]*)\x03")


class SqliteVocabulary(Vocabulary):
    """The words of the live memories of a namespace, in the full-text index."""

    def _read_clock(self) -> float:
        return time.thread_time()  # time at work: a busy machine makes no list long

    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        if not terms:
            return set()
        indexes = [WORDS if term.prefix else STEMS for term in terms]
        tests = (_IS_KNOWN.format(index=index, term=f"term{number}") for number, index in enumerate(indexes))
        values = {f"term{number}": QueryToken(term.text, term.prefix).expression for number, term in enumerate(terms)}
        (answers,) = connection.fetch(f"select {', '.join(tests)}", values | {"namespace": self._namespace})
        return {term for term, is_known in zip(terms, answers, strict=True) if is_known}

    def _count_memories(self, connection: Connection, words: Sequence[str]) -> Mapping[str, int]:
        values = {"words": json.dumps(words), "namespace": self._namespace}
        return {word: count for word, count in connection.fetch(_COUNT_MEMORIES, values) if count}

    def _spell_as_stored(self, connection: Connection, words: Sequence[str]) -> list[str]:
        values = {"words": json.dumps(words[:MAX_SPELT]), "namespace": self._namespace}
        spelt: dict[str, str] = dict(connection.fetch(_SPELLINGS, values))
        return [_commonest(word, json.loads(spelt.get(word, "[]"))) for word in words]

    def _read_state(self, connection: Connection) -> tuple[Any, int]:
        segments, newest = connection.fetch_value(_INDEX_STATE)
        return segments, newest

    def _read_words(self, connection: Connection) -> str | None:
        connection.execute(_CREATE_LIST)
        words: str | None = connection.fetch_value(_READ_LIST, {"longest": MAX_WORD_CHARACTERS})
        return words

    def _read_new_words(self, connection: Connection, newest: int) -> Iterable[str]:
        values = {"newest": newest, "namespace": self._namespace}
        return (word for (text,) in connection.fetch(_NEW_TEXTS, values) for word in list_tokens(text))


def _commonest(word: str, passages: Sequence[str]) -> str:
    """Return the commonest spelling of a word in passages that mark it; of equally common ones, small letters."""
    spellings = Counter(found for passage in passages for found in _SPELT_WORD.findall(passage) if fold(found) == word)
    return max(spellings, key=lambda spelling: (spellings[spelling], spelling), default=word)
