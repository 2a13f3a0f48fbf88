"""`network.on_silent = "carry-on"` over real processes: rounds go on without a silent agent, and it finds back."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.audit.verify import verify
from node.faults.log import read_faults
from node.folder.run import read_final
from node.worlds.progress import Progress
from tests.helpers.clusters import final, ran, ran_with_a_pause, sent
from tests.helpers.misbehaving_networks import in_twin, releases

pytestmark = [pytest.mark.processes, pytest.mark.slow]

AGENTS = 6
ROUNDS = 600
PAUSED = 2
PAUSE = (50, 150)
"""Releases that all agents have sent when the pause begins, and the others when it ends: most rounds come after it."""
SILENT = 5.0
"""Seconds of silence after which a round goes on: an agent that is only slow sends something in so long a time."""


def admm(**network: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 3},
        "data": {"source": "breast-cancer", "agents": AGENTS},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "admm", "loss": "logistic", "capacity": 10.0, "rho": 1.0, "penalty": 1.0},
        "clock": {"updates": ROUNDS},
        "network": {"repeat": 0.05, "silent": SILENT, "on_silent": "carry-on", "delay": "5 ms", **network},
    }


def notes(folder: Path, agent: int) -> str:
    return "; ".join(final(folder, agent)["notes"])


def test_a_paused_agent_goes_on_with_the_newest_round_and_all_agree_as_if_nothing_had_been(tmp_path: Path) -> None:
    folder, paused = tmp_path / "paused", PAUSED
    others = [j for j in range(AGENTS) if j != paused]
    table = admm(linger=600.0)

    def over(_: Progress) -> bool:
        return all(sent(folder, j) >= PAUSE[1] for j in others)

    watch = ran_with_a_pause(folder, table, paused, after=PAUSE[0], until=over)
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    assert "carried past" in notes(folder, paused)
    assert "nothing from" not in notes(folder, paused), "its own pause is no silence of the others"
    neighbours = [(paused - 1) % AGENTS, (paused + 1) % AGENTS]
    assert all(f"nothing from agent {paused}" in notes(folder, j) for j in neighbours)
    assert all("carried" not in notes(folder, j) for j in others if j not in neighbours)
    assert final(folder, paused)["sent"] < ROUNDS, "it left rounds out"
    assert all(final(folder, j)["sent"] == ROUNDS for j in others)
    assert verify(folder).ok
    calm = in_twin(tmp_path / "calm", table)
    for agent in range(AGENTS):
        np.testing.assert_allclose(read_final(folder, agent)["model"], read_final(calm, agent)["model"], atol=1e-5)


def test_the_others_finish_without_an_agent_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    watch = ran(folder, {**admm(linger=5.0), "event": [{"at": 0.5, "fault": "kill", "target": "one"}]})
    [failure] = watch.failures
    assert failure.status == -signal.SIGKILL
    [killed] = read_faults(folder)[0]["agents"]
    assert failure.process == f"agent-{killed:04d}"
    assert all(final(folder, j)["sent"] == ROUNDS for j in range(AGENTS) if j != killed)
    last = max(index for sender, index in releases(folder) if sender == killed)
    assert last < ROUNDS - 1
