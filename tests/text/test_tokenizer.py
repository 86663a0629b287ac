"""Words as the full-text indexes have them, in scripts whose letters carry marks."""

import apsw
import pytest

from memorist import Memorist
from memorist.text.tokenizer import fts5_option, list_stems, list_tokens

MARKED = {
    "Hindi": ("पैंथर्स ने कितने अंक दिए", 5),
    "Bengali": ("বাংলাদেশের রাজধানী ঢাকা", 3),
    "Tamil": ("தமிழ் மொழி பேசுகிறோம்", 3),
    "Arabic with vowels": ("كَتَبَ الوَلَدُ", 2),
    "Hebrew with points": ("שָׁלוֹם עוֹלָם", 2),
}


@pytest.mark.parametrize("language", MARKED)
def test_a_mark_is_a_part_of_its_word(language: str) -> None:
    text, words = MARKED[language]

    assert len(list_stems(text)) == len(list_tokens(text)) == words


def test_accents_are_left_out_however_they_are_written() -> None:
    assert list_tokens("crème cre\u0300me CRÈME") == ["creme"] * 3


def test_a_table_of_fts5_has_the_same_words() -> None:
    for stemmed, split in ((True, list_stems), (False, list_tokens)):
        index = apsw.Connection(":memory:")
        index.execute(f"create virtual table texts using fts5(text, {fts5_option(stemmed=stemmed)})")
        index.execute("create virtual table words using fts5vocab(texts, instance)")
        texts = [text for text, _ in MARKED.values()] + ["running crème"]
        index.executemany("insert into texts(text) values (?)", [(text,) for text in texts])
        found = index.execute("select term from words order by doc, offset").fetchall()
        assert [word for (word,) in found] == [word for text in texts for word in split(text)]


def test_a_word_of_marked_letters_is_found_and_no_part_of_it(memory: Memorist) -> None:
    memory.add("अन्ना लिस्बन में रहती है")

    assert len(memory.search("लिस्बन", mode="keyword")) == 1
    assert len(memory.search("लस", mode="keyword")) == 0


@pytest.mark.parametrize("text", ["all my love\u2764\ufe0f to the team", "love 1\ufe0f\u20e3 team"])
def test_a_mark_of_an_emoji_is_no_part_of_a_word(memory: Memorist, text: str) -> None:
    memory.add(text)

    for query in ("love", "love\u2764\ufe0f", "team"):
        assert len(memory.search(query, mode="keyword")) == 1
    assert "\ufe0f" not in "".join(list_tokens(text))


@pytest.mark.parametrize("query", ["x \u0304 of", '"x \u0304 of"', "x/\u0304/of"])
def test_an_accent_on_nothing_is_searched_for_as_any_text(memory: Memorist, query: str) -> None:
    memory.add("the x \u0304 of a sample")

    assert len(memory.search(query, mode="keyword")) == 1
    assert memory.facets(query, ["kind"]) is not None
