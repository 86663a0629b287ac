"""The real server as its own process, for tests that talk to it over loopback."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from timeouts import MAX_WAIT_SECONDS

TOKEN = "a-token-for-tests-0123456789"


@dataclass(frozen=True)
class WebServer:
    """A server that runs: where it is, the link that opens its page once, and its process."""

    url: str
    page: str
    process: "subprocess.Popen[str]"
    log: Path

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def address(self) -> tuple[str, int]:
        name, _, port = self.host.rpartition(":")
        return name, int(port)

    @property
    def api(self) -> str:
        return f"{self.url}/api/v1"


@contextmanager
def web_server(
    target: Path | str,
    *arguments: str,
    token: str | None = TOKEN,
    embedder: str = "none",
    environ: Mapping[str, str] | None = None,
    command: str = "serve",
    workers: int = 1,
) -> Iterator[WebServer]:
    """Run `memorist serve` on a port that the system picks, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="memorist-web-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # a test may read the log of a server that has ended
    log = folder / "stderr"
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MEMORIST_")},
        "MEMORIST_EMBEDDER": embedder,
        "MEMORIST_WORKERS": str(workers),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        **({} if token is None else {"MEMORIST_HTTP_TOKEN": token}),
        **(environ or {}),
    }
    port: Sequence[str] = () if "--port" in arguments else ("--port", "0")
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "memorist", "--db", str(target), command, *port, *arguments],
            stdout=subprocess.DEVNULL, stderr=errors, text=True, env=variables, cwd=folder,
        )  # fmt: skip
    try:
        yield _wait_for_address(process, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(MAX_WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_address(process: "subprocess.Popen[str]", log: Path) -> WebServer:
    import time

    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < deadline:
        said = log.read_text()
        if found := re.search(r"(http://\S+?)/login\?key=\S+", said):
            return WebServer(found[1], found[0], process, log)
        if process.poll() is not None:
            raise AssertionError(f"the server ended: {said}")
        time.sleep(0.02)
    raise AssertionError("the server did not start in time")
