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
@pytest.mark.parametrize("package", ["verifiers", "sweeps"])
def test_no_mutant_survives(package):
    done = subprocess.run(
        [sys.executable, "tests/tools/mutate_verifiers.py", "--package", package],
        cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # the counts that the tool must have had something to do
    counts = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()
              if "mutants" in line}
    assert counts["comparison"] > 100
