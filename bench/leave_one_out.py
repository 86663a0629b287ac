"""
Evaluate each dataset with options of `balanced` that were chosen without it (leave-one-out).

    python bench/leave_one_out.py DIR/locomo DIR/scifact DIR/cranfield ... -n 200 --cache DIR      a quarter of an hour

It shows whether the options fit only the datasets they were tuned on. Every option is tried by itself, with the others
at their defaults. For each dataset, each option gets the value that is best on average over the other datasets. The
loss against the defaults is what tuning on that dataset was worth. Indexed datasets are cached, as by `memorist eval`.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from memorist.embed.local import LocalEmbedder
from memorist.evaluate.dataset import Dataset, load_dataset
from memorist.evaluate.evaluation import MemoristSystem, parse_config, run_system
from memorist.evaluate.indexing import IndexedDataset, index_dataset
from memorist.profiles import PROFILES

CANDIDATE_VALUES: Mapping[str, tuple[float, ...]] = {
    "alpha": (0.6, 0.7, 0.8, 0.9),
    "assistant_factor": (0.7, 0.8, 0.9, 1.0),
    "expansion": (0.0, 0.25, 0.5, 1.0),
    "session_smoothing": (0.0, 0.1, 0.15, 0.25),
    "time_boost": (0.0, 0.35, 0.7, 1.0),
}
DEFAULTS = {option: float(getattr(PROFILES["balanced"], option)) for option in CANDIDATE_VALUES}

Options = Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET")
    parser.add_argument("-n", type=int, default=200, help="questions of each dataset, drawn at random (default: 200)")
    parser.add_argument("--cache", type=Path, required=True, help="where indexed datasets are kept")
    arguments = parser.parse_args()
    model = LocalEmbedder()
    evaluators = []
    for folder in arguments.datasets:
        dataset = load_dataset(folder).select_questions((), arguments.n, 0)
        evaluators.append(_Evaluator(dataset, index_dataset(dataset, model, arguments.cache)))
    print(f"{'':28}{'defaults':>12}{'chosen without it':>20}")
    for evaluator in evaluators:
        others = [other for other in evaluators if other is not evaluator]
        options = {option: _choose_value(option, others) for option in CANDIDATE_VALUES}
        changed = ", ".join(f"{option} {value:g}" for option, value in options.items() if value != DEFAULTS[option])
        scores = f"{evaluator.ndcg(DEFAULTS):>12.4f}{evaluator.ndcg(options):>20.4f}"
        print(f"{evaluator.name:28}{scores}   {changed}", flush=True)
    for evaluator in evaluators:
        evaluator.close()


def _choose_value(option: str, evaluators: "list[_Evaluator]") -> float:
    """Return the value that is best on average; of equal ones, the one nearest to the default."""

    def rate(value: float) -> tuple[float, float]:
        average = fmean(evaluator.ndcg({**DEFAULTS, option: value}) for evaluator in evaluators)
        return round(average, 4), -abs(value - DEFAULTS[option])

    return max(CANDIDATE_VALUES[option], key=rate)


class _Evaluator:
    """A dataset with the results for the options that were tried so far."""

    def __init__(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        self.name = dataset.name
        self._dataset, self._indexed = dataset, indexed
        self._results: dict[tuple[float, ...], float] = {}

    def ndcg(self, options: Options) -> float:
        key = tuple(options.values())
        if key not in self._results:
            # An alpha that is given would switch it off, and the defaults would not be the defaults.
            pairs = ",".join(["weigh_by_clarity=true", *(f"{option}={value:g}" for option, value in options.items())])
            system = MemoristSystem(parse_config(f"balanced:{pairs}", "hybrid"), self._indexed.memory, self._indexed)
            answers = run_system(system, self._dataset.questions).answers
            self._results[key] = fmean(answer.measures["ndcg@10"] for answer in answers)
        return self._results[key]

    def close(self) -> None:
        self._indexed.memory.close()


if __name__ == "__main__":
    main()
