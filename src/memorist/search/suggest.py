"""
"Did you mean ...": a question again, with the words that stand nowhere as they were probably meant.

Only those words are replaced. All around them stays as it was typed: quotation marks, operators, capitals.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, islice, pairwise, product

from memorist.records import Query, Term
from memorist.text.query import STOP_WORDS
from memorist.text.tokenizer import folded, stemmed, stems, unspaced

SHORTEST = 4  # letters; a shorter word by itself is one slip away from too many others
SHORTEST_PART = 2  # letters of a word in an identifier or phrase, where the others beside it tell what it was
LONGEST_WORD = 40  # letters
SHORTEST_HALF = 3  # letters on each side of a space that may be missing
MOST_UNKNOWN = 5  # words; with more of them it is not a slip, but a question about something else
LONGEST_QUESTION = 1000  # characters; what is longer is a text, and has more words than a few to go by
MOST_TRIED = 100  # spellings of one identifier or phrase

Known = Callable[[Sequence[Term]], Collection[Term]]
Similar = Callable[[str], Sequence[str]]
Place = tuple[int, int]

_STRETCH = re.compile(r'"[^"]*"|\S+')
# The same in the index's own syntax, and what is no word in it: columns, and the operator NEAR.
_RAW_STRETCH = re.compile(r'"[^"]*"|[^\s():{}]+')
_SYNTAX = re.compile(r'"[^"]*"|(\{[^}]*\}|\w+(?=\s*:)|\bNEAR(?=\s*\())')


@dataclass(frozen=True, slots=True)
class _QueryWord:
    """
    A word of a question and its place.

    `stretch` is the place of the identifier or phrase that it is a part of, unless it stands `alone`. One that is not
    `asked` may be as it likes: a stop word, a number, an operator.
    """

    text: str
    place: Place
    stretch: Place
    alone: bool
    asked: bool


def suggestion(query: Query, known: Known, similar: Similar) -> str | None:
    """
    The question with its unknown words corrected; None if all are known, or nothing in the store is like them.

    `known` picks the terms that stand in the store; `similar` gives its words that are most like one, best first.
    """
    if len(query.text) > LONGEST_QUESTION:
        return None
    words = list(_words(query))
    unknown = _unknown([word for word in words if word.asked], known)
    if len({word.text for word in unknown}) > MOST_UNKNOWN:
        return None
    fixes = _joined(query.text, words, unknown, known)
    joined = list(fixes)
    left = [word for word in unknown if not any(start <= word.place[0] < end for start, end in joined)]
    for _, wrong in groupby(left, key=lambda word: word.stretch):
        fixes |= _corrected(query.text, list(wrong), known, similar)
    return _rewritten(query.text, (0, len(query.text)), fixes) if fixes else None


def _words(query: Query) -> Iterator[_QueryWord]:
    asked = {stem for term in query.terms if term.text.lower() not in STOP_WORDS for stem in stems(term.text)}
    syntax = [match.span(1) for match in _SYNTAX.finditer(query.text) if match[1]] if query.raw is not None else []
    for stretch in (_STRETCH if query.raw is None else _RAW_STRETCH).finditer(query.text):
        parts = stemmed(stretch[0])
        for part in parts:
            text = stretch[0][part.start : part.end]
            start = stretch.start() + part.start
            yield _QueryWord(
                text,
                (start, start + len(text)),
                stretch.span(),
                alone=len(parts) == 1,
                asked=part.stem in asked
                and _may_be_misspelt(text, SHORTEST if len(parts) == 1 else SHORTEST_PART)
                and not any(begin <= start < end for begin, end in syntax),
            )


def _may_be_misspelt(word: str, shortest: int) -> bool:
    """Numbers, stop words and scripts without spaces are left alone."""
    return (
        shortest <= len(word) <= LONGEST_WORD
        and any(character.isalpha() for character in word)
        and folded(word) not in STOP_WORDS
        and not unspaced(word)
    )


def _unknown(words: Sequence[_QueryWord], known: Known) -> list[_QueryWord]:
    """Those that stand nowhere, neither by their stems nor as a beginning."""
    forms = {word.text: [Term(word.text), Term(word.text, prefix=True)] for word in words}
    standing = known([form for each in forms.values() for form in each])
    return [word for word in words if not any(form in standing for form in forms[word.text])]


def _joined(text: str, words: Sequence[_QueryWord], unknown: Collection[_QueryWord], known: Known) -> dict[Place, str]:
    """Two words, one of them unknown, that are known as one: a space too many."""
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


def _corrected(text: str, wrong: Sequence[_QueryWord], known: Known, similar: Similar) -> dict[Place, str]:
    """
    The unknown words of one stretch as they were probably meant, or nothing.

    An identifier or a phrase is looked for as a whole, so it has to stand somewhere as a whole.
    """
    places = [word.place for word in wrong]
    spellings = [[_dressed(other, word.text) for other in similar(word.text)] for word in wrong]
    for chosen in islice(product(*spellings), MOST_TRIED):
        fixes = dict(zip(places, chosen, strict=True))
        if wrong[0].alone or known([Term(_rewritten(text, wrong[0].stretch, fixes))]):
            return fixes
    return _cut(wrong[0], known) if wrong[0].alone else {}


def _cut(word: _QueryWord, known: Known) -> dict[Place, str]:
    """An unknown word as two that stand side by side somewhere: a space too few."""
    for at in range(SHORTEST_HALF, len(word.text) - SHORTEST_HALF + 1):
        pair = Term(f"{word.text[:at]} {word.text[at:]}")
        if known([pair]):
            return {word.place: pair.text}
    return {}


def _dressed(word: str, typed: str) -> str:
    """A word of the store with the capitals and accents of the one that was typed in its place."""
    if len(folded(typed)) != len(typed):
        return word
    if typed.isupper():
        return _dressed(word, typed.lower()).upper()
    if typed[0].isupper() and typed == typed.capitalize():
        plain = _dressed(word, typed.lower())
        return plain[0].upper() + plain[1:]
    # A letter that was typed elsewhere, and as a capital only, is one here too: getsUer, getUser.
    letters = [letter.upper() if letter not in typed and letter.upper() in typed else letter for letter in word]
    for here, there, length in SequenceMatcher(None, folded(typed), word, autojunk=False).get_matching_blocks():
        letters[there : there + length] = typed[here : here + length]
    return "".join(letters)


def _rewritten(text: str, stretch: Place, fixes: Mapping[Place, str]) -> str:
    """A stretch of a text with what stands at some places replaced."""
    parts, (at, end) = [], stretch
    for start, stop in sorted(fixes):
        parts += [text[at:start], fixes[start, stop]]
        at = stop
    return "".join([*parts, text[at:end]])
