"""SmallWebRTC signalling: exact bodies out, answers in, checked."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire import webrtc_signalling as signalling
from adapters.wire.http_exchange import Answer
from adapters.wire.payload import PayloadError

SDP = "\r\n".join([
    "v=0", "o=- 1 1 IN IP4 0.0.0.0", "s=-", "t=0 0", "m=audio 9 UDP/TLS/RTP/SAVPF 96", "a=sendrecv",
    "a=mid:0", "a=rtpmap:96 opus/48000/2", "a=candidate:1 1 udp 2 192.0.2.7 5000 typ host",
    "a=end-of-candidates", "m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "a=mid:1",
    "a=candidate:1 1 udp 2 192.0.2.7 5001 typ host", ""])


def answer(sdp: object = SDP, **more: object) -> bytes:
    return json.dumps({"sdp": sdp, "type": "answer", "pc_id": "p1", **more}).encode()


def test_the_offer_and_the_candidates_that_follow_it() -> None:
    assert signalling.offer("v=0") == b'{"sdp":"v=0","type":"offer"}'
    assert json.loads(signalling.offer("v=0", request_data={"prompt": "Señal"})) == {
        "sdp": "v=0", "type": "offer", "requestData": {"prompt": "Señal"}}
    bare, candidates = signalling.without_candidates(SDP)
    assert "candidate" not in bare
    assert bare.count("\r\n") == SDP.count("\r\n") - 3
    assert json.loads(signalling.patch("p1", candidates)) == {"pc_id": "p1", "candidates": [
        {"candidate": "candidate:1 1 udp 2 192.0.2.7 5000 typ host", "sdp_mid": "0",
         "sdp_mline_index": 0},
        {"candidate": "candidate:1 1 udp 2 192.0.2.7 5001 typ host", "sdp_mid": "1",
         "sdp_mline_index": 1}]}


def test_a_good_answer_is_taken_as_it_is() -> None:
    assert signalling.read_answer(answer()) == signalling.SdpAnswer(SDP, "p1")
    assert signalling.read_answer(answer(SDP.replace("\r\n", "\n"), pc_id=5)) == \
        signalling.SdpAnswer(SDP, None)


def test_names_and_other_transports_are_not_tried() -> None:
    sdp = SDP.replace("a=end-of-candidates", "\r\n".join([
        "a=candidate:2 1 udp 2 host.local 5000 typ host",
        "a=candidate:3 1 tcp 2 192.0.2.7 9 typ host tcptype active", "a=candidate:4",
        *["a=candidate:5 1 UDP 2 2001:db8::1 5000 typ host"] * 45, "a=end-of-candidates"]))
    taken = signalling.read_answer(answer(sdp))
    assert taken.sdp.count("a=candidate:") == 40
    assert "local" not in taken.sdp
    assert taken.notes == ("10 candidates are left out: names, no UDP, or more than 40",)


@pytest.mark.parametrize(("body", "message"), [
    (b"welcome", "expected a JSON object"),
    (answer(type="offer"), "expected type answer, got offer"),
    (answer(type=None), "expected type answer, got none"),
    (answer(None), "expected an sdp, got none"), (answer(" "), "expected an sdp, got none"),
    (answer("hello"), r"expected an sdp \(v=0\), got 'hello'"),
    (answer(SDP + "s=ñ\r\n"), r"expected an sdp \(v=0\)"),
    (answer(SDP + "a=x\r\n" * 2_000), "at most 2000 lines, got 20"),
    (answer(SDP + "m=video 9 X 1\r\n" * 8), "at most 8 media sections, got 10"),
    (answer(SDP.replace("m=audio 9", "m=audio 0")), "the answer has no audio: expected a section"),
    (answer("v=0\r\n"), "the answer has no audio: expected a section"),
    (answer(SDP.replace("sendrecv", "recvonly")), r"sends no audio \(a=recvonly\)"),
    (answer(SDP.replace("sendrecv", "sendonly")), r"takes no audio \(a=sendonly\)"),
    (answer(SDP.replace("sendrecv", "inactive")), r"has no audio \(a=inactive\)"),
    (answer(SDP.replace("opus/48000", "opus/16000")),
     "expected opus/48000/2 among the codecs of the answer, got opus/16000/2"),
    (answer(SDP.replace("opus", "PCMU")),
     "expected opus/48000/2 among the codecs of the answer, got pcmu/48000/2"),
])
def test_an_answer_that_cannot_be_used_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        signalling.read_answer(body)


def test_a_refusal_says_what_to_do() -> None:
    assert signalling.refusal(Answer(200, {}, b"")) is None
    assert signalling.refusal(Answer(429, {"retry-after": "7"}, b"slow\ndown")) == (
        "the agent answered HTTP 429; too many sessions; retry after 7 s; slow down")
    assert signalling.refusal(Answer(302, {}, b"")) == "the agent answered HTTP 302"


@given(st.text(max_size=60), st.lists(st.sampled_from(SDP.split("\r\n")), max_size=14))
def test_nothing_else_is_ever_raised(noise: str, lines: list[str]) -> None:
    for sdp in (noise, "v=0\r\n" + noise, "\r\n".join(["v=0", *lines])):
        with suppress(PayloadError):
            assert signalling.read_answer(answer(sdp)).sdp.startswith("v=0")
