"""Files read as documents: which reader each kind has, and what none of them takes.

Bytes read as text: by the mark they begin with, as UTF-8, as they declare, else by which letters they would be.

The guess is ours because it was measured. In 18 languages it was not made with, it reads 388 of 399 texts in old
encodings as they were written, `charset-normalizer` 273, which misses most in Western Europe and takes 45 ms to import.
"""

import codecs
import errno
import logging
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePath

from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.chunk import Count, Lines, TextBlock, plain_chunks, split
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
    blocks, texts, source = list[TextBlock](), list[str](), list[int]()
    for number, page in enumerate(pages, 1):
        text = Lines(page.replace("\0", "").encode("utf-8", "replace").decode()).text.split("\n")
        blocks.append(TextBlock(len(texts), len(texts) + len(text)))
        texts += text
        source += [number] * len(text)
    lines = Lines("\n".join(texts))
    chunks = split(lines, TextBlock(0, len(lines), blocks), budget, count)
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


BLOCK = 8192  # bytes that tell a binary file
SAMPLE = 1 << 14  # bytes that tell an encoding
LIKELY = 0.2  # the least likeness of a text to a language: random bytes reach 0.14, real texts begin at 0.33
FOREIGN = 0.1  # the part of a text beyond ASCII from which on a wrong guess would make nonsense of it

