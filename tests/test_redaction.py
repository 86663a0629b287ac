"""If it is on, no secret comes in on any path; what was redacted is reported by kind and place, never by value."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import texts
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist
from memorist.engine.project_view import for_model
from memorist.records import MemoryDraft
from memorist.redact import redact
from memorist.redact.redaction import Redaction
from statements import read_rows
from test_forgetting import check_nothing_is_left

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
OTHER = "ghp_" + "zY8xW6vU4tS2rQ0pN8mL6kJ4hG2fD0sA8pQ6"
MARK = "[redacted:github-token]"
PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----".format(
    "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"[at:] for at in range(3))
)


@pytest.fixture
def redacting(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=HashingEmbedder(), redact=True) as opened:
        yield opened


def check_no_file_has_it(path: Path, secret: str = TOKEN) -> None:
    """Neither the database nor its log holds a piece of it, in the text, in an index, or in whatever case."""
    places = path.parent / "raw"
    places.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, places)
    pieces = [secret[at : at + 8].encode() for at in range(4, len(secret) - 8)]
    check_nothing_is_left(places, {"the secret": pieces})


def by_add(memory: Memorist) -> None:
    memory.add(f"the key is {TOKEN}")


def by_title(memory: Memorist) -> None:
    memory.add("fine", title=f"key {TOKEN}", summary=f"about {TOKEN}", source=f"https://ada:{TOKEN}@example.org/x")


def by_metadata(memory: Memorist) -> None:
    memory.add("fine", metadata={"key": TOKEN, "deep": [{"again": f"is {TOKEN}"}], "api_token": TOKEN[4:]})


def by_facts(memory: Memorist) -> None:
    memory.add("fine", facts=[f"has {TOKEN}", {"text": "has a key", "subject": "it", "object": TOKEN}])


def by_add_again(memory: Memorist) -> None:
    for _ in range(2):
        memory.add(f"the key is {TOKEN}", facts=[f"it is {TOKEN}"])


def by_add_many(memory: Memorist) -> None:
    memory.add_many([f"one {TOKEN}", {"content": f"two {TOKEN}", "title": TOKEN, "facts": [TOKEN]}])


def by_update(memory: Memorist) -> None:
    note = memory.add("nothing yet")
    memory.update(note.id, content=f"now {TOKEN}", title=f"with {TOKEN}", metadata={"key": TOKEN})
    memory.update(note.id, content="nothing any more")


def by_fact(memory: Memorist) -> None:
    memory.facts.add(memory.add("fine").id, f"it is {TOKEN}", subject=TOKEN, predicate=f"is {TOKEN}", object=TOKEN)


def by_sessions(memory: Memorist) -> None:
    session = memory.sessions.start("api", summary=f"about {TOKEN}")
    memory.sessions.summarise(session.id, f"rather {TOKEN}")
    memory.sessions.end(session.id, f"it was {TOKEN}")


def by_tags(memory: Memorist) -> None:
    note = memory.add("fine", tags=[TOKEN, "api"])
    memory.update(note.id, tags=["api", f"{TOKEN} again"])


def by_metadata_keys(memory: Memorist) -> None:
    note = memory.add("fine", metadata={TOKEN: 1, "deep": [{f"of {TOKEN}": "x"}]})
    memory.update(note.id, metadata={TOKEN: 2})


def by_relations(memory: Memorist) -> None:
    one, other, third = (memory.add(text) for text in ("the first", "the second", "the third"))
    memory.links.add(one.id, other.id, "supports", said_by=f"bot {TOKEN}")
    memory.supersede(one.id, third.id, said_by=TOKEN)


def by_files(memory: Memorist) -> None:
    memory.files.create("/keys.txt", f"the key is {TOKEN}")
    memory.files.create("/notes.txt", "nothing yet")
    memory.files.edit("/notes.txt", lambda text: f"{text}\nbut {TOKEN}")


def by_turns(memory: Memorist) -> None:
    memory.add(f"use {TOKEN}", kind="turn")
    memory.add_many([{"content": f"or {TOKEN}", "kind": "turn", "metadata": {"item": {"content": TOKEN}}}])
    turn = memory.sessions.add_turn("assistant", f"I use {TOKEN}", conversation="c")
    memory.update(turn.id, content=f"I rather use {TOKEN}")


def by_lens(memory: Memorist) -> None:
    memory.lenses.set("mine", tags=[TOKEN], source=f"https://{TOKEN}.example.org", boosts={"tag": {TOKEN: 2}})


def by_recall(memory: Memorist) -> None:
    memory.add("the key is kept in the vault")
    memory.search(f"key {TOKEN}", record="log")
    assert memory.searches.list()[0].query == f"key {MARK}"


PATHS: list[Callable[[Memorist], None]] = [
    by_add, by_title, by_metadata, by_facts, by_add_again, by_add_many, by_update, by_tags, by_metadata_keys,
    by_relations, by_lens, by_recall,
]  # fmt: skip
PATHS_OF_MODELS: list[Callable[[Memorist], None]] = [by_fact, by_sessions, by_files, by_turns]


class TestEveryPathIn:
    @pytest.mark.parametrize("way", PATHS + PATHS_OF_MODELS, ids=lambda way: way.__name__)
    def test_no_file_ever_holds_the_secret(self, redacting: Memorist, path: Path, way: Callable[..., None]) -> None:
        way(redacting)

        check_no_file_has_it(path)  # with the log still there
        assert redacting.check().ok

    @pytest.mark.parametrize("way", PATHS[:-1], ids=lambda way: way.__name__)
    def test_without_the_setting_it_does(self, hashed: Memorist, path: Path, way: Callable[..., None]) -> None:
        way(hashed)

        with pytest.raises(AssertionError, match="left behind"):
            check_no_file_has_it(path)

    @pytest.mark.parametrize("way", PATHS_OF_MODELS, ids=lambda way: way.__name__)
    def test_what_models_write_is_redacted_without_the_setting(
        self, hashed: Memorist, path: Path, way: Callable[..., None]
    ) -> None:
        way(hashed)

        check_no_file_has_it(path)

    @pytest.mark.parametrize("surface", ["mcp", "chat", "hook"])
    @pytest.mark.parametrize("way", PATHS + PATHS_OF_MODELS, ids=lambda way: way.__name__)
    def test_everything_is_that_comes_by_the_surface_of_an_agent(
        self, path: Path, way: Callable[..., None], surface: str
    ) -> None:
        with memorist.open(path, embedder="none", surface=surface) as memory:
            way(memory)
            check_no_file_has_it(path)

    @pytest.mark.parametrize("way", [*PATHS[:-1], by_fact, by_sessions, by_files], ids=lambda way: way.__name__)
    def test_the_setting_switches_it_off_for_models_too(self, path: Path, way: Callable[..., None]) -> None:
        with memorist.open(path, embedder="none", redact=False, surface="mcp") as memory:
            way(memory)
            with pytest.raises(AssertionError, match="left behind"):
                check_no_file_has_it(path)

    def test_nothing_is_logged_of_it(self, redacting: Memorist, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            for way in PATHS:
                way(redacting)

        assert "search" in caplog.text
        assert TOKEN[4:20] not in caplog.text

    def test_a_search_is_answered_for_what_was_asked(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add(f"the key is {TOKEN}")
        with memorist.open(path, embedder="none", redact=True) as memory:
            assert texts(memory.search(TOKEN)) == [f"the key is {TOKEN}"]

    def test_ids_projects_and_kinds_stay_as_they_are(self, redacting: Memorist) -> None:
        note = redacting.add("fine", project=TOKEN, id=TOKEN, kind=TOKEN)

        assert (note.project, note.id, note.kind) == (TOKEN, TOKEN, TOKEN)

    def test_tags_are_redacted_and_each_is_listed_once(self, redacting: Memorist) -> None:
        note = redacting.add("fine", tags=[TOKEN, "api", OTHER])

        assert set(note.tags) == {MARK, "api"}
        assert [entry["field"] for entry in note.metadata["redacted"]] == ["tags", "tags"]
        assert redacting.update(note.id, tags=["api"]).metadata == {}

    def test_keys_of_metadata_that_become_the_same_keep_their_values(self, redacting: Memorist) -> None:
        note = redacting.add("fine", metadata={TOKEN: 1, OTHER: 2, "mine": 3})

        assert {key: value for key, value in note.metadata.items() if key != "redacted"} == {
            MARK: 1,
            f"{MARK} 2": 2,
            "mine": 3,
        }
        assert [entry["field"] for entry in note.metadata["redacted"]] == ["metadata", "metadata"]

    def test_who_said_a_relation_is_redacted(self, redacting: Memorist) -> None:
        one, other = redacting.add("the first"), redacting.add("the second")

        assert redacting.links.add(one.id, other.id, "supports", said_by=f"bot {TOKEN}").said_by == f"bot {MARK}"

    def test_a_lens_finds_the_tags_that_were_redacted(self, redacting: Memorist) -> None:
        redacting.add("the first", tags=[TOKEN])
        redacting.add("the second")
        lens = redacting.lenses.set("mine", tags=[TOKEN], boosts={"tag": {TOKEN: 2}})

        assert lens.filters == {"tags": [MARK]}
        assert lens.boosts == {"tag": {MARK: 2}}
        assert texts(redacting.search("the first", mode="keyword", lens="mine")) == ["the first"]

    def test_a_value_of_metadata_is_a_secret_by_its_key_however_it_looks(self, redacting: Memorist) -> None:
        note = redacting.add("fine", metadata={"password": "correct horse battery staple", "api_key": "kestrelharbour"})

        assert note.metadata["password"] == "[redacted:password]"
        assert note.metadata["api_key"] == "[redacted:api-key]"

    def test_so_is_a_number(self, redacting: Memorist) -> None:
        note = redacting.add("fine", metadata={"password": 12345678, "pins": {"passcode": [864209]}, "lines": 123456})

        assert (note.metadata["password"], note.metadata["lines"]) == ("[redacted:password]", 123456)
        assert note.metadata["pins"] == {"passcode": ["[redacted:password]"]}

    def test_a_key_of_several_lines_is_one_mark(self, redacting: Memorist, path: Path) -> None:
        note = redacting.add(f"before\n{PEM}\nafter")

        assert note.content == "before\n[redacted:private-key]\nafter"
        check_no_file_has_it(path, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw")


class TestBeforeComparing:
    def test_two_texts_that_differ_by_their_secrets_are_one(self, redacting: Memorist) -> None:
        first = redacting.add(f"the key is {TOKEN}")

        assert redacting.add(f"the key is {OTHER}").id == first.id

    def test_near_ones_are_compared_without_their_secrets(self, redacting: Memorist) -> None:
        words = "the deploy key of the payment service in the second region is"
        first = redacting.add(f"{words} {TOKEN}")

        second = redacting.add(f"{words} {OTHER} now")

        assert second.near
        assert second.near.id == first.id
        assert TOKEN not in second.near.content

    def test_the_model_never_sees_it(self, path: Path) -> None:
        seen: list[str] = []

        class Watching(HashingEmbedder):
            def embed(self, texts: Any) -> list[list[float]]:
                seen.extend(texts)
                return super().embed(texts)

        with memorist.open(path, embedder=Watching(), redact=True) as memory:
            memory.add(f"the key is {TOKEN}", title=TOKEN)

        assert any(MARK in text for text in seen)
        assert not any(TOKEN in text for text in seen)


class TestReport:
    def test_kind_and_place_are_in_the_metadata_and_the_field_if_it_is_not_the_content(
        self, redacting: Memorist
    ) -> None:
        note = redacting.add(
            f"first\nkey {TOKEN}",
            title=f"a {TOKEN}",
            metadata={"env": {"password": "hunter2xyz"}, "urls": ["https://ada:s3cretpw@example.org/"]},
            facts=[f"it is {TOKEN}"],
        )

        assert note.metadata["redacted"] == [
            {"kind": "github-token", "line": 2, "column": 5},
            {"kind": "github-token", "line": 1, "column": 3, "field": "title"},
            {"kind": "github-token", "line": 1, "column": 7, "field": "facts"},
            {"kind": "password", "line": 1, "column": 1, "field": "metadata.env.password"},
            {"kind": "url-password", "line": 1, "column": 13, "field": "metadata.urls.0"},
        ]
        assert note.metadata["env"] == {"password": "[redacted:password]"}
        assert note.metadata["urls"] == ["https://ada:[redacted:url-password]@example.org/"]

    def test_metadata_of_every_other_type_stays(self, redacting: Memorist) -> None:
        given = {"number": 1, "none": None, "yes": True, "list": [1.5, "plain", {"a b": "c"}], "redacted": "mine"}

        assert redacting.add("fine", metadata=given).metadata == given

    def test_a_memory_without_secrets_has_no_report(self, redacting: Memorist) -> None:
        assert redacting.add("fine").metadata == {}

    def test_an_update_replaces_the_report_of_its_fields_and_keeps_the_rest(self, redacting: Memorist) -> None:
        note = redacting.add(f"key {TOKEN}", title=f"a {TOKEN}", metadata={"mine": 1})
        of_title = {"kind": "github-token", "line": 1, "column": 3, "field": "title"}

        changed = redacting.update(note.id, content=f"now\nkey {OTHER}")
        assert changed.metadata == {
            "mine": 1,
            "redacted": [of_title, {"kind": "github-token", "line": 2, "column": 5}],
        }
        assert redacting.update(note.id, content="fine").metadata == {"mine": 1, "redacted": [of_title]}
        assert redacting.update(note.id, metadata={"mine": 2}).metadata == {"mine": 2, "redacted": [of_title]}
        assert redacting.update(note.id, title=None).metadata == {"mine": 2}

    def test_an_update_of_other_fields_writes_nothing_more(self, redacting: Memorist, path: Path) -> None:
        note = redacting.add(f"key {TOKEN}")

        changed = redacting.update(note.id, tags=["new"])

        assert changed.metadata == note.metadata
        assert read_rows(path, "select count(*) from memory_history") == [(1,)]

    def test_redacted_again_it_is_the_same(self) -> None:
        redaction = Redaction(on=True)
        draft = MemoryDraft(
            "an-id", f"a {TOKEN}", None, "semantic", "project", None, (), 0.5, None, f"b {TOKEN}", None,
            {"password": "hunter2xyz"}, *[datetime(2026, 3, 2, tzinfo=UTC)] * 2,
        )  # fmt: skip

        once = redaction.redact_draft(draft)

        assert redaction.redact_draft(once) == once


class TestAllowed:
    @pytest.mark.parametrize("allow", [[TOKEN], ["aB3dE5"], ["/^ghp_aB/"], ("nothing", "/E3fG5$/"), TOKEN])
    def test_what_is_allowed_stays_and_the_rest_goes(self, path: Path, allow: Any) -> None:
        with memorist.open(path, embedder="none", redact=True, redact_allow=allow) as memory:
            note = memory.add(f"{TOKEN} and {OTHER}")

        assert note.content == f"{TOKEN} and {MARK}"
        assert [entry["column"] for entry in note.metadata["redacted"]] == [len(TOKEN) + 6]

    @pytest.mark.parametrize(
        ("wrong", "about"), [(["/(/"], "regular expression"), ([5], "text"), ([""], "empty"), (5, "list of texts")]
    )
    def test_what_cannot_be_a_pattern_is_refused_when_it_is_opened(self, path: Path, wrong: Any, about: str) -> None:
        with pytest.raises(InvalidInput, match=about):
            memorist.open(path, embedder="none", redact_allow=wrong)
        assert not path.exists()

    def test_whether_to_redact_is_yes_or_no(self, path: Path) -> None:
        with pytest.raises(InvalidInput, match="redact"):
            memorist.open(path, embedder="none", redact="yes")  # type: ignore[arg-type]

    def test_it_is_off_unless_set(self, memory: Memorist) -> None:
        assert memory.add(f"the key is {TOKEN}").content == f"the key is {TOKEN}"


def test_a_text_is_redacted_as_redact_does_it() -> None:
    text = f"password: hunter2xyz\n{TOKEN}"

    assert Redaction(on=True).redact_text(text) == redact(text)[0]
    assert Redaction().redact_text(text) == text
    assert json.dumps(Redaction(on=True).report_secrets({"text": text})).count("kind") == 2


def test_a_tool_of_a_model_writes_without_secrets_and_its_program_as_before(hashed: Memorist) -> None:
    for_model(hashed).add(f"the model noted {TOKEN}")
    hashed.add(f"the program noted {TOKEN}")

    assert set(texts(hashed.list())) == {f"the model noted {MARK}", f"the program noted {TOKEN}"}
