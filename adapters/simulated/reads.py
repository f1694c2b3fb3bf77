"""What a simulated agent looks at of a session: the rest of it cannot change what the agent does.

All agents are deterministic, and hear the user's audio. Of the configuration most read nothing; so
one session of theirs stands for every case with the same audio and schedule, whatever its role,
level and prompt. `as_read` gives such a session as little as the agent reads. The tests watch what
each agent reads, and play cases that are claimed to be one session.
"""

from __future__ import annotations

from dataclasses import replace

from adapters.base import SessionConfig
from audio.errors import InputError

READS: dict[str, frozenset[str]] = {
    "silent": frozenset(), "monologue": frozenset(), "echo": frozenset(), "metronome": frozenset(),
    "long_endpoint": frozenset(), "eager": frozenset(), "random": frozenset({"seed"}),
    "oracle": frozenset({"hint"}), "inverse": frozenset({"hint", "seed"}),
}
"""Fields of `SessionConfig`, by agent."""


def as_read(agent: str, config: SessionConfig) -> SessionConfig:
    """The session with everything blank that `agent` does not look at.

    Two cases with the same audio and schedule for which it gives the same are one session. Raises
    `InputError` for an agent of which nobody has said what it reads.
    """
    if agent not in READS:
        raise InputError.expected(f"one of {', '.join(READS)}", got=agent, where="simulated agents")
    reads = READS[agent]
    hint = config.hint if "hint" in reads else None
    seed = config.seed if "seed" in reads else 0
    if agent == "inverse":
        # Of its seed one bit, and that for a backchannel alone, which it can miss in two ways.
        missed = hint is not None and hint.expected_action == "BACKCHANNEL"
        seed = seed % 2 if missed else 0
    return replace(config, case_id="", trial=1, system_prompt="", seed=seed, hint=hint)
