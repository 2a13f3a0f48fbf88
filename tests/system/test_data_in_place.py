"""Data that stay on their host: a value in one host's rows is in no process, file or frame of another host."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.audit.verify import verify
from node.dealing.card import Assembly
from node.dealing.in_place import deal_in_place, make_card
from node.folder.manifest import read_json
from node.folder.shard import read_rows
from node.places import shard_path
from node.results.host_scores import score_host
from node.traffic.reader import TrafficLogReader
from node.worlds.orphan import running_zygote, stop_run
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.hosts import all_ready, finished, sent_and_received, start_host, status_of
from tests.helpers.memory import memory_holds
from tests.helpers.studies import CANARY, study

pytestmark = pytest.mark.processes

NAMES = ("alpha", "beta")
"""Alpha holds the canary in each row and runs the eavesdropper; beta holds agents 1 and 2."""


class Study:
    """A run that two hosts make with one card each; their parts lie in ``parts``."""

    def __init__(self, folder: Path) -> None:
        shared = (
            "clock.rate=20",
            "clock.updates=60",
            "network.repeat=0.1",
            "network.linger=600",
            "network.deadline=600",
        )
        alpha = make_card(study(folder, "alpha", *shared), folder / "alpha", "alpha", eavesdropper=True)
        two = study(folder, "beta", "data.agents=2", *shared)
        beta = make_card(two, folder / "beta", "beta", eavesdropper=False)
        self.folder, self.parts = folder, folder / "parts"
        assembly = Assembly(run="ab" * 16, seed=3, cards=(alpha, beta))
        self.parts.mkdir()
        for name in NAMES:
            (self.parts / name).symlink_to(deal_in_place(folder / name, assembly))

    def start(self, name: str) -> subprocess.Popen[str]:
        return start_host(self.parts / name, self.folder / "exchange")

    def canaries(self) -> tuple[bytes, ...]:
        """The value as scaled, as read, and as written."""
        rows, _ = read_rows(shard_path(self.parts / "alpha", 0))
        return rows.x[0, 2].tobytes(), struct.pack("<d", CANARY), repr(CANARY)[:10].encode()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The study, as it ended, after a look at the memory of its processes."""
    made = Study(tmp_path_factory.mktemp("study"))
    yield made
    for name in NAMES:
        stop_run(made.parts / name)


def test_no_process_of_another_host_holds_the_value(held: Study) -> None:
    hosts = [held.start(name) for name in NAMES]
    all_ready(*hosts)
    alpha, beta = held.parts / "alpha", held.parts / "beta"
    sent_and_received(beta, [1, 2])
    owner = status_of(alpha, 0).pid
    os.kill(owner, signal.SIGSTOP)  # the others wait for it, and are alive while their memory is read
    try:
        others = [running_zygote(alpha), running_zygote(beta), hosts[1].pid, *(status_of(beta, k).pid for k in (1, 2))]
        values = held.canaries()
        found = memory_holds(owner, values[0])
        told = [pid for pid in others if pid is None or any(memory_holds(pid, value) for value in values)]
    finally:
        os.kill(owner, signal.SIGCONT)
    finished(*hosts)
    assert found
    assert told == []


def test_no_file_and_no_frame_holds_the_value(held: Study) -> None:
    files = [path for path in (held.folder / "beta").rglob("*") if path.is_file()]
    files += (held.folder / "exchange").iterdir()
    assert len(files) > 20
    assert not [path for path in files for value in held.canaries() if value in path.read_bytes()]
    frames = [b"".join(frame.parts) for frame in TrafficLogReader(held.parts / "alpha" / "traffic.mcap")]
    assert len(frames) >= 180
    assert not [frame for frame in frames for value in held.canaries() if value in frame]


def test_each_host_scores_its_own_agents(held: Study) -> None:
    scores = score_host(held.parts / "beta")
    conforms(scores, "scores")
    assert [one["agent"] for one in scores["agents"]] == [1, 2]
    assert all(0.0 <= one["together"] <= 1.0 for one in scores["agents"])
    assert scores["pooled"] is None
    assert (held.parts / "beta" / "scores.json").stat().st_mode & 0o777 == 0o600


def test_owners_that_share_their_parts_collect_verify_and_audit_the_run(held: Study) -> None:
    run = held.folder / "runs" / "study"
    collected = answered("collect", run, "--parts", held.parts)
    assert collected.returncode == 0, collected.stderr
    assert not (run / "dealt.json").exists()
    results = read_json(run / "results.json")
    assert results["capture"]["complete"]
    assert results["pooled"] is not None
    assert verify(run).ok
    audited = answered("audit", run, "--trials", "100")
    assert audited.returncode == 0, audited.stdout
    assert "no finding" in audited.stdout
