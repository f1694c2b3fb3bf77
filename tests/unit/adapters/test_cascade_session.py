"""Session settings: what is taken, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.cascade.session import ClientError, Settings, updated
from adapters.wire.openai_session import SessionSettings, compare


def update(change: object, before: Settings | None = None, **how: Any) -> Settings:
    return updated(before or Settings(), change, **{"voice_locked": False, **how})


def inputs(**fields: Any) -> dict[str, Any]:
    return {"type": "realtime", "audio": {"input": fields}}


def test_what_our_own_client_asks_for_is_granted_field_by_field() -> None:
    asked = SessionSettings(
        voice="hibari", vad_threshold=0.3, vad_prefix_padding_ms=100, vad_silence_duration_ms=700,
        create_response=False, interrupt_response=False, max_output_tokens=50,
        input_transcription_model="any").session("Speak slowly.")
    granted = compare(asked, update(asked).as_dict("sess_1"))
    assert (granted.wrong_format, granted.differs, granted.not_reported) == ((), (), ())


def test_fields_that_are_not_named_stay() -> None:
    first = update({"type": "realtime", "instructions": "a", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "threshold": 0.7}}}})
    second = update(inputs(turn_detection={"type": "server_vad", "silence_duration_ms": 200}),
                    first)
    assert second.instructions == "a"
    assert second.detection is not None
    assert second.detection.turns.threshold == 0.7
    assert second.detection.turns.silence_duration_ms == 200
    assert second.detection.turns.prefix_padding_ms == 300


def test_null_turns_detection_and_transcription_off() -> None:
    on = update(inputs(transcription={"model": "x", "language": "en"}))
    assert on.as_dict("s")["audio"]["input"]["transcription"] == {"model": "x", "language": "en"}
    off = update(inputs(transcription=None, turn_detection=None), on)
    assert off.transcription is None
    assert off.as_dict("s")["audio"]["input"]["turn_detection"] is None


def test_the_bound_of_tokens_can_be_lifted() -> None:
    bounded = update({"type": "realtime", "max_output_tokens": 4096})
    assert bounded.as_dict("s")["max_output_tokens"] == 4096
    assert update({"type": "realtime", "max_output_tokens": "inf"}, bounded).as_dict("s")[
        "max_output_tokens"] == "inf"


def test_the_voice_is_locked_after_the_first_audio() -> None:
    change = {"type": "realtime", "audio": {"output": {"voice": "marin"}}}
    marin = update(change)
    assert marin.voice == "marin"
    with pytest.raises(ClientError, match="voice cannot change") as caught:
        update(change, voice_locked=True)
    assert caught.value.code == "cannot_update_voice"
    assert update(change, marin, voice_locked=True) == marin


@pytest.mark.parametrize(("change", "param"), [
    (None, "session"), ([], "session"), ({}, "session.type"),
    ({"type": "transcription"}, "session.type"),
    ({"type": "realtime", "x": 1}, "session.x"),
    ({"type": "realtime", "instructions": 5}, "session.instructions"),
    ({"type": "realtime", "instructions": "x" * 100_001}, "session.instructions"),
    ({"type": "realtime", "output_modalities": ["text"]}, "session.output_modalities"),
    ({"type": "realtime", "output_modalities": ["audio", "text"]}, "session.output_modalities"),
    ({"type": "realtime", "tools": [{"type": "function"}]}, "session.tools"),
    ({"type": "realtime", "max_output_tokens": 0}, "session.max_output_tokens"),
    ({"type": "realtime", "max_output_tokens": 4097}, "session.max_output_tokens"),
    ({"type": "realtime", "max_output_tokens": True}, "session.max_output_tokens"),
    ({"type": "realtime", "model": ""}, "session.model"),
    ({"type": "realtime", "audio": []}, "session.audio"),
    ({"type": "realtime", "audio": {"x": {}}}, "session.audio.x"),
    ({"type": "realtime", "audio": {"output": {"speed": 1.5}}}, "session.audio.output.speed"),
    ({"type": "realtime", "audio": {"output": {"voice": {"id": "x"}}}},
     "session.audio.output.voice"),
    ({"type": "realtime", "audio": {"output": {"format": {"type": "audio/pcmu"}}}},
     "session.audio.output.format"),
    (inputs(format={"type": "audio/pcm", "rate": 16_000}), "session.audio.input.format"),
    (inputs(noise_reduction={"type": "near_field"}), "session.audio.input.noise_reduction"),
    (inputs(transcription={"model": 1}), "session.audio.input.transcription.model"),
    (inputs(transcription={"x": "y"}), "session.audio.input.transcription.x"),
    (inputs(turn_detection={"type": "semantic_vad"}), "session.audio.input.turn_detection.type"),
    (inputs(turn_detection={}), "session.audio.input.turn_detection.type"),
    (inputs(x=1), "session.audio.input.x"),
    *((inputs(turn_detection={"type": "server_vad", name: value}),
       f"session.audio.input.turn_detection.{name}") for name, value in [
           ("threshold", 1.1), ("threshold", -0.1), ("threshold", True), ("threshold", "0.5"),
           ("threshold", float("inf")), ("threshold", float("nan")), ("threshold", 10**400),
           ("prefix_padding_ms", -1), ("prefix_padding_ms", 10_001),
           ("silence_duration_ms", 0.5), ("silence_duration_ms", None), ("create_response", 1),
           ("interrupt_response", None), ("idle_timeout_ms", 5000), ("eagerness", "low")]),
])
def test_what_it_would_not_do_is_refused_by_name(change: object, param: str) -> None:
    with pytest.raises(ClientError) as caught:
        update(change)
    assert caught.value.param == param
    assert caught.value.code
