"""What became of files, and what was found in them, as JSON and as lines for people."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from memorist.documents import Document, DocumentHit, IndexReport
from memorist.present.render import Style, counted, printable, record_json, when
from memorist.present.snippet import MARK, UNMARK

FEW_PLACES = 5  # of secrets of one kind, unless all are asked for

_COUNTS = ("added", "changed", "unchanged", "renamed", "removed")


def near(path: str, folder: Path | None = None) -> str:
    """A path as somebody in a folder would write it: from there on where it is inside, else whole."""
    here = os.path.realpath(folder or Path.cwd())
    inside = os.path.relpath(path, here) if path.startswith(here.rstrip(os.sep) + os.sep) else path
    return printable(inside)


def document_hit_text(place: int, hit: DocumentHit, style: Style, *, whole: bool) -> str:
    """Where it stands, and under it the passage that was found; or the `whole` text, line by line."""
    lines = f"{hit.start_line}-{hit.end_line}" if hit.end_line > hit.start_line else f"{hit.start_line}"
    # A heading that is the title already need not be said twice.
    titles = dict.fromkeys(part for part in (hit.title, *hit.breadcrumb) if part)
    numbers = style(f"(relevance {hit.relevance:.2f} · {' + '.join(hit.match)})", dim=True)
    head = f"{place:>2}. {style(f'{near(hit.path)}:{lines}', fg='cyan')}  {printable(' › '.join(titles))}  {numbers}"
    if whole:
        return "\n".join([head, *(f"    {printable(line)}" for line in hit.memory.content.splitlines())])
    snippet = printable(" ".join(hit.snippet.split()))
    marked = re.sub(f"{MARK}(.*?){UNMARK}", lambda match: style(match[1], bold=True, fg="yellow"), snippet)
    return f"{head}\n    {marked}"


def document_json(document: Document) -> dict[str, Any]:
    """A file of a list, without its links: they are followed only for one that is asked for."""
    return {name: value for name, value in record_json(document).items() if name not in ("links", "linked_from")}


def document_line(document: Document, style: Style) -> str:
    """A file on one line."""
    chunks = counted(document.chunks, "chunk")
    about = " · ".join(filter(None, [when(document.indexed_at), chunks, document.project]))
    title = f"  {printable(document.title)}" if document.title else ""
    return f"{style(near(document.path), fg='cyan')}{title}  {style(printable(about), dim=True)}"


def report_line(report: IndexReport) -> str:
    """What became of the files, on one line; of what changed nothing is left out that happened."""
    parts = [f"{getattr(report, name):,} {name}" for name in _COUNTS if getattr(report, name)]
    if report.chunks:
        parts.append(f"{counted(report.chunks, 'chunk')} ({report.embedded:,} embedded)")
    for name, number in (("skipped", len(report.skipped)), ("redacted", sum(report.redacted.values()))):
        parts += [f"{number:,} {name}"] if number else []
    return ", ".join(parts) or "nothing to index"


def report_lines(report: IndexReport, *, verbose: bool) -> Iterator[str]:
    """What was skipped, by reason, and what was redacted, by kind and place; never what it was."""
    if report.skipped:
        yield "Skipped:"
        yield from _counted(Counter(reason for _, reason in report.skipped).most_common(), lambda reason: reason)
    if verbose:
        yield from (f"          {near(path)}: {printable(reason)}" for path, reason in report.skipped)
    if report.redacted:
        yield "Redacted:"
        kinds = sorted(report.redacted.items(), key=lambda item: (-item[1], item[0]))
        yield from _counted(kinds, lambda kind: f"{kind} at {_places(report, kind, verbose)}")


def _counted(counts: Iterable[tuple[str, int]], say: Callable[[str], str]) -> Iterator[str]:
    return (f"  {count:>6,}  {printable(say(name))}" for name, count in counts)


def _places(report: IndexReport, kind: str, verbose: bool) -> str:
    places = [f"{near(path)}:{line}" for each, path, line in report.redacted_at if each == kind]
    shown = places if verbose else places[:FEW_PLACES]
    more = report.redacted[kind] - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
