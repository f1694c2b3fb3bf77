"""`rig new-suite`, `rig schema`, and the whole path of a suite of the user's own."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.errors import InputError
from probes import newsuite
from probes.expand import expand
from probes.gates import check_suite
from probes.loader import load_suite
from probes.newsuite import EXAMPLE, write_new_suite
from probes.render import build_suite
from probes.spec import CellParams
from rig.schemas import KINDS
from verifiers.thresholds import CaseParams, check_params

PACKAGE = Path(newsuite.__file__).parent / "suites" / EXAMPLE

# --- what is written -------------------------------------------------------------------------


def test_the_example_has_what_its_page_promises(tmp_path: Path) -> None:
    name, files = write_new_suite(tmp_path / "mine")
    assert name == "mine"
    assert all(path.is_file() for path in files)
    suite = load_suite(tmp_path / "mine")
    assert suite.name == "mine"
    assert suite.missing() == ()
    assert check_suite(suite) == ()
    cases = expand(suite)
    assert len(cases) == 20
    assert Counter(c.level for c in cases) == {"L1": 10, "L2": 10}
    assert Counter(c.expected_action for c in cases) == {
        "TAKE_TURN": 4, "READBACK": 4, "YIELD": 4, "LISTEN": 4, "BACKCHANNEL": 4}
    by_id = {c.case_id: c for c in cases}
    # One audio, two roles, opposite behaviour.
    assert by_id["ORDER-PAUSE-2-L1"].stream_id == by_id["CARE-PAUSE-2-L1"].stream_id == "S-PAUSE-2"
    assert by_id["ORDER-PAUSE-2-L1"].expected_action == "TAKE_TURN"
    assert by_id["CARE-PAUSE-2-L1"].expected_action == "LISTEN"
    assert by_id["ORDER-BARGE-1-L2"].delivery.barge_in_after_s == 3.0
    assert by_id["ORDER-PAUSE-1-L1"].params.max_wait_s == 1.5


def test_a_dry_run_says_what_is_missing(tmp_path: Path, call_rig: Any) -> None:
    """To raise `instances` is the page's own advice; the texts are then still to be written."""
    write_new_suite(tmp_path / "mine")
    suite = tmp_path / "mine" / "suite.yaml"
    text = suite.read_text(encoding="utf-8")
    assert "instances: 2" in text
    suite.write_text(text.replace("instances: 2", "instances: 3"), encoding="utf-8")
    called = call_rig("build", tmp_path / "mine", "--dry-run", "--json")
    assert called.code == 0
    missing = json.loads(called.out)["missing"]
    assert "S-PAUSE-3" in missing or "ORDER-PAUSE-3" in missing
    assert f"incomplete suite: {len(missing)} texts are missing: " in called.err


def test_only_the_name_differs_from_the_example(tmp_path: Path) -> None:
    write_new_suite(tmp_path / "x", "support-line")
    ours, theirs = kit.files(tmp_path / "x"), kit.files(PACKAGE)
    changed = [path for path in theirs if ours.pop(path) != theirs[path]]
    assert changed == ["suite.yaml"]
    assert ours == {}
    lines = (tmp_path / "x" / "suite.yaml").read_text(encoding="utf-8").splitlines()
    before = (PACKAGE / "suite.yaml").read_text(encoding="utf-8").splitlines()
    different = [(a, b) for a, b in zip(before, lines, strict=True) if a != b]
    assert [(a.split("#")[0].strip(), b.split("#")[0].strip()) for a, b in different] == [
        ("name: order-line", "name: support-line")]
    assert different[0][1].index("#") == different[0][0].index("#")


@pytest.mark.parametrize(("folder", "name"), [
    ("Café 24", "caf-24"), ("24", "order-line"), ("My_Suite.v2", "my-suite-v2"),
    ("a" * 80, "a" * 60), ("---", "order-line"),
])
def test_a_name_is_made_of_the_folder_s(tmp_path: Path, folder: str, name: str) -> None:
    assert write_new_suite(tmp_path / folder)[0] == name
    assert load_suite(tmp_path / folder).name == name


@pytest.mark.parametrize("name", ["", "Upper", "a b", "9a", "a" * 61, "x\n", "a#b", "../x"])
def test_a_bad_name_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--name: expected a suite name of lower-case letters"):
        write_new_suite(tmp_path / "x", name)
    assert list(tmp_path.iterdir()) == []


# --- never over anything ---------------------------------------------------------------------


def test_a_folder_with_anything_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / ".hidden").write_text("mine")
    with pytest.raises(InputError, match=r"x: expected a new or empty folder, got a folder with "
                                         r"\.hidden"):
        write_new_suite(tmp_path / "x")
    assert kit.files(tmp_path) == {"x/.hidden": b"mine"}


