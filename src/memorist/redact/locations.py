"""Secrets known by their location: in URLs, headers, cookies, settings, lists of codes, and columns of tables."""

from collections.abc import Callable, Iterator

from memorist.redact.heuristics import (
    DIGIT,
    MAX_JUDGED_CHARACTERS,
    contains,
    find_windows,
    is_placeholder,
    is_stand_in,
    looks_chosen,
    looks_generated,
    looks_like_password,
    looks_like_strong_password,
    looks_random,
    reads_as_words,
    regex,
)
from memorist.redact.patterns import decode_base64

_Found = Iterator[tuple[int, int, str]]


def find_secrets_by_location(text: str, lowered: str) -> _Found:
    """Yield start, end and kind of each secret that is known by its location."""
    if "@" in text:
        yield from _find_in_urls(text)
    if any(word in lowered for word in ("authorization", "bearer", "basic")):
        yield from _find_in_authorizations(text, lowered)
    if "cookie" in lowered or " -b " in lowered:
        yield from _find_in_cookies(text, lowered)
    if "identified" in lowered or "password '" in lowered:
        yield from _find_in_sql(text, lowered)
    if "psk" in text or "wpa" in text:
        yield from _find_in_wifi_settings(text)
    if "wifi:" in lowered:
        for found in regex(_WIFI_CODE).finditer(text):
            yield *found.span(1), "password"
    if "otpauth-migration://" in lowered:
        for found in regex(r"otpauth-migration://[^\s\0]{0,40}?data=([\w%+/=-]{16,})").finditer(text):
            yield *found.span(1), "otp-secret"
    if "codes" in lowered or "códigos" in lowered or "codici" in lowered:
        yield from _find_recovery_codes(text, lowered)
    if ":5432:" in text or ":*:" in text or "pgpass" in lowered:
        yield from _find_in_pgpass(text, "pgpass" in lowered)
    if "kind: secret" in lowered:
        yield from _find_in_kubernetes_secrets(text)
    if any(word in text for word in ("CVV", "CVC", "cvv", "cvc", "PIN")):
        yield from _find_card_codes(text)
    for window in find_windows(lowered, _LOGIN_WORDS, 1, _MAX_LOGIN_CHARACTERS):
        yield from _find_login_pairs(text, lowered, window)
    if "htpasswd" in lowered:
        for found in regex(_HTPASSWD_LINE).finditer(text):
            if looks_like_strong_password(found[1]):
                yield *found.span(1), "password-hash"


def _find_in_kubernetes_secrets(text: str) -> _Found:
    """Yield every value below `data:` and `stringData:` of a manifest of that kind."""
    end = 0
    for manifest in regex(r"(?m)^kind: Secret[ \t\r]*$").finditer(text):
        if manifest.start() < end:
            continue
        start = max(end, manifest.start() - _MAX_MANIFEST_CHARACTERS)
        start = max(start, text.rfind("\n---", start, manifest.start()))
        limit = manifest.end() + _MAX_MANIFEST_CHARACTERS
        end = text.find("\n---", manifest.end(), limit)
        end = end if end >= 0 else limit
        for block in regex(_SECRET_DATA).finditer(text, start, end):
            for line in regex(r"(?m)^[ \t]+[\w.-]{1,253}:[ \t]+").finditer(text, *block.span(1)):
                first, last, _ = find_value(text, line.end())
                if last - first > 3 and not is_placeholder(text[first:last]):
                    yield first, find_value_end(text, first, last), "secret"


_MAX_MANIFEST_CHARACTERS = 20_000
_SECRET_DATA = r"(?m)^(?:data|stringData):[ \t\r]*\n((?:[ \t]+[^\n]*(?:\n|\Z))+)"


def _find_card_codes(text: str) -> _Found:
    """Yield the code on the back of a card, and the PIN of a card, a phone or a door."""
    for found in regex(_CARD_CODE).finditer(text):
        yield *found.span(1), "card-code"
    for found in regex(_PIN).finditer(text):
        around = text[max(0, found.start() - 40) : found.end() + 20].lower()
        if contains(_PIN_PLACE, around):
            yield *found.span(1), "pin"


_CARD_CODE = r"(?<!\w)(?:CV[VC]2?|cv[vc]2?)(?:(?:[ ]is)?[ ]|[ ]?[:=][ ]?)([0-9]{3})(?![\w.,-]\w|\w)"
_PIN = (
    r"(?<!\w)PIN(?:[ ][\w.-]{1,20}){0,4}?(?:[ ](?:is|ist|lautet|est|es|è|é|to)|[ ]?[:=])[ ]([0-9]{4,8})(?![\w.,-]\w|\w)"
)
_PIN_PLACE = (
    r"card|karte|bank|\bsim\b|phone|handy|tablet|safe|tresor|alarm|door|tür|carte|tarjeta|cartão|voicemail|atm\b"
)


