"""A cache of answers to filters, valid until something is written."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from memorist.arguments import Filter
from memorist.forks import renew_after_fork

_MOST_KEYS, _FILTER_KEYS = 500_000, 1_000  # of all filters together: 4 MB; a filter counts for so many
Answer = TypeVar("Answer")


class FilterCache(Generic[Answer]):
    """
    The cached answers to filters. Safe to share between threads.

    They are as of a mark of the database, which changes with everything that is written. Ask for the mark before you
    read an answer: what is written in between has another one.
    """

    def __init__(self, count_keys: Callable[[Answer], int]) -> None:
        self._count_keys = count_keys
        self._answers: dict[Filter, Answer] = {}
        self._mark: str | None = None
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, filter: Filter, mark: str) -> Answer | None:
        with self._lock:
            if self._mark != mark:
                self._answers, self._mark = {}, mark
            return self._answers.get(filter)

    def put(self, filter: Filter, answer: Answer, mark: str) -> None:
        size = self._size(answer)
        with self._lock:
            if self._mark == mark and size <= _MOST_KEYS:
                if sum(map(self._size, self._answers.values())) + size > _MOST_KEYS:
                    self._answers.clear()
                self._answers[filter] = answer

    def _size(self, answer: Answer) -> int:
        return _FILTER_KEYS + self._count_keys(answer)
