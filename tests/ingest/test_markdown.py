"""Markdown by its structure: what fits is never cut, and every chunk knows its lines and the headings above it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from chunk_checks import ANY_COUNT, COUNTS, assert_sound, editor_lines, words
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_chunk import ranges

from complexity import grows_at_most
from memorist.embed.local import LocalEmbedder
from memorist.ingest.chunk import Chunk
from memorist.ingest.markdown import MAX_NESTING, Link, ParsedDocument, read_markdown


def read(text: str, budget: int = 10_000) -> ParsedDocument:
    return read_markdown(text, budget, words)


def texts(document: ParsedDocument) -> list[str]:
    return [chunk.text for chunk in document.chunks]


def crumbs(document: ParsedDocument) -> list[tuple[str, ...]]:
    return [chunk.breadcrumb for chunk in document.chunks]


@dataclass(frozen=True)
class Made:
    """A block of a made-up document."""

    kind: str
    lines: tuple[str, ...]
    level: int = 0


def made(kind: str, *lines: str, level: int = 0) -> Made:
    return Made(kind, lines, level)


SIZE = st.integers(1, 25)
HEADINGS = st.builds(
    lambda level, name, setext: (
        made("heading", f"Name {name}", "=-"[level - 1] * 3, level=level)
        if setext and level < 3
        else made("heading", f"{'#' * level} Name {name}", level=level)
    ),
    st.integers(1, 6),
    st.integers(0, 99),
    st.booleans(),
)
BLOCKS = st.one_of(
    HEADINGS,
    SIZE.map(lambda size: made("paragraph", *["Some words here."] * size)),
    SIZE.map(lambda size: made("fence", "```sh", *["# no heading", "", "- no item"] * (size // 3 + 1), "```")),
    SIZE.map(lambda size: made("table", "| a | b |", "|---|---|", *["| c | d |"] * size)),
    SIZE.map(lambda size: made("item", "- an item", *["  that goes on"] * (size // 4))),
    SIZE.map(lambda size: made("item", "- an item", "", "  ```", *["  # code"] * (size // 2), "  ```", "  - within")),
    SIZE.map(lambda size: made("quote", *["> quoted words"] * size, "> ~~~", "> ## no heading", "> ~~~")),
    SIZE.map(lambda size: made("html", "<div>", *["some <b>tags</b>"] * size, "</div>")),
    st.just(made("shortcode", "{{< note >}}", "Mind {{< this >}}.", "{{< /note >}}")),
    st.just(made("code", "    indented code", "    and more")),
    st.just(made("definition", "[label]: other.md")),
)
# Indented code after an item, or after code, would be a part of it.
DOCUMENTS = st.lists(BLOCKS, max_size=25).filter(
    lambda blocks: (
        not any(before.kind in ("item", "code") for before, after in pairwise(blocks) if after.kind == "code")
    )
)


def placed(blocks: list[Made]) -> tuple[str, list[tuple[int, int, Made]]]:
    """The text of blocks with an empty line between any two, and the first and last line of each."""
    lines: list[str] = []
    places = []
    for block in blocks:
        places.append((len(lines) + 1, len(lines) + len(block.lines), block))
        lines += [*block.lines, ""]
    return "\n".join(lines), places


def headings_above(line: int, places: list[tuple[int, int, Made]]) -> tuple[str, ...]:
    """The specification: the last heading of each level before this line that no other one has closed since."""
    above: list[Made] = []
    for first, _, block in places:
        if block.level and first <= line:
            above = [outer for outer in above if outer.level < block.level] + [block] * (first < line)
    return tuple(block.lines[0].lstrip("# ") for block in above)


@settings(max_examples=250)
@given(DOCUMENTS, st.integers(1, 120))
def test_chunks_of_a_document_hold_all_of_it_and_know_where_they_stand(blocks: list[Made], budget: int) -> None:
    text, places = placed(blocks)

    document = read(text, budget)

    assert_sound(text, document.chunks, budget, words)
    for chunk in document.chunks:
        assert chunk.breadcrumb == headings_above(chunk.start_line, places)


@settings(max_examples=250)
@given(DOCUMENTS, st.integers(4, 120))
def test_what_fits_is_never_cut(blocks: list[Made], budget: int) -> None:
    text, places = placed(blocks)
    lines = editor_lines(text)

    document = read(text, budget)

    sections = [
        (
            first,
            next((start - 1 for start, _, other in places[number + 1 :] if 0 < other.level <= block.level), len(lines)),
        )
        for number, (first, _, block) in enumerate(places)
        if block.level
    ]
    for first, last in [*sections, *((first, last) for first, last, _ in places)]:
        while not lines[last - 1].strip():
            last -= 1
        if words("\n".join(lines[first - 1 : last])) <= budget:
            assert any(chunk.start_line <= first and last <= chunk.end_line for chunk in document.chunks)
    prose = ["\n".join(block.lines) for block in blocks if block.kind in ("paragraph", "quote")]
    if all(words(text) <= budget for text in [*prose, *lines]):
        chunks = document.chunks
        assert all(before.end_line < after.start_line for before, after in pairwise(chunks))


PARTS = st.sampled_from(
    "> ;- ;1. ;  ;    ;\t;```;~~~;# ;## ;a;b c;\n;\n\n;|;---;===;<div>;<!--;-->;[a]: b;[[x]];](y);`;\\;:;&amp;;*;_"
    ";';\";{;};\r;\r\n;\u2028;\x0c;\0;\ufeff;漢。;{{< x >}};<X y={z} />;import x;|a|\n|-|\n|b|\n;---\na: b\n---\n"
    "".split(";")
)


@settings(max_examples=400)
@given(st.lists(PARTS, max_size=60).map("".join) | st.text(max_size=200), st.integers(1, 30), ANY_COUNT)
@example("> * <!--\n> ", 5, "words")  # the parser alone looks beyond the end here
@example("> | a |\n> |---|\n>", 5, "words")
def test_no_text_is_refused_and_none_of_it_lost(text: str, budget: int, name: str) -> None:
    document = read_markdown(text, budget, COUNTS[name])

    front = next((line for line in range(2, 99) if document.front_matter and is_mark(text, line)), 0)
    assert_sound(text, document.chunks, budget, COUNTS[name], front + 1)


def is_mark(text: str, line: int) -> bool:
    return editor_lines(text)[line - 1].rstrip() in ("---", "...")


class TestSections:
    def test_small_ones_are_packed_with_their_neighbours(self) -> None:
        text = "# Top\n\nintro\n\n## One\n\nword word\n\n## Two\n\nword word\n\n## Three\n\nword word\n"

        assert ranges(read(text, 11).chunks) == [(1, 7), (9, 15)]  # 7 and 8 words, not 11 and 4
        assert ranges(read(text, 100).chunks) == [(1, 15)]

    def test_a_chunk_begins_with_the_outermost_heading_it_can(self) -> None:
        part = "### Part\n\n" + "word " * 16
        text = "\n\n".join(["## One", part, part, part, "## Two", part, part, part])

        document = read(text, 80)

        assert [chunk.text.split("\n")[0] for chunk in document.chunks] == ["## One", "## Two"]

    def test_one_that_fits_is_not_shared_between_its_neighbours(self) -> None:
        text = "# A\n\n" + "word " * 56 + "\n\n# B\n\nfirst\n\n" + "word " * 180 + "\n\n# C\n\n" + "word " * 56

        assert ranges(read(text, 200).chunks) == [(1, 3), (5, 9), (11, 13)]

    def test_a_tiny_rest_joins_what_follows_rather_than_being_alone(self) -> None:
        text = "# A\n\n" + "word " * 197 + "\n\n## Rest\n\nlittle\n\n# B\n\n" + "word " * 100

        assert ranges(read(text, 200).chunks) == [(1, 3), (5, 11)]
        assert crumbs(read(text, 200)) == [(), ("A",)]

    def test_a_heading_stays_with_what_it_heads(self) -> None:
        text = "# A\n\n" + "word " * 90 + "\n\n## B\n\n### C\n\n" + "word " * 60 + "\n\n" + "word " * 60

        assert [chunk.start_line for chunk in read(text, 100).chunks] == [1, 5, 11]

    def test_a_line_that_ends_with_a_colon_stays_with_what_it_announces(self) -> None:
        text = "# A\n\n" + "word " * 40 + "\n\nRun this:\n\n```\n" + "word " * 40 + "\n```\n\n" + "word " * 40

        assert ranges(read(text, 90).chunks) == [(1, 3), (5, 11)]

    def test_headings_of_both_kinds_but_none_in_code_quotes_or_comments(self) -> None:
        text = "Title\n=====\n\nPart\n----\n\n```\n# code\n```\n\n> # quoted\n\n<!--\n# no\n-->\n\n    # no\n\nlast"

        document = read(text, 2)

        assert document.title == "Title"
        assert document.chunks[-1] == Chunk("last", 19, 19, ("Title", "Part"))

    def test_a_breadcrumb_is_plain_text(self) -> None:
        text = "# The `get` *verb* [here](x.md) &amp; a_b_c <b>now</b> {#anchor}\n\n" + "a " * 9 + "\n\n#\n\nb"

        assert read(text, 10).chunks[1].breadcrumb == ("The get verb here & a_b_c now",)
        assert read(text, 1).chunks[-1].breadcrumb == ()

    def test_levels_may_be_left_out_and_come_in_any_order(self) -> None:
        text = "### C\n\nthree\n\n# A\n\none\n\n##### E\n\nfive\n\n## B\n\ntwo"

        assert [(chunk.text, chunk.breadcrumb) for chunk in read(text, 1).chunks if "#" not in chunk.text][1::2] == [
            ("three", ("C",)),
            ("one", ("A",)),
            ("five", ("A", "E")),
            ("two", ("A", "B")),
        ]


class TestBlocksOverTheBudget:
    def test_a_list_falls_into_items_and_a_long_item_into_its_blocks(self) -> None:
        item = "- " + "word " * 7
        long = "- first\n\n  ```\n  " + "code " * 6 + "\n  ```\n\n  last"
        text = "\n".join([item, item, long, item])

        assert ranges(read(text, 9).chunks) == [(1, 1), (2, 2), (3, 3), (5, 7), (9, 10)]

    def test_a_table_falls_into_rows_the_first_with_its_head(self) -> None:
        text = "| a | b |\n|---|---|\n" + "| c | d |\n" * 8

        assert ranges(read(text, 20).chunks) == [(1, 4), (5, 7), (8, 10)]
        assert read(text, 20).chunks[1].text == "\n".join(["| c | d |"] * 3)

    def test_a_fence_falls_into_lines_without_repeating_any(self) -> None:
        text = "```\n" + "Some code. Here.\n" * 20 + "```"

        chunks = read(text, 16).chunks

        assert "\n".join(chunk.text for chunk in chunks) == text

    def test_a_quote_falls_into_its_blocks(self) -> None:
        text = "> one two three\n>\n> ```\n> four\n> ```\n>\n> - five six seven eight"

        assert ranges(read(text, 7).chunks) == [(1, 2), (3, 5), (6, 7)]

    def test_only_a_cut_paragraph_repeats_a_sentence(self) -> None:
        text = "# A\n\n" + "A sentence of just six words.\n" * 8 + "\n- item one two\n- item three four"

        chunks = read(text, 26).chunks

        assert ranges(chunks) == [(1, 5), (5, 8), (8, 13)]

    def test_definitions_of_links_are_not_lost(self) -> None:
        text = "See [a].\n\n[a]: one.md\n[b]: two.md 'Title'\n[c]: three.md"

        document = read(text, 2)

        assert_sound(text, document.chunks, 2, words)
        assert [link.target for link in document.links] == ["one.md", "two.md", "three.md"]


class TestOddTexts:
    @pytest.mark.parametrize("text", ["", "\n", "\ufeff", "---\ntitle: a\n---", "\ufeff---\ntitle: a\n---\n\n \n"])
    def test_nothing_to_see_has_no_chunks(self, text: str) -> None:
        assert read(text).chunks == ()

    def test_a_fence_that_is_never_closed_goes_to_the_end(self) -> None:
        document = read("# A\n\n```\n# no heading\n\n# neither", 100)

        assert ranges(document.chunks) == [(1, 6)]
        assert document.title == "A"

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_line_ends_of_all_systems(self, end: str) -> None:
        document = read(end.join(["\ufeff---", "title: T", "---", "# A", "", "```", "x", "```", "## B", "y"]), 3)

        assert [(chunk.text, chunk.start_line) for chunk in document.chunks] == [
            ("# A", 4),
            ("```\nx\n```", 6),
            ("## B\ny", 9),
        ]
        assert document.title == "T"

    def test_characters_that_are_no_line_ends(self) -> None:
        document = read("a\u2028# b\x0cc\x0bd\x85e\n\n# F\n\ng", 6)

        assert document.title == "F"
        assert ranges(document.chunks) == [(1, 1), (3, 5)]

    def test_tabs_and_null_characters(self) -> None:
        document = read("# A\0\n\n-\tone\n\n\ttwo\n\n\t\tcode", 100)

        assert texts(document) == ["# A\0\n\n-\tone\n\n\ttwo\n\n\t\tcode"]

    def test_shortcodes_and_components_are_text(self) -> None:
        text = (
            "import X from 'x'\n\n{{< tabs >}}\n{{% tab name=\"a\" %}}\n\n<X y={[1]}>\n\n# A\n\n</X>\n\n{{< /tabs >}}"
        )

        assert texts(read(text, 100)) == [text]
        assert read(text).title == "A"

    def test_what_is_nested_too_deep_is_kept_as_it_is(self) -> None:
        text = "# A\n\n" + "- " * MAX_NESTING + "deep\n\nafter\n\n# B\n\nend"

        assert_sound(text, read(text, 8).chunks, 8, words)
        assert ranges(read(text).chunks) == [(1, 9)]

    def test_a_long_heading_is_not_carried_along(self) -> None:
        document = read("# " + "word " * 5_000 + "\n\n" + "text " * 100, 100)

        assert document.chunks[-1].breadcrumb == (document.title,)
        assert document.title == ("word " * 40).strip()


FRONT = """\
---
# a comment
title: "A: \\"title\\""  # and another
'type': note
date: 2026-03-05T10:00:00Z
version: 1.10
weight: -20
draft: false
empty:
nothing: ~
tags: [one, "two, three", 'it''s', 4]
aliases:
  - first   # the first
  - "second: one"

