"""
The inverted index of a database in memory, which follows what any process writes.

It is made in a thread, once the searches of this process have cost enough for it to pay: a process that answers one
question never makes one. New texts are known by their rids, which only grow; `text_log` has those that changed or went.
Whenever it cannot be brought up to what is committed at once, a search uses FTS5, with the same results.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from memorist.errors import StoreError
from memorist.forks import renew_after_fork
from memorist.store.database import Connection, Database
from memorist.store.documents import namespace_beside
from memorist.store.inverted_index import IndexedText, InvertedIndex
from memorist.store.sqlite.bm25 import LENGTH_SAMPLE
from memorist.store.word_matching import INDEX_COLUMNS
from memorist.text.tokenizer import list_stems
from memorist.time_limit import without_limit

_PAYS_AFTER = 0.1  # seconds of the processor that keyword searches took: making an index of 10,000 texts takes as long
_BLOCK_TEXTS = 1024  # read at a time: a fork and a closing wait for no more
_TEXTS_A_TURN = 4  # tokenized before other threads may go on
_MAX_FOLLOWED = 300  # changes that a search takes in before it begins: some milliseconds
_MAX_DEAD_SHARE = 1 / 4  # of rows that were replaced or removed, before everything is read again
_MAX_SIZE, _ALWAYS_GRANTED = 1.5, 1 << 20  # the size of the index, in sizes of the texts, and in bytes
_MAX_COUNTS = 20_000  # remembered
_LOCK_SECONDS = 0.05  # that a search waits for another one which takes in changes

_log = logging.getLogger("memorist.store")

_POSITION = "select coalesce((select max(seq) from text_log), 0), coalesce((select max(rid) from memories), 0)"
_TEXTS = f"m.namespace, {', '.join(f'm.{name}' for name in INDEX_COLUMNS)}"
_CHANGED = f"""
    select l.seq, l.rid, {_TEXTS}
    from text_log l
    left join memories m on m.rid = l.rid and m.deleted_at is null
    where l.seq > :logged
    order by l.seq limit :limit
"""
_NEW = f"""
    select null, m.rid, {_TEXTS}
    from memories m
    where m.rid > :newest and m.deleted_at is null
    order by m.rid limit :limit
