"""Secrets known by a name before them: `password = ...` in any language, file or sentence, or a random word nearby."""

import re
from collections.abc import Callable, Iterator

from memorist.redact.heuristics import (
    DIGIT,
    LOWER,
    MAX_JUDGED_CHARACTERS,
    UPPER,
    contains,
    find_windows,
    is_placeholder,
    is_stand_in,
    looks_chosen,
    looks_generated,
    looks_like_gibberish,
    looks_like_passphrase,
    looks_like_password,
    looks_like_strong_password,
    looks_random,
    reads_as_words,
    regex,
)
from memorist.redact.locations import find_value, find_value_end


def find_secrets_by_name(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Yield the value assigned to each such name, or else the first random word after it; and keys of services."""
    done = 0
    windows = find_windows(lowered, _NAME_PARTS, _MAX_NAME_CHARACTERS, _MAX_NAME_CHARACTERS)
    for name in (name for window in windows for name in regex(_SECRET_NAMES).finditer(lowered, *window)):
        if name.start() < done or (name[0] in _PARTS_OF_WORDS and not _starts_word(text, name)):
            continue
        start, end = (
            _find_assigned_value(text, lowered, name)
            or _find_value_before(text, name)
            or (name[0] not in _AMBIGUOUS_NAMES and _find_random_word_nearby(text, name))
            or (0, 0)
        )
        if end:
            done = find_value_end(text, start, end)
            yield start, done, _kind_of_name(name[0])
            done = max(done, name.end())
    yield from _find_by_service(text, lowered)


# A password in other languages. Ordinary words follow some of these, so a value has to look like a password.
_FOREIGN_NAMES = (
    *("mot de passe", "mdp", "kennwort", "wachtwoord", "hasło", "clave", "palavra-passe", "parola", "parole", "şifre"),
    *("lösenord", "passord", "adgangskode", "kodeord", "salasana", "heslo", "jelszó", "geslo", "lozinka", "лозинка"),
    *("парола", "slaptažodis", "salasõna", "contrasenya", "contrasinal", "pasahitza", "κωδικός", "סיסמה", "비밀번호"),
    *("암호", "口令", "暗証番号", "كلمة المرور", "كلمة السر", "رمز عبور", "پاس ورڈ", "पासवर्ड", "পাসও", "ਪਾਸਵਰਡ"),
    *("கடவுச்சொல்", "పాస్", "mật khẩu", "รหัสผ่าน", "kata sandi", "sandi", "kata laluan", "nenosiri"),
)
_FOREIGN_ENDINGS = {  # of those that grammar or spelling changes
    "lösenord": "(?:et)?", "passord": "(?:et)?", "kodeord": "(?:et)?", "adgangskode": "n?", "kata sandi": "(?:nya)?",
    "sandi": "(?:nya)?", "parola": "(?: d'ordine)?", "clave": "(?: de acceso)?", "পাসও": "[\u0980-\u09ff]{1,8}",
    "పాస్": "[\u0c00-\u0c7f\u200c]{1,12}", "şifre": "(?:si|niz|miz|[mn])?", "salasana": "(?: on)?",
    "κωδικός": "(?: πρόσβασης)?",
}  # fmt: skip
_NAME_PARTS = (
    "pass pw psk key secret token credential bearer auth jwt contraseña senha пароль 密码 密碼 パスワード".split()
    + [name for name in _FOREIGN_NAMES if "pass" not in name]
)
_MAX_NAME_CHARACTERS = 24
_SECRET_NAMES = (
    "|".join(name + _FOREIGN_ENDINGS.get(name, "") for name in _FOREIGN_NAMES)
    + r"|pass(?:word|wort|wd|phrase|code)?|pwd?|psk|pre-?shared[_. -]?key|contraseña|senha|пароль|密码|密碼|パスワード"
    r"|secret(?:(?:[_. -]?access)?[_. -]?key)?"
    r"|(?:api|access|account|auth|private|signing|encryption|master|license|subscription)[_. -]?key"
    r"|credential|token|bearer|auth|jwt|_key|key-data"
)
_AMBIGUOUS_NAMES = frozenset("pass pw pwd psk auth jwt _key".split())  # which stand for something else, too
_PARTS_OF_WORDS = _AMBIGUOUS_NAMES | frozenset("mdp clave parola parole sandi geslo heslo".split())
_PASSWORD_NAMES = ("pass", "pw", "psk", "contraseña", "senha", "пароль", "密", "パスワード", *_FOREIGN_NAMES)


def _kind_of_name(name: str) -> str:
    if name.startswith(_PASSWORD_NAMES):
        return "password"
    if name.startswith("secret") and "access" in name:
        return "aws-secret-key"
    if name.startswith(("secret", "pr", "signing", "encryption", "master", "credential", "key-data")):
        return "secret"
    return "api-key" if name.endswith("key") else "token"


def _starts_word(text: str, name: re.Match[str]) -> bool:
    """Accept the pass of DB_PASS, dbPass and DBPass, not of compass; and _KEY only in capitals."""
    start, before = name.start(), text[max(0, name.start() - 1) : name.start()]
    if name[0] == "_key":
        return text[start : name.end()].isupper()
    is_capital = text[start].isupper() and (before.islower() or text[start + 1].islower())
    return not before.isalpha() or is_capital


def _find_assigned_value(text: str, lowered: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the value after `=`, `:`, "is" and the like, if it can be a secret."""
    link = regex(_LINK).match(lowered, name.end())
    how = (link.lastgroup if link else None) or ""
    is_foreign = name[0].startswith(_FOREIGN_NAMES)
    if is_foreign and how == "spaced":
        how = "said"  # "A jelszó X", "Şifre X olarak ayarlandı": the verb is left out, or comes later
    before = text[max(0, name.start() - 40) : name.start()]
    if how == "quoted" and contains(_REQUIRED_BEFORE["spaced"], before):
        how = "spaced"
    if (
        not link
        or (how in _REQUIRED_BEFORE and not contains(_REQUIRED_BEFORE[how], before))
        or (how in _UNSURE_LINKS and name[0] in _AMBIGUOUS_NAMES)
    ):
        return None
    start, end, quoted = find_value(text, link.end())
    if how == "cell" and not quoted:
        end = min(end, text.find("|", start, end) % (len(text) + 1))
    value = text[start:end]
    is_password = name[0].startswith(_PASSWORD_NAMES)
    is_count = name[0] == "token" and lowered.startswith("s", name.end())
    if how in ("assigned", "paired") and not is_count and _is_secret_number(name[0], value):
        return start, end
    if (
        is_placeholder(value)
        or (not quoted and _is_code(value))
        or (how == "tagged" and not text.startswith("</", end))
        or contains(_PUBLIC_BEFORE, before.lower())
    ):
        return None
    look = "random" if name[0] == "_key" else _LOOKS.get(how, "password")
    is_secret = _TESTS[look][0 if is_password else 1](value) or (
        not is_foreign and _is_certain_place(text, name, link, (start, end), quoted) and _is_no_stand_in(value)
    )
    return (start, end) if is_secret else None


def _find_value_before(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the value in a pair that names it afterwards: value: x, name: DB_PASSWORD."""
    window = max(0, name.start() - _MAX_PAIR_CHARACTERS)
    if text.find("value", window, name.start()) < 0:
        return None
    found = regex(_VALUE_BEFORE).search(text, window, name.start())
    if not found or is_placeholder(found["value"]) or is_stand_in(found["value"]):
        return None
    looks_secret = looks_chosen if name[0].startswith(_PASSWORD_NAMES) else looks_generated
    return found.span("value") if looks_secret(found["value"]) else None


_MAX_PAIR_CHARACTERS = 300
_VALUE_BEFORE = (
    r"(?<![\w-])value[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?(?P<value>[^\s\"',\0]{4,200})[\"']?,?\s{1,40}"
    r"[\"']?(?:name|key)[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?[\w.-]{0,40}\Z"
)


def _is_certain_place(text: str, name: re.Match[str], link: re.Match[str], span: tuple[int, int], quoted: bool) -> bool:
    """Return True where only a secret can stand, whatever it looks like: in quotes, or as a whole setting."""
    written, before = text[name.start() : name.end()], text[max(0, name.start() - 1) : name.start()]
    if name[0] in ("_key", "bearer", "auth", "jwt") or (
        name[0] in _AMBIGUOUS_NAMES and name[0] != "psk" and not written.isupper()
    ):
        return False
    is_vague = name[0] in ("token", "secret", "credential") and not (written.isupper() or contains(r"[\w.-]", before))
    if is_vague and not (quoted and regex("[A-Za-z0-9]{8,}").fullmatch(text, *span)):
        return False  # one of a tokenizer, the name of a secret
    operator, after = (link["assigned"] or link["paired"] or "").strip(" \t,"), text[span[1] : span[1] + 10]
    if link.lastgroup == "spaced":
        return quoted or contains(r"^(?:[ \t\r]?(?:\n|$)|[ ](?:[-\\|>&;]|[a-z]{2,6}://))", after)
    if link.lastgroup == "quoted":
        return regex(r"(?<!\S)--?[\w-]{0,40}\Z").search(text, max(0, name.start() - 43), name.start()) is not None
    if link.lastgroup == "tagged":
        return True  # the tag is closed right behind it
    if link.lastgroup not in ("assigned", "paired") or contains(r"==|!|\|\||\?\?|or$", operator):
        return False
    if quoted:
        return True
    if regex(r"[A-Za-z_$][\w.$]*").fullmatch(text, *span) and contains(_NAME_IN_VALUE, text[span[0] : span[1]].lower()):
        return False  # a variable, or its type
    is_last = contains(r"^(?:[ \t\r]?(?:\n|$)|[ \t]+#)", after)
    if operator == "=" and not link["assigned"].endswith((" ", "\t")) and not link["assigned"].startswith((" ", "\t")):
        return not contains(r"^[,)\]}]", after)
    if link.lastgroup == "paired" or operator.endswith((":", "：")):
        return is_last and regex(_LINE_START).search(text, max(0, name.start() - 80), name.start()) is not None
    return operator == "=" and is_last and _is_in_section(text, name.start())


_NAME_IN_VALUE = r"pass|pwd|psk|secret|token|(?<!mon)key|auth|cred|jwt"
_LINE_START = r"(?:\A|\n)[ \t>+-]{0,40}(?:[\"'`*]{0,2}[\w.-]{0,60})\Z"


def _find_by_service(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Yield random values that are assigned to the name of a service, as in `cloudflare: ...`, unless they are ids."""
    for found in regex(_LONG_VALUE).finditer(lowered):
        start, end = found.span(1)
        is_secret = contains(_SERVICE, lowered[max(0, found.start() - 50) : found.start()]) and looks_random(
            text[start:end]
        )
        if is_secret and not is_placeholder(text[start:end]):
            yield start, end, "api-key"


_LONG_VALUE = r"[=:][ \t]{0,3}[\"'`]?([a-z0-9](?<![\w+/.].)[a-z0-9_=-]{19,})(?![\w+/.@:])"
_SERVICE = (
    r"(?:adafruit|adobe|airtable|algolia|alibaba|anthropic|artifactory|asana|atlassian|beamer|bitbucket|bittrex"
    r"|cloudflare|codecov|cohere|coinbase|confluent|contentful|datadog|discord|drone|dropbox|elastic|etsy|facebook|fastly"
    r"|figma|finicity|finnhub|flickr|freshbooks|gitter|gocardless|heroku|hubspot|intercom|jfrog|kraken|kucoin"
    r"|launchdarkly|linkedin|looker|mailchimp|mailgun|mapbox|mattermost|meraki|messagebird|mistral|netlify|new[-_]?relic"
    r"|notion|nytimes|okta|openai|plaid|postman|rapidapi|replicate|sendbird|sendgrid|sentry|snyk|sonar|squarespace|stripe"
    r"|sumo(?:logic)?|tailscale|telegram|travis|twilio|twitch|twitter|wandb|yandex|zendesk)"
    r"(?:[_.-]?(?:api|app|bot|access|client|secret|signing|license|personal|global|live|test|prod|pat|key|auth)){0,3}"
    r"[\"'`\])]{0,2}[ \t]{0,3}$"
)


def _is_in_section(text: str, at: int) -> bool:
    """Return True below a [section] of a settings file."""
    return regex(r"(?:\A|\n)\[[\w .:\"-]{1,60}\][ \t\r]*\n").search(text, max(0, at - 1_000), at) is not None


def _is_no_stand_in(value: str) -> bool:
    if is_stand_in(value) or len(value) < 4:
        return False
    return looks_like_passphrase(value) if " " in value else not contains(r"\s|^[.~]{0,2}/|^[^A-Za-z0-9]{1,4}$", value)


def _is_secret_number(name: str, value: str) -> bool:
    """Return True for a number that is too long to count anything: a password of six digits, a token of ten."""
    length = 6 if name.startswith(_PASSWORD_NAMES) else 10 if name == "token" else 8
    return value.isdecimal() and len(value) >= length


def _is_secret_cell(value: str) -> bool:
    return not is_stand_in(value) and looks_generated(value)


_LINK = (
    # A suffix of the name, and what closes it: DB_PASSWORD_PROD, "password", ["password"], **password**
    r"(?:[_-]?(?:value|val|text|plain|prod(?:uction)?|staging|dev|live|test|default|old|new|base|base64|b64|hex|[0-9]{1,3}))?"
    r"s?(?![a-z0-9]|[_-][a-z0-9])(?:\\{0,3}[\"'`]|[\])]|\*\*|__){0,3}(?:"
    # name: DB_PASSWORD, value: x
    r"(?P<paired>(?:(?:\n[ \t]{1,40}[\w-]{1,30}:[^\n]{0,100}){1,3})?,?\s{0,40}[\"']?value[\"']?[ \t]{0,9}[:=][ \t]{0,9}"
    # <name>password</name><value>x</value>, and in Terraform: variable "password" { default = "x" }
    r"|</\w{1,20}>\s{0,20}<(?:value|string)>"
    r"|[ \t]{0,9}\{[^{}\0]{0,400}?(?<!\w)(?:default|value)[ \t]{0,9}=[ \t]{0,9}(?=\"))"
    r"|(?P<listed>[ \t]{0,9},[ \t]{0,9}(?=[\"'`]))|(?P<called>\((?=[\"'`]))"
    r"|(?P<below>[ \t]{0,9}:[ \t]{0,9}\n{1,2}(?:[ \t]{0,9}```\w{0,20}\n)?[ \t>]{0,20}(?=\S{16,200}(?:\s|\Z)))"
    r"|(?P<part>\r?\n\r?\n(?=\S))"
    # password: str = x, password string = x, password => x, password || x, password: |, and on the next line x
    r"|(?P<assigned>[ \t]{0,99}(?:[?!]?:[ \t]?[a-z&*][a-z_.&\[\]|<>?, ]{0,40}[ \t]=[ \t]|[ \t]string[ \t]:?="
    r"|=>|:=|\?=|!?={1,3}|->|→|[?!]?:(?!:)|：|\|\||\?\?|or(?=[ ][\"']))"
    r"[ \t]{0,99}(?:\*\*|__)?[ \t]{0,9}(?:[|>][+-]?\n[ \t]{1,40}|[&!]{1,2}[\w-]{1,40}[ ](?=[\w\"']))?"
    # password=\\, password = (, password = "" \\, and on the next line x
    r"(?:\\\r?\n[ \t]{0,40}|\(\s{0,40}(?=[\"'])|\"\"[ \t]{0,9}\\?\n[ \t]{0,40}(?=[\"']))?)"
    # the password for the old server (staging) is x
    r"|(?P<said>(?:[ ](?:for|of|on|in|to|at|für|von|vom|zu[mr]?|der|des|am|im|pour|de|del|du|au|para|da|do|dla|per"
    r"|di|della?|voor|van|ke?|pro|pentru|till?|för|от|для|к|на|до|від)(?:[ ][\w.@/\u00c0-\uffff-]{1,40}){1,6}?"
    r"|[ ](?:wi-?fi|wlan|router|admin|root|e?mail|account))?(?:[ ]\([^()\n]{1,30}\))?"
    r"(?:[ ](?:is|was|are|be|to|ist|lautet|est|es|è|é|je|är|er|este|adalah|là|είναι|היא|هي|है|आहे|такой|это|[—–])"
    r"(?:[ ]now)?:?[ ]|[ ]?:[ ])|(?:是|为|為|は|는|은|คือ)[ ]?[「『]?)"
    # | password | x |, and <td>password</td><td>x</td>
    r"|(?P<cell>[ \t]{0,20}\|[ \t]{0,20}[`*]{0,2}|</t[dh]>\s{0,20}<t[dh][^<>\n]{0,60}>)"
    r"|(?P<quoted>[ \t]{1,4}(?=[\"'`]))|(?P<spaced>[ \t]{1,9})|(?P<tagged>>))"
)
_REQUIRED_BEFORE = {
    # --db-password x, setx DB_PASSWORD x, set -x DB_PASSWORD x, ENV DB_PASSWORD x, #define DB_PASSWORD x
    "spaced": r"(?:^|[\s\"'(\[])(?:--?[\w-]*|setx[ ]\w*|set[ ]-[A-Za-z]+[ ]\w*|(?:ENV|#[ ]?define)[ ]\w*)$",
    # <db-password>x</db-password>
    "tagged": r"<[\w:.-]*(?:[ ][\w:.-]{1,20}=[\"'])?[\w:.-]*$",
    "part": r"form-data; name=[\"'][\w-]*$",  # of a form that was sent
}
# publicKeyToken="...", arn:aws:secretsmanager:eu:123456789012:secret:...
_PUBLIC_BEFORE = r"public(?:key)?$|[0-9]{12}:$"
_UNSURE_LINKS = ("listed", "called", "said", "quoted", "cell")


def _is_code(value: str) -> bool:
    """Return True for a call, an index, a list, a mapping, a Markdown link, or a long expression without spaces."""
    called = regex(r"([A-Za-z_$][\w.:>?!-]*)[(\[{]").match(value)
    return (
        value[:1] in "([{"
        or "](" in value
        or bool(called and (not contains(DIGIT, called[1]) or reads_as_words(called[1])))
        or (len(value) > 40 and contains(r"&&|\|\||=>|[=!<>]=|\(\)|\)[;.,]", value))
    )


def _is_stated_password(value: str) -> bool:
    """Accept the hunter2 of "the password is hunter2", but not the 12-character of "the password is 12-character"."""
    return (
        looks_like_strong_password(value)
        or (looks_like_gibberish(value) and not reads_as_words(value, 0.25))
        or (looks_like_password(value) and regex(r"[A-Za-z]{3,}[0-9]{1,4}[!?#$%]*").fullmatch(value) is not None)
    )


def _is_random_word(value: str) -> bool:
    return looks_random(value) and regex(r"[\w+/~.:-]+={0,2}").fullmatch(value) is not None


# How a secret has to look after each link, if its place is not certain: a password, and any other.
_LOOKS = {"listed": "random", "below": "random", "cell": "cell", "said": "stated", "quoted": "quoted"}
_TESTS: dict[str, tuple[Callable[[str], bool], Callable[[str], bool]]] = {
    "random": (_is_random_word, _is_random_word),
    "cell": (_is_secret_cell, _is_secret_cell),
    "stated": (_is_stated_password, looks_like_strong_password),
    "quoted": (looks_like_password, looks_like_strong_password),
    "password": (looks_chosen, looks_generated),
}


def _find_random_word_nearby(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the first random word among the next few on the line; of a key, also 64 hexadecimal digits."""
    start, is_key = name.end(), name[0].startswith("private")
    if not regex(r"s?(?![A-Za-z0-9_])").match(text, start):
        return None
    stop = regex(r"[\n\0]").search(text, start, start + _MAX_DISTANCE)
    for word in regex(_LONG_WORD).finditer(
        text, start, stop.start() if stop else start + _MAX_DISTANCE + MAX_JUDGED_CHARACTERS
    ):
        if word.start() > start + _MAX_DISTANCE:
            break
        if (
            (all(contains(kind, word[0]) for kind in (LOWER, UPPER, DIGIT)) or (is_key and len(word[0]) in (64, 66)))
            and looks_random(word[0])
            and not is_placeholder(word[0])
        ):
            return word.span()
    return None


_MAX_DISTANCE = 60
_LONG_WORD = r"(?<![^\s\"'`(\[{])(?!sha[0-9]+-|AAAA|MII|ssh-|--)[\w+/~-]{20,}={0,2}(?=[\s\"'`)\]},;]|\.\s|\.?\Z)"
