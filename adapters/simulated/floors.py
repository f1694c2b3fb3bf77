"""The floors: agents of one habit each, blind to the case. What an IAS is worth without skill.

Each docstring says what the habit must pass and fail, action by action, under the paper's rules.
"By chance" means that the verdict depends on where the habit happens to stand when the window
opens: between 0 and 100 %.
"""

from __future__ import annotations

import numpy as np

from adapters.base import AgentEvent, AudioReceived
from adapters.simulated import voice
from adapters.simulated.agent import FRAME_N, Ear, Mouth
from audio.buffers import Float32
from audio.timebase import SESSION_RATE_HZ, s_to_n, s_to_ns


class Silent:
    """Never says anything.

    Passes LISTEN and NO_BACKCHANNEL, which is why a session without model speech is flagged.
    Fails the other seven: there is no onset, no span, no overlap, no floor to yield or to keep,
    and an empty transcript covers nothing.
    """

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:  # noqa: ARG002
        return []

    def cue(self, name: str, t_ns: int) -> None:
        pass


class Monologue:
    """Talks from the first tick to the end of the session without a break.

    Passes CONTINUE and ACCEPT_OVERLAP: it holds the floor whatever happens. Fails LISTEN,
    NO_BACKCHANNEL and BACKCHANNEL (it speaks on through every window), TAKE_TURN and INTERRUPT
    (no onset lies inside a window), YIELD, and READBACK (it says something else).
    """

    def __init__(self) -> None:
        self._mouth = Mouth()
        self._mouth.say(voice.talk_on(), 0)

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:  # noqa: ARG002
        return self._mouth.step(t_ns)

    def cue(self, name: str, t_ns: int) -> None:
        pass


class Echo:
    """Plays the user's own audio back `delay_s` later, exact to the sample.

    Emits a chunk only where the delayed audio is not all zero. It has no responses and no
    transcript.

    Passes ACCEPT_OVERLAP (a delay shorter than the turn overlaps it). Fails LISTEN and
    NO_BACKCHANNEL (what was said before a pause is heard again inside it), BACKCHANNEL and
    TAKE_TURN (its speech runs on into the pause, it does not begin there), YIELD and CONTINUE
    (after turn 1 it does not begin anything, so it holds no floor at the barge-in, and its echo of
    the barge-in ends too late). INTERRUPT by chance: only where the user's own speech breaks off
    for 0.3 s or more just before or after the trigger. READBACK is unscored without a transcript.
    """

    def __init__(self, delay_s: float) -> None:
        # Frame k is handed over when it is complete, which is 20 ms of the delay already.
        self._held = np.zeros(s_to_n(delay_s, SESSION_RATE_HZ) - FRAME_N, dtype=np.float32)

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:
        held = np.concatenate([self._held, frame])
        out, self._held = held[:FRAME_N].copy(), held[FRAME_N:]
        return [AudioReceived(t_ns, out)] if out.any() else []

    def cue(self, name: str, t_ns: int) -> None:
        pass


class Metronome:
    """Says one backchannel every `period_s`, the first after one period, whatever the user does.

    With the default of 1.8 s the longest detected silence between two of them is below 1.5 s, the
    shortest window of a LISTEN or NO_BACKCHANNEL cell, and two never begin within 1.5 s. So it
    fails LISTEN, NO_BACKCHANNEL, CONTINUE (it holds no floor) and READBACK. BACKCHANNEL by chance
    but mostly (0.83 of 1.5 s windows hold exactly one onset); INTERRUPT and TAKE_TURN by chance
    (latency bound / period); YIELD by chance (an offset shortly after the barge-in); ACCEPT_OVERLAP
    passes (3 s of overlap hold at least one).
    """

    def __init__(self, period_s: float) -> None:
        self._period_ns = s_to_ns(period_s)
        self._next_ns = self._period_ns
        self._mouth = Mouth()
        self._clip = voice.backchannel()

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:  # noqa: ARG002
        if not self._mouth.busy:
            self._mouth.say(self._clip, self._next_ns)
            self._next_ns += self._period_ns
        return self._mouth.step(t_ns)

    def cue(self, name: str, t_ns: int) -> None:
        pass


