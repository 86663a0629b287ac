"""Facets: how many memories have each value, over all that matches and not only the page."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from answers import ids
from clock import days_ago
from cosine_embedder import CosineEmbedder
from memorist import InvalidInput, Memorist, Memory
from memorist import open as open_memory
from memorist.records import FACETS


def local_month(memory: Memory) -> str:
    return f"{memory.created_at.astimezone():%Y-%m}"


VALUES: dict[str, Callable[[Memory], set[str | None]]] = {
    "project": lambda memory: {memory.project},
    "sector": lambda memory: {memory.sector},
    "tier": lambda memory: {memory.tier},
    "kind": lambda memory: {memory.kind},
    "tag": lambda memory: set(memory.tags),
    "source": lambda memory: {memory.source},
    "fact_kind": lambda memory: {fact.kind for fact in memory.facts},
    "month": lambda memory: {local_month(memory)},
}


def by_hand(memories: list[Memory], field: str) -> dict[str, int]:
    return Counter(value for memory in memories for value in VALUES[field](memory) if value is not None)


@pytest.fixture(scope="module")
def assorted() -> Iterator[Memorist]:
    """A random store, only to be read; every word stands in about half of the memories."""
    chance = random.Random(20261115)
    words = ["badger", "otter", "weasel", "部署"]

    def maybe(values: list[Any]) -> Any:
        return chance.choice([None, *values])

    with open_memory(":memory:", embedder="none") as memory:
        memory.add_many(
            {
                "content": " ".join([f"note {number}", *(word for word in words if chance.random() < 0.5)]),
                "project": maybe(["api", "web"]),
                "sector": chance.choice(["semantic", "episodic", "reflective"]),
                "tier": chance.choice(["project", "global"]),
                "kind": maybe(["adr", "note"]),
                "tags": chance.sample(["a", "b", "c"], chance.randrange(4)),
                "source": maybe(["README.md", "chat"]),
                "facts": [
                    {"text": f"fact {number} {place}", "kind": maybe(["state", "location"])}
                    for place in range(chance.randrange(3))
                ],
                "created_at": datetime(2026, chance.randint(1, 12), 15, 12, tzinfo=UTC),
            }
            for number in range(150)
        )
        for one in memory.list(limit=1000):
            if chance.random() < 0.1:
                memory.forget(one.id)
        everybody = ids(memory.list(limit=1000))
        for id in chance.sample(everybody[1:], 10):
            memory.supersede(id, everybody[0])
        yield memory


class TestCounting:
    @pytest.mark.parametrize("field", FACETS)
    def test_without_a_query_every_field_is_counted_over_all(self, assorted: Memorist, field: str) -> None:
        holding = [*assorted.list(limit=1000, include_superseded=False)]

        assert assorted.facets(fields=[field]) == {field: by_hand(holding, field)}

    @pytest.mark.parametrize("field", FACETS)
    @pytest.mark.parametrize("query", ["badger", "otter weasel", "部署", "nobody says this"])
    def test_with_a_query_every_field_is_counted_over_all_that_matches(
        self, assorted: Memorist, field: str, query: str
    ) -> None:
        words = query.split()
        holding = assorted.list(limit=1000, include_superseded=False)
        matching = [one for one in holding if any(word in one.content.split() for word in words)]
        expected = {field: by_hand(matching, field)}

        assert assorted.facets(query, [field]) == expected
        assert assorted.search(query, limit=1, facets=[field]).facets == expected

    def test_behind_a_filter_all_that_matches_is_counted_and_not_only_the_candidates(self) -> None:
        with open_memory(":memory:", embedder=CosineEmbedder()) as memory:
            memory.add_many(
                {"content": f"@{n % 90} badger {n}", "project": ["api", "web"][n % 2], "kind": f"k{n % 3}"}
                for n in range(400)
            )
            memory.add_many({"content": f"@{n % 90} otter {n}", "project": "api", "kind": "other"} for n in range(100))

            counted = memory.search("badger", limit=1, project="api", mode="keyword", facets=["kind", "project"]).facets

        assert counted == {"kind": {"k0": 67, "k2": 67, "k1": 66}, "project": {"api": 200}}

    def test_they_do_not_depend_on_the_page(self, assorted: Memorist) -> None:
        one, many = (assorted.search("badger", limit=limit, facets=["sector"]) for limit in (1, 1000))

        assert len(one) == 1
        assert one.facets == many.facets
        assert sum(one.facets["sector"].values()) == len(many)

    @pytest.mark.parametrize(
        "filters",
        [
            {"project": "api"},
            {"project": ["api", "web"]},
            {"sector": "episodic"},
            {"tier": "global"},
            {"kind": "adr"},
            {"source": "chat"},
            {"tags": "a"},
            {"tags": ["a", "b"]},
            {"fact_kind": "state"},
            {"fact_kind": ["state", "location"]},
            {"month": "2026-03"},
            {"month": ["2026-03", "2026-04"]},
            {"since": "2026-06", "until": "2026-09"},
            {"project": "api", "tags": "a", "month": ["2026-03", "2026-04", "2026-05", "2026-06"]},
        ],
    )
    def test_every_filter_narrows_search_listing_and_facets_alike(
        self, assorted: Memorist, filters: dict[str, Any]
    ) -> None:
        def passes(memory: Memory) -> bool:
            for name, wanted in filters.items():
                asked = {wanted} if isinstance(wanted, str) else set(wanted)
                if name == "tags":
                    fits = asked <= set(memory.tags)
                elif name in ("since", "until"):
                    fits = (local_month(memory) >= wanted) == (name == "since")
                else:
                    fits = bool(asked & VALUES[name](memory))
                if not fits:
                    return False
            return True

        holding = [one for one in assorted.list(limit=1000, include_superseded=False) if passes(one)]
        matching = [one for one in holding if "badger" in one.content]

        assert holding
        assert set(ids(assorted.list(limit=1000, include_superseded=False, **filters))) == set(ids(holding))
        assert set(ids(assorted.search("badger", limit=1000, **filters))) == set(ids(matching))
        assert assorted.facets(None, **filters) == {field: by_hand(holding, field) for field in FACETS}
        assert assorted.facets("badger", **filters) == {field: by_hand(matching, field) for field in FACETS}

    def test_in_a_large_store_all_that_matches_is_counted(self, memory: Memorist) -> None:
        """The page has ten hits: nine of a kind that the facets then do not know."""
        memory.add_many({"content": f"note {number} on the harvest", "kind": "common"} for number in range(2500))
        memory.add("note on the badger", kind="rare")

        results = memory.search("note badger", facets=["kind"])

        assert [hit.memory.kind for hit in results] == ["rare"] + ["common"] * 9
        assert results.facets == {"kind": {"common": 2500, "rare": 1}}

    def test_the_commonest_come_first(self, assorted: Memorist) -> None:
        for counts in assorted.facets().values():
            assert list(counts.values()) == sorted(counts.values(), reverse=True)

    def test_superseded_ones_are_counted_where_they_are_searched(self, memory: Memorist) -> None:
        old, new = (
            memory.add("badger old", kind="a", on_near_duplicate="off"),
            memory.add("badger new", kind="b", on_near_duplicate="off"),
        )
        memory.supersede(old.id, new.id)

        assert memory.search("badger", facets=["kind"]).facets == {"kind": {"b": 1}}
        assert memory.search("badger", include_superseded=True, facets=["kind"]).facets == {"kind": {"a": 1, "b": 1}}

    def test_several_facts_of_a_kind_are_one_memory(self, memory: Memorist) -> None:
        memory.add("badger", facts=[{"text": text, "kind": "state"} for text in ("one", "two", "three")])

        assert memory.facets("badger", ["fact_kind"]) == {"fact_kind": {"state": 1}}

    def test_found_by_a_fact_it_is_counted(self, memory: Memorist) -> None:
        memory.add("an animal", kind="k", facts=["badgers dig"])

        assert memory.facets("badger", ["kind"]) == {"kind": {"k": 1}}


class TestGrammars:
    @pytest.fixture(autouse=True)
    def _animals(self, memory: Memorist) -> None:
        for number, text in enumerate(["badger otter", "badger weasel", "otter weasel", "badger", "badgering"]):
            memory.add(text, kind=f"k{number}", on_near_duplicate="off")

    @pytest.mark.parametrize(
        ("grammar", "query"),
        [
            ("auto", "badger otter"),
            ("auto", '"badger otter"'),
            ("auto", "badg*"),
            ("and", "badger otter"),
            ("or", "badger otter"),
            ("or_prefix", "badg"),
            ("fts5", "badger NOT otter"),
            ("fts5", "badger OR weasel"),
            ("fts5", "badger otter"),
            ("fts5", '"otter weasel"'),
            ("fts5", "badg* NOT otter"),
            ("fts5", "NOT ((a syntax error badger"),
            ("auto", "badg* weasel"),
            ("and", "badger nobody"),
        ],
    )
    def test_what_is_counted_is_what_is_found(self, memory: Memorist, grammar: str, query: str) -> None:
        results = memory.search(query, grammar=grammar, facets=["kind"], limit=100)

        assert results.facets == {"kind": {hit.memory.kind: 1 for hit in results}}

    @pytest.mark.parametrize("profile", ["confidence", "notes", "salience"])
    def test_facets_alone_speak_the_grammar_of_the_profile(self, tmp_path: Any, profile: str) -> None:
        with open_memory(tmp_path / "other.db", embedder="none", profile=profile, on_near_duplicate="off") as memory:
            for text in ("badger otter", "badger weasel", "badgering"):
                memory.add(text, kind=text)
            for query in ("badger otter", "badger NOT otter", "badger", "nobody"):
                found = {hit.memory.kind: 1 for hit in memory.search(query, record="off")}
                assert memory.facets(query, ["kind"]) == {"kind": found}

    def test_what_is_found_inside_of_words_is_counted(self, memory: Memorist) -> None:
        results = memory.search("adgeri", facets=["kind"])

        assert len(results) == 1
        assert results.facets == {"kind": {"k4": 1}}


class TestMeaning:
    def test_what_is_found_by_meaning_is_counted(self, tmp_path: Any) -> None:
        with open_memory(tmp_path / "placed.db", embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
            memory.add("@0.9 otter", kind="near")
            memory.add("@0.1 badger", kind="word")
            memory.add("@0.2 weasel", kind="far")

            results = memory.search("badger", min_similarity=0.5, facets=["kind"], limit=1)

            assert results.facets == {"kind": {"near": 1, "word": 1}}

    def test_a_semantic_search_counts_what_is_near_only(self, tmp_path: Any) -> None:
        with open_memory(tmp_path / "placed.db", embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
            memory.add("@0.9 otter", kind="near")
            memory.add("@0.1 badger", kind="word")

            results = memory.search("badger", mode="semantic", min_similarity=0.5, facets=["kind"])

            assert [hit.memory.kind for hit in results] == ["near"]
            assert results.facets == {"kind": {"near": 1}}


class TestThePast:
    def test_as_of_a_time_what_held_then_is_counted(self, memory: Memorist) -> None:
        memory.add("badger old", kind="a", created_at=days_ago(30), on_near_duplicate="off")
        memory.add("badger new", kind="b", on_near_duplicate="off")

        assert memory.facets("badger", ["kind"], as_of=days_ago(10)) == {"kind": {"a": 1}}
        assert memory.facets(None, ["kind"], as_of=days_ago(10)) == {"kind": {"a": 1}}
        assert memory.search("badger", as_of=days_ago(10), facets=["kind"]).facets == {"kind": {"a": 1}}


class TestArguments:
    def test_all_fields_unless_told(self, memory: Memorist) -> None:
        assert tuple(memory.facets()) == FACETS
        assert FACETS == ("project", "sector", "tier", "kind", "tag", "source", "fact_kind", "month")

    def test_none_with_a_search_unless_asked(self, memory: Memorist) -> None:
        memory.add("badger", kind="k")

        assert memory.search("badger").facets == {}

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_tags_is_as_good_as_tag_and_twice_as_good_as_once(self, memory: Memorist) -> None:
        memory.add("badger", tags=["a"])

        assert memory.facets("badger", ["tags", "tag"]) == {"tag": {"a": 1}}
        assert memory.search("badger", facets="tag").facets == {"tag": {"a": 1}}

    @pytest.mark.parametrize("query", ["", "   "])
    def test_an_empty_query_matches_nothing(self, memory: Memorist, query: str) -> None:
        memory.add("badger", kind="k")

        assert memory.facets(query, ["kind"]) == {"kind": {}}

    def test_in_an_empty_store_there_is_nothing_to_count(self, memory: Memorist) -> None:
        assert memory.facets("badger") == memory.facets() == {field: {} for field in FACETS}

    @pytest.mark.local_only("a server refuses it in other words")
    def test_an_unknown_field_or_filter_is_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="facet 'colour' is unknown"):
            memory.facets(fields=["colour"])
        with pytest.raises(InvalidInput, match="facet 'colour' is unknown"):
            memory.search("badger", facets=["colour"])
        with pytest.raises(InvalidInput, match="no filter 'colour'"):
            memory.facets(colour="red")
        with pytest.raises(InvalidInput, match="month 'march' is not a month"):
            memory.search("badger", month="march")

    def test_those_of_another_namespace_are_behind_the_wall(self, memory: Memorist, path: Any) -> None:
        memory.add("badger", kind="secret", tags=["secret"], facts=[{"text": "x", "kind": "secret"}])
        with open_memory(path, embedder="none", namespace="other") as other:
            assert other.facets() == other.facets("badger") == {field: {} for field in FACETS}

    @pytest.mark.sqlite_only("a connection keeps the time zone in which it was made")
    def test_a_month_is_one_of_the_users_calendar(self, memory: Memorist, monkeypatch: pytest.MonkeyPatch) -> None:
        import time

        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        try:
            memory.add("badger", created_at="2026-04-01T03:00Z")  # still March there
            counted = memory.facets("badger", ["month"])
            found = len(memory.search("badger", month="2026-03")), len(memory.search("badger", month="2026-04"))
        finally:
            monkeypatch.undo()
            time.tzset()

        assert counted == {"month": {"2026-03": 1}}
        assert found == (1, 0)

    @pytest.mark.sqlite_only("a connection keeps the time zone in which it was made")
    def test_a_search_by_month_follows_a_changed_time_zone(
        self, memory: Memorist, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import time

        memory.add("badger", created_at="2026-03-31T23:30Z")
        try:
            found = []
            for zone in ("UTC", "Asia/Tokyo"):
                monkeypatch.setenv("TZ", zone)
                time.tzset()
                found.append(len(memory.search("badger", month="2026-04")))
        finally:
            monkeypatch.undo()
            time.tzset()

        assert found == [0, 1]
