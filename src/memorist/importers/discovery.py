"""Find the conversations and memories that other programs keep on this machine, where each of them keeps its own."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from memorist.config import UserFolders
from memorist.importers.memories import CLAUDE_MEM, MCP_MEMORY_SERVICE, TABLES
from memorist.importers.transcripts import FORMATS


class Program(Struct, frozen=True):
    """A program, named like its format, and where it keeps conversations or memories: files, folders and globs."""

    name: str
    title: str
    places: tuple[str, ...]

    @property
    def keeps_memories(self) -> bool:
        return self.name in TABLES

    def find(self, folders: UserFolders) -> list[Path]:
        """Return the places that exist."""
        found: list[Path] = []
        for template in self.places:
            place, _, pattern = template.partition("*")
            folder = folders.expand(place)
            try:
                paths = folder.glob(f"*{pattern}") if "*" in template else [folder]
                found += sorted(path for path in paths if os.path.exists(path))
            except OSError:  # it is not for this user to read
                continue
        return found


_PROGRAMS = (
    *(Program(format.name, format.program, format.places) for format in FORMATS.values() if format.places),
    Program(CLAUDE_MEM, "claude-mem", ("{claude-mem}/claude-mem.db",)),
    Program(MCP_MEMORY_SERVICE, "mcp-memory-service", ("{mcp-memory}/sqlite_vec.db",)),
)
PROGRAMS: Mapping[str, Program] = {program.name: program for program in _PROGRAMS}
