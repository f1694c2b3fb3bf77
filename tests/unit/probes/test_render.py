"""Building a suite with an engine of known lengths: positions, windows, bytes, resumption."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from probes_testkit import ToneEngine, load_builtin, synthetic_conversations, write_suite

from audio.errors import InputError, SynthesisError
from audio.files import read_channel
from probes.expand import expand, select
from probes.gates import GateError
from probes.loader import load_suite
from probes.render import build_suite, load_built
from probes.segments import choose_voice
from probes.spec import Suite

KEEP = ("R1-A-1", "R2-B-1", "R6-B-2", "R8-C2-1", "S-C4-1", "R7-C3-1")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return load_suite(write_suite(tmp_path_factory.mktemp("spec") / "s", keep=KEEP))


@pytest.fixture(scope="module")
def built_dir(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "suite"
    build_suite(suite, out, ToneEngine())
    return out


@pytest.fixture
def copy(built_dir: Path, tmp_path: Path) -> Path:
    shutil.copytree(built_dir, tmp_path / "copy")
    return tmp_path / "copy"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file() and ".cache" not in p.parts}


# --- what is in it ---------------------------------------------------------------------------


def test_counts_and_notes(built_dir: Path) -> None:
    info = load_built(built_dir).info
    # R1-A-1 6, R2-B-1 6, R6-B-2 4, R8-C2-1 5, S-C4-1 3 x 5, R7-C3-1 5
    assert info.n_cases == 41
    assert info.n_conversations == 8
    assert info.n_streams == 7
    assert info.engine == {"name": "tone", "version": "1"}
    assert info.aligner == {"name": "exact", "version": "1"}
    assert info.notes[0].startswith("incomplete suite: 218 texts are missing: S-C1-1,")
    # speech segments: R1-A 4, R2-B 4 + 2, R6-B 3, R8-C2 4, C4 4, C3 2
    assert info.notes[1] == "alignment uniform: 23 of 23 speech segments"


def test_positions_and_window_come_from_construction(suite: Suite, built_dir: Path) -> None:
    built = load_built(built_dir)
    stream = built.streams["R1-A-1"]
    texts = suite.conversations["R1-A-1"].turn2
    lead_n, trigger_n, rest_n = (8_800 * len(texts[k].split())
                                 for k in ("lead", "trigger", "continuation"))
    found = [(s.kind, s.name, s.start_n, s.end_n) for s in stream.turn2.segments]
    a, b = lead_n + 4_800, lead_n + 4_800 + trigger_n
    assert found == [
        ("speech", "lead", 0, lead_n), ("silence", "join1", lead_n, a),
        ("speech", "trigger", a, b), ("silence", "join2", b, b + 4_800),
        ("speech", "continuation", b + 4_800, b + 4_800 + rest_n)]
    case = next(c for c in built.cases if c.case_id == "R1-A-1-L2")
    assert case.window.start_s == b / 24_000
    assert case.window.end_s == case.user_offset_s == (b + 4_800 + rest_n) / 24_000
    assert case.params.max_latency_ms == 1500
    word = stream.turn2.segments[2].words[1]
    assert (word.start_s, word.end_s) == ((a + 8_800) / 24_000, (a + 17_600) / 24_000)
    assert stream.turn1.segments[0].name == "turn1"


def test_silences_are_exact_zeros_and_speech_is_what_the_engine_gave(built_dir: Path) -> None:
    built = load_built(built_dir)
    stream = built.streams["S-C4-1"]
    samples = built.samples(stream.turn2)
    by_name = {s.name: s for s in stream.turn2.segments}
    pause = by_name["pause"]
    assert pause.end_n - pause.start_n == 36_000
    assert not samples[pause.start_n:pause.end_n].any()
    lead = by_name["lead"]
    assert abs(samples[lead.start_n:lead.start_n + 480]).max() > 0.1
    assert abs(samples[lead.end_n - 480:lead.end_n]).max() > 0.1
    assert not samples[lead.end_n:by_name["check"].start_n].any()


def test_one_voice_a_conversation(built_dir: Path) -> None:
    for stream_id, stream in load_built(built_dir).streams.items():
        base = stream_id.removesuffix("-L4b")
        assert stream.voice == choose_voice(base, ("low", "mid", "high"))


def test_shared_stream_serves_three_roles_with_identical_audio(built_dir: Path) -> None:
    built = load_built(built_dir)
    shared = [c for c in built.cases if c.stream_id == "S-C4-1"]
    assert {c.role for c in shared} == {"R1", "R2", "R3"}
    assert {c.conversation_id for c in shared} == {"R1-C4-1", "R2-C4-1", "R3-C4-1"}
    assert len({c.window for c in shared}) == 1


def test_l4b_variant_has_a_byte_identical_prefix(built_dir: Path) -> None:
    built = load_built(built_dir)
    base, variant = built.streams["R2-B-1"], built.streams["R2-B-1-L4b"]
    assert variant.turn1 == base.turn1
    prefix = built.samples(base.turn2)
    longer = built.samples(variant.turn2)
    assert np.array_equal(longer[:prefix.size], prefix)
    assert variant.turn2.segments[:len(base.turn2.segments)] == base.turn2.segments
    tail = [(s.kind, s.name, s.end_n - s.start_n) for s in variant.turn2.segments[-4:]]
    assert tail == [("silence", "join2", 4_800), ("speech", "l4b_trigger", 7 * 8_800),
                    ("silence", "join3", 4_800), ("speech", "l4b_continuation", 16 * 8_800)]
    cases = {c.case_id: c for c in built.cases}
    late, usual = cases["R2-B-1-L4b"], cases["R2-B-1-L4a"]
    start_n = prefix.size + 4_800 + 7 * 8_800
    assert late.window.start_s == start_n / 24_000
    assert late.window.end_s == longer.size / 24_000
    assert late.expected_action == "BACKCHANNEL"
    assert late.alternate_windows["interrupt_reading"] == late.window
    assert late.alternate_windows["question_pause"] == usual.window
    assert base.construction_sha256 != variant.construction_sha256


def test_readback_cases_carry_target_and_moment(built_dir: Path, suite: Suite) -> None:
    cases = {c.case_id: c for c in load_built(built_dir).cases}
    order = cases["R6-B-2-L1"]
    assert order.target_text == suite.conversations["R6-B-2"].target
    assert order.readback_from_s == order.user_offset_s == order.window.start_s
    improv = cases["R8-C2-1-L1"]
    assert improv.readback_from_s is None
    assert set(improv.alternate_windows) == {"from_user_offset"}


def test_mean_conversation_length_counts_the_base_stream_once(built_dir: Path) -> None:
    built = load_built(built_dir)
    of = {c.conversation_id: c.stream_id for c in built.cases if c.level != "L4b"}
    lengths = [built.streams[s].turn1.duration_n + built.streams[s].turn2.duration_n
               for s in of.values()]
    assert len(lengths) == 8
    assert built.info.mean_conversation_s == pytest.approx(sum(lengths) / 8 / 24_000)


# --- bytes -----------------------------------------------------------------------------------


def test_two_builds_and_two_processes_give_the_same_bytes(suite: Suite, built_dir: Path,
                                                          tmp_path: Path) -> None:
    build_suite(suite, tmp_path / "again", ToneEngine())
    build_suite(suite, tmp_path / "two", ToneEngine(), jobs=2)
    assert tree(tmp_path / "again") == tree(built_dir)
    assert tree(tmp_path / "two") == tree(built_dir)


def test_construction_hash_depends_on_the_spec_and_not_on_the_samples(
        suite: Suite, built_dir: Path, tmp_path: Path) -> None:
    class Louder(ToneEngine):
        """The same engine by name, rendering otherwise, as another machine might."""

        def render(self, text: str, voice: str, seed: int):
            out = super().render(text, voice, seed)
            return type(out)(out.samples * np.float32(0.5), out.words)

    base = load_built(built_dir)
    build_suite(suite, tmp_path / "louder", Louder())
    other = load_built(tmp_path / "louder")
    assert other.info.construction_sha256 == base.info.construction_sha256
    sample = "R1-A-1"
    assert other.streams[sample].construction_sha256 == base.streams[sample].construction_sha256
    assert other.streams[sample].turn2.audio_sha256 != base.streams[sample].turn2.audio_sha256
    build_suite(suite, tmp_path / "machine", ToneEngine(settings={"fft": "scipy 9"}))
    assert (load_built(tmp_path / "machine").info.construction_sha256
            == base.info.construction_sha256)
    build_suite(suite, tmp_path / "set", ToneEngine(settings={"setting_speed": "2"}))
    assert load_built(tmp_path / "set").info.construction_sha256 != base.info.construction_sha256


def test_selection_builds_only_what_is_needed(suite: Suite, tmp_path: Path) -> None:
    chosen = select(expand(suite), ("L4b",), "role=R2")
    info = build_suite(suite, tmp_path / "x", ToneEngine(), select=chosen)
    assert (info.n_cases, info.n_conversations, info.n_streams) == (1, 1, 1)
    assert "selection: 1 of 41 cases" in info.notes
    assert sorted(p.name for p in (tmp_path / "x" / "audio").iterdir()) == [
        "R2-B-1-L4b.turn2.wav", "R2-B-1.turn1.wav"]
    load_built(tmp_path / "x").verify_audio()


def test_a_rebuild_replaces_and_sweeps_the_old(suite: Suite, copy: Path) -> None:
    (copy / "audio" / ".part-0123.wav").write_bytes(b"")
    (copy / "audio" / "mine.txt").write_text("kept")
    build_suite(suite, copy, ToneEngine(), select=select(expand(suite), (), "case=R1-A-1-L2"))
    assert sorted(p.name for p in (copy / "audio").iterdir()) == [
        "R1-A-1.turn1.wav", "R1-A-1.turn2.wav", "mine.txt"]
    assert len(load_built(copy).cases) == 1


# --- interruption and refusal ----------------------------------------------------------------


class Counting(ToneEngine):
    calls = 0

    def render(self, text: str, voice: str, seed: int):
        Counting.calls += 1
        if Counting.calls == 10:
            raise KeyboardInterrupt
        return super().render(text, voice, seed)


def test_a_killed_build_leaves_no_manifest_and_resumes(suite: Suite, built_dir: Path,
                                                       tmp_path: Path) -> None:
    out = tmp_path / "s"
    Counting.calls = 0
    with pytest.raises(KeyboardInterrupt):
        build_suite(suite, out, Counting())
    with pytest.raises(InputError, match=r"suite\.json \(rig build makes it\), got "
                                         "an unfinished build"):
        load_built(out)
    build_suite(suite, out, Counting())
    assert Counting.calls == 1 + 23  # nothing that was finished is rendered again
    assert tree(out) == tree(built_dir)


def test_a_failing_engine_leaves_no_manifest(suite: Suite, copy: Path) -> None:
    word = suite.conversations["R1-A-1"].turn2["trigger"].split()[1]
    shutil.rmtree(copy / ".cache")
    with pytest.raises(SynthesisError, match=r"turn . .*: tone engine"):
        build_suite(suite, copy, ToneEngine(fail_on=word))
    assert not (copy / "suite.json").exists()


def test_an_untrimmed_engine_is_caught_by_the_edge_gate(suite: Suite, tmp_path: Path) -> None:
    chosen = select(expand(suite), (), "case=R1-A-1-L2")
    build_suite(suite, tmp_path / "ok", ToneEngine(pad_n=300), select=chosen)  # 12.5 ms
    with pytest.raises(GateError, match=r"edge_not_audible: start: 2[45] ms") as caught:
        build_suite(suite, tmp_path / "bad", ToneEngine(pad_n=600), select=chosen)  # 25 ms
    assert len(caught.value.failures) == 8  # both sides of four segments
    assert caught.value.failures[0].file.endswith("all.yaml")
    assert not (tmp_path / "bad" / "suite.json").exists()


class Slow(ToneEngine):
    """Speaks each word four times as long."""

    def render(self, text: str, voice: str, seed: int):
        return super().render(" ".join([text] * 4), voice, seed)


def test_rendered_length_is_gated(suite: Suite, tmp_path: Path) -> None:
    chosen = select(expand(suite), (), "case=R1-A-1-L2")
    with pytest.raises(GateError, match=r"rendered_duration_off_target: rendered 29\.33 s, "
                                        r"allowed 3\.0 to 13\.5 s"):
        build_suite(suite, tmp_path / "x", Slow(), select=chosen)


class Mute(ToneEngine):
    def render(self, text: str, voice: str, seed: int):
        out = super().render(text, voice, seed)
        return type(out)(np.zeros_like(out.samples), out.words)


def test_silence_from_an_engine_is_refused(suite: Suite, tmp_path: Path) -> None:
    chosen = select(expand(suite), (), "case=R1-A-1-L2")
    with pytest.raises(GateError, match="rendered_without_speech"):
        build_suite(suite, tmp_path / "x", Mute(), select=chosen)


def test_prose_gates_stop_a_build_before_anything_is_rendered(tmp_path: Path) -> None:
    item = next(c for c in synthetic_conversations(load_builtin()) if c["id"] == "R1-A-1")
    item["turn2"]["trigger"] = "wait a moment please now ok"
    bad = load_suite(write_suite(tmp_path / "spec", [item]))
    with pytest.raises(GateError, match=r"all\.yaml:\d+: conversation R1-A-1\.turn2\.trigger: "
                                        r"turn_taking_mentioned: .*'wait'"):
        build_suite(bad, tmp_path / "out", ToneEngine())
    assert not (tmp_path / "out").exists()


def test_nothing_to_build_and_foreign_folders(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected at least one case to build, got none"):
        build_suite(suite, tmp_path / "x", ToneEngine(), select=())
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"an empty folder or an earlier suite, got a folder with "
                                         r"letter\.txt"):
        build_suite(suite, home, ToneEngine())
    assert [p.name for p in home.iterdir()] == ["letter.txt"]
    with pytest.raises(InputError, match="expected a folder that can be written"):
        build_suite(suite, home / "letter.txt", ToneEngine())


# --- loading ---------------------------------------------------------------------------------


def change(path: Path, line: int, **fields: object) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    item = json.loads(lines[line])
    item.update(fields)
    lines[line] = json.dumps(item)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def cut_last_line(folder: Path) -> None:
    path = folder / "cases.jsonl"
    path.write_bytes(path.read_bytes()[:-30])


def drop_line(folder: Path) -> None:
    path = folder / "cases.jsonl"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]))


def repeat_line(folder: Path) -> None:
    path = folder / "streams.jsonl"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + text.splitlines()[0] + "\n", encoding="utf-8")


def shorten_audio(folder: Path) -> None:
    path = folder / "audio" / "R1-A-1.turn2.wav"
    path.write_bytes(path.read_bytes()[:5_000])


def move_turn(folder: Path, to: str) -> None:
    line = (folder / "streams.jsonl").read_text(encoding="utf-8").splitlines()[0]
    change(folder / "streams.jsonl", 0, turn1={**json.loads(line)["turn1"], "path": to})


@pytest.mark.parametrize(("damage", "message"), [
    (lambda f: (f / "suite.json").unlink(), "got an unfinished build"),
    (lambda f: (f / "suite.json").write_text("{"), r"suite\.json: expected JSON, got EOF while"),
    (lambda f: (f / "streams.jsonl").unlink(), r"streams\.jsonl: expected a readable file"),
    (cut_last_line, r"cases\.jsonl:41: expected a complete last line"),
    (drop_line, r"cases\.jsonl: expected 41 cases, as suite\.json says, got 40"),
    (repeat_line, r"streams\.jsonl:8: expected stream .* once"),
    (shorten_audio, r"R1-A-1\.turn2\.wav: expected"),
    (lambda f: (f / "audio/R1-A-1.turn2.wav").unlink(), r"R1-A-1\.turn2\.wav: "),
    (lambda f: move_turn(f, "../x.wav"), r"streams\.jsonl:1: expected a path like audio/NAME"),
    (lambda f: move_turn(f, "/etc/passwd"), "expected a path like audio/NAME"),
    (lambda f: move_turn(f, "audio/..wav"), "expected a path like audio/NAME"),
    (lambda f: change(f / "cases.jsonl", 2, stream_id="R9"), r"cases\.jsonl:3: expected a stream"),
    (lambda f: change(f / "cases.jsonl", 2, extra=1),
     r"cases\.jsonl:3: expected no key extra, got a key that is not known$"),
    (lambda f: (f / "suite.json").write_text("{}"),
     r"suite\.json: expected key suite, got none$"),
    (lambda f: change(f / "cases.jsonl", 2, schema_version=2), r"cases\.jsonl:3: schema_version"),
    (lambda f: change(f / "cases.jsonl", 2, case_id="x"), "expected a case id ROLE-PROBE"),
    (lambda f: change(f / "cases.jsonl", 2, role="../R1", case_id="x"), "expected a case id"),
    (lambda f: change(f / "cases.jsonl", 2, user_offset_s=1.0), "expected user_offset_s"),
    (lambda f: change(f / "cases.jsonl", 2, window={"start_s": 2.0, "end_s": 2.0}),
     r"expected window with 0 <= start_s < end_s"),
    (lambda f: change(f / "cases.jsonl", 2, window={"start_s": float("nan"), "end_s": 2.0}),
     r"expected (window|finite number|a finite)"),
    (lambda f: change(f / "cases.jsonl", 2, system_prompt="other"), "something was edited"),
])
def test_a_damaged_suite_is_told_in_one_line(copy: Path, damage, message: str) -> None:
    damage(copy)
    with pytest.raises(InputError, match=message) as caught:
        load_built(copy)
    assert "\n" not in str(caught.value)


def test_another_reading_of_a_window_is_a_data_change(copy: Path) -> None:
    change(copy / "cases.jsonl", 2, window={"start_s": 1.0, "end_s": 2.0})
    assert load_built(copy).cases[2].window.end_s == 2.0


def test_changed_samples_are_found_on_demand(copy: Path) -> None:
    path = copy / "audio" / "R1-A-1.turn2.wav"
    data = bytearray(path.read_bytes())
    data[2_000] ^= 0x40
    path.write_bytes(bytes(data))
    built = load_built(copy)
    built.verify_audio(["S-C4-1"])
    with pytest.raises(InputError, match=r"R1-A-1\.turn2\.wav: expected samples with SHA-256"):
        built.verify_audio()
    with pytest.raises(InputError, match="expected samples with SHA-256"):
        built.samples(built.streams["R1-A-1"].turn2)
    with pytest.raises(InputError, match="expected a stream of the suite, got R0"):
        built.verify_audio(["R0"])


def test_no_suite_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a built suite folder"):
        load_built(tmp_path / "none")
    with pytest.raises(InputError, match=r"suite\.json \(rig build makes it\), got "
                                         "a folder without it"):
        load_built(tmp_path)


def test_audio_files_are_plain_24_khz_mono(built_dir: Path) -> None:
    for path in (built_dir / "audio").iterdir():
        assert path.read_bytes()[:4] == b"RIFF"
        assert read_channel(path, 0).ndim == 1
