"""The faults of an agent behind Twilio Media Streams: messages without ids, nothing answers."""

from __future__ import annotations

import base64
import functools
import itertools
from dataclasses import replace
from typing import Any

from agent_server import AgentScenario, AgentServer, TwilioAgent, agent_url
from faults import Fault, NotApplicable, Plays, Subject
from live_server import reply_pcm
from realtime_faults import (
    KEPT_ALIVE,
    PATIENT,
    calm_scenario,
    close_faults,
    connect_faults,
    near_zero_pcm,
)
from realtime_server import say, stall

from rig.schedule import Bounds

make = functools.partial(calm_scenario, AgentScenario, pace_s=0.02)
SETTINGS = {"open_timeout_s": "2", "ready_timeout_s": "2"}
BOUNDS = Bounds(turn1_reply_s=4.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=4.0, trailing_s=0.2,
                onset_s=1.0, after_window_s=0.35)
"""A reply is known to be over after a second of silence."""
IN_VAIN = replace(BOUNDS, turn1_reply_s=2.5, turn2_reply_s=2.0)


def is_media(event: dict) -> bool:
    return event["event"] == "media"


def with_payload(event: dict, payload: Any) -> dict:
    return {**event, "media": {**event["media"], "payload": payload}}


def unknown_events(event: dict) -> list:
    return [{"event": "mood", "streamSid": event["streamSid"]}, {"event": "x" * 200}, event]


def empty_pieces(event: dict) -> list:
    if not is_media(event):
        return [event]
    return [with_payload(event, ""), with_payload(event, None), {**event, "media": {}}, event]


def broken_pieces(event: dict) -> list:
    if not is_media(event):
        return [event]
    return [with_payload(event, "!" + event["media"]["payload"][1:])]


def unreadable(event: dict) -> list:
    return ['{"event": "media", "media": {"payload": "AA', "[1, 2]", "null", b"\xff\xfe{}",
            '{"no": "event"}', "[" * 5000, event]


def single_samples(event: dict) -> list:
    """Each piece sample by sample at its head, then in odd lengths."""
    if not is_media(event):
        return [event]
    codes = base64.b64decode(event["media"]["payload"])
    cuts = [*range(8), *range(8, len(codes), 333), len(codes)]
    return [with_payload(event, base64.b64encode(codes[a:b]).decode())
            for a, b in itertools.pairwise(cuts) if a < b]


def other_base64(event: dict) -> list:
    if not is_media(event):
        return [event]
    text = base64.urlsafe_b64encode(base64.b64decode(event["media"]["payload"])).decode()
    lines = [text.rstrip("=")[k:k + 76] for k in range(0, len(text), 76)]
    return [with_payload(event, "\r\n".join(lines) + "\r\n")]


def other_streams(event: dict) -> list:
    """Everything comes for another stream as well."""
    return [{**event, "streamSid": "MZ" + "0" * 32},
            {k: v for k, v in event.items() if k != "streamSid"}, event]


def twilios_own(event: dict) -> list:
    """What Twilio sends and an agent does not."""
    return [{"event": "dtmf", "streamSid": event["streamSid"],
             "dtmf": {"track": "inbound_track", "digit": "1"}},
            {"event": "connected", "protocol": "Call", "version": "1.0.0"}, event]


def odd_marks(event: dict) -> list:
    """Marks without a name, and one for each piece."""
    sid = event["streamSid"]
    return [{"event": "mark", "streamSid": sid}, {"event": "mark", "streamSid": sid, "mark": {}},
            event, {"event": "mark", "streamSid": sid, "mark": {"name": "piece"}}]


