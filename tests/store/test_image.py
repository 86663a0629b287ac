"""The image of a namespace answers exactly as the database does, whatever any process has written before."""

import gc
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import memorist
from conftest import HashingEmbedder
from keyword_parity import list_differences
from memorist import Memorist
from memorist.arguments import NO_FILTER, Filter
from memorist.engine.backends import open_backend
from memorist.metadata_filter import parse_metadata_filter
from memorist.profiles.profile import ALL_COLUMNS
from memorist.records import Model
from memorist.search.query import parse_query
from memorist.store import image, image_follower, inverted_index, near_duplicates
from memorist.store.image_follower import IMAGE_BYTES, ImageFollower
from memorist.store.postgres import statistics
from memorist.store.postgres.vectors import PostgresVectors
from memorist.store.records import KeywordMatches
from memorist.store.sqlite import keyword
from memorist.store.sqlite.backup import restore_database
from memorist.store.store import Store
from processes import forks

WORDS = ["ship", "shipping", "code", "friday", "noon", "Zürich", "it's", "self-hosted", "東京都", "a", "the", "C++"]
SHARED = ["red", "fox", "owl", "elk", "yak", "gnu", "cod", "eel", "ant", "bee"]
MODEL = Model("hashing-64", 64)
CONTENT_ONLY = {**dict.fromkeys(ALL_COLUMNS, 0.0), "content": 1.0}


class Reader:
    """A store on a database that others write; one that is `indexed` has the image in memory, and the vectors."""

    def __init__(
        self, target: Path | str, *, indexed: bool, namespace: str = "default", image_bytes: int = IMAGE_BYTES
    ) -> None:
        self.backend = open_backend(str(target), namespace, read_only=False, busy_timeout=30.0, image_bytes=image_bytes)
        self.store = Store(self.backend, namespace)
        if indexed:
            self.follower.build()
            if isinstance(self.store.vectors, PostgresVectors):
                self.store.vectors.load_mirror(MODEL)

    @property
    def follower(self) -> ImageFollower:
        return self.backend.images.follow(self.store.namespace)

    def match(
        self, text: str, grammar: str = "auto", filter: Filter = NO_FILTER, weights: Any = ALL_COLUMNS, limit: int = 30
    ) -> KeywordMatches:
        scope = self.store.resolve_scope(filter)
        return self.store.match_keywords(parse_query(text, grammar), scope, limit=limit, page=10, weights=weights)

    def wait_for_thread(self) -> None:
        while (thread := self.follower._thread) is not None:
            thread.join()

    def count_rows(self) -> tuple[int, int]:
        """The live and the dead rows of the index."""
        assert self.follower.image is not None
        return self.follower.image.index.live, self.follower.image.index.dead

    def list_sharing(self, words: list[str], least: int) -> list[str]:
        return [id for id, _, _ in self.store.list_sharing({word: word for word in words}, least, NO_FILTER)]

    def find(self, text: str) -> list[int]:
        return [match.key for match in self.match(text).matches]


def require_same(one: KeywordMatches, other: KeywordMatches, *, exactly: bool = True) -> None:
    """Require the same matches: but for the last bits, where the database adds the scores of words in another order."""
    assert sorted(one.unknown_words) == sorted(other.unknown_words)
    assert sorted(one.all_keys or ()) == sorted(other.all_keys or ())
    assert list_differences([*one.matches], [*other.matches]) == []
    assert [match.coverage for match in one.matches] == pytest.approx([match.coverage for match in other.matches])
    if exactly:
        assert one.all_keys is None or other.all_keys is not None
        scores = [[(match.key, match.score, match.has_all_words) for match in found.matches] for found in (one, other)]
        assert scores[0] == scores[1]


@dataclass
class Home:
    """Where memories are: each of an example in a file, or in a namespace, of its own."""

    url: str | None

    @property
    def is_file(self) -> bool:
        return self.url is None

    @contextmanager
    def make(self) -> Iterator[tuple[str, str]]:
        """Yield a new database, or one for a new namespace, and the namespace."""
        if self.url is not None:
            yield self.url, str(uuid4())
            return
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder, "memory.db")), "default"


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Home:
    for module in (keyword, statistics):  # or counts of words would be remembered for a while
        monkeypatch.setattr(module, "_COUNTS_SECONDS", -1.0)
    return Home(request.getfixturevalue("postgres_url") if request.param == "postgres" else None)


