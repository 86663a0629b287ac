"""AgentStack's ADR-005: vectors first, words where they end; profile="semantic-first"."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import texts
from conftest import FailingEmbedder
from cosine_embedder import CosineEmbedder
from memorist import ConfigError, InvalidInput, Memorist, NotFound, config
from memorist.embed import create_embedder
from memorist.records import Results
from processes import run_search
from web_server import TOKEN, web_server


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(), profile="semantic-first") as memory:
        yield memory


class TestSearchPriority:
    def test_vector_results_come_first_by_similarity(self, placed: Memorist) -> None:
        placed.add_many(["@0.75 fern", "@0.95 moss", "@0.85 lichen"])

        results = placed.search("fern")

        assert texts(results) == ["@0.95 moss", "@0.85 lichen", "@0.75 fern"]
        assert {hit.match for hit in results} == {("vector",)}
        assert [hit.score for hit in results] == pytest.approx([0.95, 0.85, 0.75], abs=2e-3)

    def test_what_is_below_the_threshold_of_seven_tenths_is_no_vector_result(self, placed: Memorist) -> None:
        placed.add_many(["@0.9 moss", "@0.6 lichen"])

        assert texts(placed.search("anything")) == ["@0.9 moss"]

    def test_the_threshold_can_be_replaced_and_zero_is_a_threshold(self, placed: Memorist) -> None:
        placed.add_many(["@0.9 moss", "@0.6 lichen", "@-0.5 bark"])

        assert texts(placed.search("anything", min_similarity=0.5)) == ["@0.9 moss", "@0.6 lichen"]
        assert texts(placed.search("anything", min_similarity=0)) == ["@0.9 moss", "@0.6 lichen"]
        assert texts(placed.search("anything", min_similarity=-1)) == ["@0.9 moss", "@0.6 lichen", "@-0.5 bark"]

    def test_exactly_at_the_threshold_is_kept(self, placed: Memorist) -> None:
        placed.add("@0.6 lichen")
        (hit,) = placed.search("anything", min_similarity=0)

        assert texts(placed.search("anything", min_similarity=hit.similarity)) == ["@0.6 lichen"]

    def test_without_vector_results_it_falls_back_to_full_text(self, placed: Memorist) -> None:
        placed.add_many(["@0.2 moss", "@0.1 fern"])

        results = placed.search("fern")

        assert texts(results) == ["@0.1 fern"]
        assert results[0].match == ("fts",)
        assert "<mark>fern</mark>" in results[0].snippet

    def test_merge_appends_what_only_full_text_found(self, placed: Memorist) -> None:
        placed.add_many(["@0.1 fern fern", "@0.8 moss", "@0.9 fern"])

        results = placed.search("fern")

        assert [(hit.memory.content, hit.match) for hit in results] == [
            ("@0.9 fern", ("vector",)),
            ("@0.8 moss", ("vector",)),
            ("@0.1 fern fern", ("fts",)),
        ]

    def test_merge_never_repeats_and_keeps_the_limit(self, placed: Memorist) -> None:
        placed.add_many(f"@0.9 fern {n}" for n in range(8))
        placed.add_many(f"@0.1 fern {n}" for n in range(8))

        results = placed.search("fern", limit=12)

        assert len(results) == 12
        assert len({hit.memory.id for hit in results}) == 12
        assert [hit.match[0] for hit in results] == ["vector"] * 8 + ["fts"] * 4
        assert len(placed.search("fern")) == 10

    def test_the_order_is_also_the_order_of_the_scores(self, placed: Memorist) -> None:
        placed.add_many(["@0.1 fern fern fern", "@0.8 moss", "@0.9 fern", "@0.2 a fern among others"])

        scores = [hit.score for hit in placed.search("fern")]

        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)

    def test_strict_fallback_has_full_text_only_where_there_are_no_vector_results(self, placed: Memorist) -> None:
        placed.add_many(["@0.1 fern", "@0.8 moss"])

        assert texts(placed.search("fern", strict_fallback=True)) == ["@0.8 moss"]
        assert texts(placed.search("fern", strict_fallback=True, min_similarity=0.95)) == ["@0.1 fern"]


class TestUseVector:
    def test_off_is_full_text_only_and_nothing_is_missing(self, placed: Memorist) -> None:
        placed.add_many(["@0.9 moss", "@0.9 fern"])

        results = placed.search("fern", mode="keyword")

        assert [(hit.memory.content, hit.match) for hit in results] == [("@0.9 fern", ("fts",))]
        assert results.degraded is None

    def test_forced_on_is_vectors_only(self, placed: Memorist) -> None:
        placed.add_many(["@0.9 moss", "@0.1 fern"])

        assert texts(placed.search("fern", mode="vector")) == ["@0.9 moss"]

    @pytest.mark.parametrize("name", ["use_vector", "useVector"])
    def test_it_is_understood_by_its_name(self, placed: Memorist, name: str) -> None:
        placed.add_many(["@0.9 moss", "@0.1 fern"])

        assert texts(placed.search("fern", **{name: False})) == ["@0.1 fern"]
        assert placed.search("fern", **{name: False}).mode == "keyword"
        assert texts(placed.search("fern", **{name: True})) == ["@0.9 moss", "@0.1 fern"]
        assert texts(placed.search('"fern"', intent="auto", **{name: True})) == ["@0.9 moss", "@0.1 fern"]
        assert texts(placed.search("fern", **{name: None})) == ["@0.9 moss", "@0.1 fern"]

    def test_it_is_understood_over_http(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none") as memory,
            web_server(path, embedder="none") as server,
            memorist.connect(server.url, token=TOKEN) as remote,
        ):
            memory.add("one fern")
            body = {"query": "fern", "options": {"use_vector": False}}
            request = urllib.request.Request(
                f"{server.api}/search",
                json.dumps(body).encode(),
                {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request) as response:
                answer = json.load(response)

            assert (answer["mode"], answer["degraded"], len(answer["hits"])) == ("keyword", None, 1)
            assert remote.search("fern", use_vector=False).mode == "keyword"
            assert remote.search("fern").mode == "hybrid"

    def test_it_is_a_flag_of_the_command(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("one fern")

        assert run_search(path, "fern", "--no-vector")["mode"] == "keyword"
        assert run_search(path, "fern", "--use-vector")["mode"] == "hybrid"

    @pytest.mark.parametrize(
        "options",
        [
            {"use_vector": "no"},
            {"use_vector": True, "useVector": False},
            {"use_vector": False, "mode": "semantic"},
            {"useVector": True, "mode": "keyword"},
        ],
    )
    def test_what_contradicts_itself_is_refused(self, placed: Memorist, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=r"use_?[vV]ector"):
            placed.search("fern", **options)


class TestFtsSearch:
    @pytest.fixture(autouse=True)
    def _fillers(self, memory: Memorist) -> None:
        memory.add_many(f"filler number {n}" for n in range(60))

    @staticmethod
    def search(memory: Memorist, query: str, **options: object) -> Results:
        return memory.search(query, profile="semantic-first", **options)

    def test_bm25_is_normalised_to_zero_to_one_with_the_better_match_higher(self, memory: Memorist) -> None:
        memory.add("fern fern fern")
        memory.add("somewhere in this long text about nothing in particular a fern is mentioned as well")

        best, worse = self.search(memory, "fern")

        assert best.memory.content == "fern fern fern"
        assert best.score == pytest.approx(min(1, (best.keyword_score or 0) / 10))
        assert worse.score == pytest.approx(min(1, (worse.keyword_score or 0) / 10))
        assert 1 >= best.score > worse.score > 0

    def test_the_snippet_is_64_words_around_the_match(self, memory: Memorist) -> None:
        memory.add(" ".join(f"before{n}" for n in range(300)) + " fern " + " ".join(f"after{n}" for n in range(300)))

        wide = self.search(memory, "fern")[0].snippet
        narrow = self.search(memory, "fern", snippet_words=32)[0].snippet

        assert "<mark>fern</mark>" in wide
        assert len(wide.split()) == 64
        assert len(narrow.split()) == 32
        assert wide.startswith("…")
        assert wide.endswith("…")

    @pytest.mark.parametrize("query", ['fern"', "fern OR (", "fern:", "-fern", "fern*)", "NEAR fern", "f'ern fern"])
    def test_the_query_is_escaped(self, memory: Memorist, query: str) -> None:
        memory.add("one fern")

        assert texts(self.search(memory, query))[:1] == ["one fern"]


class TestNamespace:
    @pytest.fixture
    def walls(self, path: Path) -> Iterator[tuple[Memorist, Memorist]]:
        with (
            memorist.open(path, namespace="left", embedder=CosineEmbedder()) as left,
            memorist.open(path, namespace="right", embedder=CosineEmbedder()) as right,
        ):
            left.add("@0.9 fern of the left")
            right.add("@0.9 fern of the right")
            yield left, right

    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_a_search_stays_within_it(self, walls: tuple[Memorist, Memorist], mode: str) -> None:
        left, right = walls

        assert texts(left.search("fern", profile="semantic-first", mode=mode)) == ["@0.9 fern of the left"]
        assert texts(right.search("fern", profile="semantic-first", mode=mode)) == ["@0.9 fern of the right"]

    def test_nothing_else_crosses_it_either(self, walls: tuple[Memorist, Memorist]) -> None:
        left, right = walls
        (foreign,) = right.list()

        assert [one.content for one in left.list()] == ["@0.9 fern of the left"]
        assert left.get([foreign.id]).missing == (foreign.id,)
        for crossing in (left.get, left.forget, left.restore, left.history):
            with pytest.raises(NotFound):
                crossing(foreign.id)
        with pytest.raises(NotFound):
            left.forget(foreign.id, hard=True)
        with pytest.raises(NotFound):
            left.update(foreign.id, content="taken over")
        assert left.purge() == 0
        assert [one.content for one in right.list()] == ["@0.9 fern of the right"]

    def test_the_same_text_can_be_in_both(self, walls: tuple[Memorist, Memorist]) -> None:
        left, right = walls

        assert left.add("@0.9 moss").id != right.add("@0.9 moss").id


class TestGracefulDegradation:
    def test_without_embeddings_it_is_full_text_search_that_says_so(self, memory: Memorist) -> None:
        memory.add("one fern")

        results = memory.search("fern", profile="semantic-first")

        assert texts(results) == ["one fern"]
        assert results[0].match == ("fts",)
        assert results.degraded

    def test_a_provider_that_fails_costs_no_memory_and_its_vectors_are_made_later(self, path: Path) -> None:
        embedder = FailingEmbedder()
        with memorist.open(path, embedder=embedder, profile="semantic-first") as memory:
            memory.add("one fern")
            during = memory.search("fern")
            embedder.broken = False
            memory.add("one moss")
            after = memory.search("one fern")
            assert memory.stats().pending == 0

        assert texts(during) == ["one fern"]
        assert during.degraded
        assert after[0].match == ("vector",)
        assert after[0].similarity == pytest.approx(1.0, abs=1e-3)
        assert after.degraded is None

    def test_entries_without_an_embedding_are_still_found_by_their_words(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("@0.9 an old fern")
        with memorist.open(path, embedder=CosineEmbedder(), profile="semantic-first") as memory:
            results = memory.search("fern")

        assert texts(results) == ["@0.9 an old fern"]
        assert results.degraded is not None
        assert "reembed" in results.degraded


class TestConfiguration:
    ORIGINAL = """{
      "memory": {
        "vectorSearch": {
          "enabled": true,
          "provider": "openai",  // or "ollama"
          "model": "text-embedding-3-small"
        }
      }
    }"""

    @pytest.mark.parametrize("name", ["config.json", "config.toml"])
    @pytest.mark.parametrize("before", ["", "\ufeff\n  ", "// AgentStack\n", "/* of\n   AgentStack */ "])
    def test_its_json_is_refused_with_what_to_write_instead(self, tmp_path: Path, name: str, before: str) -> None:
        file = tmp_path / name
        file.write_text(before + self.ORIGINAL, "utf-8")

        with pytest.raises(ConfigError) as refused:
            config.load({"MEMORIST_CONFIG": str(file)}, tmp_path, {})

        assert "is JSON, and settings are TOML" in str(refused.value)
        assert "[memory.vectorSearch]" in str(refused.value)

    def test_other_forms_are_told_that_settings_are_toml(self, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text("memory:\n  vectorSearch: true\n")

        with pytest.raises(ConfigError, match=r"config\.yaml cannot be read as TOML: "):
            config.load({"MEMORIST_CONFIG": str(file)}, tmp_path, {})

    def test_its_section_in_toml_is_understood(self, tmp_path: Path) -> None:
        file = tmp_path / "config.toml"
        file.write_text('[memory.vectorSearch]\nprovider = "openai"\nmodel = "text-embedding-3-small"\n')

        loaded = config.load({"MEMORIST_CONFIG": str(file)}, tmp_path, {})

        assert loaded.settings.embedder == "openai:text-embedding-3-small"


class TestProviders:
    @pytest.mark.parametrize(
        ("provider", "dimensions"),
        [
            ("openai:text-embedding-3-small", 1536),
            ("openai:text-embedding-3-large", 3072),
            ("ollama:nomic-embed-text", 768),
        ],
    )
    def test_its_models_are_known_with_their_dimensions_before_any_call(
        self, provider: str, dimensions: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "not used")
        embedder = create_embedder(provider)

        assert embedder is not None
        assert embedder.dimensions == dimensions
        assert provider.partition(":")[2] in embedder.model_id
