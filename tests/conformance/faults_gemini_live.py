"""The faults of Gemini Live: messages without ids, ends that are closes."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from typing import Any

from faults import Fault, NotApplicable, Plays, Subject
from gemini_server import GeminiScenario, GeminiServer, go_away, pieces_of, snake
from realtime_faults import (
    KEPT_ALIVE,
    MOMENTS_OF_RESPONSES,
    PATIENT,
    calm_scenario,
    close_faults,
    connect_faults,
    near_zero_pcm,
)
from realtime_server import close_with, drop, say, stall
from session_harness import KEY

make = functools.partial(calm_scenario, GeminiScenario)
SETTINGS = {"vad_silence_duration_ms": "200", "ready_timeout_s": "2", "open_timeout_s": "2"}
PATH = r"\.GenerativeService\.BidiGenerateContent"
BAD_KEY = "API key not valid. Please pass a valid API key."
NO_MODEL = ("models/x is not found for API version v1, or is not supported for "
            "bidiGenerateContent.")
ABORTED = "The operation was aborted."


def is_audio(message: dict) -> bool:
    return any(pieces_of(message))


def is_words(message: dict) -> bool:
    return "outputTranscription" in message.get("serverContent", {})


def with_data(message: dict, data: str | None) -> dict:
    """An audio message with other audio."""
    inline = {**next(pieces_of(message)), "data": data}
    return {"serverContent": {**message["serverContent"],
                              "modelTurn": {"parts": [{"inlineData": inline}]}}}


def unknown_messages(message: dict) -> list:
    return [{"mood": {"is": "fine"}}, {"serverContent": {"tempo": 3}}, {"x" * 300: 1}, message]


def empty_pieces(message: dict) -> list:
    if not is_audio(message):
        return [message]
    return [with_data(message, ""), with_data(message, None),
            {"serverContent": {"modelTurn": {"parts": []}}}, {"serverContent": {}}, message]


def broken_pieces(message: dict) -> list:
    return [with_data(message, "!!!!") if is_audio(message) else message]


def repeated(message: dict) -> list:
    """Audio and words carry no id: two equal pieces of them are two pieces."""
    return [message] if is_audio(message) or is_words(message) else [message, message]


def unreadable(message: dict) -> list:
    return ['{"serverContent": {"modelTurn": {"parts": [{"inlin', "[1, 2]", "null", b"\xff\xfe{}",
            "{}", "", "[" * 5000, message]


def beside_others(message: dict) -> list:
    """What comes with features that nobody asked for, alone and in the same message."""
    if not is_audio(message):
        return [message]
    return [{"sessionResumptionUpdate": {"newHandle": "handle-1", "resumable": True}},
            {"voiceActivity": {"voiceActivityType": "ACTIVITY_END", "audioOffset": "1.2s"}},
            {"serverContent": {"inputTranscription": {"text": "what the user said"},
                               "waitingForInput": True, "groundingMetadata": {}}},
            {"serverContent": {"modelTurn": {"parts": [{"text": "Hm.", "thought": True}]}}},
            {**message, "usageMetadata": {"totalTokenCount": 50}}]


class SplitSamples:
    """Every piece is odd in length: the last byte comes with the next one."""

    def __init__(self) -> None:
        self._byte = b""
        self._last: dict = {}

    def __call__(self, message: dict) -> list:
        if message.get("serverContent", {}).get("generationComplete") and self._byte:
            rest = with_data(self._last, base64.b64encode(self._byte).decode())
            self._byte = b""
            return [rest, message]
        if not is_audio(message):
            return [message]
        self._last = message
        data = self._byte + base64.b64decode(next(pieces_of(message))["data"])
        keep = len(data) - 1 if len(data) % 2 == 0 else len(data)
        self._byte = data[keep:]
        return [with_data(message, base64.b64encode(data[:keep]).decode())]


class Called:
    """A tool is called before the first words, and taken back, though none was declared."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self, message: dict) -> list:
        if self._done or not is_audio(message):
            return [message]
        self._done = True
        return [{"toolCall": {"functionCalls": [{"id": "f1", "name": "hang_up", "args": {}}]}},
                {"toolCallCancellation": {"ids": ["f1"]}}, message]


def interrupted_again(message: dict) -> list:
    """Seen in the field: a turn that is over is broken off when the user begins the next one."""
    if not message.get("serverContent", {}).get("turnComplete"):
        return [message]
    return [message, {"serverContent": {"interrupted": True}}, message]


