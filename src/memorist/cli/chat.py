"""Talking to a language model that has this memory."""

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import click

from memorist.chat import create_provider
from memorist.chat.base import Provider
from memorist.chat.conversation import (
    ChatAnswer,
    Conversation,
    ConversationRecorder,
    conversation_name,
    find_latest_session,
    load_messages,
)
from memorist.chat.tools import Tools
from memorist.cli.app import CommandContext
from memorist.cli.options import json_option, print_json, switch, text_from
from memorist.engine import Memorist
from memorist.errors import ConfigError, MemoristError
from memorist.present.render import count_of, printable
from memorist.records import Session as LivedSession

PROMPT = "> "
COMMANDS = {
    "/retry": "ask again for the answer to your last message",
    "/new": "begin a new conversation",
    "/help": "show this",
    "/quit": "end (Ctrl-D does, too; Ctrl-C stops an answer)",
}


@click.command("chat")
@click.argument("message", required=False)
@click.option("--model", metavar="MODEL", help="anthropic:MODEL, openai:MODEL or ollama:MODEL (default: as set).")
@click.option("--project", help="Know only this project, and what belongs to none; the conversation is part of it.")
@click.option("--continue", "latest_one", is_flag=True, help="Go on with the latest conversation.")
@click.option("--session", "session_id", metavar="ID", help="Go on with this conversation.")
@click.option("--no-save", is_flag=True, help="Do not remember this conversation.")
@switch("--no-redact", "redact", sets=False, help="Keep what looks like a secret.")
@switch("--allow-add", sets=True, help="Let the model remember things, too.")
@json_option
@click.pass_obj
def chat_command(
    session: CommandContext,
    /,
    message: str | None,
    model: str | None,
    project: str | None,
    latest_one: bool,
    session_id: str | None,
    no_save: bool,
    redact: bool | None,
    allow_add: bool | None,
    as_json: bool,
) -> None:
    """
    Talk to a language model that knows what is remembered about your first message, and can search for more.

    With MESSAGE it answers once (- reads the message from standard input), without one it is a conversation. What is
    said is saved as it happens, without its secrets: as a session that can be gone on with.

    \b
    Example:
        memorist config set chat ollama:qwen3
        memorist chat "how do we ship code?"
        memorist chat --continue
    """
    _check_usage(message, as_json, latest_one, session_id)
    settings, screen = session.loaded.settings, ChatScreen(silent=as_json)
    provider = _provider(model or settings.chat, settings.chat_timeout)
    add, redact = settings.chat_add if allow_add is None else allow_add, redact is not False
    with _opened(session, screen, create=add or not no_save, redact=redact) as memory, closing(provider):
        earlier = _earlier(memory, latest_one, session_id, project)
        way = ChatOptions(provider, memory, screen, project, project or settings.project, not no_save, redact, add)
        if message is None:
            _talk(way, earlier)
        else:
            _answer_once(way, way.begin(earlier), text_from("-") if message == "-" else message, as_json)


