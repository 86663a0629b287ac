"""Run the chosen configurations, their legs and grep over a dataset."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from memorist.engine import Memorist
from memorist.evaluate.calibration import RelevanceCalibration, make_unanswerable_questions, measure_calibration
from memorist.evaluate.dataset import Dataset
from memorist.evaluate.indexing import IndexedDataset, Progress
from memorist.evaluate.runner import SystemResult, run_system
from memorist.evaluate.systems import GrepSystem, MemoristSystem, SearchConfig, System, add_legs

ProgressFactory = Callable[[str, int], AbstractContextManager[Progress]]  # (label, length)


@dataclass(frozen=True, slots=True)
class DatasetResult:
    """
    The results of all systems on a dataset.

    `chosen` names the systems that were asked for; the others are there for comparison. `calibration` is by system
    name.
    """

    dataset: Dataset
    systems: tuple[SystemResult, ...]
    chosen: tuple[str, ...]
    calibration: Mapping[str, RelevanceCalibration] = field(default_factory=dict)


@contextmanager
def _ignore_progress(label: str, length: int) -> Iterator[Progress]:
    yield lambda done: None


def evaluate_dataset(
    dataset: Dataset,
    configs: Sequence[SearchConfig],
    memory: Memorist,
    indexed: IndexedDataset | None = None,
    *,
    relevance: bool = False,
    progress: ProgressFactory = _ignore_progress,
) -> DatasetResult:
    """
    Ask all questions of grep, the legs of the configurations and the configurations themselves.

    With `relevance`, the configurations are also asked questions that have no answer.
    """
    searches = [MemoristSystem(config, memory, indexed) for config in add_legs(configs)]
    systems: list[System] = [GrepSystem(dataset.documents), *searches]
    results = {}
    for system in systems:
        with progress(f"{dataset.name}: {system.name}", len(dataset.questions)) as advance:
            results[system.name] = run_system(system, dataset.questions, advance)
    chosen = tuple(config.name for config in configs)
    calibration = {}
    if relevance and (questions := make_unanswerable_questions(dataset)):
        for search in searches:
            if search.name in chosen:
                with progress(f"{dataset.name}: {search.name}, without an answer", len(questions)) as advance:
                    unanswerable = run_system(search, questions, advance)
                calibration[search.name] = measure_calibration(results[search.name].answers, unanswerable.answers)
    return DatasetResult(dataset, tuple(results.values()), chosen, calibration)
