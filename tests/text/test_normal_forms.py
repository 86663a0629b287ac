"""Normal forms: those of Unicode for every text that people write, and soon for every other."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.text.normal_forms import normalize


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=31))
def test_a_text_has_the_normal_forms_of_unicode(text: str) -> None:
    assert normalize("NFC", text) == unicodedata.normalize("NFC", text)
    assert normalize("NFD", text) == unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    "text", ["cafe\u0301 " * 1000, "か\u3099" * 1000, "—" * 100 + "e\u0301", "\u1112\u1161\u11ab" * 99]
)
def test_a_long_text_has_them_too(text: str) -> None:
    assert normalize("NFC", text) == unicodedata.normalize("NFC", text)


def test_every_character_that_is_reordered_counts_towards_a_long_run() -> None:
    """Otherwise a run of it would be sorted as a whole, which takes quadratic time."""
    marks = [chr(code) for code in range(0x110000) if unicodedata.combining(unicodedata.normalize("NFD", chr(code))[0])]

    for mark in marks:
        assert normalize("NFD", mark * 33) == unicodedata.normalize("NFD", mark * 32) + unicodedata.normalize(
            "NFD", mark
        )
        assert normalize("NFD", f"{mark * 32}\u0334") != unicodedata.normalize("NFD", f"{mark * 32}\u0334") or (
            unicodedata.combining(unicodedata.normalize("NFD", mark)[0]) <= 1
        )
