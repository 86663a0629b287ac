"""The tokenizer gives the ids of the reference tokenizer, for any text."""

import pytest

from memorist.embed import local
from memorist.embed.wordpiece import MAX_TOKENS, WordPiece

CLS, SEP, UNK = 101, 102, 100

# Made once with the reference implementation (tokenizers.BertWordPieceTokenizer, lower case).
# fmt: off
REFERENCE = [
    ("", [101, 102]),
    ("   \t\r\n", [101, 102]),
    ("Where do we deploy?", [101, 2073, 2079, 2057, 21296, 1029, 102]),
    ("Héllo, WÖRLD!! naïve façade", [101, 7592, 1010, 2088, 999, 999, 15743, 8508, 102]),
    ("don't stop-me_now $5.00 a^b",
     [101, 2123, 1005, 1056, 2644, 1011, 2033, 1035, 2085, 1002, 1019, 1012, 4002, 1037, 1034, 1038, 102]),
    ("北京是中国的首都。", [101, 1781, 1755, 100, 1746, 1799, 1916, 100, 1961, 1636, 102]),
    ("ひらがなとカタカナ", [101, 1673, 30211, 30177, 30193, 30192, 30226, 30235, 30226, 30241, 102]),
    ("한국어 텍스트",
     [101, 1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 1467, 30009, 30020, 29997, 30017, 30003, 30017, 102]),
    ("ΟΔΟΣ Σίσυφος", [101, 1169, 29722, 29730, 29733, 1173, 18199, 29733, 29735, 29736, 15297, 102]),
    ("İstanbul ẞtraße ﬁne", [101, 9960, 1096, 6494, 17499, 1984, 2638, 102]),
    ("zero\u200bwidth\xadsoft\ufeff", [101, 5717, 9148, 11927, 7898, 15794, 102]),
    ("a\x00b\x07c\ufffdd\x7fe\x85f", [101, 5925, 3207, 2546, 102]),
    ("nbsp\xa0line\u2028para\u2029\u3000end", [101, 1050, 5910, 2361, 2240, 11498, 2203, 102]),
    ("\ue000private", [101, 2797, 102]),
    ("👩\u200d👩\u200d👧 emoji 🚀", [101, 100, 7861, 29147, 2072, 100, 102]),
    ("“quoted” — dash… ¿qué?", [101, 1523, 9339, 1524, 1517, 11454, 1529, 1094, 10861, 1029, 102]),
    ("antidisestablishmentarianism unaffable",
     [101, 3424, 10521, 4355, 7875, 13602, 3672, 12199, 2964, 14477, 20961, 3468, 102]),
    ("x" * 100, [101, 22038, *[20348] * 49, 102]),
    ("y" * 101, [101, 100, 102]),
    ("≠ ` ´ ½ ² №", [101, 1027, 1036, 1084, 1092, 1082, 1578, 102]),
    ("العربية עברית हिन्दी ไทย",
     [101, 1270, 23673, 29830, 17149, 29816, 14498, 19433, 1259, 29789, 29811, 29796, 29813, 1339, 29877, 29863, 29861,
      29878, 100, 102]),
    ("e\u0301 e\u0323\u0301", [101, 1041, 1041, 102]),
    ("snake_case camelCase v1.2.3-rc1",
     [101, 7488, 1035, 2553, 19130, 18382, 1058, 2487, 1012, 1016, 1012, 1017, 1011, 22110, 2487, 102]),
    ("C:\\Users\\me https://a.io/?q=1&b=2",
     [101, 1039, 1024, 1032, 5198, 1032, 2033, 16770, 1024, 1013, 1013, 1037, 1012, 22834, 1013, 1029, 1053, 1027, 1015,
      1004, 1038, 1027, 1016, 102]),
]
# fmt: on


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece.from_lines((local.BUNDLED_FOLDER / "vocab.txt").read_bytes().decode("utf-8"))


@pytest.mark.parametrize(("text", "ids"), REFERENCE, ids=[ascii(text)[:30] for text, _ in REFERENCE])
def test_the_ids_are_those_of_the_reference(tokenizer: WordPiece, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(text) == ids


def test_a_word_has_the_same_ids_the_second_time(tokenizer: WordPiece) -> None:
    assert tokenizer.encode("unaffable unaffable")[1:4] == tokenizer.encode("unaffable")[1:4]
    assert tokenizer.encode("unaffable unaffable")[4:7] == tokenizer.encode("unaffable")[1:4]


def test_a_long_text_is_cut_to_the_limit_and_still_ends_properly(tokenizer: WordPiece) -> None:
    ids = tokenizer.encode("deploy " * 1000)

    assert len(ids) == MAX_TOKENS
    assert (ids[0], ids[1], ids[-2], ids[-1]) == (CLS, 21296, 21296, SEP)


@pytest.mark.parametrize("words", [253, 254, 255])
def test_the_limit_counts_both_ends(tokenizer: WordPiece, words: int) -> None:
    assert len(tokenizer.encode("deploy " * words)) == min(words + 2, MAX_TOKENS)


@pytest.mark.parametrize("unit", ["deploy it, now! ", "北京", "naïve café ", "a" * 50 + " ", "日本語のテキスト、"])
def test_reading_in_slices_changes_nothing(tokenizer: WordPiece, unit: str) -> None:
    # count_tokens reads every slice; one unit alone is read at once.
    assert tokenizer.count_tokens(unit * 1000) == 1000 * tokenizer.count_tokens(unit)


def test_counting_leaves_out_both_ends_and_has_no_limit(tokenizer: WordPiece) -> None:
    assert tokenizer.count_tokens("") == 0
    assert tokenizer.count_tokens("Where do we deploy?") == 5
    assert tokenizer.count_tokens("deploy " * 1000) == 1000


@pytest.mark.parametrize(
    "text",
    ["\ud800", "a\udfffb", "\x00", "\U0010ffff", "x" * 1_000_000, "é" * 1_000_000, "中" * 1_000_000, "\u0301" * 5000],
    ids=["high surrogate", "low surrogate", "nul", "last", "long word", "long accents", "long han", "only marks"],
)
def test_any_string_is_accepted(tokenizer: WordPiece, text: str) -> None:
    ids = tokenizer.encode(text)

    assert (ids[0], ids[-1]) == (CLS, SEP)
    assert len(ids) <= MAX_TOKENS


def test_a_lone_surrogate_is_dropped_like_other_control_characters(tokenizer: WordPiece) -> None:
    assert tokenizer.encode("de\ud800ploy") == tokenizer.encode("deploy")


def test_a_control_token_written_in_a_text_is_text(tokenizer: WordPiece) -> None:
    ids = tokenizer.encode("the [SEP] token [CLS]")

    assert SEP not in ids[1:-1]
    assert CLS not in ids[1:-1]


def test_an_unknown_symbol_is_one_unknown_token(tokenizer: WordPiece) -> None:
    assert tokenizer.encode("🚀") == [CLS, UNK, SEP]
