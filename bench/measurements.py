"""Time tasks in turns, and compare each measurement with its baseline as a ratio."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_WAITED = Path("/proc/self/schedstat")  # of the main thread: nanoseconds on a processor, and waiting for one
KNOWS_WAITED = _WAITED.exists()
_WAITED_FILE = os.open(_WAITED, os.O_RDONLY) if KNOWS_WAITED else None  # kept open: it is read every millisecond


def read_waited() -> float:
    """Return the seconds for which the main thread was ready to run and had no processor; 0 where nothing tells."""
    return 0.0 if _WAITED_FILE is None else int(os.pread(_WAITED_FILE, 100, 0).split()[1]) / 1e9


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The median and the 95th percentile of some values."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Percentiles":
        p50, p95 = np.percentile(values, (50, 95))
        return cls(float(p50), float(p95))


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    A measurement and its baseline.

    `target` and `target_p95` are limits for the ratio at p50 and p95: upper ones, or lower ones with
    `higher_is_better`.
    """

    section: str
    size: int
    name: str
    value: Percentiles
    baseline_name: str
    baseline: Percentiles
    unit: str = "ms"
    target: float | None = None
    target_p95: float | None = None
    higher_is_better: bool = False

    @property
    def ratio(self) -> Percentiles:
        """p50 divided by the baseline's p50, and p95 by its p95."""
        return Percentiles(self.value.p50 / self.baseline.p50, self.value.p95 / self.baseline.p95)

    @property
    def target_met(self) -> bool | None:
        """True if every target is met; None if there is no target."""
        pairs = [(self.ratio.p50, self.target), (self.ratio.p95, self.target_p95)]
        met = [
            ratio >= target if self.higher_is_better else ratio <= target
            for ratio, target in pairs
            if target is not None
        ]
        return all(met) if met else None

    def as_json(self) -> dict[str, Any]:
        return {
            "section": self.section,
            "size": self.size,
            "what": self.name,
            "unit": self.unit,
            "p50": self.value.p50,
            "p95": self.value.p95,
            "against": self.baseline_name,
            "against_p50": self.baseline.p50,
            "against_p95": self.baseline.p95,
            "ratio_p50": self.ratio.p50,
            "ratio_p95": self.ratio.p95,
            "target_p50": self.target,
            "target_p95": self.target_p95,
            "met": self.target_met,
        }


def time_in_turns(
    tasks: Mapping[str, Callable[[int], object]],
    items: int,
    passes: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Percentiles]:
    """
    Time every task on every item 0..items-1 in milliseconds, so that other load affects all tasks alike.

    At each step the tasks are at different items and take turns in going first, so that none finds caches warmed by
    another task's work on the same item. Each item is done `passes` times and its shortest time counts: on a busy
    machine that is the only time that can be reproduced.
    """
    times: dict[str, list[list[float]]] = {name: [[] for _ in range(items)] for name in tasks}
    names = list(tasks)
    for step in range(items * passes):
        for turn in range(len(names)):
            position = (step + turn) % len(names)
            item = (step + position * items // len(names)) % items
            started = clock()
            tasks[names[position]](item)
            times[names[position]][item].append((clock() - started) * 1000)
    return {name: Percentiles.of([min(item_times) for item_times in by_item]) for name, by_item in times.items()}


def format_size(size: int) -> str:
    """Format 10000 as 10k, 1000000 as 1M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def format_table(comparisons: Sequence[Comparison]) -> str:
    """Return a table of comparisons, grouped by section."""
    headings = ("size", "what", "ratio p50", "p95", "p50", "p95", "unit", "against", "p50", "p95", "target")
    rows = [headings, *map(_format_cells, comparisons)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    left_aligned = {0, 1, 6, 7, 10}
    lines, section = [], None
    for comparison, row in zip([None, *comparisons], rows, strict=True):
        if comparison and comparison.section != section:
            section = comparison.section
            lines += ["", section]
        cells = (
            cell.ljust(width) if column in left_aligned else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _format_cells(comparison: Comparison) -> tuple[str, ...]:
    ratio, value, baseline = comparison.ratio, comparison.value, comparison.baseline
    decimals = 4 if comparison.unit == "share" else 2  # a recall of .99 is not one of .994
    ratio_p50, ratio_p95, *numbers = (
        _format_number(number, decimals)
        for number in (ratio.p50, ratio.p95, value.p50, value.p95, baseline.p50, baseline.p95)
    )
    return (
        format_size(comparison.size), comparison.name, f"{ratio_p50}x", f"{ratio_p95}x", *numbers[:2], comparison.unit,
        comparison.baseline_name, *numbers[2:], _format_target(comparison),
    )  # fmt: skip


def _format_target(comparison: Comparison) -> str:
    if comparison.target_met is None:
        return ""
    sign = ">=" if comparison.higher_is_better else "<="
    targets = [f"{sign} {comparison.target:g}x"] if comparison.target is not None else []
    if comparison.target_p95 is not None:
        targets.append(f"p95 {sign} {comparison.target_p95:g}x")
    return f"{', '.join(targets)}: {'met' if comparison.target_met else 'MISSED'}"


def _format_number(value: float, decimals: int) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.{decimals}f}"
