"""
What is measured on: LoCoMo's turns, recombined to as many texts as wanted, and their vectors.

A text is the first half of one turn and the second half of another, both drawn with a fixed seed. Its vector is
derived unless asked otherwise: the two halves are embedded by the bundled model, and the text gets the normalised
sum of both with some noise. The noise is such that derived vectors lie about as near to each other as the
texts' own vectors do (the middle cosine of two is .28, the 95th percentile .43; of real ones .25 and .44).
"""

import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import memorist
from memorist.embed.local import LocalEmbedder
from memorist.embed.wordpiece import count_tokens

Vectors = NDArray[np.float32]
Pairs = NDArray[np.int64]

SEED = 20
NOISE = 0.3  # the length of the noise beside a unit vector
SHORTEST_TURN = 4  # words; less has no two halves worth the name
CHUNK = 10_000  # vectors made at a time
PROJECTS = 100  # each text is in one of them, so a project is the filter that lets 1 % through
EMBEDDED_AT_ONCE = 2_048
TOLD_EVERY = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Corpus:
    """Halves of turns and questions, with the bundled model's vectors of them."""

    heads: tuple[str, ...]
    tails: tuple[str, ...]
    questions: tuple[str, ...]
    head_vectors: Vectors
    tail_vectors: Vectors
    question_vectors: Vectors
    vectors_file: Path
    digest: str

    def texts(self, count: int) -> tuple[list[str], Pairs]:
        """That many different texts, and which halves each is made of. Fewer are a beginning of more."""
        draw, texts, pairs = random.Random(SEED), dict[str, None](), []
        while len(texts) < count:
            pair = draw.randrange(len(self.heads)), draw.randrange(len(self.tails))
            text = f"{self.heads[pair[0]]} {self.tails[pair[1]]}"
            if text not in texts:
                texts[text] = None
                pairs.append(pair)
        return list(texts), np.array(pairs, np.int64)


