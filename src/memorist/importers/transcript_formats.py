"""
How each program writes a conversation down: one value or line of its files, added to a draft in our own form.

Every value may have any type: files are damaged, and programs change. What is unknown is left out, nothing is raised.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from memorist.validation import MAX_NAME_CHARACTERS, clean


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said at once; with a `tool`, what was asked of that tool or what it gave back."""

    id: str | None  # the other program's, and unique in its conversation
    role: str  # user, assistant, system or tool
    text: str
    at: datetime | None  # in UTC
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A conversation with at least one turn. Its id is the other program's, or made from how it begins."""

    id: str
    format: str
    title: str | None
    project: str | None
    started_at: datetime | None
    ended_at: datetime | None
    turns: tuple[Turn, ...]


@dataclass(slots=True)
class ConversationBuilder:
    """A conversation while it is read."""

    format: str
    id: str | None = None
    title: str | None = None
    title_rank: int = 0
    project: str | None = None
    created: datetime | None = None
    updated: datetime | None = None
    unread: int = 0  # messages too damaged to be read
    turns: list[Turn] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)  # the tools that were called, by the id of the call
    queued: str | None = None  # the last that was typed while an answer was still being given

    def add(self, role: str, text: str, at: datetime | None, id: str | None, tool: str | None = None) -> None:
        if text := clean(text).strip():
            known = id in self.ids
            if id is not None:
                self.ids.add(id)
            self.turns.append(Turn(None if known else id, role, text, at, tool))

    def repeats(self, text: str) -> bool:
        """Whether the last that was said is this, by the user."""
        last = next((turn for turn in reversed(self.turns) if turn.tool is None), None)
        return last is not None and last.role == "user" and last.text == clean(text).strip()

    def finished(self, taken: Counter[str]) -> ImportedConversation:
        """The conversation; `taken` counts the ids that were made up for others of the same file."""
        times = [turn.at for turn in self.turns if turn.at is not None]
        started = min((time for time in (self.created, *times) if time is not None), default=None)
        ended = max(times, default=None) or self.updated
        if started is not None and ended is not None:
            ended = max(started, ended)
        id = self.id or self._made_up_id(taken)
        return ImportedConversation(id, self.format, self.title, self.project, started, ended, tuple(self.turns))

    def _made_up_id(self, taken: Counter[str]) -> str:
        """
        From all that was said up to the first answer: so it stays when the conversation goes on, with tools or without.

        Two in one file that begin alike are told apart by their order.
        """
        said = [turn for turn in self.turns if turn.tool is None] or self.turns
        length = next((count for count, turn in enumerate(said, 1) if turn.role == "assistant"), 1)
        opening = [(turn.role, turn.text, turn.at and turn.at.isoformat()) for turn in said[:length]]
        digest = _digest(json.dumps([self.format, opening]))
        taken[digest] += 1
        return digest if taken[digest] == 1 else _digest(f"{digest} {taken[digest]}")


# Claude Code: a line each

_BY_MACHINE = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_TITLES = {"ai-title": (2, "aiTitle"), "custom-title": (3, "customTitle")}  # before a summary, which ranks 1
_REMINDER, _REMINDED = "<system-reminder>", "</system-reminder>"
_WRAPPED = re.compile(
    r"\s*<(command-[a-z]+|local-command-[a-z]+|bash-(?:input|stdout|stderr)|ide_[a-z_]+|task-notification"
    r"|user-prompt-submit-hook)\b[^>]*>"
)
_NOTES = (
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
)


def claude_code_line(
    draft: ConversationBuilder, line: Mapping[str, Any], tools: bool, *, seen: set[str], summaries: Mapping[str, str]
) -> str | None:
    """
    Take in one line; the answer is why it could not be, where it is damaged.

    A resumed session repeats earlier lines, which count once (`seen`). `summaries` are titles by the uuid of a line.
    """
    kind, uuid, message = line.get("type"), identifier(line.get("uuid")), line.get("message")
    _claude_code_details(draft, line, summaries.get(uuid or ""))
    aside = line.get("isSidechain") is True  # the talk with an agent that the main conversation sent off
    if any(line.get(mark) is True for mark in _BY_MACHINE) or (aside and not tools) or uuid in seen:
        return None
    queued = _object(line.get("attachment")) if kind == "attachment" else {}
    if queued.get("type") == "queued_command" and queued.get("commandMode", "prompt") == "prompt":
        kind, message = "user", {"content": queued.get("prompt")}
    elif kind not in ("user", "assistant"):
        return None
    if not isinstance(message, dict):
        return "the line has no message"
    if message.get("model") == "<synthetic>":  # an error, or a word in the place of an answer
        return None
    at, content = _time(line.get("timestamp")), message.get("content")
    text = _spoken(content, _typed if kind == "user" else str.strip)
    if text or tools:
        seen.update(one for one in (uuid, identifier(queued.get("source_uuid"))) if one)
    # What was typed during an answer is seldom a line of its own as well, but then it is not said twice.
    twice = kind == "user" and draft.repeats(text) and (bool(queued) or draft.queued == text)
    if queued:
        draft.queued = text
    if not twice and text != "(no content)":
        draft.add("tool" if aside else str(kind), text, at, uuid, "agent" if aside else None)
    if tools:
        _add_tools(draft, content, at, uuid)
    return None


