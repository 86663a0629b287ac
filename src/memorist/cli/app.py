"""The program `memorist`: its own options, the context that commands run in, and how errors end."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memorist import __version__
from memorist.cli.groups import LazyGroup, complete_path
from memorist.config import LoadedSettings, default_path, is_file_path, is_missing_or_empty, load
from memorist.errors import ConfigError, MemoristError, find_hint
from memorist.ingest.redaction import Redaction

if TYPE_CHECKING:
    from memorist.embed.base import Embedder
    from memorist.engine import Memorist

_PROGRAM = "memorist"
_COMPLETION_VARIABLE = "_MEMORIST_COMPLETE"  # a shell sets it to ask for completions

# Endings of error messages: the commands that help. A command in parentheses does what the message advises.
HINTS = {
    "check": " (`memorist check`)",
    "index_file": "; `memorist index {0}` indexes it",
    "list_facts": "; `memorist fact list MEMORY` shows the facts of a memory",
    "list_memories": "; `memorist list` shows ids",
    "list_sessions": "; `memorist session list` shows ids, `memorist session start` starts a session",
    "overwrite": " (--force)",
    "reembed": " (`memorist reembed`)",
    "repair": "; `memorist check --repair` repairs indexes and vectors",
    "restore_memory": " (`memorist restore {0}`)",
    "unsupersede": " (`memorist supersede --undo {0}`)",
}


class CommandContext:
    """The settings that hold for a command, and the memory that they name."""

    def __init__(self, arguments: Mapping[str, Any], folder: Path | None = None, *, by_user: bool = True) -> None:
        self.arguments = arguments
        self._folder, self._by_user = folder, by_user

    def for_program(self) -> "CommandContext":
        """Return the context of a command that a program runs, so that no user has seen the project's settings."""
        return CommandContext(self.arguments, self._folder, by_user=False)

    def within(self, folder: Path, arguments: Mapping[str, Any] | None = None) -> "CommandContext":
        """Return the context in another folder, whose project may have settings of its own."""
        return CommandContext({**self.arguments, **(arguments or {})}, folder, by_user=self._by_user)

    @cached_property
    def loaded(self) -> LoadedSettings:
        return load(os.environ, self._folder or Path.cwd(), self.arguments, by_user=self._by_user)

    @cached_property
    def target(self) -> str:
        """The database, whether it exists or not."""
        database = self.loaded.settings.database
        if database is not None and not database.strip():
            raise ConfigError("the path of the database is empty; name a file, or leave --db out to use your own")
        if database is None:
            return str(default_path(_print_note if self._by_user else None))
        path = Path(os.path.expanduser(database))
        return str(self._folder / path if self._folder else path) if is_file_path(database) else database

    @property
    def models(self) -> Path | None:
        """The folder of optional models that is set."""
        folder = self.loaded.settings.models
        return Path(os.path.expanduser(folder)) if folder else None

    def redaction(self, redact: bool | None = None) -> Redaction:
        """Return how secrets are handled: as the command's option says, or else as the setting does."""
        settings = self.loaded.settings
        return Redaction(settings.redact if redact is None else redact, settings.redact_allow)

    def open(
        self,
        *,
        create: bool = False,
        embedder: "str | Embedder | None" = None,
        redact: bool | None = None,
        read_only: bool = False,
    ) -> "Memorist":
        """Open the memory. Only with `create` is a missing file made; a file that cannot be written is only read."""
        from memorist.engine import open_memory

        settings, redaction = self.loaded.settings, self.redaction(redact)
        writable = create if is_missing_or_empty(Path(self.target)) else os.access(self.target, os.W_OK)
        return open_memory(
            self.target,
            namespace=settings.namespace,
            embedder=embedder or settings.embedder,
            profile=settings.profile,
            read_only=read_only or not writable,
            busy_timeout=settings.busy_timeout,
            synchronous=settings.synchronous,
            threads=settings.threads,
            near=settings.near,
            redact=redaction.on,
            redact_allow=redaction.allow,
            models=self.models,
        )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--db",
    "database",
    metavar="TARGET",
    shell_complete=complete_path,
    help="The database file (default: your own database).",
)
@click.option("--namespace", metavar="NAME", help="Use only this namespace; namespaces never mix.")
@click.version_option(__version__, prog_name=_PROGRAM)
@click.pass_context
def app(context: click.Context, database: str | None, namespace: str | None) -> None:
    """
    Memorist: the memory an AI agent can trust. One file on your machine, searched by keyword and by meaning.

    \b
    Example:
        memorist add "We deploy with make ship from the release branch" --project api
        memorist search "how do we ship code?"
    """
    context.obj = CommandContext({"database": database, "namespace": namespace})


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit; an error ends as one line on stderr and an exit code."""
    _use_utf8()
    if instruction := os.environ.get(_COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(app, {}, _PROGRAM, _COMPLETION_VARIABLE, instruction))
    try:
        # Not app.main(): it would report a broken pipe as an error.
        with app.make_context(_PROGRAM, sys.argv[1:] if arguments is None else arguments) as context:
            result = app.invoke(context)
        sys.stdout.flush()
        sys.exit(result if isinstance(result, int) else 0)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except click.ClickException as exc:
        exc.show()
        sys.exit(exc.exit_code)
    except MemoristError as exc:
        _exit_with_error(describe_error(exc))
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output has gone, as `head` does; without this, Python complains when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as exc:
        _exit_with_error(f"{exc.filename or 'the system'}: {exc.strerror or exc}")


def describe_error(error: Exception) -> str:
    """Return the message of an error, and the command that helps, if there is one."""
    hint = find_hint(error)
    return str(error) if hint is None else f"{error}{HINTS[hint.action].format(hint.subject)}"


def _print_note(text: str) -> None:
    from memorist.present.render import printable  # it loads the index's tokenizer

    click.echo(f"Note: {printable(text)}", err=True)


def _exit_with_error(message: str) -> None:
    from memorist.present.render import printable

    click.echo(f"Error: {printable(' '.join(message.split()))}", err=True)
    sys.exit(1)


def _use_utf8() -> None:
    """Print any text, whatever encoding the terminal declares."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="replace")