@pytest.fixture
def writer(target: Path | str) -> Iterator[Memorist]:
    with memorist.open(target, embedder=HashingEmbedder()) as writer:
        yield writer


@pytest.fixture
def readers(writer: Memorist) -> Iterator[list[Reader]]:
    readers: list[Reader] = []
    yield readers
    for reader in readers:
        reader.store.close()


TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=70).map(" ".join)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from(WORDS),
        "tags": st.lists(st.sampled_from(["code", "noon"]), max_size=2),
        "source": st.sampled_from(["ship", "friday noon"]),
        "project": st.sampled_from(["red", "blue"]),
        "facts": st.lists(st.sampled_from(["it's noon", "the code"]), max_size=1),
    },
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TEXT, FIELDS),
        st.tuples(st.just("elsewhere"), TEXT, FIELDS),
        st.tuples(st.just("update"), TEXT, st.integers(0, 50)),
        st.tuples(st.sampled_from(["forget", "restore", "erase", "supersede"]), st.just(""), st.integers(0, 50)),
    ),
    min_size=1,
    max_size=12,
)
QUERY = st.lists(st.sampled_from([*WORDS, '"the code"', '"it\'s noon"', "unknown"]), min_size=1, max_size=5).map(
    " ".join
)


def write(step: tuple[str, str, Any], memory: Memorist, other: Memorist, ids: list[str]) -> None:
    verb, text, detail = step
    if verb in ("add", "elsewhere"):
        stored = (memory if verb == "add" else other).add(text, **detail)
        if verb == "add":
            ids.append(stored.id)
        return
    if not ids:
        return
    id, last = ids[detail % len(ids)], ids[-1]
    try:
        if verb == "update":
            memory.update(id, content=text)
        elif verb == "supersede":
            memory.supersede(id, last)
        elif verb == "restore":
            memory.restore(id)
        else:
            memory.forget(id, hard=verb == "erase")
    except memorist.MemoristError:  # forgotten, erased or said already
        pass


@settings(max_examples=30)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=4),
    queries=st.lists(QUERY, min_size=1, max_size=3),
    grammar=st.sampled_from(["auto", "and", "or"]),
    filter=st.sampled_from([NO_FILTER, Filter(superseded=False), Filter(project=("red",)), Filter(tags=("noon",))]),
    weights=st.sampled_from([ALL_COLUMNS, CONTENT_ONLY]),
    limit=st.sampled_from([2, 30]),
)
def test_any_writes_are_searched_as_the_database_searches_them(
    home: Home, steps: Any, queries: list[str], grammar: str, filter: Filter, weights: Any, limit: int
) -> None:
    ids: list[str] = []
    with (
        pytest.MonkeyPatch.context() as patch,
        home.make() as (target, namespace),
        memorist.open(target, embedder="none", namespace=namespace) as memory,
        memorist.open(target, embedder="none", namespace="other") as other,
    ):
        patch.setattr(inverted_index, "_MERGED_WORDS", 3)
        for step in steps[0]:
            write(step, memory, other, ids)
        indexed = Reader(target, indexed=True, namespace=namespace)
        plain = Reader(target, indexed=False, namespace=namespace, image_bytes=0)
        for batch in steps:
            for step in batch:
                write(step, memory, other, ids)
            for query in queries:
                options: Any = {"grammar": grammar, "filter": filter, "weights": weights, "limit": limit}
                one, two = indexed.match(query, **options), plain.match(query, **options)
                require_same(one, two, exactly=home.is_file)
        plain.store.close()
        indexed.store.close()


WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), FIELDS),
        st.tuples(st.just("say"), st.integers(0, 3), st.sampled_from(["user", "assistant"])),
        st.tuples(
            st.sampled_from(
                ["pin", "reinforce", "forget", "restore", "erase", "supersede", "search", "retag", "move", "expire",
                 "forget_session", "restore_session", "state"]
            ),
            st.integers(0, 3),
            st.integers(0, 50),
        ),
    ),
    min_size=1,
    max_size=10,
)  # fmt: skip
SOON, LATE = datetime(2027, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
ALL_FILTERS = [
    NO_FILTER,
    Filter(superseded=False),
    Filter(project=("red",)),
    Filter(project=("red",), include_global=True),
    Filter(project=("red",), restricted=True),
    Filter(project=("nobody", "blue"), superseded=False),
    Filter(tags=("noon",)),
    Filter(tags=("noon", "code")),
    Filter(source=("ship", "friday noon")),
    Filter(since=LATE, until=SOON),
    Filter(until=LATE),
    Filter(month=("2026-11", "2025-01")),
    Filter(min_salience=0.55),
    Filter(pinned=True),
    Filter(pinned=False, superseded=False),
    Filter(recalled=True),
    Filter(recalled=False),
    Filter(sector=("semantic",), tier=("project",)),
    Filter(session="talk 1"),
    Filter(session="talk 2", superseded=False),
    Filter(fact_kind=("rule",)),
    Filter(metadata=parse_metadata_filter({"role": "assistant"})),
]


def change(step: tuple[str, int, Any], memory: Memorist, ids: list[str]) -> None:
    verb, number, detail = step
    if verb == "add":
        ids.append(memory.add(f"note {number} {' '.join(WORDS[: number + 1])}", **detail).id)
        return
    if verb == "say":
        with suppress(memorist.InvalidInput):  # there is one already
            memory.sessions.start(id=f"talk {number}")
        with suppress(memorist.MemoristError):  # the session was forgotten
            said = f"{detail} says {len(ids)}"
            ids.append(memory.add(said, session=f"talk {number}", kind="turn", metadata={"role": detail}).id)
        return
    if verb in ("forget_session", "restore_session"):
        with suppress(memorist.MemoristError):
            getattr(memory.sessions, verb.removesuffix("_session"))(f"talk {number}")
        return
    if not ids:
        return
    id = ids[detail % len(ids)]
    with suppress(memorist.MemoristError):  # forgotten, erased or said already
        if verb == "search":
            memory.search(WORDS[number], record="reinforce")
            memory._resources.recorder.flush()  # it is written after the answer
        elif verb == "supersede":
            memory.supersede(id, ids[-1])
        elif verb == "retag":
            memory.update(id, tags=[WORDS[number], "noon"][: number + 1])
        elif verb == "move":
            memory.update(id, project=["red", "blue", None][number % 3], tier="global" if number == 3 else "project")
        elif verb == "expire":
            memory.update(id, expires_at=[LATE, SOON][number % 2])
        elif verb == "state":
            memory.facts.add(id, f"fact {number}", kind="rule")
        elif verb in ("forget", "erase"):
            memory.forget(id, hard=verb == "erase")
        else:
            getattr(memory, verb)(id)


def list_columns(reader: Reader, filter: Filter) -> list[str]:
    """What ranking looks at, of all memories that pass a filter, and which of them the vector leg finds."""
    scope = reader.store.resolve_scope(filter)
    vector = np.eye(64, dtype=np.float32)[7]
    with reader.backend.database.reading() as connection:
        rids = [rid for (rid,) in connection.fetch("select rid from memories")]
    if scope.is_listed:
        assert scope.keys is None or scope.excluded is None
        listed = scope.keys if scope.excluded is None else scope.excluded
        assert listed is not None
        rids = [rid for rid in rids if (rid in listed.tolist()) == (scope.excluded is None)]
    nearest = reader.store.vectors.find_nearest(MODEL, vector, scope, 5)
    keys = np.array(rids, np.int64)
    columns = reader.store.load_ranking_columns(keys, MODEL, vector, scope, facts=True)
    names = [name for name in columns.__struct_fields__ if name not in ("codes", "parts")]
    values = [[*getattr(columns, name)] for name in names]
    codes = [None] * len(columns) if columns.codes is None else [tuple(code) for code in columns.codes.tolist()]
    rows = [(*row, code, columns.parts.get(row[0])) for *row, code in zip(*values, codes, strict=True)]
    found = zip(nearest.matches.keys.tolist(), np.round(nearest.matches.scores, 3).tolist(), strict=True)
    return [*sorted(repr(row) for row in rows), repr(sorted(found)), repr((nearest.unembedded, filter.restricted))]


@settings(max_examples=25)
@given(steps=st.lists(WRITES, min_size=1, max_size=4))
def test_any_writes_are_seen_in_the_columns_and_by_the_filters_as_the_tables_have_them(home: Home, steps: Any) -> None:
    ids: list[str] = []
    with (
        home.make() as (target, namespace),
        memorist.open(target, embedder=HashingEmbedder(), namespace=namespace) as memory,
        memorist.open(target, embedder=HashingEmbedder(), namespace=namespace) as other,
    ):
        other.add("the first ship", project="red")
        for step in steps[0]:
            change(step, memory, ids)
        indexed = Reader(target, indexed=True, namespace=namespace)
        plain = Reader(target, indexed=False, namespace=namespace, image_bytes=0)
        for number, batch in enumerate(steps):
            for step in batch:
                change(step, other if number % 2 else memory, ids)
            for filter in ALL_FILTERS:
                assert list_columns(indexed, filter) == list_columns(plain, filter), filter
                one, two = (reader.match("ship code", filter=filter) for reader in (indexed, plain))
                require_same(one, two, exactly=home.is_file)
        plain.store.close()
        indexed.store.close()


def test_a_phrase_of_unspaced_script_is_scored_by_one_namespace_alone(
    writer: Memorist, target: Path | str, readers: list[Reader]
) -> None:
    writer.add("東京都")
    with memorist.open(target, embedder="none", namespace="other") as other:
        other.add("ship")
    readers += [Reader(target, indexed=True), Reader(target, indexed=False)]
    for grammar in ("auto", "and", "or"):
        require_same(*(reader.match("東京都", grammar) for reader in readers), exactly=isinstance(target, Path))


def test_many_rows_are_guarded_as_in_fts5(writer: Memorist, path: Path, readers: list[Reader]) -> None:
    writer.add_many(
        f"{' '.join(WORDS[: 2 + n % 5])} number {n} of {n % 7} {'rare' * (n % 400 == 0)}" for n in range(2500)
    )
    readers += [Reader(path, indexed=True), Reader(path, indexed=False)]
    for query in ("ship code", "ship code friday rare", "shipping noon 3", "number 17", '"code friday" ship', "of the"):
        for grammar in ("auto", "and", "or"):
            require_same(*(reader.match(query, grammar) for reader in readers))


@settings(max_examples=30)
@given(
    texts=st.lists(st.lists(st.sampled_from([*SHARED, "!!!"]), min_size=1, max_size=9), min_size=1, max_size=12),
    words=st.lists(st.sampled_from(SHARED), min_size=1, max_size=9, unique=True),
    lacking=st.integers(0, 3),
)
@example(texts=[["red", "fox"], ["!!!"]], words=["red", "fox"], lacking=0)
def test_every_text_that_shares_enough_words_is_listed(texts: list[list[str]], words: list[str], lacking: int) -> None:
    least = max(1, len(words) - lacking)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "words.db")
        with memorist.open(path, embedder="none") as memory:
            ids = memory.add_many({"content": " ".join(text), "id": f"t{n}"} for n, text in enumerate(texts[:-1]))
            for number, (indexed, closely) in enumerate(product((False, True), repeat=2)):
                reader = Reader(path, indexed=indexed)
                memory.add(" ".join(texts[-1]), id=f"last{number}")

                with pytest.MonkeyPatch.context() as patch:
                    if closely:
                        patch.setattr(near_duplicates, "_MAX_FIRST_SHARING", 0)
                    listed = reader.list_sharing(words, least)

                sharing = {id for id, text in zip(ids, texts[:-1], strict=True) if len({*words} & {*text}) >= least}
                assert sharing <= {*listed}
                assert not (indexed and closely) or {id for id in listed if id in ids} == sharing  # and no other
                assert len({*words} & {*texts[-1]}) < least or f"last{number}" in listed
                reader.store.close()


