"""The session that is asked of a Gemini Live server, and the closes that it is known for.

Field names: `google-genai` 3.6.1. Only what is set is sent: the server closes the connection over a
field that a model does not take. Defaults: DSB-IFEval, appendices E.1, E.2, F.4, F.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from adapters.wire.base import CloseCause
from adapters.wire.payload import excerpt

OUTPUT_RATE_HZ = 24_000
"""PCM16 mono; the protocol has no way to ask for another rate."""

Sensitivity = Literal["server", "low", "high"]
Handling = Literal["server", "interrupts", "no_interruption"]


@dataclass(frozen=True, slots=True)
class GeminiSettings:
    """What is asked of the server. `server`, -1 and an empty text leave a choice to it, unsent."""

    model: str = "gemini-3.8-live"
    voice: str = ""
    input_rate_hz: int = 24_000
    vad_start_sensitivity: Sensitivity = "server"
    vad_end_sensitivity: Sensitivity = "server"
    vad_prefix_padding_ms: int = -1
    vad_silence_duration_ms: int = -1
    activity_handling: Handling = "server"
    output_transcription: bool = True
    input_transcription: bool = False
    context_compression: bool = False

    @property
    def mime_type(self) -> str:
        """What the user's audio is declared as."""
        return f"audio/pcm;rate={self.input_rate_hz}"

    def setup(self, prompt: str) -> dict[str, Any]:
        """The `setup` object. A blank prompt is left out: nothing stands for "no instructions"."""
        generation: dict[str, Any] = {"responseModalities": ["AUDIO"]}
        if self.voice:
            generation["speechConfig"] = {
                "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": self.voice}}}
        model = self.model if "/" in self.model else f"models/{self.model}"
        setup: dict[str, Any] = {"model": model, "generationConfig": generation}
        if prompt.strip():
            setup["systemInstruction"] = {"parts": [{"text": prompt}]}
        if realtime := self._realtime():
            setup["realtimeInputConfig"] = realtime
        if self.input_transcription:
            setup["inputAudioTranscription"] = {}
        if self.output_transcription:
            setup["outputAudioTranscription"] = {}
        if self.context_compression:
            setup["contextWindowCompression"] = {"slidingWindow": {}}
        return setup

    def _realtime(self) -> dict[str, Any]:
        detection: dict[str, Any] = {}
        if self.vad_start_sensitivity != "server":
            detection["startOfSpeechSensitivity"] = (
                f"START_SENSITIVITY_{self.vad_start_sensitivity.upper()}")
        if self.vad_end_sensitivity != "server":
            detection["endOfSpeechSensitivity"] = (
                f"END_SENSITIVITY_{self.vad_end_sensitivity.upper()}")
        if self.vad_prefix_padding_ms >= 0:
            detection["prefixPaddingMs"] = self.vad_prefix_padding_ms
        if self.vad_silence_duration_ms >= 0:
            detection["silenceDurationMs"] = self.vad_silence_duration_ms
        realtime: dict[str, Any] = {"automaticActivityDetection": detection} if detection else {}
        if self.activity_handling != "server":
            realtime["activityHandling"] = {
                "interrupts": "START_OF_ACTIVITY_INTERRUPTS",
                "no_interruption": "NO_INTERRUPTION"}[self.activity_handling]
        return realtime


def wrong_audio(mime_type: object, rate_hz: int) -> str | None:
    """What is wrong with audio that is declared so; `None` for PCM16 mono at `rate_hz`.

    Without a declaration, or one of a rate, it is taken to be that: no other is documented.
    """
    if mime_type is None:
        return None
    kind, *parameters = excerpt(mime_type, 200).lower().replace(" ", "").split(";")
    told = dict(p.partition("=")[::2] for p in parameters)
    if kind not in ("audio/pcm", "audio/l16") or told.get("codec", "pcm") != "pcm":
        wrong = "another format"
    elif told.get("rate", str(rate_hz)) != str(rate_hz):
        wrong = "another sample rate"
    elif told.get("channels", "1") != "1":
        wrong = "more than one channel"
    else:
        return None
    return f"{wrong}: {excerpt(mime_type, 80)} instead of audio/pcm;rate={rate_hz}"


_TIME_OVER = "the time of the session or connection is over"
_MODEL = "no such model under this api_version, or none with a live mode"
_QUOTA = "quota or rate limit"
_KNOWN_CLOSES = (
    # In the reason, in small letters; its meaning; whether another try can only end in the same
    # way. Sources: docs/adapters/gemini_live.md.
    ("api key not valid", "the key was refused", True),
    ("api key expired", "the key was refused", True),
    ("reported as leaked", "the key was withdrawn", True),
    ("unregistered callers", "the key was refused", True),
    ("user location is not supported", "the API is not offered where this machine is", True),
    ("is not found for api version", _MODEL, True),
    ("not supported for bidigeneratecontent", _MODEL, True),
    ("processing input audio", "the server cannot read the user's audio as declared: "
     "input_rate_hz", False),
    ("prepayment credits", "no credit is left", True),
    ("quota", _QUOTA, False),
    ("resource_exhausted", _QUOTA, False),
    ("deadline", _TIME_OVER, False),
    ("operation was aborted", _TIME_OVER, False),
    ("not implemented, or supported, or enabled", "trouble inside the server, known to pass",
     False),
)
_CODES = {
    1007: CloseCause("the server does not take what was sent: a field or value of the setup, or "
                     "the audio", hopeless=True),
    1008: CloseCause("policy: often a refused key or model, or the connection's time is over"),
    1011: CloseCause("an error inside the server, a quota, or the connection's time is over"),
}
"""By code alone. 1007 is hopeless, as HTTP 400 is: before a session is ready nothing was sent but
the setup."""


def close_cause(code: int, reason: str, *, ready: bool = False) -> CloseCause | None:
    """What a close by the server means; `None` where nothing is known beyond the code. `ready`:
    the session was, so the setup was taken."""
    lowered = reason.lower()
    for words, meaning, hopeless in _KNOWN_CLOSES:
        if words in lowered:
            return CloseCause(meaning, hopeless, throttled=meaning == _QUOTA)
    known = _CODES.get(code)
    return replace(known, hopeless=False) if known is not None and ready else known
