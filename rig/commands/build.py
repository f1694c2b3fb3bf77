"""`rig build`: validate a suite and render its user audio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from audio.aligners import ALIGNERS, DEFAULT_ALIGNER
from audio.errors import InputError
from audio.synthesis import DEFAULT_ENGINE
from probes.expand import conversation_ids, expand, plan_streams, select
from probes.gates import GateError, check_suite
from probes.loader import load_suite
from probes.manifest import SuiteInfo
from probes.render import build_suite
from rig.clock import Stopwatch
from rig.console import Output
from rig.rendering import EngineRenderer
from rig.settings import default_jobs, key_values
from rig.store import FolderLock, make_folder, read_model


@click.command("build")
@click.argument("suite", metavar="SUITE")
@click.option("--tts", default=DEFAULT_ENGINE, show_default=True, metavar="ENGINE",
              help="Speech engine; see `rig engines`.")
@click.option("--tts-set", "tts_settings", multiple=True, metavar="KEY=VALUE", help="Setting of "
              "the speech engine; may be repeated.")
@click.option("--voice", metavar="NAME", help="One voice for every conversation. Default: all of "
              "the engine's, one a conversation; help lists them.")
@click.option("--aligner", type=click.Choice(ALIGNERS), default=DEFAULT_ALIGNER, show_default=True,
              help="What finds the words' times.")
@click.option("--aligner-weights", type=click.Path(), help="mms_fa: the file of its weights.")
@click.option("--out", type=click.Path(path_type=Path), help="Suite folder. Default: "
              "suites/SUITE.")
@click.option("--level", "levels", multiple=True, metavar="LEVEL", help="Only cases of this "
              "level; may be repeated.")
@click.option("--filter", "filter_expr", metavar="EXPR", help="Only matching cases, for instance "
              "role=R1|R2,instance=1.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--dry-run", is_flag=True, help="Validate and count; render nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(suite: str, tts: str, tts_settings: tuple[str, ...], voice: str | None, aligner: str,
            aligner_weights: str | None, out: Path | None, levels: tuple[str, ...],
            filter_expr: str | None, jobs: int | None, dry_run: bool, as_json: bool) -> int:
    """Validate a suite (its built-in name or its folder) and render the user's side: audio, word
    alignment, windows, manifest. What was rendered into OUT before is taken from its cache,
    OUT/.cache; another OUT renders again. A suite that stands in OUT is replaced.

    \b
    Example:
      rig build dsb-ifeval --out suite
      rig build dsb-ifeval --filter instance=1 --level L2 --out small
    """
    output = Output(as_json=as_json)
    if voice == "help":
        names = EngineRenderer(tts, None, tuple(key_values(tts_settings, "--tts-set").items()),
                               aligner, aligner_weights).voices
        for name in names:
            output.line(name)
        output.document({"engine": tts, "voices": list(names)})
        return 0
    watch = Stopwatch()
    spec = load_suite(suite)
    cases = select(expand(spec), levels, filter_expr)
    if not cases:
        raise InputError.expected("at least one case to build", got="none", where=suite)
    judged = conversation_ids(spec, cases)
    renderer = EngineRenderer(tts, voice, tuple(key_values(tts_settings, "--tts-set").items()),
                              aligner, aligner_weights)
    renderer.require_voice()
    try:
        if dry_run:
            failures = check_suite(spec, judged)
            if failures:
                raise GateError(failures)
            plan: dict[str, Any] = {"suite": spec.name, "cases": len(cases),
                                    "streams": len(plan_streams(spec, cases)), "gates": "passed"}
            output.table("dry run: nothing was rendered", ["what", "value"], list(plan.items()))
            if missing := spec.missing():
                plan["missing"] = list(missing)
                output.note(f"incomplete suite: {len(missing)} texts are missing: "
                            f"{', '.join(missing[:8])}{', ...' if len(missing) > 8 else ''}")
            output.document(plan)
            return 0
        folder = out if out is not None else Path("suites") / Path(suite).name
        with (_kept_for_us(folder),
              output.progress(f"render with {tts}", len(judged)) as progress):
            before = _suite_here(folder)
            info = build_suite(
                spec, folder, renderer, select=cases, jobs=jobs or default_jobs(),
                progress=lambda done, total, label: progress.update(done, label, total=total))
    except GateError as error:
        for failure in error.failures:
            output.note(f"gate: {failure}")
        raise
    output.line(f"{folder}: {info.n_cases} cases from {info.n_conversations} conversations, "
                f"{info.n_streams} user audio streams, mean {info.mean_conversation_s:.1f} s, "
                f"rendered with {info.engine.get('name', tts)} in {watch.elapsed_s:.1f} s")
    for note in info.notes:
        output.line(f"note: {note}")
    if before is not None and before.construction_sha256 != info.construction_sha256:
        output.note(f"{folder}: replaced {_told(before)} by {_told(info)}; a run of the former "
                    "cannot be resumed on it")
    output.document({"suite_dir": str(folder), **info.model_dump(mode="json")})
    return 0


def _suite_here(folder: Path) -> SuiteInfo | None:
    """The suite that stands in this folder, if one can be read."""
    try:
        return read_model(folder / "suite.json", SuiteInfo, "a built suite")
    except InputError:
        return None


def _told(info: SuiteInfo) -> str:
    return (f"{info.suite} {info.suite_version} with {info.n_cases} cases (rendered with "
            f"{info.engine.get('name', 'unnamed')}, construction {info.construction_sha256[:8]})")


@contextmanager
def _kept_for_us(folder: Path) -> Iterator[None]:
    """No second build writes into this suite folder meanwhile. A folder that is none is left as it
    is: the build will refuse it."""
    cache = folder / ".cache"
    names = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    foreign = bool(names) and not names & {"suite.json", ".cache"}
    if foreign or (folder.exists() and not folder.is_dir()):
        yield
        return
    make_folder(folder)
    make_folder(cache)
    with FolderLock(cache):
        yield
