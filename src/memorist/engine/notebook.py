"""Files that an agent writes for itself: kept as memories, found like all others, each under its path."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.documents import File
from memorist.engine.core import Core
from memorist.errors import InvalidInput
from memorist.records import FILE, Memory

# A memory has to say something; a file may be empty. It then says so, and its metadata holds the text it has.
EMPTY, BLANK = "(empty file)", "blank"


class Notebook(Core):
    """Everything about files that are written here, and nowhere else."""

    def create_file(self, path: str, text: str, *, project: str | None = None) -> File:
        """
        Keep a new file in memory, under a path such as /notes/today.md. Its folders need not be made: a path is all
        there is of them. AlreadyExists where the path is taken.
        """
        fields = dict(kind=FILE, source=self._place(path), project=project, **_content(text, {}))
        kept = self._store.agent_files.create(self._redaction.draft(validation.draft(fields, datetime.now(UTC))))
        self._give_vectors([kept.pending] if kept.pending else [])
        return _file(kept.memory)

    def edit_file(self, path: str, change: Callable[[str], str], *, project: str | None = None) -> File:
        """
        Make of the text of a file what `change` makes of it; what it said before is in its history. Nobody writes in
        between, so `change` must be quick and use no memory itself; if it raises something, nothing is changed.
        """

        def changes(memory: Memory) -> dict[str, Any]:
            new = validation.changes(_content(change(_text(memory)), memory.metadata))
            return self._redaction.changes(new, memory.metadata)

        memory, pending = self._store.agent_files.edit(
            self._place(path), validation.name(project, "project"), changes, datetime.now(UTC)
        )
        self._give_vectors([pending] if pending else [])
        return _file(memory)

    def files(self, path: str = "/", *, project: str | None = None) -> list[File]:
        """The file of this path, or every file in this folder and the folders in it, by path; empty where is none."""
        found = self._store.agent_files.list_files(self._place(path, folder=True), validation.name(project, "project"))
        return list({memory.source: _file(memory) for memory in reversed(found)}.values())[::-1]

    def move_files(self, path: str, to: str, *, project: str | None = None) -> int:
        """Give a file, or all files of a folder at once, another path; gives how many."""
        return self._store.agent_files.move(
            self._place(path), self._place(to), validation.name(project, "project"), datetime.now(UTC)
        )

    def forget_files(self, path: str, *, project: str | None = None) -> int:
        """Forget a file, or all files of a folder at once, as `forget` does; gives how many."""
        self._recorder.flush()  # what is written later would come back
        place = self._place(path, folder=True)
        return self._store.agent_files.forget(place, validation.name(project, "project"), datetime.now(UTC))

    def _place(self, path: object, *, folder: bool = False) -> str:
        place = validation.file_path(path, folder=folder)
        if self._redaction.shown(place) != place:
            raise InvalidInput("the path holds what looks like a secret; choose another name")
        return place


def _content(text: object, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that hold a text, beside what else the metadata says."""
    others = {key: value for key, value in metadata.items() if key != BLANK}
    if isinstance(text, str) and not text.strip():
        return {"content": EMPTY, "metadata": {**others, BLANK: text}}
    return {"content": validation.content(text, "a file"), "metadata": others}


def _text(memory: Memory) -> str:
    blank = memory.metadata.get(BLANK)
    return blank if memory.content == EMPTY and isinstance(blank, str) else memory.content


def _file(memory: Memory) -> File:
    return File(memory.source or "", _text(memory), memory.id, memory.project, memory.created_at, memory.updated_at)
