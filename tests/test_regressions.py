"""Bugs that were there once, each by what a user saw of it."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

import memorist
from conftest import FailingEmbedder, HashingEmbedder
from memorist import EmbedderError, InvalidInput, Memorist, NotFound, StoreCorrupt, StoreError
from processes import FORK_OPTIONS, forks, start_program, wait_for_end
from statements import record_statements


class TestWalls:
    def test_hits_do_not_vanish_when_another_namespace_appears(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="anna") as anna,
            memorist.open(path, embedder="none", namespace="ben") as ben,
        ):
            anna.add_many(f"long story number {n} in which at some point a fox appears" for n in range(5))
            assert len(anna.search("fox")) == 5

            ben.add_many(f"fox fox {n}" for n in range(200))

            assert len(anna.search("fox")) == 5

    def test_pruning_leaves_the_vectors_of_other_namespaces_and_a_sound_database(self, path: Path) -> None:
        with (
            memorist.open(path, embedder=HashingEmbedder("a"), namespace="anna") as anna,
            memorist.open(path, embedder=HashingEmbedder("b"), namespace="ben") as ben,
        ):
            forgotten = anna.add("forgotten")
            anna.forget(forgotten.id)
            anna.add("hers")
            ben.add("his")

            anna.reembed(HashingEmbedder("c"), prune=True)

            assert ben.stats().models == {"b": 1}
            assert anna.stats().models == {"c": 1}
            assert anna.check().problems == ()
            anna.restore(forgotten.id)
            anna.add("one more")
            assert anna.stats().models == {"c": 3}

    def test_an_id_taken_in_another_namespace_is_free_in_this_one(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="anna") as anna,
            memorist.open(path, embedder="none", namespace="ben") as ben,
        ):
            anna.add("hers", id="note-001")
            ben.add("his", id="note-001")

            assert (anna.get("note-001").content, ben.get("note-001").content) == ("hers", "his")


class TestFindingEverything:
    def test_a_large_page_is_filled_in_a_large_store(self, memory: Memorist) -> None:
        memory.add_many(f"{'red' if n % 3 else 'red fox'} number {n} and other words" for n in range(9000))

        assert len(memory.search("red fox", mode="keyword", limit=1000)) == 1000

    def test_words_left_out_come_back_for_a_page_of_a_hundred(self, memory: Memorist) -> None:
        memory.add_many(f"a zebra {n}" for n in range(25))
        memory.add_many(f"the number {n}" for n in range(100))

        assert len(memory.search("the zebra", mode="keyword", limit=100)) == 100

    @pytest.mark.parametrize("grammar", ["auto", "or", "and", "or_prefix", "fts5"])
    def test_thousands_of_different_characters_without_a_space_are_no_error(
        self, memory: Memorist, grammar: str
    ) -> None:
        text = "".join(chr(0x4E00 + n) for n in range(3000))
        memory.add(text)

        memory.search(text, grammar=grammar)

    def test_an_identifier_far_into_a_long_memory_is_found_first_and_shown(self, memory: Memorist) -> None:
        memory.add_many(f"a note about {n}" for n in range(20))
        wanted = memory.add("filler words " * 3000 + "then QX7731 was noted " + "and so on " * 100)

        hit = memory.search("QX7731 note", mode="keyword")[0]

        assert hit.memory.id == wanted.id
        assert "<mark>QX7731</mark>" in hit.snippet
        assert hit.relevance > 0.5

    def test_in_a_store_of_two_the_right_memory_is_relevant(self, memory: Memorist) -> None:
        memory.add("we deploy every Friday")
        memory.add("lunch is at noon")

        hit = memory.search("deploy frequency")[0]

        assert hit.memory.content.startswith("we deploy")
        assert hit.score > 0.1

    def test_beginnings_with_accents_cover_what_they_find(self, memory: Memorist) -> None:
        memory.add("a crème brûlée recipe")

        for query in ("crèm*", '"crème brû"*', "Brûl*"):
            assert memory.search(query, mode="keyword")[0].relevance > 0.5

    def test_korean_and_japanese_in_decomposed_form_are_found(self, memory: Memorist) -> None:
        import unicodedata

        for word in ("서울", "がぎ"):
            memory.add(unicodedata.normalize("NFD", f"{word} x"))
            assert len(memory.search(word, mode="keyword")) == 1

    def test_a_quoted_chinese_phrase_stays_together(self, memory: Memorist) -> None:
        memory.add("我们部署在周五")
        memory.add("部署很难，现在")

        assert len(memory.search('"部署在"', mode="keyword")) == 1

    def test_dot_net_is_not_the_net(self, memory: Memorist) -> None:
        memory.add("net income rose, net of tax")
        wanted = memory.add("the service that nobody likes to touch is written in .NET 8")

        assert memory.search(".NET", mode="keyword")[0].memory.id == wanted.id

    def test_an_empty_list_is_no_filter_for_everything(self, memory: Memorist) -> None:
        memory.add("x", project="secret")

        with pytest.raises(InvalidInput, match="empty list"):
            memory.search("x", project=[])

    @pytest.mark.parametrize("mode", ["hybrid", "semantic"])
    def test_scripts_the_model_does_not_know_are_not_all_alike(self, understanding: Memorist, mode: str) -> None:
        understanding.add("ราชอาณาจักรไทย")

        for question in ("ქართული", "አማርኛ", "🚀🎉"):
            found = understanding.search(question, mode=mode, on_no_vector="keyword", noise_floor=False)
            assert [hit.relevance for hit in found if hit.relevance > 0.5] == []

    def test_only_what_holds_the_symbols_is_relevant_to_them(self, memory: Memorist) -> None:
        memory.add_many(["C# is nice", "I like C a lot", "C++ compiles slowly"])

        assert [h.memory.content for h in memory.search("C++", min_relevance=0.7)] == ["C++ compiles slowly"]

    def test_a_part_of_a_word_with_accents_is_found(self, memory: Memorist) -> None:
        memory.add("Übertragungsfehler")

        for part in ("übertrag", "ÜBERTRAG", "fehler"):
            assert len(memory.search(part, mode="keyword")) == 1

    def test_too_many_tags_in_a_filter_are_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="at most 100"):
            memory.search("x", tags=[f"tag {n}" for n in range(2000)])

    def test_new_words_count_as_they_are_and_not_as_they_were(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"alpha {n}" for n in range(20))
            memory.search("alpha beta")
            memory.add_many(f"beta {n}" for n in range(100))
            warm = memory.search("alpha beta")[0]
        with memorist.open(path, embedder="none") as memory:
            assert memory.search("alpha beta")[0].score == pytest.approx(warm.score)


class TestSnippets:
    def test_a_stem_far_into_a_long_memory_is_shown(self, memory: Memorist) -> None:
        memory.add("filler words " * 4000 + "they deployed the rocket" + " and so on" * 50)

        assert "<mark>deployed</mark> the <mark>rocket</mark>" in memory.search("deploying rockets")[0].snippet

    @pytest.mark.parametrize(
        "content",
        ["部署" * 8000, "A" * 15_000 + " needle", "e\u0301" * 1000, "word " * 5000, "x" * 999_999],
        ids=["one run", "one word", "accents", "many words", "a million"],
    )
    def test_a_snippet_is_short_whatever_the_memory_is(self, hashed: Memorist, content: str) -> None:
        hashed.add(content)

        hit = hashed.search("needle 部署 word", noise_floor=False)[0]

        assert len(hit.snippet.replace("<mark>", "").replace("</mark>", "")) < 400


class TestManyAtOnce:
    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_an_error_of_the_items_own_iterator_keeps_what_came_before(self, memory: Memorist) -> None:
        def items() -> Any:
            yield "one"
            yield "two"
            raise OSError("the disk went away")

        with pytest.raises(OSError, match="went away"):
            memory.add_many(items())

        assert len(memory.list()) == 2

    def test_an_id_that_is_taken_is_named_by_its_item_and_the_ones_before_are_kept(self, memory: Memorist) -> None:
        memory.add("there already", id="taken-id")

        with pytest.raises(InvalidInput, match="item 3 cannot be added: the id taken-id"):
            memory.add_many(["one", "two", {"content": "three", "id": "taken-id", "if_exists": "error"}, "four"])

        assert sorted(m.content for m in memory.list()) == ["one", "there already", "two"]


class TestModels:
    def test_a_text_the_model_refuses_does_not_starve_the_others(self, path: Path) -> None:
        class Picky(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                if any("poison" in text for text in texts):
                    raise ValueError("not this one")
                return super().embed(texts)

        with memorist.open(path, embedder=Picky()) as memory:
            memory.add_many(["one", "poison", "three", "four"])
            assert memory.stats().vectors == 3

            with pytest.raises(EmbedderError, match="1 texts could not be embedded"):
                memory.reembed()
            memory.add("five")
            assert memory.stats().vectors == 4

    @pytest.mark.parametrize("bad", [[0, 1, 2, 3], [400, 401, 402], list(range(0, 600, 7)), [599]], ids=str)
    def test_refused_texts_anywhere_leave_all_others_embedded(self, path: Path, bad: list[int]) -> None:
        class Picky(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                if any("poison" in text for text in texts):
                    raise ValueError("not this one")
                return super().embed(texts)

        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"{'poison' if n in bad else 'good'} {n}" for n in range(600))
        with memorist.open(path, embedder=Picky()) as memory:
            for n in range(4):
                memory.add(f"another {n}")
            assert memory.stats().pending == len(bad)
            with pytest.raises(EmbedderError, match=f"{len(bad)} texts could not be embedded"):
                memory.reembed()

    def test_a_model_that_refuses_everything_is_not_asked_for_every_text(self, path: Path) -> None:
        class Broken(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                self.calls += 1
                raise ValueError("never")

        model = Broken()
        with memorist.open(path, embedder=model) as memory:
            memory.add_many(f"memory {n}" for n in range(256))

            assert memory.stats().memories == 256
            assert model.calls < 60

    def test_a_tag_changed_while_the_text_is_embedded_does_not_cost_the_vector(self, path: Path) -> None:
        class Slow(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                with memorist.open(path, embedder="none") as other:
                    for one in other.list():
                        other.update(one.id, tags=["changed"])
                return super().embed(texts)

        with memorist.open(path, embedder=Slow()) as memory:
            memory.add("a text")

            assert memory.stats().vectors == 1

    def test_a_text_changed_while_it_is_embedded_does_not_get_the_old_vector(self, path: Path) -> None:
        class Slow(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                with memorist.open(path, embedder="none") as other:
                    for one in other.list(tags="late"):
                        other.update(one.id, content="something else entirely", tags=[])
                return super().embed(texts)

        with memorist.open(path, embedder=Slow()) as memory:
            memory.add("the first text", tags=["late"])

            assert memory.stats().pending == 0
            assert memory.search("something else entirely", mode="semantic")[0].similarity == pytest.approx(1, abs=1e-3)

    def test_numbers_are_shown_though_the_provider_is_away(self, path: Path) -> None:
        with memorist.open(path, embedder="ollama:unknown-model") as memory:
            assert memory.stats().model == "ollama:unknown-model"

    def test_every_lost_vector_is_made_again_by_a_repair(self, path: Path) -> None:
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.add_many(f"memory {n}" for n in range(600))
            raw = apsw.Connection(str(path))
            raw.execute("update vectors set vector = zeroblob(128)")
            raw.close()
            assert not memory.check().ok

            assert memory.check(repair=True).ok
            assert memory.stats().pending == 0
            assert memory.check().problems == ()

    def test_a_damaged_vector_says_how_to_mend_it(self, path: Path) -> None:
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.add("a text")
        raw = apsw.Connection(str(path))
        raw.execute("update vectors set vector = x'00'")
        raw.close()
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            with pytest.raises(StoreCorrupt, match="repair the database"):
                memory.search("a text")
            assert memory.check(repair=True).ok
            assert len(memory.search("a text")) == 1

    def test_a_sound_database_is_called_sound_while_others_write(self, path: Path) -> None:
        stop = threading.Event()

        def update(memory: Memorist, id: str) -> None:
            number = 0
            while not stop.is_set():
                memory.update(id, content=f"changed {id} {number}")
                number += 1

        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            ids = memory.add_many(f"memory {n}" for n in range(3000))
            threads = [threading.Thread(target=update, args=[memory, ids[n]]) for n in (10, 1500)]
            for thread in threads:
                thread.start()
            try:
                assert all(memory.check().ok for _ in range(5))
            finally:
                stop.set()
                for thread in threads:
                    thread.join()

    def test_what_was_held_back_by_similarity_is_counted(self, hashed: Memorist) -> None:
        hashed.add("red fox")

        results = hashed.search("blue dog", mode="semantic", min_similarity=0.9)

        assert len(results) == 0
        assert results.hidden == {"min_similarity": 1}


class TestClosingAndForking:
    def test_searching_a_closed_memory_is_a_clear_error(self, path: Path) -> None:
        memory = memorist.open(path, embedder=HashingEmbedder())
        memory.add("x")
        memory.search("x")
        memory.close()

        with pytest.raises(StoreError, match="has been closed"):
            memory.search("x")

    def test_changing_the_model_while_others_search_disturbs_nobody(self, path: Path) -> None:
        errors: list[Exception] = []
        stop = threading.Event()

        def search(memory: Memorist) -> None:
            while not stop.is_set():
                try:
                    memory.search("memory")
                except Exception as exc:
                    errors.append(exc)

        with memorist.open(path, embedder=HashingEmbedder("first")) as memory:
            memory.add_many(f"memory {n}" for n in range(50))
            threads = [threading.Thread(target=search, args=[memory]) for _ in range(3)]
            for thread in threads:
                thread.start()
            for n in range(10):
                memory.reembed(HashingEmbedder(f"model {n}"))
            stop.set()
            for thread in threads:
                thread.join()

        assert errors == []

    SEARCHING = """
        import os, sys, threading, memorist
        from conftest import HashingEmbedder
        memory = memorist.open(sys.argv[1], embedder=HashingEmbedder())
        memory.add_many(f"memory {n}" for n in range(100))
        stop = threading.Event()
        def search():
            while not stop.is_set():
                memory.search("memory")
        threads = [threading.Thread(target=search) for _ in range(4)]
        [thread.start() for thread in threads]
        for _ in range(15):
            child = os.fork()
            if child == 0:
                found = len(memory.search("memory", limit=5))
                os._exit(0 if found == 5 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop.set()
        [thread.join() for thread in threads]
        print("done")
    """

    @forks
    def test_a_child_forked_while_other_threads_search_can_search(self, path: Path) -> None:
        with start_program(self.SEARCHING, path, options=FORK_OPTIONS) as process:
            assert wait_for_end(process) == (0, "done\n")


class TestWrongTypes:
    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize(
        "call",
        [
            lambda m: m.get(123),
            lambda m: m.get(None),
            lambda m: m.list(cursor=5),
            lambda m: m.list(cursor="9" * 30 + ":1"),
            lambda m: m.list(limit=10**30),
            lambda m: m.search("x", columns=5),
            lambda m: m.search("x", columns={"colour": 1}),
            lambda m: m.search("x", sector_boosts=5),
            lambda m: m.search("x", match_labels={"keyword": "k"}),
            lambda m: m.search("x", recency={"weight": "x"}),
            lambda m: m.search("x", recency={"form": "bogus"}),
            lambda m: m.search("x", strict_fallback="maybe"),
            lambda m: m.search("x", k=1.5),
            lambda m: m.add("x", metadata={"deep": _deep()}),
            lambda m: memorist.open(123),
            lambda m: memorist.open(b"abc"),
            lambda m: memorist.open("mysql://localhost/x"),
            lambda m: memorist.open(":memory:", threads="4"),
        ],
    )
    def test_they_are_refused_with_our_own_error(self, memory: Memorist, call: Any) -> None:
        with pytest.raises(InvalidInput):
            call(memory)

    def test_a_memory_in_memory_may_be_opened_read_only(self) -> None:
        with memorist.open(":memory:", read_only=True, embedder="none") as memory:
            assert len(memory.list()) == 0

    def test_getting_a_forgotten_memory_says_that_it_was_forgotten(self, memory: Memorist) -> None:
        added = memory.add("x")
        memory.forget(added.id)

        with pytest.raises(NotFound, match="was forgotten"):
            memory.get(added.id)


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


def test_an_incomplete_store_is_searched_in_at_most_six_statements_too(path: Path) -> None:
    model = FailingEmbedder()
    model.broken = False
    with record_statements() as seen, memorist.open(path, embedder=model) as memory:
        memory.add_many({"content": f"memory {n}", "project": f"p{n % 3}"} for n in range(300))
        model.broken = True
        memory.add("no vector for this")
        model.broken = False
        memory.search("memory", project="p1")
        seen.clear()
        results = memory.search("memory", project="p1")

    assert "1 of 301 memories have no vector" in (results.degraded or "")
    assert len(seen) <= 6


def test_full_text_indexes_that_are_gone_are_made_again_by_a_repair(memory: Memorist, path: Path) -> None:
    memory.add("Retries are capped")
    raw = apsw.Connection(str(path))
    for index in ("memories_stems", "memories_words"):
        raw.execute(f"drop table {index}")
    raw.close()

    assert not memory.check().ok
    assert memory.check(repair=True).ok
    assert len(memory.search("retries")) == 1
    memory.add("Retries are counted")
    assert memory.check().ok
