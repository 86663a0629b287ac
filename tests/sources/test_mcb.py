"""mcb's memory search: triggers, rank fusion that needs no tuning, no ghosts, no N+1; profile="rank"."""

import math
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import memorist
from answers import texts
from cosine_embedder import CosineEmbedder
from memorist import Memorist
from statements import record_statements


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(steps=True), profile="rank") as memory:
        yield memory


@pytest.fixture
def beside(path: Path, memory: Memorist) -> Iterator[apsw.Connection]:
    """Another program at the same file, which knows the main table and nothing of the indexes."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    yield connection
    connection.close()


class TestSynchronizationTriggers:
    def test_an_insert_reaches_the_index(self, memory: Memorist) -> None:
        memory.add("The lighthouse token_auth writes everything down")

        assert len(memory.search("lighthouse", profile="rank")) == 1

    def test_an_update_of_the_main_table_reaches_the_index(self, memory: Memorist, beside: apsw.Connection) -> None:
        memory.add("The lighthouse token_auth writes everything down")
        beside.execute("update memories set content = 'The windmill token_auth writes everything down'")

        assert texts(memory.search("windmill", profile="rank")) == ["The windmill token_auth writes everything down"]
        assert texts(memory.search("lighthouse", profile="rank")) == []

    def test_a_delete_from_the_main_table_reaches_the_index(self, memory: Memorist, beside: apsw.Connection) -> None:
        memory.add("The lighthouse token_auth writes everything down")
        beside.execute("delete from memories")

        assert texts(memory.search("lighthouse", profile="rank")) == []
        assert beside.execute("select count(*) from memories_stems where memories_stems match 'lighthouse'").get == 0

    def test_the_indexes_still_agree_after_many_changes(self, memory: Memorist) -> None:
        ids = memory.add_many(f"observation number {n}" for n in range(40))
        for id in ids[::2]:
            memory.update(id, content=f"changed {id}")
        for id in ids[::3]:
            memory.forget(id)
        memory.restore(ids[0])
        memory.forget(ids[1], hard=True)

        report = memory.check()

        assert report.ok, report.problems

    def test_the_index_can_be_read_by_id_without_a_join(self, memory: Memorist, beside: apsw.Connection) -> None:
        kept = memory.add("a live observation")
        gone = memory.add("a forgotten observation")
        memory.forget(gone.id)

        assert list(beside.execute("select id, content from observations_fts")) == [(kept.id, "a live observation")]

    def test_the_index_can_be_searched_by_the_name_and_the_words_of_mcb(
        self, memory: Memorist, beside: apsw.Connection
    ) -> None:
        near = memory.add("a walrus, a walrus")
        far = memory.add("one walrus among a good many other animals, none of which is asked for here")
        memory.add("a seal")
        gone = memory.add("a forgotten walrus")
        memory.forget(gone.id)
        sql = "SELECT id FROM observations_fts WHERE observations_fts MATCH ? ORDER BY rank LIMIT ?"

        assert list(beside.execute(sql, ("walrus", 10))) == [(near.id,), (far.id,)]
        assert list(beside.execute(sql, ("walrus", 1))) == [(near.id,)]
        assert list(beside.execute("select id from observations_fts where content match 'animal'")) == [(far.id,)]
        scores = "select bm25(observations_fts), rank from observations_fts where observations_fts match 'walrus'"
        assert all(score == rank < 0 for score, rank in beside.execute(scores))


class TestPlainSQL:
    INSERT = """
        insert into memories(
            id, namespace, content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at,
            recorded_at)
        values (?, 'default', ?, x'', 'semantic', 'project', 0.5, 0, 0, 0, 0)
    """

    def test_the_main_table_can_be_joined_with_the_index_by_its_name(
        self, memory: Memorist, beside: apsw.Connection
    ) -> None:
        walrus = memory.add("a walrus", kind="animal")
        memory.add("a seal", kind="animal")
        memory.forget(memory.add("a forgotten walrus").id)
        query = """
            select o.id, o.content, o.kind, snippet(observations_fts, 0, '<', '>', '...', 8)
            from observations_fts join observations o on {}
            where observations_fts match 'walrus' order by rank
        """

        expected = [(walrus.id, "a walrus", "animal", "a <walrus>")]
        assert list(beside.execute(query.format("o.id = observations_fts.id"))) == expected
        assert list(beside.execute(query.format("o.rowid = observations_fts.rowid"))) == expected
        some = "select content from observations where id in (?)"
        assert list(beside.execute(some, (walrus.id,))) == [("a walrus",)]

    def test_the_snippet_of_the_first_column_is_that_of_the_content(
        self, memory: Memorist, beside: apsw.Connection
    ) -> None:
        memory.add("many words before the walrus comes", title="Animals", tags=["sea"])
        sql = (
            "select snippet(observations_fts, 0, '<mark>', '</mark>', '...', 3) from observations_fts where {} match ?"
        )

        for column in ("observations_fts", "content"):
            assert beside.execute(sql.format(column), ("walrus",)).get == "...the <mark>walrus</mark> comes"

    def test_rows_that_another_program_writes_are_no_damage_and_damage_is_still_found(
        self, memory: Memorist, beside: apsw.Connection
    ) -> None:
        memory.add("a walrus")
        kept = memory.add("a seal")
        for id, content in (("one", "written elsewhere"), ("two", "and another"), ("three", "a walrus")):
            beside.execute(self.INSERT, (id, content))
        beside.execute("update memories set content = 'a seal, changed elsewhere' where id = ?", (kept.id,))

        before = memory.check()
        assert before.ok, before.problems
        assert [note for note in before.skipped if "4" in note and "no hash yet" in note]
        memory.update("one", content="written elsewhere, changed here")
        assert [note for note in memory.check().skipped if "3" in note]
        assert memory.check(repair=True).skipped == memory.check().skipped == ()
        assert memory.add("and another").id == "two"  # known by its text now

        beside.execute("update memories set content = 'rotten', content_hash = randomblob(32) where id = 'two'")
        (problem,) = memory.check().problems
        assert "two" in problem


class TestGhostRows:
    def test_search_never_returns_an_id_the_main_table_does_not_have(self, placed: Memorist, path: Path) -> None:
        ids = placed.add_many(f"@{n} the same words in observation {n}" for n in range(20))
        placed.search("words")  # the scan in memory knows all of them now
        for id in ids[:5]:
            placed.forget(id, hard=True)
        for id in ids[5:10]:
            placed.forget(id)

        for mode in ("hybrid", "keyword", "semantic"):
            found = [hit.memory.id for hit in placed.search("words", limit=20, mode=mode)]
            assert sorted(found) == sorted(ids[10:])
            assert placed.get(found).missing == ()


class TestReciprocalRankFusion:
    def test_first_in_both_lists_has_two_sixty_firsts(self, placed: Memorist) -> None:
        placed.add("@1 walrus")
        placed.add("@2 seal")

        first, second = placed.search("walrus")

        assert first.raw["rrf"] == pytest.approx(1 / 61 + 1 / 61)
        assert first.score == pytest.approx(1.0)
        assert second.raw["rrf"] == pytest.approx(1 / 62)
        assert second.score == pytest.approx(61 / 62 / 2)

    def test_the_just_sum_it_trap_a_huge_bm25_does_not_drown_the_vectors(self, placed: Memorist) -> None:
        placed.add_many(f"@{n} filler {n}" for n in range(2, 12))
        placed.add("@30 " + "walrus " * 40)
        placed.add("@1 one walrus among a good many other animals, none of which is asked for here at all")

        results = placed.search("walrus")

        assert results[0].memory.content.startswith("@1 ")
        assert (results[0].keyword_score or 0) < max(hit.keyword_score or 0 for hit in results)

    def test_a_result_of_both_legs_outranks_results_of_one(self, placed: Memorist) -> None:
        placed.add("@20 walrus walrus walrus")
        placed.add("@1 nothing of the kind")
        placed.add("@2 a walrus and more of the kind")
        placed.add_many(f"@{n} filler" for n in range(3, 10))

        (hit,) = placed.search("walrus", limit=1)  # three candidates a leg

        assert hit.memory.content == "@2 a walrus and more of the kind"
        assert hit.match == ("keyword", "vector")
        assert hit.raw["rrf"] == pytest.approx(1 / 62 + 1 / 62)

    @pytest.mark.parametrize("profile", ["rank", "notes"])
    def test_match_names_each_leg_that_has_a_share_of_the_score(self, placed: Memorist, profile: str) -> None:
        placed.add("@0 nothing of the kind")
        placed.add("@16 a walrus that lies across")  # 1.6 rad: its cosine is below 0

        hit = next(hit for hit in placed.search("walrus", profile=profile) if "walrus" in hit.memory.content)

        assert (hit.similarity or 0) < 0
        assert hit.match == tuple(leg for leg in ("keyword", "vector") if hit.trace[leg])

    def test_k_can_be_changed(self, placed: Memorist) -> None:
        placed.add("@1 walrus")

        (hit,) = placed.search("walrus", k=1)

        assert hit.raw["rrf"] == pytest.approx(1 / 2 + 1 / 2)

    def test_no_tuning_and_no_boost_the_trace_has_the_two_legs_only(self, placed: Memorist) -> None:
        placed.add("@1 walrus", sector="reflective", salience=1.0, created_at="2020-01-01")

        (hit,) = placed.search("walrus")

        assert set(hit.trace) == {"keyword", "vector"}
        assert math.fsum(hit.trace.values()) == pytest.approx(hit.score)

    def test_the_order_is_the_same_every_time_and_ties_go_to_the_newer(self, memory: Memorist) -> None:
        memory.add("walrus one", created_at="2026-01-01T00:00Z")
        memory.add("walrus two", created_at="2026-01-03T00:00Z")
        memory.add("walrus six", created_at="2026-01-02T00:00Z")

        orders = {tuple(texts(memory.search("walrus", fusion="convex"))) for _ in range(5)}

        assert orders == {("walrus two", "walrus six", "walrus one")}


class TestKeywordAmnesia:
    @pytest.mark.parametrize(
        "identifier", ["frobnicate_widget", "ADR-016", "src/auth/session.py", "E4031", "parse2json", "a.b.c"]
    )
    def test_exact_terms_are_found_whatever_the_model_makes_of_them(self, placed: Memorist, identifier: str) -> None:
        placed.add_many(f"@{n} a sentence about something else, number {n}" for n in range(30))
        placed.add(f"@31 call {identifier} before the commit")

        best = placed.search(identifier)

        assert any(identifier in hit.memory.content and "keyword" in hit.match for hit in best)

    def test_stemming_is_handled(self, memory: Memorist) -> None:
        memory.add("She was running migrations all night")

        assert len(memory.search("runs migration", profile="rank")) == 1

    @pytest.mark.parametrize("query", ['"', "what's up?", "(x", "AND", "foo: bar", "a^b", "NEAR(x y)", "*", "C++"])
    def test_no_query_is_a_syntax_error(self, memory: Memorist, query: str) -> None:
        memory.add("nothing in here is asked for")

        assert list(memory.search(query, profile="rank")) == []


class TestStatements:
    """Pitfall 3: no N+1 queries on search."""

    def test_a_search_takes_at_most_six_statements_whatever_the_limit(self, tmp_path: Path) -> None:
        counts: dict[tuple[str, int], int] = {}
        embedder = CosineEmbedder(steps=True)
        with (
            record_statements() as statements,
            memorist.open(tmp_path / "c.db", embedder=embedder, profile="rank") as memory,
        ):
            memory.add_many(f"@{n % 30} observation {n} of the walrus" for n in range(300))
            for mode in ("keyword", "semantic", "hybrid"):
                for limit in (1, 10, 100):
                    memory.search("a warm walrus", mode=mode, limit=limit, project=None)
                    statements.clear()
                    assert len(memory.search(f"walrus observation {limit}", mode=mode, limit=limit)) == limit
                    counts[mode, limit] = len(statements)

        assert max(counts.values()) <= 6, counts
        assert min(counts.values()) > 0


class TestFilters:
    def test_a_filter_and_a_limit_still_fill_the_page(self, placed: Memorist) -> None:
        """mcb cuts before it filters, so a rare project comes back empty: the case to avoid."""
        placed.add_many({"content": f"@1 walrus {n}", "project": "common"} for n in range(300))
        placed.add_many({"content": f"@9 a walrus is mentioned {n}", "project": "rare"} for n in range(10))

        for mode in ("hybrid", "keyword", "semantic"):
            results = placed.search("walrus", project="rare", limit=10, mode=mode)
            assert [hit.memory.project for hit in results] == ["rare"] * 10


class TestProgressiveDisclosure:
    def test_layer_two_gives_id_score_and_snippet(self, placed: Memorist) -> None:
        added = placed.add("@1 " + "many words before the walrus comes " * 40 + "walrus")

        (hit,) = placed.search("walrus")

        assert hit.memory.id == added.id
        assert 0 < hit.score <= 1
        assert added.content.startswith(hit.snippet.removesuffix("…"))
        assert len(hit.snippet) <= 101

    def test_a_hit_of_meaning_alone_shows_the_beginning_of_its_content(self, placed: Memorist) -> None:
        content = "@1 " + " ".join(f"word{n}" for n in range(500))
        placed.add(content)

        (hit,) = placed.search("zzz")

        assert hit.match == ("vector",)
        assert content.startswith(hit.snippet.removesuffix("…"))
        assert hit.snippet.endswith("…")

    def test_layer_three_gives_full_objects_in_the_order_asked(self, memory: Memorist) -> None:
        ids = memory.add_many(f"observation {n} " + "text " * 500 for n in range(5))

        asked = [ids[3], ids[0], ids[4]]

        assert [one.id for one in memory.get(asked)] == asked
        assert all(len(one.content) > 2000 for one in memory.get(asked))
