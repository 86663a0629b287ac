"""Secrets are found wherever they stand, ordinary text is left alone, and no text makes it slow."""

import re
import string
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harder_secrets import harder_secrets, look_alikes
from memorist.errors import InvalidInput
from memorist.redact import RedactedSecret, redact
from memorist.redact.allowances import compile_allowances
from secret_samples import ALNUM, HEX, SecretMaker, SecretSample, make_all_samples

PLANTED = make_all_samples()
PLACEHOLDER = re.compile(r"\[redacted:([a-z0-9-]+)\]")


def left_of(secret: str, text: str) -> list[str]:
    """Pieces of the secret that can still be read."""
    text = PLACEHOLDER.sub("", text)
    return [piece for at in range(max(1, len(secret) - 7)) if (piece := secret[at : at + 8]) in text]


def kinds(text: str, allow: tuple[str, ...] = ()) -> list[str]:
    return [one.kind for one in redact(text, allow)[1]]


class TestSecrets:
    @pytest.mark.parametrize("kind", sorted({one.kind for one in PLANTED}))
    def test_nothing_of_one_is_left_wherever_it_stands(self, kind: str) -> None:
        missed = [
            one.text
            for one in PLANTED
            if one.kind == kind
            and (
                left_of(one.secret, (result := redact(one.text))[0]) or kind not in {found.kind for found in result[1]}
            )
        ]

        assert missed == []

    def test_there_are_enough_of_each_kind_to_tell(self) -> None:
        counts = Counter(one.kind for one in {(one.kind, one.secret): one for one in PLANTED}.values())

        assert len(counts) >= 50
        assert min(counts.values()) >= 20

    @pytest.mark.parametrize("text", ["<db-password>walrus</db-password>", "密码：walrus", "PASSWORD=walrus"])
    def test_a_word_is_one_where_only_a_secret_can_stand(self, text: str) -> None:
        assert redact(text)[0] == text.replace("walrus", "[redacted:password]")

    @pytest.mark.parametrize(
        "text",
        r"""
        iface wlan0 inet dhcp\n    wpa-ssid home\n    wpa-psk walrus77\n
        wpa-psk walrusharbour
        wpa-psk "walrus harbour"
        wpa-passphrase walrusharbour
        wpa_passphrase walrusharbour
        wpa-psk ascii 0 walrusharbour
        add `wpa-psk Walrus77` to the file
        psk walrusharbour
        psk=walrusharbour
        psk="walrus harbour"
        CREATE USER 'ada'@'%' IDENTIFIED BY 'walrus';
        CREATE USER ada IDENTIFIED BY walrus;
        CREATE USER bo IDENTIFIED BY 'xyz', ada\n  IDENTIFIED BY 'walrus';
        ALTER USER ada IDENTIFIED WITH mysql_native_password BY 'walrus';
        GRANT ALL ON shop.* TO ada IDENTIFIED BY 'walrus'
        CREATE ROLE ada WITH LOGIN PASSWORD 'walrus';
        ALTER ROLE ada PASSWORD 'walrus';
        alter user ada with encrypted password 'walrus' valid until '2027-01-01'
        mysql -pwalrus
        mysql -u root -p'walrus' shop
        mysql -h db1 -P3306 -pwalrus
        mysql -u root \\\n  -pwalrus shop
        mysqldump -u root -pwalrus shop > shop.sql
        mariadb-dump -pwalrus shop
        sshpass -p walrus ssh ada@web1
        sshpass -v -p walrus ssh ada@web1
        curl -u ada:walrus https://acme.dev
        curl -su ada:walrus https://acme.dev
        curl --proxy-user ada:walrus https://acme.dev
        curl -X POST \\\n  -u ada:walrus https://acme.dev
        deploy --password walrus
        deploy --password 'walrus' web1
        deploy --password=walrus web1
        wget --user ada --password walrus https://acme.dev
        """.strip().split("\n        "),
    )
    def test_a_word_is_one_in_a_setting_of_a_network_in_sql_and_in_a_command(self, text: str) -> None:
        text = text.encode().decode("unicode_escape")

        expected = re.sub(r"walrus(?: ?harbour|77)?", "[redacted:password]", text, flags=re.IGNORECASE)
        assert redact(text)[0] == expected

    @pytest.mark.parametrize(
        "text",
        [
            "gcc main.c -L/usr/lib/mysql -lmysqlclient -pthread -o app",
            "g++ -I/usr/include/mysql app.cc -pedantic",
            "find /var/lib/mysql -name x -print",
            "cp -r mysql /backup -parents -preserve",
        ],
    )
    def test_an_option_of_another_command_is_none(self, text: str) -> None:
        assert redact(text) == (text, ())

    def test_a_number_is_one_in_a_setting_of_a_network(self) -> None:
        assert redact("wpa-ssid home\nwpa-psk 20051987\n")[0] == "wpa-ssid home\nwpa-psk [redacted:password]\n"

    def test_letters_of_a_generator_are_one_in_a_column(self) -> None:
        assert redact("user,token\nada,qzvkxwptbn\n")[0] == "user,token\nada,[redacted:secret]\n"

    def test_what_is_around_one_stays(self) -> None:
        make = SecretMaker("around")
        password, token = make.password(), make.of(ALNUM, 40)

        assert redact(f"postgres://app:{password}@db1:5432/main?x=1")[0] == (
            "postgres://app:[redacted:url-password]@db1:5432/main?x=1"
        )
        assert redact(f"Server=db1;Password={password};Encrypt=true")[0] == (
            "Server=db1;Password=[redacted:password];Encrypt=true"
        )
        assert (
            redact(f"-H 'Authorization: Bearer {token}' -v")[0]
            == "-H 'Authorization: Bearer [redacted:bearer-token]' -v"
        )
        assert redact(f'{{"token": "{token}", "page": 2}}')[0] == '{"token": "[redacted:token]", "page": 2}'
        assert redact(f"/items?token={token}&page=2")[0] == "/items?token=[redacted:token]&page=2"
        assert redact(f"Cookie: theme=dark; sid={token}; a=b")[0] == "Cookie: theme=dark; sid=[redacted:cookie]; a=b"

    def test_a_key_block_shrinks_to_a_line_and_the_text_goes_on_behind_it(self) -> None:
        key = SecretMaker("block").pem("RSA PRIVATE KEY", 600)

        assert redact(f"a\n  {key}\nb\n") == (
            "a\n  [redacted:private-key]\nb\n",
            (RedactedSecret("private-key", 2, 3),),
        )

    def test_a_key_block_without_its_end_takes_no_more_than_its_lines(self) -> None:
        key = SecretMaker("cut").pem("EC PRIVATE KEY", 300).rsplit("\n", 2)[0]

        assert redact(f"{key}\n\nThe rest of it is in the safe.\n")[0] == (
            "[redacted:private-key]\n\nThe rest of it is in the safe.\n"
        )

    def test_one_that_is_very_long_is_redacted_to_its_end(self) -> None:
        value = SecretMaker("long").of(ALNUM, 20_000)

        for place in ("TOKEN={}", "token: '{}'", "my token today: {}", "--password {}", "Authorization: Bearer {}"):
            assert left_of(value, redact(place.replace("{}", value))[0]) == [], place

    def test_several_are_distinguished_and_reported_in_order_with_their_places(self) -> None:
        make = SecretMaker("several")
        text = f"user: app\npassword: {make.password()}\r\n\n  key = AKIA{make.of(string.ascii_uppercase, 16)} # old\n"

        assert redact(text) == (
            "user: app\npassword: [redacted:password]\r\n\n  key = [redacted:aws-access-key-id] # old\n",
            (RedactedSecret("password", 2, 11), RedactedSecret("aws-access-key-id", 4, 9)),
        )

    def test_the_report_never_holds_the_value(self) -> None:
        for one in PLANTED[::17]:
            assert left_of(one.secret, repr(redact(one.text)[1])) == []


