"""How the time of a task grows with its size, measured on a machine that may be busy."""

from collections.abc import Callable
from typing import TypeVar

Task = TypeVar("Task")


def grows_at_most(factor: float, seconds: Callable[[Task], float], small: Task, large: Task) -> bool:
    """
    Tell if a large task takes at most `factor` times as long as a small one.

    Other processes lengthen a run, also its time of the processor, and never shorten it: the shortest counts.
    """
    longest = factor * max(min(seconds(small) for _ in range(3)), 0.01)
    return any(seconds(large) < longest for _ in range(5))  # the first that is short enough will do
