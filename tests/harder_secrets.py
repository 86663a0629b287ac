"""
Secrets that are harder to see than those of `secret_samples`, and ordinary texts that look like them.

As there, each is made at run time from its documented parts, so that no line of this file is one. In the words of other
languages the secret is of the kind that people choose.
"""

import base64
from collections.abc import Iterator

from secret_samples import ALNUM, BASE32, DIGITS, HEX, LOWER, SEED_WORDS, UPPER, WORD, SecretMaker, SecretSample, fill

make = SecretMaker("harder")


def by_form() -> Iterator[SecretSample]:
    """Keys and tokens with a prefix that their maker documents."""
    forms = {
        "resend-key": ("re" + "_", make.of(ALNUM, 8) + "_" + make.of(ALNUM, 24)),
        "netlify-token": ("nfp" + "_", make.of(ALNUM, 36)),
        "netlify-token 2": ("nfc" + "_", make.of(ALNUM, 36)),
        "posthog-key": ("phx" + "_", make.of(ALNUM, 48)),
        "posthog-key 2": ("phs" + "_", make.of(ALNUM, 43)),
        "langfuse-key": ("sk-" + "lf-", make.uuid()),
        "tavily-key": ("tvly" + "-", make.of(ALNUM, 32)),
        "tavily-key 2": ("tvly" + "-dev-", make.of(ALNUM, 32)),
        "contentful-token": ("CFPAT" + "-", make.of(WORD, 43)),
        "razorpay-key": ("rzp" + "_live_", make.of(ALNUM, 14)),
        "razorpay-key 2": ("rzp" + "_test_", make.of(ALNUM, 14)),
        "jina-key": ("jina" + "_", make.of(HEX, 32) + make.of(WORD, 28)),
        "cerebras-key": ("csk" + "-", make.of(LOWER + DIGITS, 36)),
        "cerebras-key 2": ("csk" + "-", make.of(ALNUM, 48)),
        "firecrawl-key": ("fc" + "-", make.of(HEX, 32)),
        "voyage-key": ("pa" + "-", make.of(WORD, 43)),
        "elevenlabs-key": ("sk" + "_", make.of(HEX, 48)),
        "apify-token": ("apify" + "_api_", make.of(ALNUM, 36)),
        "together-key": ("tgp" + "_v1_", make.of(WORD, 43)),
        "fireworks-key": ("fw" + "_", make.of(ALNUM, 24)),
        "e2b-key": ("e2b" + "_", make.of(HEX, 40)),
        "mem0-key": ("m0" + "-", make.of(ALNUM, 40)),
        "browserbase-key": ("bb" + "_live_", make.of(WORD, 27)),
        "brave-key": ("BSA", make.of(WORD, 28)),
        "mailersend-token": ("mlsn" + ".", make.of(HEX, 64)),
        "axiom-token": ("xaat" + "-", make.uuid()),
        "trello-token": ("ATTA", make.of(HEX, 64) + make.of(UPPER + DIGITS, 8)),
        "bitbucket-token": ("ATBB", make.of(ALNUM, 32)),
        "nuget-key": ("oy2", make.of(LOWER + "234567", 43)),
        "snyk-token": ("snyk" + "_uat.", make.of(HEX, 8) + "." + make.of(WORD, 90)),
        "vk-token": ("vk1" + ".a.", make.of(WORD, 180)),
        "linear-key": ("lin" + "_oauth_", make.of(HEX, 64)),
        "dropbox-token": ("sl" + ".", make.of(WORD, 136)),
        "gemini-key": ("AQ" + ".Ab8", make.of(WORD, 46)),
        "vercel-token": ("vcp" + "_", make.of(ALNUM, 56)),
        "paddle-key": (
            "pdl" + "_live_apikey_",
            make.of(LOWER + DIGITS, 26) + "_" + make.of(ALNUM, 22) + "_" + make.of(ALNUM, 3),
        ),
        "vercel-token 2": ("vercel" + "_blob_rw_", make.of(ALNUM, 16) + "_" + make.of(ALNUM, 30)),
        "openrouter": ("sk-" + "or-v1-", make.of(HEX, 64)),
        "deepseek": ("sk" + "-", make.of(HEX, 32)),
        "stability": ("sk" + "-", make.of(ALNUM, 48)),
        "kimi": ("sk-" + "kimi-", make.of(ALNUM, 48)),
        "litellm": ("sk-" + "litellm-", make.of(ALNUM, 24)),
        "adafruit-key": ("aio" + "_", make.of(LOWER + UPPER, 4) + make.of(ALNUM, 24)),
        "aiven-token": ("AVNS" + "_", make.of(WORD, 19)),
        "porkbun-key": ("sk1" + "_", make.of(HEX, 64)),
        "buildkite-token": ("bkua" + "_", make.of(HEX, 40)),
        "zuplo-key": ("zpka" + "_", make.of(HEX, 32) + "_" + make.of(HEX, 8)),
        "wandb": ("wandb" + "_v1_", make.of(WORD, 77)),
    }
    places = ("use {} for now", "client = Client('{}')", "CALLER={}\n", '{{"value": "{}"}}', "{}")
    for number, (kind, (prefix, body)) in enumerate(forms.items()):
        yield SecretSample(kind, prefix + body, fill(places[number % len(places)], prefix + body))
    signature = make.of(HEX, 64)
    yield SecretSample(
        "url-signature", signature, f"https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature={signature}&a=1"
    )


