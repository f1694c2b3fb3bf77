"""The faults of StepFun realtime (OpenAI's beta dialect)."""

from __future__ import annotations

import functools

from beta_server import BetaConversation, BetaScenario
from faults import Fault, Plays, Subject
from mangles import broken_pieces, no_event_ids
from realtime_faults import calm_scenario, error_event, realtime_faults
from realtime_server import RealtimeServer, say
from session_harness import KEY

make = functools.partial(calm_scenario, BetaScenario)
SETTINGS = {"vad_silence_duration_ms": "200", "vad_energy_threshold": "300",
            "ready_timeout_s": "2", "open_timeout_s": "2"}


def misnamed_updated(event: dict) -> list:
    """As in a sample of the documents."""
    return [{**event, "type": "session.created"} if event["type"] == "session.updated" else event]


def misnamed_created(event: dict) -> list:
    """As in a sample of the documents."""
    return [{**event, "type": "response.done"} if event["type"] == "response.created" else event]


def created_twice(event: dict) -> list:
    if event["type"] != "session.created":
        return [event]
    return [event, {**event, "event_id": event["event_id"] + "b"}]


def other_order(event: dict) -> list:
    if event["type"] != "session.updated":
        return [event]
    return [{**event, "session": {**event["session"], "modalities": ["audio", "text"]}}]


def missing_ends(event: dict) -> list:
    return [] if event["type"] in ("response.content_part.done", "response.output_item.done",
                                   "response.audio.done") else [event]


def _told(code: str, message: str, sees: str) -> Plays:
    return Plays(make(at_delta=(2, say(error_event("invalid_request_error", code, message)))),
                 sees)


OWN = (
    Fault("no_event_ids", "transparent", "throughout", "same verdict", "events without ids"),
    Fault("missing_ends", "transparent", "throughout", "same verdict",
          "events that end a part of a reply are missing"),
    Fault("frames", "transparent", "throughout", "same verdict", "messages in binary frames"),
    Fault("misnamed", "transparent", "throughout", "same verdict",
          "events under another name, as in samples of the documents"),
    Fault("http_status", "infrastructure", "handshake", "infra_error", "another HTTP answer"),
    Fault("refused_session", "infrastructure", "handshake", "infra_error",
          "the session that was asked for is not granted"),
    Fault("quota", "infrastructure", "mid-turn", "infra_error", "no money is left"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the server repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
)

SUBJECT = Subject(
    adapter="stepfun", key_variable="STEPFUN_API_KEY", settings=SETTINGS,
    server=functools.partial(RealtimeServer, conversation=BetaConversation), calm=make(), own=OWN,
    faults={
        **realtime_faults(BetaScenario),
        "bad_base64": Plays(make(mangle=broken_pieces), r"audio delta: expected base64"),
        "wrong_rate": Plays(
            make(granted={"output_audio_format": "g711_ulaw"}),
            r"another audio format: output_audio_format: g711_ulaw instead of pcm16"),
        "failed/internal": Plays(make(status="failed", status_details={
            "type": "failed", "error": {"code": "internal", "message": "oops"}}),
            r"response resp_1 failed: internal: oops"),
        "no_event_ids": Plays(make(mangle=no_event_ids)),
        "missing_ends": Plays(make(mangle=missing_ends)),
        "frames": Plays(make(as_binary=True)),
        "misnamed": Plays(make(mangle=misnamed_updated)),
        "misnamed/created": Plays(make(mangle=misnamed_created)),
        "misnamed/twice": Plays(make(mangle=created_twice)),
        "misnamed/other_order": Plays(make(mangle=other_order)),
        "http_status": Plays(make(http=(400, {}, "no such model")),
                             r"HTTP 400; bad request.*no such model"),
        "refused_session": Plays(
            make(at_connect=say(error_event("invalid_request_error", "400",
                                            "voice not supported"))),
            r"not ready: error event: invalid_request_error: 400: voice not supported"),
        "refused_session/voice": Plays(
            make(granted={"voice": "linjiajiejie"}),
            r"did not apply .*voice: linjiajiejie instead of soft-spoken-gentleman"),
        "refused_session/vad_off": Plays(make(granted={"turn_detection": None}),
                                         r"turn detection is off"),
        "quota": _told("insufficient_quota", "no money left",
                       r"insufficient_quota: no money left; retrying will not help$"),
        "key_in_error": Plays(
            make(at_delta=(2, say(error_event("server_error", "internal",
                                              f"your header was Bearer {KEY}")))),
            r"your header was \[redacted\]"),
        "gibberish": Plays(make(at_delta=(2, say(*["hello"] * 30))),
                           r"21 messages in a row are no events"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), pace_s=0.025)))
