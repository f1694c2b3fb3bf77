"""Which code stands in which head at which step, where audio comes some steps after its text.

A step has a column: the model's own codes in the first heads, the partner's in the rest, and one
text token. Audio frame t stands in the column of step t + `delay`; the columns before hold a
mark instead. Standard library and numpy alone.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from .codec_windows import Codes


class DelayedHeads:
    """The columns of one dialogue, filled step by step.

    The model's own codes of a step are drawn before the step, the partner's stand beside them: what
    the model says at a step it says without having heard the partner's frame of that step.
    """

    def __init__(self, own_heads: int, partner_heads: int, delay: int, delay_id: int,
                 max_steps: int) -> None:
        self._own, self._partner, self._delay = own_heads, partner_heads, delay
        self._delay_id, self.max_steps = delay_id, max_steps
        self.step = 0
        """The next one: so many columns are filled."""

    @property
    def delayed(self) -> bool:
        """Whether the next column is one of those before the first audio frame."""
        return self.step < self._delay

    @property
    def full(self) -> bool:
        """Whether the model has no further step after the next column's."""
        return self.step + 1 >= self.max_steps

    @property
    def audio_frames(self) -> int:
        """Frames of audio that fit into all of its steps."""
        return max(0, self.max_steps - self._delay)

    def delay_column(self) -> Codes:
        """Fill the next column with the mark: `(heads,)`."""
        self.step += 1
        return np.full(self._own + self._partner, self._delay_id, np.int64)

    def audio_column(self, own: Codes, partner: Codes) -> Codes:
        """Fill the next column with a frame of both: `(own_heads,)` and `(partner_heads,)` to
        `(heads,)`. Raises `ValueError` for others."""
        if own.shape != (self._own,) or partner.shape != (self._partner,):
            raise ValueError(f"expected {self._own} own codes and {self._partner} of the partner, "
                             f"got {own.shape} and {partner.shape}")
        self.step += 1
        return np.concatenate([own, partner])


class HeldText:
    """Text that is drawn `delay` steps before its audio, given back with that audio."""

    def __init__(self, delay: int) -> None:
        self._held: deque[str] = deque([""] * delay)

    def push(self, piece: str) -> str:
        """The piece that was pushed `delay` steps ago."""
        self._held.append(piece)
        return self._held.popleft()
