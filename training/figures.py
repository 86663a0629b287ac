"""Measure an encoder: nDCG@10 of its vectors alone, on public sets and on pairs that were held out."""

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from models import CrossEncoder, Encoder, Ids, encode_texts
from pairs import Pairs, read_jsonl

_CUTOFF = 10
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_MIN_PART_CHARACTERS = 100  # as memorist.ingest.vectorizer cuts them
_MAX_TOKENS = 256
_READ_TOKENS = 192  # of a text, by the teacher


@dataclass(slots=True)
class EvaluationSet:
    """Texts and questions as token ids, and the texts that answer each question."""

    name: str
    texts: list[Ids]
    owners: list[int]  # the document that a text is, or is a part of
    scopes: list[str | None]  # of the documents
    questions: list[Ids]
    question_scopes: list[str | None]
    relevant: list[dict[int, int]]


def read_evaluation_set(folder: Path, half: str, parts: bool) -> EvaluationSet:
    """
    Read a set in BEIR's form: its "development" half, to choose by, or its "judging" half.

    SciFact's own training questions are its development half. Elsewhere every second scope is, or question where
    there are no scopes.
    """
    documents = list(read_jsonl(folder / "corpus.jsonl"))
    trained = (folder / "train_queries.jsonl").exists()
    prefix = "train_" if trained and half == "development" else ""
    questions = list(read_jsonl(folder / f"{prefix}queries.jsonl"))
    if not trained:
        keys = [question.get("metadata", {}).get("scope") or question["_id"] for question in questions]
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        wanted = 0 if half == "development" else 1
        questions = [question for question, key in zip(questions, keys, strict=True) if places[key] % 2 == wanted]
    numbers = {document["_id"]: number for number, document in enumerate(documents)}
    relevant: dict[str, dict[int, int]] = defaultdict(dict)
    for line in (folder / f"{prefix}qrels.tsv").read_text("utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        if int(grade) > 0 and document in numbers:
            relevant[question][numbers[document]] = int(grade)
    questions = [question for question in questions if relevant[question["_id"]]]
    owners, texts = [], []
    for number, document in enumerate(documents):
        title, text = document.get("title") or "", document["text"]
        whole = f"{title}\n{text}" if title else text
        pieces = [whole, *(f"{title}\n{part}" if title else part for part in cut(text))] if parts else [whole]
        texts += pieces
        owners += [number] * len(pieces)
    return EvaluationSet(
        f"{folder.name}{' parts' if parts else ''}",
        encode_texts(texts, _MAX_TOKENS),
        owners,
        [document.get("metadata", {}).get("scope") for document in documents],
        encode_texts([question["text"] for question in questions], _MAX_TOKENS),
        [question.get("metadata", {}).get("scope") for question in questions],
        [relevant[question["_id"]] for question in questions],
    )


def cut(text: str) -> list[str]:
    """Cut a text after sentences, as Memorist does; nothing where it is one part."""
    least = _MIN_PART_CHARACTERS
    starts = [0]
    for end in _SENTENCE_END.finditer(text):
        if end.end() - starts[-1] >= least and len(text) - end.end() >= least // 2:
            starts.append(end.end())
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)] if len(starts) > 1 else []


def hold_out(held_out: Pairs, kinds: dict[str, tuple[str, ...]]) -> list[EvaluationSet]:
    """Return the held-out pairs as sets, a set for each kind of data; all texts of a kind are searched."""
    sets = []
    for name, prefixes in kinds.items():
        pairs = [pair for pair in held_out.pairs if pair.set.startswith(prefixes)]
        if not pairs:
            continue
        groups = {pair.group for pair in pairs}
        numbers = [number for number, group in enumerate(held_out.groups) if group in groups]
        places = {number: place for place, number in enumerate(numbers)}
        texts = encode_texts([held_out.texts[number] for number in numbers], _MAX_TOKENS)
        questions = encode_texts([pair.question for pair in pairs], _MAX_TOKENS)
        relevant = [{places[answer]: 1 for answer in pair.answers} for pair in pairs]
        nowhere = [None] * len(texts)
        sets.append(
            EvaluationSet(name, texts, list(range(len(texts))), nowhere, questions, [None] * len(pairs), relevant)
        )
    return sets


def measure(encoder: Encoder, evaluation: EvaluationSet) -> float:
    """Return the mean nDCG@10 of a set's questions; a document counts by the nearest of its texts."""
    texts, questions = encoder.embed(evaluation.texts).float(), encoder.embed(evaluation.questions).float()
    device = texts.device
    owners = torch.tensor(evaluation.owners, device=device)
    scopes = {scope: number for number, scope in enumerate(dict.fromkeys(evaluation.scopes))}
    scope_of = torch.tensor([scopes[scope] for scope in evaluation.scopes], device=device)
    gains = []
    for start in range(0, len(questions), 256):
        similarity = questions[start : start + 256] @ texts.T
        best = torch.full((similarity.shape[0], len(evaluation.scopes)), -2.0, device=device)
        best.scatter_reduce_(1, owners.expand(similarity.shape[0], -1), similarity, "amax")
        wanted = [evaluation.question_scopes[n] for n in range(start, start + similarity.shape[0])]
        for row, scope in enumerate(wanted):
            if scope is not None:
                best[row].masked_fill_(scope_of != scopes[scope], -2.0)
        ranking = best.topk(min(_CUTOFF, best.shape[1]), dim=1).indices.cpu().tolist()
        gains += [_ndcg(found, evaluation.relevant[start + row]) for row, found in enumerate(ranking)]
    return float(np.mean(gains))


def _ndcg(found: list[int], relevant: dict[int, int]) -> float:
    ideal = sorted(relevant.values(), reverse=True)[:_CUTOFF]
    best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ideal))
    return sum(relevant.get(number, 0) / math.log2(rank + 2) for rank, number in enumerate(found)) / best


def measure_teacher(teacher: CrossEncoder, evaluation: EvaluationSet, nearest: list[list[int]]) -> float:
    """Return the mean nDCG@10 of a set's questions, ranked by the teacher among the `nearest` texts of each."""
    pairs = [
        (evaluation.questions[number], evaluation.texts[text][:_READ_TOKENS])
        for number, texts in enumerate(nearest)
        for text in texts
    ]
    scores = iter(teacher.score(pairs).cpu().tolist())
    gains = []
    for texts, relevant in zip(nearest, evaluation.relevant, strict=True):
        score = {text: next(scores) for text in texts}
        gains.append(_ndcg(sorted(texts, key=score.__getitem__, reverse=True)[:_CUTOFF], relevant))
    return float(np.mean(gains))


def find_nearest(encoder: Encoder, evaluation: EvaluationSet, count: int) -> list[list[int]]:
    """Return the texts nearest to each question of a set of whole texts, and those that answer it."""
    texts, questions = encoder.embed(evaluation.texts).float(), encoder.embed(evaluation.questions).float()
    outside = {
        scope: torch.tensor([other != scope for other in evaluation.scopes], device=texts.device)
        for scope in {*evaluation.question_scopes} - {None}
    }
    nearest = []
    for number, question in enumerate(questions):
        similarity = texts @ question
        scope = evaluation.question_scopes[number]
        if scope is not None:
            similarity = similarity.masked_fill(outside[scope], -2.0)
        found = similarity.topk(min(count, len(texts))).indices.tolist()
        nearest.append(list(dict.fromkeys([*found, *evaluation.relevant[number]])))
    return nearest
