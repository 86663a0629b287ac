"""
The memory tool of the Anthropic SDK, with its files kept in Memorist.

Answers and refusals are worded as those of the SDK's own tool for a folder on disk, so that a model meets what it
knows. A file is shown to the model as it stands, and not as marked data: an edit names what it replaces, letter by
letter.
"""

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from memorist.engine import Memorist
from memorist.errors import AlreadyExists, MemoristError, MissingExtra, NotFound

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
    from anyio.to_thread import run_sync
except ImportError as exc:
    raise MissingExtra("the Anthropic memory tool needs an extra: pip install 'memorist[anthropic]'") from exc

ROOT = "/memories"
MOST_LINES = 999_999
LEVELS = 2  # of folders that a listing shows
MOST_FOUND = 100  # places that are named where a text is there more than once
AROUND = 2  # lines shown before and after an edit


class MemoristMemoryTool(BetaAbstractMemoryTool):
    """
    The `memory` tool for a synchronous client: each file a memory, found by `search` with its path as `source`.

    Files belong to `project`, or to none; those of one are not seen in another.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = _MemoryFolder(memory, project)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return self._folder.view(command.path, command.view_range)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self._folder.create(command.path, command.file_text)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._folder.str_replace(command.path, command.old_str, command.new_str)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self._folder.insert(command.path, command.insert_line, command.insert_text)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self._folder.delete(command.path)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self._folder.rename(command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        return self._folder.clear()


class AsyncMemoristMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for an asynchronous client; each command runs in a thread."""

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = _MemoryFolder(memory, project)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await run_sync(self._folder.view, command.path, command.view_range)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await run_sync(self._folder.create, command.path, command.file_text)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await run_sync(self._folder.str_replace, command.path, command.old_str, command.new_str)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await run_sync(self._folder.insert, command.path, command.insert_line, command.insert_text)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await run_sync(self._folder.delete, command.path)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await run_sync(self._folder.rename, command.old_path, command.new_path)

    async def clear_all_memory(self) -> str:
        return await run_sync(self._folder.clear)


class _MemoryFolder:
    """The folder /memories of a project, with the commands of the tool."""

    def __init__(self, memory: Memorist, project: str | None) -> None:
        self._memory = memory
        self._project = project

    def view(self, path: str, view_range: Sequence[int] | None) -> str:
        place = _within(path)
        with _refused():
            files = self._memory.files(place, project=self._project)
        if not files and place != ROOT:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        if files and files[0].path == place:
            return f"Here's the content of {path} with line numbers:\n{_numbered(path, files[0].text, view_range)}"
        sizes = {file.path: len(file.text.encode()) for file in files}
        listed = "\n".join(f"{_size(size)}\t{name}" for name, size in _listing(place, sizes))
        depth = f"up to {LEVELS} levels deep in {place}, excluding hidden items"
        return f"Here're the files and directories {depth}:\n{listed}"

    def create(self, path: str, text: str) -> str:
        place = _within(path)
        if place == ROOT:
            raise ToolError(f"File {path} already exists")
        with _refused(taken=f"File {path} already exists"):
            self._memory.create_file(place, text, project=self._project)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, new: str) -> str:
        changed = 0

        def replaced(text: str) -> str:
            nonlocal changed
            count = text.count(old)
            if count == 0:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if count > 1:
                lines = ", ".join(str(number) for number in islice(_lines_with(text, old), MOST_FOUND))
                lines += " and so on" if count > MOST_FOUND else ""
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                    "Please ensure it is unique"
                )
            before, _, after = text.partition(old) if old else ("", "", text)
            changed = before.count("\n") + 1
            return before + new + after

        with _refused(missing=_no_file(path)):
            file = self._memory.edit_file(_file_within(path), replaced, project=self._project)
        shown = _numbered(path, file.text, (changed - AROUND, changed + AROUND))
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{shown}"

    def insert(self, path: str, line: int, new: str) -> str:
        def inserted(text: str) -> str:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                )
            return "\n".join([*lines[:line], new.rstrip("\n"), *lines[line:]]).removesuffix("\n") + "\n"

        with _refused(missing=_no_file(path)):
            self._memory.edit_file(_file_within(path), inserted, project=self._project)
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        place = _within(path)
        if place == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        with _refused(missing=f"The path {path} does not exist"):
            self._memory.forget_files(place, project=self._project)
        return f"Successfully deleted {path}"

    def rename(self, path: str, to: str) -> str:
        place, new_place = _within(path), _within(to)
        if place == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        taken = f"The destination {to} already exists"
        if new_place == ROOT:
            raise ToolError(taken)
        with _refused(missing=f"The path {path} does not exist", taken=taken):
            self._memory.move_files(place, new_place, project=self._project)
        return f"Successfully renamed {path} to {to}"

    def clear(self) -> str:
        with _refused(), suppress(NotFound):  # where there is nothing, it is clear
            self._memory.forget_files(ROOT, project=self._project)
        return "All memory cleared"


def _within(path: object) -> str:
    """The path without detours; refused where it leads out of /memories."""
    if not isinstance(path, str) or not f"{path}/".startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    place = posixpath.normpath(path)
    if not f"{place}/".startswith(f"{ROOT}/"):
        raise ToolError(f"Path {path} would escape /memories directory")
    return place


def _file_within(path: str) -> str:
    place = _within(path)
    if place == ROOT:
        raise ToolError(f"The path {path} is not a file.")
    return place


def _no_file(path: str) -> str:
    return f"The path {path} does not exist. Please provide a valid path."


@contextmanager
def _refused(*, missing: str | None = None, taken: str | None = None) -> Iterator[None]:
    """Errors as the model is to read them: the words it knows where there are some, else ours."""
    try:
        yield
    except NotFound as exc:
        raise ToolError(missing or str(exc)) from exc
    except AlreadyExists as exc:
        raise ToolError(taken or str(exc)) from exc
    except MemoristError as exc:
        raise ToolError(str(exc)) from exc


def _numbered(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """Lines with their numbers: all, or from the first to the second number, -1 being the end."""
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of {MOST_LINES:,} lines.")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
    first, last = max(first, 1), len(lines) if last == -1 else last
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


def _lines_with(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at != -1:
        yield text.count("\n", 0, at) + 1
        at = text.find(part, at + 1)


def _listing(folder: str, sizes: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The folder, and what is in it down to the second level, with the bytes of all it holds; hidden names left out."""
    found = {folder: 0}
    for path, size in sizes.items():
        names = path.removeprefix(f"{folder}/").split("/")
        found[folder] += size
        for level in range(1, min(len(names), LEVELS) + 1):
            if any(name.startswith(".") for name in names[:level]):
                break
            shown = "/".join([folder, *names[:level]]) + ("/" if level < len(names) else "")
            found[shown] = found.get(shown, 0) + size
    return iter(sorted(found.items(), key=lambda entry: entry[0].rstrip("/").split("/")))


def _size(size: int) -> str:
    """Bytes as `du -h` writes them: 0B, 700B, 1.5K, 2M."""
    amount, unit = float(size), "B"
    for larger in "KMG":
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f}{unit}" if amount == int(amount) else f"{amount:.1f}{unit}"
