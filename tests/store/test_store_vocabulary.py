"""The words of a namespace: those that stand in its live memories, and those a misspelt one could have been."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import memorist
from memorist import Memorist
from memorist.records import Term
from memorist.store import vocabulary
from memorist.store.sqlite.dialect import SqliteConnection
from memorist.store.sqlite.vocabulary import SqliteVocabulary

Similar = Callable[[str], list[str]]


@pytest.fixture
def connection(path: Path, memory: Memorist) -> Iterator[SqliteConnection]:
    opened = SqliteConnection(str(path))
    yield opened
    opened.close()


@pytest.fixture
def similar(connection: SqliteConnection) -> Similar:
    vocabulary = SqliteVocabulary("default")
    return lambda word: vocabulary.find_similar(connection, word)


@pytest.fixture
def stands(connection: SqliteConnection) -> Callable[..., bool]:
    vocabulary = SqliteVocabulary("default")

    def asked(text: str, *, prefix: bool = False) -> bool:
        term = Term(text, prefix=prefix)
        return vocabulary.find_known(connection, [term]) == {term}

    return asked


@pytest.fixture
def neighbour(path: Path, memory: Memorist) -> Iterator[Memorist]:
    """Another namespace in the same file."""
    with memorist.open(path, embedder="none", namespace="neighbour") as opened:
        yield opened


class TestWhatIsKnown:
    def test_a_word_is_known_by_its_stem_and_by_its_beginning(
        self, memory: Memorist, stands: Callable[..., bool]
    ) -> None:
        memory.add("We are deploying PostgreSQL")

        assert stands("deployed")
        assert stands("postg", prefix=True)
        assert not stands("postg")
        assert not stands("mysql")
        assert not stands("mysql", prefix=True)

    def test_an_identifier_or_phrase_is_known_as_a_whole(self, memory: Memorist, stands: Callable[..., bool]) -> None:
        memory.add("the user_id of the first order")

        assert stands("user_id")
        assert stands("first order")
        assert not stands("order_id")
        assert not stands("id first")

    def test_titles_tags_and_sources_count(self, memory: Memorist, stands: Callable[..., bool]) -> None:
        memory.add("x", title="Kangaroo", tags=["wallaby"], source="wombat.md")

        assert all(stands(word) for word in ("kangaroo", "wallaby", "wombat"))

    def test_a_word_of_another_namespace_is_unknown(self, neighbour: Memorist, stands: Callable[..., bool]) -> None:
        neighbour.add("the zebra is striped")

        assert not stands("zebra")
        assert not stands("zeb", prefix=True)

    def test_a_word_is_known_until_its_last_memory_is_forgotten(
        self, memory: Memorist, stands: Callable[..., bool]
    ) -> None:
        first, second = memory.add("a striped zebra"), memory.add("a plain zebra")

        memory.forget(first.id)
        assert stands("zebra")
        memory.forget(second.id)
        assert not stands("zebra")
        memory.restore(first.id)
        assert stands("zebra")

    @pytest.mark.parametrize("text", ['"', "a OR", "-", "title:", "NEAR(", "*", "🦓"])
    def test_no_text_is_a_syntax_error(self, memory: Memorist, stands: Callable[..., bool], text: str) -> None:
        memory.add("something")

        assert not stands(text)
        assert not stands(text, prefix=True)


class TestWhatIsSimilar:
    @pytest.mark.parametrize(
        "typed",
        ["chekcout", "chckout", "checckout", "chexkout", "xheckout", "heckout", "echeckout", "hceckout", "CHEKOUT"],
    )
    def test_a_letter_wrong_missing_too_many_or_swapped(self, memory: Memorist, similar: Similar, typed: str) -> None:
        memory.add("the Checkout is slow")

        assert similar(typed) == ["Checkout"]

    def test_eight_letters_may_have_two_slips_and_seven_only_one(self, memory: Memorist, similar: Similar) -> None:
        memory.add("deployment timeout")

        assert similar("deplyomnet") == ["deployment"]
        assert similar("dpelomnet") == []
        assert similar("tmeuot") == []

    def test_fewer_slips_come_before_more_memories_before_the_alphabet(
        self, memory: Memorist, similar: Similar
    ) -> None:
        memory.add("a stone")
        memory.add_many(f"the store number {number}" for number in range(3))
        memory.add("ten stoke fires")
        assert similar("stoje") == ["store", "stoke", "stone"]

        memory.add("in a starkness unheard of")
        memory.add_many(f"with a darkness of degree {number}" for number in range(3))
        assert similar("sdarkness") == ["darkness", "starkness"]
        assert similar("staarkness") == ["starkness"]

    def test_another_number_is_no_misspelling(self, memory: Memorist, similar: Similar) -> None:
        memory.add("py312 and log4j, 2024, decided in adr016")

        assert similar("py311") == []
        assert similar("adr061") == []
        assert similar("2025") == []
        assert similar("lg4j") == ["log4j"]

    def test_accents_do_not_matter(self, memory: Memorist, similar: Similar) -> None:
        memory.add("Das Büro in München, le déploiement à Genève")

        assert similar("Münhcen") == ["München"]
        assert similar("deploiemnet") == ["déploiement"]
        assert similar("Гнева") == []

    def test_other_alphabets_have_slips_too(self, memory: Memorist, similar: Similar) -> None:
        memory.add("Развёртывание завершено")

        assert similar("завершено"[::-1]) == []
        assert similar("завершнео") == ["завершено"]

    def test_scripts_without_spaces_are_left_alone(self, memory: Memorist, similar: Similar) -> None:
        memory.add("東京都庁舎 データベース dataベ")

        assert similar("東京都庁舍") == []
        assert similar("データペース") == []
        assert similar("datab") == []

    @pytest.mark.parametrize("word", ["", "x", "*", "checkout" * 1000])
    def test_what_is_no_word_is_like_none(self, memory: Memorist, similar: Similar, word: str) -> None:
        memory.add("checkout x y")

        assert similar(word) == []

    def test_an_empty_store_has_no_words(self, similar: Similar) -> None:
        assert similar("checkout") == []


class TestWalls:
    def test_a_word_of_another_namespace_is_never_offered(
        self, memory: Memorist, neighbour: Memorist, similar: Similar
    ) -> None:
        neighbour.add("the secret checkout")
        assert similar("chekout") == []

        memory.add("a lookout")
        assert similar("chekout") == []

        memory.add("our checkout")
        assert similar("chekout") == ["checkout"]

    def test_nor_does_one_nearer_hide_a_word_of_ours(
        self, memory: Memorist, neighbour: Memorist, similar: Similar
    ) -> None:
        neighbour.add("the deployment")
        memory.add("all deployments")

        assert similar("deploymnt") == ["deployments"]

    def test_memories_of_other_namespaces_do_not_count(
        self, memory: Memorist, neighbour: Memorist, similar: Similar
    ) -> None:
        neighbour.add_many(f"a stone of weight {number}" for number in range(9))
        memory.add("a stone")
        memory.add_many(f"the store number {number}" for number in range(2))

        assert similar("stoje") == ["store", "stone"]

    def test_a_word_of_forgotten_memories_is_not_offered(self, memory: Memorist, similar: Similar) -> None:
        zebra = memory.add("the zebra")
        assert similar("zebar") == ["zebra"]

        memory.forget(zebra.id)
        assert similar("zebar") == []
        memory.restore(zebra.id)
        assert similar("zebar") == ["zebra"]
        memory.forget(zebra.id, hard=True)
        assert similar("zebar") == []


class TestKeepingUp:
    def test_a_word_that_was_just_written_is_offered(self, memory: Memorist, similar: Similar) -> None:
        note = memory.add("about lions")
        assert similar("zebar") == []

        memory.update(note.id, content="about a zebra")
        assert similar("zebar") == ["zebra"]
        memory.update(note.id, tags=["giraffe"])
        assert similar("girafe") == ["giraffe"]

    def test_where_the_list_is_long_words_of_new_memories_are_added_to_it(
        self, memory: Memorist, neighbour: Memorist, similar: Similar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vocabulary, "QUICK_READ_SECONDS", 0.0)
        monkeypatch.setattr(vocabulary, "REREAD_FACTOR", 1e9)
        memory.add("about lions")
        assert similar("lioms") == ["lions"]

        neighbour.add("a secret gazelle")
        memory.add("the Zébra", tags=["giraffe"])
        assert similar("zebar") == ["Zébra"]
        memory.add("an antelope")
        assert similar("antelpoe") == ["antelope"]
        assert similar("girafe") == ["giraffe"]
        assert similar("lioms") == ["lions"]
        assert similar("gazele") == []

    def test_so_many_new_ones_are_not_added_but_read(
        self, memory: Memorist, similar: Similar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, number in {"QUICK_READ_SECONDS": 0.0, "REREAD_FACTOR": 1e9, "MAX_NEW_MEMORIES": 5}.items():
            monkeypatch.setattr(vocabulary, name, number)
        note = memory.add("about lions")
        assert similar("lioms") == ["lions"]

        memory.update(note.id, content="about a zebra")
        assert similar("zebar") == []
        memory.add_many(f"giraffe {number}" for number in range(6))
        assert similar("girafe") == ["giraffe"]
        assert similar("zebar") == ["zebra"]

    def test_a_long_list_is_read_again_after_a_while_though_nothing_more_was_written(
        self, memory: Memorist, similar: Similar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vocabulary, "QUICK_READ_SECONDS", 0.0)
        monkeypatch.setattr(vocabulary, "REREAD_FACTOR", 0)
        note = memory.add("about lions")
        assert similar("lioms") == ["lions"]

        memory.update(note.id, content="about a zebra")
        assert similar("zebar") == ["zebra"]


class TestConnections:
    def test_a_database_that_is_only_read_will_do(self, path: Path, memory: Memorist) -> None:
        memory.add("the zebra")
        memory.close()
        vocabulary = SqliteVocabulary("default")

        for name in (f"file:{path}?mode=ro", f"file:{path}?immutable=1"):
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            connection = SqliteConnection(name, flags=flags)
            assert vocabulary.find_similar(connection, "zebar") == ["zebra"]
            assert SqliteVocabulary("default").find_similar(connection, "zebar") == ["zebra"]
            connection.close()

    def test_the_file_does_not_change(self, path: Path, tmp_path: Path, memory: Memorist) -> None:
        memory.add("the zebra")
        memory.close()
        shutil.copy(path, tmp_path / "before.db")

        connection = SqliteConnection(str(path))
        assert SqliteVocabulary("default").find_similar(connection, "zebar") == ["zebra"]
        tables = connection.execute("select count(*) from main.sqlite_master where name = 'vocabulary'").get
        connection.close()

        assert tables == 0
        assert path.read_bytes() == (tmp_path / "before.db").read_bytes()

    def test_a_connection_can_still_do_all_it_could(self, memory: Memorist, connection: SqliteConnection) -> None:
        memory.add("the zebra")
        vocabulary = SqliteVocabulary("default")
        assert vocabulary.find_similar(connection, "zebar") == ["zebra"]

        connection.execute("insert into memories_words(memories_words) values ('rebuild')")
        connection.execute("vacuum")

        assert vocabulary.find_similar(connection, "zebar") == ["zebra"]
        assert memory.check().ok

    def test_many_threads_ask_at_once(self, path: Path, memory: Memorist) -> None:
        memory.add_many(f"zebra giraffe antelope {number}" for number in range(200))
        vocabulary = SqliteVocabulary("default")
        answers: list[list[str]] = []

        def ask() -> None:
            connection = SqliteConnection(str(path))
            for word in ("zebar", "girafe", "antelpoe"):
                answers.append(vocabulary.find_similar(connection, word))
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(answers) == [["antelope"]] * 8 + [["giraffe"]] * 8 + [["zebra"]] * 8

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_lock_that_is_held_while_a_process_forks_does_not_stop_the_child(self) -> None:
        vocabulary = SqliteVocabulary("default")
        with vocabulary._lock:
            child = os.fork()
            if not child:
                os._exit(0 if vocabulary._lock.acquire(blocking=False) else 1)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
