"""
Prove that Memorist phones nobody: run every surface in an empty home, and list its sockets, look-ups and files.

    .venv/bin/python scripts/prove_offline.py               # this checkout, then its wheel in an empty environment
    .venv/bin/python scripts/prove_offline.py --checkout    # this checkout alone; no network is needed
    .venv/bin/python scripts/prove_offline.py --seconds 60  # how long servers, watch and chat are left at rest

It needs strace (Linux), which sees native libraries too. Variables by which onnxruntime recognises a CI machine, and
stays silent by itself, are removed. It ends with 1 if a surface opens a socket that is not its own, looks up a name, or
writes outside of the database's folder and Memorist's own folders. tests/test_offline.py runs a short form.
"""

import argparse
import ast
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 120.0  # seconds until something that was asked for must have happened
PROVIDER = "127.0.0.1:9"  # of the chat; nobody listens there
SILENCING = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "CIRCLECI", "ORT_DISABLE_TELEMETRY")

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "proof", "version": "1"}},
}
ADD, SEARCH = (
    {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    for number, (tool, arguments) in enumerate(
        {
            "memory_add": {"content": "We deploy with make ship from the release branch"},
            "memory_search": {"query": "releasing software to production"},
        }.items(),
        1,
    )
)
LIBRARY = """
import sys, memorist
with memorist.open("data/memory.db") as memory:
    memory.add("We deploy with make ship from the release branch")
    memory.documents.index(["notes"])
    memory.search("releasing software to production")
    memory.context("how do we deploy?")
    print("ready", flush=True)
    sys.stdin.read()
"""
# Every command but those that are surfaces of their own; {a} and {b} are ids.
COMMAND_LINES = """
    --version
    --help
    token
    admin distribute --help
    update {a} --tag ferry
    edit {a}
    get {a}
    list
    timeline
    related {a}
    relate {a} {b} about
    reinforce {a}
    pin {a}
    fact add {a} "The ferry leaves at nine"
    session list
    lens list
    supersede {a} {b}
    search "when does the boat leave" --record log
    recalls
    projects
    tags
    dupes
    index notes
    docs "how are retries capped?"
    context "when does the boat leave"
    install
    install claude-code --dry-run
    export data/export.jsonl
    import session.jsonl
    backup create data/copy.db
    forget {a}
    restore {a}
    purge --yes
    stats
    check
    salvage data/copy.db data/salvaged.db
    migrate data/copy.db data/moved.db
    reembed
    models list
    config
    config set profile precise
    config unset profile
    trust --list
    demo
    feedback {b} good --query "how often do we retry?"
    eval --from-recalls
"""
EVERY_COMMAND = """
import contextlib, io, json, os, shlex, sys
from memorist.cli.app import main
os.environ["EDITOR"] = "true"

def run(line):
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main(shlex.split(line))
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"{line}: {printed.getvalue()}")
    return printed.getvalue()

ids = {name: json.loads(run(f'add "{text}" --project api --json'))["id"]
       for name, text in {"a": "The ferry leaves at nine", "b": "Retries are capped at five"}.items()}
for line in sys.argv[1].strip().splitlines():
    run(line.strip().format(**ids))
print("ready", flush=True)
sys.stdin.read()
"""


# What was seen


@dataclass
class Seen:
    """What a surface did: its sockets, its look-ups of names, and the files it wrote or created."""

    sockets: set[str] = field(default_factory=set)
    lookups: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def add(self, other: "Seen") -> None:
        self.sockets |= other.sockets
        self.lookups |= other.lookups
        self.files |= other.files


class Place:
    """An empty home, a database's folder, a working folder with notes, and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.home, self.data, self.temporary = (self.folder / name for name in ("home", "data", "tmp"))
        self.notes, self.transcript = self.folder / "notes", self.folder / "session.jsonl"
        for each in (self.home, self.data, self.temporary, self.notes):
            each.mkdir()
        (self.notes / "retries.md").write_text("# Retries\n\nRetries are capped at 5.\n", "utf-8")
        said = {"type": "user", "uuid": "u-0", "sessionId": "s-1", "timestamp": "2026-11-15T10:00:00Z"}
        said |= {"cwd": str(self.folder), "message": {"role": "user", "content": "We moved the ferry to nine"}}
        self.transcript.write_text(json.dumps(said) + "\n", "utf-8")
        self._given = set(self.folder.rglob("*"))

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {
            name: value
            for name, value in os.environ.items()
            if name not in SILENCING and not name.startswith(("MEMORIST_", "XDG_", "PYTHON"))
        }
        homes = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(self.home))
        temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(self.temporary))
        settings = {"MEMORIST_DB": str(self.data / "memory.db"), "PYTHONDONTWRITEBYTECODE": "1"}
        chat = {"MEMORIST_CHAT": "anthropic:some-model", "ANTHROPIC_API_KEY": "none", "OLLAMA_HOST": PROVIDER}
        return own | homes | temporary | settings | chat | dict(more)

    def find_new_files(self) -> set[str]:
        return {str(path) for path in self.folder.rglob("*") if path not in self._given and path.is_file()}

    def is_own(self, file: str) -> bool:
        """Check that a file is in the database's folder or in a folder of Memorist's, or was temporary."""
        path = Path(os.path.normpath(file))
        if path.is_relative_to(self.home):
            below = path.relative_to(self.home).parts
            # Folders on the way to its own are created where they are missing.
            return "memorist" in below or (path.is_dir() and bool(below) and any(path.rglob("memorist")))
        if path.is_relative_to(self.temporary):
            return path == self.temporary or not path.exists()  # opened itself, it holds a file without a name
        return path.is_relative_to(self.data) or file in ("/dev/null", "/dev/tty")


# Two ways to watch a program


class Watcher(ABC):
    """A way to start a program and see what it and its children do."""

    @abstractmethod
    def wrap(self, command: Sequence[str], log: Path) -> list[str]:
        """Return the command that runs `command` and writes what it does to a log."""

    @abstractmethod
    def environment(self, log: Path, source: Path | None) -> dict[str, str]:
        """Return the variables that the program needs, with the folder of its source, if it is not installed."""

    @abstractmethod
    def read(self, log: Path, folder: Path) -> Seen:
        """Return what a program did that was started in a folder."""


class Strace(Watcher):
    """Watch the system calls: nothing is hidden from it. Linux only."""

    _FILE_CALLS = "openat openat2 open creat mkdir mkdirat rename renameat renameat2 link linkat symlink symlinkat"
    _CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
    _PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
    _ADDRESS = re.compile(
        r"sa_family=(AF_\w+)(?:, sin6?_port=htons\((\d+)\))?.*?"
        r"(?:inet_addr\(\"|inet_pton\(AF_INET6, \"|sun_path=@?\")([^\"]*)"
    )
    _NAME_FILES = ("/etc/resolv.conf", "/etc/hosts")
    _NAME_SERVICES = ("nscd", "resolve", "avahi", "mdns")

    @classmethod
    def works(cls) -> bool:
        """Check that there is a strace that may trace."""
        if not shutil.which("strace"):
            return False
        traced = subprocess.run(cls().wrap(["true"], Path(os.devnull)), capture_output=True, check=False)
        return traced.returncode == 0

    def wrap(self, command: Sequence[str], log: Path) -> list[str]:
        calls = ",".join(["%network", *(f"?{name}" for name in self._FILE_CALLS.split())])
        options = ["-D", "-f", "-qq", "-y", "-s", "4096", "--seccomp-bpf", "-e", f"trace={calls}", "-e", "signal=none"]
        return ["strace", *options, "-o", str(log), *command]

    def environment(self, log: Path, source: Path | None) -> dict[str, str]:
        return {"PYTHONPATH": str(source)} if source else {}

    def read(self, log: Path, folder: Path) -> Seen:
        seen = Seen()
        for name, arguments, result in self._calls(log.read_text("utf-8", "replace")):
            if name in self._FILE_CALLS.split():
                self._read_file_call(seen, name, arguments, result, folder)
            else:
                self._read_socket_call(seen, name, arguments)
        return seen

    def _calls(self, text: str) -> Iterator[tuple[str, str, int]]:
        """Yield each call with its arguments and result; one that another thread interrupted is put together again."""
        begun: dict[str, str] = {}
        for line in text.splitlines():
            pid, _, rest = line.partition(" ")
            rest = rest.strip()
            if rest.endswith("<unfinished ...>"):
                begun[pid] = rest.removesuffix("<unfinished ...>")
                continue
            if resumed := re.match(r"<\.\.\. \w+ resumed>", rest):
                rest = begun.pop(pid, "") + rest[resumed.end() :]
            if call := self._CALL.match(rest):
                yield call[1], call[2], int(call[3])
        for rest in begun.values():  # the program ended in the middle of it
            yield rest.partition("(")[0], rest.partition("(")[2], 0

    def _read_file_call(self, seen: Seen, name: str, arguments: str, result: int, folder: Path) -> None:
        paths = [
            os.path.normpath(
                os.path.join(base or str(folder), ast.literal_eval(f'b"{path}"').decode("utf-8", "replace"))
            )
            for base, path in self._PATH.findall(arguments)
        ]
        is_open = name.startswith("open")
        if is_open and paths and paths[0] in self._NAME_FILES:
            seen.lookups.add(f"read {paths[0]}")
        writes = not is_open or re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE", arguments)
        if writes and paths and result >= 0:
            seen.files.add(paths[-1])

    def _read_socket_call(self, seen: Seen, name: str, arguments: str) -> None:
        if name == "socket" and not arguments.startswith(("AF_UNIX", "AF_LOCAL")):
            seen.sockets.add("socket " + arguments.partition(",")[0])
        if name not in ("connect", "bind", "sendto", "sendmsg", "sendmmsg"):
            return
        for family, port, address in self._ADDRESS.findall(arguments):
            is_service = family == "AF_UNIX" and any(part in address for part in self._NAME_SERVICES)
            if port in ("53", "853", "5353") or is_service:
                seen.lookups.add(f"asked {address}")
            else:
                seen.sockets.add(f"{name} {address}" + (f":{port}" if port else ""))


class AuditHook(Watcher):
    """Watch what Python itself does, on any system; of native libraries, only the files they leave are seen."""

    _HOOK = """
import json, os, sys
log = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
MAKING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int) or not flags & MAKING:
            return
        about = [os.path.abspath(os.fsdecode(path))]
    elif event == "os.mkdir":
        about = [os.path.abspath(os.fsdecode(arguments[0]))]
    elif event in ("os.rename", "os.link", "os.symlink"):
        about = [os.path.abspath(os.fsdecode(arguments[1]))]
    elif event == "socket.__new__":
        about = [int(arguments[1])]
    elif event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"):
        about = [str(part) for part in arguments[1]] if isinstance(arguments[1], tuple) else [str(arguments[1])]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"):
        about = [str(arguments[0])]
    else:
        return
    os.write(log, (json.dumps([event, about]) + "\\n").encode())

