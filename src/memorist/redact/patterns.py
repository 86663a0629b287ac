"""Secrets known by their form: keys and tokens as their makers document them, and what a checksum confirms."""

import base64
import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from memorist.redact.heuristics import DIGIT, HEX, contains, is_example, looks_random, regex

MIN_TOKEN_CHARACTERS = 15

_Found = Iterator[tuple[int, int, str]]


def find_secrets_by_pattern(text: str, lowered: str, long_words: str) -> _Found:
    """Yield start, end and kind of each secret that is known by its form; the long words tell which can occur."""
    yield from _find_private_keys(text)
    for kind, hints, form in _FORMATS if long_words else ():
        if any(hint in long_words for hint in hints) and contains(form, long_words):
            yield from _find_format(text, kind, form)
    if any(hint in long_words for hint in ("AKIA", "ASIA")):
        yield from _find_aws_secret_keys(text)
    if any(hint in text for hint in ("azure.com", "visualstudio.com", "evops", "EVOPS", "vsts", "VSTS")):
        yield from _find_format(text, "azure-devops-token", r"(?<![A-Za-z0-9])[a-z2-7]{52}(?![A-Za-z0-9])")
    yield from _find_by_checksum(text, lowered, long_words)


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


_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=[0-9]m))"  # as _start, for a token without a prefix
_WORD_CHAR, _HEX_BYTE = "[A-Za-z0-9_-]", "[0-9A-Fa-f][0-9A-Fa-f]"
_END = "(?![A-Za-z0-9])"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_AWS_ID = rf"{_start('(?:AKIA|ASIA|ABIA|ACCA)')}[A-Z2-7]{{16}}{_END}"

