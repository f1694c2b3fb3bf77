"""Models behind vLLM-Omni's full-duplex endpoint; docs/adapters/vllm_omni.md.

The server is one's own: its address is a setting, a key is sent where one is set.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from adapters.base import Capabilities, SessionConfig
from adapters.hosted import Hosted, Settings, connection_settings
from adapters.own_agent import KEY, address, address_settings
from adapters.spec import Setting
from audio.errors import InputError
from audio.files import probe, sha256_file

if TYPE_CHECKING:
    from adapters.wire.base import Wire
    from adapters.wire.vllm_omni_session import DuplexSettings

NAME = "vllm_omni"
MAX_REF_AUDIO_BYTES = 8 * 1024 * 1024
"""Ours: minutes of speech; the voice clips of the project's examples have seconds."""
MAX_JSON_CHARS = 10_000
"""Ours."""


@dataclass(frozen=True, slots=True)
class Preset:
    """What differs between models; sources in docs/adapters/vllm_omni.md."""

    served_model: str
    input_format: Literal["pcm16", "pcm_f32le"]
    input_rate_hz: int
    output_rate_hz: int
    append_ms: int
    ends_by: Literal["response_done", "silence"]
    voice: str = ""
    wants_ref_audio: bool = False
    blank_instructions: bool = False
    overlap_policy: str = ""
    playback_commit_policy: str = ""
    extra_body: tuple[tuple[str, Any], ...] = ()
    barge_in: bool = False


PRESETS = {
    "minicpm_o": Preset(
        "openbmb/MiniCPM-o-4_5", "pcm16", 16_000, 24_000, 20, "response_done",
        wants_ref_audio=True, overlap_policy="listen_only", playback_commit_policy="ack_only",
        extra_body=(("force_listen_count", 0),), barge_in=True),
    # How much audio a message may hold is not known: its frame. The client's preset sends an empty
    # persona as it is.
    "personaplex": Preset(
        "nvidia/personaplex-7b-v1", "pcm_f32le", 24_000, 24_000, 80, "silence",
        voice="NATF2.pt", blank_instructions=True),
    # A message of more than its frame of 80 ms is refused, of less is kept until there is one.
    "nemotron": Preset(
        "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B", "pcm_f32le", 16_000, 22_050, 20, "silence"),
}
_PRESET = "preset"
"""The value of a setting that stands for what the preset has."""

SETTINGS = (
    *address_settings("ws://127.0.0.1:8099"),
    Setting("model", "str", "minicpm_o", "which model's rates, formats and ways",
            choices=tuple(PRESETS)),
    Setting("served_model", "str", "", "its name, as the server knows it; empty: that on the hub"),
    Setting("ref_audio", "str", "", "WAV file with the voice to speak with; minicpm_o needs one"),
    Setting("voice", "str", "", "name of a voice of the server; empty: the preset's, else none"),
    Setting("overlap_policy", "str", _PRESET, "what the server makes of speech over a response",
            choices=(_PRESET, "listen_only", "barge_in_on_speech")),
    Setting("playback_commit_policy", "str", _PRESET, "what enters the server's history: what "
            "was told to have been heard, or all that was sent",
            choices=(_PRESET, "ack_only", "commit_all_on_done")),
    Setting("reply_end", "str", _PRESET, "what ends a reply: response.done, or a second of "
            "silence", choices=(_PRESET, "response_done", "silence")),
    Setting("append_ms", "str", _PRESET, "user audio of one message, in ms",
            choices=(_PRESET, "20", "40", "80")),
    Setting("transcript_times", "str", "paired", "words begin with the piece of audio before "
            "them, or when they arrive", choices=("paired", "arrival")),
    Setting("session", "str", "{}", "further fields of the session, a JSON object; its extra_body "
            "is merged with the preset's"),
    Setting("strict_session", "bool", True,
            "fail when the server reports another session than the one asked for"),
    # The default of the project's client.
    Setting("heartbeat_s", "float", 30.0, "interval of session.heartbeat; 0: none", 0.0, 300.0),
    Setting("ack_interval_s", "float", 0.2, "under ack_only: interval of playback.ack", 0.02, 5.0),
    # The rig gives a session 10 s to close, and the closing handshake may take 2 of them.
    Setting("close_timeout_s", "float", 7.5, "longest wait for session.closed at the end",
            0.0, 7.5),
    *connection_settings("session.created"),
)


def _preset(settings: Settings) -> Preset:
    return PRESETS[settings["model"]]


def _of_preset(settings: Settings, name: str, of_preset: Any) -> Any:
    return of_preset if settings[name] == _PRESET else settings[name]


def _served_model(settings: Settings) -> str:
    return settings["served_model"] or _preset(settings).served_model