OWN = (
    Fault("other_base64", "transparent", "throughout", "same verdict",
          "audio in another form of base64: lines, another alphabet, no padding"),
    Fault("other_streams", "transparent", "throughout", "same verdict",
          "events of another stream, or of none"),
    Fault("twilios_own", "transparent", "throughout", "same verdict",
          "events that Twilio sends and an agent does not"),
    Fault("odd_marks", "transparent", "throughout", "same verdict",
          "marks without a name, and one for every piece"),
    Fault("clears", "transparent", "throughout", "same verdict",
          "every onset of the user clears a queue that is empty"),
    Fault("frames", "transparent", "throughout", "same verdict",
          "messages in binary frames, or in fragments"),
    Fault("wrong_stream", "behaviour", "throughout", "scored, no reply",
          "all that the agent sends is for another stream: the caller hears nothing",
          flags=("turn1_no_reply", "turn2_no_reply"),
          outcomes=(("TAKE_TURN", "fail"), ("LISTEN", "pass"), ("READBACK", "fail"))),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
    Fault("too_big", "infrastructure", "mid-turn", "infra_error", "a message of 16 MiB"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the agent takes no audio any more"),
)
NOTHING_READY = NotApplicable("nothing on this wire answers the start of a stream")
NO_ENDS = NotApplicable("no reply has a beginning, an end or a status on this wire")

SUBJECT = Subject(
    adapter="twilio", key_variable="AGENT_API_KEY", settings=SETTINGS, address=agent_url,
    server=functools.partial(AgentServer, agent=TwilioAgent), calm=make(), own=OWN, same="speech",
    words=False, bounds=BOUNDS,
    faults={
        **connect_faults(make, "/v1"),
        "wrong_key": Plays(make(http=(401, {}, "bad key $KEY")),
                           r"HTTP 401; the key was refused; .*\[redacted\]"),
        **close_faults(make, {
            "handshake": lambda action: {"at_connect": action},
            "mid_turn": lambda action: {"at_delta": (3, action)},
            "after_done": lambda action: {"after_done": action}}),
        "never_ready": NOTHING_READY,
        "session_cap": NotApplicable("a call has no cap of its own"),
        "go_away": NotApplicable("an agent announces no end: it closes the connection"),
        "failed": NO_ENDS,
        "error_event": NotApplicable("an agent has no such message"),
        "bad_base64": Plays(make(mangle=broken_pieces), r"media payload: expected base64"),
        "wrong_rate": NotApplicable("the format is fixed: mu-law, 8 kHz; nothing declares one"),
        "ping_stall": Plays(make(at_delta=(3, stall())), settings=KEPT_ALIVE, bounds=PATIENT,
                            sees=r"the rig closed the connection: 1011 'keepalive ping timeout'"),
        "burst": Plays(make(pace_s=0.0)),
        "burst/at_once": Plays(make(chunk_s=1.0)),
        "trickle": Plays(make(chunk_s=0.02, pace_s=0.004)),
        "empty": Plays(make(mangle=empty_pieces), r"media skipped: expected audio"),
        "odd": Plays(make(mangle=single_samples)),
        "unknown_events": Plays(make(mangle=unknown_events), r"unknown_event"),
        "duplicate_events": NotApplicable(
            "messages carry no id: audio that is sent twice is played twice, by Twilio as well"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": NO_ENDS,
        "late_transcript": NotApplicable("there are no words on this wire"),
        "incomplete": NO_ENDS,
        "missing_done": NO_ENDS,
        "never_speaks": Plays(make(respond=False), bounds=IN_VAIN),
        "never_stops": Plays(make(replies_s=(30.0,), yields=False), bounds=IN_VAIN),
        "near_zero": Plays(make(speak=near_zero_pcm), bounds=IN_VAIN),
        "no_transcript": NotApplicable("there are no words on this wire"),
        "other_base64": Plays(make(mangle=other_base64)),
        "other_streams": Plays(make(mangle=other_streams),
                               r"media of another stream skipped: expected streamSid MZ"),
        "twilios_own": Plays(make(mangle=twilios_own), r'"digit":"1"'),
        "odd_marks": Plays(make(mangle=odd_marks), r"mark skipped: expected a mark with a name"),
        "clears": Plays(make(clears_always=True)),
        "frames": Plays(make(as_binary=True)),
        "frames/fragments": Plays(make(fragmented=True)),
        "wrong_stream": Plays(make(mangle=lambda e: [{**e, "streamSid": "MZ0"}]), bounds=IN_VAIN,
                              sees=r"media of another stream skipped"),
        "gibberish": Plays(make(at_delta=(3, say(*["hello"] * 30))),
                           r"21 messages in a row are no events"),
        "too_big": Plays(make(at_delta=(2, say("x" * (16 * 2**20 + 1)))),
                         r"the rig closed the connection: 1009"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), speak=reply_pcm),
                   bounds=replace(BOUNDS, turn1_reply_s=1.5)))
