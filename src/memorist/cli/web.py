"""Commands that serve the HTTP API and the page, and print tokens for programs that use it."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memorist.cli.app import CommandContext, require_extra
from memorist.cli.options import combine_options
from memorist.config import MAX_WORKERS
from memorist.errors import ConfigError

if TYPE_CHECKING:
    from memorist.embed.base import Embedder
    from memorist.engine import Memorist

DEFAULT_PORT = 8377
_SERVER_MODULES = ("anyio", "h11", "python_multipart", "starlette", "uvicorn")

_MAX_WORKERS = 4  # by default: each has a model and an image of its own, some hundred megabytes

_serve_options = combine_options(
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
    click.option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=DEFAULT_PORT,
        show_default=True,
        help="The port to listen on; 0 is any that is free.",
    ),
    click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name it is called by."),
    click.option("--read-only", is_flag=True, help="Offer nothing that changes a memory."),
)


@click.command("serve")
@_serve_options
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), help="Processes that answer (default: by processors).")
@click.pass_obj
def serve_command(
    context: CommandContext,
    /,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    read_only: bool,
    workers: int | None,
) -> None:
    """
    Serve the HTTP API and the page that shows your memories.

    Only this machine is served unless --host says otherwise; then MEMORIST_HTTP_TOKEN, or the setting http_token, has
    to be set.

    \b
    Example:
        memorist serve
        memorist serve --port 9000 --read-only
        memorist serve --workers 4
        MEMORIST_HTTP_TOKEN=... memorist serve --host 0.0.0.0 --allow-host memory.example.org
    """
    _serve(context, host, port, hosts, read_only=read_only, workers=_count_workers(context, workers))


@click.command("ui")
@_serve_options
@click.pass_obj
def ui_command(context: CommandContext, /, host: str, port: int, hosts: tuple[str, ...], read_only: bool) -> None:
    """
    Open the page that shows your memories. Your browser shows it until you press Ctrl-C here.

    \b
    Example:
        memorist ui
    """
    _serve(context, host, port, hosts, read_only=read_only, browser=True)


@click.command("token")
@click.option("--read-only", is_flag=True, help="It changes nothing.")
@click.option("--only-project", metavar="NAME", help="It gives access to this project alone.")
@click.option("--only-namespace", metavar="NAME", help="It gives access to this namespace alone.")
@click.option("--days", type=click.IntRange(1, 36_500), help="It is valid for so many days (default: always).")
@click.pass_obj
def token_command(
    context: CommandContext,
    /,
    read_only: bool,
    only_project: str | None,
    only_namespace: str | None,
    days: int | None,
) -> None:
    """
    Print a token for a program that uses the HTTP API.

    It is for one namespace: the one that --namespace or a setting names, or else that of the server it is used on. It
    is valid as long as the setting http_token, or your own key file, stays the same.

    \b
    Example:
        memorist token
        memorist token --read-only --only-project api --days 30
        memorist --namespace team token --read-only
    """
    from memorist.validation import name, namespace
    from memorist.web.access import TokenAuth

    loaded = context.loaded
    named = loaded.settings.namespace if "namespace" in loaded.origins else None
    chosen = named if only_namespace is None else only_namespace
    if chosen != named and loaded.origins.get("namespace") == "argument":
        raise click.UsageError(f"--namespace names {named!r} and --only-namespace another one")
    token_auth = TokenAuth(_find_secret(context))
    click.echo(
        token_auth.issue_token(
            read_only=read_only,
            project=name(only_project, "project"),
            namespace=None if chosen is None else namespace(chosen),
            seconds=None if days is None else days * 86_400,
        )
    )


def _serve(
    context: CommandContext,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    *,
    read_only: bool,
    browser: bool = False,
    workers: int = 1,
) -> None:
    with require_extra("the HTTP server", "web", _SERVER_MODULES):
        from memorist.web.server import ServeOptions, serve
    from memorist.listening import ListenAddress

    settings = context.loaded.settings
    address = ListenAddress.parse(f"{host}:{port}")
    address.refuse_unsafe(settings.http_token, hosts)
    options = ServeOptions(
        address, _find_secret(context), context.state_folder, context.cache_folder, hosts, read_only, browser, workers
    )
    serve(options, partial(_open_namespace, context, read_only), context.loaded)


def _open_namespace(
    context: CommandContext, read_only: bool, namespace: str, embedder: "Embedder | None"
) -> "Memorist":
    """Open the memory of a namespace. On its own, not within `_serve`, so that it can be pickled for a worker."""
    chosen = context.within(Path.cwd(), {"namespace": namespace})
    return chosen.open(create=not read_only, embedder=embedder, read_only=read_only, surface="http")


def _count_workers(context: CommandContext, asked: int | None) -> int:
    """Return how many processes answer: as the option or the setting says, or else by the processors."""
    wanted = context.loaded.settings.workers if asked is None else asked
    can_share = sys.platform != "win32" and context.target != ":memory:"
    if wanted is not None and wanted > 1 and not can_share:
        where = "Windows" if sys.platform == "win32" else "a database in memory"
        raise ConfigError(f"{wanted} workers cannot share a server on {where}: leave `workers` out, or set it to 1")
    if wanted is not None:
        return wanted
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, _MAX_WORKERS) if can_share else 1


def _find_secret(context: CommandContext) -> str:
    """Return the setting http_token, or else the user's own secret, which a file keeps."""
    if secret := context.loaded.settings.http_token:
        return secret
    from memorist.web.access import load_secret

    return load_secret(context.state_folder)
