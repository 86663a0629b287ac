"""A run as one HTML page without scripts, fonts or pictures from elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from memorist.evaluate.metrics import MAIN_MEASURE, MEASURES
from memorist.evaluate.report import describe_set, format_milliseconds, latency_notes, set_title, system_notes
from memorist.present.render import count_of

_ROW_HEIGHT, _LABEL_WIDTH, _PLOT_WIDTH = 24, 250, 420  # pixels
_MIN_MILLISECONDS = 0.01  # shorter times are plotted here: the scale is logarithmic
_MAX_NAME_CHARACTERS = 34  # of a system, in a plot
_MAX_QUESTIONS = 10  # shown of those that got better, and of those that got worse
_MEASURE_NAMES = dict(zip(MEASURES, ("nDCG@10", "Recall@5", "Recall@10", "MRR@10", "hit@5"), strict=True))
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #6b6b70; --line: #d8d8dc; --system: #7a8699;
  --chosen: #1667c9; --good: #1a7f4b; --bad: #b3382c; --back: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #ececef; --soft: #a0a0a8; --line: #3a3a40; --system: #8b98ad;
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
svg .system { fill: var(--system); stroke: var(--system) } svg .chosen { fill: var(--chosen); stroke: var(--chosen) }
blockquote { margin: .3rem 0 .8rem 1rem; border-left: 3px solid var(--line); padding-left: .8rem }
"""


