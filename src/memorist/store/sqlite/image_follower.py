"""
The image of a namespace in memory, which follows what any process writes.

It is made in a thread, once the searches of this process have cost enough for it to pay: a process that answers one
question never makes one. New memories are known by their rids, which only grow; the log `changes` has those that
changed or went. Whenever the image cannot be brought up to what is committed at once, the database answers a search,
with the same results.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from memorist.errors import StoreError
from memorist.forks import renew_after_fork
from memorist.store.database import Connection, Database
from memorist.store.documents import CHUNK_SUFFIX
from memorist.store.image import IMAGE_COLUMNS, Image, RowChange
from memorist.time_limit import without_limit

LOG_KEPT = 20_000  # changes that whoever follows may lag behind before it reads everything again
_PAYS_AFTER = 0.1  # seconds of the processor that searches took: making an image of some thousand texts takes as long
_BLOCK_ROWS = 1024  # read at a time: a fork and a closing wait for no more
_MAX_FOLLOWED = 300  # changes that a search takes in before it begins: some milliseconds
_MAX_DEAD_SHARE = 1 / 4  # of rows that were replaced or removed, before everything is read again
_LOCK_SECONDS = 0.05  # that a search waits for another one which takes in changes

_log = logging.getLogger("memorist.store")

_OF_ROW, _OF_TEXT, OF_VECTOR = 1, 2, 4  # what the log says of a change
_OWN = "in (:namespace, :files)"
# The first and last change in the log, the last rid, and if there are other namespaces.
_POSITION = """
    select coalesce((select min(seq) from changes), 0), coalesce((select max(seq) from changes), 0),
        coalesce((select max(rid) from memories), 0),
        exists (select 1 from memories where namespace < :namespace)
          or exists (select 1 from memories where namespace > :namespace and namespace < :files)
          or exists (select 1 from memories where namespace > :files)
"""
_CHANGED = f"""
    select l.seq, l.what & {_OF_TEXT}, l.rid, {IMAGE_COLUMNS}
    from changes l
    left join memories m on m.rid = l.rid and m.deleted_at is null and +m.namespace {_OWN}
    where l.seq > :logged and l.what & {_OF_ROW}
    order by l.seq limit :limit
"""
_NEW = f"""
    select null, 1, m.rid, {IMAGE_COLUMNS}
    from memories m
    where m.rid > :newest and m.deleted_at is null and +m.namespace {_OWN}
    order by m.rid limit :limit
