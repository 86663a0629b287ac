"""Times taken turn by turn, and the figures made of them: every one a ratio, with both sides beside it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some measurements, and their 95th percentile."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        p50, p95 = np.percentile(values, (50, 95))
        return cls(float(p50), float(p95))


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing against another. `target` is for p50, `target_p95` for p95; `more` where more is better."""

    section: str
    size: int
    what: str
    value: Spread
    against: str
    base: Spread
    unit: str = "ms"
    target: float | None = None
    target_p95: float | None = None
    more: bool = False

    @property
    def ratio(self) -> Spread:
        """p50 by p50, and p95 by p95."""
        return Spread(self.value.p50 / self.base.p50, self.value.p95 / self.base.p95)

    @property
    def met(self) -> bool | None:
        """Whether each target is met; None where there is none."""
        pairs = [(self.ratio.p50, self.target), (self.ratio.p95, self.target_p95)]
        reached = [ratio >= wanted if self.more else ratio <= wanted for ratio, wanted in pairs if wanted is not None]
        return all(reached) if reached else None

    def as_json(self) -> dict[str, Any]:
        return {
            "section": self.section,
            "size": self.size,
            "what": self.what,
            "unit": self.unit,
            "p50": self.value.p50,
            "p95": self.value.p95,
            "against": self.against,
            "against_p50": self.base.p50,
            "against_p95": self.base.p95,
            "ratio_p50": self.ratio.p50,
            "ratio_p95": self.ratio.p95,
            "target_p50": self.target,
            "target_p95": self.target_p95,
            "met": self.met,
        }


def interleave(tasks: Mapping[str, Callable[[int], object]], items: int, passes: int = 1) -> dict[str, Spread]:
    """
    Time every task on every item 0..items-1, in turns, so that what else the machine does falls on all alike.

    At each step the tasks are at different items, and take turns in going first: none finds the caches warmed by
    another's work on the same item. Each item is done `passes` times and counts with the shortest, in milliseconds:
    what it takes where nothing else gets in the way, which on a busy machine is the only figure that comes out twice.
    """
    times: dict[str, list[list[float]]] = {name: [[] for _ in range(items)] for name in tasks}
    names = list(tasks)
    for step in range(items * passes):
        for turn in range(len(names)):
            place = (step + turn) % len(names)
            item = (step + place * items // len(names)) % items
            started = time.perf_counter()
            tasks[names[place]](item)
            times[names[place]][item].append((time.perf_counter() - started) * 1000)
    return {name: Spread.of([min(taken) for taken in done]) for name, done in times.items()}


def short(size: int) -> str:
    """10000 as 10k, 1000000 as 1M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def table(figures: Sequence[Figure]) -> str:
    """The figures under their sections, for reading."""
    heads = ("size", "what", "ratio p50", "p95", "p50", "p95", "unit", "against", "p50", "p95", "target")
    rows = [heads, *map(_cells, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    left = {0, 1, 6, 7, 10}
    lines, section = [], None
    for figure, row in zip([None, *figures], rows, strict=True):
        if figure and figure.section != section:
            section = figure.section
            lines += ["", section]
        cells = (
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _cells(figure: Figure) -> tuple[str, ...]:
    ratio = figure.ratio
    numbers = (ratio.p50, ratio.p95, figure.value.p50, figure.value.p95, figure.base.p50, figure.base.p95)
    exact = 4 if figure.unit == "share" else 2  # .99 and .994 are two things where a share is asked for
    by_p50, by_p95, *others = (_round(number, exact) for number in numbers)
    return (
        short(figure.size), figure.what, f"{by_p50}x", f"{by_p95}x", *others[:2], figure.unit, figure.against,
        *others[2:], _target(figure),
    )  # fmt: skip


def _target(figure: Figure) -> str:
    if figure.met is None:
        return ""
    sign = ">=" if figure.more else "<="
    wanted = [f"{sign} {figure.target:g}x"] if figure.target is not None else []
    if figure.target_p95 is not None:
        wanted.append(f"p95 {sign} {figure.target_p95:g}x")
    return f"{', '.join(wanted)}: {'met' if figure.met else 'MISSED'}"


def _round(value: float, decimals: int) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.{decimals}f}"
