"""Files read as documents: which reader each kind has, and what none of them takes."""

import errno
import logging
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePath

from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.chunk import Block, Count, Lines, plain_chunks, split
from memorist.ingest.encoding import decode, is_binary
from memorist.ingest.markdown import Parsed, read_markdown
from memorist.ingest.markup import at_source, read_html, read_rst
from memorist.ingest.source import read_python, read_source

MINIFIED = 250  # characters a line on average: nobody writes code like that

Reader = Callable[[bytes, int, Count], Parsed]
"""From the bytes of a file, chunks of at most so many tokens each, and what else there is to know."""


class Unreadable(InvalidInput):
    """A file has nothing to index; the message says why, and the caller which file."""


def read(file: Path, budget: int, count: Count) -> Parsed:
    """A file as a document; raises Unreadable, or MissingExtra where its kind needs an extra."""
    return parse(file.name, load(file), budget, count)


def load(file: Path, largest: int | None = None) -> bytes:
    """The bytes of a file, to be hashed or parsed. It never waits for a pipe, and does not follow a link."""
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
    try:
        descriptor = os.open(file, flags)
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise Unreadable("it is not a file")
            if largest is not None and about.st_size > largest:
                raise Unreadable(f"it is larger than {largest / 1e6:g} MB")
            with open(descriptor, "rb", closefd=False) as stream:
                return stream.read()
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise Unreadable(trouble(exc)) from exc
    except ValueError as exc:  # a null character in its name
        raise Unreadable("no file can have that name") from exc


def trouble(exc: OSError) -> str:
    """What the system says about a file that cannot be read, as a reason."""
    if exc.errno == errno.ELOOP:
        return "it is a symbolic link"
    return f"it cannot be read: {exc.strerror or exc}".lower()


def parse(name: str, data: bytes, budget: int, count: Count) -> Parsed:
    """What `read` makes of the bytes of a file with that name."""
    if not data:
        raise Unreadable("it is empty")
    reader = reader_of(name) or _PLAIN
    document = reader(data, budget, count)
    if not document.chunks and not document.front_matter:
        raise Unreadable("it has no text")
    return replace(document, title=name) if reader in (_PYTHON, _SOURCE) else document


def reader_of(name: str) -> Reader | None:
    """The reader for files of that name, if it is a kind of text we know."""
    suffix = PurePath(name).suffix.lower()
    return KINDS.get(suffix) if suffix else _NAMES.get(name.lower())


def source_text(name: str, data: bytes) -> str | None:
    """The text that the reader for that name begins with; None where it makes the text itself, or there is none."""
    try:
        return None if not data or reader_of(name) is read_pdf else _text(data)
    except Unreadable:
        return None


def makes_text(name: str) -> bool:
    """Whether the text of a file of that name is not what stands in its bytes."""
    return reader_of(name) in (read_pdf, _HTML)


def unwanted(name: str) -> str | None:
    """Why files of that name are left out unless somebody asks for them; None if they are not."""
    suffix = PurePath(name).suffix.lower()
    if name.lower() in _GENERATED or name.lower().endswith((".min.js", ".min.css")):
        return "made by a tool; name the file itself to index it"
    if suffix in _DATA:
        return f"{suffix} files hold data; name the file itself to index it"
    if reader_of(name):
        return None
    return f"no reader for {suffix} files" if suffix else "no reader for files without a suffix"


def _text(data: bytes) -> str:
    if is_binary(data):
        raise Unreadable("it is binary")
    try:
        return decode(data)
    except UnicodeError as exc:
        raise Unreadable("it is in no encoding that is known") from exc


def _reader(read: Callable[[str, int, Count], Parsed]) -> Reader:
    def from_bytes(data: bytes, budget: int, count: Count) -> Parsed:
        try:
            return read(_text(data), budget, count)
        except ValueError as exc:  # one page that is too odd must not end the reading of all others
            raise Unreadable(f"it cannot be read: {exc}") from exc

    return from_bytes


def _code_reader(read: Callable[[str, int, Count], Parsed]) -> Reader:
    def from_bytes(data: bytes, budget: int, count: Count) -> Parsed:
        text = _text(data)
        if len(text) > MINIFIED * max(10, text.count("\n") + text.count("\r") + 1):
            raise Unreadable("it is minified")
        return read(text, budget, count)

    return from_bytes