sys.addaudithook(hook)
"""

    def wrap(self, command: Sequence[str], log: Path) -> list[str]:
        folder = log.with_suffix(".hook")
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(self._HOOK.format(log=str(log)), "utf-8")
        log.touch()
        return list(command)

    def environment(self, log: Path, source: Path | None) -> dict[str, str]:
        folders = [log.with_suffix(".hook"), *([source] if source else [])]
        return {"PYTHONPATH": os.pathsep.join(map(str, folders))}

    def read(self, log: Path, folder: Path) -> Seen:
        seen = Seen()
        for event, about in map(json.loads, log.read_text("utf-8").splitlines()):
            if event == "open" or event.startswith("os."):
                seen.files.add(about[0])
            elif event.startswith("socket.get"):
                if not re.fullmatch(r"[\d.]+|[\da-f:]+|None", about[0]):  # an address is no name
                    seen.lookups.add(f"asked for {about[0]}")
            elif event == "socket.__new__":
                family = socket.AddressFamily(about[0]).name
                if family != "AF_UNIX":
                    seen.sockets.add(f"socket {family}")
            else:
                seen.sockets.add(f"{event.removeprefix('socket.')} {':'.join(about[:2])}")
        return seen


# The surfaces


@dataclass
class Run:
    """One program that runs while it is watched."""

    process: subprocess.Popen[bytes]
    place: Place
    rest: float  # seconds
    said: str = ""

    def say(self, *messages: object) -> None:
        assert self.process.stdin
        for message in messages:
            text = message if isinstance(message, str) else json.dumps(message) + "\n"
            self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline().decode()
        self.said += line
        if not line:
            raise RuntimeError(f"it ended early: {self.said}")
        return line

    def read_to_end(self) -> None:
        assert self.process.stdout
        with suppress(OSError):  # how a terminal ends
            while more := self.process.stdout.read(1 << 16):
                self.said += more.decode()

    def stay_at_rest(self) -> None:
        """Leave it alone for a while, in which it must not end."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(self.rest)
            self.read_to_end()
            raise RuntimeError(f"it ended by itself, with {self.process.returncode}: {self.said}")

    def end_input(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()


def run_to_its_end(run: Run) -> None:
    run.end_input()


def use_program(run: Run) -> None:
    run.hear()
    run.stay_at_rest()
    run.end_input()


def talk_over_stdio(run: Run) -> None:
    run.say(HELLO)
    run.hear()
    run.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for message in (ADD, SEARCH):
        run.say(message)
        assert '"isError":false' in run.hear()
    run.stay_at_rest()
    run.end_input()


def talk_over_http(run: Run) -> None:
    address = run.hear().split()[-1]
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for message in (HELLO, ADD, SEARCH):
        request = urllib.request.Request(address, json.dumps(message).encode(), headers)
        with direct.open(request, timeout=LONGEST) as answer:
            answer.read()
            headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
    run.stay_at_rest()
    run.process.send_signal(signal.SIGTERM)


def open_page(run: Run) -> None:
    api, page = run.hear().split()[-1], ""
    while "/login?key=" not in page:  # after what is said about the browser
        page = run.hear().split()[-1]
    home = api.removesuffix("/api/v1")
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    headers = {"Content-Type": "application/json", "Origin": home}
    search = urllib.request.Request(f"{api}/search", b'{"query": "the ferry"}', headers)
    for request in (page, f"{api}/openapi.json", search):
        with direct.open(request, timeout=LONGEST) as answer:
            answer.read()
    run.stay_at_rest()
    run.process.send_signal(signal.SIGTERM)


def change_watched_file(run: Run) -> None:
    run.hear()
    (run.place.notes / "retries.md").write_text("# Retries\n\nRetries are capped at 7.\n", "utf-8")
    run.hear()
    run.stay_at_rest()
    run.process.send_signal(signal.SIGTERM)


def wait_at_chat_prompt(run: Run) -> None:
    run.hear()
    run.stay_at_rest()
    run.say("/help\n", "/quit\n")


def hook(name: str, **fields: str) -> Callable[[Run], None]:
    """Return what a client says to a hook."""

    def talk(run: Run) -> None:
        place = run.place
        event = {"session_id": "s-1", "transcript_path": str(place.transcript), "cwd": str(place.folder)}
        run.say(event | {"hook_event_name": name} | fields)
        run.end_input()
        run.process.wait(LONGEST)
        deadline = time.monotonic() + LONGEST
        while any(place.home.rglob("unsaved/*.json")) and time.monotonic() < deadline:
            time.sleep(0.05)  # another process makes the vectors

    return talk


@dataclass(frozen=True)
class Surface:
    """A way to use Memorist: programs that run one after another, and what is said to each."""

    name: str
    programs: Sequence[tuple[Sequence[str], Callable[[Run], None]]]
    extra: str | None = None  # that has to be installed
    terminal: bool = False
    sockets: str = "(?!)"  # a pattern of those that are its own
    ends: tuple[int, ...] = (0,)


def command(*arguments: str) -> tuple[str, ...]:
    return ("-m", "memorist", *arguments)


SURFACES = (
    Surface("library", [(("-c", LIBRARY), use_program)]),
    Surface(
        "command line",
        [
            (command("add", "We deploy with make ship"), run_to_its_end),
            (command("search", "releasing software to production"), run_to_its_end),
        ],
    ),
    Surface("every other command", [(("-c", EVERY_COMMAND, COMMAND_LINES), use_program)]),
    Surface(
        "hooks",
        [
            (command("hook", "SessionStart"), hook("SessionStart", source="startup")),
            (command("hook", "UserPromptSubmit"), hook("UserPromptSubmit", prompt="when does the ferry leave?")),
            (command("hook", "SessionEnd"), hook("SessionEnd")),
        ],
    ),
    Surface("chat at its prompt", [(command("chat"), wait_at_chat_prompt)], terminal=True),
    Surface(
        "chat with its provider",  # which is away
        [(command("chat", "when does the ferry leave?", "--model", "ollama:some-model"), run_to_its_end)],
        sockets=f"socket AF_INET|connect {re.escape(PROVIDER)}",
        ends=(1,),
    ),
    Surface("watch", [(command("watch", "notes"), change_watched_file)], extra="watch"),
    Surface("MCP over stdio", [(command("mcp"), talk_over_stdio)], extra="mcp"),
    Surface(
        "MCP over HTTP",
        [(command("mcp", "--http", "127.0.0.1:0"), talk_over_http)],
        extra="mcp",
        sockets=r"socket AF_INET|bind 127\.0\.0\.1:0",
        ends=(0, -signal.SIGTERM),
    ),
    Surface(
        "HTTP API and page",
        [(command("serve", "--port", "0"), open_page), (command("ui", "--port", "0"), open_page)],
        extra="web",
        sockets=r"socket AF_INET|bind 127\.0\.0\.1:0",
        ends=(0, -signal.SIGTERM),
    ),
)


def observe(
    surface: Surface, place: Place, watcher: Watcher, python: str, *, source: Path | None = None, rest: float
) -> Seen:
    """Run the programs of a surface, and return what they did."""
    seen = Seen()
    for number, (arguments, talk) in enumerate(surface.programs):
        log = place.folder.parent / f"{place.folder.name}-{number}.log"
        wrapped = watcher.wrap([python, *arguments], log)
        environment = place.environment(watcher.environment(log, source))
        with started(wrapped, environment, place, terminal=surface.terminal) as process:
            run = Run(process, place, rest)
            talk(run)
            run.read_to_end()  # a tracer has the output open, too, until the program's last child has ended
        if process.returncode not in surface.ends:
            raise RuntimeError(f"{surface.name} ended with {process.returncode}: {run.said}")
        seen.add(watcher.read(log, place.folder))
    seen.files |= place.find_new_files()
    return seen


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], place: Place, *, terminal: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, which does not outlive the block."""
    pipe = subprocess.PIPE
    given = {"stdin": pipe, "stdout": pipe, "stderr": subprocess.STDOUT}
    if terminal:
        import pty

        side, other = pty.openpty()
        given = dict.fromkeys(given, other)
    process = subprocess.Popen(command, env=environment, cwd=place.folder, **given)  # type: ignore[call-overload]
    if terminal:
        os.close(other)
        process.stdin, process.stdout = os.fdopen(os.dup(side), "wb"), os.fdopen(side, "rb", 0)
    watchdog = threading.Timer(LONGEST, process.kill)
    watchdog.start()
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        watchdog.cancel()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                stream.close()
        process.wait()


def find_faults(surface: Surface, seen: Seen, place: Place) -> list[str]:
    """Return what a surface must not have done."""
    sockets = [one for one in sorted(seen.sockets) if not re.fullmatch(surface.sockets, one)]
    files = [file for file in sorted(seen.files) if not place.is_own(file)]
    return [*sockets, *sorted(seen.lookups), *files]


# The proof, by hand


def prove(label: str, surfaces: Iterable[Surface], python: str, source: Path | None, rest: float) -> int:
    """Print a row for each surface, and return how many were at fault."""
    print(f"\n{label}\n\n{'surface':<24} {'sockets':<36} {'look-ups':<10} files\n{'-' * 100}")
    at_fault = 0
    for surface in surfaces:
        with tempfile.TemporaryDirectory() as folder:
            place = Place(make_folder(Path(folder) / "place"))
            seen = observe(surface, place, Strace(), python, source=source, rest=rest)
            faults = find_faults(surface, seen, place)
            # SQLite's files beside a database, and files that are renamed once they are whole, go without saying.
            files = sorted(
                {
                    re.sub(r"(\.\w+\.part)?(-journal|-shm|-wal)?$", "", file.replace(str(place.folder), ""))
                    for file in seen.files
                    if not Path(file).is_dir()
                }
            )
            sockets, lookups = "; ".join(sorted(seen.sockets)) or "none", "; ".join(sorted(seen.lookups)) or "none"
            print(f"{surface.name:<24} {sockets:<36} {lookups:<10} {' '.join(files) or 'none'}", flush=True)
        for fault in faults:
            print(f"    NOT ALLOWED: {fault}", flush=True)
        at_fault += bool(faults)
    return at_fault


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def install_wheel(folder: Path) -> tuple[str, Path]:
    """Build the wheel and install it into an empty environment; return its Python and the wheel."""
    run_pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "empty")], check=True)
    python = str(folder / "empty" / "bin" / "python")
    run_pip("--python", python, "install", str(wheel))
    return python, wheel


def run_pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)


def print_size(python: str) -> None:
    site = next((Path(python).parents[1] / "lib").glob("python*/site-packages"))
    packages = sorted(folder.stem for folder in site.glob("*.dist-info"))
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    print(f"\nThe wheel in an empty environment: {len(packages)} packages, {size / 1e6:.0f} MB:")
    print(", ".join(packages))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--checkout", action="store_true", help="leave out the wheel")
    parser.add_argument("--seconds", type=float, default=15, help="at rest (default: %(default)s)")
    options = parser.parse_args()
    if not Strace.works():
        parser.error("strace is needed, and must be allowed to trace")
    at_fault = prove("This checkout", SURFACES, sys.executable, ROOT / "src", options.seconds)
    if not options.checkout:
        with tempfile.TemporaryDirectory() as folder:
            python, wheel = install_wheel(Path(folder))
            print_size(python)
            bare = [surface for surface in SURFACES if not surface.extra]
            at_fault += prove("The wheel, without extras", bare, python, None, options.seconds)
            run_pip("--python", python, "install", f"{wheel}[all]")
            at_fault += prove("The wheel with all extras", SURFACES, python, None, options.seconds)
    print(f"\n{at_fault} surfaces at fault" if at_fault else "\nNothing left this machine")
    return 1 if at_fault else 0


if __name__ == "__main__":
    sys.exit(main())