class ChatScreen:
    """Standard output, to which an answer is written as it arrives; text of others moves no cursor there."""

    def __init__(self, *, silent: bool) -> None:
        self._silent, self._in_line = silent, False

    def write(self, text: str) -> None:
        if not self._silent and text:
            self._in_line = not text.endswith("\n")  # first: Ctrl-C may come as soon as it shows
            click.echo(printable(text), nl=False)

    def end(self) -> None:
        """Whatever comes next begins on a line of its own."""
        if self._in_line:
            click.echo()
        self._in_line = False

    def warn(self, text: str) -> None:
        self.say(f"Warning: {text}")

    def say(self, text: str) -> None:
        """A line beside the conversation, on standard error."""
        self.end()
        click.echo(printable(" ".join(text.split())), err=True)


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How the conversations of one call are held."""

    provider: Provider
    memory: Memorist | None
    screen: ChatScreen
    looks_in: str | None  # the project that is known; None is all there is
    belongs_to: str | None  # the project of a new conversation, and of what is added in it
    save: bool
    redact: bool
    add: bool

    def begin(self, earlier: LivedSession | None = None) -> Conversation:
        """A conversation, new or gone on with."""
        memory, warn = self.memory, self.screen.warn
        project = earlier.project if earlier else self.belongs_to
        recorder = ConversationRecorder(
            memory if self.save else None,
            conversation_name(earlier) if earlier else None,
            project=project,
            redact=self.redact,
            warn=warn,
        )
        if memory is None:
            return Conversation(self.provider, None, recorder, lambda message: "", warn)
        tools = Tools(
            memory,
            session=recorder.session,
            warn=warn,
            project=self.looks_in,
            add=self.add,
            add_to=project,
        )
        context = partial(memory.context, project=self.looks_in, session=recorder.session)
        conversation = Conversation(self.provider, tools, recorder, context, warn)
        conversation.add_messages(load_messages(memory, earlier) if earlier else ())
        return conversation


def _check_usage(message: str | None, as_json: bool, latest_one: bool, session_id: str | None) -> None:
    if message is None and as_json:
        raise click.UsageError("--json is for a single answer: give a message")
    if message is None and not sys.stdin.isatty():
        raise click.UsageError("a conversation needs a terminal; give a message, or - to read it from standard input")
    if message is not None and not message.strip():
        raise click.UsageError("the message is empty")
    if latest_one and session_id is not None:
        raise click.UsageError("--continue is the latest conversation; leave it out, or --session")


def _provider(model: str | None, timeout: float) -> Provider:
    if not model:
        raise ConfigError(
            "no model to talk to is set; choose one with `memorist config set chat anthropic:MODEL` (its key in "
            "ANTHROPIC_API_KEY), openai:MODEL (OPENAI_API_KEY) or ollama:MODEL, or for once with --model"
        )
    return create_provider(model, timeout=timeout)


@contextmanager
def _opened(session: CommandContext, screen: ChatScreen, *, create: bool, redact: bool) -> Iterator[Memorist | None]:
    """The memory; None where it cannot be opened: one can talk without."""
    memory: Memorist | None = None
    try:
        memory = session.open(create=create, redact=redact)
    except ConfigError:
        raise
    except (MemoristError, OSError) as exc:
        screen.warn(f"this conversation has no memory: {exc}")
    with nullcontext() if memory is None else memory:
        yield memory


def _earlier(
    memory: Memorist | None, latest_one: bool, session_id: str | None, project: str | None
) -> LivedSession | None:
    """The conversation to go on with, if any."""
    if not latest_one and session_id is None:
        return None
    if memory is None:
        raise ConfigError("without a memory there is no conversation to go on with")
    return find_latest_session(memory, project) if session_id is None else memory.session(session_id)


def _answer_once(way: ChatOptions, conversation: Conversation, message: str, as_json: bool) -> None:
    try:
        answer = conversation.ask(message, way.screen.write)
    finally:
        way.screen.end()
    _note_cut(answer, way.screen)
    if as_json:
        print_json(
            {
                "answer": answer.text,
                "model": way.provider.name,
                "usage": {"input_tokens": answer.usage.input, "output_tokens": answer.usage.output},
                "memories": list(answer.memories),
                "session": conversation.recorder.session if conversation.recorder.saved else None,
                "cut": answer.cut_reason,
            }
        )


def _note_cut(answer: ChatAnswer, screen: ChatScreen) -> None:
    if answer.cut_reason:
        screen.say(f"Note: the answer ends early: {answer.cut_reason}.")


def _talk(way: ChatOptions, earlier: LivedSession | None) -> None:
    """A conversation at a terminal, line by line."""
    with suppress(ImportError):  # where it is there, it edits lines and remembers them
        import readline  # noqa: F401
    conversation, screen = way.begin(earlier), way.screen
    screen.say(f"Talking to {way.provider.name}. /help shows what else there is; Ctrl-D ends.")
    if earlier:
        screen.say(f"Going on after {count_of(len(conversation.messages), 'message')}.")
    while (line := _line()) is not None:
        command = line.strip()
        if not re.fullmatch(r"/[a-z]+", command):
            _exchange(conversation, line, screen)
        elif command == "/retry":
            _exchange(conversation, None, screen)
        elif command == "/new":
            _farewell(conversation, screen)
            conversation = way.begin()
        elif command == "/quit":
            break
        else:
            for name, what in COMMANDS.items():
                click.echo(f"{name:<8} {what}")
    _farewell(conversation, screen)


def _line() -> str | None:
    """What is typed next; None at the end. Ctrl-C takes back what was typed."""
    while True:
        try:
            return input(PROMPT)
        except EOFError:
            click.echo()
            return None
        except KeyboardInterrupt:
            click.echo()


def _exchange(conversation: Conversation, text: str | None, screen: ChatScreen) -> None:
    """A message, or the last one again, and its answer; whatever goes wrong with it, the conversation goes on."""
    if text is not None and not text.strip():
        return
    try:
        answer = conversation.retry(screen.write) if text is None else conversation.ask(text, screen.write)
        screen.end()
        _note_cut(answer, screen)
    except KeyboardInterrupt:
        screen.say("Stopped. /retry asks again.")
    except MemoristError as exc:
        screen.say(f"Error: {exc}")


def _farewell(conversation: Conversation, screen: ChatScreen) -> None:
    if conversation.recorder.saved:
        screen.say(f"Saved as {conversation.recorder.session}: `memorist chat --continue` goes on with it.")
