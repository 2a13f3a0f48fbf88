"""Tasks of a Slurm job on this machine, without Slurm: tasks are killed or stopped, and the job starts again."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.audit.verify import verify
from node.folder.status import read_status
from node.places import agent_folder
from node.worlds.parts import part_folder
from tests.helpers.clusters import AGENTS, table
from tests.helpers.command import answered
from tests.helpers.projects import toml

TASKS = 2


class Job:
    """A dealt run and the tasks of its job."""

    def __init__(self, folder: Path) -> None:
        self.run, self.parts = folder / "run", folder / "run.parts"
        # Slow enough that agent 4 is killed and back before the others have finished.
        changes = {
            "clock": {"rate": 8.0, "updates": 40},
            "eavesdropper": {"enabled": True},
            "learning": {"finish": False},
        }
        (folder / "run.toml").write_text(toml(table(**changes)))
        dealt = answered("deal", folder / "run.toml", "--out", self.run, "--parts", self.parts)
        assert dealt.returncode == 0, dealt.stderr
        self.tasks: list[subprocess.Popen[str]] = []

    def start(self, restart: int = 0, tasks: int = TASKS) -> list[subprocess.Popen[str]]:
        place = {"SLURM_NTASKS": str(tasks), "SLURM_JOB_ID": "1", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SLURM_RESTART_COUNT": str(restart)}
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "node.worlds.slurm_task", "--run", self.run, "--parts", self.parts],
                env=os.environ | place | quiet | {"SLURM_PROCID": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(tasks)
        ]
        self.tasks += started
        return started

    def sent(self, agent: int) -> int:
        status = read_status(agent_folder(part_folder(self.parts, agent), agent) / "status")
        return 0 if status is None else status.sent

    def pid(self, agent: int) -> int:
        status = read_status(agent_folder(part_folder(self.parts, agent), agent) / "status")
        assert status is not None
        return status.pid

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert all(task.poll() is None for task in self.tasks[-TASKS:]), "a task ended too early"
            select.select([], [], [], 0.02)

    def end(self, tasks: list[subprocess.Popen[str]]) -> list[str]:
        return [task.communicate(timeout=600)[0] for task in tasks]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    for task in made.tasks:
        if task.poll() is None:
            task.terminate()
        task.communicate(timeout=600)


@pytest.mark.slow
@pytest.mark.processes
def test_a_killed_agent_and_ended_tasks_and_a_new_start_give_one_whole_run(job: Job) -> None:
    first = job.start()
    job.until(lambda: min(map(job.sent, range(AGENTS))) >= 5)
    victim = job.pid(4)
    os.kill(victim, signal.SIGKILL)
    job.until(lambda: job.pid(4) != victim and job.sent(4) >= 8)
    # One task is told to stop, as by a requeue. The other is killed: its agents go on until their zygote ends.
    zygote = int(json.loads((job.parts / "node-1" / "processes.json").read_text())["zygote"]["pid"])
    first[0].terminate()
    first[1].kill()
    stopped, killed = job.end(first)
    assert first[0].returncode == 1
    assert "told to stop" in stopped
    assert "agent 4 was killed, and is started again" in killed
    second = job.start(restart=1)  # waits for the ledgers that the agents of before still hold
    os.kill(zygote, signal.SIGTERM)
    words = job.end(second)
    assert [task.returncode for task in second] == [0, 0], words
    _assert_whole(job)


def _assert_whole(job: Job) -> None:
    collected = answered("collect", job.run, "--parts", job.parts, "--json")
    assert collected.returncode == 0, collected.stderr
    results = json.loads(collected.stdout)
    assert results["failures"] == []
    found = verify(job.run)
    assert found.ok
    audited = answered("log", "verify", job.run / "traffic.mcap", "--json")
    checked = json.loads(audited.stdout)
    assert checked["redrawn"] == []
    assert checked["backwards"] == []
    assert checked["capture"]["missing"].keys() <= {"3", "4", "5"}, "only of the node whose eavesdropper was killed"


@pytest.mark.slow
@pytest.mark.processes
def test_a_task_whose_eavesdropper_cannot_start_ends_and_says_why(job: Job) -> None:
    (job.parts / "eavesdropper" / "manifest.json").unlink()
    tasks = job.start(tasks=1)
    (words,) = job.end(tasks)
    assert tasks[0].returncode == 2, words
    assert "node 0: the eavesdropper ended before the agents were ready: run folder" in words
    assert "it has no manifest.json" in words
    assert all(job.sent(agent) == 0 for agent in range(AGENTS))
