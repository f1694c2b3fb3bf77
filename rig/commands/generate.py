"""`rig generate`: conversations for cells of a suite, written by a language model."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from audio.endpoint_rules import api_key, check_base_url, is_loopback
from audio.errors import InputError
from probes.generate import MAX_REQUESTS, rejections_by_rule
from probes.generate_prompt import Models
from probes.yamlfile import show
from rig.answer_cache import AnswerCache
from rig.backoff import SENDS
from rig.chat_endpoint import TIMEOUT_S, ChatCounts, ChatEndpoint
from rig.console import Output
from rig.finite_option import Finite
from rig.generating import CACHE_FOLDER, Generated, Plan, generate, plan

KEY_VARIABLE = "OPENAI_API_KEY"
INFRASTRUCTURE_EXIT_CODE = 3


@click.command("generate")
@click.argument("suite", metavar="SUITE")
@click.option("--cell", "cells", multiple=True, required=True, metavar="ROLE-PROBE",
              help="Cell to write for, or a pattern such as 'R1-*'; may be repeated.")
@click.option("--instance", "instances", multiple=True, type=int, metavar="N",
              help="Only this instance; may be repeated. Default: all of the suite.")
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint: https:// anywhere, "
              "http:// on this machine; /chat/completions is added.")
@click.option("--model", metavar="NAME", help="Writes the first two tries.")
@click.option("--fallback-model", metavar="NAME", help="Writes the last two. Default: --model.")
@click.option("--critic-model", metavar="NAME", help="Judges what passed the gates. Default: "
              "--fallback-model.")
@click.option("--situation", metavar="TEXT", help="What the conversations are about. Default: the "
              "model invents it.")
@click.option("--key-env", metavar="NAME", help=f"Environment variable with the key. Default: "
              f"{KEY_VARIABLE}; for an endpoint on this machine none.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Suite folder to write "
              "to; may be SUITE itself.")
@click.option("--cache", type=click.Path(path_type=Path), help="Folder of answers. Default: "
              f"OUT/{CACHE_FOLDER}.")
@click.option("--timeout", "timeout_s", type=Finite(1, 600), default=TIMEOUT_S,
              show_default=True, metavar="S", help="Longest time for one answer.")
@click.option("--force", is_flag=True, help="Write conversations anew that OUT has already.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked for; no endpoint is needed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(suite: str, cells: tuple[str, ...], instances: tuple[int, ...], base_url: str | None,
            model: str | None, fallback_model: str | None, critic_model: str | None,
            situation: str | None, key_env: str | None, out: Path, cache: Path | None,
            timeout_s: float, force: bool, dry_run: bool, as_json: bool) -> int:
    """Have a language model write conversations for cells of SUITE (a built-in name or a folder).
    Each must pass the suite's gates and a critic; up to four tries each. Answers are cached, so a
    run that is repeated goes on where it stopped. Exit code 3 when some could not be made.

    \b
    Example:
      rig generate dsb-ifeval --cell R1-A --out more --dry-run
      rig generate my_suite --cell 'R2-*' --instance 1 --out my_suite \\
        --base-url http://127.0.0.1:8080/v1 --model MODEL
    """
    output = Output(as_json=as_json)
    work = plan(suite, cells, instances, out, force=force)
    if dry_run:
        return _dry_run(output, work)
    models = _models(model, fallback_model, critic_model)
    if base_url is None:
        raise InputError("--base-url: expected the address of an endpoint, got none")
    address = check_base_url(base_url, where="--base-url")
    if situation is not None:
        situation = _one_line("--situation", situation, 600)
    endpoint = ChatEndpoint(address, _key(address, key_env),
                            AnswerCache(cache if cache is not None else out / CACHE_FOLDER),
                            timeout_s=timeout_s, note=output.note)
    with output.progress("generate", len(work.todo)) as progress:
        done = generate(work, models, endpoint, situation=situation, progress=progress.update)
    _tell(output, work, done, endpoint.counts)
    return INFRASTRUCTURE_EXIT_CODE if done.failed or done.not_tried else 0


def _models(writer: str | None, fallback: str | None, critic: str | None) -> Models:
    if writer is None:
        raise InputError("--model: expected the name of a model, got none")
    writer = _one_line("--model", writer, 200)
    fallback = writer if fallback is None else _one_line("--fallback-model", fallback, 200)
    # Table 27 of DSB-IFEval: critic and fallback are the same model.
    return Models(writer, fallback, fallback if critic is None else _one_line(
        "--critic-model", critic, 200))


def _one_line(option: str, text: str, limit: int) -> str:
    if not text.strip() or len(text) > limit or not text.isprintable():
        raise InputError.expected(f"one line of 1 to {limit} printable characters",
                                  got=repr(text[:40]), where=option)
    return text.strip()


def _key(address: str, variable: str | None) -> str | None:
    """A program on this machine gets a key only when the user names one for it."""
    if variable is None and is_loopback(urlsplit(address).hostname or ""):
        return None
    return api_key(variable or KEY_VARIABLE)


def _dry_run(output: Output, work: Plan) -> int:
    found = {"suite": work.suite.name, "out": show(work.out), "to_make": len(work.todo),
             "kept": len(work.kept), "requests_at_most": MAX_REQUESTS * len(work.todo),
             "sends_a_request_at_most": SENDS}
    output.table("dry run: nothing was asked", ["what", "value"], list(found.items()))
    output.document({**found, "conversations": list(work.todo),
                     "kept_conversations": list(work.kept)})
    return 0


def _tell(output: Output, work: Plan, done: Generated, counts: ChatCounts) -> None:
    made = [o for o in done.outcomes if o.conversation is not None]
    for o in done.failed:
        for t in o.tries:
            for r in t.rejections:
                output.note(f"{o.conversation_id}: try {t.number} ({t.model}): {r}")
    for conversation_id in done.not_tried:
        output.note(f"{conversation_id}: not made, the endpoint failed")
    if done.endpoint_error is not None:
        output.note(f"endpoint: {done.endpoint_error}")
    tries = Counter(len(o.tries) for o in made)
    output.line(f"{show(work.out)}: {len(made)} of {len(work.todo)} conversations made"
                + (f", {len(work.kept)} were there already" if work.kept else ""))
    output.table("accepted at", ["try", "conversations"], sorted(tries.items()))
    rules = rejections_by_rule(done.outcomes)
    if rules:
        output.table("refused by", ["rule", "times"], list(rules.items()))
    numbers = dataclasses.asdict(counts)
    output.table("requests", ["what", "count"], [(k.replace("_", " "), v)
                                                 for k, v in numbers.items()])
    output.document({
        "suite": work.suite.name, "out": show(work.out), "made": [
            {"id": o.conversation_id, "file": show(done.files[o.conversation_id]),
             **_tried(o.tries)} for o in made],
        "kept": list(work.kept),
        "failed": [{"id": o.conversation_id, **_tried(o.tries)} for o in done.failed],
        "not_tried": list(done.not_tried), "endpoint_error": done.endpoint_error,
        "accepted_at_try": {str(k): v for k, v in sorted(tries.items())},
        "rejections_by_rule": rules, "requests": numbers})


def _tried(tries: Any) -> dict[str, Any]:
    return {"tries": [dataclasses.asdict(t) for t in tries]}
