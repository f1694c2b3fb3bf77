"""The faults of OpenAI Realtime (GA)."""

from __future__ import annotations

import base64
import functools

from faults import Fault, Plays, Subject
from mangles import is_audio, no_event_ids
from realtime_faults import PATIENT, calm_scenario, error_event, realtime_faults
from realtime_server import RealtimeServer, Scenario, say
from session_harness import KEY

make = functools.partial(calm_scenario, Scenario)
SETTINGS = {"vad_silence_duration_ms": "200", "ready_timeout_s": "2", "open_timeout_s": "2"}


def other_base64(event: dict) -> list:
    """Line breaks after 76 characters, the alphabet of addresses, no padding."""
    if not is_audio(event):
        return [event]
    text = base64.urlsafe_b64encode(base64.b64decode(event["delta"])).decode().rstrip("=")
    lines = [text[k:k + 76] for k in range(0, len(text), 76)]
    return [{**event, "delta": "\r\n".join(lines) + "\r\n"}]


def broken_pieces(event: dict) -> list:
    return [{**event, "delta": "!" + event["delta"][1:]} if is_audio(event) else event]


def beta_names(event: dict) -> list:
    names = {"response.output_audio.delta": "response.audio.delta",
             "response.output_audio.done": "response.audio.done",
             "response.output_audio_transcript.delta": "response.audio_transcript.delta",
             "response.output_audio_transcript.done": "response.audio_transcript.done"}
    out = [{**event, "type": names.get(event["type"], event["type"])}]
    if event["type"] == "conversation.item.added":
        out.append({**event, "event_id": event["event_id"] + "b",
                    "type": "conversation.item.created"})
    return out


def harmless_errors(event: dict) -> list:
    if event["type"] != "response.created":
        return [event]
    return [{**error_event("invalid_request_error", "invalid_value", "no such thing"),
             "event_id": "e1" + event["event_id"]}, event]


def user_transcripts(event: dict) -> list:
    if event["type"] != "response.done":
        return [event]
    return [event, {"type": "conversation.item.input_audio_transcription.completed",
                    "event_id": event["event_id"] + "t", "item_id": "item_user_1",
                    "content_index": 0, "transcript": "what the user said"}]


def missing_ends(event: dict) -> list:
    return [] if event["type"] in ("response.content_part.done", "rate_limits.updated",
                                   "response.output_item.done") else [event]


OWN = (
    Fault("other_base64", "transparent", "throughout", "same verdict",
          "audio in another form of base64: lines, another alphabet, no padding"),
    Fault("beta_names", "transparent", "throughout", "same verdict", "events by their beta names"),
    Fault("no_event_ids", "transparent", "throughout", "same verdict", "events without ids"),
    Fault("harmless_errors", "transparent", "throughout", "same verdict",
          "errors about a request that changes nothing"),
    Fault("user_transcripts", "transparent", "throughout", "same verdict",
          "what the user said comes as well"),
    Fault("missing_ends", "transparent", "throughout", "same verdict",
          "events that end a part of a reply are missing"),
    Fault("frames", "transparent", "throughout", "same verdict",
          "messages in binary frames, or in fragments"),
    Fault("http_status", "infrastructure", "handshake", "infra_error", "another HTTP answer"),
    Fault("refused_session", "infrastructure", "handshake", "infra_error",
          "the session that was asked for is not granted"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the server repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
    Fault("too_big", "infrastructure", "mid-turn", "infra_error", "a message of 16 MiB"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the server takes no audio any more"),
)

SUBJECT = Subject(
    adapter="openai_realtime", key_variable="OPENAI_API_KEY", settings=SETTINGS,
    server=RealtimeServer, calm=make(), own=OWN,
    faults={
        **realtime_faults(Scenario),
        "bad_base64": Plays(make(mangle=broken_pieces), r"audio delta: expected base64"),
        "wrong_rate": Plays(
            make(granted={"audio": {"output": {"format": {"rate": 16000}}}}),
            r"another audio format: audio.output.format.rate: 16000 instead of 24000"),
        "other_base64": Plays(make(mangle=other_base64)),
        "beta_names": Plays(make(mangle=beta_names)),
        "no_event_ids": Plays(make(mangle=no_event_ids)),
        "harmless_errors": Plays(make(mangle=harmless_errors), r"no such thing"),
        "user_transcripts": Plays(make(mangle=user_transcripts), r"what the user said"),
        "missing_ends": Plays(make(mangle=missing_ends)),
        "frames": Plays(make(as_binary=True)),
        "frames/fragments": Plays(make(fragmented=True)),
        "http_status": Plays(make(http=(400, {}, "no such model")),
                             r"HTTP 400; bad request.*no such model"),
        "http_status/503": Plays(make(http=(503, {}, "")), r"HTTP 503$"),
        "http_status/redirect": Plays(
            make(http=(302, {"Location": "ws://127.0.0.1:9/steal"}, "")), r"HTTP 302$"),
        "refused_session": Plays(
            make(at_connect=say(error_event("invalid_request_error", "model_not_found",
                                            "no access"))),
            r"not ready: error event: invalid_request_error: model_not_found: no access"),
        "refused_session/voice": Plays(
            make(granted={"audio": {"output": {"voice": "marin"}}}),
            r"did not apply .*audio.output.voice: marin instead of alloy"),
        "key_in_error": Plays(
            make(at_delta=(2, say(error_event(
                "server_error", "internal", f"your header was Bearer {KEY} and {KEY}")))),
            r"your header was \[redacted\] and \[redacted\]"),
        "gibberish": Plays(make(at_delta=(2, say(*["hello"] * 30))),
                           r"21 messages in a row are no events"),
        "too_big": Plays(make(at_delta=(2, say("x" * (16 * 2**20 + 1)))),
                         r"the rig closed the connection: 1009"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), pace_s=0.025)))
