"""The command that chats with a language model."""

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial

import click
from msgspec import Struct

from memorist.chat.conversation import (
    ChatAnswer,
    Conversation,
    ConversationRecorder,
    conversation_name,
    find_latest_session,
    load_messages,
)
from memorist.chat.providers import Provider, create_provider
from memorist.chat.tools import Tools
from memorist.cli.app import CommandContext, describe_error
from memorist.cli.options import answer_options, flag_option, print_json, read_argument
from memorist.engine import Memorist
from memorist.errors import ConfigError, MemoristError
from memorist.present.render import count_of, printable
from memorist.records import Session

_PROMPT = "> "
_SLASH_COMMANDS = {
    "/retry": "ask again for the answer to your last message",
    "/new": "start a new conversation",
    "/help": "show this list",
    "/quit": "end (or Ctrl-D; Ctrl-C stops an answer)",
}


@click.command("chat")
@click.argument("message", required=False)
@click.option("--model", metavar="MODEL", help="anthropic:MODEL, openai:MODEL or ollama:MODEL (default: the setting).")
@click.option("--project", help="Use only this project and what belongs to none; the conversation belongs to it.")
@click.option("--continue", "continue_latest", is_flag=True, help="Continue the latest conversation.")
@click.option("--session", "session_id", metavar="ID", help="Continue this conversation.")
@click.option("--no-save", is_flag=True, help="Do not save this conversation.")
@flag_option("--no-redact", "redact", sets=False, help="Store text that looks like a secret unchanged.")
@flag_option("--allow-add", sets=True, help="Let the model add memories.")
@answer_options
def chat_command(
    context: CommandContext,
    /,
    message: str | None,
    model: str | None,
    project: str | None,
    continue_latest: bool,
    session_id: str | None,
    no_save: bool,
    redact: bool | None,
    allow_add: bool | None,
    as_json: bool,
) -> None:
    """
    Chat with a language model that knows your memories. It is given what is relevant to your first message, and can
    search for more.

    With MESSAGE it answers once (- reads the message from standard input); without, it is a conversation. What is said
    is saved as it happens, without secrets, as a session that can be continued.

    \b
    Example:
        memorist config set chat ollama:qwen3
        memorist chat "how do we ship code?"
        memorist chat --continue
    """
    _check_usage(message, as_json, continue_latest, session_id)
    settings, screen = context.loaded.settings, _ChatScreen(silent=as_json)
    if not (model := model or settings.chat):
        raise ConfigError(
            "no chat model is set; choose one with `memorist config set chat anthropic:MODEL` (its key in "
            "ANTHROPIC_API_KEY), openai:MODEL (OPENAI_API_KEY) or ollama:MODEL, or just for this call with --model"
        )
    provider = create_provider(model, timeout=settings.chat_timeout)
    add = settings.chat_add if allow_add is None else allow_add
    redact = (settings.redact if redact is None else redact) is not False
    with _open_memory(context, screen, create=add or not no_save, redact=redact) as memory, closing(provider):
        earlier = _find_earlier(memory, continue_latest, session_id, project)
        options = _ChatOptions(provider, memory, screen, project, project or settings.project, not no_save, redact, add)
        if message is None:
            _converse(options, earlier)
        else:
            _answer_once(options, options.start(earlier), read_argument(message), as_json)


class _ChatScreen:
    """Standard output, on which an answer appears as it arrives, without control characters."""

    def __init__(self, *, silent: bool) -> None:
        self._silent, self._in_line = silent, False

    def write(self, text: str) -> None:
        if not self._silent and text:
            self._in_line = not text.endswith("\n")  # set first: Ctrl-C may come as soon as the text shows
            click.echo(printable(text), nl=False)

    def end_line(self) -> None:
        """End the current line, if one was begun."""
        if self._in_line:
            click.echo()
        self._in_line = False

    def warn(self, text: str) -> None:
        self.print_note(f"Warning: {text}")

    def print_note(self, text: str) -> None:
        """Print a line about the conversation on standard error."""
        self.end_line()
        click.echo(printable(" ".join(text.split())), err=True)


class _ChatOptions(Struct, frozen=True):
    """The options that all conversations of one call share."""

    provider: Provider
    memory: Memorist | None
    screen: _ChatScreen
    search_project: str | None  # the project whose memories the model may use; None is all of them
    save_project: str | None  # the project of a new conversation, and of what is added in it
    save: bool
    redact: bool
    add: bool

    def start(self, earlier: Session | None = None) -> Conversation:
        """Start a conversation, or continue an earlier one."""
        memory, warn = self.memory, self.screen.warn
        project = earlier.project if earlier else self.save_project
        recorder = ConversationRecorder(
            memory if self.save else None,
            conversation_name(earlier) if earlier else None,
            project=project,
            redact=self.redact,
            warn=warn,
            describe_error=describe_error,
        )
        if memory is None:
            return Conversation(self.provider, None, recorder, lambda message: "", warn)
        tools = Tools(
            memory,
            session=recorder.session,
            warn=warn,
            describe_error=describe_error,
            project=self.search_project,
            add=self.add,
            add_to=project,
        )
        context = partial(memory.context, project=self.search_project, session=recorder.session)
        conversation = Conversation(self.provider, tools, recorder, context, warn, describe_error)
        conversation.add_messages(load_messages(memory, earlier) if earlier else ())
        return conversation