def _claude_code_details(draft: ConversationBuilder, line: Mapping[str, Any], summary: str | None) -> None:
    if draft.project is None and isinstance(folder := line.get("cwd"), str):
        draft.project = project_in(folder)
    rank, key = _TITLES.get(str(line.get("type")), (1, ""))
    title = summary if rank == 1 else label(line.get(key))
    if title and rank >= draft.title_rank:
        draft.title, draft.title_rank = title, rank


def project_in(folder: str) -> str | None:
    """What the project is called whose sessions take place in a folder: as the folder is."""
    return label(re.split(r"[\\/]", folder.rstrip("\\/"))[-1])


def _typed(text: str) -> str:
    """What the person typed, without what the program put around it."""
    kept, at = [], 0
    while (opened := text.find(_REMINDER, at)) >= 0 and (closed := text.find(_REMINDED, opened)) >= 0:
        kept.append(text[at:opened])
        at = closed + len(_REMINDED)
    text, at = "".join([*kept, text[at:]]), 0
    while wrapped := _WRAPPED.match(text, at):
        closing = f"</{wrapped[1]}>"
        closed = text.find(closing, wrapped.end())
        at = closed + len(closing) if closed >= 0 else len(text)
    text = text[at:].strip()
    return "" if text.startswith(_NOTES) else text


# ChatGPT: a tree of messages, of which one branch is the conversation

_HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")
_UNSAID = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
_MARKED = re.compile(" ?\ue200([^\ue200\ue201]*)\ue201")
_CITED = re.compile(
    r" ?(?:【(?:\d+(?::\d+)?†|turn\d|oaicite:)[^【】]*】|:contentReference\[oaicite:\d+\](?:\{index=\d+\})?"
    r"|\bcite(?:turn\d+[a-z]+\d+)+)|[\ue200-\ue20f]"
)


def chatgpt_conversation(draft: ConversationBuilder, value: Any, tools: bool) -> None:
    draft.id = identifier(value.get("conversation_id")) or identifier(value.get("id"))
    draft.title = label(value.get("title"))
    draft.created, draft.updated = _time(value.get("create_time")), _time(value.get("update_time"))
    nodes = value["mapping"]
    draft.unread = sum(not isinstance(node, dict) for node in nodes.values())
    leaf = value.get("current_node")
    for node in _branch(nodes, leaf if isinstance(leaf, str) and leaf in nodes else _newest_leaf(nodes), "parent"):
        message = node.get("message")
        if isinstance(message, dict):
            _chatgpt_message(draft, message, tools)
        elif message is not None:
            draft.unread += 1


def _newest_leaf(nodes: Mapping[str, Any]) -> str | None:
    """Where the conversation most likely ends if the file does not say."""
    inner = {
        node["parent"] for node in nodes.values() if isinstance(node, dict) and isinstance(node.get("parent"), str)
    }
    never = datetime.min.replace(tzinfo=UTC)
    leaves = [
        (_time(_object(node.get("message")).get("create_time")) or never, position, id)
        for position, (id, node) in enumerate(nodes.items())
        if isinstance(node, dict) and id not in inner
    ]
    return max(leaves)[2] if leaves else None


def _branch(nodes: Mapping[str, Any], leaf: object, parent: str) -> list[dict[str, Any]]:
    """From the root to the leaf; the other branches are what was edited and asked anew."""
    branch: list[dict[str, Any]] = []
    passed: set[str] = set()
    while isinstance(leaf, str) and leaf not in passed and isinstance(node := nodes.get(leaf), dict):
        passed.add(leaf)
        branch.append(node)
        leaf = node.get(parent)
    return branch[::-1]


