"""Read the training data: questions, and the texts that answer them, in conversations and documents."""

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Left out: pubmedqa is near the field of SciFact, and PolicyQA's questions fit most of its texts.
EXCLUDED_SETS = ("pubmedqa", "policyqa")
MAX_QUESTIONS_PER_TEXT = 4  # qamr asks fifteen questions of each sentence
OVERLAP_WORDS = 10  # a text that shares so many words in a row with an evaluation set is not trained on
HELD_OUT_SHARE = 0.03  # of the groups, to measure by
SETS = ("locomo", "longmemeval_oracle_turn", "scifact", "cranfield", "xquad_en")  # evaluation sets
# The kinds of data, and how the names of their sets begin.
KINDS = {
    "held-out talk": ("friendsqa", "molweni", "qmsum", "spc_", "irc_", "topical", "sgd", "canard"),
    "held-out docs": ("docs_", "ms_faq"),
    "held-out commands": ("tldr",),
    "held-out passages": ("selqa", "squad", "fairytale", "qamr", "covid", "medquad", "clapnq"),
}

_WORD = re.compile(r"\w+")
_SPEAKER = re.compile(r"^([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?): ")


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and the texts that answer it, by their numbers."""

    set: str
    group: int
    question: str
    answers: tuple[int, ...]


@dataclass(slots=True)
class Pairs:
    """Texts, the group each belongs to, and the questions about them."""

    texts: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)


def read_pairs(path: Path, evaluation: Iterable[Path], seed: int = 0) -> tuple[Pairs, Pairs]:
    """Return the pairs to train on and those held out; both without what an evaluation set contains."""
    seen, dropped = _read_ngrams(evaluation), Counter[str]()
    training, held_out = Pairs(), Pairs()
    chosen = random.Random(seed)
    for number, group in enumerate(read_jsonl(path)):
        if group["set"] in EXCLUDED_SETS:
            continue
        if any(not seen.isdisjoint(_ngrams(text)) for text in (*group["texts"], *(q for q, _ in group["qa"]))):
            dropped[group["set"]] += 1
            continue
        _add_group(held_out if chosen.random() < HELD_OUT_SHARE else training, number, group)
    print(f"{len(training.pairs):,} questions, {len(training.texts):,} texts; held out: {len(held_out.pairs):,}")
    print(f"left out because an evaluation set shares {OVERLAP_WORDS} words in a row: {dict(dropped)}")
    return training, held_out


def as_of_the_user(question: str, text: str) -> tuple[str, str] | None:
    """Return a pair about a speaker as one about the user, who says "I"; None where the question names another."""
    speaker = _SPEAKER.match(text)
    if not speaker:
        return None
    name = speaker[1].split()[0]
    if not re.search(rf"\b{re.escape(name)}\b", question):
        return None
    full = re.escape(speaker[1]) + "|" + re.escape(name)
    question = re.sub(rf"\b(?:{full})'s\b", "my", question)
    for third, first in (("does", "do"), ("is", "am"), ("has", "have"), ("was", "was"), ("did", "did")):
        question = re.sub(rf"\b{third} (?:{full})\b", f"{first} I", question, flags=re.IGNORECASE)
    question = re.sub(rf"\b(?:{full})\b", "I", question)
    return question, text[speaker.end() :]


STOP_WORDS = frozenset(
    "a an the is are was were be been am do does did have has had of in on at to for from by with and or as that this "
    "it its there what which who whom whose when where why how can could will would should i you he she they we my "
    "your his her their our me him them us".split()
)


def as_keywords(question: str) -> str:
    """Return the words of a question that carry meaning, as people type them into a search box."""
    words = [word for word in question.rstrip("?. ").split() if word.lower().strip(",'\"") not in STOP_WORDS]
    return " ".join(words) if len(words) > 1 else question


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file of JSON lines, which may be compressed."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _add_group(pairs: Pairs, number: int, group: dict[str, Any]) -> None:
    first = len(pairs.texts)
    pairs.texts += group["texts"]
    pairs.groups += [number] * len(group["texts"])
    asked = Counter[int]()
    for question, answers in group["qa"]:
        asked.update(answers)
        if asked[answers[0]] <= MAX_QUESTIONS_PER_TEXT:
            pairs.pairs.append(Pair(group["set"], number, question, tuple(first + answer for answer in answers)))


def _read_ngrams(folders: Iterable[Path]) -> set[int]:
    ngrams: set[int] = set()
    for folder in folders:
        for name in ("corpus.jsonl", "queries.jsonl", "train_queries.jsonl"):
            if (folder / name).exists():
                for record in read_jsonl(folder / name):
                    ngrams.update(_ngrams(record["text"]))
    return ngrams


def _ngrams(text: str) -> Iterator[int]:
    words = _WORD.findall(text.lower())
    return (hash(tuple(words[start : start + OVERLAP_WORDS])) for start in range(len(words) - OVERLAP_WORDS + 1))