def _find_login_pairs(text: str, lowered: str, window: tuple[int, int]) -> _Found:
    """Yield the password of a user and a password after a word such as "credentials": creds: ada / X."""
    for found in regex(_LOGIN_PAIR).finditer(lowered, *window):
        start, end, _ = find_value(text, found.end())
        if looks_like_strong_password(text[start:end]) and not is_placeholder(text[start:end]):
            yield start, find_value_end(text, start, end), "password"


_MAX_LOGIN_CHARACTERS = 100
_LOGIN_WORDS = (
    *("creds", "credentials", "login", "log in", "zugangsdaten", "anmeldedaten", "identifiants", "credenciales"),
    *("credenciais", "credenziali", "inloggegevens", "账号"),
)
_LOGIN_PAIR = (
    rf"(?<!\w)(?:{'|'.join(_LOGIN_WORDS)})(?:[ ](?:with|as|is|are|mit|avec|con|sind))?[ ]?[:：=]?[ ]?"
    r"[\w.@+-]{2,64}(?:[ ]/[ ]|[:/])(?![/\s])"
)


def _find_in_pgpass(text: str, is_named: bool) -> _Found:
    """Yield the passwords of lines such as host:5432:database:user:password; other ports only in a .pgpass."""
    for found in regex(_PGPASS_LINE).finditer(text):
        if (is_named or found[1] in ("5432", "*")) and not is_placeholder(found[2]):
            yield *found.span(2), "password"


_PGPASS_LINE = r"(?m)^[ \t]{0,8}[\w.*-]{1,253}:([0-9]{2,5}|\*):[\w.*-]{1,63}:[\w.*-]{1,63}:(\S{4,256})[ \t\r]*$"
_HTPASSWD_LINE = r"(?m)^[ \t]{0,8}[\w.@-]{1,64}:([./A-Za-z0-9]{13})\r?$"  # the oldest form, of crypt


def _find_in_urls(text: str) -> _Found:
    """Yield passwords of URLs, of Go's user:password@tcp(host) and of Oracle's thin:user/password@host."""
    if "://" in text:
        yield from _find_url_passwords(text)
    for mark, form in (("@tcp(", _GO_LOGIN), (":thin:", _ORACLE_LOGIN)):
        if mark in text:
            for found in regex(form).finditer(text):
                if not is_placeholder(found[1]):
                    yield *found.span(1), "url-password"


def _find_url_passwords(text: str) -> _Found:
    """Yield passwords of URLs. They may hold @ and /, so one ends at the last @ that a host can follow."""
    for found in regex(_URL_LOGIN).finditer(text):
        start, rest = found.start(1), found[1]
        hosts = [at for at in range(len(rest)) if rest[at] == "@" and regex(_URL_HOST).match(rest, at + 1)]
        query = regex("[?#]").search(rest)
        within = [at for at in hosts if query is None or at < query.start()] or hosts[:1]
        if not within:
            continue
        # A path may hold an @ as well: after a first host that surely is one, only another sure one counts.
        certain = [at for at in within if regex(_CERTAIN_HOST).match(rest, at + 1)]
        end = certain[-1] if within[0] in certain else within[-1]
        if end and not is_placeholder(rest[:end]) and ("/" not in rest[:end] or not reads_as_words(rest[:end])):
            yield start, start + end, "url-password"


_URL_LOGIN = r"://(?=[^@\s]{1,400}@)[^\s/?#@:\[\"'`<>\0]{0,100}:(?![0-9]{1,5}[/?#])([^\s\"'`<>\0]{1,600})"
_URL_HOST = r"[\w.\u0080-\uffff-]{1,253}(?:[:/?,;|&<>\s\"'`)\]}\\]|\Z)|[\[{$%*]"
_CERTAIN_HOST = r"(?:localhost|[\w-]{1,63}(?:\.[\w-]{1,63})+)(?![\w.-])|[\w.-]{1,253}:[0-9]{2,5}(?![\w])|[\[{$%*]"
_GO_LOGIN = r"(?<=\w):([^\s:\"'`<>\0]{1,256})@tcp\("
_ORACLE_LOGIN = r":thin:[\w$#]{1,64}/([^\s@\"'`<>\0]{1,256})@"