WORDS = "the quick brown fox jumps over the lazy dog while seven wizards brew a potion of ordinary text".split()


def generated() -> list[str]:
    """Ids and hashes, as they stand in notes, logs and manifests."""
    make = SecretMaker("ordinary")
    ulid, base64_of = string.digits + "ABCDEFGHJKMNPQRSTVWXYZ", make.base64
    made = (
        lambda: f"fixed in {make.of(HEX, 7)}, see commit {make.of(HEX, 40)}",
        lambda: f"commit {make.of(HEX, 40)} (HEAD -> token-refactor)\n\n    Rotate the token",
        lambda: f"the token cache was broken since {make.of(HEX, 40)}",
        lambda: f"image: registry.acme.dev/api@sha256:{make.of(HEX, 64)}",
        lambda: f"sha256: {make.of(HEX, 64)}",
        lambda: f'"integrity": "sha512-{base64_of(64)}",',
        lambda: f'<script src="a.js" integrity="sha384-{base64_of(48)}" crossorigin="anonymous"></script>',
        lambda: f"request {make.uuid()} failed",
        lambda: f'{{"id": "{make.uuid()}", "token_type": "bearer", "expires_in": 3600}}',
        lambda: f"memory 01{make.of(ulid, 24)} replaces 01{make.of(ulid, 24)}",
        lambda: f"session_id={make.uuid()} token_count=1832",
        lambda: f'ETag: "{make.of(HEX, 32)}"',
        lambda: f"![logo](data:image/png;base64,{base64_of(300)})",
        lambda: f"background: url(data:image/svg+xml;base64,{base64_of(120)}); color: #{make.of(HEX, 6)};",
        lambda: f"ssh-rsa AAAAB3NzaC1yc2E{make.of(ALNUM, 300)} bob@laptop",
        lambda: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{make.of(ALNUM, 48)} secret-server key",
        lambda: make.pem("CERTIFICATE", 900),
        lambda: make.pem("PUBLIC KEY", 300),
        lambda: (
            f"pod/api-{make.of('bcdfghjklmnpqrstvwxz2456789', 9)}-{make.of('bcdfghjklmnpqrstvwxz2456789', 5)} Running"
        ),
        lambda: f"secretName: default-token-{make.of('bcdfghjklmnpqrstvwxz2456789', 5)}",
        lambda: f"arn:aws:secretsmanager:eu-west-1:{make.of('123456789', 12)}:secret:prod/db-{make.of(ALNUM, 6)}",
        lambda: f"https://acme.dev/blog/{'-'.join(make.random.sample(WORDS, 8))}?id={make.of('123456789', 12)}",
        lambda: f"https://docs.acme.dev/d/{make.of(ALNUM, 44)}/edit#gid=0",
        lambda: f"see https://acme.slack.com/archives/C{make.of(ulid, 10)}/p{make.of('123456789', 16)} about the token",
        lambda: f"/nix/store/{make.of(HEX, 32)}-python3-3.11.9/lib/python3.11/secrets.py",
        lambda: f"src/{'/'.join(make.random.sample(WORDS, 5))}/password_reset_token_generator.py",
        lambda: f"ISBN 978-3-16-{make.of('123456789', 6)}-0, call +49 30 {make.of('123456789', 8)}",
        lambda: f"v1.{make.of('123456789', 2)}.0-rc.1+build.{make.of(HEX, 7)}",
        lambda: f"0x{make.of(HEX, 40)} is the address of the token contract",
        lambda: f"mypy/token.py,sha256={make.of(ALNUM, 43)},1418",
        lambda: f"traceparent: 00-{make.of(HEX, 32)}-{make.of(HEX, 16)}-01",
        lambda: f"user_{make.of(ALNUM, 10)} joined; cus_{make.of(ALNUM, 14)} paid with pk_live_{make.of(ALNUM, 24)}",
    )
    return [one() for _ in range(20) for one in made]


