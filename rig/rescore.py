"""`rig rescore`: the same verdicts for recordings that others made.

One manifest line is one case. A line that cannot be understood stops the command; a recording
that cannot be used leaves its case unscored with the reason, and the others go on.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audio.buffers import Float32
from audio.errors import AudioFileError, InputError
from audio.files import (
    AudioInfo,
    channel_pair,
    probe,
    read_analysis_channel,
    require_channel,
    sha256_file,
)
from audio.json_keys import KeyTwiceError, loads_once
from audio.levels import full_scale
from audio.spans import Spans
from audio.timebase import n_to_ns, s_to_ns
from audio.vad import VadSettings
from probes.manifest import ActionName, Params, WindowSpec
from rig.activity import Channel, analyse, detected_ns
from rig.level_flags import level_flags
from rig.one_signal import OneSignal
from rig.scenes import Identity, case_params
from rig.scoring import CHUNK, Measured
from rig.store import first_problem
from verifiers.measurement import measure
from verifiers.scene import Action, Scene, TimedText, Window
from verifiers.thresholds import check_params

MAX_WINDOW_S = 1_000_000.0
"""Eleven days: no recording is longer; ours."""
MAX_LINE_BYTES = 1_000_000
"""A manifest line longer than this is not one; ours."""

_NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Kinds of characters that no id may hold: they break lines and tables. `/` and blanks may be."""


class RescoreLine(BaseModel):
    """One line of the manifest (contract: "Manifest for recordings that others made")."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: Annotated[str, Field(min_length=1, max_length=200)]
    wav: Annotated[str, Field(min_length=1)]
    expected_action: ActionName
    window: WindowSpec
    user_channel: Annotated[int, Field(ge=0, le=1023)] = 0
    model_channel: Annotated[int, Field(ge=0, le=1023)] = 1
    params: Params | None = None
    target_text: str | None = None
    transcript: str | None = None
    role: str | None = None
    probe: str | None = None
    level: Literal["L0", "L1", "L2", "L3", "L4a", "L4b"] | None = None

    @property
    def identity(self) -> Identity:
        return Identity(self.id, 1, self.role, self.probe, self.level,
                        Action(self.expected_action), case_params(self.params or Params()))


def read_manifest(path: Path) -> list[RescoreLine]:
    """Every line, checked. Raises `InputError` that names file and line."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError.expected("a manifest of one JSON object a line", got="no regular file",
                                  where=path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError.expected("a manifest of one JSON object a line",
                                  got=error.strerror or "an unreadable file",
                                  where=path) from error
    lines: dict[str, RescoreLine] = {}
    data = data.removeprefix(codecs.BOM_UTF8)
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        line = _line(raw, f"{path}:{number}")
        if line.id in lines:
            raise InputError.expected("an id of its own", got=f"{line.id!r} again",
                                      where=f"{path}:{number}")
        lines[line.id] = line
    if not lines:
        raise InputError.expected("at least one JSON object", got="none", where=path)
    return list(lines.values())


def _line(raw: bytes, where: str) -> RescoreLine:
    if len(raw) > MAX_LINE_BYTES:
        raise InputError.expected(f"a line of at most {MAX_LINE_BYTES} bytes", got=len(raw),
                                  where=where)
    _check_text(raw, where)
    try:
        line = RescoreLine.model_validate_json(raw)
        if line.window.end_s <= line.window.start_s:
            raise InputError(f"{where}: window must end after it starts, got start_s "
                             f"{line.window.start_s:g} and end_s {line.window.end_s:g}")
        window = Window(s_to_ns(line.window.start_s), s_to_ns(line.window.end_s))
    except ValidationError as error:
        raise InputError.expected("one case of a rescore manifest",
                                  got=first_problem(error, RescoreLine), where=where) from error
    except ValueError as error:
        raise InputError(f"{where}: window: {error}") from error
    if line.window.end_s > MAX_WINDOW_S:
        raise InputError.expected(f"a window that ends before {MAX_WINDOW_S:g} s",
                                  got=line.window.end_s, where=where)
    if window.start_ns < 0:
        raise InputError.expected("a window that starts at 0 s or later",
                                  got=line.window.start_s, where=where)
    if line.user_channel == line.model_channel:
        raise InputError.expected("two different channels for user and model",
                                  got=f"{line.user_channel} for both", where=where)
    try:
        check_params(line.identity.params)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    wav = PurePosixPath(line.wav)
    if wav.is_absolute() or ".." in wav.parts or "\\" in line.wav or "\0" in line.wav:
        raise InputError.expected("a path inside the --audio folder", got=repr(line.wav),
                                  where=where)
    return line


