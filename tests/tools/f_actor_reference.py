"""The worker of F-Actor beside the released code, with small random weights: run by hand.

    python tests/tools/f_actor_reference.py CHECKOUT

CHECKOUT is one of MaikeZuefle/f-actor (commit 2efa25d); Python, transformers 4.53.3 and
nemo-toolkit 2.5.2 as at the top of the worker, a torch for the processor. What is compared:

- a dialogue that the released `generate` makes of both sides, against the worker's loop, which is
  given the partner's side as a live user's: the model's own codes and text are the same at every
  step, with a partner that the model itself makes and with a second copy of the model;
- the audio of the worker, frame by frame, against NanoCodec's decoding of the whole, and its codes
  of the user's audio against NanoCodec's of the whole, with and without context.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fake_f_actor import worker

STEPS = 40
NARRATIVE = "You are a nurse and ask short questions."
# Levels as of nvidia/nemo-nano-codec-22khz-0.6kbps-12.5fps; sizes are ours, but for the rates.
CODEC: dict[str, Any] = {
    "sample_rate": 22_050, "samples_per_frame": 1764, "loss_resolutions": [[64, 16, 64]],
    "mel_loss_dims": [5], "commit_loss_scale": 0.0,
    "audio_encoder": {
        "_target_": "nemo.collections.tts.modules.audio_codec_modules.HiFiGANEncoder",
        "encoded_dim": 16, "down_sample_rates": [2, 3, 6, 7, 7], "base_channels": 2,
        "activation": "lrelu", "pad_mode": "replicate"},
    "audio_decoder": {
        "_target_": "nemo.collections.tts.modules.audio_codec_modules.CausalHiFiGANDecoder",
        "input_dim": 16, "up_sample_rates": [7, 7, 6, 3, 2], "base_channels": 64,
        "activation": "half_snake", "output_activation": "clamp", "pad_mode": "zeros",
        "n_groups_equal_to_out_channels": True},
    "vector_quantizer": {
        "_target_": "nemo.collections.tts.modules.audio_codec_modules.GroupFiniteScalarQuantizer",
        "num_groups": 4, "num_levels_per_group": [9, 8, 8, 7]},
    "discriminator": {
        "_target_": "nemo.collections.tts.modules.audio_codec_modules.Discriminator",
        "discriminators": [{
            "_target_": "nemo.collections.tts.modules.audio_codec_modules.PeriodDiscriminator",
            "period": 2}]},
    "generator_loss": {
        "_target_": "nemo.collections.tts.losses.audio_codec_loss.GeneratorSquaredLoss"},
    "discriminator_loss": {
        "_target_": "nemo.collections.tts.losses.audio_codec_loss.DiscriminatorSquaredLoss"},
}


def tiny_codec(path: Path) -> None:
    from nemo.collections.tts.models import AudioCodecModel
    from omegaconf import OmegaConf

    torch.manual_seed(1)
    model = AudioCodecModel(OmegaConf.create(CODEC))
    with torch.no_grad():
        # Else all frames have the same codes.
        for name, part in model.audio_encoder.post_conv.named_parameters():
            part.mul_(0.0 if "bias" in name else 5000.0)
    model.save_to(str(path))


def tiny_model(folder: Path, marks: list[str]) -> None:
    """A Llama of two layers with F-Actor's heads; its tokenizer knows single characters."""
    from modeling_dsu import DSULlama
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    known = pre_tokenizers.ByteLevel.alphabet()
    words = {c: i for i, c in enumerate(sorted(known))}
    # Ids of text must not be ids of audio.
    words |= {f"<unused{i}>": i for i in range(len(words), 4100)}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|eot_id|>")
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(2)
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         tie_word_embeddings=True, pad_token_id=None, eos_token_id=None,
                         initializer_range=0.5)
    config.num_dsus, config.text_stream, config.multi_text_stream = 4, True, False
    config.audio_vocab_size, config.use_speaker_embedding = 4032, True
    config.calc_loss_on_c1_only = False
    model = DSULlama(config)
    model.init_or_load_speaker_embed_proj(model_path=str(folder))
    model.init_or_load_audio_heads(model_path=str(folder))
    model.init_or_load_audio_embeds(model_path=str(folder))
    model.save_pretrained(folder)


def released(engine: Any, prompts: list[str], voices: list[Any], itself: bool) -> Any:
    """What `generate` says, greedily: codes `(8, steps)` and text `(steps,)`."""
    model, tokenizer = engine._model, engine._tokenizer
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    with torch.no_grad():
        codes, texts = model.generate(
            input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, max_length=STEPS,
            do_sample=False, tokenizer=tokenizer, stop_strings=["<|EOS|>"], use_speaker_sample=0,
            dsu_sample=torch.zeros(1, 8, 1, dtype=torch.int64),
            text_sample=torch.zeros(1, 2, 1, dtype=torch.int64), n_delay_text_stream=0,
            n_delay_audio_stream=2, talk_to_itself=itself, spk_emb=voices)
    # It leaves out its last step where no mark ended the dialogue.
    return np.array(codes), np.array(texts[0])


