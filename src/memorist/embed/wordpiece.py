"""The WordPiece tokenizer of uncased BERT models: text in, vocabulary ids out.

It gives the ids that the reference tokenizer gives, without that tokenizer's dependencies. One difference is
intended: a "[SEP]" written in a text is text here, never a control token.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Self

BUNDLED_FOLDER = Path(__file__).with_name("bundled")  # of the embedding model and the vocabulary
MAX_TOKENS = 256
_MAX_WORD_CHARACTERS = 100  # longer words are unknown, as in BERT itself
_MAX_BYTES_PER_TOKEN = 4  # of any model: text that its vocabulary lacks is spelt out, a few bytes at a time

_CACHED_WORDS = 20_000
_MAX_CACHED_WORD_CHARACTERS = 32  # a longer word hardly comes twice, and long ones would make the cache large
_CACHED_CHARACTERS = 20_000

_SLICE_CHARACTERS = 2_000  # 256 tokens of most prose, so that a long text is read no further than needed
_ASCII_WORD = re.compile(r"[0-9a-z]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
# A text may be cut before these without touching a word: spaces, punctuation and ideographs.
_SEPARATOR = r"[\t\n\r !-/:-@\[-`{-~\u3001\u3002\u3400-\u4dbf\u4e00-\u9fff]"  # slow to compile, and questions are short

# The blocks that BERT splits into single characters: ideographs, but neither kana nor hangul.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # sic: as the reference has it
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """A tokenizer with one vocabulary. Safe to share between threads."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._start = vocabulary["[CLS]"]
        self._end = vocabulary["[SEP]"]
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def from_lines(cls, lines: str) -> Self:
        """Read the text of a `vocab.txt`: one piece a line, whose id is the number of the line."""
        return cls({piece: number for number, piece in enumerate(lines.removesuffix("\n").split("\n"))})

    def encode(self, text: str, max_tokens: int = MAX_TOKENS) -> list[int]:
        """Return the ids of a text between [CLS] and [SEP], cut to `max_tokens` in all."""
        ids = [self._start]
        for words in _split_words(text):
            for word in words:
                ids += self._encode_word(word)
            if len(ids) >= max_tokens:
                del ids[max_tokens - 1 :]
                break
        ids.append(self._end)
        return ids

    def knows_any(self, ids: Sequence[int]) -> bool:
        """Return whether at least one piece of an encoded text is in the vocabulary."""
        return any(id not in (self._start, self._end, self._unknown) for id in ids)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the whole text, without [CLS] and [SEP]."""
        return sum(len(self._encode_word(word)) for words in _split_words(text) for word in words)

    def _encode_word(self, word: str) -> tuple[int, ...]:
        ids = self._cache.get(word)
        if ids is None:
            ids = self._split_word(word)
            if len(word) <= _MAX_CACHED_WORD_CHARACTERS:
                if len(self._cache) >= _CACHED_WORDS:
                    self._cache.clear()
                self._cache[word] = ids
        return ids

    def _split_word(self, word: str) -> tuple[int, ...]:
        """Split greedily: the longest piece of the vocabulary first, then the longest that continues it."""
        if len(word) > _MAX_WORD_CHARACTERS:
            return (self._unknown,)
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                piece = self._vocabulary.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return (self._unknown,)
            ids.append(piece)
            start = end
        return tuple(ids)


@cache
def load_tokenizer() -> WordPiece:
    """Return the tokenizer of the bundled model, which all local models share."""
    return WordPiece.from_lines((BUNDLED_FOLDER / "vocab.txt").read_bytes().decode("utf-8"))


def count_tokens(text: str) -> int:
    """
    Estimate the tokens of a text for any language model, rather too many than too few.

    WordPiece calls a long run of letters, or a row of emoji, one unknown word, and sees no space at all.
    """
    least = -(-len(text.encode("utf-8", "replace")) // _MAX_BYTES_PER_TOKEN)
    return max(load_tokenizer().count_tokens(text), least)


class _NormalizationTable(dict[int, str | None]):
    """A table for `str.translate` that normalizes each character when it is first met."""

    def __missing__(self, code: int) -> str | None:
        if len(self) >= _CACHED_CHARACTERS:
            self.clear()
        self[code] = normalized = _normalize(chr(code))
        return normalized


_normalization = _NormalizationTable()


def _normalize(character: str) -> str | None:
    """Remove case and accents, and put spaces around a character that is a word of its own; None drops it."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category[0] == "Z":
        return " "
    if character == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
        return None
    letters = unicodedata.normalize("NFD", character)
    # A final sigma is not special here: the reference lowers each character by itself, and so do we.
    letters = "".join(letter.lower() for letter in letters if unicodedata.category(letter) != "Mn")
    if any(first <= ord(character) <= last for first, last in _IDEOGRAPHS):
        return f" {letters} "
    return "".join(f" {letter} " if _is_punctuation(letter) else letter for letter in letters)


def _is_punctuation(character: str) -> bool:
    # BERT counts every ASCII symbol, such as $ or ^, as punctuation too.
    return (character.isascii() and not character.isalnum()) or unicodedata.category(character)[0] == "P"


def _split_words(text: str) -> Iterator[list[str]]:
    """Yield the words of a text, a slice of it at a time."""
    start = 0
    while len(text) - start > _SLICE_CHARACTERS:
        cut = re.compile(_SEPARATOR).search(text, start + _SLICE_CHARACTERS)
        if cut is None:
            break
        yield _split_slice(text[start : cut.start()])
        start = cut.start()
    yield _split_slice(text[start:] if start else text)


def _split_slice(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(_ASCII_CONTROL.sub("", text).lower())
    return text.translate(_normalization).split()
