"""Evaluation runs as JSON: build, compare, save and load them, and print them as tables."""

import json
import math
import stat
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from memorist.atomic_file import write_atomically
from memorist.errors import InvalidInput, MemoristError, NotFound
from memorist.evaluate.evaluation import DatasetResult, QuestionResult, RelevanceCalibration, SystemResult
from memorist.evaluate.metrics import MAIN_MEASURE, MEASURES, estimate_difference, estimate_means, relevant_ids
from memorist.present.render import count_of
from memorist.views import EvalResult, EvalRun

_RUN_FORMAT = 1  # version of the JSON of a saved run
_MAX_TEXT_CHARACTERS = 120  # of a document, in a saved run
_MAX_RUN_BYTES = 32 << 20  # of one that is listed with others
_MAX_LINE_CHARACTERS = 110  # of a question or a document, in a table
_ROUNDING_ERROR = 1e-9
_HEADINGS = ("nDCG@10", "R@5", "R@10", "MRR@10", "hit@5")

JsonObject = dict[str, Any]


def build_run(results: Sequence[DatasetResult], *, version: str, embedder: str | None, seed: int) -> JsonObject:
    """Return all results: means with their intervals, by category, latency, and each answer."""
    return {
        "memorist_eval": _RUN_FORMAT,
        "version": version,
        "embedder": embedder,
        "seed": seed,
        "sets": [_set_json(result, seed) for result in results],
    }


def drop_answers(run: JsonObject) -> JsonObject:
    """Return the run without single answers and the texts of documents."""
    sets = [
        _without(set_json, "texts") | {"ways": [_without(system, "answers") for system in set_json["ways"]]}
        for set_json in run["sets"]
    ]
    return run | {"sets": sets}


def _without(values: JsonObject, left_out: str) -> JsonObject:
    return {name: value for name, value in values.items() if name != left_out}


def _set_json(result: DatasetResult, seed: int) -> JsonObject:
    dataset = result.dataset
    return {
        "name": dataset.name,
        "part": dataset.split,
        "documents": len(dataset.documents),
        "questions": len(dataset.questions),
        "left_out": len(dataset.unanswered),
        "chosen": list(result.chosen),
        "ways": [_system_json(system, result.calibration.get(system.name), seed) for system in result.systems],
        "texts": _document_texts(result),
    }


def _document_texts(result: DatasetResult) -> dict[str, str]:
    """Return the beginnings of the documents that were found or are relevant."""
    mentioned = {
        id
        for system in result.systems
        for answer in system.answers
        for id in (*answer.found, *relevant_ids(answer.question.judgements))
    }
    return {
        document.id: " ".join(f"{document.title or ''} {document.text[: 2 * _MAX_TEXT_CHARACTERS]}".split())[
            :_MAX_TEXT_CHARACTERS
        ]
        for document in result.dataset.documents
        if document.id in mentioned
    }


def _system_json(system: SystemResult, calibration: RelevanceCalibration | None, seed: int) -> JsonObject:
    categories: dict[str, list[QuestionResult]] = {}
    for answer in system.answers:
        if answer.question.category is not None:
            categories.setdefault(answer.question.category, []).append(answer)
    return {
        "name": system.name,
        "measures": _measures_json(system.answers, seed),
        "categories": {
            name: {"questions": len(answers), "measures": _measures_json(answers, seed)}
            for name, answers in sorted(categories.items())
        },
        "latency_ms": _latency_json(system.answers),
        "certainty": to_builtins(calibration) if calibration else None,
        "degraded": list(system.degraded),
        "answers": [_answer_json(answer) for answer in system.answers],
    }


def _measures_json(answers: Sequence[QuestionResult], seed: int) -> JsonObject:
    rows = [[answer.measures[measure] for measure in MEASURES] for answer in answers]
    return {name: to_builtins(estimate) for name, estimate in zip(MEASURES, estimate_means(rows, seed), strict=True)}


def _answer_json(answer: QuestionResult) -> JsonObject:
    question = answer.question
    return {
        "id": question.id,
        "query": question.text,
        "category": question.category,
        "scope": question.scope,
        "relevant": {id: grade for id, grade in question.judgements.items() if grade > 0},
        "found": list(answer.found),
        **answer.measures,
        "relevance": answer.relevance,
        "ms": None if answer.ms is None else round(answer.ms, 3),
    }


