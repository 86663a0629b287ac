"""Many memories at once: the same rows as one by one, whatever they are."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import memorist
from conftest import HashingEmbedder
from memorist import AlreadyExists, Memorist
from memorist.engine import writing
from memorist.ingest.vectorizer import BATCH

# What differs between two runs by itself: ids, times of writing, and the salience that has decayed in between.
_OWN = {
    "id",
    "salience",
    "created_at",
    "updated_at",
    "reinforced_at",
    "recorded_at",
    "at",
    "latest",
    "replaced_at",
    "started_at",
    "seq",
}
_CONTENT_TABLES = ("memories", "memory_tags", "facts", "session_memories", "vectors", "part_vectors", "unembedded",
                   "changes", "vector_blocks", "models")  # fmt: skip
_TERMS = """
    select term, "offset", col, doc from (select * from temp.{0}) order by doc, col, "offset", term
"""

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # each example writes two databases

texts = st.sampled_from(
    [
        "red fox",
        "Red fox",
        "the quick brown fox",
        "東京タワー",
        "naïve café",
        "a",
        "x" * 300,
        "Ünï çödé",
        "one. two! three?",
    ]
)
drafts = st.fixed_dictionaries(
    {"content": texts},
    optional={
        "project": st.sampled_from([None, "api", "web"]),
        "tags": st.lists(st.sampled_from(["red", "blue", "東京"]), max_size=2),
        "title": st.sampled_from(["A title", "題名"]),
        "facts": st.lists(st.sampled_from(["foxes are red", "犬は青い"]), max_size=2),
        "session": st.sampled_from(["session-one", "session-two"]),
        "metadata": st.sampled_from([{}, {"a": [1, "ü"]}]),
        "salience": st.sampled_from([0.0, 0.25, 1.0]),
        "source": st.just("notes.md"),
        "kind": st.just("note"),
    },
)


def read_tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, and every word of the full-text indexes, without what is never the same twice."""
    database = apsw.Connection(str(path))
    try:
        found = {}
        for table in _CONTENT_TABLES:
            columns = [row[1] for row in database.execute(f"pragma table_info({table})") if row[1] not in _OWN]
            found[table] = sorted(database.execute(f"select {', '.join(columns)} from {table}"), key=repr)
        for index in ("memories_stems", "memories_words"):
            database.execute(f"create virtual table temp.v_{index} using fts5vocab(main, {index}, instance)")
            found[index] = list(database.execute(_TERMS.format(f"v_{index}")))
            database.execute(f"insert into {index}({index}) values ('integrity-check')")
        return found
    finally:
        database.close()


def open_with_sessions(path: Path) -> Memorist:
    memory = memorist.open(path, embedder=HashingEmbedder(dimensions=8), on_near_duplicate="off")
    for session in ("session-one", "session-two"):
        memory.sessions.start(id=session)
    return memory


