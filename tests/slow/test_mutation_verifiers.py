"""A planted bug in any comparison of a verifier must break a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants are run in forked processes")
@pytest.mark.parametrize(("package", "kinds"), [
    ("verifiers", []), ("sweeps", ["--only", "comparison"])])
def test_no_mutant_survives(package, kinds):
    done = subprocess.run(
        [sys.executable, "tests/tools/mutate_verifiers.py", "--package", package, *kinds],
        cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # an empty list of mutants would survive nothing as well
    counts = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()
              if "mutants" in line}
    assert counts["comparison"] > 100
