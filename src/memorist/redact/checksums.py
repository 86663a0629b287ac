"""Secrets known by a checksum or a list of words: card numbers, private keys of wallets, and seed phrases."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from memorist.redact.heuristics import contains, is_example, regex

_Found = Iterator[tuple[int, int, str]]


def find_secrets_by_checksum(text: str, lowered: str, long_words: str) -> _Found:
    """Yield start, end and kind of each secret that a checksum or a list of words confirms."""
    for found in regex(_CARD).finditer(text):
        digits = found[0].replace(found[1] or found[2] or " ", "")
        if _is_card_number(digits) and not is_example(digits):
            yield *found.span(), "card-number"
    for found in regex(_WALLET_KEY).finditer(text if contains(_WALLET_KEY, long_words) else ""):
        if _is_base58check(found[0]):
            yield *found.span(), "bitcoin-key"
    yield from _find_seed_phrases(text, lowered)


# A number begins where a word would: not within a longer number, but after the \\n of JSON or a terminal colour.
_BEGIN = r"(?:(?<![\w.,+/-].)|(?<=\\[nrt].)|(?<=[0-9]m.))"
_CARD = (
    rf"[2-6]{_BEGIN}(?:[0-9]{{3}}([ -])[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}|[0-9]{{3}}([ -])[0-9]{{6}}\2[0-9]{{4,5}}"
    r"|[0-9]{13,15})(?![\w/+=]|[.,-][0-9])"
)
_CARD_ISSUERS = (  # first digits and length: Visa, Mastercard, American Express, Discover, JCB, Diners Club
    r"4[0-9]{15}|5[1-5][0-9]{14}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}|3[47][0-9]{13}"
    r"|6(?:011|4[4-9][0-9]|5[0-9]{2})[0-9]{12}|35(?:2[89]|[3-8][0-9])[0-9]{12}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
)


def _is_card_number(digits: str) -> bool:
    """Check the issuer, the length, and the last digit (Luhn's checksum)."""
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return regex(_CARD_ISSUERS).fullmatch(digits) is not None and sum(map(int, "".join(map(str, doubled)))) % 10 == 0


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# The wallet import format of the main and test networks, and extended keys (xprv, yprv, zprv, tprv ...).
_WALLET_KEY = (
    rf"[5KL9c]{_BEGIN}[{_BASE58}]{{50,51}}(?![A-Za-z0-9])|[xyztuv]{_BEGIN}prv[{_BASE58}]{{107}}(?![A-Za-z0-9])"
)


def _is_base58check(value: str) -> bool:
    """Return True if the last four bytes are the hash of those before."""
    number = 0
    for character in value:
        number = number * 58 + _BASE58.index(character)
    raw = number.to_bytes((number.bit_length() + 7) // 8)
    return sha256(sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def _find_seed_phrases(text: str, lowered: str) -> _Found:
    """Yield runs of 12 or more words of BIP-39: on one line, or in a list after a name such as "seed phrase"."""
    done = 0
    for found in regex(_ELEVEN_WORDS).finditer(text):
        if found.start() >= done:
            line, done = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            done = len(text) if done < 0 else done
            yield from _find_word_runs(text, line, done)
    for found in regex(_NUMBERED_WORDS).finditer(text):
        yield from _find_word_runs(text, found.start(), found.start() + _MAX_PHRASE_CHARACTERS)
    done = 0
    if any(name in lowered for name in ("seed", "mnemonic", "recovery", "wallet")):
        for found in regex(_SEED_NAME).finditer(lowered):
            if found.end() >= done:
                done = found.end() + _MAX_PHRASE_CHARACTERS
                yield from _find_word_runs(text, found.end(), done)
                yield from _find_word_runs(lowered, found.end(), done)


_ELEVEN_WORDS = " [a-z]{3,8}+" * 11  # a group that repeats would be several times slower
_NUMBERED_WORDS = (  # 1. able 2. about 3. above, on one line or on several
    r"1(?:(?<![\w.]1)|(?<=01)(?<![\w.]01))[.):\]]{1,2}[ \t]{0,4}[a-z]{3,8}[\s,;]{1,4}\(?"
    r"0?2[.):\]]{1,2}[ \t]{0,4}[a-z]{3,8}[\s,;]{1,4}\(?0?3[.):\]]"
)
_SEED_NAME = r"seed|mnemonic|recovery|wallet"
_MAX_PHRASE_CHARACTERS = 600
_MIN_PHRASE_WORDS = 12
_WORD = r"\\[nrt]|\x1b\[[0-9;]{0,9}m|[A-Za-z]+"  # escapes are no part of a word
_BETWEEN_WORDS = r"[\s,;:|\"'.()\[\]0-9-]{1,12}"


def _find_word_runs(text: str, start: int, end: int) -> _Found:
    """Yield each run of enough listed words with nothing but numbers and punctuation between them."""
    run: list[tuple[int, int]] = []
    for found in regex(_WORD).finditer(text, start, end):
        follows = run and regex(_BETWEEN_WORDS).fullmatch(text, run[-1][1], found.start())
        if run and not (follows and found[0] in _seed_words()):
            if len(run) >= _MIN_PHRASE_WORDS:
                yield run[0][0], run[-1][1], "seed-phrase"
            run = []
        if found[0] in _seed_words():
            run.append(found.span())
    if len(run) >= _MIN_PHRASE_WORDS:
        yield run[0][0], run[-1][1], "seed-phrase"


@cache
def _seed_words() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("bip39_english.txt").read_text("utf-8").split())
