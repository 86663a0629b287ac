"""Users of a program as projects: whatever a user's id is, it leads to no other user's memories."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memorist import InvalidInput, Memorist
from memorist.adapters.anthropic_memory import MemoristMemoryTool
from memorist.adapters.project_documents import ProjectDocuments
from memorist.adapters.session_items import SessionItem, SessionItems

Read = Callable[[Memorist, Any], Sequence[Any]]
READS: dict[str, Read] = {
    "session": lambda memory, user: SessionItems(memory, "test", "s1", project=user).items(),
    "documents": lambda memory, user: ProjectDocuments(memory, user).find(["one"]),
    "files": lambda memory, user: memory.files.list(
        "/memories", project=MemoristMemoryTool(memory, project=user)._project
    ),
}
ALIKE = ["ADA", "ada/", "a/da", "%61da", "ada\u200b", "adа", "ａｄａ", "ada*", "ad_", "ada'--"]
STORED_AS_ANOTHER = ["ada ", " ada", "ada\n", "\u3000ada", "ada\u00a0", "\ud800"]


@pytest.fixture
def filled(memory: Memorist) -> Memorist:
    for user in ("ada", "\ufffd"):
        SessionItems(memory, "test", "s1", project=user).add([SessionItem("user", "the heron", {"text": "the heron"})])
        ProjectDocuments(memory, user).write([("one", {"content": f"the crane of {user}"})])
    return memory


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("user", STORED_AS_ANOTHER, ids=ascii)
def test_an_id_that_would_be_stored_as_another_is_refused(filled: Memorist, read: Read, user: str) -> None:
    with pytest.raises(InvalidInput, match="would be stored as"):
        read(filled, user)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("user", ALIKE, ids=ascii)
def test_an_id_that_looks_like_another_is_another(filled: Memorist, read: Read, user: str) -> None:
    assert list(read(filled, user)) == []


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("user", ["", " ", 5, True, b"ada", ["ada", "bob"], ("ada",), {"ada": 1}, "x" * 5000], ids=repr)
def test_what_can_be_no_id_is_refused(filled: Memorist, read: Read, user: Any) -> None:
    with pytest.raises(InvalidInput, match="project"):
        read(filled, user)


@pytest.mark.parametrize("session", [None, 5, b"s1", ["s1"]], ids=repr)
def test_a_session_is_named_by_a_text(memory: Memorist, session: Any) -> None:
    with pytest.raises(InvalidInput, match="must be text"):
        SessionItems(memory, "test", session)


def test_a_session_of_no_project_does_not_reach_into_one_by_its_name(filled: Memorist) -> None:
    assert SessionItems(filled, "test", "ada/s1").items() == []
    assert SessionItems(filled, "test", "s1").items() == []


def test_a_document_of_another_project_is_not_found_or_forgotten_by_its_whole_id(filled: Memorist) -> None:
    bob = ProjectDocuments(filled, "bob")
    bob.forget(["ada/one", "one", "../ada/one"])

    assert bob.find(["ada/one", "one"]) == []
    assert len(ProjectDocuments(filled, "ada").find(["one"])) == 1