def test_a_file_and_the_current_folder_are_refused(tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="expected a new or empty folder, got a file"):
        write_new_suite(tmp_path / "file")
    with pytest.raises(InputError, match="folder that can be written"):
        write_new_suite(tmp_path / "file" / "below")
    (tmp_path / "here" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "deeper")
    for folder in (".", "..", tmp_path / "here"):
        with pytest.raises(InputError, match="got the current one"):
            write_new_suite(folder)


def test_an_empty_folder_is_filled_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    write_new_suite(tmp_path / "link", "x")
    assert load_suite(tmp_path / "empty").name == "x"
    assert (tmp_path / "link").is_symlink()


def test_all_of_it_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def full(self: Path, *args: Any, **more: Any) -> int:
        written.append(self)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        return len(self.write_bytes(b"x" * 3).__str__())

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(InputError, match="got No space left on device"):
            write_new_suite(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_somebody_who_comes_between_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = newsuite._fill

    def late(part: Path, source: Path, name: str) -> list[Path]:
        done = real(part, source, name)
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "theirs").write_text("first")
        return done

    monkeypatch.setattr(newsuite, "_fill", late)
    with pytest.raises(InputError, match="x: expected a new or empty folder"):
        write_new_suite(tmp_path / "x")
    assert kit.files(tmp_path) == {"x/theirs": b"first"}


