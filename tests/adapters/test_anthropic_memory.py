"""The memory tool of the Anthropic SDK: files in Memorist behave as files on disk."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaAsyncLocalFilesystemMemoryTool, BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

import memorist
from memorist import Memorist
from memorist.adapters.anthropic_memory import AsyncMemoristMemoryTool, MemoristMemoryTool
from memorist.validation import MAX_CONTENT_CHARACTERS
from messages_api import ScriptedModel
from processes import ENVIRONMENT, expect, send_line, start_program, wait_for_end
from statements import read_rows

Call = Callable[..., str]


def make_call(tool: Any) -> Call:
    """Return a function that calls the tool as the SDK's runner does: with the input that a model sends."""

    def call(command: str, path: str | None = None, **more: Any) -> str:
        given = {"command": command} | ({} if path is None else {"path": path}) | more
        answer = tool.call(given)
        return str(answer if isinstance(answer, str) else anyio.run(lambda: answer))

    return call


@pytest.fixture(params=["sync", "async"])
def tool(request: pytest.FixtureRequest, memory: Memorist) -> Call:
    kind = MemoristMemoryTool if request.param == "sync" else AsyncMemoristMemoryTool
    return make_call(kind(memory))


@pytest.fixture
def tool_with_file(tool: Call) -> Call:
    """A tool that has one file with three lines."""
    tool("create", "/memories/notes.txt", file_text="Line 1\nLine 2\nLine 3")
    return tool


# As on disk

VIEW_ALL = {"command": "view", "path": "/memories/a.txt"}
ON_DISK_TOO: list[list[dict[str, Any]]] = [
    [{"command": "view", "path": path} for path in ("/memories/none.txt", "/elsewhere", "/memories/../../etc/passwd")],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": "Hello"},
        {"command": "create", "path": "/memories/a.txt", "file_text": "again"},
        VIEW_ALL,
        {"command": "create", "path": "/memories/deep/er/b.txt", "file_text": "Nested"},
        {"command": "create", "path": "/memories/deep", "file_text": "a folder is there"},
        {"command": "view", "path": "/memories/deep/er/b.txt"},
        {"command": "view", "path": "/memories/deep/../a.txt"},
    ],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": "1\n2\n3\n4\n5"},
        *[VIEW_ALL | {"view_range": lines} for lines in ([2, 4], [2, -1], [0, 2], [4, 99], [9, 12], [3, 2], [1])],
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 0, "insert_text": "0"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 6, "insert_text": "6\n"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 3, "insert_text": "two\nlines\n\n"},
        VIEW_ALL,
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 10, "insert_text": "too far"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": -1, "insert_text": "too near"},
        {"command": "insert", "path": "/memories/none.txt", "insert_line": 0, "insert_text": "nowhere"},
    ],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": "one\ntwo\nthree\ntwo\nfive\nsix\nseven"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "two", "new_str": "2"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "eight", "new_str": "8"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "five", "new_str": "5a\n5b"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "one\ntwo", "new_str": ""},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "", "new_str": "everywhere"},
        {"command": "str_replace", "path": "/memories/none.txt", "old_str": "a", "new_str": "b"},
        VIEW_ALL,
    ],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": "line1\r\nline2\r\n"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "between"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "line2", "new_str": "LINE2"},
        VIEW_ALL,
    ],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": ""},
        VIEW_ALL,
        {"command": "create", "path": "/memories/a.txt", "file_text": ""},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "no such line"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 0, "insert_text": "no longer empty"},
        VIEW_ALL,
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "no longer empty", "new_str": " "},
        VIEW_ALL,
    ],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": "A"},
        {"command": "create", "path": "/memories/sub/b.txt", "file_text": "B"},
        {"command": "delete", "path": "/memories/none.txt"},
        *[{"command": "delete", "path": f"/memories{rest}"} for rest in ("", "/", "/.", "/sub/..")],
        {"command": "delete", "path": "/memories/sub"},
        {"command": "view", "path": "/memories/sub/b.txt"},
        {"command": "delete", "path": "/memories/a.txt"},
        {"command": "create", "path": "/memories/a.txt", "file_text": "A, again"},
        VIEW_ALL,
    ],
    [
        {"command": "create", "path": "/memories/a.txt", "file_text": "A"},
        {"command": "create", "path": "/memories/b.txt", "file_text": "B"},
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/b.txt"},
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/a.txt"},
        {"command": "rename", "old_path": "/memories/none.txt", "new_path": "/memories/c.txt"},
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/new/folder/c.txt"},
        {"command": "view", "path": "/memories/new/folder/c.txt"},
        VIEW_ALL,
        {"command": "rename", "old_path": "/memories/new", "new_path": "/memories/other"},
        {"command": "view", "path": "/memories/other/folder/c.txt"},
        *[
            {"command": "rename", "old_path": f"/memories{rest}", "new_path": "/memories/d"}
            for rest in ("", "/", "/.", "/sub/..")
        ],
        {"command": "rename", "old_path": "/memories/b.txt", "new_path": "/elsewhere/b.txt"},
    ],
]


