"""Markdown documents as wholes: what holds for any of them, whatever counts the tokens and ends the lines."""

from collections import Counter
from itertools import pairwise

import pytest
from chunk_checks import ANY_COUNT, COUNTS, assert_sound, editor_lines, words
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from test_markdown import DOCUMENTS, Made, placed, read

from memorist.embed.local import LocalEmbedder
from memorist.ingest.chunk import Chunk
from memorist.ingest.markdown import read_markdown


def times_covered(chunks: tuple[Chunk, ...]) -> Counter[int]:
    """How many chunks each line is in."""
    return Counter(line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1))


def fences(lines: list[str]) -> list[tuple[int, int]]:
    """The first and last line of every fence that DOCUMENTS makes, within lists and quotes too; from 1."""
    marks = [at for at, line in enumerate(lines, 1) if line.lstrip("> ").startswith(("```", "~~~"))]
    return list(zip(marks[::2], marks[1::2], strict=True))


@settings(max_examples=200)
@given(DOCUMENTS, st.integers(1, 120), ANY_COUNT)
def test_a_document_is_covered_whatever_counts_its_tokens(blocks: list[Made], budget: int, name: str) -> None:
    text, _ = placed(blocks)

    assert_sound(text, read_markdown(text, budget, COUNTS[name]).chunks, budget, COUNTS[name])


@settings(max_examples=200)
@given(DOCUMENTS, st.integers(4, 120))
def test_every_line_that_is_not_blank_is_in_one_chunk_and_only_prose_in_two(blocks: list[Made], budget: int) -> None:
    text, places = placed(blocks)
    lines = editor_lines(text)
    prose = {
        line for first, last, block in places if block.kind in ("paragraph", "item", "quote", "shortcode")
        for line in range(first, last + 1)
    }  # fmt: skip

    times = times_covered(read(text, budget).chunks)

    for number, line in enumerate(lines, 1):
        if line.strip() and words(line) <= budget:
            assert 1 <= times[number] <= (2 if number in prose else 1), (number, line)


@settings(max_examples=200)
@given(DOCUMENTS, st.integers(4, 120))
def test_a_fence_that_fits_is_whole_wherever_it_stands(blocks: list[Made], budget: int) -> None:
    text, _ = placed(blocks)
    lines = editor_lines(text)

    chunks = read(text, budget).chunks

    for first, last in fences(lines):
        if words("\n".join(lines[first - 1 : last])) <= budget:
            assert any(chunk.start_line <= first and last <= chunk.end_line for chunk in chunks), (first, last)


@settings(max_examples=100)
@given(st.integers(1, 200), st.integers(5, 60), st.sampled_from(["", "> ", "  "]))
def test_a_fence_over_the_budget_falls_into_lines_each_in_one_chunk(size: int, budget: int, before: str) -> None:
    inner = [f"{before}    run --step {number}" for number in range(size)]
    head = ["- an item", ""] if before == "  " else []
    lines = [*head, f"{before}```sh", *inner, f"{before}```"]
    text = "\n".join(lines)

    chunks = read(text, budget).chunks

    assert_sound(text, chunks, budget, words)
    assert {times_covered(chunks)[number] for number, line in enumerate(lines, 1) if line.strip()} == {1}
    assert all(chunk.text == "\n".join(lines[chunk.start_line - 1 : chunk.end_line]) for chunk in chunks)


@settings(max_examples=100)
@given(DOCUMENTS, st.integers(1, 120), st.sampled_from(["\r\n", "\r"]), st.booleans())
def test_other_line_ends_and_a_byte_order_mark_change_no_chunk(
    blocks: list[Made], budget: int, end: str, mark: bool
) -> None:
    text, _ = placed(blocks)

    assert read("\ufeff" * mark + text.replace("\n", end), budget).chunks == read(text, budget).chunks


@settings(max_examples=100)
@given(DOCUMENTS.filter(bool), st.integers(4, 120))
def test_front_matter_moves_every_chunk_down_and_changes_nothing_else(blocks: list[Made], budget: int) -> None:
    text, _ = placed(blocks)

    plain, below = read(text, budget).chunks, read(f"---\ntags: [a]\n---\n{text}", budget).chunks

    moved = [replace(chunk, start_line=chunk.start_line + 3, end_line=chunk.end_line + 3) for chunk in plain]
    assert list(below) == moved


@settings(max_examples=25)
@given(DOCUMENTS, st.integers(20, 256))
def test_the_bundled_model_takes_in_every_chunk_of_a_document(
    bundled_model: LocalEmbedder, blocks: list[Made], budget: int
) -> None:
    text, _ = placed(blocks)

    assert_sound(
        text, read_markdown(text, budget, bundled_model.count_tokens).chunks, budget, bundled_model.count_tokens
    )


@pytest.mark.parametrize("budget", [1, 7, 60, 400])
def test_chunks_are_in_the_order_of_their_lines(budget: int) -> None:
    text = "\n\n".join(
        f"{'#' * (n % 6 + 1)} Head {n}\n\nSome words here. And more of them.\n- x\n- y" for n in range(40)
    )

    chunks = read(text, budget).chunks

    assert all(one.start_line <= other.start_line and one.end_line <= other.end_line for one, other in pairwise(chunks))
