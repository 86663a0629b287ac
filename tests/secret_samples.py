"""
Secrets nobody owns, made anew for each run from a fixed seed, in the places where real ones turn up.

No line of this file is a secret: scanners that guard a repository would refuse one, so each is put together from its
documented parts.
"""

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

LETTERS, LOWER, UPPER, DIGITS = string.ascii_letters, string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM, HEX = LETTERS + DIGITS, DIGITS + "abcdef"
WORD, BASE64, BASE32 = ALNUM + "_-", ALNUM + "+/", UPPER + "234567"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SEED_LIST = Path(__file__).parents[1] / "src" / "memorist" / "redact" / "bip39_english.txt"
SEED_WORDS = [word for word in SEED_LIST.read_text("utf-8").split() if word != "client"]  # which is in the places below
OF_EACH_KIND = 24


@dataclass(frozen=True)
class SecretSample:
    """A text with one secret in it."""

    kind: str
    secret: str
    text: str


class SecretMaker:
    """Random texts of the alphabets that secrets are made of."""

    salt: ClassVar[str] = ""  # for other texts than the usual ones

    def __init__(self, seed: str) -> None:
        self.random = random.Random(self.salt + seed)

    def of(self, alphabet: str, least: int, most: int | None = None) -> str:
        return "".join(self.random.choices(alphabet, k=self.random.randint(least, most or least)))

    def one(self, *options: str) -> str:
        return self.random.choice(options)

    def base64(self, size: int) -> str:
        return base64.b64encode(self.random.randbytes(size)).decode()

    def base64url(self, size: int) -> str:
        return base64.urlsafe_b64encode(self.random.randbytes(size)).decode().rstrip("=")

    def part(self, value: object) -> str:
        """JSON as in a JWT."""
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    def uuid(self) -> str:
        return "-".join(self.of(HEX, size) for size in (8, 4, 4, 4, 12))

    def jwt(self) -> str:
        claims = {"sub": self.of(DIGITS, 10), "iat": 1_700_000_000, "name": self.of(LETTERS, 8)}
        header = {"alg": self.one("HS256", "RS256", "ES256"), "typ": "JWT"}
        return f"{self.part(header)}.{self.part(claims)}.{self.base64url(self.random.choice((32, 64, 256)))}"

    def password(self) -> str:
        """One that a person chose, or that a password manager made."""
        word, other = self.one("Winter", "dragon", "Kestrel", "harbour"), self.one("Moon", "river", "Blitz", "tango")
        chosen = (
            f"{word}{self.of(DIGITS, 2, 4)}{self.one('!', '#', '?', '%')}",
            f"{word}{self.one('@', '$', '!')}{other}{self.of(DIGITS, 2)}",
            f"{word[:3]}{self.of(DIGITS, 1)}{other[:2]}{self.of(DIGITS, 1)}{word[3:]}",
        )
        made = self.of(LOWER, 1) + self.of(DIGITS, 1) + self.of(ALNUM + "!@#$%^*-_+?", 10, 20) + self.of(UPPER, 1)
        return self.one(*chosen, made, made)

    def pem(self, name: str, size: int) -> str:
        body = self.base64(size)
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])


def github(make: SecretMaker) -> str:
    return make.one(
        "gh" + make.one(*"pousr") + "_" + make.of(ALNUM, 36),
        "github" + "_pat_" + make.of(ALNUM, 22) + "_" + make.of(ALNUM, 59),
        "gh" + "s_" + make.of(DIGITS, 6) + "_" + make.jwt(),
    )


def gitlab(make: SecretMaker) -> str:
    plain = "gl" + make.one("pat", "dt", "rt", "ptt", "ft", "agent", "cbt", "oas", "soat", "imt") + "-"
    routable = "gl" + "pat-" + make.of(WORD, 27, 40) + "." + make.of(HEX, 2) + "." + make.of(HEX, 9)
    return make.one(plain + make.of(WORD, 20, 50), routable)


