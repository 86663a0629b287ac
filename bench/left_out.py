"""
Are the options of `balanced` only right for the sets they were looked at on? Each set, with options chosen without it.

    python bench/left_out.py DIR/locomo DIR/scifact DIR/cranfield ... -n 200        a quarter of an hour

Every option is tried by itself, the others as they are. For each set, the value of each option that is best on average
over the other sets is taken, and the set is asked with these values: what it loses against `balanced` as it is, is what
looking at it was worth. Indexed sets are kept in the cache, as by `memorist eval`.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from memorist.embed.local import LocalEmbedder
from memorist.evaluate.dataset import Dataset, load
from memorist.evaluate.indexing import Indexed, indexed
from memorist.evaluate.runner import run
from memorist.evaluate.systems import MemoristSystem, parsed
from memorist.profiles import PROFILES

TRIED: Mapping[str, tuple[float, ...]] = {
    "alpha": (0.2, 0.3, 0.4, 0.5, 0.6),
    "alpha_long": (0.4, 0.5, 0.65, 0.8),
    "expansion": (0.0, 0.25, 0.5, 1.0),
    "session_smoothing": (0.0, 0.1, 0.15, 0.25),
    "time_boost": (0.0, 0.35, 0.7, 1.0),
}
SHIPPED = {option: float(getattr(PROFILES["balanced"], option)) for option in TRIED}

Options = Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="DATASET")
    parser.add_argument("-n", type=int, default=200, help="questions of each set, drawn at random (default: 200)")
    parser.add_argument("--cache", type=Path, required=True, help="where indexed sets are kept")
    arguments = parser.parse_args()
    model = LocalEmbedder()
    asked = []
    for folder in arguments.sets:
        dataset = load(folder).narrowed((), arguments.n, 0)
        asked.append(_Asked(dataset, indexed(dataset, model, arguments.cache)))
    print(f"{'':28}{'as shipped':>12}{'chosen without it':>20}")
    for one in asked:
        others = [other for other in asked if other is not one]
        chosen = {option: _best(option, others) for option in TRIED}
        differs = ", ".join(f"{option} {value:g}" for option, value in chosen.items() if value != SHIPPED[option])
        print(f"{one.name:28}{one.ndcg(SHIPPED):>12.4f}{one.ndcg(chosen):>20.4f}   {differs}", flush=True)
    for one in asked:
        one.close()


def _best(option: str, others: "list[_Asked]") -> float:
    """The value that is best on average; of equals the one nearest to what is shipped."""

    def worth(value: float) -> tuple[float, float]:
        average = fmean(one.ndcg({**SHIPPED, option: value}) for one in others)
        return round(average, 4), -abs(value - SHIPPED[option])

    return max(TRIED[option], key=worth)


class _Asked:
    """One set, and what was measured of it already."""

    def __init__(self, dataset: Dataset, made: Indexed) -> None:
        self.name = dataset.name
        self._dataset, self._made = dataset, made
        self._known: dict[tuple[float, ...], float] = {}

    def ndcg(self, options: Options) -> float:
        key = tuple(options.values())
        if key not in self._known:
            given = ",".join(f"{option}={value:g}" for option, value in options.items())
            way = MemoristSystem(parsed(f"balanced:{given}", "hybrid"), self._made.memory, self._made)
            answers = run(way, self._dataset.questions).answers
            self._known[key] = fmean(answer.figures["ndcg@10"] for answer in answers)
        return self._known[key]

    def close(self) -> None:
        self._made.memory.close()


if __name__ == "__main__":
    main()
