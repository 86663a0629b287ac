"""
The formats of conversations that other programs write. `FORMATS`, at the end, lists them; a new one is added there.

Every JSON value may have any type, because files are damaged and programs change. Readers leave out what they do not
know, and raise nothing.
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
    """A message; with a `tool`, the input or the output of that tool."""

    id: str | None  # of the other program, unique in its conversation
    role: str  # user, assistant, system or tool
    text: str
    at: datetime | None  # in UTC
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A conversation with at least one turn. Its id is that of the other program, or derived from its beginning."""

    id: str
    format: str
    title: str | None
    project: str | None
    started_at: datetime | None
    ended_at: datetime | None
    turns: tuple[Turn, ...]


@dataclass(slots=True)
class ConversationBuilder:
    """Collects a conversation while it is read."""

    format: str
    id: str | None = None
    title: str | None = None
    title_rank: int = 0
    project: str | None = None
    created: datetime | None = None
    updated: datetime | None = None
    unreadable: int = 0  # damaged messages
    turns: list[Turn] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)  # the name of each tool, by the id of its call
    queued: str | None = None  # the last message that was typed during an answer

    def add(self, role: str, text: str, at: datetime | None, id: str | None, tool: str | None = None) -> None:
        if text := clean(text).strip():
            known = id in self.ids
            if id is not None:
                self.ids.add(id)
            self.turns.append(Turn(None if known else id, role, text, at, tool))

    def repeats_last(self, text: str) -> bool:
        """Return True if the last turn is the same text, by the user."""
        last = next((turn for turn in reversed(self.turns) if turn.tool is None), None)
        return last is not None and last.role == "user" and last.text == clean(text).strip()

    def build(self, derived_ids: Counter[str]) -> ImportedConversation:
        """Return the conversation; `derived_ids` counts those of other conversations of the same file."""
        times = [turn.at for turn in self.turns if turn.at is not None]
        started = min((time for time in (self.created, *times) if time is not None), default=None)
        ended = max(times, default=None) or self.updated
        if started is not None and ended is not None:
            ended = max(started, ended)
        id = self.id or self._derive_id(derived_ids)
        return ImportedConversation(id, self.format, self.title, self.project, started, ended, tuple(self.turns))

    def _derive_id(self, derived_ids: Counter[str]) -> str:
        """Derive an id from the turns up to the first answer, which stay, and the order of those that begin alike."""
        messages = [turn for turn in self.turns if turn.tool is None] or self.turns
        length = next((count for count, turn in enumerate(messages, 1) if turn.role == "assistant"), 1)
        opening = [(turn.role, turn.text, turn.at and turn.at.isoformat()) for turn in messages[:length]]
        digest = _digest(json.dumps([self.format, opening]))
        derived_ids[digest] += 1
        return digest if derived_ids[digest] == 1 else _digest(f"{digest} {derived_ids[digest]}")


