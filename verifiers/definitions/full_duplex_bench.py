"""Full-Duplex-Bench v1 and v1.5.

Papers: arXiv 2503.04721 (v1) and 2507.23159 (v1.5). The exact rules are those of the repository
DanielLin94144/Full-Duplex-Bench at commit d7336bd, folder `v1_v1.5`: `evaluation/eval_*.py`,
`get_transcript/asr.py` and, for v1.5, `evaluation/get_timing.py`.

**Take-over (TOR is its mean).** 0 when nothing was said; else, from the first word's start to the
last word's end: 1 from one second on; below that 1 for more than three words, 0 for up to three.
`eval_pause_handling`, `eval_smooth_turn_taking` and `eval_user_interruption` share it. It is read
on the whole output file; for an interruption on what is left behind the interruption's end.

**Latency**, of those that took over: first word's start less the user's end, negative ones set to
0.

**Backchannels.** Each detected segment (library defaults): longer than 3 s is a take-over and ends
the reading; else it is counted, and the take-over of the sample becomes that of this segment: 1
from one second on, below that 1 for three words or more. The frequency is the count over the
length of the file.

**v1.5.** Segments of both sides, merged across pauses of up to 0.6 s (user) and 0.5 s (model).
*Stop*: every stretch in which both speak, its length. *Response*: from a user segment's end to the
next model onset strictly behind it; of several that share the onset, the last user end.

Where ours differs, with the reading that we give instead:

- Words: they recognise the model's audio with a speech recogniser. We take the system's own
  transcript. Times come from the detector, so lengths and onsets are those of sound. Where words
  decide and there are none, the sample is null.
- A sample is a whole file of one user turn there, a part of a session here: `cut`.
- A model that never stops speaking through an interruption has a take-over and latency 0 there:
  the file is cut at the interruption's end and its speech begins at the cut. Reproduced; the share
  of such samples is given beside it (`latency_running`). Ours asks YIELD for the offset.
- Answers before the user's end have latency 0 there; ours keeps the sign and does not take an
  onset before the window for one.
- Their take-over of a backchannel sample is that of the *last* segment: a long turn followed by a
  "mm" is none. Reproduced as `tor_last`, beside the reading of any segment, `tor_any`.
- A stop is the length of overlap, so it ends with the user where the model talks on, and an
  overlap that the model began counts too. Ours counts from the barge-in to the model's offset.
- Not reproduced: a sample without a transcript takes over the value of the sample before it
  (`eval_backchannel`); a file of another rate than 16 kHz is read as if it had 16 kHz there
  (`torchaudio.load` without resampling), which stretches 24 kHz files by 1.5.
- The Jensen-Shannon divergence of backchannel timing needs human timings of the very same
  stimuli (`icc_gt_distribution.json`, by stimulus): none exist for ours, so it is null.
"""

from __future__ import annotations

from dataclasses import dataclass

from audio.spans import Spans
from audio.timebase import NS_PER_MS, NS_PER_S, ns_to_s
from verifiers.definitions.talk import (
    Metric,
    Reading,
    Talk,
    end_of,
    none_because,
    one,
    seconds_each,
    share,
    start_of,
)
from verifiers.scene import Action

TURN_NS = NS_PER_S
"""`turn_duration_threshold` of eval_pause_handling.py and others."""
FEW_WORDS = 3
"""`turn_num_words_threshold`: up to three words in less than a second are no turn."""
FEW_BACKCHANNEL_WORDS = 2
"""eval_backchannel.py: up to two words in less than a second are a backchannel."""
FORMAL_NS = 3 * NS_PER_S
"""`time_threshold` of eval_backchannel.py: a longer segment is a turn and ends the reading."""
USER_MERGE_NS = 600 * NS_PER_MS
"""`USER_MERGE_GAP` of get_timing.py; a pause of exactly this is merged (its comment says 300)."""
MODEL_MERGE_NS = 500 * NS_PER_MS
"""`MODEL_MERGE_GAP` of get_timing.py; likewise (its comment says 50)."""

NO_WORDS = "how many words is not known: no transcript"
NO_WORD_HEARD = "speech of which the transcript has no word"


@dataclass(frozen=True, slots=True)
class Sample:
    """What stands for one of their output files, in nanoseconds from its beginning.

    `user_end_ns` is the end of the user's turn or interruption, `None` where the task has none.
    """

    model: Spans
    words_ns: tuple[int, ...] | None
    length_ns: int
    user_end_ns: int | None = None


