"""Cortex's PRD-004: its test strategy, name by name, with profile="confidence" (grammar fts5, alpha-RRF)."""

import json
import math
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import apsw
import numpy as np
import pytest

import memorist
from answers import texts
from clock import to_microseconds
from memorist import ConfigError, EmbedderUnavailable, Memorist, StoreError, config
from memorist.embed import create_embedder
from memorist.embed.local import LocalEmbedder
from memorist.embed.wordpiece import BUNDLED_FOLDER
from memorist.records import Results
from processes import run_search
from statements import read_rows

PROCESS = "The deployment process has three manual steps"
STAGING = "Every merge starts a deployment to staging"
FRIDAY = "We deployed the hotfix: Friday deployments are a process of minutes"
SHIPPING = "Shipping to customers needs a signed release"
LUNCH = "Lunch is at noon"
NOTES = (PROCESS, STAGING, FRIDAY, SHIPPING, LUNCH)


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


class TestSearchBM25:
    @pytest.fixture(autouse=True)
    def _notes(self, memory: Memorist) -> None:
        memory.add_many(NOTES)

    @staticmethod
    def search(memory: Memorist, query: str, **options: object) -> Results:
        return memory.search(query, mode="keyword", profile="confidence", **options)

    def found(self, memory: Memorist, query: str) -> set[str]:
        return set(texts(self.search(memory, query)))

    def test_single_term(self, memory: Memorist) -> None:
        assert self.found(memory, "staging") == {STAGING}

    def test_multiple_terms_implicit_and(self, memory: Memorist) -> None:
        assert self.found(memory, "deployment process") == {PROCESS, FRIDAY}
        assert self.found(memory, "deployment lunch") == set()

    def test_or(self, memory: Memorist) -> None:
        assert self.found(memory, "staging OR shipping") == {STAGING, SHIPPING}

    def test_not(self, memory: Memorist) -> None:
        assert self.found(memory, "deployment NOT staging") == {PROCESS, FRIDAY}

    def test_phrase(self, memory: Memorist) -> None:
        assert self.found(memory, '"deployment process"') == {PROCESS}
        assert self.found(memory, '"process deployment"') == set()

    def test_prefix(self, memory: Memorist) -> None:
        assert self.found(memory, "deploy*") == {PROCESS, STAGING, FRIDAY}
        assert self.found(memory, "deployme*") == {PROCESS, STAGING, FRIDAY}
        assert self.found(memory, "deploye*") == {FRIDAY}

    def test_groups(self, memory: Memorist) -> None:
        assert self.found(memory, "(staging OR friday) AND deployment") == {STAGING, FRIDAY}

    def test_ranking(self, memory: Memorist) -> None:
        memory.add("deployment deployment deployment")

        hits = list(self.search(memory, "deployment"))

        assert hits[0].memory.content == "deployment deployment deployment"
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.keyword_score or 0 for hit in hits] == sorted((h.keyword_score or 0 for h in hits), reverse=True)

    def test_snippets(self, memory: Memorist) -> None:
        (hit,) = self.search(memory, "signed release")

        assert hit.snippet == "Shipping to customers needs a <mark>signed</mark> <mark>release</mark>"

    def test_snippets_of_an_expression_mark_its_words_only(self, memory: Memorist) -> None:
        snippets = [hit.snippet for hit in self.search(memory, "signed OR lunch")]

        assert sorted(snippets) == [
            "<mark>Lunch</mark> is at noon", "Shipping to customers needs a <mark>signed</mark> release",
        ]  # fmt: skip

    def test_no_results(self, memory: Memorist) -> None:
        assert list(self.search(memory, "unicorn")) == []

    def test_limit(self, memory: Memorist) -> None:
        memory.add_many(f"deployment number {n}" for n in range(40))

        assert len(self.search(memory, "deployment", limit=7)) == 7
        assert len(self.search(memory, "deployment")) == 20

    def test_soft_deleted_memories_are_filtered_out(self, memory: Memorist) -> None:
        memory.forget(self.search(memory, "staging")[0].memory.id)

        assert self.found(memory, "staging") == set()
        assert self.found(memory, "deployment NOT friday") == {PROCESS}

    @pytest.mark.parametrize(
        "query",
        ["shipping:", "(shipping", "shipping AND", "what's shipping", '"shipping', "shipping (NOT", "shipping^^"],
    )
    def test_text_that_is_no_expression_is_taken_as_plain_words(self, memory: Memorist, query: str) -> None:
        assert SHIPPING in self.found(memory, query)

    def test_words_of_unspaced_script_are_found_in_this_grammar_too(self, memory: Memorist) -> None:
        memory.add("我们用 make ship 部署到生产环境")

        assert self.found(memory, "部署") == {"我们用 make ship 部署到生产环境"}

    def test_longer_words_of_unspaced_script_are_found_in_this_grammar_too(self, memory: Memorist) -> None:
        memory.add("我们用 make ship 部署到生产环境")

        assert self.found(memory, "生产环境") == {"我们用 make ship 部署到生产环境"}

    def test_stemming_can_be_switched_off(self, memory: Memorist) -> None:
        assert texts(self.search(memory, "deployments", stemmed=False)) == [FRIDAY]
        assert self.found(memory, "deployments") == {PROCESS, STAGING, FRIDAY}
        assert set(memory.facets("deployments", ["sector"])["sector"].values()) == {3}

    def test_match_type_is_bm25(self, memory: Memorist) -> None:
        assert self.search(memory, "staging")[0].match == ("bm25",)


