"""The server for agents."""

import importlib
from types import ModuleType

import click

from memorist.cli.app import Session
from memorist.errors import MissingExtra


@click.command("mcp")
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP instead of standard input and output.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="With --http: a name it is called by.")
@click.option("--only-project", metavar="NAME", help="Serve this project alone; no argument leads out of it.")
@click.option("--read-only", is_flag=True, help="Offer nothing that changes a memory.")
@click.pass_obj
def mcp_command(
    session: Session, /, http: str | None, hosts: tuple[str, ...], only_project: str | None, read_only: bool
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
    opening = _part("opening").Opening(lambda: session.open(create=not read_only, read_only=read_only))
    serving = _part("server").Serving(
        opening,
        answer_tokens=settings.answer_tokens,
        project=settings.project,
        only_project=only_project,
        read_only=read_only,
    )
    if http is None:
        _part("stdio").serve(serving)
    else:
        over = _part("http")
        over.serve(serving, over.Address.of(http), settings.http_token, hosts)


def _part(name: str) -> ModuleType:
    """A part of the server; only it needs the protocol's SDK."""
    try:
        return importlib.import_module(f"memorist.mcp_server.{name}")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "starlette", "uvicorn"):
            raise
        raise MissingExtra("the MCP server needs an extra: pip install 'memorist[mcp]'") from exc
