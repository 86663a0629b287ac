"""Options and helpers that several commands share."""

import codecs
import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TypeVar, get_type_hints

import click

from memorist.arguments import Filters
from memorist.cli.app import print_note
from memorist.contract import argument_schema
from memorist.errors import InvalidInput
from memorist.present.render import memory_json, memory_line, memory_text, printable, printable_json
from memorist.records import DETAILS, Memory, Page
from memorist.schemas import Schema
from memorist.validation import MAX_CONTENT_CHARACTERS

NOTHING_RELEVANT = "Note: none of these is likely to answer the question; they are only the closest."
_MAX_TEXT_BYTES = 4 * (MAX_CONTENT_CHARACTERS + 1)  # with a byte order mark
_REDRAW_SECONDS = 0.1  # between two states of a progress bar

F = TypeVar("F", bound=Callable[..., Any])


def combine_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine options into one decorator; the help lists them in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def flag_option(*names: str, sets: bool, help: str) -> Callable[[F], F]:
    """Make a flag that sets an option to a value; without the flag, the option is unset."""
    return click.option(*names, is_flag=True, callback=lambda context, option, on: sets if on else None, help=help)


def answer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that answers its context and --json, as its first argument and as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(click.pass_obj(command))


embedder_option = click.option(
    "--embedder", metavar="MODEL", help="local, onnx:FOLDER, openai:MODEL or ollama:MODEL (default: the setting)."
)
detail_option = click.option("--detail", help=f"How much of each memory to show: {', '.join(DETAILS)}.")
redact_option = click.option(
    "--redact/--no-redact", default=None, help="Mask secrets before the text is stored (default: the setting)."
)
secret_options = combine_options(
    flag_option("--no-redact", "redact", sets=False, help="Store text that looks like a secret unchanged."),
    click.option(
        "--allow", multiple=True, metavar="TEXT", help="Do not mask secrets that contain TEXT, or match /regex/."
    ),
)
hard_option = click.option(
    "--hard", is_flag=True, help="Erase at once; this cannot be undone. Until a purge, words stay in the file."
)
session_option = click.option("--session", metavar="ID", help="The session in which this happens.")


def declared_options(
    declared: Any, *, only: Collection[str] | None = None, leave_out: Collection[str] = ()
) -> Callable[[F], F]:
    """
    Make options of arguments as they are declared, with their types, limits, defaults and help: of the members of a
    TypedDict (`memorist.arguments`), or of the arguments of an operation.
    """
    schemas = _list_schemas(declared)
    chosen = [name for name in (schemas if only is None else only) if name not in leave_out]
    return combine_options(*(_declared_option(name, schemas[name]) for name in chosen))


def _list_schemas(declared: Any) -> Mapping[str, Schema]:
    if operation := getattr(declared, "operation", None):
        named = operation.signature.parameters
        defaults = {name: one.default for name, one in named.items() if one.default is not one.empty}
        return {name: {**one.schema, "default": defaults.get(name)} for name, one in operation.parameters.items()}
    hints = get_type_hints(declared, include_extras=True)
    return {name: argument_schema(hint) or {} for name, hint in hints.items()}


def _declared_option(name: str, schema: Schema) -> Callable[[F], F]:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kinds = [kind for kind in kinds if kind != "null"]  # an option that is not given leaves a field as it is
    flags, help = _FLAGS.get(name, (f"--{name.replace('_', '-')}",)), _describe(schema, kinds)
    if name in _SWITCHES_OFF:
        flag, help = _SWITCHES_OFF[name]
        return flag_option(flag, name, sets=False, help=help)
    if kinds == ["boolean"]:
        return flag_option(*flags, name, sets=True, help=help)
    if "array" in kinds:
        return click.option(*flags, name, multiple=True, help=help)
    if kinds == ["object"]:
        return click.option(*flags, name, metavar="JSON", callback=_parse_json_option, help=help)
    if kinds == ["string", "integer"]:
        return click.option(*flags, name, callback=_parse_count, help=help)
    if kinds in (["number"], ["integer"]):
        return click.option(*flags, name, type=float if kinds == ["number"] else int, help=help)
    return click.option(*flags, name, metavar="TIME" if "number" in kinds else _METAVARS.get(name), help=help)


