"""The table of commands, and the groups they are called through."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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
        "get": CommandEntry("memories", "Show memories by id."),
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
        "fact": CommandEntry("facts", "Note facts about a memory and how certain they are."),
        "session": CommandEntry("sessions", "Start, end and list sessions."),
        "lens": CommandEntry("lenses", "Save filters and ranking options under a name."),
    },
    "Files": {
        "index": CommandEntry("documents", "Index files and folders, reading only what has changed."),
        "watch": CommandEntry("documents", "Index files and folders whenever they change."),
        "docs": CommandEntry("documents", "Search indexed files, or list them."),
    },
    "Agents": {
        "context": CommandEntry("context", "Print relevant memories as a block for an agent's prompt."),
        "chat": CommandEntry("chat", "Chat with a language model that knows your memories."),
        "mcp": CommandEntry("agents", "Run the MCP server."),
        "hook": CommandEntry("agents", "Handle an event of an agent's client."),
        "install": CommandEntry("install", "Set up an agent's client, or list the clients."),
    },
    "Move and back up": {
        "export": CommandEntry("transfer", "Export everything to a file, or to a folder of Markdown."),
        "import": CommandEntry("transfer", "Import exports, notes, memories and conversations."),
        "backup": CommandEntry("transfer", "Copy the whole database, or restore a copy."),
    },
    "Look after": {
        "stats": CommandEntry("admin", "Show how much is stored."),
        "check": CommandEntry("admin", "Check the database, its indexes and its vectors."),
        "reembed": CommandEntry("admin", "Compute missing vectors, or all of them with another model."),
        "models": CommandEntry("models", "List, add and remove models."),
        "config": CommandEntry("settings", "Show or change settings."),
    },
    "Try and measure": {
        "demo": CommandEntry("demo", "Show what Memorist does, in a temporary database."),
        "eval": CommandEntry("evaluate", "Measure how well memories are found."),
        "feedback": CommandEntry("evaluate", "Rate a memory as the answer to a question, or list ratings."),
    },
}
COMMANDS = {name: entry for group in COMMAND_GROUPS.values() for name, entry in group.items()}


def complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class CommandGroup(click.Group):
    """A group that runs its default command if none is given, or prints its help, and suggests names for typos."""

    def __init__(self, *args: Any, default_command: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._default_command = default_command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.parent and not ctx.resilient_parsing:  # neither `memorist` itself nor shell completion
            only_options = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
            if self._default_command and only_options:
                args = [self._default_command, *args]
            elif not args:
                click.echo(ctx.get_help())
                ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            close = get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """The group of all commands of the table, which imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"memorist.cli.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
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
