"""
The data of the bench: LoCoMo's turns, recombined to any number of texts, with their vectors and databases.

A text is the first half of one turn and the second half of another, both drawn with a fixed seed. By default its vector
is derived: the bundled model embeds the two halves, and the text gets their normalised sum with some noise. The noise
is chosen so that derived vectors lie about as close to each other as the texts' own vectors do (the median cosine of
two is .28 and the 95th percentile .43; of real ones .25 and .44).
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
from memorist.atomic_file import replace_atomically
from memorist.embed.local import LocalEmbedder
from memorist.embed.wordpiece import count_tokens

Vectors = NDArray[np.float32]
Pairs = NDArray[np.int64]

SEED = 20
NOISE_LENGTH = 0.3  # of the noise that is added to a unit vector
MIN_TURN_WORDS = 4  # shorter turns have no meaningful halves
VECTOR_BATCH = 10_000  # vectors derived at a time
PROJECT_COUNT = 100  # each text is in one of them, so that a filter by project lets 1 % through
EMBEDDING_BATCH = 2_048
PROGRESS_SECONDS = 5.0  # between two lines on stderr


@dataclass(frozen=True, slots=True)
class Corpus:
    """The halves of turns and the questions, with the bundled model's vectors of them."""

    heads: tuple[str, ...]
    tails: tuple[str, ...]
    questions: tuple[str, ...]
    head_vectors: Vectors
    tail_vectors: Vectors
    question_vectors: Vectors
    vectors_file: Path
    digest: str

    def make_texts(self, count: int) -> tuple[list[str], Pairs]:
        """Return that many different texts, and the halves that each is made of. Fewer texts are a prefix of more."""
        draw, texts, pairs = random.Random(SEED), dict[str, None](), []
        while len(texts) < count:
            pair = draw.randrange(len(self.heads)), draw.randrange(len(self.tails))
            text = f"{self.heads[pair[0]]} {self.tails[pair[1]]}"
            if text not in texts:
                texts[text] = None
                pairs.append(pair)
        return list(texts), np.array(pairs, np.int64)