def key_blocks() -> Iterator[SecretSample]:
    """Private keys of which the beginning is lost."""
    for name, size in (
        ("RSA PRIVATE KEY", 600),
        ("OPENSSH PRIVATE KEY", 300),
        ("PRIVATE KEY", 121),
        ("EC PRIVATE KEY", 90),
    ):
        lines = make.pem(name, size).split("\n")
        yield SecretSample("end only", "".join(lines[1:-1]), "the rest of it:\n" + "\n".join(lines[1:]) + "\nthanks\n")
        yield SecretSample("end only, indented", "".join(lines[2:-1]), "".join(f"    {line}\n" for line in lines[2:]))
    cut = make.pem("RSA PRIVATE KEY", 300).replace("\n", "\\n")
    yield SecretSample("end only, escaped", cut[40:-32], f'"...{cut[40:]}"')


def seed_phrases() -> Iterator[SecretSample]:
    for size in (12, 24, 15):
        words = make.random.sample(SEED_WORDS, size)
        yield SecretSample("numbered", " ".join(words), "\n".join(f"{at}. {word}" for at, word in enumerate(words, 1)))
        yield SecretSample("numbered )", " ".join(words), " ".join(f"{at}) {word}" for at, word in enumerate(words, 1)))
        yield SecretSample(
            "numbered inline", " ".join(words), " ".join(f"{at}. {word}" for at, word in enumerate(words, 1))
        )
        yield SecretSample(
            "numbered colon", " ".join(words), "\n".join(f"{at:02}: {word}" for at, word in enumerate(words, 1))
        )
        yield SecretSample("capitals", " ".join(words).upper(), "seed phrase: " + " ".join(words).upper())
        yield SecretSample("list", " ".join(words), "Recovery phrase:\n" + "\n".join(f"- {word}" for word in words))
        yield SecretSample("commas", " ".join(words), "mnemonic = [" + ", ".join(f'"{word}"' for word in words) + "]")


