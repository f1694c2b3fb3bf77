"""Recordings in the layout of Full-Duplex-Bench v1 and v1.5, as cases of ours.

Repository DanielLin94144/Full-Duplex-Bench at commit d7336bd, `v1_v1.5/dataset/README.md`: a folder
a sample with `input.wav` (user) and `output.wav` (model), in time with each other, and annotations.

- pause handling, `pause.json`: LISTEN in each pause;
- smooth turn taking, `turn_taking.json`: TAKE_TURN from the start of the first event;
- backchannel, a folder with `backchannel` in its name and no annotation: BACKCHANNEL over the
  recording, any number of spans;
- user interruption of v1 and v1.5, `interrupt.json` or `metadata.json`: YIELD from its start and
  TAKE_TURN from its end;
- user_backchannel, talking_to_other, background_speech of v1.5, `metadata.json`: CONTINUE from its
  start.

v1.5 names no right answer; that a model should talk on through what is not for it is our reading,
and the subset's name is kept in `probe`. `clean_*` files are the same user without the overlap: no
event, no case.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rig.layouts import BARGE_IN_S, RECORD_BEYOND_S, Found, Skip, Tree, reply_window, span
from verifiers.thresholds import MAX_SPANS_BOUND

KNOWN_FILES = frozenset({
    "input.wav", "output.wav", "input.json", "output.json", "transcription.json", "context.wav",
    "interrupt.wav", "pause.json", "turn_taking.json", "interrupt.json", "metadata.json",
    "clean_input.wav", "clean_input.json", "clean_output.wav", "clean_output.json", "rating.json",
    "latency_intervals.json", "content_tag.json", "general_split.json", ".DS_Store"})
"""What their data and their scripts put into a sample's folder."""
HELD_THROUGH = ("user_backchannel", "talking_to_other", "background_speech")
INTERRUPTION = "user_interruption"
ANNOTATIONS = ("pause.json", "turn_taking.json", "interrupt.json")


def read(root: Path, *, v1_5: bool) -> Found:
    """Every sample of a data set, a task or a subset."""
    tree, found = Tree(root), Found()
    _folder(tree, tree.root, found, v1_5=v1_5, depth=0)
    return found


def _folder(tree: Tree, folder: Path, found: Found, *, v1_5: bool, depth: int) -> None:
    for entry in tree.entries(folder):
        name = tree.name(entry)
        if entry.is_symlink() or not entry.is_dir():
            if entry.name not in (".DS_Store", "README.md"):
                found.skipped.append((name, "unknown entry: no folder of a sample"))
        elif (entry / "input.wav").exists() or (entry / "output.wav").exists():
            try:
                _sample(tree, entry, found, v1_5=v1_5)
            except Skip as skip:
                found.skipped.append((name, str(skip)))
        elif depth == 0 and not any((entry / a).exists() for a in (*ANNOTATIONS, "metadata.json")):
            _folder(tree, entry, found, v1_5=v1_5, depth=1)
        else:
            found.skipped.append((name, "no input.wav and output.wav"))


def _sample(tree: Tree, folder: Path, found: Found, *, v1_5: bool) -> None:
    name = tree.name(folder)
    user, model = tree.file(folder / "input.wav"), tree.file(folder / "output.wav")
    tree.length_s(user, 1)
    recorded_s = tree.length_s(model, 1)
    sample = Found()
    (_overlap if v1_5 else _turn_taking)(tree, folder, sample, recorded_s)
    found.lines += sample.lines
    found.skipped += sample.skipped
    found.pairs[f"{name}.wav"] = (user, model)
    found.skipped += [(tree.name(entry), "unknown file in a sample's folder")
                      for entry in tree.entries(folder) if entry.name not in KNOWN_FILES]


def _turn_taking(tree: Tree, folder: Path, found: Found, recorded_s: float) -> None:
    name, wav = tree.name(folder), f"{tree.name(folder)}.wav"
    present = [a for a in ANNOTATIONS if (folder / a).exists()]
    if len(present) > 1:
        raise Skip(f"annotations of several tasks: {', '.join(present)}")
    if not present:
        if (folder / "metadata.json").exists():
            raise Skip("metadata.json belongs to --layout full-duplex-bench-v1.5")
        if "backchannel" not in folder.parent.name:
            raise Skip(f"no annotation ({', '.join(ANNOTATIONS)})")
        if recorded_s <= 2 * RECORD_BEYOND_S:
            raise Skip(f"output.wav lasts {recorded_s:g} s: nothing to judge")
        found.add(f"{name}#backchannel", wav, "BACKCHANNEL", 0.0, recorded_s - RECORD_BEYOND_S,
                  "backchannel", {"max_spans": MAX_SPANS_BOUND})
        return
    events = _timestamps(tree.json(folder / present[0]), present[0], recorded_s)
    if present[0] == "pause.json":
        for k, (start, end) in enumerate(events, start=1):
            found.add(f"{name}#pause{k}", wav, "LISTEN", start, end, "pause_handling")
    elif present[0] == "turn_taking.json":
        found.add(f"{name}#turn", wav, "TAKE_TURN", *reply_window(events[0][0], recorded_s),
                  "smooth_turn_taking")
    else:
        _interruption(found, name, wav, events[0], recorded_s)


def _overlap(tree: Tree, folder: Path, found: Found, recorded_s: float) -> None:
    name, wav, subset = tree.name(folder), f"{tree.name(folder)}.wav", folder.parent.name
    data = tree.json(folder / "metadata.json")
    event = span(data.get("timestamps") if isinstance(data, dict) else None,
                 "timestamps of metadata.json", recorded_s)
    if subset == INTERRUPTION:
        _interruption(found, name, wav, event, recorded_s)
    elif subset in HELD_THROUGH:
        found.add(f"{name}#continue", wav, "CONTINUE", event[0], event[0] + BARGE_IN_S, subset)
    else:
        raise Skip(f"folder {subset!r} is none of the subsets {INTERRUPTION}, "
                   f"{', '.join(HELD_THROUGH)}")


def _interruption(found: Found, name: str, wav: str, event: tuple[float, float],
                  recorded_s: float) -> None:
    found.add(f"{name}#yield", wav, "YIELD", event[0], event[0] + BARGE_IN_S, INTERRUPTION)
    found.add(f"{name}#turn", wav, "TAKE_TURN", *reply_window(event[1], recorded_s), INTERRUPTION)


def _timestamps(data: Any, where: str, recorded_s: float) -> list[tuple[float, float]]:
    if not isinstance(data, list) or not data or len(data) > 1000:
        raise Skip(f"{where} is not a list of 1 to 1000 events")
    return [span(event.get("timestamp") if isinstance(event, dict) else None,
                 f"timestamp {k} of {where}", recorded_s) for k, event in enumerate(data, start=1)]
