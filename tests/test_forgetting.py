"""
Forgetting that can be proved.

A secret stands wherever a text can stand. Once it is forgotten and purged, the bytes of every file are searched for it:
the database, its write-ahead log, the copy from before a migration, and a backup made afterwards.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorist
from before_release import place_old_database
from memorist import Memorist, NotFound, StoreBusy, StoreError
from memorist.embed.base import embed_documents
from memorist.engine import recorder
from memorist.store.sqlite.vectors import BLOCK_BITS
from memorist.store.vector_scan import encode
from memorist.text.tokenizer import list_stems
from processes import expect, send_line, start_program

FRAGMENT = 6  # characters; an index stores a word without the beginning it shares with the one before
VECTOR_FRAGMENT = 24  # bytes; a page may end within a vector

# One for each place. Nothing else has them, nor any six letters of them.
SECRETS = dict(
    content="xyzzyplugh", title="vorpalquest", summary="jabberwock", tag="snickersnack", source="borogrovix",
    kind="mimsywhirl", project="tulgeywood", metadata="galumphic", fact="bandersnatch", fact_kind="uffishtop",
    subject="momerath", predicate="outgrabing", object="slithytov", old="brilligwabe", older="callohcallay",
    query="frumiousq", said_by="beamishboy", relation="manxomefoe", unspaced="龘靐齉爩",
    turn="wabegyre", title_of_talk="tumtumtree", asked="whifflingq",
)  # fmt: skip


class DenseEmbedder:
    """Vectors without a zero in them, so that a piece of one is unmistakable."""

    model_id = "dense-64"
    dimensions = 64

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> list[float]:
        seed = int.from_bytes(hashlib.blake2b(text.encode()).digest()[:8])
        return np.random.default_rng(seed).normal(size=self.dimensions).tolist()


def open_dense(path: Path, busy_timeout: float = 30.0) -> Memorist:
    return memorist.open(path, embedder=DenseEmbedder(), busy_timeout=busy_timeout, synchronous="normal")


# Where to look, and for what


Needles = dict[str, list[bytes]]


def in_words(name: str, word: str) -> Needles:
    """A word as it was written, and as the indexes have it, in pieces."""
    if not word.isascii():
        return {f"the {name}": [word[at : at + 2].encode() for at in range(len(word) - 1)]}
    pieces = {form[at : at + FRAGMENT] for form in (word, *list_stems(word)) for at in range(len(form) - FRAGMENT + 1)}
    return {f"the {name}": [piece.encode() for piece in sorted(pieces)]}


def in_numbers(name: str, text: str) -> Needles:
    """The vector of a text as it is stored, and as it is packed for the scan, in pieces."""
    halves = embed_documents(DenseEmbedder(), [text]).astype(np.float16)
    return {
        f"the vector of {name}": pieces(halves.tobytes()),
        f"the packed vector of {name}": pieces(encode(halves).tobytes()),
    }


def pieces(data: bytes) -> list[bytes]:
    return [data[at : at + VECTOR_FRAGMENT] for at in range(0, len(data) - VECTOR_FRAGMENT + 1, 4)]


def found(folder: Path, needles: Needles) -> list[str]:
    """Which of it stands in the files of a folder: what, in which file, and on whose page."""
    places = []
    for file in sorted(folder.rglob("*")):
        data = (file.read_bytes() if file.is_file() else b"").lower()
        for name, forms in needles.items():
            at = next((at for form in forms if (at := data.find(form.lower())) >= 0), None)
            if at is not None:
                places.append(f"{name} stands in {file.name} at byte {at:,}{owner(file, at)}")
    return places


def check_nothing_is_left(folder: Path, needles: Needles) -> None:
    places = found(folder, needles)
    assert not places, "left behind:\n" + "\n".join(places)


def owner(file: Path, at: int) -> str:
    """Whose page of a database it is; a write-ahead log and a damaged file have no such thing."""
    try:
        connection = apsw.Connection(f"file:{file}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error:
        return ""
    try:
        page = at // connection.pragma("page_size") + 1
        name = connection.execute("select name from dbstat where pageno = ?", (page,)).get
        return f", on a page of {name}" if name else ", on a free page"
    except apsw.Error:
        return ""
    finally:
        connection.close()


def backed_up(path: Path, folder: Path) -> None:
    """Backups by each of SQLite's ways to make one."""
    folder.mkdir()
    source = apsw.Connection(str(path))
    copy = apsw.Connection(str(folder / "by pages.db"))
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(100)
    source.execute("vacuum into ?", (str(folder / "by vacuum.db"),))
    copy.close()
    source.close()


