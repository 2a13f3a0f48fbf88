"""A run on three hosts: each holds its share, restarts what was killed, and survives the loss of its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.audit.verify import verify
from node.configuration.writing import table_lines
from node.folder.ledger import LedgerFile
from node.folder.status import read_status
from node.places import agent_folder
from node.results.results import read_results
from node.worlds.orphan import running_zygote, stop_run
from tests.helpers.clusters import table
from tests.helpers.command import answered

HOSTS = ("alpha", "beta", "gamma")


class Hosts:
    """A dealt run in three parts, and the processes of ``sottovoce host``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        configuration = folder / "run.toml"
        sections = table(clock={"rate": 20.0}, network={"deadline": 600.0})
        lines = (line for name, section in sections.items() for line in table_lines(f"[{name}]", section))
        configuration.write_text("\n".join(lines))
        self.run, self.parts = folder / "run", folder / "parts"
        given = ["--out", self.run, "--parts", self.parts, "--hosts", ",".join(HOSTS)]
        dealt = answered("deal", configuration, *given)
        assert dealt.returncode == 0, dealt.stderr

    def start(self, name: str) -> subprocess.Popen[str]:
        given = ["host", str(self.parts / name), "--endpoints", str(self.folder / "air")]
        command = [sys.executable, "-m", "node.cli", *given]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def pid(self, name: str, agent: int) -> int:
        """The process of an agent that has begun."""
        status = read_status(agent_folder(self.parts / name, agent) / "status")
        assert status is not None
        return status.pid

    def finished(self, *processes: subprocess.Popen[str]) -> None:
        for process in processes:
            words = process.communicate()[0]
            assert process.returncode == 0, words

    def collected(self) -> None:
        """Bring the parts together: every agent finished, and made its releases as its code makes them again."""
        done = answered("collect", self.run, "--parts", self.parts)
        assert done.returncode == 0, done.stderr
        capture = read_results(self.run).capture
        assert capture is not None
        assert capture.complete
        assert verify(self.run).ok


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    for name in HOSTS:
        stop_run(made.parts / name)


def all_ready(process: subprocess.Popen[str]) -> None:
    """Read what a host prints until all of its agents are ready."""
    assert process.stdout is not None
    assert any("all ready" in line for line in process.stdout)


def test_killed_agents_and_host_processes_cost_nothing(hosts: Hosts) -> None:
    alpha, beta, gamma = (hosts.start(name) for name in HOSTS)
    for process in (alpha, beta, gamma):
        all_ready(process)
    os.kill(hosts.pid("beta", 2), signal.SIGKILL)  # its host starts it again
    gamma.kill()  # its agents go on
    gamma.communicate()
    assert running_zygote(hosts.parts / "gamma") is not None
    again = hosts.start("gamma")  # finds them, and waits for their end
    hosts.finished(alpha, beta, again)
    for agent in (2, 4, 5):
        name = "beta" if agent == 2 else "gamma"
        with LedgerFile.read(agent_folder(hosts.parts / name, agent) / "ledger.jsonl", None) as ledger:
            starts = sum(len(ledger.starts(run)) for run in {charge.run for charge in ledger.ledger.charges})
        assert starts == (2 if agent == 2 else 1)
    hosts.collected()


def test_a_host_that_is_stopped_goes_on_from_its_ledgers(hosts: Hosts) -> None:
    alpha, beta, gamma = (hosts.start(name) for name in HOSTS)
    for process in (alpha, beta, gamma):
        all_ready(process)
    gamma.terminate()
    gamma.communicate()
    assert gamma.returncode == 143
    assert running_zygote(hosts.parts / "gamma") is None
    hosts.finished(alpha, beta, hosts.start("gamma"))
    hosts.collected()


def test_a_part_holds_nothing_private_of_another_host(hosts: Hosts) -> None:
    held = {name: {path.name for path in (hosts.parts / name / "agents").iterdir()} for name in HOSTS}
    assert held["alpha"] == {"agent-0000", "agent-0001"}
    assert held["gamma"] == {"agent-0004", "agent-0005"}
    assert (hosts.parts / "alpha" / "eavesdropper.key").exists()
    assert not (hosts.parts / "beta" / "eavesdropper.key").exists()
    assert not list(hosts.run.rglob("agent-*"))
    again = answered("deal", hosts.folder / "run.toml", "--out", hosts.run, "--parts", hosts.parts, "--hosts", "delta")
    assert again.returncode == 2
    assert "was dealt in other parts" in again.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--address", "0.0.0.0"], "other hosts cannot connect to it"),
        (["--address", "a:b:c"], "accepted is HOST or HOST:PORT"),
        (["--address", "no-such-host.invalid"], "does not resolve"),
        ([], "is not a run's folder"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, given: list[str], words: str) -> None:
    answer = answered("host", tmp_path, *given)
    assert answer.returncode == 2
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
