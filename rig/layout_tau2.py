"""Voice simulations of tau2-bench, as cases of ours.

Repository sierra-research/tau2-bench at commit a2c0247: `results.json`, a file a simulation under
`simulations/` (or all of them in `results.json`), and `artifacts/task_ID/sim_ID/audio/both.wav`,
user left and agent right, made of the ticks end to end (`src/tau2/runner/batch.py`,
`src/tau2/voice/synthesis/conversation_builder.py`).

| a run of ticks with user speech | ours |
|---|---|
| begins while the agent speaks | YIELD from its start |
| the same, a backchannel, vocal tic or aside | CONTINUE from its start |
| ends while the agent is silent, or as it begins | TAKE_TURN from its end |

The user's side is known to a tick (0.2 s): it may really begin up to a tick behind its first tick
and end up to one before the end of its last, so latencies from there are short by up to a tick.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.spans import Spans
from rig.layouts import BARGE_IN_S, REPLY_S, Found, Skip, Tree, reply_window
from verifiers.thresholds import TAKE_TURN_MAX_WAIT_S

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""One folder's name: what a simulation calls itself goes into a path."""
TICK_S = (0.02, 1.0)
"""Bounds of a tick; theirs is 0.2 s."""
MAX_TICKS = 100_000


def read(root: Path) -> Found:
    """Every simulation of one experiment. Raises `InputError` when it is none, or one of text."""
    tree, found = Tree(root), Found()
    try:
        results = tree.json(tree.root / "results.json")
    except Skip as skip:
        raise InputError.expected("an experiment of tau2-bench with its results.json",
                                  got=str(skip), where=root) from skip
    tick_s = _tick_s(results, root)
    inline = results.get("simulations")
    seen: set[str] = set()
    for name, load in _simulations(tree, inline, found):
        try:
            _simulation(tree, load(), name, tick_s, found, seen)
        except Skip as skip:
            found.skipped.append((name, str(skip)))
    return found


def _tick_s(results: Any, root: Path) -> float:
    info = results.get("info") if isinstance(results, dict) else None
    config = info.get("audio_native_config") if isinstance(info, dict) else None
    tick_s = config.get("tick_duration_seconds") if isinstance(config, dict) else None
    if isinstance(tick_s, bool) or not isinstance(tick_s, int | float) \
            or not TICK_S[0] <= tick_s <= TICK_S[1]:
        raise InputError.expected(
            f"a voice experiment: info.audio_native_config.tick_duration_seconds of {TICK_S[0]:g} "
            f"to {TICK_S[1]:g}", got=repr(tick_s)[:60], where=root / "results.json")
    return float(tick_s)


def _simulations(tree: Tree, inline: Any, found: Found) -> list[tuple[str, Any]]:
    if isinstance(inline, list) and inline:
        return [(f"results.json simulation {k}", lambda data=data: data)
                for k, data in enumerate(inline)]
    folder = tree.root / "simulations"
    if folder.is_symlink() or not folder.is_dir():
        raise InputError.expected("simulations in results.json or in simulations/", got="none",
                                  where=tree.root)
    out: list[tuple[str, Any]] = []
    for path in tree.entries(folder):
        if path.suffix == ".json":
            out.append((tree.name(path), lambda path=path: tree.json(path)))
        else:
            found.skipped.append((tree.name(path), "unknown entry: no simulation"))
    return out