@pytest.mark.parametrize("indexed", [False, True])
def test_where_many_texts_share_rare_words_those_that_share_most_are_found(
    writer: Memorist, target: Path | str, readers: list[Reader], indexed: bool
) -> None:
    words = ["zebra", "quagga", "okapi", "tapir", "eland"]
    writer.add_many(f"zebra quagga {number} {number % 7}" for number in range(700))
    near = writer.add("zebra quagga okapi tapir eland and more").id
    writer.add_many(f"what is said lately is about {number}" for number in range(300))
    readers.append(Reader(target, indexed=indexed))

    assert readers[0].list_sharing(words, 5) == [near]


def test_of_long_texts_only_the_beginnings_tell_which_words_are_common(
    writer: Memorist, path: Path, readers: list[Reader]
) -> None:
    writer.add_many(f"tapir tiger {number} {'and more ' * 250} zebra eland" for number in range(3))
    readers.append(reader := Reader(path, indexed=False))
    words = {word: word for word in ("tapir", "tiger", "zebra", "eland")}

    with reader.backend.database.reading() as connection:
        index = reader.backend.open_keyword_index("default")
        _, values, _ = index.select_sharing(connection, words, 4, closely=False)

    assert values == {"sharing": '("zebra" AND "eland")'}  # the rarest, as far as was read


