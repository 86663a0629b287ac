"""
Loans: connections lent for `with` blocks, and taken back also where the end of a block was skipped.

Ctrl-C raises an exception between any two lines, also before the first one of `__exit__`. Whoever keeps that exception,
as notebooks do, keeps what the functions on its way held: the loan, the connection, its transaction and its locks.

One thing is let go all the same. A `with` statement looks `__exit__` up before it enters, and holds what it was given
until the block has been left, in whatever way. So each statement is given an `__exit__` of its own, which nothing else
holds: once that is gone, the loan is over. A block of a generator lasts as long as the generator, also while that is
suspended.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, cast
from weakref import ref

from memorist.errors import StoreError

C = TypeVar("C")
Method = TypeVar("Method", bound=Callable[..., None])


class _HeldByBlock:
    """A method that is given to each `with` statement as an object of its own, on which the loan keeps an eye."""

    def __init__(self, method: Callable[..., None]) -> None:
        self._method = method

    def __get__(self, loan: "Loan[Any] | None", owner: type) -> Callable[..., None]:
        if loan is None:  # as `ExitStack` looks it up, to hold something else
            raise AttributeError("a connection is lent for a `with` block only")
        # Not a bound method, which Python takes apart as it calls it: this one is held until the call is over.
        given = partial(self._method, loan)
        loan._given = ref(given)
        return given


def _held_by_block(method: Method) -> Method:
    return cast(Method, _HeldByBlock(method))


class Loan(ABC, Generic[C]):
    """One connection, lent for a `with` block, and in a transaction if one is to begin."""

    _given: Callable[[], object] = staticmethod(lambda: None)

    @property
    def is_over(self) -> bool:
        """True if no `with` statement is in the block, on the way into it or out of it."""
        return self._given() is None

    def __enter__(self) -> C:
        # All of it within `try`: an exception that a signal raises between two lines must not leave a transaction open.
        try:
            return self._begin()
        except BaseException:
            self.end()
            raise

    @_held_by_block
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._commit()
        except Exception as exc:
            if translated := self._translate(exc):
                raise translated from exc
            raise
        finally:
            self.end()
        if error and (translated := self._translate(error)):
            raise translated from error

    @abstractmethod
    def _begin(self) -> C:
        """Borrow a connection and begin the transaction."""

    @abstractmethod
    def _commit(self) -> None:
        """Commit what the block has written, if it was to write."""

    @abstractmethod
    def end(self) -> None:
        """Give the connection back, out of any transaction; once more does nothing."""

    @abstractmethod
    def _translate(self, error: BaseException) -> StoreError | None:
        """Return the StoreError for an error of the driver's; None for any other."""


def take_back(loans: Iterable[Loan[Any]]) -> None:
    """End the loans whose blocks were left without it."""
    for loan in list(loans):
        if loan.is_over:
            loan.end()
