"""H3 from a run that was played and judged: what annotators read is what the judge read."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit
from chat_server import ChatServer
from rule_judge import case_of, judge
from validation_kit import answers_document

from probes.loader import load_suite
from rig import cli
from rig.validation import h3
from rig.validation.key import read_key

SUITE = load_suite("dsb-ifeval")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """R1-A on four levels, played at random, judged by a rule; what the judge was shown.
    Read only."""
    folder = tmp_path_factory.mktemp("h3")
    suite = kit.build_talking_suite(
        folder / "suite", lambda c: c.instance == 1 and c.level in ("L0", "L2", "L4a", "L4b")
        and (c.role, c.probe) == ("R1", "A"))
    run = folder / "random"
    assert cli.main(["run", str(suite), "--adapter", "random", "--jobs", "1", "--out",
                     str(run)]) == 0
    assert cli.main(["score", str(run), "--jobs", "1"]) == 0
    with ChatServer(judge) as server:
        for name in ("rule", "other"):
            assert cli.main(["judge", str(run), "--judge", name, "--base-url", server.url,
                             "--model", name, "--jobs", "1"]) == 0
        return run, [case_of(r) for r in server.received]


def _sample(call_rig: Callable[..., Any], run: Path, out: Path, *more: object) -> Any:
    return call_rig("sample", "h3", run, "--judge", "rule", "--out", out, "--jobs", "1", *more)


def test_h3_shows_what_the_judge_was_shown_and_agrees_with_one_who_copies_it(
        call_rig: Callable[..., Any], judged: tuple[Path, list[dict[str, Any]]],
        tmp_path: Path) -> None:
    run, shown = judged
    assert _sample(call_rig, run, tmp_path / "pages", "--second", "other").code == 0
    key = read_key(tmp_path / "pages.key.json")
    assert key.judges == ("rule", "other")
    assert len(key.items) == 4
    text = (tmp_path / "pages" / "h3.A1.html").read_text(encoding="utf-8")
    found = re.search(r'id="data-annotate">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    for hidden in ("R1-A", "L4a", "random", "rule\"", "judges", key.secret):
        assert hidden not in found.group(1).split('"items":')[1]
    blocks = {i["id"]: i["blocks"] for i in json.loads(found.group(1))["items"]}
    by_directive = {(c.get("conflict") or {}).get("directive", "") + c["persona"]
                    + str(c["assistant"].get("said")): c for c in shown}
    for item in key.items:
        texts = {b["title"]: b.get("text", b.get("parts")) for b in blocks[item.item_id]}
        said = " ".join(p["said"] for p in texts["Assistant"] if "said" in p)
        case = by_directive[texts.get("Directive that contradicts the persona", "")
                            + texts["Persona of the assistant"] + (said or "None")]
        assert texts["What this role may say, and how"] == case["rule"]
        assert [p["said"] for p in texts["User, first turn"]] == [case["user"]["turn1"]]
        assert texts["User, second turn"] == case["user"]["turn2"]
        assert ("conflict" in item.fields) == (item.level in ("L4a", "L4b")) == (
            "conflict" in case)
    paths = []
    for annotator, shift in (("A1", 0), ("A2", 2), ("A3", 4)):
        path = tmp_path / f"{annotator}.json"
        path.write_text(json.dumps(answers_document(key, annotator, [
            {"register": str(i.judges["rule"].register_fit),
             "content": str(i.judges["rule"].content_fit),
             "pas": max(0, i.judges["rule"].pas - shift)}
            | ({"conflict": i.judges["rule"].conflict} if "conflict" in i.fields else {})
            for i in key.items])), encoding="utf-8")
        paths.append(path)
    told = json.loads(call_rig("agree", tmp_path / "pages.key.json", *paths, "--json").out)
    one = told["figures"]["judges"]["rule"]
    assert one["conflict"]["accuracy"]["value"] == 1
    low = [i.judges["rule"].pas for i in key.items]
    assert one["pas"]["mae"]["value"] == pytest.approx(sum(
        p - (p + max(0, p - 2) + max(0, p - 4)) / 3 for p in low) / 4)


def test_h3_refuses_words_that_are_not_those_that_were_judged(
        call_rig: Callable[..., Any], judged: tuple[Path, list[dict[str, Any]]],
        tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(judged[0], run)
    path = run / "judge" / "rule.json"
    document = json.loads(path.read_text())
    document["cases"][0]["words"] += 1
    path.write_text(json.dumps(document))
    assert "expected the words of" in _sample(call_rig, run, tmp_path / "p").error
    document["playout"] = "flush"
    path.write_text(json.dumps(document))
    assert "expected answers under playout hold" in _sample(call_rig, run, tmp_path / "q").error
    assert "expected answers of judge 'nobody', got those of other, rule" in call_rig(
        "sample", "h3", run, "--judge", "nobody", "--out", tmp_path / "r").error


def test_h3_dry_run_counts_thirds(call_rig: Callable[..., Any],
                                  judged: tuple[Path, list[dict[str, Any]]],
                                  tmp_path: Path) -> None:
    told = json.loads(_sample(call_rig, judged[0], tmp_path / "p", "--dry-run", "--json").out)
    drawn = {s["stratum"]: s["drawn"] for s in told["strata"]}
    assert sum(drawn[third] for third in h3.THIRDS) == told["items"] == 4
    assert (drawn["L4a"], drawn["L4b"], drawn["L0 to L3"]) == (1, 1, 2)
    assert any(note.startswith("thirds of the PAS of rule") for note in told["notes"])