def _chatgpt_message(draft: ConversationBuilder, message: Mapping[str, Any], tools: bool) -> None:
    author, content = _object(message.get("author")), message.get("content")
    role, recipient = _role(author.get("role")), message.get("recipient")
    if role is None or not isinstance(content, dict):
        draft.unread += 1
        return
    hidden = any(_object(message.get("metadata")).get(mark) is True for mark in _HIDDEN)
    if hidden or message.get("channel") == "analysis" or content.get("content_type") in _UNSAID:
        return
    tool = None
    if role == "tool":
        tool = label(author.get("name")) or "tool"
    elif isinstance(recipient, str) and recipient != "all":
        tool = label(recipient) or "tool"
    if tool and not tools:
        return
    text = next(filter(None, (_spoken(content.get(key)) for key in ("parts", "text", "result"))), "")
    if role != "user":
        text = _CITED.sub("", _MARKED.sub(_shown, text))
    draft.add(role, text, _time(message.get("create_time")), identifier(message.get("id")), tool)


def _shown(marked: re.Match[str]) -> str:
    """What ChatGPT shows in the place of a mark of its own: a name, a link's words, or nothing for a citation."""
    kind, *fields = marked[1].split("\ue202")
    words: Any = fields[0] if fields and kind in ("url", "link_title") else ""
    if fields and kind == "entity":
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            words = json.loads(fields[0])[1]
    space = " " if marked[0].startswith(" ") else ""
    return f"{space}{words}" if isinstance(words, str) and words else ""


# Claude.ai

_UNSUPPORTED = re.compile(r"```\s*This block is not supported on your current device yet\.\s*```")


def claude_conversation(draft: ConversationBuilder, value: Any, tools: bool) -> None:
    draft.id = identifier(value.get("uuid"))
    draft.title, draft.project = label(value.get("name")), label(_object(value.get("project")).get("name"))
    draft.created, draft.updated = _time(value.get("created_at")), _time(value.get("updated_at"))
    for message in _claude_branch(value):
        role = _role(message.get("sender")) if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            draft.unread += 1
            continue
        content, at, id = message.get("content"), _time(message.get("created_at")), identifier(message.get("uuid"))
        if not isinstance(content, list) or not content:  # as in old exports; in new ones `text` has thoughts in it
            content = message.get("text")
        draft.add(role, _UNSUPPORTED.sub("", _spoken(content)), at, id)
        if tools:
            _add_tools(draft, content, at, id)
            for number, attached in enumerate(_list(message.get("attachments"))):
                name = label(_object(attached).get("file_name")) or "attachment"
                text = _spoken(_object(attached).get("extracted_content"))
                draft.add("tool", text, at, id and f"{id}:file{number}", name)


def _claude_branch(value: Mapping[str, Any]) -> list[Any]:
    """All messages, or those of the branch that was not given up where the parents tell it without a gap."""
    messages = _list(value.get("chat_messages"))
    by_id = {one["uuid"]: one for one in messages if isinstance(one, dict) and isinstance(one.get("uuid"), str)}
    leaf = value.get("current_leaf_message_uuid")
    if not isinstance(leaf, str) or leaf not in by_id:
        leaf = next(reversed(by_id), None)
    branch = _branch(by_id, leaf, "parent_message_uuid")
    known = [one for one in messages if isinstance(one, dict)]
    if not branch or not all(isinstance(one.get(key), str) for one in known for key in ("uuid", "parent_message_uuid")):
        return messages
    complete = branch[0] is messages[0] or branch[0]["parent_message_uuid"].startswith("00000000-")
    return branch + [one for one in messages if not isinstance(one, dict)] if complete else messages


# Lists of messages as the API of OpenAI has them, and lines that are a message each

_ROLES = (
    dict.fromkeys(("user", "human"), "user")
    | dict.fromkeys(("assistant", "ai", "bot", "model", "gpt", "claude", "chatgpt"), "assistant")
    | {"system": "system", "developer": "system", "tool": "tool", "function": "tool"}
)
SESSIONS = "sessionId session_id session conversation_id conversationId conversation thread_id chat_id".split()
TEXTS = ("content", "text")
_SPEAKERS = ("role", "speaker", "author", "sender", "from")
_TIMES = "timestamp created_at create_time created time date ts at".split()
_IDS = ("id", "uuid", "message_id")


def openai_conversation(draft: ConversationBuilder, value: Any, tools: bool) -> None:
    head = _object(value)
    draft.id = identifier(first(head, (*SESSIONS, "id")))
    draft.title, draft.project = label(first(head, ("title", "name"))), label(head.get("project"))
    draft.created = _time(first(head, _TIMES))
    for message in head.get("messages", []) if head else value:
        if not isinstance(message, dict) or ("role" not in message and "type" not in message):
            draft.unread += 1
        elif role := _role(message.get("role")):
            _add_message(draft, message, role, message.get("content"), tools)