# A secret life


@dataclass
class Secret:
    """Memories that hold the secret, and all that must not be found once they are gone."""

    path: Path
    ids: list[str]
    kept: str
    needles: Needles

    def check_gone(self, memory: Memorist) -> None:
        check_nothing_is_left(self.path.parent, self.needles)
        backed_up(self.path, self.path.parent / "backups")
        check_nothing_is_left(self.path.parent / "backups", self.needles)
        assert memory.get(self.kept).content == "an ordinary note beside it"
        assert memory.check().problems == ()


def older_database(path: Path) -> str:
    """A database of before the first release, with the secret in it."""
    place_old_database(path, empty=True)
    id = str(uuid4())
    now = int(datetime.now(UTC).timestamp() * 1e6)
    connection = apsw.Connection(str(path))
    connection.execute(
        """
        insert into memories(
            id, namespace, project, content, content_hash, tags, sector, tier, salience, created_at, updated_at,
            reinforced_at)
        values (?1, 'default', ?2, ?3, ?4, '[]', 'semantic', 'project', 0.5, ?5, ?5, ?5)
        """,
        (id, SECRETS["project"], f"{SECRETS['older']} was said first", b"any hash", now),
    )
    connection.close()
    return id


@pytest.fixture
def secret(path: Path) -> Secret:
    """The secret in every table: of now, of the past, in a copy from before a migration, in what was asked."""
    word = SECRETS
    id = older_database(path)
    with open_dense(path) as memory:
        assert list(path.parent.glob("*.before-*")), "there is a copy from before the migration"
        memory.reembed()
        session = memory.sessions.start()
        kept = memory.add("an ordinary note beside it")
        memory.update(id, content=f"{word['old']} was said later", session=session.id)
        text = f"the pass phrase is {word['content'].title()} {word['unspaced']}, and everybody has to know it by heart"
        memory.update(
            id,
            content=text,
            title=word["title"],
            summary=f"a {word['summary']}",
            tags=[word["tag"]],
            source=word["source"],
            kind=word["kind"],
            metadata={"key": [word["metadata"]]},
        )
        fact = memory.facts.add(
            id, f"it is {word['fact']}", kind=word["fact_kind"], subject=word["subject"], predicate=word["predicate"],
            object=word["object"],
        )  # fmt: skip
        memory.facts.reinforce(fact.id)
        memory.reinforce(id, session=session.id)
        memory.pin(id)
        memory.links.add(id, kept.id, word["relation"], said_by=word["said_by"])
        near = memory.add(f"{text} now", project=word["project"], session=session.id)
        assert near.near is not None
        again = memory.add(f"{text} again", project=word["project"], on_near_duplicate="merge")
        assert again.near is not None
        assert again.near.merged
        assert [*memory.get(id).facts, *memory.history(id)]
        for query in (word["content"], f"{word['query']} {word['content']}", text):
            hits = memory.search(query, record="reinforce", record_session=session.id, facets=("tag",))
            assert hits[0].memory.id in (id, near.id, again.id)
        turn = memory.sessions.add_turn("user", f"say {word['turn']} to nobody", conversation="talk")
        with memorist.open(path, embedder=DenseEmbedder(), surface="hook") as agent:  # records the question it is asked
            question = f"do you know {word['asked']}, or not?"
            agent.context(question)
            asked = agent.sessions.add_turn("user", question, conversation="talk")
        quoted = f"about {word['title_of_talk']} and other trees"
        memory.sessions.start(id="quoted", summary=quoted)
        quoting = memory.add(f"we talked {quoted}, and more", session="quoted")
        ids = [id, near.id, again.id, turn.id, asked.id, quoting.id]
        needles = {name: forms for place, secret in word.items() for name, forms in in_words(place, secret).items()}
        needles |= {f"the id {one}": [one.encode()] for one in [*ids, fact.id]}
        for name, said in {
            "the text": f"{word['title']}\n{text}",
            "the old text": f"{word['old']} was said later",
            "the older text": f"{word['older']} was said first",
            "the near text": f"{text} now",
        }.items():
            needles |= in_numbers(name, said)
    return Secret(path, ids, kept.id, needles)


