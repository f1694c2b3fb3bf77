"""Sounds that are not speech: tones, hold music, a voicemail's greeting and beep."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from audio.edges import runs_of
from audio.spans import Interval, Spans
from audio.timebase import NS_PER_S, ns_to_s
from rig.field.ingest import DETECTOR_FRAME_NS, SideFeatures

_TONE_SHARE = 0.95
_TONE_LEAST_BIN = 10
"""312 Hz: ringback begins at 350 or 400 Hz, keys at 697 Hz; below lies the voice's own pitch."""
_TONE_LEAST_POWER = 10.0 ** (-45 / 10)
"""-45 dB re full scale, the level that `too_quiet` asks of speech."""
_TONE_FRAMES = 3
"""96 ms: keys of a telephone sound 50 to 100 ms at least (ITU-T Q.24: 40 ms), a frame at each end
is cut."""
_MUSIC_SHARE = 0.75
_MUSIC_FRAMES = 94
"""3 s: no vowel lasts so long."""
_MUSIC_PART = 0.6
_LOUD_BELOW_DB = 20.0
_LOUD_LEAST_POWER = 10.0 ** (-55 / 10)
_LOUD_FRAMES = 94
"""3 s of it, or nothing is said."""
_SPEECH_OF_LOUD = 0.5
"""Ours. Of the loud frames of real and made calls 94 to 99.6 % are speech to the detector; at half
the right rate 0.3 to 18 % on the channel that suffers most, at twice the right rate 3 %."""
_GREETING_NS = 4 * NS_PER_S
_MONOLOGUE_NS = 10 * NS_PER_S
_BEEP_FRAMES = 8
"""256 ms: a beep; keys and clicks are shorter."""
_BEEP_AFTER_NS = 4 * NS_PER_S
_WITHIN_NS = 120 * NS_PER_S


def tones(side: SideFeatures) -> list[Interval]:
    """Stretches of one or two steady tones that the detector does not take for speech, ns."""
    tonal = ((side.two >= _TONE_SHARE) & (side.bin >= _TONE_LEAST_BIN)
             & (side.power >= _TONE_LEAST_POWER))
    steady = np.concatenate(([False], np.abs(np.diff(side.bin.astype(np.int32))) <= 1))
    found = []
    for first, past in runs_of(tonal):
        # Keys that follow each other without a pause are cut where the tone changes.
        cuts = [int(first), *(int(k) for k in range(first + 1, past) if not steady[k]), int(past)]
        found += [(a * DETECTOR_FRAME_NS, b * DETECTOR_FRAME_NS) for a, b in pairwise(cuts)
                  if b - a >= _TONE_FRAMES]
    return found


def music(side: SideFeatures) -> list[Interval]:
    """Stretches of 3 s and more that are loud, harmonic and no speech, ns."""
    harmonic: NDArray[np.float64] = (
        (side.eight >= _MUSIC_SHARE) & (side.two < _TONE_SHARE)).astype(np.float64)
    if len(harmonic) < _MUSIC_FRAMES:
        return []
    summed = np.concatenate(([0.0], np.cumsum(harmonic)))
    share = (summed[_MUSIC_FRAMES:] - summed[:-_MUSIC_FRAMES]) / _MUSIC_FRAMES
    return [(int(first) * DETECTOR_FRAME_NS, int(past + _MUSIC_FRAMES - 1) * DETECTOR_FRAME_NS)
            for first, past in runs_of(share >= _MUSIC_PART)]


def rate_problem(side: SideFeatures) -> str | None:
    """Loud sound of which the detector takes little for speech, in words; `None` otherwise.

    speechmatics-python-sdk#90: 8 kHz speech under a header of 16 kHz was analysed without an error,
    22 s of speech became 3 s. Loud: within 20 dB of the loudest hundredth; tones apart, and music
    where 3 s of the rest are loud.
    """
    heard = side.power[side.power > 0]
    if not len(heard):
        return None
    loud = side.power > max(float(np.percentile(heard, 99)) * 10 ** (-_LOUD_BELOW_DB / 10),
                            _LOUD_LEAST_POWER)
    for start, end in tones(side):
        loud[start // DETECTOR_FRAME_NS:end // DETECTOR_FRAME_NS] = False
    but_music = loud.copy()
    for start, end in music(side):
        but_music[start // DETECTOR_FRAME_NS:end // DETECTOR_FRAME_NS] = False
    # Speech at half its rate is taken for music: where little else is there, that is looked at too.
    if but_music.sum() >= _LOUD_FRAMES:
        loud = but_music
    loud_n = int(loud.sum())
    if loud_n < _LOUD_FRAMES:
        return None
    share = float((side.probabilities[loud] >= 0.5).mean())
    if share >= _SPEECH_OF_LOUD:
        return None
    return (f"speech in {100 * share:.0f} % of {ns_to_s(loud_n * DETECTOR_FRAME_NS):.1f} s of loud "
            f"sound: is the file's {side.rate_hz} Hz the rate it was recorded at?")


def tone_problem(side: SideFeatures) -> str | None:
    """What there is of tones and music, in words; `None` for nothing."""
    parts = []
    found = tones(side)
    if found:
        total = sum(end - start for start, end in found)
        parts.append(f"{len(found)} tones, {ns_to_s(total):.1f} s, first at "
                     f"{ns_to_s(found[0][0]):.1f} s")
    held = music(side)
    if held:
        total = sum(end - start for start, end in held)
        parts.append(f"music or another harmonic sound, {ns_to_s(total):.1f} s, first at "
                     f"{ns_to_s(held[0][0]):.1f} s")
    return f"{' and '.join(parts)}; no turns come of them" if parts else None


def voicemail_problem(callee: SideFeatures, spoken: Spans) -> str | None:
    """A greeting, then a beep or nothing more: a machine, in words; `None` otherwise.

    With a beep: 4 s of speech, a single tone of 256 ms or more within 4 s after it and within the
    first two minutes, no speech in the 10 s after the beep. Without: a monologue of 10 s from the
    beginning, and never a word again while the call lasts as long once more.
    """
    for start, end in tones(callee):
        if start > _WITHIN_NS or end - start < _BEEP_FRAMES * DETECTOR_FRAME_NS:
            continue
        before = spoken.clip(0, start)
        if (before and before.total >= _GREETING_NS
                and start - before.items[-1][1] <= _BEEP_AFTER_NS
                and not spoken.clip(end, end + 10 * NS_PER_S)):
            return (f"{ns_to_s(before.total):.0f} s of greeting, then a beep at "
                    f"{ns_to_s(start):.1f} s and nobody after it")
    monologue = spoken.merge_gaps(3 * NS_PER_S // 2)
    if (len(monologue) == 1 and monologue.items[0][0] < 2 * NS_PER_S
            and monologue.total >= _MONOLOGUE_NS
            and callee.recorded_ns - monologue.items[0][1] >= monologue.total):
        return (f"one monologue of {ns_to_s(monologue.total):.0f} s from the beginning, and never "
                "a word again")
    return None
