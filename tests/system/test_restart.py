"""An agent that is started again when all the others are gone: it ends well if it had sent all, and fails if not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from node.configuration.reading import load
from node.exit_codes import ExitCode
from node.folder.run import read_final
from node.folder.watch import Watch
from node.places import agent_folder
from node.worlds import launcher
from tests.helpers.clusters import AGENTS, final, ran, table, with_network

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ROUNDS: dict[str, Any] = {
    "learning": {"algorithm": "pvp", "loss": "logistic", "capacity": 100.0, "rho": 0.01, "penalty": 2.0},
    "clock": {"updates": 10},
}
ONE = 2


def again(folder: Path) -> Watch:
    """Start `ONE` alone."""
    cluster = launcher.Cluster(folder, load(folder / "config.toml"), AGENTS)
    cluster.start(without=frozenset(range(AGENTS)) - {ONE})
    try:
        return cluster.watch()
    finally:
        cluster.close()


@pytest.mark.parametrize("synchronous", [False, True])
def test_an_agent_that_had_sent_all_ends_well_without_its_neighbours(tmp_path: Path, synchronous: bool) -> None:
    folder = tmp_path / "run"
    sections = table(network={"transport": "tcp"}) | (ROUNDS if synchronous else {})
    sections["eavesdropper"] = {"enabled": False}
    assert ran(folder, sections).failures == []
    before = read_final(folder, ONE)["model"]
    with_network(folder, ONE, deadline=5.0, linger=1.0)
    assert again(folder).failures == []
    assert "had released everything before its restart: not ready" in final(folder, ONE)["notes"][0]
    if synchronous:
        assert read_final(folder, ONE)["model"].tobytes() == before.tobytes()
    journal = agent_folder(folder, ONE) / "journal.bin"
    os.truncate(journal, journal.stat().st_size - 1)  # its last release is torn, and may never have been sent
    [failure] = again(folder).failures
    assert failure.status == ExitCode.NOT_READY
    assert "not ready after network.deadline = 5 s" in failure.last_words[0]
