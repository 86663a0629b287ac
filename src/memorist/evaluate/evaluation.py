"""A measurement: every way beside each other, over the questions of a set."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from memorist.engine import Memorist
from memorist.evaluate.calibration import certainty, unanswerable
from memorist.evaluate.dataset import Dataset
from memorist.evaluate.indexing import Indexed
from memorist.evaluate.report import Measured
from memorist.evaluate.runner import Progress, run
from memorist.evaluate.systems import GrepSystem, MemoristSystem, SearchConfig, System, beside

Watched = Callable[[str, int], AbstractContextManager[Progress]]


@contextmanager
def unwatched(label: str, length: int) -> Iterator[Progress]:
    """For whoever does not want to know how far it is."""
    yield lambda done: None


def evaluate_dataset(
    dataset: Dataset,
    chosen: Sequence[SearchConfig],
    memory: Memorist,
    indexed: Indexed | None = None,
    *,
    relevance: bool = False,
    watched: Watched = unwatched,
) -> Measured:
    """
    What was chosen, its legs and grep, each over all questions; with `relevance`, what was chosen over questions that
    have no answer, too.
    """
    searches = [MemoristSystem(choice, memory, indexed) for choice in beside(chosen)]
    ways: list[System] = [GrepSystem(dataset.documents), *searches]
    outcomes = {}
    for way in ways:
        with watched(f"{dataset.name}: {way.name}", len(dataset.questions)) as progress:
            outcomes[way.name] = run(way, dataset.questions, progress)
    names = tuple(choice.name for choice in chosen)
    sure = {}
    if relevance and (without := unanswerable(dataset)):
        for way in searches:
            if way.name in names:
                with watched(f"{dataset.name}: {way.name}, without an answer", len(without)) as progress:
                    sure[way.name] = certainty(outcomes[way.name].answers, run(way, without, progress).answers)
    return Measured(dataset, tuple(outcomes.values()), names, sure)
