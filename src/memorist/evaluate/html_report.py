"""A run as one page that needs nothing else: no script, no font, no picture from anywhere."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from memorist.evaluate.metrics import MAIN, MEASURES
from memorist.evaluate.report import about, milliseconds, notes, untimed
from memorist.present.render import count_of

_ROW, _LABEL, _PLOT = 24, 250, 420  # pixels
_SHORTEST = 0.01  # milliseconds
_LONGEST = 34  # characters of a way's name in a plot
_SHOWN = 10  # questions that changed, of each kind
_NAMES = dict(zip(MEASURES, ("nDCG@10", "Recall@5", "Recall@10", "MRR@10", "hit@5"), strict=True))
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #6b6b70; --line: #d8d8dc; --way: #7a8699; --chosen: #1667c9;
  --good: #1a7f4b; --bad: #b3382c; --back: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #ececef; --soft: #a0a0a8; --line: #3a3a40; --way: #8b98ad;
  --chosen: #5aa2f5; --good: #4cc38a; --bad: #ff8577; --back: #17171a } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
.chosen td:first-child { font-weight: 600 }
.soft { color: var(--soft) } .good { color: var(--good) } .bad { color: var(--bad) }
svg { display: block; margin: .5rem 0; max-width: 100%; height: auto } svg text { fill: var(--ink); font-size: 13px }
svg .soft { fill: var(--soft) } svg line { stroke: var(--line) }
svg .way { fill: var(--way); stroke: var(--way) } svg .chosen { fill: var(--chosen); stroke: var(--chosen) }
blockquote { margin: .3rem 0 .8rem 1rem; border-left: 3px solid var(--line); padding-left: .8rem }
"""


def page(run: Mapping[str, Any], changes: Sequence[Mapping[str, Any]] = ()) -> str:
    """The whole page."""
    sections = [*(_set(one) for one in run["sets"]), *(_change(one) for one in changes)]
    made = f"memorist {run['version']} · {run['embedder'] or 'no model'} · seed {run['seed']}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<title>memorist eval</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>memorist eval</h1>\n"
        f'<p class="soft">{escape(made)}. Bars are 95 % intervals (bootstrap).</p>\n'
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def _set(one: Mapping[str, Any]) -> str:
    part = f" ({one['part']})" if one["part"] else ""
    ways, chosen = one["ways"], one["chosen"]
    parts = [
        f"<h2>{escape(one['name'] + part)}</h2>",
        f'<p class="soft">{about(one)}</p>',
        _table(ways, chosen),
        "<h3>nDCG@10</h3>",
        _intervals([(way["name"], way["measures"][MAIN]) for way in ways], chosen),
        "<h3>Quality and time</h3>",
        _scatter(ways, chosen),
    ]
    categories = ways[0]["categories"]
    if categories:
        parts.append("<h3>nDCG@10 by category of question</h3>")
    for name, of_it in categories.items():
        rows = [(way["name"], way["categories"][name]["measures"][MAIN]) for way in ways]
        parts += [f"<h4>{escape(name)}, {count_of(of_it['questions'], 'question')}</h4>", _intervals(rows, chosen)]
    parts += [f"<p>{escape(note)}</p>" for note in (*untimed(ways), *notes(ways))]
    return "\n".join(parts)


