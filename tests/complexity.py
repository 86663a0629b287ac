"""How the time of a task grows with its size, measured on a machine that may be busy."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Task = TypeVar("Task")


def grows_at_most(factor: float, seconds: Callable[[Task], float], small: Task, large: Task) -> bool:
    """
    Tell if a large task takes at most `factor` times as long as a small one.

    Other processes lengthen both alike where one runs right after the other; the first pair that is right will do.
    """
    with _without_collections():
        return any(seconds(large) < factor * max(seconds(small), 0.01) for _ in range(5))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the collector of garbage, which looks at all that other tests have left, out of what is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
