"""The faults of servers that speak OpenAI Realtime, in either dialect: the scenarios in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from faults import CLOSES, MOMENTS, REPLIES_S, NotApplicable, Plays
from live_server import reply_pcm
from mangles import SplitSamples, empty_pieces, repeated, unknown_events, unreadable
from realtime_server import Scenario, close_with, drop, say, stall

from rig.schedule import Bounds

KEPT_ALIVE = {"keepalive_s": "0.4"}
PATIENT = Bounds(turn1_reply_s=8.0)
NEAR_ZERO = 0.001
"""60 dB below speech."""


def error_event(kind: str, code: str, message: str) -> dict:
    return {"type": "error", "event_id": "e9", "error": {
        "type": kind, "code": code, "message": message, "param": None, "event_id": None}}


def closing(code: int, reason: str = "bye") -> Callable[[Any], object]:
    """End the connection with a close frame, or with none for 1006."""
    return drop() if code == 1006 else close_with(code, reason)


def closed(code: int) -> str:
    """What the reason must say of it."""
    if code == 1006:
        return r"the connection broke off without a close \(1006\)$"
    return rf"the server closed the connection: {code} 'bye'"


def near_zero_pcm(number: int, seconds: float, rate_hz: int = 24_000) -> bytes:
    """A reply that is hardly there."""
    samples = np.frombuffer(reply_pcm(number, seconds, rate_hz), dtype="<i2")
    return np.round(samples * NEAR_ZERO).astype("<i2").tobytes()


def bad_key_answer(text: str = "Incorrect API key provided: $KEY") -> tuple[int, dict, str]:
    """An answer that repeats the request's own header."""
    return 401, {}, text


WRONG_KEY = r"HTTP 401; the key was refused; .*\[redacted\]"
STATUS_FAILED = {"type": "failed", "error": {
    "type": "rate_limit_error", "code": "rate_limit_exceeded",
    "message": "Rate limit reached for tokens per min"}}


def calm_scenario(kind: type[Scenario] = Scenario, **more: Any) -> Any:
    """Two replies of speech, sent ten times faster than they are heard."""
    return kind(**{"speak": reply_pcm, "replies_s": REPLIES_S, **more})


def connect_faults(make: Callable[..., Any], path: str = "/realtime") -> dict[str, Plays]:
    """What goes wrong before a session is there, on any WebSocket."""
    return {
        "refused": Plays(at="refused", sees=r"cannot connect: ConnectionRefusedError: "),
        "mute": Plays(at="mute", sees=rf"{path}: no WebSocket within 2 s$"),
        "not_http": Plays(at="not_http",
                          sees=r"cannot connect: InvalidMessage: did not receive a valid"),
        "wrong_key": Plays(make(http=bad_key_answer()), WRONG_KEY),
        "http_429": Plays(make(http=(429, {}, "slow down")),
                          r"HTTP 429; rate limit or quota; slow down$"),
        "http_429_retry_after": Plays(
            make(http=(429, {"Retry-After": "7"}, "slow down")),
            r"HTTP 429; rate limit or quota; retry after 7 s; slow down$"),
    }


def close_faults(make: Callable[..., Any], moments: dict[str, Callable[[Any], dict[str, Any]]],
                 ) -> dict[str, Plays]:
    """Every close code at every moment; `moments` says where in a scenario an action stands."""
    return {f"close_{code}_{moment}": Plays(make(**moments[moment](closing(code))), closed(code))
            for moment in MOMENTS for code in CLOSES}


MOMENTS_OF_RESPONSES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "handshake": lambda action: {"at_connect": action},
    "mid_turn": lambda action: {"at_delta": (3, action)},
    "after_done": lambda action: {"after_done": action},
}


def realtime_faults(kind: type[Scenario]) -> dict[str, Plays | NotApplicable]:
    """What both dialects have in common. The rest is each adapter's own."""
    make = functools.partial(calm_scenario, kind)

    def told(code: str, message: str, error: str = "invalid_request_error") -> Plays:
        return Plays(make(at_delta=(3, say(error_event(error, code, message)))),
                     rf"error event: {error}: {code}: {message}")

    return {
        **connect_faults(make),
        **close_faults(make, MOMENTS_OF_RESPONSES),
        "never_ready": Plays(make(say_created=False), r"connected, but not ready within 2 s$"),
        "never_ready/not_confirmed": Plays(make(say_updated=False),
                                           r"connected, but not ready within 2 s$"),
        "session_cap": told("session_expired",
                            "Your session hit the maximum duration of 60 minutes"),
        "session_cap/30_min": told("session_expired",
                                   "Your session hit the maximum duration of 30 minutes"),
        "session_cap/closed": Plays(
            make(after_done=close_with(1001, "session_expired")),
            r"1001 'session_expired' \(the server went away, or the session is over its"),
        "go_away": NotApplicable("the protocol has no such message: sessions end at their cap"),
        "failed": Plays(make(status="failed", status_details=STATUS_FAILED),
                        r"response resp_1 failed: rate_limit_error: rate_limit_exceeded: Rate"),
        "error_event": told("internal", "oops", "server_error"),
        "error_event/rate_limit": told("rate_limit_exceeded", "later"),
        "ping_stall": Plays(make(at_delta=(3, stall())), settings=KEPT_ALIVE, bounds=PATIENT,
                            sees=r"the rig closed the connection: 1011 'keepalive ping timeout'"),
        "burst": Plays(make(pace_s=0.0, chunk_s=0.02)),
        "burst/one_delta": Plays(make(chunk_s=60.0)),
        "trickle": Plays(make(pace_s=0.002, chunk_s=0.01)),
        "empty": Plays(make(mangle=empty_pieces), r"audio delta skipped: expected "),
        "odd": Plays(make(make_mangle=SplitSamples), r"splits a sample"),
        "unknown_events": Plays(make(mangle=unknown_events), r"unknown_event"),
        "duplicate_events": Plays(make(mangle=repeated), r"repeated event skipped: response.done"),
        "unreadable": Plays(make(mangle=unreadable), r"unreadable message skipped"),
        "late_deltas": Plays(make(held_back=2), r"late audio of resp_1, which is completed"),
        "late_transcript": Plays(make(transcript_after_done=True)),
        "incomplete": Plays(make(status="incomplete", status_details={
            "type": "incomplete", "reason": "max_output_tokens"}), r"max_output_tokens"),
        "missing_done": Plays(make(say_done=False)),
        "never_speaks": Plays(make(respond=False)),
        "never_stops": Plays(make(replies_s=(30.0,), pace_s=0.02)),
        "near_zero": Plays(make(speak=near_zero_pcm)),
        "no_transcript": Plays(make(say_words=False)),
    }