# The kind, texts of which one must occur, and the pattern; a group in the pattern is the secret.
_FORMATS_BY_HINTS = (
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
    ("langfuse-key", "sk-lf-", rf"sk-lf-{_UUID}"),
    ("openai-key", "sk-", rf"{_start('sk-')}(?:(?:proj|svcacct|admin|None|or-v1)-[\w-]{{20,}}|[A-Za-z0-9]{{20,}})"),
    ("api-key", "sk-", rf"{_start('sk-')}[a-z0-9]{{2,12}}-[A-Za-z0-9]{{24,}}{_END}"),  # of many that took it over
    ("elevenlabs-key", "sk_", rf"{_start('sk_')}[0-9a-f]{{48}}{_END}"),
    ("porkbun-key", "k1_", rf"{_start('[ps]k1_')}[0-9a-f]{{64}}{_END}"),
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
    ("linear-key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("groq-key", "gsk_", rf"{_start('gsk_')}[A-Za-z0-9]{{40,}}"),
    ("xai-key", "xai-", rf"{_start('xai-')}[A-Za-z0-9]{{60,}}"),
    ("replicate-token", "r8_", rf"{_start('r8_')}[A-Za-z0-9]{{37,}}"),
    ("figma-token", "figd_ figo_ figu_", r"fig[dou]_[\w-]{36,}"),
    ("new-relic-key", "NRAK- NRII- NRIQ- NRAA- NRJS- NRSP-", r"NR(?:AK|II|IQ|AA|JS|SP)-[\w-]{19,}"),
    ("new-relic-key", "NRAL", rf"{_BEGIN}[0-9A-Za-z]{{36}}NRAL{_END}"),
    ("tailscale-key", "tskey-", r"tskey-(?:[a-z]+-)?[A-Za-z0-9]{8,}(?:-[A-Za-z0-9]{10,})?"),
    ("postman-key", "PMAK- PMAT-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}|PMAT-[0-9A-Z]{26}"),
    ("facebook-token", "EAA", rf"{_start('EAA')}[A-Za-z0-9]{{80,}}"),
    ("facebook-token", "|", rf"{_BEGIN}[0-9]{{13,17}}\|[\w-]{{27}}(?![\w-])"),
    ("square-token", "EAAA sq0", rf"{_start('EAAA')}[\w-]{{57,61}}(?![\w-])|sq0(?:atp|csp)-[\w-]{{22,43}}"),
    ("cloudflare-token", "cfut_ cfat_ cfk_", r"cf(?:ut|at|k)_[A-Za-z0-9]{40,}"),
    ("cloudflare-token", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    ("azure-devops-token", "AZDO", rf"{_BEGIN}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}"),
    ("notion-token", "secret_", rf"{_start('secret_')}[A-Za-z0-9]{{43}}{_END}"),
    ("password-hash", "$2a$ $2b$ $2x$ $2y$", r"\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}"),
    (
        "password-hash",
        "$1$ $5$ $6$ $apr1$",
        r"\$(?:1|5|6|apr1)\$(?:rounds=[0-9]+\$)?[./A-Za-z0-9]{1,16}\$[./\w]{22,86}",
    ),
    ("password-hash", "$y$ $7$", r"\$[y7]\$[./A-Za-z0-9]{1,40}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}"),
    ("password-hash", "$argon2", r"\$argon2(?:id?|d)\$(?:[vmtp=0-9,]{1,40}\$){1,2}[\w+/]{8,90}\$[\w+/]{16,}={0,2}"),
    ("password-hash", "pbkdf2", r"pbkdf2[_-]sha(?:1|256|512)\$[0-9]{1,9}\$[\w./+]{1,90}\$[\w+/.]{27,}={0,2}"),
    ("password-hash", "{SHA {SSHA", r"\{S?SHA(?:256|512)?\}[A-Za-z0-9+/]{26,}={0,2}"),
    ("private-key", "LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,}={0,2}"),
    ("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    ("pulumi-token", "pul-", rf"{_start('pul-')}[0-9a-f]{{40}}{_END}"),
    ("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}"),
    ("rubygem-token", "rubygems_", rf"{_start('rubygems_')}[0-9a-f]{{48}}"),
    ("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"),
    ("doppler-token", "dp.", rf"{_start('dp[.]')}(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{{1,40}}\.)?[A-Za-z0-9]{{40,}}"),
    ("dynatrace-token", "dt0", rf"{_start('dt0')}[a-z][0-9]{{2}}\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}"),
    ("fly-token", "fm1 fm2_ fo1_", rf"{_start('f[mo][12]')}(?:[ar]?_[\w+/=,-]{{43,}})"),
    ("airtable-token", "pat", rf"{_start('pat')}[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}"),
    ("hubspot-token", "pat-", rf"{_start('pat-')}[a-z]{{2}}[0-9]-{_UUID}"),
    ("mailchimp-key", "-us", rf"{_BEGIN}[0-9a-f]{{32}}-us[0-9]{{1,2}}{_END}"),
    ("brevo-key", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("heroku-key", "HRKU-", r"HRKU-[\w-]{36,}"),
    ("alibaba-key-id", "LTAI", rf"{_start('LTAI')}[A-Za-z0-9]{{16,20}}{_END}"),
    ("tencent-key-id", "AKID", rf"{_start('AKID')}[A-Za-z0-9]{{32}}{_END}"),
    ("artifactory-key", "AKCp cmVmd", rf"{_start('AKCp')}[A-Za-z0-9]{{69,}}|{_start('cmVmd')}[A-Za-z0-9]{{59}}{_END}"),
    (
        "bedrock-key",
        "ABSK bedrock-api-key-",
        rf"{_start('ABSK')}[A-Za-z0-9+/]{{100,}}={{0,2}}|bedrock-api-key-[\w+/=-]{{30,}}",
    ),
    ("openshift-token", "sha256~", r"sha256~[\w-]{43}"),
    ("sonar-token", "sqp_ squ_ sqa_", rf"{_start('sq[pua]_')}[0-9a-f]{{40}}"),
    ("sourcegraph-token", "sgp_", r"sgp_(?:(?:[0-9a-f]{16}|local)_)?[0-9a-f]{40}"),
    ("teams-webhook", ".webhook.office.com/", r"\.webhook\.office\.com/webhookb2/([\w@/-]{80,})"),
    ("adobe-secret", "p8e-", rf"{_start('p8e-')}[\w-]{{32}}"),
    ("clojars-token", "CLOJARS_", r"CLOJARS_[0-9a-f]{60}"),
    ("defined-key", "dnkey-", r"dnkey-[\w=-]{26}-[\w=-]{52}"),
    ("duffel-token", "duffel_", r"duffel_(?:test|live)_[\w=-]{43}"),
    ("easypost-key", "EZAK EZTK", rf"{_start('EZ[AT]K')}[A-Za-z0-9]{{54}}"),
    ("flutterwave-key", "FLWSECK", r"FLWSECK(?:_TEST)?-[0-9A-Za-z]{12,32}(?:-X)?"),
    ("frameio-token", "fio-u-", r"fio-u-[\w=-]{64}"),
    ("harness-key", "pat. sat.", rf"{_start('[ps]at[.]')}[\w-]{{22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}}"),
    ("infracost-key", "ico-", rf"{_start('ico-')}[A-Za-z0-9]{{32}}{_END}"),
    ("intra42-secret", "s-s4t2", r"s-s4t2(?:ud|af)-[0-9a-f]{64}"),
    ("maxmind-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("octopus-key", "API-", rf"{_start('API-')}[A-Z0-9]{{26,}}{_END}"),
    ("plaid-token", "access-", rf"access-(?:sandbox|development|production)-{_UUID}"),
    ("launchdarkly-key", "sdk- api-", rf"{_start('(?:sdk|api)-')}{_UUID}"),
    ("prefect-key", "pnu_ pnb_", rf"{_start('pn[ub]_')}[A-Za-z0-9]{{36}}"),
    ("readme-key", "rdme_", r"rdme_[a-z0-9]{70}"),
    ("scalingo-token", "tk-us-", r"tk-us-[\w-]{48}"),
    ("settlemint-token", "sm_", rf"{_start('sm_')}[aps]at_[A-Za-z0-9]{{16}}"),
    ("shippo-token", "shippo_", r"shippo_(?:live|test)_[0-9a-fA-F]{40}"),
    ("typeform-token", "tfp_", r"tfp_[\w.=-]{44,}"),
    (
        "yandex-key",
        "AQVN t1.",
        rf"{_start('AQVN')}[\w-]{{35,}}|{_start('t1[.]')}[\w-]{{1,200}}={{0,2}}\.[\w-]{{86}}={{0,2}}",
    ),
    (
        "authress-key",
        ".acc",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,}",
    ),
    ("mapbox-token", "sk.eyJ", r"sk\.eyJ[\w-]{20,}\.[\w-]{20,}"),
    ("nvidia-key", "nvapi-", r"nvapi-[\w-]{40,}"),
    ("langsmith-key", "lsv2_", r"lsv2_[a-z]{2}_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("supabase-key", "sbp_ sb_secret_", rf"{_start('sbp_')}[0-9a-f]{{40}}|sb_secret_[\w-]{{20,}}"),
    ("pinecone-key", "pcsk_", r"pcsk_[\w-]{40,}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[0-9a-f]{40}"),
    ("buildkite-token", "bkua_", r"bkua_[0-9a-f]{40}"),
    ("neon-key", "napi_", rf"{_start('napi_')}[a-z0-9]{{60,}}"),
    ("render-key", "rnd_", rf"{_start('rnd_')}[A-Za-z0-9]{{32,}}"),
    ("cerebras-key", "csk-", rf"{_start('csk-')}[A-Za-z0-9]{{30,}}"),
    ("resend-key", "re_", rf"{_start('re_')}[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{20,}}"),
    ("netlify-token", "nfp_ nfc_ nfo_ nfu_", rf"{_start('nf[pcou]_')}[A-Za-z0-9]{{36,}}"),
    ("posthog-key", "phx_ phs_", rf"{_start('ph[xs]_')}[A-Za-z0-9]{{40,}}"),  # phc_ is public
    ("tavily-key", "tvly-", r"tvly-(?:(?:dev|prod)-)?[\w-]{20,}"),
    ("contentful-token", "CFPAT-", r"CFPAT-[\w-]{40,}"),
    ("razorpay-key", "rzp_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    ("jina-key", "jina_", rf"{_start('jina_')}[\w-]{{40,}}"),
    ("firecrawl-key", "fc-", rf"{_start('fc-')}[0-9a-f]{{32}}{_END}"),
    ("voyage-key", "pa-", rf"{_start('pa-')}[\w-]{{40,}}"),
    ("apify-token", "apify_", r"apify_(?:api|proxy)_[A-Za-z0-9]{30,}"),
    ("together-key", "tgp_v1_", r"tgp_v1_[\w-]{40,}"),
    ("fireworks-key", "fw_", rf"{_start('fw_')}[A-Za-z0-9]{{22,}}"),
    ("e2b-key", "e2b_", rf"{_start('e2b_')}[0-9a-f]{{40}}"),
    ("mem0-key", "m0-", rf"{_start('m0-')}[A-Za-z0-9]{{36,}}"),
    ("browserbase-key", "bb_live_", r"bb_live_[\w-]{24,}"),
    ("brave-key", "BSA", rf"{_start('BSA')}[\w-]{{27,29}}(?![\w-])"),
    ("mailersend-token", "mlsn.", r"mlsn\.[0-9a-f]{64}"),
    ("axiom-token", "xaat- xapt-", rf"xa(?:at|pt)-{_UUID}"),
    ("trello-token", "ATTA", rf"{_start('ATTA')}[0-9a-fA-F]{{64}}[0-9A-F]{{0,8}}[A-Z0-9]{{0,8}}"),
    ("bitbucket-token", "ATBB", rf"{_start('ATBB')}[A-Za-z0-9]{{32}}"),
    ("nuget-key", "oy2", rf"{_start('oy2')}[a-z0-9]{{43}}{_END}"),
    ("snyk-token", "snyk_", r"snyk_(?:uat|sat)\.[0-9a-f]{8}\.[\w.-]{40,}"),
    ("vk-token", "vk1.a.", r"vk1\.a\.[\w-]{80,}"),
    ("dropbox-token", "sl.", rf"{_start('sl[.]')}(?:u\.)?[\w-]{{130,}}"),
    ("gemini-key", "AQ.Ab8", rf"{_start('AQ[.]')}Ab8[\w-]{{40,}}"),
    ("vercel-token", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,}"),
    ("url-signature", "-Signature=", r"X-(?:Amz|Goog)-Signature=([0-9a-fA-F]{40,})"),
    ("vercel-token", "vcp_ vck_ vci_ vca_ vcr_", rf"{_start('vc[pkiar]_')}[A-Za-z0-9]{{24,}}"),
    ("paddle-key", "pdl_", r"pdl_(?:live|sdbx)_apikey_[a-z0-9]{20,}_[A-Za-z0-9]{20,}_[A-Za-z0-9]{3}"),
    ("adafruit-key", "aio_", rf"{_start('aio_')}[A-Za-z0-9]{{28}}{_END}"),
    ("aiven-password", "AVNS_ AVNU_", r"AVN[SU]_[\w+/=-]{19,}"),
    ("zuplo-key", "zpka_", r"zpka_[0-9a-f]{32}_[0-9a-f]{8}"),
    ("wandb-key", "wandb_v1_", r"wandb_v1_[\w-]{40,}"),
)
_FORMATS = tuple((kind, tuple(hints.split()), form) for kind, hints, form in _FORMATS_BY_HINTS)


def _find_format(text: str, kind: str, form: str) -> _Found:
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
    """Require that the first part is the number of a user, or that no part is a word."""
    parts = found[0].split(".")
    return decode_base64(parts[0]).isdigit() or all(contains(DIGIT, part) for part in parts)


def _is_encoded_private_key(found: re.Match[str]) -> bool:
    return "PRIVATE KEY" in decode_base64(found[0][:80])


_VALIDATORS: dict[str, Callable[[re.Match[str]], bool]] = {
    "jwt": _is_jwt,
    "discord-token": _is_discord_token,
    "private-key": _is_encoded_private_key,
    "openai-key": lambda found: looks_random(found[0][3:]),
    "slack-token": lambda found: any(map(str.isdigit, found[0])),
    "azure-devops-token": lambda found: looks_random(found[0]),
    "facebook-token": lambda found: looks_random(found[0]),
    "alibaba-key-id": lambda found: looks_random(found[0]),
    "octopus-key": lambda found: looks_random(found[0]),
    **dict.fromkeys(
        "api-key brave-key fireworks-key jina-key render-key resend-key tavily-key voyage-key browserbase-key".split(),
        lambda found: looks_random(found[0]),
    ),
}


def decode_base64(part: str) -> str:
    """Return the text that is encoded as base64, or an empty text if it is not."""
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_").decode()
    except ValueError:
        return ""


def _find_aws_secret_keys(text: str) -> _Found:
    """Yield the secret keys of AWS: 40 characters without a prefix, known by the key id next to them."""
    for access_key in regex(_AWS_ID).finditer(text):
        for found in regex(_AWS_SECRET).finditer(text, max(0, access_key.start() - 150), access_key.end() + 150):
            if looks_random(found[0]) and not is_example(found[0]) and not regex(HEX).fullmatch(found[0]):
                yield *found.span(), "aws-secret-key"


_AWS_SECRET = r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"


def _find_private_keys(text: str) -> _Found:
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
    yield from _find_ends_of_keys(text, begins)


def _find_ends_of_keys(text: str, begins: list[tuple[int, int]]) -> _Found:
    """Yield the lines of keys before an END that has no BEGIN: they are read backwards from it."""
    done = 0
    for closed in regex(_KEY_ENDS).finditer(text):
        before = max(done, closed.start() - _MAX_KEY_CHARACTERS)
        done = closed.end()
        if any(before <= start < closed.start() for start, _ in begins):
            continue
        lines = regex(_LAST_KEY_LINES).match(text[before : closed.start()][::-1])
        start = closed.start() - (lines.end() if lines else 0)
        if any(looks_random(part) for part in regex(_KEY_PART).findall(text, start, closed.start())):
            yield start, closed.end(), "private-key"


_MAX_KEY_CHARACTERS = 50_000  # an END is looked for within so many characters
_KEY_BEGINS = r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-Lines: [0-9]+"
_KEY_ENDS = r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_KEY_PART = r"[A-Za-z0-9+/=]{20,}+"
_KEY_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):[^\n\\\0]*+"
_KEY_MARGIN = r"(?:\s|\\[nr]|[\"'`>|#*,;.+\\-])*+"  # of a quoted mail, a diff, a list of strings in code
_KEY_LAST = r"[ \t\"'\\nr+,]*+\n[ \t>|#*+\"'-]*+[A-Za-z0-9+/=]++(?=[\s\"'`\\,;]|\Z)"  # a shorter line
_KEY_LINES = rf"(?:{_KEY_MARGIN}(?:{_KEY_PART}|{_KEY_HEADER}))*+(?:{_KEY_LAST})?"
# The same backwards: a line of any length, then longer ones, and before them the rest of one that was cut.
_LAST_MARGIN = r"(?:\s|[nr]\\|[\"'`>|#*,;+\\-])*+"
_LAST_KEY_LINES = rf"{_LAST_MARGIN}[A-Za-z0-9+/=]++(?:{_LAST_MARGIN}[A-Za-z0-9+/]{{20,}}+)*+"


# Confirmed by a checksum or a list of words: card numbers, private keys of wallets, and seed phrases


def _find_by_checksum(text: str, lowered: str, long_words: str) -> _Found:
    for found in regex(_CARD).finditer(text):
        digits = found[0].replace(found[1] or found[2] or " ", "")
        if _is_card_number(digits) and not is_example(digits):
            yield *found.span(), "card-number"
    for found in regex(_WALLET_KEY).finditer(text if contains(_WALLET_KEY, long_words) else ""):
        if _is_base58check(found[0]):
            yield *found.span(), "bitcoin-key"
    yield from _find_seed_phrases(text, lowered)


# A number begins where a word would: not within a longer number, but after the \\n of JSON or a terminal colour.
_START = r"(?:(?<![\w.,+/-].)|(?<=\\[nrt].)|(?<=[0-9]m.))"
_CARD = (
    rf"[2-6]{_START}(?:[0-9]{{3}}([ -])[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}|[0-9]{{3}}([ -])[0-9]{{6}}\2[0-9]{{4,5}}"
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
    rf"[5KL9c]{_START}[{_BASE58}]{{50,51}}(?![A-Za-z0-9])|[xyztuv]{_START}prv[{_BASE58}]{{107}}(?![A-Za-z0-9])"
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
