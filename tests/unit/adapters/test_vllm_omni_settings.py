"""The vLLM-Omni adapter's declaration: presets, settings, refusals."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_vllm_omni import MODEL

from adapters import registry
from adapters.vllm_omni import VLLM_OMNI, _path, wire_settings
from audio.errors import InputError
from audio.files import write_wav_pcm16


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    path = tmp_path / "voice.wav"
    write_wav_pcm16(path, np.arange(-800, 800, dtype=np.int16), 16_000)
    return path


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
