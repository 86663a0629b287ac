"""Files that an agent writes for itself. They exist in memory alone."""

import builtins
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.arguments import FilePath
from memorist.contract import names_unknown, operation
from memorist.engine.room import Room
from memorist.errors import ChangedMeanwhile, InvalidInput, NotFound
from memorist.file_records import File
from memorist.records import FILE, Memory

# A memory cannot be empty, a file can. An empty file is stored under this text, with its real one in the metadata.
_EMPTY_TEXT, _BLANK_KEY = "(empty file)", "blank"
_MAX_EDITS = 10  # attempts at a file on a server that others change at the same time


class Files(Room):
    """Creates, edits, moves and forgets files of an agent."""

    _name = "files"

    @operation("POST /files", status=201)
    def create(self, path: FilePath, text: str, *, project: str | None = None) -> File:
        """Store a new file under a path such as /notes/today.md; folders need not be made. May raise AlreadyExists."""
        fields = dict(kind=FILE, source=self._check_path(path), project=project, **_fields(text, {}))
        draft = self._resources.model_redaction.redact_draft(validation.draft(fields, datetime.now(UTC)))
        result = self._store.agent_files.create(draft)
        self._resources.embed(result.pending)
        return _as_file(result.memory)

    @names_unknown
    def edit(self, path: str, change: Callable[[str], str], *, project: str | None = None) -> File:
        """
        Replace the text of a file by what `change` returns for it; the earlier text is in the file's history.
        Nobody else writes meanwhile, so `change` must be quick and use no memory itself; if it raises, nothing changes.
        On a server, it is called again if somebody else has changed the file meanwhile.
        """
        if self._remote is not None:
            return self._edit_remotely(path, change, project)

        def changes(memory: Memory) -> dict[str, Any]:
            new = validation.changes(_fields(change(_text_of(memory)), memory.metadata))
            return self._resources.model_redaction.redact_changes(new, memory.metadata)

        path, project = self._check_path(path), validation.name(project, "project")
        memory, job = self._store.agent_files.edit(path, project, changes, datetime.now(UTC))
        self._resources.embed(job)
        return _as_file(memory)

    def _edit_remotely(self, path: str, change: Callable[[str], str], project: str | None) -> File:
        for attempt in range(_MAX_EDITS):
            found = [file for file in self.list(path, project=project) if file.path == path]
            if not found:
                raise NotFound(f"there is no file {path}")
            try:
                return self.replace(path, change(found[0].text), before=found[0].text, project=project)
            except ChangedMeanwhile as exc:
                if attempt == _MAX_EDITS - 1:
                    raise InvalidInput(f"{path} is changed all the time by others; try again later") from exc
        raise AssertionError("unreachable")

    @operation("PUT /files")
    def replace(self, path: FilePath, text: str, *, before: str, project: str | None = None) -> File:
        """Replace the text of a file, if it is still what `before` says; else ChangedMeanwhile is raised."""

        def change(current: str) -> str:
            if current != before:
                raise ChangedMeanwhile(f"{path} has been changed since it was read; read it again")
            return text

        return self.edit(path, change, project=project)

    @operation("GET /files")
    def list(self, path: FilePath = "/", *, project: str | None = None) -> builtins.list[File]:
        """List the file of this path, or every file below this folder, by path."""
        name = validation.name(project, "project")
        found = self._store.agent_files.list_files(self._check_path(path, folder=True), name)
        return [*{memory.source: _as_file(memory) for memory in reversed(found)}.values()][::-1]

    @operation("POST /files:move")
    def move(self, path: FilePath, to: FilePath, *, project: str | None = None) -> int:
        """Give a file, or all files of a folder at once, another path; return how many."""
        project = validation.name(project, "project")
        return self._store.agent_files.move(self._check_path(path), self._check_path(to), project, datetime.now(UTC))

    @operation("DELETE /files")
    def forget(self, path: FilePath, *, project: str | None = None) -> int:
        """Forget a file, or all files of a folder at once, as `forget` of a memory does; return how many."""
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        path = self._check_path(path, folder=True)
        return self._store.agent_files.forget(path, validation.name(project, "project"), datetime.now(UTC))

    def _check_path(self, path: object, *, folder: bool = False) -> str:
        checked = validation.file_path(path, folder=folder)
        if self._resources.model_redaction.redact_text(checked) != checked:
            raise InvalidInput("the path holds what looks like a secret; choose another name")
        return checked


def _fields(text: object, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory that hold a file's text, keeping other metadata."""
    others = {key: value for key, value in metadata.items() if key != _BLANK_KEY}
    if isinstance(text, str) and not text.strip():
        return {"content": _EMPTY_TEXT, "metadata": {**others, _BLANK_KEY: text}}
    return {"content": validation.content(text, "a file"), "metadata": others}


def _text_of(memory: Memory) -> str:
    blank = memory.metadata.get(_BLANK_KEY)
    return blank if memory.content == _EMPTY_TEXT and isinstance(blank, str) else memory.content


def _as_file(memory: Memory) -> File:
    return File(memory.source or "", _text_of(memory), memory.id, memory.project, memory.created_at, memory.updated_at)