def _table(ways: Iterable[Mapping[str, Any]], chosen: Sequence[str]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("", *_NAMES.values(), "p50 ms", "p95 ms"))
    rows = []
    for way in ways:
        figures = [f"{way['measures'][name]['mean']:.4f}" for name in MEASURES]
        figures += [milliseconds(way["latency_ms"][name]) for name in ("p50", "p95")]
        cells = "".join(f"<td>{cell}</td>" for cell in (escape(way["name"]), *figures))
        rows.append(f'<tr class="{_kind(way["name"], chosen)}">{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _intervals(rows: Sequence[tuple[str, Mapping[str, float]]], chosen: Sequence[str]) -> str:
    """A dot for each mean, on a scale from 0 to 1, with its interval as a bar."""
    height = _ROW * (len(rows) + 1)
    shapes = []
    for tick in range(6):
        x = _LABEL + _PLOT * tick / 5
        shapes.append(f'<line x1="{x:g}" y1="0" x2="{x:g}" y2="{height - _ROW}"/>')
        shapes.append(_text(x, height - 6, f"{tick / 5:g}", "middle", "soft"))
    for place, (name, figure) in enumerate(rows):
        y, kind = _ROW * (place + 0.5), _kind(name, chosen)
        low, mean, high = (_LABEL + _PLOT * figure[end] for end in ("low", "mean", "high"))
        shapes.append(_text(_LABEL - 10, y + 4, _cut(name), "end"))
        shapes.append(
            f'<rect class="{kind}" x="{low:.1f}" y="{y - 3:g}" width="{high - low:.1f}" height="6" opacity=".35"/>'
        )
        shapes.append(f'<circle class="{kind}" cx="{mean:.1f}" cy="{y:g}" r="5"/>')
        shapes.append(_text(_LABEL + _PLOT + 12, y + 4, f"{figure['mean']:.3f}", "start"))
    return _svg(_LABEL + _PLOT + 70, height, "nDCG@10 of each way", shapes)


def _scatter(ways: Sequence[Mapping[str, Any]], chosen: Sequence[str]) -> str:
    """nDCG@10 against the median time of an answer, which is on a logarithmic scale; only what was timed."""
    left, height = 50, 260
    timed = [way for way in ways if way["latency_ms"]["p50"] is not None]
    times = [max(way["latency_ms"]["p50"], _SHORTEST) for way in timed]
    first, last = floor(log10(min(times))), floor(log10(max(times))) + 1

    def across(ms: float) -> float:
        return left + (log10(max(ms, _SHORTEST)) - first) / (last - first) * (_LABEL + _PLOT - left)

    shapes = []
    for decade in range(first, last + 1):
        x = across(10.0**decade)
        shapes.append(f'<line x1="{x:g}" y1="10" x2="{x:g}" y2="{height}"/>')
        shapes.append(_text(x, height + 16, f"{10.0**decade:g} ms", "middle", "soft"))
    for tick in range(6):
        y = height - (height - 10) * tick / 5
        shapes.append(f'<line x1="{left}" y1="{y:g}" x2="{_LABEL + _PLOT}" y2="{y:g}"/>')
        shapes.append(_text(left - 8, y + 4, f"{tick / 5:g}", "end", "soft"))
    for place, way in enumerate(timed):
        x, kind = across(way["latency_ms"]["p50"]), _kind(way["name"], chosen)
        y = height - (height - 10) * way["measures"][MAIN]["mean"]
        shapes.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        shapes.append(_text(x, y + (20 if place % 2 else -10), _cut(way["name"]), "middle"))
    return _svg(_LABEL + _PLOT + 170, height + 24, "nDCG@10 against median latency", shapes)


def _change(one: Mapping[str, Any]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("", "before", "after", "difference", "95 %", "p"))
    rows = []
    for name, change in one["measures"].items():
        kind = ("good" if change["difference"] > 0 else "bad") if change["significant"] else "soft"
        cells = (
            _NAMES[name], f"{change['before']:.4f}", f"{change['after']:.4f}", f"{change['difference']:+.4f}",
            f"{change['low']:+.4f} … {change['high']:+.4f}", f"{change['p']:.4f}",
        )  # fmt: skip
        rows.append(f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    counts = f"{count_of(one['questions'], 'question')}: {len(one['better'])} better, {len(one['worse'])} worse"
    parts = [
        f"<h2>{escape(one['name'])}: {escape(one['before'])} → {escape(one['after'])}</h2>",
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>",
        f'<p class="soft">{counts}. Grey: may be chance.</p>',
    ]
    for what in ("better", "worse"):
        if one[what]:
            parts.append(f"<h3>Got {what}</h3>")
        parts += [_question(change, one["texts"]) for change in one[what][:_SHOWN]]
    return "\n".join(parts)


def _question(change: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    lines = []
    for id in change["relevant"]:
        places = [
            f"place {found.index(id) + 1}" if id in found else "missed"
            for found in (change["found_before"], change["found_after"])
        ]
        lines.append(f'<li>{escape(texts.get(id, id))} <span class="soft">{" → ".join(places)}</span></li>')
    figures = f"{change['before']:.2f} → {change['after']:.2f}"
    asked = f'{escape(change["query"])} <span class="soft">{figures}</span>'
    return f"<blockquote>{asked}<ul>{''.join(lines)}</ul></blockquote>"


def _cut(name: str) -> str:
    """As much of a name as there is room for."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _kind(name: str, chosen: Sequence[str]) -> str:
    return "chosen" if name in chosen else "way"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: int, height: int, label: str, shapes: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
    )
