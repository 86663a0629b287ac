"""
The image of a namespace in memory, which follows what any process writes.

It is made in a thread, once the searches of this process have cost enough for it to pay: a process that answers one
question never makes one. New memories are known by their rids, which only grow; the log `changes` has those that
changed or went. Both are in the order in which they were committed: the writers of one namespace wait for each other.
Whenever the image cannot be brought up to what is committed at once, the database answers a search, with the same
results.

SQLite tells by a mark if anything was written at all. A server is asked for the end of the log instead, in one round
trip. A standby may be behind what another server has told: then it answers by itself, as of its own moment.
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

IMAGE_BYTES = 1_000_000_000  # that the image of a namespace may take
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
    select l.seq, (l.what & {_OF_TEXT}) <> 0, l.rid, {IMAGE_COLUMNS}
    from changes l
    left join memories m on m.rid = l.rid and m.deleted_at is null and @plain(m.namespace) {_OWN}
    where l.seq > :logged and (l.what & {_OF_ROW}) <> 0
    order by l.seq limit :limit
"""
_NEW = f"""
    select cast(null as bigint), true, m.rid, {IMAGE_COLUMNS}
    from memories m
    where m.rid > :newest and m.deleted_at is null and @plain(m.namespace) {_OWN}
    order by m.rid limit :limit
"""
# In one statement, so that it sees one moment.
_CHANGES = f"select * from ({_CHANGED}) c union all select * from ({_NEW}) n"


class _Position(NamedTuple):
    """The end of the log, and the newest memory of the database."""

    first: int
    last: int
    newest: int
    has_strangers: bool

    def is_that_of(self, image: Image) -> bool:
        return (self.last, self.newest, bool(self.has_strangers)) == (image.logged, image.newest, image.has_strangers)

    def is_behind(self, image: Image) -> bool:
        """True of a server that lacks what the image has; where the newest memory was erased, the log says so."""
        return (self.last, self.newest) < (image.logged, image.newest)


def _take_in(image: Image, rows: Sequence[Sequence[Any]], position: _Position, *, beside_others: bool) -> Image | None:
    """Return an image with rows of `_CHANGES`; None if the log no longer reaches back far enough."""
    if position.first > image.logged + 1:
        return None
    changes = [
        RowChange(seq, bool(has_text), key, columns if columns[0] is not None else None)
        for seq, has_text, key, *columns in rows
        if seq is None or key <= image.newest  # a logged one that is newer than all here is read as a new one
    ]
    # What the database had come to before the rows were read is among them, unless they were too many at once.
    logged = [seq for seq, *_ in rows if seq is not None]
    new = [key for seq, _, key, *_ in rows if seq is None]
    limit = _BLOCK_ROWS if beside_others else _MAX_FOLLOWED
    following = image.take_in(changes, beside_others=beside_others) if changes else image
    return following.renew(
        has_strangers=bool(position.has_strangers),
        logged=logged[-1] if len(logged) >= limit else max([position.last, *logged[-1:]]),
        newest=new[-1] if len(new) >= limit else max([position.newest, *new[-1:]]),
    )


def _is_stale(image: Image) -> bool:
    """True if so many rows are dead that it should be made anew."""
    return image.index.dead > _MAX_DEAD_SHARE * image.index.count


class ImageFollower:
    """
    The image of a namespace and its files, once it pays.

    With `counts_apart`, the database counts the words of memories and of files apart from each other.
    """

    def __init__(self, database: Database, namespace: str, most_bytes: int, *, counts_apart: bool = False) -> None:
        self._database, self._most_bytes, self._counts_apart = database, most_bytes, counts_apart
        self._values = {"namespace": namespace, "files": namespace + CHUNK_SUFFIX}
        self._seen: Image | None = None
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
        return self._seen

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

    def refresh(self) -> Image | None:
        """Return the image as of what is committed now; None if there is none, or it cannot be had at once."""
        seen = self._seen
        if seen is None:
            return None
        # Asked before the changes are read: what is committed in between has another mark.
        mark = self._database.read_mark()
        if mark is not None and mark == seen.mark:
            return seen
        with self._database.reading() as connection:
            position = self._read_position(connection)
            if mark is None and position.is_that_of(seen):
                return seen
            with self._lock_soon() as is_locked:
                if not is_locked:
                    return None
                if self._seen is not seen:  # by another search, in the meantime
                    position = self._read_position(connection)
                if (seen := self._seen) is None or position.is_behind(seen):
                    return None
                image = self._follow(connection, seen, position)
                if image is not None:
                    self._seen = image = replace(image, mark=mark)
        if image is None or _is_stale(image):
            self._start()
        return image

    def _follow(self, connection: Connection, image: Image, position: _Position) -> Image | None:
        """Take in what was written since; None if that is too much to do at once."""
        if position.is_that_of(image):
            return image
        with without_limit():  # later searches share the work
            changes = self._read_changes(connection, image, _MAX_FOLLOWED)
            return None if len(changes) >= _MAX_FOLLOWED else _take_in(image, changes, position, beside_others=False)

    def _read_position(self, connection: Connection) -> _Position:
        return _Position(*connection.fetch_value(_POSITION, self._values))

    def _read_changes(self, connection: Connection, image: Image, limit: int) -> list[Any]:
        values = {"logged": image.logged, "newest": image.newest, "limit": limit}
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
            image = None if self._seen is None or _is_stale(self._seen) else self._seen
            if image is not None:
                self._seen = None  # what is brought up to date here must not be changed by others
        if image is None:
            image = self._begin()
        while image is not None and not self._is_over:
            mark = self._database.read_mark()
            with self._database.reading() as connection:
                position = self._read_position(connection)
                if position.is_behind(image):
                    return
                changes = self._read_changes(connection, image, _BLOCK_ROWS)
            following = _take_in(image, changes, position, beside_others=True)
            image = self._begin() if following is None else following
            if image is not None and image.nbytes > self._most_bytes:
                self._too_large = position.newest
                _log.info("searches ask the database: the image would take more than %d bytes", self._most_bytes)
                return
            if following is not None and len(changes) < _MAX_FOLLOWED:
                self._seen = replace(following, mark=mark, index=following.index.merge())
                return

    def _begin(self) -> Image | None:
        """Return an empty image that follows from now on; None if it would become too large again."""
        with self._database.reading() as connection:
            position = self._read_position(connection)
        if position.newest < 2 * self._too_large:
            return None
        return Image.empty(self._values["namespace"], logged=position.last, counts_apart=self._counts_apart)

    @property
    def _is_over(self) -> bool:
        return self._closed.is_set() or not threading.main_thread().is_alive()


class Followers:
    """The images of the namespaces of one database."""

    def __init__(self, database: Database, most_bytes: int, *, counts_apart: bool = False) -> None:
        self._database, self._most_bytes, self._counts_apart = database, most_bytes, counts_apart
        self._followers: dict[str, ImageFollower] = {}

    def follow(self, namespace: str) -> ImageFollower:
        """Return what makes the image of a namespace and its files, and keeps it up to date."""
        owner = namespace.removesuffix(CHUNK_SUFFIX)
        if owner not in self._followers:
            follower = ImageFollower(self._database, owner, self._most_bytes, counts_apart=self._counts_apart)
            self._followers.setdefault(owner, follower)
        return self._followers[owner]

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