def load(data: Path, cache: Path, turns: int | None) -> Corpus:
    """Read LoCoMo, or only its first turns where a number is given. Its vectors are made once and cached."""
    folder = data / "locomo"
    if not (folder / "corpus.jsonl").is_file() or not (folder / "queries.jsonl").is_file():
        raise SystemExit(
            f"Error: {folder} has no corpus.jsonl and queries.jsonl; name the folder that contains `locomo` with --data"
        )
    words_of_turns = map(str.split, _read_texts(folder / "corpus.jsonl"))
    long_enough = [words for words in words_of_turns if len(words) >= MIN_TURN_WORDS][:turns]
    heads = tuple(" ".join(words[: (len(words) + 1) // 2]) for words in long_enough)
    tails = tuple(" ".join(words[(len(words) + 1) // 2 :]) for words in long_enough)
    questions = list(dict.fromkeys(_read_texts(folder / "queries.jsonl")))
    random.Random(SEED).shuffle(questions)
    if turns:
        questions = questions[:turns]
    digest = hashlib.sha256(json.dumps([LocalEmbedder.model_id, heads, tails, questions]).encode()).hexdigest()[:10]
    file = cache / f"halves-{digest}.npz"
    if not file.exists():
        vectors = _embed([*heads, *tails, *questions], "embedding LoCoMo's halves and questions")
        head_vectors, tail_vectors, question_vectors = np.split(vectors, [len(heads), -len(questions)])
        with replace_atomically(file) as output:
            np.savez(output, heads=head_vectors, tails=tail_vectors, questions=question_vectors)
    with np.load(file) as cached:
        return Corpus(
            heads, tails, tuple(questions), cached["heads"], cached["tails"], cached["questions"], file, digest
        )  # fmt: skip


def derive_vectors(heads: Vectors, tails: Vectors, pairs: Pairs, seed: int) -> Vectors:
    """Return unit vectors for texts made of these halves."""
    noise = np.random.default_rng((SEED, seed)).standard_normal((len(pairs), heads.shape[1]), np.float32)
    vectors = heads[pairs[:, 0]] + tails[pairs[:, 1]]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors += noise * np.float32(NOISE_LENGTH / heads.shape[1] ** 0.5)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def derive_vector_batches(heads: Vectors, tails: Vectors, count: int) -> Iterator[Vectors]:
    """Yield that many vectors of random pairs of halves in batches, for measurements that need no texts."""
    generator = np.random.default_rng(SEED)
    for number, start in enumerate(range(0, count, VECTOR_BATCH)):
        rows = min(VECTOR_BATCH, count - start)
        pairs = np.column_stack([generator.integers(len(heads), size=rows), generator.integers(len(tails), size=rows)])
        yield derive_vectors(heads, tails, pairs, number)


class DerivedEmbedder:
    """
    A stand-in for the bundled model that looks up derived vectors while a database is built.

    It has the bundled model's name, so that the database can be searched with the real model, also on the command line.
    The database holds no other vectors. A part of a text gets the vector of some half.
    """

    model_id = LocalEmbedder.model_id
    dimensions = LocalEmbedder.dimensions
    max_tokens, by_sentence = LocalEmbedder.max_tokens, LocalEmbedder.by_sentence
    count_tokens = staticmethod(count_tokens)

    def __init__(self, corpus: Corpus, texts: Sequence[str], pairs: Pairs) -> None:
        self._rows = {text: row for row, text in enumerate(texts)}
        self._vectors = derive_vectors(corpus.head_vectors, corpus.tail_vectors, pairs, len(pairs))
        self._halves = corpus.head_vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Vectors:
        row = self._rows.get(text)
        vector: Vectors = self._halves[crc32(text.encode()) % len(self._halves)] if row is None else self._vectors[row]
        return vector


def make_fields(number: int) -> dict[str, Any]:
    """Return the metadata of a text, with a value for every filter. Every fourth text has a fact."""
    project = number % PROJECT_COUNT
    fields = {
        "project": f"p{project}",
        "session": f"s{project}",
        "sector": ("semantic", "episodic")[project % 2],
        "kind": ("turn", "note", "decision")[project % 3],
        "source": f"conversation-{project % 10}",
        "tags": [f"t{project % 20}", "locomo"],
    }
    return fields | ({"facts": [{"text": f"said in turn {number}", "kind": "temporal"}]} if number % 4 == 0 else {})


def make_filters(number: int) -> dict[str, Any]:
    """Return all filters at once, for one project."""
    fields = make_fields(number % PROJECT_COUNT)
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


def build_database(corpus: Corpus, size: int, cache: Path, *, real: bool) -> Path:
    """Return a database of that many texts, building it if needed. A build that was interrupted is resumed."""
    kind = "real" if real else "derived"
    path = cache / f"memories-{size}-{kind}-{corpus.digest}-{_hash_schema()}.db"
    for stale in cache.glob(f"memories-{size}-{kind}-{corpus.digest}-*.db*"):
        if not stale.name.startswith(path.name):
            stale.unlink()
    done = Path(f"{path}.done")
    if done.exists() and path.exists():
        return path
    texts, pairs = corpus.make_texts(size)
    embedder = LocalEmbedder() if real else DerivedEmbedder(corpus, texts, pairs)
    with memorist.open(path, embedder=embedder, synchronous="normal") as memory:
        before = memory.stats().memories
        if not before:
            for number in range(PROJECT_COUNT):
                memory.sessions.start(f"p{number}", id=f"s{number}")
        progress = _Progress(f"building {path.name}", size, before)
        for start in range(before, size, EMBEDDING_BATCH):
            stop = min(start + EMBEDDING_BATCH, size)
            memory.add_many({"content": texts[number], **make_fields(number)} for number in range(start, stop))
            progress(stop)
        memory.reembed()
    done.touch()
    return path


def _hash_schema() -> str:
    """Hash the schema: a database with another one is rebuilt."""
    files = sorted((Path(memorist.__file__).parent / "store" / "sql" / "sqlite").glob("*.sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def _read_texts(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines() if line.strip()]


def _embed(texts: Sequence[str], label: str) -> Vectors:
    embedder, batches, progress = LocalEmbedder(), [], _Progress(label, len(texts))
    for start in range(0, len(texts), EMBEDDING_BATCH):
        batches.append(embedder.embed(texts[start : start + EMBEDDING_BATCH]))
        progress(start + len(batches[-1]))
    return np.concatenate(batches)


class _Progress:
    """A progress report on stderr every few seconds."""

    def __init__(self, label: str, total: int, before: int = 0) -> None:
        self._label, self._total, self._before = label, total, before
        self._started = self._reported = time.perf_counter()

    def __call__(self, done: int) -> None:
        now = time.perf_counter()
        if done == self._total or now - self._reported > PROGRESS_SECONDS:
            self._reported = now
            rate = (done - self._before) / (now - self._started)
            print(f"  {self._label}: {done:,} of {self._total:,} ({rate:,.0f}/s)", file=sys.stderr, flush=True)
