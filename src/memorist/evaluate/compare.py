"""Two runs, question by question: what got better, what got worse, and whether it could be chance."""

from collections.abc import Mapping
from typing import Any

from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.metrics import MAIN, MEASURES
from memorist.evaluate.report import notes
from memorist.evaluate.statistics import difference
from memorist.present.render import count_of

_AS_GOOD = 1e-9
_WIDTH = 110

Data = dict[str, Any]


def way_of(run: Mapping[str, Any], name: str | None = None) -> str:
    """The way of a run that is compared: the one named, or the only one that was chosen."""
    chosen = list(dict.fromkeys(way for one in run["sets"] for way in one["chosen"]))
    if name is None and len(chosen) != 1:
        raise InvalidInput(f"the run has several ways to compare: {', '.join(chosen)}; save one with a single profile")
    return name or chosen[0]


def compared(before: Mapping[str, Any], a: str, after: Mapping[str, Any], b: str, seed: int) -> list[Data]:
    """What changed from way `a` of one run to way `b` of another, for each set they share."""
    found = []
    for one in before["sets"]:
        for other in after["sets"]:
            if (one["name"], one["part"]) == (other["name"], other["part"]):
                found.append(_compared(one, a, other, b, seed))
    if not found:
        raise NotFound("the two runs share no set: there is nothing to compare")
    return found


def _compared(one: Mapping[str, Any], a: str, other: Mapping[str, Any], b: str, seed: int) -> Data:
    ways = _way(one, a), _way(other, b)
    first, second = ({answer["id"]: answer for answer in way["answers"]} for way in ways)
    shared = [id for id in first if id in second]
    if not shared:
        raise NotFound(f"the two runs share no question of {one['name']}")
    measures = {}
    for measure in MEASURES:
        was, is_now = ([answers[id][measure] for id in shared] for answers in (first, second))
        change = difference(was, is_now, seed)
        measures[measure] = {
            "before": sum(was) / len(was),
            "after": sum(is_now) / len(is_now),
            "difference": change.mean,
            "low": change.low,
            "high": change.high,
            "p": change.p,
            "significant": change.significant,
        }
    changed = [_change(first[id], second[id]) for id in shared]
    by_size = sorted(changed, key=lambda change: -abs(change["difference"]))
    return {
        "name": one["name"],
        "part": one["part"],
        "before": a,
        "after": b,
        "questions": len(shared),
        "measures": measures,
        "better": [change for change in by_size if change["difference"] > _AS_GOOD],
        "worse": [change for change in by_size if change["difference"] < -_AS_GOOD],
        "notes": list(dict.fromkeys(notes(ways))),
        "texts": {**one["texts"], **other["texts"]},
    }


def _way(one: Mapping[str, Any], name: str) -> Data:
    for way in one["ways"]:
        if way["name"] == name:
            return dict(way)
    raise NotFound(f"{name!r} was not measured on {one['name']}; there is: {', '.join(w['name'] for w in one['ways'])}")


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Data:
    relevant = before["relevant"]
    return {
        "id": before["id"],
        "query": before["query"],
        "category": before["category"],
        "before": before[MAIN],
        "after": after[MAIN],
        "difference": after[MAIN] - before[MAIN],
        "relevant": relevant,
        "found_before": before["found"],
        "found_after": after["found"],
        "missed_after": [id for id in relevant if id not in after["found"]],
    }


def text(comparisons: list[Data], show: int) -> list[str]:
    """For people: the figures, then the questions that changed most."""
    lines: list[str] = []
    for one in comparisons:
        part = f" ({one['part']})" if one["part"] else ""
        lines += [*([""] if lines else []), f"{one['name']}{part}: {one['before']} -> {one['after']}"]
        for name, change in one["measures"].items():
            verdict = "significant" if change["significant"] else "may be chance"
            lines.append(
                f"  {name:<10}{change['before']:.4f} -> {change['after']:.4f}  {change['difference']:+.4f} "
                f"[{change['low']:+.4f} {change['high']:+.4f}]  p {change['p']:.4f}  {verdict}"
            )
        better, worse = len(one["better"]), len(one["worse"])
        same = one["questions"] - better - worse
        lines.append(
            f"  of {count_of(one['questions'], 'question')} {better} got better, {worse} worse, {same} stayed as good"
        )
        for what in ("better", "worse"):
            for change in one[what][:show]:
                lines += _shown(change, what, one["texts"])
        lines += one["notes"]
    return lines


def _shown(change: Mapping[str, Any], what: str, texts: Mapping[str, str]) -> list[str]:
    category = f" ({change['category']})" if change["category"] else ""
    lines = [f"  {what} {change['before']:.2f} -> {change['after']:.2f}: {change['query'][:_WIDTH]}{category}"]
    for id in change["relevant"]:
        places = [
            str(found.index(id) + 1) if id in found else "missed"
            for found in (change["found_before"], change["found_after"])
        ]
        lines.append(f"      relevant, {' -> '.join(places)}: {texts.get(id, id)[:_WIDTH]}")
    best = next((id for id in change["found_after"] if id not in change["relevant"]), None)
    if best is not None and change["difference"] < 0:
        place = change["found_after"].index(best) + 1
        lines.append(f"      instead, at {place}: {texts.get(best, best)[:_WIDTH]}")
    return lines
