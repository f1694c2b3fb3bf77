"""What a call's words give: L2, fillers, U1, and why there is nothing where there is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters.cascade.recognition import RecognitionError
from audio.errors import AudioFileError, InputError
from audio.timebase import NS_PER_MS
from rig.field.activity import Speech
from rig.field.figures import pair, rate
from rig.field.recognise import Recogniser, recognise
from rig.field.sources import CallSource
from rig.field.words import (
    REFERENCE_SUFFIX,
    SUFFIXES,
    Reference,
    Transcript,
    read_reference,
    read_transcript,
)
from sweeps.clustered import clustered_percentile, clustered_percentile_difference
from verifiers.calls.entities import KINDS, Understanding, understanding
from verifiers.calls.percentiles import percentile
from verifiers.calls.substance import Substance, substance
from verifiers.calls.turns import CallTurns

NO_WORDS = (f"no words: no file CALL{SUFFIXES[0]} or CALL{SUFFIXES[1]} beside the recording or in "
            "--transcripts (docs/formats.md)")
NO_AGENT_WORDS = "the words file has no word of the agent"


NO_REFERENCE = (f"no reference: no file CALL{REFERENCE_SUFFIX} beside the recording or in "
                "--transcripts (docs/formats.md)")
NO_CALLER_WORDS = "the words file has no word of the caller"
RECOGNISED = "recognised"
NOTHING_HEARD = "the recogniser heard no word of the {}"


@dataclass(frozen=True, slots=True)
class WordMeasures:
    """origin: where the words are from, `None` without any; by: what recognised them. dropped_n:
    recognised words of the agent outside detected speech. reason: why there is no `substance`;
    u1_reason: why there is no `u1`. broken: a file that could not be used, or a recogniser that
    failed, and why."""

    origin: str | None = None
    substance: Substance | None = None
    reason: str | None = NO_WORDS
    u1: Understanding | None = None
    u1_reason: str | None = NO_REFERENCE
    broken: str | None = None
    by: str | None = None
    dropped_n: int = 0


@dataclass(frozen=True, slots=True)
class Listening:
    """How the words of a call without a words file are recognised. speech: of both sides."""

    recogniser: Recogniser
    speech: Speech
    cache_dir: Path | None


def measure_words(source: CallSource, call: CallTurns, *, private: bool = False,
                  listening: Listening | None = None) -> WordMeasures:
    """Read a call's words and reference, where it has any, and measure what rests on them.

    `private`: reasons hold no word of the files. `listening`: what is asked where there is no
    words file; the caller is only heard where there is a reference of its words.
    """
    found = _measure_words(source, call, listening)
    return _without_words(found, source) if private else found


def _without_words(found: WordMeasures, source: CallSource) -> WordMeasures:
    """What is wrong with a file quotes from it; what stands here of ourselves does not."""
    files = [*source.words, *([] if source.reference is None else [source.reference])]
    if not files:
        return found
    ours = (None, NO_WORDS, NO_AGENT_WORDS, NO_REFERENCE, NO_CALLER_WORDS,
            *(NOTHING_HEARD.format(side) for side in ("caller", "agent")))
    said = (f"{', '.join(map(str, files))}: cannot be used; what is wrong is not said, as it would "
            "quote from the words (--no-transcript)")

    def ours_or(why: str | None) -> str | None:
        return why if why in ours else said

    return replace(found, reason=ours_or(found.reason), u1_reason=ours_or(found.u1_reason),
                   broken=ours_or(found.broken))


def _measure_words(source: CallSource, call: CallTurns,
                   listening: Listening | None) -> WordMeasures:
    try:
        reference = None if source.reference is None else read_reference(source.reference)
    except InputError as error:
        found = replace(_measure_words(replace(source, reference=None), call, listening),
                        u1_reason=str(error))
        return replace(found, broken=found.broken or str(error))
    if not source.words:
        if listening is not None:
            return _recognised(source, call, reference, listening)
        return WordMeasures(u1_reason=NO_REFERENCE if reference is None else NO_WORDS)
    try:
        transcript = read_transcript(source.words)
    except InputError as error:
        return WordMeasures(reason=str(error), broken=str(error),
                            u1_reason=NO_REFERENCE if reference is None else str(error))
    return from_transcript(transcript, call, reference)


def _recognised(source: CallSource, call: CallTurns, reference: Reference | None,
                listening: Listening) -> WordMeasures:
    """What rests on the words that a recogniser hears."""
    by, speech = listening.recogniser, listening.speech
    try:
        agent = recognise(source.agent, speech.agent, by, listening.cache_dir)
        caller = () if reference is None else recognise(
            source.caller, speech.caller, by, listening.cache_dir).words
    except (RecognitionError, AudioFileError) as error:
        return WordMeasures(reason=str(error), broken=str(error), by=by.label,
                            u1_reason=NO_REFERENCE if reference is None else str(error))
    found = from_transcript(Transcript(caller, agent.words, RECOGNISED), call, reference)
    # Its words lie in speech already; what a words file is blamed for, it is not.
    said = {NO_AGENT_WORDS: NOTHING_HEARD.format("agent"),
            NO_CALLER_WORDS: NOTHING_HEARD.format("caller")}
    return replace(found, by=by.label, dropped_n=agent.dropped_n,
                   reason=said.get(found.reason or "", found.reason),
                   u1_reason=said.get(found.u1_reason or "", found.u1_reason))


def from_transcript(transcript: Transcript, call: CallTurns,
                    reference: Reference | None) -> WordMeasures:
    """What rests on these words."""
    said = substance(call, transcript.agent) if transcript.agent else None
    u1, why = None, NO_REFERENCE
    if reference is not None:
        why = NO_CALLER_WORDS
        if transcript.caller:
            try:
                u1 = understanding(reference.caller, " ".join(w.text for w in transcript.caller),
                                   reference.names)
            except ValueError as error:
                why = f"reference and words of the caller: {error}"
    return WordMeasures(transcript.origin, said, None if said else NO_AGENT_WORDS, u1,
                        None if u1 else why)


def word_figures(words: Sequence[WordMeasures], refused: str | None) -> dict[str, Any]:
    """`l2`, `filler_rate` and `u1` of one call or of many."""
    reasons = {w.reason for w in words if w.reason is not None}
    reason = refused or (reasons.pop() if len(reasons) == 1 else "no call has words")
    held = [] if refused else [w for w in words if w.substance is not None]
    parts = [w.substance for w in held if w.substance is not None]
    l2 = _l2(parts)
    l2["words"] = {"calls_n": len(held),
                   "origin": dict(sorted(Counter(str(w.origin) for w in held).items())),
                   "given_n": sum(p.given_n for p in parts) + sum(w.dropped_n for w in held),
                   "dropped_n": sum(p.dropped_n for p in parts) + sum(w.dropped_n for w in held)}
    by = sorted({w.by for w in held if w.by is not None})
    if by:
        l2["words"]["recognised_by"] = by
    filler = rate([(p.opens_n, p.words_n) for p in parts])
    filler["origin"] = l2["words"]["origin"]
    filler["filler_only_n"] = sum(p.filler_only_n for p in parts)
    if not parts:
        l2["reason"] = filler["reason"] = reason
    elif not filler["n"]:
        filler["reason"] = "no reply has words"
    return {"l2": l2, "filler_rate": filler, "u1": _u1(words, refused)}


def _u1(words: Sequence[WordMeasures], refused: str | None) -> dict[str, Any]:
    """Entity error rate; the WER and their ratio over the same calls."""
    parts = [] if refused else [w.u1 for w in words if w.u1 is not None]
    out = rate([(sum(p.wrong.values()), sum(p.entities.values())) for p in parts])
    edits_n, tokens_n = sum(p.edits_n for p in parts), sum(p.reference_n for p in parts)
    wer = edits_n / tokens_n if tokens_n else None
    held = [w for w in words if w.u1 is not None and not refused]
    out |= {"calls_n": len(parts),
            "origin": dict(sorted(Counter(str(w.origin) for w in held).items())),
            "by_kind": {k: {"n": sum(p.entities[k] for p in parts),
                            "count": sum(p.wrong[k] for p in parts)} for k in KINDS},
            "wer": wer, "reference_tokens_n": tokens_n, "edits_n": edits_n,
            "ratio_to_wer": out["rate"] / wer if wer and out["rate"] is not None else None}
    if out["ratio_to_wer"] is None:
        out["ratio_to_wer_reason"] = (
            "no WER: no reference was compared" if wer is None else
            "the WER is 0" if not wer else "the reference has no entity")
    if not parts:
        reasons = {w.u1_reason for w in words if w.u1_reason is not None}
        out["reason"] = refused or (
            reasons.pop() if len(reasons) == 1 else "no call has words and a reference")
    elif not out["n"]:
        out["reason"] = "the reference has no entity"
    return out


def _l2(parts: Sequence[Substance]) -> dict[str, Any]:
    l1, l2 = ([[v / NS_PER_MS for v in getattr(p, name)] for p in parts]
              for name in ("l1_ns", "l2_ns"))
    flat1, flat2 = ([v for call in side for v in call] for side in (l1, l2))
    out: dict[str, Any] = {"n": len(flat2)}
    for percent in (50, 90):
        out[f"p{percent}_ms"] = percentile(flat2, percent)
        out[f"p{percent}_ci"] = pair(clustered_percentile(l2, percent))
    first, second = percentile(flat1, 50), percentile(flat2, 50)
    out |= {"l1_p50_same_replies_ms": first,
            "filler_tax_ms": None if first is None or second is None else second - first,
            "filler_tax_ci": pair(clustered_percentile_difference(l1, l2, 50)),
            "filler_only_n": sum(p.filler_only_n for p in parts),
            "without_words_n": sum(p.without_words_n for p in parts),
            "doubtful_n": sum(p.doubtful_n for p in parts)}
    if not flat2:
        out["reason"] = "no reply with a meaningful word"
    return out
