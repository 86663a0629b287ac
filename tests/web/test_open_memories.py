"""The memories that a server has open: of too many namespaces, those that nobody uses are closed."""

from pathlib import Path

import pytest

import memorist
from memorist import Memorist
from memorist.errors import StoreError
from memorist.web import memories
from memorist.web.memories import OpenMemories
from memorist.web.problems import Refusal


@pytest.fixture
def opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenMemories:
    monkeypatch.setattr(memories, "MAX_NAMESPACES", 3)

    def open_namespace(namespace: str, embedder: object) -> Memorist:
        return memorist.open(path, namespace=namespace, embedder="none")

    return OpenMemories(open_namespace, "default")


def test_the_namespace_that_is_idle_for_longest_makes_room(opened: OpenMemories) -> None:
    seen = {}
    for name in ("default", "a", "b", "a", "c"):
        with opened.use(name) as memory:
            seen[name] = memory
            memory.add(name)

    assert seen["default"].count() == seen["a"].count() == seen["c"].count() == 1
    with pytest.raises(StoreError, match="closed"):
        seen["b"].count()
    with opened.use("b") as memory:
        assert memory.count() == 1
    opened.close()


def test_a_namespace_in_use_is_not_closed(opened: OpenMemories) -> None:
    with opened.use("a") as first, opened.use("b"), opened.use("default"):
        with pytest.raises(Refusal), opened.use("c"):
            pass
        assert first.count() == 0
    opened.close()


def test_another_namespace_can_be_the_first_to_be_opened(opened: OpenMemories) -> None:
    with opened.use("a") as memory:
        assert memory.count() == 0
    opened.close()


def test_one_that_cannot_be_closed_keeps_nobody_from_the_others(
    opened: OpenMemories, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise StoreError("the disk is full")

    seen = {}
    for name in ("default", "a", "b"):
        with opened.use(name) as memory:
            seen[name] = memory
    close = seen["a"].close
    monkeypatch.setattr(seen["a"], "close", fail)
    for _ in range(2):
        with opened.use("c") as memory:
            assert memory.count() == 0
    assert "the disk is full" in caplog.text
    close()
    close = seen["b"].close
    monkeypatch.setattr(seen["b"], "close", fail)

    opened.close()

    close()
    with pytest.raises(StoreError, match="closed"):
        seen["default"].count()
