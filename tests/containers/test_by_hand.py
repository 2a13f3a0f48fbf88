"""A run in parts on this machine: dealt, handed over, each agent started by hand at a tcp port, collected, verified."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from node.audit.verify import verify
from node.dealing.folder import deal_run
from node.folder.manifest import read_json
from node.folder.status import State, StatusFile
from node.worlds.health import health
from node.worlds.parts import PartsError, ended, failures, gather, hand_over, make_run, part_folder
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.projects import table, toml

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SHORT: dict[str, dict[str, Any]] = {
    "data": {"agents": 3},
    "clock": {"rate": 40.0, "updates": 30},
    "network": {"deadline": 600.0, "linger": 600.0, "repeat": 0.2},
}


def configuration(folder: Path, **changes: dict[str, Any]) -> Path:
    sections = table(**SHORT)
    for name, section in changes.items():
        sections[name] = sections.get(name, {}) | section
    config = folder / "run.toml"
    config.write_text(toml(sections))
    return config


def command(*arguments: str | Path, clock: float = 0.0) -> list[str]:
    """The command line, on a host whose clock is ``clock`` seconds ahead."""
    if clock == 0.0:
        return [sys.executable, "-m", "node.cli", *map(str, arguments)]
    ahead = (
        "import time; true, true_ns = time.time, time.time_ns; "
        f"time.time = lambda: true() + {clock}; time.time_ns = lambda: true_ns() + int({clock} * 1e9); "
        "from node.cli import main; main()"
    )
    return [sys.executable, "-c", ahead, *map(str, arguments)]


def ran(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, env=ENVIRONMENT, check=False)


def free_ports(count: int) -> list[int]:
    """Ports that are free, below those that the system gives to other processes meanwhile."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(lowest // 2, lowest)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


