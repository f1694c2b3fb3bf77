"""Pipecat's `frames.proto` for the official protobuf runtime, without generated code.

What our own codec and the peers of our client are compared with. The descriptor follows
`pipecat/frames/frames.proto` of pipecat-ai 1.14.0; the peer tests compare it with the generated
classes.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_MESSAGES = {
    "text": ("TextFrame", "id:UINT64 name:STRING text:STRING"),
    "audio": ("AudioRawFrame", "id:UINT64 name:STRING audio:BYTES sample_rate:UINT32 "
                               "num_channels:UINT32 pts:UINT64?"),
    "transcription": ("TranscriptionFrame",
                      "id:UINT64 name:STRING text:STRING user_id:STRING timestamp:STRING"),
    "message": ("MessageFrame", "data:STRING"),
    "interruption": ("InterruptionFrame", "id:UINT64 name:STRING"),
}
KINDS = tuple(_MESSAGES)


def _frame_class() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="frames.proto", package="pipecat", syntax="proto3")
    for name, layout in _MESSAGES.values():
        message = file.message_type.add(name=name)
        for number, part in enumerate(layout.split(), 1):
            field_name, _, kind = part.partition(":")
            added = message.field.add(
                name=field_name, number=number, label=field.LABEL_OPTIONAL,
                type=getattr(field, f"TYPE_{kind.rstrip('?')}"))
            if kind.endswith("?"):
                message.oneof_decl.add(name=f"_{field_name}")
                added.oneof_index, added.proto3_optional = 0, True
    frame = file.message_type.add(name="Frame")
    frame.oneof_decl.add(name="frame")
    for number, (name, (kind, _)) in enumerate(_MESSAGES.items(), 1):
        frame.field.add(name=name, number=number, label=field.LABEL_OPTIONAL, oneof_index=0,
                        type=field.TYPE_MESSAGE, type_name=f".pipecat.{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pipecat.Frame"))


FRAME = _frame_class()


def encoded(kind: str, **fields: Any) -> bytes:
    """A frame of one kind."""
    return FRAME(**{kind: fields}).SerializeToString()


def decoded(data: bytes) -> dict[str, Any] | str | None:
    """Kind and fields of a frame, bytes as hex; `None` for no known frame, `"refused"` for none."""
    try:
        frame = FRAME.FromString(data)
    except DecodeError:
        return "refused"
    kind = frame.WhichOneof("frame")
    if kind is None:
        return None
    message = getattr(frame, kind)
    fields = {f.name: getattr(message, f.name) for f in message.DESCRIPTOR.fields
              if f.name != "pts" or message.HasField("pts")}
    return {"kind": kind, **{k: v.hex() if isinstance(v, bytes) else v for k, v in fields.items()}}