def in_places() -> Iterator[SecretSample]:
    """Values whose place tells what they are."""
    places = (
        "export DB_PASSWORD=\\\n  {}\n",
        "DB_PASSWORD=\\\n{}\n",
        "API_TOKEN: >-\n  {}\nREGION: eu\n",
        'PASSWORD = (\n    "{}"\n)\n',
        'password = "" \\\n    "{}"\n',
        'variable "db_password" {{\n  type    = string\n  default = "{}"\n}}\n',
        'variable "admin_password" {{\n  type      = string\n  sensitive = true\n  default   = "{}"\n}}\n',
        'output "password" {{\n  value = "{}"\n}}\n',
        "requests.get(url, auth=('ada', '{}'))",
        'requests.post(url, json=body, auth=("ada@acme.dev", "{}"), timeout=5)',
        "auth=HTTPBasicAuth('ada', '{}')",
        'httpx.Client(auth=httpx.BasicAuth("ada", "{}"))',
        "ftp.login('ada', '{}')",
        "server.login('ada@acme.dev', '{}')",
        'smtp.login("ada", "{}")',
        "imap.login(USER, '{}')",
        "client.login('ada', '{}').then(go)",
        "ssh.connect('web1', 22, 'ada', '{}')",
        "authenticate('ada', '{}')",
        "request.get(url).auth('ada', '{}')",
        "axios.get(url, {{ auth: {{ username: 'ada', password: '{}' }} }})",
        "$ sqlcmd -S db1 -U sa -P {} -Q 'select 1'\n",
        "$ sqlcmd -S db1 -U sa -P'{}'\n",
        "$ bcp shop out x.csv -U sa -P {} -S db1\n",
        "$ mongosh -u ada -p {} db1/shop\n",
        "$ mongodump --username ada -p '{}' --db shop\n",
        "$ clickhouse-client --user ada --password {}\n",
        "$ cqlsh db1 -u ada -p {}\n",
        "$ impdp scott/{}@orcl directory=d\n",
        "$ sqlplus scott/{}@orcl\n",
        "$ sqlplus system/{}@//db1:1521/XE @init.sql\n",
        "$ ldapsearch -x -D cn=admin,dc=acme -w {} -b dc=acme\n",
        "$ smbclient //nas/share -U ada%{}\n",
        "$ mount -t cifs //nas/x /mnt -o username=ada,password={},vers=3\n",
        "$ redis-cli -h cache -a {} ping\n",
        "$ lftp -u ada,{} ftp.acme.dev\n",
        "$ xfreerdp /u:ada /p:{} /v:win1\n",
        "$ rdesktop -u ada -p {} win1\n",
        "$ plink -ssh ada@web1 -pw {} ls\n",
        "$ pscp -pw {} a.txt ada@web1:\n",
        "$ 7z a -p{} backup.7z docs\n",
        "$ zip -P {} backup.zip docs/*\n",
        "$ unzip -P {} backup.zip\n",
        "$ openssl enc -aes-256-cbc -in a -out b -k {}\n",
        "$ openssl rsa -in key.pem -passin pass:{}\n",
        "$ gpg --batch --passphrase {} -d a.gpg\n",
        "$ ansible all -m ping -e ansible_password={}\n",
        "$ htpasswd -b .htpasswd ada {}\n",
        "$ net use Z: \\\\nas\\share {} /user:ada\n",
        "$ snowsql -a acme -u ada --password {}\n",
        "$ influx -username ada -password {}\n",
        "$ svn co --username ada --password {} https://svn.acme.dev\n",
        "$ helm registry login -u ada -p {} registry.acme.dev\n",
        "$ az login -u ada@acme.dev -p {}\n",
        "$ echo '{}' | docker login --username ada --password-stdin\n",
        "$ echo {} | sudo -S systemctl restart api\n",
        "$ echo 'ada:{}' | chpasswd\n",
        "$ wget --http-password={} https://acme.dev/x\n",
        "$ PGPASSWORD={} psql -h db1\n",
        "$ mysqladmin -u root password '{}'\n",
        "WIFI:T:WPA;S:home;P:{};;",
        "WIFI:S:Office Guest;T:WPA2;P:{};H:false;;",
        "WIFI:P:{};S:cafe;T:WPA;;",
        "- name: DB_PASSWORD\n  value: {}\n",
        "- value: {}\n  name: DB_PASSWORD\n",
        '- name: "SMTP_PASSWORD"\n  value: "{}"\n',
        "env:\n  - name: ADMIN_PASSWORD\n    description: of the console\n    value: {}\n",
        '{{"name": "DB_PASSWORD", "value": "{}"}}',
        '{{"value": "{}", "name": "DB_PASSWORD"}}',
        '{{"key": "password", "value": "{}"}}',
        "<property><name>db.password</name><value>{}</value></property>",
        '<entry key="password">{}</entry>',
        "[[secret]]\nname = 'db_password'\nvalue = '{}'\n",
        "$ echo -e '{}\\n{}' | passwd ada\n",
        "C:\\> net user ada {} /add\n",
        "ConvertTo-SecureString '{}' -AsPlainText -Force",
        "$ keytool -genkey -keystore k.jks -storepass {} -keypass {}\n",
        "$ mosquitto_pub -h broker -u iot -P {} -t x -m 1\n",
        "$ nmcli dev wifi connect Home password {}\n",
        "$ snmpwalk -v2c -c {} 192.0.2.1\n",
        'expect "assword:"\nsend "{}\\r"',
        "enable secret 0 {}",
        "username admin privilege 15 password 0 {}",
        "snmp-server community {} RW",
        "CREATE LOGIN ada WITH PASSWORD = N'{}'",
        'cfg := Config{{User: "a", DBPass: "{}"}}',
        '#define WIFI_PASS "{}"',
        "FROM debian\nENV REDIS_PASS {}\n",
        'WiFi.begin("HomeNet", "{}");',
        "hmac.new(b'{}', message, 'sha256')",
        "jwt.sign(payload, '{}', {{ expiresIn: '1h' }})",
        'crypto.createHmac("sha256", "{}")',
        "<key>Password</key>\n<string>{}</string>",
        'Content-Disposition: form-data; name="password"\r\n\r\n{}\r\n--b',
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  value: {}\n",
        "stringData:\n  dsn: '{}'\nkind: Secret\n",
        "name,login,pass\nbank,ada,{}\n",
        "Dienst\tBenutzer\tKennwort\nMail\tada\t{}\n",
        "usuario,contraseña\nada,{}\n",
        "db_password: &dbpw {}",
        "password: !!str {}",
        "DB_PASSWORD ?= {}",
        "creds: ada@acme.dev:{}",
        "login with ada / {} on staging",
        "Zugangsdaten: ada / {}",
    )
    for place in places:
        value = make.password()
        yield SecretSample(place, value, fill(place, value))


