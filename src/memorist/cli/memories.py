"""Commands on single memories: add, show, change, forget and restore them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO, Any

import click

from memorist import validation
from memorist.arguments import MemoryChanges, NewMemory
from memorist.cli.app import CommandContext, complete_path, describe_error
from memorist.cli.options import (
    ProgressBar,
    answer_options,
    as_of_option,
    declared_options,
    decode_text,
    detail_option,
    drop_unset,
    filter_options,
    flag_option,
    hard_option,
    must_confirm,
    open_input,
    print_answer,
    print_degraded,
    print_json,
    print_page,
    print_redacted,
    read_argument,
    read_text,
    redact_option,
    session_option,
    style,
)
from memorist.engine import Memorist
from memorist.engine.sessions import choose_project
from memorist.errors import InvalidInput, NotFound
from memorist.ids import shorten_id
from memorist.present.codec import timestamp
from memorist.present.render import (
    LINE_CHARACTERS,
    count_of,
    memory_json,
    memory_line,
    memory_text,
    printable,
    record_json,
    shell_id,
)
from memorist.records import Memory, NearDuplicate, Version
from memorist.redact.redaction import Redaction, redaction_report, reported_field
from memorist.text.snippet import preview

_BATCH = 500  # memories looked at together


@click.command("add")
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(dir_okay=False), help="Remember the text of this file.")
@click.option(
    "--jsonl",
    "jsonl",
    metavar="FILE",
    shell_complete=complete_path,
    help="Remember many: a JSON object or text on each line (- reads standard input).",
)
@declared_options(NewMemory)
@redact_option
@answer_options
def add_command(
    context: CommandContext,
    /,
    text: str | None,
    file: str | None,
    jsonl: str | None,
    on_near_duplicate: str | None,
    redact: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """
    Remember a text. With - as TEXT, it is read from standard input.

    \b
    Example:
        memorist add "Retries are capped at 5, see ADR-016" --project api --tag decision
        git log -1 --format=%B | memorist add - --kind commit
        memorist add --jsonl notes.jsonl
    """
    if sum(source is not None for source in (text, file, jsonl)) != 1:
        raise click.UsageError("give one of: a text, - for standard input, --file FILE, --jsonl FILE")
    if jsonl is not None and options["id"] is not None:
        raise click.UsageError("--id names a single memory; with --jsonl, give each line its own")
    if jsonl is not None and on_near_duplicate is not None:
        raise click.UsageError("--on-near-duplicate is about a single new memory; leave it out with --jsonl")
    defaults = drop_unset(options)
    if jsonl is not None:
        _add_many(context, jsonl, defaults, redact, as_json)
        return
    content = read_text(file or "-") if text is None else read_argument(text)
    fields: dict[str, Any] = {"content": content} | defaults
    started = datetime.now(UTC)
    with context.open(create=True, redact=redact) as memory:
        fields = {"project": choose_project(memory, fields.get("session"), context.loaded.settings.project)} | fields
        added = memory.add(on_near_duplicate=on_near_duplicate, **fields)
    print_redacted(_find_redacted(context.redaction(redact), fields))
    outcome = _describe_outcome(added, started, by_id="id" in fields)
    lines = [f"{outcome} {memory_line(added, style())}", *([_near_line(added.near)] if added.near else [])]
    print_degraded(added)
    print_answer(as_json, memory_json(added), lines)


def _describe_outcome(added: Memory, started: datetime, *, by_id: bool) -> str:
    if added.recorded_at >= started:
        return "Remembered"
    if not by_id:
        return "Already known and now reinforced:"
    return "Updated" if added.updated_at >= started else "Nothing changed:"


def _near_line(near: NearDuplicate) -> str:
    relation = "Replaces" if near.merged else "Almost the same as"
    return f"{relation} {printable(shorten_id(near.id))}: {printable(preview(near.content, LINE_CHARACTERS))}"


def _find_redacted(redaction: Redaction, fields: dict[str, Any]) -> list[dict[str, Any]]:
    return (
        redaction_report(redaction.redact_draft(validation.draft(fields, datetime.now(UTC))).metadata)
        if redaction.on
        else []
    )


def _add_many(
    context: CommandContext, source: str, defaults: dict[str, Any], redact: bool | None, as_json: bool
) -> None:
    redaction, redacted = context.redaction(redact), Counter[str]()

    @cache
    def project_of(session: str | None) -> str | None:
        return choose_project(memory, session, context.loaded.settings.project)

    def parse_items() -> Iterator[dict[str, Any]]:
        for fields in _parse_lines(stream, source, defaults):
            redacted.update(entry["kind"] for entry in _find_redacted(redaction, fields))
            yield {"project": project_of(fields.get("session"))} | fields

    with (
        open_input(source) as stream,
        context.open(create=True, redact=redact) as memory,
        ProgressBar("Adding", _count_lines(source)) as bar,
    ):
        started = datetime.now(UTC)
        ids = memory.add_many(parse_items(), progress=bar)
        new = _count_stored_since(memory, list(dict.fromkeys(ids)), started)
    if redacted:
        click.echo(f"Redacted: {', '.join(f'{count} {kind}' for kind, count in redacted.items())}", err=True)
    known = len(ids) - new
    also = f"; {known:,} {'was' if known == 1 else 'were'} already known" if known else ""
    answer = {"added": new, "known": known, "ids": ids}
    print_answer(as_json, answer, f"Remembered {count_of(new, 'memory', 'memories')}{also}.")


def _count_stored_since(memory: Memorist, ids: Sequence[str], time: datetime) -> int:
    batches = (ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH))
    return sum(found.recorded_at >= time for batch in batches for found in memory.get(list(batch)))


@click.command("get")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--history", is_flag=True, help="Also show what each said before its updates.")
@as_of_option
@answer_options
def get_command(
    context: CommandContext, /, ids: tuple[str, ...], history: bool, as_of: str | None, as_json: bool
) -> int:
    """
    Show memories, or chunks of indexed files, by id. A unique beginning or ending of 6 or more characters is enough;
    `memorist docs --json` gives the ids of chunks.

    \b
    Example:
        memorist get 4f2a91bc
        memorist get 4f2a91bc --as-of "last month"
    """
    with context.open(embedder="none") as memory:
        memories = memory.get(list(ids), as_of=as_of)
        versions = {found.id: _list_versions(memory, found.id) for found in memories} if history else {}
        reasons = [_explain_missing(memory, id, as_of) for id in memories.missing]
    if as_json:
        shown = [
            memory_json(found) | ({"history": [record_json(old) for old in versions[found.id]]} if history else {})
            for found in memories
        ]
        print_json({"memories": shown, "missing": list(memories.missing)})
    else:
        for found in memories:
            click.echo(memory_text(found, style()))
            for old in versions.get(found.id, ()):
                click.echo(style()(f"  until {timestamp(old.replaced_at)}: {printable(old.content)}", dim=True))
    for reason in reasons:
        click.echo(f"Error: {printable(reason)}", err=True)
    return 1 if memories.missing else 0


@click.command("list")
@click.option("--limit", default=20, show_default=True, help="How many.")
@click.option("--cursor", help="Continue after the page that printed this cursor.")
@click.option("--deleted", is_flag=True, help="List the forgotten ones instead.")
@click.option("--count", is_flag=True, help="Print only how many there are in all.")
@flag_option("--no-superseded", "include_superseded", sets=False, help="Leave out superseded memories.")
@filter_options
@detail_option
@answer_options
def list_command(context: CommandContext, /, detail: str | None, count: bool, as_json: bool, **options: Any) -> None:
    """
    List memories, newest first.

    \b
    Example:
        memorist list --project api --tag decision --since 2026-01-01
        memorist list --never-recalled --no-superseded
    """
    if count:
        del options["limit"], options["cursor"]
        with context.open(embedder="none") as memory:
            number = memory.count(**drop_unset(options))
        print_answer(as_json, {"count": number}, f"{number:,}")
        return
    with context.open(embedder="none") as memory:
        page = memory.list(detail=detail or "full", **drop_unset(options))
    print_page(as_json, page, "repeat the command with --cursor {cursor}", detail)


@click.command("update")
@click.argument("id")
@click.argument("text", required=False)
@declared_options(MemoryChanges, leave_out=["content"])
@session_option
@redact_option
@answer_options
def update_command(
    context: CommandContext, /, id: str, text: str | None, redact: bool | None, as_json: bool, **options: Any
) -> None:
    """
    Change a memory and keep what it said before. `memorist get ID --history` shows it; - as TEXT reads standard input.

    \b
    Example:
        memorist update 4f2a91bc "Retries are capped at 3 now" --tag decision
    """
    changes = drop_unset(options) | ({} if text is None else {"content": read_argument(text)})
    _update_memory(context, id, changes, redact, as_json)


@click.command("edit")
@click.argument("id")
@redact_option
@answer_options
def edit_command(context: CommandContext, /, id: str, redact: bool | None, as_json: bool) -> None:
    """
    Edit the text of a memory in your editor. That is $VISUAL or $EDITOR; what the memory said before is kept.

    \b
    Example:
        memorist edit 4f2a91bc
        EDITOR=nano memorist edit 4f2a91bc
    """
    with context.open(embedder="none") as memory:
        old = memory.get(id)
    edited = click.edit(old.content, extension=".md")
    text = old.content if edited is None else edited.strip("\n")
    if not text.strip():
        click.echo("Nothing changed: the text is empty. `memorist forget` hides a memory.", err=True)
    elif text == old.content.strip("\n"):
        click.echo("Nothing changed: the text is the same.", err=True)
    else:
        _update_memory(context, old.id, {"content": text}, redact, as_json)


def _update_memory(
    context: CommandContext, id: str, changes: dict[str, Any], redact: bool | None, as_json: bool
) -> None:
    with context.open(redact=redact) as memory:
        before = memory.get(id)
        updated = memory.update(id, **changes)
    if context.redaction(redact).on:
        print_redacted(entry for entry in redaction_report(updated.metadata) if reported_field(entry) in changes)
    print_degraded(updated)
    same = (updated.updated_at, updated.expires_at) == (before.updated_at, before.expires_at)
    outcome = "Nothing changed:" if same else "Updated"
    print_answer(as_json, memory_json(updated), f"{outcome} {memory_line(updated, style())}")


@click.command("forget")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@hard_option
@filter_options
@click.option("--dry-run", is_flag=True, help="With filters: count what would be forgotten, and forget nothing.")
@click.option("--yes", is_flag=True, help="With filters and --hard: do not ask for confirmation.")
@click.pass_obj
def forget_command(
    context: CommandContext, /, ids: tuple[str, ...], hard: bool, dry_run: bool, yes: bool, **filters: Any
) -> None:
    """
    Hide memories from every search. They can be restored until `memorist purge`. Instead of ids, give filters to forget
    all that pass them.

    \b
    Example:
        memorist forget 4f2a91bc
        memorist forget --project old --metadata '{"user": "anna"}' --dry-run
    """
    if given := drop_unset(filters):
        if ids:
            raise click.UsageError("give ids or filters, not both")
        _forget_many(context, given, hard, dry_run, yes)
        return
    if not ids or dry_run:
        raise click.UsageError("give the ids of memories, or filters")
    with context.open(embedder="none") as memory:
        for id in ids:
            replaced = [] if hard else _find_replaced(memory, id)
            memory.forget(id, hard=hard)
            undo = f"`memorist restore {shell_id(id)}` brings it back"
            click.echo(f"Erased {printable(id)}" if hard else f"Forgot {printable(id)}; {undo}")
            for old in replaced:
                undo = f"`memorist supersede --undo {shell_id(old.short_id)}` makes it current again"
                click.echo(f"It had replaced {printable(old.short_id)}, which stays superseded: {undo}", err=True)
    if hard:
        click.echo("Erased words may stay in the file until `memorist purge` rewrites it.", err=True)


def _forget_many(context: CommandContext, filters: dict[str, Any], hard: bool, dry_run: bool, yes: bool) -> None:
    with context.open(embedder="none") as memory:
        if dry_run:
            click.echo(f"Would forget {count_of(memory.count(**filters), 'memory', 'memories')}; nothing was changed")
            return
        if hard and must_confirm(yes, "forget --hard erases for good"):
            count = count_of(memory.count(**filters), "memory", "memories")
            click.confirm(f"Erase {count}? This cannot be undone.", abort=True, err=True)
        done = count_of(memory.forget_many(hard=hard, **filters), "memory", "memories")
    undo = "`memorist list --deleted` shows what `memorist restore` can bring back"
    click.echo(f"Erased {done}" if hard else f"Forgot {done}; {undo}")


@click.command("restore")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def restore_command(context: CommandContext, /, ids: tuple[str, ...]) -> None:
    """
    Bring forgotten memories back.

    \b
    Example:
        memorist restore 4f2a91bc
    """
    with context.open(embedder="none") as memory:
        for id in ids:
            click.echo(f"Restored {memory_line(memory.restore(id), style())}")


@click.command("purge")
@declared_options(Memorist.purge)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@answer_options
def purge_command(context: CommandContext, /, before: str | None, yes: bool, as_json: bool) -> None:
    """
    Erase forgotten memories for good. The file is rewritten, so that no trace of them is left in it.

    \b
    Example:
        memorist purge --before 2026-01-01 --yes
    """
    if must_confirm(yes, "purge erases for good"):
        click.confirm("Erase the forgotten memories? This cannot be undone.", abort=True, err=True)
    with context.open(embedder="none") as memory:
        count = memory.purge(before=before)
    erased = f"Erased {count_of(count, 'forgotten memory', 'forgotten memories')} and rewrote the file"
    print_answer(as_json, {"purged": count}, f"{erased}: nothing of what was erased is left in it.")


def _find_replaced(memory: Memorist, id: str) -> list[Memory]:
    """Return what a memory had replaced; nothing if it does not exist, which `forget` reports."""
    try:
        return memory.links.replaced(id)
    except NotFound:
        return []


def _list_versions(memory: Memorist, id: str) -> list[Version]:
    try:
        return memory.history(id)
    except NotFound:  # a chunk of an indexed file, which has none
        return []


def _explain_missing(memory: Memorist, id: str, as_of: str | None) -> str:
    try:
        memory.get(id, as_of=as_of)
    except NotFound as exc:
        return describe_error(exc)
    return f"no memory has the id {id}"


def _count_lines(source: str) -> int | None:
    """Count the lines of a file for the progress bar; None for standard input."""
    if source == "-" or not Path(source).is_file():
        return None
    with Path(source).open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _parse_lines(stream: IO[bytes], source: str, defaults: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Parse a memory from each line, a JSON object with the fields of `add` or a JSON text; an error names its line."""
    for number, raw in enumerate(stream, 1):
        line = decode_text(raw, "utf-8-sig", f"line {number} of {source}")
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            fields = defaults | ({"content": item} if isinstance(item, str) else dict(validation.mapping(item)))
            validation.draft(fields, datetime.now(UTC))
        except (ValueError, RecursionError, InvalidInput) as exc:
            reason = f"cannot be added: {exc}" if isinstance(exc, InvalidInput) else f"is not JSON: {exc}"
            raise InvalidInput(f"line {number} {reason}. The lines before it were added") from exc
        yield fields
