"""An OpenAI-compatible endpoint on this machine: words by the cascade's rule, voice by its engine.

For agents that others wrote and that want a language model and a voice. Nothing of it is random.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from adapters.cascade.policy import reply
from adapters.cascade.speech import Voice


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else " ".join(
        part.get("text", "") for part in content)


def answer(messages: list[dict[str, Any]]) -> str:
    said = {role: [text_of(m) for m in messages if m["role"] == role]
            for role in ("system", "user")}
    return " ".join(reply(said["user"], "\n".join(said["system"])))


def completion(text: str, *, stream: bool) -> tuple[str, bytes]:
    def body(kind: str, **choice: object) -> bytes:
        return json.dumps({"id": "c", "object": kind, "created": 0, "model": "rule",
                           "choices": [{"index": 0, **choice}]}).encode()

    message = {"role": "assistant", "content": text}
    if not stream:
        return "application/json", body("chat.completion", message=message, finish_reason="stop")
    events = (body("chat.completion.chunk", delta=message, finish_reason=None),
              body("chat.completion.chunk", delta={}, finish_reason="stop"), b"[DONE]")
    return "text/event-stream", b"".join(b"data: %s\n\n" % event for event in events)


@contextmanager
def endpoint() -> Iterator[str]:
    """Its base address, while it serves."""
    voice, speaking = Voice(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/chat/completions"):
                kind, body = completion(answer(asked["messages"]), stream=bool(asked.get("stream")))
            else:
                with speaking:
                    kind, body = "audio/pcm", voice.say(asked["input"]).astype("<i2").tobytes()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
