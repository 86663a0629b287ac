"""The vocabulary of a namespace, for suggesting corrections of a query: its list of words, kept in memory."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memorist.forks import renew_after_fork
from memorist.records import Term
from memorist.store.database import Connection
from memorist.text.spelling import Lexicon, max_typos
from memorist.text.tokenizer import find_unspaced_runs, fold

MAX_WORD_CHARACTERS = 40  # nobody types a longer word
QUICK_READ_SECONDS = 0.01  # a list that takes less to read is read whenever the index has changed
REREAD_FACTOR = 100  # a longer one is read again only after this many times as long as reading it took
MAX_COUNTED = 1000  # memories with a word; enough to tell the common from the rare
MAX_NEW_MEMORIES = 1000  # whose words are added to the list one by one
MAX_SPELT, MAX_SPELLINGS = 5, 10  # words whose spelling is looked up, and memories it is looked up in


class Vocabulary(ABC):
    """
    The words of the live memories of a namespace, and those similar to a misspelt one.

    The words of a new memory are known at once; those of a changed or restored one when the list is read again: at once
    in a small store, after some seconds in one of 100,000 memories.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._list = self._added = Lexicon()
        self._added_words: set[str] = set()
        self._state: Any = None  # of the index when the list was read
        self._newest = 0  # the newest memory whose words are in the list, or were added to it
        self._read_seconds = self._reread_at = 0.0

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _read_clock(self) -> float:
        """Return the time by which reading the list is measured, in seconds."""
        return time.monotonic()

    @abstractmethod
    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        """Return the terms that live memories contain: prefixes as they are, everything else by its stems."""

    @abstractmethod
    def _read_state(self, connection: Connection) -> tuple[Any, int]:
        """Return what every write to the index changes, and the newest memory."""

    @abstractmethod
    def _read_words(self, connection: Connection) -> str | None:
        """Return all words of the index, with spaces between them."""

    @abstractmethod
    def _read_new_words(self, connection: Connection, newest: int) -> Iterable[str]:
        """Return the words of memories newer than one."""

    @abstractmethod
    def _count_memories(self, connection: Connection, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of memories with each of the words that a memory of the namespace has, up to a limit."""

    @abstractmethod
    def _spell_as_stored(self, connection: Connection, words: Sequence[str]) -> list[str]:
        """Return words, the first few with the capitals and accents that the latest memories give them."""

    def find_similar(self, connection: Connection, word: str) -> list[str]:
        """Return the words with the fewest differences from a word, those of more memories first, spelt as stored."""
        plain = fold(word)
        if not 2 <= len(plain) <= MAX_WORD_CHARACTERS or find_unspaced_runs(plain):
            return []
        near = self._find_near(connection, plain, max_typos(plain))
        distances = {other: distance for other, distance in near.items() if not find_unspaced_runs(other)}
        if not distances:
            return []
        counts = self._count_memories(connection, list(distances))
        least = min((distances[other] for other in counts), default=0)
        nearest = (other for other in counts if distances[other] == least)
        return self._spell_as_stored(connection, sorted(nearest, key=lambda other: (-counts[other], other)))

    def _find_near(self, connection: Connection, word: str, distance: int) -> dict[str, int]:
        with self._lock:
            self._refresh(connection)
            listed, added = self._list, self._added
        return listed.find_near(word, distance) | added.find_near(word, distance)

    def _refresh(self, connection: Connection) -> None:
        """Take in what any process has written since the list was read."""
        state, newest = self._read_state(connection)
        if state == self._state:
            return
        is_due = self._read_seconds < QUICK_READ_SECONDS or time.monotonic() > self._reread_at
        if is_due or newest - self._newest > MAX_NEW_MEMORIES:
            self._read_list(connection)
            self._state = state
        elif newest > self._newest:
            words = self._read_new_words(connection, self._newest)
            self._added_words.update(word for word in words if 2 <= len(word) <= MAX_WORD_CHARACTERS)
            self._added = Lexicon(list(self._added_words))
        self._newest = newest

    def _read_list(self, connection: Connection) -> None:
        started = self._read_clock()
        words = self._read_words(connection)
        self._list, self._added, self._added_words = Lexicon(words.split(" ") if words else []), Lexicon(), set()
        self._read_seconds = self._read_clock() - started
        self._reread_at = time.monotonic() + REREAD_FACTOR * self._read_seconds
