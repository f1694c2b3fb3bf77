"""Which weights were loaded, as a worker's hello says it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from adapters.workers.worker_kit.weights import code_sha256, content_sha256, weights_facts

ONE, OTHER = "0123456789abcdef0123456789abcdef01234567", "f" * 40


def cached(home: Path, repository: str, commit: str, name: str) -> Path:
    """A file as the hub's library keeps it: a link to a blob, below the commit's folder."""
    folder = home / "hub" / f"models--{repository.replace('/', '--')}"
    blob = folder / "blobs" / f"{commit}-{name}"
    file = folder / "snapshots" / commit / name
    for path in (blob, file):
        path.parent.mkdir(parents=True, exist_ok=True)
    blob.write_text(name)
    file.symlink_to(blob)
    return file


def test_of_the_hub_the_commit_is_told_by_where_its_files_lie(tmp_path: Path) -> None:
    """Of a link, not of the blob that it leads to; a repository that is told twice once."""
    a = cached(tmp_path, "kyutai/moshiko-pytorch-bf16", ONE, "model.safetensors")
    b = cached(tmp_path, "kyutai/moshiko-pytorch-bf16", ONE, "tokenizer.model")
    assert weights_facts(a, str(b)) == {
        "weights": "kyutai/moshiko-pytorch-bf16", "weights_commit": ONE}
    assert weights_facts(a.parent) == weights_facts(a)
    (a.parent / "audio").mkdir()
    assert weights_facts(a.parent / "audio") == weights_facts(a)


def test_parts_of_two_repositories_and_of_two_commits_are_all_told(tmp_path: Path) -> None:
    a = cached(tmp_path, "kyutai/moshiko", ONE, "model.safetensors")
    b = cached(tmp_path, "kyutai/mimi", OTHER, "mimi.safetensors")
    assert weights_facts(a, b) == {"weights": "kyutai/moshiko+kyutai/mimi",
                                   "weights_commit": f"{ONE}+{OTHER}"}


def test_of_a_folder_of_this_machine_the_content_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.bin").write_bytes(b"two")
    (folder / "sub" / "a.bin").write_bytes(b"one")
    facts = weights_facts(folder)
    expected = hashlib.sha256(b"5 b.bin 3 two9 sub/a.bin 3 one").hexdigest()[:16]
    assert facts == {"weights": str(folder), "weights_sha256": expected}
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x").write_bytes(b"hidden")
    assert weights_facts(folder) == facts
    (folder / "b.bin").write_bytes(b"owt")  # as long, under the same name
    assert weights_facts(folder) != facts
    assert weights_facts(folder / "b.bin")["weights"] == str(folder)


@pytest.mark.parametrize("change", ["name", "place", "border", "one more"])
def test_what_changes_a_folder_changes_its_digest(tmp_path: Path, change: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("1")
    (tmp_path / "y.py").write_text("2")
    before = content_sha256([tmp_path]), code_sha256(tmp_path)
    if change == "name":
        (tmp_path / "y.py").rename(tmp_path / "z.py")
    elif change == "place":
        (tmp_path / "a" / "x.py").rename(tmp_path / "x.py")
    elif change == "border":
        (tmp_path / "a" / "x.py").write_text("")
        (tmp_path / "y.py").write_text("12")
    else:
        (tmp_path / "more.txt").write_text("")
    assert content_sha256([tmp_path]) != before[0]
    # Of code, the folders do not count by themselves: names and content of its files do.
    assert (code_sha256(tmp_path) == before[1]) is (change in ("place", "one more"))
