"""Files as documents: exact lines and all there is to see for every kind, and a reason for what cannot be read."""

import ast
import html
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from chunk_checks import assert_sound, editor_lines, words
from hypothesis import example, given, settings
from hypothesis import strategies as st

from complexity import grows_at_most
from memorist.embed.local import LocalEmbedder
from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.markdown import Link, ParsedDocument
from memorist.ingest.markup import read_html, read_rst
from memorist.ingest.readers import READERS_BY_SUFFIX, UnreadableFile, decode, parse_file, read_bytes, reason_to_skip
from memorist.ingest.source import read_python, read_source


def ranges(document: ParsedDocument) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in document.chunks]


def texts(document: ParsedDocument) -> list[str]:
    return [chunk.text for chunk in document.chunks]


def crumbs(document: ParsedDocument) -> list[tuple[str, ...]]:
    return [chunk.breadcrumb for chunk in document.chunks]


def first_words(document: ParsedDocument) -> list[str]:
    return [chunk.text.split("\n")[0].strip() for chunk in document.chunks]


TEXT_READERS = {"rst": read_rst, "python": read_python, "source": read_source}
PARTS = st.lists(
    st.sampled_from(
        [
            "Title\n=====\n", "=====\n Title\n=====\n", "Sub\n---\n", "word word\n", "\n", "\n\n", "  indented words\n",
            "    deeper\n", "- item\n", ".. note:: words\n", "::\n", ":field: value\n", "def f(x):\n", "class A:\n",
            "    def g(self):\n", "        return 1\n", "    '''doc\n\n    more\n    '''\n", "@decorated\n", "# note\n",
            "x = 1\n", "if x:\n", "else:\n", "{\n", "}\n", "\tint y;\n", "// say\n", "a b c d e f g h i j k l m n\n",
            "\r\n", "\r", "\f", "\ufeff", "\0", '"""\n', "\\\n", "x = 1; y = 2\n", "漢字\n====\n", "----\n",
        ]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=300)
@given(PARTS | st.text(max_size=200), st.integers(1, 40), st.sampled_from(sorted(TEXT_READERS)))
@example("", 1, "rst")
@example("def f():\n    x\n  # odd\n", 1, "python")
def test_any_text_is_covered_once_in_order_within_the_budget(text: str, budget: int, kind: str) -> None:
    assert_sound(text, TEXT_READERS[kind](text, budget, words).chunks, budget)


class TestRst:
    TEXT = (
        "=====\nGuide\n=====\n\nFirst words.\n\nSetup\n=====\n\nSecond words::\n\n    $ make\n    =====\n\n"
        "Options\n-------\n\n.. note:: Mind this.\n\n   And this.\n\nUsage\n=====\n\nThird words.\n"
    )

    def test_sections_are_recognised_by_the_lines_under_and_over_their_titles(self) -> None:
        document = read_rst(self.TEXT, 8, words)

        assert document.title == "Guide"
        assert_sound(self.TEXT, document.chunks, 8)
        assert first_words(document) == ["=====", "Setup", "Options", "Usage"]
        assert crumbs(document) == [(), ("Guide",), ("Guide", "Setup"), ("Guide",)]

    def test_the_order_of_marks_makes_their_levels(self) -> None:
        document = read_rst("A\n~~~\n\nB\n***\n\nC\n===\n\nD\n***\n\nE\n~~~\n\nwords\n", 2, words)

        assert crumbs(document) == [(), ("A",), ("A", "B"), ("A",), (), ("E",)]

    @pytest.mark.parametrize(
        "text",
        [
            "Not long enough\n==\n\nwords",
            "a paragraph of\ntwo lines\n=====\n",
            "    Code\n    ====\n",
            "words\n\n----\n\nwords",
            "=====  =====\nA      B\n=====  =====\n",
            "+---+\n| a |\n+---+\n",
            "====\n====\n",
            "====\nShort\n=====\n",
            "====\nNo end\n",
        ],
    )
    def test_what_only_looks_like_a_title_is_none(self, text: str) -> None:
        assert read_rst(text, 100, words).title is None

    def test_a_title_may_follow_its_label(self) -> None:
        assert read_rst(".. _label:\nTitle\n=====\n", 100, words).title == "Title"

    def test_a_title_in_a_wide_script_needs_a_line_as_wide(self) -> None:
        assert read_rst("漢字\n====\n", 100, words).title == "漢字"

    def test_marks_in_a_title_are_left_out(self) -> None:
        assert read_rst(":mod:`email`: *the* ``Package``\n=======\n", 9, words).title == "email: the Package"

    def test_what_is_indented_stays_with_what_it_belongs_to(self) -> None:
        text = "Words.\n\n.. code-block:: python\n\n   a = 1\n\n   b = 2\n\nMore words here now.\n"

        assert ranges(read_rst(text, 11, words)) == [(1, 7), (9, 9)]
        assert_sound(text, read_rst(text, 6, words).chunks, 6)

    def test_fields_at_the_top_are_what_it_says_about_itself(self) -> None:
        text = "Post\n####\n\n:Date: 2026-01-02\n:tags: a, b\n:orphan:\n\nWords :not: this.\n"

        assert read_rst(text, 100, words).front_matter == {"date": "2026-01-02", "tags": "a, b", "orphan": ""}
        assert read_rst("Words.\n\n:no: field\n", 100, words).front_matter == {}

    def test_links_to_other_documents_are_found(self) -> None:
        text = (
            "See :doc:`other` and :doc:`the\nguide </deep/guide>`, `here <sub/page.rst>`_ or `there <https://x.y>`__.\n"
            "\n.. _label: more.rst\n.. _anchor:\n"
        )

        assert read_rst(text, 100, words).links == (
            Link("other", "other", 1),
            Link("/deep/guide", "the guide", 1),
            Link("sub/page.rst", "here", 2),
            Link("more.rst", "label", 4),
        )


class TestHtml:
    PAGE = (
        "<!doctype html>\n<html><head><title>My &amp;\n page</title>\n<meta name=keywords content='a, b'>\n"
        "<style>p { x }</style></head>\n<body><nav>\n<a href=menu.html>Menu</a></nav>\n<h1>The <em>page</em></h1>\n"
        "<p>Some &lt;words&gt; <b>and\nmore</b> words.</p><p>Next&nbsp;one.\n<h2>Part</h2>\n"
        "<ul><li>one<li>two <a href='sub/a%20b.html#x'>a\nlink</a></ul>\n<pre>\n  code\n\n  more</pre>\n"
        "<script>if (a < b) {}</script>\n<table><tr><td>c1<td>c2</table>\n<!-- not\nthis --></body></html>\n"
    )

    def test_text_is_extracted_from_the_tags_with_its_lines(self) -> None:
        document = read_html(self.PAGE, 9, words)

        assert document.title == "My & page"
        assert document.front_matter == {"keywords": "a, b"}
        assert document.links == (Link("sub/a b.html", "a link", 12),)
        assert [(chunk.start_line, chunk.end_line, chunk.text, chunk.breadcrumb) for chunk in document.chunks] == [
            (8, 10, "The page\n\nSome <words> and\nmore words.\n\nNext one.", ()),
            (11, 19, "Part\n\none\n\ntwo a\nlink\n\n  code\n\n  more\n\nc1 c2", ("The page",)),
        ]

    def test_the_first_heading_is_the_title_if_there_is_no_other(self) -> None:
        assert read_html("<h2>Only <i>this</i></h2>", 9, words).title == "Only this"
        assert read_html("<p>words", 9, words).title is None

    def test_what_is_never_closed_does_not_swallow_the_rest(self) -> None:
        assert texts(read_html("<nav>menu<p>words", 9, words)) == ["menu\n\nwords"]
        assert texts(read_html("<p>words<script>var a;", 9, words)) == ["words"]
        assert texts(read_html("<p>words<!-- and", 9, words)) == ["words"]
        assert texts(read_html("<svg><svg></svg>a</svg>words &amp; 1 < 2 &", 9, words)) == ["words & 1 < 2 &"]

    def test_line_ends_that_are_written_as_characters_do_not_count(self) -> None:
        text = "a&#10;b&#13;c&#x0A;d\n<p>e&NewLine;f\r\n<p>g"

        assert [(chunk.start_line, chunk.end_line, chunk.text) for chunk in read_html(text, 4, words).chunks] == [
            (1, 1, "a b c d"),
            (2, 3, "e f\n\ng"),
        ]

    def test_broken_markup_is_no_trouble(self) -> None:
        for text in ("<![foo[x]]>a", "<![if x]>a<![endif]>", "<p a='>a", "</>a", "<>a<", "<?x?>a", "&#xffffffff;a"):
            read_html(text, 9, words)
        with pytest.raises(UnreadableFile):
            parse_file("a.html", b"<p>&#" + b"9" * 5000 + b";</p>", 9, words)

    FRAGMENTS = (
        "<p>|</p>|<h1>|</h1>|<h2 a='|<pre>|</pre>|<nav>|</nav>|<script>|</script>|<!--|-->|<![CDATA[|]]>|<?|?>"
        "|&amp;|&#10;|&#xa|&#|&|<|</|>|'|\"|\n|\r\n|word |<td>|<a href=x>|</a>|<title>|</title>|<svg/>|<br/>"
        "|<textarea>|<meta name=date"
    ).split("|")

    @settings(max_examples=200)
    @given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join), st.integers(1, 20))
    def test_no_page_leads_astray(self, page: str, budget: int) -> None:
        chunks = read_html(page, budget, words).chunks
        lines = [line for chunk in chunks for line in (chunk.start_line, chunk.end_line)]

        assert all(words(chunk.text) <= budget for chunk in chunks)
        assert all(1 <= line <= len(editor_lines(page)) for line in lines)
        assert [chunk.start_line for chunk in chunks] == sorted(chunk.start_line for chunk in chunks)

    BLOCKS = st.lists(
        st.builds(
            lambda tag, lines, inline: (tag, [inline % line for line in lines]),
            st.sampled_from(["p", "div", "h1", "h2", "li", "pre", "td", "section"]),
            st.lists(st.integers(100, 999).map(lambda number: f"w{number} x{number}."), min_size=1, max_size=6),
            st.sampled_from(["%s", "<b>%s</b>", "%s &amp;", "<a\nhref=x>%s</a>", "<i>%s<br></i>", "<!-- c -->%s"]),
        ),
        max_size=12,
    )

    @settings(max_examples=150)
    @given(BLOCKS, st.integers(2, 30), st.sampled_from(["", "\n", "\n\n"]))
    def test_every_word_is_there_in_order_on_the_lines_that_are_named(
        self, blocks: list[tuple[str, list[str]]], budget: int, between: str
    ) -> None:
        page = between.join(f"<{tag}>" + "\n".join(lines) + f"</{tag}>" for tag, lines in blocks)
        lines = page.split("\n")
        chunks = read_html(page, budget, words).chunks

        for chunk in chunks:
            assert words(chunk.text) <= budget
            source = html.unescape(
                re.sub(r"<[^>]*>|<[^>]*$", " ", "\n".join(lines[chunk.start_line - 1 : chunk.end_line]))
            )
            assert set(chunk.text.split()) <= set(source.replace("href=x>", " ").split())
        assert all(before.start_line <= after.start_line for before, after in pairwise(chunks))
        wanted = re.findall(r"[wx]\d+", re.sub(r"<[^>]*>", " ", page))
        found = re.findall(r"[wx]\d+", " ".join(chunk.text for chunk in chunks))
        place = 0
        for word in wanted:
            place = found.index(word, place) + 1


