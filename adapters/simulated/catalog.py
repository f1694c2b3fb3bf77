"""The declarations of the simulated agents: capabilities, settings, defaults, bounds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from adapters.base import Capabilities, CaseHint, SessionConfig
from adapters.simulated import floors, oracle
from adapters.simulated.agent import Agent
from adapters.simulated.session import SimulatedAdapter
from adapters.spec import AdapterSpec, Setting
from audio.errors import InputError

Make = Callable[[dict[str, Any], SessionConfig], Agent]


def _voice_missing() -> str | None:
    """The engine that the agents speak with; `audio.synthesis` itself is imported at use."""
    if importlib.util.find_spec("hibari") is None:
        return "it speaks with the package hibari-tts; pip install hibari-tts"
    return None


def _nothing_missing() -> str | None:
    return None


def _spec(
    name: str, summary: str, capabilities: Capabilities, make: Make,
    settings: tuple[Setting, ...] = (), *, speaks: bool = True,
) -> AdapterSpec:
    def build(values: dict[str, Any]) -> SimulatedAdapter:
        return SimulatedAdapter(name, capabilities, values, lambda config: make(values, config))

    return AdapterSpec(name, summary, capabilities, build, settings,
                       _voice_missing if speaks else _nothing_missing)


# The floors read no prompt, and say so: their cases are marked `architecture_constrained`.
_FLOOR = Capabilities(full_duplex=True, persona_prompt=False, reports_response_done=True,
                      transcript="response")
_HALF_DUPLEX = Capabilities(full_duplex=False, persona_prompt=False, reports_response_done=True,
                            transcript="response")
_ECHO = Capabilities(full_duplex=True, persona_prompt=False)
_TOLD = Capabilities(full_duplex=True, persona_prompt=True, reports_response_done=True,
                     wants_hint=True, transcript="response")

SILENT = _spec(
    "silent", "never says anything", _FLOOR, lambda _values, _config: floors.Silent(),
    speaks=False)

MONOLOGUE = _spec(
    "monologue", "talks from the first moment to the last without a break", _FLOOR,
    lambda _values, _config: floors.Monologue())

ECHO = _spec(
    "echo", "plays the user's own audio back after a delay", _ECHO,
    lambda values, _config: floors.Echo(values["delay_s"]),
    (Setting("delay_s", "float", 0.5, "delay of the echo, in seconds", 0.02, 10.0),), speaks=False)

METRONOME = _spec(
    "metronome", "says a short acknowledgement at fixed intervals, whatever happens", _FLOOR,
    lambda values, _config: floors.Metronome(values["period_s"]),
    (Setting("period_s", "float", 1.8, "from one onset to the next, in seconds", 0.8, 60.0),))

LONG_ENDPOINT = _spec(
    "long_endpoint", "turn-based: replies after a long silence of the user and never breaks off",
    _HALF_DUPLEX,
    lambda values, _config: floors.LongEndpoint(values["endpoint_s"], values["reply_s"]),
    (Setting("endpoint_s", "float", 3.2, "user silence that ends a turn, in seconds", 0.2, 30.0),
     Setting("reply_s", "float", 4.2, "length of a reply, in seconds", 0.5, 60.0)))

EAGER = _spec(
    "eager", "cuts in shortly after every onset of user speech, and again while it goes on",
    _FLOOR,
    lambda values, _config: floors.Eager(values["latency_s"], values["talk_s"], values["rest_s"]),
    (Setting("latency_s", "float", 0.3, "from user onset to its own, in seconds", 0.02, 10.0),
     Setting("talk_s", "float", 0.4, "length of an interjection, in seconds", 0.3, 30.0),
     Setting("rest_s", "float", 0.6, "silence after an interjection, in seconds", 0.0, 30.0)))


def _random(values: dict[str, Any]) -> SimulatedAdapter:
    low, high = values["min_talk_s"], values["max_talk_s"]
    if low > high:
        raise InputError.expected(f"min_talk_s of at most max_talk_s ({high:g})", got=f"{low:g}",
                                  where="--set min_talk_s (adapter random)")
    return SimulatedAdapter(
        "random", _FLOOR, values,
        lambda config: floors.RandomOnsets(config.seed, values["mean_gap_s"], low, high))


RANDOM = AdapterSpec(
    "random", "speaks at seeded random moments for random lengths", _FLOOR, _random,
    (Setting("mean_gap_s", "float", 3.0, "mean silence between utterances, in seconds", 0.7, 60.0),
     Setting("min_talk_s", "float", 0.4, "shortest utterance, in seconds", 0.3, 30.0),
     Setting("max_talk_s", "float", 3.0, "longest utterance, in seconds", 0.3, 30.0)),
    _voice_missing)

_LATENCY = Setting("latency_s", "float", 0.3,
                   "from the moment that calls for an action to the action, in seconds", 0.1, 0.5)
_YIELD = Setting("yield_s", "float", 0.2,
                 "from a barge-in to the end of its own speech where it gives way, in seconds",
                 0.04, 0.4)


def _hint(config: SessionConfig, name: str) -> CaseHint:
    if config.hint is None:
        raise InputError.expected("a case with an expected action and a window", got="none",
                                  where=f"adapter {name}")
    return config.hint


def _oracle(values: dict[str, Any], config: SessionConfig) -> Agent:
    script = oracle.oracle_script(_hint(config, "oracle"), values["latency_s"], values["yield_s"])
    return oracle.Scripted(script, values["latency_s"])


def _inverse(values: dict[str, Any], config: SessionConfig) -> Agent:
    script = oracle.inverse_script(_hint(config, "inverse"), values["latency_s"],
                                   values["yield_s"], odd=config.seed % 2 == 1)
    return oracle.Scripted(script, values["latency_s"])


ORACLE = _spec("oracle", "is told what the case expects, and does it: the ceiling", _TOLD, _oracle,
               (_LATENCY, _YIELD))
INVERSE = _spec("inverse", "is told what the case expects, and does the opposite", _TOLD, _inverse,
                (_LATENCY, _YIELD))