def _read_plain(text: str, budget: int, count: Count) -> Parsed:
    return Parsed(None, {}, (), tuple(plain_chunks(text, budget, count)))


def read_pdf(data: bytes, budget: int, count: Count) -> Parsed:
    """The text of a PDF. Its chunks have pages for lines: a file has no lines, and a reader looks for the page."""
    try:
        from pypdf import PdfReader
    except ImportError as exc:
        raise MissingExtra("PDF files need an extra: pip install 'memorist[pdf]'") from exc
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every flaw it gets around
    try:
        pdf = PdfReader(BytesIO(data))
        locked = pdf.is_encrypted and not pdf.decrypt("")
        pages = [] if locked else [page.extract_text() for page in pdf.pages]
        title = None if locked or not pdf.metadata else pdf.metadata.title
    except Exception as exc:  # whatever it is: a broken file fails in a hundred places of it
        raise Unreadable(f"it is no PDF that can be read: {exc}") from exc
    if locked:
        raise Unreadable("it is encrypted")
    if not any(page.strip() for page in pages):
        raise Unreadable("it has no text, only pictures of it")
    blocks, texts, source = list[Block](), list[str](), list[int]()
    for number, page in enumerate(pages, 1):
        text = Lines(page.replace("\0", "").encode("utf-8", "replace").decode()).text.split("\n")
        blocks.append(Block(len(texts), len(texts) + len(text)))
        texts += text
        source += [number] * len(text)
    lines = Lines("\n".join(texts))
    chunks = split(lines, Block(0, len(lines), blocks), budget, count)
    return Parsed((title or "").strip() or None, {}, (), tuple(at_source(chunks, source)))


_MARKDOWN, _PLAIN, _RST, _HTML = map(_reader, (read_markdown, _read_plain, read_rst, read_html))
_PYTHON, _SOURCE = map(_code_reader, (read_python, read_source))


def _table(**readers: tuple[Reader, str]) -> dict[str, Reader]:
    return {word: reader for reader, words in readers.values() for word in words.split()}


KINDS: Mapping[str, Reader] = _table(
    markdown=(_MARKDOWN, ".md .markdown .mdown .mdx .mkd .mkdn .qmd .rmd"),
    plain=(_PLAIN, ".adoc .asciidoc .org .tex .text .textile .txt .typ .wiki"),
    rst=(_RST, ".rest .rst"),
    html=(_HTML, ".htm .html .xhtml"),
    pdf=(read_pdf, ".pdf"),
    python=(_PYTHON, ".py .pyi .pyw"),
    source=(
        _SOURCE,
        ".astro .bash .bat .bzl .c .cc .cfg .cjs .clj .cljs .cmake .cmd .conf .cpp .cs .css .cts .cu .cxx .dart .el"
        " .elm .erl .ex .exs .f90 .fish .fs .go .gradle .graphql .groovy .h .hcl .hh .hpp .hrl .hs .hxx .ini .java .jl"
        " .js .jsx .kt .kts .less .lisp .lua .m .mjs .mk .ml .mli .mm .mts .nim .nix .pas .php .pl .pm .properties"
        " .proto .ps1 .r .rake .rb .rs .sass .scala .scm .scss .sh .sol .sql .svelte .swift .tcl .tf .thrift .toml .ts"
        " .tsx .v .vb .vim .vue .yaml .yml .zig .zsh",
    ),
)
"""The reader of each suffix."""

_NAMES = _table(
    markdown=(_MARKDOWN, "readme"),
    plain=(
        _PLAIN,
        "authors changelog changes contributing contributors copying faq history install licence license maintainers"
        " news notice thanks todo",
    ),
    source=(
        _SOURCE,
        "brewfile containerfile dockerfile gemfile jenkinsfile justfile makefile procfile rakefile vagrantfile",
    ),
)
_DATA = frozenset(
    ".csv .geojson .ipynb .json .json5 .jsonl .lock .log .map .ndjson .parquet .po .pot .sum .svg .tsv .xml".split()
)
_GENERATED = frozenset(["package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json"])
