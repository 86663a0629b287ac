"""The WordPiece tokenizer of uncased BERT models: text in, vocabulary ids out.

It gives the ids that the reference tokenizer gives, without that tokenizer's dependencies. One difference is
meant: a "[SEP]" written in a text is text here, never a control token.

How many tokens a text is to a language model.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

MAX_TOKENS = 256
_MAX_WORD = 100  # longer words are unknown, as in BERT itself

_CACHED_WORDS = 20_000
_CACHED_LENGTH = 32  # a longer word hardly comes twice, and long ones would make the cache large
_CACHED_CHARACTERS = 20_000

_SLICE = 2_000  # characters: 256 tokens of most prose, so that a long text is read no further than needed
_ASCII_WORD = re.compile(r"[0-9a-z]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
# Where a text may be cut without touching a word: before a space, punctuation or an ideograph.
_SEPARATOR = re.compile(r"[\t\n\r !-/:-@\[-`{-~\u3001\u3002\u3400-\u4dbf\u4e00-\u9fff]")

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
    """Turns text into ids of one vocabulary. Safe to share between threads."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._start = vocabulary["[CLS]"]
        self._end = vocabulary["[SEP]"]
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def from_lines(cls, lines: str) -> "WordPiece":
        """Read the text of a `vocab.txt`: one piece a line, its id the number of the line."""
        return cls({piece: number for number, piece in enumerate(lines.removesuffix("\n").split("\n"))})

    def encode(self, text: str, max_tokens: int = MAX_TOKENS) -> list[int]:
        """The ids of a text between [CLS] and [SEP], cut to `max_tokens` in all."""
        ids = [self._start]
        for words in _sliced_words(text):
            for word in words:
                ids += self._pieces(word)
            if len(ids) >= max_tokens:
                del ids[max_tokens - 1 :]
                break
        ids.append(self._end)
        return ids

    def knows(self, text: str) -> bool:
        """Whether at least one piece of the text is in the vocabulary."""
        return any(id not in (self._start, self._end, self._unknown) for id in self.encode(text))

    def count_tokens(self, text: str) -> int:
        """How many tokens the whole text has, without [CLS] and [SEP] and without a limit."""
        return sum(len(self._pieces(word)) for words in _sliced_words(text) for word in words)

    def _pieces(self, word: str) -> tuple[int, ...]:
        ids = self._cache.get(word)
        if ids is None:
            ids = self._split(word)
            if len(word) <= _CACHED_LENGTH:
                if len(self._cache) >= _CACHED_WORDS:
                    self._cache.clear()
                self._cache[word] = ids
        return ids

    def _split(self, word: str) -> tuple[int, ...]:
        """Greedy: the longest piece of the vocabulary first, then the longest that continues it."""
        if len(word) > _MAX_WORD:
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


class _Characters(dict[int, str | None]):
    """What each character becomes, worked out when first met: a table for `str.translate`."""

    def __missing__(self, code: int) -> str | None:
        if len(self) >= _CACHED_CHARACTERS:
            self.clear()
        self[code] = plain = _plain(chr(code))
        return plain


_characters = _Characters()


def _plain(character: str) -> str | None:
    """One character without case and accents, set apart by spaces if it is a word of its own; None drops it."""
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


def _sliced_words(text: str) -> Iterator[list[str]]:
    """The words of a text, a slice of it at a time."""
    start = 0
    while len(text) - start > _SLICE:
        cut = _SEPARATOR.search(text, start + _SLICE)
        if cut is None:
            break
        yield _words(text[start : cut.start()])
        start = cut.start()
    yield _words(text[start:] if start else text)


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(_ASCII_CONTROL.sub("", text).lower())
    return text.translate(_characters).split()


BYTES_A_TOKEN = 4  # at most: what a vocabulary does not know is spelt out, a few bytes at a time


@cache
def vocabulary() -> WordPiece:
    """The tokenizer that ships with Memorist."""
    return WordPiece.from_lines((files("memorist.embed") / "minilm" / "vocab.txt").read_bytes().decode("utf-8"))


def count_tokens(text: str) -> int:
    """
    The tokens of a text, rather too many than too few: no model's vocabulary is another's.

    WordPiece calls a long run of letters, or a row of emoji, one unknown word, and sees no space at all.
    """
    return max(vocabulary().count_tokens(text), -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN))
