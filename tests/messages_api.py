"""A loopback server that speaks the Messages API: a model whose every turn is written down beforehand."""

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from timeouts import MAX_WAIT_SECONDS


class ScriptedModel(ThreadingHTTPServer):
    """Calls the tool `memory` with each input of the script, one a turn, and then says that it is done."""

    def __init__(self, script: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def turn(self) -> dict[str, Any]:
        number = len(self.requests)
        done = number > len(self.script)
        content = (
            {"type": "text", "text": "done"}
            if done
            else {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": self.script[number - 1]}
        )
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": [content],
            "stop_reason": "end_turn" if done else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    @property
    def results(self) -> list[dict[str, Any]]:
        """What the tool answered, call by call, as it came back to the model."""
        return [request["messages"][-1]["content"][0] for request in self.requests[1:]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = MAX_WAIT_SECONDS
    server: ScriptedModel

    def do_POST(self) -> None:
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        body = json.dumps(self.server.turn()).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing to print."""
