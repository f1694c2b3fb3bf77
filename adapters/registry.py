"""Every adapter by name. The module of an adapter is imported when it is first asked for.

To add one: write an `AdapterSpec` in a module of its own and add a line to `_WHERE`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from adapters.base import Adapter, Capabilities
from adapters.spec import AdapterSpec, Setting
from audio.errors import InputError
from audio.suggest import did_you_mean

_WHERE: dict[str, str] = {
    "silent": "adapters.simulated.catalog:SILENT",
    "monologue": "adapters.simulated.catalog:MONOLOGUE",
    "echo": "adapters.simulated.catalog:ECHO",
    "metronome": "adapters.simulated.catalog:METRONOME",
    "long_endpoint": "adapters.simulated.catalog:LONG_ENDPOINT",
    "eager": "adapters.simulated.catalog:EAGER",
    "random": "adapters.simulated.catalog:RANDOM",
    "oracle": "adapters.simulated.catalog:ORACLE",
    "inverse": "adapters.simulated.catalog:INVERSE",
    "cascade": "adapters.cascade.adapter:CASCADE",
    "openai_realtime": "adapters.openai_realtime:OPENAI_REALTIME",
    "stepfun": "adapters.stepfun:STEPFUN",
    "gpt_live": "adapters.gpt_live:GPT_LIVE",
    "gemini_live": "adapters.gemini_live:GEMINI_LIVE",
    "pipecat": "adapters.pipecat:PIPECAT",
    "sound_card": "adapters.sound_card.adapter:SOUND_CARD",
    "twilio": "adapters.twilio:TWILIO",
    "raw_pcm": "adapters.raw_pcm:RAW_PCM",
    "webrtc": "adapters.webrtc:WEBRTC",
    "vllm_omni": "adapters.vllm_omni:VLLM_OMNI",
    "moshi": "adapters.local_models:MOSHI",
    "personaplex": "adapters.local_models:PERSONAPLEX",
    "minicpm_o": "adapters.local_models:MINICPM_O",
    "venus": "adapters.local_models:VENUS",
    "fun_audio_chat": "adapters.local_models:FUN_AUDIO_CHAT",
    "nemotron_voicechat": "adapters.local_models:NEMOTRON_VOICECHAT",
    "f_actor": "adapters.local_models:F_ACTOR",
    "worker": "adapters.worker:WORKER",
    "peer": "adapters.known_peer.adapter:PEER",
}
"""Name to `module:attribute` of its `AdapterSpec`."""


@dataclass(frozen=True, slots=True)
class Description:
    """One adapter for people and for `--json`."""

    name: str
    summary: str
    capabilities: Capabilities
    settings: tuple[Setting, ...]
    available: bool
    missing: str | None
    unverified: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**asdict(self), "settings": [asdict(s) for s in self.settings]}


def names() -> tuple[str, ...]:
    """All adapter names, in the order in which they are listed."""
    return tuple(_WHERE)


def canonical(name: str) -> str:
    """The name of an adapter as it is listed; `long-endpoint` is another spelling of
    `long_endpoint`. Raises `InputError` for an unknown name."""
    listed = name.replace("-", "_")
    if listed not in _WHERE:
        raise InputError(f"--adapter {name}: no such adapter{did_you_mean(name, _WHERE)} "
                         f"(known: {', '.join(_WHERE)})")
    return listed


def spec(name: str) -> AdapterSpec:
    """The declaration of one adapter. Raises `InputError` for an unknown name."""
    module, _, attribute = _WHERE[canonical(name)].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert isinstance(found, AdapterSpec)
    return found


def describe() -> tuple[Description, ...]:
    """What there is, what each can do and be set to, and what is missing to run it."""
    found: list[Description] = []
    for name in names():
        adapter = spec(name)
        missing = adapter.missing()
        found.append(Description(name, adapter.summary, adapter.capabilities, adapter.settings,
                                 available=missing is None, missing=missing,
                                 unverified=adapter.unverified))
    return tuple(found)


def create(name: str, settings: Mapping[str, str] | None = None, *, to_play: bool = True,
           ) -> Adapter:
    """Build an adapter from settings given as text (`--set key=value`).

    `to_play=False`: only to ask what it is and is set to; then it need not be able to run here.

    Raises `InputError` for an unknown adapter or setting, a value outside type or bounds, and an
    adapter that cannot run here.
    """
    adapter = spec(name)
    effective = adapter.effective(settings or {})
    missing = adapter.missing() if to_play else None
    if missing is not None:
        raise InputError(f"--adapter {name}: cannot run here: {missing}")
    return adapter.build(effective)
