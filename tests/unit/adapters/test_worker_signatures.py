"""Every call that a worker makes into its model's code fits the signature that the code has.

The signatures: tests/tools/signatures, each with the place that it was read from. Whether they are
so there: tests/tools/check_signatures.py, and the peers' tests for what is installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import signature_table
import worker_calls

TOOLS = Path(__file__).parents[2] / "tools"
WORKERS = Path(__file__).parents[3] / "adapters" / "workers"
MAPS = sorted((TOOLS / "signatures" / "workers").glob("*.toml"))
TABLES = {p.stem: signature_table.load(p.stem) for p in signature_table.FOLDER.glob("*.toml")}


def wrong(facts: dict[str, Any], path: Path) -> Iterator[str]:
    """What of a script is not known, or would be refused; `facts`: its file in `workers`."""
    script = worker_calls.read(path, facts["ours"])
    known = [*facts["calls"], *facts.get("keys", {})]
    for full, line in script.imports.items():
        yield from named(facts["imports"].get(full), f"{path.name}:{line}: import {full}")
    for text, line in script.attributes.items():
        yield from named(facts["attributes"].get(text), f"{path.name}:{line}: {text}")
    for call in script.calls:
        where = f"{path.name}:{call.line}: {call.text}"
        if call.text in facts.get("keys", {}):
            yield from keys(call, facts["keys"][call.text], where)
        elif call.text not in known:
            yield f"{where}: in no table"
        else:
            for target in listed(facts["calls"][call.text]):
                yield from refused(call, target, facts, where)
    unused = set(known) - {c.text for c in script.calls}
    unused |= set(facts["imports"]) - set(script.imports)
    unused |= set(facts["attributes"]) - set(script.attributes)
    yield from (f"{path.name}: no longer has {text}" for text in sorted(unused))


def listed(targets: str | list[str]) -> list[str]:
    return [targets] if isinstance(targets, str) else targets


def named(target: str | None, where: str) -> Iterator[str]:
    """A name of a table (`table:name`), or a whole module or constant of it (`table`)."""
    if target is None:
        yield f"{where}: in no table"
        return
    table, _, name = target.partition(":")
    assert table in TABLES, where
    assert not name or name in TABLES[table].attributes | TABLES[table].functions, where


def keys(call: worker_calls.Call, targets: str | list[str], where: str) -> Iterator[str]:
    for target in listed(targets):
        table, _, name = target.partition(":")
        for word in call.constants:
            if word not in TABLES[table].functions[name].keys:
                yield f"{where}: {name} gives no {word}"


def refused(call: worker_calls.Call, target: str, facts: dict[str, Any],
            where: str) -> Iterator[str]:
    table, _, name = target.partition(":")
    if name in TABLES[table].attributes:
        return
    expands = facts.get("expands", {}).get(call.text)
    if call.more and expands is None:
        yield f"{where}: what * or ** stands for is not said"
    to_fields = {f.rpartition(".")[2] for f in facts.get("fields", {}).get(call.text, [])}
    keywords = [k for k in (*call.keywords, *(expands or ())) if k not in to_fields]
    refusal = TABLES[table].functions[name].refusal(call.positional_n, keywords)
    if refusal:
        yield f"{where}: {name}: {refusal}"


def facts_of(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MAPS, ids=lambda p: p.stem)
def test_every_call_fits_its_signature(path: Path) -> None:
    facts = facts_of(path)
    assert list(wrong(facts, WORKERS / facts["script"])) == []


def test_every_worker_of_a_model_is_looked_at() -> None:
    mapped = {facts_of(path)["script"] for path in MAPS}
    scripts = {p.name for p in WORKERS.glob("*_worker.py")} - {"echo_worker.py"}
    assert scripts <= mapped


@pytest.mark.parametrize(("old", "new", "says"), [
    ("temp_text=args.temp_text", "text_temp=args.temp_text", "unexpected keyword argument"),
    ("self._lm.step_system_prompts(self._mimi)", "self._lm.step_system_prompts()",
     "missing a required argument: 'mimi'"),
    ("loaders.get_mimi(part(loaders.MIMI_NAME), device)",
     "loaders.get_mimi(part(loaders.MIMI_NAME), device, 8)", "too many positional arguments"),
    ("self._lm.load_voice_prompt_embeddings(self._voice)",
     "self._lm.load_voice(self._voice)", "self._lm.load_voice: in no table"),
    ("self._lm.voice_prompt !=", "self._lm.voice !=", "self._lm.voice: in no table"),
    ("from huggingface_hub import hf_hub_download", "from huggingface_hub import download as "
     "hf_hub_download", "import huggingface_hub.download: in no table"),
    ("self._words.encode(wrapped(system_prompt))", "self._words.encode(*wrapped(system_prompt))",
     "what * or ** stands for is not said"),
])
def test_a_call_that_the_model_would_refuse_is_found(
        tmp_path: Path, old: str, new: str, says: str) -> None:
    """The true script with one fault put in."""
    text = (WORKERS / "personaplex_worker.py").read_text()
    assert text.count(old) == 1
    changed = tmp_path / "personaplex_worker.py"
    changed.write_text(text.replace(old, new))
    facts = facts_of(TOOLS / "signatures" / "workers" / "personaplex_worker.toml")
    assert says in " ".join(wrong(facts, changed))


def test_keys_and_names_that_come_by_stars_are_held_against_what_is_read(tmp_path: Path) -> None:
    text = (WORKERS / "minicpm_o_worker.py").read_text()
    facts = facts_of(TOOLS / "signatures" / "workers" / "minicpm_o_worker.toml")
    changed = tmp_path / "minicpm_o_worker.py"
    for old, new, says in (
        ('said.get("is_listen")', 'said.get("listens")', "gives no listens"),
        ('ls_mode="explicit"', 'mode="explicit"', "MiniCPMO.as_duplex: reads no mode"),
        ("torch_dtype=torch.bfloat16", "dtype=torch.bfloat16", "reads no dtype"),
    ):
        assert text.count(old) == 1
        changed.write_text(text.replace(old, new))
        assert says in " ".join(wrong(facts, changed))


def test_what_fun_audio_chats_processor_gives_its_model_takes() -> None:
    """`generate(**inputs)` hands it to the model's `forward`."""
    code = "fun_audio_chat:funaudiochat."
    given = signature_table.known(f"{code}processing_funaudiochat.FunAudioChatProcessor.__call__")
    forward = signature_table.known(
        f"{code}modeling_funaudiochat.FunAudioChatForConditionalGeneration.forward")
    assert len(given.keys) == 7
    assert set(given.keys) <= set(forward.signature.parameters)


@pytest.mark.parametrize(("takes", "positional_n", "keywords", "says"), [
    ("a, b=, *, c=, **more", 1, ["b", "c"], None),
    ("a, b=, *, c=, **more", 1, ["d"], "reads no d"),
    ("a, b=", 3, [], "too many positional"),
    ("*, c", 0, [], "missing a required"),
    ("*rest, c=", 5, ["c"], None),
])
def test_signatures_as_they_are_written(
        takes: str, positional_n: int, keywords: list[str], says: str | None) -> None:
    function = signature_table.Function("f", "", signature_table.signature(takes))
    refusal = function.refusal(positional_n, keywords)
    assert (refusal is None) if says is None else says in str(refusal)
