"""What several test files need: a memory in a file, the real models loaded once, and a small deterministic one."""

import hashlib
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import hypothesis
import pytest

import memorist
from empty_memory import place_empty_memory
from memorist import Memorist
from memorist.embed import onnx_models
from memorist.embed.local import LocalEmbedder
from web_server import TOKEN, WebServer, web_server

MODELS = Path(__file__).parents[1] / "models"

# A script that runs in the background ignores this signal, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow, which says nothing about the code; and the examples of a test may share a memory.
hypothesis.settings.register_profile(
    "busy machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("busy machine")

pytest_plugins = ["postgres_fixtures"]
collect_ignore = ["frameworks"]  # in environments of their own: scripts/test-adapters


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than there are processors, for tests wait for the disk and for each other's processes."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Run what is said of a memory on both databases, unless a test looks into the file itself; and over HTTP, unless it
    needs more than the memory that it is given.
    """
    if "target" in metafunc.fixturenames:
        looks_into_file = "path" in metafunc.fixturenames or metafunc.definition.get_closest_marker("sqlite_only")
        backends = ["sqlite"] if looks_into_file else ["sqlite", "postgres"]
        if not looks_into_file and _can_be_remote(metafunc):
            backends.append("remote")
        metafunc.parametrize("target", backends, indirect=True)


def _can_be_remote(metafunc: pytest.Metafunc) -> bool:
    fixtures = {*metafunc.fixturenames} - {"empty_target", "target"} | {*metafunc.definition._fixtureinfo.argnames}
    is_local = metafunc.definition.get_closest_marker("local_only") is not None
    at_top = Path(metafunc.module.__file__ or "").parent == Path(__file__).parent
    return at_top and not is_local and "memory" in fixtures and not fixtures & _NEEDS_A_PROCESS_OF_ITS_OWN


# A server has one model, and neither its machine nor its files are those of a client.
_NEEDS_A_PROCESS_OF_ITS_OWN = {"target", "empty_target", "hashed", "understanding", "path", "monkeypatch", "caplog"}


class HashingEmbedder:
    """Words as directions: deterministic and instant, for tests that need vectors but no understanding."""

    def __init__(self, model_id: str = "hashing-64", dimensions: int = 64) -> None:
        self.model_id = model_id
        self.dimensions = dimensions
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.lower().split() or [""]:
            vector[int.from_bytes(hashlib.blake2b(word.encode()).digest()[:4]) % self.dimensions] += 1.0
        return vector


class FailingEmbedder(HashingEmbedder):
    """A model that can be switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = True

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.broken:
            raise ConnectionError("the model is away")
        return super().embed(texts)


@pytest.fixture(scope="session")
def bundled_model() -> Iterator[LocalEmbedder]:
    """The bundled model, loaded once for all tests."""
    embedder = LocalEmbedder(threads=2)
    yield embedder
    embedder.close()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which no further model is installed; what is given is an empty folder for models."""
    monkeypatch.setattr(onnx_models.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Path | str:
    """Where a memory is: a file, or a database on a server."""
    fixtures = {"sqlite": "path", "postgres": "postgres_url", "remote": "namespace_url"}
    found: Path | str = request.getfixturevalue(fixtures[getattr(request, "param", "sqlite")])
    return found


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A server for all tests of this process, each of which has a namespace of its own there."""
    with web_server(tmp_path_factory.mktemp("served") / "memory.db") as running:
        yield running


@pytest.fixture
def namespace_url(shared_server: WebServer) -> str:
    """The address of an empty namespace on a server."""
    return f"{shared_server.url}#{uuid4()}"


@pytest.fixture
def empty_target(target: Path | str) -> Path | str:
    """Where an empty memory is already."""
    if isinstance(target, Path):
        place_empty_memory(target)
    return target


@pytest.fixture
def memory(empty_target: Path | str) -> Iterator[Memorist]:
    """Keyword search only: instant, for everything that is not about vectors."""
    with _open(empty_target) as opened:
        yield opened


def _open(target: Path | str) -> Memorist:
    if str(target).startswith("http:"):
        url, _, namespace = str(target).partition("#")
        return memorist.connect(url, token=TOKEN, namespace=namespace)
    return memorist.open(target, embedder="none")


@pytest.fixture
def hashed(empty_target: Path | str) -> Iterator[Memorist]:
    """With vectors that know words but no meaning."""
    with memorist.open(empty_target, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
def understanding(empty_target: Path | str, bundled_model: LocalEmbedder) -> Iterator[Memorist]:
    """With the bundled model."""
    with memorist.open(empty_target, embedder=bundled_model) as opened:
        yield opened


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database: 2,000 memories with vectors, every second one forgotten. To be copied."""
    folder = tmp_path_factory.mktemp("filled")
    with memorist.open(folder / "memory.db", embedder=HashingEmbedder()) as memory:
        memory.add_many(f"live {number} {'and well ' * 20}" for number in range(1000))
        for id in memory.add_many(f"forgotten {number} {'and hidden ' * 20}" for number in range(1000)):
            memory.forget(id)
    return folder


@pytest.fixture
def copy(filled: Path, tmp_path: Path) -> Callable[[], Path]:
    """Gives a fresh copy of the filled database, each time at another path."""

    def one() -> Path:
        folder = tmp_path / f"copy {len(list(tmp_path.iterdir()))}"
        shutil.copytree(filled, folder)
        return folder / "memory.db"

    return one


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped, by its reason: a run that is green may have left something out."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"{len(skipped)} skipped")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5} {reason}")