def _latency_json(answers: Sequence[QuestionResult]) -> JsonObject:
    """Return percentiles only if every answer was timed: the timed ones alone would be a different sample each run."""
    times = [answer.ms for answer in answers if answer.ms is not None]
    complete = len(times) == len(answers)
    return {f"p{percent}": _percentile(times, percent) if complete else None for percent in (50, 95)}


def _percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return round(values[0], 3)
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 3)


def format_run(run: JsonObject) -> list[str]:
    """Return the lines of a table for each set; the chosen systems are marked, categories of questions follow."""
    lines: list[str] = []
    for set_json in run["sets"]:
        lines += [*([""] if lines else []), *_format_set(set_json)]
    return lines


def _format_set(set_json: Mapping[str, Any]) -> list[str]:
    systems, chosen = set_json["ways"], set_json["chosen"]
    width = max(len(system["name"]) for system in systems)
    labels = [f"{'*' if system['name'] in chosen else ' '} {system['name']:{width}}  " for system in systems]
    lines = [
        f"{set_title(set_json)}: {describe_set(set_json)}",
        f"{'':{width + 4}}{'nDCG@10':^19}{''.join(f'{name:>8}' for name in _HEADINGS[1:])}{'p50 ms':>10}{'p95 ms':>8}",
    ]
    for label, system in zip(labels, systems, strict=True):
        p50, p95 = (format_milliseconds(system["latency_ms"][name]) for name in ("p50", "p95"))
        lines.append(f"{label}{_format_measures(system['measures'])}{p50:>10}{p95:>8}")
    for name, category in systems[0]["categories"].items():
        lines.append(f"  {name}: {count_of(category['questions'], 'question')}")
        for label, system in zip(labels, systems, strict=True):
            lines.append(f"{label}{_format_measures(system['categories'][name]['measures'])}")
    return [*lines, *latency_notes(systems), *system_notes(systems)]


def _format_measures(measures: Mapping[str, Mapping[str, float]]) -> str:
    main, *others = (measures[name] for name in MEASURES)
    interval = f"{main['mean']:.4f} [{main['low']:.3f} {main['high']:.3f}]"
    return interval + "".join(f"{measure['mean']:>8.4f}" for measure in others)


def set_title(set_json: Mapping[str, Any]) -> str:
    """The name of a set with its split."""
    return f"{set_json['name']} ({set_json['part']})" if set_json["part"] else str(set_json["name"])


def describe_set(set_json: Mapping[str, Any]) -> str:
    """Return the size of a set in words."""
    left_out = f" ({set_json['left_out']} more without a judged answer left out)" if set_json["left_out"] else ""
    return f"{count_of(set_json['documents'], 'document')}, {count_of(set_json['questions'], 'question')}{left_out}"


def format_milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def latency_notes(systems: Sequence[Mapping[str, Any]]) -> list[str]:
    """Explain a missing latency."""
    return [
        f"Note: {system['name']}: not timed, because some reranker scores were cached; `--rebuild` computes them again"
        for system in systems
        if system["latency_ms"]["p50"] is None
    ]