def outcome(call: Call, given: dict[str, Any]) -> tuple[bool, str]:
    try:
        return True, call(**given)
    except ToolError as exc:
        return False, str(exc)


@pytest.mark.parametrize("script", ON_DISK_TOO)
def test_a_model_is_answered_as_by_the_sdk_s_own_tool_for_files_on_disk(
    tool: Call, tmp_path: Path, script: Sequence[dict[str, Any]]
) -> None:
    on_disk = make_call(BetaLocalFilesystemMemoryTool(str(tmp_path / "disk")))

    for asked in script:
        assert outcome(tool, asked) == outcome(on_disk, asked), asked


def test_the_asynchronous_one_is_answered_as_well(memory: Memorist, tmp_path: Path) -> None:
    here, on_disk = AsyncMemoristMemoryTool(memory), BetaAsyncLocalFilesystemMemoryTool(str(tmp_path / "disk"))

    for asked in ON_DISK_TOO[1]:
        assert outcome(make_call(here), asked) == outcome(make_call(on_disk), asked), asked


PATHS = st.sampled_from(["/memories/a", "/memories/b", "/memories/c"])
TEXTS = st.text("ab\n", max_size=8)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries({"command": st.just("view"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("str_replace"), "path": PATHS, "old_str": TEXTS, "new_str": TEXTS}),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
)


@given(script=st.lists(COMMANDS, min_size=3, max_size=12))
@settings(max_examples=100)
def test_whatever_a_model_does_to_files_comes_out_as_on_disk(
    tmp_path_factory: pytest.TempPathFactory, script: list[dict[str, Any]]
) -> None:
    on_disk = make_call(BetaLocalFilesystemMemoryTool(str(tmp_path_factory.mktemp("disk"))))
    with memorist.open(":memory:", embedder="none") as memory:
        tool = make_call(MemoristMemoryTool(memory))

        for asked in [*script, *({"command": "view", "path": f"/memories/{name}"} for name in "abc")]:
            assert outcome(tool, asked) == outcome(on_disk, asked), asked
        assert memory.check().ok


@pytest.mark.parametrize("old", ["", "a", "a\n"])
def test_what_is_there_very_often_is_not_listed_without_end(tool: Call, old: str) -> None:
    tool("create", "/memories/a.txt", file_text="a\n" * 20_000)

    with pytest.raises(ToolError, match=r"in lines: 1, .* and so on\. Please") as refused:
        tool("str_replace", "/memories/a.txt", old_str=old, new_str="b")

    assert len(str(refused.value)) < 1000


# Folders


def test_a_listing_shows_two_levels_with_sizes_and_leaves_out_what_is_hidden(tool: Call) -> None:
    for path, size in (
        ("b.txt", 1536), ("a/one.txt", 10), ("a/deep/two.txt", 1014), ("a/deep/er/three.txt", 0), (".hidden/x", 5),
        ("a/.also", 5), ("a-b.txt", 1),
    ):  # fmt: skip
        tool("create", f"/memories/{path}", file_text="x" * size)

    assert tool("view", "/memories").splitlines() == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:",
        "2.5K\t/memories",
        "1.0K\t/memories/a/",
        "1014B\t/memories/a/deep/",
        "10B\t/memories/a/one.txt",
        "1B\t/memories/a-b.txt",
        "1.5K\t/memories/b.txt",
    ]
    assert tool("view", "/memories/a/deep/").splitlines()[1:] == [
        "1014B\t/memories/a/deep",
        "0B\t/memories/a/deep/er/",
        "0B\t/memories/a/deep/er/three.txt",
        "1014B\t/memories/a/deep/two.txt",
    ]


def test_the_root_is_there_before_there_is_a_file(tool: Call) -> None:
    assert tool("view", "/memories").splitlines()[1:] == ["0B\t/memories"]