def plain_line(draft: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
    """Take in one line; the answer is why it could not be."""
    content, who = first(line, TEXTS), first(line, _SPEAKERS)
    if not isinstance(content, str | list | dict) and "tool_calls" not in line:
        return f"the line has no text; it can be in: {', '.join(TEXTS)}"
    draft.project = draft.project or label(line.get("project"))
    draft.title = draft.title or label(line.get("title"))
    if isinstance(who, dict):
        who = first(who, ("role", "name"))
    role = _role(who)
    if role is None and (name := label(who)) and (words := _spoken(content)):
        content = f"{name}: {words}"  # people have names, and who said it is half of what was said
    _add_message(draft, line, role or "user", content, tools)
    return None


def _add_message(draft: ConversationBuilder, message: Mapping[str, Any], role: str, content: Any, tools: bool) -> None:
    at, id = _time(first(message, _TIMES)), identifier(first(message, _IDS))
    if role != "tool":
        draft.add(role, _spoken(content), at, id)
    elif tools:
        called = draft.calls.get(str(message.get("tool_call_id")))
        name = label(first(message, ("name", "tool"))) or called or "tool"
        draft.add(role, _spoken(content), at, id, name)
    if tools:
        _add_tools(draft, content, at, id)
        for number, call in enumerate(_list(message.get("tool_calls"))):
            function, own_id = _object(_object(call).get("function")), id and f"{id}:call{number}"
            _add_call(draft, _object(call).get("id"), function.get("name"), function.get("arguments"), at, own_id)


# What several of them have in common


def _add_tools(draft: ConversationBuilder, content: Any, at: datetime | None, id: str | None) -> None:
    """The calls and results of tools among the parts of a message, after its words."""
    for number, part in enumerate(_list(content)):
        kind = str(_object(part).get("type"))
        own_id = id and f"{id}:{number}"
        if kind.endswith("tool_use"):
            _add_call(draft, part.get("id"), part.get("name"), part.get("input"), at, own_id)
        elif kind.endswith("tool_result"):
            name = draft.calls.get(str(part.get("tool_use_id")), "tool")
            draft.add("tool", _spoken(part.get("content")), at, own_id, name)


def _add_call(
    draft: ConversationBuilder, call: Any, name: Any, given: Any, at: datetime | None, id: str | None
) -> None:
    name = label(name) or "tool"
    if isinstance(call, str):
        draft.calls[call] = name
    with suppress(RecursionError):
        draft.add("assistant", given if isinstance(given, str) else json.dumps(given, ensure_ascii=False), at, id, name)


_SPOKEN = ("text", "input_text", "output_text", "audio_transcription")


def _spoken(content: Any, cleaned: Callable[[str], str] = str.strip) -> str:
    """The words among the parts of a message: not its thoughts, calls, pictures and files."""
    words = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and part.get("type", part.get("content_type", "text")) in _SPOKEN:
            part = part.get("text")
        if isinstance(part, str):
            words.append(cleaned(part))
    return "\n\n".join(filter(None, words))


def first(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def identifier(value: Any) -> str | None:
    """An id of another program; a digest of it if it is not one line of up to 128 characters."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:d}" if abs(value) < 10**100 else None
    text = value.strip() if isinstance(value, str) else ""
    return (text if _USABLE.fullmatch(text) else _digest(text)) if text else None


_USABLE = re.compile(r"[^\x00-\x1f\ud800-\udfff]{1,128}")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def label(value: Any) -> str | None:
    """A title or name: one line, not too long to be stored; None where there is none."""
    return (
        (" ".join(clean(value[: 4 * MAX_NAME_CHARACTERS]).split())[:MAX_NAME_CHARACTERS].strip() or None)
        if isinstance(value, str)
        else None
    )


def _time(value: Any) -> datetime | None:
    """ISO text (in UTC if it names no zone) or an epoch in seconds or a thousandth of them; None for anything else."""
    try:
        if isinstance(value, str):
            text = value.strip()[:100]
            if not _EPOCH.fullmatch(text):
                moment = datetime.fromisoformat(text)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            value = float(text)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e19:
            return None
        while value > 1e11:  # in seconds, the year 5138: so these are thousandths, or thousandths of those
            value /= 1000
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


_EPOCH = re.compile(r"[0-9]{9,19}(\.[0-9]+)?")


def _role(value: Any) -> str | None:
    return _ROLES.get(value.strip().lower()) if isinstance(value, str) else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