class LineReader:
    """Reads a file whose lines are one message each, in two passes: `scan` for all lines, then `read_line`."""

    def scan(self, line: Mapping[str, Any]) -> str | None:
        """Note what a line says about other lines, and return its session."""
        return self.find_session(line)

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        """Return the key that groups a line with others; None for a line without a conversation."""
        raise NotImplementedError

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        """Add a line to its conversation; return why it could not be read, if it is damaged."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TranscriptFormat:
    """A format: how it is called, recognised and read. A conversation is one JSON value, or spread over lines."""

    name: str
    description: str  # completes "expected ..."
    matches: Callable[[Any], bool]  # a JSON value, or a line
    read_value: Callable[[ConversationBuilder, Any, bool], None] | None = None  # adds a value to a builder
    open_lines: Callable[[str], LineReader] | None = None  # makes a reader for the stem of a file


# Claude Code

_GENERATED_FLAGS = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_TITLE_LINES = {"ai-title": (2, "aiTitle"), "custom-title": (3, "customTitle")}  # rank and key; a summary ranks 1
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_WRAPPER = re.compile(
    r"\s*<(command-[a-z]+|local-command-[a-z]+|bash-(?:input|stdout|stderr)|ide_[a-z_]+|task-notification"
    r"|user-prompt-submit-hook)\b[^>]*>"
)
_GENERATED_STARTS = (
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
)


def _is_claude_code(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or "role" in value:
        return False
    markers: tuple[tuple[str, ...], ...] = (("sessionId",), ("leafUuid",), ("messageId", "snapshot"))
    if value["type"] in ("user", "assistant"):
        markers += (("uuid",), ("session_id",))
    return any(all(key in value for key in keys) for keys in markers)


class _ClaudeCodeLines(LineReader):
    """Lines of Claude Code. A resumed session repeats earlier lines, which count once."""

    def __init__(self, file_stem: str) -> None:
        self._file_session = _parse_id(file_stem)  # files are named after their sessions
        self._seen: set[str] = set()  # ids of lines
        self._summaries: dict[str, str] = {}  # titles, by the id of a line

    def scan(self, line: Mapping[str, Any]) -> str | None:
        session = self.find_session(line)
        if session is None and isinstance(leaf := line.get("leafUuid"), str):
            self._summaries[leaf] = _parse_label(line.get("summary")) or ""
        return session

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        session = _parse_id(_first_value(line, _SESSION_KEYS))
        return session or (self._file_session if line.get("type") in ("user", "assistant") else None)

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        kind, uuid, message = line.get("type"), _parse_id(line.get("uuid")), line.get("message")
        _add_claude_code_details(builder, line, self._summaries.get(uuid or ""))
        aside = line.get("isSidechain") is True  # a subagent's conversation
        if any(line.get(flag) is True for flag in _GENERATED_FLAGS) or (aside and not tools) or uuid in self._seen:
            return None
        queued = _as_object(line.get("attachment")) if kind == "attachment" else {}
        if queued.get("type") == "queued_command" and queued.get("commandMode", "prompt") == "prompt":
            kind, message = "user", {"content": queued.get("prompt")}
        elif kind not in ("user", "assistant"):
            return None
        if not isinstance(message, dict):
            return "the line has no message"
        if message.get("model") == "<synthetic>":  # an error message, or a word in place of an answer
            return None
        at, content = _parse_time(line.get("timestamp")), message.get("content")
        text = _extract_text(content, _strip_wrappers if kind == "user" else str.strip)
        if text or tools:
            self._seen.update(id for id in (uuid, _parse_id(queued.get("source_uuid"))) if id)
        # A message typed during an answer is sometimes a line of its own as well; it counts once.
        repeated = kind == "user" and builder.repeats_last(text) and (bool(queued) or builder.queued == text)
        if queued:
            builder.queued = text
        if not repeated and text != "(no content)":
            builder.add("tool" if aside else str(kind), text, at, uuid, "agent" if aside else None)
        if tools:
            _add_tools(builder, content, at, uuid)
        return None


def _add_claude_code_details(builder: ConversationBuilder, line: Mapping[str, Any], summary: str | None) -> None:
    if builder.project is None and isinstance(folder := line.get("cwd"), str):
        builder.project = project_of_folder(folder)
    rank, key = _TITLE_LINES.get(str(line.get("type")), (1, ""))
    title = summary if rank == 1 else _parse_label(line.get(key))
    if title and rank >= builder.title_rank:
        builder.title, builder.title_rank = title, rank


def project_of_folder(folder: str) -> str | None:
    """Return the project name for sessions in a folder: the name of the folder."""
    return _parse_label(re.split(r"[\\/]", folder.rstrip("\\/"))[-1])


def _strip_wrappers(text: str) -> str:
    """Return the text that the user typed, without what the program put around it."""
    parts, at = [], 0
    while (opened := text.find(_REMINDER, at)) >= 0 and (closed := text.find(_REMINDER_END, opened)) >= 0:
        parts.append(text[at:opened])
        at = closed + len(_REMINDER_END)
    text, at = "".join([*parts, text[at:]]), 0
    while wrapped := _WRAPPER.match(text, at):
        closing = f"</{wrapped[1]}>"
        closed = text.find(closing, wrapped.end())
        at = closed + len(closing) if closed >= 0 else len(text)
    text = text[at:].strip()
    return "" if text.startswith(_GENERATED_STARTS) else text


# ChatGPT: a tree of messages; one branch of it is the conversation

_HIDDEN_FLAGS = ("is_visually_hidden_from_conversation", "is_user_system_message")
_UNSAID_TYPES = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
_MARK = re.compile(" ?\ue200([^\ue200\ue201]*)\ue201")
_CITATION = re.compile(
    r" ?(?:【(?:\d+(?::\d+)?†|turn\d|oaicite:)[^【】]*】|:contentReference\[oaicite:\d+\](?:\{index=\d+\})?"
    r"|\bcite(?:turn\d+[a-z]+\d+)+)|[\ue200-\ue20f]"
)


def _is_chatgpt(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        return False
    nodes = value["mapping"].values()
    return "current_node" in value or any(isinstance(node, dict) and "message" in node for node in nodes)


def _read_chatgpt(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    builder.id = _parse_id(value.get("conversation_id")) or _parse_id(value.get("id"))
    builder.title = _parse_label(value.get("title"))
    builder.created, builder.updated = _parse_time(value.get("create_time")), _parse_time(value.get("update_time"))
    nodes = value["mapping"]
    builder.unreadable = sum(not isinstance(node, dict) for node in nodes.values())
    leaf = value.get("current_node")
    if not isinstance(leaf, str) or leaf not in nodes:
        leaf = _find_newest_leaf(nodes)
    for node in _trace_branch(nodes, leaf, "parent"):
        message = node.get("message")
        if isinstance(message, dict):
            _add_chatgpt_message(builder, message, tools)
        elif message is not None:
            builder.unreadable += 1


def _find_newest_leaf(nodes: Mapping[str, Any]) -> str | None:
    """Return the leaf where the conversation most likely ends, if the file does not say."""
    inner = {
        node["parent"] for node in nodes.values() if isinstance(node, dict) and isinstance(node.get("parent"), str)
    }
    earliest = datetime.min.replace(tzinfo=UTC)
    leaves = [
        (_parse_time(_as_object(node.get("message")).get("create_time")) or earliest, position, id)
        for position, (id, node) in enumerate(nodes.items())
        if isinstance(node, dict) and id not in inner
    ]
    return max(leaves)[2] if leaves else None


def _trace_branch(nodes: Mapping[str, Any], leaf: object, parent: str) -> list[dict[str, Any]]:
    """Return the nodes from the root to a leaf; other branches are messages that were edited and sent again."""
    branch: list[dict[str, Any]] = []
    visited: set[str] = set()
    while isinstance(leaf, str) and leaf not in visited and isinstance(node := nodes.get(leaf), dict):
        visited.add(leaf)
        branch.append(node)
        leaf = node.get(parent)
    return branch[::-1]


def _add_chatgpt_message(builder: ConversationBuilder, message: Mapping[str, Any], tools: bool) -> None:
    author, content = _as_object(message.get("author")), message.get("content")
    role, recipient = _parse_role(author.get("role")), message.get("recipient")
    if role is None or not isinstance(content, dict):
        builder.unreadable += 1
        return
    hidden = any(_as_object(message.get("metadata")).get(mark) is True for mark in _HIDDEN_FLAGS)
    if hidden or message.get("channel") == "analysis" or content.get("content_type") in _UNSAID_TYPES:
        return
    tool = None
    if role == "tool":
        tool = _parse_label(author.get("name")) or "tool"
    elif isinstance(recipient, str) and recipient != "all":
        tool = _parse_label(recipient) or "tool"
    if tool and not tools:
        return
    text = next(filter(None, (_extract_text(content.get(key)) for key in ("parts", "text", "result"))), "")
    if role != "user":
        text = _CITATION.sub("", _MARK.sub(_render_mark, text))
    builder.add(role, text, _parse_time(message.get("create_time")), _parse_id(message.get("id")), tool)


def _render_mark(marked: re.Match[str]) -> str:
    """Return what ChatGPT shows for one of its marks: a name, the text of a link, or nothing for a citation."""
    kind, *fields = marked[1].split("\ue202")
    words: Any = fields[0] if fields and kind in ("url", "link_title") else ""
    if fields and kind == "entity":
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            words = json.loads(fields[0])[1]
    space = " " if marked[0].startswith(" ") else ""
    return f"{space}{words}" if isinstance(words, str) and words else ""


# Claude.ai

_UNSUPPORTED_BLOCK = re.compile(r"```\s*This block is not supported on your current device yet\.\s*```")


def _is_claude(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def _read_claude(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    builder.id = _parse_id(value.get("uuid"))
    builder.title = _parse_label(value.get("name"))
    builder.project = _parse_label(_as_object(value.get("project")).get("name"))
    builder.created, builder.updated = _parse_time(value.get("created_at")), _parse_time(value.get("updated_at"))
    for message in _select_claude_messages(value):
        role = _parse_role(message.get("sender")) if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            builder.unreadable += 1
            continue
        content, at, id = message.get("content"), _parse_time(message.get("created_at")), _parse_id(message.get("uuid"))
        if not isinstance(content, list) or not content:  # in old exports; in new ones `text` includes thoughts
            content = message.get("text")
        builder.add(role, _UNSUPPORTED_BLOCK.sub("", _extract_text(content)), at, id)
        if tools:
            _add_tools(builder, content, at, id)
            for number, attached in enumerate(_as_list(message.get("attachments"))):
                name = _parse_label(_as_object(attached).get("file_name")) or "attachment"
                text = _extract_text(_as_object(attached).get("extracted_content"))
                builder.add("tool", text, at, id and f"{id}:file{number}", name)


def _select_claude_messages(value: Mapping[str, Any]) -> list[Any]:
    """Return the messages of the current branch, or all messages if the parents have gaps."""
    messages = _as_list(value.get("chat_messages"))
    known = [message for message in messages if isinstance(message, dict)]
    by_id = {message["uuid"]: message for message in known if isinstance(message.get("uuid"), str)}
    leaf = value.get("current_leaf_message_uuid")
    if not isinstance(leaf, str) or leaf not in by_id:
        leaf = next(reversed(by_id), None)
    branch = _trace_branch(by_id, leaf, "parent_message_uuid")
    keys = ("uuid", "parent_message_uuid")
    if not branch or not all(isinstance(message.get(key), str) for message in known for key in keys):
        return messages
    complete = branch[0] is messages[0] or branch[0]["parent_message_uuid"].startswith("00000000-")
    return branch + [message for message in messages if not isinstance(message, dict)] if complete else messages


# Lists of messages as in the API of OpenAI, and lines of one message each

_ROLES = (
    dict.fromkeys(("user", "human"), "user")
    | dict.fromkeys(("assistant", "ai", "bot", "model", "gpt", "claude", "chatgpt"), "assistant")
    | {"system": "system", "developer": "system", "tool": "tool", "function": "tool"}
)
_SESSION_KEYS = "sessionId session_id session conversation_id conversationId conversation thread_id chat_id".split()
_TEXT_KEYS = ("content", "text")
_SPEAKER_KEYS = ("role", "speaker", "author", "sender", "from")
_TIME_KEYS = "timestamp created_at create_time created time date ts at".split()
_ID_KEYS = ("id", "uuid", "message_id")


def _is_openai(value: Any) -> bool:
    return is_message_list(value.get("messages") if isinstance(value, dict) else value)


def is_message_list(value: Any) -> bool:
    """Return True for a list of messages as in the API of OpenAI."""
    return isinstance(value, list) and any(
        isinstance(item, dict) and isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item)
        for item in value
    )


def _read_openai(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    head = _as_object(value)
    builder.id = _parse_id(_first_value(head, (*_SESSION_KEYS, "id")))
    builder.title = _parse_label(_first_value(head, ("title", "name")))
    builder.project = _parse_label(head.get("project"))
    builder.created = _parse_time(_first_value(head, _TIME_KEYS))
    for message in head.get("messages", []) if head else value:
        if not isinstance(message, dict) or ("role" not in message and "type" not in message):
            builder.unreadable += 1
        elif role := _parse_role(message.get("role")):
            _add_message(builder, message, role, message.get("content"), tools)


def _is_plain_line(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(_first_value(value, _TEXT_KEYS), str | list)


class _PlainLines(LineReader):
    """Lines that are one message each."""

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        return _parse_id(_first_value(line, _SESSION_KEYS)) or ""

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        content, speaker = _first_value(line, _TEXT_KEYS), _first_value(line, _SPEAKER_KEYS)
        if not isinstance(content, str | list | dict) and "tool_calls" not in line:
            return f"the line has no text; it can be in: {', '.join(_TEXT_KEYS)}"
        builder.project = builder.project or _parse_label(line.get("project"))
        builder.title = builder.title or _parse_label(line.get("title"))
        if isinstance(speaker, dict):
            speaker = _first_value(speaker, ("role", "name"))
        role = _parse_role(speaker)
        if role is None and (name := _parse_label(speaker)) and (words := _extract_text(content)):
            content = f"{name}: {words}"  # a person's name is a part of what was said
        _add_message(builder, line, role or "user", content, tools)
        return None


def _add_message(
    builder: ConversationBuilder, message: Mapping[str, Any], role: str, content: Any, tools: bool
) -> None:
    at, id = _parse_time(_first_value(message, _TIME_KEYS)), _parse_id(_first_value(message, _ID_KEYS))
    if role != "tool":
        builder.add(role, _extract_text(content), at, id)
    elif tools:
        called = builder.calls.get(str(message.get("tool_call_id")))
        name = _parse_label(_first_value(message, ("name", "tool"))) or called or "tool"
        builder.add(role, _extract_text(content), at, id, name)
    if tools:
        _add_tools(builder, content, at, id)
        for number, call in enumerate(_as_list(message.get("tool_calls"))):
            function, own_id = _as_object(_as_object(call).get("function")), id and f"{id}:call{number}"
            _add_call(builder, _as_object(call).get("id"), function.get("name"), function.get("arguments"), at, own_id)


# Parts that several formats share


def _add_tools(builder: ConversationBuilder, content: Any, at: datetime | None, id: str | None) -> None:
    """Add the tool calls and results among the parts of a message."""
    for number, part in enumerate(_as_list(content)):
        kind = str(_as_object(part).get("type"))
        own_id = id and f"{id}:{number}"
        if kind.endswith("tool_use"):
            _add_call(builder, part.get("id"), part.get("name"), part.get("input"), at, own_id)
        elif kind.endswith("tool_result"):
            name = builder.calls.get(str(part.get("tool_use_id")), "tool")
            builder.add("tool", _extract_text(part.get("content")), at, own_id, name)


def _add_call(
    builder: ConversationBuilder, call: Any, name: Any, arguments: Any, at: datetime | None, id: str | None
) -> None:
    name = _parse_label(name) or "tool"
    if isinstance(call, str):
        builder.calls[call] = name
    with suppress(RecursionError):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        builder.add("assistant", text, at, id, name)


_TEXT_TYPES = ("text", "input_text", "output_text", "audio_transcription")


def _extract_text(content: Any, clean_part: Callable[[str], str] = str.strip) -> str:
    """Join the texts among the parts of a message, without thoughts, tool calls, images and files."""
    words = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and part.get("type", part.get("content_type", "text")) in _TEXT_TYPES:
            part = part.get("text")
        if isinstance(part, str):
            words.append(clean_part(part))
    return "\n\n".join(filter(None, words))


def _first_value(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _parse_id(value: Any) -> str | None:
    """Return an id of another program, or a digest of it if it is not one line of up to 128 characters."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:d}" if abs(value) < 10**100 else None
    text = value.strip() if isinstance(value, str) else ""
    return (text if _USABLE_ID.fullmatch(text) else _digest(text)) if text else None


