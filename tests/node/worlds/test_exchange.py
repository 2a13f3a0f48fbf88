"""Endpoints between hosts: each file tells of its own host's agents and of no other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.folder.hosts import HostsError, HostShare, read_hosts, shared, write_hosts
from node.sockets.agent_sockets import FileEndpoints
from node.worlds.exchange import Exchange, forget

ALPHA, BETA = HostShare("alpha", (0, 1), True), HostShare("beta", (2,), False)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The run's folder on alpha, and the shared folder."""
    for name in ("endpoints", "shared"):
        (tmp_path / name).mkdir()
    return tmp_path, tmp_path / "shared"


def test_a_host_tells_its_own_endpoints_and_learns_those_of_others(places: tuple[Path, Path]) -> None:
    run, folder = places
    exchange = Exchange(run, folder, ALPHA, [BETA])
    FileEndpoints(run / "endpoints").publish(1, "tcp://10.0.0.1:701")
    (folder / "beta.endpoints").write_text("2 tcp://10.0.0.2:700\n")
    assert exchange.missing() == ["beta"]
    exchange.exchange()
    assert (folder / "alpha.endpoints").read_text() == "1 tcp://10.0.0.1:701\n"
    assert FileEndpoints(run / "endpoints").lookup(2) == "tcp://10.0.0.2:700"
    assert exchange.missing() == []
    (folder / "beta.endpoints").write_text("2 tcp://10.0.0.3:700\n")
    exchange.exchange()
    assert FileEndpoints(run / "endpoints").lookup(2) == "tcp://10.0.0.3:700"


@pytest.mark.parametrize(
    "line",
    [
        "0 tcp://10.0.0.2:700",
        "2 ipc:///run/secret",
        "2 tcp://10.0.0.2:700 more",
        "2 tcp://name:700",
        "2 tcp://10.0.0.2:70000",
        "2 tcp://10.0.0.2:0",
        "2 tcp://999.0.0.2:700",
        "2 tcp://[::zz]:700",
        "../2 tcp://1.1.1.1:1",
    ],
)
def test_a_line_that_is_not_an_endpoint_of_that_host_is_passed_over(places: tuple[Path, Path], line: str) -> None:
    run, folder = places
    (folder / "beta.endpoints").write_text(line + "\n")
    Exchange(run, folder, ALPHA, [BETA]).exchange()
    assert list((run / "endpoints").iterdir()) == []


def test_a_host_that_moved_gives_up_its_old_endpoints(places: tuple[Path, Path]) -> None:
    run, _ = places
    published = FileEndpoints(run / "endpoints")
    published.publish(0, "tcp://10.0.0.1:700")
    published.publish(1, "tcp://10.0.0.9:700")
    forget(run, ALPHA, "10.0.0.9")
    assert published.lookup(0) is None
    assert published.lookup(1) == "tcp://10.0.0.9:700"
    forget(run, ALPHA, "10.0.0.9", first_port=699)
    assert published.lookup(1) == "tcp://10.0.0.9:700"
    forget(run, ALPHA, "10.0.0.9", first_port=800)
    assert published.lookup(1) is None


def test_agents_are_shared_evenly_and_each_once(tmp_path: Path) -> None:
    hosts = shared(["alpha", "beta", "gamma"], 100, eavesdropper=True)
    assert [len(host.agents) for host in hosts] == [33, 33, 34]
    assert sorted(agent for host in hosts for agent in host.agents) == list(range(100))
    assert [host.eavesdropper for host in hosts] == [True, False, False]
    write_hosts(tmp_path, hosts)
    assert read_hosts(tmp_path) == hosts


@pytest.mark.parametrize("names", [["alpha", "alpha"], ["../x"], ["a", "b", "c"], ["Eve"], ["eavesdropper"], [""]])
def test_names_that_cannot_share_a_run_are_refused(names: list[str]) -> None:
    with pytest.raises(HostsError, match="accepted"):
        shared(names, 2, eavesdropper=False)
