"""However a run is ended, its processes and sockets end with it, and it says what it waited for."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from node.configuration.public import dump
from node.configuration.reading import from_table
from node.folder.endings import failures_of
from node.folder.status import Status, read_status
from node.places import agent_folder
from node.worlds import launcher
from node.worlds.orphan import left_of, running_zygote, stop_run
from node.worlds.steps import RunFailure, environment
from tests.helpers.clusters import AGENTS, dealt, not_private, table
from tests.helpers.leaks import processes_of

pytestmark = pytest.mark.processes


def sockets_of(folder: Path) -> Path:
    return Path(json.loads((folder / "processes.json").read_text())["sockets"])


def statuses_of(folder: Path) -> list[Status | None]:
    return [read_status(agent_folder(folder, agent) / "status") for agent in range(AGENTS)]


def started(folder: Path) -> launcher.Cluster:
    """A cluster of agents that are all ready and tick slowly."""
    cluster = launcher.Cluster(folder, dealt(folder, table(clock={"rate": 1.0})), AGENTS)
    cluster.start()
    cluster.watch(until=lambda progress: progress.ready == AGENTS)
    return cluster


def test_the_zygote_killed_the_agents_end_and_stop_ends_one_that_is_paused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cluster = started(folder)
    paused = cluster.alive[2]
    os.kill(paused, signal.SIGSTOP)
    os.kill(cluster.zygote_pid, signal.SIGKILL)
    with pytest.raises(RunFailure, match=r"zygote ended.*SIGKILL"):
        cluster.watch()
    assert running_zygote(folder) is None
    assert paused in left_of(folder)
    assert stop_run(folder)
    assert processes_of(folder) == {}
    assert not sockets_of(folder).exists()
    assert not stop_run(folder)
    cluster.close()


def test_a_zygote_that_cannot_note_an_end_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cluster = started(folder)
    resource.prlimit(cluster.zygote_pid, resource.RLIMIT_FSIZE, (0, 0))
    os.kill(cluster.alive[0], signal.SIGKILL)
    watch = cluster.watch(until=lambda progress: bool(progress.failures))
    assert [failed.process for failed in watch.failures] == ["agent-0000"]
    assert failures_of(folder) == []
    assert running_zygote(folder) is not None
    cluster.stop()
    assert processes_of(folder) == {}


def test_a_run_names_the_agent_that_it_waits_for_and_sigterm_ends_it_like_ctrl_c(tmp_path: Path) -> None:
    folder, config = tmp_path / "run", tmp_path / "c.toml"
    learning = {"algorithm": "admm", "loss": "logistic", "capacity": 10.0, "rho": 1.0, "penalty": 1.0}
    sections = not_private(learning=learning, clock={"updates": 100_000})
    sections["learning"], sections["clock"] = learning, {"updates": 100_000}
    config.write_text(dump(from_table(sections)))
    command = [sys.executable, "-m", "node.cli", "run", str(config), "--out", str(folder)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as run:
        assert run.stderr is not None
        # All of them, so that none is still waiting to be ready when agent 2 dies.
        while any(shown is None or shown.sent < 2 for shown in statuses_of(folder)):
            assert run.poll() is None
            select.select([], [], [], 0.05)
        doomed = statuses_of(folder)[2]
        assert doomed is not None
        os.kill(doomed.pid, signal.SIGKILL)
        said = b""
        while b"waiting for agent 2" not in said:
            line = run.stderr.readline()
            assert line, said
            said += line
        assert b"agent-0002 did not finish (status -9): killed by SIGKILL" in said
        run.send_signal(signal.SIGTERM)
        said = run.stderr.read()
        assert run.wait(600) == 128 + signal.SIGTERM
    assert b"interrupted: all processes ended" in said
    assert b"waiting for agent 2; agent 2: killed by SIGKILL" in said
    assert processes_of(folder) == {}
    assert not sockets_of(folder).exists()