def system_notes(systems: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why answers were degraded, and how well relevance is calibrated."""
    notes = [f"Note: {system['name']}: {reason}" for system in systems for reason in system["degraded"]]
    for system in systems:
        if calibration := system["certainty"]:
            missed_first = calibration.get("missed_first")  # runs of earlier versions have neither this nor categories
            notes.append(
                f"{system['name']}: relevance separates questions with an answer from "
                f"{calibration['without_answer']} without one at AUC {calibration['auc']:.3f}; at the threshold of "
                f"{calibration['floor']:g}, {calibration['false_answers']:.1%} of those without one count as answered "
                f"and {calibration['missed']:.1%} of those with one as unanswered"
                + ("" if missed_first is None else f" ({missed_first:.1%} though the answer was found first)")
            )
            notes += [
                f"  {name}: {part['without_answer']} without an answer, AUC {part['auc']:.3f}, "
                f"{part['false_answers']:.1%} count as answered"
                for name, part in calibration.get("categories", {}).items()
            ]
    return notes


def save_run(run: JsonObject, name: str, cache: Path) -> Path:
    """Save a run and return its file."""
    file = _run_file(name, cache)
    write_atomically(file, json.dumps(run, ensure_ascii=False).encode(), private=True)
    return file


def is_saved_run(name: str, cache: Path) -> bool:
    """Return whether a run of that name was saved."""
    return _run_file(name, cache).is_file()


def list_runs(cache: Path, limit: int = 30) -> list[EvalRun]:
    """
    Return the runs that were saved last under a name, the earliest first.

    Files that are no runs are left out, as are those that are too large to be read for a few numbers.
    """
    found = []
    for file in (cache / "runs").glob("*.json"):
        with suppress(OSError):  # it has been removed meanwhile
            state = file.stat()
            if stat.S_ISREG(state.st_mode) and state.st_size <= _MAX_RUN_BYTES:
                found.append((state.st_mtime_ns, str(file), state.st_size))
    runs = []
    for key in sorted(found)[-limit:]:
        with suppress(OSError):
            if run := _summarise_run(*key):
                runs.append(run)
    return runs


@lru_cache(100)
def _summarise_run(changed: int, path: str, size: int) -> EvalRun | None:
    """Return the numbers of a run that are shown; they are kept, for the file has each answer as well."""
    file = Path(path)
    saved_at = datetime.fromtimestamp(changed / 1e9, UTC)
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoristError):
        run = load_run(path, file.parent)
        results = tuple(
            EvalResult(str(set_json["name"]), str(system["name"]), *values)
            for set_json in run["sets"]
            for system in set_json["ways"]
            if (numbers := system["measures"].get(MAIN_MEASURE))
            and all(map(math.isfinite, values := [float(numbers[name]) for name in ("mean", "low", "high")]))
        )
        return EvalRun(file.stem, saved_at, str(run["version"]), MAIN_MEASURE, results)
    return None


def load_run(name: str, cache: Path) -> JsonObject:
    """Read a saved run."""
    file = _run_file(name, cache)
    if not file.is_file():
        raise NotFound(f"there is no saved run {name!r}; `memorist eval ... --save {name}` saves one")
    try:
        run = json.loads(file.read_text("utf-8"))
    except ValueError as exc:
        raise InvalidInput(f"{file} is not valid JSON ({exc})") from exc
    if not isinstance(run, dict) or run.get("memorist_eval") != _RUN_FORMAT:
        raise InvalidInput(f"{file} is not a run that this version of `memorist eval` saved")
    return run


def _run_file(name: str, cache: Path) -> Path:
    """Return the file of a run: the name itself if it ends with .json, else a file in the cache folder."""
    if name.endswith(".json"):
        return Path(name)
    if not name or Path(name).name != name:
        raise InvalidInput(f"{name!r} cannot be the name of a run; use a plain name, or a path that ends with .json")
    return cache / "runs" / f"{name}.json"


# Comparing two runs question by question


def choose_system(run: Mapping[str, Any], name: str | None = None) -> str:
    """Return the name of the system to compare: the given one, or the only one that was chosen for the run."""
    chosen = list(dict.fromkeys(system for set_json in run["sets"] for system in set_json["chosen"]))
    if name is None and len(chosen) != 1:
        raise InvalidInput(
            f"the run has several profiles to compare: {', '.join(chosen)}; save a run with a single profile"
        )
    return name or chosen[0]


def compare_runs(
    before: Mapping[str, Any], system_before: str, after: Mapping[str, Any], system_after: str, seed: int
) -> list[JsonObject]:
    """Compare a system of one run with a system of another, for each set that both have."""
    comparisons = [
        _compare_sets(set_before, system_before, set_after, system_after, seed)
        for set_before in before["sets"]
        for set_after in after["sets"]
        if (set_before["name"], set_before["part"]) == (set_after["name"], set_after["part"])
    ]
    if not comparisons:
        raise NotFound("the two runs share no set: there is nothing to compare")
    return comparisons


def _compare_sets(
    before: Mapping[str, Any], system_before: str, after: Mapping[str, Any], system_after: str, seed: int
) -> JsonObject:
    systems = _find_system(before, system_before), _find_system(after, system_after)
    old, new = ({answer["id"]: answer for answer in system["answers"]} for system in systems)
    shared = [id for id in old if id in new]
    if not shared:
        raise NotFound(f"the two runs share no question of {before['name']}")
    changes = sorted(
        (_compare_answers(old[id], new[id]) for id in shared), key=lambda change: -abs(change["difference"])
    )
    return {
        "name": before["name"],
        "part": before["part"],
        "before": system_before,
        "after": system_after,
        "questions": len(shared),
        "measures": {
            measure: _compare_values([old[id][measure] for id in shared], [new[id][measure] for id in shared], seed)
            for measure in MEASURES
        },
        "better": [change for change in changes if change["difference"] > _ROUNDING_ERROR],
        "worse": [change for change in changes if change["difference"] < -_ROUNDING_ERROR],
        "notes": list(dict.fromkeys(system_notes(systems))),
        "texts": {**before["texts"], **after["texts"]},
    }


def _find_system(set_json: Mapping[str, Any], name: str) -> JsonObject:
    for system in set_json["ways"]:
        if system["name"] == name:
            return dict(system)
    names = ", ".join(system["name"] for system in set_json["ways"])
    raise NotFound(f"{name!r} was not measured on {set_json['name']}; there is: {names}")


def _compare_values(before: Sequence[float], after: Sequence[float], seed: int) -> JsonObject:
    change = estimate_difference(before, after, seed)
    means = {"before": sum(before) / len(before), "after": sum(after) / len(after), "difference": change.mean}
    return means | {"low": change.low, "high": change.high, "p": change.p, "significant": change.significant}


def _compare_answers(before: Mapping[str, Any], after: Mapping[str, Any]) -> JsonObject:
    relevant = before["relevant"]
    return {
        "id": before["id"],
        "query": before["query"],
        "category": before["category"],
        "before": before[MAIN_MEASURE],
        "after": after[MAIN_MEASURE],
        "difference": after[MAIN_MEASURE] - before[MAIN_MEASURE],
        "relevant": relevant,
        "found_before": before["found"],
        "found_after": after["found"],
        "missed_after": [id for id in relevant if id not in after["found"]],
    }


def format_comparisons(comparisons: Sequence[Mapping[str, Any]], max_questions: int) -> list[str]:
    """Return the lines of a report: the measures, then the questions that changed most."""
    lines: list[str] = []
    for comparison in comparisons:
        title = f"{set_title(comparison)}: {comparison['before']} -> {comparison['after']}"
        lines += [*([""] if lines else []), title]
        for name, change in comparison["measures"].items():
            verdict = "significant" if change["significant"] else "not significant"
            lines.append(
                f"  {name:<10}{change['before']:.4f} -> {change['after']:.4f}  {change['difference']:+.4f} "
                f"[{change['low']:+.4f} {change['high']:+.4f}]  p {change['p']:.4f}  {verdict}"
            )
        better, worse = len(comparison["better"]), len(comparison["worse"])
        unchanged = comparison["questions"] - better - worse
        questions = count_of(comparison["questions"], "question")
        lines.append(f"  {questions}: {better} better, {worse} worse, {unchanged} unchanged")
        for direction in ("better", "worse"):
            for change in comparison[direction][:max_questions]:
                lines += _format_change(change, direction, comparison["texts"])
        lines += comparison["notes"]
    return lines


def _format_change(change: Mapping[str, Any], direction: str, texts: Mapping[str, str]) -> list[str]:
    category = f" ({change['category']})" if change["category"] else ""
    query = change["query"][:_MAX_LINE_CHARACTERS]
    lines = [f"  {direction} {change['before']:.2f} -> {change['after']:.2f}: {query}{category}"]
    for id in change["relevant"]:
        ranks = [
            str(found.index(id) + 1) if id in found else "missed"
            for found in (change["found_before"], change["found_after"])
        ]
        lines.append(f"      relevant, {' -> '.join(ranks)}: {texts.get(id, id)[:_MAX_LINE_CHARACTERS]}")
    best = next((id for id in change["found_after"] if id not in change["relevant"]), None)
    if best is not None and change["difference"] < 0:
        rank = change["found_after"].index(best) + 1
        lines.append(f"      instead, at {rank}: {texts.get(best, best)[:_MAX_LINE_CHARACTERS]}")
    return lines
