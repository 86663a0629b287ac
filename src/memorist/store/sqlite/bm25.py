"""
BM25 with the statistics of one project.

FTS5's own function takes them from the whole index, so its scores tell a caller who may see only one project how common
a word is in all the others.
"""

import json
from typing import Any

import apsw

from memorist.store.word_matching import K1, B

_LENGTH_SAMPLE = 1000  # of the newest memories

# The mean number of tokens of a project's memories. FTS5 keeps those of each column in a blob.
MEAN_LENGTH = f"""
    select avg(token_count(sz)) from memories_stems_docsize where id in (
        select rid from memories where namespace = :namespace and project = :project and deleted_at is null
        order by rid desc limit {_LENGTH_SAMPLE})
"""


def register_functions(connection: apsw.Connection) -> None:
    """Make `project_bm25` and `token_count` known to SQL."""
    connection.register_fts5_function("project_bm25", _project_bm25)
    connection.create_scalar_function("token_count", _token_count, 1, deterministic=True)


def _project_bm25(api: apsw.FTS5ExtensionApi, *arguments: Any) -> float:
    """Return the score of a row. The arguments: the idfs of the phrases as JSON, the mean length, and the weights."""
    if api.aux_data is None:
        idfs, mean, *weights = arguments
        known = json.loads(str(idfs))
        # An expression in the index's own syntax comes without idfs: its phrases count alike.
        known += [1.0] * (api.phrase_count - len(known))
        api.aux_data = known, float(mean or 1.0), [float(weight or 0.0) for weight in weights]
    idfs, mean, weights = api.aux_data
    length = K1 * (1 - B + B * api.column_size() / mean)
    score = 0.0
    for phrase, idf in enumerate(idfs):
        count = 0.0
        for column in api.phrase_columns(phrase):
            count += weights[column] * len(api.phrase_column_offsets(phrase, column))
        score += idf * count * (K1 + 1) / (count + length)
    return score


def _token_count(*values: Any) -> int:
    """Return the sum of SQLite's variable-length integers: seven bits a byte, the high bit set in all but the last."""
    (sizes,) = values
    total = value = 0
    for byte in sizes:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            total, value = total + value, 0
    return total