def test_a_folder_goes_with_its_last_file(tool: Call) -> None:
    tool("create", "/memories/sub/only.txt", file_text="text")
    tool("delete", "/memories/sub/only.txt")

    with pytest.raises(ToolError, match="/memories/sub does not exist"):
        tool("view", "/memories/sub")


def test_a_folder_whose_name_begins_like_another_s_is_another_folder(tool: Call) -> None:
    for folder in ("a", "ab", "a b", "a.b", "a0"):
        tool("create", f"/memories/{folder}/x.txt", file_text=folder)

    tool("delete", "/memories/a")

    shown = [line.split("\t")[1] for line in tool("view", "/memories").splitlines()[2:]]
    assert sorted(shown) == sorted(
        f"/memories/{path}" for folder in ("ab", "a b", "a.b", "a0") for path in (f"{folder}/", f"{folder}/x.txt")
    )


def test_a_folder_moves_with_all_that_is_in_it(tool: Call) -> None:
    for path in ("old/a.txt", "old/deep/b.txt", "older.txt"):
        tool("create", f"/memories/{path}", file_text=path)

    tool("rename", old_path="/memories/old", new_path="/memories/new/place")

    assert "     1\told/deep/b.txt" in tool("view", "/memories/new/place/deep/b.txt")
    assert "     1\told/a.txt" in tool("view", "/memories/new/place/a.txt")
    assert "/memories/old/" not in tool("view", "/memories")
    assert "/memories/older.txt" in tool("view", "/memories")


@pytest.mark.parametrize(
    ("given", "about"),
    [
        (dict(command="create", path="/memories/notes.txt/more.txt", file_text="x"), "is a file, not a folder"),
        (dict(command="rename", old_path="/memories/d", new_path="/memories/notes.txt/d"), "is a file, not a folder"),
        (dict(command="rename", old_path="/memories/d", new_path="/memories/d/e"), "cannot be moved into itself"),
        (dict(command="rename", old_path="/memories/d", new_path="/memories"), "already exists"),
        (dict(command="insert", path="/memories/d", insert_line=0, insert_text="x"), "is a folder, not a file"),
        (dict(command="str_replace", path="/memories", old_str="a", new_str="b"), "is not a file"),
        (dict(command="create", path="/memories", file_text="x"), "already exists"),
    ],
)
def test_a_file_is_no_folder_and_a_folder_no_file(tool_with_file: Call, given: dict[str, Any], about: str) -> None:
    tool_with_file("create", "/memories/d/x.txt", file_text="text")
    before = tool_with_file("view", "/memories")

    with pytest.raises(ToolError, match=about):
        tool_with_file(**given)

    assert tool_with_file("view", "/memories") == before


# Paths that lead elsewhere

REFUSED = [
    "", "/", "notes.txt", "memories/x.txt", "/etc/passwd", "/memoriesx", "/memories_evil/x.txt", "//memories/x.txt",
    "/MEMORIES/x.txt", " /memories/x.txt", "C:\\memories\\x.txt", "file:///memories/x.txt", "~/memories/x.txt",
    "/memories/..", "/memories/../x.txt", "/memories/../memories2/x", "/memories/a/../../x.txt",
    "/memories/a/b/../../../etc/passwd", "/memories/./../x.txt", "/memories//../x.txt", "/memories/..\\x.txt",
    "/memories/..\\..\\x.txt", "/memories/a\\b.txt", "/memories/%2e%2e/x.txt", "/memories/%2E%2E%2Fx.txt",
    "/memories/..%2fx.txt", "/memories/%252e%252e%252fx.txt", "/memories/..%5cx.txt", "/memories/x%00.txt",
    "/memories/x\0.txt", "/memories/x\n.txt", "/memories/x\r.txt", "/memories/\x1b[31mx.txt", "/memories/x\x7f.txt",
    "/memories/x\x85.txt", "/memories/x\u2028.txt", "/memories/\u202etxt.x", "/memories/x\u200b.txt",
    "/memories/x\U000e0041.txt", "/memories/x\U000e0101.txt", "/memories/x\ud800.txt", "/memories/x.txt ",
    "/memories/a/ /x.txt", "/memories/a/.. /x.txt", f"/memories/{'x' * 500}", "/memories/" + "a/" * 300 + "x.txt",
    7, ["/memories/x.txt"],
]  # fmt: skip


