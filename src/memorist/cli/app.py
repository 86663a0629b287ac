"""The program `memorist`: the table of its commands, the context that they run in, and how errors end."""

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from memorist import __version__
from memorist.config import LoadedSettings, default_path, is_file_path, is_missing_or_empty, is_server, load
from memorist.errors import ConfigError, MemoristError, MissingExtra, find_hint
from memorist.ingest.redaction import Redaction

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memorist.embed.base import Embedder
    from memorist.engine import Memorist

_PROGRAM = "memorist"
_COMPLETION_VARIABLE = "_MEMORIST_COMPLETE"  # a shell sets it to ask for completions

# Endings of error messages: the commands that help. A command in parentheses does what the message advises.
HINTS = {
    "check": " (`memorist check`)",
    "give_query": ' (--query "how do we ship?")',
    "index_file": "; `memorist index {0}` indexes it",
    "list_facts": "; `memorist fact list MEMORY` shows the facts of a memory",
    "list_memories": "; `memorist list` shows ids",
    "list_sessions": "; `memorist session list` shows ids, `memorist session start` starts a session",
    "overwrite": " (--force)",
    "reembed": " (`memorist reembed`)",
    "repair": "; `memorist check --repair` repairs indexes and vectors",
    "repair_or_salvage": " (`memorist check --repair`, `memorist backup restore`, `memorist salvage {0} NEW`)",
    "restore_memory": " (`memorist restore {0}`)",
    "salvage": " (`memorist backup restore`, `memorist salvage {0} NEW`)",
    "unsupersede": " (`memorist supersede --undo {0}`)",
}


class CommandEntry(NamedTuple):
    """A command of the table: the module under memorist.cli that has it, and the first sentence of its help."""

    module: str
    help: str


