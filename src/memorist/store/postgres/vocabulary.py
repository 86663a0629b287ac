"""The vocabulary of a namespace on PostgreSQL, and the words that begin with a prefix."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memorist.records import Term
from memorist.store.database import Connection
from memorist.store.postgres.text_index import Phrase, as_array
from memorist.store.vocabulary import MAX_COUNTED, MAX_SPELLINGS, MAX_SPELT, MAX_WORD_CHARACTERS, Vocabulary
from memorist.store.word_matching import QueryToken
from memorist.text.tokenizer import fold, stem_words

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
    select term, least(count, {MAX_COUNTED}) from vocabulary
    where namespace = :namespace and not stemmed and term = any(cast(:words as text[]))
"""

# The latest memories with a word, their texts in the order in which a spelling is looked for.
_SPELLINGS = f"""
    select concat_ws(' ', m.title, m.content, m.tags, m.source, m.facts)
    from (
        select rid from find_texts(:namespace, false, cast(:query as tsquery), null)
        order by rid desc limit {MAX_SPELLINGS}) f
    join memories m on m.rid = f.rid
"""

_HAS_TEXT = """
    select exists (select 1 from find_texts(:namespace, :stemmed = 1, cast(:query as tsquery), cast(:loose as tsquery)))
"""


class PostgresVocabulary(Vocabulary):
    """The words of the live memories of a namespace, which the database counts."""

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
        phrases = {
            term: Phrase.from_atom(QueryToken(term.text, term.prefix), stemmed=not term.prefix) for term in terms
        }
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

    def _count_memories(self, connection: Connection, words: Sequence[str]) -> Mapping[str, int]:
        values = {"namespace": self._namespace, "words": as_array(words)}
        return dict(connection.fetch(_COUNT_MEMORIES, values))

    def _spell_as_stored(self, connection: Connection, words: Sequence[str]) -> list[str]:
        return [*(self._spell_word(connection, word) for word in words[:MAX_SPELT]), *words[MAX_SPELT:]]

    def _spell_word(self, connection: Connection, word: str) -> str:
        """Return a word with the capitals and accents that the latest memories give it; in doubt, small letters."""
        query = Phrase((word,), prefix=False).write()
        spellings: Counter[str] = Counter()
        for (text,) in connection.fetch(_SPELLINGS, {"namespace": self._namespace, "query": query}):
            spelt = (text[start:end] for start, end, _ in stem_words(text))
            spellings.update([each for each in spelt if fold(each) == word][:1])
        return max(spellings, key=lambda spelling: (spellings[spelling], spelling), default=word)

    def _read_state(self, connection: Connection) -> tuple[Any, int]:
        changes, newest = connection.fetch_value(_STATE, {"namespace": self._namespace})
        return changes, newest

    def _read_words(self, connection: Connection) -> str | None:
        values = {"namespace": self._namespace, "longest": MAX_WORD_CHARACTERS}
        words: str | None = connection.fetch_value(_READ_LIST, values)
        return words

    def _read_new_words(self, connection: Connection, newest: int) -> Iterable[str]:
        rows = connection.fetch(_NEW_WORDS, {"namespace": self._namespace, "newest": newest})
        return (word for (word,) in rows)


_KNOWN_STEMS = """
    select term from vocabulary where namespace = :namespace and stemmed and term = any(cast(:words as text[]))
"""