def test_what_another_process_adds_changes_or_removes_is_seen_by_the_next_search(
    writer: Memorist, target: Path | str, readers: list[Reader]
) -> None:
    kept, changed = writer.add("a heron at the lake"), writer.add("a heron in the air")
    readers.append(reader := Reader(target, indexed=True))
    assert len(reader.find("heron")) == 2
    writer.update(changed.id, content="an owl in the air")
    assert (len(reader.find("heron")), len(reader.find("owl"))) == (1, 1)
    writer.forget(kept.id)
    assert not reader.find("heron")
    writer.restore(kept.id)
    writer.add("herons again")
    assert len(reader.find("heron")) == 2


def test_nothing_beyond_a_wall_is_looked_at_where_most_of_what_there_is_lies_within(
    writer: Memorist, target: Path | str, readers: list[Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "MAX_SCOPE_KEYS", 2)  # or keys would be listed, and not those that are left out
    writer.add_many({"content": f"note {n}", "project": "blue" if n == 6 else "red"} for n in range(7))
    readers.append(reader := Reader(target, indexed=True))
    scope = reader.store.resolve_scope(Filter(project=("red",), restricted=True, min_salience=0.1))
    assert scope.excluded is not None

    found = reader.store.vectors.find_nearest(MODEL, np.eye(64, dtype=np.float32)[7], scope, 30)

    assert (len(found.matches), len(found.unfiltered)) == (6, 6)


def test_a_process_that_asks_little_makes_no_index(writer: Memorist, target: Path | str, readers: list[Reader]) -> None:
    writer.add_many(f"note {n} on ships" for n in range(50))
    readers.append(reader := Reader(target, indexed=False))
    assert reader.find("ships")
    assert reader.follower.image is None
    assert reader.follower._thread is None


def test_a_process_that_asks_much_makes_it_beside_its_searches(
    writer: Memorist, target: Path | str, readers: list[Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_follower, "_PAYS_AFTER", 0.0)
    writer.add_many(f"note {n} on ships" for n in range(50))
    readers.append(reader := Reader(target, indexed=False))
    assert len(reader.find("ships")) == 30
    reader.wait_for_thread()
    assert reader.follower.image is not None
    assert len(reader.find("ships")) == 30


def test_after_very_many_changes_a_search_does_not_wait(
    writer: Memorist, target: Path | str, readers: list[Reader]
) -> None:
    writer.add("the first ship")
    readers.append(reader := Reader(target, indexed=True))
    writer.add_many(f"note {n} on ships" for n in range(image_follower._MAX_FOLLOWED + 1))
    assert len(reader.find("ships")) == 30
    reader.wait_for_thread()
    assert reader.count_rows() == (image_follower._MAX_FOLLOWED + 2, 0)


def test_many_dead_rows_are_cleared_away(writer: Memorist, target: Path | str, readers: list[Reader]) -> None:
    ids = writer.add_many(f"note {n} on ships" for n in range(40))
    readers.append(reader := Reader(target, indexed=True))
    for id in ids[:20]:
        writer.forget(id)
    assert len(reader.find("ships")) == 20
    reader.wait_for_thread()
    assert reader.count_rows() == (20, 0)
    assert len(reader.find("ships")) == 20


def test_a_log_that_does_not_reach_back_is_noticed(writer: Memorist, target: Path | str, readers: list[Reader]) -> None:
    memory = writer.add("the first ship")
    readers.append(reader := Reader(target, indexed=True))
    writer.update(memory.id, content="a boat")
    with reader.backend.database.writing() as connection:
        connection.execute("delete from changes")
        connection.execute("insert into changes(seq, rid, what) values (1000, 0, 1)")
    assert not reader.find("ship")
    assert reader.find("boat")


def test_a_restored_backup_is_read_anew(tmp_path: Path, path: Path, readers: list[Reader], writer: Memorist) -> None:
    writer.add("an early bird")
    writer.transfer.backup(tmp_path / "copy.db")
    writer.add("a late owl")
    readers.append(reader := Reader(path, indexed=True))
    assert reader.find("owl")
    restore_database(str(tmp_path / "copy.db"), str(path), overwrite=True, busy_timeout=30.0)
    assert not reader.find("owl")
    assert reader.find("bird")


def test_an_image_larger_than_is_granted_is_not_kept(
    writer: Memorist, target: Path | str, readers: list[Reader]
) -> None:
    writer.add_many(f"{n} a b c d e f g" for n in range(100))
    readers += [Reader(target, indexed=True, image_bytes=size) for size in (0, 10_000, 1_000_000)]
    assert [reader.follower.image is not None for reader in readers] == [False, False, True]
    assert all(reader.find("g") for reader in readers)


def test_an_image_that_was_replaced_leaves_memory_at_once(
    writer: Memorist, target: Path | str, readers: list[Reader]
) -> None:
    writer.add_many(f"note {n} on ships" for n in range(20))
    readers.append(reader := Reader(target, indexed=True))
    reader.match("ships", filter=Filter(project=("red",)))
    first = weakref.ref(reader.follower.image)
    gc.disable()  # or it could be the collector that does it
    try:
        writer.add("another note")
        reader.match("ships")
        assert first() is None
    finally:
        gc.enable()


def test_a_very_long_text_is_ranked_as_in_fts5(writer: Memorist, path: Path, readers: list[Reader]) -> None:
    writer.add("ship " + "filler word " * 10_000 + "code it's noon")
    writer.add("the code is at noon")
    readers += [Reader(path, indexed=True), Reader(path, indexed=False)]
    for query in ("ship code", "code noon", "it's noon", '"word code"'):
        require_same(*(reader.match(query) for reader in readers))


def test_closing_ends_the_thread(writer: Memorist, target: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_follower, "_PAYS_AFTER", 0.0)
    writer.add_many(f"note {n} on ships" for n in range(3000))
    reader = Reader(target, indexed=False)
    reader.find("ships")
    reader.store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "memorist-image"]


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_goes_on_with_the_index(writer: Memorist, target: Path | str, readers: list[Reader]) -> None:
    writer.add("a heron at the lake")
    readers.append(reader := Reader(target, indexed=True))
    reader.follower._writing.acquire()  # as another thread may have, at the time of a fork
    child = os.fork()
    if child == 0:
        writer.add("a heron in the air")
        os._exit(0 if len(reader.find("heron")) == 2 else 1)
    reader.follower._writing.release()
    assert os.waitpid(child, 0)[1] == 0
    assert len(reader.find("heron")) == 2


def test_threads_that_search_while_one_writes_find_what_was_there_before(
    writer: Memorist, target: Path | str, readers: list[Reader]
) -> None:
    writer.add_many(f"heron {n}" for n in range(20))
    readers.append(reader := Reader(target, indexed=True))
    failures: list[str] = []

    def search() -> None:
        for _ in range(40):
            if len(reader.match("heron", limit=100).matches) < 20:
                failures.append("a memory was missing")

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        writer.add(f"another heron, the {number}th")
    for thread in threads:
        thread.join()
    assert not failures
    assert len(reader.match("heron", limit=100).matches) == 60


class FilterOfLater(Filter, frozen=True):
    """A filter with a condition that the image knows nothing of."""

    titled: bool | None = None


def test_a_condition_that_the_image_does_not_know_is_left_to_the_database(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("the heron fishes", project="pond")
    reader = Reader(path, indexed=True)

    image = reader.follower.image
    assert image is not None
    assert image.find_scope("default", FilterOfLater(project=("pond",))) is not None
    assert image.find_scope("default", FilterOfLater(project=("pond",), titled=True)) is None