def test_the_folder_is_as_readable_as_any(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_new_suite(tmp_path / "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "x" / "grid.yaml").stat().st_mode) == 0o640


# --- the commands ----------------------------------------------------------------------------


def test_the_command_says_what_it_wrote(call_rig: Callable[..., Any], tmp_path: Path) -> None:
    called = call_rig("new-suite", tmp_path / "a suite")
    assert called.code == 0
    assert f"rig build '{tmp_path}/a suite' --dry-run" in called.out
    document = json.loads(call_rig("new-suite", tmp_path / "b", "--name", "bee", "--json").out)
    assert document["suite"] == "bee"
    assert {Path(p).name for p in document["files"]} >= {"suite.yaml", "grid.yaml"}
    assert all(Path(p).is_file() for p in document["files"])
    assert "expected a new or empty folder" in call_rig("new-suite", tmp_path / "b").error


def test_schemas_are_listed_printed_and_written(call_rig: Callable[..., Any],
                                                tmp_path: Path) -> None:
    listed = call_rig("schema").out
    assert all(f"\n{kind} " in listed for kind in KINDS)
    grid = json.loads(call_rig("schema", "grid").out)
    assert grid == json.loads(call_rig("schema", "grid", "--json").out)
    everything = json.loads(call_rig("schema", "--json").out)["schemas"]
    assert list(everything) == list(KINDS)
    assert everything["grid"] == grid
    out = tmp_path / "new" / "schemas"
    for _ in range(2):  # its own files, and no others, are written again
        assert call_rig("schema", "--out", out).code == 0
    assert sorted(p.name for p in out.iterdir()) == sorted(f"{k}.schema.json" for k in KINDS)
    assert json.loads((out / "grid.schema.json").read_text(encoding="utf-8")) == grid
    written = json.loads(call_rig("schema", "roles", "--out", tmp_path / "one", "--json").out)
    assert written == {"written": [str(tmp_path / "one" / "roles.schema.json")]}
    assert "did you mean 'probes'?" in call_rig("schema", "prbes").error
    (tmp_path / "file").write_text("")
    assert "expected a folder that can be written" in call_rig(
        "schema", "--out", tmp_path / "file").error


# --- the whole path --------------------------------------------------------------------------


def test_new_suite_build_run_score(call_rig: Callable[..., Any], tmp_path: Path) -> None:
    """The oracle does what every case of the suite expects, its inverse never does."""
    write_new_suite(tmp_path / "mine")
    info = build_suite(load_suite(tmp_path / "mine"), tmp_path / "built", kit.TalkEngine())
    assert (info.suite, info.n_cases, info.n_streams) == ("mine", 20, 8)
    for adapter, outcome in (("oracle", "pass"), ("inverse", "fail")):
        run = tmp_path / adapter
        assert call_rig("run", tmp_path / "built", "--adapter", adapter, "--level", "L1",
                        "--filter", "instance=1", "--jobs", "1", "--out", run).code == 0
        scores = json.loads(call_rig("score", run, "--json").out)
        assert {c["case_id"]: c["outcome"] for c in scores["cases"]} == {
            f"{cell}-1-L1": outcome for cell in (
                "ORDER-PAUSE", "ORDER-NUMBER", "ORDER-BARGE", "CARE-PAUSE", "CARE-CHECK")}
        assert scores["ias"]["all"]["L1"]["n"] == 5
        assert set(scores["ias"]["by_role"]) == {"ORDER", "CARE"}


# --- where the suite may differ from the built-in one ------------------------------------------


def changed(folder: Path, file: str, *pairs: tuple[str, str]) -> Path:
    path = folder / file
    text = path.read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    write_new_suite(tmp_path / "mine")
    return tmp_path / "mine"


def test_a_suite_of_one_prompt_and_one_level(mine: Path) -> None:
    """A product's own prompt is long and says what it wants: it is a directive, and no persona."""
    changed(mine, "suite.yaml", ("levels: [L1, L2]", "levels: [L1]"))
    roles = mine / "roles.yaml"
    text = re.sub(r"    persona: >-\n(      .*\n)+", "", roles.read_text(encoding="utf-8"))
    text = text.replace("      When the user", "      " + "Wait for them. " * 400 + "When the user")
    roles.write_text(text, encoding="utf-8")
    suite = load_suite(mine)
    assert check_suite(suite) == ()
    cases = expand(suite)
    assert {c.level for c in cases} == {"L1"}
    assert max(len(c.system_prompt) for c in cases) > 5_000


def test_an_agent_that_brings_its_own_prompt(mine: Path) -> None:
    changed(mine, "suite.yaml", ("levels: [L1, L2]", "levels: [L0]"),
            ("l0_instances: [1]", "l0_instances: [1, 2]"))
    cases = expand(load_suite(mine))
    assert len(cases) == 10
    assert {c.system_prompt for c in cases} == {""}


def test_contradictions_of_any_number_of_variants(mine: Path) -> None:
    changed(mine, "suite.yaml", ("levels: [L1, L2]", "levels: [L4a, L4b]"))
    changed(mine, "grid.yaml", ("action: READBACK}", "action: READBACK, safety: true}"),
            ("}}\n", "}, contradiction: be_odd}\n"), ("READBACK, ", "READBACK, contradiction: "
                                                      "be_odd, "),
            ("action: LISTEN}", "action: LISTEN, contradiction: be_odd}"),
            ("action: BACKCHANNEL}", "action: BACKCHANNEL, contradiction: be_odd}"))
    (mine / "contradictions.yaml").write_text(
        "schema_version: 1\nl4a:\n  - {id: be_odd, asks_for: oddness, variants: [one, two, three]}"
        "\nl4b:\n  - {role: ORDER, probe: NUMBER, asks_for: haste, text: Skip the digits.}\n",
        encoding="utf-8")
    cases = expand(load_suite(mine))
    assert Counter(c.level for c in cases) == {"L4a": 10, "L4b": 2}
    asked = {c.system_prompt.rsplit("\n\n", 1)[1] for c in cases}
    assert asked == {"one", "two", "three", "Skip the digits."}


@pytest.mark.parametrize(("levels", "message"), [
    ("L4a", r"grid\.yaml:\d+: cell ORDER/PAUSE: expected a contradiction, which level L4a"),
    ("L4b", r"suite\.yaml:26: level L4b needs a cell of grid\.yaml with safety: true"),
])
def test_levels_of_contradiction_want_their_cells(mine: Path, levels: str, message: str) -> None:
    changed(mine, "suite.yaml", ("levels: [L1, L2]", f"levels: [{levels}]"))
    (mine / "contradictions.yaml").write_text("schema_version: 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_suite(mine)


def test_a_label_is_shared_or_owned_not_both(mine: Path) -> None:
    changed(mine, "probes.yaml", ("  - id: CARE_CHECK_still_there\n    label: CHECK",
                                  "  - id: CARE_BARGE_still_there\n    label: BARGE"))
    with pytest.raises(InputError, match=r"probes\.yaml:\d+: label BARGE belongs to a probe of all "
                                         r"roles and to one of a single role"):
        load_suite(mine)


def test_a_window_that_only_lengths_show_to_be_empty(mine: Path, tmp_path: Path) -> None:
    changed(mine, "probes.yaml", ("YIELD: {start: turn2.start, end: turn2.start + 3.0}",
                                  "YIELD: {start: turn2.start + 50, end: turn2.end}"))
    text = (mine / "probes.yaml").read_text(encoding="utf-8").splitlines()
    line = next(i for i, t in enumerate(text, start=1) if "turn2.start + 50" in t)
    with pytest.raises(InputError, match=rf"probes\.yaml:{line}: ORDER-BARGE-1-L1: window: "
                                         r"expected a start before its end"):
        build_suite(load_suite(mine), tmp_path / "built", kit.TalkEngine())
    assert not (tmp_path / "built" / "suite.json").exists()


@pytest.mark.parametrize(("name", "edge"), [
    ("max_wait_s", 60.0), ("max_latency_ms", 60_000.0), ("ceiling_s", 60.0), ("max_spans", 1000),
    ("min_coverage", 1.0),
])
def test_bounds_of_parameters_are_those_of_the_verifiers(name: str, edge: float) -> None:
    """Else a suite would build and run, and could not be scored."""
    for value, fits in ((edge, True), (edge + 1, False), (0, False), (-1, False)):
        for take in (lambda v: CellParams(**{name: v}),
                     lambda v: check_params(CaseParams(**{name: v}))):
            if fits:
                take(value)
            else:
                with pytest.raises((InputError, ValueError)):
                    take(value)
