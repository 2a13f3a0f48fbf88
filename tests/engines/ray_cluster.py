"""Runs on a real Ray cluster of two nodes on this machine; `scripts/test-engines` runs this."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from node.audit.verify import verify
from node.configuration.writing import table_lines
from node.folder.ledger import LedgerFile
from node.folder.manifest import read_json, read_manifest
from node.folder.status import State, read_status
from node.places import agent_folder
from node.results.results import read_results
from node.worlds.orphan import started_at, stop_run
from tests.helpers.clusters import AGENTS, table

pytest.importorskip("ray", reason="Ray is not installed")

SHARES = {"node-0": (0, 1, 2), "node-1": (3, 4, 5)}
ADDRESSES = {"node-0": "127.0.0.2", "node-1": "127.0.0.3"}
PATIENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_py_gcs_connect_timeout_s": "120",
    "RAY_gcs_server_request_timeout_seconds": "120",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_health_check_timeout_ms": "60000",
}
"""Ray waits longer for a busy machine. One wait of 15 seconds, for a process of each node, cannot be changed."""
TRIES = 5
"""So often a node of Ray is started, because of that wait."""


def stat(pid: int) -> list[str]:
    """The fields of a process after its name: state, parent, group, session, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def free_ports() -> tuple[int, int]:
    """Two ports at which nothing listens."""
    with socket.create_server((ADDRESSES["node-0"], 0)) as one, socket.create_server((ADDRESSES["node-0"], 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


class Cluster:
    """A Ray cluster of two nodes, each with a home of its own; the processes of a node are one session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.clients = free_ports()
        self._sessions: dict[str, int] = {}

    def home(self, name: str) -> Path:
        return self.folder / f"home-{name}"

    def start(self, name: str) -> None:
        """Start a node of Ray; the first is the head."""
        role = [
            "--head",
            f"--port={self.port}",
            f"--ray-client-server-port={self.clients}",
            "--include-dashboard=false",
        ]
        if name != "node-0":
            role = [f"--address={ADDRESSES['node-0']}:{self.port}"]
        given = [f"--node-ip-address={ADDRESSES[name]}", "--num-cpus=2", "--object-store-memory=80000000"]
        for _ in range(TRIES):
            with (self.folder / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(
                    [Path(sys.executable).with_name("ray"), "start", *role, *given],
                    env=os.environ | PATIENT | {"XDG_DATA_HOME": str(self.home(name))},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._sessions[name] = process.pid
            with suppress(OSError):  # because of that wait; the processes of a session share the processor with others
                Path(f"/proc/{process.pid}/autogroup").write_text("-15")
            if process.wait() == 0:
                return
            self.end(name)
        raise AssertionError((self.folder / f"{name}.log").read_text())

    def end(self, name: str) -> None:
        """Kill all processes of a node of Ray, and none that left its session."""
        session = self._sessions.pop(name, None)
        for folder in Path("/proc").iterdir():
            with suppress(OSError, ValueError, IndexError):
                if int(stat(int(folder.name))[3]) == session:
                    os.kill(int(folder.name), signal.SIGKILL)


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("ray"))
    try:
        for name in ADDRESSES:
            made.start(name)
        yield made
    finally:
        for name in ADDRESSES:
            made.end(name)


class Run:
    """A run on the cluster, and what lies of it on the nodes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.run = cluster, folder, folder / "run"
        self.commands: list[subprocess.Popen[str]] = []
        sections = table(clock={"rate": 10.0, "updates": 80})
        lines = (line for name, section in sections.items() for line in table_lines(f"[{name}]", section))
        (folder / "run.toml").write_text("\n".join(lines))

    def command(self, *given: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "node.cli", *map(str, given)],
            env=os.environ | PATIENT | {"RAY_ADDRESS": f"{ADDRESSES['node-0']}:{self.cluster.port}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.commands.append(process)
        return process

    def driver(self, on: str) -> subprocess.Popen[str]:
        return self.command("run", self.folder / "run.toml", "--on", on, "--out", self.run, "--json")

    def answer(self, *given: object) -> str:
        process = self.command(*given)
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        return out

    def place(self, name: str) -> Path:
        return self.cluster.home(name) / "sottovoce" / "hosts" / read_manifest(self.run).run.hex() / name

    def agent(self, number: int) -> int:
        """The process id of an agent that is ready."""
        name = next(name for name, agents in SHARES.items() if number in agents)
        status = read_status(agent_folder(self.place(name) / "part", number) / "status")
        return status.pid if status is not None and State.READY <= status.state <= State.FINISHED else 0

    def host(self, name: str) -> int:
        """The process id of a host process."""
        return int(read_json(self.place(name) / "host.json").get("pid", 0))


@pytest.fixture
def run(ray_cluster: Cluster, tmp_path: Path) -> Iterator[Run]:
    made = Run(ray_cluster, tmp_path)
    yield made
    for process in made.commands:
        process.kill()
        process.communicate()
    for part in ray_cluster.folder.glob("home-*/sottovoce/hosts/*/*/part"):  # of a test that failed
        (part.parent / "state").write_text("stopped")  # or its actor starts it again
        noted = read_json(part.parent / "host.json")
        if noted and started_at(noted["pid"]) == noted["started"]:
            os.kill(noted["pid"], signal.SIGKILL)
        stop_run(part)


def until(condition: Callable[[], Any], driver: subprocess.Popen[str] | None = None) -> None:
    while not condition():
        if driver is not None and driver.poll() is not None:
            raise AssertionError(driver.communicate()[1])
        time.sleep(0.05)


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: started_at(pid) is None)


def test_killed_drivers_agents_hosts_actors_and_nodes_cost_nothing(run: Run) -> None:
    driver = run.driver("ray")
    until(lambda: (run.run / "ray.json").exists(), driver)
    until(lambda: all(run.agent(number) for number in range(AGENTS)), driver)
    assert not list((run.folder / "run.parts").rglob("secret"))
    driver.kill()
    driver.communicate()
    first = run.agent(1)
    killed(first)
    until(lambda: run.agent(1) not in (0, first))
    host = run.host("node-0")
    killed(host)
    actor = int(stat(run.host("node-1"))[1])
    killed(actor)  # the host process goes on
    until(lambda: run.host("node-0") != host)
    found = json.loads(run.answer("status", run.run, "--json"))
    assert (found["agents"], found["ready"], found["failures"]) == (AGENTS, AGENTS, [])
    run.cluster.end("node-1")  # Ray is gone from this node, and its agents go on
    assert run.agent(4)
    run.cluster.start("node-1")
    results = json.loads(run.answer("collect", run.run, "--wait", "--json"))
    assert results["failures"] == []
    capture = read_results(run.run).capture
    assert capture is not None
    assert capture.complete
    assert verify(run.run).ok
    with LedgerFile.read(agent_folder(run.run, 1) / "ledger.jsonl", None) as ledger:
        assert len(ledger.starts(read_manifest(run.run).run.hex())) == 2
    for name in ADDRESSES:
        assert not list(run.cluster.home(name).rglob("agent-*"))


def test_an_interrupted_driver_leaves_the_run_and_it_is_stopped_and_resumed(run: Run) -> None:
    driver = run.driver(f"ray://{ADDRESSES['node-0']}:{run.cluster.clients}")
    until(lambda: (run.run / "ray.json").exists(), driver)
    until(lambda: all(run.agent(number) for number in range(AGENTS)), driver)
    driver.terminate()
    _, errors = driver.communicate()
    assert driver.returncode == 143, errors
    assert "the run goes on without this command" in errors
    agents = [run.agent(number) for number in range(AGENTS)]
    run.answer("stop", run.run)
    assert [started_at(pid) for pid in agents] == [None] * AGENTS
    run.answer("resume", run.run, "--json")
    assert verify(run.run).ok