def cut(talk: Talk, start_ns: int, end_ns: int, user_end_ns: int | None = None) -> Sample:
    """`[start_ns, end_ns)` of a session as a sample: speech that runs over its ends is cut."""
    words = None if talk.words_ns is None else tuple(
        t - start_ns for t in talk.words_ns if start_ns <= t < end_ns)
    return Sample(talk.model.clip(start_ns, end_ns).shift(-start_ns), words, end_ns - start_ns,
                  None if user_end_ns is None else user_end_ns - start_ns)


def sample_of(action: Action, talk: Talk) -> Sample:
    """Which part of a session stands for their file.

    TAKE_TURN and LISTEN: the last turn's onset to the end of the scored window (their file goes
    on, but ours holds an answer that theirs would count). The user's end is the window's start.
    BACKCHANNEL: the last turn. YIELD: what follows the last turn.
    """
    last = talk.turns[-1]
    if action is Action.BACKCHANNEL:
        return cut(talk, start_of(last), end_of(last))
    if action is Action.YIELD:
        return cut(talk, end_of(last), talk.recorded_ns, end_of(last))
    return cut(talk, start_of(last), talk.window_ns[1], talk.window_ns[0])


def take_over(sample: Sample) -> tuple[bool | None, str]:
    """Whether the model took the turn; `None` with the reason where words decide and are not known.
    """
    if not sample.model:
        return False, ""
    if sample.words_ns == ():
        return None, NO_WORD_HEARD
    if sample.model.items[-1][1] - sample.model.items[0][0] >= TURN_NS:
        return True, ""
    if sample.words_ns is None:
        return None, NO_WORDS
    return len(sample.words_ns) > FEW_WORDS, ""


def raw_latency_ns(sample: Sample) -> int | None:
    """First onset less the user's end, its sign kept; `None` without speech or user's end."""
    if not sample.model or sample.user_end_ns is None:
        return None
    return sample.model.items[0][0] - sample.user_end_ns


@dataclass(frozen=True, slots=True)
class Backchannels:
    """A backchannel sample: segments counted, and whether one took over, both readings."""

    count: int
    last_took: bool | None
    any_took: bool | None


def backchannels(sample: Sample) -> Backchannels:
    """Segments up to the first one longer than 3 s."""
    count = 0
    taken: list[bool | None] = []
    for start, end in sample.model:
        if end - start > FORMAL_NS:
            taken.append(True)
            break
        count += 1
        words = None if sample.words_ns is None else sum(
            start <= t < end for t in sample.words_ns)
        if end - start >= TURN_NS:
            taken.append(True)
        else:
            taken.append(None if words is None else words > FEW_BACKCHANNEL_WORDS)
    found = True if True in taken else None if None in taken else False
    return Backchannels(count, taken[-1] if taken else False, found)


def stop_latencies_ns(user: Spans, model: Spans) -> tuple[int, ...]:
    """v1.5: lengths of the stretches in which both speak."""
    both = user.merge_gaps(USER_MERGE_NS + 1).intersect(model.merge_gaps(MODEL_MERGE_NS + 1))
    return tuple(end - start for start, end in both)


def response_latencies_ns(user: Spans, model: Spans) -> tuple[int, ...]:
    """v1.5: from a user segment's end to the next model onset behind it."""
    onsets = [start for start, _ in model.merge_gaps(MODEL_MERGE_NS + 1)]
    found: dict[int, int] = {}
    for _, end in user.merge_gaps(USER_MERGE_NS + 1):
        onset = next((start for start in onsets if start > end), None)
        if onset is not None:
            found[onset] = onset - end  # a later user end takes the place of an earlier one
    return tuple(found.values())


_V1 = "Full-Duplex-Bench d7336bd, v1_v1.5/evaluation/"
_TOR = ("any speech of 1 s or more from first onset to last offset, or of more than 3 words; "
        "on the whole sample")
_LATENCY = "first onset less the user's end, negative set to 0, of those that took over"
_LISTEN, _TAKE, _BACK, _YIELD = "LISTEN", "TAKE_TURN", "BACKCHANNEL", "YIELD"
_OVERLAPPED = ("YIELD", "CONTINUE", "ACCEPT_OVERLAP")