def _check_usage(message: str | None, as_json: bool, continue_latest: bool, session_id: str | None) -> None:
    if message is None and as_json:
        raise click.UsageError("--json is for a single answer: give a message")
    if message is None and not sys.stdin.isatty():
        raise click.UsageError("a conversation needs a terminal; give a message, or - to read it from standard input")
    if message is not None and not message.strip():
        raise click.UsageError("the message is empty")
    if continue_latest and session_id is not None:
        raise click.UsageError("use either --continue, for the latest conversation, or --session")


@contextmanager
def _open_memory(
    context: CommandContext, screen: _ChatScreen, *, create: bool, redact: bool
) -> Iterator[Memorist | None]:
    """Open the memory, or give None with a warning: a conversation is possible without one."""
    memory: Memorist | None = None
    try:
        memory = context.open(create=create, redact=redact, surface="chat")
    except ConfigError:
        raise
    except (MemoristError, OSError) as exc:
        screen.warn(f"this conversation has no memory: {describe_error(exc)}")
    with nullcontext() if memory is None else memory:
        yield memory


def _find_earlier(
    memory: Memorist | None, continue_latest: bool, session_id: str | None, project: str | None
) -> Session | None:
    """Return the session of the conversation to continue, if any."""
    if not continue_latest and session_id is None:
        return None
    if memory is None:
        raise ConfigError("there is no conversation to continue without a memory")
    return find_latest_session(memory, project) if session_id is None else memory.sessions.get(session_id)


def _answer_once(options: _ChatOptions, conversation: Conversation, message: str, as_json: bool) -> None:
    try:
        answer = conversation.ask(message, options.screen.write)
    finally:
        options.screen.end_line()
    _note_cut(answer, options.screen)
    if as_json:
        print_json(
            {
                "answer": answer.text,
                "model": options.provider.name,
                "usage": {"input_tokens": answer.usage.input, "output_tokens": answer.usage.output},
                "memories": list(answer.memories),
                "session": conversation.recorder.session if conversation.recorder.saved else None,
                "cut": answer.cut_reason,
            }
        )


def _note_cut(answer: ChatAnswer, screen: _ChatScreen) -> None:
    if answer.cut_reason:
        screen.print_note(f"Note: the answer ends early: {answer.cut_reason}.")


def _converse(options: _ChatOptions, earlier: Session | None) -> None:
    """Hold a conversation at a terminal, line by line."""
    with suppress(ImportError):  # if it exists, input() has line editing and a history
        import readline  # noqa: F401
    conversation, screen = options.start(earlier), options.screen
    screen.print_note(f"Chatting with {options.provider.name}. /help lists commands; Ctrl-D ends.")
    if earlier:
        screen.print_note(f"Continuing after {count_of(len(conversation.messages), 'message')}.")
    while (line := _read_line()) is not None:
        command = line.strip()
        if not re.fullmatch(r"/[a-z]+", command):
            _exchange_messages(conversation, line, screen)
        elif command == "/retry":
            _exchange_messages(conversation, None, screen)
        elif command == "/new":
            _print_saved(conversation, screen)
            conversation = options.start()
        elif command == "/quit":
            break
        else:
            for name, help in _SLASH_COMMANDS.items():
                click.echo(f"{name:<8} {help}")
    _print_saved(conversation, screen)


def _read_line() -> str | None:
    """Return the next line typed; None at the end of input. Ctrl-C discards what was typed."""
    while True:
        try:
            return input(_PROMPT)
        except EOFError:
            click.echo()
            return None
        except KeyboardInterrupt:
            click.echo()


def _exchange_messages(conversation: Conversation, text: str | None, screen: _ChatScreen) -> None:
    """Send a message, or the last one again if None, and print the answer. An error does not end the conversation."""
    if text is not None and not text.strip():
        return
    try:
        answer = conversation.retry(screen.write) if text is None else conversation.ask(text, screen.write)
        screen.end_line()
        _note_cut(answer, screen)
    except KeyboardInterrupt:
        screen.print_note("Stopped. /retry asks again.")
    except MemoristError as exc:
        screen.print_note(f"Error: {describe_error(exc)}")


def _print_saved(conversation: Conversation, screen: _ChatScreen) -> None:
    if conversation.recorder.saved:
        screen.print_note(f"Saved as {conversation.recorder.session}: `memorist chat --continue` continues it.")
