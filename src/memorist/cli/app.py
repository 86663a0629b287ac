"""The command line. Commands are imported when they are called, so that `memorist --help` is instant."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memorist import __version__
from memorist.cli.hints import describe_error
from memorist.config import LoadedSettings, default_path, load, names_a_file, nothing_at
from memorist.errors import ConfigError, MemoristError
from memorist.ingest.redaction import Redaction

if TYPE_CHECKING:
    from memorist.embed.base import Embedder

COMMANDS = {
    "add": "memories",
    "get": "memories",
    "list": "memories",
    "update": "memories",
    "forget": "memories",
    "restore": "memories",
    "purge": "memories",
    "search": "search",
    "timeline": "explore",
    "related": "explore",
    "recalls": "explore",
    "dupes": "explore",
    "feedback": "evaluate",
    "supersede": "relations",
    "relate": "relations",
    "reinforce": "relations",
    "pin": "relations",
    "fact": "relations",
    "session": "sessions",
    "lens": "lenses",
    "index": "documents",
    "watch": "documents",
    "docs": "documents",
    "context": "search",
    "chat": "chat",
    "export": "transfer",
    "import": "transfer",
    "backup": "transfer",
    "eval": "evaluate",
    "stats": "admin",
    "check": "admin",
    "reembed": "admin",
    "models": "admin",
    "config": "admin",
    "mcp": "agents",
    "hook": "agents",
    "install": "install",
    "demo": "demo",
}
HELP = {
    "add": "Remember something.",
    "get": "Show memories by id.",
    "list": "List memories, newest first.",
    "update": "Change a memory; what it said before is kept.",
    "forget": "Take a memory out of every search.",
    "restore": "Bring a forgotten memory back.",
    "purge": "Erase forgotten memories for good.",
    "search": "Find memories by word and by meaning.",
    "timeline": "Show what happened, in order.",
    "related": "Show what belongs to a memory.",
    "recalls": "Show what was recalled, when, and for which question.",
    "dupes": "Find memories that say almost the same, and merge them.",
    "feedback": "Say whether a memory was a good answer.",
    "supersede": "Say that a memory replaces another.",
    "relate": "Say what a memory has to do with another.",
    "reinforce": "Let memories count for more, or for less.",
    "pin": "Pin memories that always belong in context, or list them.",
    "fact": "Note what a memory says, and how sure it is.",
    "session": "Start, end and look at sessions.",
    "lens": "Name ways of looking: filters, a profile, what counts for more.",
    "index": "Take in files and folders; only what has changed.",
    "watch": "Index files and folders, and again whenever they change.",
    "docs": "Find places in indexed files, or list the files.",
    "context": "Print what an agent should know, as a block for its prompt.",
    "chat": "Talk to a language model that has this memory.",
    "export": "Write everything to a file, or to a folder of markdown.",
    "import": "Take in exports, notes, memories and conversations.",
    "backup": "Copy the whole database, and put a copy back.",
    "eval": "Measure how well memories are found.",
    "stats": "Show how much there is, and of what.",
    "check": "Check the database, its indexes and its vectors.",
    "reembed": "Make missing vectors, or all of them with another model.",
    "models": "Show the models that are there, and add further ones.",
    "config": "Show or change settings.",
    "mcp": "Serve memories to an agent, over the Model Context Protocol.",
    "hook": "Answer an event of an agent's client.",
    "install": "Set up the clients of agents, and list them.",
    "demo": "Show what Memorist does, in a temporary database.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"memorist.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(HELP.items()))


class CommandContext:
    """What a command needs: the settings, and a memory opened by them."""

    def __init__(self, arguments: Mapping[str, Any], folder: Path | None = None, *, typed: bool = True) -> None:
        self.arguments = arguments
        self._folder, self._typed = folder, typed

    def untyped(self) -> "CommandContext":
        """The same for a command that a program calls: nobody looked at the project's settings before."""
        return CommandContext(self.arguments, self._folder, typed=False)

    def within(self, folder: Path, arguments: Mapping[str, Any] | None = None) -> "CommandContext":
        """The same as seen from another folder, whose project may have settings of its own."""
        return CommandContext({**self.arguments, **(arguments or {})}, folder, typed=self._typed)

    @cached_property
    def loaded(self) -> LoadedSettings:
        return load(os.environ, self._folder or Path.cwd(), self.arguments, typed=self._typed)

    @property
    def target(self) -> str:
        """Which database it is about, whether it exists or not."""
        database = self.loaded.settings.database
        if database is not None and not database.strip():
            raise ConfigError("the path of the database is empty; name a file, or leave --db out to use your own")
        if database is None:
            return str(default_path())
        path = Path(os.path.expanduser(database))
        return str(self._folder / path if self._folder else path) if names_a_file(database) else database

    @property
    def models(self) -> Path | None:
        """The folder of further models that is set."""
        folder = self.loaded.settings.models
        return Path(os.path.expanduser(folder)) if folder else None

    def redaction(self, wanted: bool | None = None) -> Redaction:
        """What is done about secrets: as the command was told, or else as it is set."""
        settings = self.loaded.settings
        return Redaction(settings.redact if wanted is None else wanted, settings.redact_allow)

    def open(
        self,
        *,
        create: bool = False,
        embedder: "str | Embedder | None" = None,
        redact: bool | None = None,
        read_only: bool = False,
    ) -> Any:
        """The memory. Only commands that `create` make a file where there is none; to read needs no right to write."""
        from memorist.engine import open_memory

        settings, target, redaction = self.loaded.settings, self.target, self.redaction(redact)
        writable = create if nothing_at(Path(target)) else os.access(target, os.W_OK)
        return open_memory(
            target,
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
@click.option("--db", "database", metavar="TARGET", help="The database file (default: your own).")
@click.option("--namespace", metavar="NAME", help="A wall between memories: nothing crosses it.")
@click.version_option(__version__, prog_name="memorist")
@click.pass_context
def app(context: click.Context, database: str | None, namespace: str | None) -> None:
    """
    Memorist: the memory an AI agent can trust. One file on your machine, found by word and by meaning.

    \b
    Example:
        memorist add "We deploy with `make ship` from the release branch" --project api
        memorist search "how do we ship code?"
    """
    context.obj = CommandContext({"database": database, "namespace": namespace})


def main(arguments: list[str] | None = None) -> None:
    """Run a command; whatever goes wrong ends as one line on stderr and an exit code."""
    _utf8()
    try:
        # Not app.main(): that would end a broken pipe with an error before we see it.
        with app.make_context("memorist", sys.argv[1:] if arguments is None else arguments) as context:
            outcome = app.invoke(context)
        sys.stdout.flush()
        sys.exit(outcome if isinstance(outcome, int) else 0)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except click.ClickException as exc:
        exc.show()
        sys.exit(exc.exit_code)
    except MemoristError as exc:
        _fail(describe_error(exc))
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does; Python must not complain while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as exc:
        _fail(f"{exc.filename or 'the system'}: {exc.strerror or exc}")


def _fail(message: str) -> None:
    from memorist.present.render import printable

    click.echo(f"Error: {printable(' '.join(message.split()))}", err=True)
    sys.exit(1)


def _utf8() -> None:
    """Any text can be printed, whatever the terminal's encoding says."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="replace")
