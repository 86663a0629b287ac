"""Chunks of plain text: every line once, as it stands there, never more tokens than allowed."""

import random
import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from chunk_checks import ANY_COUNT, COUNTS, assert_sound, words
from hypothesis import example, given, settings
from hypothesis import strategies as st

from complexity import grows_at_most
from memorist.embed.local import LocalEmbedder
from memorist.ingest.chunk import MAX_TOKEN_CHARACTERS, Chunk, split_plain_text


def ranges(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks]


TEXT = st.text(st.sampled_from("ab cd.!? \n\n\r\t\f\0\ufeff\u2028\u3002漢 \u00a0") | st.characters(), max_size=300)


@settings(max_examples=300)
@given(TEXT, st.integers(1, 40), ANY_COUNT)
@example("\ufeff", 1, "words")
@example("a\r\n\r\nb\rc", 1, "words")
def test_any_text_is_covered_once_in_order_within_the_budget(text: str, budget: int, name: str) -> None:
    assert_sound(text, split_plain_text(text, budget, COUNTS[name]), budget, COUNTS[name])


@settings(max_examples=100)
@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 40))
def test_a_paragraph_that_fits_is_never_cut(sizes: list[int], budget: int) -> None:
    text = "\n\n".join("\n".join(["two words"] * size) for size in sizes)
    chunks = split_plain_text(text, budget, words)
    line = 1
    for size in sizes:
        if 2 * size <= budget:
            assert any(start <= line and line + size - 1 <= end for start, end in ranges(chunks))
        line += size + 1
    if all(2 * size <= budget for size in sizes):
        assert all(before.end_line < after.start_line for before, after in pairwise(chunks))


class TestPlainText:
    def test_paragraphs_are_packed_up_to_the_budget(self) -> None:
        text = "one two\n\nthree four\nfive\n\n\nsix seven eight\n"

        assert split_plain_text(text, 5, words) == [
            Chunk("one two\n\nthree four\nfive", 1, 4),
            Chunk("six seven eight", 7, 7),
        ]
        assert ranges(split_plain_text(text, 8, words)) == [(1, 7)]

    def test_rests_are_shared_out_rather_than_left_alone(self) -> None:
        text = "\n\n".join(["a b c d"] * 6)  # 24 words: as many as fit first would leave 4 for the last

        assert [words(chunk.text) for chunk in split_plain_text(text, 20, words)] == [12, 12]

    def test_nothing_has_no_chunks(self) -> None:
        for text in ("", "\n", " \n\t\n", "\ufeff", "\r\n\r\n", "\u2028\n\u00a0"):
            assert split_plain_text(text, 10, words) == []

    def test_lines_are_those_that_editors_count(self) -> None:
        text = "\ufeffone\r\ntwo\rthree\u2028still three\x0cand\x85this\n\nfive"

        chunks = split_plain_text(text, 1, words)

        assert (chunks[0].text, chunks[0].start_line) == ("one", 1)
        assert (chunks[-1].text, chunks[-1].start_line) == ("five", 5)
        assert_sound(text, chunks, 1, words)

    def test_a_null_character_stays_where_it_is(self) -> None:
        assert split_plain_text("a\0b", 10, words) == [Chunk("a\0b", 1, 1)]

    def test_a_budget_below_one_is_one(self) -> None:
        assert split_plain_text("a\n\nb", 0, words) == split_plain_text("a\n\nb", 1, words)


class TestParagraphsOverTheBudget:
    PROSE = (
        "This is the first sentence of it.\nThe second one is\nwritten on two lines.\nNow the third follows.\nAn end."
    )

    def test_they_are_cut_at_the_end_of_a_sentence_which_is_repeated(self) -> None:
        text = "\n".join(f"Sentence {number} has six words here." for number in range(10))

        chunks = split_plain_text(text, 24, words)

        assert ranges(chunks) == [(1, 4), (4, 7), (7, 10)]
        assert_sound(text, chunks, 24, words)

    def test_a_sentence_is_cut_only_if_there_is_no_other_way(self) -> None:
        chunks = split_plain_text(self.PROSE, 15, words)

        assert ranges(chunks) == [(1, 1), (2, 5)]  # 7 and 14 words; 11 and 10 would cut the second sentence

    def test_no_more_than_one_sentence_is_repeated_and_none_that_is_long(self) -> None:
        line = "a sentence that goes on and on without ever coming to its end, as some of them do"

        chunks = split_plain_text("\n".join([line] * 12), 40, words)

        assert all(before.end_line < after.start_line for before, after in pairwise(chunks))

    def test_between_paragraphs_nothing_is_repeated(self) -> None:
        chunks = split_plain_text("\n\n".join(["One. Two. Three."] * 20), 10, words)

        assert all(before.end_line < after.start_line for before, after in pairwise(chunks))


