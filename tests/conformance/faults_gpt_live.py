"""The faults of GPT-Live: one stream without responses, ended by the server with a word."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from faults import REPLIES_S, Fault, NotApplicable, Plays, Subject
from live_server import LiveScenario, LiveServer, end_with
from mangles import (
    SplitSamples,
    broken_pieces,
    empty_pieces,
    is_audio,
    no_event_ids,
    repeated,
    unknown_events,
    unreadable,
)
from realtime_faults import KEPT_ALIVE, PATIENT, close_faults, connect_faults, near_zero_pcm
from realtime_server import say, stall
from session_harness import KEY

from rig.schedule import Bounds

make = functools.partial(LiveScenario, replies_s=REPLIES_S)
SETTINGS = {"ready_timeout_s": "2", "open_timeout_s": "2", "close_timeout_s": "1"}
PIECE_S = LiveScenario().chunk_s
MID_TURN, AFTER_DONE = 15, 27
"""Pieces of 0.1 s since the session began. The first reply is streamed from the 12th to the 23rd;
nothing on this wire says that it is over, the silence behind it does."""
BOUNDS = Bounds(turn1_reply_s=5.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=4.0, trailing_s=0.2,
                onset_s=1.0, after_window_s=0.35)
"""A reply is known to be over after a second of silence."""
IN_VAIN = replace(BOUNDS, turn1_reply_s=2.5, turn2_reply_s=2.0)


def ids_repeated(event: dict) -> list:
    """Audio carries no id: two equal pieces of it are two pieces."""
    return [event] if is_audio(event) else repeated(event)


def friendly_words(event: dict) -> list:
    if event["type"] != "session.output_transcript.delta":
        return [event]
    return [
        {"type": "session.usage.updated", "event_id": event["event_id"] + "u",
         "usage": {"seconds": 1.0}, "context_window": {"usage_ratio": 0.01}},
        {"type": "info", "event_id": event["event_id"] + "i", "code": "note", "message": "hello"},
        {"type": "session.delegation.created", "event_id": event["event_id"] + "d",
         "offset_ms": 5, "delegation": {"id": "d1", "type": "responses", "target": "x"}},
        {"type": "session.input_transcript.delta", "event_id": event["event_id"] + "t",
         "delta": "what the user said", "start_ms": 0, "end_ms": 200}, event]


def error_event(kind: str, code: str, message: str, about: str | None = None) -> dict:
    return {"type": "error", "event_id": f"e9{about}", "error": {
        "type": kind, "code": code, "message": message, "param": None, "client_event_id": about}}


def harmless_errors(event: dict) -> list:
    if event["type"] != "session.output_transcript.delta":
        return [event]
    return [error_event("invalid_request_error", "immutable_field_update", "no such thing"), event]


class Broken:
    """One piece of audio in the middle of the reply is no base64."""

    def __init__(self) -> None:
        self._pieces = 0

    def __call__(self, event: dict) -> list:
        self._pieces += is_audio(event)
        return broken_pieces(event) if self._pieces == MID_TURN else [event]


def _mid_turn(action: Callable[[Any], object], sees: str, **more: Any) -> Plays:
    return Plays(make(at_delta=(MID_TURN, action)), sees, **more)


def _told(kind: str, code: str, message: str, sees: str, about: str | None = None) -> Plays:
    return _mid_turn(say(error_event(kind, code, message, about)), sees)


OWN = (
    Fault("no_silence", "transparent", "throughout", "same verdict",
          "the stream stops while nothing is said"),
    Fault("times", "transparent", "throughout", "same verdict",
          "audio with times, or words without"),
    Fault("no_event_ids", "transparent", "throughout", "same verdict", "events without ids"),
    Fault("other_events", "transparent", "throughout", "same verdict",
          "events of features that are not used"),
    Fault("harmless_errors", "transparent", "throughout", "same verdict",
          "errors about a request that changes nothing"),
    Fault("frames", "transparent", "throughout", "same verdict",
          "messages in binary frames, or in fragments"),
    Fault("refused_session", "infrastructure", "handshake", "infra_error",
          "the session that was asked for is not granted"),
    Fault("ended", "infrastructure", "mid-turn", "infra_error",
          "the server ends the session with a word"),
    Fault("our_audio", "infrastructure", "mid-turn", "infra_error",
          "the server refuses audio of the user"),
    Fault("quota", "infrastructure", "mid-turn", "infra_error", "no money is left"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the server repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the server takes no audio any more"),
)

SUBJECT = Subject(
    adapter="gpt_live", key_variable="OPENAI_API_KEY", settings=SETTINGS, server=LiveServer,
    calm=make(), own=OWN, same="speech", piece_s=PIECE_S,
    bounds=BOUNDS,
    faults={
        **connect_faults(make, "/live/sessions"),
        **close_faults(make, {
            "handshake": lambda action: {"at_connect": action},
            "mid_turn": lambda action: {"at_delta": (MID_TURN, action)},
            "after_done": lambda action: {"at_delta": (AFTER_DONE, action)}}),
        "never_ready": Plays(make(say_updated=False), r"connected, but not ready within 2 s$"),
        "session_cap": _mid_turn(end_with("expired"), r"the server ended the session: expired$"),
        "go_away": NotApplicable("the protocol has no such message: a session ends with its cause"),
        "failed": NotApplicable("replies have no beginning, end or status on this wire"),
        "error_event": _told("server_error", "internal", "oops",
                             r"error event: server_error: internal: oops"),
        "bad_base64": Plays(make(make_mangle=Broken), r"audio delta: expected base64"),
        "wrong_rate": Plays(make(granted={"audio": {"format": {"rate": 16000}}}),
                            r"another audio format: audio.format.rate: 16000 instead of 24000",
                            hopeless=False),
        "ping_stall": _mid_turn(stall(), settings=KEPT_ALIVE, bounds=PATIENT,
                                sees=r"the rig closed the connection: 1011 'keepalive ping"),
        "burst": Plays(make(at_once=True)),
        "burst/long_pieces": Plays(make(chunk_s=0.15), later_s=0.05),
        "trickle": Plays(make(chunk_s=0.01), later_s=PIECE_S - 0.01),
        "empty": Plays(make(mangle=empty_pieces), r"audio delta skipped: expected audio"),
        "odd": Plays(make(make_mangle=SplitSamples), r"splits a sample"),
        "unknown_events": Plays(make(mangle=unknown_events), r"unknown_event"),
        "duplicate_events": Plays(
            make(mangle=ids_repeated),
            r"repeated event skipped: session.output_transcript.delta"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": NotApplicable("no reply is announced to be over, so nothing comes after it"),
        "late_transcript": Plays(make(trail_s=0.9)),
        "incomplete": NotApplicable("replies have no beginning, end or status on this wire"),
        "missing_done": NotApplicable("there is no such event: silence ends a reply"),
        "never_speaks": Plays(make(respond=False), bounds=IN_VAIN),
        "never_speaks/no_stream": Plays(make(respond=False, streams_silence=False),
                                        bounds=IN_VAIN),
        "never_stops": Plays(LiveScenario(replies_s=(30.0,), yields=False), bounds=IN_VAIN),
        "near_zero": Plays(make(speak=near_zero_pcm), bounds=IN_VAIN),
        "no_transcript": Plays(make(say_words=False)),
        "no_silence": Plays(make(streams_silence=False), r"transcript_ahead"),
        "times": Plays(make(times_in_audio=True)),
        "times/none": Plays(make(times_in_text=False)),
        "no_event_ids": Plays(make(mangle=no_event_ids)),
        "other_events": Plays(make(mangle=friendly_words), r"what the user said"),
        "harmless_errors": Plays(make(mangle=harmless_errors), r"no such thing"),
        "frames": Plays(make(as_binary=True)),
        "frames/fragments": Plays(make(fragmented=True)),
        "refused_session": Plays(
            make(at_connect=say(error_event("invalid_request_error", "invalid_model",
                                            "no such model", "session_1"))),
            r"not ready: error event: invalid_request_error: invalid_model: no such model "
            r"\(in answer to session_1\); retrying will not help$", hopeless=True),
        "refused_session/voice": Plays(
            make(granted={"audio": {"output": {"voice": "cedar"}}}),
            r"did not apply .*audio.output.voice: cedar instead of marin"),
        "ended": _mid_turn(end_with("content"), r"the server ended the session: content$"),
        "our_audio": _told("invalid_request_error", "invalid_audio", "odd length",
                           r"invalid_audio: odd length \(in answer to audio_7\)$", "audio_7"),
        "quota": _told("invalid_request_error", "insufficient_quota", "no money left",
                       r"insufficient_quota: no money left; retrying will not help$"),
        "key_in_error": _told("server_error", "internal", f"your header was Bearer {KEY}",
                              r"your header was \[redacted\]"),
        "gibberish": _mid_turn(say(*["hello"] * 30), r"21 messages in a row are no events"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=NotApplicable("no event reports a barge-in: the model itself stops what it streams"))
