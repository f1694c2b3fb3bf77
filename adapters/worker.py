"""Your own local model as a system under test: any program that speaks docs/workers.md."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.command_files import CommandFiles, command_files
from adapters.spec import AdapterSpec, Setting, package_version
from adapters.workers.worker_kit.protocol import DECLARED, RATES_HZ, VERSION
from audio.errors import InputError
from audio.timebase import FRAMES_PER_S

PROCESS_SETTINGS = (
    Setting("devices", "str", "", "GPUs, dealt out to the processes one after the other "
            "(CUDA_VISIBLE_DEVICES), for instance 0,1; empty: what the machine says"),
    # Downloading and loading 20 GB take minutes; a system prompt of PersonaPlex some seconds; a
    # frame on a processor instead of a GPU seconds. All ours.
    Setting("load_timeout_s", "float", 1800.0, "longest wait for a loaded model, in seconds",
            1.0, 86_400.0),
    Setting("prompt_timeout_s", "float", 120.0, "longest wait for a prompt taken in, in seconds",
            0.1, 3600.0),
    Setting("answer_timeout_s", "float", 60.0, "longest wait for the answer to a frame, in seconds",
            0.1, 3600.0),
)

SETTINGS = (
    Setting("command", "str", "", "how the worker is started: program and arguments, as in a "
            "shell; nothing is expanded"),
    Setting("input_rate_hz", "int", 24_000, "rate that the worker hears", *RATES_HZ),
    Setting("output_rate_hz", "int", 24_000, "rate that the worker speaks", *RATES_HZ),
    Setting("full_duplex", "bool", True, "whether it listens while it speaks"),
    Setting("persona_prompt", "bool", True, "whether it reads the system prompt"),
    Setting("transcript", "str", "stream", "whether it gives the text of what it says",
            choices=("none", "stream")),
    *PROCESS_SETTINGS,
)

CAPABILITIES = Capabilities(full_duplex=True, persona_prompt=True, transcript="stream")


def device_names(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The GPUs that `devices` names, in order."""
    return tuple(d.strip() for d in settings["devices"].split(",") if d.strip())


class WorkerAdapter:
    """Opens each session in a process that is kept for the next one."""

    def __init__(self, name: str, command: tuple[str, ...], capabilities: Capabilities,
                 settings: dict[str, Any], revision: str = "") -> None:
        """`revision`: of the code, where the rig knows it; else of the files of the command."""
        self._name = name
        self._command = command
        self._capabilities = capabilities
        self._settings = dict(settings)
        self._revision = revision

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> str:
        revision = self._revision or f"+{self._files.sha256[:12]}".rstrip("+")
        return f"{package_version()}+worker.{VERSION}{revision}"

    @property
    def caution(self) -> str | None:
        """What the fingerprint cannot tell about the code that is run."""
        return None if self._revision else self._files.caution

    @cached_property
    def _files(self) -> CommandFiles:
        # Not when it is made: every session makes one, and asks for no version.
        return command_files(self._command)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    @property
    def opening_s(self) -> float:
        """A model may take so long before a session begins."""
        return float(self._settings["load_timeout_s"] + self._settings["prompt_timeout_s"])

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        from adapters.worker_process import model_processes
        from adapters.worker_session import Patience, open_session

        patience = Patience(*(self._settings[f"{name}_timeout_s"]
                              for name in ("load", "prompt", "answer")))
        processes = model_processes(self._command, device_names(self._settings))
        return open_session(processes, config, clock, patience, self._capabilities)


def _build(settings: dict[str, Any]) -> WorkerAdapter:
    where = "--set command (adapter worker)"
    try:
        command = tuple(shlex.split(settings["command"], posix=os.name == "posix"))
    except ValueError as error:
        raise InputError.expected("a command", got=f"{settings['command']!r} ({error})",
                                  where=where) from error
    if not command:
        raise InputError.expected("how the worker is started, for instance \"python my_model.py\"",
                                  got="nothing", where=where)
    if settings["input_rate_hz"] % FRAMES_PER_S:
        raise InputError.expected(f"a multiple of {FRAMES_PER_S}, so that 20 ms are whole samples",
                                  got=settings["input_rate_hz"],
                                  where="--set input_rate_hz (adapter worker)")
    return WorkerAdapter("worker", command,
                         replace(CAPABILITIES, **{name: settings[name] for name in DECLARED}),
                         settings)


WORKER = AdapterSpec(
    "worker", "a local model of your own in a process of its own: docs/workers.md",
    CAPABILITIES, _build, SETTINGS, own_process=True)