class TestLinesOverTheBudget:
    def test_they_are_cut_between_sentences_and_all_parts_name_the_line(self) -> None:
        text = (
            "Before.\n\n" + " ".join(f"Number {number} is e.g. a short sentence." for number in range(12)) + "\n\nEnd."
        )

        chunks = split_plain_text(text, 30, words)

        assert_sound(text, chunks, 30, words)
        parts = [chunk for chunk in chunks if "Number" in chunk.text]
        assert len(parts) > 2
        assert all(chunk.start_line <= 3 <= chunk.end_line for chunk in parts)
        assert all(re.match(r"Before|Number", chunk.text) for chunk in parts)

    def test_sentences_of_unspaced_scripts_end_too(self) -> None:
        chunks = split_plain_text("今日は晴れです。" * 10, 20, len)

        assert all(chunk.text.endswith("。") for chunk in chunks)
        assert_sound("今日は晴れです。" * 10, chunks, 20, len)

    def test_a_sentence_over_the_budget_is_cut_between_words(self) -> None:
        text = " ".join(f"word{number}" for number in range(1000))

        chunks = split_plain_text(text, 30, words)

        assert "".join(chunk.text for chunk in chunks) == text
        assert all(re.fullmatch(r"(word\d+ ?)+", chunk.text) for chunk in chunks)
        assert len(chunks) < 45

    def test_a_line_without_spaces_is_cut_hard(self) -> None:
        text = "\n".join(["a", "x" * 10_000, "b"])

        chunks = split_plain_text(text, 50, words)

        assert_sound(text, chunks, 50, words)
        assert max(len(chunk.text) for chunk in chunks) <= 50 * MAX_TOKEN_CHARACTERS + 50
        assert "".join(chunk.text for chunk in chunks).replace("\n", "") == f"a{'x' * 10_000}b"

    def test_so_is_one_that_the_model_takes_for_a_single_unknown_word(self, bundled_model: LocalEmbedder) -> None:
        blob = "0123456789abcdef" * 1000
        assert bundled_model.count_tokens(blob) == 1

        chunks = split_plain_text(blob, 200, bundled_model.count_tokens)

        assert len(chunks) == 5
        assert "".join(chunk.text for chunk in chunks) == blob

    def test_a_character_of_more_tokens_than_allowed_stands_alone(self) -> None:
        assert [chunk.text for chunk in split_plain_text("abc", 2, lambda text: 3 * len(text))] == ["a", "b", "c"]


class TestCounting:
    def test_tokens_are_counted_once_a_line_and_once_a_chunk(self) -> None:
        counted: list[str] = []

        def count(text: str) -> int:
            counted.append(text)
            return words(text)

        text = "\n\n".join(f"paragraph {number} has some\nwords on two lines" for number in range(200))
        chunks = split_plain_text(text, 60, count)

        assert len(counted) == 400 + len(chunks)

    def test_a_chunk_of_more_tokens_than_its_lines_is_cut_again(self) -> None:
        def joined(text: str) -> int:
            return len(text.split()) + 3 * text.strip().count("\n")

        text = "\n".join(["some words"] * 100)
        chunks = split_plain_text(text, 30, joined)

        assert_sound(text, chunks, 30, joined)
        assert len(chunks) < 30


HOSTILE: dict[str, Callable[[int], str]] = {
    "one line without spaces": lambda size: "x" * size,
    "one line of ideographs": lambda size: "漢" * (size // 3),
    "one line of words": lambda size: "ab " * (size // 3),
    "one line of sentences": lambda size: "Ab. " * (size // 4),
    "one line of spaces": lambda size: "a" + " " * size + "b" * 10_000,
    "one line of marks": lambda size: "!" * size,
    "one paragraph of short lines": lambda size: "a\n" * (size // 2),
    "tiny paragraphs": lambda size: "a\n\n" * (size // 3),
    "empty lines": lambda size: "a" + "\n" * size + "b",
    "a sentence that never ends": lambda size: "A. b" + "\nb" * (size // 2),
    "nothing but null characters": lambda size: "\0\n" * (size // 2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    def seconds(size: int) -> float:
        text = HOSTILE[name](size)
        started = time.process_time()
        chunks = split_plain_text(text, 200, words)
        taken = time.process_time() - started
        assert sum(chunk.text.count("a") for chunk in chunks) >= text.count("a")
        return taken

    # Eight times as much: what grows with the square would take 64 times as long.
    assert grows_at_most(40, seconds, 25_000, 200_000)


def test_the_bundled_model_never_reads_less_than_a_whole_chunk(bundled_model: LocalEmbedder) -> None:
    source = random.Random(7)
    vocabulary = "the|quick|Brown|fox.\n|jumps!|over:|(a)|`lazy`|dog\n\n|漢字|Καλημέρα|naïve|x1y2|---".split("|")
    text = " ".join(source.choice(vocabulary) for _ in range(20_000))

    chunks = split_plain_text(text, 200, bundled_model.count_tokens)

    assert_sound(text, chunks, 200, bundled_model.count_tokens)
    assert sum(bundled_model.count_tokens(chunk.text) for chunk in chunks) / len(chunks) > 150