@pytest.mark.parametrize("place", REFUSED, ids=map(str, range(len(REFUSED))))
def test_a_path_that_leads_out_or_hides_something_is_refused_by_every_command(tool_with_file: Call, place: Any) -> None:
    before = tool_with_file("view", "/memories")
    for asked in (
        dict(command="create", path=place, file_text="x"),
        dict(command="view", path=place),
        dict(command="str_replace", path=place, old_str="a", new_str="b"),
        dict(command="insert", path=place, insert_line=0, insert_text="x"),
        dict(command="delete", path=place),
        dict(command="rename", old_path=place, new_path="/memories/new.txt"),
        dict(command="rename", old_path="/memories/notes.txt", new_path=place),
    ):
        with pytest.raises(ToolError):
            tool_with_file(**asked)

    assert tool_with_file("view", "/memories") == before


@pytest.mark.parametrize(
    "place",
    ["/memories/日本語/メモ.md", "/memories/a b/c d.txt", "/memories/.hidden", "/memories/100% sure.txt",
     "/memories/...", "/memories/a..b", f"/memories/{'x' * 489}", "/memories/it's \"quoted\" & <tagged>.xml"],
)  # fmt: skip
def test_an_unusual_path_is_a_path(tool: Call, place: str) -> None:
    tool("create", place, file_text="text")

    assert tool("view", place).endswith("     1\ttext")


# Memories like all others


def test_a_file_is_found_by_its_words_its_meaning_and_its_path(understanding: Memorist) -> None:
    tool = make_call(MemoristMemoryTool(understanding, project="shop"))
    tool("create", "/memories/customer_service.md", file_text="Refunds are paid within two weeks")
    tool("create", "/memories/other.md", file_text="The staging cluster runs on three machines")

    for question in ("refunds", "when do buyers get their money back?", "customer_service"):
        hit = understanding.search(question, project="shop")[0]
        assert (hit.memory.source, hit.memory.kind) == ("/memories/customer_service.md", "file")
    assert understanding.search("refunds", source="/memories/other.md", mode="keyword").hits == ()


