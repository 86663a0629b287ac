"""What was measured, as data and as a table.

Runs that were kept, by name.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.calibration import RelevanceCalibration
from memorist.evaluate.dataset import Dataset
from memorist.evaluate.metrics import MEASURES, relevant
from memorist.evaluate.runner import QuestionResult, SystemResult
from memorist.evaluate.statistics import estimates
from memorist.present.render import count_of

FORMAT = 1  # of the data, as it is saved
SHOWN = 120  # characters of a document
_HEADINGS = ("nDCG@10", "R@5", "R@10", "MRR@10", "hit@5")

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """
    A set, the outcomes of all ways on it, and the names of those that were asked for: the others stand beside.

    `certainty` is how well a way knows what it does not know, by its name.
    """

    dataset: Dataset
    outcomes: tuple[SystemResult, ...]
    chosen: tuple[str, ...]
    certainty: Mapping[str, RelevanceCalibration] = field(default_factory=dict)


def data(measured: Sequence[Measured], *, version: str, embedder: str | None, seed: int) -> Data:
    """Everything: means with their intervals, by category, latency, and each answer."""
    return {
        "memorist_eval": FORMAT,
        "version": version,
        "embedder": embedder,
        "seed": seed,
        "sets": [_set(one, seed) for one in measured],
    }


def _set(measured: Measured, seed: int) -> Data:
    dataset = measured.dataset
    return {
        "name": dataset.name,
        "part": dataset.part,
        "documents": len(dataset.documents),
        "questions": len(dataset.questions),
        "left_out": len(dataset.unanswered),
        "chosen": list(measured.chosen),
        "ways": [_way(outcome, measured.certainty.get(outcome.name), seed) for outcome in measured.outcomes],
        "texts": _texts(measured),
    }


def figures(run: Data) -> Data:
    """The same without single answers."""
    return {
        **run,
        "sets": [
            {name: value for name, value in one.items() if name != "texts"}
            | {"ways": [{name: value for name, value in way.items() if name != "answers"} for way in one["ways"]]}
            for one in run["sets"]
        ],
    }


def _texts(measured: Measured) -> dict[str, str]:
    """How the documents begin that were found, or should have been."""
    spoken_of = {
        id
        for outcome in measured.outcomes
        for answer in outcome.answers
        for id in (*answer.found, *relevant(answer.question.judged))
    }
    return {
        one.id: " ".join(f"{one.title or ''} {one.text[: 2 * SHOWN]}".split())[:SHOWN]
        for one in measured.dataset.documents
        if one.id in spoken_of
    }


def _way(outcome: SystemResult, certainty: RelevanceCalibration | None, seed: int) -> Data:
    categories: dict[str, list[QuestionResult]] = {}
    for answer in outcome.answers:
        if answer.question.category is not None:
            categories.setdefault(answer.question.category, []).append(answer)
    return {
        "name": outcome.name,
        "measures": _measures(outcome.answers, seed),
        "categories": {
            name: {"questions": len(answers), "measures": _measures(answers, seed)}
            for name, answers in sorted(categories.items())
        },
        "latency_ms": _latency(outcome.answers),
        "certainty": asdict(certainty) if certainty else None,
        "degraded": list(outcome.degraded),
        "answers": [_answer(answer) for answer in outcome.answers],
    }


def _measures(answers: Sequence[QuestionResult], seed: int) -> Data:
    rows = [[answer.figures[measure] for measure in MEASURES] for answer in answers]
    return {name: asdict(one) for name, one in zip(MEASURES, estimates(rows, seed), strict=True)}


def _answer(answer: QuestionResult) -> Data:
    question = answer.question
    return {
        "id": question.id,
        "query": question.text,
        "category": question.category,
        "scope": question.scope,
        "relevant": {id: grade for id, grade in question.judged.items() if grade > 0},
        "found": list(answer.found),
        **answer.figures,
        "relevance": answer.relevance,
        "ms": None if answer.ms is None else round(answer.ms, 3),
    }


def _latency(answers: Sequence[QuestionResult]) -> Data:
    """Of all or of none: some of the questions would be another sample in every run."""
    times = [answer.ms for answer in answers if answer.ms is not None]
    whole = len(times) == len(answers)
    return {f"p{percent}": _percentile(times, percent) if whole else None for percent in (50, 95)}


def _percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return round(values[0], 3)
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 3)


def table(run: Data, *, categories: bool = True) -> list[str]:
    """The figures for people: a table a set, the chosen ways marked, and each category of questions below."""
    lines: list[str] = []
    for one in run["sets"]:
        lines += [*([""] if lines else []), *_table(one, categories)]
    return lines


def _table(one: Mapping[str, Any], categories: bool) -> list[str]:
    width = max(len(way["name"]) for way in one["ways"]) + 2
    part = f" ({one['part']})" if one["part"] else ""
    lines = [
        f"{one['name']}{part}: {about(one)}",
        f"{'':{width}}  {'nDCG@10':^19}{''.join(f'{name:>8}' for name in _HEADINGS[1:])}{'p50 ms':>10}{'p95 ms':>8}",
    ]
    for way in one["ways"]:
        mark = "* " if way["name"] in one["chosen"] else "  "
        latency = way["latency_ms"]
        times = f"{milliseconds(latency['p50']):>10}{milliseconds(latency['p95']):>8}"
        lines.append(f"{mark}{way['name']:{width - 2}}  {_figures(way['measures'])}{times}")
    for name in one["ways"][0]["categories"] if categories else ():
        count = one["ways"][0]["categories"][name]["questions"]
        lines.append(f"  {name}: {count_of(count, 'question')}")
        for way in one["ways"]:
            mark = "* " if way["name"] in one["chosen"] else "  "
            lines.append(f"{mark}{way['name']:{width - 2}}  {_figures(way['categories'][name]['measures'])}")
    return [*lines, *untimed(one["ways"]), *notes(one["ways"])]


def about(one: Mapping[str, Any]) -> str:
    """How big a set is."""
    left_out = f" ({one['left_out']} more without a judged answer left out)" if one["left_out"] else ""
    return f"{count_of(one['documents'], 'document')}, {count_of(one['questions'], 'question')}{left_out}"


def milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def untimed(ways: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why some have no latency."""
    return [
        f"Note: {way['name']}: not timed, as some was read before; `--rebuild` reads all of it again"
        for way in ways
        if way["latency_ms"]["p50"] is None
    ]