def _find_in_authorizations(text: str, lowered: str) -> _Found:
    for found in regex(_AUTHORIZATION).finditer(lowered):
        start, end = found.span("secret")
        value = text[start:end]
        is_basic = (found["scheme"] or found[0]).startswith("basic")
        is_number = found["scheme"] and regex("[0-9]{6,}").fullmatch(value)
        if "=" in value[:-2] or (is_placeholder(value) and not is_number) or is_stand_in(value):
            continue
        if is_basic:
            is_secret = ":" in decode_base64(value)
        elif found["scheme"]:
            is_whole = found["scheme"].strip() in _TOKEN_SCHEMES and regex(_HEADER_END).match(text, end) is not None
            is_secret = is_whole or looks_like_strong_password(value)
        else:
            is_secret = looks_random(value)
        if is_secret:
            yield start, end, "basic-auth" if is_basic else "bearer-token"


_TOKEN_SCHEMES = ("bearer", "token", "bot", "key", "apikey", "api-key", "oauth", "jwt")
_HEADER_END = r"[\"'`\r\n\\<]|[ \t]{0,9}(?:\n|\Z)"
_AUTHORIZATION = (
    r"(?:authorization[\"'`\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}[\"'`\\]{0,4}"
    r"(?P<scheme>(?:[a-z][a-z0-9-]{2,20}[ \t]{1,4})?)|bearer[ \t]{1,4}|basic[ \t]{1,4})(?P<secret>[\w.~+/=-]{6,})"
)


def _find_in_cookies(text: str, lowered: str) -> _Found:
    """Yield session cookies, and any others that look random."""
    for found in regex(_COOKIES).finditer(lowered):
        for cookie in regex(_COOKIE).finditer(lowered, *found.span(1)):
            start, end = cookie.span("value")
            is_secret = looks_like_strong_password if regex(_SESSION_COOKIE).search(cookie["name"]) else looks_random
            if not is_placeholder(text[start:end]) and is_secret(text[start:end]):
                yield start, end, "cookie"


_COOKIES = r"(?:cookie[\"'\]]{0,3}[ \t]{0,4}[:=]|--cookie[ =]|[ ]-b[ ])[ \t]{0,4}[\"']?([^\n\"'\0]+)"
_COOKIE = r"(?P<name>[\w.%-]{1,64})=(?P<value>[^\s;,\"'\\\0]{8,})"
_SESSION_COOKIE = r"sess|sid|token|auth|jwt|csrf|xsrf|remember|login|identity"


def _find_in_sql(text: str, lowered: str) -> _Found:
    """Yield passwords of users and roles; outside of a statement about them, those that look like one."""
    for found in regex(_SQL_PASSWORD).finditer(lowered):
        start, end, _ = find_value(text, found.end())
        before = lowered[max(0, found.start() - _MAX_STATEMENT_CHARACTERS) : found.start()]
        value = text[start:end]
        is_secret = regex(_USER_STATEMENT).search(before) or (found["identified"] and looks_like_password(value))
        if is_secret and len(value) > 3 and not is_placeholder(value):
            yield start, find_value_end(text, start, end), "password"


_MAX_STATEMENT_CHARACTERS = 300
_USER_STATEMENT = r"(?<!\w)(?:(?:create|alter)\s{1,9}(?:user|role)\s|grant\s[^;\0]*\sto\s)[^;\0]*\Z"
_SQL_PASSWORD = (
    r"(?P<identified>identified)\s{1,9}(?:with\s{1,9}\S{1,40}\s{1,9})?by\s{1,9}(?:password\s{1,9})?(?=[\"'])"
    r"|identified\s{1,9}by\s{1,9}(?=[\w$#]{1,128}\s{0,9};)|password[ ](?=')"
)


def _find_in_wifi_settings(text: str) -> _Found:
    """Yield the value of lines such as `wpa-psk X`; elsewhere it has to look like a password."""
    for found in regex(_WIFI_SETTING).finditer(text):
        start, end, _ = find_value(text, found.end())
        value = text[start:end]
        is_line = found["line"] is not None and regex(r"[\"']?[ \t\r]*(?:\n|\Z)").match(text, end)
        is_secret = not is_placeholder(value) and (is_line or looks_like_password(value))
        if len(value) >= _MIN_WIFI_CHARACTERS and (is_secret or (is_line and value.isdecimal())):
            yield start, find_value_end(text, start, end), "password"


