"""Long memories: what stands in the middle of one is found by its meaning, and shown."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import memorist
from clock import now
from conftest import FailingEmbedder, HashingEmbedder
from memorist import Memorist
from memorist.embed.local import LocalEmbedder
from memorist.ingest.vectorizer import (
    MAX_VECTORS,
    MIN_PART_CHARACTERS,
    TITLE_TOKENS,
    _split_by_sentence,
    cut_into_parts,
    part_length,
)
from memorist.store.records import EmbeddingJob
from memorist.store.sqlite.dialect import SqliteConnection
from memorist.store.sqlite.vectors import follow_new_vectors
from memorist.store.writes import content_hash
from statements import read_rows

BURIED = (
    "When a release breaks production, go back to the last version that worked. Start the rollback job in the pipeline "
    "and wait until every server runs the old build again. Then look at the error rate for ten minutes, and tell the "
    "engineer on call. A database migration cannot be rolled back: restore the snapshot from the night before. "
    "Nobody ships anything new until the cause of the outage has been found and a test for it was written."
)
QUESTION = "what should we do if a software update fails?"  # has none of its words
FILLER = [
    "The quarterly numbers were read out slowly and nobody asked anything.",
    "Traffic on the ring road was heavy because of the bridge works.",
    "Our printer ran out of toner twice before lunch on Tuesday.",
    "The orchestra rehearsed the second movement until the lights went out.",
    "A parcel with the new monitors arrived at the front desk.",
    "Insurance papers for the van have to be renewed in autumn.",
    "The lecture on medieval coinage was better than its title.",
    "Somebody left a half finished crossword in the meeting room.",
]


BY_A_PART = 0.2  # what is as similar as that was found by a part: the whole of `long` is near to nothing


def prose(words: int, end: str, middle: str = "", at: float = 0.5) -> str:
    """So many words of nothing in particular, with something in the middle of them."""
    sentences = []
    while sum(len(each.split()) for each in sentences) < words:
        number = len(sentences)
        sentences.append(f"Day {number}: {FILLER[number * 5 % len(FILLER)]}")  # none is there twice
    if middle:
        sentences.insert(int(len(sentences) * at), middle)
    return end.join(sentences)


class ShortSighted(HashingEmbedder):
    """Reads a hundred words of a text and no more."""

    max_tokens = 100
    model_id: str

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: object) -> list[list[float]]:
        return super().embed([" ".join(text.split()[:100]) for text in texts])  # type: ignore[attr-defined]


def long(word: str, end: str = "\n") -> str:
    """A text of six hundred words with one in the middle that stands in ten neighbouring places."""
    before = end.join(f"line {number} of words that say very little here" for number in range(35))
    after = end.join(f"row {number} of phrases which mean hardly anything there" for number in range(35))
    return end.join([before, *[word] * 10, after])


def parts(path: Path) -> list[tuple[int, int]]:
    return read_rows(path, "select first, last from part_vectors order by part")  # type: ignore[return-value]


def nearness(memory: Memorist, word: str, **filters: object) -> dict[str, float]:
    """How near each memory is to a word in meaning, by the first word it has."""
    found = memory.search(word, mode="semantic", noise_floor=False, limit=50, **filters)
    return {hit.memory.id: hit.similarity or 0.0 for hit in found}


@pytest.fixture
def short(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=ShortSighted()) as memory:
        yield memory


class TestFinding:
    """With the bundled model, which reads 256 tokens."""

    ENDS: ClassVar = {"paragraphs": "\n\n", "lines": "\n", "CRLF": "\r\n"}

    @pytest.mark.parametrize("end", ENDS)
    def test_a_fact_in_the_middle_of_three_thousand_words_is_found_by_meaning_and_shown(
        self, understanding: Memorist, end: str
    ) -> None:
        text = prose(3000, self.ENDS[end], BURIED)
        kept = understanding.add(text)
        understanding.add_many(FILLER)

        first = understanding.search(QUESTION)[0]

        assert first.memory.id == kept.id
        assert first.match == ("vector",)
        shown = first.snippet.strip("… ")
        assert shown in text
        assert abs(text.index(shown) - text.index(BURIED)) < 1500  # in its part, of more than 18,000 characters
        assert first.similarity is not None
        assert first.similarity > 0.15  # of the nearest part, and of the whole, which is about nothing
        assert "the <mark>rollback</mark> job" in understanding.search("rollback")[0].snippet

    def test_the_model_reads_each_part_of_one_long_line_whole(self, bundled_model: LocalEmbedder) -> None:
        text = " ".join(f"Sentence number {number} tells of something else entirely." for number in range(400))

        made = cut_into_parts(EmbeddingJob(1, None, text), bundled_model)

        assert max(bundled_model.count_tokens(part.embedding_text) for part in made) <= bundled_model.max_tokens

    def test_a_memory_of_a_sentence_or_two_has_no_parts(self, understanding: Memorist, path: Path) -> None:
        understanding.add("The bus to the lake leaves at nine. It is blue.")
        understanding.add(
            "The bus to the lake, which is blue and has a number nobody remembers, leaves at nine every " * 4
        )
        assert parts(path) == []

    def test_what_was_said_by_the_way_is_found_by_its_sentence(self, understanding: Memorist, path: Path) -> None:
        aside = "By the way, my sister Clara had her baby on the third of March."
        text = (
            "I am looking for a place to have my bicycle repaired before the long tour in the summer holidays. "
            "Do you know a good workshop near the station that also sells tyres and takes cards on a Saturday? "
            f"{aside} The brakes squeal terribly and the chain jumps whenever I climb a hill."
        )
        kept = understanding.add(text)
        whole = understanding.add("I am looking for somebody who repairs my bicycle before the long tour.")

        found = understanding.search("when was my niece born?", mode="semantic", noise_floor=False)

        assert [hit.memory.id for hit in found] == [kept.id, whole.id]
        assert "Clara" in found[0].snippet
        pieces = [text[first:last] for first, last in parts(path)]
        assert "".join(pieces) == text
        assert any(piece.startswith(aside) for piece in pieces)

    def test_it_is_one_memory_and_found_once(self, understanding: Memorist) -> None:
        text = prose(900, "\n\n", BURIED) + "\n\n" + prose(500, "\n\n", BURIED.replace("ten", "twenty"))
        kept = understanding.add(text)

        found = understanding.search(QUESTION, limit=50, noise_floor=False)

        assert [hit.memory.id for hit in found] == [kept.id]
        assert found[0].memory.content == text
        assert understanding.stats().memories == understanding.stats().vectors == 1


class TestParts:
    def test_the_nearest_part_says_how_near_a_memory_is(self, short: Memorist) -> None:
        kept = short.add(long("quokka"))
        other = short.add(long("wombat"))

        near = nearness(short, "quokka")

        assert near[kept.id] > BY_A_PART
        assert near[other.id] < BY_A_PART
        assert next(iter(near)) == kept.id

    def test_a_title_is_read_with_every_part(self, short: Memorist) -> None:
        with_title = short.add(long("quokka"), title="marsupial marsupial marsupial marsupial")
        without = short.add(long("quokka") + " once more", on_near_duplicate="off")

        near = nearness(short, "marsupial quokka")

        assert near[with_title.id] > near[without.id] + 0.1

    def test_a_long_title_leaves_room_for_every_part(self, bundled_model: LocalEmbedder) -> None:
        made = cut_into_parts(EmbeddingJob(1, "漢字の題名" * 60, prose(600, "\n")), bundled_model)

        assert max(bundled_model.count_tokens(part.embedding_text) for part in made) <= bundled_model.max_tokens

    def test_filters_hold_for_what_a_part_finds(self, short: Memorist) -> None:
        mine = short.add(long("quokka"), project="mine", tags=["red"])
        other = short.add(long("quokka") + " too", project="other", on_near_duplicate="off")

        assert set(nearness(short, "quokka", project="mine")) == {mine.id}
        assert set(nearness(short, "quokka", project="other")) == {other.id}
        assert set(nearness(short, "quokka", tags="red")) == {mine.id}
        assert nearness(short, "quokka", project="mine")[mine.id] == nearness(short, "quokka")[mine.id]
        assert nearness(short, "quokka", tags="blue") == {}

    def test_of_many_a_narrow_filter_finds_the_one_by_its_part(self, short: Memorist) -> None:
        short.add_many(f"{long('quokka')} number {number}" for number in range(60))
        kept = short.add(long("quokka") + " the one", project="mine", on_near_duplicate="off")

        assert nearness(short, "quokka", project="mine")[kept.id] > BY_A_PART

    def test_one_with_many_near_parts_does_not_hide_the_others(self, short: Memorist) -> None:
        crowd = short.add("\n".join(f"quokka quokka quokka quokka quokka {number}" for number in range(400)))
        kept = short.add(long("quokka"))
        short.add("one quokka of words that say very little here")

        found = short.search("quokka", mode="semantic", limit=2, overfetch=1, min_candidates=0)

        assert [hit.memory.id for hit in found] == [crowd.id, kept.id]

    def test_related_memories_of_a_long_one(self, short: Memorist) -> None:
        kept = short.add(long("quokka"))
        alike = short.add("quokka quokka quokka")
        short.add("something else entirely")

        assert alike.id in [one.memory.id for one in short.related(kept.id)]
        first = short.related(alike.id)[0]
        assert first.memory.id == kept.id
        assert (first.similarity or 0.0) > BY_A_PART

    def test_highlights_are_places_in_the_whole_text(self, short: Memorist) -> None:
        text = long("quokka")
        short.add(text)

        hit = short.search("quokka")[0]

        assert all(text[start:end] == "quokka" for start, end in hit.highlights)
        assert "<mark>quokka</mark>" in hit.snippet


class TestTheirLife:
    def test_parts_go_when_the_text_becomes_short(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        assert len(parts(path)) > 5
        short.update(kept.id, content="a wombat")

        assert parts(path) == []
        assert nearness(short, "quokka")[kept.id] < BY_A_PART
        assert short.check().ok

    def test_parts_are_those_of_the_text_as_it_is_now(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        short.update(kept.id, content=long("wombat"))

        assert nearness(short, "wombat")[kept.id] > BY_A_PART
        assert nearness(short, "quokka")[kept.id] < BY_A_PART
        assert max(last for _, last in parts(path)) <= len(long("wombat"))

    def test_a_new_title_makes_new_parts(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        before = read_rows(path, "select part from part_vectors")
        short.update(kept.id, title="marsupial")

        assert len(parts(path)) == len(before)
        assert not set(read_rows(path, "select part from part_vectors")) & set(before)

    def test_what_does_not_touch_the_text_leaves_parts_alone(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        before = read_rows(path, "select * from part_vectors")
        short.update(kept.id, tags=["red"], project="p")
        short.pin(kept.id)

        assert read_rows(path, "select * from part_vectors") == before

    def test_a_forgotten_one_is_found_by_no_part_and_restored_by_all(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        short.forget(kept.id)
        assert nearness(short, "quokka") == {}

        short.restore(kept.id)

        assert nearness(short, "quokka")[kept.id] > BY_A_PART
        assert short.check().ok

    @pytest.mark.parametrize("way", ["hard", "purge"])
    def test_erased_it_leaves_neither_rows_nor_a_word_in_the_file(self, short: Memorist, path: Path, way: str) -> None:
        kept = short.add(long("quokka"), title="bandicoot")
        short.add("a wombat")
        short.forget(kept.id, hard=way == "hard")
        short.purge()

        assert parts(path) == []
        assert read_rows(path, "select count(*) from vectors") == [(1,)]
        raw = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
        assert b"quokka" not in raw
        assert b"bandicoot" not in raw
        assert short.check().ok

    def test_one_that_is_superseded_is_found_by_its_parts_only_where_asked(self, short: Memorist) -> None:
        old, new = short.add(long("quokka")), short.add("it is about wombats now")
        short.supersede(old.id, new.id)

        assert old.id not in nearness(short, "quokka")
        assert nearness(short, "quokka", include_superseded=True)[old.id] > BY_A_PART

    def test_the_past_of_one_that_has_not_changed_is_found_by_its_part(self, short: Memorist) -> None:
        kept = short.add(long("quokka"))
        moment = now()
        short.add("quokka, said later")

        assert set(nearness(short, "quokka", as_of=moment)) == {kept.id}
        assert nearness(short, "quokka", as_of=moment)[kept.id] > BY_A_PART

    def test_one_that_has_changed_since_is_found_as_it_was(self, short: Memorist) -> None:
        kept = short.add(long("quokka"))
        moment = now()
        short.update(kept.id, content=long("wombat"))

        then = short.search("quokka", as_of=moment)
        assert [hit.memory.content for hit in then] == [long("quokka")]
        assert "quokka" in then[0].snippet
        assert nearness(short, "wombat", as_of=moment)[kept.id] < BY_A_PART  # not by parts of what it says today

    def test_a_handle_that_is_open_follows_what_another_does(self, path: Path) -> None:
        with (
            memorist.open(path, embedder=ShortSighted()) as one,
            memorist.open(path, embedder=ShortSighted()) as other,
        ):
            other.add("something else")
            assert len(nearness(other, "quokka")) == 1

            kept = one.add(long("quokka"))
            assert nearness(other, "quokka")[kept.id] > BY_A_PART
            one.update(kept.id, content=long("wombat"))
            assert nearness(other, "quokka")[kept.id] < BY_A_PART
            assert nearness(other, "wombat")[kept.id] > BY_A_PART
            one.forget(kept.id)
            assert kept.id not in nearness(other, "wombat")
            one.restore(kept.id)
            assert nearness(other, "wombat")[kept.id] > BY_A_PART
            one.forget(kept.id, hard=True)
            assert kept.id not in nearness(other, "wombat")

    def test_parts_of_another_namespace_are_not_found(self, path: Path) -> None:
        with (
            memorist.open(path, namespace="one", embedder=ShortSighted()) as one,
            memorist.open(path, namespace="two", embedder=ShortSighted()) as two,
        ):
            kept = one.add(long("quokka"))
            assert nearness(two, "quokka") == {}
            mine = two.add(long("quokka"))
            assert set(nearness(two, "quokka")) == {mine.id}
            assert set(nearness(one, "quokka")) == {kept.id}


class BySentence(ShortSighted):
    """Has a vector for every few sentences, as the models on this machine have."""

    by_sentence = True

    def __init__(self) -> None:
        super().__init__("local:by-sentence")


class TestPacked:
    """A block of 1,024 memories that no new one will join is packed, with the parts of its memories."""

    @pytest.fixture
    def kept(self, path: Path) -> Iterator[tuple[Memorist, str]]:
        with memorist.open(path, embedder=BySentence()) as memory:
            memory.add_many(f"number {number}" for number in range(500))
            kept = memory.add(long("quokka"))
            memory.add_many(f"number {number}" for number in range(500, 1100))
            yield memory, kept.id

    def test_a_new_process_finds_by_packed_parts_what_the_first_one_found(
        self, kept: tuple[Memorist, str], path: Path
    ) -> None:
        memory, id = kept
        assert read_rows(path, "select block from vector_blocks where parts is not null") == [(0,)]

        with memorist.open(path, embedder=BySentence()) as another:
            assert nearness(another, "quokka") == nearness(memory, "quokka")
            assert nearness(another, "quokka")[id] > BY_A_PART

    @pytest.mark.parametrize("damage", ["substr(parts, 1, length(parts) - 1)", "null", "zeroblob(length(parts))"])
    def test_packed_parts_that_are_damaged_are_found_and_made_anew(
        self, kept: tuple[Memorist, str], path: Path, damage: str
    ) -> None:
        memory, id = kept
        read_rows(path, f"update vector_blocks set parts = {damage} where parts is not null")

        assert any("packed block" in problem for problem in memory.check().problems)
        assert memory.check(repair=True).repaired

        assert memory.check().ok
        with memorist.open(path, embedder=BySentence()) as another:
            assert nearness(another, "quokka")[id] > BY_A_PART

    def test_a_damaged_part_does_not_keep_others_from_their_vectors(self, path: Path) -> None:
        with memorist.open(path, embedder=BySentence()) as memory:
            memory.add(long("quokka"))
            read_rows(path, "update part_vectors set vector = x'00' where part = (select max(part) from part_vectors)")
            memory.add_many(f"number {number}" for number in range(1100))

            assert memory.stats().vectors == 1101
            assert not memory.check().ok
            memory.check(repair=True)
            assert memory.check().ok

    def test_what_is_erased_leaves_no_packed_part_behind(self, kept: tuple[Memorist, str], path: Path) -> None:
        memory, id = kept
        memory.forget(id, hard=True)

        assert read_rows(path, "select count(*) from vector_blocks where parts is not null") == [(0,)]
        with memorist.open(path, embedder=BySentence()) as another:
            assert id not in nearness(another, "quokka")

    def test_a_change_is_seen_by_who_has_the_packed_parts_in_memory(
        self, kept: tuple[Memorist, str], path: Path
    ) -> None:
        memory, id = kept
        with memorist.open(path, embedder=BySentence()) as another:
            assert nearness(another, "quokka")[id] > BY_A_PART
            memory.update(id, content=long("wombat"))

            assert nearness(another, "quokka").get(id, 0.0) < BY_A_PART
            assert nearness(another, "wombat")[id] > BY_A_PART
            assert memory.check().ok


class TestTheModel:
    def test_another_model_makes_parts_of_its_own_and_prune_drops_the_others(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        first = len(parts(path))
        other = ShortSighted("another", 32)
        other.max_tokens = 200

        assert short.reembed(other) == 1
        assert read_rows(path, "select count(distinct model) from part_vectors") == [(2,)]
        assert nearness(short, "quokka")[kept.id] > 0.2
        short.reembed(prune=True)

        assert read_rows(path, "select count(distinct model) from part_vectors") == [(1,)]
        assert 1 < len(parts(path)) < first
        assert nearness(short, "quokka")[kept.id] > 0.2
        assert short.check().ok

    def test_a_model_that_reads_all_of_it_has_no_parts(self, short: Memorist, path: Path) -> None:
        short.add(long("quokka"))
        reader = ShortSighted("reader")
        reader.max_tokens = 100_000
        short.reembed(reader, prune=True)

        assert parts(path) == []

    def test_what_needs_no_parts_is_not_embedded_again_and_again(self, path: Path) -> None:
        reader = ShortSighted("reader")
        reader.max_tokens = 100_000
        with memorist.open(path, embedder=reader) as memory:
            memory.add(long("quokka"))
            reader.calls = 0

            assert memory.reembed() == 0
            assert reader.calls == 0

    def test_without_the_model_it_is_kept_and_its_parts_follow(self, path: Path) -> None:
        model = FailingEmbedder()
        with memorist.open(path, embedder=model) as memory:
            kept = memory.add(long("quokka"))
            assert memory.search("quokka", mode="keyword")[0].memory.id == kept.id
            model.broken = False
            memory.add("something else")

            assert kept.id in nearness(memory, "quokka")
            assert len(parts(path)) > 1

    def test_a_part_that_is_damaged_is_found_and_made_anew(self, short: Memorist, path: Path) -> None:
        kept = short.add(long("quokka"))
        before = parts(path)
        last = "(select max(part) from part_vectors)"
        read_rows(path, f"update part_vectors set vector = zeroblob(length(vector)) where part = {last}")

        assert any("damaged" in problem for problem in short.check().problems)
        assert short.check(repair=True).repaired

        assert short.check().ok
        assert parts(path) == before
        assert nearness(short, "quokka")[kept.id] > BY_A_PART
        zeros = [blob for (blob,) in read_rows(path, "select vector from part_vectors") if not any(blob)]
        assert zeros == []

    @pytest.mark.parametrize("blob", ["x'00'", "x''", "zeroblob(126)"])
    def test_so_is_one_of_another_length(self, short: Memorist, path: Path, blob: str) -> None:
        kept = short.add(long("quokka"))
        read_rows(path, f"update part_vectors set vector = {blob} where part = (select max(part) from part_vectors)")

        assert not short.check().ok
        short.check(repair=True)

        assert short.check().ok
        assert nearness(short, "quokka")[kept.id] > BY_A_PART


class TestFromBeforeThereWereParts:
    """Memories and their vectors from then; those that may be too long are noted in `uncut`."""

    @staticmethod
    def old(path: Path, *texts: str, model: ShortSighted | None = None) -> None:
        memorist.open(path, embedder="none").close()
        model = model or ShortSighted()
        limit = 150 if isinstance(model, BySentence) else 512  # characters
        database = SqliteConnection(str(path))
        database.execute("insert into models(model, name, dimensions) values (1, ?, 64)", (model.model_id,))
        for number, text in enumerate(texts, 1):
            database.execute(
                """
                insert into memories(
                    id, namespace, content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at,
                    recorded_at)
                values (?, 'default', ?, ?, 'semantic', 'project', 0.5, 1000000, 1000000, 1000000, 1000000)
                """,
                (f"memory-{number}", text, content_hash(text)),
            )
            vector = np.array(model.embed([text])[0], np.float32)
            half = (vector / np.linalg.norm(vector)).astype(np.float16)
            database.execute("insert into vectors(rid, model, vector) values (?, 1, ?)", (number, half.tobytes()))
        follow_new_vectors(database, "vectors")
        database.execute("insert into uncut(rid) select rid from memories where length(content) > ?", (limit,))
        database.close()

    def test_they_get_them_by_reembedding(self, path: Path) -> None:
        self.old(path, long("quokka"), "a short one")
        with memorist.open(path, embedder=ShortSighted()) as memory:
            assert memory.check().ok
            assert nearness(memory, "quokka")["memory-1"] < BY_A_PART

            assert memory.reembed() == 1

            assert nearness(memory, "quokka")["memory-1"] > BY_A_PART
            assert memory.reembed() == 0
            assert memory.check().ok
        assert len(parts(path)) > 5

    def test_so_do_those_of_several_sentences_where_the_model_goes_by_sentence(self, path: Path) -> None:
        text = "We went to the lake with the old bus and came home late. " * 3 + "There was a quokka. " * 5
        self.old(path, text, "a short one", model=BySentence())
        with memorist.open(path, embedder=BySentence()) as memory:
            assert memory.reembed() == 1
            assert memory.reembed() == 0

        assert len(parts(path)) == 2

    def test_so_do_those_that_were_exported_before(self, path: Path, tmp_path: Path) -> None:
        told = "We went to the lake with the old bus and came home late. " * 3 + "There was a quokka. " * 5
        with memorist.open(path) as memory:
            memory.add(told)
            memory.transfer.export(tmp_path / "all.jsonl", vectors=True)
        lines = (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
        old = [{name: of for name, of in json.loads(line).items() if name != "part_vectors"} for line in lines]
        assert old != [json.loads(line) for line in lines]
        (tmp_path / "old.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in old), "utf-8")
        other = tmp_path / "other.db"

        with memorist.open(other) as memory:
            memory.transfer.import_(tmp_path / "old.jsonl")
            assert parts(other) == []
            assert memory.reembed() == 1

        assert parts(other) == parts(path) != []

    def test_a_model_that_does_not_go_by_sentence_has_nothing_to_do(self, path: Path) -> None:
        self.old(path, "We went to the lake with the old bus and came home late. " * 3, "a short one")
        with memorist.open(path, embedder=ShortSighted()) as memory:
            assert memory.reembed() == 0

    def test_so_do_those_that_are_only_a_little_too_long_for_the_model(self, path: Path) -> None:
        text = "\n".join(["some words of no great length on it"] * 20 + ["quokka"] * 10)  # 170 words, 800 characters
        self.old(path, text)
        with memorist.open(path, embedder=ShortSighted()) as memory:
            memory.reembed()

        assert len(parts(path)) > 1


# What parts are, for any text

LINES = st.lists(
    st.lists(
        st.sampled_from(["fox", "wolf.", "# bear", "- elk", "```", "|", "漢字。", "End!", "> q"]), max_size=12
    ).map(" ".join),
    max_size=60,
)
TEXTS = st.builds(lambda lines, end: end.join(["start", *lines]), LINES, st.sampled_from(["\n", "\r\n", "\r"]))


def assert_parts(text: str, title: str | None = None) -> None:
    model = ShortSighted()
    made = cut_into_parts(EmbeddingJob(1, title, text), model)
    if not made:
        assert model.count_tokens(text) <= model.max_tokens
        return
    assert len(made) > 1
    spans = [(part.first, part.last) for part in made]
    assert spans == sorted(spans)
    assert len(set(spans)) == len(spans)
    covered = {0} if text.startswith("\ufeff") else set()  # a mark of the byte order is nothing to see
    for first, last in spans:
        assert 0 <= first < last <= len(text)
        assert model.count_tokens(text[first:last]) <= model.max_tokens - TITLE_TOKENS
        covered |= set(range(first, last))
    assert [text[at] for at in range(len(text)) if at not in covered and not text[at].isspace()] == []


@settings(max_examples=150)
@given(TEXTS)
@example("\n".join(["some words in a line"] * 40))
@example("\r\n".join(["some words in a line."] * 40))
@example("\ufeff" + "\n".join(["some words in a line."] * 40))
def test_parts_are_in_order_within_the_budget_and_hold_all_there_is_to_see(text: str) -> None:
    assert_parts(text)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["One more.", "Two of them!", "word", "and"]), min_size=1, max_size=400).map(" ".join))
@example(" ".join(f"Sentence {number} is short." for number in range(100)))
def test_so_are_those_of_one_long_line(text: str) -> None:
    assert_parts(text)


@settings(max_examples=150)
@given(TEXTS)
@example(" ".join(f"We came {number} times." for number in range(40)))
@example("".join(f"我们来了{number}次。" for number in range(60)))
def test_parts_of_a_few_sentences_are_whole_sentences_in_order_and_hold_all_there_is_to_see(text: str) -> None:
    model = BySentence()
    made = cut_into_parts(EmbeddingJob(1, None, text), model)
    if not made:
        return
    covered = {at for part in made for at in range(part.first, part.last)}
    assert [text[at] for at in range(len(text)) if at not in covered and not text[at].isspace()] in ([], ["\ufeff"])
    assert sorted(made, key=lambda part: (part.first, part.last)) == made
    if model.count_tokens(text) <= model.max_tokens:
        assert [part.first for part in made] == [0, *(part.last for part in made[:-1])]
        assert len(made) <= len(text) // MIN_PART_CHARACTERS + 1
        assert min(part.last - part.first for part in made) >= MIN_PART_CHARACTERS // 2


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_parts_begin_and_end_where_lines_do(end: str) -> None:
    text = long("quokka", end)

    made = cut_into_parts(EmbeddingJob(1, None, text), ShortSighted())

    for part in made:
        assert part.first == 0 or text[: part.first].endswith(end)
        assert part.last == len(text) or text[part.last - len(end) : part.last + len(end)].count(end)


@pytest.mark.parametrize("text", ["first" + " " * 300_000 + "last", "a. " * 100_000, "\n" * 300_000, "。" * 100_000])
def test_a_hostile_text_is_cut_at_once(text: str) -> None:
    assert _split_by_sentence(text, 0, len(text), part_length(len(text)))[-1][1] == len(text)


def test_a_model_that_reads_next_to_nothing_still_gets_parts_that_can_be_told_apart() -> None:
    model = ShortSighted("tiny")
    model.max_tokens = 4

    made = cut_into_parts(EmbeddingJob(1, "a title of five words", "w " * 500), model)

    assert made
    assert max(model.count_tokens(part.embedding_text) for part in made) <= model.max_tokens


def test_front_matter_is_in_no_part() -> None:
    text = "---\ntitle: quokka\n---\n" + long("wombat")

    made = cut_into_parts(EmbeddingJob(1, None, text), ShortSighted())

    assert made[0].first == text.index("line 0")
    assert made[-1].last == len(text)


class CountingEmbedder(LocalEmbedder):
    """The bundled model, which counts the texts that it reads."""

    read = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.read += len(texts)
        return super().embed(texts)


@pytest.mark.parametrize("text", ["部署用的端口是八千。" * 10_000, "😀" * 100_000, "ภาษาไทย " * 10_000])
def test_a_long_text_in_a_script_that_the_model_cannot_read_is_read_once(text: str) -> None:
    model = CountingEmbedder(threads=1)
    with memorist.open(":memory:", embedder=model) as memory:
        added = memory.add(text)

        assert memory.search(text[:7], mode="keyword") or text.startswith("😀")
        assert added.degraded is None
    assert model.read == 1
    model.close()


def test_a_text_has_no_more_parts_than_the_limit() -> None:
    parts = cut_into_parts(EmbeddingJob(1, None, "a." * 450_000), LocalEmbedder())

    assert len(parts) == MAX_VECTORS