# Commands are imported when they are called: `memorist --help` and hooks have no time to import them all.
COMMAND_GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Remember": {
        "add": CommandEntry("memories", "Remember a text."),
        "update": CommandEntry("memories", "Change a memory and keep what it said before."),
        "edit": CommandEntry("memories", "Edit the text of a memory in your editor."),
        "forget": CommandEntry("memories", "Hide memories from every search."),
        "restore": CommandEntry("memories", "Bring forgotten memories back."),
        "purge": CommandEntry("memories", "Erase forgotten memories for good."),
    },
    "Find": {
        "search": CommandEntry("search", "Search memories by keyword and by meaning."),
        "get": CommandEntry("memories", "Show memories, or chunks of indexed files, by id."),
        "list": CommandEntry("memories", "List memories, newest first."),
        "timeline": CommandEntry("explore", "Show memories in the order they happened."),
        "related": CommandEntry("explore", "Show the memories linked or similar to a memory."),
        "recalls": CommandEntry("explore", "Show recorded searches and what they found."),
        "projects": CommandEntry("explore", "List the projects and how many memories each has."),
        "tags": CommandEntry("explore", "List the tags and how many memories have each."),
    },
    "Organise": {
        "supersede": CommandEntry("relations", "Mark a memory as replaced by another."),
        "relate": CommandEntry("relations", "Link two memories with a word of your own."),
        "reinforce": CommandEntry("relations", "Make memories count for more, or for less."),
        "pin": CommandEntry("relations", "Pin memories that belong in every context, or list them."),
        "dupes": CommandEntry("explore", "Find memories that say almost the same, and merge them."),
        "fact": CommandEntry("relations", "Note facts about a memory and how certain they are."),
        "session": CommandEntry("sessions", "Start, end and list sessions."),
        "lens": CommandEntry("search", "Save filters and ranking options under a name."),
    },
    "Files": {
        "index": CommandEntry("documents", "Index files and folders, reading only what has changed."),
        "watch": CommandEntry("documents", "Index files and folders whenever they change."),
        "docs": CommandEntry("documents", "Search indexed files, or list them."),
    },
    "Agents": {
        "context": CommandEntry("search", "Print relevant memories as a block for an agent's prompt."),
        "chat": CommandEntry("chat", "Chat with a language model that knows your memories."),
        "mcp": CommandEntry("agents", "Run the MCP server."),
        "serve": CommandEntry("web", "Serve the HTTP API and the page that shows your memories."),
        "ui": CommandEntry("web", "Open the page that shows your memories."),
        "token": CommandEntry("web", "Print a token for a program that uses the HTTP API."),
        "hook": CommandEntry("agents", "Handle an event of an agent's client."),
        "install": CommandEntry("install", "Set up an agent's client, or list the clients."),
    },
    "Move and back up": {
        "export": CommandEntry("transfer", "Export everything to a file, or to a folder of Markdown."),
        "import": CommandEntry("transfer", "Import exports, notes, memories and conversations."),
        "backup": CommandEntry("transfer", "Copy the whole database, or restore a copy."),
        "migrate": CommandEntry("transfer", "Copy memories from one database to another, SQLite or PostgreSQL."),
        "salvage": CommandEntry("transfer", "Copy what can be read in a damaged database to a new file."),
    },
    "Look after": {
        "stats": CommandEntry("admin", "Show how much is stored."),
        "check": CommandEntry("admin", "Check the database, its indexes and its vectors."),
        "reembed": CommandEntry("admin", "Compute missing vectors, or all of them with another model."),
        "models": CommandEntry("admin", "List, add and remove models."),
        "config": CommandEntry("admin", "Show or change settings."),
        "trust": CommandEntry("admin", "Let agents use the settings of a project."),
        "admin": CommandEntry("admin", "Administer a database on a server."),
    },
    "Try and measure": {
        "demo": CommandEntry("evaluate", "Show what Memorist does, in a temporary database."),
        "eval": CommandEntry("evaluate", "Measure how well memories are found."),
        "feedback": CommandEntry("evaluate", "Rate a memory as the answer to a question, or list ratings."),
    },
}
# The nouns and verbs of the library's rooms (`memory.sessions.start`), where the everyday command is called otherwise.
ALIASES: Mapping[str, str] = {
    "facts": "fact",
    "lenses": "lens",
    "lens get": "lens show",
    "links add": "relate",
    "links remove": "relate --undo",
    "searches": "recalls",
    "searches clear": "recalls --clear",
    "searches list": "recalls",
    "sessions": "session",
    "session get": "session show",
}
_HELP = "help"
_QUESTION_WORDS = frozenset("are can did do does how is was were what when where which who whose why".split())
COMMANDS = {name: entry for group in COMMAND_GROUPS.values() for name, entry in group.items()}


def complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class CommandGroup(click.Group):
    """
    A group that runs its default command if none is given, or prints its help, and suggests names for typos. `help`
    in it, with or without a command, is the same as --help.
    """

    def __init__(self, *args: Any, default_command: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._default_command = default_command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.parent and not ctx.resilient_parsing:  # neither `memorist` itself nor shell completion
            first = self._skip_own_options(args)
            only_options = first is None or (first.startswith("-") and first not in ctx.help_option_names)
            if self._default_command and only_options:
                args = [self._default_command, *args]
            elif not args:
                click.echo(ctx.get_help())
                ctx.exit()
        return super().parse_args(ctx, args)

    def _skip_own_options(self, args: list[str]) -> str | None:
        """Return the first argument that is no option of the group, nor the value of one."""
        own = {name for option in self.params for name in option.opts}
        rest = iter(args)
        for word in rest:
            if word in own:
                next(rest, None)
            elif word.partition("=")[0] not in own:
                return word
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name == _HELP:
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [*args[1:], *ctx.help_option_names[-1:]])
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            suggestion = self.suggest(ctx, args)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {suggestion}?" if suggestion else ""))
        return super().resolve_command(ctx, args)

    def suggest(self, ctx: click.Context, args: list[str]) -> str:
        """Return what may be meant where the first argument is no command, or ""."""
        from difflib import get_close_matches

        close = get_close_matches(args[0].lower(), [*self.list_commands(ctx), _HELP], n=1)
        return repr(close[0]) if close else ""


