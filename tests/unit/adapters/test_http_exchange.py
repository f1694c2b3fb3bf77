"""One HTTP exchange: exact bytes out, answers in any pieces in, bounds."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.http_exchange import HEAD_BYTES, Answer, AnswerReader, request
from adapters.wire.payload import PayloadError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello"
CHUNKED = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
           b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
AFTER_100 = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN
UNTIL_CLOSED = b"HTTP/1.0 200 OK\r\nX-Y: z\r\n\r\nhello"


def read(pieces: list[bytes], max_bytes: int = 1_000) -> Answer:
    reader = AnswerReader(max_bytes)
    for piece in pieces:
        answer = reader.push(piece)
        if answer is not None:
            return answer
    return reader.end()


def test_a_request_byte_by_byte() -> None:
    sent = request("POST", urlsplit("https://agent.example:8443/api/offer"), b"{}",
                   {"Authorization": "Bearer k"})
    assert sent == (b"POST /api/offer HTTP/1.1\r\nHost: agent.example:8443\r\n"
                    b"Authorization: Bearer k\r\nAccept-Encoding: identity\r\n"
                    b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
    assert b"Host: [::1]\r\n" in request("POST", urlsplit("http://[::1]"), b"", {})
    assert request("PATCH", urlsplit("http://h"), b"", {}).startswith(b"PATCH / HTTP/1.1\r\n")


@given(raw=st.sampled_from([PLAIN, CHUNKED, AFTER_100, UNTIL_CLOSED]),
       cuts=st.lists(st.integers(0, len(AFTER_100)), max_size=12))
def test_an_answer_is_the_same_in_any_pieces(raw: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(c, len(raw)) for c in cuts), len(raw)]
    answer = read([raw[a:b] for a, b in pairwise(edges) if a < b])
    assert (answer.status, answer.body) == (200, b"hello")


def test_a_whole_answer_does_not_wait_for_the_connection_to_close() -> None:
    for raw in (PLAIN, CHUNKED, AFTER_100):
        answer = AnswerReader(1_000).push(raw)
        assert answer is not None
        assert answer.body == b"hello"
    assert AnswerReader(1_000).push(UNTIL_CLOSED) is None


def test_headers_are_known_in_small_letters_and_retry_after_in_seconds() -> None:
    assert read([PLAIN]).headers["x-y"] == "z"
    raw = b"HTTP/1.1 429 No\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n"
    assert read([raw % b"7"]).retry_after_s == 7
    assert read([raw % b"1000000000000"]).retry_after_s == 1e9
    assert read([raw % (b"9" * 5_000)]).retry_after_s == 1e9
    for nonsense in (b"-1", b"1e9", b"nan", b"inf", b"\xd9\xa3"):
        assert read([raw % nonsense]).retry_after_s is None
    assert read([raw % b"Wed, 21 Oct 2026 07:28:00 GMT"]).retry_after_s is None
    assert read([raw % b"7"]).status == 429


@pytest.mark.parametrize(("raw", "message"), [
    (b"220 mail.example ESMTP\r\n", "expected an HTTP answer, got something else"),
    (b"HTTX", "expected an HTTP answer, got something else"),
    (b"HTTP/1.1 abc\r\n\r\n", "got something else .BadStatusLine"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", "at most 1000 bytes, got more"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (HEAD_BYTES + 1), "headers of at most 65536 bytes"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (HEAD_BYTES + 1_001), "at most 1000 bytes, got more"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n0\r\n\r\n", "whole HTTP answer"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_001, "at most 1000 bytes, got more"),
])
def test_what_is_no_answer_or_too_much_of_one_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        read([raw])


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 OK\r\nContent-", PLAIN[:-1], CHUNKED[:-6]])
def test_an_answer_that_is_cut_off_is_told(raw: bytes) -> None:
    with pytest.raises(PayloadError, match=f"whole HTTP answer, got {len(raw)} bytes"):
        read([raw] if raw else [])


@given(st.binary(max_size=300))
def test_nothing_else_is_ever_raised(noise: bytes) -> None:
    for raw in (noise, b"HTTP/1.1 200 OK\r\n" + noise, b"HTTP/1.1 200 OK\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" + noise):
        with suppress(PayloadError):
            assert read([raw]).status >= 100
