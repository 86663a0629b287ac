"""
BM25 with the statistics of one project, or of one namespace and its files.

FTS5's own function takes them from the whole index, so its scores tell a caller how common a word is in other projects
and namespaces.
"""

import json
from collections.abc import Iterator
from typing import Any

import apsw

from memorist.store.word_matching import LENGTH_SAMPLE, bm25_frequency, bm25_length

# Memories `m` whose numbers count: those of a project, and those of a namespace and of its files.
IN_PROJECT = "m.namespace = :namespace and m.project = :project and m.deleted_at is null"
IN_FAMILY = "m.namespace in (:namespace, :beside) and m.deleted_at is null"
# To count all of them; SQLite would choose an index that does not tell what is deleted, and read every row.
COUNTED = "memories m @hint(memories_scope) where {}"
# The mean number of tokens of such memories. FTS5 keeps those of each column in a blob.
MEAN_LENGTH = f"""
    select avg(token_count(sz)) from memories_stems_docsize where id in (
        select m.rid from {COUNTED} order by m.rid desc limit {LENGTH_SAMPLE})
"""
# FTS5 keeps the number of all rows of an index, and then those of the tokens in each column.
ALL_ROWS = "select block from memories_stems_data where id = 1"


def register_functions(connection: apsw.Connection) -> None:
    """Make `own_bm25` and `token_count` known to SQL."""
    connection.register_fts5_function("own_bm25", _own_bm25)
    connection.create_scalar_function("token_count", _token_count, 1, deterministic=True)


def _own_bm25(api: apsw.FTS5ExtensionApi, *arguments: Any) -> float:
    """Return the score of a row. The arguments: the idfs of the phrases as JSON, the mean length, and the weights."""
    if api.aux_data is None:
        idfs, mean, *weights = arguments
        known = json.loads(str(idfs))
        # An expression in the index's own syntax comes without idfs: its phrases count alike.
        known += [1.0] * (api.phrase_count - len(known))
        api.aux_data = known, float(mean or 1.0), [float(weight or 0.0) for weight in weights]
    idfs, mean, weights = api.aux_data
    length = bm25_length(float(api.column_size()), mean)
    score = 0.0
    for phrase, idf in enumerate(idfs):
        count = 0.0
        for column in api.phrase_columns(phrase):
            count += weights[column] * len(api.phrase_column_offsets(phrase, column))
        score += idf * bm25_frequency(count, length)
    return score


def _token_count(*values: Any) -> int:
    return sum(_read_numbers(values[0]))


def read_all_rows(block: bytes) -> int:
    """Return the number of rows that `ALL_ROWS` tells."""
    return next(_read_numbers(block), 0)


def _read_numbers(data: bytes) -> Iterator[int]:
    """Yield SQLite's variable-length integers: seven bits a byte, the high bit set in all but the last."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0