def _capabilities(settings: Settings) -> Capabilities:
    preset = _preset(settings)
    return Capabilities(
        full_duplex=True,
        persona_prompt=True,
        realtime_only=True,
        input_rate_hz=preset.input_rate_hz,
        output_rate_hz=preset.output_rate_hz,
        reports_response_done=_of_preset(settings, "reply_end", preset.ends_by) == "response_done",
        reports_interruption=preset.barge_in,
        transcript="stream",
    )


def _more(settings: Settings, adapter: str) -> dict[str, Any]:
    """The setting `session`. Raises `InputError` for what is no object, or sets what others do."""
    from adapters.wire.payload import PayloadError, parse_object
    from adapters.wire.vllm_omni_session import OWN_FIELDS

    where = f"--set session (adapter {adapter})"
    text = settings["session"]
    more: dict[str, Any] | None = None
    if len(text) <= MAX_JSON_CHARS:
        with suppress(PayloadError):
            more = parse_object(text.encode())
    if more is None or not isinstance(more.get("extra_body", {}), dict):
        raise InputError.expected(
            f"a JSON object of at most {MAX_JSON_CHARS} characters (extra_body in it: one, too)",
            got=repr(text[:60]), where=where)
    if taken := sorted(OWN_FIELDS & more.keys()):
        raise InputError.expected("fields that no other setting makes", got=", ".join(taken),
                                  where=where)
    return more


def _check(settings: Settings, adapter: str) -> None:
    _more(settings, adapter)
    preset = _preset(settings)
    for name in ("served_model", "voice"):
        if not settings[name].isprintable():
            raise InputError.expected("a name", got=repr(settings[name][:40]),
                                      where=f"--set {name} (adapter {adapter})")
    where = f"--set ref_audio (adapter {adapter})"
    path = settings["ref_audio"]
    if not path:
        if preset.wants_ref_audio:
            raise InputError.expected(f"a WAV file with a voice: the server opens no session of "
                                      f"{settings['model']} without one", got="none", where=where)
        return
    frames_n = probe(path).frames_n
    data = Path(path).read_bytes()[:MAX_REF_AUDIO_BYTES + 1]
    if data[:4] != b"RIFF" or frames_n == 0 or len(data) > MAX_REF_AUDIO_BYTES:
        raise InputError.expected(
            f"a WAV file with sound of at most {MAX_REF_AUDIO_BYTES} bytes",
            got=f"{path}: {len(data)} bytes that begin with {data[:4]!r}, {frames_n} samples",
            where=where)


def _of_files(settings: Settings) -> str:
    """The voice itself, and not where it lay, is part of what was measured."""
    path = settings["ref_audio"]
    return f"+ref.{sha256_file(path)[:12]}" if path else ""


def wire_settings(settings: Settings) -> DuplexSettings:
    """The settings of one session; the voice is read now."""
    from adapters.wire.vllm_omni_session import DuplexSettings

    preset, path = _preset(settings), settings["ref_audio"]
    ref_audio = ""
    if path:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
        ref_audio = f"data:audio/wav;base64,{base64.b64encode(data).decode('ascii')}"
    return DuplexSettings(
        model=_served_model(settings), input_format=preset.input_format,
        input_rate_hz=preset.input_rate_hz, output_rate_hz=preset.output_rate_hz,
        voice=settings["voice"] or preset.voice, ref_audio=ref_audio,
        blank_instructions=preset.blank_instructions,
        overlap_policy=_of_preset(settings, "overlap_policy", preset.overlap_policy),
        playback_commit_policy=_of_preset(settings, "playback_commit_policy",
                                          preset.playback_commit_policy),
        extra_body=dict(preset.extra_body), more=_more(settings, NAME),
        append_ms=int(_of_preset(settings, "append_ms", preset.append_ms)),
        **{name: settings[name] for name in (
            "transcript_times", "strict_session", "heartbeat_s", "ack_interval_s",
            "close_timeout_s")})


def _path(settings: Settings) -> str:
    """The endpoint. `autostart=0`: a server of before would open a session of its own making as
    soon as it reads the model's name, before ours arrives."""
    return f"/v1/realtime?duplex=1&model={quote(_served_model(settings), safe='')}&autostart=0"


def _wire(settings: Settings, config: SessionConfig) -> Wire:
    from adapters.wire.vllm_omni import DuplexWire

    return DuplexWire(wire_settings(settings), config.system_prompt)


VLLM_OMNI = Hosted(
    name=NAME, summary="MiniCPM-o, PersonaPlex or Nemotron VoiceChat behind vLLM-Omni's "
    "full-duplex endpoint", revision="vllm-omni.1", key=KEY, capabilities=_capabilities,
    settings=SETTINGS, path=_path, wire_of_case=_wire, names=(), address=address, check=_check,
    of_files=_of_files,
    unverified="no server of vLLM-Omni has run here: its messages were held against the project's "
    "page, client and tests, its sessions against a loopback server written from those").spec()
