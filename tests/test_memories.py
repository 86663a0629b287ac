"""The life of a memory: in, changed, forgotten, brought back, erased."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import memorist
from memorist import Ambiguous, InvalidInput, Memorist, NotFound
from statements import record_statements


class TestAdding:
    def test_a_memory_comes_back_with_everything_it_was_given(self, memory: Memorist) -> None:
        when = datetime(2026, 3, 31, 18, 0, 0, 123456, tzinfo=UTC)

        added = memory.add(
            "We deploy with `make ship`",
            project="api",
            sector="procedural",
            tier="global",
            kind="howto",
            tags=["deploy", "ci", "deploy"],
            salience=0.9,
            source="README.md",
            title="Deployment",
            summary="how to ship",
            metadata={"author": "anna", "nested": {"n": [1, 2.5, None, True]}},
            created_at=when,
        )

        again = memory.get(added.id)
        assert again == added
        assert (again.project, again.sector, again.tier, again.kind) == ("api", "procedural", "global", "howto")
        assert again.tags == ("deploy", "ci")
        assert (again.salience, again.source, again.title, again.summary) == (
            0.9,
            "README.md",
            "Deployment",
            "how to ship",
        )
        assert again.metadata == {"author": "anna", "nested": {"n": [1, 2.5, None, True]}}
        assert again.created_at == when

    def test_ids_sort_in_the_order_of_adding(self, memory: Memorist) -> None:
        ids = memory.add_many(f"memory {number}" for number in range(50))

        assert ids == sorted(ids)
        assert len(set(ids)) == 50

    def test_an_exact_duplicate_is_the_same_memory_reinforced(self, memory: Memorist) -> None:
        first = memory.add("the same words", project="api")
        second = memory.add("the same words", project="api", tags=["new"])

        assert second.id == first.id
        assert second.salience == pytest.approx(first.salience + 0.1 * (1 - first.salience))
        assert second.reinforced_at > first.reinforced_at
        assert len(memory.list()) == 1

    def test_the_same_text_in_another_project_is_another_memory(self, memory: Memorist) -> None:
        ids = {memory.add("the same words", project=project).id for project in ("api", "web", None)}

        assert len(ids) == 3

    def test_a_forgotten_text_can_be_added_anew(self, memory: Memorist) -> None:
        first = memory.add("the same words")
        memory.forget(first.id)

        assert memory.add("the same words").id != first.id

    def test_an_id_of_ones_own_is_kept_and_guarded(self, memory: Memorist) -> None:
        memory.add("first", id="ticket-1234")

        assert memory.get("ticket-1234").content == "first"
        assert memory.add("first", id="ticket-1234").id == "ticket-1234"
        with pytest.raises(InvalidInput, match="belongs to another memory"):
            memory.add("second", id="ticket-1234", if_exists="error")

    def test_many_are_added_with_their_fields_and_progress(self, memory: Memorist) -> None:
        seen: list[int] = []

        ids = memory.add_many(
            [{"content": "a", "tags": ["x"]}, "b"] + [f"c{n}" for n in range(600)], progress=seen.append
        )

        assert memory.get(ids[0]).tags == ("x",)
        assert memory.get(ids[1]).content == "b"
        assert seen == sorted(seen)
        assert seen[-1] == 602

    def test_a_bad_item_is_named_and_those_before_it_are_kept(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match=r"item 3 .*content is empty.*2 before it were added"):
            memory.add_many(["one", "two", "", "four"])

        assert sorted(m.content for m in memory.list()) == ["one", "two"]

    def test_what_no_database_can_store_is_replaced_and_the_rest_kept(self, memory: Memorist) -> None:
        added = memory.add("half \ud83d pair and \x00 nothing")

        assert memory.get(added.id).content == "half \ufffd pair and \ufffd nothing"

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize(
        ("fields", "complaint"),
        [
            ({"content": ""}, "content is empty"),
            ({"content": " \n\t "}, "content is empty"),
            ({"content": None}, "content must be text"),
            ({"content": b"bytes"}, "content must be text, not bytes"),
            ({"content": "x" * 1_000_001}, "at most 1,000,000 fit"),
            ({"content": "x", "sector": "dreams"}, "sector 'dreams' is unknown"),
            ({"content": "x", "tier": "cloud"}, "tier 'cloud' is unknown"),
            ({"content": "x", "salience": 1.5}, "salience must be from 0 to 1"),
            ({"content": "x", "salience": -0.1}, "salience must be from 0 to 1"),
            ({"content": "x", "salience": float("nan")}, "salience must be from 0 to 1"),
            ({"content": "x", "salience": "high"}, "salience must be a number"),
            ({"content": "x", "salience": True}, "salience must be a number"),
            ({"content": "x", "tags": 5}, "tags must be text or a list"),
            ({"content": "x", "tags": [5]}, "a tag must be text"),
            ({"content": "x", "project": ""}, "project is empty"),
            ({"content": "x", "project": 7}, "project must be text"),
            ({"content": "x", "metadata": [1]}, "metadata must be a mapping"),
            ({"content": "x", "metadata": {"a": object()}}, "what JSON knows"),
            ({"content": "x", "metadata": {"a": float("nan")}}, "what JSON knows"),
            ({"content": "x", "created_at": "soonish"}, "created_at 'soonish' is not a time"),
            ({"content": "x", "created_at": float("inf")}, "is not a time"),
            ({"content": "x", "id": "a\tb"}, "cannot be used; it may have no control characters"),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_is_written(
        self, memory: Memorist, fields: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            memory.add(**fields)

        assert len(memory.list()) == 0

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_field_that_does_not_exist_is_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="no field 'colour'"):
            memory.add_many([{"content": "x", "colour": "red"}])


class TestTimes:
    def test_any_form_of_a_time_is_stored_in_utc(self, memory: Memorist) -> None:
        moment = datetime(2026, 3, 31, 16, 0, tzinfo=UTC)

        forms = ["2026-03-31T18:00+02:00", "2026-03-31T16:00:00Z", moment, moment.timestamp()]

        assert {memory.add(f"at {n}", created_at=form).created_at for n, form in enumerate(forms)} == {moment}

    def test_a_bare_date_is_midnight_of_the_callers_zone(
        self, memory: Memorist, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import time

        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        try:
            added = memory.add("x", created_at="2026-03-31")
        finally:
            monkeypatch.undo()
            time.tzset()

        assert added.created_at == datetime(2026, 3, 31, 4, 0, tzinfo=UTC)


class TestFindingById:
    def test_a_unique_beginning_or_ending_will_do(self, memory: Memorist) -> None:
        added = memory.add("x")

        assert memory.get(added.short_id).id == added.id
        assert memory.get(added.id[-6:]).id == added.id
        assert memory.get(added.id[:20]).id == added.id

    def test_a_part_that_several_have_is_refused_with_the_choices(self, memory: Memorist) -> None:
        one, other = "018f0000-0000-7000-8000-00000000000a", "018f0000-0000-7000-8000-00000000000b"
        memory.add("x", id=one)
        memory.add("y", id=other)

        with pytest.raises(Ambiguous, match=f"{one}, {other}"):
            memory.get("018f0000")

    def test_a_whole_id_of_a_forgotten_memory_is_not_the_beginning_of_another(self, memory: Memorist) -> None:
        memory.add("the first", id="018f00")
        eleventh = memory.add("the eleventh", id="018f0000-0000-7000-8000-00000000000a")
        memory.forget("018f00")

        assert memory.get(["018f00"]).missing == ("018f00",)
        with pytest.raises(NotFound, match="forgotten"):
            memory.get("018f00")
        assert memory.get("018f0000") == eleventh

    def test_an_id_that_is_not_a_uuid_is_named_whole(self, memory: Memorist) -> None:
        added = memory.add("the eleventh", id="note-011")

        assert memory.get(["note-01", "ote-011", "note-011"]).memories == (added,)
        assert added.short_id == "note-011"

    @pytest.mark.parametrize("id", ["nobody", "short", "%", "______", "' or 1=1 --", "\x00" * 8])
    def test_an_unknown_id_is_not_found(self, memory: Memorist, id: str) -> None:
        memory.add("x")

        with pytest.raises(NotFound):
            memory.get(id)

    def test_many_come_in_the_order_asked_naming_those_not_found(self, memory: Memorist) -> None:
        a, b = memory.add("a"), memory.add("b")

        found = memory.get([b.id, "nobody-here", a.id])

        assert [m.content for m in found] == ["b", "a"]
        assert found.missing == ("nobody-here",)


class TestListing:
    def test_pages_cover_everything_once_newest_first(self, memory: Memorist) -> None:
        same_time = datetime(2026, 1, 1, tzinfo=UTC)
        memory.add_many({"content": f"memory {n}", "created_at": same_time + timedelta(days=n // 3)} for n in range(10))

        seen, cursor = [], None
        while True:
            page = memory.list(limit=4, cursor=cursor)
            seen += [m.content for m in page]
            cursor = page.cursor
            if cursor is None:
                break

        assert seen == [f"memory {n}" for n in reversed(range(10))]

    def test_pages_go_on_after_the_last_memory_of_one_was_erased(self, memory: Memorist) -> None:
        same_time = datetime(2026, 1, 1, tzinfo=UTC)
        memory.add_many({"content": f"memory {n}", "created_at": same_time} for n in range(9))
        seen, cursor = [], None
        while True:
            page = memory.list(limit=2, cursor=cursor)
            seen += [m.content for m in page]
            cursor = page.cursor
            if cursor is None:
                break
            memory.forget(page[-1].id, hard=len(seen) % 4 == 0)

        assert seen == [f"memory {n}" for n in reversed(range(9))]

    def test_a_cursor_tells_nothing_of_what_others_write(self, target: Path | str, memory: Memorist) -> None:
        def page_through() -> list[str | None]:
            cursors: list[str | None] = [memory.list(limit=1).cursor]
            while cursors[-1]:
                cursors.append(memory.list(limit=1, cursor=cursors[-1]).cursor)
            return cursors

        cursors = []
        for name in ("quiet", "loud"):
            memory.add_many({"id": f"{n}", "content": f"{n}", "created_at": f"2026-01-0{n + 1}"} for n in range(4))
            cursors.append(page_through())
            memory.forget_many(since="2020-01-01", hard=True)
            with memorist.open(target, embedder="none", namespace=name) as other:
                other.add_many(f"theirs {n}" for n in range(100))

        assert cursors[0] == cursors[1]

    @pytest.mark.local_only("a server refuses it in other words")
    def test_a_limit_has_no_upper_bound_but_a_lower_one(self, memory: Memorist) -> None:
        assert len(memory.list(limit=1_000_000)) == 0
        for limit in (0, -1, "5", None, True):
            with pytest.raises(InvalidInput):
                memory.list(limit=limit)  # type: ignore[arg-type]

    @pytest.mark.local_only("a server refuses it in other words")
    def test_filters_are_those_of_search(self, memory: Memorist) -> None:
        memory.add("a", project="api", tags=["x", "y"])
        memory.add("b", project="web", tags=["x"])

        assert [m.content for m in memory.list(project="api")] == ["a"]
        assert [m.content for m in memory.list(tags=["x", "y"])] == ["a"]
        assert len(memory.list(project=["api", "web"])) == 2
        with pytest.raises(InvalidInput, match="there is no filter"):
            memory.list(colour="red")


class TestUpdating:
    def test_the_former_text_is_kept_as_history(self, memory: Memorist) -> None:
        added = memory.add("retries are capped at 5", title="Retries", tags=["api"])

        memory.update(added.id, content="retries are capped at 3", tags=["api", "new"])
        memory.update(added.id, title=None)

        now = memory.get(added.id)
        assert (now.content, now.title, now.tags) == ("retries are capped at 3", None, ("api", "new"))
        assert [(v.content, v.title, v.tags) for v in memory.history(added.id)] == [
            ("retries are capped at 3", "Retries", ("api", "new")),
            ("retries are capped at 5", "Retries", ("api",)),
        ]

    def test_search_knows_the_new_text_and_not_the_old(self, memory: Memorist) -> None:
        added = memory.add("the zebra is striped")

        memory.update(added.id, content="the giraffe is tall")

        assert len(memory.search("zebra")) == 0
        assert len(memory.search("giraffe")) == 1

    def test_an_update_that_changes_nothing_leaves_no_history(self, memory: Memorist) -> None:
        added = memory.add("x")

        assert memory.update(added.id, content="x") == added
        assert memory.history(added.id) == []

    def test_it_cannot_become_the_twin_of_another_memory(self, memory: Memorist) -> None:
        memory.add("first")
        second = memory.add("second")

        with pytest.raises(InvalidInput, match="has exactly this text"):
            memory.update(second.id, content="first")
        assert memory.get(second.id).content == "second"

    @pytest.mark.parametrize("changes", [{}, {"id": "other-id"}, {"created_at": 0}, {"sector": None}, {"content": ""}])
    def test_what_cannot_be_changed_is_refused(self, memory: Memorist, changes: dict[str, Any]) -> None:
        added = memory.add("x")

        with pytest.raises(InvalidInput):
            memory.update(added.id, **changes)


class TestForgetting:
    def test_a_forgotten_memory_is_found_nowhere_until_it_is_restored(self, memory: Memorist) -> None:
        added = memory.add("the zebra is striped")
        memory.forget(added.id)

        assert len(memory.search("zebra")) == len(memory.list()) == 0
        with pytest.raises(NotFound, match="was forgotten; restore it first"):
            memory.update(added.id, content="y")
        assert [m.id for m in memory.list(deleted=True)] == [added.id]

        assert memory.restore(added.id).deleted_at is None
        assert [hit.memory.id for hit in memory.search("zebra")] == [added.id]

    def test_restoring_what_is_there_or_was_said_again_is_refused(self, memory: Memorist) -> None:
        added = memory.add("twin")
        with pytest.raises(NotFound, match="is not forgotten"):
            memory.restore(added.id)
        memory.forget(added.id)
        memory.add("twin")
        with pytest.raises(InvalidInput, match="a newer memory"):
            memory.restore(added.id)

    def test_purging_erases_only_what_was_forgotten_before(self, memory: Memorist) -> None:
        kept, gone = memory.add("kept"), memory.add("gone")
        memory.forget(gone.id)

        assert memory.purge(before="2020-01-01") == 0
        assert memory.purge() == 1
        assert [m.id for m in memory.list()] == [kept.id]
        assert len(memory.list(deleted=True)) == 0

    @pytest.mark.parametrize("hard", [True, False])
    def test_after_a_purge_nothing_of_it_is_left_in_the_file(self, path: Path, hard: bool) -> None:
        secret = "xylophonezebra"
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"filler number {n} with some words around it" for n in range(200))
            added = memory.add(f"the {secret} text", title=f"{secret} title", tags=[secret], metadata={"k": secret})
            memory.update(added.id, content=f"another {secret} text")
            memory.forget(added.id, hard=hard)
            memory.purge()
            assert memory.check().ok

            for file in path.parent.iterdir():
                assert secret.encode() not in file.read_bytes(), file.name

    def test_a_hard_delete_leaves_no_row_in_any_table(self, path: Path, bundled_model: object) -> None:
        with memorist.open(path, embedder=bundled_model) as memory:  # type: ignore[arg-type]
            added = memory.add("the zebra is striped", tags=["animal"])
            memory.update(added.id, content="the zebra has stripes")
            memory.forget(added.id, hard=True)

            with sqlite3.connect(path) as raw:
                for table in ("memories", "memory_tags", "memory_history", "vectors", "unembedded"):
                    assert raw.execute(f"select count(*) from {table}").fetchone() == (0,), table
            raw.close()
            assert len(memory.search("zebra")) == 0
            assert memory.check().ok


class TestNamespaces:
    def test_nothing_crosses_the_wall(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="anna") as anna,
            memorist.open(path, embedder="none", namespace="ben") as ben,
        ):
            hers = anna.add("the zebra is striped", id="shared-looking-id")

            assert len(ben.search("zebra")) == len(ben.list()) == 0
            for call in (ben.get, ben.forget, ben.restore, ben.history):
                with pytest.raises(NotFound):
                    call(hers.id)
            with pytest.raises(NotFound):
                ben.update(hers.id, content="mine")
            with pytest.raises(NotFound):
                ben.forget(hers.id, hard=True)
            assert ben.purge() == 0
            assert ben.stats().memories == 0
            assert anna.get(hers.id).content == "the zebra is striped"

    def test_forgotten_memories_of_others_survive_a_purge(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="anna") as anna,
            memorist.open(path, embedder="none", namespace="ben") as ben,
        ):
            hers = anna.add("x")
            anna.forget(hers.id)
            ben.purge()

            assert anna.restore(hers.id).content == "x"


class TestOpening:
    def test_a_closed_memory_says_so(self, path: Path) -> None:
        memory = memorist.open(path, embedder="none")
        memory.close()
        memory.close()

        with pytest.raises(memorist.StoreError, match="has been closed"):
            memory.add("x")

    def test_reading_what_does_not_exist_is_empty_and_creates_nothing(self, tmp_path: Path) -> None:
        with memorist.open(tmp_path / "deep" / "none.db", embedder="none", read_only=True) as memory:
            assert len(memory.search("anything")) == len(memory.list()) == 0

        assert list(tmp_path.iterdir()) == []

    def test_read_only_refuses_to_write_and_reads(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("the zebra")
        with memorist.open(path, embedder="none", read_only=True) as memory:
            assert len(memory.search("zebra")) == 1
            with pytest.raises(memorist.StoreError, match="read-only"):
                memory.add("x")

    @pytest.mark.parametrize("there_is", ["a database", "an empty file", "nothing", ":memory:"])
    def test_read_only_every_write_is_refused_alike(self, path: Path, there_is: str) -> None:
        if there_is == "a database":
            memorist.open(path, embedder="none").close()
        elif there_is == "an empty file":
            path.touch()
        target = there_is if there_is == ":memory:" else path
        writes: list[Callable[[Memorist], object]] = [
            lambda memory: memory.add("x"),
            lambda memory: memory.add_many(["x"]),
            lambda memory: memory.sessions.add_turn("user", "x", conversation="c"),
            lambda memory: memory.sessions.start(),
            lambda memory: memory.lenses.set("mine", kind="note"),
            lambda memory: memory.searches.clear(),
            lambda memory: memory.files.create("/memories/a.md", "x"),
            lambda memory: memory.forget_many(project="p"),
            lambda memory: memory.purge(),
        ]

        with memorist.open(target, embedder="none", read_only=True) as memory:
            for write in writes:
                with pytest.raises(memorist.StoreError, match=f"{target} was opened read-only"):
                    write(memory)
            assert memory.count() == 0
        assert path.exists() == (there_is in ("a database", "an empty file"))

    def test_in_memory_there_is_no_file_and_threads_share_it(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with memorist.open(":memory:", embedder="none") as memory:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda n: memory.add(f"memory {n}"), range(40)))

            assert memory.stats().memories == 40

    @pytest.mark.parametrize(
        "arguments",
        [
            {"profile": "best"},
            {"synchronous": "off"},
            {"busy_timeout": -1},
            {"namespace": ""},
            {"target": ""},
        ],
    )
    def test_arguments_that_cannot_be_used_are_refused(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            memorist.open(**{"target": ":memory:", "embedder": "none"} | arguments)


@pytest.mark.parametrize("past", [False, True])
def test_a_memory_is_found_by_a_part_of_its_id_without_reading_the_others(path: Path, past: bool) -> None:
    with record_statements() as seen, memorist.open(path, embedder="none") as memory:
        ids = memory.add_many(f"note {number}" for number in range(50))
        seen.clear()
        for part in (ids[7][-8:], ids[7][:-1]):
            assert memory.get(part, as_of=datetime.now(UTC) if past else None).id == ids[7]

    with closing(apsw.Connection(str(path))) as plain:
        plans = {row[3] for sql, values in seen for row in plain.execute(f"explain query plan {sql}", values)}
    assert "SEARCH e USING INDEX memories_by_ending (namespace=? AND <expr>=?)" in plans
    assert not [plan for plan in plans if plan.endswith("(namespace=?)") or plan.startswith("SCAN m")]
