"""A job on a real Slurm cluster of two nodes on this machine, as root; `scripts/test-engines` runs this."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node.audit.verify import verify
from node.configuration.writing import table_lines
from node.folder.ledger import LedgerFile
from node.folder.manifest import read_manifest
from node.folder.status import State, read_status
from node.places import agent_folder
from node.results.results import read_results
from node.worlds.parts import part_folder
from tests.helpers.clusters import AGENTS, table

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "srun")
MISSING = [program for program in PROGRAMS if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin") is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING) or os.getuid() != 0, reason=f"Slurm is not installed ({', '.join(MISSING)}), or this is not root"
)

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=17817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdTimeout=600
JobRequeue=1
KillWait=30
NodeName=alpha NodeHostname=localhost NodeAddr=127.0.0.1 Port=17818 CPUs=2 State=UNKNOWN
NodeName=beta NodeHostname=localhost NodeAddr=127.0.0.1 Port=17819 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


class Slurm:
    """The daemons of a Slurm cluster, with all of their files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": os.environ["PATH"] + ":/usr/sbin",
            "OMP_NUM_THREADS": "1",
        }
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o600)
        files = {"key": "munge.key", "socket": "munge.socket", "log": "munge.log", "pid": "munge.pid", "seed": "seed"}
        options = {"log": "--log-file", "pid": "--pid-file", "seed": "--seed-file", "key": "--key-file"}
        given = [f"{options.get(name, '--' + name)}={folder / file}" for name, file in files.items()]
        self._start("munged", "--foreground", "--force", *given)
        until((folder / "munge.socket").exists)
        self._start("slurmctld", "-D", "-f", folder / "slurm.conf")
        for name in ("alpha", "beta"):
            self._start("slurmd", "-D", "-N", name, "-f", folder / "slurm.conf")
        until(lambda: self._are_alive() and self.told("sinfo", "--noheader", "--states=idle", "--format=%D") == "2")

    def _start(self, *command: object) -> None:
        with (self.folder / f"{command[0]}.out").open("ab") as log:
            self.processes.append(
                subprocess.Popen([str(word) for word in command], env=self.environment, stdout=log, stderr=log)
            )

    def _are_alive(self) -> bool:
        for process in self.processes:
            assert process.poll() is None, f"{process.args} ended with {process.returncode}: see {self.folder}"
        return True

    def told(self, *command: object) -> str:
        """What a command of Slurm prints; nothing where it fails."""
        words = [str(word) for word in command]
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False).stdout.strip()

    def end(self) -> None:
        self.told("scancel", "--signal=KILL", "--user=root")
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    tmp_path.chmod(0o755)
    made = Slurm(tmp_path)
    yield made
    made.end()


def until(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(0.05)


def test_a_job_with_a_killed_agent_that_is_requeued_gives_one_whole_run(slurm: Slurm, tmp_path: Path) -> None:
    run, parts = tmp_path / "run", tmp_path / "run.parts"
    sections = table(clock={"rate": 10.0, "updates": 100}, network={"linger": 60.0})
    lines = (line for name, section in sections.items() for line in table_lines(f"[{name}]", section))
    (tmp_path / "run.toml").write_text("\n".join(lines))
    script = subprocess.run(
        [sys.executable, "-m", "node.cli", "slurm", tmp_path / "run.toml", "--nodes", "2", "--out", run],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (tmp_path / "job.sh").write_text(script)
    answer = slurm.told("sbatch", f"--output={tmp_path / 'job.log'}", tmp_path / "job.sh")
    job = re.fullmatch(r"Submitted batch job (\d+)", answer)
    assert job, answer

    def sent(agent: int) -> tuple[int, int]:
        status = read_status(agent_folder(part_folder(parts, agent), agent) / "status")
        return (0, 0) if status is None or status.state < State.READY else (status.pid, status.sent)

    until(lambda: min(sent(agent)[1] for agent in range(AGENTS)) >= 3)
    victim = sent(4)[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: sent(4)[0] not in (0, victim))
    slurm.told("scontrol", "requeue", job[1])
    until(lambda: "COMPLETED" in slurm.told("scontrol", "show", "job", job[1]) or (run / "results.json").exists())
    until(lambda: "JobState=COMPLETED" in slurm.told("scontrol", "show", "job", job[1]))
    results = read_results(run)
    assert results.failures == ()
    assert results.capture is not None
    assert verify(run).ok
    identity = read_manifest(run).run.hex()
    for agent in range(AGENTS):
        with LedgerFile.read(agent_folder(run, agent) / "ledger.jsonl", None) as ledger:
            assert len(ledger.starts(identity)) == (3 if agent == 4 else 2)