class Given:
    """A codec that says what it is told that the user's frames are; decodes with the real one."""

    def __init__(self, real: Any, partner: np.ndarray) -> None:
        self.decode, self.partner = real.decode, partner

    def encode(self, audio: np.ndarray) -> np.ndarray:
        """Each frame holds its own number."""
        return self.partner[:, audio[:: 1764].round().astype(int)]


def same_dialogue(module: Any, model: Any, itself: bool) -> None:
    engine, args = model._engine, model._args
    prompts = [module.prompt(args, NARRATIVE), module.prompt(args, "You are ill.")]
    voices = [model._voice, model._voice[::-1].copy()]
    n = 2 if itself else 1
    codes, texts = released(engine, prompts[:n], voices[:n], itself)
    frames = codes.shape[1] - module.DELAY
    assert frames > STEPS // 2, f"the random weights ended the dialogue after {frames} frames"
    assert (codes[:, :2] == module.DELAY_ID).all()

    class Listening:
        """Keeps the columns that the worker makes."""

        def __init__(self) -> None:
            self.columns: list[np.ndarray] = []
            self.texts: list[int] = []

        def begin(self, *a: Any) -> Any:
            return engine.begin(*a)

        def step(self, column: np.ndarray, text_id: int) -> Any:
            self.columns.append(column)
            self.texts.append(text_id)
            return engine.step(column, text_id)

    heard = Listening()
    ours = module.FActor(heard, Given(model._codec, codes[4:, 2:]), model._decode, model._marks,
                         model._voice, args, {})
    ours.reset(NARRATIVE, 3)
    said = [ours.step(np.full(1764, k, np.float32))[0] for k in range(frames)]
    columns = np.stack(heard.columns, axis=1)
    assert columns.shape == codes.shape, (columns.shape, codes.shape)
    apart = int((columns != codes).sum())
    # Two copies in one batch are padded to one length: rounding differs by what a pad adds.
    print(f"talks to itself: {itself}; {codes.shape[1]} steps, codes apart: {apart} of "
          f"{codes.size}, texts apart: {int((np.array(heard.texts) != texts).sum())}; "
          f"{len(np.unique(codes[:, 2:]))} different codes")
    assert apart == 0
    assert (np.array(heard.texts) == texts).all()
    whole = model._codec.decode(codes[:4, 2:])
    live = np.concatenate(said[:-1])
    print("audio beside the decoding of the whole: differs by at most",
          np.abs(live - whole[1764:]).max(), "of", np.abs(whole).max())
    assert np.abs(live - whole[1764:]).max() < 1e-4


def windows(module: Any, codec: Any) -> None:
    rng = np.random.default_rng(4)
    audio = (0.1 * rng.standard_normal(34 * 1764)).astype(np.float32)
    whole = codec.encode(audio)
    print(f"codes of the user: {len(np.unique(whole))} different of {whole.size}")
    for context, lookahead in ((14, 14), (14, 3), (14, 0), (2, 0)):
        window = module.EncodingWindow(codec.encode, 4, 1764, context, lookahead)
        found = np.concatenate([window.push(audio[k * 1764 : (k + 1) * 1764]) for k in range(34)],
                               axis=1)
        k = found.shape[1]
        print(f"encoding with {context} frames before and {lookahead} after: "
              f"{int((found != whole[:, :k]).sum())} of {found.size} codes differ", flush=True)
        if (context, lookahead) == (14, 14):
            assert (found == whole[:, :k]).all()
    sound = codec.decode(whole)
    for context in (28, 12, 2):
        window = module.DecodingWindow(codec.decode, 4, 1764, context)
        found = np.concatenate([window.push(whole[:, k : k + 1]) for k in range(34)])
        print(f"decoding with {context} frames before: at most "
              f"{np.abs(found - sound).max():.2e} of {np.abs(sound).max():.2e}")


def main(checkout: str) -> None:
    module = worker()
    sys.path.insert(0, str(Path(checkout) / "training"))
    from special_tokens import TEXT_STREAM_TOKENS

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tiny_codec(folder / "codec.nemo")
        (folder / "model").mkdir()
        tiny_model(folder / "model", TEXT_STREAM_TOKENS)
        model = module.load(module.parsed([
            "--device=cpu", f"--code={checkout}", f"--weights={folder / 'model'}",
            f"--codec={folder / 'codec.nemo'}", "--temperature=0", f"--max-steps={STEPS}"]))
        print(model.hello().settings, flush=True)
        windows(module, model._codec)
        same_dialogue(module, model, itself=False)
        same_dialogue(module, model, itself=True)


if __name__ == "__main__":
    main(sys.argv[1])
