"""Which weights were really loaded, for a worker's hello. Standard library alone, no network.

"The newest" is another thing tomorrow, and a folder keeps its name when its content changes: so a
hello says the commit that the hub's library put its files under, or what the files hold.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

_SNAPSHOT = re.compile(r"(?:^|/)models--([^/]+)/snapshots/([0-9a-f]{40})(?:/|$)")
"""Where `huggingface_hub` keeps the files of a commit, below its cache (its page "Understand
caching")."""
READ_BYTES = 1 << 20
SHOWN_N = 16
"""Hexadecimal digits of a digest that are told: 64 bits."""


def weights_facts(*paths: str | Path) -> dict[str, str]:
    """What the files (or folders) of a model are, for the settings of its hello.

    `weights`: repositories and folders; `weights_commit`: of those that lie in the hub's cache;
    `weights_sha256`: of the content of all others, 16 digits. Several are joined by `+`, each told
    once. Reads every byte of what is not from the hub: some 10 s for 16 GB, which loading reads
    again. Raises `OSError` for a path that cannot be read.
    """
    names: dict[str, None] = {}
    commits: dict[str, None] = {}
    own: dict[Path, None] = {}
    for path in map(Path, paths):
        found = _SNAPSHOT.search(path.absolute().as_posix())
        if found is None:
            own[path] = None
            names[str(path if path.is_dir() else path.parent)] = None
        else:
            names[found[1].replace("--", "/")] = None
            commits[found[2]] = None
    facts = {"weights": "+".join(names)}
    if commits:
        facts["weights_commit"] = "+".join(commits)
    if own:
        facts["weights_sha256"] = content_sha256(own)
    return facts


def code_sha256(folder: str | Path) -> str:
    """`content_sha256` of the Python files below a folder, without hidden ones."""
    return content_sha256(p for p in below(Path(folder)) if p.suffix == ".py")


def below(folder: Path) -> list[Path]:
    """Every file below a folder, in the order of the names, without what is hidden."""
    return sorted(p for p in folder.rglob("*") if p.is_file()
                  and not any(part.startswith(".") for part in p.relative_to(folder).parts))


def content_sha256(paths: Iterable[str | Path]) -> str:
    """The beginning of a digest over names and content of files, in the order given; of folders,
    with all that lies below but what is hidden, in the order of the names."""
    digest = hashlib.sha256()
    for path in map(Path, paths):
        for file in below(path) if path.is_dir() else [path]:
            name = file.relative_to(path).as_posix() if path.is_dir() else file.name
            digest.update(f"{len(name)} {name} {file.stat().st_size} ".encode())
            with file.open("rb") as data:
                while block := data.read(READ_BYTES):
                    digest.update(block)
    return digest.hexdigest()[:SHOWN_N]
