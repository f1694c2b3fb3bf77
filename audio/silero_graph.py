"""The official Silero network, rearranged to take a block of frames in one call.

The official ONNX file holds one frame a call, in its 16 kHz branch: magnitude spectrum (a strided
convolution), four convolutions, one LSTM step, a logistic output. Only the LSTM looks back, so
everything before it can take many frames at once. `block_graph` writes such a graph, with the
weights read out of the official file, as bytes for onnxruntime. It computes the same sums in the
same order, so its probabilities are the official ones bit for bit; `audio.silero` checks that on
every machine before it uses it.

Why it is fast: the official layout multiplies matrices of four columns (the four spectra of a
frame), which leaves most of a vector unit idle. Here `GROUP` frames lie side by side in one image
and fill it. Between two frames stay two columns that hold nothing real; they are set to zero before
each convolution, where they are the zero padding that the official graph has at a frame's edges.
`GROUP` is bounded by exactness: onnxruntime adds up a row of 387 products in one run only while a
matrix has at most 32 columns (MLAS, `SgemmStrideK`), and in several partial sums beyond.

ONNX files are protocol buffers; the few fields needed are read and written here, because the
`onnx` package is no dependency of the product. Field numbers: onnx/onnx.proto (ONNX 1.x, IR 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.errors import RigError

FRAME_N = 512
CONTEXT_N = 64
HIDDEN = 128
GROUP = 5
"""Frames in one image: 5 x 6 = 30 columns, at most 32."""

_COLUMNS = 6
"""Spectra a frame: four real ones and two spacers. Even, because the second layer halves them."""
_HOP_N = 128
_BINS = 129

_BRANCH = "If_0_then_branch__Inline_0__"
"""Prefix of the 16 kHz branch in the official file; the other branch is the 8 kHz network."""

_IR_VERSION = 8
_OPSET = 16
_FLOAT, _INT64 = 1, 7

Int64 = NDArray[np.int64]


def block_graph(official: bytes) -> bytes:
    """Write the block graph.

    Args:
        official: the bytes of the official `silero_vad.onnx`.

    Returns:
        A serialised ONNX model. Inputs: `frames` float32 (m * GROUP, 576), frame by frame 64
        samples of context and 512 new ones, time first and row second, filled up with zeros;
        `count` int64 (1,), how many are real, a multiple of rows; `hidden`, `cell` float32
        (1, rows, 128). Outputs: `probabilities` float32 (rows, 1, count / rows), `hidden_out`,
        `cell_out`.

    Raises:
        RigError: the file is not laid out as expected.
    """
    weights = official_weights(official)
    graph = _Graph()
    const = graph.constant

    # Reflect the end as the official graph does, then make room for the two spacer columns.
    reflect_n = 64
    room_n = _COLUMNS * _HOP_N - (CONTEXT_N + FRAME_N + reflect_n)
    graph.add("Pad", ["frames", const([0, 0, 0, reflect_n])], "reflected", mode="reflect")
    graph.add("Pad", ["reflected", const([0, 0, 0, room_n])], "spaced")
    graph.add("Reshape", ["spaced", const([-1, 1, _COLUMNS * _HOP_N * GROUP])], "signal")
    graph.add("Conv", ["signal", const(weights["stft.forward_basis_buffer"])], "spectrum",
              kernel_shape=[2 * _HOP_N], strides=[_HOP_N], pads=[0, _HOP_N])
    graph.add("Split", ["spectrum", const([_BINS, _BINS])], "real", "imaginary", axis=1)
    graph.add("Mul", ["real", "real"], "real_power")
    graph.add("Mul", ["imaginary", "imaginary"], "imaginary_power")
    graph.add("Add", ["real_power", "imaginary_power"], "power")
    graph.add("Sqrt", ["power"], "magnitude")

    spacers = const(np.tile(np.array([1, 1, 1, 1, 0, 0], dtype=np.float32), GROUP))
    graph.add("Mul", ["magnitude", spacers], "magnitude_spaced")
    _convolution(graph, weights, 0, "magnitude_spaced", "layer0", stride=1)
    graph.add("Mul", ["layer0", spacers], "layer0_spaced")
    _convolution(graph, weights, 1, "layer0_spaced", "layer1", stride=2)

    # Back to one frame an image: the last two layers leave one column a frame, and a product with
    # one column is summed in another order than one with many.
    half = _COLUMNS // 2
    graph.add("Reshape", ["layer1", const([-1, 64, GROUP, half])], "layer1_grouped")
    graph.add("Slice", ["layer1_grouped", const([0]), const([2]), const([3])], "layer1_real")
    graph.add("Transpose", ["layer1_real"], "layer1_turned", perm=[0, 2, 1, 3])
    graph.add("Reshape", ["layer1_turned", const([-1, 64, 2])], "layer1_filled")
    graph.add("Slice", ["layer1_filled", const([0]), "count", const([0])], "layer1_frames")
    _convolution(graph, weights, 2, "layer1_frames", "layer2", stride=2)
    _convolution(graph, weights, 3, "layer2", "layer3", stride=1)

    graph.add("Shape", ["hidden"], "state_shape")
    graph.add("Mul", ["state_shape", const([-1, 1, 1])], "sequence_shape")
    graph.add("Reshape", ["layer3", "sequence_shape"], "sequence")
    bias = np.concatenate([_gates(weights["decoder.rnn.bias_ih"]),
                           _gates(weights["decoder.rnn.bias_hh"])])
    graph.add("LSTM", ["sequence", const(_gates(weights["decoder.rnn.weight_ih"])[None]),
                       const(_gates(weights["decoder.rnn.weight_hh"])[None]), const(bias[None]),
                       "", "hidden", "cell"],
              "recurrent", "hidden_out", "cell_out", hidden_size=HIDDEN)
    graph.add("Squeeze", ["recurrent", const([1])], "recurrent_rows")
    graph.add("Relu", ["recurrent_rows"], "rectified")
    graph.add("Transpose", ["rectified"], "rectified_turned", perm=[1, 2, 0])
    graph.add("Conv", ["rectified_turned", const(weights["decoder.decoder.2.weight"]),
                       const(weights["decoder.decoder.2.bias"])], "logit", kernel_shape=[1])
    graph.add("Sigmoid", ["logit"], "probabilities")

    return graph.model(
        inputs=[("frames", _FLOAT, ("padded", CONTEXT_N + FRAME_N)), ("count", _INT64, (1,)),
                ("hidden", _FLOAT, (1, "rows", HIDDEN)), ("cell", _FLOAT, (1, "rows", HIDDEN))],
        outputs=[("probabilities", _FLOAT, ("rows", 1, "steps")),
                 ("hidden_out", _FLOAT, (1, "rows", HIDDEN)),
                 ("cell_out", _FLOAT, (1, "rows", HIDDEN))])


def official_weights(official: bytes) -> dict[str, Float32]:
    """The 15 weight arrays of the 16 kHz network, by the name that they have in the official file.

    Raises `RigError` when one is missing or has another shape.
    """
    found = {name.removeprefix(_BRANCH): tensor
             for name, tensor in _constants(_message(official, _MODEL_GRAPH))
             if name.startswith(_BRANCH)}
    out: dict[str, Float32] = {}
    for name, shape in _SHAPES.items():
        raw = found.get(name)
        if raw is None:
            raise RigError(f"Silero weights: expected an array named {name}, got none")
        array = _tensor(raw)
        if array.shape != shape:
            raise RigError(f"Silero weights, {name}: expected shape {shape}, got {array.shape}")
        out[name] = array
    return out


_SHAPES: dict[str, tuple[int, ...]] = {
    "stft.forward_basis_buffer": (258, 1, 256),
    "encoder.0.reparam_conv.weight": (128, 129, 3),
    "encoder.0.reparam_conv.bias": (128,),
    "encoder.1.reparam_conv.weight": (64, 128, 3),
    "encoder.1.reparam_conv.bias": (64,),
    "encoder.2.reparam_conv.weight": (64, 64, 3),
    "encoder.2.reparam_conv.bias": (64,),
    "encoder.3.reparam_conv.weight": (128, 64, 3),
    "encoder.3.reparam_conv.bias": (128,),
    "decoder.rnn.weight_ih": (512, 128),
    "decoder.rnn.weight_hh": (512, 128),
    "decoder.rnn.bias_ih": (512,),
    "decoder.rnn.bias_hh": (512,),
    "decoder.decoder.2.weight": (1, 128, 1),
    "decoder.decoder.2.bias": (1,),
}


def _convolution(
    graph: _Graph, weights: dict[str, Float32], layer: int, source: str, target: str, *, stride: int
) -> None:
    name = f"encoder.{layer}.reparam_conv"
    graph.add("Conv", [source, graph.constant(weights[f"{name}.weight"]),
                       graph.constant(weights[f"{name}.bias"])], f"{target}_linear",
              kernel_shape=[3], strides=[stride], pads=[1, 1])
    graph.add("Relu", [f"{target}_linear"], target)


def _gates(stacked: Float32) -> Float32:
    """Torch stacks the LSTM gates as input, forget, cell, output; ONNX as i, o, f, c."""
    i, f, c, o = np.split(stacked, 4, axis=0)
    return np.concatenate([i, o, f, c], axis=0)


# Writing. Every field is a tag (number << 3 | wire type) and a payload: a varint (type 0) or a
# length and so many bytes (type 2).


class _Graph:
    """Nodes and constants under construction."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, value: Float32 | Sequence[int]) -> str:
        """Store an array (float32) or a list of integers (int64) and return its name."""
        array = value if isinstance(value, np.ndarray) else np.array(value, dtype=np.int64)
        kind = _FLOAT if array.dtype == np.float32 else _INT64
        name = f"constant{len(self._constants)}"
        little = array.astype(array.dtype.newbyteorder("<"))
        self._constants.append(
            b"".join(_number(1, size) for size in array.shape)
            + _number(2, kind) + _text(8, name) + _bytes(9, little.tobytes()))
        return name

    def add(self, op: str, inputs: Sequence[str], *outputs: str,
            **attributes: int | str | Sequence[int]) -> None:
        """Append one node; attribute types follow from the Python types."""
        node = (b"".join(_text(1, name) for name in inputs)
                + b"".join(_text(2, name) for name in outputs) + _text(4, op))
        for name, value in attributes.items():
            if isinstance(value, str):
                body = _text(4, value) + _number(20, 3)
            elif isinstance(value, int):
                body = _number(3, value) + _number(20, 2)
            else:
                body = b"".join(_number(8, item) for item in value) + _number(20, 7)
            node += _bytes(5, _text(1, name) + body)
        self._nodes.append(node)

    def model(self, *, inputs: Sequence[tuple[str, int, tuple[int | str, ...]]],
              outputs: Sequence[tuple[str, int, tuple[int | str, ...]]]) -> bytes:
        graph = (b"".join(_bytes(1, node) for node in self._nodes) + _text(2, "silero_block")
                 + b"".join(_bytes(5, constant) for constant in self._constants)
                 + b"".join(_bytes(11, _value_info(*one)) for one in inputs)
                 + b"".join(_bytes(12, _value_info(*one)) for one in outputs))
        return (_number(1, _IR_VERSION) + _bytes(8, _text(1, "") + _number(2, _OPSET))
                + _bytes(7, graph))


