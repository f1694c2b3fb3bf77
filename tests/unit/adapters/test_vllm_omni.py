"""The vLLM-Omni adapter's declaration, and its protocol, message by message."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.vllm_omni import PRESETS, VLLM_OMNI, _path, wire_settings
from adapters.wire import event_stream
from adapters.wire.vllm_omni import LOGGED, DuplexWire
from adapters.wire.vllm_omni_session import DuplexSettings
from audio.errors import InputError
from audio.files import write_wav_pcm16

PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()
MS = 1_000_000
MODEL = "openbmb/MiniCPM-o-4_5"
ALL_MODELS = pytest.mark.parametrize("model", PRESETS)


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    path = tmp_path / "voice.wav"
    write_wav_pcm16(path, np.arange(-800, 800, dtype=np.int16), 16_000)
    return path


# the declaration

def effective(voice: Path | None, **given_: str) -> dict[str, Any]:
    named = {} if voice is None else {"ref_audio": str(voice)}
    return VLLM_OMNI.effective({**named, **given_})


def test_the_presets_are_those_of_the_projects_client(voice: Path) -> None:
    asked = {model: wire_settings(effective(None, model=model)).session("Be kind.")
             for model in ("personaplex", "nemotron")}
    asked["minicpm_o"] = wire_settings(effective(voice)).session("Be kind.")
    url = f"data:audio/wav;base64,{base64.b64encode(voice.read_bytes()).decode()}"
    common = {"modalities": ["audio", "text"], "output_audio_format": "pcm16",
              "turn_detection": None, "instructions": "Be kind."}
    assert asked == {
        "minicpm_o": {
            **common, "model": MODEL, "input_audio_format": "pcm16", "sample_rate_hz": 16_000,
            "audio": {"input": {"sample_rate_hz": 16_000}, "output": {"sample_rate_hz": 24_000}},
            "ref_audio": url, "overlap_policy": "listen_only",
            "playback_commit_policy": "ack_only",
            "extra_body": {"auto_response": True, "force_listen_count": 0}},
        "personaplex": {
            **common, "model": "nvidia/personaplex-7b-v1", "input_audio_format": "pcm_f32le",
            "sample_rate_hz": 24_000,
            "audio": {"input": {"sample_rate_hz": 24_000}, "output": {"sample_rate_hz": 24_000}},
            "voice": "NATF2.pt", "extra_body": {"auto_response": True}},
        "nemotron": {
            **common, "model": "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B",
            "input_audio_format": "pcm_f32le", "sample_rate_hz": 16_000,
            "audio": {"input": {"sample_rate_hz": 16_000}, "output": {"sample_rate_hz": 22_050}},
            "extra_body": {"auto_response": True}}}


@pytest.mark.parametrize(("model", "sent"), [("minicpm_o", None), ("personaplex", ""),
                                             ("nemotron", None)])
def test_an_empty_prompt_is_sent_where_the_client_sends_one(
    voice: Path, model: str, sent: str | None,
) -> None:
    assert wire_settings(effective(voice, model=model)).session("").get("instructions") == sent


def test_rates_and_ends_are_the_models(voice: Path) -> None:
    def can(**more: str) -> tuple[Any, ...]:
        found = registry.create("vllm-omni", {"ref_audio": str(voice), **more}).capabilities
        return (found.input_rate_hz, found.output_rate_hz, found.reports_response_done,
                found.reports_interruption)

    assert can() == (16_000, 24_000, True, True)
    assert can(model="personaplex") == (24_000, 24_000, False, False)
    assert can(model="nemotron") == (16_000, 22_050, False, False)
    assert can(model="nemotron", reply_end="response_done") == (16_000, 22_050, True, False)
    assert can(reply_end="silence")[2] is False


def test_the_endpoint_names_the_model_and_lets_nothing_start_by_itself(voice: Path) -> None:
    assert _path(effective(voice)) == \
        "/v1/realtime?duplex=1&model=openbmb%2FMiniCPM-o-4_5&autostart=0"
    assert "model=a%26b%3D1&" in _path(effective(voice, served_model="a&b=1"))


def test_the_voice_itself_is_part_of_the_version(voice: Path, tmp_path: Path) -> None:
    other, same = tmp_path / "other.wav", tmp_path / "same.wav"
    write_wav_pcm16(other, np.arange(-800, 799, dtype=np.int16), 16_000)
    same.write_bytes(voice.read_bytes())
    one, moved, another = (registry.create("vllm_omni", {"ref_audio": str(p)}).version
                           for p in (voice, same, other))
    assert "+vllm-omni.1+ref." in one
    assert one == moved != another
    assert "ref" not in registry.create("vllm_omni", {"model": "nemotron"}).version


@pytest.mark.parametrize(("changes", "message"), [
    ({"model": "minicpm_o", "ref_audio": ""}, r"--set ref_audio \(adapter vllm_omni\): expected a "
     r"WAV file with a voice: the server opens no session of minicpm_o without one, got none"),
    ({"ref_audio": "/no/such.wav"}, r"/no/such.wav"),
    ({"model": "qwen"}, "one of minicpm_o, personaplex, nemotron"),
    ({"append_ms": "100"}, "one of preset, 20, 40, 80"),
    ({"served_model": "a\nb"}, r"--set served_model \(adapter vllm_omni\): expected a name"),
    ({"session": "[1]"}, r"--set session \(adapter vllm_omni\): expected a JSON object"),
    ({"session": "{" * 2_000}, r"--set session .*expected a JSON object"),
    ({"session": '{"temperature": NaN}'}, r"--set session .*expected a JSON object"),
    ({"session": '{"extra_body": 1}'}, r"--set session .*\(extra_body in it: one, too\)"),
    ({"session": '{"voice": "x", "model": "y"}'}, r"no other setting makes, got model, voice"),
    ({"url": "ws://example.org"}, r"--set url|allow_plain_ws"),
    ({"close_timeout_s": "8"}, "a number from 0 to 7.5")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    voice: Path, changes: dict[str, str], message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("vllm_omni", {"ref_audio": str(voice), **changes})


def test_a_voice_that_is_no_wav_or_empty_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.wav"
    write_wav_pcm16(empty, np.zeros(0, dtype=np.int16), 16_000)
    with pytest.raises(InputError, match=r"expected a WAV file with sound .* 0 samples"):
        registry.create("vllm_omni", {"ref_audio": str(empty)})


def test_a_voice_that_is_gone_when_it_is_wanted_is_told_in_one_line(voice: Path) -> None:
    settings = effective(voice)
    voice.unlink()
    with pytest.raises(InputError, match=r"voice.wav: cannot read: No such file"):
        wire_settings(settings)


def test_further_fields_are_merged_and_win(voice: Path) -> None:
    more = '{"temperature": 0.6, "extra_body": {"native_duplex": true, "force_listen_count": 3}}'
    asked = wire_settings(effective(voice, session=more)).session("")
    assert asked["temperature"] == 0.6
    assert asked["extra_body"] == {"auto_response": True, "force_listen_count": 3,
                                   "native_duplex": True}


def test_it_says_that_no_server_was_run(voice: Path) -> None:
    assert VLLM_OMNI.unverified is not None
    assert "no server of vLLM-Omni has run here" in VLLM_OMNI.unverified


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('vllm_omni'); "
            "sys.exit(any(m.split('.')[0] == 'websockets' or m.startswith('adapters.wire') "
            "for m in sys.modules))")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)


# the wire

class Driven:
    def __init__(self, *, ready: bool = True, prompt: str = "Be kind.",
                 capabilities: dict[str, Any] | None = None, **changes: Any) -> None:
        self.settings = DuplexSettings(**{
            "model": MODEL, "playback_commit_policy": "ack_only", **changes})
        self.wire = DuplexWire(self.settings, prompt)
        self.events: list[AgentEvent] = []
        self.said: list[dict[str, Any]] = []
        self._seq = 0
        if ready:
            self.created(capabilities=capabilities)
            assert self.wire.ready
            self.events.clear()
            self.said.clear()

    def created(self, capabilities: Any = None, **changes: Any) -> None:
        session = self.settings.session("Be kind.")
        session.pop("audio")
        self.give({"type": "session.created", "session": {
            **session, "id": "duplex-1", "capabilities": capabilities or {"chunk_period_ms": 1000},
            **changes}})

    def give(self, event: dict[str, Any], t_ms: int = 0) -> None:
        self._seq += 1
        self.raw({"server_event_seq": self._seq, **event}, t_ms)

    def raw(self, event: Any, t_ms: int = 0) -> None:
        output = self.wire.receive(json.dumps(event).encode(), t_ms * MS)
        self.events += output.events
        self.said += [json.loads(m) for m in output.messages]

    def audio(self, data: bytes, t_ms: int = 0, *, response: str = "r1",
              kind: str = "response.output_audio.delta", **more: Any) -> None:
        self.give({"type": kind, "response_id": response, "item_id": f"item_{response}",
                   "delta": base64.b64encode(data).decode(), "format": "pcm16",
                   "sample_rate_hz": self.settings.output_rate_hz, **more}, t_ms)

    def text(self, text: Any, response: str = "r1") -> None:
        self.give({"type": "response.output_audio_transcript.delta", "response_id": response,
                   "delta": text})

    def begin(self, response: str = "r1") -> None:
        self.give({"type": "response.created", "response_id": response,
                   "response": {"id": response, "status": "in_progress"}})

    def done(self, response: str = "r1", status: str = "completed", t_ms: int = 0,
             **more: Any) -> None:
        self.give({"type": "response.done", "response_id": response,
                   "response": {"id": response, "status": status, **more}}, t_ms)

    def tick(self, t_ms: int) -> list[dict[str, Any]]:
        return [json.loads(m) for m in self.wire.tick(t_ms * MS)]

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    def acks(self) -> list[dict[str, Any]]:
        return [m for m in self.said if m["type"] == "playback.ack"]


def test_the_first_update_opens_the_session() -> None:
    d = Driven(ready=False)
    (message,) = d.wire.opening()
    assert json.loads(message) == {"event_id": "session_1", "type": "session.update",
                                   "session": d.settings.session("Be kind.")}
    assert d.wire.due_ns is None


@pytest.mark.parametrize(("change", "strict", "reason"), [
    ({"capabilities": None}, False, "expected capabilities, got none"),
    ({"capabilities": {"supports_input_append": False}}, False, "supports_input_append is false"),
    ({"output_audio_format": "g711_ulaw"}, False,
     "another audio format: output_audio_format: g711_ulaw instead of pcm16"),
    ({"input_audio_format": "pcm_s16le"}, True, None),
    ({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}}, False,
     "audio.output.format.rate: 16000 instead of 24000"),
    ({"audio": {"input": {"sample_rate_hz": 24000}}}, False,
     "audio.input.sample_rate_hz: 24000 instead of 16000"),
    ({"audio": {"input": {"sample_rate_hz": True}}}, False,
     "audio.input.sample_rate_hz: true instead of 16000"),
    ({"playback_commit_policy": "commit_all_on_done"}, True,
     "playback_commit_policy: commit_all_on_done instead of ack_only"),
    ({"playback_commit_policy": "commit_all_on_done"}, False, None),
    ({"model": "other"}, True, f"did not apply .*model: other instead of {MODEL}")])
def test_the_session_that_is_reported_is_compared(
    change: dict[str, Any], strict: bool, reason: str | None,
) -> None:
    d = Driven(ready=False, strict_session=strict)
    session = {**d.settings.session("Be kind."), "id": "s", "audio": None,
               "capabilities": {"chunk_period_ms": 1000}, **change}
    d.give({"type": "session.created", "session": session})
    assert d.wire.ready == (reason is None)
    if reason is not None:
        (fault,) = d.of(Fault)
        assert fault.severity == "infrastructure"
        assert re.search(reason, fault.reason)
        assert fault.hopeless == ("capabilities" in change)


@pytest.mark.parametrize(("form", "rate_hz", "append_ms", "wanted_n"), [
    ("pcm16", 16_000, 20, 320), ("pcm_f32le", 16_000, 80, 1_280), ("pcm_f32le", 24_000, 40, 960)])
def test_user_audio_is_appended_in_the_models_format_and_measure(
    form: Any, rate_hz: int, append_ms: int, wanted_n: int,
) -> None:
    wire = DuplexWire(DuplexSettings(MODEL, input_format=form, input_rate_hz=rate_hz,
                                     append_ms=append_ms), "")
    k = append_ms // 20
    frames = [np.full(rate_hz // 50, i / 32_768, np.float32) for i in range(2 * k)]
    sent = [json.loads(m) for frame in frames for m in wire.audio(frame)]
    dtype, scale = ("<i2", 1) if form == "pcm16" else ("<f4", 32_768)
    for number, event in enumerate(sent, 1):
        samples = np.frombuffer(base64.b64decode(event.pop("audio")), dtype=dtype)
        assert event == {"event_id": f"audio_{number}", "type": "input_audio_buffer.append",
                         "format": form, "sample_rate_hz": rate_hz, "duration_ms": append_ms,
                         "audio_end_ms": number * append_ms}
        assert len(samples) == wanted_n
        assert list(samples[::rate_hz // 50] * scale) == list(range((number - 1) * k, number * k))
    assert len(sent) == 2
    with pytest.raises(ValueError, match="expected a frame of shape"):
        wire.audio(np.zeros(7, np.float32))
    with pytest.raises(ValueError, match="finite"):
        wire.audio(np.full(rate_hz // 50, np.nan, np.float32))


def test_every_numbered_event_is_acknowledged_once_and_a_gap_is_told() -> None:
    d = Driven()
    for seq in (7, 8, 8, 10, True, -1):
        d.raw({"type": "turn.event", "server_event_seq": seq})
    assert [m["server_event_seq"] for m in d.said] == [7, 8, 10]
    assert {m["type"] for m in d.said} == {"session.event_ack"}
    assert [f.reason for f in d.of(Fault)] == ["repeated event skipped: turn.event"]
    assert [e.detail for e in d.of(StateChanged) if e.name == "server_event_seq"] == [
        "7 after 1", "10 after 8"]


# responses

def test_a_response_begins_with_its_first_sound_and_ends_once() -> None:
    d = Driven()
    d.begin()
    d.give({"type": "response.speak", "response_id": "r1"})
    assert d.of(ResponseStarted) == []
    d.audio(PCM[:4_800])
    d.text("one")
    d.done()
    d.done()
    assert [(e.response_id, e.status) for e in d.of(ResponseDone)] == [("r1", "completed")]
    assert [e.response_id for e in d.of(ResponseStarted)] == ["r1"]
    assert [f.reason for f in d.of(Fault)] == ["response.done again for r1 skipped"]


def test_a_response_that_ends_in_listening_never_was_one() -> None:
    d = Driven()
    d.begin("r0")
    d.give({"type": "response.listen", "response_id": "r0", "response": {"status": "listening"}})
    d.done("r0")
    assert d.of(ResponseStarted) == d.of(ResponseDone) == d.of(Fault) == []


def test_units_of_listening_are_logged_once_a_run() -> None:
    d = Driven()
    for _ in range(5):
        d.give({"type": "response.listen", "epoch": 0})
    d.begin()
    d.audio(PCM[:480])
    d.give({"type": "response.listen", "epoch": 0})
    assert [e.name for e in d.of(StateChanged)].count("response.listen") == 2


def test_output_without_a_beginning_begins() -> None:
    d = Driven()
    d.audio(PCM[:480], response="rx")
    assert [e.response_id for e in d.of(ResponseStarted)] == ["rx"]
    assert [f.severity for f in d.of(Fault)] == ["transparent"]


def test_a_failed_response_ends_the_session() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:480])
    d.done(status="failed", status_details={"reason": "response_error"})
    assert d.of(Fault) == [Fault(0, "infrastructure", "response r1 failed: response_error")]


# audio and words

@given(cuts=st.lists(st.integers(1, 4_799), max_size=12))
def test_audio_in_any_pieces_is_the_same_audio(cuts: list[int]) -> None:
    d = Driven()
    for a, b in pairwise([0, *sorted(set(cuts)), 4_800]):
        d.audio(PCM[a:b])
    got = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert (got * 32768).astype("<i2").tobytes() == PCM[:4_800]
    assert {e.response_id for e in d.of(AudioReceived)} == {"r1"}
    assert all(f.severity == "transparent" for f in d.of(Fault))


@pytest.mark.parametrize(("more", "reason"), [
    ({"sample_rate_hz": 22_050}, "sample_rate_hz: 22050 instead of 24000"),
    ({"sample_rate_hz": True}, "sample_rate_hz: true instead of 24000"),
    ({"format": "pcm_f32le"}, "format: pcm_f32le instead of pcm16"),
    ({"delta": "!!!!"}, "expected base64")])
def test_audio_that_is_not_what_was_agreed_ends_the_session(
    more: dict[str, Any], reason: str,
) -> None:
    d = Driven()
    d.audio(PCM[:480], **more)
    assert d.of(AudioReceived) == []
    (fault,) = d.of(Fault)
    assert fault.severity == "infrastructure"
    assert reason in fault.reason


def test_a_piece_under_both_names_is_heard_once_and_a_repeated_sound_twice() -> None:
    for first, second in (("response.output_audio.delta", "response.audio.delta"),
                          ("response.audio.delta", "response.output_audio.delta")):
        d = Driven()
        d.begin()
        for _ in range(3):
            d.audio(bytes(960), kind=first)
            d.audio(bytes(960), kind=second)
        assert len(d.of(AudioReceived)) == 3
        assert len(d.of(Fault)) == 3
    d = Driven()
    for _ in range(3):
        d.audio(bytes(960))  # silence, three times
    d.audio(PCM[:960], kind="response.audio.delta")  # and another piece by the other name
    assert len(d.of(AudioReceived)) == 4
    assert [f.reason for f in d.of(Fault)] == ["output of r1 before its response.created"]


def test_words_begin_with_the_piece_of_audio_before_them() -> None:
    d = Driven()
    d.begin()
    d.text("early ")
    d.audio(PCM[:960])
    d.text("one")
    d.audio(PCM[:1_920])
    d.text(" two")
    d.text("")
    d.done()
    d.begin("r2")
    d.audio(PCM[:480], response="r2")
    d.text("three", response="r2")
    assert [(e.text, e.audio_n) for e in d.of(TextDelta)] == [
        ("early ", 0), ("one", 0), (" two", 480), (" three", 1_440)]
    assert d.of(Fault) == []


def test_words_are_placed_by_their_arrival_when_that_is_asked_for() -> None:
    d = Driven(transcript_times="arrival")
    d.audio(PCM[:960])
    d.text("one")
    assert [e.audio_n for e in d.of(TextDelta)] == [None]


def test_the_whole_transcript_adds_what_no_delta_brought() -> None:
    d = Driven()
    for response, deltas, whole in (("r1", ["It is"], "It is sunny"), ("r2", ["Now"], "Now"),
                                    ("r3", [], "All"), ("r4", ["cut off here"], "cut off")):
        d.begin(response)
        d.audio(PCM[:480], response=response)
        for delta in deltas:
            d.text(delta, response)
        d.give({"type": "response.output_audio_transcript.done", "response_id": response,
                "transcript": whole})
    assert "".join(e.text for e in d.of(TextDelta)) == "It is sunny Now All cut off here"
    assert d.of(Fault) == []
    d.give({"type": "response.output_audio_transcript.done", "response_id": "r1",
            "transcript": "something else"})
    assert "is not what its deltas said" in d.of(Fault)[0].reason


# playback and interruptions

def test_playback_is_told_while_it_lasts_and_no_longer() -> None:
    d = Driven(ack_interval_s=0.1)
    d.begin()
    d.audio(PCM[:24_000], t_ms=1_000)  # half a second
    assert d.wire.due_ns == 1_100 * MS
    assert d.tick(1_099) == []
    heard = []
    while (due_ns := d.wire.due_ns) is not None and due_ns < 20_000 * MS:
        heard += d.tick(due_ns // MS)
    assert [m["played_ms"] for m in heard] == [100, 200, 300, 400, 500]
    assert {k: v for k, v in heard[0].items() if k != "event_id"} == {
        "type": "playback.ack", "response_id": "r1", "item_id": "item_r1", "played_ms": 100,
        "committed_ms": 100}
    d.audio(PCM[:4_800], t_ms=3_000)
    assert [m["played_ms"] for m in d.tick(3_100)] == [600]


def test_what_was_due_is_said_before_an_event_is_read() -> None:
    d = Driven(ack_interval_s=0.1)
    d.begin()
    d.audio(PCM[:24_000], t_ms=0)
    d.said.clear()
    d.give({"type": "turn.event"}, t_ms=250)
    assert [(m["type"], m.get("played_ms")) for m in d.said] == [
        ("playback.ack", 250), ("session.event_ack", None)]


@pytest.mark.parametrize("policy", ["", "commit_all_on_done"])
def test_nothing_is_told_to_a_server_that_takes_all_for_heard(policy: str) -> None:
    d = Driven(playback_commit_policy=policy, heartbeat_s=0.0)
    d.begin()
    d.audio(PCM)
    assert d.wire.due_ns is None
    d.done(status="cancelled", t_ms=100)
    assert d.acks() == []
    assert len(d.of(Interrupted)) == 1


def barge_in(d: Driven) -> None:
    d.give({"type": "overlap.decision", "action": "barge_in", "reason": "x"}, t_ms=120)


def cleared(d: Driven) -> None:
    d.give({"type": "output_audio_buffer.cleared", "response_id": "r1"}, t_ms=120)


def cancelled(d: Driven) -> None:
    d.done(status="cancelled", t_ms=120, status_details={"reason": "barge_in"})


@pytest.mark.parametrize("first", [barge_in, cleared, cancelled])
def test_an_interruption_is_told_once_whatever_says_it_first(
    first: Callable[[Driven], None],
) -> None:
    d = Driven(capabilities={"supports_audio_truncate": True})
    d.begin()
    d.audio(PCM[:24_000])
    first(d)
    barge_in(d)
    cleared(d)
    cancelled(d)
    assert d.of(Interrupted) == [Interrupted(120 * MS, "r1")]
    (ack,) = d.acks()
    assert {k: v for k, v in ack.items() if k != "event_id"} == {
        "type": "playback.ack", "response_id": "r1", "item_id": "item_r1", "played_ms": 120,
        "committed_ms": 120, "truncate": True}
    d.audio(PCM[:4_800], t_ms=200)  # what still comes is recorded, and told by nobody
    assert d.tick(10_000) == []


def test_what_cannot_be_truncated_is_only_told() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM)
    cancelled(d)
    assert "truncate" not in d.acks()[0]


@pytest.mark.parametrize("action", ["drop", "listen", None, ["barge_in"]])
def test_other_decisions_interrupt_nothing(action: Any) -> None:
    d = Driven()
    d.begin()
    d.audio(PCM)
    d.give({"type": "overlap.decision", "action": action})
    assert d.of(Interrupted) == []


def test_a_response_that_said_nothing_is_cancelled_without_an_interruption() -> None:
    d = Driven()
    d.begin()
    d.done(status="cancelled")
    assert d.of(Interrupted) == d.of(ResponseDone) == []


# upkeep, ends, errors, bounds

def test_a_heartbeat_is_sent_at_its_interval() -> None:
    d = Driven(heartbeat_s=30.0)
    assert d.wire.due_ns == 30_000 * MS
    assert d.tick(29_999) == []
    assert [m["type"] for m in d.tick(30_010)] == ["session.heartbeat"]
    assert d.wire.due_ns == 60_010 * MS
    assert Driven(heartbeat_s=0.0).wire.due_ns is None


def test_the_end_is_asked_for_once_and_waited_for() -> None:
    d = Driven(close_timeout_s=3.0)
    assert d.wire.linger_s == 3.0
    (message,) = d.wire.closing()
    assert json.loads(message)["type"] == "session.close"
    assert d.wire.closing() == ()
    assert not d.wire.over
    d.give({"type": "session.closed", "reason": "client_close"})
    assert d.wire.over
    assert d.of(Fault) == []
    assert d.said == []  # nothing is acknowledged any more
    assert d.wire.due_ns is None


@pytest.mark.parametrize("kind", ["session.closed", "session.expired", "session.replaced"])
@pytest.mark.parametrize(("reason", "told"), [
    ("timeout", "timeout"), (None, "no reason given"), (["x"], '["x"]')])
def test_an_end_that_nobody_asked_for_is_trouble_of_the_connection(
    kind: str, reason: Any, told: str,
) -> None:
    d = Driven()
    d.give({"type": kind, "reason": reason})
    assert d.of(Fault) == [
        Fault(0, "infrastructure", f"the server ended the session: {kind}: {told}")]
    assert d.wire.over
    assert d.wire.closing() == ()


@pytest.mark.parametrize(("error", "ready", "severity", "hopeless", "throttled"), [
    ({"type": "invalid_request_error", "code": "x", "event_id": "playback_9"}, True,
     "transparent", False, False),
    ({"type": "invalid_request_error", "code": "bad_event", "event_id": "audio_9"}, True,
     "infrastructure", False, False),
    ({"type": "server_error", "code": "runtime_append_failed"}, True,
     "infrastructure", False, False),
    ({"type": "rate_limit_error", "code": "resource_exhausted"}, False,
     "infrastructure", False, True),
    ({"type": "invalid_request_error", "code": "ref_audio_required"}, False,
     "infrastructure", True, False)])
def test_errors_by_code(error: dict[str, Any], ready: bool, severity: str, hopeless: bool,
                        throttled: bool) -> None:
    d = Driven(ready=ready)
    d.give({"type": "error", "error": {**error, "message": "because"}})
    (fault,) = d.of(Fault)
    assert (fault.severity, fault.hopeless, fault.throttled) == (severity, hopeless, throttled)
    assert f"{error['code']}: because" in fault.reason


def test_an_error_of_the_handshake_is_flat_and_told_as_well() -> None:
    d = Driven(ready=False)
    d.raw({"type": "error", "error": "no voice", "code": "ref_audio_required"})
    assert d.of(Fault) == [Fault(
        0, "infrastructure", "error event: session_error: ref_audio_required: no voice; retrying "
        "will not help", hopeless=True)]


def test_every_known_event_is_logged_and_an_unknown_one_by_name() -> None:
    d = Driven()
    for kind in sorted(LOGGED):
        d.give({"type": kind, "x": "y" * 5_000})
    assert [e.name for e in d.of(StateChanged)] == sorted(LOGGED)
    assert max(len(e.detail) for e in d.of(StateChanged)) <= 1_000
    d.give({"type": "model.mood"})
    assert d.events[-1] == StateChanged(0, "unknown_event", "model.mood")
    d.created()
    assert d.of(Fault) == [Fault(0, "transparent", "session.created again skipped")]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(
    st.sampled_from([
        "session.created", "session.closed", "session.expired", "response.created",
        "response.speak", "response.listen", "response.done", "response.output_audio.delta",
        "response.audio.delta", "response.output_audio.done",
        "response.output_audio_transcript.delta", "response.output_audio_transcript.done",
        "output_audio_buffer.cleared", "overlap.decision", "error"]),
    st.dictionaries(
        st.sampled_from(["session", "delta", "response", "response_id", "item_id", "reason",
                         "error", "event_id", "server_event_seq", "transcript", "action", "format",
                         "sample_rate_hz"]),
        st.sampled_from(["r1", "AAAA", "AAA", "pcm16", 24_000, "barge_in", {"id": "r1"},
                         {"status": "cancelled", "id": "r1"}, {"status": "failed"}])
        | st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                       lambda inner: st.lists(inner, max_size=3)
                       | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6))),
    max_size=6))
def test_no_event_of_whatever_shape_raises(events: list[tuple[str, dict[str, Any]]]) -> None:
    for ready in (False, True):
        d = Driven(ready=ready)
        for t_ms, (kind, body) in enumerate(events):
            d.raw({**body, "type": kind}, 100 * t_ms)
        assert len(d.of(Interrupted)) <= len(events)
        started = [e.response_id for e in d.of(ResponseStarted)]
        ended = [e.response_id for e in d.of(ResponseDone)]
        assert len(set(started)) == len(started)
        assert len(set(ended)) == len(ended)
        assert set(ended) <= set(started)
        d.tick(10_000)


def test_what_a_server_may_send_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 0.1)
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 3)
    d = Driven()
    d.begin()
    d.audio(PCM[:4_800])
    d.text("abc")
    assert d.of(Fault) == []
    d.audio(PCM[:2])
    d.text("d")
    assert [f.reason for f in d.of(Fault)] == [
        "the server sent more than 0.1 s of audio",
        "the server sent more than 3 characters of transcript"]
    d = Driven()
    for k in range(1_001):
        d.begin(f"r{k}")
    assert [f.reason for f in d.of(Fault)] == ["the server began more than 1000 responses"]