def slack(make: SecretMaker) -> str:
    numbers = "-".join(make.of(DIGITS, 12) for _ in range(2))
    return make.one(
        f"xox{make.one(*'bpars')}-{numbers}-{make.of(ALNUM, 24)}",
        f"xoxe.xox{make.one('b', 'p')}-1-{make.of(ALNUM, 160)}",
        f"xapp-1-A{make.of(UPPER + DIGITS, 10)}-{make.of(DIGITS, 13)}-{make.of(HEX, 64)}",
    )


def openai(make: SecretMaker) -> str:
    return "sk-" + make.one(make.of(ALNUM, 48), "proj-" + make.of(WORD, 120), "svcacct-" + make.of(WORD, 60))


def discord(make: SecretMaker) -> str:
    number = base64.b64encode(make.one("1", "4", "8").encode() + make.of(DIGITS, 17).encode()).decode().rstrip("=")
    return f"{number}.{make.of(WORD, 6)}.{make.of(WORD, 38)}"


def onepassword_key(make: SecretMaker) -> str:
    return "-".join(["A3", *(make.of(UPPER + DIGITS, size) for size in (6, 6, 5, 5, 5, 5))])


def new_relic(make: SecretMaker) -> str:
    return make.one(
        "NRAK" + "-" + make.of(UPPER + DIGITS, 27),
        "NRII" + "-" + make.of(ALNUM, 32),
        make.of(HEX, 36) + "NR" + "AL",
    )


def password_hash(make: SecretMaker) -> str:
    crypt = ALNUM + "./"
    return make.one(
        "$2" + make.one("a", "b", "y") + "$10$" + make.of(crypt, 53),
        "$ap" + "r1$" + make.of(crypt, 8) + "$" + make.of(crypt, 22),
        "$6" + "$" + make.of(crypt, 16) + "$" + make.of(crypt, 86),
        "$argon2" + "id$v=19$m=65536,t=3,p=4$" + make.of(ALNUM, 22) + "$" + make.of(ALNUM, 43),
        "{SHA" + "}" + make.base64(20),
    )


def bitcoin_key(make: SecretMaker) -> str:
    """A private key in the wallet import format, or an extended one."""
    payload = make.one("80", "ef") + make.of(HEX, 64) + make.one("", "01")
    extended = "0488ade4" + make.of(HEX, 82) + "00" + make.of(HEX, 64)
    raw = bytes.fromhex(make.one(payload, payload, extended))
    number = int.from_bytes(raw + hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4])
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = BASE58[digit] + digits
    return digits


def card_number(make: SecretMaker) -> str:
    number = make.one("4", "51", "55", "2345", "37", "6011", "3530")
    number += make.of(DIGITS, (14 if number == "37" else 15) - len(number))
    doubled = [int(digit) * (2 - at % 2) for at, digit in enumerate(reversed(number))]
    number += str(-sum(digit - 9 if digit > 9 else digit for digit in doubled) % 10)
    between = make.one("", " ", "-")
    parts = (4, 6, 5) if len(number) == 15 else (4, 4, 4, 4)
    return between.join(number[sum(parts[:at]) : sum(parts[: at + 1])] for at in range(len(parts)))


def seed_phrase(make: SecretMaker) -> str:
    return " ".join(make.random.choices(SEED_WORDS, k=make.random.choice((12, 15, 18, 21, 24))))