_USABLE_ID = re.compile(r"[^\x00-\x1f\ud800-\udfff]{1,128}")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_label(value: Any) -> str | None:
    """Return a title or name as one line of at most the length that can be stored; None if there is none."""
    if not isinstance(value, str):
        return None
    return " ".join(clean(value[: 4 * MAX_NAME_CHARACTERS]).split())[:MAX_NAME_CHARACTERS].strip() or None


def _parse_time(value: Any) -> datetime | None:
    """Parse ISO text (UTC if it has no zone) or epoch seconds, milliseconds or less; return None for anything else."""
    try:
        if isinstance(value, str):
            text = value.strip()[:100]
            if not _EPOCH.fullmatch(text):
                moment = datetime.fromisoformat(text)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            value = float(text)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e19:
            return None
        while value > 1e11:  # in seconds, the year 5138: so the unit is smaller
            value /= 1000
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


_EPOCH = re.compile(r"[0-9]{9,19}(\.[0-9]+)?")


def _parse_role(value: Any) -> str | None:
    return _ROLES.get(value.strip().lower()) if isinstance(value, str) else None


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# The table of formats, in the order in which a file is compared with them

_ZIPPED = "(conversations.json, or the zip it came in)"
FORMATS: Mapping[str, TranscriptFormat] = {
    format.name: format
    for format in (
        TranscriptFormat("claude-code", "a Claude Code session (JSONL)", _is_claude_code, open_lines=_ClaudeCodeLines),
        TranscriptFormat("chatgpt", f"a ChatGPT export {_ZIPPED}", _is_chatgpt, read_value=_read_chatgpt),
        TranscriptFormat("claude", f"a Claude.ai export {_ZIPPED}", _is_claude, read_value=_read_claude),
        TranscriptFormat(
            "openai", "a list of messages with role and content (JSON)", _is_openai, read_value=_read_openai
        ),
        TranscriptFormat(
            "jsonl",
            "JSONL with role and content, or speaker and text, on each line",
            _is_plain_line,
            open_lines=lambda stem: _PlainLines(),
        ),
    )
}
