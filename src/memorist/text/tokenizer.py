"""The tokenizer of the full-text index, called from Python, so that all of the code sees the same words."""

import re
import threading
from itertools import pairwise
from typing import Any

import apsw

from memorist.text.normal_forms import normalize

# Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese; and Hangul, whose particles
# cling to the word before them.
UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{UNSPACED_SCRIPTS}]+")

_ACCENTS = re.compile("[\u0300-\u036f]+")

_LATIN_END = "\u0250"  # the first character beyond Latin, its accents and extensions
_SCRIPT_SAMPLE = 1000  # characters of a text that decide which script it is in

# Letters, digits, and marks, which are a part of letters: without them, an Indic word is cut at each vowel sign.
_MARKED_WORDS = "L* N* Co Mc Mn"
_VARIATION_SELECTORS = "".join(map(chr, range(0xFE00, 0xFE10)))  # marks, too, but of emoji
_UNICODE61 = ("remove_diacritics", "2", "categories", _MARKED_WORDS, "separators", _VARIATION_SELECTORS)

_connections = threading.local()


Word = tuple[int, int, str]  # where a word of a text begins and ends, in characters, and its stem


def stem_words(text: str) -> list[Word]:
    """Return the words of a text with positions and stems, as the stemmed index has them."""
    encoded = text.encode("utf-8", "replace")
    found: Any = _tokenizer("porter")(encoded, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    if len(encoded) == len(text):
        return list(found)
    words, byte, char = [], 0, 0
    for start, end, stem in found:
        char += len(encoded[byte:start].decode("utf-8", "replace"))
        length = len(encoded[start:end].decode("utf-8", "replace"))
        words.append((char, char + length, stem))
        byte, char = end, char + length
    return words


def list_stems(text: str) -> list[str]:
    """Return the stems of a text without positions, which is several times faster."""
    return _tokenize(text, "porter")


def list_tokens(text: str) -> list[str]:
    """Return the words of a text as the unstemmed index has them."""
    return _tokenize(text, "unicode61")


def _tokenize(text: str, tokenizer: str) -> list[str]:
    found: Any = _tokenizer(tokenizer)(
        text.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return list(found)


def fts5_option(*, stemmed: bool) -> str:
    """Return the tokenizer as an option of a table of FTS5."""
    names = ("porter", "unicode61") if stemmed else ("unicode61",)
    written = (option if option.isalnum() or "_" in option else f"'{option}'" for option in (*names, *_UNICODE61))
    return f'tokenize = "{" ".join(written)}"'


def fold(text: str) -> str:
    """Lower-case a text and remove accents, as the tokenizer does."""
    lowered = text.lower()
    return lowered if lowered.isascii() else _ACCENTS.sub("", normalize("NFD", lowered))


def is_mostly_latin(text: str) -> bool:
    """Return whether at least half of the first letters of a text are Latin."""
    letters = [character for character in text[:_SCRIPT_SAMPLE] if character.isalpha()]
    return 2 * sum(character < _LATIN_END for character in letters) >= len(letters)


def unspaced_bigrams(*texts: str | None) -> str | None:
    """
    Return the runs of unspaced script in the texts as pairs of adjacent characters; None where there are none.

    A run ends with its last character alone, so that every character begins a token and a single one can be found as a
    prefix.
    """
    whole = [normalize("NFC", text) for text in texts if text and not text.isascii()]
    if not whole:
        return None  # mostly, at once
    return " ".join(pair for text in whole for run in find_unspaced_runs(text) for pair in _bigrams(run)) or None


def has_unspaced(text: str) -> bool:
    """Tell if a text has any unspaced script."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def find_unspaced_runs(text: str) -> list[str]:
    """Return the runs of unspaced script in a text."""
    return _UNSPACED.findall(text)


def split_unspaced(text: str) -> list[tuple[str, bool]]:
    """Split a text into stretches, each with whether it is unspaced script."""
    parts, end = [], 0
    for run in _UNSPACED.finditer(text):
        if run.start() > end:
            parts.append((text[end : run.start()], False))
        parts.append((run[0], True))
        end = run.end()
    if end < len(text):
        parts.append((text[end:], False))
    return parts


def _bigrams(run: str) -> list[str]:
    return [a + b for a, b in pairwise(run)] + [run[-1]]


def _tokenizer(name: str) -> apsw.FTS5Tokenizer:
    if not hasattr(_connections, "tokenizers"):
        _connections.database = database = apsw.Connection(":memory:")
        _connections.tokenizers = {
            "porter": database.fts5_tokenizer("porter", ["unicode61", *_UNICODE61]),
            "unicode61": database.fts5_tokenizer("unicode61", [*_UNICODE61]),
        }
    return _connections.tokenizers[name]  # type: ignore[no-any-return]
