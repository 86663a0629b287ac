"""Turns that were erased stay away, however often their transcript is imported again; nothing tells what they said."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import memorist
from memorist import Memorist, NotFound
from memorist.store.sqlite.backend import SqliteBackend
from test_conversations import code_line, jsonl, said

SESSION = "claude-code:s-1"
UUIDS = [f"0000000{number}-0000-4000-8000-000000000000" for number in range(6)]
SECRET = "the door code of the archive is xyzzyplugh"
NOW = datetime.now(UTC)


def say(file: Path, number: int, text: str, hours: float = -10, session: str = "s-1") -> Path:
    """Add a turn to a transcript, said some hours from now."""
    at = NOW + timedelta(hours=hours, minutes=number)
    return jsonl(file, code_line(UUIDS[number], text, at.isoformat(), session))


def name(file: Path, title: str) -> None:
    jsonl(file, {"type": "custom-title", "customTitle": title, "sessionId": "s-1"})


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    file = tmp_path / "talk.jsonl"
    for number, text in enumerate([SECRET, "noted", "and the harbour closes at eight"]):
        say(file, number, text)
    return file


def erase_by_id(memory: Memorist) -> None:
    memory.forget(next(one.id for one in memory.list() if one.content == SECRET), hard=True)


def erase_by_purge(memory: Memorist) -> None:
    memory.forget(next(one.id for one in memory.list() if one.content == SECRET))
    memory.purge()


def erase_by_filter(memory: Memorist) -> None:
    chosen = next(one for one in memory.list() if one.content == SECRET)
    memory.update(chosen.id, tags=["erase"], kind="note")
    memory.forget_many(tags=["erase"], hard=True)


@pytest.mark.parametrize("erase", [erase_by_id, erase_by_purge, erase_by_filter])
def test_an_erased_turn_is_not_imported_again(memory: Memorist, talk: Path, erase: object) -> None:
    memory.transfer.import_conversations(talk)
    erase(memory)  # type: ignore[operator]
    report = memory.transfer.import_conversations(talk)
    assert said(memory, SESSION) == ["noted", "and the harbour closes at eight"]
    assert (report.added, report.known, report.sessions) == (0, 3, 0)


def test_an_erased_turn_that_a_resumed_session_repeats_stays_away(memory: Memorist, talk: Path, tmp_path: Path) -> None:
    memory.transfer.import_conversations(talk)
    erase_by_id(memory)
    resumed = say(tmp_path / "resumed.jsonl", 0, SECRET, session="s-2")
    say(resumed, 4, "where were we", session="s-2")
    assert memory.transfer.import_conversations(resumed).added == 1
    assert said(memory, "claude-code:s-2") == ["where were we"]


def test_a_turn_known_by_its_text_stays_away_too(memory: Memorist, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "plain.jsonl", {"messages": [{"role": "user", "content": SECRET}]})
    memory.transfer.import_conversations(file)
    erase_by_id(memory)
    assert memory.transfer.import_conversations(file).added == 0


@pytest.mark.parametrize("hard", [True, False])
def test_an_erased_session_does_not_come_back(memory: Memorist, talk: Path, hard: bool) -> None:
    memory.transfer.import_conversations(talk)
    memory.sessions.forget(SESSION, hard=hard)
    say(talk, 3, "said while it was forgotten", hours=-5)  # and stored neither then nor later
    if not hard:
        assert memory.transfer.import_conversations(talk).added == 0
        memory.purge()
    report = memory.transfer.import_conversations(talk)
    assert (report.added, report.known, report.sessions) == (0, 4, 0)
    assert (list(memory.sessions.list()), list(memory.list())) == ([], [])


def test_what_is_said_in_a_session_after_it_was_erased_is_new(memory: Memorist, talk: Path) -> None:
    memory.transfer.import_conversations(talk)
    memory.sessions.forget(SESSION, hard=True)
    say(talk, 4, "going on with it", hours=1)
    assert memory.transfer.import_conversations(talk).added == 1
    assert said(memory, SESSION) == ["going on with it"]


def test_a_title_that_quotes_what_was_erased_does_not_come_back(memory: Memorist, talk: Path) -> None:
    name(talk, SECRET)
    memory.transfer.import_conversations(talk)
    assert memory.sessions.list()[0].summary == SECRET
    erase_by_id(memory)
    memory.transfer.import_conversations(talk)
    assert memory.sessions.list()[0].summary is None


def test_a_title_that_is_written_after_the_erasure_may_not_quote_it_either(memory: Memorist, talk: Path) -> None:
    memory.transfer.import_conversations(talk)
    erase_by_id(memory)
    name(talk, SECRET)
    memory.transfer.import_conversations(talk)
    assert memory.sessions.list()[0].summary is None


def test_an_erased_session_that_goes_on_has_no_title_of_before(memory: Memorist, talk: Path) -> None:
    name(talk, "About door codes")
    memory.transfer.import_conversations(talk)
    memory.sessions.forget(SESSION, hard=True)
    say(talk, 4, "going on with it", hours=1)
    memory.transfer.import_conversations(talk)
    assert [one.summary for one in memory.sessions.list()] == [None]


def test_whoever_says_it_again_is_heard(memory: Memorist, talk: Path) -> None:
    memory.transfer.import_conversations(talk)
    erase_by_id(memory)
    memory.add(SECRET)
    memory.sessions.add_turn("user", SECRET, conversation="today")
    assert [one.content for one in memory.list()].count(SECRET) == 2


def test_a_turn_recorded_by_its_id_is_not_recorded_again_once_it_is_erased(memory: Memorist) -> None:
    turn = memory.sessions.add_turn("user", SECRET, conversation="today", id="turn-1")
    memory.forget(turn.id, hard=True)
    with pytest.raises(NotFound, match="was erased"):
        memory.sessions.add_turn("user", SECRET, conversation="today", id="turn-1")
    memory.sessions.forget("chat:today", hard=True)
    assert memory.sessions.add_turn("user", "another day", conversation="today", id="turn-2").content == "another day"


def test_another_namespace_has_erased_nothing(target: Path | str, talk: Path) -> None:
    for name in ("one", "two"):
        with memorist.open(target, namespace=name, embedder="none") as memory:
            memory.transfer.import_conversations(talk)
            if name == "one":
                erase_by_id(memory)
            assert memory.transfer.import_conversations(talk).added == 0
            assert memory.count() == {"one": 2, "two": 3}[name]


def test_an_erasure_travels_with_exports_and_migrations(
    memory: Memorist, target: Path | str, talk: Path, tmp_path: Path
) -> None:
    memory.transfer.import_conversations(talk)
    erase_by_id(memory)
    memory.transfer.export(tmp_path / "export.jsonl")
    memorist.migrate(target, tmp_path / "migrated.db")
    for name in ("imported.db", "migrated.db"):
        with memorist.open(tmp_path / name, embedder="none") as other:
            other.transfer.import_(tmp_path / "export.jsonl")
            assert other.transfer.import_conversations(talk).added == 0
            other.forget(next(one.id for one in other.list() if one.content == "noted"), hard=True)
            assert other.transfer.import_conversations(talk).added == 0


def test_two_erasures_of_two_databases_hold_in_one_that_has_both(memory: Memorist, talk: Path, tmp_path: Path) -> None:
    for number, text in enumerate([SECRET, "noted"]):
        with memorist.open(tmp_path / f"{number}.db", embedder="none") as other:
            other.transfer.import_conversations(talk)
            other.forget(next(one.id for one in other.list() if one.content == text), hard=True)
            other.forget_many(project="api", hard=False)
            other.purge()  # so that the export has erasures alone
            other.transfer.export(tmp_path / f"{number}.jsonl")
        memory.transfer.import_(tmp_path / f"{number}.jsonl")
    assert memory.transfer.import_conversations(talk).added == 0


def test_what_is_kept_of_an_erased_turn_can_be_read_by_nobody(memory: Memorist, talk: Path, tmp_path: Path) -> None:
    memory.transfer.import_conversations(talk)
    ids = [one.id for one in memory.list()]
    memory.sessions.forget(SESSION, hard=True)
    memory.purge()
    memory.transfer.export(tmp_path / "export.jsonl")
    text = (tmp_path / "export.jsonl").read_text()
    erased = [json.loads(line) for line in text.splitlines() if '"erased"' in line]
    assert len(erased) == 4  # three turns and their session
    assert {tuple(record) for record in erased} == {("type", "salt", "digest", "erased_at")}
    assert not any(part in text for part in (SESSION, *ids, *UUIDS))


def test_discovery_counts_no_erased_session_as_new(
    memory: Memorist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / ".claude" / "projects" / "api"
    folder.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    talk = say(folder / "talk.jsonl", 0, SECRET)
    memory.transfer.import_conversations(talk)
    memory.sessions.forget(SESSION, hard=True)
    say(talk, 1, "said before it was erased")
    (found,) = memory.transfer.discover(["claude-code"])
    assert (found.total, found.new) == (1, 0)
    say(talk, 2, "said after", hours=1)
    (found,) = memory.transfer.discover(["claude-code"])
    assert (found.total, found.new) == (1, 1)


def test_a_salvaged_database_knows_what_was_erased(path: Path, talk: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.transfer.import_conversations(talk)
        erase_by_id(memory)
    memorist.salvage(path, tmp_path / "salvaged.db")
    with memorist.open(tmp_path / "salvaged.db", embedder="none") as salvaged:
        assert salvaged.transfer.import_conversations(talk).added == 0


def test_erasing_many_turns_asks_for_one_salt(path: Path, talk: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.transfer.import_conversations(talk)
        for one in list(memory.list()):
            memory.forget(one.id, hard=True)
    backend = SqliteBackend(str(path), read_only=True)
    with backend.database.reading() as connection:
        assert connection.fetch("select count(*), count(distinct salt) from erased") == [(3, 1)]
    backend.close()
