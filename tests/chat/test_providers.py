"""The three providers against a server that speaks their streams, which their own SDKs can read, too."""

import copy
import json
import socket
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from memorist import ChatError, ConfigError, InvalidInput
from memorist.chat.providers import Message, Provider, Reply, Tool, ToolCall, ToolResult, Usage, create_provider
from model_server import (
    KEY,
    MODELS,
    SECOND,
    Body,
    Breaks,
    ModelServer,
    Pauses,
    Refuses,
    Says,
    calls,
    model_server,
    says,
)
from timeouts import MAX_WAIT_SECONDS

SEARCH = Tool("memory_search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
HELLO = [Message("user", "Hello")]
every_provider = pytest.mark.parametrize("model", MODELS)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def provider(server: ModelServer, model: str, slept: list[float] | None = None, **environment: str) -> Provider:
    """A provider that asks the server; what it waits is written down instead."""
    waits = [] if slept is None else slept
    return create_provider(
        model, timeout=MAX_WAIT_SECONDS, environ=server.environment | environment, sleep=waits.append
    )


def ask(server: ModelServer, model: str, messages: list[Message] = HELLO, **options: Any) -> tuple[Reply, list[str]]:
    pieces: list[str] = []
    reply = provider(server, model).answer("Be brief.", messages, [SEARCH], pieces.append, **options)
    return reply, pieces


def failure(server: ModelServer, model: str, slept: list[float] | None = None, **environment: str) -> str:
    """What is said of an answer that does not come; a key is neither in it nor behind it."""
    with pytest.raises(ChatError) as failed:
        provider(server, model, slept, **environment).answer("", HELLO, [SEARCH], lambda piece: None)
    shown = "".join(traceback.format_exception(failed.value))
    assert KEY not in shown
    assert "\n" not in str(failed.value)
    return str(failed.value)


class TestAnswers:
    @every_provider
    def test_the_text_arrives_in_pieces_and_as_a_whole(self, server: ModelServer, model: str) -> None:
        server.script = [says("Good ", "day", " – grüß dich 👋")]

        reply, pieces = ask(server, model)

        assert pieces == ["Good ", "day", " – grüß dich 👋"]
        assert reply == Reply("Good day – grüß dich 👋", (), Usage(25, 10), None)

    @every_provider
    def test_a_piece_is_there_before_the_next_one_is_sent(self, server: ModelServer, model: str) -> None:
        step = Pauses(says("first", "second"), after=SECOND[model])
        server.script = [step]
        pieces: list[str] = []

        def write(piece: str) -> None:
            pieces.append(piece)
            if len(pieces) == 1:
                step.go_on.set()  # without which the second is never sent

        provider(server, model).answer("", HELLO, [], write)

        assert pieces == ["first", "second"]

    @every_provider
    def test_calls_of_tools_are_put_together_from_their_pieces(self, server: ModelServer, model: str) -> None:
        two = (("memory_search", {"query": "retries"}), ("memory_search", {"query": "grüße", "limit": 3}))
        server.script = [Says(("Let me look.",), two)]

        reply, pieces = ask(server, model)

        assert (reply.text, pieces) == ("Let me look.", ["Let me look."])
        assert [(call.name, call.arguments) for call in reply.calls] == list(two)
        assert len({call.id for call in reply.calls}) == 2

    @pytest.mark.parametrize("model", MODELS[:2])
    def test_arguments_that_are_no_json_are_told_as_unreadable(self, server: ModelServer, model: str) -> None:
        server.script = [
            calls("memory_search", '{"query": '),
            calls("memory_search", "[1]"),
            calls("memory_search", ""),
        ]

        read = [ask(server, model)[0].calls[0].arguments for _ in range(3)]

        assert read == [None, None, {}]

    @every_provider
    def test_an_answer_that_was_cut_short_says_why(self, server: ModelServer, model: str) -> None:
        server.script = [says("And so", stop="length")]

        reply, _ = ask(server, model)

        assert reply.cut_reason is not None
        assert "tokens" in reply.cut_reason

    def test_a_server_that_does_not_number_its_calls(self, server: ModelServer) -> None:
        def line(**delta: Any) -> str:
            return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': None}]})}\r\n\r\n"

        pieces = [
            {"id": "a", "function": {"name": "one", "arguments": '{"x":'}},
            {"function": {"arguments": "1}"}},
            {"id": "b", "function": {"name": "two", "arguments": "{}"}},
        ]
        stream = "".join(line(tool_calls=[piece]) for piece in pieces)
        stream += 'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\r\n\r\ndata: [DONE]\r\n\r\n'
        server.script = [Body(stream.encode(), "text/event-stream")]

        reply, _ = ask(server, "openai:some")

        assert reply.calls == (ToolCall("a", "one", {"x": 1}), ToolCall("b", "two", {}))


class TestRequests:
    @pytest.mark.parametrize(
        ("model", "path", "header", "value"),
        [
            (MODELS[0], "/v1/messages", "x-api-key", KEY),
            (MODELS[1], "/v1/chat/completions", "Authorization", f"Bearer {KEY}"),
            (MODELS[2], "/api/chat", "Authorization", f"Bearer {KEY}"),
        ],
    )
    def test_each_is_asked_where_it_listens_with_its_key(
        self, server: ModelServer, model: str, path: str, header: str, value: str
    ) -> None:
        ask(server, model)

        (request,) = server.requests
        assert (request["path"], request["headers"][header]) == (path, value)
        assert request["body"]["model"] == model.partition(":")[2]
        assert request["body"]["stream"] is True
        assert server.system() == "Be brief."
        assert server.told() == [("user", "Hello")]

    @every_provider
    def test_calls_and_results_are_given_back(self, server: ModelServer, model: str) -> None:
        one, two = ToolCall("id-1", "memory_search", {"query": "a"}), ToolCall("id-2", "memory_search", None)
        results = Message("user", results=(ToolResult(one, '{"results": []}'), ToolResult(two, '{"error": "no"}')))

        ask(server, model, [*HELLO, Message("assistant", "Looking.", (one, two)), results])

        assert server.results() == [{"results": []}, {"error": "no"}]
        text = json.dumps(server.bodies)
        assert "Looking." in text
        if model != MODELS[2]:  # Ollama goes by the order
            assert text.count("id-1") == text.count("id-2") == 2

    def test_a_model_that_may_call_no_more_is_told_so(self, server: ModelServer) -> None:
        for model in MODELS:
            ask(server, model, allow_calls=False)

        anthropic, openai, ollama = server.bodies
        assert anthropic["tool_choice"] == {"type": "none"}
        assert anthropic["tools"]
        assert openai["tool_choice"] == "none"
        assert "tools" not in ollama

    @pytest.mark.parametrize("model", MODELS[1:])
    def test_a_model_without_tools_is_asked_again_without_any_and_from_then_on(
        self, server: ModelServer, model: str
    ) -> None:
        server.script = [Refuses(400, "registry.ollama.ai/library/gemma3:4b does not support tools")]
        asked = provider(server, model)

        first = asked.answer("", HELLO, [SEARCH], lambda piece: None)
        asked.answer("", HELLO, [SEARCH], lambda piece: None)

        assert first.text == "You said: Hello"
        assert not asked.supports_tools
        assert ["tools" in body for body in server.bodies] == [True, False, False]

    @pytest.mark.parametrize(
        ("status", "message"),
        [(422, "[{'type': 'extra_forbidden', 'loc': ['body', 'stream_options']}]"), (400, "include_usage is unknown")],
    )
    def test_a_server_that_need_not_say_what_an_answer_cost_is_asked_again(
        self, server: ModelServer, status: int, message: str
    ) -> None:
        server.script = [Refuses(status, message)]
        asked = provider(server, MODELS[1])

        for _ in range(2):
            assert asked.answer("", HELLO, [SEARCH], lambda piece: None).text == "You said: Hello"

        assert asked.supports_tools
        assert ["stream_options" in body for body in server.bodies] == [True, False, False]

    def test_a_server_that_refuses_whatever_is_left_out_is_not_asked_for_ever(self, server: ModelServer) -> None:
        server.script = [Refuses(400, "it does not support tools")] * 9

        assert "answered 400" in failure(server, MODELS[1])
        assert len(server.requests) == 2


def understood(form: Any, body: dict[str, Any]) -> Any:
    """A request as an SDK's own type reads it: what the type does not know is left out, what it cannot be raises."""

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: whole(part) for name, part in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, str):
            return [whole(part) for part in value]  # only as they are taken does pydantic look at them
        return value

    reader = TypeAdapter(form)  # has to live as long as its iterables
    return whole(reader.validate_python(body))


