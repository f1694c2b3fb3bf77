"""One line a call: what stands in its cells, and why others are empty."""

from __future__ import annotations

import csv
import json

import pytest
from call_maker import LINES, Call


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Two calls of one exchange: of the first, words and a reference with one entity of two wrong;
    of the second, nothing."""
    folder = tmp_path_factory.mktemp("calls")
    call = Call(14.0)
    end = call.say("caller", 0.6, 2)
    call.say("agent", end + 0.8, 3)
    call.write(folder / "=a.wav")
    call.write(folder / "b.wav")
    return folder, end


def words(folder, end, text) -> None:
    said = text.split()
    step = (end - 0.6) / len(said)
    (folder / "=a.words.json").write_text(json.dumps({"schema_version": 1, "words": [
        {"side": "caller", "word": w, "start_s": 0.6 + k * step, "end_s": 0.6 + (k + 1) * step}
        for k, w in enumerate(said)]}))
    (folder / "=a.reference.json").write_text(json.dumps({
        "schema_version": 1, "caller": LINES[2], "names": ["Robin Miller", "Station Road"]}))


def run(call_rig, folder, tmp_path, *more):
    path = tmp_path / "calls.csv"
    done = call_rig("field", folder, "--caller-channel", "0", "--no-sensitivity", "--no-cache",
                    "--jobs", "1", "--calls-csv", path, "--json", *more)
    assert done.code == 0, done.err
    with path.open() as file:
        return json.loads(done.out), list(csv.DictReader(file))


def test_columns_of_words_and_voice(call_rig, calls, tmp_path):
    folder, end = calls
    words(folder, end, LINES[2].replace("Station", "Nation"))
    document, (first, second) = run(call_rig, folder, tmp_path, "--prosody")
    assert first["file"].startswith("'=") or first["file"].endswith("=a.wav")
    assert (first["l1_n"], first["talk_ratio"] != "") == ("1", True)
    assert (first["u1_n"], first["u1_wrong_n"], first["u1_rate"]) == ("2", "1", "0.5")
    assert float(first["u1_wer"]) == pytest.approx(1 / int(first["u1_reference_tokens_n"]))
    assert float(first["u1_ratio_to_wer"]) == pytest.approx(0.5 / float(first["u1_wer"]))
    assert (first["u1_reason"], first["u1_ratio_to_wer_reason"]) == ("", "")
    assert float(first["energy_range_db"]) == document["calls"][0]["prosody"]["energy_range_db"]
    assert first["cluster"] == ""
    assert "at least 6 calls" in document["aggregate"]["prosody"]["clusters"]["reason"] \
        or "extra prosody" in document["calls"][0]["prosody"]["reason"]
    # What is not there is empty, never 0, and says why.
    for name in ("u1_rate", "u1_wer", "u1_ratio_to_wer", "l2_p50_ms", "filler_rate"):
        assert second[name] == ""
    assert "no reference" in second["u1_reason"]
    assert "no reference" in second["u1_ratio_to_wer_reason"]
    assert "no words" in second["l2_reason"]


def test_a_ratio_to_no_errors_is_none(call_rig, calls, tmp_path):
    folder, end = calls
    words(folder, end, LINES[2])
    document, (first, _) = run(call_rig, folder, tmp_path)
    u1 = document["calls"][0]["u1"]
    assert (u1["wer"], u1["rate"], u1["ratio_to_wer"]) == (0.0, 0.0, None)
    assert u1["ratio_to_wer_reason"] == "the WER is 0"
    assert (first["u1_wer"], first["u1_ratio_to_wer"]) == ("0.0", "")
    assert first["u1_ratio_to_wer_reason"] == "the WER is 0"
    assert first["prosody_reason"] == "not asked for: --prosody"


def test_one_file_for_both_tables_is_refused(call_rig, calls, tmp_path):
    done = call_rig("field", calls[0], "--csv", tmp_path / "x", "--calls-csv", tmp_path / "x")
    assert done.code == 2
    assert "different files for --csv and --calls-csv" in done.err
