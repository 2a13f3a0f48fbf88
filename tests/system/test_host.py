"""Runs on several hosts: each holds its share, restarts what was killed, and survives the loss of its own process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.audit.verify import verify
from node.configuration.writing import table_lines
from node.exit_codes import ExitCode
from node.folder.counted import read_counted
from node.folder.ledger import LedgerFile
from node.places import agent_folder
from node.results.results import read_results
from node.worlds.orphan import running_zygote, stop_run
from tests.helpers.clusters import table
from tests.helpers.command import Answer, answered
from tests.helpers.hosts import all_ready, finished, sent_and_received, start_host, status_of

HOSTS = ("alpha", "beta", "gamma", "delta")
"""Agent 0; agents 1 and 2; agent 3; agents 4 and 5."""


class Hosts:
    """A dealt run in parts, and the processes of its hosts."""

    def __init__(self, folder: Path, names: tuple[str, ...], topology: str, deadline: float = 600.0) -> None:
        self.names = names
        self.configuration = folder / "run.toml"
        sections = table(clock={"rate": 20.0}, network={"deadline": deadline}, topology={"kind": topology})
        lines = (line for name, section in sections.items() for line in table_lines(f"[{name}]", section))
        self.configuration.write_text("\n".join(lines))
        self.run, self.parts, self.exchange = folder / "run", folder / "parts", folder / "exchange"
        dealt = self.deal(names)
        assert dealt.returncode == 0, dealt.stderr

    def deal(self, names: tuple[str, ...]) -> Answer:
        shares = ",".join(names)
        return answered("deal", self.configuration, "--out", self.run, "--parts", self.parts, "--hosts", shares)

    def start(self, name: str, *given: str) -> subprocess.Popen[str]:
        return start_host(self.parts / name, self.exchange, *given)

    def starts(self, name: str, agent: int) -> int:
        """How often an agent has started."""
        with LedgerFile.read(agent_folder(self.parts / name, agent) / "ledger.jsonl", None) as ledger:
            return sum(len(ledger.starts(run)) for run in {charge.run for charge in ledger.ledger.charges})

    def end(self) -> None:
        for name in self.names:
            stop_run(self.parts / name)


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path, HOSTS, "ring")
    yield made
    made.end()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path, ("alpha", "beta"), "complete")
    yield made
    made.end()


def test_killed_agents_killed_hosts_and_a_host_that_moved_cost_nothing(four: Hosts) -> None:
    alpha, beta, gamma, delta = (four.start(name) for name in HOSTS)
    all_ready(alpha, beta, gamma, delta)
    os.kill(status_of(four.parts / "beta", 2).pid, signal.SIGKILL)  # its host starts it again
    gamma.kill()  # its agent goes on
    delta.terminate()  # ends its agents
    gamma.communicate()
    delta.communicate()
    assert delta.returncode == 143
    assert running_zygote(four.parts / "gamma") is not None
    assert running_zygote(four.parts / "delta") is None
    finished(alpha, beta, four.start("gamma"), four.start("delta", "--address", "127.0.0.2"))
    started = {"alpha": [0], "beta": [1, 2], "gamma": [3], "delta": [4, 5]}
    counts = [four.starts(name, agent) for name, agents in started.items() for agent in agents]
    assert counts == [1, 1, 2, 1, 2, 2]
    done = answered("collect", four.run, "--parts", four.parts)
    assert done.returncode == 0, done.stderr
    capture = read_results(four.run).capture
    assert capture is not None
    assert capture.complete
    assert verify(four.run).ok
    assert "4 tcp://127.0.0.2:" in (four.exchange / "delta.endpoints").read_text()


def test_a_host_that_comes_back_with_older_ledgers_is_refused(two: Hosts) -> None:
    part = two.parts / "beta"
    shutil.copytree(part / "agents", part.parent / "backup")
    alpha, beta = two.start("alpha"), two.start("beta")
    all_ready(alpha, beta)
    sent_and_received(two.parts / "alpha", [0, 1, 2])
    beta.terminate()
    beta.communicate()
    shutil.rmtree(part / "agents")
    shutil.copytree(part.parent / "backup", part / "agents")
    again = two.start("beta")
    words = again.communicate()[0]
    alpha.terminate()
    alpha.communicate()
    assert again.returncode == 1
    for agent in (3, 4, 5):
        counted = read_counted(part, agent)
        assert counted is not None
        assert counted.code == ExitCode.LEDGER
        assert counted.sent == 0
    assert "this ledger is an old copy" in words


def test_no_agent_begins_before_all_hosts_are_there(tmp_path: Path) -> None:
    """Agent 1 has no neighbour on beta: it would finish and leave before beta comes, and be missed then."""
    hosts = Hosts(tmp_path, ("alpha", "beta"), "ring", deadline=2.0)
    alpha = hosts.start("alpha")
    words = alpha.communicate()[0]
    assert alpha.returncode == 1
    assert words.splitlines()[-1].startswith(
        "sottovoce: no endpoints of beta after network.deadline = 2 s; nothing was"
    )
    assert running_zygote(hosts.parts / "alpha") is None
    assert [hosts.starts("alpha", agent) for agent in (0, 1, 2)] == [0, 0, 0]


def test_a_part_holds_nothing_private_of_another_host(two: Hosts) -> None:
    held = {name: {path.name for path in (two.parts / name / "agents").iterdir()} for name in two.names}
    assert held["alpha"] == {"agent-0000", "agent-0001", "agent-0002"}
    assert held["beta"] == {"agent-0003", "agent-0004", "agent-0005"}
    assert (two.parts / "alpha" / "eavesdropper.key").exists()
    assert not (two.parts / "beta" / "eavesdropper.key").exists()
    assert not list(two.run.rglob("agent-*"))
    again = two.deal(("delta",))
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
