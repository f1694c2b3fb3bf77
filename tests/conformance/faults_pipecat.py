"""The faults of Pipecat's WebSocket transport: frames that are numbered, messages that are not."""

from __future__ import annotations

import base64
import functools

from faults import REPLIES_S, Fault, NotApplicable, Plays, Subject
from live_server import reply_pcm
from mangles import empty_pieces, is_audio, repeated, unknown_events, unreadable
from pipecat_loopback import PipecatScenario, PipecatServer, tell
from realtime_faults import (
    KEPT_ALIVE,
    MOMENTS_OF_RESPONSES,
    PATIENT,
    close_faults,
    connect_faults,
    near_zero_pcm,
)
from realtime_server import close_with, say, stall
from session_harness import KEY

make = functools.partial(PipecatScenario, replies_s=REPLIES_S, speak=reply_pcm)
SETTINGS = {"ready_timeout_s": "2", "open_timeout_s": "2"}
NO_STATUS = "a reply has no status on this wire: it begins, and it stops"


def error(text: str, fatal: bool) -> dict:
    return {"type": "error", "data": {"error": text, "fatal": fatal}}


def wav(header: bytes, event: dict) -> list:
    """Audio with something before its samples."""
    if not is_audio(event):
        return [event]
    data = header + base64.b64decode(event["delta"])
    return [{**event, "delta": base64.b64encode(data).decode()}]


def wav_header(bits: int) -> bytes:
    """As Python's `wave` writes it, of no length, as for a stream."""
    block = bits // 8
    return (b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0" + (24_000).to_bytes(4, "little")
            + (24_000 * block).to_bytes(4, "little") + bytes([block, 0, bits, 0]) + b"data\0\0\0\0")


def other_format(fields: dict, event: dict) -> list:
    return [{**event, "fields": fields} if is_audio(event) else event]


class SplitSamples:
    """Every frame of a reply but the last is odd in length."""

    def __init__(self) -> None:
        self._byte = b""

    def __call__(self, event: dict) -> list:
        if event["type"] == "bot-stopped-speaking" and self._byte:
            rest, self._byte = self._byte, b""
            return [{"type": "audio.delta", "event_id": event["event_id"] + "0" * 6,
                     "delta": base64.b64encode(rest).decode()}, event]
        if not is_audio(event):
            return [event]
        data = self._byte + base64.b64decode(event["delta"])
        keep = len(data) - 1 if len(data) % 2 == 0 else len(data)
        self._byte = data[keep:]
        return [{**event, "delta": base64.b64encode(data[:keep]).decode()}]


def unknown_frames(event: dict) -> list:
    """Messages and a kind of frame that came later than this client, and a frame of nothing."""
    return [*unknown_events(event)[:-1], {"type": "raw", "data": b"\x32\x03\x1a\x01x"},
            {"type": "raw", "data": b""}, event]


def other_messages(event: dict) -> list:
    if event["type"] != "bot-output":
        return [event]
    return [{"type": "metrics", "data": {"ttfb": [{"processor": "x", "value": 0.1}]}},
            {"type": "user-transcription", "data": {"text": "what the user said", "final": True,
                                                    "user_id": "", "timestamp": ""}},
            {"type": "bot-audio-level", "data": {"value": 0.5}},
            {"type": "server-message", "data": {"mine": 1}},
            {"label": "my-app", "type": "hello"}, event]


def harmless_errors(event: dict) -> list:
    if event["type"] != "bot-output":
        return [event]
    return [{"type": "error-response", "id": "client_ready_1",
             "data": {"error": "version may not fit"}}, event]


OWN = (
    Fault("wav_header", "transparent", "throughout", "same verdict",
          "each audio frame begins with a WAV header"),
    Fault("whole_segments", "transparent", "throughout", "same verdict",
          "the words of a sentence are told when it is over"),
    Fault("other_messages", "transparent", "throughout", "same verdict",
          "messages of features that are not used"),
    Fault("harmless_errors", "transparent", "throughout", "same verdict",
          "errors about a request that changes nothing"),
    Fault("logged_errors", "transparent", "throughout", "same verdict",
          "errors of the agent's services, which the user lets pass (service_errors=log)"),
    Fault("frames", "transparent", "throughout", "same verdict", "messages in fragments"),
    Fault("deaf_agent", "infrastructure", "handshake", "infra_error",
          "the agent says that it takes no audio"),
    Fault("prompt_refused", "infrastructure", "handshake", "infra_error",
          "the agent does not take the system prompt"),
    Fault("fatal_error", "infrastructure", "mid-turn", "infra_error",
          "the agent's pipeline has ended with an error"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the agent repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no frames"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the agent takes no audio any more"),
)

