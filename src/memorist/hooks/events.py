"""
Events that agents' clients send to hooks, and answers in the form each client expects.

Claude Code and Codex share one form; Gemini CLI has it too, with event names of its own; Cursor has another.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput

BRIEF, RECALL, SAVE = "brief", "recall", "save"
ACTIONS: Mapping[str, str] = {  # by a client's name of the event
    "SessionStart": BRIEF,
    "UserPromptSubmit": RECALL,
    "PreCompact": SAVE,
    "SessionEnd": SAVE,
    "BeforeAgent": RECALL,  # Gemini CLI
    "sessionStart": BRIEF,  # Cursor
}
MAX_ANSWER_CHARACTERS = 10_000  # Claude Code writes a longer one to a file, and shows the model only its beginning

_MACHINE_SOURCES = ("system", "poll_event")  # prompts that no person typed: notifications, messages of other agents
_COMMAND = re.compile(r"/[\w:.-]+(?:\s|$)")  # but not a path, in which another slash follows
_WORDS = re.compile(r"\w+")
_MIN_QUESTION_LETTERS = 4  # of the Latin alphabet
_ASSENT_WORDS = frozenset(
    """
    a again ahead all alright and both continue cool correct do done exactly fine first for go good great i it just keep
    know lgtm like looks me more much nah neither next nice no nope not now ok okay on one perfect please proceed really
    right second so stop sure thank thanks that the then third this too try two up very wait well works yeah yep yes you
    """.split()
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session, with what the client says about it."""

    name: str
    folder: Path | None = None
    prompt: str | None = None
    session: str | None = None
    transcript: Path | None = None

    @property
    def action(self) -> str:
        return ACTIONS[self.name]


def parse_event(name: str, data: bytes, root: str | None = None) -> Event:
    """Return an event as a client sends it; `root` is the project's folder, if the client's environment names it."""
    if name not in ACTIONS:
        raise InvalidInput(f"there is no event {name!r}; the events are: {', '.join(ACTIONS)}")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"the input of {name} is not JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise InvalidInput(f"the input of {name} is not a JSON object")
    roots = fields.get("workspace_roots")  # Cursor
    folder = root or _get_text(fields, "cwd") or (_find_text(roots) if isinstance(roots, list) else None)
    prompt, transcript = _get_text(fields, "prompt"), _get_text(fields, "transcript_path")
    if fields.get("source") in _MACHINE_SOURCES:
        prompt = None
    return Event(
        name,
        folder=Path(folder).expanduser().absolute() if folder else None,
        prompt=prompt if prompt and _is_question(prompt) else None,
        session=_get_text(fields, "session_id"),
        transcript=Path(transcript).expanduser().absolute() if transcript else None,
    )


def format_answer(name: str, context: str) -> str:
    """Return the output with which the client of an event gives this context to its model."""
    if name == "sessionStart":
        return json.dumps({"continue": True, "additional_context": context})
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}})


def _is_question(prompt: str) -> bool:
    """Check that there is something to search for: not in a "yes", a "go on", or a command to the client."""
    if _COMMAND.match(prompt.strip()):
        return False
    words = _WORDS.findall(prompt.lower())
    if all(word in _ASSENT_WORDS for word in words):
        return False
    letters = "".join(words)
    return len(letters) >= _MIN_QUESTION_LETTERS or not letters.isascii() or any(map(str.isdigit, letters))


def _get_text(fields: Mapping[str, Any], name: str) -> str | None:
    return _find_text([fields.get(name)])


def _find_text(values: list[Any]) -> str | None:
    return next((value for value in values if isinstance(value, str) and value.strip()), None)