def one_time() -> Iterator[SecretSample]:
    """Shared secrets of one-time passwords, and codes that replace them."""
    base32 = make.of(BASE32, 32)
    yield SecretSample("otpauth", base32, f"otpauth://totp/Acme:ada@acme.dev?secret={base32}&issuer=Acme")
    base32 = make.of(BASE32, 16)
    yield SecretSample("otpauth hotp", base32, f"scan otpauth://hotp/Acme?counter=1&secret={base32} with the app")
    data = (
        base64.b64encode(make.random.randbytes(60)).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    )
    yield SecretSample("otpauth-migration", data, f"otpauth-migration://offline?data={data}")
    for title, code in (
        ("Recovery codes:", lambda: f"{make.of(HEX, 5)}-{make.of(HEX, 5)}"),
        ("GitHub recovery codes", lambda: f"{make.of(HEX, 5)}-{make.of(HEX, 5)}"),
        ("Backup codes for Google:", lambda: f"{make.of(DIGITS, 4)} {make.of(DIGITS, 4)}"),
        ("my 2FA backup codes", lambda: make.of(DIGITS, 8)),
        ("One-time codes:", lambda: make.of(LOWER + DIGITS, 10)),
        ("Scratch codes:", lambda: make.of(DIGITS, 8)),
        ("Wiederherstellungscodes:", lambda: f"{make.of(UPPER + DIGITS, 4)}-{make.of(UPPER + DIGITS, 4)}"),
    ):
        codes = [code() for _ in range(8)]
        yield SecretSample(title, " ".join(codes), f"{title}\n\n" + "\n".join(codes) + "\n")
        yield SecretSample(
            f"{title} listed",
            " ".join(codes),
            f"{title}\n" + "\n".join(f"{at}. {one}" for at, one in enumerate(codes, 1)),
        )
        yield SecretSample(f"{title} in a line", " ".join(codes), f"{title} " + ", ".join(codes))