more:
- x
- y z
text: |
  kept
    as it is

folded: >-
  joined
  into one
long: a text that
  goes on
menu:
  main:
    weight: 1
map: {a: b}
---
# Heading
"""


class TestFrontMatter:
    def test_what_people_write_there_is_understood(self) -> None:
        document = read(FRONT)

        assert document.front_matter == {
            "title": 'A: "title"',
            "type": "note",
            "date": "2026-03-05T10:00:00Z",
            "version": "1.10",
            "weight": -20,
            "draft": False,
            "empty": None,
            "nothing": None,
            "tags": ["one", "two, three", "it's", 4],
            "aliases": ["first", "second: one"],
            "more": ["x", "y z"],
            "text": "kept\n  as it is",
            "folded": "joined into one",
            "long": "a text that goes on",
            "menu": "main:\n  weight: 1",
            "map": "{a: b}",
        }
        assert document.title == 'A: "title"'
        assert document.chunks == (Chunk("# Heading", FRONT.count("\n"), FRONT.count("\n")),)

    def test_a_title_that_is_none_gives_way_to_the_first_heading(self) -> None:
        assert read("---\ntitle:\n---\n## Two\n\n# One\n\n# Other").title == "One"
        assert read("---\ntitle: 2026\n---\n# One").title == "2026"
        assert read("## Two").title is None

    @pytest.mark.parametrize(
        "text",
        [
            "---\ntitle: never closed\n\n# A",
            "---\n\nA page between rules.\n\n---\n",
            "---\n# A\n---\n",
            "----\ntitle: a\n----\n",
            "\n---\ntitle: a\n---\n",
            "text\n---\ntitle: a\n---\n",
        ],
    )
    def test_what_only_looks_like_it_is_text(self, text: str) -> None:
        document = read(text)

        assert document.front_matter == {}
        assert_sound(text, document.chunks, 10_000, words)

    def test_it_may_end_with_dots_and_say_anything(self) -> None:
        assert read("---\na: b\n...\ntext").front_matter == {"a": "b"}
        assert read('---\na: [1, [2]]\nb: [\nc: "x\nd: &x *y\n? odd\n---\ntext').front_matter == {
            "a": "[1, [2]]",
            "b": "[",
            "c": '"x',
            "d": "&x *y ? odd",
        }


class TestLinks:
    def test_links_to_other_documents_with_their_text_and_line(self) -> None:
        text = (
            "---\ntitle: a\n---\n# See [One](one.md)\n\nand\n[two\nthree](../two%20b.md#part 'T') or ![[four|Four]]\n"
            "\n| [five](</f ive.md>) |\n|---|\n| [[six#part]] |\n"
            "\n> - [seven](seven(1).md?raw=1)\n\n[eight]: ./eight.md\n"
        )

        assert read(text).links == (
            Link("one.md", "One", 4),
            Link("../two b.md", "two three", 8),
            Link("four", "Four", 8),
            Link("/f ive.md", "five", 10),
            Link("six", "six", 12),
            Link("seven(1).md", "seven", 14),
            Link("./eight.md", "eight", 16),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "[web](https://example.org/a.md)",
            "[web](//example.org/a.md)",
            "[mail](mailto:a@b.c)",
            "[here](#part)",
            "[[#part]]",
            "[nothing]()",
            "![picture](a.png)",
            "`[code](a.md)` and ``[[b]] ` [c](c.md)``",
            "```\n[code](a.md)\n```",
            "    [code](a.md)",
            "<!-- [hidden](a.md) -->",
            r"\[escaped](a.md) and [escaped\](a.md)",
            "[^1]: footnote",
            "[web]: https://example.org",
            "[not] (a.md)",
        ],
    )
    def test_what_is_no_link_to_a_document(self, text: str) -> None:
        assert read(text).links == ()

    def test_a_picture_may_be_a_link_and_ticks_may_stand_alone(self) -> None:
        assert read("[![alt](a.png)](a.md) `` \\` [b](b.md) ` [c](c.md) \\` [d](d.md)").links == (
            Link("a.md", "![alt](a.png)", 1),
            Link("b.md", "b", 1),
            Link("d.md", "d", 1),
        )


HOSTILE: dict[str, Callable[[int], str]] = {
    "quotes in quotes": lambda size: (">" * 200 + " a\n") * (size // 200),
    "lists in lists": lambda size: ("- " * 100 + "a\n\n") * (size // 200),
    "ever deeper lists": lambda size: "".join("  " * depth + "- a\n" for depth in range(60)) * (size // 4000),
    "lines after a deep quote": lambda size: ">" * 100 + " a\n" + "b\n" * (size // 40),
    "empty lines after a deep list": lambda size: "- " * 100 + "a\n" + "\n" * size + "b",
    "brackets": lambda size: "[" * size,
    "links that never end": lambda size: "[a](b " * (size // 6),
    "spaces in a link": lambda size: "[a](" + " " * size + "[b",
    "ticks": lambda size: "".join("`" * (number % 700 + 1) + " " for number in range(size // 350)),
    "definitions": lambda size: "[a]: b\n" * (size // 7),
    "headings": lambda size: "# a\n" * (size // 4),
    "deeper and deeper headings": lambda size: "".join(f"{'#' * n} a\n" for n in (6, 5, 4, 3, 2, 1)) * (size // 40),
    "fences in items": lambda size: "- ```\n" * (size // 6),
    "cells": lambda size: "|a" * (size // 4) + "\n" + "|-" * (size // 4),
    "a key of spaces": lambda size: "---\na: b\na" + " " * size + "\n---\n",
    "front matter": lambda size: "---\na:\n" + "- [x\n" * (size // 5) + "---\n",
    "a quoted front matter": lambda size: '---\na: "' + "\\" * size + "\n---\n",
    "tags": lambda size: "<a " + "b " * (size // 2),
    "one line": lambda size: "word, " * (size // 6),
}


@pytest.mark.slow  # a matter of time, on a machine that may be busy
@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    def seconds(size: int) -> float:
        text = HOSTILE[name](size)
        started = time.process_time()
        read(text, 200)
        return time.process_time() - started

    # Eight times as much: what grows with the square would take 64 times as long.
    assert grows_at_most(40, seconds, 20_000, 160_000)


def test_five_megabytes_in_a_single_line(bundled_model: LocalEmbedder) -> None:
    text = "x" * 5_000_000

    started = time.process_time()
    document = read_markdown(text, 200, bundled_model.count_tokens)

    assert "".join(texts(document)) == text
    assert set(ranges(document.chunks)) == {(1, 1)}
    assert time.process_time() - started < 20
