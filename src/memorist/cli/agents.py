"""Commands that an agent's client starts: hooks and the MCP server."""

import importlib
import os
import sys
from types import ModuleType

import click

from memorist.cli.app import CommandContext
from memorist.errors import MissingExtra


# Nothing but a hook's own answer ends a call: to a client, the exit code of wrong usage would mean to stop the agent.
@click.command("hook", context_settings={"ignore_unknown_options": True})
@click.argument("event", nargs=-1, metavar="EVENT", type=click.UNPROCESSED)
@click.pass_obj
def hook_command(session: CommandContext, /, event: tuple[str, ...]) -> None:
    """
    Answer an event of an agent's client, whose JSON is read from standard input. `memorist install` sets this up.

    SessionStart gives core memories and the latest ones, UserPromptSubmit what is relevant to the prompt; PreCompact
    and SessionEnd save what was said. Errors never reach the agent: they are in hooks.log, in your state folder.

    \b
    Example:
        echo '{"prompt": "How do we deploy?", "cwd": "."}' | memorist hook UserPromptSubmit
    """
    from platformdirs import user_state_path

    from memorist.hooks.run import LATER, Hook

    hook = Hook(
        name=" ".join(event),
        input=sys.stdin.buffer,
        workspace=session.untyped(),
        state_folder=user_state_path("memorist", appauthor=False),
        project_root=os.environ.get("CLAUDE_PROJECT_DIR") or None,
        worker_command=(sys.executable, "-m", "memorist", "hook", LATER),
    )
    if answer := hook.run():
        click.echo(answer)


@click.command("mcp")
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP instead of standard input and output.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="With --http: a name it is called by.")
@click.option("--only-project", metavar="NAME", help="Serve this project alone; no argument leads out of it.")
@click.option("--read-only", is_flag=True, help="Offer nothing that changes a memory.")
@click.pass_obj
def mcp_command(
    session: CommandContext, /, http: str | None, hosts: tuple[str, ...], only_project: str | None, read_only: bool
) -> None:
    """
    Serve memories to an agent, over the Model Context Protocol.

    \b
    Example:
        memorist mcp
        memorist mcp --only-project api --read-only
        memorist mcp --http 127.0.0.1:8765
    """
    if hosts and not http:
        raise click.UsageError("--allow-host goes with --http")
    session = session.untyped()
    settings = session.loaded.settings
    if session.loaded.passed_over:
        from memorist.present.render import printable  # it loads the index's tokenizer

        click.echo(f"Note: {printable(session.loaded.passed_over)}", err=True)
    server = _part("server")
    serving = server.ServerOptions(
        _part("opener").BackgroundOpener(lambda: session.open(create=not read_only, read_only=read_only)),
        answer_tokens=settings.answer_tokens,
        project=settings.project,
        only_project=only_project,
        read_only=read_only,
    )
    if http is None:
        _part("stdio").serve(serving)
    else:
        over = _part("http")
        over.serve(serving, over.ListenAddress.parse(http), settings.http_token, hosts)


def _part(name: str) -> ModuleType:
    """A part of the server; only it needs the protocol's SDK."""
    try:
        return importlib.import_module(f"memorist.mcp_server.{name}")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "starlette", "uvicorn"):
            raise
        raise MissingExtra("the MCP server needs an extra: pip install 'memorist[mcp]'") from exc
