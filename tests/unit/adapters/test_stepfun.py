"""The StepFun adapter's declaration, and the session of the beta dialect, event by event."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from adapters import registry
from adapters.base import AgentEvent, Fault, ResponseDone, ResponseStarted, SessionConfig
from adapters.stepfun import _SESSION_SETTINGS, SETTINGS
from adapters.wire.beta_session import BetaSessionSettings
from adapters.wire.openai_realtime import RealtimeWire
from audio.errors import InputError

KEY = "step-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPFUN_API_KEY", KEY)


def test_the_defaults_are_the_papers_and_the_declared_ones_those_of_the_protocol() -> None:
    # DSB-IFEval, appendices E.1, E.2, F.4
    settings = registry.create("stepfun").settings
    assert {k: settings[k] for k in ("model", "voice", "vad_silence_duration_ms", "input_rate_hz",
                                     "output_rate_hz")} == {
        "model": "stepaudio-3-realtime-preview", "voice": "soft-spoken-gentleman",
        "vad_silence_duration_ms": 800, "input_rate_hz": 24_000, "output_rate_hz": 24_000}
    declared = {s.name: s.default for s in SETTINGS if s.name in _SESSION_SETTINGS}
    assert declared == {name: getattr(BetaSessionSettings(), name)
                        for name in BetaSessionSettings.__dataclass_fields__}


def test_what_it_can_do_follows_its_settings() -> None:
    can = registry.create("stepfun").capabilities
    assert can.full_duplex
    assert can.reports_response_done
    assert can.reports_interruption
    assert can.transcript == "response"
    changed = registry.create("stepfun", {
        "interrupt_on_speech": "false", "input_rate_hz": "16000"}).capabilities
    assert not changed.reports_interruption
    assert (changed.input_rate_hz, changed.output_rate_hz) == (16_000, 24_000)


def test_settings_and_version_hold_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = registry.create("stepfun")
    assert KEY not in repr((adapter, vars(adapter), adapter.settings, adapter.version))
    assert "+stepfun." in adapter.version
    monkeypatch.delenv("STEPFUN_API_KEY")
    with pytest.raises(InputError, match="STEPFUN_API_KEY is not set"):
        registry.create("stepfun")
    with pytest.raises(InputError, match="STEPFUN_API_KEY: expected a key in the environment"):
        adapter.session(SessionConfig("R1-A-1-L0", 1, "", 1), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("setting", "value", "message"), [
    ("base_url", "ws://api.stepfun.com/v1", r"--set base_url \(adapter stepfun\): expected"),
    ("voice", "", r"--set voice \(adapter stepfun\): expected a name, got ''"),
    ("input_rate_hz", "22051", r"--set input_rate_hz \(adapter stepfun\): expected a multiple of "
                               "50, got 22051"),
    ("vad_energy_threshold", "5001", "a whole number from -1 to 5000"),
    ("vad_threshold", "0.5", "did you mean 'vad_energy_threshold'")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    setting: str, value: str, message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("stepfun", {setting: value})


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('stepfun'); "
            "sys.exit(any(m.split('.')[0] == 'websockets' or m.startswith('adapters.wire') "
            "for m in sys.modules))")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)


# the wire, with the settings of the dialect

class Driven:
    def __init__(self, prompt: str = "Be kind.", **changes: Any) -> None:
        self.settings = BetaSessionSettings(**changes)
        self.wire = RealtimeWire(self.settings, prompt)
        self.events: list[AgentEvent] = []
        self.give({"type": "session.created", "session": {"id": "s"}})

    def give(self, event: dict[str, Any]) -> tuple[str | bytes, ...]:
        output = self.wire.receive(json.dumps(event).encode(), 0)
        self.events += output.events
        return output.messages

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]


@pytest.mark.parametrize(("changes", "prompt", "sent"), [
    ({}, "", {"instructions": ""}),
    ({"empty_prompt": "omit"}, "", {}),
    ({"empty_prompt": "omit"}, "Hi", {"instructions": "Hi"}),
    ({"max_output_tokens": 7}, "Hi", {"instructions": "Hi", "max_response_output_tokens": 7})])
def test_what_is_off_is_left_out(
    changes: dict[str, Any], prompt: str, sent: dict[str, Any],
) -> None:
    session = BetaSessionSettings(**changes).session(prompt)
    assert {k: v for k, v in session.items()
            if k in ("instructions", "max_response_output_tokens")} == sent


def test_a_second_created_confirms_only_the_session_that_was_asked_for() -> None:
    d = Driven()
    asked = d.settings.session("Be kind.")
    assert d.give({"type": "session.created", "session": {**asked, "voice": "x"}}) == ()
    assert not d.wire.ready
    d.give({"type": "session.created", "session": {**asked, "output_audio_format": "g711_alaw"}})
    assert not d.wire.ready
    assert d.of(Fault) == []
    d.give({"type": "session.created", "session": {**asked, "modalities": ["audio", "text"]}})
    assert d.wire.ready


@pytest.mark.parametrize(("change", "reason"), [
    ({"output_audio_format": "g711_alaw"}, "another audio format: output_audio_format: g711_alaw "
                                           "instead of pcm16"),
    ({"input_audio_format": "g711_alaw"}, "another audio format: input_audio_format"),
    ({"modalities": ["text"]}, 'modalities: ["text"] instead of ["text","audio"]'),
    ({"turn_detection": None}, "turn_detection.type: turn detection is off"),
    ({"turn_detection": {"type": "server_vad", "silence_duration_ms": 100}},
     "turn_detection.silence_duration_ms: 100 instead of 800")])
def test_another_session_than_the_one_asked_for_is_told(
    change: dict[str, Any], reason: str,
) -> None:
    d = Driven()
    d.give({"type": "session.updated", "session": {**d.settings.session("Be kind."), **change}})
    (fault,) = d.of(Fault)
    assert fault.severity == "infrastructure"
    assert reason in fault.reason
    assert not d.wire.ready


def test_frames_have_the_length_of_the_rate() -> None:
    wire = RealtimeWire(BetaSessionSettings(input_rate_hz=16_000), "")
    (message,) = wire.audio(np.zeros(320, dtype=np.float32))
    assert json.loads(message)["type"] == "input_audio_buffer.append"
    with pytest.raises(ValueError, match=r"expected a frame of shape \(320,\), got \(480,\)"):
        wire.audio(np.zeros(480, dtype=np.float32))


@pytest.mark.parametrize("end", [
    {"type": "response.cancelled", "response_id": "r1"},
    {"type": "response.cancelled", "response": {"id": "r1"}},
    {"type": "response.cancelled", "response": {"id": "r1", "status": "in_progress"}},
    {"type": "response.cancelled", "response": "r1"},
    {"type": "response.cancelled"},
    {"type": "response.done", "response": {"id": "r1", "status": "cancelled"}}])
def test_a_cancelled_response_ends_once_whatever_says_so(end: dict[str, Any]) -> None:
    d = Driven()
    d.give({"type": "response.created", "response": {"id": "r1"}})
    d.give(end)
    d.give({"type": "response.done", "response": {"id": "r1", "status": "cancelled"}})
    assert d.of(ResponseDone) == [ResponseDone(0, "r1", "cancelled")]


def test_a_beginning_that_is_called_an_end_is_a_beginning() -> None:
    d = Driven()
    d.give({"type": "response.done", "response": {"id": "r1", "status": "in_progress"}})
    assert d.of(ResponseStarted) == [ResponseStarted(0, "r1")]
    assert d.of(ResponseDone) == []
    d.give({"type": "response.done", "response": {"id": "r1", "status": "completed"}})
    assert d.of(ResponseDone) == [ResponseDone(0, "r1", "completed")]


def test_every_other_event_of_the_dialect_is_known() -> None:
    d = Driven()
    d.events.clear()
    for kind in ("response.thinking.delta", "response.thinking.done", "conversation.item.created",
                 "response.output_item.added", "response.content_part.done",
                 "input_audio_buffer.committed",
                 "conversation.item.input_audio_transcription.completed"):
        d.give({"type": kind, "delta": "x" * 5000})
    assert all(e.name != "unknown_event" for e in d.events)  # type: ignore[union-attr]
    assert "xxx" not in repr(d.events)