SENTENCES = (
    "Le mot de passe est {}",
    "mot de passe : {}",
    "Mot de passe: {}",
    "mdp : {}",
    "Das Passwort lautet {}",
    "Das Kennwort ist {}",
    "Kennwort: {}",
    "Passwort = {}",
    "Das WLAN-Passwort lautet: {}",
    "wachtwoord: {}",
    "Het wachtwoord is {}",
    "hasło: {}",
    "Hasło to {}",
    "비밀번호: {}",
    "비밀번호는 {} 입니다",
    "암호: {}",
    "La contraseña es {}",
    "contraseña: {}",
    "clave: {}",
    "La clave de acceso es {}",
    "A senha é {}",
    "senha: {}",
    "palavra-passe: {}",
    "La password è {}",
    "parola d'ordine: {}",
    "Пароль: {}",
    "Пароль от сервера: {}",
    "пароль такой: {}",
    "Пароль: «{}»",
    "密码是{}",
    "密码：{}",
    "密碼: {}",
    "口令：{}",
    "パスワード：{}",
    "パスワードは {} です",
    "暗証番号は{}です",
    "şifre: {}",
    "Şifre {} olarak ayarlandı",
    "parola: {}",
    "Parola este {}",
    "lösenord: {}",
    "Lösenordet är {}",
    "adgangskode: {}",
    "kodeord: {}",
    "Passordet er {}",
    "passord: {}",
    "salasana: {}",
    "heslo: {}",
    "Heslo je {}",
    "jelszó: {}",
    "A jelszó {}",
    "лозинка: {}",
    "парола: {}",
    "lozinka: {}",
    "geslo: {}",
    "κωδικός: {}",
    "Ο κωδικός είναι {}",
    "סיסמה: {}",
    "הסיסמה היא {}",
    "كلمة المرور: {}",
    "كلمة السر هي {}",
    "رمز عبور: {}",
    "पासवर्ड: {}",
    "पासवर्ड {} है",
    "পাসওয়ার্ড: {}",
    "پاس ورڈ: {}",
    "ਪਾਸਵਰਡ: {}",
    "கடவுச்சொல்: {}",
    "పాస్‌వర్డ్: {}",
    "पासवर्ड आहे: {}",
    "mật khẩu: {}",
    "Mật khẩu là {}",
    "รหัสผ่าน: {}",
    "รหัสผ่านคือ {}",
    "kata sandi: {}",
    "Kata sandinya {}",
    "sandi: {}",
    "kata laluan: {}",
    "nenosiri: {}",
    "пароль: {}",
    "slaptažodis: {}",
    "parole: {}",
    "salasõna: {}",
    "contrasenya: {}",
    "pasahitza: {}",
    "contrasinal: {}",
    "the wifi password at the cabin is {}",
    "la contraseña del wifi es {}",
    "hasło do wifi to {}",
    "heslo k serveru je {}",
    "Пароль — {}",
    "パスワードは「{}」です",
    "wifi şifresi {}",
    "salasana on {}",
    "parola pentru server este {}",
    "ο κωδικός πρόσβασης είναι {}",
    "kata sandi wifi: {}",
)


def short_numbers() -> Iterator[SecretSample]:
    """Numbers too short to be a secret, but for what they open."""
    for sentence, length in (
        ("my card PIN is {}", 4),
        ("Die PIN der EC-Karte lautet {}", 4),
        ("PIN of the alarm: {}", 6),
        ("CVV: {}", 3),
        ("exp 04/29 cvc {}", 3),
    ):
        value = make.of("123456789", length)
        yield SecretSample(sentence, value, fill(sentence, value))


def in_sentences() -> Iterator[SecretSample]:
    for sentence in SENTENCES:
        value = make.password()
        yield SecretSample(sentence, value, fill(sentence, value))


def harder_secrets() -> list[SecretSample]:
    return [*by_form(), *key_blocks(), *seed_phrases(), *in_places(), *one_time(), *short_numbers(), *in_sentences()]


# Ordinary texts