def refused(form: Any, body: dict[str, Any], spoil: Callable[[Any], object]) -> bool:
    """Whether a type sees that a request was spoilt."""
    spoilt = copy.deepcopy(body)
    spoil(spoilt)
    try:
        return bool(understood(form, spoilt) != spoilt)
    except ValidationError:
        return True


class TestTheSdksAgree:
    """What the server writes is read by the providers' own clients as we read it; what we ask is what they would."""

    TOLD = Says(("Let me", " look."), (("memory_search", {"query": "grüße"}),))

    def test_anthropic_reads_the_stream(self, server: ModelServer) -> None:
        import anthropic

        server.script = [self.TOLD]
        tools: Any = [{"name": "memory_search", "input_schema": {"type": "object"}}]
        messages: Any = [{"role": "user", "content": "Hello"}]

        with (
            anthropic.Anthropic(base_url=server.url, api_key=KEY) as client,
            client.messages.stream(model="m", max_tokens=99, messages=messages, tools=tools) as stream,
        ):
            pieces, message = list(stream.text_stream), stream.get_final_message()

        text, call = message.content
        assert pieces == list(self.TOLD.pieces)
        assert (text.type, call.type) == ("text", "tool_use")
        assert (call.name, call.input) == ("memory_search", {"query": "grüße"})
        assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 10)

    def test_anthropic_takes_our_request(self, server: ModelServer) -> None:
        from anthropic.types.message_create_params import MessageCreateParamsStreaming

        call = ToolCall("toolu_1", "memory_search", {"query": "a"})
        said = [*HELLO, Message("assistant", "", (call,)), Message("user", results=(ToolResult(call, "{}"),))]
        ask(server, MODELS[0], said, allow_calls=False)

        assert understood(MessageCreateParamsStreaming, server.bodies[0]) == server.bodies[0]
        for spoil in (
            lambda body: body["messages"][0].update(role="nobody"),
            lambda body: body["messages"][1]["content"][0].update(type="tool_abuse"),
            lambda body: body["messages"][2]["content"][0].pop("tool_use_id"),
            lambda body: body["tools"][0].pop("name"),
        ):
            assert refused(MessageCreateParamsStreaming, server.bodies[0], spoil)

    def test_openai_reads_the_stream(self, server: ModelServer) -> None:
        openai = pytest.importorskip("openai")
        server.script = [self.TOLD]
        asked = {"messages": [{"role": "user", "content": "Hello"}], "stream_options": {"include_usage": True}}

        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client,
            client.chat.completions.stream(model="m", **asked) as stream,
        ):
            answer = stream.get_final_completion()

        (choice,) = answer.choices
        (call,) = choice.message.tool_calls
        assert (choice.message.content, choice.finish_reason) == ("Let me look.", "tool_calls")
        assert (call.function.name, json.loads(call.function.arguments)) == ("memory_search", {"query": "grüße"})
        assert answer.usage.completion_tokens == 10

    def test_openai_takes_our_request(self, server: ModelServer) -> None:
        params = pytest.importorskip("openai.types.chat.completion_create_params")

        call = ToolCall("call_1", "memory_search", {"query": "a"})
        said = [*HELLO, Message("assistant", "", (call,)), Message("user", results=(ToolResult(call, "{}"),))]
        ask(server, MODELS[1], said)

        assert understood(params.CompletionCreateParamsStreaming, server.bodies[0]) == server.bodies[0]
        for spoil in (
            lambda body: body["messages"][1].update(role="nobody"),
            lambda body: body["messages"][2]["tool_calls"][0]["function"].pop("name"),
            lambda body: body["messages"][3].pop("tool_call_id"),
            lambda body: body["tools"][0]["function"].pop("name"),
        ):
            assert refused(params.CompletionCreateParamsStreaming, server.bodies[0], spoil)

    def test_ollama_reads_the_stream_and_takes_our_request(self, server: ModelServer) -> None:
        ollama = pytest.importorskip("ollama")
        server.script = [self.TOLD]
        call = ToolCall("call_0", "memory_search", {"query": "a"})

        with ollama.Client(server.url) as client:
            parts = list(client.chat("m", [{"role": "user", "content": "Hello"}], stream=True))
        ask(
            server,
            MODELS[2],
            [*HELLO, Message("assistant", "", (call,)), Message("user", results=(ToolResult(call, "{}"),))],
        )

        assert "".join(part.message.content for part in parts) == "Let me look."
        (called,) = (one for part in parts for one in part.message.tool_calls or ())
        assert (called.function.name, called.function.arguments) == ("memory_search", {"query": "grüße"})
        assert (parts[-1].done, parts[-1].eval_count) == (True, 10)
        for message in server.bodies[1]["messages"]:
            assert ollama.Message(**message).model_dump(exclude_none=True) == message


