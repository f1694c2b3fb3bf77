"""`rig conditions`: what `rig run --condition` takes, and what it sounds like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from adapters.simulated import voice
from audio.active_level import active_level
from audio.buffers import Float32
from audio.condition_text import described, parse_all
from audio.conditions import Context, apply
from audio.edges import trim
from audio.errors import InputError
from audio.files import write_wav_pcm16
from audio.noise import TALKERS_N, at_unit_level
from audio.resample import resample
from audio.suggest import did_you_mean
from audio.synthesis import DEFAULT_ENGINE, engine
from audio.timebase import SESSION_RATE_HZ, s_to_n
from probes.expand import base_stream_id
from probes.render import load_built
from rig.check import sentence
from rig.console import Output

REPLY_S = (0.7, 2.5)
"""In a demonstration the system speaks this long after the first turn, for this long."""
PAUSE_S = 0.6
TAIL_S = 1.0


@click.command("conditions")
@click.option("--condition", "conditions", multiple=True, metavar="KIND=VALUE",
              help="As for rig run; may be repeated.")
@click.option("--demo", type=click.Path(path_type=Path), metavar="OUT.wav",
              help="Write what a system would hear under these conditions, at 24 kHz.")
@click.option("--suite", "suite_dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Take the speech of a built suite; with --case.")
@click.option("--case", "case_id", metavar="CASE", help="Whose speech; default: the first case.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(conditions: tuple[str, ...], demo: Path | None, suite_dir: Path | None,
            case_id: str | None, as_json: bool) -> int:
    """List the line conditions for `rig run --condition`, or let one hear them.

    A demonstration is two turns of a user with a reply of the system between them, of which only
    the echo can be heard. Without --suite the default voice speaks.

    \b
    Example:
      rig conditions
      rig conditions --condition noise=babble:10,line=ulaw --demo demo.wav
    """
    output = Output(as_json=as_json)
    if demo is None:
        if conditions or suite_dir is not None or case_id is not None:
            raise InputError("rig conditions: expected --demo OUT.wav with --condition, --suite "
                             "and --case, got none")
        print_conditions(output)
        output.document({"conditions": described()})
        return 0
    chosen = parse_all(conditions)
    turns, voices = _of_suite(suite_dir, case_id) if suite_dir is not None else _of_engine(case_id)
    user, system = _scene(*turns)
    level = active_level(np.concatenate(turns), SESSION_RATE_HZ)

    def heard(start_n: int, n: int) -> Float32:
        # Both ends lie in silence.
        return system[np.clip(np.arange(start_n, start_n + n), 0, len(system) - 1)]

    context = Context(SESSION_RATE_HZ, case_id or "demo", 1,
                      None if level is None else level.level_dbov, heard,
                      lambda: [at_unit_level(v, SESSION_RATE_HZ) for v in voices()])
    sent, chain = apply(chosen, user, context)
    write_wav_pcm16(demo, sent, SESSION_RATE_HZ)
    achieved = chain.achieved()
    output.line(f"{demo}: {len(sent) / SESSION_RATE_HZ:.1f} s, "
                + (", ".join(c.text for c in chosen) or "no condition"))
    output.table("came to", ["what", "value"], list(achieved.items()))
    output.document({"demo": str(demo), "conditions": [c.text for c in chosen],
                     "achieved": achieved})
    return 0


def print_conditions(output: Output) -> None:
    """What can be asked for, in the order in which it acts."""
    for entry in described():
        output.line(f"{entry['usage']}")
        output.line(f"    {entry['what']}")
        for value in entry["values"]:
            output.line(f"    {value['name']}: {value['what']} ({value['allowed']})")
        output.line(f"    example: --condition {entry['example']}")
    output.line("They act in this order. More than one: --condition twice, or a comma between.")


def _scene(turn1: Float32, turn2: Float32) -> tuple[Float32, Float32]:
    """User and system of a demonstration, equally long; both end in silence."""
    starts_n = len(turn1) + s_to_n(REPLY_S[0], SESSION_RATE_HZ)
    reply = voice.talk(REPLY_S[1]).samples
    turn2_n = starts_n + len(reply) + s_to_n(PAUSE_S, SESSION_RATE_HZ)
    user = np.zeros(turn2_n + len(turn2) + s_to_n(TAIL_S, SESSION_RATE_HZ), dtype=np.float32)
    system = np.zeros_like(user)
    user[: len(turn1)] = turn1
    user[turn2_n : turn2_n + len(turn2)] = turn2
    system[starts_n : starts_n + len(reply)] = reply
    system[0] = system[-1] = 0.0
    return user, system


_Speech = tuple[tuple[Float32, Float32], Any]


def _of_suite(suite_dir: Path, case_id: str | None) -> _Speech:
    built = load_built(suite_dir)
    cases = {case.case_id: case for case in built.cases}
    chosen = cases.get(case_id) if case_id is not None else next(iter(built.cases), None)
    if chosen is None:
        raise InputError(f"--case: expected a case of {suite_dir}, got {case_id!r}"
                         f"{did_you_mean(case_id or '', cases)}")
    own = built.streams[chosen.stream_id]

    def voices() -> list[Float32]:
        others = {base_stream_id(s.stream_id): s for s in built.streams.values()}
        others.pop(base_stream_id(own.stream_id))
        return [built.samples(s.turn2) for s in list(others.values())[:TALKERS_N]]

    return (built.samples(own.turn1), built.samples(own.turn2)), voices


def _of_engine(case_id: str | None) -> _Speech:
    if case_id is not None:
        raise InputError.expected("--suite DIR with --case", got="none", where="rig conditions")
    speaker = engine(DEFAULT_ENGINE)

    def say(number: int, text: str) -> Float32:
        names = speaker.voices()
        samples = speaker.synthesize(text, names[(7 * number) % len(names)], 1)
        trimmed, _ = trim(resample(samples, speaker.sample_rate_hz, SESSION_RATE_HZ),
                          SESSION_RATE_HZ)
        return trimmed

    def voices() -> list[Float32]:
        return [say(number, text) for number, text in enumerate(voice.TALK[:TALKERS_N], start=1)]

    return (sentence(), say(0, voice.TALK[0])), voices