def of_machines() -> Iterator[str]:
    """Ids, hashes, public keys and encoded data, as they stand in logs, manifests and lock files."""
    ulid, kube = DIGITS + "ABCDEFGHJKMNPQRSTVWXYZ", "bcdfghjklmnpqrstvwxz2456789"
    yield from (
        f"commit {make.of(HEX, 40)}\nAuthor: Ada <ada@acme.dev>\n\n    Rotate the recovery codes",
        f"{make.of(HEX, 7)} Add login('user') to the client\n{make.of(HEX, 7)} Fix auth\n",
        f"Merge: {make.of(HEX, 7)} {make.of(HEX, 7)}",
        f"index {make.of(HEX, 7)}..{make.of(HEX, 7)} 100644",
        f"sha256:{make.of(HEX, 64)}",
        f"md5 {make.of(HEX, 32)}  backup.zip",
        f"{make.of(HEX, 64)}  memorist-0.1.0.tar.gz\n{make.of(HEX, 64)}  memorist-0.1.0-py3-none-any.whl",
        f"request_id={make.uuid()} status=401",
        f"user {make.uuid()} changed the password",
        f"trace 00-{make.of(HEX, 32)}-{make.of(HEX, 16)}-01",
        f'"resolved": "https://registry.npmjs.org/re_export/-/re_export-1.0.0.tgz", "sha512-{make.base64(64)}"',
        f'name = "serde"\nversion = "1.0.203"\nchecksum = "{make.of(HEX, 64)}"',
        f"flask==3.0.3 \\\n    --hash=sha256:{make.of(HEX, 64)} \\\n    --hash=sha256:{make.of(HEX, 64)}",
        f"golang.org/x/crypto v0.23.0 h1:{make.base64(32)}\ngolang.org/x/crypto v0.23.0/go.mod h1:{make.base64(32)}",
        f"![x](data:image/png;base64,{make.base64(400)})",
        f"src: url(data:font/woff2;base64,{make.base64(200)}) format('woff2');",
        make.pem("CERTIFICATE", 700),
        make.pem("PUBLIC KEY", 270),
        make.pem("PGP PUBLIC KEY BLOCK", 500),
        make.pem("SSH2 PUBLIC KEY", 300).replace("-----BEGIN SSH2", "---- BEGIN SSH2"),
        make.pem("CERTIFICATE REQUEST", 400),
        "\n".join(make.pem("CERTIFICATE", 500).split("\n")[4:]),
        "\n".join(make.pem("PUBLIC KEY", 270).split("\n")[2:]),
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{make.of(ALNUM, 43)} ada@laptop",
        f"SHA256:{make.of(ALNUM, 43)} ada@laptop (ED25519)",
        f"pod/api-{make.of(kube, 9)}-{make.of(kube, 5)} 1/1 Running",
        f"arn:aws:iam::{make.of('123456789', 12)}:role/deploy",
        f"vpc-{make.of(HEX, 17)} subnet-{make.of(HEX, 17)} sg-{make.of(HEX, 17)}",
        f"i-{make.of(HEX, 17)} is terminated",
        f"phc_{make.of(ALNUM, 43)} is the public key of the project",
        f"pk_live_{make.of(ALNUM, 24)} and pk-lf-{make.uuid()} may be public",
        f"toolu_01{make.of(ALNUM, 22)} msg_01{make.of(ALNUM, 22)} req_011C{make.of(ALNUM, 20)}",
        f"call_{make.of(ALNUM, 24)} chatcmpl-{make.of(ALNUM, 29)} resp_{make.of(HEX, 48)}",
        f"rs_{make.of(HEX, 50)} fc_{make.of(HEX, 50)} ws_{make.of(HEX, 50)}",
        f"cus_{make.of(ALNUM, 14)} sub_{make.of(ALNUM, 24)} price_{make.of(ALNUM, 24)} evt_{make.of(ALNUM, 24)}",
        f"thread_{make.of(ALNUM, 24)} run_{make.of(ALNUM, 24)} asst_{make.of(ALNUM, 24)} file-{make.of(ALNUM, 22)}",
        f"memory 01{make.of(ulid, 24)}",
        f"https://www.youtube.com/watch?v={make.of(WORD, 11)}",
        f"https://docs.google.com/document/d/{make.of(WORD, 44)}/edit",
        f"https://acme.dev/reset?lang=de&utm_source=mail&gclid={make.of(ALNUM, 60)}",
        f"0x{make.of(HEX, 40)} sent 2 ETH to 0x{make.of(HEX, 40)} in 0x{make.of(HEX, 64)}",
        f"bc1q{make.of(LOWER + '023456789', 38)}",
        f'ETag: W/"{make.of(HEX, 32)}"',
        f"Content-MD5: {make.base64(16)}",
        f"boundary=----WebKitFormBoundary{make.of(ALNUM, 16)}",
        f"docker.io/library/postgres@sha256:{make.of(HEX, 64)}",
        f"layer {make.of(HEX, 12)}: Pull complete",
        f"/nix/store/{make.of(LOWER + DIGITS, 32)}-zip-3.0/bin/zip -P is not safe",
        f'<script nonce="{make.base64(16)}" src="/a.{make.of(HEX, 8)}.js"></script>',
        f"chunk-{make.of(UPPER + DIGITS, 8)}.js 12.4 kB, main.{make.of(HEX, 20)}.css",
        f"serial number: C02{make.of(UPPER + DIGITS, 9)}",
        f"IMEI 35{make.of(DIGITS, 13)}, ICCID 8949{make.of(DIGITS, 15)}",
        f"IBAN DE{make.of(DIGITS, 20)}",
        f"order 2026-{make.of(DIGITS, 6)}, invoice R-{make.of(DIGITS, 8)}",
        f"tel. +49 30 {make.of(DIGITS, 8)}",
        f"UUID={make.uuid()} /boot ext4 defaults 0 2",
        f"X-Request-Id: {make.of(ALNUM, 32)}",
        f"next cursor: {make.base64(24)}",
        f"license: MIT, sku AB-{make.of(DIGITS, 4)}-{make.of(UPPER, 2)}",
    )


