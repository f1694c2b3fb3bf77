"""The faults of vLLM-Omni's duplex endpoint: OpenAI's names, other rules, numbered events."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from agent_server import agent_url
from duplex_server import DuplexScenario, DuplexServer, end_with
from faults import Fault, NotApplicable, Plays, Subject
from mangles import SplitSamples, broken_pieces, empty_pieces, repeated, unknown_events, unreadable
from realtime_faults import (
    KEPT_ALIVE,
    PATIENT,
    calm_scenario,
    close_faults,
    connect_faults,
    error_event,
    near_zero_pcm,
)
from realtime_server import say, stall, tone_pcm
from session_harness import KEY

from audio.files import write_wav_pcm16
from rig.schedule import Bounds

FOLDER = tempfile.TemporaryDirectory()
VOICE = Path(FOLDER.name) / "voice.wav"
"""The clip that the model is to speak like; kept for as long as this module is."""
write_wav_pcm16(VOICE, np.frombuffer(tone_pcm(9, 0.5), dtype="<i2").astype(np.int16), 24_000)

make = functools.partial(calm_scenario, DuplexScenario)
SETTINGS = {"open_timeout_s": "2", "ready_timeout_s": "2", "close_timeout_s": "1",
            "ref_audio": str(VOICE), "overlap_policy": "barge_in_on_speech"}
BOUNDS = Bounds(turn1_reply_s=3.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=1.5, trailing_s=0.2,
                onset_s=1.0, after_window_s=0.35)
STATUS_FAILED = {"type": "failed", "reason": "runtime_error"}


class Split(SplitSamples):
    """As it is, of events without ids."""

    def __call__(self, event: dict) -> list:
        return super().__call__({"event_id": "split", **event})


def both_names(event: dict) -> list:
    """Every delta again, under its other name."""
    if not event["type"].startswith("response.output_audio"):
        return [event]
    return [event, {**event, "type": event["type"].replace("output_", "")}]


def harmless_errors(event: dict) -> list:
    if event["type"] != "response.speak":
        return [event]
    return [error_event("invalid_request_error", "bad_playback", "no such item"), event]


def told(kind: str, code: str, message: str, sees: str) -> Plays:
    return Plays(make(at_delta=(3, say(error_event(kind, code, message)))), sees)


OWN = (
    Fault("both_names", "transparent", "throughout", "same verdict",
          "every piece comes under the names of both dialects"),
    Fault("beta_names", "transparent", "throughout", "same verdict",
          "audio and words under the older names"),
    Fault("listens_first", "transparent", "throughout", "same verdict",
          "a response is opened and ends in the decision to listen, before the one that speaks"),
    Fault("harmless_errors", "transparent", "throughout", "same verdict",
          "errors about a request that changes nothing"),
    Fault("frames", "transparent", "throughout", "same verdict",
          "messages in binary frames, or in fragments"),
    Fault("no_duplex", "infrastructure", "handshake", "infra_error",
          "the deployment is not full duplex"),
    Fault("refused_session", "infrastructure", "handshake", "infra_error",
          "the session that was asked for is not granted"),
    Fault("full", "infrastructure", "handshake", "infra_error", "the server has no session free"),
    Fault("replaced", "infrastructure", "mid-turn", "infra_error",
          "another connection takes the session"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the server repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the server takes no audio any more"),
)

SUBJECT = Subject(
    adapter="vllm_omni", key_variable="AGENT_API_KEY", settings=SETTINGS, address=agent_url,
    server=DuplexServer, calm=make(), own=OWN, bounds=BOUNDS,
    faults={
        **connect_faults(make, "/v1/realtime"),
        **close_faults(make, {
            "handshake": lambda action: {"at_connect": action},
            "mid_turn": lambda action: {"at_delta": (3, action)},
            "after_done": lambda action: {"after_done": action}}),
        "never_ready": Plays(make(say_created=False), r"connected, but not ready within 2 s$"),
        "session_cap": Plays(make(at_delta=(3, end_with("idle_ttl_expired"))),
                             r"ended the session: session.expired: idle_ttl_expired$"),
        "go_away": NotApplicable("the protocol has no such message: a session ends with its cause"),
        "failed": Plays(make(status="failed", status_details=STATUS_FAILED),
                        r"response resp_1 failed: runtime_error$"),
        "error_event": told("server_error", "runtime_append_failed", "stale epoch",
                            r"error event: server_error: runtime_append_failed: stale epoch$"),
        "bad_base64": Plays(make(mangle=broken_pieces), r"audio delta: expected base64"),
        "wrong_rate": Plays(
            make(granted={"audio": {"output": {"format": {"rate": 16000}}}}),
            r"another audio format: audio.output.format.rate: 16000 instead of 24000",
            hopeless=False),
        "wrong_rate/piece": Plays(make(delta_rate_hz=22_050),
                                  r"audio delta: sample_rate_hz: 22050 instead of 24000$"),
        "ping_stall": Plays(make(at_delta=(3, stall())), settings=KEPT_ALIVE, bounds=PATIENT,
                            sees=r"the rig closed the connection: 1011 'keepalive ping timeout'"),
        "burst": Plays(make(pace_s=0.0, chunk_s=0.02)),
        "burst/unit": Plays(make(chunk_s=1.0)),
        "trickle": Plays(make(pace_s=0.002, chunk_s=0.01)),
        "empty": Plays(make(mangle=empty_pieces), r"audio delta skipped: expected "),
        "odd": Plays(make(make_mangle=Split), r"splits a sample"),
        "unknown_events": Plays(make(mangle=unknown_events), r"unknown_event"),
        "duplicate_events": Plays(make(mangle=repeated), r"repeated event skipped: response.done"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": Plays(make(held_back=2), r"late audio of resp_1, which is completed"),
        "late_transcript": Plays(make(transcript_after_done=True)),
        "incomplete": NotApplicable("a response ends as completed, cancelled or failed"),
        "missing_done": Plays(make(say_done=False)),
        "never_speaks": Plays(make(respond=False), r"response.listen"),
        "never_stops": Plays(make(replies_s=(30.0,), pace_s=0.02, yields=False)),
        "near_zero": Plays(make(speak=near_zero_pcm)),
        "no_transcript": Plays(make(say_words=False)),
        "both_names": Plays(make(mangle=both_names), r"the same piece under another name skipped"),
        "beta_names": Plays(make(spelling="response.audio")),
        "listens_first": Plays(make(precreated=True), r"resp_1_listen"),
        "harmless_errors": Plays(make(mangle=harmless_errors), r"no such item"),
        "frames": Plays(make(as_binary=True)),
        "frames/fragments": Plays(make(fragmented=True)),
        "no_duplex": Plays(make(capable=False), hopeless=True,
                           sees=r"does not serve this model in full duplex$"),
        "refused_session": Plays(
            make(), settings={"session": '{"turn_detection":{"type":"server_vad",'
                              '"interrupt_response":false}}'}, hopeless=True,
            sees=r"error event: session_error: unsupported_turn_detection: .*retrying will not"),
        "refused_session/policy": Plays(
            make(granted={"overlap_policy": "listen_only"}),
            r"did not apply .*overlap_policy: listen_only instead of barge_in_on_speech"),
        "full": Plays(
            make(at_connect=say(error_event("rate_limit_error", "resource_exhausted",
                                            "duplex_session_capacity_exhausted: limit=4"))),
            r"not ready: error event: rate_limit_error: resource_exhausted: duplex_session_capac"),
        "replaced": Plays(make(at_delta=(3, end_with("another socket", "session.replaced"))),
                          r"ended the session: session.replaced: another socket$"),
        "key_in_error": told("server_error", "internal", f"your header was Bearer {KEY}",
                             r"your header was \[redacted\]"),
        "gibberish": Plays(make(at_delta=(3, say(*["hello"] * 30))),
                           r"21 messages in a row are no events"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), pace_s=0.09),
                   bounds=replace(BOUNDS, turn1_reply_s=1.5)))