"""
# In one statement, so that it sees one moment.
_CHANGES = f"select * from ({_CHANGED}) union all select * from ({_NEW})"


def shorten_log(connection: Connection) -> None:
    """
    Drop changes that nobody follows any more, many at once: whoever lags behind further reads everything again.

    A write that drops one would write to one more page of the file.
    """
    connection.execute(
        f"""
        delete from changes
        where seq <= (select max(seq) from changes) - {LOG_KEPT}
          and (select min(seq) from changes) <= (select max(seq) from changes) - {LOG_KEPT} * 21 / 20
        """
    )


class _Position(NamedTuple):
    """The end of the log, and the newest memory of the database."""

    first: int
    last: int
    newest: int
    has_strangers: bool


class _Followed(NamedTuple):
    """An image, and how far it has followed: the last change, and the largest rid."""

    image: Image
    logged: int
    newest: int

    def take_in(self, rows: Sequence[Sequence[Any]], position: _Position, *, beside_others: bool) -> "_Followed | None":
        """Return the image with rows of `_CHANGES`; None if the log no longer reaches back far enough."""
        if position.first > self.logged + 1:
            return None
        changes = [
            RowChange(seq, bool(has_text), key, columns if columns[0] is not None else None)
            for seq, has_text, key, *columns in rows
            if seq is None or key <= self.newest  # a logged one that is newer than all here is read as a new one
        ]
        # What the database had come to before the rows were read is among them, unless they were too many at once.
        logged = [seq for seq, *_ in rows if seq is not None]
        new = [key for seq, _, key, *_ in rows if seq is None]
        image = self.image.take_in(changes, beside_others=beside_others) if changes else self.image
        return _Followed(
            image.renew(has_strangers=position.has_strangers),
            logged[-1] if len(logged) >= _limit(beside_others) else max([position.last, *logged[-1:]]),
            new[-1] if len(new) >= _limit(beside_others) else max([position.newest, *new[-1:]]),
        )

    @property
    def is_stale(self) -> bool:
        """True if so many rows are dead that it should be made anew."""
        return self.image.index.dead > _MAX_DEAD_SHARE * self.image.index.count


def _limit(beside_others: bool) -> int:
    return _BLOCK_ROWS if beside_others else _MAX_FOLLOWED


class ImageFollower:
    """The image of a namespace and its files, once it pays."""

    def __init__(self, database: Database, namespace: str, most_bytes: int) -> None:
        self._database, self._most_bytes = database, most_bytes
        self._values = {"namespace": namespace, "files": namespace + CHUNK_SUFFIX}
        self._seen: tuple[str | None, _Followed] | None = None  # with the mark that the database had
        self._spent = 0.0  # seconds since there is no image
        self._too_large = 0  # the newest rid when an image was larger than is granted
        self._closed = threading.Event()
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a child, which has no other thread; an image is whole at any time, and stays."""
        self._writing = threading.RLock()  # Ctrl-C may leave it held: then not against its own thread
        self._thread: threading.Thread | None = None

    @property
    def image(self) -> Image | None:
        """The image as it was when it was last asked for."""
        return self._seen[1].image if self._seen else None

    def close(self) -> None:
        """End the thread. Closing twice is fine."""
        self._closed.set()
        if (thread := self._thread) is not None:
            thread.join()

    def charge(self, seconds: float) -> None:
        """Count the time that a search took without the image, and begin to make it once that pays."""
        self._spent += seconds
        if self._spent >= _PAYS_AFTER and self._most_bytes:
            self._start()

    def refresh(self, mark: str) -> Image | None:
        """
        Return the image as of what is committed now; None if there is none, or if too much has changed.

        The database has had this mark before: what is committed in between has another one.
        """
        seen = self._seen
        if seen is None:
            return None
        if seen[0] == mark:
            return seen[1].image
        followed = None
        with self._lock_soon() as is_locked:
            if is_locked:
                followed = self._follow(mark)
        if is_locked and (followed is None or followed.is_stale):
            self._start()
        return followed.image if followed else None

    def _follow(self, mark: str) -> _Followed | None:
        """Take in what was written since; None if that is too much to do at once."""
        if self._seen is None:
            return None
        _, followed = self._seen
        with without_limit(), self._database.reading() as connection:
            position = self._read_position(connection)
            behind = (followed.logged, followed.newest, followed.image.has_strangers)
            if behind != (position.last, position.newest, position.has_strangers):
                changes = self._read_changes(connection, followed, _MAX_FOLLOWED)
                if len(changes) >= _MAX_FOLLOWED:
                    return None
                following = followed.take_in(changes, position, beside_others=False)
                if following is None:
                    return None
                followed = following
        self._seen = mark, followed
        return followed

    def _read_position(self, connection: Connection) -> _Position:
        return _Position(*connection.fetch_value(_POSITION, self._values))

    def _read_changes(self, connection: Connection, followed: _Followed, limit: int) -> list[Any]:
        values = {"logged": followed.logged, "newest": followed.newest, "limit": limit}
        return connection.fetch(_CHANGES, self._values | values)

    @contextmanager
    def _lock_soon(self) -> Iterator[bool]:
        """Hold the lock that whoever changes the image holds, if it can be had soon."""
        is_locked = self._writing.acquire(timeout=_LOCK_SECONDS)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._writing.release()

    def _start(self) -> None:
        """Make the image, or bring it up to date, in a thread."""
        with self._lock_soon() as is_locked:
            if not is_locked or self._thread is not None or self._closed.is_set():
                return
            # No daemon: it would be cut off within SQLite when the process ends.
            thread = threading.Thread(target=self._run, name="memorist-image")
            try:
                thread.start()
                self._thread = thread
            except RuntimeError as exc:  # no thread available
                _log.warning("searches stay slower than they could be: %s", exc)

    def _run(self) -> None:
        try:
            self.build()
        except StoreError as exc:  # it was closed, or is damaged, as searches will say
            _log.debug("no image of the memories was made: %s", exc)
        finally:
            self._spent, self._thread = 0.0, None

    def build(self) -> None:
        """Make the image; one that is merely behind is brought up to date."""
        with self._lock_soon() as is_locked:
            if not is_locked:
                return
            seen = self._seen
            followed = None if seen is None or seen[1].is_stale else seen[1]
            if followed is not None:
                self._seen = None  # what is brought up to date here must not be changed by others
        if followed is None:
            followed = self._begin()
        while followed is not None and not self._is_over:
            mark = self._database.read_mark()
            with self._database.reading() as connection:
                position = self._read_position(connection)
                changes = self._read_changes(connection, followed, _BLOCK_ROWS)
            following = followed.take_in(changes, position, beside_others=True)
            followed = self._begin() if following is None else following
            if followed is not None and followed.image.nbytes > self._most_bytes:
                self._too_large = position.newest
                _log.info("searches ask the database: the image would take more than %d bytes", self._most_bytes)
                return
            if following is not None and len(changes) < _MAX_FOLLOWED:
                image = following.image
                self._seen = mark, following._replace(image=replace(image, index=image.index.merge()))
                return

    def _begin(self) -> _Followed | None:
        """Return an empty image that follows from now on; None if it would become too large again."""
        with self._database.reading() as connection:
            position = self._read_position(connection)
        if position.newest < 2 * self._too_large:
            return None
        return _Followed(Image.empty(self._values["namespace"]), position.last, 0)

    @property
    def _is_over(self) -> bool:
        return self._closed.is_set() or not threading.main_thread().is_alive()
