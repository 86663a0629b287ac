"""Sessions: where memories come from, and which of them were used where."""

from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from clock import now
from memorist import Ambiguous, InvalidInput, Memorist, NotFound
from statements import read_rows


class TestTheLifeOfASession:
    def test_a_started_session_is_open_and_has_what_it_was_given(self, memory: Memorist) -> None:
        before = now()

        session = memory.sessions.start("api", id="sess1", summary="moving the login")

        assert (session.id, session.project, session.summary) == ("sess1", "api", "moving the login")
        assert before <= session.started_at <= now()
        assert session.ended_at is None
        assert session.memories == 0
        assert memory.sessions.get("sess1") == session

    def test_a_session_needs_no_project_id_or_summary(self, memory: Memorist) -> None:
        one, other = memory.sessions.start(), memory.sessions.start()

        assert one.id < other.id
        assert (one.project, one.summary) == (None, None)

    def test_ending_it_keeps_the_time_and_the_summary(self, memory: Memorist) -> None:
        session = memory.sessions.start("api", summary="a plan")

        ended = memory.sessions.end(session.id, "what came of it")

        assert ended.ended_at is not None
        assert session.started_at <= ended.ended_at <= now()
        assert ended.summary == "what came of it"
        assert memory.sessions.get(session.id) == ended

    def test_ending_it_without_a_summary_keeps_the_one_it_had(self, memory: Memorist) -> None:
        session = memory.sessions.start(summary="a plan")

        assert memory.sessions.end(session.id).summary == "a plan"

    def test_it_can_be_summarised_before_and_after_its_end(self, memory: Memorist) -> None:
        session = memory.sessions.start()

        assert memory.sessions.summarise(session.id, "so far").summary == "so far"
        ended = memory.sessions.end(session.id)
        assert ended.summary == "so far"
        again = memory.sessions.summarise(session.id, "all in all")
        assert (again.summary, again.ended_at) == ("all in all", ended.ended_at)
        assert memory.sessions.summarise(session.id, None).summary is None

    def test_they_are_listed_latest_first_by_project_and_by_state(self, memory: Memorist) -> None:
        first = memory.sessions.start("api").id
        second = memory.sessions.start("web").id
        third = memory.sessions.start("api").id
        memory.sessions.end(first)

        assert ids(memory.sessions.list()) == [third, second, first]
        assert ids(memory.sessions.list(project="api")) == [third, first]
        assert ids(memory.sessions.list(active=True)) == [third, second]
        assert ids(memory.sessions.list(active=False)) == [first]
        assert ids(memory.sessions.list(project="api", active=True)) == [third]
        assert ids(memory.sessions.list(limit=2)) == [third, second]

    def test_a_memory_gets_the_project_of_its_session_unless_it_has_one(self, memory: Memorist) -> None:
        session, other = memory.sessions.start("api").id, memory.sessions.start().id

        assert memory.add("retries are capped", session=session).project == "api"
        assert memory.add("retries are capped", session=session).project == "api"  # the same memory, reinforced
        assert memory.add("the page is slow", session=session, project="web").project == "web"
        assert memory.add("lunch is at noon", session=other).project is None
        texts = [{"content": "one", "session": session}, {"content": "two", "session": session, "project": "web"}]
        assert [found.project for found in memory.get(memory.add_many(texts))] == ["api", "web"]
        assert memory.count() == 5

    def test_sessions_of_another_namespace_are_behind_the_wall(self, path: Path) -> None:
        with memorist.open(path, embedder="none", namespace="mine") as mine:
            mine.sessions.start(id="shared-name", summary="mine")
            with memorist.open(path, embedder="none", namespace="theirs") as theirs:
                assert list(theirs.sessions.list()) == []
                with pytest.raises(NotFound):
                    theirs.sessions.get("shared-name")
                theirs.sessions.start(id="shared-name", summary="theirs")
                theirs.sessions.end("shared-name")
            assert mine.sessions.get("shared-name").summary == "mine"
            assert mine.sessions.get("shared-name").ended_at is None


