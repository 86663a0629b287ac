"""Hints of errors, as commands to type."""

from memorist.errors import find_hint

COMMANDS = {
    "check": "`memorist check` says more",
    "index_file": "`memorist index {0}` indexes it",
    "list_facts": "`memorist fact list MEMORY` shows the facts of a memory",
    "list_memories": "`memorist list` shows ids",
    "list_sessions": "`memorist session list` shows ids, `memorist session start` starts a session",
    "overwrite": "--force overwrites it",
    "reembed": "`memorist reembed` makes them",
    "repair": "`memorist check --repair` repairs indexes and vectors",
    "restore_memory": "`memorist restore {0}` brings it back",
    "unsupersede": "`memorist supersede --undo {0}` undoes it",
}


def describe_error(error: Exception) -> str:
    """Return the message of an error, and the command that helps, if there is one."""
    hint = find_hint(error)
    return str(error) if hint is None else f"{error}; {COMMANDS[hint.action].format(hint.subject)}"
