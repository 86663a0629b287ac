"""Secrets known by their form: keys and tokens as their makers document them, and private keys."""

import base64
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from memorist.redact.heuristics import HEX, is_example, looks_random, regex


def find_secrets_by_pattern(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each secret that is known by its form."""
    yield from _find_private_keys(text)
    for kind, hints, form in _FORMATS:
        if any(hint in text for hint in hints.split()):
            yield from _find_format(text, kind, form)
    if any(hint in text for hint in ("AKIA", "ASIA")):
        yield from _find_aws_secret_keys(text)


def _start(prefix: str) -> str:
    """
    Return a pattern for a prefix that begins a word.

    It may also follow an escape: the \\n of JSON, the %3D of a URL, a terminal colour.
    """
    behind = (
        rf"(?<!{_WORD_CHAR}{prefix})",
        rf"(?<=\\[nrt]{prefix})",
        rf"(?<=%{_HEX_BYTE}{prefix})",
        rf"(?<=[0-9]m{prefix})",
    )
    return f"{prefix}(?:{'|'.join(behind)})"


_WORD_CHAR, _HEX_BYTE = "[A-Za-z0-9_-]", "[0-9A-Fa-f][0-9A-Fa-f]"
_END = "(?![A-Za-z0-9])"
_AWS_ID = rf"{_start('(?:AKIA|ASIA|ABIA|ACCA)')}[A-Z2-7]{{16}}{_END}"

# The kind, texts of which one must occur, and the pattern; a group in the pattern is the secret.
_FORMATS = (
    ("aws-access-key-id", "AKIA ASIA ABIA ACCA", _AWS_ID),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9_]{30,}(?:\.[\w-]{20,}){0,2}"),
    ("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,}"),
    ("gitlab-token", "gl", r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct)-[\w-]{20,}(?:\.\w{2}\.\w{7,9})?"),
    ("gitlab-token", "GR1348941", r"GR1348941[\w-]{20,}"),
    ("slack-token", "xox xapp-", r"x(?:ox[a-z](?:\.xox[a-z])?|app)-[A-Za-z0-9%/+=-]{10,}"),
    ("slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{20,})"),
    ("stripe-key", "k_live_ k_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    ("stripe-webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}"),
    ("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    ("openai-key", "sk-", rf"{_start('sk-')}(?:(?:proj|svcacct|admin|None|or-v1)-[\w-]{{20,}}|[A-Za-z0-9]{{20,}})"),
    ("google-api-key", "AIza", r"AIza[\w-]{35,}"),
    ("google-oauth-secret", "GOCSPX-", r"GOCSPX-[\w-]{20,}"),
    ("google-oauth-token", "ya29. 1//0", rf"(?:ya29\.|{_start('1//0')})[\w-]{{25,}}"),
    ("azure-key", "AccountKey= SharedAccessKey=", r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-sas", "sig=", r"[?&;]sig=([\w%+/=-]{20,})"),
    ("azure-client-secret", "Q~", r"[\w.~-]{3}[0-9]Q~[\w.~-]{31,}"),
    ("npm-token", "npm_", r"npm_[A-Za-z0-9]{36,}"),
    ("pypi-token", "pypi-AgE", r"pypi-AgE[\w-]{50,}"),
    ("docker-token", "dckr_", r"dckr_[op]at_[\w-]{20,}"),
    ("huggingface-token", "hf_ api_org_", rf"(?:{_start('hf_')}|api_org_)[A-Za-z0-9]{{30,}}"),
    ("twilio-key", "SK", rf"{_start('SK')}[0-9a-f]{{32}}{_END}"),
    ("sendgrid-key", "SG.", rf"{_start('SG[.]')}[\w-]{{16,64}}\.[\w-]{{16,}}"),
    ("mailgun-key", "key-", rf"{_start('key-')}[0-9a-f]{{32}}{_END}"),
    ("telegram-token", ":AA", r"[0-9]{8,10}:AA[\w-]{32,}"),
    ("discord-token", ".", r"[MNO][\w-]{23,27}+\.[\w-]{6}\.[\w-]{27,}"),
    ("discord-webhook", "/webhooks/", r"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]{15,21}/([\w-]{50,})"),
    ("jwt", "eyJ", r"eyJ[\w-]*(?:(?:\.[\w-]*){0,3}\.[\w-]+)?"),
    ("age-key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-(?:[A-Z]{2,8}-)?1[0-9A-Z]{50,}"),
    ("onepassword-token", "ops_eyJ", r"ops_eyJ[\w+/=-]{50,}"),
    ("onepassword-secret-key", "A3-", rf"{_start('A3-')}[A-Z0-9]{{6}}-[A-Z0-9]{{6}}(?:-[A-Z0-9]{{5}}){{4}}{_END}"),
    ("vault-token", "hvs. hvb. hvr.", rf"{_start('hv[sbr][.]')}[\w-]{{24,}}"),
    ("digitalocean-token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("atlassian-token", "ATATT3 ATCTT3", r"AT[AC]TT3[\w=-]{50,}"),
    ("grafana-token", "glsa_ glc_", r"gl(?:sa|c)_[\w+/=]{32,}"),
    ("sentry-token", "sntrys_ sntryu_", r"sntry[su]_[\w+/=-]{40,}"),
    ("databricks-token", "dapi", rf"{_start('dapi')}[0-9a-f]{{32}}"),
    ("notion-token", "ntn_", rf"{_start('ntn_')}[A-Za-z0-9]{{40,}}"),
    ("linear-key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    ("groq-key", "gsk_", rf"{_start('gsk_')}[A-Za-z0-9]{{40,}}"),
    ("xai-key", "xai-", rf"{_start('xai-')}[A-Za-z0-9]{{60,}}"),
)


def _find_format(text: str, kind: str, form: str) -> Iterator[tuple[int, int, str]]:
    is_valid = _VALIDATORS.get(kind)
    for found in regex(form).finditer(text):
        start, end = found.span(found.re.groups)
        if not is_example(text[start:end]) and (is_valid is None or is_valid(found)):
            yield start, end, kind


def _is_jwt(found: re.Match[str]) -> bool:
    """Require three parts, or the five of an encrypted token; the first is a JSON object."""
    header, *rest = found[0].split(".")
    return len(rest) in (2, 4) and decode_base64(header[:4000]).startswith("{")


def _is_discord_token(found: re.Match[str]) -> bool:
    """Require that the first part is the number of a user."""
    return decode_base64(found[0].split(".")[0]).isdigit()


def _is_twilio_key(found: re.Match[str]) -> bool:
    """Require a word about keys nearby, because many ids have the same form."""
    around = found.string[max(0, found.start() - 100) : found.end() + 100].lower()
    return any(word in around for word in ("twilio", "api", "auth", "secret", "token"))


_VALIDATORS: dict[str, Callable[[re.Match[str]], bool]] = {
    "jwt": _is_jwt,
    "discord-token": _is_discord_token,
    "twilio-key": _is_twilio_key,
    "openai-key": lambda found: looks_random(found[0][3:]),
    "slack-token": lambda found: any(map(str.isdigit, found[0])),
}


def decode_base64(part: str) -> str:
    """Return the text that is encoded as base64, or an empty text if it is not."""
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_").decode()
    except ValueError:
        return ""


def _find_aws_secret_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the secret keys of AWS: 40 characters without a prefix, known by the key id next to them."""
    for access_key in regex(_AWS_ID).finditer(text):
        for found in regex(_AWS_SECRET).finditer(text, max(0, access_key.start() - 150), access_key.end() + 150):
            if looks_random(found[0]) and not is_example(found[0]) and not regex(HEX).fullmatch(found[0]):
                yield *found.span(), "aws-secret-key"


_AWS_SECRET = r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"


def _find_private_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield private keys from BEGIN to END; without an END, as far as the lines look like those of a key."""
    if "PRIVATE KEY" not in text and "Private-Lines:" not in text:
        return
    begins = [found.span() for found in regex(_KEY_BEGINS).finditer(text)]
    for (start, body), (following, _) in pairwise([*begins, (len(text), 0)]):
        closed = regex(_KEY_ENDS).search(text, body, min(following, body + _MAX_KEY_CHARACTERS))
        lines = regex(_KEY_LINES).match(text, body, following)
        end = closed.end() if closed else lines.end() if lines else body
        if any(looks_random(part) for part in regex(_KEY_PART).findall(text, body, min(end, body + 1000))):
            yield start, end, "private-key"


_MAX_KEY_CHARACTERS = 50_000  # an END is looked for within so many characters
_KEY_BEGINS = r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-Lines: [0-9]+"
_KEY_ENDS = r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_KEY_PART = r"[A-Za-z0-9+/=]{20,}+"
_KEY_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):[^\n\\\0]*+"
_KEY_MARGIN = r"(?:\s|\\[nr]|[\"'`>|#*,;.+\\-])*+"  # of a quoted mail, a diff, a list of strings in code
_KEY_LAST = r"[ \t\"'\\nr+,]*+\n[ \t>|#*+\"'-]*+[A-Za-z0-9+/=]++(?=[\s\"'`\\,;]|\Z)"  # a shorter line
_KEY_LINES = rf"(?:{_KEY_MARGIN}(?:{_KEY_PART}|{_KEY_HEADER}))*+(?:{_KEY_LAST})?"
