"""Normal forms of Unicode, in time that grows with the text alone."""

import re
import unicodedata
from typing import Literal

# Accents, and symbols that are not ASCII: every character that Unicode reorders is among them. No writing has so many
# accents on a letter. Python sorts them in quadratic time, and no other thread runs meanwhile.
_LONG_RUN = re.compile(r"([^\w\s\x00-\x7f]{32})")


def normalize(form: Literal["NFC", "NFD"], text: str) -> str:
    """Return a text in a normal form; a run of accents that is longer than any in writing, piece by piece."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize(form, piece) for piece in _LONG_RUN.split(text))