class TestRefusals:
    @every_provider
    @pytest.mark.parametrize("status", [401, 403])
    def test_a_wrong_key_names_its_setting_and_is_not_repeated(
        self, server: ModelServer, model: str, status: int
    ) -> None:
        server.script = [Refuses(status, f"Incorrect API key provided: {KEY}")]

        said = failure(server, model)

        assert "refused the key" in said
        assert f"{model.partition(':')[0].upper()}_API_KEY" in said

    @pytest.mark.parametrize("model", MODELS[:2])
    def test_without_a_key_nobody_is_asked_who_wants_one(self, model: str) -> None:
        name = model.partition(":")[0].upper()

        with pytest.raises(ConfigError, match=f"^{model} needs a key: set {name}_API_KEY$"):
            create_provider(model, timeout=MAX_WAIT_SECONDS, environ={})

    @every_provider
    def test_a_model_that_is_not_there(self, server: ModelServer, model: str) -> None:
        server.script = [Refuses(404, "model not found")]

        said = failure(server, model)

        assert "model not found" in said
        assert ("ollama pull qwen-test" if model == MODELS[2] else "check the name of the model") in said

    @every_provider
    def test_what_a_server_says_is_quoted_short_and_without_the_key(self, server: ModelServer, model: str) -> None:
        server.script = [Refuses(400, f"bad request by {KEY}\n" + "x" * 9999)]

        said = failure(server, model)

        assert "answered 400" in said
        assert "bad request by ***" in said
        assert len(said) < 400

    @every_provider
    def test_a_busy_server_is_asked_once_more_when_it_says(self, server: ModelServer, model: str) -> None:
        server.script = [Refuses(429, "slow down", {"Retry-After": "7"}), says("here")]
        slept: list[float] = []

        reply = provider(server, model, slept).answer("", HELLO, [SEARCH], lambda piece: None)

        assert reply.text == "here"
        assert slept == [7.0]

    @every_provider
    def test_and_not_a_third_time(self, server: ModelServer, model: str) -> None:
        slept: list[float] = []
        server.script = [Refuses(429, "slow down"), Refuses(429, "slow down", {"Retry-After": "2"})]

        said = failure(server, model, slept)

        assert "answered 429 (slow down): try again in 2 s" in said
        assert (len(server.requests), slept) == (2, [1.0])

    @every_provider
    @pytest.mark.parametrize(
        "refusal", [Refuses(429, "later", {"Retry-After": "3600"}), Refuses(429, "insufficient_quota")]
    )
    def test_nor_where_it_would_take_too_long_or_never_help(
        self, server: ModelServer, model: str, refusal: Refuses
    ) -> None:
        server.script = [refusal]
        slept: list[float] = []

        assert "answered 429" in failure(server, model, slept)
        assert (len(server.requests), slept) == (1, [])


