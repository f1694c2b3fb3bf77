"""Sanity first: what is wrong with a recording, before any figure is believed.

Every finding is a warning with a stable code of the contract. Some also make figures impossible
(`refusals`, with the reason that stands in their place) or make stretches blind: turns whose edges
lie there are in no rate, and are counted.

Thresholds without another source are ours; each is chosen on made calls of known fault (tests).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from audio.files import TRUNCATED
from audio.spans import Interval, Spans
from audio.timebase import NS_PER_S, ns_to_s
from rig.field.activity import (
    LEAK_TOO_LOUD_DB,
    SIDES,
    LeakEffect,
    Speech,
    floor_power,
    is_one_signal,
    speech_power,
)
from rig.field.alignment import drift_problem, shift_problem
from rig.field.ingest import CallFeatures, SideFeatures
from rig.field.sounds import rate_problem, tone_problem, voicemail_problem
from verifiers.calls.turns import CallTurns

TOO_QUIET_DB = -46.0
"""20 dB under the nominal speech level of telephony, -26 dB re full scale (ITU-T P.56, P.800)."""
DC_OFFSET = 0.01
"""One percent of full scale. The mean is removed before anything is measured."""
DEAD_NS = 10 * NS_PER_S
DEAD_STILL_NS = 30 * NS_PER_S
"""For channels that have digital silence between words too."""
STILL_SHARE = 0.05
FLOOR_GAP_DB = 30.0
LINE_NOISE_DB = -75.0
"""A synthesized voice has digital silence between its words, a line has noise."""
LENGTHS_APART_NS = NS_PER_S // 2
_SAY_BOTH = "say --caller-channel and --agent-channel, both, to be sure"


@dataclass(slots=True)
class Sanity:
    """What was found. `refused`: why nothing about turns can be measured, `None` where it can.
    `left_out`: why the call is in no total of turns and words."""

    warnings: list[tuple[str, str]] = field(default_factory=list)
    blind: Spans = field(default_factory=Spans)
    refused: str | None = None
    left_out: str | None = None

    def warn(self, code: str, detail: str) -> None:
        self.warnings.append((code, detail))

    def hide(self, *stretches: Interval) -> None:
        self.blind = self.blind.union(Spans.of(s for s in stretches if s[0] < s[1]))


def inspect_channels(features: CallFeatures, speech: Speech,
                     effects: dict[str, LeakEffect | None], *, guessed: bool,
                     both_named: bool) -> Sanity:
    """Everything that can be said before turns are looked at."""
    out = Sanity()
    for code, detail in features.warnings:
        out.warn(code, detail)
        if code == TRUNCATED:
            # The last turn is open: its end is the file's, not the speaker's.
            out.hide((features.recorded_ns - 1, features.recorded_ns + 1))
    unread = "" if features.channels_n <= 2 or both_named else (
        f"the file has {features.channels_n} channels, of which 0 and 1 are read and the others "
        "ignored")
    if guessed:
        out.warn("possible_swap", "no channel map was given: left (0) taken for the caller, right "
                 "(1) for the agent; " + (f"{unread}; {_SAY_BOTH}" if unread else
                                          "say --caller-channel to be sure"))
    elif unread:
        # The contract's codes are fixed words; this one comes nearest: a side may be elsewhere.
        out.warn("possible_swap", f"{unread}; {_SAY_BOTH}")
    if is_one_signal(features):
        out.warn("identical_channels", f"the channels are the same signal (correlation "
                                       f"{features.correlation:.3f} at lag 0)")
        out.refused = "identical channels: not a two-channel call"
    for name in SIDES:
        _one_side(out, name, features, speech)
    _floors(out, features)
    _leaks(out, effects)
    apart = features.caller.recorded_ns - features.agent.recorded_ns
    if abs(apart) >= LENGTHS_APART_NS:
        out.warn("misaligned", f"the caller's file is {ns_to_s(abs(apart)):.1f} s "
                               f"{'longer' if apart > 0 else 'shorter'} than the agent's")
    if apart:
        out.hide((min(features.caller.recorded_ns, features.agent.recorded_ns),
                  features.recorded_ns))
    return out


def inspect_turns(out: Sanity, features: CallFeatures, speech: Speech, call: CallTurns) -> None:
    """What only the turns show: channels apart in time, tones, voicemail. Adds to `out`."""
    if out.refused is None:
        for code, detail in (("misaligned", shift_problem(speech, call, features.recorded_ns)),
                             ("clock_drift", drift_problem(features, call))):
            if detail is not None:
                out.warn(code, detail)
    for name in SIDES:
        detail = tone_problem(getattr(features, name))
        if detail is not None:
            out.warn("music_or_tone", f"{name}: {detail}")
        detail = rate_problem(getattr(features, name))
        if detail is not None:
            # The contract's codes are fixed words; this one comes nearest.
            out.warn("no_speech", f"{name}: {detail}")
    detail = voicemail_problem(features.caller, speech.caller)
    if detail is not None:
        out.warn("possible_voicemail", detail)
        out.left_out = f"possible voicemail: {detail}"


def _one_side(out: Sanity, name: str, features: CallFeatures, speech: Speech) -> None:
    side: SideFeatures = getattr(features, name)
    spoken: Spans = getattr(speech, name)
    other: Spans = speech.agent if name == "caller" else speech.caller
    if side.bad_n:
        out.warn("non_finite", f"{name}: {side.bad_n} samples are NaN or infinite, first at "
                               f"{ns_to_s(side.bad_ns[0][0]):.2f} s; taken as silence, turns there "
                               "are in no rate")
        out.hide(*side.bad_ns)
    if side.peak == 0.0 or side.last_sound_ns == 0:
        out.warn("channel_dead", f"{name}: digital silence from beginning to end")
        out.refused = out.refused or f"the {name}'s channel is dead"
        return
    _dies(out, name, side, features, other)
    if side.clipped_n:
        out.warn("clipped", f"{name}: {side.clipped_n} samples in runs at full scale "
                            f"({1000 * side.clipped_n / side.rate_hz:.0f} ms)")
    if abs(side.mean) >= DC_OFFSET:
        out.warn("dc_offset", f"{name}: mean {side.mean:+.3f} of full scale; removed")
    level = speech_power(side)
    if not spoken:
        out.warn("no_speech", f"{name}: the detector finds none (peak "
                              f"{decibel(side.peak ** 2):.0f} dB re full scale)")
        out.refused = out.refused or f"the {name} never speaks"
    if level is not None and spoken and decibel(level) < TOO_QUIET_DB:
        out.warn("too_quiet", f"{name}: speech at {decibel(level):.0f} dB re full scale, below "
                              f"{TOO_QUIET_DB:.0f}")
    elif not spoken and decibel(side.peak ** 2) < TOO_QUIET_DB:
        out.warn("too_quiet", f"{name}: nothing above {decibel(side.peak ** 2):.0f} dB re full "
                              "scale")


def _dies(out: Sanity, name: str, side: SideFeatures, features: CallFeatures,
          other: Spans) -> None:
    """A channel that holds digital silence to the end has ended before the call.

    A synthesized voice that stops answering looks the same: what it does then is not judged."""
    silent_ns = features.recorded_ns - side.last_sound_ns
    after = other.clip(side.last_sound_ns, features.recorded_ns)
    if not after:
        return
    if silent_ns < (DEAD_NS if side.still_share < STILL_SHARE else DEAD_STILL_NS):
        return
    out.warn("channel_dead", f"{name}: digital silence from {ns_to_s(side.last_sound_ns):.1f} s "
                             f"on, while the other side speaks {ns_to_s(after.total):.1f} s; turns "
                             "after it are in no rate")
    out.hide((side.last_sound_ns, features.recorded_ns))


def _floors(out: Sanity, features: CallFeatures) -> None:
    """A hint at swapped channels that does not ask who speaks first."""
    caller, agent = (decibel(floor_power(side)) for side in (features.caller, features.agent))
    if agent - caller >= FLOOR_GAP_DB and agent > LINE_NOISE_DB:
        out.warn("possible_swap", f"the caller's channel is as clean as a synthesized voice "
                                  f"({caller:.0f} dB between words), the agent's has line noise "
                                  f"({agent:.0f} dB)")


def _leaks(out: Sanity, effects: dict[str, LeakEffect | None]) -> None:
    for name, effect in effects.items():
        if effect is None or out.refused:
            continue
        other = "agent" if name == "caller" else "caller"
        out.warn("crosstalk", f"the {other} is heard on the {name}'s channel at "
                              f"{effect.leak.gain_db:.0f} dB, {1000 * effect.leak.lag_s:.0f} ms "
                              f"late: {len(effect.invented)} spans it would have invented and "
                              f"{len(effect.masked)} it would have lengthened are removed, "
                              f"{len(effect.withheld)} are withheld")
        out.hide(*effect.withheld)
        if effect.leak.gain_db > LEAK_TOO_LOUD_DB:
            out.refused = (f"crosstalk of {effect.leak.gain_db:.0f} dB: the sides cannot be told "
                           "apart")


def decibel(power: float) -> float:
    """Power in dB re full scale; -200 for none."""
    return -200.0 if power <= 0 else 10 * float(np.log10(power))
