"""Files that are kept in memory alone: created, edited, moved and forgotten by path."""

import pytest

from memorist import AlreadyExists, InvalidInput, Memorist, NotFound


def test_a_file_comes_back_by_its_path(memory: Memorist) -> None:
    made = memory.files.create("/notes/today.md", "Call the harbour\n", project="shop")

    assert memory.files.list("/notes/today.md", project="shop") == [made]
    assert (made.path, made.text, made.project) == ("/notes/today.md", "Call the harbour\n", "shop")
    assert memory.get(made.id).kind == "file"


def test_a_folder_is_all_files_under_it_by_path(memory: Memorist) -> None:
    for path in ("/b.md", "/a/z.md", "/a/b/c.md", "/ab.md"):
        memory.files.create(path, path)

    assert [file.path for file in memory.files.list()] == ["/a/b/c.md", "/a/z.md", "/ab.md", "/b.md"]
    assert [file.path for file in memory.files.list("/a")] == ["/a/b/c.md", "/a/z.md"]
    assert memory.files.list("/nowhere") == []


def test_a_path_is_taken_once(memory: Memorist) -> None:
    memory.files.create("/notes/today.md", "first")

    for path in ("/notes/today.md", "/notes"):
        with pytest.raises(AlreadyExists):
            memory.files.create(path, "second")
    with pytest.raises(InvalidInput, match="is a file, not a folder"):
        memory.files.create("/notes/today.md/deeper/still.md", "second")
    assert [file.text for file in memory.files.list()] == ["first"]


def test_an_edit_gets_the_text_and_gives_the_new_one(hashed: Memorist) -> None:
    hashed.files.create("/list.md", "milk\n")

    edited = hashed.files.edit("/list.md", lambda text: f"{text}quinces\n")

    assert edited.text == "milk\nquinces\n"
    assert hashed.search("quinces", mode="semantic", min_similarity=0.3)[0].memory.source == "/list.md"
    assert [version.content for version in hashed.history(edited.id)] == ["milk\n"]


def test_an_edit_that_fails_changes_nothing(memory: Memorist) -> None:
    memory.files.create("/list.md", "milk\n")

    with pytest.raises(ZeroDivisionError):
        memory.files.edit("/list.md", lambda text: str(1 / 0))
    with pytest.raises(InvalidInput):
        memory.files.edit("/list.md", lambda text: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(NotFound):
        memory.files.edit("/none.md", str.upper)

    assert memory.files.list()[0].text == "milk\n"
    assert memory.history(memory.files.list()[0].id) == []
    assert memory.add("others can write").content


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t\n", "(empty file)"])
def test_a_file_may_be_empty_and_is_so_to_the_letter(memory: Memorist, text: str) -> None:
    memory.files.create("/a.md", text)
    memory.files.create("/b.md", "something")
    memory.files.edit("/b.md", lambda _: text)

    assert [file.text for file in memory.files.list()] == [text, text]
    memory.files.edit("/a.md", lambda before: f"{before}written")
    assert memory.files.list("/a.md")[0].text == f"{text}written"
    assert "blank" not in memory.get(memory.files.list("/a.md")[0].id).metadata


def test_a_folder_moves_at_once_or_not_at_all(memory: Memorist) -> None:
    for path in ("/a/one.md", f"/a/{'x' * 480}.md"):
        memory.files.create(path, path)

    with pytest.raises(InvalidInput, match="at most 500 fit"):
        memory.files.move("/a", "/a-longer-name-than-there-is-room-for")
    assert len(memory.files.list("/a")) == 2
    assert memory.files.move("/a", "/b") == 2
    assert [file.path[:3] for file in memory.files.list()] == ["/b/", "/b/"]


def test_what_a_file_is_told_beside_its_text_stays_with_it(memory: Memorist) -> None:
    file = memory.files.create("/a.md", "text")
    memory.update(file.id, tags=["mine"], metadata={"by": "me"})
    memory.pin(file.id)

    memory.files.edit("/a.md", str.upper)
    memory.files.move("/a.md", "/b.md")

    kept = memory.get(file.id)
    assert (kept.content, kept.source, kept.tags, kept.pinned) == ("TEXT", "/b.md", ("mine",), True)
    assert kept.metadata == {"by": "me"}


def test_files_of_a_folder_are_forgotten_together(memory: Memorist) -> None:
    for path in ("/a/one.md", "/a/b/two.md", "/c.md"):
        memory.files.create(path, "the same words")

    assert memory.files.forget("/a") == 2
    assert [file.path for file in memory.files.list()] == ["/c.md"]
    assert len(memory.list(deleted=True)) == 2
    with pytest.raises(NotFound):
        memory.files.forget("/a")
    assert memory.files.forget("/") == 1


@pytest.mark.local_only("a server refuses it in other words")
@pytest.mark.parametrize("place", ["", "/", "a.md", "/a/", "//a", "/a/../b", "/./a", "/a\\b", "/%2e%2e/a", "/a\n", 7])
def test_what_is_no_path_is_refused(memory: Memorist, place: str) -> None:
    with pytest.raises(InvalidInput):
        memory.files.create(place, "text")
    with pytest.raises(InvalidInput):
        memory.files.edit(place, str.upper)