def notes(ways: Sequence[Mapping[str, Any]]) -> list[str]:
    """What else has to be known of the figures."""
    said = [f"Note: {way['name']}: {reason}" for way in ways for reason in way["degraded"]]
    for way in ways:
        if sure := way["certainty"]:
            said.append(
                f"{way['name']}: relevance tells {sure['without_answer']} questions without an answer from those with "
                f"one at AUC {sure['auc']:.3f}; at the floor of {sure['floor']:g}, {sure['false_answers']:.1%} of the "
                f"former are answered, and {sure['missed']:.1%} of the latter are not"
            )
    return said


def _figures(measures: Mapping[str, Mapping[str, float]]) -> str:
    main, *others = (measures[name] for name in MEASURES)
    interval = f"{main['mean']:.4f} [{main['low']:.3f} {main['high']:.3f}]"
    return interval + "".join(f"{one['mean']:>8.4f}" for one in others)


def save(run: dict[str, Any], name: str, cache: Path) -> Path:
    file = _file(name, cache)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(run, ensure_ascii=False), "utf-8")
    part.replace(file)
    return file


def is_saved(name: str, cache: Path) -> bool:
    return _file(name, cache).is_file()


def read(name: str, cache: Path) -> dict[str, Any]:
    file = _file(name, cache)
    if not file.is_file():
        raise NotFound(f"there is no run {name!r}; `memorist eval ... --save {name}` keeps one")
    try:
        run = json.loads(file.read_text("utf-8"))
    except ValueError as exc:
        raise InvalidInput(f"{file} is not JSON ({exc})") from exc
    if not isinstance(run, dict) or run.get("memorist_eval") != FORMAT:
        raise InvalidInput(f"{file} is no run that this version of `memorist eval` saved")
    return run


def _file(name: str, cache: Path) -> Path:
    """A file where the name is one; otherwise it is kept in the cache."""
    if name.endswith(".json"):
        return Path(name)
    if not name or Path(name).name != name:
        raise InvalidInput(f"{name!r} is no name for a run; a file's ends with .json")
    return cache / "runs" / f"{name}.json"
