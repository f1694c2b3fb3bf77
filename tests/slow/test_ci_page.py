"""The pytest example of docs/ci.md, as it stands there, against the example agent of raw_pcm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from example_agent import PORT, example_of, free_port

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_pytest_example_gates_an_agent(tmp_path: Path) -> None:
    """It takes its turn half a second after the pause begins, so it meets every gate; with a limit
    that half a second misses, that gate and no other fails. On a machine too busy to keep time the
    sessions end as void after three attempts, and then no gate is met."""
    example, = re.findall(r"```python\n# test_agent.py\n(.*?)```", PAGE, flags=re.DOTALL)
    port = str(free_port())
    assert example.count(PORT) == 1
    (tmp_path / "agent.py").write_text(example_of("raw_pcm").replace(PORT, port))
    strict = '"--max latency.reply.p90_ms=100", "--max unscored=0"'
    source = example.replace(PORT, port).replace('"--max unscored=0"', strict)
    assert strict in source
    (tmp_path / "test_agent.py").write_text(source)
    env = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent),
                                                  os.environ.get("PATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml", "out.xml",
         "test_agent.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
        timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    cases = {case.get("name"): [e.tag for e in case]
             for case in ET.parse(tmp_path / "out.xml").getroot().iter("testcase")}
    if void := re.search("void: (a frame|lateness).*", done.stdout):
        print(void[0])
        assert list(cases.values()) == [["error"]] * 4
        return
    assert cases == {
        "test_gate[--min by_action.TAKE_TURN=1]": [],
        "test_gate[--max latency.reply.p90_ms=1500]": [],
        "test_gate[--max latency.reply.p90_ms=100]": ["failure"],
        "test_gate[--max unscored=0]": []}
    assert "is above 100" in done.stdout