_MIN_WIFI_CHARACTERS = 8  # of a passphrase, by the standard
_WIFI_SETTING = (
    r"(?m)(?P<line>^[ \t]{0,40})?(?<![\w.-])(?:wpa[_-]?(?:psk|passphrase)|psk)[ \t]{1,9}"
    r"(?:(?:ascii|hex)[ ](?:[0-9][ ])?)?"
)


# As it stands in the square code on a poster.
_WIFI_CODE = r"WIFI:(?:[STHEAI]+:(?:\\.|[^;\\\n\0]){0,64};){0,6}P:((?:\\.|[^;\\\n\0]){1,128});"


def _find_recovery_codes(text: str, lowered: str) -> _Found:
    """Yield the codes listed after a title such as "recovery codes": three or more of one shape, most with a digit."""
    for title in regex(_CODES_TITLE).finditer(lowered):
        code = regex(_CODE).search(text, title.end(), title.end() + _MAX_CODES_DISTANCE)
        codes, shape = list[tuple[int, int]](), code and _shape(code[0])
        while code is not None and _shape(code[0]) == shape:
            codes.append(code.span())
            between = regex(_BETWEEN_CODES).match(text, code.end())
            code = regex(_CODE_BODY).match(text, between.end()) if between else None
        if len(codes) > 2 and 2 * sum(contains(DIGIT, text[start:end]) for start, end in codes) >= len(codes):
            for start, end in codes:
                yield start, end, "recovery-code"


def _shape(code: str) -> str:
    return regex("[A-Za-z0-9]").sub("x", code)


_CODES_TITLE = (
    r"(?:recovery|backup|scratch|rescue|emergency|one-?[ ]?time|single-use|2fa|mfa|otp)[ _-]{0,2}"
    r"(?:[a-z0-9]{1,12}[ ]){0,2}codes"
    r"|(?:wiederherstellungs|notfall|sicherungs|backup-?)codes|codes[ ](?:de[ ])?(?:secours|récupération|sauvegarde)"
    r"|códigos[ ]de[ ](?:recuperación|respaldo|seguridad|recuperação|backup)|codici[ ]di[ ](?:recupero|backup)"
)
_MAX_CODES_DISTANCE = 60
_CODE_BODY = r"(?:[A-Za-z0-9]{4,6}(?:[- ][A-Za-z0-9]{4,6}){1,3}|[A-Za-z0-9]{8,16})(?![\w-]|[.][\w])"
_CODE = rf"(?<![\w.-])(?=[a-z-]{{0,16}}[0-9]|[A-Z-]{{0,16}}[0-9]){_CODE_BODY}"
_BETWEEN_CODES = (
    r"[ \t]{0,4}[,;|]?\s{0,6}(?:[-*•|]{1,2}[ \t]{0,4})?(?:\(?[0-9]{1,2}[.):]{1,2}[ \t]{1,4})?(?:\[[ x]?\][ ])?"
)


def find_value(text: str, start: int) -> tuple[int, int, bool]:
    """Return start and end of the value at a position, and whether it is quoted; a long bare value only in part."""
    if found := regex(_QUOTED).match(text, start):
        return *found.span("escaped" if found["escaped"] else "quoted"), True
    found = regex(_BARE).match(text, start, start + MAX_JUDGED_CHARACTERS)
    value = found[0] if found else ""
    return start, start + len(value if len(value) == MAX_JUDGED_CHARACTERS else value.rstrip(_CLOSING)), False


def find_value_end(text: str, start: int, end: int) -> int:
    """Return the end of a value of which this much was judged."""
    rest = regex(_BARE).match(text, end) if end - start >= MAX_JUDGED_CHARACTERS else None
    return end + len(rest[0].rstrip(_CLOSING)) if rest else end


_QUOTED = (
    r"[fFrRbBuUN@$]{0,2}(?:\\{1,3}[\"'](?P<escaped>[^\"'\\\s\0]+)"
    r"|(?P<quote>\"{3}|'{3}|[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\\\n\0]|\\[^\n\0])+)(?P=quote))"
)
_CLOSING = ".,;:)]}"
# Up to a space or a quote, and up to the next name in a list like a=1;b=2, a=1&b=2 or a=1, b=2.
_BARE = r"(?:[^\s\"'`<,;&\\\0\u2e80-\uffff]|(?:[,;&]|\\[nrt])(?![ \t]*(?:[\w.$ +-]{1,40}[=:]|[\"'`]))|\\(?![nrt\"']))+"


# Below the title of a column: in tables of Markdown, and in lists with commas, semicolons or tabs

_Cell = tuple[int, int]


