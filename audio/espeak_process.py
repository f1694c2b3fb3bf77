"""One utterance through eSpeak NG, in a process of its own.

    python -m audio.espeak_process  < request.json  > answer.bin

Request, JSON on standard input: `{"text", "voice", "max_s"}`. Answer, on standard output: one line
of JSON (`{"rate_hz", "frames", "version"}` or `{"error"}`), then `frames` samples of PCM16, little
endian, mono.

Why a process, and why one an utterance: only the first utterance of a process is always the same
bytes (its noise generator and its voice state go on from call to call), and eSpeak NG is under
the GPL, so the rig does not load it into itself. Nothing but the standard library and the carrier
of the shared library is imported here.
"""

from __future__ import annotations

import ctypes
import json
import sys

_SYNCHRONOUS = 2
_POS_CHARACTER = 1
_CHARS_UTF8 = 1
_OK = 0
_PCM16_BYTES = 2
_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


class EspeakError(Exception):
    """The library refused a call; the text goes back to the parent."""


def speak(text: str, voice: str, max_s: float) -> tuple[bytes, int, str]:
    """Speak `text`; returns PCM16 bytes, their rate in Hz and the library's version.

    Raises:
        EspeakError: the library or voice cannot be used, or the speech would pass `max_s` seconds
            (runaway punctuation is known to do that).
    """
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_Info.restype = ctypes.c_char_p
    rate_hz = library.espeak_Initialize(
        _SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0
    )
    if rate_hz <= 0:
        raise EspeakError(f"espeak_Initialize gave {rate_hz}")
    if library.espeak_SetVoiceByName(voice.encode()) != _OK:
        raise EspeakError(f"no voice {voice!r}")
    chunks: list[bytes] = []
    limit = int(max_s * rate_hz) * _PCM16_BYTES
    held = 0
    overflow = False

    def take(wav: ctypes._Pointer[ctypes.c_short], frames: int, _events: int) -> int:
        nonlocal held, overflow
        if wav and frames > 0:
            chunks.append(ctypes.string_at(wav, frames * _PCM16_BYTES))
            held += frames * _PCM16_BYTES
        overflow = held > limit
        return 1 if overflow else 0

    callback = _CALLBACK(take)  # a name, so that it outlives the call
    library.espeak_SetSynthCallback(callback)
    encoded = text.encode()
    status = library.espeak_Synth(
        encoded, len(encoded) + 1, 0, _POS_CHARACTER, 0, _CHARS_UTF8, None, None
    )
    if overflow:
        raise EspeakError(f"speech passed {max_s} s")
    if status != _OK or library.espeak_Synchronize() != _OK:
        raise EspeakError(f"espeak_Synth gave {status}")
    version = library.espeak_Info(None).decode().split()[0]
    return b"".join(chunks), rate_hz, version


def main() -> None:
    """Serve the one request on standard input."""
    request = json.load(sys.stdin)
    head: dict[str, str | int]
    try:
        pcm, rate_hz, version = speak(request["text"], request["voice"], request["max_s"])
    except EspeakError as error:
        head, pcm = {"error": str(error)}, b""
    else:
        head = {"rate_hz": rate_hz, "frames": len(pcm) // _PCM16_BYTES, "version": version}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + pcm)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