class TestIds:
    @pytest.mark.parametrize("id", ["sess1", "1", "claude-code/2026-11-15 #3", "会话一", "a" * 128])
    def test_an_id_of_another_program_is_taken_as_it_is(self, memory: Memorist, id: str) -> None:
        memory.sessions.start(id=id)

        added = memory.add("learnt there", session=id)

        assert added.session is not None
        assert added.session.id == id
        assert ids(memory.list(session=id)) == [added.id]

    @pytest.mark.local_only("a server refuses it in other words")
    @pytest.mark.parametrize("id", ["", " ", "two\nlines", " edges ", "a" * 129, 7, "nul\x00"])
    def test_an_id_nobody_could_type_again_is_refused(self, memory: Memorist, id: Any) -> None:
        with pytest.raises(InvalidInput, match="session id"):
            memory.sessions.start(id=id)

    def test_an_id_that_is_taken_is_refused(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")

        with pytest.raises(InvalidInput, match="there is a session 'sess1' already"):
            memory.sessions.start(id="sess1")

    def test_a_unique_part_names_a_session_wherever_it_is_read_or_ended(self, memory: Memorist) -> None:
        session = memory.sessions.start()
        added = memory.add("the badger digs", session=session.id)
        part = session.id[-8:]

        assert memory.sessions.get(part).id == session.id
        assert ids(memory.search("badger", session=part)) == [added.id]
        assert ids(memory.list(session=part)) == [added.id]
        memory.search("badger", record="log", record_session=part)
        assert len(memory.searches.list(session=part)) == 1
        assert memory.sessions.summarise(part, "digging").summary == "digging"
        assert memory.sessions.end(part).id == session.id

    @pytest.mark.parametrize("call", ["add", "update", "reinforce"])
    def test_a_unique_part_names_a_session_wherever_it_is_written_to(self, memory: Memorist, call: str) -> None:
        """`any unique beginning or ending of 6 or more characters is accepted wherever an id is`."""
        session = memory.sessions.start()
        part = session.id[-8:]
        known = memory.add("known before")

        {
            "add": lambda: memory.add("new", session=part),
            "update": lambda: memory.update(known.id, session=part, title="Known"),
            "reinforce": lambda: memory.reinforce(known.id, session=part),
        }[call]()

        assert memory.sessions.get(session.id).memories == 1

    def test_a_part_that_several_have_is_refused_with_the_choices(self, memory: Memorist) -> None:
        first, second = (f"01a1df44-480e-7ac2-9f00-00000000000{digit}" for digit in "ab")
        memory.sessions.start(id=first)
        memory.sessions.start(id=second)

        with pytest.raises(Ambiguous, match=f"{first}, {second}"):
            memory.sessions.get(first[:8])

    def test_a_short_id_is_never_taken_for_a_part_of_another(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        memory.sessions.start(id="sess10")

        assert memory.sessions.get("sess1").id == "sess1"
        with pytest.raises(NotFound):
            memory.sessions.get("sess")


class TestSessionsThatAreNotThere:
    @pytest.mark.parametrize(
        "call",
        [
            lambda memory, id: memory.add("x", session="nobody"),
            lambda memory, id: memory.update(id, session="nobody", title="T"),
            lambda memory, id: memory.reinforce(id, session="nobody"),
            lambda memory, id: memory.search("x", session="nobody"),
            lambda memory, id: memory.search("x", record="log", record_session="nobody"),
            lambda memory, id: memory.list(session="nobody"),
            lambda memory, id: memory.searches.list(session="nobody"),
            lambda memory, id: memory.sessions.get("nobody"),
            lambda memory, id: memory.sessions.end("nobody"),
            lambda memory, id: memory.sessions.summarise("nobody", "x"),
        ],
    )
    def test_an_unknown_session_is_a_clear_error_everywhere(self, memory: Memorist, call: Any) -> None:
        known = memory.add("known before")

        with pytest.raises(NotFound, match="no session has the id 'nobody'"):
            call(memory, known.id)

        assert memory.list().memories == (known,)

    @pytest.mark.parametrize(
        "call",
        [
            lambda memory, id: memory.add("y", session="sess1"),
            lambda memory, id: memory.update(id, session="sess1", title="T"),
            lambda memory, id: memory.reinforce(id, session="sess1"),
            lambda memory, id: memory.search("known", record="log", record_session="sess1"),
            lambda memory, id: memory.sessions.end("sess1"),
        ],
    )
    def test_an_ended_session_takes_nothing_more_and_says_so(self, memory: Memorist, call: Any) -> None:
        memory.sessions.start(id="sess1")
        known = memory.add("known before", session="sess1")
        memory.sessions.end("sess1")

        with pytest.raises(InvalidInput, match=r"session sess1 ended on .* UTC; start a new one"):
            call(memory, known.id)

        assert memory.list().memories == (known,)
        assert list(memory.searches.list()) == []

    def test_what_an_ended_session_has_can_still_be_looked_for(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        known = memory.add("the badger digs", session="sess1")
        memory.sessions.end("sess1")

        assert ids(memory.search("badger", session="sess1")) == [known.id]

    def test_many_with_an_unknown_session_keep_those_before_it_and_name_it(self, memory: Memorist) -> None:
        """As every item that cannot be used: `the items before are kept`."""
        with pytest.raises(memorist.MemoristError, match="item 2 "):
            memory.add_many(["one", {"content": "two", "session": "nobody"}, "three"])

        assert texts(memory.list()) == ["one"]


class TestLinks:
    def test_all_four_ways_of_using_a_memory_are_linked(self, memory: Memorist, path: Path) -> None:
        memory.sessions.start(id="sess1")
        added = memory.add("the badger digs", session="sess1")
        memory.update(added.id, session="sess1", title="Badgers")
        memory.reinforce(added.id, session="sess1")
        memory.search("badger", record="log", record_session="sess1")
        memory.searches.list()

        assert read_rows(path, "select usage from session_memories order by usage") == [
            ("created",),
            ("recalled",),
            ("reinforced",),
            ("updated",),
        ]
        assert memory.sessions.get("sess1").memories == 1

    def test_saying_the_same_again_in_another_session_reinforces_and_leaves_the_origin(
        self, memory: Memorist, path: Path
    ) -> None:
        memory.sessions.start(id="sess1")
        memory.sessions.start(id="sess2")
        memory.add("the badger digs", session="sess1")

        again = memory.add("the badger digs", session="sess2")

        assert again.session is not None
        assert again.session.id == "sess1"
        linked = "select s.id, u.usage from session_memories u join sessions s using (sid) order by s.id"
        assert read_rows(path, linked) == [("sess1", "created"), ("sess2", "reinforced")]

    def test_the_source_session_is_on_hits_and_memories(self, memory: Memorist) -> None:
        session = memory.sessions.start("api", id="sess1", summary="on badgers")
        added = memory.add("the badger digs", session="sess1")

        (hit,) = memory.search("badger")

        assert hit.session is not None
        assert dict(hit.session) == {
            "id": "sess1",
            "started_at": session.started_at,
            "summary": "on badgers",
            "project": "api",
        }
        assert hit.session["id"] == hit.session.id == "sess1"
        assert memory.get(added.id).session == hit.session
        assert memory.list()[0].session == hit.session

    def test_a_memory_of_no_session_has_no_source(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        memory.add("the badger digs")
        memory.search("badger", record="log", record_session="sess1")
        memory.searches.list()

        assert memory.search("badger")[0].session is None

    def test_a_later_summary_shows_on_the_hits_of_the_session(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        memory.add("the badger digs", session="sess1")

        memory.sessions.end("sess1", "all about badgers")

        (hit,) = memory.search("badger")
        assert hit.session is not None
        assert hit.session.summary == "all about badgers"

    def test_many_can_be_added_to_a_session(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")

        added = memory.add_many([{"content": "one", "session": "sess1"}, {"content": "two", "session": "sess1"}, "3"])

        assert sorted(ids(memory.list(session="sess1"))) == sorted(added[:2])

    def test_a_forgotten_memory_no_longer_counts_and_an_erased_one_leaves_no_link(
        self, memory: Memorist, path: Path
    ) -> None:
        memory.sessions.start(id="sess1")
        first, second = (memory.add(text, session="sess1").id for text in ("one", "two"))

        memory.forget(first)
        assert memory.sessions.get("sess1").memories == 1
        memory.forget(second, hard=True)
        assert memory.sessions.get("sess1").memories == 0
        assert read_rows(path, "select count(*) from session_memories") == [(1,)]


class TestTheFilterAndTheRecord:
    """C28: the session a search is narrowed to, and the session it is written down in, are two things."""

    @pytest.fixture(autouse=True)
    def _two_sessions(self, memory: Memorist) -> None:
        for id in ("sess1", "sess2"):
            memory.sessions.start("proj1", id=id)
        memory.add("the badger of session one", session="sess1")
        memory.add("the badger of session two", session="sess2")
        memory.add("the badger of nowhere")

    def test_the_filter_gives_only_what_is_linked_to_the_session(self, memory: Memorist) -> None:
        assert texts(memory.search("badger", session="sess2")) == ["the badger of session two"]
        assert texts(memory.list(session="sess1")) == ["the badger of session one"]

    def test_the_filter_alone_records_nothing(self, memory: Memorist, path: Path) -> None:
        memory.search("badger", session="sess2")

        assert list(memory.searches.list()) == []
        assert read_rows(path, "select count(*) from session_memories where usage = 'recalled'") == [(0,)]

    def test_a_memory_new_to_a_session_can_be_recalled_into_it(self, memory: Memorist) -> None:
        results = memory.search("badger", record="log", record_session="sess2")

        assert len(results) == 3
        memory.searches.list()
        assert set(texts(memory.list(session="sess2"))) == set(texts(results))
        context = memory.sessions.context_of(next(m.id for m in memory.list() if m.content.endswith("nowhere")))
        assert context is not None
        assert (context.session.id, context.usage) == ("sess2", "recalled")

    def test_what_is_recalled_into_one_session_can_be_narrowed_to_another(self, memory: Memorist) -> None:
        memory.search("badger", session="sess1", record="log", record_session="sess2")
        memory.searches.list()

        assert set(texts(memory.list(session="sess2"))) == {"the badger of session one", "the badger of session two"}
        assert texts(memory.list(session="sess1")) == ["the badger of session one"]

    def test_the_source_stays_where_it_was_made(self, memory: Memorist) -> None:
        memory.search("badger", record="log", record_session="sess2")
        memory.searches.list()

        sources = {hit.memory.content: hit.session and hit.session.id for hit in memory.search("badger")}
        assert sources == {
            "the badger of session one": "sess1",
            "the badger of session two": "sess2",
            "the badger of nowhere": None,
        }


class TestSessionContext:
    def test_it_tells_session_usage_and_how_many_memories_it_has(self, memory: Memorist) -> None:
        session = memory.sessions.start("proj1", id="sess1")
        memory.add("another of the same session", session="sess1")
        added = memory.add("Test memory", session="sess1")

        context = memory.sessions.context_of(added.id)

        assert context is not None
        assert context.session.id == "sess1"
        assert (context.session.project, context.session.started_at) == ("proj1", session.started_at)
        assert context.usage == "created"
        assert context.memories == context.session.memories == 2

    def test_a_memory_counts_once_however_often_it_was_used(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        added = memory.add("Test memory", session="sess1")
        memory.update(added.id, session="sess1", title="T")
        memory.reinforce(added.id, session="sess1")

        context = memory.sessions.context_of(added.id)

        assert context is not None
        assert context.memories == 1

    def test_the_latest_use_counts(self, memory: Memorist) -> None:
        for id in ("sess1", "sess2", "sess3"):
            memory.sessions.start(id=id)
        added = memory.add("To be recalled", session="sess2")
        memory.reinforce(added.id, session="sess3")
        memory.search("recalled", record="log", record_session="sess1")

        context = memory.sessions.context_of(added.id)

        assert context is not None
        assert (context.session.id, context.usage) == ("sess1", "recalled")
        assert added.recorded_at < context.at

    def test_the_latest_use_in_one_session_counts(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        added = memory.add("a memory", session="sess1")
        memory.update(added.id, session="sess1", title="T")

        context = memory.sessions.context_of(added.id)

        assert context is not None
        assert context.usage == "updated"

    def test_a_use_that_comes_again_is_the_latest_again(self, memory: Memorist) -> None:
        """`The session that used a memory last`; the schema says of the time: `the latest time`."""
        memory.sessions.start(id="sess1")
        memory.sessions.start(id="sess2")
        added = memory.add("a memory")
        for id in ("sess1", "sess2", "sess1"):
            memory.reinforce(added.id, session=id)

        context = memory.sessions.context_of(added.id)

        assert context is not None
        assert context.session.id == "sess1"

    def test_a_memory_no_session_used_has_none(self, memory: Memorist) -> None:
        assert memory.sessions.context_of(memory.add("alone").id) is None

    def test_an_unknown_memory_is_not_found(self, memory: Memorist) -> None:
        with pytest.raises(NotFound):
            memory.sessions.context_of("nobody-has-this")

    def test_a_part_of_the_id_will_do(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        added = memory.add("a memory", session="sess1")

        assert memory.sessions.context_of(added.short_id) == memory.sessions.context_of(added.id)


class TestForgettingASession:
    """A session is forgotten, restored and erased like a memory, and the memories made in it with it."""

    @pytest.fixture
    def session(self, memory: Memorist) -> str:
        memory.sessions.start("api", id="sess1", summary="about the kettle")
        memory.add("the kettle is blue", id="kettle", session="sess1")
        memory.add("said elsewhere", id="elsewhere")
        memory.reinforce("elsewhere", session="sess1")
        memory.forget(memory.add("forgotten before", id="before", session="sess1").id)
        return "sess1"

    def test_it_is_hidden_with_the_memories_made_in_it(self, memory: Memorist, session: str) -> None:
        assert memory.sessions.forget(session).summary == "about the kettle"

        assert list(memory.sessions.list()) == []
        assert memory.stats().sessions == 0
        assert [one.id for one in memory.list()] == ["elsewhere"]
        assert memory.sessions.context_of("elsewhere") is None
        assert "kettle" not in memory.briefing()
        with pytest.raises(NotFound, match="was forgotten, and can be restored"):
            memory.sessions.get(session)
        with pytest.raises(NotFound):
            memory.add("another", session=session)

    def test_it_comes_back_with_what_was_forgotten_with_it(self, memory: Memorist, session: str) -> None:
        before = memory.sessions.get(session)
        memory.sessions.forget(session)
        assert [(one.id, one.memories) for one in memory.sessions.list(deleted=True)] == [(session, 2)]

        assert memory.sessions.restore(session) == before
        assert {one.id for one in memory.list()} == {"kettle", "elsewhere"}
        assert [one.id for one in memory.list(deleted=True)] == ["before"]
        assert list(memory.sessions.list(deleted=True)) == []
        with pytest.raises(NotFound, match="no forgotten session"):
            memory.sessions.restore(session)

    def test_what_was_written_anew_meanwhile_stays_the_only_one(self, memory: Memorist, session: str) -> None:
        memory.add("it whistles", session=session)
        memory.sessions.forget(session)
        again = memory.add("it whistles", project="api")
        memory.sessions.restore(session)

        assert {one.id for one in memory.list()} == {again.id, "kettle", "elsewhere"}

    @pytest.mark.parametrize("first", [False, True], ids=["at once", "after it was forgotten"])
    def test_it_is_erased_with_the_memories_made_in_it(self, memory: Memorist, session: str, first: bool) -> None:
        memory.search("what about the zeppelin", record="log", record_session=session)
        if first:
            memory.sessions.forget(session)
        memory.sessions.forget(session, hard=True)

        assert list(memory.sessions.list()) == list(memory.sessions.list(deleted=True)) == []
        assert [one.id for one in [*memory.list(), *memory.list(deleted=True)]] == ["elsewhere"]
        assert [recall.query for recall in memory.searches.list()] == [None]
        with pytest.raises(NotFound):
            memory.sessions.restore(session)

    def test_a_purge_erases_forgotten_ones(self, memory: Memorist, session: str) -> None:
        memory.sessions.start(id="sess2")
        memory.sessions.forget(session)
        memory.purge()

        assert list(memory.sessions.list(deleted=True)) == []
        assert [one.id for one in memory.sessions.list()] == ["sess2"]

    def test_a_conversation_that_is_imported_again_does_not_bring_it_back(self, memory: Memorist) -> None:
        memory.sessions.add_turn("user", "the kettle is blue", conversation="c", id="t1")
        memory.sessions.forget("chat:c")

        with pytest.raises(NotFound, match="was forgotten"):
            memory.sessions.add_turn("user", "and it whistles", conversation="c", id="t2")
        assert list(memory.list()) == []

    def test_it_survives_an_export(self, memory: Memorist, session: str, tmp_path: Path) -> None:
        memory.sessions.forget(session)
        memory.transfer.export(tmp_path / "export.jsonl")
        with memorist.open(tmp_path / "other.db", embedder="none") as other:
            other.transfer.import_(tmp_path / "export.jsonl")

            assert list(other.sessions.list()) == []
            other.sessions.restore(session)
            assert {one.id for one in other.list()} == {"kettle", "elsewhere"}


class TestTheNameOfARecordedConversation:
    def test_it_is_the_beginning_of_its_first_turn(self, memory: Memorist) -> None:
        memory.sessions.add_turn("user", "why is the\n  kettle blue? " + "really " * 60, conversation="c")
        memory.sessions.add_turn("user", "because", conversation="c")

        name = memory.sessions.get("chat:c").summary
        assert name is not None
        assert name.startswith("why is the kettle blue? really")
        assert len(name) <= 101

    def test_it_goes_with_the_turn_and_comes_back_with_it(self, memory: Memorist) -> None:
        first = memory.sessions.add_turn("user", "the code is swordfish", conversation="c")
        memory.sessions.add_turn("user", "never mind", conversation="c")
        memory.forget(first.id)
        assert memory.sessions.get("chat:c").summary == "never mind"
        memory.restore(first.id)
        assert memory.sessions.get("chat:c").summary == "the code is swordfish"
        memory.update(first.id, content="the code is secret")
        assert memory.sessions.get("chat:c").summary == "the code is secret"

    def test_a_summary_that_was_set_is_kept(self, memory: Memorist) -> None:
        turn = memory.sessions.add_turn("user", "the code is swordfish", conversation="c")
        memory.sessions.summarise("chat:c", "About codes")
        memory.forget(turn.id, hard=True)

        assert memory.sessions.get("chat:c").summary == "About codes"

    @pytest.mark.parametrize(
        "taken",
        [
            "the code is swordfish…",
            "The  code is swordfish",
            "is swordfish, as you know",
            "He said: the code is swordfish, as you know. Do not tell. I will not.",
        ],
    )
    def test_a_summary_that_was_taken_from_a_text_is_erased_with_it(self, memory: Memorist, taken: str) -> None:
        memory.sessions.start(id="sess1", summary=taken)
        text = memory.add("the code is swordfish, as you know. Do not tell.", session="sess1")
        memory.forget(text.id, hard=True)

        assert memory.sessions.get("sess1").summary is None

    @pytest.mark.parametrize(
        "summary",
        [
            "They said the code of the door is swordfish, and left",
            "A code with which one opens the door",
            "the door knows a fish by its name",
        ],
        ids=["holds the text", "is its summary", "is a fact of it"],
    )
    def test_a_summary_that_tells_an_erased_text_is_erased_with_it(self, memory: Memorist, summary: str) -> None:
        memory.sessions.start(id="sess1", summary=summary)
        text = memory.add(
            "The code of  the door is swordfish", summary="a code with which one opens the door", session="sess1"
        )
        memory.facts.add(text.id, "The door knows a fish by its name")
        other = memory.add("They left", session="sess1")

        memory.forget(other.id, hard=True)
        assert memory.sessions.get("sess1").summary == summary
        memory.forget(text.id, hard=True)
        assert memory.sessions.get("sess1").summary is None


def test_a_question_that_is_an_erased_text_is_erased_with_it(target: Path | str) -> None:
    """A hook records the question before the client's conversation, with the same words, is stored."""
    with memorist.open(target, embedder="none", surface="hook") as memory:
        memory.add("an ordinary note")
        memory.context("the code is swordfish, what do you know of it?")
        turn = memory.sessions.add_turn("user", "the code is swordfish, what do you know of it?", conversation="c")
        assert memory.searches.list()[0].query is not None
        memory.forget(turn.id, hard=True)

        assert [recall.query for recall in memory.searches.list()] == [None]