METRICS = (
    Metric("pause.tor", "pause handling TOR", "share", (_LISTEN,),
           _V1 + "eval_pause_handling.py", _TOR,
           "ours fails on any speech in the pause, however short, and looks at nothing else"),
    Metric("turn.tor", "smooth turn taking TOR", "share", (_TAKE,),
           _V1 + "eval_smooth_turn_taking.py", _TOR,
           "ours asks for an onset in the window within the wait; an early answer is none, a short "
           "one is"),
    Metric("turn.latency", "smooth turn taking latency", "s", (_TAKE,),
           _V1 + "eval_smooth_turn_taking.py", _LATENCY,
           "ours counts onsets in the window alone, however short, and none as 0"),
    Metric("backchannel.tor_last", "backchannel TOR, as published: the last segment", "share",
           (_BACK,), _V1 + "eval_backchannel.py",
           "the last segment is 1 s or longer, or of 3 words or more; or one is longer than 3 s",
           "ours fails for any first span of the ceiling or longer in the pause, words unread"),
    Metric("backchannel.tor_any", "backchannel TOR, any segment", "share", (_BACK,),
           _V1 + "eval_backchannel.py", "the same of any segment, not of the last one",
           "as above"),
    Metric("backchannel.frequency", "backchannel frequency", "per_s", (_BACK,),
           _V1 + "eval_backchannel.py",
           "segments of up to 3 s, before the first longer one, over the sample's length",
           "ours counts spans shorter than the ceiling, over the window"),
    Metric("backchannel.jsd", "backchannel JSD", "score", (_BACK,), _V1 + "eval_backchannel.py",
           "Jensen-Shannon distance of backchannel times to human ones of the same stimulus",
           "no human timings exist for our stimuli"),
    Metric("interruption.tor", "user interruption TOR", "share", (_YIELD,),
           _V1 + "eval_user_interruption.py", _TOR + ", behind the interruption",
           "ours asks whether the model stopped, not whether it spoke afterwards"),
    Metric("interruption.latency", "user interruption latency", "s", (_YIELD,),
           _V1 + "eval_user_interruption.py", _LATENCY,
           "speech that never stopped begins at the cut and counts as 0; ours wants an onset"),
    Metric("interruption.latency_running", "of these, speech that never stopped", "share",
           (_YIELD,), _V1 + "eval_user_interruption.py",
           "the sample begins within speech, so that its latency is 0 (not theirs: shown beside)",
           "there is no such onset in ours"),
    Metric("v1.5.stop", "v1.5 stop latency", "s", _OVERLAPPED, _V1 + "get_timing.py",
           "length of every stretch in which both speak (pauses up to 0.6 s and 0.5 s bridged)",
           "ends with the user where the model talks on; ours goes on to the model's offset"),
    Metric("v1.5.response", "v1.5 response latency", "s", _OVERLAPPED, _V1 + "get_timing.py",
           "from a user segment's end to the next model onset strictly behind it, however late",
           "a new sentence of a model that never stopped counts; ours takes the last turn, and "
           "onsets in the window"),
)


def read(action: Action, talk: Talk) -> dict[str, Reading]:
    """The figures that apply to a session of this action, by key."""
    out: dict[str, Reading] = {}
    if action in (Action.YIELD, Action.CONTINUE, Action.ACCEPT_OVERLAP):
        out["v1.5.stop"] = seconds_each(stop_latencies_ns(talk.user, talk.model),
                                        "the two never speak at once")
        out["v1.5.response"] = seconds_each(response_latencies_ns(talk.user, talk.model),
                                            "the model never begins behind the user")
    if action is Action.BACKCHANNEL:
        out |= _backchannel(sample_of(action, talk))
    elif action is Action.LISTEN:
        out["pause.tor"] = _tor(sample_of(action, talk))
    elif action is Action.TAKE_TURN:
        sample = sample_of(action, talk)
        out["turn.tor"], out["turn.latency"] = _tor(sample), _latency(sample)
    elif action is Action.YIELD:
        sample = sample_of(action, talk)
        out["interruption.tor"] = _tor(sample)
        out["interruption.latency"] = _latency(sample)
        taken = take_over(sample)[0]
        out["interruption.latency_running"] = (
            share(sample.model.at(0) is not None) if taken else
            none_because("no take-over"))
    return out


def _tor(sample: Sample) -> Reading:
    return _known(*take_over(sample))


def _known(taken: bool | None, reason: str) -> Reading:
    return none_because(reason) if taken is None else share(taken)


def _latency(sample: Sample) -> Reading:
    taken, reason = take_over(sample)
    raw = raw_latency_ns(sample)
    if not taken or raw is None:
        return none_because(reason or "no take-over")
    return one(ns_to_s(max(0, raw)))


def _backchannel(sample: Sample) -> dict[str, Reading]:
    found = backchannels(sample)
    return {
        "backchannel.tor_last": _known(found.last_took, NO_WORDS),
        "backchannel.tor_any": _known(found.any_took, NO_WORDS),
        "backchannel.frequency": one(found.count * NS_PER_S / sample.length_ns),
        "backchannel.jsd": none_because(
            "no human backchannel timings of the same stimulus (theirs: icc_gt_distribution.json)"),
    }