BY_FORM: dict[str, Callable[[SecretMaker], str]] = {
    "aws-access-key-id": lambda make: make.one("AKIA", "ASIA") + make.of(BASE32, 16),
    "github-token": github,
    "gitlab-token": gitlab,
    "slack-token": slack,
    "stripe-key": lambda make: make.one("sk", "rk") + make.one("_live_", "_test_") + make.of(ALNUM, 24, 99),
    "stripe-webhook-secret": lambda make: "whsec" + "_" + make.of(ALNUM, 32),
    "anthropic-key": lambda make: "sk-" + "ant-" + make.one("api03-", "admin01-") + make.of(WORD, 93) + "AA",
    "openai-key": openai,
    "google-api-key": lambda make: "AIza" + make.of(WORD, 35),
    "google-oauth-secret": lambda make: "GOCSPX" + "-" + make.of(WORD, 28),
    "google-oauth-token": lambda make: make.one("ya29" + ".", "1//" + "0") + make.of(WORD, 60, 150),
    "azure-client-secret": lambda make: make.of(ALNUM, 3) + "8Q" + "~" + make.of(ALNUM + "_-", 34),
    "npm-token": lambda make: "npm" + "_" + make.of(ALNUM, 36),
    "pypi-token": lambda make: "pypi-" + "AgEIcHlwaS5vcmc" + make.of(WORD, 100, 160),
    "docker-token": lambda make: "dckr" + make.one("_pat_", "_oat_") + make.of(WORD, 27, 32),
    "huggingface-token": lambda make: "hf" + "_" + make.of(LETTERS, 34),
    "sendgrid-key": lambda make: "SG" + "." + make.of(WORD, 22) + "." + make.of(WORD, 43),
    "mailgun-key": lambda make: "key" + "-" + make.of(HEX, 32),
    "telegram-token": lambda make: make.of(DIGITS, 9, 10) + ":AA" + make.of(WORD, 33),
    "discord-token": discord,
    "jwt": SecretMaker.jwt,
    "age-key": lambda make: "AGE-SECRET-" + "KEY-1" + make.of(BECH32, 58),
    "onepassword-token": lambda make: "ops" + "_" + make.part({"email": make.of(LOWER, 9), "key": make.of(ALNUM, 80)}),
    "onepassword-secret-key": onepassword_key,
    "vault-token": lambda make: "hvs" + "." + make.of(WORD, 24, 95),
    "digitalocean-token": lambda make: "do" + make.one("p", "o") + "_v1_" + make.of(HEX, 64),
    "shopify-token": lambda make: "shp" + make.one("at", "ca", "ss") + "_" + make.of(HEX, 32),
    "atlassian-token": lambda make: "ATATT3" + "xFf" + make.of(WORD, 180) + "=" + make.of(HEX, 8),
    "grafana-token": lambda make: "glsa" + "_" + make.of(ALNUM, 32) + "_" + make.of(HEX, 8),
    "sentry-token": lambda make: "sntry" + "u_" + make.of(HEX, 64),
    "databricks-token": lambda make: "dapi" + make.of(HEX, 32),
    "notion-token": lambda make: "ntn" + "_" + make.of(ALNUM, 46),
    "linear-key": lambda make: "lin" + "_api_" + make.of(ALNUM, 40),
    "groq-key": lambda make: "gsk" + "_" + make.of(ALNUM, 52),
    "xai-key": lambda make: "xai" + "-" + make.of(ALNUM, 80),
    "twilio-key": lambda make: "SK" + make.of(HEX, 32),
    "replicate-token": lambda make: "r8" + "_" + make.of(ALNUM, 37),
    "figma-token": lambda make: "fig" + make.one("d", "o", "u") + "_" + make.of(WORD, 40),
    "new-relic-key": new_relic,
    "tailscale-key": lambda make: (
        "tskey" + make.one("-auth-", "-api-", "-client-") + make.of(ALNUM, 12, 17) + "-" + make.of(ALNUM, 32)
    ),
    "postman-key": lambda make: "PMAK" + "-" + make.of(HEX, 24) + "-" + make.of(HEX, 34),
    "facebook-token": lambda make: make.one(
        "EAA" + make.of(ALNUM, 110, 190), make.of("123456789", 15) + "|" + make.of(WORD, 27)
    ),
    "cloudflare-token": lambda make: make.one(
        make.one("cfut", "cfat", "cfk") + "_" + make.of(ALNUM, 40) + make.of(HEX, 8),
        "v1.0-" + make.of(HEX, 24) + "-" + make.of(HEX, 146),
    ),
    "azure-devops-token": lambda make: make.of(ALNUM, 76) + "AZ" + "DO" + make.of(ALNUM, 4),
    "password-hash": password_hash,
    "bitcoin-key": bitcoin_key,
    "card-number": card_number,
    "seed-phrase": seed_phrase,
    "perplexity-key": lambda make: "pplx" + "-" + make.of(ALNUM, 48),
    "pulumi-token": lambda make: "pul" + "-" + make.of(HEX, 40),
    "planetscale-token": lambda make: "pscale" + make.one("_tkn_", "_pw_", "_oauth_") + make.of(WORD, 43),
    "rubygem-token": lambda make: "rubygems" + "_" + make.of(HEX, 48),
    "terraform-token": lambda make: make.of(ALNUM, 14) + "." + "atlasv1" + "." + make.of(ALNUM, 67),
    "doppler-token": lambda make: "dp" + make.one(".pt.", ".st.", ".ct.") + make.of(ALNUM, 43),
    "dynatrace-token": lambda make: "dt0" + "c01." + make.of(UPPER + DIGITS, 24) + "." + make.of(UPPER + DIGITS, 64),
    "fly-token": lambda make: "fm2" + "_" + make.base64(120),
    "airtable-token": lambda make: "pat" + make.of(ALNUM, 14) + "." + make.of(HEX, 64),
    "mailchimp-key": lambda make: make.of(HEX, 32) + "-us" + make.of("123456789", 1, 2),
    "brevo-key": lambda make: "xkeysib" + "-" + make.of(HEX, 64) + "-" + make.of(ALNUM, 16),
    "square-token": lambda make: make.one("sq0atp" + "-" + make.of(WORD, 22), "EAAA" + make.of(WORD, 60)),
    "heroku-key": lambda make: "HRKU" + "-AA" + make.of(WORD, 58),
    "alibaba-key-id": lambda make: "LTAI" + make.of(ALNUM, 20),
    "artifactory-key": lambda make: "AKCp" + make.of(ALNUM, 69),
    "bedrock-key": lambda make: "ABSK" + make.base64(90),
    "openshift-token": lambda make: "sha256" + "~" + make.of(WORD, 43),
    "sonar-token": lambda make: "sq" + make.one("p", "u", "a") + "_" + make.of(HEX, 40),
    "sourcegraph-token": lambda make: "sgp" + "_" + make.of(HEX, 40),
}
ANYWHERE = (
    "HOST=db1\nSERVICE_VALUE={}\nDEBUG=1\n",
    '{{"name": "billing", "value": "{}", "retries": 3}}',
    "service:\n  name: billing\n  value: {}\n  replicas: 2\n",
    'client = Client("{}", timeout=5)  # the new one\n',
    "const client = new Client('{}');\n",
    "\tclient := sdk.New(`{}`)\n",
    "$ curl -sS https://api.acme.dev/v1/me -H 'X-Caller: {}' | jq .\n",
    "  501  export CALLER={} && make deploy\n  502  git push\n",
    "hey, can you try with {} please? it worked for me yesterday",
    "It was {}.",
    "2026-03-01T12:00:00Z WARN retrying caller={} status=401 attempt=3",
    "see https://api.acme.dev/v1/items?caller={}&page=2#top for the list",
    "--- a/app.ini\n+++ b/app.ini\n@@ -1,2 +1,2 @@\n-caller = old\n+caller = {}\n",
    '"{{\\"caller\\": \\"{}\\", \\"page\\": 2}}"',
    '{{"body": "first line\\n{}\\nlast line"}}',
    "| caller | {} | since March |",
    "[default]\r\ncaller = {}\r\nregion = eu-west-1\r\n",
    "\x1b[31m{}\x1b[0m",
)
PASSWORD_PLACES = (
    "DB_HOST=db1\nDB_PASSWORD={}\nDB_PORT=5432\n",
    'export PGPASSWORD="{}"\npsql -h db1\n',
    "database:\n  user: app\n  password: {}\n  pool: 5\n",
    "database:\n  password: '{}'\n",
    '{{"user": "app", "password": "{}", "port": 5432}}',
    '"{{\\"user\\": \\"app\\", \\"password\\": \\"{}\\"}}"',
    '[database]\npassword = "{}"\n',
    "[client]\nuser=root\npassword = {}\n",
    'conn = connect(host="db1", user="app", password="{}", port=5432)\n',
    'self.password: str = "{}"\n',
    "const dbPassword = '{}';\n",
    'password := "{}"\n',
    'private static final String PASSWORD = "{}";\n',
    "config['password'] = '{}';\n",
    'setPassword("{}")',
    "Server=db1;Database=app;User Id=sa;Password={};Encrypt=true;",
    "host=db1 user=app password={} dbname=main sslmode=require",
    "<user>app</user><password>{}</password>",
    '<add key="Password" value="{}" />',
    "- name: DB_PASSWORD\n  value: {}\n- name: DB_HOST\n  value: db1\n",
    "CREATE USER app WITH PASSWORD '{}';",
    "create user 'app'@'%' identified by '{}';",
    "$ pg_dump --password {} --host db1\n",
    "$ deploy --db-password={} --yes\n",
    "$ mysql -u root -p{} main < dump.sql\n",
    "$ mysqldump -u root -p'{}' main > dump.sql\n",
    "$ sshpass -p '{}' ssh deploy@web1\n",
    "$ docker login -u acme -p {} registry.acme.dev\n",
    "$ curl -u admin:{} https://api.acme.dev/v1/health\n",
    "machine api.acme.dev login deploy password {}\n",
    "requirepass {}\n",
    "> setx DB_PASSWORD {}\n",
    "the password is {} and please change it soon",
    "wifi password for the office: {}",
    "Benutzer: admin, Passwort: {}",
    "**Password:** `{}`\n",
    "-password: old\n+password: {}\n",
    "ERROR auth failed user=app password={} from 10.0.0.7",
    "数据库密码：{}，请保密",
    "| user | app |\n| password | {} |\n",
    "| service | user | password |\n|---|---|---|\n| billing | app | {} |\n",
    "user,password,role\nada,{},admin\n",
    "<tr><td>Password</td><td>{}</td></tr>",
    'network={{\n  ssid="home"\n  psk="{}"\n}}\n',
    "db1.acme.dev:5432:main:app:{}\n",
)
ASSIGNED_PLACES = (
    ("password", "DB_HOST=db1\nDB_PASSWORD={}\nDB_PORT=5432\n"),
    ("password", "export PGPASSWORD={}\npsql -h db1\n"),
    ("password", "$ docker run -e DB_PASSWORD={} -p 80:80 acme/api\n"),
    ("password", "database:\n  user: app\n  password: {}\n  pool: 5\n"),
    ("password", '{{"user": "app", "password": "{}", "port": 5432}}'),
    ("password", 'conn = connect(host="db1", password="{}")\n'),
    ("password", "[client]\nuser = root\npassword = {}\n"),
    ("password", "spring.datasource.password={}\n"),
    ("password", "Server=db1;User Id=sa;Password={};Encrypt=true;"),
    ("password", "host=db1 user=app password={} dbname=main"),
    ("password", "$ pg_dump --password {} --host db1\n"),
    ("api-key", "API_KEY={}\nREGION=eu\n"),
    ("api-key", "X-Api-Key: {}\n"),
    ("api-key", 'apiKey: "{}",\n'),
    ("secret", 'client_secret = "{}"\n'),
    ("secret", "CLIENT_SECRET={}\n"),
    ("secret", '"clientSecret": "{}"'),
    ("token", "ACCESS_TOKEN={}"),
    ("token", '"access_token": "{}", "expires_in": 3600'),
    ("token", "$ vault login --token={}\n"),
    ("token", "auth_token: {}\n"),
    ("bearer-token", "Authorization: Bearer {}\r\nAccept: */*\r\n"),
    ("bearer-token", "$ curl -H 'Authorization: Bearer {}' https://api.acme.dev\n"),
    ("secret", "[Peer]\nPresharedKey = {}\n"),
)
WORDY = ("sunshine", "kestrelharbour", "Wintergarden", "blueberries", "dragon", "correcthorse", "Liverpool", "monkey")
TOKEN_PLACES = (
    ("api-key", "API_KEY={}\nREGION=eu\n"),
    ("api-key", "X-Api-Key: {}\n"),
    ("api-key", 'apiKey: "{}",\n'),
    ("api-key", "$ tool --api-key {} list\n"),
    ("api-key", 'os.environ.get("ACME_API_KEY", "{}")\n'),
    ("api-key", "ACME_KEY={}\n"),
    ("api-key", "here is the API key for the staging account: {}"),
    ("secret", "client_secret: {}\n"),
    ("secret", 'app.secret_key = "{}"\n'),
    ("secret", "const secret = process.env.SECRET || '{}'\n"),
    ("secret", "[Interface]\nPrivateKey = {}\n"),
    ("secret", "the client secret (staging) is {}, keep it"),
    ("token", "ACCESS_TOKEN={}"),
    ("token", '"refresh_token": "{}", "expires_in": 3600'),
    ("token", "//registry.acme.dev/:_authToken={}\n"),
    ("token", "https://api.acme.dev/v1/items?access_token={}&page=2"),
    ("token", "$ vault login --token {}\n"),
    ("token", "new token:\n\n```\n{}\n```\n"),
    ("token", "I rotated the deploy token today, use {} from now on"),
    ("token", 'headers.set("X-Auth-Token", "{}")\n'),
)
URL_PLACES = (
    "postgres://app:{}@db1.acme.dev:5432/main?sslmode=require",
    "DATABASE_URL=mysql://root:{}@127.0.0.1/main\n",
    'REDIS = "redis://:{}@cache:6379/0"\n',
    "git clone https://deploy:{}@git.acme.dev/team/app.git\n",
    "mongodb+srv://app:{}@cluster0.acme.mongodb.net/?retryWrites=true\n",
    '"amqp://worker:{}@queue:5672/%2F"',
    'db, err := sql.Open("mysql", "app:{}@tcp(db1:3306)/main")\n',
    "jdbc:oracle:thin:scott/{}@db1:1521/ORCL\n",
    "proxy http://bob:{}@proxy.acme.dev:3128 is down",
)
HARD_URL_PLACES = (
    "postgres://app:{}@db1.acme.dev:5432/main?sslmode=require",
    "DATABASE_URL=mysql://root:{}@127.0.0.1/main\n",
    'REDIS = "redis://:{}@cache:6379/0"\n',
    "git clone https://deploy:{}@git.acme.dev/team/app.git\n",
    "see amqp://worker:{}@queue:5672/jobs, please",
)
KEY_NAMES = ("RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "")


def fill(place: str, secret: str) -> str:
    return place.replace("{{", "\0").replace("}}", "\1").replace("{}", secret).replace("\0", "{").replace("\1", "}")


def by_form() -> Iterator[SecretSample]:
    for kind, secret_of in BY_FORM.items():
        make = SecretMaker(kind)
        for number in range(OF_EACH_KIND):
            secret = secret_of(make)
            for place in ANYWHERE[number % 3 :: 3]:
                yield SecretSample(kind, secret, fill(place, secret))


def in_places(kind: str, places: tuple[str, ...], secret_of: Callable[[SecretMaker], str]) -> Iterator[SecretSample]:
    make = SecretMaker(kind)
    for number in range(max(OF_EACH_KIND, 3 * len(places))):
        secret = secret_of(make)
        yield SecretSample(kind, secret, fill(places[number % len(places)], secret))


def named() -> Iterator[SecretSample]:
    make = SecretMaker("named")
    for kind, place in TOKEN_PLACES * 6:
        secret = make.one(make.of(ALNUM, 24, 64), make.base64(32), make.base64url(30), make.of(ALNUM, 32))
        yield SecretSample(kind, secret, fill(place, secret))
    for kind, place in TOKEN_PLACES * 3:
        if "use {}" not in place:  # amid a sentence, hexadecimal digits may as well be a commit
            secret = make.one(make.of(HEX, 32), make.of(HEX, 40), make.of(HEX, 64), make.uuid())
            yield SecretSample(kind, secret, fill(place, secret))
    yield from in_places("password", PASSWORD_PLACES, SecretMaker.password)
    yield from in_places("url-password", URL_PLACES, lambda make: make.one(make.password(), make.of(ALNUM, 20)))


def assigned() -> Iterator[SecretSample]:
    """Values in a place that is a secret's by its name: short, of letters alone, a word."""
    make = SecretMaker("assigned")
    alphabets = (ALNUM, LETTERS, LOWER, LOWER + DIGITS, UPPER + DIGITS, HEX)
    for kind, place in ASSIGNED_PLACES:
        for size in (8, 9, 10, 12, 16, 20):
            for alphabet in alphabets:
                secret = make.of(alphabet, size)
                yield SecretSample(kind, secret, fill(place, secret))
        for word in WORDY:
            yield SecretSample(kind, word, fill(place, word))
        if '"{}"' in place:
            for _ in range(6):
                words = " ".join(make.random.sample(SEED_WORDS, 4)) + make.one("", "!", " 7")
                yield SecretSample(kind, words, fill(place, words))


def in_urls() -> Iterator[SecretSample]:
    make = SecretMaker("hard-url")
    for place in HARD_URL_PLACES * 5:
        secret = make.of(ALNUM, 3, 8) + make.one("@", "/", "@/", "/@") + make.of(ALNUM, 3, 8) + make.one("", "@x", "/y")
        yield SecretSample("url-password", secret, fill(place, secret))


def in_files() -> Iterator[SecretSample]:
    """Secrets of files with a format of their own."""
    make = SecretMaker("files")
    for _ in range(OF_EACH_KIND):
        encoded = base64.b64encode(make.pem("RSA PRIVATE KEY", 300).encode()).decode()
        yield SecretSample("private-key", encoded, f"users:\n- name: ada\n  user:\n    client-key-data: {encoded}\n")
        wallet = make.one("", "0x") + make.of(HEX, 64)
        yield SecretSample("secret", wallet, f"the private key of the ETH wallet is {wallet}\n")
        yield SecretSample("secret", wallet, f"ETH_PRIVATE_KEY={wallet}\n")
        yield SecretSample("secret", wallet, f"wallet private key {wallet} (testnet)\n")
        devops = make.of(LOWER + "234567", 52)
        yield SecretSample("azure-devops-token", devops, f"git clone https://dev.azure.com/acme with PAT {devops}\n")
        service = make.one("cloudflare", "CLOUDFLARE", "discord", "datadog", "netlify", "fastly", "okta", "heroku")
        value = make.one(make.of(ALNUM, 40), make.of(HEX, 37), make.of(ALNUM, 32), make.uuid())
        yield SecretSample("api-key", value, make.one(f"{service}: {value}\n", f"{service}={value}\n"))
        notion = "secret" + "_" + make.of(ALNUM, 43)
        yield SecretSample("notion-token", notion, f"notion = Client('{notion}')\n")


def in_headers() -> Iterator[SecretSample]:
    bearer = (
        "Authorization: Bearer {}\r\nAccept: */*\r\n",
        '{{"Authorization": "Bearer {}"}}',
        "$ curl -H 'Authorization: token {}' https://api.acme.dev\n",
        'req.Header.Set("Authorization", "Bearer {}")\n',
        "> authorization: {}\n",
        "use Bearer {} for now",
    )
    yield from in_places("bearer-token", bearer, lambda make: make.one(make.of(ALNUM, 40), make.base64url(32)))
    basic = ("Authorization: Basic {}\n", "-H 'Authorization: Basic {}'", '"Authorization": "Basic {}"', "Basic {}")
    yield from in_places("basic-auth", basic, lambda make: base64.b64encode(f"app:{make.password()}".encode()).decode())
    cookies = (
        "Cookie: theme=dark; sessionid={}; lang=en\r\n",
        "Set-Cookie: session={}; Path=/; HttpOnly; SameSite=Lax\n",
        "$ curl -b 'JSESSIONID={}' https://acme.dev\n",
        'headers = {{"Cookie": "connect.sid={}"}}\n',
        "Cookie: auth_token={}\n",
    )
    yield from in_places(
        "cookie", cookies, lambda make: make.one(make.of(ALNUM, 32), make.of(HEX, 32), make.of(WORD, 43))
    )


def of_clouds() -> Iterator[SecretSample]:
    aws = (
        "[default]\naws_access_key_id = AKIA{id}\naws_secret_access_key = {}\n",
        "export AWS_SECRET_ACCESS_KEY={}\n",
        '{{"AccessKeyId": "ASIA{id}", "SecretAccessKey": "{}"}}',
        "User,Access key ID,Secret access key\nbob,AKIA{id},{}\n",
        'boto3.client("s3", aws_secret_access_key="{}")\n',
        "keys are AKIA{id} / {} (staging)",
    )
    make = SecretMaker("aws")
    for number in range(36):
        secret, place = make.of(BASE64, 40), aws[number % len(aws)].replace("{id}", make.of(BASE32, 16))
        yield SecretSample("aws-secret-key", secret, fill(place, secret))
    account = "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net"
    bus = "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}"
    yield from in_places("azure-key", (account, f'conn = "{account}"', bus), lambda make: make.base64(64))
    sas = "https://acme.blob.core.windows.net/box/a.txt?sv=2024-11-04&se=2026-01-01&sr=b&sp=r&sig={}"
    sign = {"+": "%2B", "/": "%2F", "=": "%3D"}
    yield from in_places(
        "azure-sas", (sas, f"{sas}&x=1"), lambda make: "".join(sign.get(one, one) for one in make.base64(32))
    )
    hook = ("https://hooks.slack.com/" + "services/{}", "curl -d x https://hooks.slack.com/" + "services/{} -v")
    yield from in_places(
        "slack-webhook",
        hook,
        lambda make: f"T{make.of(UPPER + DIGITS, 10)}/B{make.of(UPPER + DIGITS, 10)}/{make.of(ALNUM, 24)}",
    )
    yield from in_places(
        "teams-webhook",
        ("https://acme.webhook.office.com/webhookb2/{}", "- uri: https://acme.webhook.office.com/webhookb2/{}\n"),
        lambda make: f"{make.uuid()}@{make.uuid()}/IncomingWebhook/{make.of(HEX, 32)}/{make.uuid()}",
    )
    discord_hook = (
        "https://discord.com/api/" + "webhooks/112233445566778899/{}",
        "see discordapp.com/api/webhooks/1122334455667788/{} ok",
    )
    yield from in_places("discord-webhook", discord_hook, lambda make: make.of(WORD, 68))


def private_keys() -> Iterator[SecretSample]:
    make = SecretMaker("private-key")
    for number in range(42):
        name = KEY_NAMES[number % len(KEY_NAMES)] + "PRIVATE KEY"
        key = make.pem(name, make.random.choice((48, 121, 600, 1190)))
        if number % 5 == 4:
            key = make.pem("PGP PRIVATE KEY BLOCK", 900).replace("-----\n", "-----\nVersion: GnuPG v2\n\n", 1)
        lines = key.split("\n")
        indented = "\n".join(f"    {line}" for line in lines)
        escaped = key.replace("\n", "\\n") + "\\n"
        cut = key[: len(key) // 2 + 20]
        yield from (
            SecretSample("private-key", key, f"here it is\n{key}\nthanks\n"),
            SecretSample("private-key", "".join(lines), f"tls:\n  key: |\n{indented}\n  cert: none\n"),
            SecretSample(
                "private-key", escaped[:-2], f'{{"type": "service_account", "private_key": "{escaped}", "id": 1}}'
            ),
            SecretSample("private-key", "".join(lines), "".join(f"+{line}\n" for line in lines)),
            SecretSample("private-key", cut, f"it was cut:\n{cut}"),
            SecretSample("private-key", cut, f"$ head id_rsa\n{cut}\n\n$ echo done\n"),
        )


def make_all_samples() -> list[SecretSample]:
    return [
        *by_form(), *named(), *assigned(), *in_urls(), *in_files(), *in_headers(), *of_clouds(), *private_keys(),
    ]  # fmt: skip