OF_PEOPLE = """
password: required
password at the login is checked twice
password from the vault to Keycloak24
the password on Windows11 is optional
password manager: Bitwarden2
password: !Ref DBPassword2
Пароль — обязательное поле
credentials: see team/Onboarding2024
login with github/google
PIN: 13 (GPIO)
PIN code 560001 Bangalore
The PIN is 4 digits long
CVC 2024 paper on vision
cvv: required
ENV PASSWORD_FILE /run/secrets/db1
#define PASS_COLOR "green2"
jwt.verify(token, publicKey, options)
hmac.new(secret.encode(), body, hashlib.sha256)
WiFi.begin(WIFI_SSID, WIFI_PASS);
net user ada /delete
snmpwalk -v2c -c public 192.0.2.1
echo "Changing it for ada" | passwd --help
password: string
password: null
password: ""
password: <your password>
password: ${DB_PASSWORD}
password: {{ db_password }}
password: !vault
password: *default_password
password: process.env.DB_PASSWORD
password = os.environ["DB_PASSWORD"]
password = getpass()
password = input("Password: ")
passwordField.value = ""
"password": {"type": "string", "minLength": 8}
Password must have at least 12 characters.
The password is wrong.
The password is too short, choose another one.
the password is in the vault
I forgot my password again
password reset link sent to ada@acme.dev
Change your password every 90 days? No longer recommended.
auth=(user, password)
auth=('user', 'pass')
auth=HTTPBasicAuth(username, password)
requests.get(url, auth=(os.environ["USER"], os.environ["PASS"]))
login('username', 'password')
login(user, password)
client.login("ada", password)
server.login(settings.user, settings.password)
def login(self, user: str, password: str) -> None:
router.push('login', 'dashboard')
app.get('/login', 'home')
connect('localhost', 5432)
connect("click", "on_clicked")
ssh.connect('web1', username='ada', key_filename='id_ed25519')
authenticate('google', { scope: ['profile'] })
passport.authenticate('local', 'session')
sqlcmd -S db1 -U sa -P $SA_PASSWORD
sqlcmd -S db1 -E -i schema.sql
unzip -p archive.zip file.txt
zip -r backup.zip docs
mkdir -p build/output
cp -p file1.txt file2.txt
docker run -p 8080:80 nginx
ssh -p 2222 ada@web1
mongosh -p
mysql -u root -p
psql -h db1 -p 5432 -U app
nc -p 4444 host1
tar -k -xf backup1.tar
openssl x509 -in cert.pem -noout -text
ldapsearch -x -LLL -b dc=acme
lftp -u ada sftp://web1
echo done | tee log1.txt
echo "hello123" | md5sum
echo $PASSWORD | docker login --username ada --password-stdin
echo "$PW" | sudo -S true
sqlplus /nolog
sqlplus / as sysdba
net use Z: /delete
xfreerdp /u:ada /v:win1
smbclient -L //nas -U ada
7z x backup.7z -odocs
WIFI:T:nopass;S:Cafe;;
WIFI is down again in room P:4
wifi: connect to the guest network
variable "db_password" {\\n  type      = string\\n  sensitive = true\\n}
variable "region" {\\n  default = "eu-west-1"\\n}
variable "db_password" {\\n  type    = string\\n  default = null\\n}
output "password" {\\n  value     = random_password.db.result\\n  sensitive = true\\n}
variable "password_length" {\\n  default = "20"\\n}
- name: DB_HOST\\n  value: db1.acme.dev
- name: DB_PASSWORD\\n  valueFrom:\\n    secretKeyRef:\\n      name: db\\n      key: password
- value: eu-west-1\\n  name: REGION
- name: PASSWORD_MIN_LENGTH\\n  value: "12"
{"name": "password", "value": ""}
{"value": "Ada", "name": "first_name"}
{"key": "theme", "value": "dark2"}
<property><name>db.host</name><value>db1.acme.dev</value></property>
<entry key="password"></entry>
<input type="password" name="password" placeholder="Your password">
<label for="password">Password</label>
Recovery codes are printed once; keep them in a safe place.
Backup codes: see 1Password
Download your recovery codes before 2026-03-01.
The recovery code path is covered by 14 tests in test_recovery.py
Backup code review: 3 files, 120 lines, 2 comments
Error codes: 1001, 1002, 1003, 1004
Country codes: DE, FR, ES, IT
One-time codes expire after 30 seconds.
zip codes: 10115, 10117, 10119, 10178
Colour codes: ff0000, 00ff00, 0000ff
1. apple\\n2. bread\\n3. milk\\n4. eggs\\n5. cheese
1. Install\\n2. Configure\\n3. Run\\n4. Test\\n5. Deploy\\n6. Watch\\n7. Repeat
1) open the door 2) close the window 3) turn the light off
about above across after again against all almost alone along already also
The wallet has room for twelve cards and a photo of the family at the lake.
seed data for the test database: users, orders, items
random_state=42, seed=1234567
mnemonic: Never Eat Soggy Waffles
apple,banana,cherry,orange,pear,plum,grape,melon,lemon,peach,mango,kiwi
id,name,city\\n1,Ada,London\\n2,Grace,New York\\n3,Linus,Helsinki
Das Passwort ist falsch.
Das Passwort muss mindestens 12 Zeichen haben.
Passwort vergessen? Hier klicken.
Passwort: erforderlich
Das Kennwort lautet anders als gestern.
Bitte das Kennwort ändern
Le mot de passe est obligatoire.
Le mot de passe est incorrect
mot de passe oublié ?
Mot de passe : 12 caractères minimum
La contraseña es demasiado corta
contraseña: obligatorio
¿Olvidaste tu contraseña?
La clave del éxito es la paciencia
clave: valor
clave: Montevideo
palabra clave: memoria
A senha é obrigatória
Esqueci minha senha
La parola chiave: memoria
La parola d'ordine: pazienza
Paroles : Jacques Brel
parole: libertà
Het wachtwoord is verlopen.
wachtwoord vergeten
Hasło jest wymagane
Zapomniałem hasła, a hasło to podstawa
Пароль неверный, попробуйте ещё раз
Пароль должен содержать не менее 8 символов
пароль: обязательно
Забыли пароль?
密码错误，请重试
密码长度至少为8位
请输入密码
パスワードを忘れた場合
パスワードは8文字以上です
비밀번호를 잊으셨나요?
비밀번호는 8자 이상이어야 합니다
암호화 방식: AES-256
암호화폐 시장 분석 2026
şifre: gerekli
Şifre yanlış, tekrar deneyin
Lösenordet är för kort
Passordet er feil
Heslo je příliš krátké
heslo: povinné
A jelszó legalább 8 karakter
κωδικός: 10558
Ο κωδικός είναι λάθος
סיסמה: חובה
كلمة المرور مطلوبة
पासवर्ड गलत है
पासवर्ड: आवश्यक
mật khẩu: bắt buộc
รหัสผ่านไม่ถูกต้อง
รหัสสินค้า: A1234
kata sandi: wajib
sandi morse: SOS
rapid7 and 7zip are programs
re_match and re_search_pattern_compiled_once are functions
pa-rest-service-endpoint-configuration-v2 is a host
fc-cache -fv rebuilds the list of fonts
fw_setenv and fw_printenv change the boot loader's variables
sk_buff and sk_lookup_reuseport_kern are names in the kernel
jina_embeddings_v3_base_en_model_loader_config
sl.Screen.Recording.2026.mp4
AQ.Ab is a form
csk-learn-and-scikit-learn-compatibility-layer
bb_live_view_component_for_phoenix_apps
m0-settings and m1-settings differ
""".strip().split("\n")


def look_alikes() -> list[str]:
    return [*of_machines(), *(text.replace("\\n", "\n") for text in OF_PEOPLE)]
