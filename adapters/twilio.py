"""An agent of one's own behind Twilio Media Streams; docs/adapters/twilio.md.

The rig plays Twilio: it calls the agent's WebSocket as `<Connect><Stream>` does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from adapters.base import Capabilities, SessionConfig
from adapters.hosted import Settings
from adapters.own_agent import own_agent
from adapters.spec import Setting
from audio.errors import InputError

if TYPE_CHECKING:
    from adapters.wire.base import Wire

RATE_HZ = 8_000
MAX_NAME_CHARS = 100
MAX_VALUE_CHARS = 2_000
MAX_PARAMETERS = 50
"""Bounds of what is written on a command line. Ours; Twilio itself takes 500 characters for a name
and its value together."""

SETTINGS = (
    Setting("custom_parameters", "str", "", "customParameters of the call: a JSON object, or "
            "KEY=VALUE with commas between; written into the run, so no secrets"),
    Setting("prompt_parameter", "str", "", "customParameter in which the system prompt is sent; "
            "empty: it is not sent"),
    Setting("sid_salt", "str", "", "changes the ids of all calls, which else depend on case and "
            "trial alone: for an agent that remembers calls by them"),
)


def custom_parameters(text: str, *, where: str) -> dict[str, str]:
    """The setting as names and values, both text.

    Raises `InputError` for anything else, for an empty name and for a name that comes twice.
    """
    expected = 'a JSON object of texts ({"tenant": "a"}) or KEY=VALUE[,KEY=VALUE]'
    if not text.strip():
        return {}
    pairs: list[tuple[object, object]]
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text, object_pairs_hook=tuple)
        except (ValueError, RecursionError):
            raise InputError.expected(expected, got="JSON that cannot be read",
                                      where=where) from None
        pairs = list(found)
    else:
        pairs = [(k.strip(), v) for k, _, v in (p.partition("=") for p in text.split(","))]
        if any("=" not in part for part in text.split(",")):
            raise InputError.expected(expected, got=repr(text[:80]), where=where)
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise InputError.expected(expected, got=f"a value that is no text under {name!r:.80}",
                                      where=where)
        if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or name in parameters:
            raise InputError.expected(f"different names of 1 to {MAX_NAME_CHARS} characters",
                                      got=repr(name[:80]), where=where)
        if len(value) > MAX_VALUE_CHARS:
            raise InputError.expected(f"values of at most {MAX_VALUE_CHARS} characters",
                                      got=f"{len(value)} under {name!r}", where=where)
        parameters[name] = value
    if len(parameters) > MAX_PARAMETERS:
        raise InputError.expected(f"at most {MAX_PARAMETERS} parameters", got=len(parameters),
                                  where=where)
    return parameters


def _check(settings: Settings, adapter: str) -> None:
    where = f"--set custom_parameters (adapter {adapter})"
    given = custom_parameters(settings["custom_parameters"], where=where)
    name = settings["prompt_parameter"]
    if len(name) > MAX_NAME_CHARS or not name.isprintable() or name in given:
        raise InputError.expected(
            f"a name of at most {MAX_NAME_CHARS} characters that custom_parameters does not hold",
            got=repr(name[:80]), where=f"--set prompt_parameter (adapter {adapter})")


def _capabilities(settings: Settings) -> Capabilities:
    return Capabilities(
        full_duplex=settings["full_duplex"],
        persona_prompt=bool(settings["prompt_parameter"]),
        realtime_only=True,
        input_rate_hz=RATE_HZ,
        output_rate_hz=RATE_HZ,
        # Nothing ends a response; `clear` drops what has not been played.
        reports_response_done=False,
        reports_interruption=True,
        transcript="none",
    )


def _wire(settings: Settings, config: SessionConfig) -> Wire:
    from adapters.wire.twilio import Call, Sids, TwilioWire

    parameters = custom_parameters(settings["custom_parameters"], where="custom_parameters")
    if settings["prompt_parameter"]:
        parameters[settings["prompt_parameter"]] = config.system_prompt
    return TwilioWire(Call(Sids.of(config.case_id, config.trial, settings["sid_salt"]),
                           parameters))


TWILIO = own_agent(
    "twilio", "an agent of your own behind Twilio Media Streams; the rig plays Twilio", "twilio.1",
    default_url="ws://127.0.0.1:8765", settings=SETTINGS, capabilities=_capabilities, wire=_wire,
    gate="the network to take the start of the stream", check=_check).spec()
