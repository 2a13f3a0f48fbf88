"""One host's share of a run: its agents, forked from one zygote, and the eavesdropper if it is here.

Rules that hold here:
- A host's folder has the form of a run's folder and holds what its own agents need. Rows, secrets and ledgers of
  other hosts are never in it.
- Only endpoints are exchanged with other hosts (`node.worlds.exchange`). Agents send to agents directly.
- No agent looks for its neighbours before the endpoints of all hosts are known. Otherwise agents without a neighbour on
  a late host would be ready, finish and leave, and their neighbours would wait for them in vain.
- An agent that a signal killed is started again, and goes on from its ledger. One that ended by itself has said why,
  and is not started again.
- The agents belong to the zygote, not to this process. If this process is killed they go on; the next one of the same
  folder finds them, goes on exchanging endpoints, and waits for their end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from node.configuration.reading import load_dealt
from node.configuration.refusals import ConfigurationError
from node.exit_codes import ExitCode
from node.folder.counted import read_counted
from node.folder.endings import Failure, failures_of
from node.folder.hosts import HOSTS, HostShare, read_hosts
from node.folder.manifest import read_manifest
from node.folder.watch import write_watch
from node.places import agent_folder, agent_name, shard_path
from node.worlds.exchange import Exchange, forget
from node.worlds.launcher import Cluster
from node.worlds.limits import check_limits
from node.worlds.orphan import end_left, running_zygote, stop_run
from node.worlds.progress import Progress
from node.worlds.steps import RunFailure

RESTARTS = 3
"""So often an agent that a signal killed is started again in the life of one host process."""
LISTENING = 30.0
"""Seconds without any agent after which the eavesdropper ends with an incomplete capture: a host may come back."""
LOOK = 0.5
"""Seconds between two looks of a host that found its agents running."""

_log = logging.getLogger(__name__)


class Host:
    """The agents of one host in its ``folder``.

    Parameters
    ----------
    folder
        The host's folder: a part that `sottovoce deal --hosts` made.
    address
        The numeric address at which other hosts reach this one, an IPv6 address in brackets.
    port
        The port of the first agent, the next ports for the next agents; 0: the system chooses.
    shared
        The folder in which endpoints are exchanged.

    Raises
    ------
    ConfigurationError
        If the folder holds no share of a run, or not all of it.
    """

    def __init__(self, folder: Path, address: str, port: int, shared: Path) -> None:
        self._folder = folder
        self._manifest = read_manifest(folder)
        self.share, others = _share_of(folder)
        configuration = load_dealt(folder / "config.toml")
        network = configuration.network.model_copy(update={"host": address, "transport": "tcp"})
        eavesdropper = configuration.eavesdropper.model_copy(update={"enabled": self.share.eavesdropper})
        self._configuration = configuration.model_copy(
            update={"network": network, "eavesdropper": eavesdropper, "event": []}
        )
        self._port = port
        shared.mkdir(parents=True, exist_ok=True)
        (folder / "endpoints").mkdir(exist_ok=True)
        self._exchange = Exchange(folder, shared, self.share, others)
        self._address = address

    @property
    def unfinished(self) -> frozenset[int]:
        """The agents of this host that have not finished."""
        counted = {agent: read_counted(self._folder, agent) for agent in self.share.agents}
        return frozenset(agent for agent, one in counted.items() if one is None or one.code != ExitCode.FINISHED)

    def run(self, show: Callable[[Progress], None] = lambda _: None) -> list[Failure]:
        """Run the share to its end; returns what did not finish. If it is interrupted, all processes here are ended."""
        if running_zygote(self._folder) is not None:
            try:
                self._see_out()
            except BaseException:
                stop_run(self._folder)
                raise
        end_left(self._folder)
        if self.unfinished:
            self._start_and_watch(show)
        return failures_of(self._folder, self.share.agents)

    def _see_out(self) -> None:
        """Go on with the exchange for agents that run without a host process, until all have ended."""
        _log.info("the agents of %s run already", self._folder)
        while running_zygote(self._folder) is not None:
            self._exchange.exchange()
            time.sleep(LOOK)

    def _start_and_watch(self, show: Callable[[Progress], None]) -> None:
        forget(self._folder, self.share, self._address, self._port)
        for agent in self.unfinished:
            for name in ("final.json", "final.npz", "status"):
                (agent_folder(self._folder, agent) / name).unlink(missing_ok=True)
        check_limits(self._folder, self._configuration)
        cluster = Cluster(
            self._folder,
            self._configuration,
            self._manifest.agents,
            own=self.share.agents,
            first_port=self._port,
            listening=LISTENING,
        )

        gate = _Gate(cluster, self._exchange, self._configuration.network.deadline)

        def look(progress: Progress) -> None:
            self._exchange.exchange()
            show(progress)
            gate.look()
            cluster.restart_killed(RESTARTS)

        try:
            cluster.start(without=frozenset(self.share.agents) - self.unfinished, go=False)
            watch = cluster.watch(look)
        except BaseException:
            cluster.stop()
            raise
        cluster.close()
        write_watch(self._folder, replace(watch, world="hosts"))

    def waits_for(self) -> list[str]:
        """The hosts whose endpoints are not known yet."""
        return self._exchange.missing()


class _Gate:
    """Lets the agents go on once the endpoints of all hosts are known, or raises `RunFailure` at the deadline."""

    def __init__(self, cluster: Cluster, exchange: Exchange, deadline: float) -> None:
        self._cluster, self._exchange, self._deadline = cluster, exchange, deadline
        self._until = time.monotonic() + deadline
        self._open = False

    def look(self) -> None:
        """Look whether it is time."""
        if self._open:
            return
        missing = self._exchange.missing()
        if not missing:
            self._open = True
            self._cluster.go()
        elif time.monotonic() >= self._until:
            raise RunFailure(
                f"no endpoints of {', '.join(missing)} after network.deadline = {self._deadline:g} s; nothing was "
                "released here in this start, and the same command tries again"
            )


def _share_of(folder: Path) -> tuple[HostShare, list[HostShare]]:
    """What the host of this folder holds, by the shards that lie there, and what the others hold."""
    hosts = read_hosts(folder)
    if not hosts:
        raise ConfigurationError(f"{folder} is no host's folder: it has no {HOSTS}; sottovoce deal --hosts makes it")
    here = {int(path.stem.removeprefix("agent-")) for path in (folder / "shards").glob("agent-*.npz")}
    own = [host for host in hosts if here & set(host.agents)]
    if len(own) != 1:
        held = ", ".join(host.name for host in own) or "no host"
        raise ConfigurationError(f"{folder} holds shards of {held}; accepted are those of one host")
    for agent in own[0].agents:
        for path in (shard_path(folder, agent), agent_folder(folder, agent) / "ledger.jsonl"):
            if not path.exists():
                raise ConfigurationError(f"{folder}: {path.relative_to(folder)} of {agent_name(agent)} is missing")
    return own[0], [host for host in hosts if host is not own[0]]