class TestSearchSemantic:
    @pytest.fixture(autouse=True)
    def _notes(self, understanding: Memorist) -> None:
        understanding.add_many(NOTES)

    @staticmethod
    def search(memory: Memorist, query: str, **options: object) -> Results:
        return memory.search(query, mode="semantic", profile="confidence", **options)

    def test_similar(self, understanding: Memorist) -> None:
        best = self.search(understanding, "how are new versions deployed?")[0]

        assert best.memory.content in (PROCESS, STAGING, FRIDAY)
        assert best.match == ("semantic",)

    def test_dissimilar(self, understanding: Memorist) -> None:
        question = "the mating habits of penguins"

        assert list(self.search(understanding, question)) == []
        assert all((hit.similarity or 0) < 0.3 for hit in self.search(understanding, question, min_similarity=-1))

    def test_ranking(self, understanding: Memorist) -> None:
        hits = list(self.search(understanding, "when do we eat?", min_similarity=-1))

        assert hits[0].memory.content == LUNCH
        assert len(hits) == len(NOTES)
        for better, worse in pairwise(hits):
            assert (better.similarity or 0) >= (worse.similarity or 0) - 0.01

    def test_threshold(self, understanding: Memorist) -> None:
        everything = self.search(understanding, "deployment to staging", min_similarity=-1)
        above = self.search(understanding, "deployment to staging")

        assert 0 < len(above) < len(everything)
        assert all((hit.similarity or 0) >= 0.3 for hit in above)

    def test_threshold_keeps_what_is_exactly_as_similar(self, understanding: Memorist) -> None:
        everything = self.search(understanding, "deployment to staging", min_similarity=-1)

        for hit in everything:
            kept = self.search(understanding, "deployment to staging", min_similarity=hit.similarity)
            assert hit.memory.content in texts(kept)
            assert all((other.similarity or 0) >= (hit.similarity or 0) for other in kept)

    def test_limit(self, understanding: Memorist) -> None:
        understanding.add_many(f"deployment to staging, number {n}" for n in range(30))

        assert len(self.search(understanding, "deployment to staging", limit=4)) == 4
        assert len(self.search(understanding, "deployment to staging")) == 20

    def test_without_a_model_explicit_semantic_search_is_an_error_that_says_what_to_do(self, tmp_path: Path) -> None:
        with memorist.open(tmp_path / "no-model.db", embedder="none") as memory:
            memory.add(STAGING)
            with pytest.raises(EmbedderUnavailable, match="Use hybrid or keyword"):
                self.search(memory, "staging")
            fallback = self.search(memory, "staging", on_no_vector="keyword")

        assert texts(fallback) == [STAGING]
        assert fallback.degraded