SUBJECT = Subject(
    adapter="pipecat", key_variable="AGENT_API_KEY", settings=SETTINGS, server=PipecatServer,
    calm=make(), own=OWN, address=lambda url, _: {"url": url},
    faults={
        **connect_faults(make, "/v1"),
        **close_faults(make, MOMENTS_OF_RESPONSES),
        "never_ready": Plays(make(say_updated=False), r"connected, but not ready within 2 s$"),
        "session_cap": Plays(
            make(after_done=close_with(1001, "session timeout")),
            r"1001 'session timeout' \(the server went away, or the session is over its"),
        "go_away": NotApplicable("the protocol has no such message: the connection is closed"),
        "failed": NotApplicable(NO_STATUS),
        "error_event": Plays(make(at_delta=(3, tell(error("no credit", fatal=False)))),
                             r"the agent reports an error: no credit$"),
        "bad_base64": Plays(make(mangle=functools.partial(wav, wav_header(24))),
                            r"audio frame: expected PCM16 after a WAV header"),
        "wrong_rate": Plays(
            make(mangle=functools.partial(other_format, {"sample_rate": 16_000})),
            r"another audio format: 16000 Hz, 1 channels instead of 24000 Hz, 1 \(--set output_r"),
        "wrong_rate/stereo": Plays(
            make(mangle=functools.partial(other_format, {"num_channels": 2})),
            r"another audio format: 24000 Hz, 2 channels instead of 24000 Hz, 1"),
        "ping_stall": Plays(make(at_delta=(3, stall())), settings=KEPT_ALIVE, bounds=PATIENT,
                            sees=r"the rig closed the connection: 1011 'keepalive ping timeout'"),
        "burst": Plays(make(pace_s=0.0)),
        "burst/one_frame": Plays(make(chunk_s=60.0)),
        "trickle": Plays(make(pace_s=0.002, chunk_s=0.01)),
        "empty": Plays(make(mangle=empty_pieces), r"audio frame skipped: expected audio"),
        "odd": Plays(make(make_mangle=SplitSamples), r"splits a sample"),
        "unknown_events": Plays(make(mangle=unknown_frames), r"unknown_event"),
        "duplicate_events": Plays(make(mangle=repeated), r"repeated event skipped: AudioFrame"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": Plays(make(held_back=2)),
        "late_transcript": Plays(make(transcript_after_done=True)),
        "incomplete": NotApplicable(NO_STATUS),
        "missing_done": Plays(make(say_done=False)),
        "never_speaks": Plays(make(respond=False)),
        "never_stops": Plays(make(replies_s=(30.0,), pace_s=0.02)),
        "near_zero": Plays(make(speak=near_zero_pcm)),
        "no_transcript": Plays(make(say_words=False)),
        "wav_header": Plays(make(mangle=functools.partial(wav, wav_header(16)))),
        "whole_segments": Plays(make(whole_segments=True)),
        "other_messages": Plays(make(mangle=other_messages), r"what the user said"),
        "harmless_errors": Plays(make(mangle=harmless_errors), r"version may not fit"),
        "logged_errors": Plays(make(at_delta=(3, tell(error("no credit", fatal=False)))),
                               r"no credit", settings={"service_errors": "log"}),
        "frames": Plays(make(fragmented=True)),
        "deaf_agent": Plays(make(ready={"capabilities": {"audio_in": False}}),
                            r"not ready: expected an agent that hears, got", hopeless=True),
        "prompt_refused": Plays(
            make(answers={"type": "error-response", "data": {"error": "Unsupported type"}}),
            r"not ready: the agent did not take the system prompt: error-response: Unsupported",
            settings={"system_prompt": "client_request"}, hopeless=True),
        "prompt_refused/no_answer": Plays(
            make(), r"connected, but not ready within 2 s$",
            settings={"system_prompt": "client_request"}),
        "fatal_error": Plays(make(at_delta=(3, tell(error("no voice", fatal=True)))),
                             r"the agent reports a fatal error: no voice$",
                             settings={"service_errors": "log"}),
        "key_in_error": Plays(
            make(at_delta=(3, tell(error(f"header Bearer {KEY}", fatal=True)))),
            r"header \[redacted\]"),
        "gibberish": Plays(make(at_delta=(3, say(*["{}"] * 30))),
                           r"21 messages in a row are no events; .* \(JSON: does the agent use"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), pace_s=0.025)))
