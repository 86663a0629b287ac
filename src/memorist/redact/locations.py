"""Secrets known by where they stand: in URLs, headers, cookies and commands. The surer the place, the less is asked."""

from collections.abc import Iterator

from memorist.redact.heuristics import JUDGED, chosen, mixed, pattern, random, stands_in
from memorist.redact.patterns import decoded

_Found = Iterator[tuple[int, int, str]]


def secrets(text: str, lowered: str) -> _Found:
    if "@" in text:
        yield from _in_urls(text)
    if any(word in lowered for word in ("authorization", "bearer", "basic")):
        yield from _in_authorizations(text, lowered)
    if "cookie" in lowered or " -b " in lowered:
        yield from _in_cookies(text, lowered)
    if any(
        word in lowered
        for word in ("mysql", "mariadb", "login", "redis-cli", "identified", "requirepass", "sshpass", "curl")
    ):
        yield from _in_commands(text, lowered)


def _in_urls(text: str) -> _Found:
    """scheme://user:password@host, also user:password@tcp(host) of Go and thin:user/password@host of Oracle."""
    for mark, form in (("://", _URL_LOGIN), ("@tcp(", _GO_LOGIN), (":thin:", _ORACLE_LOGIN)):
        if mark in text:
            for found in pattern(form).finditer(text):
                if not stands_in(found[1]) and ("/" not in found[1] or chosen(found[1])):
                    yield *found.span(1), "url-password"


_URL_LOGIN = (
    r"://(?=[^@\s]{1,400}@)[^\s/?#@:\[\"'`<>\0]{0,100}:(?![0-9]{1,5}[/?#])"
    r"([^\s/?#\"'`<>\0]{1,256}|[^\s\"'`<>\0]{1,256})@(?=[\w.\u0080-\uffff-]{1,253}(?:[:/?,;|&<>\s\"'`)\]}\\]|\Z)|[\[{$%*])"
)
_GO_LOGIN = r"(?<=\w):([^\s:\"'`<>\0]{1,256})@tcp\("
_ORACLE_LOGIN = r":thin:[\w$#]{1,64}/([^\s@\"'`<>\0]{1,256})@"


def _in_authorizations(text: str, lowered: str) -> _Found:
    for found in pattern(_AUTHORIZATION).finditer(lowered):
        start, end = found.span("secret")
        is_basic = (found["scheme"] or found[0]).startswith("basic")
        enough = _holds_a_login if is_basic else mixed if found["scheme"] else random
        if "=" not in text[start : end - 2] and not stands_in(text[start:end]) and enough(text[start:end]):
            yield start, end, "basic-auth" if is_basic else "bearer-token"


def _holds_a_login(value: str) -> bool:
    return ":" in decoded(value)


_AUTHORIZATION = (
    r"(?:authorization[\"'`\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}[\"'`\\]{0,4}"
    r"(?P<scheme>(?:[a-z][a-z0-9-]{2,20}[ \t]{1,4})?)|bearer[ \t]{1,4}|basic[ \t]{1,4})(?P<secret>[\w.~+/=-]{8,})"
)


def _in_cookies(text: str, lowered: str) -> _Found:
    """The cookies of a session, and any that are random."""
    for found in pattern(_COOKIES).finditer(lowered):
        for cookie in pattern(_COOKIE).finditer(lowered, *found.span(1)):
            start, end = cookie.span("value")
            enough = mixed if pattern(_SESSION).search(cookie["name"]) else random
            if not stands_in(text[start:end]) and enough(text[start:end]):
                yield start, end, "cookie"


_COOKIES = r"(?:cookie[\"'\]]{0,3}[ \t]{0,4}[:=]|--cookie[ =]|[ ]-b[ ])[ \t]{0,4}[\"']?([^\n\"'\0]+)"
_COOKIE = r"(?P<name>[\w.%-]{1,64})=(?P<value>[^\s;,\"'\\\0]{8,})"
_SESSION = r"sess|sid|token|auth|jwt|csrf|xsrf|remember|login|identity"


def _in_commands(text: str, lowered: str) -> _Found:
    """Passwords that are not called so: of mysql -pX or docker login -p X; of curl -u user:X, .netrc or SQL."""
    for form, sure in ((_MAYBE_LOGINS, False), (_LOGINS, True)):
        for found in pattern(form).finditer(lowered):
            start, end, _ = value_at(text, found.end())
            if end - start > 3 and not stands_in(text[start:end]) and (sure or chosen(text[start:end])):
                yield start, end_of_value(text, start, end), "password"


_MAYBE_LOGINS = (
    r"(?:mysql|mariadb)(?:dump|admin)?[ ][^\n|;\0]{0,200}?(?<=[ ])-p(?![ \t\n])"
    r"|[ ]login[ ][^\n|;\0]{0,200}?(?<=[ ])-p[ ]|redis-cli[ ][^\n|;\0]{0,200}?(?<=[ ])-a[ ]"
    r"|requirepass[ ]|identified[ ](?:with[ ]\S{1,40}[ ])?by[ ](?=[\"'])"
)
_LOGINS = (
    r"sshpass[ ]{1,4}-p[ ]?|curl[ ][^\n|;\0]{0,300}?(?<=[ ])(?:-u|--user)[ =]?[\"']?[^\s:\"'\0]{1,64}:"
    r"|login[ \t]{1,20}\S{1,64}\s{1,20}password[ \t]{1,20}"
)


def value_at(text: str, start: int) -> tuple[int, int, bool]:
    """What is written here: start, end and whether it is in quotes. Of a long one without, as much as is judged."""
    if found := pattern(_QUOTED).match(text, start):
        return *found.span("escaped" if found["escaped"] else "quoted"), True
    found = pattern(_BARE).match(text, start, start + JUDGED)
    value = found[0] if found else ""
    return start, start + len(value if len(value) == JUDGED else value.rstrip(_CLOSING)), False


def end_of_value(text: str, start: int, end: int) -> int:
    """Where a value ends of which this much was judged."""
    rest = pattern(_BARE).match(text, end) if end - start >= JUDGED else None
    return end + len(rest[0].rstrip(_CLOSING)) if rest else end


_QUOTED = (
    r"[fFrRbBuU@$]{0,2}(?:\\{1,3}[\"'](?P<escaped>[^\"'\\\s\0]+)"
    r"|(?P<quote>\"{3}|'{3}|[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\\\n\0]|\\[^\n\0])+)(?P=quote))"
)
_CLOSING = ".,;:)]}"
# Up to a space or a quote, and before the next name of a list like a=1;b=2, a=1&b=2 or a=1, b=2.
_BARE = r"(?:[^\s\"'`<,;&\\\0\u2e80-\uffff]|(?:[,;&]|\\[nrt])(?![ \t]*(?:[\w.$ +-]{1,40}[=:]|[\"'`]))|\\(?![nrt\"']))+"
