"""`rig report`: scored runs as one HTML file that opens from disk, without a network.

Everything that came from a file, a model or a user passes through Jinja2's escaping; only the
SVG drawn by `rig.timeline` from numbers is inserted as markup.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.sent import condition_texts
from rig.store import RunFolder, RunInfo
from rig.stored import require_fresh
from rig.tables import changed_settings
from rig.timeline import Timeline, svg
from verifiers.scene import Action

LEVELS = ("L0", "L1", "L2", "L3", "L4a", "L4b", "none")


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One system as the template sees it."""

    name: str
    scores: dict[str, Any]
    changed: str
    fingerprint: list[tuple[str, str]]
    cases: list[dict[str, Any]]
    left_out: int


def load_run(run: RunFolder, max_cases: int) -> ReportRun:
    """Read what `rig score` wrote. Raises `InputError` when the run is not scored."""
    scores = _json(run.scores_path, f"a scored run; run `rig score {run.path}` first")
    info = run.read_info() if run.exists() else None
    require_fresh(run)
    try:
        return _loaded(run, scores, info, max_cases)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError.expected("scores and measurements as `rig score` writes them",
                                  got=f"damaged ones ({type(error).__name__}: {error})",
                                  where=run.path) from error


def _loaded(run: RunFolder, scores: dict[str, Any], info: RunInfo | None,
            max_cases: int) -> ReportRun:
    timelines: dict[tuple[str, int], dict[str, Any]] = {}
    for row in _rows(run.measurements_path):
        key = (row["case_id"], row["trial"])
        # The other playout's picture is not what the verdict was given for.
        if row["playout"] == scores["playout"] or key not in timelines:
            timelines[key] = row
    cases = []
    for case in scores["cases"][:max_cases]:
        found = timelines.get((case["case_id"], case["trial"]))
        picture = Markup(svg(timeline_of(found))) if found else None  # noqa: S704
        cases.append({**case, "svg": picture})
    return ReportRun(name=run.path.name, scores=scores, changed=changed_settings(scores),
                     fingerprint=_fingerprint(info, scores),
                     cases=cases, left_out=max(0, len(scores["cases"]) - max_cases))


def timeline_of(row: dict[str, Any]) -> Timeline:
    """The picture of one measurement row."""
    return Timeline(
        recorded_s=float(row["recorded_s"]),
        user=tuple((float(a), float(b)) for a, b in row["user_spans_s"]),
        model=tuple((float(a), float(b)) for a, b in row["model_spans_s"]),
        window=(float(row["window_s"][0]), float(row["window_s"][1])),
        alternates=tuple((str(name), (float(w[0]), float(w[1])))
                         for name, w in sorted(row["alternate_windows_s"].items())),
    )


def write_report(runs: Sequence[RunFolder], out: Path, *, max_cases: int = 2000) -> int:
    """Render the page; returns its size in bytes."""
    loaded = [load_run(run, max_cases) for run in runs]
    present = {level for run in loaded for level in run.scores["ias"]["all"]}
    roles = sorted({role for run in loaded for role in run.scores["ias"]["by_role"]})
    environment = Environment(loader=PackageLoader("rig"), autoescape=True,
                              undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    try:
        page = environment.get_template("report.html.j2").render(
            title="duplexrig report", runs=loaded, roles=roles,
            levels=[level for level in LEVELS if level in present],
            actions=[str(action) for action in Action])
    except (UndefinedError, TypeError, KeyError) as error:
        raise InputError.expected("scores as `rig score` writes them", got=f"others ({error})",
                                  where=", ".join(str(run.path) for run in runs)) from error
    atomic_write_text(out, page)
    return len(page.encode())


def _fingerprint(info: RunInfo | None, scores: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("playout", str(scores["playout"]))]
    facts += [(f"vad {key}", str(value)) for key, value in scores["vad"].items()]
    facts += [(key, str(value)) for key, value in scores["thresholds"].items()]
    if info is not None:
        facts += [("suite", f"{info.suite} {info.suite_version}"),
                  ("suite construction", info.suite_construction_sha256),
                  ("suite audio", info.suite_audio_sha256),
                  ("adapter", f"{info.adapter.name} {info.adapter.version}"),
                  ("clock", info.clock)]
        facts += [("condition", text) for text in condition_texts(info.conditions)]
        facts += [(f"adapter {key}", str(value)) for key, value in info.adapter.settings.items()]
        facts += list(info.software.items())
    return facts


def _json(path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError.expected(what, got="no such file", where=path) from error
    except (OSError, ValueError) as error:
        raise InputError.expected(what, got=f"an unreadable file ({error})", where=path) from error
    if not isinstance(value, dict) or "cases" not in value or "ias" not in value:
        raise InputError.expected(what, got="a file without cases and ias", where=path)
    return value


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.expected("measurements as `rig score` writes them",
                                  got=f"an unreadable file ({error})", where=path) from error
    return [json.loads(line) for line in text.split("\n") if line.strip()]