class Hosts:
    """The parts of one dealt run and the processes on them, all on loopback."""

    def __init__(self, folder: Path, processes: list[subprocess.Popen[str]], **changes: dict[str, Any]) -> None:
        self.run, self.parts = folder / "runs" / "hosts", folder / "parts"
        dealt = answered("deal", configuration(folder, **changes), "--out", self.run, "--parts", self.parts)
        assert dealt.returncode == 0, dealt.stderr
        self._processes = processes
        self.ports = free_ports(3)

    def _start(self, *arguments: str | Path, clock: float = 0.0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(*arguments, clock=clock), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self._processes.append(process)
        return process

    def agent(self, number: int, *, clock: float = 0.0) -> subprocess.Popen[str]:
        known = ",".join(f"{j}=localhost:{port}" for j, port in enumerate(self.ports) if j != number)
        place = ["--shard", part_folder(self.parts, number), "--bind", f"127.0.0.1:{self.ports[number]}"]
        return self._start("agent", *place, "--neighbours", known, clock=clock)

    def eavesdropper_of(self, agents: Sequence[int], place: Path, *, clock: float = 0.0) -> subprocess.Popen[str]:
        """An eavesdropper of some agents, with a part of its own at ``place``."""
        shutil.copytree(self.parts / "eavesdropper", place)
        places = [f"{agent}=localhost:{self.ports[agent]}" for agent in agents]
        return self._start("eavesdrop", *places, "--run", place, clock=clock)

    def eavesdropper(self) -> subprocess.Popen[str]:
        places = [f"localhost:{port}" for port in self.ports]
        return self._start("eavesdrop", *places, "--run", self.parts / "eavesdropper")


def test_handing_over_leaves_nothing_private_and_can_be_repeated(tmp_path: Path) -> None:
    from node.configuration.reading import load

    run, parts = tmp_path / "run", tmp_path / "parts"
    deal_run(load(configuration(tmp_path)), run)
    hand_over(run, parts)
    left = sorted(path.name for path in run.rglob("*") if path.is_file())
    assert left == ["config.toml", "dealt.json", "handed-over", "manifest.json", "topology.graphml"]
    own = sorted(str(path.relative_to(parts / "agent-0001")) for path in (parts / "agent-0001").rglob("*.*"))
    assert own == ["agents/agent-0001/ledger.jsonl", "shards/agent-0001.npz"]
    for path in parts.glob("agent-*/**/*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    before = {path: path.read_bytes() for path in parts.rglob("*") if path.is_file()}
    hand_over(run, parts)
    gather(run, parts)
    hand_over(run, parts)
    assert {path: path.read_bytes() for path in parts.rglob("*") if path.is_file()} == before


def test_handing_over_goes_on_after_a_crash_and_replaces_no_ledger(tmp_path: Path) -> None:
    from node.configuration.reading import load

    first, second, parts = tmp_path / "first", tmp_path / "second", tmp_path / "parts"
    config = load(configuration(tmp_path))
    deal_run(config, first)
    kept = first.joinpath("agents/agent-0000/ledger.jsonl")
    part = parts / "agent-0000" / "agents" / "agent-0000" / "ledger.jsonl"
    part.parent.mkdir(parents=True)
    part.write_bytes(kept.read_bytes())  # as far as it came
    hand_over(first, parts)
    assert not kept.exists()
    deal_run(load(configuration(tmp_path, run={"seed": 2})), second)
    held = part.read_bytes()
    with pytest.raises(PartsError, match="holds a ledger of an earlier run, which is never replaced"):
        hand_over(second, parts)
    assert part.read_bytes() == held
    assert (second / "agents" / "agent-0000" / "secret").exists()


def test_a_run_is_made_of_its_hosts_parts_and_of_nothing_private(tmp_path: Path) -> None:
    config, again, parts, others = configuration(tmp_path), tmp_path / "again", tmp_path / "parts", tmp_path / "others"
    for place in (parts, others):
        run = tmp_path / f"run-{place.name}"
        dealt = answered("deal", config, "--out", run, "--parts", place, "--hosts", "alpha,beta")
        assert dealt.returncode == 0, dealt.stderr
    with pytest.raises(PartsError, match="holds no part of a host"):
        make_run(again, tmp_path / "nowhere")
    again.mkdir()
    (again / "mine.txt").touch()
    with pytest.raises(PartsError, match="is not empty"):
        make_run(again, parts)
    (again / "mine.txt").unlink()
    make_run(again, parts)
    names = {path.name for path in again.iterdir()}
    assert names == {"config.toml", "topology.graphml", "manifest.json", "hosts.json", "public-keys", "handed-over"}
    conforms(read_json(again / "hosts.json"), "hosts")
    shutil.rmtree(parts / "beta")
    with pytest.raises(PartsError, match=r"agents? [0-9, ]+ is missing; copy it there from host beta"):
        gather(again, parts)
    shutil.copytree(others / "beta", parts / "beta")
    with pytest.raises(PartsError, match="beta is of another run"):
        gather(again, parts)


def test_gathering_names_what_is_missing(tmp_path: Path) -> None:
    from node.configuration.reading import load

    run, parts = tmp_path / "run", tmp_path / "parts"
    deal_run(load(configuration(tmp_path)), run)
    hand_over(run, parts)
    assert not ended(parts, 3, eavesdropper=False)
    assert [failure.process for failure in failures(run, parts)] == ["agent-0000", "agent-0001", "agent-0002"]
    (parts / "agent-0001" / "shards" / "agent-0001.npz").unlink()
    with pytest.raises(PartsError, match=r"agent-0001\.npz is missing"):
        gather(run, parts)


@pytest.mark.slow
@pytest.mark.processes
def test_hosts_learn_and_what_they_leave_verifies(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    # Clocks of the hosts differ by minutes: nothing depends on them. An eavesdropper of its own records agent 2.
    hosts = Hosts(tmp_path, started)
    places = [tmp_path / "ear-0", tmp_path / "ear-1"]
    listeners = [hosts.eavesdropper_of([0, 1], places[0]), hosts.eavesdropper_of([2], places[1], clock=3.0)]
    agents = [hosts.agent(i, clock=clock) for i, clock in enumerate((0.0, 600.0, -600.0))]
    for i, agent in enumerate(agents):
        said, complaint = agent.communicate(timeout=600)
        assert agent.returncode == 0, complaint
        assert said == f"agent-{i:04d}: finished, 30 releases sent, 60 received\n"
    for listener in listeners:
        words, complaint = listener.communicate(timeout=600)
        assert listener.returncode == 0, complaint
        assert "complete" in words
    logs = [place / "traffic.mcap" for place in places]
    merged = answered("log", "merge", *logs, "-o", hosts.parts / "eavesdropper" / "traffic.mcap", "--json")
    assert merged.returncode == 0, merged.stderr
    assert json.loads(merged.stdout)["logs"][1]["offset_ns"] / 1e9 == pytest.approx(-3.0, abs=0.5)
    assert json.loads(merged.stdout)["out_of_order"] == 0
    collected = answered("collect", hosts.run, "--parts", hosts.parts, "--json")
    assert collected.returncode == 0, collected.stderr
    results = json.loads(collected.stdout)
    assert results["world"] == "hosts"
    assert results["capture"] == {
        "complete": True,
        "releases": 90,
        "missing": {},
        "repeats": results["capture"]["repeats"],
    }
    assert results["failures"] == []
    verdict = verify(hosts.run)
    assert verdict.ok
    assert verdict.exact
    again = answered("deal", tmp_path / "run.toml", "--out", hosts.run, "--parts", hosts.parts)
    assert again.returncode == 0, "dealt already: nothing is touched"
    assert verify(hosts.run).ok


@pytest.mark.slow
@pytest.mark.processes
def test_killed_agent_and_killed_eavesdropper_go_on(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    hosts = Hosts(tmp_path, started, clock={"rate": 10.0, "updates": 60})
    listener = hosts.eavesdropper()
    agents = [hosts.agent(i) for i in range(3)]
    status = part_folder(hosts.parts, 1)
    while "releases sent" not in health(status)[1] or int(health(status)[1].split(",")[1].split()[0]) < 10:
        assert agents[1].poll() is None, agents[1].communicate()
        select.select([], [], [], 0.05)
    for victim in (agents[1], listener):
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    listener, agents[1] = hosts.eavesdropper(), hosts.agent(1)
    for agent in agents:
        _, complaint = agent.communicate(timeout=600)
        assert agent.returncode == 0, complaint
    words, _ = listener.communicate(timeout=600)
    assert (hosts.parts / "eavesdropper" / "traffic-2.mcap").exists()
    verdict = json.loads((hosts.parts / "eavesdropper" / "eavesdropper.json").read_text())
    assert verdict["capture"]["missing"].keys() <= {"0", "1", "2"}
    assert ("incomplete, missing agent" in words) == bool(verdict["capture"]["missing"])
    collected = answered("collect", hosts.run, "--parts", hosts.parts, "--json")
    assert collected.returncode == 0, collected.stderr
    assert json.loads(collected.stdout)["capture"]["releases"] == verdict["capture"]["releases"], (
        "judged over both logs"
    )
    assert verify(hosts.run).ok
    counted = json.loads((part_folder(hosts.parts, 1) / "agents" / "agent-0001" / "final.json").read_text())
    assert counted["charged"] == 60
    assert any("restarted: goes on with index" in note for note in counted["notes"])


@pytest.mark.processes
@pytest.mark.parametrize("encryption", [False, True])
def test_agents_of_two_runs_refuse_each_other(
    tmp_path: Path, started: list[subprocess.Popen[str]], encryption: bool
) -> None:
    quick = {"deadline": 12.0, "transport": "tcp", "encryption": encryption}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = Hosts(tmp_path / "a", started, network=quick, eavesdropper={"enabled": False})
    other = Hosts(tmp_path / "b", started, network=quick, eavesdropper={"enabled": False})
    other.ports = one.ports
    agents = [one.agent(0), other.agent(1), one.agent(2)]
    for agent, heard in zip(agents, ("1", "0, 2", "1"), strict=True):
        _, complaint = agent.communicate(timeout=600)
        assert agent.returncode == 3
        assert f"nothing received from agent{'s' if ',' in heard else ''} {heard}" in complaint
        # With keys, what the other run says is not heard at all.
        assert ("frames of another run were refused" in complaint) is not encryption


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    from node.configuration.reading import load

    run, parts = tmp_path / "run", tmp_path / "parts"
    deal_run(load(configuration(tmp_path)), run)
    hand_over(run, parts)
    part = part_folder(parts, 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = f"127.0.0.1:{taken.getsockname()[1]}"
        neighbours = "h-{}.invalid:1"
        cases: list[tuple[list[str | Path], str]] = [
            (["--shard", tmp_path / "none", "--bind", "127.0.0.1:0", "--neighbours", neighbours], "none"),
            (["--shard", tmp_path, "--bind", "127.0.0.1:0", "--neighbours", neighbours], "holds no shard"),
            (["--shard", part, "--bind", "127.0.0.1", "--neighbours", neighbours], "accepted is HOST:PORT"),
            (["--shard", part, "--bind", "127.0.0.1:0"], "no address of agent 1"),
            (["--shard", part, "--bind", used, "--neighbours", neighbours], "Address already in use"),
        ]
        for arguments, words in cases:
            # A process that cannot bind leaves its sockets to its end.
            done = ran("agent", *arguments) if used in arguments else answered("agent", *arguments)
            assert done.returncode == 2, (arguments, done)
            assert words in done.stderr
            assert done.stderr.count("\n") == 1, done.stderr


def test_health_reads_the_status_and_nothing_else(tmp_path: Path) -> None:
    assert health(tmp_path) == (False, "no status yet")
    place = tmp_path / "agents" / "agent-0007"
    place.mkdir(parents=True)
    status = StatusFile(place / "status")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    seen = []
    for state, pid in [(State.SPOKEN, os.getpid()), (State.SPOKEN, gone.pid), (State.FAILED, os.getpid())]:
        status.show(state, pid, 5, 6, 7, 8)
        seen.append(health(tmp_path))
    status.show(State.FINISHED, gone.pid, 5, 6, 7, 8)
    seen.append(health(tmp_path))
    status.close()
    assert [well for well, _ in seen] == [True, False, False, True]
    assert seen[0][1] == "spoken, 5 releases sent, 6 received"
    assert "is gone" in seen[1][1]
    other = tmp_path / "agents" / "agent-0008"
    other.mkdir()
    assert health(tmp_path) == (False, "1 finished, 1 no status yet")
    shutil.copy(place / "status", other / "status")
    assert health(tmp_path) == (True, "2 finished")
