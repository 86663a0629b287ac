"""From far away first and closer after: index rows, snippets, full memories, many by id at once."""

from collections.abc import Callable
from typing import Any

import pytest

from answers import ids
from memorist import InvalidInput, Memorist, Memory

LONG = "the badger digs " * 60

READERS: dict[str, Callable[..., Any]] = {
    "search": lambda memory, **options: [hit.memory for hit in memory.search("badger", **options)],
    "list": lambda memory, **options: memory.list(**options),
    "timeline": lambda memory, **options: memory.timeline(**options),
}
readers = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@pytest.fixture
def badger(memory: Memorist) -> Memory:
    return memory.add(
        LONG,
        project="api",
        kind="howto",
        tags=["a", "b"],
        title="Badgers",
        source="README.md",
        metadata={"n": 1},
        facts=["at night"],
    )


class TestDetail:
    @readers
    def test_an_index_row_has_all_but_the_text(self, memory: Memorist, badger: Memory, read: Any) -> None:
        (row,) = read(memory, detail="index")

        assert (row.content, row.metadata) == ("", {})
        assert row.summary is not None
        assert row.summary.startswith("the badger digs the badger")
        assert len(row.summary) <= 101
        assert (row.id, row.created_at, row.kind, row.tags) == (badger.id, badger.created_at, "howto", ("a", "b"))
        assert (row.project, row.title, row.source) == ("api", "Badgers", "README.md")

    @readers
    def test_a_snippet_has_the_beginning_of_the_text(self, memory: Memorist, badger: Memory, read: Any) -> None:
        (row,) = read(memory, detail="snippet")

        assert LONG.startswith(row.content.removesuffix("…"))
        assert 200 < len(row.content) <= 301
        assert row.content.endswith("…")
        assert row.summary is not None
        assert len(row.summary) <= 101

    @readers
    def test_full_is_all_of_it(self, memory: Memorist, badger: Memory, read: Any) -> None:
        (row,) = read(memory, detail="full")

        assert (row.content, row.metadata, row.summary) == (LONG, {"n": 1}, None)
        assert row.id == badger.id

    @pytest.mark.parametrize("read", [READERS["search"], READERS["list"]])
    def test_search_and_list_are_full_unless_told(self, memory: Memorist, badger: Memory, read: Any) -> None:
        assert read(memory)[0].content == LONG

    @readers
    def test_a_summary_of_its_own_is_kept(self, memory: Memorist, read: Any) -> None:
        memory.add("the badger digs", summary="on digging " * 30)

        for detail in ("index", "snippet", "full"):
            (row,) = read(memory, detail=detail)
            assert row.summary == "on digging " * 30

    @readers
    def test_a_short_memory_loses_nothing_to_a_snippet(self, memory: Memorist, read: Any) -> None:
        memory.add("the badger digs")

        assert read(memory, detail="snippet")[0].content == "the badger digs"

    @pytest.mark.local_only("a server refuses it in other words")
    @readers
    @pytest.mark.parametrize("detail", ["everything", "", None, 5])
    def test_another_word_is_refused(self, memory: Memorist, read: Any, detail: Any) -> None:
        with pytest.raises(InvalidInput, match="detail"):
            read(memory, detail=detail)

    def test_layer_two_is_id_score_and_snippet(self, memory: Memorist, badger: Memory) -> None:
        results = memory.search("digs", detail="index")

        (hit,) = results
        assert results.detail == "index"
        assert hit.memory.id == badger.id
        assert hit.score > 0
        assert "<mark>digs</mark>" in hit.snippet
        assert len(hit.snippet) < len(LONG)

    def test_every_detail_has_the_same_hits_and_scores(self, memory: Memorist, badger: Memory) -> None:
        memory.add("another badger", on_near_duplicate="off")

        answers = [memory.search("badger digs", detail=detail) for detail in ("index", "snippet", "full")]

        assert len({tuple((hit.memory.id, hit.score, hit.snippet) for hit in answer) for answer in answers}) == 1

    def test_what_replaced_it_and_where_it_comes_from_is_told_in_every_detail(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        old, new = (
            memory.add("badger old", session="sess1", on_near_duplicate="off"),
            memory.add("badger new", on_near_duplicate="off"),
        )
        memory.supersede(old.id, new.id)

        for detail in ("index", "snippet", "full"):
            row = memory.list(detail=detail)[1]
            assert row.superseded_by is not None
            assert row.superseded_by.id == new.id
            assert row.session is not None
            assert row.session.id == "sess1"


class TestManyById:
    def test_they_come_in_the_order_asked_in_full(self, memory: Memorist) -> None:
        made = memory.add_many(f"memory {number}" for number in range(10))
        asked = [made[7], made[0], made[9], made[3]]

        found = memory.get(asked)

        assert ids(found) == asked
        assert found.missing == ()
        assert [one.content for one in found] == ["memory 7", "memory 0", "memory 9", "memory 3"]
        assert memory.get(tuple(asked)).memories == found.memories

    def test_those_not_found_are_named_in_the_order_asked(self, memory: Memorist) -> None:
        known, gone, erased = memory.add_many(["known", "gone", "erased"])
        memory.forget(gone)
        memory.forget(erased, hard=True)

        found = memory.get(["nobody-1", gone, known, erased, "nobody-2"])

        assert ids(found) == [known]
        assert found.missing == ("nobody-1", gone, erased, "nobody-2")

    def test_parts_and_repetitions_are_answered_each(self, memory: Memorist) -> None:
        one, other = memory.add_many(["one", "other"])

        assert ids(memory.get([other[-8:], one, other])) == [other, one, other]

    def test_none_asked_for_is_none_found(self, memory: Memorist) -> None:
        found = memory.get([])

        assert (found.memories, found.missing) == ((), ())

    def test_hundreds_at_once(self, memory: Memorist) -> None:
        made = memory.add_many(f"memory {number}" for number in range(700))

        assert ids(memory.get(made[::-1])) == made[::-1]

    @pytest.mark.parametrize("asked", [5, None, {"a": 1}, [5], [""]])
    def test_what_is_no_id_is_refused(self, memory: Memorist, asked: Any) -> None:
        with pytest.raises(InvalidInput):
            memory.get(asked)

    def test_superseded_ones_are_given_marked(self, memory: Memorist) -> None:
        old, new = memory.add_many(["old", "new"])
        memory.supersede(old, new)

        assert [one.superseded for one in memory.get([old, new])] == [True, False]

    def test_facts_come_with_what_is_left_of_them(self, memory: Memorist) -> None:
        added = memory.add("one", facts=[{"text": "a fact", "confidence": 0.5}])

        assert memory.get([added.id])[0].facts[0].effective == pytest.approx(0.5)

    def test_from_index_to_full(self, memory: Memorist, badger: Memory) -> None:
        """Three steps, each a little closer: timeline, search, get."""
        index = memory.timeline(start="2000")
        found = memory.search("badger", detail="snippet")

        whole = memory.get([index[0].id, found[0].memory.id])

        assert [one.content for one in whole] == [LONG, LONG]
