"""An OpenAI-compatible chat endpoint on this machine that answers by a script, well or badly.

    with ChatServer([good(conversation), verdict("pass")]) as server: ...

Each request takes the next step; a function in place of the script is given every request and its
number, from 0. A request beyond the script gets status 599, which no client expects, and is counted
in `beyond`.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from probes.spec import Conversation


@dataclass(frozen=True)
class Step:
    """One answer. `cut` sends only so many bytes of the body; `reset` breaks the connection off
    before any; `stall` sends nothing until the server stops; `drip_s` waits before each byte;
    `before` is called first, while other requests go on."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    cut: int | None = None
    reset: bool = False
    stall: bool = False
    drip_s: float = 0.0
    claim_length: int | None = None
    before: Callable[[], object] | None = None


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value

    @property
    def system(self) -> str:
        return str(self.value["messages"][0]["content"])

    @property
    def user(self) -> str:
        return str(self.value["messages"][1]["content"])


def completion(content: object, *, finish_reason: object = "stop", usage: object = "some",
               **more: object) -> bytes:
    """The body of a chat completion; `content` that is no text is written as JSON text."""
    text = content if isinstance(content, str) else json.dumps(content)
    value: dict[str, Any] = {
        "id": "x", "object": "chat.completion", "model": "loopback",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                     "finish_reason": finish_reason}], **more}
    if usage == "some":
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    if usage is not None:
        value["usage"] = usage
    return json.dumps(value).encode()


def answer_of(conversation: Conversation, **changes: object) -> dict[str, Any]:
    """What a writer would answer so that this conversation comes of it."""
    value = conversation.model_dump(exclude_none=True, exclude={"id"})
    return {**value, **changes}


def good(conversation: Conversation, **changes: object) -> Step:
    return Step(completion(answer_of(conversation, **changes)))


def verdict(word: object, *reasons: object) -> Step:
    return Step(completion({"verdict": word, "reasons": list(reasons)}))


def error(status: int, message: str = "no", **headers: str) -> Step:
    return Step(json.dumps({"error": {"message": message}}).encode(), status,
                tuple((k.replace("_", "-"), v) for k, v in headers.items()))


@dataclass
class ChatServer:
    """Listens on a free port of 127.0.0.1 while the block lasts."""

    script: Sequence[Step] | Callable[[Received, int], Step]
    certificate: Path | None = None
    """PEM file with key and certificate: then HTTPS is spoken."""
    received: list[Received] = field(default_factory=list)
    beyond: int = 0

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    def _take(self, request: Received) -> Step:
        with self._lock:
            self.received.append(request)
            if callable(self.script):
                return self.script(request, len(self.received) - 1)
            if len(self.received) > len(self.script):
                self.beyond += 1
                return Step(b"the script is over", 599)
            return self.script[len(self.received) - 1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {k.lower(): v for k, v in self.headers.items()}
                outer._play(self, outer._take(Received(self.path, headers, body)))

            def log_message(self, *_: object) -> None:
                """Says nothing."""

            def handle(self) -> None:
                try:
                    super().handle()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

        return Handler

    def _play(self, to: BaseHTTPRequestHandler, step: Step) -> None:
        to.close_connection = True
        if step.before is not None:
            step.before()
        if step.stall:
            self._stop.wait(20)
            return
        if step.reset:
            # Linger of 0 s: closing sends a reset instead of an end.
            to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                     struct.pack("ii", 1, 0))
            to.connection.close()
            return
        length = len(step.body) if step.claim_length is None else step.claim_length
        to.send_response(step.status)
        to.send_header("Content-Type", step.content_type)
        to.send_header("Content-Length", str(length))
        for name, value in step.headers:
            to.send_header(name, value)
        to.end_headers()
        body = step.body if step.cut is None else step.body[:step.cut]
        if step.drip_s:
            for at in range(len(body)):
                if self._stop.wait(step.drip_s):
                    return
                to.wfile.write(body[at:at + 1])
            return
        to.wfile.write(body)
