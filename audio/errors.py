"""The one exception tree of the project.

It lives here because every package may import `audio` and `audio` imports nothing of ours.
A message is one line: what was expected, what came, and where.
"""

from __future__ import annotations


class RigError(Exception):
    """Base of every error that the rig raises on purpose; shown to the user as one line."""

    exit_code = 2


class InputError(RigError):
    """Usage, configuration or input is wrong: a file, an option, a suite (exit code 2)."""

    @classmethod
    def expected(cls, what: str, *, got: object, where: object) -> InputError:
        """Build the standard one-line message: expected, got, where."""
        return cls(f"{where}: expected {what}, got {got}")


class AudioFileError(InputError):
    """A recording cannot be used: unreadable, empty, non-finite, channel out of range."""


class SynthesisError(RigError):
    """A speech engine failed or produced audio that the quality gate refuses."""


class AlignmentError(RigError):
    """Forced alignment failed: out-of-vocabulary words, text longer than the audio."""


class InfrastructureError(RigError):
    """Network, provider or rig trouble: never scored as the model's behaviour (exit code 3)."""

    exit_code = 3
    retry_after_s: float | None = None
    """How long the peer asks to wait before another try."""
    hopeless = False
    """Whether another try can only end in the same way, as with a key that is refused."""
    throttled = False
    """Whether the peer asks for fewer sessions: it is no matter of this one."""
