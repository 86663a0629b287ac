"""Compare two runs question by question, with a test for significance."""

from collections.abc import Mapping, Sequence
from typing import Any

from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.metrics import MAIN_MEASURE, MEASURES, estimate_difference
from memorist.evaluate.report import JsonObject, set_title, system_notes
from memorist.present.render import count_of

_ROUNDING_ERROR = 1e-9
_MAX_TEXT_CHARACTERS = 110


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
    difference = estimate_difference(before, after, seed)
    return {
        "before": sum(before) / len(before),
        "after": sum(after) / len(after),
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "p": difference.p,
        "significant": difference.significant,
    }


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
    query = change["query"][:_MAX_TEXT_CHARACTERS]
    lines = [f"  {direction} {change['before']:.2f} -> {change['after']:.2f}: {query}{category}"]
    for id in change["relevant"]:
        ranks = [
            str(found.index(id) + 1) if id in found else "missed"
            for found in (change["found_before"], change["found_after"])
        ]
        lines.append(f"      relevant, {' -> '.join(ranks)}: {texts.get(id, id)[:_MAX_TEXT_CHARACTERS]}")
    best = next((id for id in change["found_after"] if id not in change["relevant"]), None)
    if best is not None and change["difference"] < 0:
        rank = change["found_after"].index(best) + 1
        lines.append(f"      instead, at {rank}: {texts.get(best, best)[:_MAX_TEXT_CHARACTERS]}")
    return lines
