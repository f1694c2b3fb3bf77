"""Where a command writes: never over what it reads, never over a run, never twice to one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from audio.errors import InputError
from audio.files import check_targets
from rig.store import holds_run, is_own_name, own_files


def check_outputs(targets: Mapping[str, Path | None], inputs: Iterable[Path | None], *,
                  folders: Mapping[str, Path | None] | None = None) -> None:
    """Raise `InputError` before any work where an output must not or cannot be written.

        check_outputs({"--csv": csv_path, "--html": html_path}, [*run_dirs, metadata])
        check_outputs({}, run_dirs, folders={"--folder": folder})

    `targets` are files to be written, `folders` are folders to be made or written into, each by the
    option that names it. `inputs` are files and folders that are read; of a run's folder, the
    folder. `None` is a path that was not given. Refused, links followed, is what is an input, what
    is (or lies in) one of a run's own files, whether that run is read or not, a folder that holds a
    run, a place named by two options, and a file that cannot be written. A new name in a run's
    folder (`RUN/report.html`) is allowed.
    """
    read = {path.resolve() for path in inputs if path is not None}
    read |= {path.resolve() for folder in tuple(read) for path in own_files(folder)}
    taken: dict[Path, str] = {}
    folders = folders or {}
    for option, path in (*targets.items(), *folders.items()):
        if path is None:
            continue
        what = "folder" if option in folders else "file"
        place = path.resolve()
        if place in read or any(place.samefile(p) for p in read if place.exists() and p.exists()):
            raise InputError.expected(f"another {what} for {option}", got="one that is read",
                                      where=path)
        if what == "folder" and holds_run(place):
            raise InputError.expected(f"another folder for {option}", got="one that holds a run",
                                      where=path)
        run = next((above for above in place.parents
                    if is_own_name(place.relative_to(above).parts[0]) and holds_run(above)), None)
        if run is not None:
            raise InputError.expected(f"another {what} for {option}",
                                      got=f"one of the files of the run {run.name}", where=path)
        if place in taken:
            raise InputError.expected(f"a {what} for each output",
                                      got=f"one for {taken[place]} and {option}", where=path)
        taken[place] = option
    check_targets(*targets.values())
