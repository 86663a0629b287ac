"""
"Did you mean": a query with its unknown words corrected.

Only those words are replaced. Quotation marks, operators and capitals stay as they were typed. A word that was typed
without capitals gets those it has in the store.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, islice, pairwise, product

from msgspec import Struct

from memorist.records import Query, Term
from memorist.search.query import STOP_WORDS
from memorist.text.tokenizer import find_unspaced_runs, fold, list_stems, stem_words

_MIN_WORD_LETTERS = 4  # a shorter word alone is one typo away from too many others
_MIN_PART_LETTERS = 2  # of a word in an identifier or phrase, where the other words narrow it down
_MAX_WORD_LETTERS = 40
_MIN_HALF_LETTERS = 3  # on each side of a missing space
MAX_UNKNOWN_WORDS = 5  # with more it is not a typo, but a question about something else
MAX_QUERY_CHARACTERS = 1000  # a longer query is a text with enough known words
_MAX_SPELLINGS = 100  # tried for one identifier or phrase

Known = Callable[[Sequence[Term]], Collection[Term]]
Similar = Callable[[str], Sequence[str]]
Place = tuple[int, int]

_STRETCH = re.compile(r'"[^"]*"|\S+')
# The same in the index's own syntax, in which column names and the operator NEAR are no words.
_RAW_STRETCH = re.compile(r'"[^"]*"|[^\s():{}]+')
_SYNTAX = re.compile(r'"[^"]*"|(\{[^}]*\}|\w+(?=\s*:)|\bNEAR(?=\s*\())')


class _QueryWord(Struct, frozen=True):
    """
    A word of a query and its position.

    `stretch` is the span of the identifier or phrase that it is a part of, unless it stands `alone`. A word that is not
    `asked` is never corrected: a stop word, a number, an operator.
    """

    text: str
    place: Place
    stretch: Place
    alone: bool
    asked: bool


def suggest_query(query: Query, known: Known, similar: Similar, suspects: Collection[str] | None = None) -> str | None:
    """
    Return the query with its unknown words corrected; None if all are known, or nothing in the store is similar.

    `known` picks the terms that the store has; `similar` returns its most similar words, best first. Where it is known
    already which words may be in no memory, those are the `suspects`, and the store is not asked about others.
    """
    if len(query.text) > MAX_QUERY_CHARACTERS:
        return None
    words = list(_query_words(query))
    doubted = [word for word in words if word.asked]
    if suspects is not None:
        stems = {stem for suspect in suspects for stem in list_stems(suspect)}
        doubted = [word for word in doubted if not stems.isdisjoint(list_stems(word.text))]
    unknown = _find_unknown(doubted, known) if doubted else []
    if len({word.text for word in unknown}) > MAX_UNKNOWN_WORDS:
        return None
    fixes = _join_words(query.text, words, unknown, known)
    joined = list(fixes)
    left = [word for word in unknown if not any(start <= word.place[0] < end for start, end in joined)]
    for _, wrong in groupby(left, key=lambda word: word.stretch):
        fixes |= _correct_stretch(query.text, list(wrong), known, similar)
    return _apply_fixes(query.text, (0, len(query.text)), fixes) if fixes else None


def _query_words(query: Query) -> Iterator[_QueryWord]:
    asked = {stem for term in query.terms if term.text.lower() not in STOP_WORDS for stem in list_stems(term.text)}
    syntax = [match.span(1) for match in _SYNTAX.finditer(query.text) if match[1]] if query.raw is not None else []
    for stretch in (_STRETCH if query.raw is None else _RAW_STRETCH).finditer(query.text):
        parts = stem_words(stretch[0])
        for first, last, stem in parts:
            text, start = stretch[0][first:last], stretch.start() + first
            yield _QueryWord(
                text,
                (start, start + len(text)),
                stretch.span(),
                alone=len(parts) == 1,
                asked=stem in asked
                and _may_be_misspelt(text, _MIN_WORD_LETTERS if len(parts) == 1 else _MIN_PART_LETTERS)
                and not any(begin <= start < end for begin, end in syntax),
            )


def _may_be_misspelt(word: str, shortest: int) -> bool:
    """Return whether a word can be corrected: not a number, a stop word, or of a script without spaces."""
    return (
        shortest <= len(word) <= _MAX_WORD_LETTERS
        and any(character.isalpha() for character in word)
        and fold(word) not in STOP_WORDS
        and not find_unspaced_runs(word)
    )


def _find_unknown(words: Sequence[_QueryWord], known: Known) -> list[_QueryWord]:
    """Return the words that the store lacks, both by their stems and as prefixes."""
    forms = {word.text: [Term(word.text), Term(word.text, prefix=True)] for word in words}
    standing = known([form for each in forms.values() for form in each])
    return [word for word in words if not any(form in standing for form in forms[word.text])]


def _join_words(
    text: str, words: Sequence[_QueryWord], unknown: Collection[_QueryWord], known: Known
) -> dict[Place, str]:
    """Join two words, one of them unknown, that are known as one: a space too many."""
    fixes: dict[Place, str] = {}
    end = 0
    for first, second in pairwise(words):
        apart = first.alone and second.alone and text[first.place[1] : second.place[0]].isspace()
        if apart and first.place[0] >= end and (first in unknown or second in unknown):
            whole = Term(first.text + second.text)
            if known([whole]):
                end = second.place[1]
                fixes[first.place[0], end] = whole.text
    return fixes


def _correct_stretch(text: str, wrong: Sequence[_QueryWord], known: Known, similar: Similar) -> dict[Place, str]:
    """
    Return corrections of the unknown words of one stretch, or nothing.

    An identifier or a phrase is searched for as a whole, so the corrected whole must exist in the store.
    """
    places = [word.place for word in wrong]
    spellings = [[_match_typing(stored, word.text) for stored in similar(word.text)] for word in wrong]
    for chosen in islice(product(*spellings), _MAX_SPELLINGS):
        fixes = dict(zip(places, chosen, strict=True))
        if wrong[0].alone or known([Term(_apply_fixes(text, wrong[0].stretch, fixes))]):
            return fixes
    return _split_word(wrong[0], known) if wrong[0].alone else {}


def _split_word(word: _QueryWord, known: Known) -> dict[Place, str]:
    """Split an unknown word into two that stand side by side somewhere: a space too few."""
    for at in range(_MIN_HALF_LETTERS, len(word.text) - _MIN_HALF_LETTERS + 1):
        pair = Term(f"{word.text[:at]} {word.text[at:]}")
        if known([pair]):
            return {word.place: pair.text}
    return {}


def _match_typing(stored: str, typed: str) -> str:
    """Give a word of the store the capitals and accents that were typed; typed without capitals, it stays as stored."""
    if typed == typed.lower() or len(fold(typed)) != len(typed):
        return stored
    return _match_capitals(fold(stored), typed)


def _match_capitals(word: str, typed: str) -> str:
    if typed.isupper():
        return _match_capitals(word, typed.lower()).upper()
    if typed[0].isupper() and typed == typed.capitalize():
        plain = _match_capitals(word, typed.lower())
        return plain[0].upper() + plain[1:]
    # A letter that was typed only as a capital stays one where it moved: getsUer, getUser.
    letters = [letter.upper() if letter not in typed and letter.upper() in typed else letter for letter in word]
    for here, there, length in SequenceMatcher(None, fold(typed), word, autojunk=False).get_matching_blocks():
        letters[there : there + length] = typed[here : here + length]
    return "".join(letters)


def _apply_fixes(text: str, stretch: Place, fixes: Mapping[Place, str]) -> str:
    """Return a stretch of a text with some spans replaced."""
    parts, (at, end) = [], stretch
    for start, stop in sorted(fixes):
        parts += [text[at:start], fixes[start, stop]]
        at = stop
    return "".join([*parts, text[at:end]])
