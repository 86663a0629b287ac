"""What is kept in memory until something is written."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from memorist.forks import renew_after_fork
from memorist.records import Filter

_MOST_KEYS, _FILTER_KEYS = 500_000, 1_000  # kept of all filters together: 4 MB; a filter counts for so many
Answer = TypeVar("Answer")


class KeptAnswers(Generic[Answer]):
    """
    What was read for filters, until something is written: then the database has another mark. Safe to share.

    Ask for the mark before reading: what is written in between has another one.
    """

    def __init__(self, count_keys: Callable[[Answer], int]) -> None:
        self._count_keys = count_keys
        self._answers: dict[Filter, Answer] = {}
        self._mark: str | None = None
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def find(self, filter: Filter, mark: str) -> Answer | None:
        with self._lock:
            if self._mark != mark:
                self._answers, self._mark = {}, mark
            return self._answers.get(filter)

    def keep(self, filter: Filter, answer: Answer, mark: str) -> None:
        size = self._size(answer)
        with self._lock:
            if self._mark == mark and size <= _MOST_KEYS:
                if sum(map(self._size, self._answers.values())) + size > _MOST_KEYS:
                    self._answers.clear()
                self._answers[filter] = answer

    def _size(self, answer: Answer) -> int:
        return _FILTER_KEYS + self._count_keys(answer)
