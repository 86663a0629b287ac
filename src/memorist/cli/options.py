"""Options that several commands take, and how they answer."""

import codecs
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, TypeVar

import click

from memorist.errors import InvalidInput
from memorist.present.render import memory_line, printable
from memorist.records import DETAILS, Memory

REDRAWN = 0.1  # seconds between two states of a progress line

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
embedder_option = click.option(
    "--embedder",
    metavar="MODEL",
    help="local, local:bge-small, openai:MODEL or ollama:MODEL (default: the configured one).",
)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order they are listed."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def switch(*names: str, sets: bool, help: str) -> Callable[[F], F]:
    """A flag that gives an option a value; without it, the option is not given at all."""
    return click.option(*names, is_flag=True, callback=lambda context, option, on: sets if on else None, help=help)


as_of_option = click.option("--as-of", metavar="TIME", help="As it stood at this time.")
detail_option = click.option("--detail", help=f"How much of each: {', '.join(DETAILS)}.")
redact_option = click.option(
    "--redact/--no-redact", default=None, help="Replace secrets by a mark before it is stored (default: as set)."
)
secrets = together(
    switch("--no-redact", "redact", sets=False, help="Keep what looks like a secret."),
    click.option(
        "--allow", multiple=True, metavar="TEXT", help="No secret: one that has this text, or fits this /regex/."
    ),
)
session_option = click.option("--session", metavar="ID", help="The session this happens in.")

filters = together(
    click.option("--project", multiple=True, help="Only this project (repeat for any of several)."),
    click.option("--sector", multiple=True, help="Only this sector."),
    click.option("--tier", multiple=True, help="Only this tier."),
    click.option("--kind", multiple=True, help="Only this kind."),
    click.option("--tag", "tags", multiple=True, help="Only with this tag (repeat for all of several)."),
    click.option("--source", multiple=True, help="Only from this source."),
    click.option("--since", metavar="TIME", help="Only from this time on."),
    click.option("--until", metavar="TIME", help="Only before this time."),
    click.option("--min-salience", type=float, help="Only at least this salient (0..1)."),
    click.option("--session", metavar="ID", help="Only what was made or used in this session."),
    click.option("--fact-kind", multiple=True, help="Only with a fact of this kind."),
    click.option("--month", multiple=True, help="Only from this month (2026-03)."),
    switch("--pinned", sets=True, help="Only pinned ones."),
    switch("--never-recalled", "recalled", sets=False, help="Only what no recorded search has found."),
    as_of_option,
)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, without what was not."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def must_ask(yes: bool, reason: str) -> bool:
    """Whether to ask before going on; without a terminal to ask at, only --yes will do."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(f"{reason}; without a terminal to ask at, say --yes")
    return not yes


def text_from(source: str) -> str:
    """What a file says, or with - standard input: UTF-8, or UTF-16 that says so."""
    with opened(source) as stream:
        raw = stream.read()
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    where = "standard input" if source == "-" else source
    return decoded(raw, "utf-16" if wide else "utf-8-sig", where).strip("\n")


def opened(source: str) -> AbstractContextManager[IO[bytes]]:
    try:
        return click.open_file(source, "rb")
    except OSError as exc:
        raise InvalidInput(f"cannot read {source}: {exc.strerror}") from exc


def decoded(raw: bytes, encoding: str, where: str) -> str:
    """The text, with what is none replaced by U+FFFD, and a word about that."""
    try:
        return raw.decode(encoding)
    except UnicodeError as exc:
        click.echo(f"Note: not all of {where} is UTF-8 text; what is not was replaced ({exc})", err=True)
        return raw.decode(encoding, "replace")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_memories(memories: Sequence[Memory], nothing: str = "Nothing found.") -> None:
    """Memories, a line each; that there are none is said on stderr."""
    for memory in memories:
        click.echo(memory_line(memory, style()))
    if not memories:
        click.echo(nothing, err=True)


def say_redacted(entries: Iterable[Mapping[str, Any]]) -> None:
    """Which secrets were taken out of what was given, and where they stood; on stderr, and never the secret."""
    places: dict[str, list[str]] = {}
    for entry in entries:
        where = f"line {entry['line']}, column {entry['column']}"
        places.setdefault(str(entry["kind"]), []).append(" of ".join([where, *filter(None, [entry.get("field")])]))
    if places:
        each = (f"{len(where)} {kind} ({'; '.join(where)})" for kind, where in places.items())
        click.echo(f"Redacted: {printable(', '.join(each))}", err=True)


def style() -> Callable[..., str]:
    """Colour on a terminal, plain text elsewhere."""
    return click.style if sys.stdout.isatty() else lambda text, **_: text


class ProgressBar:
    """
    How much is done, how fast and, where the end is known, how long to go: a line on a terminal's stderr, silent
    elsewhere.
    """

    def __init__(
        self, label: str, total: int | None = None, *, what: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label, self._what, self._clock = label, what, clock
        self._shown = sys.stderr.isatty()
        self._first: tuple[float, int] | None = None
        self._drawn = 0.0
        self.done, self.total = 0, total

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *details: Any) -> None:
        """Leave no line behind."""
        if self._shown and self._drawn:
            click.echo("\r\x1b[K", err=True, nl=False)

    def __call__(self, done: int, total: int | None = None) -> None:
        now = self._clock()
        started, before = self._first = self._first or (now, done)
        self.done, self.total = done, self.total if total is None else total
        if not self._shown or (now - self._drawn < REDRAWN and done != self.total):
            return
        self._drawn = now
        rate = (done - before) / (now - started) if now > started else 0.0
        line = f"{self._label}  {done:,}{'' if self.total is None else f' of {self.total:,}'} {self._what}".rstrip()
        if rate:
            line += f"  {rate:,.0f} a second"
            line += "" if self.total is None else f", {_span(max(self.total - done, 0) / rate)} left"
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
