"""What the tables say of signatures is so in the packages that the peers' environments have.

The other tables are checked against a checkout or an unpacked wheel, by hand:
tests/tools/check_signatures.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "check_signatures.py"
MOSHI = os.environ.get("DUPLEXRIG_MOSHI_PYTHON", "")

pytestmark = pytest.mark.peer


def check(python: str, table: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, TOOL, table, "--installed"], capture_output=True, text=True,
                          env={**os.environ, "NO_TORCH_COMPILE": "1", "NO_CUDA_GRAPH": "1"})


@pytest.mark.skipif(not MOSHI, reason="DUPLEXRIG_MOSHI_PYTHON names no Python that has moshi; "
                                      "make test-peers")
@pytest.mark.parametrize("table", ["moshi", "torch", "huggingface_hub"])
def test_in_the_environment_of_moshi(table: str) -> None:
    done = check(MOSHI, table)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("table", ["silero_vad", "torch"])
def test_here(table: str) -> None:
    """The environment of the peers' tests has torch and Silero's package."""
    done = check(sys.executable, table)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not MOSHI, reason="as above")
def test_another_package_is_told_from_the_one_that_is_meant() -> None:
    """PersonaPlex has the same module names, and other signatures."""
    done = check(MOSHI, "personaplex")
    assert done.returncode == 1
    assert "LMGen has no step_system_prompts" in done.stdout
    assert "moshi.models.loaders.get_mimi: takes" in done.stdout