"""
# In one statement, so that it sees one moment.
_CHANGES = f"select * from ({_CHANGED}) union all select * from ({_NEW})"


@dataclass(frozen=True, slots=True)
class Family:
    """The rows of a namespace and of its files: their owners (None: of all rows), their number and mean length."""

    owners: tuple[int, ...] | None
    rows: int
    mean_words: float


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """
    An inverted index, the numbers of the namespaces that own its rows, and how far it has followed the database.

    `logged` is the last change it has taken in, `newest` the largest rid; `position` is what the database said of both.
    """

    index: InvertedIndex
    namespaces: dict[str, int] = field(default_factory=dict)
    size: int = 0  # characters of all texts
    logged: int = 0
    newest: int = 0
    position: tuple[int, int] = (0, 0)
    _counts: dict[Any, int] = field(default_factory=dict)  # of rows with words that were asked for
    _families: dict[str, "Family"] = field(default_factory=dict)

    def count_rows(self, words: tuple[str, ...], family: "Family") -> int:
        """Return the number of rows of a family with a word or a phrase."""
        key = (family.owners, words)
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= _MAX_COUNTS:
                self._counts.clear()
            rows = self.index.find(words).distinct_rows
            if family.owners is not None:
                rows = rows[np.isin(self.index.owners[rows], family.owners)]
            count = self._counts[key] = len(rows)
        return count

    def find_family(self, namespace: str) -> "Family":
        """Return the rows whose numbers count in a namespace: its own and those of its files."""
        if (known := self._families.get(namespace)) is not None:
            return known
        index = self.index
        names = {namespace, namespace_beside(namespace)}
        if names.issuperset(self.namespaces):
            family = Family(None, index.live, index.mean_words)
        else:
            owners = tuple(number for name, number in self.namespaces.items() if name in names)
            rows = np.flatnonzero(np.isin(index.owners[: index.count], owners) & index.alive[: index.count])
            newest = rows[np.argsort(index.keys[rows])[-LENGTH_SAMPLE:]]
            mean = int(index.lengths[newest].sum()) / len(newest) if len(newest) else 1.0
            family = Family(owners, len(rows), mean or 1.0)
        self._families[namespace] = family
        return family

    def take_in(self, changes: Sequence[Sequence[Any]], *, beside_others: bool = False) -> "LiveIndex | None":
        """
        Return the index with these rows of `_CHANGES`; None if the log no longer reaches back far enough.

        Work that is done `beside_others` may take longer, and leaves the interpreter to other threads in between.
        """
        entries = [(seq, rid) for seq, rid, *_ in changes if seq is not None]
        if entries and entries[0][0] != self.logged + 1:
            return None
        # A logged text that is newer than all here is read as a new one.
        texts = {
            rid: (namespace, columns)
            for seq, rid, namespace, *columns in changes
            if namespace is not None and (seq is None or rid <= self.newest)
        }
        namespaces, documents = dict(self.namespaces), []
        for number, (rid, (namespace, columns)) in enumerate(sorted(texts.items())):
            if beside_others and number % _TEXTS_A_TURN == 0:
                time.sleep(0)
            owner = namespaces.setdefault(namespace, len(namespaces))
            documents.append(IndexedText(rid, owner, [list_stems(text) if text else () for text in columns]))
        return replace(
            self,
            index=self.index.with_changes([rid for _, rid in entries], documents, merge_all=beside_others),
            namespaces=namespaces,
            size=self.size + sum(len(text) for _, columns in texts.values() for text in columns if text),
            logged=entries[-1][0] if entries else self.logged,
            newest=max([self.newest, *texts]),
            _counts={},
            _families={},
        )

    @property
    def is_too_large(self) -> bool:
        return self.index.nbytes > max(_MAX_SIZE * self.size, _ALWAYS_GRANTED)

    @property
    def is_stale(self) -> bool:
        """True if so many of its rows are dead that it should be made anew."""
        return self.index.dead > _MAX_DEAD_SHARE * self.index.count


class IndexFollower:
    """The inverted index of all memories of a database, once it pays."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._live: LiveIndex | None = None
        self._spent = 0.0  # seconds since there is no index
        self._too_large = 0  # the newest rid when an index was larger than is granted
        self._closed = threading.Event()
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a child, which has no other thread; an index is whole at any time, and stays."""
        self._writing = threading.RLock()  # Ctrl-C may leave it held: then not against its own thread
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """End the thread. Closing twice is fine."""
        self._closed.set()
        if (thread := self._thread) is not None:
            thread.join()

    def charge(self, seconds: float) -> None:
        """Count the time that a search took without the index, and begin to make it once that pays."""
        self._spent += seconds
        if self._spent >= _PAYS_AFTER:
            self._start()

    def refresh(self, connection: Connection) -> LiveIndex | None:
        """Return the index as of what is committed now; None if there is none, or if too much has changed."""
        live = self._live
        if live is None:
            return None
        position = connection.fetch_value(_POSITION)
        if position == live.position:
            return live
        with self._lock_soon() as is_locked:
            live = self._follow(connection, position) if is_locked else None
        if is_locked and (live is None or live.is_stale):
            self._start()
        return live

    def _follow(self, connection: Connection, position: tuple[int, int]) -> LiveIndex | None:
        """Take in what was written since; None if that is too much to do at once."""
        if (live := self._live) is None:
            return None
        with without_limit():
            values = {"logged": live.logged, "newest": live.newest, "limit": _MAX_FOLLOWED}
            changes = connection.fetch(_CHANGES, values)
        following = live.take_in(changes) if len(changes) < _MAX_FOLLOWED else None
        if following is not None:
            self._live = following = replace(following, position=position)
        return following

    @contextmanager
    def _lock_soon(self) -> Iterator[bool]:
        """Hold the lock that whoever changes the index holds, if it can be had soon."""
        is_locked = self._writing.acquire(timeout=_LOCK_SECONDS)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._writing.release()

    def _start(self) -> None:
        """Make the index, or bring it up to date, in a thread."""
        with self._lock_soon() as is_locked:
            if not is_locked or self._thread is not None or self._closed.is_set():
                return
            # No daemon: it would be cut off within SQLite when the process ends.
            thread = threading.Thread(target=self._run, name="memorist-words")
            try:
                thread.start()
                self._thread = thread
            except RuntimeError as exc:  # no thread available
                _log.warning("keyword searches stay slower than they could be: %s", exc)

    def _run(self) -> None:
        try:
            self.build()
        except StoreError as exc:  # it was closed, or is damaged, as searches will say
            _log.debug("no index of the words was made: %s", exc)
        finally:
            self._spent, self._thread = 0.0, None

    def build(self) -> None:
        """Make the index; one that is merely behind is brought up to date."""
        with self._lock_soon() as is_locked:
            if not is_locked:
                return
            live = self._live
            if live is not None and not live.is_stale:
                self._live = None  # what is brought up to date here must not be changed by others
        if live is None or live.is_stale:
            live = self._begin()
        while live is not None and not self._is_over:
            with self._database.reading() as connection:
                position = connection.fetch_value(_POSITION)
                values = {"logged": live.logged, "newest": live.newest, "limit": _BLOCK_TEXTS}
                changes = connection.fetch(_CHANGES, values)
            following = live.take_in(changes, beside_others=True)
            live = self._begin() if following is None else following
            if live is not None and live.is_too_large:
                self._too_large = position[1]
                _log.info("keyword searches use the index on disk: one in memory would be larger than the texts")
                return
            if following is not None and len(changes) < _MAX_FOLLOWED:
                self._live = replace(following, index=following.index.merge(), position=position)
                return

    def _begin(self) -> LiveIndex | None:
        """Return an empty index that follows from now on; None if it would become too large again."""
        with self._database.reading() as connection:
            logged, newest = connection.fetch_value(_POSITION)
        if newest < 2 * self._too_large:
            return None
        return LiveIndex(InvertedIndex.empty(len(INDEX_COLUMNS)), logged=logged)

    @property
    def _is_over(self) -> bool:
        return self._closed.is_set() or not threading.main_thread().is_alive()
