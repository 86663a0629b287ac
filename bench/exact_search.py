"""Exact answers to compare with: the nearest vectors in float32, and BM25 over words or stems."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorist.search.query import STOP_WORDS
from memorist.text.tokenizer import list_stems, list_tokens

HITS = 10
ROWS_AT_ONCE = 50_000
K1, B = 1.2, 0.75
TOLERANCE = 1e-4  # rows that score alike within this may stand for each other
MODULI = {"10 %": 10, ".1 %": 1000}

Scores = NDArray[np.float32]
Found = Mapping[int, Sequence[int]]


class ExactSearch:
    """Knows the score of every row for every question, and so what an answer should have held."""

    def __init__(self, data: Path, size: int, count: int) -> None:
        texts: list[str] = json.loads((data / "texts.json").read_text("utf-8"))[:size]
        asked: list[str] = json.loads((data / "questions.json").read_text("utf-8"))[:count]
        vectors = np.load(data / "vectors.npy", mmap_mode="r")[:size]
        question_vectors = np.load(data / "question-vectors.npy")[:count]
        self._size = size
        self._nearness: Scores = np.concatenate(
            [vectors[start : start + ROWS_AT_ONCE] @ question_vectors.T for start in range(0, size, ROWS_AT_ONCE)]
        ).T
        # Systems differ in what they take for a word. Each is compared with the nearest of four ways.
        bare = [" ".join(word for word in list_tokens(question) if word not in STOP_WORDS) for question in asked]
        self._words = [
            _score_words(texts, questions, split) for split in (list_tokens, list_stems) for questions in (asked, bare)
        ]

    def judge(self, search: str, found: Found) -> dict[str, Any]:
        """Say how much of the exact answers was found. A hybrid answer is as good as its legs."""
        kind, _, share = search.partition(", ")
        modulus = MODULI.get(share, 1)
        for question, rows in found.items():
            if any(row % modulus != question % modulus for row in rows if row < self._size):
                raise SystemExit(f"Error: {search} has found rows that the filter excludes")
        if kind == "meaning":
            judged = f"recall {self.recall(search, found):.3f}"
        elif kind == "words":
            judged = f"overlap {max(_compare(scores, found, modulus, self._size) for scores in self._words):.2f}"
        else:
            judged = ""
        full = min(HITS, self._size // modulus)
        return {"judged": judged, "full_pages": float(np.mean([len(rows) >= full for rows in found.values()]))}

    def recall(self, search: str, found: Found) -> float:
        """Return the share of the ten nearest rows that was found."""
        return _compare(self._nearness, found, MODULI.get(search.partition(", ")[2], 1), self._size)


def _compare(scores: Sequence[Scores] | Scores, found: Found, modulus: int, size: int) -> float:
    """Return the mean share of the best rows, among those that a filter lets through, that was found."""
    shares = []
    for question, rows in found.items():
        mine = scores[question]
        best = np.sort(mine[question % modulus :: modulus])[-HITS:]
        best = best[best > 0]
        if len(best):
            good = sum(bool(mine[row] >= best[0] - TOLERANCE) for row in dict.fromkeys(rows) if row < size)
            shares.append(min(1.0, good / len(best)))
    return float(np.mean(shares)) if shares else 1.0


def _score_words(texts: Sequence[str], questions: Sequence[str], split: Callable[[str], list[str]]) -> list[Scores]:
    """Return the BM25 score of every text for every question."""
    terms_of = [set(split(question)) for question in questions]
    wanted = set().union(*terms_of)
    rows: dict[str, list[int]] = defaultdict(list)
    counts: dict[str, list[int]] = defaultdict(list)
    lengths = np.empty(len(texts), np.float32)
    for row, text in enumerate(texts):
        words = split(text)
        lengths[row] = len(words)
        for term in wanted.intersection(words):
            rows[term].append(row)
            counts[term].append(words.count(term))
    lengths /= lengths.mean()
    results = []
    for terms in terms_of:
        scores = np.zeros(len(texts), np.float32)
        for term in terms & rows.keys():
            places, often = np.array(rows[term]), np.array(counts[term], np.float32)
            rarity = np.log(1 + (len(texts) - len(places) + 0.5) / (len(places) + 0.5))
            scores[places] += rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * lengths[places]))
        results.append(scores)
    return results