class PlacedEmbedder:
    """A text that begins with @name lies where the name says; a question lies at the first axis."""

    model_id, dimensions = "placed-4", 4
    PLACES: ClassVar = {
        "@same": [1, 0, 0, 0], "@half": [1, 1, 1, 1], "@across": [0, 1, 0, 0], "@against": [-1, 0, 0, 0],
        "@near": [9, 1, 0, 0], "@far": [7, 7, 0, 0], "@none": [0, 0, 0, 0], "@long": [1, 0, 0, 0, 0],
    }  # fmt: skip

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.PLACES.get(text.split()[0], [1, 0, 0, 0]) for text in texts]


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=PlacedEmbedder(), profile="confidence") as memory:
        yield memory


class TestSearchHybrid:
    def test_combines_results(self, placed: Memorist) -> None:
        placed.add("@across badger")
        placed.add("@near otter")

        assert {hit.memory.content: hit.match for hit in placed.search("badger")} == {
            "@across badger": ("bm25",),
            "@near otter": ("semantic",),
        }

    def test_rrf_produces_the_expected_ranking(self, placed: Memorist) -> None:
        placed.add("@same otter")
        placed.add("@near badger with a tail of many other words")
        placed.add("@across badger")

        results = placed.search("badger", recency={"weight": 0})

        assert {hit.memory.content.split()[0]: hit.raw["rrf"] for hit in results} == pytest.approx(
            {"@near": 0.5 / 62 + 0.5 / 62, "@same": 0.5 / 61, "@across": 0.5 / 61}
        )
        assert results[0].memory.content.startswith("@near")
        assert results[0].score == pytest.approx(61 / 62)

    def test_dedup(self, placed: Memorist) -> None:
        placed.add("@same badger")

        (hit,) = placed.search("badger")

        assert hit.match == ("hybrid",)
        assert hit.similarity == pytest.approx(1.0)
        assert hit.keyword_score is not None
        assert hit.confidence == 1.0

    @pytest.fixture
    def mixed(self, placed: Memorist) -> Memorist:
        for place in ("@same", "@near", "@half", "@far", "@across"):
            placed.add(f"{place} badger in the wood")
            placed.add(f"{place} otter in the wood")
        return placed

    @pytest.mark.parametrize(("alpha", "mode"), [(0.0, "keyword"), (1.0, "semantic")])
    def test_alpha_zero_and_alpha_one_equal_the_single_modes(self, mixed: Memorist, alpha: float, mode: str) -> None:
        now = datetime.now(UTC)
        fused = mixed.search("badger", alpha=alpha, now=now)
        single = mixed.search("badger", mode=mode, now=now)

        assert texts(fused) == texts(single)
        assert [hit.score for hit in fused] == pytest.approx([hit.score for hit in single], abs=1e-6)
        assert 0 < len(single) < 10

    def test_default_options(self, placed: Memorist) -> None:
        placed.add_many(f"@same badger number {n}" for n in range(30))

        results = placed.search("badger")

        assert (results.mode, results.profile, len(results)) == ("hybrid", "confidence", 20)
        assert results.degraded is None

    def test_an_unknown_mode_is_hybrid(self, placed: Memorist) -> None:
        placed.add("@same badger")

        assert placed.search("badger", mode="telepathic").mode == "hybrid"

    def test_without_a_model_hybrid_search_is_keyword_search_and_says_so(self, memory: Memorist) -> None:
        memory.add("the badger")

        results = memory.search("badger", profile="confidence")

        assert texts(results) == ["the badger"]
        assert results.degraded