class LongEndpoint:
    """Takes turns by silence alone: replies once the user has been silent for `endpoint_s`.

    The reply begins with the first 20 ms tick at or after that moment (to know that the silence
    has lasted, the agent must have heard it), lasts `reply_s` and is never broken off; what the
    user says meanwhile is answered afterwards.

    With the defaults (3.2 s, 4.2 s): passes NO_BACKCHANNEL, CONTINUE and ACCEPT_OVERLAP. LISTEN
    passes in pauses below 3.2 s (C1, C2, R7_A), except that in C2 its late reply to turn 1, which
    still runs 1.9 s into turn 2, fails a first chunk shorter than that; it fails in longer ones
    (R2_A, R4_A, R5_B) and after the user's end (R7_B). Fails TAKE_TURN (too late), INTERRUPT and
    BACKCHANNEL (silent), YIELD (talks on for more than 1 s), READBACK (says something else).
    """

    def __init__(self, endpoint_s: float, reply_s: float) -> None:
        self._endpoint_ns = s_to_ns(endpoint_s)
        self._reply_s = reply_s
        voice.prepare()
        self._ear = Ear()
        self._mouth = Mouth()
        self._unanswered = False
        self._replies = 0

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:
        self._ear.hear(frame)
        self._unanswered |= self._ear.sounding
        last_ns = self._ear.last_ns
        if (self._unanswered and last_ns is not None and not self._mouth.busy
                and t_ns - last_ns >= self._endpoint_ns):
            self._mouth.say(voice.talk(self._reply_s, self._replies), t_ns)
            self._replies += 1
            self._unanswered = False
        return self._mouth.step(t_ns)

    def cue(self, name: str, t_ns: int) -> None:
        pass


class Eager:
    """Interrupts: cuts in while the user speaks, again and again.

    Begins `latency_s` after every onset of user speech (exact to the sample; an onset is the first
    sound, or one after 0.3 s of silence), says `talk_s`, rests for `rest_s`, and begins again with
    the next tick in which the user is still speaking. It never begins while the user is silent.

    With the defaults (0.3, 0.4, 0.6 s) it begins at least once a second of user speech. Passes
    INTERRUPT and ACCEPT_OVERLAP. Fails TAKE_TURN and BACKCHANNEL (it does not begin in a pause,
    but for the one tick at its edge), CONTINUE (it is silent when the user is, so it holds no floor
    at a barge-in), YIELD at 600 ms (its interjection into the barge-in ends after about 0.8 s; the
    1000 ms of R4 let it pass), READBACK. LISTEN fails where the user speaks inside the window (C2,
    R7_A), elsewhere LISTEN and NO_BACKCHANNEL by chance (an interjection may run on into the
    pause).
    """

    def __init__(self, latency_s: float, talk_s: float, rest_s: float) -> None:
        self._latency_ns = s_to_ns(latency_s)
        self._rest_ns = s_to_ns(rest_s)
        self._talk_s = talk_s
        voice.prepare()
        self._ear = Ear()
        self._mouth = Mouth()
        self._count = 0

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:
        onset = self._ear.hear(frame)
        if not self._mouth.busy:
            rested_ns = (self._mouth.last_end_ns + self._rest_ns
                         if self._mouth.last_end_ns is not None else 0)
            if onset and self._ear.onset_ns is not None:
                self._cut_in(max(self._ear.onset_ns + self._latency_ns, rested_ns))
            elif self._ear.sounding and self._count and t_ns >= rested_ns:
                self._cut_in(t_ns)
        return self._mouth.step(t_ns)

    def _cut_in(self, at_ns: int) -> None:
        self._mouth.say(voice.talk(self._talk_s, self._count), at_ns)
        self._count += 1

    def cue(self, name: str, t_ns: int) -> None:
        pass


class RandomOnsets:
    """Speaks at random: gaps and lengths are drawn from the session's seed, the user is ignored.

    A gap is `MIN_GAP_S` plus an exponential with mean `mean_gap_s - MIN_GAP_S`; a length is uniform
    in `[min_talk_s, max_talk_s)`. Onsets are exact to the sample.

    Every action by chance, except READBACK, which fails.
    """

    MIN_GAP_S = 0.6
    """Long enough that two utterances are never merged into one (0.3 s plus detector edges)."""

    def __init__(self, seed: int, mean_gap_s: float, min_talk_s: float, max_talk_s: float) -> None:
        self._rng = np.random.default_rng(seed)
        self._mean_extra_s = mean_gap_s - self.MIN_GAP_S
        voice.prepare()
        self._talk_s = (min_talk_s, max_talk_s)
        self._mouth = Mouth()

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:  # noqa: ARG002
        if not self._mouth.busy:
            gap_s = self.MIN_GAP_S + float(self._rng.exponential(self._mean_extra_s))
            length_s = float(self._rng.uniform(*self._talk_s))
            first_sentence = int(self._rng.integers(len(voice.TALK)))
            self._mouth.say(voice.talk(length_s, first_sentence),
                            (self._mouth.last_end_ns or 0) + s_to_ns(gap_s))
        return self._mouth.step(t_ns)

    def cue(self, name: str, t_ns: int) -> None:
        pass
