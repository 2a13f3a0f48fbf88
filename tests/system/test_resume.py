"""A run whose processes are all killed at once goes on from its ledgers, and what it had released stays what it was."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from node.audit.verify import verify
from node.folder.ledger import LedgerFile
from node.folder.spending import spent
from node.places import agent_folder
from node.traffic.run_logs import logs_of, releases_of
from node.worlds import launcher
from node.worlds.resumption import resumed
from tests.helpers.clusters import AGENTS, dealt, table

pytestmark = pytest.mark.processes

ROUNDS: dict[str, Any] = {
    "learning": {"algorithm": "pvp", "loss": "logistic", "capacity": 100.0, "rho": 0.01, "penalty": 2.0},
    "clock": {"updates": 30},
}


def killed(folder: Path, sections: dict[str, Any]) -> None:
    """Run for a third of the way, then kill every process of the run, the zygote first."""
    cluster = launcher.Cluster(folder, dealt(folder, sections), AGENTS)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > cluster.planned / 3)
        for pid in (cluster.zygote_pid, *cluster.alive.values()):
            with suppress(ProcessLookupError):
                gone = os.pidfd_open(pid)
                os.kill(pid, signal.SIGKILL)
                select.select([gone], [], [], 30.0)
                os.close(gone)
    finally:
        cluster.close()


def ledger(folder: Path, agent: int) -> bytes:
    return (agent_folder(folder, agent) / "ledger.jsonl").read_bytes()


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_run_that_was_killed_goes_on(tmp_path: Path, synchronous: bool) -> None:
    folder = tmp_path / "run"
    killed(folder, table() | (ROUNDS if synchronous else {}))
    before = [ledger(folder, agent) for agent in range(AGENTS)]
    heard = releases_of(folder)
    with resumed(folder) as resumption:
        cluster = resumption.cluster()
        resumption.prepare_processes()
        cluster.start(without=resumption.left)
        try:
            watch = cluster.watch()
        finally:
            cluster.close()
    assert watch.failures == []
    planned = 30 if synchronous else 40
    for agent in range(AGENTS):
        assert ledger(folder, agent).startswith(before[agent].rpartition(b"\n")[0])
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", None) as read:
            charged = [index for charge in read.charges() for index in range(charge.first, charge.last + 1)]
        assert charged == list(range(planned))  # each once
    assert spent(folder).epsilons.max() <= 1.0 + 1e-9
    assert len(logs_of(folder)) == 2
    after = releases_of(folder)
    assert all(after[key][1].vector.tobytes() == release.vector.tobytes() for key, (_, release) in heard.items())
    assert verify(folder).ok
