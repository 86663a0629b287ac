"""Contradictions: texts near in meaning that differ in a number, in a name, or in a negation."""

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*(?![\w])")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_NEGATIONS = frozenset(
    "not no never none nothing nobody cannot without stopped longer isn't aren't wasn't weren't don't doesn't didn't "
    "won't wouldn't can't couldn't shouldn't mustn't hasn't haven't hadn't nicht kein keine keinen nie niemals ohne "
    "pas jamais sans sin nunca ningún non mai senza".split()
)
_MAX_NAMED = 3  # words of a reason


def find_differences(first: str, second: str) -> tuple[str, ...]:
    """Return what two texts about the same say differently: numbers, names, and whether something is so."""
    reasons = []
    if (numbers := _differ(_NUMBER.findall(first), _NUMBER.findall(second))) is not None:
        reasons.append(f"numbers: {numbers}")
    if (names := _differ(_names(first), _names(second))) is not None:
        reasons.append(f"names: {names}")
    if bool(_negations(first)) != bool(_negations(second)):
        reasons.append("negation: " + ", ".join(sorted(_negations(first) | _negations(second))))
    return tuple(reasons)


def _differ(first: Iterable[str], second: Iterable[str]) -> str | None:
    """Return what stands in each text alone; None unless both have something of their own."""
    ours, theirs = dict.fromkeys(first), dict.fromkeys(second)
    only_ours = [one for one in ours if one not in theirs][:_MAX_NAMED]
    only_theirs = [one for one in theirs if one not in ours][:_MAX_NAMED]
    return f"{' '.join(only_ours)} / {' '.join(only_theirs)}" if only_ours and only_theirs else None


def _names(text: str) -> list[str]:
    """Return the words with a capital that do not begin a sentence, and words with capitals or digits inside."""
    found = []
    for match in _WORD.finditer(text):
        word, before = match[0], text[: match.start()].rstrip()
        begins = not before or before[-1] in ".!?:;\n"
        if (word[0].isupper() and not begins) or any(character.isupper() for character in word[1:]):
            found.append(word)
    return found


def _negations(text: str) -> set[str]:
    words = {match[0].lower().replace("’", "'") for match in _WORD.finditer(text)}
    return words & _NEGATIONS
