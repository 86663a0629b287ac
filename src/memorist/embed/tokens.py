"""How many tokens a text is to a language model."""

from functools import cache
from importlib.resources import files

from memorist.embed.wordpiece import WordPiece

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
