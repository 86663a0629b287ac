"""What a secret looks like: random as a machine makes it, or mixed as a person chooses it; and what only stands in."""

import math
import re
from collections import Counter
from functools import cache

JUDGED = 100  # as many characters of a value as are looked at
LOWER, UPPER, DIGIT, SIGN = "[a-z]", "[A-Z]", "[0-9]", "[!@#$%^*?+=~&]"
HEX = r"(?:0x)?[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@cache
def pattern(text: str) -> re.Pattern[str]:
    """Compiled when first used; \\w and \\d are ASCII, as in all secrets, and \\s is not more than ASCII's."""
    return re.compile(text, re.ASCII)


def has(kind: str, value: str) -> bool:
    return pattern(kind).search(value) is not None


def random(value: str) -> bool:
    """As a machine makes them: long, of many different characters, and no words."""
    value = value[:JUDGED]
    mixed = has(DIGIT, value) or (has(LOWER, value) and has(UPPER, value))
    if len(value) < 16 or not mixed or has(r"\s", value):
        return False
    if pattern(HEX).fullmatch(value):
        return len(value) >= 24 and has("[a-fA-F]", value)
    letters = len(pattern("[A-Za-z]").findall(value))
    return letters * 4 >= len(value) and _entropy(value) >= 3 and not reads_as_words(value)


def _entropy(value: str) -> float:
    """Bits for each character: almost 4 for 20 random letters and digits."""
    return sum(count / len(value) * math.log2(len(value) / count) for count in Counter(value).values())


# The hundred pairs of letters that English prose and documentation have most: 3 in 4 pairs there, 1 in 6 by chance.
_COMMON_PAIRS = frozenset(
    """
    in th on re er at he te es ti an co en or nt st se io it le ed nd al to ng me de ta is et tr ro ne ce ar ve si ic
    as ea li ou ra ri ec ha el be ca of ma ct pe ll ur la om pr ns na ge od ss po us ol di ch ad id fi ac td nc sp lo
    fo ts am ul em ex no hi ot pa rs da nv ho il wi ut so un ie ly ub pl mo op
    """.split()
)


def reads_as_words(value: str) -> bool:
    """In parts of some length, with the pairs of letters that words have, not digits here and there among letters."""
    parts = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+").findall(value)
    pairs = [part[at : at + 2].lower() for part in parts for at in range(len(part) - 1)]
    return (
        sum(map(len, parts)) >= 3 * len(parts)
        and len(pattern(r"[A-Za-z][0-9]+(?=[A-Za-z])").findall(value)) < 2
        and sum(pair in _COMMON_PAIRS for pair in pairs) >= 0.4 * len(pairs)
    )


def chosen(value: str) -> bool:
    """As a person chooses them: letters with digits or signs among them, but no name like my-db-2 and no path."""
    if random(value) or pattern(r"[a-z]{4}(?: [a-z]{4}){3}").fullmatch(value):  # so Google writes app passwords
        return True
    if not 6 <= len(value) <= JUDGED or has(r"\s|[^\0-\u02ff]|^[.~]{0,2}/", value):
        return False
    inside = value.strip("!?*&@#:.-_$+~=^%")
    mixed = has("[A-Za-z]", inside) and (has(DIGIT, value) or has(SIGN, inside))
    return mixed and not (pattern(_NAME).fullmatch(value) and (len(value) < 12 or reads_as_words(value)))


_NAME = r"[A-Za-z]+[0-9]{0,3}(?:[-_./:|,]+(?:[A-Za-z]+[0-9]{0,3}|[0-9]{1,3}))+"


def mixed(value: str) -> bool:
    """Chosen, and more surely no word: digits between letters, or three kinds of characters."""
    if random(value):
        return True
    kinds = sum(has(kind, value) for kind in (LOWER, UPPER, DIGIT, SIGN))
    changes = len(pattern(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])").findall(value))
    if len(value) < 8 or (kinds < 3 and changes < 2) or not chosen(value):
        return False
    return has(SIGN, value) or not reads_as_words(value)


def made_up(secret: str) -> bool:
    """An example of some documentation: ghp_xxxx, AKIA...EXAMPLE, sk-your-key-here."""
    return len(set(secret[-16:])) < 5 or has(_EXAMPLE, secret[:JUDGED].lower())


def stands_in(value: str) -> bool:
    """Nobody's secret: a placeholder, a variable, a number, an algorithm, an address, a file, a regex."""
    start = value[:JUDGED].lower()
    return len(set(start)) < 4 or has(_EXAMPLE, start) or pattern(_STAND_IN).fullmatch(start) is not None


_EXAMPLE = r"example|placeholder|(?:^|[^a-z0-9])(?:your|insert|replace)(?:[^a-z0-9]|$)|xxxxxx|\*\*\*|\.\.\.|…|•••|://"
_STAND_IN = (
    r"<.*|&lt;.*|[$%][a-z_{(@].*|\{.*\}|\[.*\]|\(.*\)|#\{.*|[@!:&*][a-z_.]+|.*(?:\$\{|\{\{|\$\(|<[a-z_ -]+>).*"
    r"|(?:(?:my|the|our|some|test|new|old|db|user|admin|root|super|default)[ _-]?)*"
    r"(?:pass(?:word|wd|phrase|code)?|pwd?|secret|token|key|credential)s?[ _-]?(?:here|value|[0-9]{0,4})!?"
    r"|change[_ -]?(?:me|it|this)[0-9!]*|none|null|nil|undefined|true|false|string|user(?:name)?"
    r"|v?[0-9][0-9.,:/x_+~%-]*(?:[smhdwkx]|ms|[kmg]i?b?|px|st|nd|rd|th|bytes?|bits?|chars?|days?|hours?|min|sec)?"
    r"|.*(?:\\[wds]|\[\^|\[.{0,20}(?:a-z|0-9)|\(\?).*"
    r"|(?:sha[0-9]+|md5|arn|urn|data|env|file)[:-].*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|[\w./~@$-]*\.(?:ya?ml|json|txt|pem|key|crt|env|toml|ini|conf|py|[jt]sx?|go|rs|rb|sh|md|html?|xml|io|com|org|net)"
    r"|(?:sha|md|aes|rsa|ecdsa|ed|x|[rhep]s|base|utf|iso|rfc|oauth|pbkdf|tls|http|ipv|argon|blake|crc|int|value|param|arg)"
    r"[-_]?[0-9][\w-]{0,8}"
)