@settings(max_examples=25, phases=NO_SHRINKING)
@given(items=st.lists(drafts, min_size=1, max_size=30))
def test_a_batch_leaves_the_same_rows_as_its_memories_added_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, items: Sequence[Mapping[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("bulk")
    with open_with_sessions(folder / "batch.db") as memory:
        together = memory.add_many(items)
        assert memory.check().problems == ()
    with open_with_sessions(folder / "single.db") as memory:
        single = [memory.add(**item).id for item in items]

    batch, one_by_one = read_tables(folder / "batch.db"), read_tables(folder / "single.db")

    for table in batch:
        assert batch[table] == one_by_one[table], table
    places = [together.index(id) for id in together]
    assert places == [single.index(id) for id in single]  # the same ones were duplicates


def test_an_item_that_is_refused_leaves_those_before_it(hashed: Memorist) -> None:
    hashed.add("the first of all", id="the-first")

    taken = {"content": "another", "id": "the-first", "if_exists": "error"}
    with pytest.raises(AlreadyExists, match=r"item 12 cannot be added.*The 11 before it were added"):
        hashed.add_many([*(f"note {number}" for number in range(11)), taken, "more"])

    assert sorted(memory.content for memory in hashed.list(limit=100)) == sorted(
        ["the first of all", *(f"note {number}" for number in range(11))]
    )
    assert hashed.stats().pending == 0


def test_of_two_items_with_one_id_the_later_replaces_the_earlier(hashed: Memorist) -> None:
    hashed.add("known already")
    items = [*(f"note {number}" for number in range(9)), {"content": "known already", "id": "chosen-1"},
             {"content": "something new", "id": "chosen-1"}]  # fmt: skip

    ids = hashed.add_many(items)

    assert ids[-2:] == ["chosen-1", "chosen-1"]
    assert hashed.get("chosen-1").content == "something new"
    assert [version.content for version in hashed.history("chosen-1")] == ["known already"]
    assert hashed.search("something new")[0].match == ("keyword", "vector")
    assert (hashed.stats().memories, hashed.stats().pending) == (11, 0)


def test_batches_grow_where_they_take_little_time(hashed: Memorist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_QUICK_BATCH", 1e9)
    steps: list[int] = []

    hashed.add_many((f"note {number}" for number in range(6 * BATCH)), progress=steps.append)

    assert steps == [BATCH, 5 * BATCH, 6 * BATCH]
    assert hashed.stats().pending == 0


class SlowEmbedder(HashingEmbedder):
    """A model that is quick until it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = False
        self.stored: list[int] = []
        self.memory: Memorist | None = None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.hangs and self.memory is not None:
            # A model that answers only once the text is stored: one that is waited for would never answer.
            while self.memory.stats().memories < 2:
                pass
        return super().embed(texts)


def test_a_text_is_stored_though_a_quick_model_hangs(path: Path) -> None:
    embedder = SlowEmbedder()
    with memorist.open(path, embedder=embedder, on_near_duplicate="off") as memory:
        memory.add("quick")
        embedder.memory, embedder.hangs = memory, True

        assert memory.add("stored at once").degraded is None

        assert memory.stats().memories == 2
        assert memory.stats().pending == 0


def test_a_vector_that_is_ready_is_stored_in_the_transaction_of_its_text(path: Path) -> None:
    with memorist.open(path, embedder=HashingEmbedder(), on_near_duplicate="off") as memory:
        memory.add("the first one shows that the model is quick")
        before = count_commits(path)

        memory.add("red fox")

        assert count_commits(path) == before + 1
        assert memory.stats().pending == 0


def count_commits(path: Path) -> int:
    """Return the number of commits in the write-ahead log: frames that hold the size of the database."""
    log = Path(f"{path}-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    frames = range(32, len(log), 24 + page)
    salt = log[16:24]
    return sum(log[at + 8 : at + 16] == salt and log[at + 4 : at + 8] != b"\0\0\0\0" for at in frames)


WORDS = [f"{first}{second}" for first in ("re", "fo", "ma", "ti", "lu") for second in ("x", "nd", "gel", "stic", "ver")]


@settings(max_examples=30, phases=NO_SHRINKING)
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=20, unique=True), data=st.data())
def test_every_text_that_shares_four_fifths_of_its_words_is_reported_as_a_near_duplicate(
    words: list[str], data: st.DataObject
) -> None:
    lacking = data.draw(st.sets(st.sampled_from(words), max_size=5))
    more = data.draw(st.sets(st.sampled_from(WORDS), max_size=3))
    other = [*(word for word in words if word not in lacking), *(word for word in more if word not in words)]
    share = len(set(words) & set(other)) / len(set(words) | set(other))
    with memorist.open(":memory:", embedder="none") as memory:
        memory.add_many(f"{word} is said in {number} other notes" for number, word in enumerate(WORDS))
        older = memory.add(" ".join(words), project="api").id
        memory.add(" ".join(words), project="web", on_near_duplicate="off")

        near = memory.add(" ".join([*other, "!"]), project="api").near

    assert (near and near.id) == (older if share >= 0.8 else None)


def test_a_text_is_stored_though_the_model_gives_other_vectors_than_before(tmp_path: Path) -> None:
    class OtherEmbedder(HashingEmbedder):
        """Another model under the name of the first."""

        dimensions = 8

        def embed(self, texts: Sequence[str]) -> Any:
            return super().embed(texts)[:, :8]

    path = tmp_path / "memory.db"
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.add_many(["the first", "the second"])
    with memorist.open(path, embedder=OtherEmbedder()) as memory:
        for number in range(3):
            assert memory.add(f"note {number}").degraded
        memory.add_many(["one more", "and another"])

        assert memory.count() == 7


def test_an_item_that_expires_while_the_batch_is_read_gives_way_to_a_later_one(
    hashed: Memorist, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    hashed.add("a note", id="k", expires_at=now + timedelta(days=1))
    times = iter([now, now + timedelta(days=2)])
    monkeypatch.setattr(writing, "datetime", SimpleNamespace(now=lambda zone: next(times)))

    ids = hashed.add_many([{"content": "a note", "id": "k", "if_exists": "keep"}] * 2)

    assert ids == ["k", "k"]
