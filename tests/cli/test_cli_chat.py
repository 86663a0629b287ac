"""memorist chat: one answer, or a conversation at a terminal; whatever the server, the memory or the user does."""

import importlib.util
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from command_line import CommandLine, CommandResult

from model_server import KEY, MODELS, SECOND, Body, Breaks, ModelServer, Pauses, Refuses, calls, model_server, says
from terminal import CTRL_D, UP, terminal
from timeouts import MAX_WAIT_SECONDS

HOSTILE = "safe \x1b[2Jcleared\x07 \x9b31m \u202eevil"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: ModelServer
) -> CommandLine:
    line = CommandLine(tmp_path, monkeypatch, capsys)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MEMORIST_CHAT", MODELS[0])
    return line


def turns(cli: CommandLine) -> list[tuple[str, str]]:
    """Return the turns of all conversations, in order."""
    memories = cli("list", "--kind", "turn", "--json", "--limit", "1000").json["memories"]
    return [(one["metadata"]["role"], one["content"]) for one in reversed(memories)]


def sound(cli: CommandLine) -> bool:
    report: dict[str, Any] = cli("check", "--json").json
    return report["problems"] == []


class TestOneAnswer:
    @pytest.mark.parametrize("model", MODELS)
    def test_it_is_printed_and_the_conversation_is_saved(self, cli: CommandLine, model: str) -> None:
        done = cli("chat", "how do we deploy?", "--model", model)

        assert (done.code, done.out, done.err) == (0, "You said: how do we deploy?\n", "")
        assert turns(cli) == [("user", "how do we deploy?"), ("assistant", "You said: how do we deploy?")]

    def test_it_comes_with_what_is_remembered(self, cli: CommandLine, server: ModelServer) -> None:
        cli.add("We deploy with `make ship` from the release branch")

        cli("chat", "how do we deploy?")
        cli("chat", "how do we deploy?")  # a single message is always a first one

        assert all("make ship" in server.system(at) for at in (0, 1))

    def test_a_message_from_standard_input(self, cli: CommandLine, server: ModelServer) -> None:
        done = cli("chat", "-", stdin="from a pipe – grüße\n")

        assert done.code == 0
        assert server.told() == [("user", "from a pipe – grüße")]

    def test_what_is_no_text_on_standard_input_is_replaced(self, cli: CommandLine, server: ModelServer) -> None:
        done = cli("chat", "-", stdin=b"half \xff of it")

        assert done.code == 0
        assert done.err.startswith("Note: not all of standard input is UTF-8")
        assert server.told() == [("user", "half \ufffd of it")]

    def test_as_json(self, cli: CommandLine, server: ModelServer) -> None:
        pinned = cli.add("Always answer in British English")
        cli("pin", pinned)
        found = cli.add("Retries are capped at 5")
        server.script = [calls("memory_search", {"query": "retries"}), says("At five.")]

        answer = cli("chat", "hm?", "--json").json

        session = answer.pop("session")
        assert answer == {
            "answer": "At five.",
            "model": MODELS[0],
            "usage": {"input_tokens": 50, "output_tokens": 20},
            "memories": [pinned[-8:], found[-8:]],
            "cut": None,
        }
        assert len(cli("session", "show", session, "--json").json["memories"]) == 2

    def test_an_answer_that_was_cut_short_is_said_to_be(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [says("And so", stop="length")]

        done = cli("chat", "hm?")

        assert (done.code, done.out) == (0, "And so\n")
        assert done.err.startswith("Note: the answer ends early: it reached 4,096 tokens.")

    def test_what_could_move_the_cursor_is_harmless(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [says(HOSTILE[:6], HOSTILE[6:])]

        out = cli("chat", "hm?").out

        assert out == "safe \ufffd[2Jcleared\ufffd \ufffd31m \ufffdevil\n"

    def test_it_goes_on_with_an_earlier_conversation(self, cli: CommandLine, server: ModelServer) -> None:
        first = cli("chat", "My name is Ada", "--json").json["session"]
        cli("chat", "Something else")

        again = cli("chat", "What is my name?", "--session", first[-8:], "--json").json["session"]
        assert server.told()[:1] == [("user", "My name is Ada")]
        cli("chat", "And?", "--continue")

        assert again == first
        assert server.told()[:1] == [("user", "Something else")]
        assert len(cli("session", "list", "--json").json["sessions"]) == 2

    def test_conversations_of_others_are_not_gone_on_with(self, cli: CommandLine) -> None:
        cli("session", "start", "--id", "something")

        cli("chat", "hm?", "--session", "something").assert_failed(1, "no conversation of `memorist chat`")
        cli("chat", "hm?", "--session", "nothing").assert_failed(1, "no session has the id")
        cli("chat", "hm?", "--continue").assert_failed(1, "no conversation to go on with")

    def test_without_saving_nothing_is_left_and_no_file_is_made(self, cli: CommandLine) -> None:
        done = cli("chat", "hello", "--no-save", "--json")

        assert done.json["session"] is None
        assert not cli.database.exists()

    def test_secrets_stay_out_of_what_is_saved_unless_told(self, cli: CommandLine) -> None:
        cli("chat", f"my token is {TOKEN}", "--project", "guarded")
        cli("chat", f"my token is {TOKEN}", "--project", "open", "--no-redact")

        assert not any(TOKEN in text for text in cli.contents("--project", "guarded"))
        assert all(TOKEN in text for text in cli.contents("--project", "open"))

    def test_a_project_is_what_is_known_and_where_it_is_saved(self, cli: CommandLine, server: ModelServer) -> None:
        for project in ("api", "shop"):
            cli.add(f"deploys of {project}", "--project", project)

        cli("chat", "deploys?", "--project", "api")

        assert "deploys of api" in server.system()
        assert "deploys of shop" not in server.system()
        assert len(cli.contents("--project", "api", "--kind", "turn")) == 2
        cli("chat", "and?", "--continue")
        assert len(cli.contents("--project", "api", "--kind", "turn")) == 4

    @pytest.mark.parametrize("how", ["flag", "setting"])
    def test_the_model_may_add_memories_where_it_is_allowed(
        self, cli: CommandLine, server: ModelServer, how: str
    ) -> None:
        if how == "setting":
            cli("config", "set", "chat_add", "true")
        server.script = [calls("memory_add", {"content": f"Ada likes tea, and {TOKEN}"}), says("Noted.")]

        done = cli("chat", "Remember that", *(["--allow-add"] if how == "flag" else []))

        (added,) = (text for text in cli.contents("--source", "chat") if text.startswith("Ada likes tea"))
        assert done.out == "Noted.\n"
        assert TOKEN not in added

    def test_and_not_elsewhere(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [calls("memory_add", {"content": "Ada likes tea"}), says("I cannot.")]

        cli("chat", "Remember that")

        assert [tool["name"] for tool in server.bodies[0]["tools"]] == ["memory_search"]
        assert "there is no tool" in server.results()[0]["error"]
        assert "Ada likes tea" not in cli.contents()


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "about"),
        [
            ([], "terminal"),
            (["--json"], "--json"),
            ([" "], "empty"),
            (["hm?", "--continue", "--session", "abcdef"], "--continue"),
        ],
    )
    def test_wrong_usage(self, cli: CommandLine, arguments: list[str], about: str) -> None:
        done = cli("chat", *arguments)

        assert (done.code, done.out) == (2, "")
        assert about in done.err

    def test_without_a_model_it_says_what_to_set(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MEMORIST_CHAT")

        done = cli("chat", "hello")

        done.assert_failed(1, "memorist config set chat anthropic:MODEL")
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ollama:MODEL", "--model"):
            assert name in done.err
        assert not cli.database.exists()

    def test_the_model_is_a_setting_of_the_user(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MEMORIST_CHAT")
        assert cli("config", "set", "chat", "ollama:qwen-test").code == 0

        assert cli("chat", "hello", "--json").json["model"] == "ollama:qwen-test"
        cli("config", "set", "chat", "qwen-test").assert_failed(1, "ollama:MODEL")

    @pytest.mark.parametrize("line", ['chat = "ollama:evil"', "chat_add = true"])
    def test_and_not_for_a_projects_file_to_choose(self, cli: CommandLine, line: str) -> None:
        name, _, value = line.partition(" = ")
        cli("config", "set", "--project", name, value.strip('"')).assert_failed(1, "not allowed in a project's file")
        (cli.work / "memorist.toml").write_text(line)

        cli("chat", "hello").assert_failed(1, "not allowed in a project's file")


class TestServersThatFail:
    def failed(self, cli: CommandLine, about: str, out: str = "") -> None:
        """One clear line and no key; nothing is left of it, and the file is sound."""
        done = cli("chat", "hello")

        assert (done.code, done.out, done.err.count("\n")) == (1, out, 1)
        assert done.err.startswith("Error: ")
        assert about in done.err
        assert KEY not in done.err
        assert turns(cli) == []
        assert cli("session", "list", "--json").json["sessions"] == []
        assert sound(cli)

    def test_no_key(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        monkeypatch.delenv("ANTHROPIC_BASE_URL")

        self.failed(cli, "needs a key: set ANTHROPIC_API_KEY")

    def test_a_wrong_key(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [Refuses(401, f"invalid x-api-key {KEY}")]

        self.failed(cli, "refused the key: set ANTHROPIC_API_KEY")

    def test_a_rate_limit_without_end(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [Refuses(429, "slow down", {"Retry-After": "0"}), Refuses(429, "slow down")]

        self.failed(cli, "answered 429 (slow down): try again later")

    def test_a_refused_connection(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")

            self.failed(cli, "cannot reach anthropic:claude-test")

    def test_a_time_out(self, cli: CommandLine, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MEMORIST_CHAT_TIMEOUT", "0.2")
        server.script = [Pauses(says("one", "two"), after=0)]

        self.failed(cli, " 0.2 s")  # without an answer, or with nothing after its beginning: as busy as the machine is

    def test_a_page_instead_of_a_stream(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [Body(b"<html>\x1b[2JSign in</html>")]

        self.failed(cli, "is no answer of a model: check the network, and ANTHROPIC_BASE_URL")

    def test_a_stream_that_breaks_off(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [Breaks(says("one", "two"), after=SECOND[MODELS[0]])]

        self.failed(cli, "breaks off before its end", out="one\n")

    def test_rubbish_in_a_stream(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [Breaks(says("one", "two"), after=SECOND[MODELS[0]], then=b"data: {rubbish\n\n")]

        self.failed(cli, "breaks off before its end", out="one\n")


class TestMemoriesThatFail:
    def answered(self, done: CommandResult, about: str) -> None:
        assert (done.code, done.out) == (0, "You said: hello\n")
        assert done.err.startswith("Warning: ")
        assert about in done.err

    def test_a_file_that_is_no_database(self, cli: CommandLine) -> None:
        cli.database.write_text("these are notes, not a database\n" * 100)

        self.answered(cli("chat", "hello"), "has no memory: ")
        assert cli.database.read_text() == "these are notes, not a database\n" * 100

    def test_a_damaged_database(self, cli: CommandLine) -> None:
        cli.add("hello world")
        connection = apsw.Connection(str(cli.database))
        connection.execute("drop table vectors")
        connection.close()

        self.answered(cli("chat", "hello"), "nothing is recalled for this conversation")

    def test_a_folder_instead_of_a_file(self, cli: CommandLine) -> None:
        self.answered(cli("--db", str(cli.work), "chat", "hello"), "has no memory: ")

    def test_a_locked_database(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        cli.add("we deploy with make ship")
        monkeypatch.setenv("MEMORIST_BUSY_TIMEOUT", "0.1")
        connection = apsw.Connection(str(cli.database))
        connection.execute("begin immediate")
        try:
            done = cli("chat", "hello")
        finally:
            connection.close()

        self.answered(done, "is not being saved")
        assert done.err.count("\n") == 1

    def test_a_model_of_vectors_that_is_away(
        self, cli: CommandLine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cli.add("hello, we deploy with make ship")
        monkeypatch.setenv("MEMORIST_EMBEDDER", "openai:text-embedding-3-small")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")

        assert cli("chat", "hello").out == "You said: hello\n"
        assert "make ship" in server.system()


class TestInterruptions:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
    def test_at_most_the_exchange_under_way_is_lost(
        self, cli: CommandLine, server: ModelServer, number: signal.Signals, code: int
    ) -> None:
        step = Pauses(says("one", "two"), after=SECOND[MODELS[0]])
        server.script = [says("good day"), step]
        cli("chat", "hello")

        with cli.start("chat", "and now?", "--continue") as process:
            assert process.stdout is not None
            assert process.stdout.read(3) == b"one"
            process.send_signal(number)
            process.communicate(timeout=MAX_WAIT_SECONDS)

        assert process.returncode == code
        assert turns(cli) == [("user", "hello"), ("assistant", "good day")]
        assert sound(cli)
        assert cli("chat", "again", "--continue").code == 0
        assert server.told() == [("user", "hello"), ("assistant", "good day"), ("user", "again")]


class TestTerminal:
    def test_a_conversation(self, cli: CommandLine, server: ModelServer) -> None:
        cli.add("We deploy with `make ship` from the release branch")
        with terminal("chat", environment=os.environ) as screen:
            screen.expect("Chatting with anthropic:claude-test. /help lists commands; Ctrl-D ends.")
            screen.enter("how do we deploy?")
            screen.expect("You said: how do we deploy?\r\n")
            screen.enter("and tea?")
            screen.expect("You said: and tea?\r\n")
            screen.enter("   ")
            screen.enter("/help")
            assert "/retry" in screen.expect("/quit")
            screen.expect("> ")
            screen.type(CTRL_D)
            code, rest = screen.end()

        assert code == 0
        assert "Saved as chat:" in rest
        assert [role for role, _ in server.told()] == ["user", "assistant", "user"]
        assert "make ship" in server.system(0) == server.system(1)
        assert [text for _, text in turns(cli)] == [
            "how do we deploy?", "You said: how do we deploy?", "and tea?", "You said: and tea?",
        ]  # fmt: skip
        with terminal("chat", "--continue", environment=os.environ) as screen:
            screen.expect("Continuing after 4 messages.")
            screen.enter("/quit")
            assert screen.end()[0] == 0

    def test_an_answer_shows_as_it_arrives_and_moves_no_cursor(self, cli: CommandLine, server: ModelServer) -> None:
        step = Pauses(says(f"{HOSTILE} first", "second"), after=SECOND[MODELS[0]])
        server.script = [step]
        with terminal("chat", environment=os.environ) as screen:
            screen.enter("hm?")
            screen.expect("first")
            step.go_on.set()
            screen.expect("second\r\n")
            screen.enter("/quit")
            screen.end()

        assert b"\x1b[2J" not in screen.raw
        assert not any(byte in screen.raw.decode() for byte in "\x07\x9b\u202e")

    def test_ctrl_c_stops_an_answer_and_it_can_be_asked_for_again(self, cli: CommandLine, server: ModelServer) -> None:
        step = Pauses(says("one", "two"), after=SECOND[MODELS[0]])
        server.script = [step]
        with terminal("chat", environment=os.environ) as screen:
            screen.enter("hello")
            screen.expect("one")
            screen.interrupt()
            screen.expect("\r\nStopped. /retry asks again.")
            screen.enter("/retry")
            screen.expect("You said: hello\r\n")
            screen.enter("/quit")
            assert screen.end()[0] == 0

        assert turns(cli) == [("user", "hello"), ("assistant", "You said: hello")]

    def test_ctrl_c_at_the_prompt_takes_back_what_was_typed(self, cli: CommandLine, server: ModelServer) -> None:
        with terminal("chat", environment=os.environ) as screen:
            screen.expect("> ")
            screen.type("a slip")
            screen.expect("a slip")
            screen.interrupt()
            screen.enter("hello")
            screen.expect("You said: hello\r\n")
            screen.enter("/quit")
            assert screen.end()[0] == 0

        assert server.told() == [("user", "hello")]

    @pytest.mark.skipif(importlib.util.find_spec("readline") is None, reason="this Python has no readline")
    def test_what_was_typed_before_comes_back(self, cli: CommandLine, server: ModelServer) -> None:
        with terminal("chat", environment=os.environ) as screen:
            screen.enter("hello")
            screen.expect("You said: hello\r\n")
            screen.enter(UP)
            screen.expect("You said: hello\r\n")
            screen.enter("/quit")
            screen.end()

        assert [text for role, text in server.told() if role == "user"] == ["hello", "hello"]

    def test_after_an_error_it_goes_on(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [
            Refuses(401, "no"), Breaks(says("one", "two"), after=SECOND[MODELS[0]]), Refuses(500, "oops"),
        ]  # fmt: skip
        with terminal("chat", environment=os.environ) as screen:
            screen.enter("hello")
            screen.expect("Error: ")
            screen.expect("refused the key")
            screen.enter("/retry")
            screen.expect("one\r\nError: the answer of anthropic:claude-test breaks off")
            screen.enter("/retry")
            screen.expect("answered 500 (oops)")
            screen.enter("/retry")
            screen.expect("You said: hello\r\n")
            screen.enter("/retry")
            screen.expect("there is no message without an answer")
            screen.enter("/quit")
            assert screen.end()[0] == 0

        assert turns(cli) == [("user", "hello"), ("assistant", "You said: hello")]
        assert sound(cli)

    def test_a_message_that_never_got_an_answer_is_not_saved(self, cli: CommandLine, server: ModelServer) -> None:
        server.script = [says("good day"), Refuses(500, "oops")]
        with terminal("chat", environment=os.environ) as screen:
            screen.enter("hello")
            screen.expect("good day\r\n")
            screen.enter("still there?")
            screen.expect("answered 500 (oops)")
            screen.enter("/quit")
            assert screen.end()[0] == 0

        assert turns(cli) == [("user", "hello"), ("assistant", "good day")]

    def test_a_new_conversation_is_begun_on_demand(self, cli: CommandLine, server: ModelServer) -> None:
        with terminal("chat", environment=os.environ) as screen:
            screen.enter("one")
            screen.expect("You said: one\r\n")
            screen.enter("/new")
            screen.expect("Saved as chat:")
            screen.enter("/etc/hosts is a file, and no command")
            screen.expect("You said: /etc/hosts")
            screen.enter("/quit")
            screen.end()

        assert server.told() == [("user", "/etc/hosts is a file, and no command")]
        assert len(cli("session", "list", "--json").json["sessions"]) == 2

    def test_a_memory_that_fails_is_warned_of_and_the_conversation_goes_on(self, cli: CommandLine) -> None:
        cli.database.write_text("these are notes, not a database\n" * 100)
        with terminal("chat", environment=os.environ) as screen:
            screen.expect("Warning: this conversation has no memory: ")
            screen.enter("hello")
            screen.expect("You said: hello\r\n")
            screen.enter("/quit")
            code, rest = screen.end()

        assert code == 0
        assert "Saved" not in rest


def test_no_key_is_in_the_database_or_in_what_is_shown(cli: CommandLine, server: ModelServer) -> None:
    server.script = [Refuses(400, f"bad key {KEY}"), says("fine")]
    shown = [cli("chat", "one"), cli("chat", "two", "--json"), cli("config"), cli("config", "--json")]

    assert not any(KEY in done.out + done.err for done in shown)
    assert KEY.encode() not in cli.database.read_bytes()
    assert KEY not in json.dumps(server.bodies)
