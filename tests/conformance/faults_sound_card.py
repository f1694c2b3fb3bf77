"""The faults of an agent behind a sound card: samples both ways, and a device that may go."""

from __future__ import annotations

import functools

from card_server import CardScenario, CardServer
from fake_card import Plan as Card
from faults import CLOSES, MOMENTS, Fault, NotApplicable, Plays, Subject
from faults_twilio import BOUNDS, IN_VAIN
from realtime_faults import PATIENT, near_zero_pcm

from adapters.sound_card.bridge import INPUT_OVERFLOW, OUTPUT_UNDERFLOW

make = CardScenario
ROUND_TRIP_MS = "62.5"
"""Of the card: 3,000 samples."""
SETTINGS = {"ready_timeout_s": "2", "lead_ms": "150", "round_trip_ms": ROUND_TRIP_MS}
BY_REFERENCE = {"round_trip_ms": "0", "reference_channel": "2"}
AT_S = 2.5
"""Of the card's time: the first reply is being heard."""


def card(**how: object) -> CardScenario:
    return make(card=functools.partial(Card, **how))


def xrun(flags: int) -> CardScenario:
    return make(card=lambda: Card(flags_at={AT_S: flags}))


def closes() -> dict[str, Plays | NotApplicable]:
    """A card has one way to end, without a word."""
    ended = r"^the sound card's stream ended by itself: the device is gone or was taken$"
    how = {"handshake": Plays(card(dies_n=9), r"^sound card: the stream ended 3 times while it st"),
           "mid_turn": Plays(make(ends_at=("reply", 0.4)), ended),
           "after_done": Plays(make(ends_at=("replied", 0.1)), ended)}
    no_code = NotApplicable("a stream that ends says no code: it is the one without a close frame")
    return {f"close_{code}_{moment}": how[moment] if code == 1006 else no_code
            for moment in MOMENTS for code in CLOSES}


NO_HTTP = NotApplicable("there is no handshake over HTTP")
NO_MESSAGES = NotApplicable("a card carries sound and no messages")
NO_ENDS = NotApplicable("no reply has a beginning, an end or a status on a cable")
NO_WORDS = NotApplicable("a card carries no words")
OWN = (
    Fault("odd_blocks", "transparent", "throughout", "same verdict",
          "blocks of which frames of 20 ms are no multiple"),
    Fault("starts_badly", "transparent", "handshake", "same verdict",
          "the stream ends at its first two openings"),
    Fault("no_times", "transparent", "throughout", "same verdict",
          "the card says of no block when it was heard or played"),
    Fault("drift", "transparent", "throughout", "same verdict",
          "the card's clock runs 150 ppm fast"),
    Fault("tolerated_xrun", "transparent", "mid-turn", "same verdict",
          "an xrun, which the user lets pass (max_xruns=1)"),
    Fault("no_numbers", "infrastructure", "mid-turn", "infra_error",
          "the driver gives a sample that is no number"),
    Fault("shift", "infrastructure", "mid-turn", "infra_error",
          "the card drops 8 ms without a word, which a reference channel shows"),
    Fault("cut_off", "infrastructure", "mid-turn", "infra_error",
          "the reference channel hears the user no more"),
    Fault("no_reference", "infrastructure", "handshake", "infra_error",
          "the reference channel hears nothing"),
    Fault("far", "infrastructure", "handshake", "infra_error",
          "the card claims a round trip of a second"),
    Fault("outrun", "infrastructure", "throughout", "infra_error",
          "the card takes the user's sound sooner than it is there"),
)

