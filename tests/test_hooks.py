"""Events as clients send them, and answers as they want them."""

import json
from pathlib import Path

import pytest

from memorist import InvalidInput, hooks


def parse(name: str = "UserPromptSubmit", root: str | None = None, **fields: object) -> hooks.Event:
    return hooks.parse_event(name, json.dumps(fields).encode(), root)


def test_what_claude_code_sends_is_understood() -> None:
    event = parse(
        session_id="abc",
        transcript_path="/home/ada/.claude/projects/-api/abc.jsonl",
        cwd="/home/ada/api",
        hook_event_name="UserPromptSubmit",
        permission_mode="default",
        prompt="How do we deploy?",
    )

    assert event.action == hooks.RECALL
    assert (event.prompt, event.session) == ("How do we deploy?", "abc")
    assert event.folder == Path("/home/ada/api")
    assert event.transcript == Path("/home/ada/.claude/projects/-api/abc.jsonl")


def test_the_root_of_the_project_counts_more_than_the_folder_an_agent_went_to() -> None:
    assert parse(cwd="/home/ada/api/src", root="/home/ada/api").folder == Path("/home/ada/api")


def test_the_folder_of_cursor_is_its_first_workspace() -> None:
    event = parse("sessionStart", conversation_id="c", workspace_roots=["/home/ada/api", "/home/ada/web"])

    assert event.folder == Path("/home/ada/api")


@pytest.mark.parametrize(
    "prompt",
    [
        "yes", "ok", "Yes, please!", "go on", "Go ahead and do it", "no", "y", "👍", "...", "", "  \n", "Thanks!", "ja",
        "looks good", "/compact", "/review src/api.py", "/memorist:search deploy",
    ],
)  # fmt: skip
def test_there_is_nothing_to_look_for_in(prompt: str) -> None:
    assert parse(prompt=prompt).prompt is None


@pytest.mark.parametrize(
    "prompt",
    ["deploy", "E4031", "fix the tests", "/etc/hosts is ignored, why?", "如何部署", "yes, but keep the retry limit"],
)
def test_there_is_something_to_look_for_in(prompt: str) -> None:
    assert parse(prompt=prompt).prompt == prompt


@pytest.mark.parametrize("source", ["system", "poll_event"])
def test_a_prompt_that_nobody_typed_is_no_question(source: str) -> None:
    assert parse(prompt="<task-notification>the build is done</task-notification>", source=source).prompt is None


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b"null", b"\xff\xfe{", b'{"prompt": ' + b"[" * 100_000])
def test_what_is_no_object_of_json_is_refused(given: bytes) -> None:
    with pytest.raises(InvalidInput):
        hooks.parse_event("UserPromptSubmit", given)


def test_an_event_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="PreToolUse"):
        parse("PreToolUse")


def test_fields_of_another_type_than_they_should_have_are_left_out() -> None:
    assert parse(prompt=7, cwd=["a"], session_id={}, transcript_path=None, workspace_roots="x") == hooks.Event(
        "UserPromptSubmit"
    )


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "BeforeAgent"])
def test_an_answer_is_context_for_the_event_it_came_from(name: str) -> None:
    assert json.loads(hooks.format_answer(name, "known: ü\n")) == {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": "known: ü\n"}
    }


def test_an_answer_to_cursor_has_a_form_of_its_own() -> None:
    assert json.loads(hooks.format_answer("sessionStart", "known")) == {
        "continue": True,
        "additional_context": "known",
    }
