"""`rig sample`: blinded samples for human validation, one offline page an annotator."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from audio.errors import InputError
from probes.loader import load_suite
from rig.console import Output
from rig.outputs import check_outputs
from rig.settings import default_jobs
from rig.store import make_folder
from rig.validation import audit, h1, h2, h3
from rig.validation.key import SECRET_BYTES, Key, KeyPage, read_key, require_same, write_key
from rig.validation.page import check_annotators, give_out, make_key, staged, write_pages
from rig.validation.sample import Sample
from rig.validation.studies import (
    ANNOTATORS,
    AUDIT_PER_SYSTEM,
    H2_PER_ACTION,
    H3_ITEMS,
    STUDIES,
    Study,
)
from rig.wording import counted
from rig.workers import Workers

DEFAULT_SEED = 1
MAX_ITEMS = 10_000
"""Ours: nobody annotates more."""
MAX_ANNOTATORS = 100
ITEMS = {"h2": H2_PER_ACTION, "h3": H3_ITEMS, "audit": AUDIT_PER_SYSTEM}


@click.command("sample")
@click.argument("study", type=click.Choice(STUDIES))
@click.argument("run_dirs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the pages.")
@click.option("--key", "key_path", type=click.Path(path_type=Path), help="Where the key goes, "
              "which says what each item is. Default: OUT.key.json, beside the folder.")
@click.option("--annotators", type=click.IntRange(1, MAX_ANNOTATORS), help="How many pages, for "
              "A1, A2, ... Default: as in the paper, 5 for h1, 3 for h2 and h3, 1 for audit.")
@click.option("--annotator", "codes", multiple=True, metavar="CODE", help="A code in place of A1, "
              "...; may be repeated.")
@click.option("--items", type=click.IntRange(1, MAX_ITEMS), help="Items: each action (h2, default "
              f"{H2_PER_ACTION}), in all (h3, {H3_ITEMS}), each system (audit, "
              f"{AUDIT_PER_SYSTEM}). h1 takes every conversation.")
@click.option("--seed", type=click.IntRange(0), help="Of the draw. Default: "
              f"{DEFAULT_SEED}, or the one of --add-to.")
@click.option("--suite", metavar="SUITE", help="h1: name or source folder of the suite; default "
              "dsb-ifeval. h3: source of the suite that was played, where it is not built in.")
@click.option("--audio", type=click.Path(path_type=Path), metavar="SUITE_DIR", help="h1: a build "
              "of the suite; items then have the user's voice.")
@click.option("--judge", metavar="NAME", help="h3: the judge whose answers are checked.")
@click.option("--second", metavar="NAME", help="h3: another judge, for the same items.")
@click.option("--add-to", "before_path", type=click.Path(path_type=Path), metavar="KEY",
              help="Make pages for further annotators of a sample that was drawn before.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--dry-run", is_flag=True, help="Say what would be drawn; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(study: Study, run_dirs: tuple[Path, ...], out: Path | None, key_path: Path | None,
            annotators: int | None, codes: tuple[str, ...], items: int | None, seed: int | None,
            suite: str | None, audio: Path | None, judge: str | None, second: str | None,
            before_path: Path | None, jobs: int | None, dry_run: bool, as_json: bool) -> int:
    """Draw a sample for people to judge, stratified and blinded, and write one page an annotator.

    h1: what does the persona ask for? h2: did the verifiers decide as people do? h3: does the judge
    rate as people do? audit: does the transcript give the sound? (DSB-IFEval, appendix A)

    The pages hold no system, level, verdict or target. The key does: never give it out.

    \b
    Example:
      rig sample h1 --out pages/h1
      rig sample h2 runs/a runs/b --out pages/h2 --dry-run
      rig sample h3 runs/a runs/b --judge gpt-4o --second gemini-3.1-pro --out pages/h3
      rig agree pages/h2.key.json answers/*.json
    """
    output = Output(as_json=as_json)
    _check_options(study, run_dirs, items, suite, audio, judge, second)
    names = _codes(study, annotators, codes)
    before = None if before_path is None else read_key(before_path)
    if before is not None and before.study != study:
        raise InputError.expected(f"a key of {study}", got=f"one of {before.study}",
                                  where=before_path)
    if before is not None and seed not in (None, before.seed):
        raise InputError.expected(f"seed {before.seed}, as in --add-to", got=seed, where="--seed")
    seed = before.seed if before is not None else DEFAULT_SEED if seed is None else seed
    secret = before.secret if before is not None else secrets.token_hex(SECRET_BYTES)
    target = None if dry_run else _targets(out, key_path, before, names, study,
                                               [*run_dirs, audio, before_path])
    needs = study in ("h3", "audit") and not dry_run
    workers: AbstractContextManager[Workers | None] = (
        Workers(jobs or default_jobs()) if needs else nullcontext(None))
    with workers as pool:
        sample = _draw(study, run_dirs, secret, seed, items or ITEMS.get(study, 0), suite, audio,
                       judge, second, pool, full=not dry_run)
    if not sample.items:
        raise InputError(f"{study}: expected items to draw, got none"
                         + "".join(f"; {note}" for note in sample.notes[:3]))
    pages: list[KeyPage] = []
    if target is not None:
        folder, key_file = target
        key = make_key(study, seed, secret, sample, ())
        if before is not None and before_path is not None:
            require_same(before, key, before_path)
        with staged(folder) as waiting:
            pages = write_pages(study, sample, names, secret, waiting)
            every = [*(before.pages if before is not None else ()), *pages]
            write_key(key_file, Key.model_validate({**key.model_dump(), "pages": every}))
            give_out(pages, waiting, folder)
    _tell(output, study, sample, seed, names, pages, target)
    return 0


def _check_options(study: Study, run_dirs: Sequence[Path], items: int | None, suite: str | None,
                   audio: Path | None, judge: str | None, second: str | None) -> None:
    if study == "h1":
        if run_dirs:
            raise InputError.expected("no run for h1, which asks about a suite", got=run_dirs[0],
                                      where="RUN")
        if items is not None:
            raise InputError("--items: h1 takes every conversation of the suite")
    elif not run_dirs:
        raise InputError(f"{study}: expected scored runs, got none")
    for name, value, of in (("--suite", suite, ("h1", "h3")), ("--audio", audio, ("h1",)),
                            ("--judge", judge, ("h3",)), ("--second", second, ("h3",))):
        if value is not None and study not in of:
            raise InputError(f"{name}: is for {' and '.join(of)}, not for {study}")
    if study == "h3" and judge is None:
        raise InputError("h3: expected --judge NAME, whose answers are checked (rig judge), got "
                         "none")
    if second is not None and second == judge:
        raise InputError(f"--second: expected another judge than --judge, got {second!r} twice")


def _codes(study: Study, annotators: int | None, codes: Sequence[str]) -> list[str]:
    if codes and annotators is not None:
        raise InputError("expected --annotators or --annotator, got both")
    check_annotators(codes)
    return list(codes) or [f"A{k}" for k in range(1, (annotators or ANNOTATORS[study]) + 1)]


def _targets(out: Path | None, key_path: Path | None, before: Key | None, names: Sequence[str],
             study: Study, inputs: Sequence[Path | None]) -> tuple[Path, Path]:
    """Folder and key, so far free. A key that is written over would orphan pages given out."""
    if out is None:
        raise InputError("expected --out DIR for the pages (or --dry-run), got none")
    key_file = key_path or out.with_name(f"{out.name}.key.json")
    if key_file.resolve().is_relative_to(out.resolve()):
        raise InputError(f"--key: expected a file outside {out}, which annotators are given, got "
                         f"{key_file}")
    if key_file.exists():
        raise InputError.expected("no file yet: pages given out cannot be read without their key",
                                  got="one", where=key_file)
    taken = {page.annotator for page in before.pages} if before is not None else set()
    for name in names:
        path = out / f"{study}.{name}.html"
        if name in taken or path.exists():
            raise InputError(f"{path}: expected an annotator without a page so far, got one with")
    check_outputs({}, inputs, folders={"--out": out})
    make_folder(out)
    make_folder(key_file.parent)
    check_outputs({"--key": key_file}, inputs)
    return out, key_file


def _draw(study: Study, run_dirs: Sequence[Path], secret: str, seed: int, items: int,
          suite: str | None, audio: Path | None, judge: str | None, second: str | None,
          workers: Workers | None, *, full: bool) -> Sample:
    if study == "h1":
        return h1.sample(load_suite(suite or "dsb-ifeval"), secret, audio if full else None)
    if study == "h2":
        return h2.sample(run_dirs, secret, seed, items, clips=full)
    if study == "h3":
        assert judge is not None
        return h3.sample(run_dirs, secret, seed, items, judge, second, suite, workers)
    return audit.sample(run_dirs, secret, seed, items, workers)


def _tell(output: Output, study: Study, sample: Sample, seed: int, names: Sequence[str],
          pages: Sequence[KeyPage], target: tuple[Path, Path] | None) -> None:
    counts = {name: dict(sorted(Counter(str(getattr(i.key, name)) for i in sample.items).items()))
              for name in ("system", "level", "role", "action")}
    output.line(f"{study}: {counted(len(sample.items), 'item')}, "
                f"{counted(len(names), 'annotator')}, seed {seed}")
    if sample.strata:
        output.table("strata", ["of", "stratum", "wanted", "available", "drawn"],
                     [(s.of, s.stratum, s.wanted, s.available, s.drawn) for s in sample.strata])
    for name, found in counts.items():
        if set(found) != {"None"}:
            output.line(f"{name}: " + ", ".join(f"{value} {n}" for value, n in found.items()))
    for note in sample.notes:
        output.note(note)
    files = []
    if target is not None:
        for page in pages:
            path = target[0] / page.file
            size = path.stat().st_size
            files.append({"file": str(path), "annotator": page.annotator, "page_id": page.page_id,
                          "bytes": size})
            output.line(f"{path}: {size / 1e6:.1f} MB")
        output.line(f"key, not for annotators: {target[1]}")
    output.document({
        "study": study, "seed": seed, "items": len(sample.items), "annotators": list(names),
        "judges": list(sample.judges), "strata": [s.model_dump() for s in sample.strata],
        "counts": counts, "notes": list(sample.notes), "pages": files,
        "key": None if target is None else str(target[1])})
