"""
The query grammar: text as a person or a model typed it becomes a Query. Any text is a valid query.

Grammars:

* `auto`       words, "phrases" and prefixes*; matches of all of them first, then of some
* `and`, `or`  plain words: all of them, or any
* `or_prefix`  any word, each as a prefix
* `fts5`       the index's own syntax (AND, OR, NOT, "phrase", prefix*); where it has an error, plain words

The index walks through the rows of every word of a phrase at once, so a phrase of thousands of words takes seconds.
Words beyond a limit are left out: of a phrase, of a query, and an expression in the index's syntax is plain words then.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from memorist.records import MAX_PHRASE_WORDS, Query, Term
from memorist.text.tokenizer import list_tokens, split_unspaced, stem_words

MAX_TERMS = 64  # further ones hardly narrow a query, and the index's parser has a depth limit
MAX_QUERY_WORDS = 256  # of all terms together
_TOKEN = re.compile(r'"([^"]*)"(\*?)|(\S+)')
_WORD_CHARACTER = re.compile(r"[^\W_]")
_NEGATED = re.compile(r'\bNOT\s+("[^"]*"|\S+)|\b(?:AND|OR|NOT)\b')
_EDGES = ".,;:!?\"'`()[]{}<>«»“”‘’…*"
_IDENTIFIER = re.compile(r"[^\W_](?:[^\w\s]|_)+[^\W_]")
_LEADING_DOT = re.compile(r"\.[^\W\d_]")
_SYMBOL_TAIL = re.compile(r"[^\W_][+#]+$|^[.#@$][^\W_]")

# Function words of English, and its contractions.
STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further had has have having he her here hers herself
    him himself his how i if in into is it its itself just me more most my myself no nor not of off on once only or
    other our ours ourselves out over own same she should so some such than that the their theirs them themselves then
    there these they this those through to too under until up very was we were what when where which while who whom
    whose why will with would you your yours yourself yourselves
    aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he's here's how's i'd i'll i'm i've isn't it's
    let's she's shouldn't that's there's they're they've wasn't we're we've weren't what's when's where's who's why's
    won't wouldn't you're you've
    """.split()
)


def parse_query(text: str, grammar: str) -> Query:
    """Parse a query in one of the grammars."""
    if grammar == "fts5":
        raw = text.strip() if _count_words(text) <= MAX_TERMS else None
        return Query(text, terms=_split_terms(_NEGATED.sub(" ", text), phrases=True), raw=raw or None)
    if grammar in ("and", "or"):
        return Query(text, terms=_split_terms(text, phrases=False), every=grammar == "and", any_of=grammar == "or")
    if grammar == "or_prefix":
        terms = _split_terms(text, phrases=False)
        # A single letter is the prefix of too many words, unless there is nothing else.
        longer = tuple(term for term in terms if len(term.text) > 1) or terms
        return Query(text, terms=tuple(Term(term.text, prefix=True) for term in longer), every=False)
    terms = _split_terms(text, phrases=True)
    telling = tuple(term for term in terms if term.exact or term.prefix or term.text.lower() not in STOP_WORDS)
    stopwords = tuple(term for term in terms if term not in telling)
    return Query(text, terms=telling or stopwords, stopwords=stopwords if telling else ())


def _split_terms(text: str, *, phrases: bool) -> tuple[Term, ...]:
    """Return the terms of a text, each once. Without `phrases`, quotation marks and stars are punctuation."""
    found: dict[Term, None] = {}
    words = 0
    for quoted, star, word in _TOKEN.findall(text if phrases else text.replace('"', " ")):
        for whole in _quoted_terms(quoted, star) if quoted else _word_terms(word, phrases=phrases):
            term = _shorten(whole)
            words += _count_words(term.text) if term not in found else 0
            if found and words > MAX_QUERY_WORDS:
                return tuple(found)
            found[term] = None
            if len(found) == MAX_TERMS:
                return tuple(found)
    return tuple(found)


def _count_words(text: str) -> int:
    """Count the words that the index looks for; of unspaced script, every character begins one."""
    return sum(len(run) if unspaced else len(list_tokens(run)) for run, unspaced in split_unspaced(text))


def _shorten(term: Term) -> Term:
    """Return a term without the words of a phrase that are over the limit."""
    words = stem_words(term.text) if len(term.text) > MAX_PHRASE_WORDS else []
    if len(words) <= MAX_PHRASE_WORDS:
        return term
    _, end, _ = words[MAX_PHRASE_WORDS - 1]
    return replace(term, text=term.text[:end], prefix=False, literal=False)


def _quoted_terms(text: str, star: str) -> Iterable[Term]:
    if _WORD_CHARACTER.search(text):
        is_phrase = _count_words(text) > 1
        literal = bool(_SYMBOL_TAIL.search(text))
        yield Term(text, prefix=bool(star), exact=True, literal=literal, is_phrase=is_phrase)


def _word_terms(token: str, *, phrases: bool) -> Iterable[Term]:
    prefix = phrases and token.endswith("*") and not token.startswith("*")
    bare = token.strip(_EDGES)
    if _LEADING_DOT.match(token):  # .NET is a name, not the end of a sentence
        bare = f".{bare}"
    if not _WORD_CHARACTER.search(bare):
        return
    stretches = split_unspaced(bare)
    for stretch, unspaced in stretches:
        if _WORD_CHARACTER.search(stretch):
            literal = not unspaced and bool(_SYMBOL_TAIL.search(stretch))
            identifier = not unspaced and bool(_IDENTIFIER.search(stretch)) and stretch.lower() not in STOP_WORDS
            yield Term(stretch, prefix and len(stretches) == 1, exact=identifier or literal, literal=literal)