class TestBrokenAnswers:
    @every_provider
    def test_a_refused_connection(self, server: ModelServer, model: str) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
            said = failure(server, model, ANTHROPIC_BASE_URL=nobody, OPENAI_BASE_URL=nobody, OLLAMA_HOST=nobody)

        assert said.startswith(f"cannot reach {model} at {nobody} (Connection refused): ")

    @every_provider
    def test_a_server_that_never_answers(self, server: ModelServer, model: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            settings = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": url, "OLLAMA_HOST": url}
            asked = create_provider(model, timeout=0.1, environ=settings)
            with pytest.raises(ChatError, match=r"cannot reach .* \(no answer within 0.1 s\)"):
                asked.answer("", HELLO, [], lambda piece: None)

    @every_provider
    def test_an_answer_that_stops_coming(self, server: ModelServer, model: str) -> None:
        pieces: list[str] = []
        for timeout in (0.2, 2.0, 20.0):  # the longer ones only where a busy machine lets even the beginning wait
            server.script = [Pauses(says("one", "two"), after=SECOND[model])]
            with pytest.raises(ChatError) as failed:
                create_provider(model, timeout=timeout, environ=server.environment).answer("", HELLO, [], pieces.append)
            if pieces:
                break

        assert pieces == ["one"]
        assert str(failed.value) == f"{model} said nothing more for {timeout:g} s: try again"

    @every_provider
    @pytest.mark.parametrize("then", [None, b"", b"{rubbish\n\n", b"data: {rubbish\n\n"])
    def test_an_answer_that_breaks_off(self, server: ModelServer, model: str, then: bytes | None) -> None:
        server.script = [Breaks(says("one", "two"), after=SECOND[model], then=then)]

        assert failure(server, model) == f"the answer of {model} breaks off before its end: try again"

    @every_provider
    @pytest.mark.parametrize(
        "body", [b"<html>Sign in</html>\n", b"", b"[1, 2]\n", b"data: 7\n\n", b"\xff\xfe\x00" * 99]
    )
    def test_something_that_is_no_stream(self, server: ModelServer, model: str, body: bytes) -> None:
        server.script = [Body(body)]

        assert "answered with something that is no answer of a model: " in failure(server, model)

    @every_provider
    @pytest.mark.parametrize("name", [["memory_search"], {"a": 1}, 7, True])
    def test_a_call_whose_name_is_no_text(self, server: ModelServer, model: str, name: Any) -> None:
        server.script = [calls(name, {"query": "a"}, "Let me look.")]

        assert failure(server, model) == f"the answer of {model} breaks off before its end: try again"

    def test_a_call_whose_arguments_come_in_pieces_that_are_no_text(self, server: ModelServer) -> None:
        start = {"type": "content_block_start", "index": 0}
        start["content_block"] = {"type": "tool_use", "id": "toolu_1", "name": "memory_search"}
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": [1]}}
        events = (start, delta, {"type": "message_stop"})
        server.script = [Body("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())]

        assert failure(server, MODELS[0]) == f"the answer of {MODELS[0]} breaks off before its end: try again"

    @pytest.mark.parametrize(
        ("model", "body"),
        [
            (
                MODELS[0],
                b'data: {"type": "message_start", "message": {"usage": {"input_tokens": "3"}}}\n\n'
                b'data: {"type": "message_delta", "delta": {}, "usage": {"output_tokens": [3]}}\n\n'
                b'data: {"type": "message_stop"}\n\n',
            ),
            (
                MODELS[1],
                b'data: {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": "3"}}\n\n',
            ),
            (MODELS[2], b'{"message": {"content": ""}, "done": true, "eval_count": "3"}\n'),
        ],
    )
    def test_a_number_of_tokens_that_is_none_does_not_count(self, server: ModelServer, model: str, body: bytes) -> None:
        server.script = [Body(body)]

        assert ask(server, model)[0].usage == Usage()

    @pytest.mark.parametrize(
        ("model", "error"),
        [
            (MODELS[0], b'event: error\ndata: {"type": "error", "error": {"type": "e", "message": "Overloaded"}}\n\n'),
            (MODELS[1], b'data: {"error": {"message": "Overloaded"}}\n\n'),
            (MODELS[2], b'{"error": "Overloaded"}\n'),
        ],
    )
    def test_an_error_in_the_midst_of_it(self, server: ModelServer, model: str, error: bytes) -> None:
        server.script = [Breaks(says("one", "two"), after=SECOND[model], then=error)]

        assert failure(server, model) == f"{model} broke off with an error (Overloaded): try again"

    @every_provider
    def test_a_stream_that_never_ends(self, server: ModelServer, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memorist.model_client._MAX_STREAM_BYTES", 10_000)
        server.script = [says(*["and so on " * 10] * 1000)]

        assert failure(server, model).startswith(f"the answer of {model} has no end")

    @every_provider
    def test_the_next_question_is_answered_again(self, server: ModelServer, model: str) -> None:
        server.script = [Breaks(says("one", "two"), after=SECOND[model])]
        asked = provider(server, model)

        with pytest.raises(ChatError):
            asked.answer("", HELLO, [], lambda piece: None)

        assert asked.answer("", HELLO, [], lambda piece: None).text == "You said: Hello"

    @every_provider
    def test_whoever_stops_listening_leaves_no_connection(self, model: str) -> None:
        step = Pauses(says("one", *["more " * 1000] * 100), after=SECOND[model])

        def stop(piece: str) -> None:
            raise KeyboardInterrupt

        with model_server() as server:
            server.script = [step]
            with pytest.raises(KeyboardInterrupt):
                provider(server, model).answer("", HELLO, [], stop)
            step.go_on.set()

        assert server.deserted == 1


class TestChoosing:
    @pytest.mark.parametrize("model", ["", "claude", "anthropic:", "gemini:pro", "ollama: "])
    def test_a_model_is_named_with_its_provider(self, model: str) -> None:
        with pytest.raises(InvalidInput, match="anthropic:MODEL, openai:MODEL, ollama:MODEL"):
            create_provider(model, timeout=1, environ={})

    def test_a_name_may_have_colons_and_slashes_of_its_own(self, server: ModelServer) -> None:
        ask(server, "ollama:hf.co/some/model:8b")

        assert server.bodies[0]["model"] == "hf.co/some/model:8b"

    @pytest.mark.parametrize(
        ("name", "value"), [("ANTHROPIC_API_KEY", "sk-\nnext"), ("ANTHROPIC_BASE_URL", "nonsense")]
    )
    def test_a_key_or_an_address_that_cannot_be_one(self, name: str, value: str) -> None:
        with pytest.raises(ConfigError, match=name) as refused:
            create_provider("anthropic:m", timeout=1, environ={name: value})
        assert value not in str(refused.value)