def rejected(message: dict) -> list:
    content = message.get("serverContent", {})
    if content.get("turnComplete"):
        return [{"serverContent": {**content, "turnCompleteReason": "RESPONSE_REJECTED"}}]
    return [message]


def error(code: int, status: str, message: str) -> dict:
    return {"error": {"code": code, "status": status, "message": message}}


def _mid_turn(action: Callable[[Any], object], sees: str, **more: Any) -> Plays:
    return Plays(make(at_delta=(3, action)), sees, **more)


def _at_gate(code: int, reason: str, sees: str, *, hopeless: bool) -> Plays:
    return Plays(make(at_connect=close_with(code, reason)), rf"not ready: .*{sees}",
                 hopeless=hopeless)


OWN = (
    Fault("spelling", "transparent", "throughout", "same verdict", "names spelt like_this"),
    Fault("frames", "transparent", "throughout", "same verdict",
          "messages in binary frames, or in fragments"),
    Fault("bundled", "transparent", "after done", "same verdict",
          "the last sounds, the last words and the end in one message"),
    Fault("early_transcript", "transparent", "throughout", "same verdict",
          "the words come before the audio"),
    Fault("missing_ends", "transparent", "after done", "same verdict",
          "one of the two ends of a turn is missing"),
    Fault("mime", "transparent", "throughout", "same verdict",
          "audio that is declared in another way, or not at all"),
    Fault("other_messages", "transparent", "throughout", "same verdict",
          "messages of features that are not used, alone and beside audio"),
    Fault("tool_call", "behaviour", "mid-turn", "scored as heard",
          "the model calls a tool though none was declared",
          outcomes=(("TAKE_TURN", "calm"), ("LISTEN", "calm"), ("READBACK", "calm"))),
    Fault("interrupted_again", "behaviour", "after done", "scored as heard",
          "a turn that is over is interrupted",
          outcomes=(("TAKE_TURN", "calm"), ("LISTEN", "calm"), ("READBACK", "calm"))),
    Fault("rejected", "behaviour", "after done", "scored as heard",
          "a turn ends for a reason of the model's own",
          outcomes=(("TAKE_TURN", "calm"), ("LISTEN", "calm"), ("READBACK", "calm"))),
    Fault("refused_session", "infrastructure", "handshake", "infra_error",
          "the session that was asked for is not granted"),
    Fault("our_audio", "infrastructure", "mid-turn", "infra_error",
          "the server cannot read the user's audio"),
    Fault("quota", "infrastructure", "mid-turn", "infra_error", "the quota is used up"),
    Fault("key_in_error", "infrastructure", "mid-turn", "infra_error",
          "the server repeats the key in an error"),
    Fault("gibberish", "infrastructure", "mid-turn", "infra_error", "messages that are no JSON"),
    Fault("stops_reading", "infrastructure", "mid-turn", "infra_error",
          "the server takes no audio any more"),
)

