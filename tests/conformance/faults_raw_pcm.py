"""The faults of an agent behind raw PCM: audio in binary frames, a hello, little else."""

from __future__ import annotations

import functools
from dataclasses import replace

from agent_server import AgentScenario, AgentServer, RawPcmAgent, agent_url
from faults import Fault, NotApplicable, Plays, Subject
from faults_twilio import BOUNDS, IN_VAIN
from realtime_faults import (
    KEPT_ALIVE,
    PATIENT,
    calm_scenario,
    close_faults,
    connect_faults,
    near_zero_pcm,
)
from realtime_server import Raw, say, stall
from session_harness import KEY

make = functools.partial(calm_scenario, AgentScenario, pace_s=0.02)
SETTINGS = {"open_timeout_s": "2", "ready_timeout_s": "2", "transcripts": "true",
            "wait_ready": "true"}


def is_audio(item: dict | Raw) -> bool:
    return isinstance(item, bytes)


def unknown_events(item: dict | Raw) -> list:
    return [{"type": "mood", "mood": "fine"}, {"type": "x" * 200}, item]


def empty_pieces(item: dict | Raw) -> list:
    return [b"", item, b""] if is_audio(item) else [item]


def unreadable(item: dict | Raw) -> list:
    return ['{"type": "clear', "[1, 2]", "null", '{"no": "type"}', "[" * 5000, item]


def harmless_errors(item: dict | Raw) -> list:
    return [{"type": "error", "message": "a tool was slow", "fatal": False}, item]


class SplitSamples:
    """Every frame of audio but the last of a reply is odd in length."""

    def __call__(self, item: dict | Raw) -> list:
        if not isinstance(item, bytes) or len(item) < 64:
            return [item]
        return [item[:33], item[33:34], item[34:]]


def error(message: str) -> dict:
    return {"type": "error", "message": message}


NO_ENDS = NotApplicable("no reply has a beginning, an end or a status on this wire")
OWN = (
    Fault("harmless_errors", "transparent", "throughout", "same verdict",
          "errors that the agent says are not fatal"),
    Fault("clears", "transparent", "throughout", "same verdict",
          "every onset of the user clears a queue that is empty"),
    Fault("fragments", "transparent", "throughout", "same verdict", "messages in fragments"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the agent repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
    Fault("too_big", "infrastructure", "mid-turn", "infra_error", "a message of 16 MiB"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the agent takes no audio any more"),
)

SUBJECT = Subject(
    adapter="raw_pcm", key_variable="AGENT_API_KEY", settings=SETTINGS, address=agent_url,
    server=functools.partial(AgentServer, agent=RawPcmAgent), calm=make(), own=OWN, same="speech",
    bounds=BOUNDS,
    faults={
        **connect_faults(make, "/v1"),
        "wrong_key": Plays(make(http=(401, {}, "bad key $KEY")),
                           r"HTTP 401; the key was refused; .*\[redacted\]"),
        **close_faults(make, {
            "handshake": lambda action: {"at_connect": action},
            "mid_turn": lambda action: {"at_delta": (3, action)},
            "after_done": lambda action: {"after_done": action}}),
        "never_ready": Plays(make(say_created=False), r"connected, but not ready within 2 s$"),
        "session_cap": NotApplicable("an agent has no cap that the protocol knows"),
        "go_away": NotApplicable("an agent announces no end: it closes the connection"),
        "failed": NO_ENDS,
        "error_event": Plays(make(at_delta=(3, say(error("out of memory")))),
                             r"the agent reports an error: out of memory$"),
        "error_event/handshake": Plays(make(at_connect=say(error("no model is loaded"))),
                                       r"not ready: the agent reports an error: no model is load"),
        "bad_base64": NotApplicable("audio is binary"),
        "wrong_rate": Plays(make(granted={"agent_audio": {"rate_hz": 16000}}),
                            r"another format: agent_audio.rate_hz: 16000 instead of 24000$"),
        "ping_stall": Plays(make(at_delta=(3, stall())), bounds=PATIENT, settings=KEPT_ALIVE,
                            sees=r"the rig closed the connection: 1011 'keepalive ping timeout'"),
        "burst": Plays(make(pace_s=0.0)),
        "burst/at_once": Plays(make(chunk_s=1.0)),
        "trickle": Plays(make(chunk_s=0.01, pace_s=0.002)),
        "empty": Plays(make(mangle=empty_pieces), r"an empty binary frame skipped"),
        "odd": Plays(make(make_mangle=SplitSamples), r"splits a sample"),
        "unknown_events": Plays(make(mangle=unknown_events), r"unknown_event"),
        "duplicate_events": NotApplicable("messages carry no id: what is sent twice counts twice"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": NO_ENDS,
        "late_transcript": Plays(make(transcript_after_done=True)),
        "incomplete": NO_ENDS,
        "missing_done": NO_ENDS,
        "never_speaks": Plays(make(respond=False), bounds=IN_VAIN),
        "never_stops": Plays(make(replies_s=(30.0,), yields=False), bounds=IN_VAIN),
        "near_zero": Plays(make(speak=near_zero_pcm), bounds=IN_VAIN),
        "no_transcript": Plays(make(say_words=False)),
        "harmless_errors": Plays(make(mangle=harmless_errors), r"a tool was slow"),
        "clears": Plays(make(clears_always=True)),
        "fragments": Plays(make(fragmented=True)),
        "key_in_error": Plays(make(at_delta=(3, say(error(f"your header was Bearer {KEY}")))),
                              r"your header was \[redacted\]"),
        "gibberish": Plays(make(at_delta=(3, say(*["hello"] * 30))),
                           r"21 messages in a row are no events"),
        "too_big": Plays(make(at_delta=(2, say("x" * (16 * 2**20 + 1)))),
                         r"the rig closed the connection: 1009"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8)), bounds=replace(BOUNDS, turn1_reply_s=1.5)))