def _value_info(name: str, kind: int, shape: tuple[int | str, ...]) -> bytes:
    dimensions = b"".join(
        _bytes(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, dimensions)))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, payload: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


# Reading.

_MODEL_GRAPH = 7
_GRAPH_NODE = 1
_NODE_OUTPUT, _NODE_ATTRIBUTE = 2, 5
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH = 5, 6
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_RAW = 1, 2, 9


def _constants(graph: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Every constant of a graph and of the graphs inside it: name and serialised tensor."""
    for node in _messages(graph, _GRAPH_NODE):
        for attribute in _messages(node, _NODE_ATTRIBUTE):
            for tensor in _messages(attribute, _ATTRIBUTE_TENSOR):
                yield bytes(_message(node, _NODE_OUTPUT)).decode(), tensor
            for inner in _messages(attribute, _ATTRIBUTE_GRAPH):
                yield from _constants(inner)


def _tensor(raw: memoryview) -> Float32:
    shape: list[int] = []
    kind = 0
    data: memoryview | None = None
    for field, value in _fields(raw):
        if field == _TENSOR_DIMS and isinstance(value, int):
            shape.append(value)
        elif field == _TENSOR_DIMS and isinstance(value, memoryview):
            shape.extend(_packed(value))
        elif field == _TENSOR_TYPE and isinstance(value, int):
            kind = value
        elif field == _TENSOR_RAW and isinstance(value, memoryview):
            data = value
    if kind != _FLOAT or data is None or len(data) != 4 * int(np.prod(shape)):
        raise RigError(f"Silero weights: expected a raw float32 array, got type {kind}, "
                       f"shape {tuple(shape)}")
    return np.frombuffer(data, dtype="<f4").astype(np.float32).reshape(shape)


def _messages(buffer: memoryview, wanted: int) -> Iterator[memoryview]:
    for field, value in _fields(buffer):
        if field == wanted and isinstance(value, memoryview):
            yield value


def _message(buffer: bytes | memoryview, wanted: int) -> memoryview:
    for value in _messages(memoryview(buffer), wanted):
        return value
    raise RigError(f"Silero weights: expected field {wanted} in the ONNX file, got none")


def _packed(buffer: memoryview) -> Iterator[int]:
    at = 0
    while at < len(buffer):
        value, at = _read_varint(buffer, at)
        yield value


def _fields(buffer: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(buffer):
        tag, at = _read_varint(buffer, at)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _read_varint(buffer, at)
            yield field, value
            continue
        if wire == 2:
            size, at = _read_varint(buffer, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise RigError(f"Silero weights: expected an ONNX file, got wire type {wire}")
        if at + size > len(buffer):
            raise RigError("Silero weights: expected a whole ONNX file, got a truncated one")
        yield field, buffer[at:at + size]
        at += size


def _read_varint(buffer: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(buffer) or shift > 63:
            raise RigError("Silero weights: expected an ONNX file, got a broken number in it")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
