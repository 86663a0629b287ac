"""Secrets known by a name before them: `password = ...` in any language, file or sentence, or a random word nearby."""

import re
from collections.abc import Iterator

from memorist.redact.heuristics import (
    DIGIT,
    JUDGED,
    LOWER,
    UPPER,
    chosen,
    has,
    mixed,
    pattern,
    random,
    reads_as_words,
    stands_in,
)
from memorist.redact.locations import end_of_value, value_at


def secrets(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """What such a name is given, and else the first random word shortly behind it."""
    done = 0
    for name in pattern(_NAMES).finditer(lowered):
        if name.start() < done or (name[0] in _SHORT and not _begins_a_word(text, name)):
            continue
        start, end = _given(text, lowered, name) or (name[0] not in _SHORT and _near(text, name.end())) or (0, 0)
        if end:
            done = end_of_value(text, start, end)
            yield start, done, _kind(name[0])


_NAMES = (
    r"pass(?:word|wort|wd|phrase|code)?|pwd?|contraseña|senha|пароль|密码|密碼|パスワード"
    r"|secret(?:(?:[_. -]?access)?[_. -]?key)?|(?:api|access|account|auth|private|signing|encryption|master)[_. -]?key"
    r"|credential|token|bearer|auth|jwt|_key"
)
_SHORT = frozenset("pass pw pwd auth jwt _key".split())  # these have other meanings, and are parts of other words
_PASSWORDS = ("pass", "pw", "contraseña", "senha", "пароль", "密", "パスワード")


def _kind(name: str) -> str:
    if name.startswith(_PASSWORDS):
        return "password"
    if name.startswith("secret") and "access" in name:
        return "aws-secret-key"
    if name.startswith(("secret", "private", "signing", "encryption", "master", "credential")):
        return "secret"
    return "api-key" if name.endswith("key") else "token"


def _begins_a_word(text: str, name: re.Match[str]) -> bool:
    """The pass of DB_PASS and dbPass, not of compass; and _KEY only as in the names of environment variables."""
    start, before = name.start(), text[max(0, name.start() - 1) : name.start()]
    if name[0] == "_key":
        return text[start : name.end()].isupper()
    return not before.isalpha() or (before.islower() and text[start].isupper())


def _given(text: str, lowered: str, name: re.Match[str]) -> tuple[int, int] | None:
    """What follows `=`, `:`, "is" and the like, if it can be a secret."""
    link = pattern(_LINK).match(lowered, name.end())
    how = (link.lastgroup if link else None) or ""
    before = text[max(0, name.start() - 40) : name.start()]
    if not link or (how in _LEADS and not has(_LEADS[how], before)) or (how in _UNSURE and name[0] in _SHORT):
        return None
    start, end, quoted = value_at(text, link.end())
    value = text[start:end]
    if stands_in(value) or (not quoted and _is_code(value)) or (how == "tagged" and not text.startswith("</", end)):
        return None
    if how in ("listed", "below") or name[0] == "_key":
        enough = _random_word
    elif name[0].startswith(_PASSWORDS):
        enough = _said if how == "said" else chosen
    else:
        enough = mixed
    return (start, end) if enough(value) and not has(_PUBLIC, before.lower()) else None


_LINK = (
    # What may end a name, and close it: DB_PASSWORD_PROD, "password", ["password"], **password**
    r"(?:[_-]?(?:value|val|text|plain|prod(?:uction)?|staging|dev|live|test|default|old|new|base|base64|b64|hex|[0-9]{1,3}))?"
    r"s?(?![a-z0-9]|[_-][a-z0-9])(?:\\{0,3}[\"'`]|[\])]|\*\*|__){0,3}(?:"
    # name: DB_PASSWORD, value: x
    r"(?P<paired>,?\s{0,40}[\"']?value[\"']?[ \t]{0,9}[:=][ \t]{0,9})"
    r"|(?P<listed>[ \t]{0,9},[ \t]{0,9}(?=[\"'`]))|(?P<called>\((?=[\"'`]))"
    r"|(?P<below>[ \t]{0,9}:[ \t]{0,9}\n{1,2}(?:[ \t]{0,9}```\w{0,20}\n)?[ \t>]{0,20}(?=\S{16,200}(?:\s|\Z)))"
    # password: str = x, password string = x, password => x, password || x, password: |, and on the next line x
    r"|(?P<assigned>[ \t]{0,99}(?:[?!]?:[ \t]?[a-z&*][a-z_.&\[\]|<>?, ]{0,40}[ \t]=[ \t]|[ \t]string[ \t]:?="
    r"|=>|:=|[=!]={0,2}|->|→|[?!]?:(?!:)|：|\|\||\?\?|or(?=[ ][\"']))"
    r"[ \t]{0,99}(?:\*\*|__)?[ \t]{0,9}(?:[|>][+-]?\n[ \t]{1,40})?)"
    # the password for the old server (staging) is x
    r"|(?P<said>(?:[ ](?:for|of|on|in|to)(?:[ ][\w.@/-]{1,40}){1,4}?)?(?:[ ]\([^()\n]{1,30}\))?"
    r"(?:[ ](?:is|was|are|be|ist|est|es)(?:[ ]now)?:?[ ]|[ ]?:[ ]|[ ]\|[ ])|[ ]to[ ]|是|为|為|は)"
    r"|(?P<quoted>[ \t]{1,4}(?=[\"'`]))|(?P<spaced>[ \t]{1,9})|(?P<tagged>>))"
)
_LEADS = {  # --db-password x, setx DB_PASSWORD x, set -x DB_PASSWORD x, <db-password>x</db-password>
    "spaced": r"(?:^|[\s\"'(\[])(?:--?[\w-]*|setx[ ]\w*|set[ ]-[A-Za-z]+[ ]\w*)$",
    "tagged": r"<[\w:.-]*$",
}
_PUBLIC = r"public(?:key)?$|[0-9]{12}:$"  # publicKeyToken="...", arn:aws:secretsmanager:eu:123456789012:secret:...
_UNSURE = ("listed", "called", "said", "quoted")


def _is_code(value: str) -> bool:
    """A call, an index, a list, a mapping; a link of Markdown; or a long expression without spaces."""
    called = pattern(r"([A-Za-z_$][\w.:>?!-]*)[(\[{]").match(value)
    return (
        value[:1] in "([{"
        or "](" in value
        or bool(called and (not has(DIGIT, called[1]) or reads_as_words(called[1])))
        or (len(value) > 40 and has(r"&&|\|\||=>|[=!<>]=|\(\)|\)[;.,]", value))
    )


def _said(value: str) -> bool:
    """The hunter2 of "the password is hunter2", not its 12-character."""
    return mixed(value) or (chosen(value) and pattern(r"[A-Za-z]{3,}[0-9]{1,4}[!?#$%]*").fullmatch(value) is not None)


def _random_word(value: str) -> bool:
    return random(value) and pattern(r"[\w+/~.:-]+={0,2}").fullmatch(value) is not None


def _near(text: str, start: int) -> tuple[int, int] | None:
    """The first random word among the next few on the line."""
    if not pattern(r"s?(?![A-Za-z0-9_])").match(text, start):
        return None
    stop = pattern(r"[\n\0]").search(text, start, start + _NEAR)
    for word in pattern(_LONG_WORD).finditer(text, start, stop.start() if stop else start + _NEAR + JUDGED):
        if word.start() > start + _NEAR:
            break
        if all(has(kind, word[0]) for kind in (LOWER, UPPER, DIGIT)) and random(word[0]) and not stands_in(word[0]):
            return word.span()
    return None


_NEAR = 60
_LONG_WORD = r"(?<![^\s\"'`(\[{])(?!sha[0-9]+-|AAAA|MII|ssh-|--)[\w+/~-]{20,}={0,2}(?=[\s\"'`)\]},;]|\.\s|\.?\Z)"
