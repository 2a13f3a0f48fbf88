"""Three hosts in network namespaces: one joins late and is then gone for good, and clocks differ."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from node.audit.verify import verify
from node.folder.counted import Counted, read_counted
from node.folder.manifest import read_json
from node.places import agent_folder
from node.traffic.check import verify_log
from node.traffic.reader import TrafficLogReader
from node.worlds.orphan import running_zygote
from node.worlds.parts import failures, gather, make_run
from tests.helpers.clusters import table
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.hosts import all_ready, finished, sent_and_received, start_host, tells
from tests.helpers.namespaces import Namespaces, ahead, hosts_in_namespaces
from tests.helpers.projects import toml

pytestmark = [pytest.mark.processes, pytest.mark.slow]

NAMES = ("alpha", "beta", "gamma")
"""Agents 0 and 1 and the eavesdropper; agents 2 and 3; agents 4 and 5, on a ring."""
AHEAD = 3
"""Seconds that the clock of alpha is ahead of the others."""


@dataclass
class Lost:
    """A run of which gamma came late, and was lost with all that it held: its part lies in ``rescued``."""

    run: Path
    parts: Path
    rescued: Path
    began_ns: int
    """Before gamma started, so before any release, on a clock that is right."""

    def counted(self, agent: int) -> Counted:
        found = read_counted(self.parts / NAMES[agent // 2], agent)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lost]:
    folder = tmp_path_factory.mktemp("lost")
    run, parts = folder / "run", folder / "parts"
    # Gamma is lost before it has finished. Agents linger for less time than a link without answer stays open.
    changes = {"clock": {"rate": 20.0, "updates": 120}, "network": {"linger": 15.0}}
    (folder / "run.toml").write_text(toml(table(**changes)))
    dealt = answered("deal", folder / "run.toml", "--out", run, "--parts", parts, "--hosts", ",".join(NAMES))
    assert dealt.returncode == 0, dealt.stderr
    with hosts_in_namespaces(*NAMES) as hosts:
        yield _ran(folder, Lost(run, parts, folder / "rescued", 0), hosts)


def _ran(folder: Path, made: Lost, hosts: Namespaces) -> Lost:
    def start(name: str) -> subprocess.Popen[str]:
        given = ["--address", f"{hosts.address[name]}:7700"]
        clock = ahead(AHEAD) if name == "alpha" else {}
        return start_host(made.parts / name, folder / "exchange", *given, inside=hosts.inside(name), environment=clock)

    alpha, beta = start("alpha"), start("beta")
    tells(alpha, "no endpoints yet of gamma")
    tells(beta, "no endpoints yet of gamma")
    made.began_ns = time.time_ns()
    gamma = start("gamma")
    all_ready(alpha, beta, gamma)
    sent_and_received(made.parts / "gamma", [4, 5])
    hosts.lose("gamma")
    gamma.communicate()
    shutil.move(made.parts / "gamma", made.rescued)
    finished(beta)
    _end_eavesdropper(made.parts / "alpha")
    finished(alpha)
    return made


def _end_eavesdropper(part: Path) -> None:
    """Once its agents have ended: it would wait half a minute for gamma, which may come back."""
    while not all((agent_folder(part, agent) / "final.json").exists() for agent in (0, 1)):
        time.sleep(0.05)
    zygote = running_zygote(part)
    assert zygote is not None
    for pid in map(int, Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()):
        if b"node.traffic.eavesdropper" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)


def test_the_others_end_as_they_were_configured(lost: Lost) -> None:
    for agent in range(4):
        counted = lost.counted(agent)
        assert (counted.code, counted.sent) == (0, 120), counted.notes
        assert counted.not_done == {0: (5,), 3: (4,)}.get(agent, ())
    assert lost.counted(0).notes == ("linger of 15 s passed: no done from agent 5",)
    assert lost.counted(3).notes == ("linger of 15 s passed: no done from agent 4",)


def test_the_log_names_the_indices_that_are_missing(lost: Lost) -> None:
    capture = verify_log(lost.parts / "alpha" / "traffic.mcap")["capture"]
    assert not capture["complete"]
    assert capture["missing"].keys() == {"4", "5"}
    for ranges in capture["missing"].values():
        ((first, last),) = ranges
        assert first >= 6
        assert last is None, "no done told what the last index would be"


def test_the_hosts_that_are_left_have_the_scores_of_their_agents(lost: Lost) -> None:
    for name, agents in (("alpha", [0, 1]), ("beta", [2, 3])):
        scores = read_json(lost.parts / name / "scores.json")
        conforms(scores, "scores")
        assert [one["agent"] for one in scores["agents"]] == agents
        assert all(one["together"] is not None for one in scores["agents"])


def test_a_part_that_is_lost_is_named_with_its_agents(lost: Lost, tmp_path: Path) -> None:
    answer = answered("collect", tmp_path / "run", "--parts", lost.parts)
    assert answer.returncode == 2
    assert f"part {lost.parts / 'gamma'} of agents 4, 5 is missing; copy it there from host gamma" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_part_that_was_rescued_makes_the_run_whole(lost: Lost, tmp_path: Path) -> None:
    parts, run = tmp_path / "parts", tmp_path / "run"
    parts.mkdir()
    for name in ("alpha", "beta"):
        (parts / name).symlink_to(lost.parts / name)
    (parts / "gamma").symlink_to(lost.rescued)
    make_run(run, parts)
    gather(run, parts)
    assert [failed.process for failed in failures(run, parts)] == ["agent-0004", "agent-0005"]
    assert verify(run).ok, "gamma's journals hold what nobody received"


def test_a_clock_that_is_ahead_moves_the_times_of_the_log_and_nothing_else(lost: Lost) -> None:
    if not ahead(AHEAD):
        pytest.skip("Debian's libfaketime is not installed")
    times = [frame.time_ns for frame in TrafficLogReader(lost.parts / "alpha" / "traffic.mcap")]
    assert min(times) >= lost.began_ns + AHEAD * 10**9