def render_page(run: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the whole page."""
    sections = [*map(_render_set, run["sets"]), *map(_render_comparison, comparisons)]
    origin = f"memorist {run['version']} · {run['embedder'] or 'no model'} · seed {run['seed']}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<title>memorist eval</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>memorist eval</h1>\n"
        f'<p class="soft">{escape(origin)}. Bars are 95 % intervals (bootstrap).</p>\n'
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def _render_set(set_json: Mapping[str, Any]) -> str:
    systems, chosen = set_json["ways"], set_json["chosen"]
    parts = [
        f"<h2>{escape(set_title(set_json))}</h2>",
        f'<p class="soft">{describe_set(set_json)}</p>',
        _render_measures(systems, chosen),
        "<h3>nDCG@10</h3>",
        _plot_intervals([(system["name"], system["measures"][MAIN_MEASURE]) for system in systems], chosen),
        "<h3>Quality and time</h3>",
        _plot_latency(systems, chosen),
    ]
    categories = systems[0]["categories"]
    if categories:
        parts.append("<h3>nDCG@10 by category of question</h3>")
    for name, category in categories.items():
        rows = [(system["name"], system["categories"][name]["measures"][MAIN_MEASURE]) for system in systems]
        questions = count_of(category["questions"], "question")
        parts += [f"<h4>{escape(name)}, {questions}</h4>", _plot_intervals(rows, chosen)]
    parts += [f"<p>{escape(note)}</p>" for note in (*latency_notes(systems), *system_notes(systems))]
    return "\n".join(parts)


def _render_measures(systems: Iterable[Mapping[str, Any]], chosen: Sequence[str]) -> str:
    rows = []
    for system in systems:
        cells = [escape(system["name"]), *(f"{system['measures'][name]['mean']:.4f}" for name in MEASURES)]
        cells += [format_milliseconds(system["latency_ms"][name]) for name in ("p50", "p95")]
        rows.append((_css_class(system["name"], chosen), cells))
    return _render_table(("", *_MEASURE_NAMES.values(), "p50 ms", "p95 ms"), rows)


def _plot_intervals(rows: Sequence[tuple[str, Mapping[str, float]]], chosen: Sequence[str]) -> str:
    """Draw each mean as a dot on a scale from 0 to 1, with its interval as a bar."""
    height = _ROW_HEIGHT * (len(rows) + 1)
    shapes = []
    for tick in range(6):
        x = _LABEL_WIDTH + _PLOT_WIDTH * tick / 5
        shapes.append(f'<line x1="{x:g}" y1="0" x2="{x:g}" y2="{height - _ROW_HEIGHT}"/>')
        shapes.append(_svg_text(x, height - 6, f"{tick / 5:g}", "middle", "soft"))
    for row, (name, estimate) in enumerate(rows):
        y, css_class = _ROW_HEIGHT * (row + 0.5), _css_class(name, chosen)
        low, mean, high = (_LABEL_WIDTH + _PLOT_WIDTH * estimate[end] for end in ("low", "mean", "high"))
        shapes.append(_svg_text(_LABEL_WIDTH - 10, y + 4, _shorten(name), "end"))
        shapes.append(
            f'<rect class="{css_class}" x="{low:.1f}" y="{y - 3:g}" width="{high - low:.1f}" height="6" opacity=".35"/>'
        )
        shapes.append(f'<circle class="{css_class}" cx="{mean:.1f}" cy="{y:g}" r="5"/>')
        shapes.append(_svg_text(_LABEL_WIDTH + _PLOT_WIDTH + 12, y + 4, f"{estimate['mean']:.3f}", "start"))
    return _svg(_LABEL_WIDTH + _PLOT_WIDTH + 70, height, "nDCG@10 of each system", shapes)


def _plot_latency(systems: Sequence[Mapping[str, Any]], chosen: Sequence[str]) -> str:
    """Plot nDCG@10 against the median latency on a logarithmic scale, for the systems that were timed."""
    left, height = 50, 260
    timed = [system for system in systems if system["latency_ms"]["p50"] is not None]
    times = [max(system["latency_ms"]["p50"], _MIN_MILLISECONDS) for system in timed]
    first, last = floor(log10(min(times))), floor(log10(max(times))) + 1

    def scale(ms: float) -> float:
        return left + (log10(ms) - first) / (last - first) * (_LABEL_WIDTH + _PLOT_WIDTH - left)

    shapes = []
    for decade in range(first, last + 1):
        x = scale(10.0**decade)
        shapes.append(f'<line x1="{x:g}" y1="10" x2="{x:g}" y2="{height}"/>')
        shapes.append(_svg_text(x, height + 16, f"{10.0**decade:g} ms", "middle", "soft"))
    for tick in range(6):
        y = height - (height - 10) * tick / 5
        shapes.append(f'<line x1="{left}" y1="{y:g}" x2="{_LABEL_WIDTH + _PLOT_WIDTH}" y2="{y:g}"/>')
        shapes.append(_svg_text(left - 8, y + 4, f"{tick / 5:g}", "end", "soft"))
    for number, (system, ms) in enumerate(zip(timed, times, strict=True)):
        x, y = scale(ms), height - (height - 10) * system["measures"][MAIN_MEASURE]["mean"]
        shapes.append(f'<circle class="{_css_class(system["name"], chosen)}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        shapes.append(_svg_text(x, y + (20 if number % 2 else -10), _shorten(system["name"]), "middle"))
    return _svg(_LABEL_WIDTH + _PLOT_WIDTH + 170, height + 24, "nDCG@10 against median latency", shapes)


def _render_comparison(comparison: Mapping[str, Any]) -> str:
    rows = []
    for name, change in comparison["measures"].items():
        css_class = ("good" if change["difference"] > 0 else "bad") if change["significant"] else "soft"
        cells = (
            _MEASURE_NAMES[name], f"{change['before']:.4f}", f"{change['after']:.4f}", f"{change['difference']:+.4f}",
            f"{change['low']:+.4f} … {change['high']:+.4f}", f"{change['p']:.4f}",
        )  # fmt: skip
        rows.append((css_class, cells))
    counts = (
        f"{count_of(comparison['questions'], 'question')}: {len(comparison['better'])} better, "
        f"{len(comparison['worse'])} worse"
    )
    parts = [
        f"<h2>{escape(comparison['name'])}: {escape(comparison['before'])} → {escape(comparison['after'])}</h2>",
        _render_table(("", "before", "after", "difference", "95 %", "p"), rows),
        f'<p class="soft">{counts}. Grey: not significant.</p>',
    ]
    for direction in ("better", "worse"):
        if comparison[direction]:
            parts.append(f"<h3>Got {direction}</h3>")
        parts += [_render_question(change, comparison["texts"]) for change in comparison[direction][:_MAX_QUESTIONS]]
    return "\n".join(parts)


def _render_question(change: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    items = []
    for id in change["relevant"]:
        ranks = [
            f"rank {found.index(id) + 1}" if id in found else "missed"
            for found in (change["found_before"], change["found_after"])
        ]
        items.append(f'<li>{escape(texts.get(id, id))} <span class="soft">{" → ".join(ranks)}</span></li>')
    values = f"{change['before']:.2f} → {change['after']:.2f}"
    question = f'{escape(change["query"])} <span class="soft">{values}</span>'
    return f"<blockquote>{question}<ul>{''.join(items)}</ul></blockquote>"


def _render_table(headings: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a table; each row has a CSS class and its cells, as HTML."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join(
        f'<tr class="{css_class}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for css_class, cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARACTERS else f"{name[: _MAX_NAME_CHARACTERS - 1]}…"


def _css_class(name: str, chosen: Sequence[str]) -> str:
    return "chosen" if name in chosen else "system"


def _svg_text(x: float, y: float, text: str, anchor: str, css_class: str = "") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: int, height: int, label: str, shapes: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
    )
