"""The faults of an agent behind WebRTC: an offer over HTTP, packets of Opus, RTVI messages.

The undisturbed agent sends no packets while it is silent, so that its codec has heard the same
before each reply, whatever came between; `streamed_silence` is the other way. A codec with losses
gives no two recordings alike once packets are missing: sounds are compared by their likeness.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import webrtc_scenarios as scenarios
from faults import CLOSES, MOMENTS, REPLIES_S, Fault, NotApplicable, Plays, Subject
from faults_twilio import BOUNDS, IN_VAIN
from realtime_faults import NEAR_ZERO, PATIENT
from session_harness import KEY
from webrtc_loopback import WebRtcServer
from webrtc_scenarios import Scenario, rtvi

make = functools.partial(Scenario, replies_s=REPLIES_S, rtvi=True, pauses=True)
JITTER_MS = 120
"""An agent that paces packets in real time on a busy machine is late: that is not what is tested
here (but in test_webrtc.py, at 40 ms)."""
SETTINGS = {"open_timeout_s": "2", "ready_timeout_s": "3", "lost_after_s": "1.5",
            "jitter_ms": str(JITTER_MS)}
MID_REPLY = 20
"""A packet of the first reply."""
PEER_LEFT = json.dumps({"type": "signalling", "message": {"type": "peerLeft"}})
HICCUP = rtvi("error", error="no credit")


def at_reply(what: str, *says: str) -> Scenario:
    return make(at_packet=(MID_REPLY, what), says=says)


def http(status: int, text: str = "", headers: dict[str, str] | None = None) -> Scenario:
    return make(http=(status, headers or {}, text))


def answer(mangle: object, sees: str) -> Plays:
    return Plays(make(mangle=mangle), sees)


def closes() -> dict[str, Plays | NotApplicable]:
    """A connection ends with a word of its encryption, or without any; there are no codes."""
    left, lost = r"the agent closed the connection$", r"the agent does not answer any more$"
    how = {(1000, "handshake"): Plays(make(at_connect="leave"), left),
           (1000, "mid_turn"): Plays(at_reply("leave"), left),
           (1000, "after_done"): Plays(make(after_reply="leave"), left),
           (1006, "handshake"): Plays(make(at_connect="vanish"),
                                      rf"{lost}|no encrypted connection within 3 s \(DTLS\)$"),
           (1006, "mid_turn"): Plays(at_reply("vanish"), lost),
           (1006, "after_done"): Plays(make(after_reply="vanish"), lost)}
    no_code = NotApplicable("a connection that is closed says no code: 1000 and 1006 stand for it")
    return {f"close_{code}_{moment}": how.get((code, moment), no_code)
            for moment in MOMENTS for code in CLOSES}


NO_STATUS = NotApplicable("a reply has no status on this wire: it begins, and it stops")
OWN = (
    Fault("streamed_silence", "transparent", "throughout", "same verdict",
          "the track goes on in silence between replies"),
    Fault("lost_packets", "transparent", "throughout", "same verdict",
          "one packet in 20 does not arrive"),
    Fault("overtaken_packets", "transparent", "throughout", "same verdict",
          "one packet in 10 comes after its successor"),
    Fault("uneven_packets", "transparent", "throughout", "same verdict",
          "packets are up to 30 ms longer under way than others"),
    Fault("names", "transparent", "handshake", "same verdict",
          "a candidate of the answer is a name, which is not looked up"),
    Fault("logged_errors", "transparent", "throughout", "same verdict",
          "errors of the agent's services, which the user lets pass (service_errors=log)"),
    Fault("http_status", "infrastructure", "handshake", "infra_error", "another HTTP answer"),
    Fault("no_answer", "infrastructure", "handshake", "infra_error",
          "the offer is taken and never answered"),
    Fault("bad_answer", "infrastructure", "handshake", "infra_error",
          "the answer is none that a connection can be made from"),
    Fault("no_dtls", "infrastructure", "handshake", "infra_error",
          "the agent has another certificate than its answer says"),
    Fault("fatal_error", "infrastructure", "mid-turn", "infra_error",
          "the agent's pipeline has ended with an error"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the agent repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
)

SUBJECT = Subject(
    adapter="webrtc", key_variable="AGENT_API_KEY", settings=SETTINGS, server=WebRtcServer,
    calm=make(), own=OWN, same="sound", bounds=BOUNDS, at_once=3, jitter_ms=JITTER_MS,
    needs="aiortc", address=lambda url, _: {"url": url.replace("ws://", "http://")},
    faults={
        "refused": Plays(at="refused", sees=r"cannot connect: ConnectionRefusedError: "),
        "mute": Plays(at="mute", sees=r"expected an answer within 2 s, got none that was complete"),
        "not_http": Plays(at="not_http", sees=r"expected an HTTP answer, got something else$"),
        "wrong_key": Plays(http(401, '{"detail": "no such key: $KEY"}'),
                           r"POST: the agent answered HTTP 401; the key was refused; .*\[redacted"),
        "http_429": Plays(http(429, "slow down"), r"HTTP 429; too many sessions; slow down$"),
        "http_429_retry_after": Plays(
            http(429, "slow down", {"Retry-After": "7"}),
            r"HTTP 429; too many sessions; retry after 7 s; slow down$"),
        "never_ready": Plays(make(gone_at_once=True),
                             r"not ready: no way to the agent was found within 3 s \(ICE: "),
        **closes(),
        "session_cap": Plays(at_reply("say", rtvi("error", error="Session timeout", fatal=True)),
                             r"the agent reports a fatal error: Session timeout$"),
        "session_cap/closed": Plays(make(after_reply="leave"), r"the agent closed the connection$"),
        "go_away": Plays(at_reply("say_leave", PEER_LEFT), r"the agent says that it leaves$"),
        "go_away/stays": Plays(at_reply("say", PEER_LEFT), r"the agent says that it leaves$"),
        "failed": NO_STATUS,
        "error_event": Plays(at_reply("say", HICCUP), r"the agent reports an error: no credit$"),
        "bad_base64": Plays(make(payload=scenarios.no_opus),
                            r"audio packet: expected Opus, got .*: what was said in it is lost$"),
        "wrong_rate": answer(scenarios.other_rate,
                             r"expected opus/48000/2 among the codecs of the answer, got opus/16"),
        "wrong_rate/codec": answer(scenarios.other_codec,
                                   r"expected opus/48000/2 among the codecs of the answer, got x-"),
        "ping_stall": Plays(at_reply("vanish"), bounds=PATIENT,
                            sees=r"the connection broke off: the agent does not answer any more$"),
        "burst": Plays(make(bursts=True)),
        "trickle": NotApplicable("a reply always comes in packets of 20 ms"),
        "empty": Plays(make(payload=scenarios.empty_before), r"an empty packet is left out"),
        "odd": NotApplicable("a packet holds whole samples"),
        "unknown_events": Plays(make(before_words=(rtvi("mood", x=1), rtvi("x" * 300))),
                                r"unknown_event"),
        "duplicate_events": Plays(make(repeats=True), r"again skipped"),
        "unreadable": Plays(make(before_words=("hello", "[1]", "{}", "[" * 5000,
                                               rtvi("bot-output"))),
                            r"unreadable message skipped"),
        "late_deltas": Plays(make(told_end=0.1)),
        "late_transcript": Plays(make(late_words=True)),
        "incomplete": NO_STATUS,
        "missing_done": Plays(make(told_end=None)),
        "never_speaks": Plays(make(answers=False), bounds=IN_VAIN),
        "never_speaks/silence": Plays(make(answers=False, pauses=False), bounds=IN_VAIN),
        "never_stops": Plays(make(replies_s=(30.0,)), bounds=IN_VAIN),
        "near_zero": Plays(make(level=NEAR_ZERO), bounds=IN_VAIN),
        "no_transcript": Plays(make(words=False)),
        "no_transcript/no_messages": Plays(make(rtvi=False)),
        "streamed_silence": Plays(make(pauses=False)),
        "lost_packets": Plays(make(loses=scenarios.one_in_20), r"1 packets lost: 20 ms"),
        "overtaken_packets": Plays(make(delays_s=scenarios.some_overtaken)),
        "uneven_packets": Plays(make(delays_s=scenarios.uneven)),
        "names": Plays(make(mangle=scenarios.with_a_name), r"1 candidates are left out: names"),
        "logged_errors": Plays(make(before_words=(HICCUP,)), r"no credit",
                               settings={"service_errors": "log"}),
        "http_status": Plays(http(404, "nothing here"), hopeless=True,
                             sees=r"HTTP 404; wrong address: the path is often /api/offer; nothi"),
        "http_status/500": Plays(http(500, "oops"), r"the agent answered HTTP 500; oops$",
                                 hopeless=False),
        "http_status/redirect": Plays(http(307, headers={"Location": "http://127.0.0.1:9/"}),
                                      r"the agent answered HTTP 307$", hopeless=False),
        "no_answer": Plays(make(hangs=True), r"expected an answer within 2 s, got none that was"),
        "bad_answer": answer(scenarios.as_text, r"expected a JSON object, got 7 bytes that are no"),
        "bad_answer/offer": answer(scenarios.as_offer, r"expected type answer, got offer$"),
        "bad_answer/no_sdp": answer(scenarios.without_sdp, r"expected an sdp, got none$"),
        "bad_answer/half": answer(scenarios.half_an_sdp, r"the answer cannot be used: \w+"),
        "bad_answer/gibberish": answer(scenarios.gibberish,
                                       r"expected an sdp \(v=0\), got 'hello'$"),
        "bad_answer/huge": answer(scenarios.huge,
                                  r"expected an answer of at most 262144 bytes, got more$"),
        "bad_answer/many_lines": answer(scenarios.many_lines,
                                        r"expected an sdp of at most 2000 lines, got \d+$"),
        "bad_answer/no_audio": answer(
            scenarios.only_port_0,
            r"the answer has no audio: expected a section m=audio that is accepted$"),
        "bad_answer/sends_none": Plays(make(sends_audio=False),
                                       r"the answer sends no audio \(a=recvonly\)$"),
        "bad_answer/takes_none": Plays(make(takes_audio=False),
                                       r"the answer takes no audio \(a=sendonly\)$"),
        "no_dtls": answer(scenarios.other_fingerprint,
                          r"not ready: no encrypted connection.* \(DTLS\)$"),
        "fatal_error": Plays(at_reply("say", rtvi("error", error="no voice", fatal=True)),
                             r"the agent reports a fatal error: no voice$",
                             settings={"service_errors": "log"}),
        "key_in_error": Plays(
            at_reply("say", rtvi("error", error=f"header Bearer {KEY}", fatal=True)),
            r"header \[redacted\]"),
        "gibberish": Plays(at_reply("say", *["hello"] * 30),
                           r"21 messages in a row are no events"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), yields=True),
                   bounds=replace(BOUNDS, turn1_reply_s=1.5)))
