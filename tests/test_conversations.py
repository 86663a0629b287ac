"""Conversations come in whole, in order and once: whatever program wrote them, however often they are imported."""

import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist
from memorist.ingest.vectorizer import BATCH
from memorist.reports import ImportReport
from processes import expect, read_line, start_program, wait_for_end
from statements import read_rows
from test_forgetting import check_nothing_is_left

DATA = Path(__file__).parent / "data" / "transcripts"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")


def said(memory: Memorist, session: str) -> list[str]:
    """What was said in a session, in order."""
    return texts(reversed(memory.list(session=session, limit=100_000)))


def code_line(uuid: str, text: str, at: str | None, session: str = "s-1", **more: Any) -> dict[str, Any]:
    """A line as Claude Code writes it."""
    role = more.pop("role", "user")
    message = {"role": role, "content": text}
    return {"type": role, "uuid": uuid, "sessionId": session, "cwd": "/home/ada/api", "message": message} | (
        {"timestamp": at} if at else {}
    )


def jsonl(file: Path, *lines: Mapping[str, Any] | str) -> Path:
    """A file with a line each; one more call adds to it."""
    with file.open("a") as stream:
        stream.writelines((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
    return file


def everything(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that an import may write."""
    tables = ("memories", "sessions", "session_memories", "memory_history", "strength_history", "facts", "vectors")
    return {table: sorted(read_rows(path, f"select * from {table}"), key=repr) for table in tables}


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "session", "project", "summary", "turns"),
        [
            (
                "claude-code.jsonl",
                "claude-code:s-1111",
                "payments",
                "Retry limits of the payment client",
                [
                    ("user", "Why does the payment client give up after two tries?"),
                    ("assistant", "I will look at the client."),
                    ("user", "and check the tests too"),
                    ("assistant", "MAX_TRIES is 2, and the tests pin it."),
                    ("user", "Raise it to five."),
                    ("assistant", "Done: MAX_TRIES is 5."),
                ],
            ),
            (
                "chatgpt.json",
                "chatgpt:c-aaaa",
                None,
                "Ferry to Gotland",
                [
                    ("user", "Which ferry to Gotland takes bicycles? 【注意】 Keep it short."),
                    ("assistant", "The ferry from Nynäshamn to Visby does."),
                    ("user", "And this one?\n\nI mean the small boat."),
                    ("assistant", "That one takes none."),
                ],
            ),
            (
                "claude.json",
                "claude:k-aaaa",
                "Baking",
                "Sourdough",
                [
                    ("user", "How long does the dough rest?"),
                    ("assistant", "Let me see.\n\nTwelve hours in the fridge."),
                    ("assistant", "Nice crumb."),
                ],
            ),
            (
                "openai.jsonl",
                "openai:chat-7",
                None,
                "Roses",
                [("system", "Be kind."), ("user", "Roses?"), ("assistant", "Prune in spring.")],
            ),
            (
                "plain.jsonl",
                "jsonl:standup",
                "garden",
                None,
                [
                    ("user", "Ada: The greenhouse is cold."),
                    ("user", "Grace: I will mend the heater."),
                    ("user", "Ada: Thanks!"),
                ],
            ),
        ],
    )
    def test_each_conversation_is_a_session_and_its_turns_are_memories_in_order(
        self,
        memory: Memorist,
        name: str,
        session: str,
        project: str | None,
        summary: str | None,
        turns: list[tuple[str, str]],
    ) -> None:
        report = memory.transfer.import_conversations(DATA / name)

        found = memory.sessions.get(session)
        kept = list(reversed(memory.list(session=session)))
        assert report.format == session.partition(":")[0]
        assert (found.project, found.summary, found.memories) == (project, summary, len(turns))
        assert [(one.metadata["role"], one.content) for one in kept] == turns
        assert {(one.kind, one.sector, one.tier, one.project, one.source, one.title) for one in kept} == {
            ("turn", "episodic", "session", project, name, None)
        }
        assert (found.started_at, found.ended_at) == (kept[0].created_at, kept[-1].created_at)
        assert [one.session.id for one in kept if one.session] == [session] * len(turns)

    def test_times_are_those_of_the_turns(self, memory: Memorist) -> None:
        memory.transfer.import_conversations(DATA / "claude-code.jsonl")

        first, *_, last = reversed(memory.list(session="claude-code:s-1111"))
        assert first.created_at == datetime(2026, 3, 2, 9, 0, 1, tzinfo=UTC)
        assert last.created_at == datetime(2026, 3, 2, 9, 13, tzinfo=UTC)
        assert datetime.now(UTC) - first.recorded_at < timedelta(minutes=1)
        context = memory.sessions.context_of(first.id)
        assert context
        assert (context.usage, context.at) == ("created", first.created_at)

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_list_of_messages_without_times_is_dated_by_its_file_and_stays_in_order(
        self, memory: Memorist, tmp_path: Path
    ) -> None:
        file = Path(shutil.copy(DATA / "openai.json", tmp_path))
        os.utime(file, (1_700_000_000, 1_700_000_000))

        memory.transfer.import_conversations(file)

        (session,) = memory.sessions.list()
        assert session.id.startswith("openai:")
        assert session.started_at == datetime.fromtimestamp(1_700_000_000, UTC)
        assert said(memory, session.id) == ["You help with gardens.", "When do I sow peas?", "Sow them in mid April."]

    def test_two_without_times_in_one_file_do_not_mingle(self, memory: Memorist, tmp_path: Path) -> None:
        def chat(name: str) -> dict[str, Any]:
            return {"id": name, "messages": [{"role": "user", "content": f"{name} {number}"} for number in range(3)]}

        memory.transfer.import_conversations(jsonl(tmp_path / "chats.jsonl", chat("first"), chat("other")))

        assert [one.summary for one in memory.timeline(start="1990")] == [
            f"{name} {number}" for name in ("first", "other") for number in range(3)
        ]

    def test_its_own_id_finds_the_session(self, memory: Memorist, tmp_path: Path) -> None:
        own = "6f1c2d3e-1111-4222-8333-444455556666"
        memory.transfer.import_conversations(jsonl(tmp_path / "a.jsonl", code_line("u-1", "Hello there", None, own)))

        assert memory.sessions.get(own).id == f"claude-code:{own}"

    @pytest.mark.parametrize("length", [100, 117, 128, 4000])
    def test_an_id_of_any_length_will_do(self, memory: Memorist, tmp_path: Path, length: int) -> None:
        file = jsonl(tmp_path / "a.jsonl", {"session": "x" * length, "role": "user", "content": "Hello"})

        assert memory.transfer.import_conversations(file).sessions == 1
        assert memory.transfer.import_conversations(file).known == 1

    def test_a_format_can_be_named_and_a_wrong_one_is_refused(self, memory: Memorist) -> None:
        assert memory.transfer.import_conversations(DATA / "claude.json", format="claude").added == 5
        with pytest.raises(InvalidInput, match="format"):
            memory.transfer.import_conversations(DATA / "claude.json", format="nonsense")
        with pytest.raises(InvalidInput, match="expected the format 'chatgpt'"):
            memory.transfer.import_conversations(DATA / "claude.json", format="chatgpt")

    def test_the_given_project_counts_more_than_its_own(self, memory: Memorist) -> None:
        memory.transfer.import_conversations(DATA / "claude.json", project="kitchen")

        assert {one.project for one in memory.list()} == {one.project for one in memory.sessions.list()} == {"kitchen"}

    def test_tools_are_left_out_unless_asked_for_and_may_be_asked_for_later(self, memory: Memorist) -> None:
        memory.transfer.import_conversations(DATA / "claude-code.jsonl")
        spoken = said(memory, "claude-code:s-1111")

        report = memory.transfer.import_conversations(DATA / "claude-code.jsonl", tools=True)

        assert report.known == 7
        assert report.added > 0
        with_tools = list(reversed(memory.list(session="claude-code:s-1111")))
        assert [one.content for one in with_tools if "tool" not in one.metadata] == spoken
        assert {"Read", "agent"} & {one.metadata.get("tool") for one in with_tools}

    def test_they_are_found_by_word_and_by_meaning(self, hashed: Memorist) -> None:
        hashed.transfer.import_conversations(DATA / "claude.json")

        (best, *_) = hashed.search("twelve hours fridge")
        assert set(best.match) == {"keyword", "vector"}
        assert best.session
        assert best.session.summary == "Sourdough"
        assert hashed.stats().pending == 0
        assert hashed.check().ok


class TestOrder:
    def test_missing_equal_and_backward_times_keep_the_order_of_the_conversation(
        self, memory: Memorist, tmp_path: Path
    ) -> None:
        nine = "2026-03-02T09:00:00Z"
        times = [None, nine, nine, None, "2026-03-02T08:00:00Z", "2026-03-02T09:00:01Z", None]
        lines = [code_line(f"u-{number}", f"turn {number}", at) for number, at in enumerate(times)]

        memory.transfer.import_conversations(jsonl(tmp_path / "a.jsonl", *lines))

        expected = [f"turn {number}" for number in range(len(times))]
        assert said(memory, "claude-code:s-1") == expected
        assert [one.summary for one in memory.timeline(start="2026-03-02", end="2026-03-02")] == expected
        moments = [one.created_at for one in reversed(memory.list())]
        assert all(earlier < later for earlier, later in itertools.pairwise(moments))
        assert max(moments) - min(moments) < timedelta(hours=1, seconds=2)

    @pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
    def test_the_first_and_the_last_moment_of_the_calendar_do_no_harm(
        self, memory: Memorist, tmp_path: Path, at: str
    ) -> None:
        lines = [code_line("u-1", "one", at), code_line("u-2", "two", at), code_line("u-3", "three", None)]

        assert memory.transfer.import_conversations(jsonl(tmp_path / "a.jsonl", *lines)).added == 3
        assert said(memory, "claude-code:s-1") == ["one", "two", "three"]

    def test_the_past_can_be_asked(self, memory: Memorist) -> None:
        memory.transfer.import_conversations(DATA / "claude-code.jsonl")

        then = memory.list(session="claude-code:s-1111", as_of="2026-03-02T09:01:00Z")
        assert texts(then)[0] == "MAX_TRIES is 2, and the tests pin it."
        assert len(then) == 4
        assert memory.search("MAX_TRIES", as_of="2026-03-02T09:01:00Z")[0].memory.content.startswith("MAX_TRIES is 2")
        assert not memory.list(as_of="2024-01-01")


class TestTheSameWords:
    def test_what_is_said_twice_is_two_turns_and_strengthens_nothing(self, memory: Memorist, tmp_path: Path) -> None:
        words = ["Drop the table?", "yes", "And the index?", "yes", "Thanks", "yes"]
        for session in ("s-1", "s-2"):
            lines = [code_line(f"u-{number}", text, None, session) for number, text in enumerate(words)]
            memory.transfer.import_conversations(jsonl(tmp_path / f"{session}.jsonl", *lines))

        assert said(memory, "claude-code:s-1") == said(memory, "claude-code:s-2") == words
        assert {one.salience for one in memory.list()} == {0.5}
        assert memory.stats().memories == 12
        assert memory.check().ok

    def test_the_same_words_without_ids_are_different_turns_too(self, memory: Memorist, tmp_path: Path) -> None:
        words = ["Sure?", "yes", "Really?", "yes", "yes"]
        file = tmp_path / "chat.json"
        file.write_text(json.dumps([{"role": "user", "content": text} for text in words]))

        for _ in range(2):
            memory.transfer.import_conversations(file)

        assert said(memory, memory.sessions.list()[0].id) == words

    def test_a_note_is_not_taken_for_a_turn_nor_a_turn_for_a_note(self, memory: Memorist, tmp_path: Path) -> None:
        before = memory.add("Retries are capped at 5", project="api")
        file = jsonl(tmp_path / "a.jsonl", code_line("u-1", "Retries are capped at 5", None))

        memory.transfer.import_conversations(file)
        again = memory.add("Retries are capped at 5", project="api")

        assert again.id == before.id
        assert again.salience > 0.5
        assert len(memory.list(project="api")) == 2

    def test_turns_are_no_duplicates_of_each_other(self, memory: Memorist, tmp_path: Path) -> None:
        lines = [code_line(f"u-{number}", "please go on with the next one", None) for number in range(3)]
        memory.transfer.import_conversations(jsonl(tmp_path / "a.jsonl", *lines))
        notes = [memory.add(f"the payment client gives up after two tries{end}") for end in ("", "!")]

        assert [set(ids(group)) for group in memory.review.duplicates()] == [set(ids(notes))]

    def test_two_turns_with_the_same_words_can_both_be_changed_forgotten_and_restored(
        self, memory: Memorist, tmp_path: Path
    ) -> None:
        memory.transfer.import_conversations(
            jsonl(tmp_path / "a.jsonl", code_line("u-1", "yes", None), code_line("u-2", "yes", None))
        )
        both = ids(memory.list())

        for id in both:
            memory.update(id, tags=["short"])
            memory.update(id, content="yes, please")
            memory.forget(id)
        for id in both:
            memory.restore(id)

        assert texts(memory.list(tags=["short"])) == ["yes, please"] * 2
        assert memory.review.duplicates() == []


class TestAgain:
    @pytest.mark.parametrize("name", sorted(file.name for file in DATA.iterdir()))
    @pytest.mark.parametrize("tools", [False, True])
    def test_a_second_import_writes_nothing(self, path: Path, name: str, tools: bool) -> None:
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            first = memory.transfer.import_conversations(DATA / name, tools=tools)
            before = everything(path)

            second = memory.transfer.import_conversations(DATA / name, tools=tools)

            assert first.added > 0
            assert (second.added, second.known, second.sessions) == (0, first.added, 0)
            assert everything(path) == before

    def test_also_where_the_file_was_touched_moved_and_imported_into_another_project(
        self, path: Path, memory: Memorist, tmp_path: Path
    ) -> None:
        file = Path(shutil.copy(DATA / "openai.json", tmp_path))
        memory.transfer.import_conversations(file)
        before = everything(path)

        os.utime(moved := file.rename(tmp_path / "moved.json"), (2_000_000_000, 2_000_000_000))
        memory.transfer.import_conversations(moved, project="elsewhere")

        assert everything(path) == before

    def test_a_file_that_has_grown_adds_only_what_is_new(self, memory: Memorist, tmp_path: Path) -> None:
        file = jsonl(
            tmp_path / "a.jsonl", *(code_line(f"u-{n}", f"turn {n}", f"2026-03-02T09:0{n}:00Z") for n in (1, 2))
        )
        memory.transfer.import_conversations(file)
        first = ids(memory.list())

        jsonl(file, code_line("u-3", "turn 3", "2026-03-02T09:03:00Z"))
        jsonl(file, {"type": "summary", "summary": "Three turns", "leafUuid": "u-3"})
        report = memory.transfer.import_conversations(file)

        session = memory.sessions.get("claude-code:s-1")
        assert (report.added, report.known, report.sessions) == (1, 2, 0)
        assert said(memory, session.id) == ["turn 1", "turn 2", "turn 3"]
        assert ids(memory.list())[1:] == first
        assert session.ended_at == datetime(2026, 3, 2, 9, 3, tzinfo=UTC)
        assert session.summary == "Three turns"

    def test_a_list_of_messages_that_has_grown_too(self, memory: Memorist, tmp_path: Path) -> None:
        file, words = tmp_path / "chat.json", ["When?", "In April.", "ok", "And beans?", "In May.", "ok"]
        messages = [
            {"role": role, "content": text} for role, text in zip(["user", "assistant"] * 3, words, strict=True)
        ]
        for length, added in ((3, 3), (6, 3)):
            file.write_text(json.dumps(messages[:length]))
            assert memory.transfer.import_conversations(file).added == added

        (session,) = memory.sessions.list()
        assert said(memory, session.id) == words

    def test_a_summary_of_ones_own_stays(self, memory: Memorist) -> None:
        memory.transfer.import_conversations(DATA / "claude.json")
        memory.sessions.summarise("claude:k-aaaa", "About bread")

        memory.transfer.import_conversations(DATA / "claude.json")

        assert memory.sessions.get("claude:k-aaaa").summary == "About bread"

    def test_what_was_forgotten_or_changed_stays_so(self, memory: Memorist) -> None:
        memory.transfer.import_conversations(DATA / "claude.json")
        forgotten, changed = memory.search("fridge")[0].memory, memory.search("crumb")[0].memory
        memory.forget(forgotten.id)
        memory.update(changed.id, content="Lovely crumb.")

        assert memory.transfer.import_conversations(DATA / "claude.json").known == 5

        assert memory.get(changed.id).content == "Lovely crumb."
        assert not memory.search("fridge")
        assert ids(memory.list(deleted=True)) == [forgotten.id]

    def test_a_session_that_is_open_is_not_ended(self, memory: Memorist, tmp_path: Path) -> None:
        memory.sessions.start("api", id="claude-code:s-1")
        memory.transfer.import_conversations(
            jsonl(tmp_path / "a.jsonl", code_line("u-1", "Hello", "2026-03-02T09:00:00Z"))
        )

        session = memory.sessions.get("claude-code:s-1")
        assert session.ended_at is None
        assert session.started_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
        assert memory.add("Still here", session=session.id)

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_resumed_session_that_repeats_another_doubles_nothing(self, memory: Memorist, tmp_path: Path) -> None:
        uuids = [f"{number:08d}-1111-4222-8333-444455556666" for number in range(3)]
        earlier = [code_line(uuid, f"turn {at}", f"2026-03-02T09:0{at}:00Z") for at, uuid in enumerate(uuids[:2])]
        jsonl(tmp_path / "z.jsonl", *earlier)
        resumed = [one | {"sessionId": "s-2"} for one in earlier]
        jsonl(tmp_path / "a.jsonl", *resumed, code_line(uuids[2], "turn 2", "2026-03-02T10:00:00Z", "s-2"))
        os.utime(tmp_path / "z.jsonl", (1_700_000_000, 1_700_000_000))

        report = memory.transfer.import_conversations(tmp_path)

        assert (report.added, report.known, report.sessions) == (3, 2, 2)
        assert said(memory, "claude-code:s-1") == ["turn 0", "turn 1"]
        assert said(memory, "claude-code:s-2") == ["turn 0", "turn 1", "turn 2"]
        first = memory.list()[-1]
        assert first.session
        assert first.session.id == "claude-code:s-1"
        assert first.access_count == 0

    def test_two_namespaces_know_nothing_of_each_other(self, path: Path) -> None:
        for namespace in ("anna", "ben"):
            with memorist.open(path, embedder="none", namespace=namespace) as memory:
                assert memory.transfer.import_conversations(DATA / "claude.json").added == 5
                assert len(memory.sessions.list()) == 2


IMPORTER = """
    import sys, time, memorist
    from conftest import HashingEmbedder

    class Slow(HashingEmbedder):
        def embed(self, texts):
            time.sleep(0.02)
            return super().embed(texts)

    def show(done):
        print(done, flush=True)

    with memorist.open(sys.argv[1], embedder=Slow()) as memory:
        memory.transfer.import_conversations(sys.argv[2], progress=show)
    print("done", flush=True)
"""


@kills
@pytest.mark.parametrize("after", [1, 3, 5])
def test_an_import_that_was_killed_can_be_run_again(path: Path, tmp_path: Path, after: int) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    expected: dict[str, list[str]] = {}
    for session in ("s-1", "s-2"):
        words = [f"turn {number % 400} of {session}" for number in range(BATCH * 4)]
        expected[f"claude-code:{session}"] = words
        lines = (code_line(f"{session}-u-{number}", text, None, session) for number, text in enumerate(words))
        jsonl(folder / f"{session}.jsonl", *lines)

    with start_program(IMPORTER, path, folder) as process:
        expect(str(BATCH), [process])
        for _ in range(after - 1):
            read_line(process)
        process.kill()
        process.wait()

    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        assert memory.check().problems == ()
        kept = memory.stats().memories
        assert after * BATCH <= kept <= len(expected) * BATCH * 4

        report = memory.transfer.import_conversations(folder)

        assert (report.added, report.known) == (8 * BATCH - kept, kept)
        assert {session.id: said(memory, session.id) for session in memory.sessions.list()} == expected
        memory.reembed()
        assert memory.stats().pending == 0
        assert memory.check().problems == ()


def test_two_processes_that_import_the_same_file_at_once_take_each_turn_once(path: Path, tmp_path: Path) -> None:
    words = [f"turn {number % 50}" for number in range(BATCH * 3)]
    file = jsonl(tmp_path / "a.jsonl", *(code_line(f"u-{number}", text, None) for number, text in enumerate(words)))
    memorist.open(path, embedder="none").close()

    with start_program(IMPORTER, path, file) as one, start_program(IMPORTER, path, file) as other:
        assert [wait_for_end(process)[0] for process in (one, other)] == [0, 0]

    with memorist.open(path, embedder="none") as memory:
        assert said(memory, "claude-code:s-1") == words
        assert memory.check().ok


class TestSecrets:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        words = [f"first\nuse {TOKEN} for it", "thanks", f"the same {TOKEN}: fine"]
        lines = [code_line(f"u-{number}", text, None) for number, text in enumerate(words)]
        title = {"type": "custom-title", "sessionId": "s-1", "customTitle": f"About {TOKEN}"}
        (folder := tmp_path / "in").mkdir()
        return jsonl(folder / "a.jsonl", *lines, title)

    def test_they_are_redacted_by_default_and_reported_by_kind_and_place(
        self, memory: Memorist, path: Path, file: Path
    ) -> None:
        report = memory.transfer.import_conversations(file)

        first, second, third = reversed(memory.list())
        assert first.content == "first\nuse [redacted:github-token] for it"
        assert first.metadata["redacted"] == [{"kind": "github-token", "line": 2, "column": 5}]
        assert "redacted" not in second.metadata
        assert third.content == "the same [redacted:github-token]: fine"
        assert report.redacted == {"github-token": 2}
        assert memory.sessions.list()[0].summary == "About [redacted:github-token]"
        assert memory.transfer.import_conversations(file).redacted == {}
        kept = path.parent / "kept"
        kept.mkdir()
        for each in path.parent.glob("memory.db*"):
            shutil.copy(each, kept)
        check_nothing_is_left(kept, {"the token": [TOKEN.encode(), TOKEN[4:20].encode()]})

    def test_unless_told_otherwise(self, memory: Memorist, file: Path) -> None:
        report = memory.transfer.import_conversations(file, redact=False)

        assert report.redacted == {}
        assert TOKEN in memory.list()[-1].content
        assert memory.transfer.import_conversations(file).added == 0

    @pytest.mark.local_only("a server refuses it in other words")
    def test_what_is_allowed_stays(self, memory: Memorist, file: Path) -> None:
        assert memory.transfer.import_conversations(file, allow=["/^ghp_aB3/"]).redacted == {}
        assert TOKEN in memory.list()[-1].content
        with pytest.raises(InvalidInput, match="regular expression"):
            memory.transfer.import_conversations(file, allow=["/(/"])

    def test_what_the_memory_allows_stays_too(self, path: Path, file: Path) -> None:
        with memorist.open(path, embedder="none", redact_allow=[TOKEN]) as memory:
            assert memory.transfer.import_conversations(file).redacted == {}

    def test_turns_without_ids_are_the_same_redacted_or_not(self, memory: Memorist, tmp_path: Path) -> None:
        file = jsonl(tmp_path / "a.jsonl", {"session": "s", "role": "user", "content": f"use {TOKEN}"})
        memory.transfer.import_conversations(file)

        assert memory.transfer.import_conversations(file, redact=False).added == 0
        assert memory.transfer.import_conversations(file, allow=[TOKEN]).added == 0


class TestFolders:
    @pytest.mark.local_only("it reads a file of its own machine")
    def test_every_file_of_a_folder_and_of_those_in_it(self, memory: Memorist, tmp_path: Path) -> None:
        shutil.copytree(DATA, tmp_path / "all" / "below")
        (tmp_path / "all" / "notes.txt").write_text("not looked at")
        (tmp_path / "all" / ".hidden.json").write_text("[]")
        (tmp_path / "all" / "package.json").write_text('{"name": "x"}')
        jsonl(tmp_path / "all" / "more.jsonl", code_line("u-1", "One more", None))

        report = memory.transfer.import_conversations(str(tmp_path / "all"))

        assert report.added == memory.stats().memories == 31
        assert report.sessions == len(memory.sessions.list()) == 12
        assert report.format == "chatgpt, claude, claude-code, jsonl, openai"
        assert [Path(place).name for place, _ in report.skipped] == ["package.json"]
        assert "holds no conversation" in report.skipped[0][1]

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_an_export_of_memorist_is_no_conversation(self, memory: Memorist, tmp_path: Path) -> None:
        memory.add("Retries are capped at 5")
        memory.transfer.export(file := tmp_path / "export.jsonl")
        jsonl(tmp_path / "said.jsonl", code_line("u-1", "One more", None))

        report = memory.transfer.import_conversations(tmp_path)

        assert (report.added, [place for place, _ in report.skipped]) == (1, [str(file)])
        with pytest.raises(InvalidInput, match="export of Memorist"):
            memory.transfer.import_conversations(file)

    @pytest.mark.parametrize("given", ["", " ", None, 3, "a\0b", ["a"]])
    def test_what_is_no_path_is_refused(self, memory: Memorist, given: Any) -> None:
        with pytest.raises(InvalidInput, match="path"):
            memory.transfer.import_conversations(given)

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_home_folder_that_nobody_has_is_no_file(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="no such file"):
            memory.transfer.import_conversations("~nobody-has-this-name/a.jsonl")

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_folder_without_any_is_refused(self, memory: Memorist, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no file with conversations"):
            memory.transfer.import_conversations(tmp_path)
        (tmp_path / "package.json").write_text('{"name": "x"}')
        with pytest.raises(InvalidInput, match="Claude Code"):
            memory.transfer.import_conversations(tmp_path)

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_progress_counts_turns(self, memory: Memorist, tmp_path: Path) -> None:
        lines = [code_line(f"u-{number}", f"turn {number}", None) for number in range(BATCH + 10)]
        steps: list[int] = []

        for _ in range(2):
            memory.transfer.import_conversations(jsonl(tmp_path / "a.jsonl", *lines), progress=steps.append)

        assert steps == [BATCH, BATCH + 10] * 2


class TestWhatCannotBeRead:
    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_bad_lines_are_reported_by_place_and_the_rest_is_imported(self, memory: Memorist, tmp_path: Path) -> None:
        file = jsonl(tmp_path / "a.jsonl", code_line("u-1", "before", None), '{"type": "user", "sess', "[1, 2]")
        jsonl(file, code_line("u-2", "after", None), {"type": "user", "sessionId": "s-1", "uuid": "u-3"})

        report = memory.transfer.import_conversations(file)

        assert said(memory, "claude-code:s-1") == ["before", "after"]
        assert [place for place, _ in report.skipped] == [f"{file}:2", f"{file}:3", f"{file}:5"]
        assert "not JSON" in report.skipped[0][1]

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_turn_that_is_too_long_is_reported_and_the_others_are_imported(
        self, memory: Memorist, tmp_path: Path
    ) -> None:
        lines = [
            code_line("u-1", "before", None),
            code_line("u-2", "x" * 1_000_001, None),
            code_line("u-3", "after", None),
        ]

        report = memory.transfer.import_conversations(jsonl(tmp_path / "a.jsonl", *lines))

        assert said(memory, "claude-code:s-1") == ["before", "after"]
        assert [place for place, _ in report.skipped] == [str(tmp_path / "a.jsonl")]
        assert "turn 2" in report.skipped[0][1]

    @pytest.mark.parametrize(
        "content", ["", "just some text\n", '{"name": "x"}', "[]", "\0\0\0", '{"type": "user", "sess']
    )
    def test_a_file_with_nothing_to_read_is_refused_with_what_was_expected(
        self, memory: Memorist, tmp_path: Path, content: str
    ) -> None:
        (file := tmp_path / "a.jsonl").write_text(content)

        with pytest.raises(InvalidInput, match="Claude Code"):
            memory.transfer.import_conversations(file)
        assert list(memory.sessions.list()) == []

    def test_a_file_of_a_known_format_without_a_single_turn_to_read_is_refused_too(
        self, memory: Memorist, tmp_path: Path
    ) -> None:
        file = jsonl(tmp_path / "a.jsonl", {"type": "user", "sessionId": "s-1", "uuid": "u-3", "message": "?"})

        with pytest.raises(InvalidInput, match="could be read"):
            memory.transfer.import_conversations(file)

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_missing_file_is_refused(self, memory: Memorist, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no such file"):
            memory.transfer.import_conversations(tmp_path / "none.jsonl")

    @pytest.mark.local_only("a server refuses it in other words")
    @pytest.mark.parametrize("wrong", [{"tools": 1}, {"redact": "yes"}, {"allow": 5}, {"project": ""}])
    def test_arguments_are_checked(self, memory: Memorist, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            memory.transfer.import_conversations(DATA / "claude.json", **wrong)

    def test_the_report_is_one(self, memory: Memorist) -> None:
        assert memory.transfer.import_conversations(DATA / "claude.json") == ImportReport("claude", added=5, sessions=2)


def test_a_turn_that_is_too_long_is_refused_before_it_is_read_for_secrets(memory: Memorist, tmp_path: Path) -> None:
    long, short = ({"role": "user", "content": text} for text in ("password= ://a:b@ " * 1_500_000, "Hello"))
    (tmp_path / "chat.json").write_text(json.dumps([long, short]))
    started = time.process_time()

    report = memory.transfer.import_conversations(tmp_path / "chat.json")

    assert time.process_time() - started < 10  # of this process: what others take does not count
    ((_, reason),) = report.skipped
    assert report.added == 1
    assert reason.startswith("turn 1 of")
    assert reason.endswith("content has 26,999,999 characters; at most 1,000,000 fit: split it into parts")


class TestWhileItGoesOn:
    def test_a_session_begins_with_the_first_turn_and_reaches_to_the_last(self, memory: Memorist) -> None:
        first = memory.sessions.add_turn("user", "Why two tries?\nReally?", conversation="retries", project="api")
        last = memory.sessions.add_turn("assistant", "MAX_TRIES is 2.", conversation="retries", project="api")

        session = memory.sessions.get("chat:retries")
        assert (session.project, session.summary, session.memories) == ("api", "Why two tries? Really?", 2)
        assert (session.started_at, session.ended_at) == (first.created_at, last.created_at)
        assert said(memory, "chat:retries") == ["Why two tries?\nReally?", "MAX_TRIES is 2."]
        assert (first.kind, first.sector, first.tier, first.source) == ("turn", "episodic", "session", "chat")
        assert first.metadata == {"role": "user", "format": "chat"}
        assert first.session is not None
        assert first.session.id == "chat:retries"

    def test_the_same_words_are_another_turn_and_the_same_id_is_not(self, memory: Memorist) -> None:
        for _ in range(2):
            memory.sessions.add_turn("user", "yes", conversation="c")
        once = [memory.sessions.add_turn("user", "no", conversation="c", id="turn-0001") for _ in range(2)]

        assert said(memory, "chat:c") == ["yes", "yes", "no"]
        assert once[0].id == once[1].id

    def test_secrets_are_replaced_unless_told(self, memory: Memorist) -> None:
        redacted = memory.sessions.add_turn("user", f"use {TOKEN}", conversation="c")
        free = memory.sessions.add_turn("user", f"use {TOKEN}", conversation="c", redact=False)
        allowed = memory.sessions.add_turn("user", f"use {TOKEN}", conversation="c", allow=["ghp_"])

        assert TOKEN not in redacted.content
        assert redacted.metadata["redacted"][0]["kind"]
        assert "redacted" not in free.metadata
        assert free.content == allowed.content == f"use {TOKEN}"
        assert TOKEN not in (memory.sessions.get("chat:c").summary or "")

    @pytest.mark.parametrize(
        "wrong",
        [{"text": " "}, {"text": 7}, {"role": ""}, {"conversation": ""}, {"id": "\n"}, {"text": "x" * 1_000_001}],
    )
    def test_what_cannot_be_a_turn(self, memory: Memorist, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            memory.sessions.add_turn(**{"role": "user", "text": "hello", "conversation": "c"} | wrong)
        assert list(memory.sessions.list()) == []

    def test_it_is_found_by_its_meaning_at_once(self, hashed: Memorist) -> None:
        turn = hashed.sessions.add_turn("user", "the badger digs", conversation="c")

        (hit,) = hashed.search("badger digs")
        assert (hit.memory.id, hit.match) == (turn.id, ("keyword", "vector"))
