"""A chat endpoint that misbehaves: what is sent again, what is lost, what ends the run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chat_server import ChatServer, Step, completion, error

from rig.answer_cache import AnswerCache
from rig.backoff import retry_after_s
from rig.chat_endpoint import (
    MAX_ANSWER_BYTES,
    ChatAnswer,
    ChatAnswerError,
    ChatCounts,
    ChatEndpoint,
    ChatEndpointError,
    read_chat_answer,
)
from rig.http_post import HttpAnswer

KEY = "sk-proj-0123456789abcdef0123456789"
BODY = b'{"messages":[],"model":"m"}'
GOOD = Step(completion("hello"))


class Client:
    """An endpoint under test with what it noted and waited."""

    def __init__(self, url: str, folder: Path, key: str | None = None,
                 timeout_s: float = 5.0) -> None:
        self.waits: list[float] = []
        self.notes: list[str] = []
        self.endpoint = ChatEndpoint(url, key, AnswerCache(folder), timeout_s=timeout_s,
                                     wait=self.waits.append, note=self.notes.append)

    def ask(self, body: bytes = BODY) -> ChatAnswer:
        return self.endpoint.ask(body)

    @property
    def counts(self) -> ChatCounts:
        return self.endpoint.counts


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[..., tuple[ChatServer, Client]]]:
    servers: list[ChatServer] = []

    def start(*script: Step, key: str | None = None, timeout_s: float = 5.0) -> tuple[
            ChatServer, Client]:
        server = ChatServer(script).__enter__()
        servers.append(server)
        return server, Client(server.url, tmp_path / "cache", key, timeout_s)

    yield start
    for server in servers:
        server.__exit__()


Play = Callable[..., tuple[ChatServer, Client]]


def test_a_request_goes_out_byte_for_byte_and_its_answer_comes_back(play: Play) -> None:
    server, client = play(GOOD, key=KEY)
    assert client.ask() == ChatAnswer(content="hello", finish_reason="stop", prompt_tokens=100,
                                      completion_tokens=20)
    (request,) = server.received
    assert (request.path, request.body) == ("/v1/chat/completions", BODY)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert client.counts == ChatCounts(requests=1, sent=1, prompt_tokens=100, completion_tokens=20)


def test_without_a_key_no_authorization_is_sent(play: Play) -> None:
    server, client = play(GOOD)
    client.ask()
    assert "authorization" not in server.received[0].headers


# --- the cache -------------------------------------------------------------------------------


def test_an_answer_is_cached_under_the_hash_of_the_body_and_costs_nothing_again(
        play: Play, tmp_path: Path) -> None:
    server, client = play(GOOD, key=KEY)
    first = client.ask()
    assert client.ask() == first
    (file,) = (tmp_path / "cache").iterdir()
    assert file.name == f"{hashlib.sha256(BODY).hexdigest()}.json"
    assert KEY not in file.read_text()
    assert len(server.received) == 1
    assert client.counts == ChatCounts(requests=2, cache_hits=1, sent=1, prompt_tokens=100,
                                       completion_tokens=20)


@pytest.mark.parametrize("damage", [
    lambda t: "", lambda t: t[: len(t) // 2], lambda t: t.replace("hello", "jello"),
    lambda t: t.replace('\\"model\\":\\"m\\"', '\\"model\\":\\"n\\"'), lambda t: "[]",
    lambda t: "[" * 100_000, lambda t: t.replace('"schema":1', '"schema":2'),
    lambda t: json.dumps({"schema": 1, "request": BODY.decode(), "answer": {"content": 1},
                          "answer_sha256": hashlib.sha256(b'{"content":1}').hexdigest()})])
def test_a_damaged_cache_file_is_asked_for_again_and_mended(
        play: Play, tmp_path: Path, damage: Callable[[str], str]) -> None:
    server, client = play(GOOD, GOOD)
    client.ask()
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_text()
    assert damage(whole) != whole
    file.write_text(damage(whole))
    assert client.ask().content == "hello"
    assert len(server.received) == 2
    assert file.read_text() == whole


# --- sent again ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [
    error(429), error(500), error(502), error(503), error(529), error(408), Step(reset=True),
    Step(GOOD.body, cut=40), Step(GOOD.body, claim_length=10**6), Step(b"<html>", 503)],
    ids=["429", "500", "502", "503", "529", "408", "reset", "cut", "shorter than said", "html"])
def test_a_passing_fault_is_sent_again(play: Play, bad: Step) -> None:
    server, client = play(bad, bad, GOOD)
    assert client.ask().content == "hello"
    assert [r.body for r in server.received] == [BODY] * 3
    assert client.waits == [2.0, 4.0]
    assert len(client.notes) == 2
    assert (client.counts.requests, client.counts.sent, client.counts.sent_again) == (1, 3, 2)


def test_after_four_sends_the_run_ends(play: Play, tmp_path: Path) -> None:
    server, client = play(*[error(500, "over capacity")] * 4)
    with pytest.raises(ChatEndpointError, match=r"expected status 200, got 500: over capacity; "
                                                r"given up after 4 sends"):
        client.ask()
    assert client.waits == [2.0, 4.0, 6.0]
    assert (len(server.received), server.beyond) == (4, 0)
    assert not (tmp_path / "cache").exists()


def test_retry_after_is_obeyed_up_to_a_minute(play: Play) -> None:
    _, client = play(error(429, Retry_After="7"), error(429, Retry_After="1"), GOOD)
    client.ask()
    assert client.waits == [7.0, 4.0]


def test_an_endpoint_that_wants_more_patience_ends_the_run_at_once(play: Play) -> None:
    server, client = play(error(429, "slow down", Retry_After="3600"))
    with pytest.raises(ChatEndpointError, match=r"slow down; it asks for 3600 s of patience, more "
                                                r"than 60 s"):
        client.ask()
    assert client.waits == []
    assert server.beyond == 0


@pytest.mark.parametrize(("value", "seconds"), [
    ("2", 2.0), (" 1.5 ", 1.5), (None, 0.0), ("", 0.0), ("-3", 0.0), ("nan", 0.0), ("inf", 0.0),
    ("1e9", 0.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("٣", 0.0)])
def test_retry_after(value: str | None, seconds: float) -> None:
    assert retry_after_s(value) == seconds


def test_silence_is_waited_for_no_longer_than_said(play: Play) -> None:
    _, client = play(*[Step(stall=True)] * 4, timeout_s=0.2)
    with pytest.raises(ChatEndpointError, match=r"expected an answer within 0.2 s"):
        client.ask()


def test_a_byte_now_and_then_does_not_outlast_the_limit(play: Play) -> None:
    _, client = play(*[Step(GOOD.body, drip_s=0.05)] * 4, timeout_s=0.3)
    with pytest.raises(ChatEndpointError, match=r"expected an answer within 0.3 s"):
        client.ask()


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", tmp_path)
        with pytest.raises(ChatEndpointError, match="Connection refused; given up after 4 sends"):
            client.ask()


@contextlib.contextmanager
def raw_server(answer: bytes, times: int) -> Iterator[str]:
    """Reads a request and sends these bytes, so many times; gives the base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            for _ in range(times):
                with listener.accept()[0] as peer, contextlib.suppress(OSError):
                    peer.recv(65536)
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(65536):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        thread.join()


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(("answer", "why"), [
    (b"220 mail.example ESMTP\r\n", "BadStatusLine"), (b"", "RemoteDisconnected"),
    (b"HTTP/1.1 abc OK\r\n\r\n", "BadStatusLine"),
    (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", "HTTPException"),
    (b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n", "LineTooLong"),
    (CHUNKED + chunk(b"{"), "IncompleteRead"), (CHUNKED + b"zz\r\n", "IncompleteRead"),
    (CHUNKED + b"ff\r\n{", "IncompleteRead")])
def test_what_is_no_whole_http_answer_is_asked_for_again(tmp_path: Path, answer: bytes,
                                                         why: str) -> None:
    with raw_server(answer, 4) as url:
        client = Client(url, tmp_path)
        with pytest.raises(ChatEndpointError, match=f"{why}.*; given up after 4 sends"):
            client.ask()


def test_an_answer_in_chunks_is_put_together(tmp_path: Path) -> None:
    body = completion("hello")
    whole = CHUNKED + chunk(body[:7]) + chunk(body[7:]) + b"0\r\n\r\n"
    with raw_server(whole, 1) as url:
        assert Client(url, tmp_path).ask().content == "hello"


@pytest.mark.parametrize("answer", [
    CHUNKED + chunk(b" " * 400_000) * 3, CHUNKED + b"-1\r\n" + b" " * 4_000_000,
    b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1_100_000,
    b"HTTP/1.1 100 Continue\r\n\r\n" * 120_000],
    ids=["chunks", "negative chunk", "no length", "headers"])
def test_what_has_no_end_is_cut_off(tmp_path: Path, answer: bytes) -> None:
    with raw_server(answer, 1) as url, pytest.raises(
            ChatAnswerError, match="expected an answer of at most 1048576 bytes, got more"):
        Client(url, tmp_path).ask()


# --- HTTPS -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the program openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run([program, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                    "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                    folder / "key.pem", "-out", folder / "cert.pem"], check=True,
                   capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return both


def test_a_certificate_that_is_not_trusted_gets_neither_key_nor_request(
        tmp_path: Path, certificate: Path) -> None:
    with ChatServer([GOOD], certificate) as server:
        client = Client(server.url, tmp_path / "cache", KEY)
        with pytest.raises(ChatEndpointError, match="expected a certificate that can be trusted"):
            client.ask()
    assert (server.received, client.waits) == ([], [])


def test_a_trusted_certificate_is_spoken_to(tmp_path: Path, certificate: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert.pem")))
    with ChatServer([GOOD], certificate) as server:
        assert Client(server.url, tmp_path / "cache", KEY).ask().content == "hello"
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_https_is_not_spoken_in_the_clear(play: Play, tmp_path: Path) -> None:
    server, _ = play(GOOD)
    client = Client(server.url.replace("http", "https"), tmp_path, KEY)
    with pytest.raises(ChatEndpointError, match="given up after 4 sends"):
        client.ask()
    assert server.received == []


# --- the run ends ----------------------------------------------------------------------------


def test_an_account_without_credit_ends_the_run(play: Play) -> None:
    body = {"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}
    server, client = play(Step(json.dumps(body).encode(), 429))
    with pytest.raises(ChatEndpointError, match=r"got 429: You exceeded your quota\."):
        client.ask()
    assert (server.beyond, client.waits) == (0, [])


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_refusal_that_would_come_again_ends_the_run(play: Play, status: int) -> None:
    server, client = play(error(status, "not you"))
    with pytest.raises(ChatEndpointError, match=f"expected status 200, got {status}: not you"):
        client.ask()
    assert server.beyond == 0


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(play: Play, status: int, tmp_path: Path) -> None:
    with ChatServer([GOOD]) as elsewhere:
        server, client = play(Step(status=status, headers=(("Location", elsewhere.url),)), key=KEY)
        with pytest.raises(ChatEndpointError, match=f"status {status}: redirects are not followed"):
            client.ask()
        assert elsewhere.received == []
    assert server.beyond == 0


# --- the try is lost -------------------------------------------------------------------------


def completion_with(**message: object) -> Step:
    return Step(json.dumps({"choices": [{"message": message}]}).encode())


@pytest.mark.parametrize(("bad", "rule", "why"), [
    (error(400, "unknown field"), "request_refused", "got 400: unknown field"),
    (error(422), "request_refused", "got 422"),
    (Step(b"hello"), "answer_envelope", "a JSON body"),
    (Step(b""), "answer_envelope", "a JSON body"),
    (Step(b"\xff\xfe"), "answer_envelope", "a JSON body"),
    (Step(b"[" * 200_000), "answer_envelope", "a JSON body"),
    (Step(b"[]"), "answer_envelope", "choices"),
    (Step(b"{}"), "answer_envelope", "choices"),
    (Step(b'{"choices":[]}'), "answer_envelope", "choices"),
    (Step(b'{"choices":{"0":1}}'), "answer_envelope", "choices"),
    (Step(b'{"choices":[7]}'), "answer_envelope", "choices"),
    (Step(b'{"choices":[{"message":"hi"}]}'), "answer_envelope", "choices"),
    (completion_with(content=None), "answer_empty", "expected text, got none"),
    (completion_with(content=["hi"]), "answer_empty", "expected text, got none"),
    (completion_with(content=" \n"), "answer_empty", "expected text, got none"),
    (completion_with(content="\ud800"), "answer_envelope", "lone surrogate"),
    (Step(completion("x", finish_reason=7)), "answer_envelope", "finish_reason as text"),
    (Step(completion("x", finish_reason="content_filter")), "answer_withheld", "filter"),
    (Step(completion("x"), content_type="text/html"), "answer_envelope", "got 'text/html'"),
    (Step(completion("x"), content_type="text/event-stream"), "answer_envelope", "event-stream"),
    (Step(completion("x" * MAX_ANSWER_BYTES)), "answer_envelope", "at most 1048576 bytes"),
    (Step(b"x", claim_length=10**12, cut=1), "answer_envelope", "at most 1048576 bytes"),
    (Step(completion("x"), status=204), "request_refused", "got 204")])
def test_an_answer_of_no_use_is_not_sent_again_and_not_kept(
        play: Play, tmp_path: Path, bad: Step, rule: str, why: str) -> None:
    server, client = play(bad)
    with pytest.raises(ChatAnswerError, match=why) as refused:
        client.ask()
    assert refused.value.rule == rule
    assert (server.beyond, client.waits) == (0, [])
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("usage", [
    None, 7, {}, {"prompt_tokens": "5", "completion_tokens": -1}, {"prompt_tokens": True},
    {"prompt_tokens": 10**30}])
def test_tokens_are_counted_where_they_are_reported(play: Play, usage: object) -> None:
    _, client = play(Step(completion("hello", usage=usage)))
    answer = client.ask()
    assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)
    assert client.counts.answers_without_tokens == 1
    assert client.counts.prompt_tokens == 0


# --- the key ---------------------------------------------------------------------------------


def test_an_error_that_repeats_the_key_is_shown_without_it(play: Play) -> None:
    _, client = play(error(429, f"key {KEY} is over its quota\x1b[2J"), error(401, f"bad {KEY}"),
                     key=KEY)
    with pytest.raises(ChatEndpointError, match=r"got 401: bad \[redacted\]") as refused:
        client.ask()
    assert KEY not in str(refused.value)
    assert client.notes == [
        f"{client.endpoint._url}: expected status 200, got 429: key [redacted] is over its quota "
        "[2J; sent again in 2 s"]


@pytest.mark.parametrize("echo", [
    KEY, "".join(f"\\u{ord(c):04x}" for c in KEY), json.dumps({"turn1": KEY}),
    '{"turn1":"\\u0073' + KEY[1:] + '"}'])
def test_an_answer_that_repeats_the_key_is_thrown_away(
        play: Play, tmp_path: Path, echo: str) -> None:
    _, client = play(Step(completion(echo)), key=KEY)
    with pytest.raises(ChatAnswerError, match="repeats the key") as refused:
        client.ask()
    assert refused.value.rule == "answer_holds_key"
    assert not (tmp_path / "cache").exists()


def test_the_representation_of_an_answer_has_no_body() -> None:
    assert "secret" not in repr(HttpAnswer(200, {}, b"secret"))


def test_reading_wants_bytes_of_a_completion() -> None:
    assert read_chat_answer(completion("a", finish_reason=None, usage=None)) == ChatAnswer(
        content="a")
