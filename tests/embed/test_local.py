"""The local models: properties of their vectors, and the errors where the bundled one cannot be loaded."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from memorist.embed import local
from memorist.embed.base import Embedder, embed_documents, embed_query
from memorist.embed.local import LocalEmbedder
from memorist.embed.wordpiece import BUNDLED_FOLDER, MAX_TOKENS, WordPiece
from memorist.errors import EmbedderError, EmbedderUnavailable

TEXTS = [
    "The deploy runs on Fridays at noon.",
    "Paris",
    "",
    "We release to production at the end of each week, after the tests have passed and the notes are written.",
    "北京是中国的首都。",
    "My cat likes tuna.",
] * 3


@pytest.fixture
def embedder(bundled_model: LocalEmbedder) -> LocalEmbedder:
    return bundled_model


@pytest.fixture
def model_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the model's folder that the module uses."""
    shutil.copytree(local.BUNDLED_FOLDER, tmp_path / "bundled")
    monkeypatch.setattr(local, "BUNDLED_FOLDER", tmp_path / "bundled")
    return tmp_path / "bundled"


def test_it_is_an_embedder(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.dimensions == 384
    assert "int8" in embedder.model_id
    assert embed_documents(embedder, ["a", "b"]).shape == (2, 384)
    assert embed_query(embedder, "a").shape == (384,)


def test_a_text_has_the_same_vector_alone_and_among_others(embedder: LocalEmbedder) -> None:
    together = embedder.embed(TEXTS)

    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)


def test_the_number_of_threads_changes_neither_vectors_nor_order() -> None:
    alone, many = LocalEmbedder(threads=1), LocalEmbedder(threads=4)

    assert np.array_equal(alone.embed(TEXTS), many.embed(TEXTS))
    assert np.array_equal(alone.embed(TEXTS[::-1]), many.embed(TEXTS)[::-1])
    many.close()


def test_vectors_have_unit_length(embedder: LocalEmbedder) -> None:
    vectors = embedder.embed(TEXTS)

    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_texts_that_mean_the_same_are_closer_than_others(embedder: LocalEmbedder) -> None:
    deploy, same, cat = embedder.embed(
        ["When do we deploy the service?", "The release goes out on Friday afternoon.", "My cat likes tuna."]
    )

    assert deploy @ same > deploy @ cat + 0.1


def test_the_vector_is_near_the_one_before_quantisation(bundled_model: LocalEmbedder) -> None:
    # The first numbers of the vector of the trained network in fp32.
    expected = np.array(
        [0.0105, -0.0395, -0.0349, -0.0654, 0.0043, 0.0105, -0.0208, -0.0515, 0.0817, 0.0239, -0.0037, 0.0807, 0.0124]
    )

    start = bundled_model.embed(["Where do we deploy the payment service?"])[0][: len(expected)]

    assert float(start @ expected / np.linalg.norm(start) / np.linalg.norm(expected)) > 0.97


def test_no_texts_give_no_vectors(embedder: LocalEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.parametrize("text", ["", " \n", "\x00", "\ud800", "🚀" * 300, "x" * 100_000, "word " * 50_000])
def test_any_string_has_a_vector(embedder: LocalEmbedder, text: str) -> None:
    vector = embedder.embed([text])[0]

    assert np.isfinite(vector).all()
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)


def test_a_question_has_the_vector_of_its_text_each_time(embedder: LocalEmbedder) -> None:
    first, second = (embedder.embed_query("Where do we deploy?") for _ in range(2))

    assert np.array_equal(first, embedder.embed(["Where do we deploy?"])[0])
    assert np.array_equal(first, second)


class CountingTokenizer(WordPiece):
    """A tokenizer that lists the texts it has encoded."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        super().__init__(vocabulary)
        self.encoded: list[str] = []

    def encode(self, text: str, max_tokens: int = MAX_TOKENS) -> list[int]:
        self.encoded.append(text)
        return super().encode(text, max_tokens)


class CountingEmbedder(LocalEmbedder):
    """The bundled model with a tokenizer that counts."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.tokenizer = CountingTokenizer.from_lines((BUNDLED_FOLDER / "vocab.txt").read_text("utf-8"))

    def _tokenizer(self) -> CountingTokenizer:
        return self.tokenizer