class TestPython:
    TEXT = '''"""A module."""

import os

LIMIT = 3  # of something


# About A.
@dataclass
class A(Base):
    """What A is."""

    x: int = 1

    # how it starts
    @property
    def start(self) -> None:
        """Do it."""
        one = 1

        two = 2
        return None

    async def stop(self):
        pass

    y = 2

print("module again", "after the class", "with words")
'''

    def test_definitions_keep_their_comments_and_decorators(self) -> None:
        document = read_python(self.TEXT, 20, words)

        assert_sound(self.TEXT, document.chunks, 20)
        assert first_words(document) == [
            '"""A module."""',
            "# About A.",
            "# how it starts",
            "async def stop(self):",
        ]
        assert crumbs(document) == [(), (), ("A",), ("A",)]

    def test_the_breadcrumb_names_what_a_chunk_is_within(self) -> None:
        document = read_python(self.TEXT, 8, words)

        assert_sound(self.TEXT, document.chunks, 8)
        assert ("A", "start") in crumbs(document)
        assert crumbs(document)[-1] == ()

    def test_what_fits_is_whole(self) -> None:
        assert ranges(read_python(self.TEXT, 200, words)) == [(1, 29)]

    @pytest.mark.parametrize(
        "text",
        [
            "def f(:\n  x\n",
            "print 'two'\n",
            "a\0b",
            "(" * 1000,
            "x" + ".a" * 100_000,
            "-" * 100_000 + "1",
            "\x0c\ndef f():\n\tx\n y",
        ],
        ids=lambda text: repr(text[:12]),
    )
    def test_what_is_no_python_is_read_by_its_indentation(self, text: str) -> None:
        assert_sound(text, read_python(text, 20, words).chunks, 20)

    def test_warnings_about_the_code_are_not_shown(self) -> None:
        assert crumbs(read_python("class A:\n    x = '\\d'\n    y = 1 is 1\n", 3, words))[-1] == ("A",)

    def test_this_file_is_sound_at_any_budget(self) -> None:
        text = Path(__file__).read_text("utf-8")
        spans = {
            (node.lineno, node.end_lineno)
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef) and words(ast.get_source_segment(text, node) or "") < 80
        }

        for budget in (10, 100, 1000):
            assert_sound(text, read_python(text, budget, words).chunks, budget)
        whole = ranges(read_python(text, 100, words))
        assert all(any(first <= start and (end or 0) <= last for first, last in whole) for start, end in spans)