def find_secrets_in_tables(text: str, lowered: str) -> _Found:
    """Yield start, end and kind of each cell that looks like a secret, below a title like "password"."""
    for find_tables in (_find_markdown_tables, _find_separated_lists):
        done = 0
        for titles, rows, separator in find_tables(text, lowered):
            if rows < done:
                continue
            columns = _find_secret_columns(lowered, _split_cells(text, *titles, separator))
            cells: list[_Cell] = []
            while columns and rows < len(text) and (not cells or max(columns) < len(cells)):
                end = _line_end(text, rows)
                cells = _split_cells(text, rows, end, separator) if separator in text[rows:end] else []
                for column, (kind, looks_secret) in columns.items():
                    start, stop = cells[column] if column < len(cells) else (0, 0)
                    if looks_secret(value := text[start:stop]) and not is_placeholder(value) and not is_stand_in(value):
                        yield start, stop, kind
                rows = end + 1
                if not cells:
                    break
            done = rows


def _find_markdown_tables(text: str, lowered: str) -> Iterator[tuple[_Cell, int, str]]:
    """Yield the line of titles, the start of the rows, and the separator of each table with a rule below its titles."""
    if any(end in text for end in ("-|", "- |", ":|", ": |")):
        for rule in regex(r"\n[ \t]{0,8}\|?[ \t]{0,8}:?--[-:| \t]{0,999}(?=\r?\n)").finditer(text):
            if titles := _find_title_line(text, rule.start()):
                yield titles, text.index("\n", rule.end()) + 1, "|"


def _find_separated_lists(text: str, lowered: str) -> Iterator[tuple[_Cell, int, str]]:
    """Yield the same for each list that has one of the titles in its first line."""
    for title in regex(_LISTED_TITLE).finditer(f"\n{lowered}"):
        separator = title[0][-1] if title[0][0] == "\n" else title[0][0]
        titles = _find_title_line(text, title.start()) if separator in ",;\t" else None
        if titles and regex(r"[\w\u00c0-\uffff \"'./;,\t-]+\r?").fullmatch(text, *titles):
            yield titles, titles[1] + 1, separator


def _find_title_line(text: str, at: int) -> _Cell | None:
    """Return start and end of the line that ends or goes on at a position, unless it is long or the last."""
    start = text.rfind("\n", max(0, at - _MAX_TITLE_CHARACTERS), at) + 1
    end = text.find("\n", at, at + _MAX_TITLE_CHARACTERS)
    return (start, end) if end >= 0 and (start or at < _MAX_TITLE_CHARACTERS) else None


_MAX_TITLE_CHARACTERS = 1_000
_TITLE = (
    r"(?:(?:user|db|api|access|client|auth|admin|login|root|wifi|private|app)[ _-]?)?"
    r"(?:pass(?:word|wort|wd|phrase|code)?|pwd?|kennwort|mot de passe|mdp|contraseña|senha"
    r"|wachtwoord|hasło|пароль|密码|secret|token|(?:api|access|secret|private)[ _-]?key)"
)
_LISTED_TITLE = rf"[,;\t\n] ?[\"']?{_TITLE}[\"']?(?:[,;\t]|(?=\r?\n))"


def _find_secret_columns(lowered: str, titles: list[_Cell]) -> dict[int, tuple[str, Callable[[str], bool]]]:
    """Return the kind of secret in each column that holds some, and a test for the look of one."""
    columns: dict[int, tuple[str, Callable[[str], bool]]] = {}
    for column, (start, end) in enumerate(titles if len(titles) > 1 else []):
        if regex(_TITLE).fullmatch(lowered, start, end):
            is_password = not contains("secret|token|key", lowered[start:end])
            columns[column] = ("password", looks_chosen) if is_password else ("secret", looks_generated)
    return columns


def _split_cells(text: str, start: int, end: int, separator: str) -> list[_Cell]:
    """Return the cells of a line, without the spaces, quotes and Markdown around them."""
    cells, at = [], start
    cell = regex(rf"\"[^\"\n]*\"|[^{separator}\n]*")
    while at <= end:
        found = cell.match(text, at, end)
        stop = found.end() if found else end
        cells.append((at, stop))
        at = stop + 1
    if separator == "|" and not text[cells[0][0] : cells[0][1]].strip():
        cells = cells[1:]
    return [_strip_cell(text, *cell) for cell in cells]


def _strip_cell(text: str, start: int, end: int) -> _Cell:
    value = text[start:end]
    inner = value.strip(" \t\r\"'`*")
    start += value.find(inner)
    return start, start + len(inner)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end