_FLAGS: Mapping[str, Sequence[str]] = {
    "tags": ("--tag",), "facts": ("--fact",), "limit": ("--limit", "-n"), "include_documents": ("--documents",),
}  # fmt: skip
_SWITCHES_OFF: Mapping[str, tuple[str, str]] = {
    "recalled": ("--never-recalled", "Only what no recorded search has found."),
    "include_facts": ("--no-facts", "Do not show facts."),
    "core": ("--no-core", "Leave out pinned memories."),
    "documents": ("--no-documents", "Leave out indexed files."),
}
_METAVARS = dict.fromkeys(("session", "id", "anchor", "memory", "record_session"), "ID") | {
    "said_by": "WHO", "lens": "NAME",
}  # fmt: skip


def _describe(schema: Schema, kinds: Sequence[str]) -> str:
    """Return the help of an option: what it means, what it can be, and whether it can be repeated."""
    said = str(schema.get("description", ""))
    if "enum" in schema:
        said += f": {', '.join(filter(None, schema['enum']))}"
    limits = [_format(schema[end]) for end in ("minimum", "maximum") if end in schema]
    notes = ["..".join(limits)] if len(limits) == 2 else []
    notes += [f"default {_format(default)}"] if (default := schema.get("default")) else []
    notes += ["repeat for several"] if "array" in kinds else []
    return f"{said} ({'; '.join(notes)})." if notes else f"{said}."


def _format(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.9g}"


