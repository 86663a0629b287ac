"""Words as the full-text indexes have them, in scripts whose letters carry marks."""

import apsw
import pytest

from memorist import Memorist
from memorist.search.query import parse_query
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


def test_an_emoji_on_a_word_is_no_part_of_it(memory: Memorist) -> None:
    memory.add("all my love to the team")

    assert [term.text for term in parse_query("love\u2764\ufe0f", "auto").terms] == ["love\u2764"]
    assert len(memory.search("love\u2764\ufe0f", mode="keyword")) == 1