def _check_text(raw: bytes, where: str) -> None:
    """Raise `InputError` for what a JSON reader takes without a word or cannot tell well."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError.expected("UTF-8 text", got=f"byte 0x{raw[error.start]:02x} at position "
                                  f"{error.start} of the line", where=where) from error
    try:
        found = loads_once(text)
    except KeyTwiceError as error:
        raise InputError(f"{where}: {error}") from None
    except (ValueError, RecursionError):
        return  # the model below says what is wrong with it
    name = found.get("id") if isinstance(found, dict) else None
    if isinstance(name, str) and any(unicodedata.category(c) in _NO_NAME for c in name):
        raise InputError.expected("an id without control characters", got=ascii(name[:60]),
                                  where=where)


def check_audio_folder(audio_dir: Path) -> None:
    """Raise `InputError` when there is no such folder."""
    if not audio_dir.is_dir():
        raise InputError.expected("a folder with the recordings", got="no such folder",
                                  where=audio_dir)


def measure_manifest(
    lines: Sequence[RescoreLine], audio_dir: Path, vad: VadSettings, cache_dir: Path,
    progress: Callable[[int, int], None] | None = None,
) -> list[Measured]:
    """Measure every line, in order."""
    check_audio_folder(audio_dir)
    out: list[Measured] = []
    for first in range(0, len(lines), CHUNK):
        out += _measure_chunk(lines[first : first + CHUNK], audio_dir, vad, cache_dir)
        if progress is not None:
            progress(len(out), len(lines))
    return out


def _measure_chunk(lines: Sequence[RescoreLine], audio_dir: Path, vad: VadSettings,
                   cache_dir: Path) -> list[Measured]:
    recordings: list[_Recording | Measured] = []
    for line in lines:
        try:
            recordings.append(_Recording(line, audio_dir / line.wav))
        except AudioFileError as error:
            recordings.append(_unusable(line, str(error)))
    channels = [c for r in recordings if isinstance(r, _Recording) for c in r.channels()]
    activities = iter(zip(channels, analyse(channels, cache_dir), strict=True))
    out: list[Measured] = []
    for recording in recordings:
        if isinstance(recording, Measured):
            out.append(recording)
            continue
        spans: list[Spans] = []
        problem: AudioFileError | None = None
        for _ in recording.wanted:
            channel, activity = next(activities)
            if isinstance(activity, AudioFileError):
                problem = activity
                continue
            try:
                spans.append(detected_ns(activity, channel, vad))
            except AudioFileError as error:
                problem = error
        out.append(recording.measured(spans, vad) if problem is None
                   else _unusable(recording.line, str(problem)))
    return out


def _unusable(line: RescoreLine, problem: str) -> Measured:
    return Measured(line.identity, None, problem, "hold", same_as_hold=True)


class _Recording:
    """One manifest line with its file looked at: which channels to analyse, and the scene."""

    def __init__(self, line: RescoreLine, path: Path) -> None:
        self.line = line
        self._path = path
        info = probe(path)
        require_channel(info, line.model_channel)
        require_channel(info, line.user_channel)
        self._recorded_ns = n_to_ns(info.frames_n, info.rate_hz)
        if info.frames_n == 0:
            raise AudioFileError.expected("a recording with samples", got="an empty one",
                                          where=path)
        self._flags = {code for code, _ in info.warnings} | self._look(info)
        # No other verdict reads the user's side, so no other pays for its inference.
        self.wanted = ([line.model_channel, line.user_channel]
                       if line.expected_action == "ACCEPT_OVERLAP" else [line.model_channel])

    def _look(self, info: AudioInfo) -> set[str]:
        """One pass over both channels: flags of the model's; raises where both are one signal."""
        both = OneSignal()

        def model() -> Iterator[Float32]:
            for user, samples in channel_pair(self._path, self.line.user_channel,
                                              self.line.model_channel):
                both.push(user, samples)
                yield samples

        flags = level_flags(model(), info.rate_hz, full_scale(info.subtype))
        if both.found:
            raise AudioFileError.expected(
                "the user on one channel and the model on the other",
                got=f"one signal on both (correlation {both.correlation:.3f}): nothing can be said "
                "of the model", where=self._path)
        return flags

    def channels(self) -> list[Channel]:
        """What the detector has to see."""
        content = sha256_file(self._path)

        def channel(index: int) -> Channel:
            return Channel(f"{content} channel {index}",
                           lambda: read_analysis_channel(self._path, index)[0])

        return [channel(index) for index in self.wanted]

    def measured(self, spans: Sequence[Spans], vad: VadSettings) -> Measured:
        line = self.line
        model, user = spans[0], spans[1] if len(spans) > 1 else Spans()
        transcript = (None if line.transcript is None
                      else (TimedText(line.transcript, 0, self._recorded_ns),))
        scene = Scene(
            expected_action=Action(line.expected_action),
            window=Window(s_to_ns(line.window.start_s), s_to_ns(line.window.end_s)),
            model=model, user=user, recorded_ns=self._recorded_ns,
            params=case_params(line.params or Params()), target_text=line.target_text,
            transcript=transcript, readback_from_ns=0,
            merge_gap_ns=s_to_ns(vad.merge_gap_s))
        return Measured(
            identity=line.identity, measurement=measure(scene), problem=None, playout="hold",
            same_as_hold=True, flags=tuple(sorted(self._flags)),
            recorded_ns=self._recorded_ns, user=user, model=model,
            window_ns=(scene.window.start_ns, scene.window.end_ns))
