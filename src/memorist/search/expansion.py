"""Pseudo-relevance feedback: the query vector moved towards the best hits of a first ranking (Rocchio)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memorist.search.fusion import Candidate, Ranked, long_text_share

_FEEDBACK_HITS = 3  # added to the query, each weighted by its score


def expand_by_feedback(
    ranked: Sequence[Ranked],
    vectors: Mapping[int, NDArray[np.float16]],
    query_vector: NDArray[np.float32],
    weight: float,
) -> list[Candidate]:
    """
    Return the candidates with the similarity each gains once the best hits are added to the query.

    Only long texts are expanded. What resembles a page on some subject is another page on it; what resembles a turn of
    a conversation is another turn with the same small talk.
    """
    candidates = [entry.candidate for entry in ranked]
    weight *= long_text_share(candidates)
    best = [entry for entry in ranked[:_FEEDBACK_HITS] if entry.candidate.key in vectors and entry.score > 0.0]
    if not weight or not best:
        return candidates
    row_of = {key: row for row, key in enumerate(vectors)}
    matrix = np.concatenate([*vectors.values()]).reshape(len(vectors), -1).astype(np.float64)
    shares = np.array([entry.score for entry in best])
    feedback = (shares / shares.sum()) @ matrix[[row_of[entry.candidate.key] for entry in best]]
    expanded = query_vector + weight * feedback
    # Row by row in double: the gain of one candidate must not depend on which others are beside it.
    gains = np.einsum("ij,j->i", matrix, expanded / np.linalg.norm(expanded) - query_vector).tolist()
    return [
        replace(candidate, feedback_gain=gains[row_of[candidate.key]]) if candidate.key in row_of else candidate
        for candidate in candidates
    ]