def test_a_question_is_encoded_once_and_not_at_all_when_it_is_asked_again() -> None:
    embedder = CountingEmbedder()

    for question in ("Where do we deploy?", "Where do we deploy?", "Who is Ada?"):
        embedder.embed_query(question)

    assert embedder.tokenizer.encoded == ["Where do we deploy?", "Who is Ada?"]
    embedder.close()


def test_a_question_of_unknown_words_alone_has_no_vector(embedder: LocalEmbedder) -> None:
    with pytest.raises(EmbedderError, match="knows none of these words"):
        embedder.embed_query("🦊🦊")


def test_a_cached_question_cannot_be_changed_by_a_caller(embedder: LocalEmbedder) -> None:
    with pytest.raises(ValueError, match="read-only"):
        embedder.embed_query("Where do we deploy?")[0] = 9


def test_only_recent_questions_are_cached(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_CACHED_QUERIES", 2)
    embedder._queries.clear()

    for text in ("one", "two", "one", "three", "long " * 10_000):
        embedder.embed_query(text)

    assert list(embedder._queries) == ["one", "three"]


def test_many_threads_may_use_it_at_once_before_it_is_loaded() -> None:
    embedder = LocalEmbedder(threads=2)
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(embedder.embed_query("hello"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 6
    assert all(np.array_equal(vector, found[0]) for vector in found)


def test_it_can_be_used_again_after_closing() -> None:
    embedder = LocalEmbedder(threads=2)
    before = embedder.embed(TEXTS)
    embedder.close()

    assert np.array_equal(embedder.embed(TEXTS), before)
    embedder.close()
    embedder.close()


def test_it_counts_tokens_without_a_limit(embedder: LocalEmbedder) -> None:
    assert embedder.count_tokens("deploy " * 1000) == 1000


def test_nothing_heavy_is_imported_before_the_first_use() -> None:
    script = (
        "import sys; from memorist.embed.local import LocalEmbedder; embedder = LocalEmbedder(); "
        "assert 'onnxruntime' not in sys.modules; embedder.load(); assert 'onnxruntime' in sys.modules"
    )

    subprocess.run(
        [sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


@pytest.mark.parametrize("name", ["model.onnx", "vocab.txt"])
def test_a_damaged_file_is_refused(model_copy: Path, name: str) -> None:
    content = bytearray((model_copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (model_copy / name).write_bytes(content)

    with pytest.raises(EmbedderUnavailable, match=rf"{name} is damaged.*reinstall"):
        LocalEmbedder().load()


@pytest.mark.parametrize("name", ["model.onnx", "vocab.txt"])
def test_a_missing_file_is_named(model_copy: Path, name: str) -> None:
    (model_copy / name).unlink()

    with pytest.raises(EmbedderUnavailable, match=rf"{name} cannot be read.*reinstall"):
        LocalEmbedder().embed(["a"])


def test_a_failed_load_is_tried_again(model_copy: Path) -> None:
    (model_copy / "vocab.txt").rename(model_copy / "away")
    embedder = LocalEmbedder(threads=1)
    with pytest.raises(EmbedderUnavailable):
        embedder.load()
    (model_copy / "away").rename(model_copy / "vocab.txt")

    assert embedder.embed(["a"]).shape == (1, 384)


def test_a_missing_runtime_is_reported_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(EmbedderUnavailable, match="pip install onnxruntime"):
        LocalEmbedder().embed_query("a")


def test_a_model_that_the_runtime_cannot_read_is_reported(model_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model_copy / "model.onnx").write_bytes(b"")
    monkeypatch.setattr(local, "_MODEL_SHA256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")

    with pytest.raises(EmbedderUnavailable, match="cannot load the bundled model"):
        LocalEmbedder().load()