SUBJECT = Subject(
    adapter="sound_card", key_variable=None, settings=SETTINGS, server=CardServer, calm=make(),
    own=OWN, same="speech", words=False, bounds=BOUNDS, piece_s=0.02,
    address=lambda url, name: {"input": name, "output": name},
    faults={
        "refused": Plays(make(cannot_open=(-9985, "Device unavailable")),
                         r"^sound card: cannot open 'refused' and 'refused' at 48000 Hz: Device un",
                         hopeless=False),
        "mute": Plays(card(stall_at_s=0.0),
                      r"^sound card: no steady stream within 2 s; 0 samples were exchanged$"),
        "not_http": NotApplicable("there is no protocol to be mistaken"),
        "wrong_key": NotApplicable("a card asks for no key"),
        "http_429": NO_HTTP,
        "http_429_retry_after": NO_HTTP,
        "never_ready": Plays(card(stall_at_s=0.2),
                             r"^sound card: no steady stream within 2 s; \d{4} samples were exch"),
        **closes(),
        "session_cap": NotApplicable("a card has no sessions"),
        "go_away": NO_MESSAGES,
        "failed": NO_ENDS,
        "error_event": Plays(
            xrun(INPUT_OVERFLOW),
            r"^the sound card reported an xrun \(input overflow\): .* a longer --set latency_ms"),
        "bad_base64": NotApplicable("samples are numbers of the driver's (but see no_numbers)"),
        "wrong_rate": Plays(make(cannot_open=(-9997, "Invalid sample rate")),
                            r"at 48000 Hz: Invalid sample rate \[PaErrorCode -9997\]$",
                            hopeless=True),
        "wrong_rate/44100": Plays(
            card(drift_ppm=(48_000 / 44_100 - 1) * 1e6),
            r"^the sound card exchanges 44\d{3} samples a second, expected 48000: all times"),
        "ping_stall": Plays(make(ends_at=("reply", 0.4), stalls=True), bounds=PATIENT,
                            sees=r"^the sound card has exchanged nothing for 1\.\d s: the device"),
        "burst": Plays(card(burst_n=4)),
        "trickle": Plays(make(), settings={"block_ms": "4"}),
        "empty": NotApplicable("a block has the length that was asked for"),
        "odd": NotApplicable("a sample comes whole (but see odd_blocks)"),
        "unknown_events": NO_MESSAGES,
        "duplicate_events": NO_MESSAGES,
        "unreadable": NO_MESSAGES,
        "late_deltas": NO_ENDS,
        "late_transcript": NO_WORDS,
        "incomplete": NO_ENDS,
        "missing_done": NO_ENDS,
        "never_speaks": Plays(make(respond=False), bounds=IN_VAIN),
        "never_stops": Plays(make(replies_s=(30.0,)), bounds=IN_VAIN),
        "near_zero": Plays(make(speak=near_zero_pcm), bounds=IN_VAIN),
        "no_transcript": NO_WORDS,
        "odd_blocks": Plays(make(), settings={"block_ms": "7.3"}),
        "starts_badly": Plays(card(dies_n=2)),
        "no_times": Plays(card(times=False), r'"source": "callback"'),
        "drift": Plays(card(drift_ppm=-150), r'"drift_ppm": -1\d\d'),
        "tolerated_xrun": Plays(xrun(OUTPUT_UNDERFLOW), r"xrun 1 of at most 1: output underflow",
                                settings={"max_xruns": "1"}),
        "no_numbers": Plays(make(broken_sample=float("nan")), r"non-finite samples$"),
        "no_numbers/infinite": Plays(make(broken_sample=float("inf")), r"non-finite samples$"),
        "shift": Plays(card(shift_at_s=1.2, shift_n=400), settings=BY_REFERENCE,
                       sees=r"^the card shifted by 8\.3 ms during the session \(reference channel"),
        "cut_off": Plays(card(shift_at_s=1.2, shift_n=96_000), settings=BY_REFERENCE,
                         sees=r"^the user's own sound is not where it was on the reference chann"),
        "no_reference": Plays(card(round_trip_n=200_000), settings=BY_REFERENCE,
                              sees=r"^sound card: no chirp on the reference channel \(2\) within"),
        "far": Plays(card(reported_n=48_000), settings={"round_trip_ms": "0"},
                     sees=r"^sound card: a round trip of 1000 ms \(reported\), expected 0 to 250"),
        "outrun": Plays(card(drift_ppm=-60_000), settings={"lead_ms": "20"},
                        sees=r"ms of user sound came too late for the sound card, expected at mo"),
    },
    barge_in=NotApplicable("a card cannot say that the user interrupts"))