@pytest.mark.parametrize("one", harder_secrets(), ids=lambda one: one.kind[:40])
def test_a_secret_that_is_harder_to_see_is_found(one: SecretSample) -> None:
    result = PLACEHOLDER.sub("", redact(one.text)[0])

    parts = one.secret.split() if " " in one.secret else [one.secret[at : at + 8] for at in range(len(one.secret) - 7)]
    assert [part for part in parts or [one.secret] if part in result] == []


def test_what_looks_like_one_is_left_alone() -> None:
    texts = look_alikes()
    alarms = [(text, found) for text in texts for found in redact(text)[1]]

    assert len(texts) >= 150
    assert len(alarms) <= len(texts) // 100, alarms


ORDINARY = [
    *Path(__file__).with_name("data").joinpath("ordinary.txt").read_text("utf-8").split("\n%\n"),
    *generated(),
]


class TestOrdinaryText:
    def test_it_comes_back_as_it_is(self) -> None:
        assert [(text, found) for text in ORDINARY for found in redact(text)[1]] == []
        assert all(redact(text)[0] is text for text in ORDINARY)


PIECES = ["^", "$"] + [
    piece + repetition
    for piece in ("a", ".", "[ab]", "[^a]", "(a|b1?)", "(?:b.)", "((a*)b)", r"\d", "(|b)")
    for repetition in ("", "*", "+", "?", "{1,2}", "{2}", "{,1}", "{1,}", "*?")
]