SUBJECT = Subject(
    adapter="gemini_live", key_variable="GEMINI_API_KEY", settings=SETTINGS, server=GeminiServer,
    calm=make(), own=OWN,
    faults={
        **connect_faults(make, PATH),
        **close_faults(make, MOMENTS_OF_RESPONSES),
        "wrong_key/closed": _at_gate(1007, BAD_KEY, r"1007 'API key not valid.*the key was refused",
                                     hopeless=True),
        "never_ready": Plays(make(say_updated=False), r"connected, but not ready within 2 s$"),
        "session_cap": _mid_turn(
            close_with(1011, "Deadline expired before operation could complete."),
            r"1011 'Deadline expired .*\(the time of the session or connection is over\)$"),
        "session_cap/aborted": _mid_turn(
            close_with(1008, ABORTED), r"1008 'The operation was aborted.' \(the time of the"),
        "go_away": _mid_turn(go_away("2s", close_with(1000)),
                             r"1000 \(announced by goAway, time left 2s\)$"),
        "go_away/aborted": _mid_turn(
            go_away(None, close_with(1008, ABORTED)),
            r"1008 'The operation was aborted.' \(the time .* is over; announced by goAway, time "
            r"left unknown\)$"),
        "go_away/dropped": _mid_turn(
            go_away("0s", drop()), r"without a close \(1006\) \(announced by goAway, time left 0s"),
        "failed": NotApplicable("a turn has no status: trouble in the server closes the session"),
        "error_event": _mid_turn(say(error(500, "INTERNAL", "oops")),
                                 r"error message: 500: INTERNAL: oops$"),
        "error_event/429": _mid_turn(say(error(429, "RESOURCE_EXHAUSTED", "slow down")),
                                     r"error message: 429: RESOURCE_EXHAUSTED: slow down$"),
        "bad_base64": Plays(make(mangle=broken_pieces), r"audio delta: expected base64"),
        "wrong_rate": Plays(
            make(mime_type="audio/pcm;rate=16000"),
            r"^the server sends another sample rate: audio/pcm;rate=16000 instead of "
            r"audio/pcm;rate=24000$"),
        "wrong_rate/format": Plays(make(mime_type="audio/ogg;codecs=opus"),
                                   r"^the server sends another format: audio/ogg;codecs=opus"),
        "ping_stall": _mid_turn(stall(), settings=KEPT_ALIVE, bounds=PATIENT,
                                sees=r"the rig closed the connection: 1011 'keepalive ping"),
        "burst": Plays(make(pace_s=0.0, chunk_s=0.02)),
        "burst/one_piece": Plays(make(chunk_s=60.0)),
        "trickle": Plays(make(pace_s=0.002, chunk_s=0.01)),
        "empty": Plays(make(mangle=empty_pieces), r"audio delta skipped: expected audio"),
        "odd": Plays(make(make_mangle=SplitSamples), r"splits a sample"),
        "unknown_events": Plays(make(mangle=unknown_messages), r"unknown_event.*serverContent.tempo"
                                                               r"|serverContent.tempo"),
        "duplicate_events": Plays(make(mangle=repeated), r"setupComplete again skipped"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": Plays(make(held_back=2), r"late audio of turn_1, which is completed"),
        "late_transcript": Plays(make(words_come="after_turn")),
        "late_transcript/after_generation": Plays(make(words_come="after_generation")),
        "incomplete": NotApplicable("no turn says that it broke off, only why it ended"),
        "missing_done": Plays(make(say_done=False), r"turn_1 got no end"),
        "never_speaks": Plays(make(respond=False)),
        "never_stops": Plays(make(replies_s=(30.0,), pace_s=0.02)),
        "near_zero": Plays(make(speak=near_zero_pcm)),
        "no_transcript": Plays(make(say_words=False)),
        "spelling": Plays(make(mangle=lambda message: [snake(message)])),
        "frames": Plays(make(as_binary=True)),
        "frames/fragments": Plays(make(fragmented=True)),
        "bundled": Plays(make(bundled=True)),
        "early_transcript": Plays(make(words_come="before"), r"transcript_ahead"),
        "missing_ends": Plays(make(say_generation_complete=False)),
        "missing_ends/turn_complete": Plays(make(say_turn_complete=False),
                                            r"turn_1 got no turnComplete"),
        "mime": Plays(make(mime_type=None)),
        "mime/l16": Plays(make(mime_type="audio/L16; codec=pcm; rate=24000")),
        "other_messages": Plays(make(mangle=beside_others), r"what the user said"),
        "tool_call": Plays(make(make_mangle=Called), r"toolCall.*hang_up"),
        "interrupted_again": Plays(make(mangle=interrupted_again), r"interrupted"),
        "rejected": Plays(make(say_generation_complete=False, mangle=rejected),
                          r"RESPONSE_REJECTED"),
        "refused_session": _at_gate(
            1007, 'Invalid JSON payload received. Unknown name "x" at \'setup\'',
            r"1007 'Invalid JSON .*the server does not take what was sent", hopeless=True),
        "refused_session/model": _at_gate(1008, NO_MODEL, r"1008 .*\(no such model under",
                                          hopeless=True),
        "refused_session/message": Plays(
            make(at_connect=say(error(403, "PERMISSION_DENIED", "no access"))),
            r"not ready: error message: 403: PERMISSION_DENIED: no access", hopeless=True),
        "our_audio": _mid_turn(
            close_with(1007, "error when processing input audio, please check the format"),
            r"the server cannot read the user's audio as declared: input_rate_hz\)$"),
        "quota": _mid_turn(
            close_with(1011, "You exceeded your current quota, please check your plan and bill"),
            r"1011 'You exceeded .*\(quota or rate limit\)$"),
        "quota/at_the_gate": _at_gate(1011, "You exceeded your current quota",
                                      r"\(quota or rate limit\)$", hopeless=False),
        "key_in_error": _mid_turn(close_with(1008, f"key {KEY} is no more"),
                                  r"1008 'key \[redacted\] is no more'"),
        "gibberish": _mid_turn(say(*["hello"] * 30), r"21 messages in a row are no events"),
        "stops_reading": Plays(
            make(respond=False, stop_reading_after_s=0.1), bounds=PATIENT,
            sees=r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
    },
    barge_in=Plays(make(replies_s=(6.0, 0.8), pace_s=0.025)))
