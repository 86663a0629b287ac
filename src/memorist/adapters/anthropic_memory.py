"""
The memory tool of the Anthropic SDK, with its files stored in Memorist.

Answers and errors have the same wording as those of the SDK's own tool for a folder on disk, which models know. A file
is shown verbatim and not marked as data, because an edit must quote the text that it replaces.
"""

import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from memorist.adapters.project_documents import check_project
from memorist.engine import Memorist
from memorist.errors import AlreadyExists, MemoristError, MissingExtra, NotFound
from memorist.present.framing import describe_error

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

_ROOT = "/memories"
_MAX_FILE_LINES = 999_999
_MAX_LISTING_DEPTH = 2  # levels of folders
_MAX_OCCURRENCES = 100  # line numbers named where a text is not unique
_SNIPPET_MARGIN = 2  # lines shown before and after an edit


class MemoristMemoryTool(BetaAbstractMemoryTool):
    """
    The `memory` tool for a synchronous client.

    Each file is a memory that `search` finds, with its path as `source`. Files belong to `project`, or to no project;
    other projects do not see them.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._memory, self._project = memory, check_project(project)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path, target = command.path, _normalize_path(command.path)
        with _translate_errors():
            files = self._memory.files.list(target, project=self._project)
        if not files and target != _ROOT:
            raise ToolError(_missing_file_message(path))
        if files and files[0].path == target:
            numbered = _number_lines(path, files[0].text, command.view_range)
            return f"Here's the content of {path} with line numbers:\n{numbered}"
        sizes = {file.path: len(file.text.encode()) for file in files}
        listing = "\n".join(f"{_format_size(size)}\t{name}" for name, size in _list_folder(target, sizes))
        depth = f"up to {_MAX_LISTING_DEPTH} levels deep in {target}, excluding hidden items"
        return f"Here're the files and directories {depth}:\n{listing}"

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        target, exists = _normalize_path(command.path), f"File {command.path} already exists"
        if target == _ROOT:
            raise ToolError(exists)
        with _translate_errors(exists=exists):
            file = self._memory.files.create(target, command.file_text, project=self._project)
        note = _describe_redacted(file.text, command.file_text)
        return f"File created successfully at: {command.path}" + (f".{note}" if note else "")

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old, line = command.path, command.old_str, 0

        def replace(text: str) -> str:
            nonlocal line
            count = text.count(old)
            if count == 0:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if count > 1:
                lines = ", ".join(str(number) for number in islice(_find_lines(text, old), _MAX_OCCURRENCES))
                lines += " and so on" if count > _MAX_OCCURRENCES else ""
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                    "Please ensure it is unique"
                )
            before, _, after = text.partition(old) if old else ("", "", text)
            line = before.count("\n") + 1
            return before + command.new_str + after

        text, note = self._edit(path, replace)
        snippet = _number_lines(path, text, (line - _SNIPPET_MARGIN, line + _SNIPPET_MARGIN))
        return (
            f"The memory file has been edited.{note} Here is the snippet showing the change (with line numbers):\n"
            f"{snippet}"
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        line, new = command.insert_line, command.insert_text.rstrip("\n")

        def insert_line(text: str) -> str:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                )
            return "\n".join([*lines[:line], new, *lines[line:]]).removesuffix("\n") + "\n"

        _, note = self._edit(command.path, insert_line)
        return f"The file {command.path} has been edited.{note}"

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        target = _normalize_path(command.path)
        if target == _ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        with _translate_errors(missing=f"The path {command.path} does not exist"):
            self._memory.files.forget(target, project=self._project)
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        path, to = command.old_path, command.new_path
        source, target = _normalize_path(path), _normalize_path(to)
        if source == _ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        exists = f"The destination {to} already exists"
        if target == _ROOT:
            raise ToolError(exists)
        with _translate_errors(missing=f"The path {path} does not exist", exists=exists):
            self._memory.files.move(source, target, project=self._project)
        return f"Successfully renamed {path} to {to}"

    def clear_all_memory(self) -> str:
        with _translate_errors(), suppress(NotFound):  # nothing to clear is no error
            self._memory.files.forget(_ROOT, project=self._project)
        return "All memory cleared"

    def _edit(self, path: str, change: Callable[[str], str]) -> tuple[str, str]:
        """Change the text of a file; return the new one, and a note if secrets in it were replaced."""
        written = ""

        def change_and_note(text: str) -> str:
            nonlocal written
            written = change(text)
            return written

        target = _normalize_path(path)
        if target == _ROOT:
            raise ToolError(f"The path {path} is not a file.")
        with _translate_errors(missing=_missing_file_message(path)):
            text = self._memory.files.edit(target, change_and_note, project=self._project).text
        return text, _describe_redacted(text, written)


class AsyncMemoristMemoryTool(BetaAsyncAbstractMemoryTool):
    """The `memory` tool for an asynchronous client; each command runs in a thread."""

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = MemoristMemoryTool(memory, project=project)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await run_sync(self._tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await run_sync(self._tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await run_sync(self._tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await run_sync(self._tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await run_sync(self._tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await run_sync(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        return await run_sync(self._tool.clear_all_memory)


def _normalize_path(path: object) -> str:
    """Return the path without `..` and the like; refuse one that leads out of /memories."""
    if not isinstance(path, str) or not f"{path}/".startswith(f"{_ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    normalized = posixpath.normpath(path)
    if not f"{normalized}/".startswith(f"{_ROOT}/"):
        raise ToolError(f"Path {path} would escape /memories directory")
    return normalized


def _missing_file_message(path: str) -> str:
    return f"The path {path} does not exist. Please provide a valid path."


@contextmanager
def _translate_errors(*, missing: str | None = None, exists: str | None = None) -> Iterator[None]:
    """Raise Memorist's errors as tool errors, with the SDK's wording where it is given."""
    try:
        yield
    except MemoristError as exc:
        wording = missing if isinstance(exc, NotFound) else exists if isinstance(exc, AlreadyExists) else None
        raise ToolError(wording or describe_error(exc)) from exc


def _describe_redacted(stored: str, written: str) -> str:
    """Return a sentence for the model if secrets of what it wrote were replaced."""
    is_replaced = stored.count("[redacted:") > written.count("[redacted:")
    return " What looked like a secret was replaced by [redacted:KIND]." if is_replaced else ""


def _number_lines(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """Return lines with their numbers: all, or those from the first to the last of the range (-1: to the end)."""
    lines = text.split("\n")
    if len(lines) > _MAX_FILE_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of {_MAX_FILE_LINES:,} lines.")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
    first, last = max(first, 1), len(lines) if last == -1 else last
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


def _find_lines(text: str, part: str) -> Iterator[int]:
    """Yield the line number of each occurrence."""
    at = text.find(part)
    while at != -1:
        yield text.count("\n", 0, at) + 1
        at = text.find(part, at + 1)


def _list_folder(folder: str, sizes: dict[str, int]) -> list[tuple[str, int]]:
    """Return the folder and its entries that are not hidden, two levels deep, with their sizes in bytes."""
    entries = {folder: 0}
    for path, size in sizes.items():
        names = path.removeprefix(f"{folder}/").split("/")
        entries[folder] += size
        for level in range(1, min(len(names), _MAX_LISTING_DEPTH) + 1):
            if any(name.startswith(".") for name in names[:level]):
                break
            entry = "/".join([folder, *names[:level]]) + ("/" if level < len(names) else "")
            entries[entry] = entries.get(entry, 0) + size
    return sorted(entries.items(), key=lambda entry: entry[0].rstrip("/").split("/"))


def _format_size(size: int) -> str:
    """Format bytes as `du -h` does: 0B, 700B, 1.5K, 2M."""
    amount, unit = float(size), "B"
    for larger in "KMG":
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f}{unit}" if amount == int(amount) else f"{amount:.1f}{unit}"
