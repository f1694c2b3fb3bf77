"""What the default install costs: distributions, megabytes and seconds in a fresh environment.

    python bench/bench_install.py [--json]

Nothing is asserted; the budget (45 packages, 450 MB) is printed beside what was measured. pip and
setuptools, which a fresh environment may already hold, are counted apart. Megabytes are 10^6 bytes
of file contents, compiled Python files included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from rig.clock import Stopwatch

ROOT = Path(__file__).resolve().parent.parent
BUDGET_PACKAGES = 45
BUDGET_MB = 450
INSTALLERS = {"pip", "setuptools", "wheel"}

_LIST = """
import json, re
from importlib import metadata
seen = {}
for d in metadata.distributions():
    size = 0
    for f in d.files or ():
        try:
            size += f.locate().stat().st_size
        except OSError:
            pass
    seen[re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower()] = [d.version, size]
print(json.dumps(seen))
"""


def tree_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; links are not followed."""
    return sum((Path(base) / name).lstat().st_size
               for base, _, names in os.walk(folder) for name in names)


def source_copy(to: Path) -> Path:
    """The files that an install is made of, so that no build output of the checkout gets in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]}
    for name in sorted(packages):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, to / name)
    return to


def measure() -> dict[str, object]:
    """Install into a fresh environment and count; the environment is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rig_install_") as temporary:
        work = Path(temporary)
        source = source_copy(work / "source")
        home = work / "env"
        venv.create(home, with_pip=True)
        python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
        bare_bytes = tree_bytes(home)
        watch = Stopwatch()
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "-c", source / "constraints.txt", source],
            check=True, stdout=sys.stderr)
        install_s = watch.elapsed_s
        full_bytes = tree_bytes(home)
        listed = subprocess.run([python, "-P", "-c", _LIST], check=True, capture_output=True,
                                text=True, cwd=work)
        found: dict[str, list[object]] = json.loads(listed.stdout)
        watch = Stopwatch()
        subprocess.run([python, "-P", "-m", "rig.cli", "--help"], check=True, cwd=work,
                       stdout=subprocess.DEVNULL)
        help_s = watch.elapsed_s
    packages = {name: entry for name, entry in found.items() if name not in INSTALLERS}
    return {
        "bench": "install",
        "rows": [
            {"what": "distributions, the rig included", "unit": "packages",
             "values": [len(packages)], "budget": BUDGET_PACKAGES},
            {"what": "added to the environment", "unit": "MB",
             "values": [round((full_bytes - bare_bytes) / 1e6, 1)], "budget": BUDGET_MB},
            {"what": "bare environment (pip and what comes with it)", "unit": "MB",
             "values": [round(bare_bytes / 1e6, 1)]},
            {"what": "install", "unit": "s", "values": [round(install_s, 1)]},
            {"what": "first rig --help", "unit": "s", "values": [round(help_s, 2)]},
        ],
        "installers_apart": sorted(set(found) & INSTALLERS),
        "distributions": {name: {"version": version, "mb": round(float(str(size)) / 1e6, 2)}
                          for name, (version, size) in sorted(packages.items())},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    as_json = parser.parse_args().json
    result = measure()
    if as_json:
        print(json.dumps(result, indent=2))
        return 0
    rows = result["rows"]
    assert isinstance(rows, list)
    for row in rows:
        budget = f"   (budget {row['budget']})" if "budget" in row else ""
        print(f"{row['what']:48} {row['values'][0]:>8} {row['unit']}{budget}")
    apart = result["installers_apart"]
    assert isinstance(apart, list)
    print(f"counted apart: {', '.join(apart) or 'nothing'}")
    sizes = result["distributions"]
    assert isinstance(sizes, dict)
    for name, entry in sorted(sizes.items(), key=lambda item: -item[1]["mb"]):
        print(f"  {name:24} {entry['version']:>12} {entry['mb']:>8} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
