"""What an engine's node does with a part, without an engine: parts arrive sealed, hosts run, parts leave sealed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.folder.manifest import read_manifest
from node.folder.sealed import make_key, unseal
from node.places import agent_folder
from node.worlds import steps
from node.worlds.orphan import started_at
from node.worlds.parts import failures, gather
from node.worlds.ray.run import deal_for
from node.worlds.ray.share import RETURN_KEY, NodeShare, purpose, report_of
from node.worlds.steps import RunFailure
from tests.helpers.clusters import AGENTS, table
from tests.helpers.hosts import status_of

pytestmark = [pytest.mark.processes, pytest.mark.slow]

NAMES = ("node-0", "node-1")


class Nodes:
    """A dealt run, and two nodes that share a home."""

    def __init__(self, folder: Path) -> None:
        self.run, self.parts = folder / "run", folder / "run.parts"
        deal_for(from_table(table(clock={"rate": 20.0, "updates": 40})), self.run, "ray", ["127.0.0.1", "127.0.0.2"])
        self.name = read_manifest(self.run).run.hex()
        self.key = self.parts / "return.key"
        self.held = {name: folder / "data" / "sottovoce" / "hosts" / self.name / name / "part" for name in NAMES}
        self.shares = {name: NodeShare(self.name, name, "127.0.0.1") for name in NAMES}

    def deliver(self, name: str, sealed_for: str | None = None) -> None:
        share, part = self.shares[name], self.parts / name
        (part / RETURN_KEY).write_text(make_key(self.key))
        steps.seal(part, self.parts / "sealed", share.meet().key, purpose(self.name, sealed_for or name, back=False))
        share.take(0, (self.parts / "sealed").read_bytes())
        share.open()
        shutil.rmtree(part)

    def exchange(self) -> None:
        """What the actors of two nodes do at each look."""
        for name, other in (NAMES, NAMES[::-1]):
            self.shares[name].look()
            self.shares[other].tell(name, self.shares[name].endpoints())

    def fetch(self, name: str) -> None:
        size = self.shares[name].pack()
        sealed = self.parts / "sealed"
        with sealed.open("wb") as file:
            while file.tell() < size:
                file.write(self.shares[name].give(file.tell()))
        unseal(sealed, self.parts / name, self.key, purpose(self.name, name, back=True))

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.exchange()
            time.sleep(0.05)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("nodes")
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        made = Nodes(folder)
        yield made
        for share, part in zip(made.shares.values(), made.held.values(), strict=True):
            if part.exists():
                share.stop()


def test_a_part_for_another_host_is_not_opened(nodes: Nodes) -> None:
    with pytest.raises(ConfigurationError, match="sealed to another key or for another purpose"):
        nodes.deliver("node-0", sealed_for="node-1")
    assert not nodes.held["node-0"].exists()
    with pytest.raises(RunFailure, match="its part has not arrived"):
        nodes.shares["node-0"].begin()


def test_parts_travel_sealed_and_hosts_survive_their_engine(nodes: Nodes) -> None:
    secret = (agent_folder(nodes.parts / "node-1", 4) / "secret").read_bytes()
    for name in NAMES:
        nodes.deliver(name)
    assert secret not in (nodes.parts / "sealed").read_bytes()
    assert not (nodes.parts / "node-1").exists()
    first, second = nodes.shares.values()
    first.begin()
    second.begin()
    with pytest.raises(RunFailure, match="its agents run"):
        first.pack()
    nodes.until(lambda: sum(share.report().progress.ready for share in (first, second)) == AGENTS)
    # The engine's process of one node is another one from here on: it finds the host process, and starts no second one.
    again = nodes.shares["node-1"] = NodeShare(nodes.name, "node-1", "127.0.0.1")
    again.begin()
    assert again.report().starts == 0
    # The host process of the other node is killed: its agents go on, and it is started again.
    host, agent = host_of(nodes, "node-0"), status_of(nodes.held["node-0"], 0).pid
    os.kill(host, signal.SIGKILL)
    # Told to stop, a host ends its agents; told to begin again, they go on from their ledgers, each time.
    again.stop()
    again.begin()
    again.stop()
    second.look()
    assert all(started_at(status_of(nodes.held["node-1"], number).pid) is None for number in (3, 4, 5))
    assert again.report().over
    again.begin()
    nodes.until(lambda: first.report().over and again.report().over)
    assert first.report().starts == 2
    assert status_of(nodes.held["node-0"], 0).pid == agent


def test_parts_come_back_and_the_run_is_whole(nodes: Nodes) -> None:
    for name in NAMES:
        nodes.fetch(name)
        nodes.shares[name].forget()
    assert not list((nodes.parts.parent / "data").rglob("agent-*"))
    gather(nodes.run, nodes.parts)
    assert failures(nodes.run, nodes.parts) == []
    reported = [report_of(nodes.parts / name, name) for name in NAMES]
    assert [one.progress.finished for one in reported] == [3, 3]
    assert {path.name for path in nodes.run.glob("traffic*.mcap")} == {"traffic.mcap"}


def host_of(nodes: Nodes, name: str) -> int:
    """The process id of a host process."""
    noted = json.loads((nodes.held[name].parent / "host.json").read_text())
    return int(noted["pid"])