class TestAllowances:
    TEXT = "password: Kestrel77! and token: " + SecretMaker("allowed").of(ALNUM, 32)

    @pytest.mark.parametrize(
        "allow", [("Kestrel77!",), ("Kestrel",), ("/^Kestrel[0-9]+!$/",), ("nothing", "/x{9}/", "estrel77")]
    )
    def test_what_is_or_contains_an_allowed_text_or_matches_a_regex_stays(self, allow: tuple[str, ...]) -> None:
        assert redact(self.TEXT, allow)[0] == "password: Kestrel77! and token: [redacted:token]"
        assert kinds(self.TEXT, allow) == ["token"]

    @pytest.mark.parametrize("allow", [(), ("",), ("//",), ("/",), ("kestrel77!",), ("Kestrel77!!",), ("/^estrel/",)])
    def test_what_is_not_allowed_goes(self, allow: tuple[str, ...]) -> None:
        assert kinds(self.TEXT, allow) == ["password", "token"]

    def test_an_allowed_one_stays_whichever_way_it_is_found(self) -> None:
        for one in PLANTED[::23]:
            reported = redact(one.text, [one.secret])[0] if "\n" not in one.secret else one.text
            if one.kind != "private-key":
                assert one.secret in reported, one

    @pytest.mark.parametrize(
        "pattern", ["[", "a{99999999999}", "a{" + "9" * 5_000 + "}"], ids=["open", "count", "digits"]
    )
    def test_a_broken_regex_is_refused(self, pattern: str) -> None:
        with pytest.raises(InvalidInput, match="not a regular expression"):
            redact("any text", [f"/{pattern}/"])

    @pytest.mark.parametrize("pattern", [r"^(\w+)+$", "(a|a)*$", "(.*)*(.*)*#", "(a?){60}" + "a{60}", "((a*)*)*b"])
    def test_no_regex_takes_long(self, pattern: str) -> None:
        secret = "a" * 4_000 + "7B!"
        started = time.process_time()

        assert kinds(f"password: {secret}", (f"/{pattern}/",)) in (["password"], [])
        assert time.process_time() - started < 10

    @pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)a", "(?i)a", "a*+b", "a{2}+b", r"\bpass", "(?P<x>a)"])
    def test_what_cannot_be_bounded_is_refused_with_what_can(self, pattern: str) -> None:
        with pytest.raises(InvalidInput, match=r"not supported.*use characters, .classes.") as refused:
            redact("any text", [f"/{pattern}/"])
        assert pattern[:6] in str(refused.value)

    @pytest.mark.parametrize("pattern", ["a{2000}", "(a{50}){50}", "((){900}){900}"])
    def test_one_that_repeats_too_much_is_refused(self, pattern: str) -> None:
        with pytest.raises(InvalidInput, match="repeats too much"):
            redact("any text", [f"/{pattern}/"])

    def test_a_pattern_of_groups_within_groups_is_refused_where_they_are_too_many(self) -> None:
        with pytest.raises(InvalidInput, match="allowed secrets"):
            redact("x", ["/" + "(" * 400 + "a" + ")" * 400 + "/"])

    @given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join), st.text("ab1", max_size=8))
    @settings(max_examples=400, deadline=None)
    def test_a_regex_means_what_it_means_in_python(self, pattern: str, text: str) -> None:
        assert compile_allowances([f"/{pattern}/"])(text) == (re.search(pattern, text) is not None)


def pieces() -> st.SearchStrategy[str]:
    """Texts of what the patterns look for, in any order."""
    parts = """
        password secret token api_key AWS_SECRET_ACCESS_KEY pass pwd auth Bearer Basic Authorization: Cookie: session=
        = : := -> , ; & ? . " ' ` \\ \\n \\" < > </ [ ] ( ) { } $ ${X} | ``` ** @ :// / - -- + % %3D ==
        is for the to or value name: curl -u mysql -p login x@tcp( :thin: eyJ eyJhbGciOiJub25lIn0 AKIA ghp_ sk- SK SG.
        key- -----BEGIN -----END PRIVATE KEY----- Private-Lines: [redacted:token] [redacted: \0 é 密码 пароль İ
    """.split()
    make = SecretMaker("pieces")
    values = [make.of(ALNUM, size) for size in (8, 16, 20, 32, 40, 64, 120)] + [make.password() for _ in range(5)]
    some = [*parts, *values, make.of(HEX, 32), make.jwt(), " ", "\n", "\t", "\r\n", " = ", ": ", '": "']
    return st.lists(st.sampled_from(some), max_size=40).map("".join)