class LazyGroup(CommandGroup):
    """The group of all commands of the table and their aliases, which imports a command only to run it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, _replace_alias(list(args)))

    def suggest(self, ctx: click.Context, args: list[str]) -> str:
        parts = [f"`{_PROGRAM} {alias}`" for alias in ALIASES if alias.startswith(f"{args[0]} ")]
        question = " ".join(" ".join(args).split())
        is_question = args[0].lower() in _QUESTION_WORDS and len(args) > 1
        if " " in args[0].strip() or question.endswith("?") or is_question:
            return f"`{_PROGRAM} search {_quote(question)}`"
        return " or ".join(parts) or super().suggest(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"memorist.cli.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        _accept_after_command(command, self.params)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, entries in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        options = super(click.Group, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=COMMANDS[name].help) for name in names), *options]


def _replace_alias(args: list[str]) -> list[str]:
    """Return arguments that begin with a command of the table where they began with an alias."""
    for length in (2, 1):
        if command := ALIASES.get(" ".join(args[:length])):
            return _replace_alias([*command.split(), *args[length:]])
    return args


def _quote(text: str) -> str:
    """Return a text as an argument of a command to be typed, in double quotes where nothing in it is special there."""
    from shlex import quote

    return quote(text) if set(text) & set('"$`\\!') else f'"{text}"'


def _accept_after_command(command: click.Command, options: Sequence[click.Parameter]) -> None:
    """Have a command and its parts take the options of the program, too; its help does not repeat them."""
    own = {name for option in command.params for name in option.opts}
    for option in options:
        if not own.intersection(option.opts):
            accepted: Any = copy(option)
            accepted.hidden = True
            if option.expose_value:  # --version acts by itself
                accepted.expose_value, accepted.callback = False, _set_program_option
            command.params.append(accepted)
    for part in command.commands.values() if isinstance(command, click.Group) else ():
        _accept_after_command(part, options)


def _set_program_option(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None and isinstance(context.obj, CommandContext):  # shell completion has none
        context.obj = context.obj.with_option(option, value)


class CommandContext:
    """The settings that hold for a command, and the memory that they name."""

    def __init__(self, arguments: Mapping[str, Any], folder: Path | None = None, *, by_user: bool = True) -> None:
        self.arguments = arguments
        self._folder, self._by_user = folder, by_user

    def for_program(self) -> "CommandContext":
        """Return the context of a command that a program runs, so that no user has seen the project's settings."""
        return CommandContext(self.arguments, self._folder, by_user=False)

    def with_option(self, option: click.Parameter, value: str) -> "CommandContext":
        """Return the context with an option of the program that was given after the command."""
        given = self.arguments.get(option.name or "")
        if given not in (None, value):
            name = option.opts[0]
            raise click.UsageError(f"{name} is given twice, as {given!r} and {value!r}; leave one of them out")
        return CommandContext({**self.arguments, option.name or "": value}, self._folder, by_user=self._by_user)

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
            return str(default_path(print_note if self._by_user else None))
        path = Path(os.path.expanduser(database))
        return str(self._folder / path if self._folder else path) if is_file_path(database) else database

    @property
    def models(self) -> Path | None:
        """The folder of optional models that is set."""
        folder = self.loaded.settings.models
        return Path(os.path.expanduser(folder)) if folder else None

    @property
    def state_folder(self) -> Path:
        """The folder for files of the user that are neither data nor settings."""
        from platformdirs import user_state_path  # most commands keep no state

        return user_state_path(_PROGRAM, appauthor=False)

    @property
    def cache_folder(self) -> Path:
        """The folder for files that can be made again."""
        from platformdirs import user_cache_path

        return user_cache_path(_PROGRAM, appauthor=False)

    def redaction(self, redact: bool | None = None, *, by_model: bool = False) -> Redaction:
        """
        Return how secrets are handled: as the command's option says, or else as the setting does.

        Unless one of them decides, only what models write is redacted, as facts and summaries of sessions are.
        """
        settings = self.loaded.settings
        chosen = settings.redact if redact is None else redact
        return Redaction(by_model if chosen is None else chosen, settings.redact_allow)

    def open(
        self,
        *,
        create: bool = False,
        embedder: "str | Embedder | None" = None,
        redact: bool | None = None,
        read_only: bool = False,
        surface: str = "cli",
        busy_timeout: float | None = None,
    ) -> "Memorist":
        """Open the memory. Only with `create` is a missing file made; a file that cannot be written is only read."""
        from memorist.engine import open_memory

        settings = self.loaded.settings
        named = self.arguments.get("database") and is_file_path(self.target)
        if named and not create and self._by_user and not Path(self.target).exists():  # perhaps mistyped
            print_note(f"there is no database at {self.target} yet; `memorist --db {self.target} add` makes it")
        # Of a missing file there is nothing to change: each command says what it did not find, and none is made.
        is_missing = is_missing_or_empty(self.target)
        return open_memory(
            ":memory:" if is_missing and not create and not read_only else self.target,
            namespace=settings.namespace,
            embedder=embedder or settings.embedder,
            profile=settings.profile,
            read_only=read_only or not (is_missing or _is_writable(self.target)),
            busy_timeout=settings.busy_timeout if busy_timeout is None else busy_timeout,
            search_timeout=settings.search_timeout,
            synchronous=settings.synchronous,
            threads=settings.threads,
            on_near_duplicate=settings.on_near_duplicate,
            redact=settings.redact if redact is None else redact,
            redact_allow=settings.redact_allow,
            metadata_index=settings.metadata_index,
            models=self.models,
            surface=surface,
            log_recalls=settings.log_recalls,
            recall_days=settings.recall_days,
            recall_megabytes=settings.recall_megabytes,
            image_megabytes=settings.image_megabytes,
        )