class TestRecencyBoost:
    """score * (1 + weight / (1 + days since the import)), divided by the most that can be."""

    def test_worked_example(self, placed: Memorist, path: Path) -> None:
        placed.add("@same badger")
        read_rows(path, "update memories set recorded_at = ?", to_microseconds(days_ago(9)))

        (hit,) = placed.search("badger")

        assert hit.score == pytest.approx((1 + 0.1 / 10) / 1.1, abs=1e-5)
        assert math.fsum(hit.trace.values()) == pytest.approx(hit.score)

    def test_a_weight_of_zero_switches_it_off(self, placed: Memorist, path: Path) -> None:
        placed.add("@same badger")
        read_rows(path, "update memories set recorded_at = ?", to_microseconds(days_ago(9)))

        (hit,) = placed.search("badger", recency={"weight": 0})

        assert hit.score == pytest.approx(1.0)

    def test_its_weight_and_k_are_flags_of_the_command(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("badger")
        read_rows(path, "update memories set recorded_at = ?", to_microseconds(days_ago(9)))
        flags = ("--profile", "confidence", "--explain")

        (hit,) = run_search(path, "badger", *flags, "--k", "9", "--recency", "0.5")["results"]
        (unboosted,) = run_search(path, "badger", *flags, "--recency", "none")["results"]

        assert hit["raw"]["rrf"] == pytest.approx(1 / 10)
        assert hit["score"] == pytest.approx((1 + 0.5 / 10) / 1.5, abs=1e-5)
        assert unboosted["score"] == pytest.approx(1.0)

    def test_of_two_equals_the_one_imported_today_is_first(self, placed: Memorist, path: Path) -> None:
        placed.add("@same otter")
        read_rows(path, "update memories set recorded_at = ?", to_microseconds(days_ago(300)))
        placed.add("@across badger", created_at=days_ago(900))

        assert texts(placed.search("badger")) == ["@across badger", "@same otter"]


class TestConfidenceDecay:
    def test_a_fact_can_be_added_with_the_time_of_its_last_reinforcement(self, memory: Memorist) -> None:
        """effective = confidence * exp(-decay_rate * days since the reinforcement), of facts that exist already."""
        old = {"text": "the door is red", "confidence": 0.8, "decay_rate": 0.01, "reinforced_at": days_ago(100)}
        added = memory.add("badger", facts=[old])
        later = memory.facts.add(added.id, "the roof is green", decay_rate=0.1, reinforced_at=days_ago(10))

        first, second = memory.get(added.id).facts

        assert first.effective == pytest.approx(0.8 * math.exp(-1), abs=1e-3)
        assert [second.effective, later.effective] == pytest.approx([math.exp(-1)] * 2, abs=1e-3)

    def test_a_fact_that_is_known_is_reinforced_at_the_time_given(self, memory: Memorist) -> None:
        added = memory.add("badger", facts=["the door is red"])

        memory.facts.add(added.id, "the door is red", confidence=0.5, decay_rate=0.1, reinforced_at=days_ago(10))

        (fact,) = memory.get(added.id).facts
        assert fact.effective == pytest.approx(0.5 * math.exp(-1), abs=1e-3)


class TestRRF:
    def test_basic_merge(self, placed: Memorist) -> None:
        placed.add("@across badger")
        placed.add("@same otter")
        placed.add("@same badger")

        assert texts(placed.search("badger"))[0] == "@same badger"
        assert len(placed.search("badger")) == 3

    def test_overlap_is_boosted(self, placed: Memorist) -> None:
        placed.add("@across badger")
        placed.add("@same badger")

        first, second = placed.search("badger", recency={"weight": 0})

        assert first.raw["rrf"] == pytest.approx(0.5 / 61 + 0.5 / 61)
        assert second.raw["rrf"] == pytest.approx(0.5 / 62)

    def test_no_overlap_includes_both(self, placed: Memorist) -> None:
        placed.add("@across badger")
        placed.add("@same otter")

        hits = placed.search("badger", recency={"weight": 0})

        assert [hit.score for hit in hits] == pytest.approx([0.5, 0.5])


class TestCosineSimilarity:
    @staticmethod
    def similarity(memory: Memorist, content: str) -> float | None:
        memory.add(content)
        (hit,) = memory.search("question", mode="semantic", min_similarity=-1)
        return hit.similarity

    def test_identical(self, placed: Memorist) -> None:
        assert self.similarity(placed, "@same") == pytest.approx(1.0)

    def test_half(self, placed: Memorist) -> None:
        assert self.similarity(placed, "@half") == pytest.approx(0.5)

    def test_orthogonal(self, placed: Memorist) -> None:
        assert self.similarity(placed, "@across") == pytest.approx(0.0)

    def test_opposite(self, placed: Memorist) -> None:
        assert self.similarity(placed, "@against") == pytest.approx(-1.0)

    def test_identical_text_with_the_real_model(self, understanding: Memorist) -> None:
        understanding.add(PROCESS)

        (hit,) = understanding.search(PROCESS, mode="semantic")

        assert hit.similarity == pytest.approx(1.0, abs=0.002)

    @pytest.mark.parametrize("place", ["@long", "@none"])
    def test_different_lengths_and_no_length_compare_with_nothing_but_lose_nothing(
        self, placed: Memorist, place: str
    ) -> None:
        placed.add(f"{place} badger")

        results = placed.search("badger")

        assert texts(results) == [f"{place} badger"]
        assert results[0].similarity is None
        assert results.degraded

    def test_a_model_of_another_length_under_the_same_name_is_told_apart(self, path: Path) -> None:
        class Longer(PlacedEmbedder):
            dimensions = 5

            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                return [[1, 0, 0, 0, 0] for _ in texts]

        with memorist.open(path, embedder=PlacedEmbedder()) as memory:
            memory.add("@same badger")
        with memorist.open(path, embedder=Longer()) as memory:
            memory.add("a second badger")
            results = memory.search("badger", profile="confidence")

        assert set(texts(results)) == {"@same badger", "a second badger"}
        assert results.degraded is not None
        assert "another name" in results.degraded


class TestONNXEmbedder:
    """NewONNXEmbedder(modelPath): a model of one's own by its path, mean pooling, L2 normalisation."""

    # Two dimensions, one vector for each token of ./vocab.txt: badger (4, 0), otter and ##s (0, 4), wood (3, 3), and
    # (0, 0) for the others; inputs and outputs are named as in the export of all-MiniLM-L6-v2.
    TINY = Path(__file__).parents[1] / "data" / "onnx"

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return Path(shutil.copytree(self.TINY, tmp_path / "tiny"))

    def test_a_model_is_loaded_by_its_folder(self, path: Path, folder: Path) -> None:
        with memorist.open(path, embedder=f"onnx:{folder}") as memory:
            memory.add_many(["a badger", "an otter", "badgers in the wood"])
            results = memory.search("badger", mode="semantic", min_similarity=-1)

        assert texts(results) == ["a badger", "badgers in the wood", "an otter"]
        # badger, ##s and wood: (4 + 0 + 3, 0 + 4 + 3), of length 1
        assert [hit.similarity for hit in results] == pytest.approx([1.0, math.sqrt(0.5), 0.0], abs=1e-3)

    def test_the_path_of_the_file_and_the_layout_of_sentence_transformers_are_understood(
        self, folder: Path, tmp_path: Path
    ) -> None:
        plain = create_embedder(f"onnx:{folder / 'model.onnx'}")
        folder = Path(shutil.copytree(folder, tmp_path / "nested" / "tiny"))
        (folder / "onnx").mkdir()
        (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
        vocabulary = {piece: number for number, piece in enumerate((folder / "vocab.txt").read_text().split())}
        tokenizer = {"model": {"type": "WordPiece", "vocab": vocabulary}, "normalizer": {"lowercase": True}}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "vocab.txt").unlink()
        nested = create_embedder(f"onnx:{folder}")

        assert plain
        assert nested
        assert plain.model_id == nested.model_id
        assert plain.dimensions == nested.dimensions == 2
        assert np.array_equal(np.asarray(plain.embed(["badger"])), np.asarray(nested.embed(["Badger"])))

    def test_a_folder_in_a_config_file_is_found_from_the_folder_of_that_file(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = folder.parent / "config.toml"
        file.write_text('embedder = "onnx:tiny"')
        monkeypatch.chdir("/")

        assert config.load({"MEMORIST_CONFIG": str(file)}, Path("/"), {}).settings.embedder == f"onnx:{folder}"

    def test_its_id_names_the_content_of_the_folder(self, folder: Path) -> None:
        before = create_embedder(f"onnx:{folder}")
        assert before
        assert before.model_id.startswith("onnx:tiny@")
        with (folder / "vocab.txt").open("a") as vocabulary:
            vocabulary.write("stork\n")
        after = create_embedder(f"onnx:{folder}")

        assert after
        assert after.model_id != before.model_id

    def test_a_model_that_pools_by_itself_is_taken_at_its_word(self, bundled_model: LocalEmbedder) -> None:
        own = create_embedder(f"onnx:{BUNDLED_FOLDER}")

        assert own
        assert own.dimensions == 384
        assert np.allclose(np.asarray(own.embed([PROCESS])), bundled_model.embed([PROCESS]), atol=1e-6)
        assert own.model_id != bundled_model.model_id

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda folder: shutil.rmtree(folder), "there is no folder"),
            (lambda folder: (folder / "model.onnx").unlink(), "export the model to ONNX"),
            (lambda folder: (folder / "vocab.txt").unlink(), "neither vocab.txt nor tokenizer.json"),
            (lambda folder: (folder / "vocab.txt").write_text("badger\n"), "not WordPiece"),
            (
                lambda folder: (folder / "tokenizer.json").write_text('{"model": {"type": "BPE"}}'),
                "is BPE, and only WordPiece",
            ),
            (
                lambda folder: (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}'),
                "keeps upper case",
            ),
        ],
    )
    def test_a_folder_that_cannot_be_used_is_refused_with_the_reason(
        self, path: Path, folder: Path, change: Callable[[Path], object], says: str
    ) -> None:
        change(folder)

        with pytest.raises(ConfigError, match=says):
            memorist.open(path, embedder=f"onnx:{folder}")

    def test_a_damaged_model_leaves_keyword_search_and_says_so(self, path: Path, folder: Path) -> None:
        (folder / "model.onnx").write_bytes(b"no model")

        with memorist.open(path, embedder=f"onnx:{folder}") as memory:
            memory.add("a badger")
            results = memory.search("badger")

        assert texts(results) == ["a badger"]
        assert results.degraded
        assert "cannot load the model in" in results.degraded


