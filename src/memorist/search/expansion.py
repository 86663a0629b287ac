"""The question with its best answers added: what is like them is likely an answer, too (Rocchio's feedback)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memorist.search.fusion import Candidate, Ranked, longness

BEST = 3  # answers that are added, each as much as it scored


def expanded(
    ranked: Sequence[Ranked], vectors: Mapping[int, NDArray[np.float16]], question: NDArray[np.float32], weight: float
) -> list[Candidate]:
    """
    What was ranked, with how much nearer each is to the question once the best answers are added to it.

    Only where what was found is long: what is like a turn of a conversation is another turn with the same small talk,
    what is like a page on some matter is another page on it.
    """
    candidates = [entry.candidate for entry in ranked]
    weight *= longness(candidates)
    best = [entry for entry in ranked[:BEST] if entry.candidate.key in vectors and entry.score > 0.0]
    if not weight or not best:
        return candidates
    known = {key: place for place, key in enumerate(vectors)}
    matrix = np.concatenate([*vectors.values()]).reshape(len(vectors), -1).astype(np.float64)
    shares = np.array([entry.score for entry in best])
    added = (shares / shares.sum()) @ matrix[[known[entry.candidate.key] for entry in best]]
    asked = question + weight * added
    # Row by row in double: how near one is must not depend on which others are beside it.
    nearer = np.einsum("ij,j->i", matrix, asked / np.linalg.norm(asked) - question).tolist()
    return [
        replace(candidate, likeness=nearer[known[candidate.key]]) if candidate.key in known else candidate
        for candidate in candidates
    ]
