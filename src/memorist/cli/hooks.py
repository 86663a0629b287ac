"""What agents call: hooks."""

import os
import sys

import click

from memorist.cli.app import Session


# Nothing but a hook's own answer ends a call: to a client, the exit code of wrong usage would mean to stop the agent.
@click.command("hook", context_settings={"ignore_unknown_options": True})
@click.argument("event", nargs=-1, metavar="EVENT", type=click.UNPROCESSED)
@click.pass_obj
def hook_command(session: Session, /, event: tuple[str, ...]) -> None:
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
        given=sys.stdin.buffer,
        here=session.untyped(),
        state=user_state_path("memorist", appauthor=False),
        root=os.environ.get("CLAUDE_PROJECT_DIR") or None,
        worker=(sys.executable, "-m", "memorist", "hook", LATER),
    )
    if answer := hook.run():
        click.echo(answer)