def _simulation(tree: Tree, data: Any, name: str, tick_s: float, found: Found,
                seen: set[str]) -> None:
    ticks = data.get("ticks") if isinstance(data, dict) else None
    if not isinstance(ticks, list) or not ticks:
        raise Skip("no ticks: a simulation of text, or trimmed")
    if len(ticks) > MAX_TICKS:
        raise Skip(f"{len(ticks)} ticks, more than {MAX_TICKS}")
    ids = [str(data.get(key)) for key in ("task_id", "id")]
    if not all(_NAME.fullmatch(i) for i in ids):
        raise Skip("its task_id or id is no name of a folder")
    if ids[1] in seen:
        raise Skip(f"a simulation before it has its id, {ids[1]}")
    path = tree.root / "artifacts" / f"task_{ids[0]}" / f"sim_{ids[1]}" / "audio" / "both.wav"
    recorded_s = tree.length_s(path, 2)
    if abs(recorded_s - len(ticks) * tick_s) > max(tick_s, 0.01 * recorded_s):
        raise Skip(f"{len(ticks)} ticks of {tick_s:g} s are not the {recorded_s:g} s of both.wav")
    ticks = _without_stop(ticks)
    user, agent = _runs(ticks, "user_chunk"), _runs(ticks, "agent_chunk")
    if not user:
        raise Skip("the user never speaks: nothing to judge")
    case = Found()
    for k, (start, end) in enumerate(user, start=1):
        following = user.items[k][0] if k < len(user) else None
        _segment(ticks, agent, (start, end, following), tick_s, recorded_s,
                 (f"{ids[1]}#u{k}", tree.name(path), name), case)
    seen.add(ids[1])
    found.lines += case.lines
    found.skipped += case.skipped


def _segment(ticks: list[Any], agent: Spans, run: tuple[int, int, int | None], tick_s: float,
             recorded_s: float, names: tuple[str, str, str], found: Found) -> None:
    start, end, following = run
    line_id, wav, where = names
    ignorable = _ignorable(ticks, start, end)
    if agent.at(start) is not None:
        action = "CONTINUE" if ignorable else "YIELD"
        at = round(start * tick_s, 6)
        found.add(f"{line_id}.{action.lower()}", wav, action, at, at + BARGE_IN_S,
                  ignorable or "interruption")
    if ignorable:
        return
    holding = agent.at(end)
    if holding is not None and holding[0] != end:
        found.skipped.append((f"{where} {line_id}",
                              "turn not mapped: the agent speaks over its end"))
        return
    w0, w1 = reply_window(round(end * tick_s, 6), recorded_s)
    if following is not None:
        w1 = min(w0 + REPLY_S, round(following * tick_s, 6))
        if w1 - w0 < TAKE_TURN_MAX_WAIT_S:
            found.skipped.append((f"{where} {line_id}", "turn not mapped: the user speaks again "
                                  f"within {TAKE_TURN_MAX_WAIT_S:g} s"))
            return
    found.add(f"{line_id}.turn", wav, "TAKE_TURN", w0, w1, "turn")


def _runs(ticks: list[Any], side: str) -> Spans:
    speaks = []
    for k, tick in enumerate(ticks):
        if not isinstance(tick, dict):
            raise Skip(f"tick {k} is not an object")
        chunk = tick.get(side)
        if chunk is not None and (not isinstance(chunk, dict)
                                  or not isinstance(chunk.get("contains_speech"), bool)):
            raise Skip(f"tick {k} does not say whether {side} contains speech")
        if chunk is not None and chunk["contains_speech"]:
            speaks.append((k, k + 1))
    return Spans.of(speaks)


def _without_stop(ticks: list[Any]) -> list[Any]:
    """Their stop token leaves a last tick of user speech alone; it is no speech."""
    user = _runs(ticks[-2:], "user_chunk").items
    return ticks[:-1] if user and user[-1] == (1, 2) else ticks


def _ignorable(ticks: list[Any], start: int, end: int) -> str:
    """`backchannel`, `vocal_tic` or `non_directed`, in their order of precedence; else empty."""
    if _get(ticks[start], "user_chunk", "turn_taking_action", "action") == "backchannel":
        return "backchannel"
    kinds = {_get(ticks[k], "user_chunk", effects, "speech_insert", "type")
             for k in range(start, end) for effects in ("speech_effects", "source_effects")}
    kinds -= {None}
    if "vocal_tic" in kinds:
        return "vocal_tic"
    return "non_directed" if kinds else ""


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