_MARKS = (  # the longer first: UTF-32 begins like UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(code for code in range(32) if code not in b"\b\t\n\f\r\x1b") + b"\x7f"
_DECLARED = re.compile(
    rb"""<meta\b[^>]{0,200}?\bcharset\s*=\s*["']?([-\w.]{1,40})
    |\A<\?xml\b[^>]{0,200}?\bencoding\s*=\s*["']([-\w.]{1,40})
    |\A(?:.*\n)?.*\bcoding[:=][ \t]*([-\w.]{1,40})""",
    re.VERBOSE | re.IGNORECASE,
)
_WIDER = {  # what is declared as the one is often the other, which has all of its characters
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


def is_binary(data: bytes) -> bool:
    """Whether these bytes are no text: a null among the first of them, or more than a few control characters."""
    block = data[:BLOCK]
    if any(data.startswith(mark) for mark, _ in _MARKS):
        return False  # UTF-16 is full of nulls
    controls = len(block) - len(block.translate(None, _CONTROLS))
    return b"\0" in block or controls > max(1, len(block) // 20)


def decode(data: bytes) -> str:
    """The text that bytes stand for; raises UnicodeError where they are none, or in an encoding nobody here knows."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(name)
            if "\0" in text:
                raise UnicodeError("null characters")
            return text
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _declared(data) or _guessed(data)


def _declared(data: bytes) -> str | None:
    if found := _DECLARED.search(data[:1024]):
        try:
            name = codecs.lookup(next(filter(None, found.groups())).decode("ascii")).name
            return data.decode(_WIDER.get(name, name))
        except (LookupError, ValueError):  # no encoding, not one of text, or not the one this is in
            return None
    return None


_KANA = "".join(map(chr, [*range(0x3041, 0x3094), *range(0x30A1, 0x30FD)]))

# What is common beyond ASCII in texts of a language, most of all first, and the encodings that such texts are kept in.
_LANGUAGES = (
    ("cp1252", "éèàêçôîùûâïëœ"),  # French
    ("cp1252", "üäöß"),  # German
    ("cp1252", "óíáéñúü¿¡ª"),  # Spanish
    ("cp1252", "ãçáéíóêõâúàô"),  # Portuguese
    ("cp1252", "àèéìòù"),  # Italian
    ("cp1252", "äåöæøé"),  # Finnish, Swedish, Danish, Norwegian
    ("cp1252", "áíðóöéþæúý"),  # Icelandic
    ("cp1252", "èàéóíçúòïü·"),  # Catalan
    ("cp1252", "ëéïèöüáó"),  # Dutch
    ("cp1254", "ıüşiçöğâİ"),  # Turkish
    ("cp1250 iso8859_2", "ęłóążśćńź"),  # Polish
    ("cp1250 iso8859_2", "íáéěřýčžšůúťňďó"),  # Czech
    ("cp1250 iso8859_2", "áéöóőüíúű"),  # Hungarian
    ("cp1250 iso8859_2", "áéíčýžúšľťôňäóďĺŕ"),  # Slovak
    ("cp1250 iso8859_2", "šžčćđ"),  # Croatian, Slovene
    ("cp1250 iso8859_2", "ăîâşţșț"),  # Romanian
    ("cp1257", "ėšžįųčūąę"),  # Lithuanian
    ("cp1257", "āīšēņļūžčķģ"),  # Latvian
    ("cp1257", "äõüöšž"),  # Estonian
    ("cp1251 koi8_u cp866", "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"),  # Russian
    ("cp1251 koi8_u", "оанивтерілсдкмупязьбгчйжхцшїєющфґ"),  # Ukrainian
    ("cp1251", "аоиетнрсвлкдпмзугбъчящйжшцхюфьјљњћђџ"),  # Bulgarian, Serbian
    ("cp1253", "οατεισνρηυπκμλςάίόέήώύδγωθβφχξζψϊϋΐΰ"),  # Greek
    ("cp1255", "יוהלארתבמשנםדקחעפסכגטזןצךףץ"),  # Hebrew
    ("cp1256", "ايلمنترفعدبسهقكحةجأصطشىخضزذءثغإؤئظآ،؟ًّ"),  # Arabic
    ("cp874", "านรกอเงยลมวดสทต่้ีัะปบคหิแจพชขใไโำ์ุูืผ็ซณธศษ"),  # Thai
    (  # Japanese
        "cp932 euc_jp",
        "のにたるはをいとしがでてなすれかられまこりっくもせきうさよンスルトイリラクレドアテプタロジ。、「」ー" + _KANA,
    ),
    (  # Chinese
        "gb18030",
        "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于文件使用名错误法无选项。，、：",
    ),
    (  # Chinese, traditional
        "big5",
        "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於檔案使用名錯誤法無選項。，、：",
    ),
    ("cp949", "이다는의에을를가하고도은로지기서한사인으정자시어나그수있리아해대라일부제적과할름습니없오파"),  # Korean
)
_PRINTED = "“”„‘’‚–—…«»€°§©®·×\u00a0\u00ad"
_IDEOGRAPHS = re.compile("[\u3000-\u303f\u3400-\u9fff\uac00-\ud7a3\uff01-\uff5e]")
_STRAY = re.compile(  # beside a Latin letter, or alone
    r"(?<=[A-Za-z])[^\W\0-\x7f]|[^\W\0-\x7f](?=[A-Za-z])|(?<![^\0-\x7f])[^\W\0-\x7f](?![^\0-\x7f])"
)


def _guessed(data: bytes) -> str:
    """The text in the encoding that makes the likeliest letters of it; the first of the table if several do."""
    first = re.search(rb"[\x80-\xff]", data)
    start = data.rfind(b"\n", 0, first.start() if first else 0) + 1
    sample = data[start : start + SAMPLE]
    foreign = len(sample) - len(sample.translate(None, bytes(range(128, 256))))
    best, encoding = max(_scores(sample), key=lambda score: score[0])
    if best < LIKELY:
        if foreign > FOREIGN * len(sample):
            raise UnicodeError("unknown encoding")
        encoding = "cp1252"
    return data.decode(encoding, "replace")


def _scores(sample: bytes) -> Iterator[tuple[float, str]]:
    """How well each encoding fits: 1 where every letter is a common one of a language, -1 where none is."""
    yield -1.0, "cp1252"
    read: dict[str, tuple[Counter[str], int]] = {}
    for encodings, letters in _LANGUAGES:
        for encoding in encodings.split():
            if encoding not in read:
                read[encoding] = _foreign_letters(sample, encoding)
            counted, strays = read[encoding]
            if total := counted.total():
                latin = letters[0] < "\u0250"
                likeness = sum(count * _weight(letter, letters, latin) for letter, count in counted.items())
                yield (likeness if latin else likeness - strays) / total, encoding


def _foreign_letters(sample: bytes, encoding: str) -> tuple[Counter[str], int]:
    """What is beyond ASCII, and how many letters of it stand as they seldom do in another script than Latin."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)  # a character cut off at the end is no error
    except UnicodeDecodeError:
        return Counter(), 0
    return Counter(re.sub(r"[\0-\x7f]+", "", text)), len(_STRAY.findall(text))


def _weight(letter: str, letters: str, latin: bool) -> float:
    rank = letters.find(letter)
    if rank >= 0:
        return 1.0 if latin or rank < len(letters) // 3 else 0.6
    if letter in _PRINTED:
        return 0.7
    if letter.lower() in letters:
        return 0.3
    return 0.25 if len(letters) > 40 and _IDEOGRAPHS.match(letter) else -1.0
