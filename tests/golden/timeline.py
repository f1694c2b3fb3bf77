"""ASCII timelines: a case as people draw it on paper, 100 ms a character.

    name: an acknowledgment after the check phrase
    action: BACKCHANNEL
    params: ceiling_s=0.6
    user   |#####...............######|
    model  |.......####...............|
    window |     [-------------]      |
    expect: pass
    label: backchannel
    genuine_onset_s: 0.2
    flags: resumed_in_window

Rows begin at 0 s, all rows are equally long, and the recording ends with them. `#` is speech,
`.` silence; the window holds every character from `[` to `]`. `target:` and `says: 1.2 words` (one
line a piece, heard at that second) belong to READBACK; `says: none` is a system without a
transcript. Every further key is a number of `measured` that must come out so (`none` for what
does not exist); `flags:` must be complete. A file holds several, divided by blank lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from audio.spans import Spans
from audio.timebase import NS_PER_MS, NS_PER_S
from verifiers.scene import Action, CaseParams, Scene, TimedText, Window

CHARACTER_NS = 100 * NS_PER_MS
ROWS = ("user", "model", "window")


@dataclass(frozen=True)
class Timeline:
    """One drawn case and what must come out."""

    name: str
    scene: Scene
    expect: str
    flags: tuple[str, ...]
    measured: dict[str, object]


def read(path: Path) -> list[Timeline]:
    """All timelines of a file."""
    blocks = [block for block in path.read_text(encoding="utf-8").split("\n\n") if block.strip()]
    return [parse(block) for block in blocks]


def parse(block: str) -> Timeline:
    """One timeline; anything malformed is a `ValueError`."""
    rows: dict[str, str] = {}
    keys: dict[str, str] = {}
    says: list[str] = []
    for line in block.strip().splitlines():
        if line.startswith("#"):
            continue
        if "|" in line:
            name, drawn, after = line.split("|")
            if name.strip() not in ROWS or after.strip():
                raise ValueError(f"not a row: {line!r}")
            rows[name.strip()] = drawn
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"neither row nor key: {line!r}")
        if key == "says":
            says.append(value.strip())
        else:
            keys[key.strip()] = value.strip()
    name = keys.pop("name")
    if sorted(rows) != sorted(ROWS) or len({len(row) for row in rows.values()}) != 1:
        raise ValueError(f"{name}: three rows of one length are needed")
    params = dict(pair.split("=") for pair in keys.pop("params", "").split())
    scene = Scene(
        expected_action=Action(keys.pop("action")),
        window=Window(rows["window"].index("[") * CHARACTER_NS,
                      (rows["window"].index("]") + 1) * CHARACTER_NS),
        model=spans(rows["model"]), user=spans(rows["user"]),
        recorded_ns=len(rows["user"]) * CHARACTER_NS,
        params=CaseParams(**{key: number(value) for key, value in params.items()}),
        target_text=keys.pop("target", None), transcript=transcript(says),
        forced=keys.pop("forced", "no") == "yes")
    return Timeline(name, scene, keys.pop("expect"), tuple(keys.pop("flags", "").split()),
                    {key: value_of(value) for key, value in keys.items()})


def spans(row: str) -> Spans:
    """Runs of `#` as nanoseconds."""
    if set(row) - set("#."):
        raise ValueError(f"speech rows are drawn with # and ., got {row!r}")
    return Spans.of((i * CHARACTER_NS, (i + 1) * CHARACTER_NS)
                    for i, character in enumerate(row) if character == "#")


def transcript(says: list[str]) -> tuple[TimedText, ...] | None:
    """`["1.2 four one"]`; no line is a system that said nothing, `none` one without text."""
    if says == ["none"]:
        return None
    pieces = [line.partition(" ") for line in says]
    return tuple(TimedText(text, round(float(at) * NS_PER_S), round(float(at) * NS_PER_S) + 1)
                 for at, _, text in pieces)


def number(text: str) -> int | float:
    """An int where it is written as one."""
    return int(text) if text.isdigit() else float(text)


def value_of(text: str) -> object:
    """`none`, `yes`, `no`, a number or a word."""
    words: dict[str, object] = {"none": None, "yes": True, "no": False}
    if text in words:
        return words[text]
    try:
        return number(text)
    except ValueError:
        return text