class TestIntegration:
    def test_search_end_to_end(self, understanding: Memorist) -> None:
        understanding.add_many(NOTES)

        by_word = understanding.search("hotfix", profile="confidence")
        by_concept = understanding.search("what time is the midday meal", profile="confidence")

        assert by_word[0].memory.content == FRIDAY
        assert by_concept[0].memory.content == LUNCH
        assert by_concept[0].match == ("semantic",)

    def test_embed_and_search(self, path: Path, bundled_model: LocalEmbedder) -> None:
        with memorist.open(path, embedder=bundled_model) as memory:
            memory.add_many(NOTES)
            assert memory.stats().vectors == len(NOTES)
        with memorist.open(path, embedder=bundled_model, read_only=True) as memory:
            results = memory.search("when do we eat?", mode="semantic", profile="confidence")

        assert results[0].memory.content == LUNCH

    def test_zero_network_calls(
        self, path: Path, bundled_model: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise AssertionError("something reached for the network")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        with memorist.open(path, embedder=bundled_model) as memory:
            memory.add(LUNCH)
            results = memory.search("when do we eat?")

        assert texts(results) == [LUNCH]
        assert results.degraded is None

    def test_an_error_names_the_leg_that_met_it(self, path: Path, placed: Memorist) -> None:
        placed.add("@same badger")
        connection = apsw.Connection(str(path))
        connection.execute("drop table memories_stems")
        connection.close()

        with pytest.raises(StoreError, match="keyword search: "):
            placed.search("badger", grammar="auto")
