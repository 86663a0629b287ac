"""Exports of ChatGPT and Claude.ai: all conversations of an account, as JSON in a zip."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from memorist.errors import InvalidInput
from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat
from memorist.importers.formats.values import (
    as_list,
    as_object,
    extract_text,
    parse_label,
    parse_role,
    parse_time,
)
from memorist.importers.input_file import load_json

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
    builder.describe(id=value.get("conversation_id"))
    builder.describe(
        id=value.get("id"),
        title=value.get("title"),
        created=value.get("create_time"),
        updated=value.get("update_time"),
    )
    nodes = value["mapping"]
    builder.unreadable = sum(not isinstance(node, dict) for node in nodes.values())
    leaf = value.get("current_node")
    if not isinstance(leaf, str) or leaf not in nodes:
        leaf = _find_newest_leaf(nodes)
    messages = [node.get("message") for node in _trace_branch(nodes, leaf, "parent")]
    for message in builder.select_messages([message for message in messages if message is not None]):
        _add_chatgpt_message(builder, message, tools)


def _find_newest_leaf(nodes: Mapping[str, Any]) -> str | None:
    """Return the leaf where the conversation most likely ends, if the file does not say."""
    inner = {
        node["parent"] for node in nodes.values() if isinstance(node, dict) and isinstance(node.get("parent"), str)
    }
    earliest = datetime.min.replace(tzinfo=UTC)
    leaves = [
        (parse_time(as_object(node.get("message")).get("create_time")) or earliest, position, id)
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
    author, content = as_object(message.get("author")), message.get("content")
    role, recipient = parse_role(author.get("role")), message.get("recipient")
    if role is None or not isinstance(content, dict):
        builder.unreadable += 1
        return
    hidden = any(as_object(message.get("metadata")).get(mark) is True for mark in _HIDDEN_FLAGS)
    if hidden or message.get("channel") == "analysis" or content.get("content_type") in _UNSAID_TYPES:
        return
    tool = None
    if role == "tool":
        tool = parse_label(author.get("name")) or "tool"
    elif isinstance(recipient, str) and recipient != "all":
        tool = parse_label(recipient) or "tool"
    if tool and not tools:
        return
    text = next(filter(None, (extract_text(content.get(key)) for key in ("parts", "text", "result"))), "")
    if role != "user":
        text = _CITATION.sub("", _MARK.sub(_render_mark, text))
    builder.add(role, text, message.get("create_time"), message.get("id"), tool=tool)


def _render_mark(marked: re.Match[str]) -> str:
    """Return what ChatGPT shows for one of its marks: a name, the text of a link, or nothing for a citation."""
    kind, *fields = marked[1].split("\ue202")
    words: Any = fields[0] if fields and kind in ("url", "link_title") else ""
    if fields and kind == "entity":
        with suppress(InvalidInput, ValueError, LookupError, TypeError, RecursionError):
            words = load_json(fields[0], "a name")[1]
    space = " " if marked[0].startswith(" ") else ""
    return f"{space}{words}" if isinstance(words, str) and words else ""


# Claude.ai

_UNSUPPORTED_BLOCK = re.compile(r"```\s*This block is not supported on your current device yet\.\s*```")


def _is_claude(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def _read_claude(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    builder.describe(
        id=value.get("uuid"),
        title=value.get("name"),
        project=as_object(value.get("project")).get("name"),
        created=value.get("created_at"),
        updated=value.get("updated_at"),
    )
    for message in builder.select_messages(_find_claude_branch(value)):
        role = parse_role(message.get("sender"))
        if role not in ("user", "assistant"):
            builder.unreadable += 1
            continue
        content, at, id = message.get("content"), message.get("created_at"), message.get("uuid")
        if not isinstance(content, list) or not content:  # in old exports; in new ones `text` includes thoughts
            content = message.get("text")
        builder.add(role, _UNSUPPORTED_BLOCK.sub("", extract_text(content)), at, id)
        if tools:
            builder.add_tool_parts(content, at, id)
            for number, attached in enumerate(map(as_object, as_list(message.get("attachments")))):
                name = parse_label(attached.get("file_name")) or "attachment"
                builder.add_output(None, name, attached.get("extracted_content"), at, id, f"file{number}")


def _find_claude_branch(value: Mapping[str, Any]) -> list[Any]:
    """Return the messages of the current branch, or all messages if the parents have gaps."""
    messages = as_list(value.get("chat_messages"))
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


_ZIPPED = "(conversations.json, or the zip it came in)"
CHATGPT = TranscriptFormat("chatgpt", f"a ChatGPT export {_ZIPPED}", matches=_is_chatgpt, read_value=_read_chatgpt)
CLAUDE = TranscriptFormat("claude", f"a Claude.ai export {_ZIPPED}", matches=_is_claude, read_value=_read_claude)