class TestAnyText:
    @given(st.text() | pieces())
    @settings(max_examples=400)
    def test_it_is_redacted_once_and_for_all(self, text: str) -> None:
        result, places = redact(text)

        assert redact(result) == (result, ())
        assert len(PLACEHOLDER.findall(result)) >= len(places)
        assert (result is text) == (not places)
        assert result.count("\n") == text.count("\n") or "private-key" in [place.kind for place in places]

    @given(pieces().filter(lambda text: "[redacted:" not in text))
    @settings(max_examples=300)
    def test_what_is_outside_the_reported_places_is_unchanged(self, text: str) -> None:
        result, places = redact(text)
        before, *between, after = PLACEHOLDER.split(result)[::2] if places else (text, "")
        lines = [0, *(found.end() for found in re.finditer("\n", text))]
        starts = [lines[place.line - 1] + place.column - 1 for place in places]

        assert text[: starts[0] if starts else None] == before
        assert text.endswith(after)
        for piece, (previous, start) in zip(between, pairwise(starts), strict=True):
            assert text[:start].endswith(piece)
            assert previous < start - len(piece)

    @given(st.lists(st.sampled_from(PLANTED), min_size=1, max_size=6))
    @settings(max_examples=60)
    def test_secrets_do_not_hide_one_another(self, several: list[SecretSample]) -> None:
        result, _ = redact("\n\n".join(one.text for one in several))

        assert [one for one in several if left_of(one.secret, result)] == []

    def test_letters_keep_their_places_in_lower_case(self) -> None:
        every = "".join(map(chr, range(0x110000))).replace("\u0130", "i")

        assert len(every.lower()) == len(every)


HOSTILE = """
    a = -----BEGIN -----BEGIN\\x20PRIVATE\\x20KEY----- token= token: password password=' :// ://a: ://a:b@ eyJ eyJ. M
    authorization: bearer\\x20 cookie:a= mysql\\x20-p curl\\x20 <password> --token\\x20 token\\x20for\\x20a\\x20b\\x20
    wpa-psk\\x20 \\npsk\\x20 create\\x20user\\x20 identified\\x20by\\x20 password\\x20' curl\\x20\\\\\\n
    |--\\n| password,\\n ,password,a password|b\\n|-|-|\\n 4111\\x20 4111- 5K 1\\x20abandon\\x20 \\x20able
    wallet\\x20able\\x20 @a/ ://a:b@c/ db:5432:a:b: cloudflare: $2b$10$ $argon2id$ {SHA} a\\x20pgpass\\n </td><td>
    password:\\x20b\\n [a]\\npassword\\x20=\\x20b\\n password=\\\\\\n password\\x20=\\x20(\\n
    variable\\x20"password"\\x20{\\n
    value:\\x20x\\nname:\\x20password\\n name:\\x20password\\n\\x20a:\\x20b\\n auth=('a',\\x20
    login("a", connect(a,\\x20b,\\x20
    sqlcmd\\x20-P\\x20 mongo\\x20-p\\x20 sqlplus\\x20a/b\\x20 echo\\x20a\\x20|\\x20 sudo\\x20echo\\x20
    net\\x20use\\x20 WIFI:S:a;
    backup\\x20codes\\x20 backup\\x20codes\\n12345678\\n 1.\\x20able\\x202.\\x20about\\x203.
    -----END\\x20PRIVATE\\x20KEY-----
    aB3x\\n-----END\\x20PRIVATE\\x20KEY-----\\n mot\\x20de\\x20passe\\x20est\\x20 비밀번호는\\x20 otpauth-migration://data=
    aB3x \\n \\0 [redacted: [redacted:a] \\x27 \\\\n 密码 AKIA Q~ key- 1234567890:AA @tcp( :thin:a/b@ SG.
""".split()


class TestHostileText:
    @pytest.mark.parametrize("unit", [one.encode().decode("unicode_escape") if "\\" in one else one for one in HOSTILE])
    def test_twice_the_text_takes_no_more_than_about_twice_the_time(self, unit: str) -> None:
        """Ten times the text in less than forty times the time: anything quadratic would take a hundred times."""
        small, large = (unit * (size // len(unit)) for size in (5_000, 50_000))
        redact(small)

        assert cost(large) < 40 * cost(small) + 0.5

    def test_a_megabyte_of_nothing_is_done_soon(self) -> None:
        for unit in ("a", "-----BEGIN", "=", "password=", " able", "4111 ", "://a:b@c/", ",password,a\n"):
            assert cost(unit * (1_000_000 // len(unit))) < 10


def cost(text: str) -> float:
    """Seconds of this process: those others take from the machine do not count."""
    start = time.process_time()
    redact(text)
    return time.process_time() - start
