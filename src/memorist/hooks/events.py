"""
What agents say when something happens in a session, and the form in which they want to hear an answer.

Claude Code and Codex share one form; Gemini CLI has it too, with names of its own; Cursor has another.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput

BEGIN, ASK, SAVE = "begin", "ask", "save"
EVENTS: Mapping[str, str] = {  # a client's name for a moment of a session, and what is done then
    "SessionStart": BEGIN,
    "UserPromptSubmit": ASK,
    "PreCompact": SAVE,
    "SessionEnd": SAVE,
    "BeforeAgent": ASK,  # Gemini CLI
    "sessionStart": BEGIN,  # Cursor
}
MAX_ANSWER = 10_000  # characters; Claude Code puts a longer one into a file, and shows the model its beginning

_BY_MACHINE = ("system", "poll_event")  # prompts that nobody typed: notifications, messages of other agents
_COMMAND = re.compile(r"/[\w:.-]+(?:\s|$)")  # but not a path, in which another slash follows
_WORDS = re.compile(r"\w+")
_SHORT = 4  # letters of the Latin alphabet that are no question yet
_ASSENT = frozenset(
    """
    a again ahead all alright and both continue cool correct do done exactly fine first for go good great i it just keep
    know lgtm like looks me more much nah neither next nice no nope not now ok okay on one perfect please proceed really
    right second so stop sure thank thanks that the then third this too try two up very wait well works yeah yep yes you
    """.split()
)


@dataclass(frozen=True, slots=True)
class Event:
    """A moment of a session: where it is, and what there is to go by."""

    name: str
    folder: Path | None = None
    prompt: str | None = None
    session: str | None = None
    transcript: Path | None = None

    @property
    def moment(self) -> str:
        return EVENTS[self.name]


def read(name: str, given: bytes, root: str | None = None) -> Event:
    """An event as a client sends it; `root` is the project's folder, where the client's environment tells it."""
    if name not in EVENTS:
        raise InvalidInput(f"there is no event {name!r}; there are: {', '.join(EVENTS)}")
    try:
        fields = json.loads(given)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"what came with {name} is not JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise InvalidInput(f"what came with {name} is no JSON object")
    roots = fields.get("workspace_roots")  # as Cursor has it
    folder = root or _text(fields, "cwd") or (_first(roots) if isinstance(roots, list) else None)
    prompt, transcript = _text(fields, "prompt"), _text(fields, "transcript_path")
    if fields.get("source") in _BY_MACHINE:
        prompt = None
    return Event(
        name,
        folder=Path(folder).expanduser().absolute() if folder else None,
        prompt=prompt if prompt and _is_question(prompt) else None,
        session=_text(fields, "session_id"),
        transcript=Path(transcript).expanduser().absolute() if transcript else None,
    )


def answer(name: str, context: str) -> str:
    """What to print, so that the client puts this text before its model."""
    if name == "sessionStart":
        return json.dumps({"continue": True, "additional_context": context})
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}})


def _is_question(prompt: str) -> bool:
    """Whether there is anything to look for: not in a yes, a go on, or a command to the client."""
    if _COMMAND.match(prompt.strip()):
        return False
    words = _WORDS.findall(prompt.lower())
    if all(word in _ASSENT for word in words):
        return False
    return len("".join(words)) >= _SHORT or not "".join(words).isascii() or any(map(str.isdigit, "".join(words)))


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _first(values: list[Any]) -> str | None:
    return next((value for value in values if isinstance(value, str) and value.strip()), None)