def test_what_is_looked_for_is_there_to_begin_with(secret: Secret) -> None:
    """Else nothing that is not found would prove anything."""
    places = "\n".join(found(secret.path.parent, secret.needles))

    for name in secret.needles:
        if "packed" not in name:  # only where there are more than a thousand
            assert name in places
    assert f"the older stands in {secret.path.name}.before-" in places
    assert "on a page of" in places


# Gone


FORGET: dict[str, Callable[[Memorist, str], object]] = {
    "hard": lambda memory, id: memory.forget(id, hard=True),
    "soft": lambda memory, id: memory.forget(id),
    "soft, then hard": lambda memory, id: (memory.forget(id), memory.forget(id, hard=True)),
}


@pytest.fixture(params=FORGET)
def forget(request: pytest.FixtureRequest) -> Callable[[Memorist, str], object]:
    return FORGET[request.param]


def test_after_a_purge_no_file_has_a_trace_of_what_was_forgotten(
    secret: Secret, forget: Callable[[Memorist, str], object]
) -> None:
    with open_dense(secret.path) as memory:
        for id in secret.ids:
            forget(memory, id)
        memory.purge()

        secret.check_gone(memory)
        assert all(recall.query is None for recall in memory.searches.list())
    check_nothing_is_left(secret.path.parent, secret.needles)


IDLE = """
    import sys, memorist
    from test_forgetting import DenseEmbedder
    with memorist.open(sys.argv[1], embedder=DenseEmbedder()) as memory:
        memory.search("the pass phrase")
        memory.search("the pass phrase", mode="keyword")
        print("ready", flush=True)
        sys.stdin.readline()
    print("done", flush=True)
"""


@contextmanager
def another_process(path: Path) -> Iterator[None]:
    """Somebody who has the file open, and has read all of it."""
    with start_program(IDLE, path) as process:
        expect("ready", [process])
        yield
        send_line(process)
        expect("done", [process])


@contextmanager
def another_object(path: Path) -> Iterator[None]:
    with open_dense(path) as other:
        other.search("the pass phrase")
        yield
        other.add("written by another one afterwards")


@contextmanager
def a_plain_connection(path: Path) -> Iterator[None]:
    connection = apsw.Connection(str(path))
    list(connection.execute("select * from memories"))
    yield
    connection.close()


@pytest.mark.parametrize("beside", [another_process, another_object, a_plain_connection])
def test_it_makes_no_difference_who_else_has_the_file_open(
    secret: Secret,
    forget: Callable[[Memorist, str], object],
    beside: Callable[[Path], AbstractContextManager[None]],
) -> None:
    with open_dense(secret.path) as memory:
        with beside(secret.path):
            for id in secret.ids:
                forget(memory, id)
            memory.purge()
            check_nothing_is_left(secret.path.parent, secret.needles)
        secret.check_gone(memory)
    check_nothing_is_left(secret.path.parent, secret.needles)


READING = """
    import sys, apsw
    connection = apsw.Connection(sys.argv[1])
    connection.execute("begin")
    list(connection.execute("select content from memories"))
    print("ready", flush=True)
    sys.stdin.readline()
    connection.close()
    print("done", flush=True)
"""


def test_a_purge_that_a_reader_keeps_from_its_end_says_so_and_can_be_run_again(
    secret: Secret, forget: Callable[[Memorist, str], object]
) -> None:
    """Whoever reads on an old state of the file keeps it there: then nobody is told that it is gone."""
    with open_dense(secret.path, busy_timeout=0.2) as memory:
        with start_program(READING, secret.path) as reader:
            expect("ready", [reader])
            for id in secret.ids:
                forget(memory, id)
            with pytest.raises(StoreBusy, match=r"are erased .* words may still stand in it.* purge again"):
                memory.purge()
            with pytest.raises(NotFound):
                memory.get(secret.ids[0])
            send_line(reader)
            expect("done", [reader])

        assert memory.purge() == 0
        secret.check_gone(memory)


