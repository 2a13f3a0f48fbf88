"""`network.on_silent = "carry-on"` over real processes: rounds are closed without who is silent, and it finds back."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.audit.verify import verify
from node.faults.log import read_faults
from node.folder.run import read_final
from tests.helpers.clusters import final, ran
from tests.helpers.misbehaving_networks import in_twin, releases

pytestmark = [pytest.mark.processes, pytest.mark.slow]

AGENTS = 6
ROUNDS = 600
"""So many that most come after the pause, however fast the machine is."""


def admm(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": {"seed": 3},
        "data": {"source": "breast-cancer", "agents": AGENTS},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "admm", "loss": "logistic", "capacity": 10.0, "rho": 1.0, "penalty": 1.0},
        "clock": {"updates": ROUNDS},
        "network": {"repeat": 0.05, "linger": 5.0, "silent": 1.0, "on_silent": "carry-on", "delay": "5 ms"},
        "event": [event],
    }


def notes(folder: Path, agent: int) -> str:
    return "; ".join(final(folder, agent)["notes"])


def test_who_was_paused_goes_on_with_the_newest_round_and_all_agree_as_if_nothing_had_been(tmp_path: Path) -> None:
    folder = tmp_path / "paused"
    watch = ran(folder, admm({"at": 0.5, "fault": "pause", "target": "one", "lasting": 2.5}))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    [paused] = read_faults(folder)[0]["agents"]
    others = [j for j in range(AGENTS) if j != paused]
    assert "carried past" in notes(folder, paused)
    assert "nothing from" not in notes(folder, paused), "its own standing still is nobody's silence"
    neighbours = [(paused - 1) % AGENTS, (paused + 1) % AGENTS]
    assert all(f"nothing from agent {paused}" in notes(folder, j) for j in neighbours)
    assert all("carried" not in notes(folder, j) for j in others if j not in neighbours)
    assert final(folder, paused)["sent"] < ROUNDS, "it left rounds out"
    assert all(final(folder, j)["sent"] == ROUNDS for j in others)
    assert verify(folder).ok
    calm = in_twin(tmp_path / "calm", admm({"at": 0.5, "fault": "pause", "target": "one", "lasting": 2.5}))
    for agent in range(AGENTS):
        np.testing.assert_allclose(read_final(folder, agent)["model"], read_final(calm, agent)["model"], atol=1e-5)


def test_the_others_finish_without_who_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    watch = ran(folder, admm({"at": 0.5, "fault": "kill", "target": "one"}))
    [failure] = watch.failures
    assert failure["status"] == -signal.SIGKILL
    [killed] = read_faults(folder)[0]["agents"]
    assert failure["who"] == f"agent-{killed:04d}"
    assert all(final(folder, j)["sent"] == ROUNDS for j in range(AGENTS) if j != killed)
    last = max(index for sender, index in releases(folder) if sender == killed)
    assert last < ROUNDS - 1
