"""What the launcher decides without a process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from node.worlds.launcher import Cluster
from tests.helpers.clusters import AGENTS, dealt, table


def test_only_agents_that_a_signal_ended_are_started_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path / "run", dealt(tmp_path / "run", table()), AGENTS)
    ended = {0: 0, 1: -signal.SIGKILL, 2: 4, 3: -signal.SIGSEGV, "eavesdropper": -signal.SIGKILL}
    monkeypatch.setattr(cluster, "_ended", ended)
    monkeypatch.setattr(cluster, "restart", lambda agent: None)
    assert cluster.restart_killed(2) == [1, 3]
    ended[3] = 0
    assert cluster.restart_killed(2) == [1]
    assert cluster.restart_killed(2) == []