def test_a_purge_that_cannot_remove_a_copy_names_it_and_says_that_the_database_is_clean(path: Path) -> None:
    copy = path.with_name(f"{path.name}.before-restore")
    copy.mkdir()  # in the place of a file that cannot be removed
    with memorist.open(path, embedder="none") as memory:
        memory.forget(memory.add("xyzzyplugh").id)

        with pytest.raises(StoreError, match=f"nothing of them is left in .*, but .*{copy.name} .* purge again"):
            memory.purge()

    assert b"xyzzy" not in path.read_bytes()


def test_words_of_a_memory_that_was_erased_at_once_are_gone_after_a_purge(path: Path) -> None:
    """Without it they stay in free pages and in the index, as the command line says."""
    with memorist.open(path, embedder="none") as memory:
        memory.add("an ordinary note")
        memory.forget(memory.add("xyzzyplugh").id, hard=True)
        assert found(path.parent, in_words("content", "xyzzyplugh"))

        assert memory.purge() == 0
        check_nothing_is_left(path.parent, in_words("content", "xyzzyplugh"))


def test_a_packed_vector_is_gone_with_its_memory(path: Path, forget: Callable[[Memorist, str], object]) -> None:
    """From a thousand memories on, vectors are kept a second time: packed for the scan."""
    text = "the vector of this is packed"
    with open_dense(path) as memory:
        one = memory.add(text)
        memory.add_many(f"an ordinary note {number}" for number in range((1 << BLOCK_BITS) + 1))
        memory.add("one more, for the block to be packed")
    needles = in_numbers("the text", text)
    assert len(found(path.parent, needles)) == 2

    with open_dense(path) as memory:
        forget(memory, one.id)
        memory.purge()

        check_nothing_is_left(path.parent, needles)
        assert memory.check().problems == ()


def test_a_hard_forget_leaves_nothing_in_any_table_or_index_before_any_purge(secret: Secret) -> None:
    """Not by its rows: what is left on free pages until a purge, no question can reach."""
    with open_dense(secret.path) as memory:
        for id in secret.ids:
            memory.forget(id, hard=True)
        connection = apsw.Connection(str(secret.path))
        tables = [name for (name,) in connection.execute("select name from pragma_table_list where type = 'table'")]
        rows = {table: list(connection.execute(f"select * from {table}")) for table in tables}
        for index in ("memories_stems", "memories_words"):
            connection.execute(f"create virtual table temp.{index}_vocabulary using fts5vocab(main, {index}, row)")
            rows[f"the words of {index}"] = list(connection.execute(f"select term from temp.{index}_vocabulary"))
        connection.close()

        said = {table: repr(row).encode() for table, row in rows.items()}
        for name, forms in secret.needles.items():
            assert [table for table, text in said.items() for form in forms if form in text] == [], name
        for word in SECRETS.values():
            assert len(memory.search(word, mode="keyword", limit=100, include_superseded=True)) == 0
        assert memory.check().problems == ()


def test_a_purge_up_to_a_time_keeps_what_was_forgotten_later(secret: Secret) -> None:
    with open_dense(secret.path) as memory:
        for id in secret.ids:
            memory.forget(id)
        between = datetime.now(UTC)
        later = memory.add("forgotten later")
        memory.forget(later.id)

        assert memory.purge(before=between) == len(secret.ids)
        secret.check_gone(memory)
        assert memory.restore(later.id).content == "forgotten later"


def test_what_was_never_forgotten_is_all_there_after_a_purge(secret: Secret) -> None:
    with open_dense(secret.path) as memory:
        gone, *rest = secret.ids
        before = [(one.content, one.facts, memory.history(one.id)) for one in memory.get(rest)]
        recalls = len(memory.searches.list())
        memory.forget(gone, hard=True)
        memory.purge()

        after = [(one.content, one.facts, memory.history(one.id)) for one in memory.get(rest)]
        assert [entry[0] for entry in after] == [entry[0] for entry in before]
        assert [entry[2] for entry in after] == [entry[2] for entry in before]
        assert len(memory.searches.list()) == recalls


def a_word(number: int) -> str:
    """A word that shares no six letters with another one."""
    letters = hashlib.blake2b(str(number).encode(), digest_size=10).digest()
    return "".join(chr(ord("a") + byte % 26) for byte in letters)


