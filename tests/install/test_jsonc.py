"""JSON is changed in one place, and stays as it was everywhere else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist import ConfigError
from memorist.install.jsonc import parse_object, patch_object, remove_emptied

OURS = {"command": "memorist", "args": ["mcp"]}
WRITTEN = """\
// What I like.
{
    "theme": "dark", // at night
    /* servers:
       "memorist": {} is not here yet */
    "servers": {
        "files": {"command": "files", "args": ["a // b", "/* c */"]}, // my own
    },
    "last": [1, 2, 3,],
}
"""


def added(text: str, comments: bool = True) -> str:
    values = parse_object(text, comments=comments)
    servers = values.get("servers", {})
    return patch_object(text, values | {"servers": servers | {"memorist": OURS}}, comments=comments)


def test_a_member_is_added_behind_the_others_and_every_comment_stays() -> None:
    assert added(WRITTEN) == WRITTEN.replace(
        "// my own\n",
        "// my own\n"
        '        "memorist": {\n'
        '            "command": "memorist",\n'
        '            "args": [\n'
        '                "mcp"\n'
        "            ]\n"
        "        },\n",
    )


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        "{}",
        "{\n}\n",
        '{"servers": {}}',
        '{"servers": {"a": 1}}',
        '{\n\t"servers": {\n\t\t"a": {}\n\t}\n}',
        '{\r\n  "servers": {\r\n    "a": {}\r\n  }\r\n}\r\n',
        '{\n  "servers": {\n    "a": 1 // one\n    // two\n  }\n}\n',
        '\ufeff{\n  "a": "\\"}{ // \\\\",\n  "servers": {"é": null}}',
        '{ "servers": {"a": 1},\n "b": {} }\n',
        '{"z": [[], {}, [{}]], "servers": {\n"a": 1\n}}',
    ],
)
def test_what_is_added_can_be_taken_out_again_without_a_trace(text: str) -> None:
    before = parse_object(text, comments=True)
    if not before.get("servers"):
        before = {key: value for key, value in before.items() if key != "servers"}

    after = patch_object(added(text), before, comments=True)

    assert parse_object(after, comments=True) == before
    if parse_object(text, comments=True) == before and text != "{\n}\n":
        assert after == text


def test_a_first_member_and_one_in_the_middle_are_taken_out() -> None:
    text = '{\n  "a": 1,\n  "b": 2,  // two\n  "c": 3\n}\n'

    assert patch_object(text, {"b": 2, "c": 3}, comments=True) == '{\n  "b": 2,  // two\n  "c": 3\n}\n'
    assert patch_object(text, {"a": 1, "c": 3}, comments=True) == '{\n  "a": 1,  // two\n  "c": 3\n}\n'
    assert patch_object(text, {"a": 1, "b": 2}, comments=True) == '{\n  "a": 1,\n  "b": 2  // two\n}\n'


def test_nothing_changes_where_nothing_is_to_change() -> None:
    assert patch_object(WRITTEN, parse_object(WRITTEN, comments=True), comments=True) == WRITTEN


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_file_gets_the_value_as_it_is(text: str) -> None:
    assert json.loads(patch_object(text, {"a": {"b": 1}}, comments=False)) == {"a": {"b": 1}}


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"a": 1} x', "{'a': 1}", '{"a": }', "/* {", "[" * 100_000])
@pytest.mark.parametrize("comments", [True, False])
def test_what_is_no_object_is_refused(text: str, comments: bool) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        parse_object(text, comments=comments)


@pytest.mark.parametrize("text", ['{"a": 1} // one', '{"a": 1,}', '{/**/"a": 1}'])
def test_comments_are_refused_where_the_client_would_not_read_them(text: str) -> None:
    assert parse_object(text, comments=True) == {"a": 1}
    with pytest.raises(ConfigError):
        parse_object(text, comments=False)


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 3}', '{"b": {"c": [{"a": 1, "a": 1}]}}'])
def test_a_name_that_stands_there_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match='"a" occurs twice'):
        parse_object(text, comments=True)


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ('{"c": 2, "a": {"b": 1}}', '{"c": 2, "a": {}}', '{"c": 2}'),
        ('{"a": {"b": [1]}}', '{"a": {"b": []}}', "{}"),
        ('{"a": {"b": 1}}', '{"a": { /* mine */ }}', '{"a": { /* mine */ }}'),
        ('{"a": {}, "c": 2}', '{"a": {}}', '{"a": {}}'),
        ('{"a": [], "c": {"d": []}}', '{"a": [], "c": {"d": []}}', '{"a": [], "c": {"d": []}}'),
    ],
)
def test_what_became_empty_goes_and_what_was_empty_or_has_a_comment_stays(before: str, after: str, left: str) -> None:
    assert remove_emptied(after, parse_object(before, comments=True), comments=True) == left


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


@given(OBJECTS, OBJECTS, st.sampled_from([None, 2, "\t"]))
def test_any_object_can_become_any_other(old: dict[str, Any], new: dict[str, Any], indent: int | str | None) -> None:
    text = json.dumps(old, indent=indent)

    assert parse_object(patch_object(text, new, comments=False), comments=False) == new
    assert parse_object(patch_object(text, new, comments=True), comments=True) == new