def test_the_command_line_finds_a_file(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        make_call(MemoristMemoryTool(memory))("create", "/memories/plan.md", file_text="Ship the lighthouse on Monday")

    done = subprocess.run(
        [sys.executable, "-m", "memorist", "--db", str(path), "search", "lighthouse", "--json"],
        env=ENVIRONMENT | {"MEMORIST_EMBEDDER": "none"}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert '"/memories/plan.md"' in done.stdout


def test_files_that_say_the_same_are_two_files(memory: Memorist, tool: Call) -> None:
    for name in "ab":
        tool("create", f"/memories/{name}.txt", file_text="the very same words")
    memory.add("the very same words")

    tool("str_replace", "/memories/a.txt", old_str="same", new_str="first")
    tool("str_replace", "/memories/a.txt", old_str="first", new_str="same")
    tool("delete", "/memories/b.txt")

    assert tool("view", "/memories/a.txt").endswith("the very same words")
    assert len(memory.list()) == 2
    assert memory.review.duplicates() == []


def test_an_edit_keeps_what_the_file_said_before(memory: Memorist, tool_with_file: Call) -> None:
    tool_with_file("str_replace", "/memories/notes.txt", old_str="Line 2", new_str="Line two")
    tool_with_file("rename", old_path="/memories/notes.txt", new_path="/memories/kept.txt")

    (file,) = memory.files.list("/memories/kept.txt")
    assert [version.content for version in memory.history(file.id)] == [
        "Line 1\nLine two\nLine 3",
        "Line 1\nLine 2\nLine 3",
    ]


def test_what_is_deleted_can_be_restored_and_what_is_purged_is_gone(memory: Memorist, tool_with_file: Call) -> None:
    (file,) = memory.files.list()
    tool_with_file("delete", "/memories/notes.txt")
    assert memory.search("line").hits == ()

    memory.restore(file.id)
    assert tool_with_file("view", "/memories/notes.txt").endswith("     3\tLine 3")

    tool_with_file("delete", "/memories/notes.txt")
    memory.purge()
    assert memory.list(deleted=True).memories == ()


def test_of_two_files_of_one_path_the_newer_is_seen_and_both_are_deleted(
    memory: Memorist, tool_with_file: Call
) -> None:
    (old,) = memory.files.list()
    tool_with_file("delete", "/memories/notes.txt")
    tool_with_file("create", "/memories/notes.txt", file_text="newer")
    memory.restore(old.id)

    assert tool_with_file("view", "/memories/notes.txt").endswith("     1\tnewer")
    assert [file.text for file in memory.files.list()] == ["newer"]
    tool_with_file("insert", "/memories/notes.txt", insert_line=1, insert_text="still")
    assert memory.get(old.id).content.startswith("Line 1")
    tool_with_file("delete", "/memories/notes.txt")
    assert memory.files.list() == []


def test_an_empty_file_says_so_to_whoever_finds_it(memory: Memorist, tool: Call) -> None:
    tool("create", "/memories/todo.md", file_text="")

    (hit,) = memory.search("todo")
    assert (hit.memory.content, hit.memory.source) == ("(empty file)", "/memories/todo.md")
    memory.update(hit.memory.id, content="written by hand")
    assert tool("view", "/memories/todo.md").endswith("     1\twritten by hand")


def test_clearing_forgets_the_files_and_nothing_else(memory: Memorist) -> None:
    memory.add("a note")
    tool = MemoristMemoryTool(memory)
    other = make_call(MemoristMemoryTool(memory, project="other"))
    for call in (make_call(tool), other):
        call("create", "/memories/a.txt", file_text="text")

    assert tool.clear_all_memory() == "All memory cleared"
    assert tool.clear_all_memory() == "All memory cleared"

    assert [one.content for one in memory.list()] == ["text", "a note"]
    assert other("view", "/memories/a.txt").endswith("text")


def test_the_files_of_a_project_are_not_those_of_another(memory: Memorist) -> None:
    none, shop = make_call(MemoristMemoryTool(memory)), make_call(MemoristMemoryTool(memory, project="shop"))
    for call, text in ((none, "nobody's"), (shop, "the shop's")):
        call("create", "/memories/a.txt", file_text=text)

    assert none("view", "/memories/a.txt").endswith("\tnobody's")
    assert shop("view", "/memories/a.txt").endswith("\tthe shop's")
    shop("delete", "/memories/a.txt")
    assert none("view", "/memories/a.txt").endswith("\tnobody's")


def test_an_export_carries_files_that_say_the_same(memory: Memorist, tool: Call, tmp_path: Path) -> None:
    for name in "ab":
        tool("create", f"/memories/{name}.txt", file_text="the very same words")
    tool("create", "/memories/empty.txt", file_text="\n")
    memory.transfer.export(tmp_path / "export.jsonl")

    with memorist.open(tmp_path / "new.db", embedder="none") as new:
        new.transfer.import_(tmp_path / "export.jsonl")
        assert [(file.path, file.text) for file in new.files.list()] == [
            ("/memories/a.txt", "the very same words"),
            ("/memories/b.txt", "the very same words"),
            ("/memories/empty.txt", "\n"),
        ]


def test_a_secret_in_a_file_is_not_kept_and_the_model_is_told(path: Path) -> None:
    key, note = "AKIA" + "IOSFODNN7EXAMPLQ", "What looked like a secret was replaced by [redacted:KIND]."
    with memorist.open(path, embedder="none") as memory:
        tool = make_call(MemoristMemoryTool(memory))
        assert note not in tool("create", "/memories/keys.txt", file_text="nothing yet\n")
        assert note in tool("create", "/memories/key.txt", file_text=f"the key is {key}\n")
        assert note in tool("insert", "/memories/keys.txt", insert_line=1, insert_text=f"the key is {key}")
        assert note in tool("str_replace", "/memories/keys.txt", old_str="nothing yet", new_str=f"{key} once more")
        assert note not in tool("str_replace", "/memories/keys.txt", old_str="once more", new_str="twice")
        with pytest.raises(ToolError, match="looks like a secret"):
            tool("create", f"/memories/{key}.txt", file_text="its name says it")

        assert key not in tool("view", "/memories/keys.txt")
        assert key.encode() not in path.read_bytes()


def test_a_file_that_is_too_long_is_refused_in_words(tool_with_file: Call) -> None:
    with pytest.raises(ToolError, match="1,000,000 fit"):
        tool_with_file("create", "/memories/long.txt", file_text="x" * (MAX_CONTENT_CHARACTERS + 1))
    with pytest.raises(ToolError, match="1,000,000 fit"):
        tool_with_file("insert", "/memories/notes.txt", insert_line=0, insert_text="x" * MAX_CONTENT_CHARACTERS)
    tool_with_file("create", "/memories/lines.txt", file_text="\n" * 999_999)
    with pytest.raises(ToolError, match="exceeds maximum line limit of 999,999 lines"):
        tool_with_file("view", "/memories/lines.txt")

    assert tool_with_file("view", "/memories/notes.txt").endswith("     3\tLine 3")


def test_a_text_with_what_no_database_stores_is_kept_without_it(tool: Call) -> None:
    tool("create", "/memories/odd.txt", file_text="a\0b \ud800")

    assert tool("view", "/memories/odd.txt").endswith("     1\ta\ufffdb \ufffd")


def test_a_memory_that_is_read_only_says_so(path: Path) -> None:
    memorist.open(path, embedder="none").close()
    with memorist.open(path, embedder="none", read_only=True) as memory:
        tool = make_call(MemoristMemoryTool(memory))

        assert tool("view", "/memories")
        with pytest.raises(ToolError):
            tool("create", "/memories/a.txt", file_text="text")


def test_a_memory_that_is_damaged_says_what_helps(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        make_call(MemoristMemoryTool(memory))("create", "/memories/a.txt", file_text="text")
    (page,) = read_rows(path, "select rootpage from sqlite_master where name = 'memories'")[0]
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    with memorist.open(path, embedder="none") as memory:
        tool = make_call(MemoristMemoryTool(memory))

        with pytest.raises(ToolError, match="the user can do so with `memorist check --repair` or `memorist salvage`"):
            tool("view", "/memories/a.txt")


# Several at once

EDITOR = """
    import sys, memorist
    from anthropic.lib.tools import ToolError
    from memorist.adapters.anthropic_memory import MemoristMemoryTool
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with memorist.open(path, embedder="none") as memory:
        tool = MemoristMemoryTool(memory)
        print("ready", flush=True)
        sys.stdin.readline()
        made = 0
        for number in range(count):
            line = {"insert_line": 0, "insert_text": f"line {number} of {name}"}
            tool.call({"command": "insert", "path": "/memories/shared.txt", **line})
            try:
                tool.call({"command": "create", "path": f"/memories/{number}.txt", "file_text": name})
                made += 1
            except ToolError as exc:
                assert str(exc) == f"File /memories/{number}.txt already exists", exc
    print(made)
"""


def test_processes_that_edit_one_file_lose_no_line_and_create_each_file_once(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory, ExitStack() as stack:
        tool = make_call(MemoristMemoryTool(memory))
        tool("create", "/memories/shared.txt", file_text="")
        editors = [stack.enter_context(start_program(EDITOR, path, name, 20)) for name in range(4)]
        expect("ready", editors)
        for editor in editors:
            send_line(editor)

        ended = [wait_for_end(editor) for editor in editors]

        assert [code for code, _ in ended] == [0, 0, 0, 0], ended
        assert sum(int(printed) for _, printed in ended) == 20
        (shared,) = memory.files.list("/memories/shared.txt")
        assert sorted(shared.text.split("\n")[:-1]) == sorted(
            f"line {number} of {name}" for number in range(20) for name in range(4)
        )
        assert len(memory.files.list()) == 21


# In the SDK's own loop

SCRIPT = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/prefs.md", "file_text": "Likes coffee\n"},
    {"command": "str_replace", "path": "/memories/prefs.md", "old_str": "coffee", "new_str": "tea"},
    {"command": "view", "path": "/memories/../../etc/passwd"},
    {"command": "view", "path": "/memories/prefs.md"},
]


@contextmanager
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPT) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def check_the_conversation(server: ScriptedModel, memory: Memorist) -> None:
    assert server.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert [result.get("is_error", False) for result in server.results] == [False, False, False, True, False]
    assert "would escape /memories" in str(server.results[3]["content"])
    assert "     1\tLikes tea" in str(server.results[4]["content"])
    assert memory.search("tea")[0].memory.source == "/memories/prefs.md"


def question(**more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "What do I like?"}
    return {"model": "claude-test", "max_tokens": 100, "messages": [message], **more}


def test_the_sdk_s_runner_drives_the_tool(memory: Memorist) -> None:
    with model() as server, Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        client.beta.messages.tool_runner(**question(tools=[MemoristMemoryTool(memory)])).until_done()

    check_the_conversation(server, memory)


def test_the_sdk_s_asynchronous_runner_drives_the_tool(memory: Memorist) -> None:
    async def converse(url: str) -> None:
        async with AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
            await client.beta.messages.tool_runner(**question(tools=[AsyncMemoristMemoryTool(memory)])).until_done()

    with model() as server:
        anyio.run(converse, server.url)

    check_the_conversation(server, memory)


def test_without_the_sdk_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['anthropic'] = None\n"
        "from memorist import MissingExtra\n"
        "try:\n    import memorist.adapters.anthropic_memory\n"
        "except MissingExtra as exc:\n    print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)

    assert "memorist[anthropic]" in done.stdout
