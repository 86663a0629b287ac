"""Words as the full-text index sees them: the same tokenizer, asked from Python."""

import re
import threading
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import apsw

# Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese; and Hangul, whose particles
# cling to the word before them.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)

_ACCENTS = re.compile("[\u0300-\u036f]+")

_connections = threading.local()


@dataclass(frozen=True, slots=True)
class Word:
    """A word's place in a text, in characters, and its stem."""

    start: int
    end: int
    stem: str


def stemmed(text: str) -> list[Word]:
    """The words of a text as the stemmed index has them."""
    encoded = text.encode("utf-8", "replace")
    found: Any = _tokenizer("porter")(encoded, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    if len(encoded) == len(text):
        return [Word(start, end, stem) for start, end, stem in found]
    words, byte, char = [], 0, 0
    for start, end, stem in found:
        char += len(encoded[byte:start].decode("utf-8", "replace"))
        length = len(encoded[start:end].decode("utf-8", "replace"))
        words.append(Word(char, char + length, stem))
        byte, char = end, char + length
    return words


def stems(text: str) -> list[str]:
    """The stems of a text, without their places: several times faster."""
    return _cut(text, "porter")


def tokens(text: str) -> list[str]:
    """The words of a text as the unstemmed index has them."""
    return _cut(text, "unicode61")


def _cut(text: str, tokenizer: str) -> list[str]:
    found: Any = _tokenizer(tokenizer)(
        text.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return list(found)


def folded(text: str) -> str:
    """A text in small letters and without accents, as the tokenizer compares it."""
    lowered = text.lower()
    return lowered if lowered.isascii() else _ACCENTS.sub("", unicodedata.normalize("NFD", lowered))


def segments(*texts: str | None) -> str | None:
    """
    The runs of unspaced script in the texts as pairs of neighbouring characters; None where there are none.

    A run ends with its last character alone, so that every character begins some token and a single one can be
    found as a prefix.
    """
    whole = [unicodedata.normalize("NFC", text) for text in texts if text and not text.isascii()]
    return " ".join(pair for text in whole for run in unspaced(text) for pair in _pairs(run)) or None


def unspaced(text: str) -> list[str]:
    """The runs of unspaced script in a text."""
    return _UNSPACED.findall(text)


def split_unspaced(text: str) -> list[tuple[str, bool]]:
    """A text cut into stretches, each with whether it is unspaced script."""
    parts, end = [], 0
    for run in _UNSPACED.finditer(text):
        if run.start() > end:
            parts.append((text[end : run.start()], False))
        parts.append((run[0], True))
        end = run.end()
    if end < len(text):
        parts.append((text[end:], False))
    return parts


def _pairs(run: str) -> list[str]:
    return [a + b for a, b in pairwise(run)] + [run[-1]]


def _tokenizer(name: str) -> apsw.FTS5Tokenizer:
    try:
        return _connections.tokenizers[name]  # type: ignore[no-any-return]
    except AttributeError:
        _connections.database = database = apsw.Connection(":memory:")
        _connections.tokenizers = {
            "porter": database.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"]),
            "unicode61": database.fts5_tokenizer("unicode61", ["remove_diacritics", "2"]),
        }
        return _connections.tokenizers[name]  # type: ignore[no-any-return]
