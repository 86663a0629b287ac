"""Hints of errors, as tools to call or commands for the user to type."""

from memorist.errors import MemoristError, find_hint

TOOLS = {
    "list_memories": "memory_search and memory_timeline give ids",
    "list_sessions": "memory_timeline gives the ids of sessions",
    "reembed": "the user can make them with `memorist reembed`",
    "repair": "the user can repair indexes and vectors with `memorist check --repair`",
    "restore_memory": "only the user can bring it back, with `memorist restore {0}`",
    "unsupersede": "only the user can undo it, with `memorist supersede --undo {0}`",
}


def describe_error(error: MemoristError) -> str:
    """Return the message of an error, and what an agent can do about it, if anything."""
    hint = find_hint(error)
    advice = None if hint is None else TOOLS.get(hint.action)
    return str(error) if hint is None or advice is None else f"{error}; {advice.format(hint.subject)}"
