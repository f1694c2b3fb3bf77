"""The document of `rig field --json`: ratios, intervals, reasons. Names are the contract's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from audio.timebase import NS_PER_MS, ns_to_s
from rig.field.activity import LeakEffect
from rig.field.edges import edges_late_ns
from rig.field.figures import pair, rate
from rig.field.measures import (
    CallMeasures,
    FieldSettings,
    Skipped,
    sensitivity_grid,
    sensitivity_values,
)
from rig.field.pairwise import PairStudy, a1_document, a1_figures
from rig.field.prosody import prosody_clusters, prosody_figures, prosody_totals
from rig.field.sources import named
from rig.field.word_measures import word_figures
from sweeps.clustered import clustered_percentile
from verifiers.calls.gates import REFERENCE, gates
from verifiers.calls.latency import ReplyLatency
from verifiers.calls.percentiles import percentile
from verifiers.calls.substance import Opening
from verifiers.calls.talk_ratio import talk_ratio
from verifiers.calls.turn_take import TurnTake
from verifiers.calls.turns import Turn, TurnRules

SCHEMA_VERSION = 1
OVERLAP_RULE = ("one reply for each caller turn; agent turns that begin inside caller speech are "
                "overlap starts with a negative latency and are in no percentile; backchannels, "
                "greetings and continuations neither")


def field_document(
    found: Sequence[CallMeasures | Skipped], settings: FieldSettings, *,
    groups: dict[str, list[CallMeasures]] | None = None, pairs: PairStudy | None = None,
) -> dict[str, Any]:
    """The whole document; `groups` adds an aggregate for each, `pairs` what a judge chose."""
    calls = [c for c in found if isinstance(c, CallMeasures)]
    out: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "settings": settings_facts(settings),
        "calls": [call_document(c) for c in calls],
        "aggregate": aggregate(calls, settings),
        "skipped": [{"file": s.name, "reason": s.reason} for s in found if isinstance(s, Skipped)]}
    if groups is not None:
        out["groups"] = {name: aggregate(members, settings) for name, members in groups.items()}
    _add_clusters(out, calls, groups or {})
    out["aggregate"]["a1"] = a1_document(pairs)
    for name, members in (groups or {}).items():
        out["groups"][name]["a1"] = a1_figures(pairs, {c.source.name for c in members})
    return out


def _add_clusters(
    document: dict[str, Any], calls: Sequence[CallMeasures],
    groups: Mapping[str, Sequence[CallMeasures]],
) -> None:
    """What the calls fall into: the cluster of each, all, and how many of each in a group."""
    measured = [c for c in calls if c.refused is None]
    found, labels = prosody_clusters([c.prosody for c in measured],
                                     None if measured else "no call could be measured")
    document["aggregate"]["prosody"]["clusters"] = found
    label_of = {id(c): label for c, label in zip(measured, labels, strict=True)}
    for call, entry in zip(calls, document["calls"], strict=True):
        entry["prosody"]["cluster"] = label_of.get(id(call))
    for name, members in groups.items():
        counts = Counter(str(c) for m in members if (c := label_of.get(id(m))) is not None)
        document["groups"][name]["prosody"]["calls_by_cluster"] = dict(sorted(counts.items()))


def settings_facts(settings: FieldSettings) -> dict[str, Any]:
    """What a result must state about how it was made."""
    rules = TurnRules()
    start_ns, end_ns = edges_late_ns(settings.vad)
    return {"vad": settings.vad.facts(), "yield_silence_s": settings.yield_silence_s,
            "backchannel_ceiling_s": ns_to_s(rules.backchannel_ns),
            "pause_s": ns_to_s(rules.pause_ns),
            "edges": settings.edges,
            "recogniser": None if settings.recogniser is None else settings.recogniser.facts(),
            "edge_correction_ms": {"start": -start_ns / NS_PER_MS, "end": -end_ns / NS_PER_MS},
            "overlap_rule": OVERLAP_RULE, "channels_guessed": settings.guessed_channels}


def call_document(call: CallMeasures) -> dict[str, Any]:
    """One call."""
    out: dict[str, Any] = {
        "file": call.source.name, "duration_s": ns_to_s(call.duration_ns),
        "caller_channel": call.source.caller.channel, "agent_channel": call.source.agent.channel}
    if len(call.source.paths) == 2:
        out["files"] = {"caller": named(call.source.caller.path),
                        "agent": named(call.source.agent.path)}
    out["channels"] = call.levels
    out["warnings"] = [{"code": code, "detail": detail} for code, detail in call.warnings]
    out["crosstalk"] = {side: _leak(effect) for side, effect in call.crosstalk.items()}
    out["left_out_of_totals"] = call.left_out
    out |= _figures([call], refused=call.refused)
    out["prosody"] = prosody_figures(call.prosody, call.refused)
    out["turns"] = [] if call.refused else _turns(call)
    out["speech"] = {side: [[ns_to_s(start), ns_to_s(end)] for start, end in getattr(
        call.speech, side)] for side in ("caller", "agent")}
    out["yield_points"] = [] if call.refused else [
        {"at_s": ns_to_s(point.at_ns), "outcome": point.outcome.value} for point in call.points]
    return out


def _leak(effect: LeakEffect) -> dict[str, Any]:
    """The path to a side, and the spans (seconds) that it touches there."""
    return {"gain_db": effect.leak.gain_db, "lag_ms": 1000 * effect.leak.lag_s,
            **{name: [[ns_to_s(start), ns_to_s(end)] for start, end in getattr(effect, name)]
               for name in ("invented", "masked", "withheld")}}


def _turns(call: CallMeasures) -> list[dict[str, Any]]:
    found = call.words.substance
    openings = {} if found is None else {r.agent_start_ns: r for r in found.replies}
    return [_turn(t, openings.get(t.agent_ns[0])) for t in call.call.turns]


def _turn(turn: Turn, opening: Opening | None) -> dict[str, Any]:
    caller = turn.caller_ns
    l2_ns = None if opening is None else opening.l2_ns
    return {"caller_start_s": None if caller is None else ns_to_s(caller[0]),
            "caller_end_s": None if caller is None else ns_to_s(caller[1]),
            "agent_start_s": ns_to_s(turn.agent_ns[0]), "agent_end_s": ns_to_s(turn.agent_ns[1]),
            "kind": turn.kind.value,
            "latency_ms": None if turn.latency_ns is None else turn.latency_ns / NS_PER_MS,
            "l2_ms": None if l2_ns is None else l2_ns / NS_PER_MS,
            "opens_with_filler": None if opening is None else opening.filler,
            "doubtful": turn.doubtful}


def aggregate(calls: Sequence[CallMeasures], settings: FieldSettings) -> dict[str, Any]:
    """All calls pooled, intervals clustered by call, gates beside."""
    measured = [c for c in calls if c.refused is None]
    timed = [c for c in measured if c.left_out is None]
    reason = None if measured else "no call could be measured"
    out = _figures(measured, refused=reason, timed=timed)
    out |= {"calls_n": len(calls), "measured_n": len(measured),
            "left_out": [{"file": c.source.name, "reason": c.refused or c.left_out}
                         for c in calls if c.refused or c.left_out],
            "words_unusable": [{"file": c.source.name, "reason": c.words.broken}
                               for c in calls if c.words.broken],
            "duration_s": ns_to_s(sum(c.duration_ns for c in calls))}
    out["prosody"] = prosody_totals([c.prosody for c in measured], reason)
    sweeps = [[c.sweep[k] for c in timed] for k in range(len(timed[0].sweep))] if timed else []
    out["turn_take_sweep"] = [_turn_take(points, points[0].yield_silence_ns)
                              for points in sweeps]
    out["gates"] = gates(out["l1"]["p50_ms"], out["interruption_rate"]["rate"],
                         out["turn_take"]["rate"])
    out["reference"] = dict(REFERENCE)
    if settings.sensitivity:
        out["sensitivity"] = sensitivity(timed, settings)
    return out


def _figures(calls: Sequence[CallMeasures], *, refused: str | None,
             timed: Sequence[CallMeasures] | None = None) -> dict[str, Any]:
    """L1, interruption, turn-take, talk ratio, words of one call or of many; all but the talk ratio
    over `timed`."""
    timed = calls if timed is None else timed
    silence_ns = calls[0].turn_take.yield_silence_ns if calls else None
    if refused is not None:
        calls = timed = []
    missing = refused if timed or refused else "every call that was measured is left out"
    out: dict[str, Any] = {
        "l1": _l1([c.l1 for c in timed], [v for c in timed for v in c.bare_ms]),
        "interruption_rate": {
            **rate([(c.interruption.count, c.interruption.n) for c in timed]),
            "backchannels_n": sum(c.interruption.backchannels_n for c in timed),
            "doubtful_n": sum(c.interruption.doubtful_n for c in timed)},
        "turn_take": _turn_take([c.turn_take for c in timed], silence_ns),
        "talk_ratio": talk_ratio((c.speech.caller, c.speech.agent) for c in calls),
        **word_figures([c.words for c in timed], missing)}
    if missing is not None:
        for name in ("l1", "interruption_rate", "turn_take"):
            out[name]["reason"] = missing
    if refused is not None:
        out["talk_ratio_reason"] = refused
    return out


def _l1(parts: Sequence[ReplyLatency], bare_ms: Sequence[float]) -> dict[str, Any]:
    values = [[v / NS_PER_MS for v in p.values_ns] for p in parts]
    pooled = [v for call in values for v in call]
    out: dict[str, Any] = {"n": len(pooled)}
    for percent in (50, 90):
        # What a tool finds that believes the detector's edges.
        out[f"p{percent}_uncorrected_ms"] = percentile(bare_ms, percent)
        out[f"p{percent}_ms"] = percentile(pooled, percent)
        out[f"p{percent}_ci"] = pair(clustered_percentile(values, percent))
    out["over_1s"] = rate([(p.over_n, len(p.values_ns)) for p in parts])
    out |= {"caller_turns_n": sum(p.caller_turns_n for p in parts),
            "missing_n": sum(p.missing_n for p in parts),
            "overlap_n": sum(len(p.overlaps_ns) for p in parts),
            "overlap_p50_ms": percentile(
                [v / NS_PER_MS for p in parts for v in p.overlaps_ns], 50),
            "doubtful_n": sum(p.doubtful_n for p in parts)}
    if not pooled:
        out["reason"] = "no reply to a caller turn was found"
    return out


def _turn_take(parts: Sequence[TurnTake], silence_ns: int | None) -> dict[str, Any]:
    pairs = [(p.taken, p.n) for p in parts]
    found = rate(pairs)
    out = {"yield_silence_s": None if silence_ns is None else ns_to_s(silence_ns),
           "n": found["n"], "taken": found["count"], "rate": found["rate"], "ci": found["ci"],
           "overlapped": sum(p.overlapped for p in parts), "fast": sum(p.fast for p in parts),
           "with_fast": rate([(p.taken + p.fast, p.n + p.fast) for p in parts]),
           "doubtful_n": sum(p.doubtful_n for p in parts)}
    if "reason" in found:
        out["reason"] = "no yield point was found"
    return out


def sensitivity(calls: Sequence[CallMeasures], settings: FieldSettings) -> dict[str, Any]:
    """The lowest and highest value of the headline figures over detector settings.

    `range`: over all combinations. `by_setting`: over one setting with the others as they are.
    """
    grid, values = sensitivity_grid(settings.vad), sensitivity_values(settings.vad)
    calls = [c for c in calls if c.sensitivity]
    rows = [_headline([c.sensitivity[k] for c in calls]) for k in range(len(grid))]
    names = ("l1_p50_ms", "l1_p90_ms", "interruption_rate", "turn_take_rate")
    out: dict[str, Any] = {
        "grid": values,
        "settings_n": len(grid), "range": {n: _range([r[n] for r in rows]) for n in names}}
    by: dict[str, Any] = {}
    for setting in values:
        others = [s for s in values if s != setting]
        alike = [r for vad, r in zip(grid, rows, strict=True)
                 if all(getattr(vad, o) == getattr(settings.vad, o) for o in others)]
        by[setting] = {n: _range([r[n] for r in alike]) for n in names}
    out["by_setting"] = by
    return out


def _headline(parts: Sequence[Any]) -> dict[str, float | None]:
    pooled = [v for p in parts for v in p.latencies_ms]
    rates = {}
    for name in ("interruption", "turn_take"):
        count, n = (sum(getattr(p, name)[k] for p in parts) for k in (0, 1))
        rates[f"{name}_rate"] = count / n if n else None
    return {"l1_p50_ms": percentile(pooled, 50), "l1_p90_ms": percentile(pooled, 90), **rates}


def _range(values: Sequence[float | None]) -> list[float] | None:
    known = [v for v in values if v is not None]
    return [min(known), max(known)] if known else None

