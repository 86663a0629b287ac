"""Memories in, one by one or many; shown, changed, forgotten and brought back."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click

from memorist import validation
from memorist.cli.app import CommandContext
from memorist.cli.hints import describe_error
from memorist.cli.options import (
    ProgressBar,
    as_of_option,
    decoded,
    detail_option,
    filters,
    given,
    json_option,
    must_ask,
    opened,
    print_json,
    redact_option,
    say_redacted,
    session_option,
    style,
    switch,
    text_from,
    together,
)
from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.ingest.redaction import Redaction, field_of, reported
from memorist.present.render import (
    LINE_CHARACTERS,
    memory_json,
    memory_line,
    memory_text,
    printable,
    timestamp,
    version_json,
)
from memorist.records import NEAR_ACTIONS, Memory, NearDuplicate, new_id
from memorist.text.snippet import preview

details = together(
    click.option("--project", help="The project it belongs to."),
    click.option("--sector", help="reflective, semantic, procedural, emotional or episodic."),
    click.option("--tier", help="session, project or global."),
    click.option("--kind", help="What it is, in a word of your own: decision, bug, preference ..."),
    click.option("--tag", "tags", multiple=True, help="A tag (repeat for several)."),
    click.option("--salience", type=float, help="How much it matters (0..1)."),
    click.option("--source", help="Where it comes from."),
    click.option("--title", help="A title."),
    click.option("--summary", help="A summary."),
)


@click.command("add")
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(dir_okay=False), help="Remember the text of this file.")
@click.option("--jsonl", "jsonl", metavar="FILE", help="Remember many: one JSON object or text a line (- reads stdin).")
@details
@click.option("--metadata", help="A JSON object to keep with it.")
@click.option("--created-at", metavar="TIME", help="When it happened (default: now).")
@click.option("--id", "id", help="An id of your own.")
@session_option
@click.option("--fact", "facts", multiple=True, help="One thing it says, to be kept as a fact (repeat for several).")
@click.option("--near", help=f"Where an older one says almost the same: {', '.join(NEAR_ACTIONS)}.")
@redact_option
@json_option
@click.pass_obj
def add_command(
    session: CommandContext,
    /,
    text: str | None,
    file: str | None,
    jsonl: str | None,
    near: str | None,
    redact: bool | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """
    Remember something. TEXT may be - to read it from standard input.

    \b
    Example:
        memorist add "Retries are capped at 5, see ADR-016" --project api --tag decision
        git log -1 --format=%B | memorist add - --kind commit
        memorist add --jsonl notes.jsonl
    """
    if sum(source is not None for source in (text, file, jsonl)) != 1:
        raise click.UsageError("give one of: a text, - for standard input, --file FILE, --jsonl FILE")
    defaults = _fields(fields)
    if jsonl is not None and near is not None:
        raise click.UsageError("--near compares one new memory with the old ones; leave it out with --jsonl")
    if jsonl is not None:
        _add_many(session, jsonl, defaults, redact, as_json)
        return
    own_id = defaults.pop("id", None) or new_id()
    given = {"content": _content(text, file), "project": session.loaded.settings.project, "id": own_id} | defaults
    with session.open(create=True, redact=redact) as memory:
        added = memory.add(near=near, **given)
    say_redacted(_redacted(session.redaction(redact), given))
    if as_json:
        print_json(memory_json(added))
        return
    what = "Remembered" if added.id == own_id else "Known already, and reinforced:"
    click.echo(f"{what} {memory_line(added, style())}")
    if added.near:
        click.echo(_near_line(added.near))


def _near_line(near: NearDuplicate) -> str:
    what = "Replaces" if near.merged else "Almost the same as"
    return f"{what} {near.id[-8:]}: {printable(preview(near.content, LINE_CHARACTERS))}"


def _redacted(redaction: Redaction, fields: dict[str, Any]) -> list[dict[str, Any]]:
    return reported(redaction.draft(validation.draft(fields, datetime.now(UTC))).metadata) if redaction.on else []


def _add_many(
    session: CommandContext, source: str, defaults: dict[str, Any], redact: bool | None, as_json: bool
) -> None:
    defaults = {"project": session.loaded.settings.project} | defaults
    redaction, redacted = session.redaction(redact), Counter[str]()

    def items() -> Iterator[dict[str, Any]]:
        for fields in _items(stream, source, defaults):
            redacted.update(entry["kind"] for entry in _redacted(redaction, fields))
            yield fields

    with (
        opened(source) as stream,
        session.open(create=True, redact=redact) as memory,
        ProgressBar("Adding", _lines(source)) as bar,
    ):
        ids = memory.add_many(items(), progress=bar)
    if redacted:
        click.echo(f"Redacted: {', '.join(f'{count} {kind}' for kind, count in redacted.items())}", err=True)
    if as_json:
        print_json({"added": len(ids), "ids": ids})
    else:
        click.echo(f"Remembered {len(ids)} memories.")


@click.command("get")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--history", is_flag=True, help="Show what each said before its updates, too.")
@as_of_option
@json_option
@click.pass_obj
def get_command(
    session: CommandContext, /, ids: tuple[str, ...], history: bool, as_of: str | None, as_json: bool
) -> int:
    """
    Show memories by id; a unique beginning or ending of 6 characters or more will do.

    \b
    Example:
        memorist get 4f2a91bc
        memorist get 4f2a91bc --as-of "last month"
    """
    with session.open(embedder="none") as memory:
        found = memory.get(list(ids), as_of=as_of)
        versions = {one.id: memory.history(one.id) for one in found} if history else {}
        reasons = [_why_missing(memory, id, as_of) for id in found.missing]
    if as_json:
        memories = [
            memory_json(one) | ({"history": [version_json(old) for old in versions[one.id]]} if history else {})
            for one in found
        ]
        print_json({"memories": memories, "missing": list(found.missing)})
    else:
        for one in found:
            click.echo(memory_text(one, style()))
            for old in versions.get(one.id, ()):
                click.echo(style()(f"  until {timestamp(old.replaced_at)}: {printable(old.content)}", dim=True))
    for reason in reasons:
        click.echo(f"Error: {printable(reason)}", err=True)
    return 1 if found.missing else 0


@click.command("list")
@click.option("--limit", default=20, show_default=True, help="How many.")
@click.option("--cursor", help="Where the page before ended.")
@click.option("--deleted", is_flag=True, help="List the forgotten ones instead.")
@switch("--no-superseded", "include_superseded", sets=False, help="Leave out what was superseded.")
@filters
@detail_option
@json_option
@click.pass_obj
def list_command(session: CommandContext, /, detail: str | None, as_json: bool, **wanted: Any) -> None:
    """
    List memories, newest first.

    \b
    Example:
        memorist list --project api --tag decision --since 2026-01-01
        memorist list --never-recalled --no-superseded
    """
    with session.open(embedder="none") as memory:
        page = memory.list(detail=detail or "full", **given(wanted))
    if as_json:
        print_json({"memories": [memory_json(one, detail or "full") for one in page], "cursor": page.cursor})
        return
    for one in page:
        click.echo(memory_text(one, style()) if detail == "full" else memory_line(one, style(), detail or "index"))
    if not page:
        click.echo("Nothing found.", err=True)
    if page.cursor:
        click.echo(f"There is more: the same with --cursor {page.cursor}", err=True)


@click.command("update")
@click.argument("id")
@click.argument("text", required=False)
@details
@click.option("--metadata", help="A JSON object in place of the old one.")
@session_option
@redact_option
@json_option
@click.pass_obj
def update_command(
    session: CommandContext, /, id: str, text: str | None, redact: bool | None, as_json: bool, **fields: Any
) -> None:
    """
    Change a memory; what it said before is kept (`memorist get ID --history`).

    \b
    Example:
        memorist update 4f2a91bc "Retries are capped at 3 now" --tag decision
    """
    changes = _fields(fields) | ({} if text is None else {"content": _content(text, None)})
    with session.open(redact=redact) as memory:
        updated = memory.update(id, **changes)
    if session.redaction(redact).on:
        entries = reported(updated.metadata)
        say_redacted(entry for entry in entries if field_of(entry) in changes)
    if as_json:
        print_json(memory_json(updated))
    else:
        click.echo(f"Updated {memory_line(updated, style())}")


@click.command("forget")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--hard", is_flag=True, help="Erase at once; it cannot be restored.")
@click.pass_obj
def forget_command(session: CommandContext, /, ids: tuple[str, ...], hard: bool) -> None:
    """
    Take memories out of every search. They can be restored until `memorist purge`.

    \b
    Example:
        memorist forget 4f2a91bc
    """
    with session.open(embedder="none") as memory:
        for id in ids:
            replaced = [] if hard else _replaced(memory, id)
            memory.forget(id, hard=hard)
            click.echo(f"Erased {id}" if hard else f"Forgot {id}; `memorist restore {id}` brings it back")
            for old in replaced:
                undo = f"`memorist supersede --undo {old.short_id}` lets it hold again"
                click.echo(f"It had replaced {old.short_id}, which stays superseded: {undo}", err=True)


@click.command("restore")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def restore_command(session: CommandContext, /, ids: tuple[str, ...]) -> None:
    """
    Bring forgotten memories back.

    \b
    Example:
        memorist restore 4f2a91bc
    """
    with session.open(embedder="none") as memory:
        for id in ids:
            click.echo(f"Restored {memory_line(memory.restore(id), style())}")


@click.command("purge")
@click.option("--before", metavar="TIME", help="Only what was forgotten before this time.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def purge_command(session: CommandContext, /, before: str | None, yes: bool, as_json: bool) -> None:
    """
    Erase forgotten memories for good, and rewrite the file so that nothing of them is left in it.

    \b
    Example:
        memorist purge --before 2026-01-01 --yes
    """
    if must_ask(yes, "purge erases for good"):
        click.confirm("Erase what was forgotten? It cannot be brought back.", abort=True, err=True)
    with session.open(embedder="none") as memory:
        gone = memory.purge(before=before)
    if as_json:
        print_json({"purged": gone})
    else:
        click.echo(f"Erased {gone} forgotten memories.")


def _replaced(memory: Memorist, id: str) -> list[Memory]:
    """What a memory that is about to be forgotten had replaced; whether it exists is for `forget` to say."""
    try:
        return memory.replaced(id)
    except NotFound:
        return []


def _why_missing(memory: Memorist, id: str, as_of: str | None) -> str:
    try:
        memory.get(id, as_of=as_of)
    except NotFound as exc:
        return describe_error(exc)
    return f"no memory has the id {id}"


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a memory that were given on the command line."""
    fields = given(options)
    if "metadata" in fields:
        try:
            fields["metadata"] = json.loads(fields["metadata"])
        except ValueError as exc:
            raise InvalidInput(f"--metadata is not JSON: {exc}") from exc
    return fields


def _content(text: str | None, file: str | None) -> str:
    if text is not None and text != "-":
        return text
    return text_from(file if file is not None else "-")


def _lines(source: str) -> int | None:
    """How many lines a file has, for the progress bar; unknown for standard input."""
    if source == "-" or not Path(source).is_file():
        return None
    with Path(source).open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _items(stream: IO[bytes], source: str, defaults: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One memory a line: a JSON object with the fields of `add`, or a JSON text. What is wrong is named by its line."""
    for number, raw in enumerate(stream, 1):
        line = decoded(raw, "utf-8-sig", f"line {number} of {source}")
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            fields = defaults | ({"content": item} if isinstance(item, str) else dict(validation.mapping(item)))
            validation.draft(fields, datetime.now(UTC))
        except (ValueError, InvalidInput) as exc:
            reason = f"is not JSON: {exc}" if isinstance(exc, ValueError) else f"cannot be added: {exc}"
            raise InvalidInput(f"line {number} {reason}. The lines before it were kept") from exc
        yield fields