def _is_writable(database: str) -> bool:
    return is_server(database) or os.access(database, os.W_OK)


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
    # All of it is freed by the end of the process: looking for cycles in it first takes longer than many a command.
    atexit.register(gc.freeze)
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
        _printable_error(exc).show()
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


def _printable_error(error: click.ClickException) -> click.ClickException:
    """Return an error without characters that could steer a terminal."""
    from memorist.present.render import printable

    message = printable(error.format_message())
    if message == error.format_message():
        return error
    return (
        click.UsageError(message, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(message)
    )


def describe_error(error: Exception) -> str:
    """Return the message of an error, and the command that helps, if there is one."""
    hint = find_hint(error)
    if hint is None:
        return str(error)
    from memorist.present.render import shell_id  # lazily: most commands succeed

    return f"{error}{HINTS[hint.action].format(shell_id(hint.subject))}"


@contextmanager
def require_extra(what: str, extra: str, modules: Collection[str]) -> Iterator[None]:
    """Raise MissingExtra if an import fails for want of one of the modules that an extra brings."""
    try:
        yield
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in modules:
            raise
        raise MissingExtra(f"{what} needs an extra: pip install 'memorist[{extra}]'") from exc


def print_note(text: str) -> None:
    """Print a note on stderr, on one line."""
    from memorist.present.render import printable_line  # it loads the index's tokenizer

    click.echo(f"Note: {printable_line(text)}", err=True)


def _exit_with_error(message: str) -> None:
    from memorist.present.render import printable_line

    click.echo(f"Error: {printable_line(message)}", err=True)
    sys.exit(1)


def _use_utf8() -> None:
    """Print any text, whatever encoding the terminal declares."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="replace")