def _parse_json_option(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    return None if value is None else parse_json(value, option.opts[0])


def _parse_count(context: click.Context, option: click.Parameter, value: str | None) -> str | int | None:
    return int(value) if value and value.isdecimal() else value


as_of_option = declared_options(Filters, only=["as_of"])
filter_options = declared_options(Filters, leave_out=["include_global"])


def parse_json(text: str, option: str) -> Any:
    """Return the value of an option that is JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{option} is not JSON: {exc}") from exc


def drop_unset(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were set on the command line."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def must_confirm(yes: bool, reason: str) -> bool:
    """Return whether to ask for confirmation; without a terminal to ask on, --yes is required."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(f"{reason}; confirm with --yes, as there is no terminal to ask on")
    return not yes


def read_argument(text: str) -> str:
    """Return an argument; `-` stands for standard input."""
    return read_text("-") if text == "-" else text


def read_text(source: str) -> str:
    """Read a file, or standard input for `-`: UTF-8, or UTF-16 with a byte order mark."""
    from memorist.ingest.readers import is_binary  # lazily: most commands read no text

    name = "standard input" if source == "-" else source
    with open_input(source) as stream:
        raw = stream.read(_MAX_TEXT_BYTES + 1)  # a device, or a pipe, may have no end
    if len(raw) > _MAX_TEXT_BYTES:
        raise InvalidInput(
            f"{name} is too long: at most {MAX_CONTENT_CHARACTERS:,} characters fit: split it into parts"
        )
    if is_binary(raw):
        raise InvalidInput(f"{name} is binary, not text")
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return decode_text(raw, "utf-16" if is_utf16 else "utf-8-sig", name).strip("\n")


def open_input(source: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file to read, or standard input for `-`."""
    try:
        if source != "-" and Path(source).exists() and not Path(source).is_file():
            raise InvalidInput(f"cannot read {source}: it is not a file; give a pipe as standard input, with -")
        return click.open_file(source, "rb")
    except OSError as exc:
        raise InvalidInput(f"cannot read {source}: {exc.strerror}") from exc


def decode_text(raw: bytes, encoding: str, name: str) -> str:
    """Decode text; bytes that are not text become U+FFFD, with a note on stderr."""
    try:
        return raw.decode(encoding)
    except UnicodeError as exc:
        print_note(f"not all of {name} is UTF-8 text; the rest was replaced ({exc})")
        return raw.decode(encoding, "replace")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    click.echo(printable_json(json.dumps(value, ensure_ascii=False, indent=indent)))


def print_answer(as_json: bool, value: Any, lines: str | Iterable[str], nothing: str = "Nothing found.") -> None:
    """Print an answer: a value as JSON, or else its lines; if there are none, say so on stderr."""
    if as_json:
        print_json(value)
        return
    shown = [lines] if isinstance(lines, str) else list(lines)
    for line in shown:
        click.echo(line)
    if not shown:
        click.echo(nothing, err=True)


def memory_lines(memories: Iterable[Memory], detail: str = "index") -> Iterator[str]:
    """Yield each memory on one line, or all of it in `full` detail."""
    for memory in memories:
        yield memory_text(memory, style()) if detail == "full" else memory_line(memory, style(), detail)


def print_page(as_json: bool, page: Page, more: str, detail: str | None = None) -> None:
    """Print a page of memories, and on stderr the command with a {cursor} that prints more, if there are more."""
    answer = {"memories": [memory_json(found, detail or "full") for found in page], "cursor": page.cursor}
    print_answer(as_json, answer, memory_lines(page, detail or "index"))
    if page.cursor and not as_json:
        click.echo(f"There is more: {more.format(cursor=page.cursor)}", err=True)


def print_degraded(memory: Memory) -> None:
    """Print on stderr why a memory waits for its vector, if it does."""
    if memory.degraded:
        print_note(memory.degraded)


def print_redacted(entries: Iterable[Mapping[str, Any]]) -> None:
    """Print on stderr the kinds and positions of the secrets that were masked, never the secrets."""
    positions: dict[str, list[str]] = {}
    for entry in entries:
        position = f"line {entry['line']}, column {entry['column']}"
        positions.setdefault(str(entry["kind"]), []).append(
            " of ".join([position, *filter(None, [entry.get("field")])])
        )
    if positions:
        kinds = (f"{len(places)} {kind} ({'; '.join(places)})" for kind, places in positions.items())
        click.echo(f"Redacted: {printable(', '.join(kinds))}", err=True)


def style() -> Callable[..., str]:
    """Return click.style on a terminal; elsewhere a function that leaves text plain."""
    return click.style if sys.stdout.isatty() else lambda text, **_: text


class ProgressBar:
    """A line on a terminal's stderr with progress, speed and, if the total is known, the time left."""

    def __init__(
        self, label: str, total: int | None = None, *, unit: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label, self._unit, self._clock = label, unit, clock
        self._visible = sys.stderr.isatty()
        self._first: tuple[float, int] | None = None
        self._drawn_at = 0.0
        self.done, self.total = 0, total

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *details: Any) -> None:
        """Clear the line."""
        if self._visible and self._drawn_at:
            click.echo("\r\x1b[K", err=True, nl=False)

    def __call__(self, done: int, total: int | None = None, detail: str = "") -> None:
        now = self._clock()
        started_at, done_before = self._first = self._first or (now, done)
        self.done, self.total = done, self.total if total is None else total
        if not self._visible or (now - self._drawn_at < _REDRAW_SECONDS and done != self.total):
            return
        self._drawn_at = now
        rate = (done - done_before) / (now - started_at) if now > started_at else 0.0
        line = f"{self._label}  {done:,}{'' if self.total is None else f' of {self.total:,}'} {self._unit}".rstrip()
        line += f", {detail}" if detail else ""
        if rate:
            line += f"  {rate:,.0f} a second"
            line += "" if self.total is None else f", {_format_duration(max(self.total - done, 0) / rate)} left"
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