@settings(max_examples=15)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "update", "fact", "forget", "erase", "restore", "purge", "recall"]),
            st.integers(0, 9),
        ),
        max_size=25,
    )
)
def test_whatever_was_done_before_no_word_of_what_is_gone_is_left_after_a_purge(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("purged")
    said: dict[str, list[str]] = {}  # what stood in each memory, once
    gone: list[str] = []
    forgotten: list[str] = []
    with memorist.open(
        folder / "memory.db", embedder=DenseEmbedder(), synchronous="normal", on_near_duplicate="off"
    ) as memory:
        for step, (action, place) in enumerate(steps):
            word = a_word(step)
            live = [id for id in said if id not in forgotten]
            if action == "add":
                said[memory.add(f"some words {word}", tags=[word], facts=[f"a fact {word}"]).id] = [word]
            elif action == "restore" and forgotten:
                memory.restore(forgotten.pop(place % len(forgotten)))
            elif action == "purge":
                memory.purge()
                gone += [word for id in forgotten for word in said.pop(id)]
                forgotten.clear()
            elif live:
                id = live[place % len(live)]
                if action == "update":
                    memory.update(id, content=f"other words {word}", title=word)
                    said[id].append(word)
                elif action == "fact":
                    memory.facts.add(id, f"another fact {word}")
                    said[id].append(word)
                elif action == "recall":
                    memory.search(said[id][0], mode="keyword", include_superseded=True, record="log")
                elif action == "forget":
                    memory.forget(id)
                    forgotten.append(id)
                elif action == "erase":
                    memory.forget(id, hard=True)
                    gone += said.pop(id)
        memory.purge()
        gone += [word for id in forgotten for word in said.pop(id)]

        needles = {f"the word {word}": in_words("word", word)["the word"] for word in gone}
        check_nothing_is_left(folder, needles)
        for id, words in said.items():
            for word in words[-1:]:
                assert id in {hit.memory.id for hit in memory.search(word, mode="keyword")}
        assert memory.check().problems == ()
    shutil.rmtree(folder)


# As yet it is not gone


def test_a_question_that_found_it_is_forgotten_with_it_and_others_are_not(path: Path) -> None:
    with open_dense(path) as memory:
        one = memory.add("the pass phrase is xyzzyplugh")
        memory.add("lunch is at noon")
        memory.search("xyzzyplugh", mode="keyword", record="log")
        memory.search("lunch", mode="keyword", record="log")
        memory.forget(one.id, hard=True)

        assert [recall.query for recall in memory.searches.list()] == ["lunch", None]


def test_a_recall_of_another_process_is_not_written_after_what_it_found_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "BATCH_DELAY", 60.0)
    with memorist.open(path, embedder="none") as memory:
        one = memory.add("the pass phrase is xyzzyplugh")
        with memorist.open(path, embedder="none") as other:
            other.search("xyzzyplugh", record="log")
            memory.forget(one.id, hard=True)
            memory.purge()
        # The other one has closed, and has written down what it was asked.
        assert [recall.query for recall in memory.searches.list() if recall.query] == []
    check_nothing_is_left(path.parent, in_words("question", "xyzzyplugh"))


@contextmanager
def another_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memorist]:
    """The database was opened by a relative path, and the process has gone elsewhere since."""
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(path.parent)
    with memorist.open(path.name, embedder="none") as memory:
        monkeypatch.chdir(elsewhere)
        yield memory


@contextmanager
def another_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memorist]:
    """The database is opened by a link to it."""
    (path.parent / "elsewhere").mkdir()
    link = path.parent / "elsewhere" / "link.db"
    link.symlink_to(path)
    with memorist.open(link, embedder="none") as memory:
        yield memory


@pytest.mark.skipif(os.name == "nt", reason="links take special rights there")
@pytest.mark.parametrize("opened", [another_folder, another_name])
def test_the_copy_from_before_a_migration_is_gone_however_the_file_was_opened(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[Memorist]],
) -> None:
    id = older_database(path)
    memorist.open(path, embedder="none").close()

    with opened(path, monkeypatch) as memory:
        memory.forget(id, hard=True)
        memory.purge()

    check_nothing_is_left(path.parent, in_words("older text", SECRETS["older"]))
