"""The full-text index of one namespace as the store uses it: matches, everything that matches, and the vocabulary."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memorist.records import Query, Term
from memorist.store.database import Connection
from memorist.store.image_follower import ImageFollower
from memorist.store.keyword_search import MAX_FACET_ROWS, STEMS, Expression, match_past
from memorist.store.near_duplicates import write_sharing
from memorist.store.records import Scope
from memorist.store.sqlite.keyword import LISTED, Fts5Search, KeywordLeg, contains_condition
from memorist.store.sqlite.vocabulary import SqliteVocabulary
from memorist.text.tokenizer import list_stems

_SAMPLED_TEXTS = 200  # the newest ones, which tell common words from rare ones
_SAMPLED_CHARACTERS = 2_000  # of each, as whole files may be among them
_WORDS_PER_GROUP = 2  # a word is looked up in each segment of the index, which takes longest


class SqliteKeywordIndex(KeywordLeg):
    """Full-text search in one namespace, on FTS5."""

    def __init__(self, namespace: str, follower: ImageFollower) -> None:
        super().__init__(namespace, follower)
        self._vocabulary = SqliteVocabulary(namespace)
        self._sample: tuple[int, Counter[str]] = (0, Counter())  # the texts there were, and how many of some had a word

    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        return self._vocabulary.find_known(connection, terms)

    def find_similar(self, connection: Connection, word: str) -> list[str]:
        return self._vocabulary.find_similar(connection, word)

    def select_sharing(
        self, connection: Connection, words: Mapping[str, str], least: int, *, closely: bool
    ) -> tuple[str, dict[str, Any], bool]:
        # The image counts the words of all texts, but takes in what was written since at first.
        if closely and (image := self._follower.refresh()):
            keys = image.index.find_sharing(words, least)
            return "select value as rid from json_each(:sharing)", {"sharing": str(keys.tolist())}, True
        counts = self._sample_texts(connection)
        rarest_first = sorted(words, key=lambda stem: (counts[stem], -len(stem)))  # long words are rare
        expression = write_sharing([words[stem] for stem in rarest_first], least, None if closely else _WORDS_PER_GROUP)
        return f"select rowid as rid from {STEMS} where {STEMS} match :sharing", {"sharing": expression}, closely

    def _sample_texts(self, connection: Connection) -> Counter[str]:
        """Return how many of some texts have a word; read again whenever there are twice as many texts."""
        newest = connection.fetch_value("select coalesce(max(rid), 0) from memories")
        if newest >= 2 * self._sample[0]:
            read = f"substr(content, 1, {_SAMPLED_CHARACTERS})"
            texts = connection.fetch(f"select {read} from memories order by rid desc limit {_SAMPLED_TEXTS}")
            self._sample = newest, Counter(stem for (text,) in texts for stem in set(list_stems(text)))
        return self._sample[1]

    def select_matching(
        self,
        connection: Connection,
        query: Query,
        scope: Scope,
        keys: Sequence[int],
        *,
        filtered: bool = True,
    ) -> tuple[str, dict[str, Any], bool]:
        search, filter = self.prepare(query, scope), scope.filter
        if search.expressions and (filtered or filter.as_of is not None):
            self.plan(connection, search)
        expressions: Sequence[Expression] = search.expressions
        pruning = search.pruning_expression if sum(search.counts.values()) > MAX_FACET_ROWS else None
        wanted = [each.all_of if search.needs_all else pruning or each.any_of for each in expressions]
        raw = None
        if query.raw is not None:
            parsed = self.parse_raw(connection, query.raw, stemmed=query.stemmed)
            if parsed is not None:
                expressions, wanted, raw = [parsed], [query.raw], query.raw
        if filter.as_of is not None and query:
            changed = match_past(connection, self.namespace, filter, search.past_query(raw), {})
            keys = [*keys, *(match.key for match in changed)]
        values: dict[str, Any] = {"found_keys": json.dumps(list(keys))}
        values |= {f"found{number}": text for number, text in enumerate(wanted)}
        arms = [
            f"""
            select {each.index}.rowid as rid, 1 as by_words
            from {each.index} {search.join_wall(each.index)}
            where {each.index} match :found{number}
            """
            for number, each in enumerate(expressions)
        ]
        if filtered and search.is_narrow:
            arms = [f"{arm} and +{each.index}.rowid in ({LISTED})" for arm, each in zip(arms, expressions, strict=True)]
            values["listed"] = search.values["listed"]
        if search.needs_all and len(arms) > 1:
            arms = [f"select * from ({' intersect '.join(arms)})"]
        arms += _select_matching_substring(search, arms, values)
        arms.append("select value as rid, 0 as by_words from json_each(:found_keys)")
        sql = f"select rid, min(by_words) as by_words from ({' union all '.join(arms)}) group by rid"
        passed = search.is_narrow or not expressions
        return sql, values, filtered and passed and search.substring is None and filter.as_of is None


def _select_matching_substring(search: Fts5Search, arms: Sequence[str], values: dict[str, Any]) -> list[str]:
    """Return a query for rows with the only word of the query inside a longer word, if no word is it."""
    if search.substring is None or not arms:
        return []
    contains, values["substring"] = contains_condition(search.substring)
    return [
        f"""
        select m.rid, 1
        from memories m
        where not exists ({" union all ".join(arms)})
          and m.namespace = :namespace and m.deleted_at is null and {contains}
        """
    ]
