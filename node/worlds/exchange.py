"""Endpoints of agents on several hosts: one small file a host, in a folder that all hosts share or that people copy.

A file ``NAME.endpoints`` has a line for each agent of the host NAME, once the agent listens:

    3 tcp://10.77.0.1:41234

Rules that hold here:
- A host writes its own file, whole or not at all, and reads those of the others.
- What a file says is not trusted: a line counts only for an agent of the host that the file is named after. With
  keys, a wrong endpoint leads to no agent that is admitted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from node.folder.hosts import HostShare
from node.folder.whole import write_whole
from node.places import agent_name
from node.sockets.agent_sockets import FileEndpoints

SUFFIX = ".endpoints"
_LINE = re.compile(r"([0-9]{1,9}) (tcp://(\[[0-9A-Za-z:.%]{2,60}\]|[0-9.]{7,15}):([0-9]{1,5}))")
_LARGEST = 1 << 24
"""Bytes of a file that are read."""


class Exchange:
    """The endpoints of a run, between the folder where the agents of this host look and the shared one.

    Parameters
    ----------
    run
        This host's folder of the run.
    shared
        The folder of the files, one a host.
    own, others
        What this host holds, and what the others hold.
    """

    def __init__(self, run: Path, shared: Path, own: HostShare, others: Sequence[HostShare]) -> None:
        self._published = FileEndpoints(run / "endpoints")
        self._shared = shared
        self._own = own
        self._others = others
        self._held = {host.name: frozenset(host.agents) for host in others}
        self._told: dict[int, str] = {}
        learned = ((agent, self._published.lookup(agent)) for host in others for agent in host.agents)
        self._learned = {agent: endpoint for agent, endpoint in learned if endpoint is not None}
        self._read: dict[str, bytes] = {}
        """The files as last read, by host: most looks find the same."""

    def exchange(self) -> None:
        """Write the endpoints of this host's agents that are new, and take in those of other hosts."""
        listening = ((agent, self._published.lookup(agent)) for agent in self._own.agents)
        known = {agent: endpoint for agent, endpoint in listening if endpoint is not None}
        if known != self._told:
            text = "".join(f"{agent} {endpoint}\n" for agent, endpoint in sorted(known.items()))
            write_whole(self._shared / f"{self._own.name}{SUFFIX}", text.encode(), 0o644)
            self._told = known
        for host in self._others:
            self._learn(host)

    def _learn(self, host: HostShare) -> None:
        data = b""
        with suppress(OSError), (self._shared / f"{host.name}{SUFFIX}").open("rb") as file:
            data = file.read(_LARGEST)
        if data == self._read.get(host.name, b""):
            return
        self._read[host.name] = data
        for line in data.decode("ascii", errors="replace").splitlines():
            agent, endpoint = _told(line)
            if agent in self._held[host.name] and self._learned.get(agent) != endpoint:
                self._published.publish(agent, endpoint)
                self._learned[agent] = endpoint

    def missing(self) -> list[str]:
        """The hosts of which some agent's endpoint is not known."""
        return [host.name for host in self._others if any(agent not in self._learned for agent in host.agents)]


def _told(line: str) -> tuple[int, str]:
    """An agent and its endpoint; agent -1 where the line holds none."""
    found = _LINE.fullmatch(line)
    if found is None or not 0 < int(found[4]) < 65536:
        return -1, ""
    try:
        ipaddress.ip_address(found[3].strip("[]"))
    except ValueError:
        return -1, ""
    return int(found[1]), found[2]


def forget(run: Path, own: HostShare, address: str, first_port: int = 0) -> None:
    """Remove the endpoints of this host's agents where they are to listen elsewhere from now on: the host has moved."""
    published = FileEndpoints(run / "endpoints")
    for place, agent in enumerate(own.agents):
        there, _, port = (published.lookup(agent) or "").rpartition(":")
        if there != f"tcp://{address}" or (first_port and int(port) != first_port + place):
            (run / "endpoints" / agent_name(agent)).unlink(missing_ok=True)
