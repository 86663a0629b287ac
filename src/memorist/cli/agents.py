"""Commands that an agent's client runs: hooks and the MCP server. They must import little, to answer at once."""

import os
import sys

import click

from memorist.cli.app import CommandContext, describe_error, print_note, require_extra

_MCP_MODULES = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn")


# Any option is accepted: a client takes the exit code of wrong usage as an order to stop the agent.
@click.command("hook", context_settings={"ignore_unknown_options": True})
@click.argument("event", nargs=-1, metavar="EVENT", type=click.UNPROCESSED)
@click.pass_obj
def hook_command(context: CommandContext, /, event: tuple[str, ...]) -> None:
    """
    Handle an event of an agent's client. Its JSON is read from standard input. `memorist install` sets this up.

    SessionStart answers with pinned memories and the latest ones, UserPromptSubmit with what is relevant to the
    prompt; PreCompact and SessionEnd save the conversation. Errors never reach the agent: they are written to hooks.log
    in your state folder.

    \b
    Example:
        echo '{"prompt": "How do we deploy?", "cwd": "."}' | memorist hook UserPromptSubmit
    """
    from memorist.hooks import LATER, Hook

    hook = Hook(
        name=" ".join(event),
        input=sys.stdin.buffer,
        workspace=context.for_program(),
        state_folder=context.state_folder,
        project_root=os.environ.get("CLAUDE_PROJECT_DIR") or None,
        describe_error=describe_error,
        worker_command=(sys.executable, "-m", "memorist", "hook", LATER),
    )
    if answer := hook.run():
        click.echo(answer)


@click.command("mcp")
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP instead of standard input and output.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="With --http: a host name it is called by.")
@click.option("--only-project", metavar="NAME", help="Serve only this project; no argument gives access to another.")
@click.option("--read-only", is_flag=True, help="Offer no tool that changes a memory.")
@click.pass_obj
def mcp_command(
    context: CommandContext, /, http: str | None, hosts: tuple[str, ...], only_project: str | None, read_only: bool
) -> None:
    """
    Run the MCP server. Agents use it to search and store memories (Model Context Protocol).

    \b
    Example:
        memorist mcp
        memorist mcp --only-project api --read-only
        memorist mcp --http 127.0.0.1:8765
    """
    if hosts and not http:
        raise click.UsageError("--allow-host needs --http")
    context = context.for_program()
    settings = context.loaded.settings
    if context.loaded.ignored:
        print_note(context.loaded.ignored.warning)
    with require_extra("the MCP server", "mcp", _MCP_MODULES):
        from memorist.mcp_server.server import BackgroundOpener, ServerOptions, serve_stdio

        if http is not None:
            from memorist.mcp_server import http as http_server
    options = ServerOptions(
        BackgroundOpener(lambda: context.open(create=not read_only, read_only=read_only, surface="mcp")),
        answer_tokens=settings.answer_tokens,
        project=settings.project,
        only_project=only_project,
        read_only=read_only,
    )
    if http is None:
        serve_stdio(options)
    else:
        from memorist.listening import ListenAddress

        http_server.serve(options, ListenAddress.parse(http), settings.http_token, hosts)