class TestSource:
    GO = (
        'package main\n\nimport (\n\t"fmt"\n)\n\n// Hello says it.\nfunc Hello() {\n\ta := 1\n\n\tb := 2\n}\n\n'
        'func Bye() {\n\tfmt.Println("bye bye bye")\n}\n'
    )

    def test_it_is_cut_where_something_outermost_begins(self) -> None:
        document = read_source(self.GO, 14, words)

        assert_sound(self.GO, document.chunks, 14)
        assert first_words(document) == ["package main", "// Hello says it.", "func Bye() {"]

    def test_what_is_too_large_is_cut_where_it_is_least_deep(self) -> None:
        text = (
            "class A {\n"
            + "".join(
                f"  void m{number}() {{\n    if (x) {{\n      y();\n    }}\n    z();\n  }}\n" for number in range(9)
            )
            + "}\n"
        )

        document = read_source(text, 24, words)

        assert_sound(text, document.chunks, 24)
        assert all(re.match(r"class A|void m\d", line) for line in first_words(document))

    def test_deep_indentation_is_no_trouble(self) -> None:
        text = "\n".join(" " * depth + "x" for depth in range(2000))

        assert_sound(text, read_source(text, 50, words).chunks, 50)


class TestFiles:
    def test_a_kind_is_recognised_by_its_suffix_or_its_name(self, tmp_path: Path) -> None:
        for name, text, title in [
            ("a.MD", "# Hi", "Hi"), ("README", "# Hi", "Hi"), ("a.rst", "Hi\n==", "Hi"), ("a.html", "<h1>Hi", "Hi"),
            ("a.txt", "# Hi", None), ("LICENSE", "# Hi", None), ("a.py", "x = 1", "a.py"), ("a.unknown", "# Hi", None),
            ("Makefile", "x", "Makefile"), ("a.go", "x", "a.go"), ("data.json", "{}", None),
        ]:  # fmt: skip
            (tmp_path / name).write_text(text)
            assert parse_file(name, read_bytes(tmp_path / name), 100, words).title == title, name

    def test_title_links_and_front_matter_of_markdown_are_kept(self, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_text("---\ntags: [x]\n---\nSee [it](b.md) and [[C]].\n")
        document = parse_file("a.md", read_bytes(tmp_path / "a.md"), 100, words)

        assert document.front_matter == {"tags": ["x"]}
        assert [link.target for link in document.links] == ["b.md", "C"]
        assert ranges(document) == [(4, 4)]

    def test_front_matter_alone_is_something(self) -> None:
        assert parse_file("a.md", b"---\ntitle: X\n---\n", 10, words).title == "X"

    @pytest.mark.parametrize(
        ("name", "data", "reason"),
        [
            ("a.md", b"", "it is empty"),
            ("a.txt", b" \n\t\n", "it has no text"),
            ("a.html", b"<p></p><script>x</script>", "it has no text"),
            ("a.txt", b"text\0more", "it is binary"),
            ("a.png", b"\x89PNG\r\n\x1a\n\x01\x02\x03\x04\x05\x06\x07", "it is binary"),
            ("a.txt", b"\xff\xfea", "its encoding is unknown"),
            ("a.txt", bytes(range(128, 256)) * 20, "its encoding is unknown"),
            ("a.js", b"a" * 9000, "it is minified"),
            ("a.py", b"x=1;" * 900, "it is minified"),
        ],
    )
    def test_what_cannot_be_read_says_why(self, name: str, data: bytes, reason: str) -> None:
        with pytest.raises(UnreadableFile, match=f"^{reason}$") as raised:
            parse_file(name, data, 100, words)

        assert isinstance(raised.value, InvalidInput)

    def test_a_few_control_characters_are_no_harm(self) -> None:
        assert parse_file("a.txt", b"a \x1b[1mbold\x1b[0m line\n" + b"words " * 9 + b"\x1a", 100, words).chunks

    def test_what_is_no_file_is_not_opened(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.md")
        (tmp_path / "a.md").write_text("x")
        (tmp_path / "link.md").symlink_to("a.md")

        for name, reason in [
            ("pipe.md", "it is not a file"),
            (".", "it is not a file"),
            ("link.md", "it is a symbolic link"),
            ("gone.md", "it cannot be read: no such file or directory"),
            ("a\0.md", "no file can have that name"),
        ]:
            with pytest.raises(UnreadableFile, match=f"^{reason}$"):
                parse_file(name, read_bytes(tmp_path / name), 100, words)

    def test_a_file_that_grew_is_not_loaded(self, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_text("x" * 11)

        assert read_bytes(tmp_path / "a.md", 11) == b"x" * 11
        with pytest.raises(UnreadableFile, match="larger than"):
            read_bytes(tmp_path / "a.md", 10)

    def test_every_kind_has_a_small_suffix_and_none_is_unwanted(self) -> None:
        assert all(
            re.fullmatch(r"\.[a-z0-9]+", suffix) and not reason_to_skip("a" + suffix) for suffix in READERS_BY_SUFFIX
        )
        assert reason_to_skip("package-lock.json")
        assert reason_to_skip("x.min.css")
        assert reason_to_skip("a.log")


SAMPLES = {
    "de cp1252": "Die Überprüfung des Schlüssels ist fehlgeschlagen. Größe und Maß müssen übereinstimmen.",
    "fr cp1252": "La création du modèle a échoué ; vérifiez l’accès à la clé dès que possible, s’il vous plaît.",
    "es cp1252": "¿Cuál es la contraseña? La configuración más rápida está en el menú, después de añadir la opción.",
    "fi cp1252": "Tämä viesti lähetetään käyttäjälle, jos järjestelmä ei löydä määritettyä tiedostoa.",
    "pl cp1250": "Zażółć gęślą jaźń. Proszę sprawdzić, czy ścieżka jest właściwa i spróbować ponownie później.",
    "pl iso8859_2": "Zażółć gęślą jaźń. Proszę sprawdzić, czy ścieżka jest właściwa i spróbować ponownie później.",
    "cs cp1250": "Příliš žluťoučký kůň úpěl ďábelské ódy. Soubor se nepodařilo otevřít, zkuste to prosím později.",
    "tr cp1254": "Dosya bulunamadı. Lütfen yolun doğru olduğundan emin olun ve işlemi yeniden başlatın.",
    "ru cp1251": "Не удалось открыть файл. Проверьте, правильно ли указан путь, и повторите попытку.",
    "ru koi8_r": "Не удалось открыть файл. Проверьте, правильно ли указан путь, и повторите попытку.",
    "uk cp1251": "Не вдалося відкрити файл. Перевірте, чи правильно вказано шлях, і спробуйте ще раз.",
    "el cp1253": "Δεν ήταν δυνατό το άνοιγμα του αρχείου. Ελέγξτε αν η διαδρομή είναι σωστή και δοκιμάστε ξανά.",
    "he cp1255": "לא ניתן לפתוח את הקובץ. יש לבדוק שהנתיב נכון ולנסות שוב מאוחר יותר.",
    "ar cp1256": "تعذر فتح الملف. يرجى التحقق من صحة المسار ثم المحاولة مرة أخرى لاحقا.",
    "ja cp932": "ファイルを開くことができませんでした。パスが正しいことを確認してから、もう一度やり直してください。",
    "ja euc_jp": "ファイルを開くことができませんでした。パスが正しいことを確認してから、もう一度やり直してください。",
    "zh gbk": "无法打开文件。请检查路径是否正确,然后再试一次。这是我们使用的方法,可以在这里找到更多的信息。",
    "zh big5": "無法開啟檔案。請檢查路徑是否正確,然後再試一次。這是我們使用的方法,可以在這裡找到更多的資訊。",
    "ko cp949": "파일을 열 수 없습니다. 경로가 올바른지 확인한 다음 다시 시도하십시오.",
    "th cp874": "ไม่สามารถเปิดแฟ้มได้ กรุณาตรวจสอบว่าที่อยู่ถูกต้องแล้วลองใหม่อีกครั้ง",
}


class TestEncodings:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_old_encodings_are_recognised_by_their_letters(self, name: str) -> None:
        encoding = name.split()[1]

        assert decode(SAMPLES[name].encode(encoding)) == SAMPLES[name]

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_new_ones_by_their_mark_or_because_they_fit(self, encoding: str) -> None:
        assert decode("naïve 漢字 🎉\n".encode(encoding)) == "naïve 漢字 🎉\n"
        assert texts(parse_file("a.txt", "naïve 漢字".encode(encoding), 9, words)) == ["naïve 漢字"]

    @pytest.mark.parametrize("mark", ["le", "be"])
    def test_either_order_of_bytes_is_read(self, mark: str) -> None:
        assert decode(("\ufeff" + "naïve").encode(f"utf-16-{mark}")) == "naïve"
        assert decode(("\ufeff" + "naïve").encode(f"utf-32-{mark}")) == "naïve"

    def test_what_declares_itself_is_believed_if_it_fits(self) -> None:
        for text in (
            '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-7">\nΔεν',
            '<?xml version="1.0" encoding="iso-8859-7"?>\nΔεν',
            "#!/bin/python\n# -*- coding: iso-8859-7 -*-\nΔεν",
        ):
            assert decode(text.encode("iso-8859-7")) == text
        assert decode("# coding: hex\nüber".encode("cp1252")).endswith("über")
        assert decode("# coding: ascii\nüber – das".encode("cp1252")).endswith("über – das")
        assert decode("# coding: latin-1\nüber 漢字".encode()).endswith("über 漢字")

    def test_one_odd_byte_does_not_cost_the_text(self) -> None:
        assert decode(b"plain words " * 50 + b"\x81") == "plain words " * 50 + "\ufffd"

    def test_a_guess_takes_no_longer_for_more(self) -> None:
        text = SAMPLES["ru cp1251"].encode("cp1251") + b"\n"
        started = time.process_time()
        decode(text * 20_000)

        assert time.process_time() - started < 10


def a_pdf(*pages: str, title: str = "") -> bytes:
    """A small PDF, written by hand."""
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>".encode(),
    ]
    for number, page in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in page.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 50 700 Td {shown} ET".encode()
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {6 + 2 * number} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>".encode(),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer << /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF" % (size, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


class TestPdf:
    def test_pages_stand_for_lines(self) -> None:
        pytest.importorskip("pypdf")
        document = parse_file("a.pdf", a_pdf("One two.\nThree.", "", "Four five six.", title="A title"), 3, words)

        assert document.title == "A title"
        assert [(chunk.start_line, chunk.end_line, chunk.text) for chunk in document.chunks] == [
            (1, 1, "One two.\nThree."),
            (3, 3, "Four five six."),
        ]
        assert ranges(parse_file("a.pdf", a_pdf("One two.", "Three."), 3, words)) == [(1, 2)]

    def test_what_has_no_text_or_is_broken_says_so(self) -> None:
        pytest.importorskip("pypdf")
        whole = a_pdf("One two three.")
        for data, reason in [
            (a_pdf("", ""), "it has no text, only images"),
            (b"%PDF-1.4 and nothing", "it is not a readable PDF"),
            (whole[:200], "it is not a readable PDF"),
        ]:
            with pytest.raises(UnreadableFile, match=reason):
                parse_file("a.pdf", data, 3, words)

    def test_without_the_extra_it_names_the_cure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pypdf", None)

        with pytest.raises(MissingExtra, match=r"pip install 'memorist\[pdf\]'"):
            parse_file("a.pdf", a_pdf("x"), 3, words)


HOSTILE: dict[str, tuple[str, Callable[[int], str]]] = {
    "tags that never end": ("a.html", lambda size: "<a " * (size // 3)),
    "quotes that never end": ("a.html", lambda size: "<a b='" * (size // 6)),
    "comments that never end": ("a.html", lambda size: "x<!--" * (size // 5)),
    "tags in tags": ("a.html", lambda size: "x<p>" * (size // 4)),
    "a page of navigation": ("a.html", lambda size: "<nav>x" * (size // 6)),
    "headings without an end": ("a.html", lambda size: "<h1>x" * (size // 5)),
    "links without an end": ("a.html", lambda size: "<a href=x>x " * (size // 12)),
    "entities": ("a.html", lambda size: "x&amp" * (size // 5)),
    "titles": ("a.rst", lambda size: "a\n=\n\n" * (size // 5)),
    "lines to underline with": ("a.rst", lambda size: "x\n\n" + "====\n" * (size // 5)),
    "ticks": ("a.rst", lambda size: "`" * size),
    "roles": ("a.rst", lambda size: ":doc:`x " * (size // 8)),
    "blanks in a role": ("a.rst", lambda size: "`" + " " * size + "<x"),
    "indented paragraphs": ("a.rst", lambda size: "- x\n\n" + "  a\n\n" * (size // 5)),
    "definitions": ("a.py", lambda size: "def f(): x\n" * (size // 11)),
    "classes in classes": ("a.py", lambda size: "".join(" " * depth + "class A:\n" for depth in range(90)) * 9),
    "comments": ("a.py", lambda size: "# x\n" * (size // 4) + "def f(): pass\n"),
    "brackets": ("a.c", lambda size: "{\n" * (size // 2)),
    "steps": ("a.c", lambda size: "\n".join(" " * (number % 199) + "x" for number in range(size // 100))),
    "one indented line after another": ("a.c", lambda size: "a\n b\n" * (size // 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    file, made = HOSTILE[name]

    def seconds(size: int) -> float:
        data = made(size).encode()
        started = time.process_time()
        with suppress(UnreadableFile):
            parse_file(file, data, 200, words)
        return time.process_time() - started

    # Eight times as much: what grows with the square would take 64 times as long.
    assert grows_at_most(40, seconds, 25_000, 200_000)


def test_the_bundled_model_never_reads_less_than_a_whole_chunk(bundled_model: LocalEmbedder) -> None:
    text = Path(__file__).read_text("utf-8")

    chunks = parse_file("a.py", text.encode(), 200, bundled_model.count_tokens).chunks

    assert_sound(text, chunks, 200, bundled_model.count_tokens)
    assert sum(bundled_model.count_tokens(chunk.text) for chunk in chunks) / len(chunks) > 120
