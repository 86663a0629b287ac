"""Tests for the look of a secret: random, chosen by a person, an example, or a placeholder."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

MAX_JUDGED_CHARACTERS = 100  # only the beginning of a value is judged
LOWER, UPPER, DIGIT, _SIGN = "[a-z]", "[A-Z]", "[0-9]", "[!@#$%^*?+=~&]"
HEX = r"(?:0x)?[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@cache
def regex(text: str) -> re.Pattern[str]:
    """Compile a pattern when it is first used; \\w, \\d and \\s are ASCII, as in all secrets."""
    return re.compile(text, re.ASCII)


def contains(kind: str, value: str) -> bool:
    return regex(kind).search(value) is not None


def find_windows(text: str, parts: Iterable[str], before: int, after: int) -> list[tuple[int, int]]:
    """
    Return the stretches of a text around any of some parts, from its first to its last.

    To look for a part of each first is several times faster than one pattern for all.
    """
    places: list[int] = []
    for part in parts:
        at = text.find(part)
        while at >= 0:
            places.append(at)
            at = text.find(part, at + 1)
    windows: list[tuple[int, int]] = []
    for at in sorted(places):
        start = max(0, at - before)
        if windows and start <= windows[-1][1]:
            start, _ = windows.pop()
        windows.append((start, at + after))
    return windows


def looks_random(value: str) -> bool:
    """Return True for a value as a machine makes it: long, of many different characters, and no words."""
    value = value[:MAX_JUDGED_CHARACTERS]
    mixed = contains(DIGIT, value) or (contains(LOWER, value) and contains(UPPER, value))
    if len(value) < 16 or not mixed or contains(r"\s", value):
        return False
    if regex(HEX).fullmatch(value):
        return len(value) >= 24 and contains("[a-fA-F]", value)
    letters = len(regex("[A-Za-z]").findall(value))
    return letters * 4 >= len(value) and _entropy(value) >= 3 and not reads_as_words(value)


def _entropy(value: str) -> float:
    """Return the bits per character: almost 4 for 20 random letters and digits."""
    return sum(count / len(value) * math.log2(len(value) / count) for count in Counter(value).values())


# The hundred most common pairs of letters in English prose and documentation: 3 in 4 pairs there, 1 in 6 by chance.
_COMMON_PAIRS = frozenset(
    """
    in th on re er at he te es ti an co en or nt st se io it le ed nd al to ng me de ta is et tr ro ne ce ar ve si ic
    as ea li ou ra ri ec ha el be ca of ma ct pe ll ur la om pr ns na ge od ss po us ol di ch ad id fi ac td nc sp lo
    fo ts am ul em ex no hi ot pa rs da nv ho il wi ut so un ie ly ub pl mo op
    """.split()
)


def reads_as_words(value: str, share: float = 0.4) -> bool:
    """Return True for parts of some length with a share of letter pairs as in words, not letters mixed with digits."""
    parts = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+").findall(value)
    pairs = [part[at : at + 2].lower() for part in parts for at in range(len(part) - 1)]
    return (
        sum(map(len, parts)) >= 3 * len(parts)
        and len(regex(r"[A-Za-z][0-9]+(?=[A-Za-z])").findall(value)) < 2
        and sum(pair in _COMMON_PAIRS for pair in pairs) >= share * len(pairs)
    )


def looks_like_password(value: str) -> bool:
    """Return True for a value as a person chooses it: letters with digits or signs, but no name (my-db-2) or path."""
    if looks_random(value) or regex(r"[a-z]{4}(?: [a-z]{4}){3}").fullmatch(value):  # an app password of Google
        return True
    if not 6 <= len(value) <= MAX_JUDGED_CHARACTERS or contains(r"\s|[^\0-\u02ff]|^[.~]{0,2}/", value):
        return False
    inside = value.strip("!?*&@#:.-_$+~=^%")
    mixed = contains("[A-Za-z]", inside) and (contains(DIGIT, value) or contains(_SIGN, inside))
    return mixed and not (regex(_HYPHENATED_NAME).fullmatch(value) and (len(value) < 12 or reads_as_words(value)))


_HYPHENATED_NAME = r"[A-Za-z]+[0-9]{0,3}(?:[-_./:|,]+(?:[A-Za-z]+[0-9]{0,3}|[0-9]{1,3}))+"


def looks_like_strong_password(value: str) -> bool:
    """Return True for a password that is surely no word: digits between letters, or three kinds of characters."""
    if looks_random(value):
        return True
    kinds = sum(contains(kind, value) for kind in (LOWER, UPPER, DIGIT, _SIGN))
    changes = len(regex(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])").findall(value))
    if len(value) < 8 or (kinds < 3 and changes < 2) or not looks_like_password(value):
        return False
    return contains(_SIGN, value) or not reads_as_words(value)


def looks_like_gibberish(value: str) -> bool:
    """Return True for letters and digits that are no words: the qzvkxwpt of a generator."""
    return len(value) >= 8 and regex("[A-Za-z][A-Za-z0-9]*").fullmatch(value) is not None and not reads_as_words(value)


def looks_chosen(value: str) -> bool:
    """Return True for a password as a person or a generator makes it."""
    return looks_like_password(value) or looks_like_gibberish(value)


def looks_generated(value: str) -> bool:
    """Return True for a secret as a generator makes it."""
    return looks_like_strong_password(value) or looks_like_gibberish(value)


def looks_like_passphrase(value: str) -> bool:
    """Return True for some words in quotes that are no sentence, label or message."""
    words = regex(r"[a-z]+").findall(value.lower())
    return (
        regex(r"[A-Za-z0-9][^\s<>(){}\[\]|=]*(?: [^\s<>(){}\[\]|=]+){1,11}").fullmatch(value) is not None
        and value[-1] not in ".:,;"
        and len(words) > 1
        and not _NAME_WORDS.intersection(words)
        and sum(word in _PROSE_WORDS for word in words) * 3 < len(words)
    )


_NAME_WORDS = frozenset("auth key keys passphrase password passwords secret secrets token tokens".split())
_PROSE_WORDS = frozenset(
    """
    a an and are as at be been by can cannot could do does enter for from has have if in incorrect invalid is it least
    may missing must no not of on only or please should that the this to was when will with wrong you your
    """.split()
)


def is_example(secret: str) -> bool:
    """Return True for an example from documentation: ghp_xxxx, AKIA...EXAMPLE, sk-your-key-here."""
    return len(set(secret[-16:])) < 5 or contains(_EXAMPLE, secret[:MAX_JUDGED_CHARACTERS].lower())


def is_placeholder(value: str) -> bool:
    """Return True for a placeholder, a variable, a number, an algorithm, an address, a file or a regex."""
    start = value[:MAX_JUDGED_CHARACTERS].lower()
    return len(set(start)) < 4 or contains(_EXAMPLE, start) or regex(_PLACEHOLDER).fullmatch(start) is not None


def is_stand_in(value: str) -> bool:
    """Return True for words that stand for a secret or its type: test-token, WRONG_PASSWORD, userSecret, str."""
    words = [word.lower() for word in regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W0-9_]+").findall(value)]
    return all(word in _STAND_IN_WORDS or (word.isdigit() and len(word) < 4) for word in words)


_STAND_IN_WORDS = frozenset(
    """
    a abc abcdef access account admin an any api apikey app argument auth authentication authorization bar basic
    baz bearer bool boolean bot buffer bytes client code cookie correct credential credentials csrf custom data db
    default demo digest disabled dummy empty enabled encrypted env environment erforderlich expired fake false
    field file first flag foo foobar generated github google hash hashed header here hidden host http id init
    inline input int internal invalid jwt key keys last local login long manual masked missing mock model my
    mypassword mysecret name new next no none null number oauth object obligatoire obligatorio off old on one open
    option optional or other our param parameter pass passphrase passwd password passwords path pflichtfeld
    placeholder plain pointer prefix private public pw pwd random raw read redacted refresh removed required root
    sample secret secrets server service session set short signing some ssh static str string strings super system
    target temp test testing text the this tmp todo token tokens true two type undefined unknown unset user
    username valid value values variable vault weak web write wrong x y your z
    """.split()
)


_EXAMPLE = r"example|placeholder|(?:^|[^a-z0-9])(?:your|insert|replace)(?:[^a-z0-9]|$)|xxxxxx|\*\*\*|\.\.\.|…|•••|://"
_PLACEHOLDER = (
    r"<.*|&lt;.*|[$%][a-z_{(@].*|\{.*\}|\[.*\]|\(.*\)|#\{.*|[@!:&*][a-z_.]+|.*(?:\$\{|\{\{|\$\(|<[a-z_ -]+>).*"
    r"|(?:(?:my|the|our|some|test|new|old|db|user|admin|root|super|default)[ _-]?)*"
    r"(?:pass(?:word|wd|phrase|code)?|pwd?|secret|token|key|credential)s?[ _-]?(?:here|value|[0-9]{0,4})!?"
    r"|change[_ -]?(?:me|it|this)[0-9!]*|none|null|nil|undefined|true|false|string|user(?:name)?"
    r"|v?[0-9][0-9.,:/x_+~%-]*(?:[smhdwkx]|ms|[kmg]i?b?|px|st|nd|rd|th|bytes?|bits?|chars?|days?|hours?|min|sec)?"
    r"|.*(?:\\[wds]|\[\^|\[.{0,20}(?:a-z|0-9)|\(\?).*"
    r"|(?:sha[0-9]+|md5|arn|urn|data|env|file)[:-].*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|[\w./~@$-]*\.(?:ya?ml|json|txt|pem|key|crt|env|toml|ini|conf|py|[jt]sx?|go|rs|rb|sh|md|html?|xml|io|com|org|net)"
    r"|(?:sha|md|aes|rsa|ecdsa|ed|x|[rhep]s|base|utf|iso|rfc|oauth|pbkdf|tls|http|ipv|argon|blake|crc|int|value|param|arg)"
    r"[-_]?[0-9]{1,5}(?:id|sum|with[a-z]+|[-_.][\w-]{0,8})?"
)
