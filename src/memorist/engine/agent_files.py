"""Files that an agent writes for itself: memories under a path, found like all others."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.documents import File
from memorist.engine.resources import Resources
from memorist.errors import InvalidInput
from memorist.records import FILE, Memory

# A memory cannot be empty, a file can. An empty file is stored under this text, with its real one in the metadata.
_EMPTY_TEXT, _BLANK_KEY = "(empty file)", "blank"


class AgentFiles:
    """Creates, edits, moves and forgets files that exist in memory alone."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store.agent_files

    def create(self, path: str, text: str, project: str | None) -> File:
        fields = dict(kind=FILE, source=self._check_path(path), project=project, **_fields(text, {}))
        draft = self._resources.redaction.redact_draft(validation.draft(fields, datetime.now(UTC)))
        result = self._store.create(draft)
        self._resources.embed(result.pending)
        return _as_file(result.memory)

    def edit(self, path: str, change: Callable[[str], str], project: str | None) -> File:

        def changes(memory: Memory) -> dict[str, Any]:
            new = validation.changes(_fields(change(_text_of(memory)), memory.metadata))
            return self._resources.redaction.redact_changes(new, memory.metadata)

        path, project = self._check_path(path), validation.name(project, "project")
        memory, job = self._store.edit(path, project, changes, datetime.now(UTC))
        self._resources.embed(job)
        return _as_file(memory)

    def list_files(self, path: str, project: str | None) -> list[File]:
        found = self._store.list_files(self._check_path(path, folder=True), validation.name(project, "project"))
        return list({memory.source: _as_file(memory) for memory in reversed(found)}.values())[::-1]

    def move(self, path: str, to: str, project: str | None) -> int:
        project = validation.name(project, "project")
        return self._store.move(self._check_path(path), self._check_path(to), project, datetime.now(UTC))

    def forget(self, path: str, project: str | None) -> int:
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        path = self._check_path(path, folder=True)
        return self._store.forget(path, validation.name(project, "project"), datetime.now(UTC))

    def _check_path(self, path: object, *, folder: bool = False) -> str:
        checked = validation.file_path(path, folder=folder)
        if self._resources.redaction.redact_text(checked) != checked:
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