def load(data: Path, cache: Path, turns: int | None) -> Corpus:
    """LoCoMo from a folder, the first turns only where a number is given; its vectors are made once and kept."""
    folder = data / "locomo"
    if not (folder / "corpus.jsonl").is_file() or not (folder / "queries.jsonl").is_file():
        raise SystemExit(
            f"Error: no corpus.jsonl and queries.jsonl in {folder}; say with --data which folder holds `locomo`"
        )
    split = [words for text in _texts(folder / "corpus.jsonl") if len(words := text.split()) >= SHORTEST_TURN][:turns]
    heads = tuple(" ".join(words[: (len(words) + 1) // 2]) for words in split)
    tails = tuple(" ".join(words[(len(words) + 1) // 2 :]) for words in split)
    questions = list(dict.fromkeys(_texts(folder / "queries.jsonl")))
    random.Random(SEED).shuffle(questions)
    if turns:
        questions = questions[:turns]
    digest = hashlib.sha256(json.dumps([LocalEmbedder.model_id, heads, tails, questions]).encode()).hexdigest()[:10]
    file = cache / f"halves-{digest}.npz"
    if not file.exists():
        vectors = _embed([*heads, *tails, *questions], "embedding LoCoMo's halves and questions")
        part = file.with_suffix(".part.npz")
        np.savez(part, heads=vectors[: len(heads)], tails=vectors[len(heads) : -len(questions)],
                 questions=vectors[-len(questions) :])  # fmt: skip
        part.replace(file)
    with np.load(file) as kept:
        return Corpus(
            heads, tails, tuple(questions), kept["heads"], kept["tails"], kept["questions"], file, digest
        )  # fmt: skip


def derive(heads: Vectors, tails: Vectors, pairs: Pairs, seed: int) -> Vectors:
    """Unit vectors for texts made of these halves."""
    noise = np.random.default_rng((SEED, seed)).standard_normal((len(pairs), heads.shape[1]), np.float32)
    vectors = heads[pairs[:, 0]] + tails[pairs[:, 1]]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors += noise * np.float32(NOISE / heads.shape[1] ** 0.5)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def derived(heads: Vectors, tails: Vectors, count: int) -> Iterator[Vectors]:
    """That many vectors of random pairs of halves, chunk by chunk: where no texts are needed."""
    draw = np.random.default_rng(SEED)
    for number, start in enumerate(range(0, count, CHUNK)):
        rows = min(CHUNK, count - start)
        pairs = np.column_stack([draw.integers(len(heads), size=rows), draw.integers(len(tails), size=rows)])
        yield derive(heads, tails, pairs, number)


class Derived:
    """
    Stands in for the bundled model while a database is built, and looks the vectors up.

    It goes by the bundled model's name, so that the database is searched afterwards by the product as it is,
    command line and all. The file is the bench's own and holds no other vectors. A part of a text has the vector of
    some half.
    """

    model_id = LocalEmbedder.model_id
    dimensions = LocalEmbedder.dimensions
    max_tokens, by_sentence = LocalEmbedder.max_tokens, LocalEmbedder.by_sentence
    count_tokens = staticmethod(count_tokens)

    def __init__(self, corpus: Corpus, texts: Sequence[str], pairs: Pairs) -> None:
        self._rows = {text: row for row, text in enumerate(texts)}
        self._vectors = derive(corpus.head_vectors, corpus.tail_vectors, pairs, len(pairs))
        self._halves = corpus.head_vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Vectors:
        row = self._rows.get(text)
        vector: Vectors = self._halves[crc32(text.encode()) % len(self._halves)] if row is None else self._vectors[row]
        return vector


def about(number: int) -> dict[str, Any]:
    """What a text carries besides, so that every filter has something to look at; every fourth has a fact."""
    project = number % PROJECTS
    fields = {
        "project": f"p{project}",
        "session": f"s{project}",
        "sector": ("semantic", "episodic")[project % 2],
        "kind": ("turn", "note", "decision")[project % 3],
        "source": f"conversation-{project % 10}",
        "tags": [f"t{project % 20}", "locomo"],
    }
    return fields | ({"facts": [{"text": f"said in turn {number}", "kind": "temporal"}]} if number % 4 == 0 else {})


def filters(number: int) -> dict[str, Any]:
    """Every filter there is at once, for one project."""
    fields = about(number % PROJECTS)
    return {name: fields[name] for name in ("project", "session", "sector", "kind", "source")} | {
        "tags": fields["tags"][:1],
        "tier": "project",
        "fact_kind": "temporal",
        "month": [f"{year}-{month:02}" for year in range(2026, 2028) for month in range(1, 13)],
        "since": "2020-01-01",
        "until": "2040-01-01",
        "min_salience": 0.1,
        "pinned": False,
    }


def database(corpus: Corpus, size: int, cache: Path, *, real: bool) -> Path:
    """A database of that many texts, built where it is not there yet; a build that was stopped goes on."""
    kind = "real" if real else "derived"
    path = cache / f"memories-{size}-{kind}-{corpus.digest}-{_schema()}.db"
    for stale in cache.glob(f"memories-{size}-{kind}-{corpus.digest}-*.db*"):
        if not stale.name.startswith(path.name):
            stale.unlink()
    done = Path(f"{path}.done")
    if done.exists() and path.exists():
        return path
    texts, pairs = corpus.texts(size)
    embedder = LocalEmbedder() if real else Derived(corpus, texts, pairs)
    with memorist.open(path, embedder=embedder, synchronous="normal") as memory:
        before = memory.stats().memories
        if not before:
            for number in range(PROJECTS):
                memory.start_session(f"p{number}", id=f"s{number}")
        progress = _Progress(f"building {path.name}", size, before)
        for start in range(before, size, EMBEDDED_AT_ONCE):
            stop = min(start + EMBEDDED_AT_ONCE, size)
            memory.add_many({"content": texts[n], **about(n)} for n in range(start, stop))
            progress(stop)
        memory.reembed()
    done.touch()
    return path


def _schema() -> str:
    """A sum of what shapes the file: a database of another schema is built anew."""
    files = sorted((Path(memorist.__file__).parent / "store" / "sql" / "sqlite").glob("*.sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def _texts(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines() if line.strip()]


def _embed(texts: Sequence[str], label: str) -> Vectors:
    embedder, done, progress = LocalEmbedder(), [], _Progress(label, len(texts))
    for start in range(0, len(texts), EMBEDDED_AT_ONCE):
        done.append(embedder.embed(texts[start : start + EMBEDDED_AT_ONCE]))
        progress(start + len(done[-1]))
    return np.concatenate(done)


class _Progress:
    """A line on stderr every few seconds."""

    def __init__(self, label: str, total: int, before: int = 0) -> None:
        self._label, self._total, self._before = label, total, before
        self._started = self._told = time.perf_counter()

    def __call__(self, done: int) -> None:
        now = time.perf_counter()
        if done == self._total or now - self._told > TOLD_EVERY:
            self._told = now
            rate = (done - self._before) / (now - self._started)
            print(f"  {self._label}: {done:,} of {self._total:,} ({rate:,.0f}/s)", file=sys.stderr, flush=True)
