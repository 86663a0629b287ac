"""Commands on sessions."""

from typing import Any

import click

from memorist.cli.app import CommandContext, CommandGroup
from memorist.cli.options import (
    answer_options,
    declared_options,
    drop_unset,
    hard_option,
    memory_lines,
    print_answer,
    print_redacted,
    style,
)
from memorist.engine.sessions import Sessions
from memorist.present.codec import timestamp
from memorist.present.render import local_time, memory_json, session_json, session_line
from memorist.records import Session


@click.group("session", cls=CommandGroup, default_command="list")
def session_command() -> None:
    """
    Start, end and list sessions. A session is a conversation or a piece of work in which memories are added and used.

    \b
    Example:
        id=$(memorist session start --project api)
        memorist add "Retries are capped at 5" --session $id
        memorist session end $id "Looked into retries"
    """


@session_command.command("start")
@declared_options(Sessions.start)
@answer_options
def _start_session(context: CommandContext, /, as_json: bool, **options: Any) -> None:
    """
    Start a session and print its id. Pass it to `add --session` and `search --record-session`.

    \b
    Example:
        memorist session start --project api --summary "Looking into retries"
    """
    with context.open(create=True, embedder="none") as memory:
        started = memory.sessions.start(**{"project": context.loaded.settings.project} | drop_unset(options))
    print_redacted(context.redaction(by_model=True).report_secrets({"summary": options["summary"]}))
    print_answer(as_json, session_json(started), started.id)


@session_command.command("end")
@click.argument("id")
@click.argument("text", required=False, metavar="[SUMMARY]")
@click.option("--summary", help="What it was about; the same as the argument SUMMARY.")
@answer_options
def _end_session(context: CommandContext, /, id: str, text: str | None, summary: str | None, as_json: bool) -> None:
    """
    End a session; no more memories can be added to it.

    \b
    Example:
        memorist session end 5f09a972 "Retries are capped now"
    """
    if text is not None and summary is not None:
        raise click.UsageError("the summary is given twice: as an argument and with --summary; leave one of them out")
    summary = summary if text is None else text
    with context.open(embedder="none") as memory:
        _print_session(memory.sessions.end(id, summary), "Ended", as_json)
    print_redacted(context.redaction(by_model=True).report_secrets({"summary": summary}))


@session_command.command("summarise")
@click.argument("id")
@click.argument("text")
@answer_options
def _summarise_session(context: CommandContext, /, id: str, text: str, as_json: bool) -> None:
    """
    Set the summary of a session, even after it has ended.

    \b
    Example:
        memorist session summarise 5f09a972 "Retries are capped now"
    """
    with context.open(embedder="none") as memory:
        _print_session(memory.sessions.summarise(id, text), "Summarised", as_json)
    print_redacted(context.redaction(by_model=True).report_secrets({"summary": text}))


@session_command.command("forget")
@click.argument("id")
@hard_option
@answer_options
def _forget_session(context: CommandContext, /, id: str, hard: bool, as_json: bool) -> None:
    """
    Hide a session with the memories made in it. It can be restored until `memorist purge`.

    \b
    Example:
        memorist session forget 5f09a972
    """
    with context.open(embedder="none") as memory:
        _print_session(memory.sessions.forget(id, hard=hard), "Erased" if hard else "Forgot", as_json)


@session_command.command("restore")
@click.argument("id")
@answer_options
def _restore_session(context: CommandContext, /, id: str, as_json: bool) -> None:
    """
    Bring a forgotten session back, with the memories that were forgotten with it.

    \b
    Example:
        memorist session restore 5f09a972
    """
    with context.open(embedder="none") as memory:
        _print_session(memory.sessions.restore(id), "Restored", as_json)


@session_command.command("list")
@declared_options(Sessions.list, only=["project", "active", "deleted"])
@click.option("--limit", default=20, show_default=True, help="How many.")
@answer_options
def _list_sessions(context: CommandContext, /, as_json: bool, **options: Any) -> None:
    """
    List sessions, the latest first.

    \b
    Example:
        memorist session list --project api --active
    """
    with context.open(embedder="none") as memory:
        sessions = memory.sessions.list(**drop_unset(options))
    lines = (session_line(session, style()) for session in sessions)
    print_answer(as_json, {"sessions": [session_json(session) for session in sessions]}, lines)


@session_command.command("show")
@click.argument("id")
@click.option("--limit", default=50, show_default=True, help="How many of its memories.")
@answer_options
def _show_session(context: CommandContext, /, id: str, limit: int, as_json: bool) -> None:
    """
    Show a session with its memories, newest first.

    \b
    Example:
        memorist session show 5f09a972
    """
    with context.open(embedder="none") as memory:
        session = memory.sessions.get(id)
        page = memory.list(session=session.id, limit=limit)
    memories = [memory_json(found) for found in page]
    answer = {"session": session_json(session), "memories": memories, "cursor": page.cursor}
    print_answer(as_json, answer, [session_line(session, style()), *(f"  {line}" for line in memory_lines(page))])
    if page.cursor and not as_json:
        click.echo("There is more: raise --limit to see it.", err=True)


@session_command.command("of")
@click.argument("memory_id", metavar="MEMORY")
@answer_options
def _show_session_of(context: CommandContext, /, memory_id: str, as_json: bool) -> None:
    """
    Show the session that last used a memory, and how it used it.

    \b
    Example:
        memorist session of 4f2a91bc
    """
    with context.open(embedder="none") as memory:
        used = memory.sessions.context_of(memory_id)
    session, usage, at = (session_json(used.session), used.usage, timestamp(used.at)) if used else (None,) * 3
    lines = [f"{used.usage} {local_time(used.at)} in {session_line(used.session, style())}"] if used else []
    print_answer(as_json, {"session": session, "usage": usage, "at": at}, lines, "No session used it.")


def _print_session(session: Session, verb: str, as_json: bool) -> None:
    print_answer(as_json, session_json(session), f"{verb} {session_line(session, style())}")
