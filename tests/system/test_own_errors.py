"""Errors of a user's own code: the run's first error shows the line, and no agent waits for the one that ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

AGENT = """
from coordinator_free.agents.averages.gradient_descent import GradientDescent


class Own(GradientDescent):
    name = "own_agent:Own"
    settings = GradientDescent.settings

    def wake(self):
        if self.setting_number == 2 and len(self.woken) == 6:
            raise RuntimeError("private: 1.25")
        self.woken.append(True)
        return super().wake()

    def __init__(self, setting):
        super().__init__(setting)
        self.setting_number, self.woken = setting.agent, []

    def finish(self):
        raise RuntimeError("finish")
"""

CONFIGURATION = """
run.seed = 1
data = {source = "synthetic", agents = 6, dimension = 4}
topology.kind = "ring"
learning = {algorithm = "own_agent:Own", loss = "squared", step = 0.1}
clock.updates = 20
privacy.mechanism = "none"
network = {deadline = 600.0, linger = 600.0}
"""


@pytest.mark.parametrize("world", ["processes", "twin"])
def test_the_line_of_a_failing_plug_in_comes_first_and_all_agents_end(tmp_path: Path, world: str) -> None:
    (tmp_path / "own_agent.py").write_text(AGENT)
    (tmp_path / "config.toml").write_text(CONFIGURATION)
    command = [Path(sys.executable).with_name("sottovoce"), "run", "config.toml", "--out", "run", "--world", world]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    first = " ".join((done.stdout + done.stderr).split())
    assert "own_agent.py:11, in wake" in first, first
    assert "Traceback" not in first
    if world == "processes":
        assert "private: 1.25" not in first
        assert first.index("agent-0002 did not finish (status 5)") < first.index("5 agents did not finish (status 5)")
