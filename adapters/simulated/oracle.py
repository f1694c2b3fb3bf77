"""The ceiling and its opposite: agents that are told what the case expects, and when.

They know the expected action, the window and the target, and nothing of the verifiers: no
threshold appears here. What they do is decided before the session as a `Script`, in seconds from
the onset of turn 2, which the cue `turn2_start` places on the session clock. The cue is given at
most one 20 ms frame before the moment itself, so they act up to 20 ms early.

Both answer turn 1 like anyone would, briefly. Where the action is about a floor that is held at a
barge-in they begin after turn 1 and go on. Where nothing of the scored window can be spoilt they
answer turn 2 after its end, so that a session has its proof of life and ends early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from adapters.base import AgentEvent, CaseHint
from adapters.simulated import voice
from adapters.simulated.agent import Mouth, Speech
from audio.buffers import Float32
from audio.errors import InputError
from audio.timebase import ns_to_s, s_to_ns

REPLY_S = 1.5
"""An answer that is over well before the 5 s that the schedule allows for one."""
BRIEF_S = 1.0
LONG_S = 2.5
"""No backchannel by any measure."""
CLOSING_AFTER_S = 0.6
"""From the end of turn 2 (or of the window, or of what was said) to the closing answer."""
KEEP_ON_S = 0.5
"""How far beyond the window the floor is kept where keeping it is the point."""
OPEN_END_S = 5.0
"""A window that runs this long past the user's end is about what follows it: no closing answer."""


@dataclass(frozen=True, slots=True)
class Act:
    """Say something, `start_s` after the onset of turn 2."""

    start_s: float
    speech: Speech


@dataclass(frozen=True, slots=True)
class Script:
    """All that an agent does. `hold` talks on until `stop_s` (relative to turn 2)."""

    opening: Literal["reply", "brief", "hold"] = "reply"
    stop_s: float | None = None
    acts: tuple[Act, ...] = ()


def oracle_script(hint: CaseHint, latency_s: float, yield_s: float) -> Script:
    """Do what is expected, `latency_s` after the moment that calls for it."""
    w0_s, w1_s = hint.window_start_s, hint.window_end_s
    match hint.expected_action:
        case "LISTEN" | "NO_BACKCHANNEL":
            script = Script()
        case "TAKE_TURN" | "INTERRUPT":
            script = Script(acts=(Act(w0_s + latency_s, voice.talk(REPLY_S, 1)),))
        case "BACKCHANNEL":
            script = Script(acts=(Act(w0_s + latency_s, voice.backchannel()),))
        case "READBACK":
            # Nothing more to say: the read-back is the answer to turn 2.
            return Script(acts=(Act(hint.user_offset_s + latency_s,
                                    voice.read_back(_target(hint))),))
        case "YIELD":
            script = Script("hold", stop_s=w0_s + yield_s)
        case "CONTINUE":
            script = Script("hold", stop_s=w1_s + KEEP_ON_S)
        case "ACCEPT_OVERLAP":
            script = Script("hold", stop_s=(w0_s + w1_s) / 2)
        case _:
            raise _unknown(hint)
    return _with_closing(script, hint)


def inverse_script(hint: CaseHint, latency_s: float, yield_s: float, *, odd: bool) -> Script:
    """Do the opposite. A backchannel can be missed in two ways: `odd` takes the floor instead."""
    w0_s, w1_s = hint.window_start_s, hint.window_end_s
    match hint.expected_action:
        case "LISTEN":
            script = Script(acts=(Act(w0_s + latency_s, voice.talk(REPLY_S, 1)),))
        case "NO_BACKCHANNEL":
            script = Script(acts=(Act(w0_s + latency_s, voice.backchannel()),))
        case "TAKE_TURN" | "INTERRUPT":
            script = Script()
        case "BACKCHANNEL":
            long = (Act(w0_s + latency_s, voice.talk(LONG_S, 1)),)
            script = Script(acts=long if odd else ())
        case "READBACK":
            return Script(acts=(Act(hint.user_offset_s + latency_s, voice.unrelated()),))
        case "YIELD":
            script = Script("hold", stop_s=w1_s + 2 * KEEP_ON_S)
        case "CONTINUE":
            script = Script("hold", stop_s=w0_s + yield_s)
        case "ACCEPT_OVERLAP":
            # Speaks, so that there is something to barge into, and is silent before it happens.
            script = Script("brief")
        case _:
            raise _unknown(hint)
    return _with_closing(script, hint)


class Scripted:
    """Plays a script: the opening after turn 1, the rest from the onset of turn 2 on."""

    def __init__(self, script: Script, latency_s: float) -> None:
        self._script = script
        self._latency_ns = s_to_ns(latency_s)
        self._mouth = Mouth()
        opening = script.opening
        self._opening = (voice.talk_on() if opening == "hold"
                         else voice.talk(BRIEF_S if opening == "brief" else REPLY_S))

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:  # noqa: ARG002
        return self._mouth.step(t_ns)

    def cue(self, name: str, t_ns: int) -> None:
        if name == "turn1_end":
            self._mouth.say(self._opening, t_ns + self._latency_ns)
        elif name == "turn2_start":
            if self._script.stop_s is not None:
                self._mouth.stop(t_ns + s_to_ns(self._script.stop_s))
            for act in self._script.acts:
                self._mouth.say(act.speech, t_ns + s_to_ns(act.start_s))


def _with_closing(script: Script, hint: CaseHint) -> Script:
    if hint.window_end_s - hint.user_offset_s > OPEN_END_S:
        return script
    said_s = [act.start_s + ns_to_s(act.speech.duration_ns) for act in script.acts]
    start_s = max([hint.window_end_s, hint.user_offset_s, script.stop_s or 0.0, *said_s])
    closing = Act(start_s + CLOSING_AFTER_S, voice.talk(REPLY_S, 2))
    return Script(script.opening, script.stop_s, (*script.acts, closing))


def _target(hint: CaseHint) -> str:
    if hint.target_text is None:
        raise InputError.expected("a target text", got="none", where="hint of a READBACK case")
    return hint.target_text


def _unknown(hint: CaseHint) -> InputError:
    return InputError.expected("one of the nine floor-management actions",
                               got=repr(hint.expected_action), where="hint of an oracle")
