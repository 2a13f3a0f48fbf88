"""A run that was interrupted goes on: the same ledgers, shards and snapshots, and a log that continues.

Rules that hold here:
- No index is charged twice and none is drawn twice: agents go on as after a restart (`node.agent.restart`).
- The rest of the run's budget is reserved again before any agent is started.
- One process resumes a run at a time, and only when no process of the run is left.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_free.agents.registry import algorithm
from node.configuration.reading import load_dealt
from node.configuration.refusals import ConfigurationError
from node.dealing.reservation import reserve_again
from node.folder.build import same_build
from node.folder.counted import read_counted
from node.folder.ledger import is_held
from node.folder.manifest import Manifest, read_manifest
from node.folder.watch import Watch
from node.places import HANDED_OVER, agent_folder, shard_path
from node.traffic.run_logs import logs_of
from node.worlds import launcher, limits, steps
from node.worlds.orphan import end_left, running_zygote

LEFT = "left after release"
"""How the note begins of an agent that left on purpose."""


@contextmanager
def resumed(folder: Path) -> Iterator[Resumption]:
    """Hold a run's folder, and make everything ready for its agents to go on.

    Raises
    ------
    ConfigurationError
        If the run cannot go on, with the reason; nothing has changed then.
    """
    manifest = read_manifest(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"{folder}: another process resumes this run") from None
        resumption = Resumption(folder, manifest)
        resumption.check()
        reserve_again(folder, resumption.configuration)
        yield resumption
    finally:
        os.close(descriptor)


class Resumption:
    """How the run in ``folder`` goes on."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.configuration = load_dealt(folder / "config.toml")
        counted = {agent: read_counted(folder, agent) for agent in range(manifest.agents)}
        ended = {agent: count for agent, count in counted.items() if count is not None and count.code == 0}
        self._finished = len(ended) == manifest.agents
        self._left = frozenset(
            agent for agent, count in ended.items() if any(note.startswith(LEFT) for note in count.notes)
        )

    @property
    def in_twin(self) -> bool:
        """Whether the run is one of the twin: it sent something, and no process of its own was ever started."""
        return not (self.folder / "processes.json").exists() and bool(logs_of(self.folder))

    def check(self) -> None:
        """Raise `ConfigurationError` with the reason why the run cannot go on, if there is one."""
        folder = self.folder
        if (folder / HANDED_OVER).exists():
            raise ConfigurationError(
                f"{folder} was dealt in parts: start its agents again where their parts are (sottovoce agent, or "
                "docker compose up); each goes on from its own ledger"
            )
        if running_zygote(folder) is not None:
            raise ConfigurationError(f"{folder} still runs: see sottovoce status {folder}, or sottovoce stop {folder}")
        end_left(folder)  # processes without their zygote serve no run; their sockets go too
        held = [agent for agent in range(self.manifest.agents) if _is_held(folder, agent)]
        if held:
            raise ConfigurationError(
                f"{folder}: agent {held[0]} still holds its ledger: wait until its process has ended"
            )
        if self._finished and (folder / "results.json").exists():
            raise ConfigurationError(f"{folder}: every agent has finished; there is nothing to go on with")
        if self.in_twin and not same_build(self.manifest.build):
            raise ConfigurationError(
                f"{folder} is a run of the twin, which repeats its releases bit for bit only on the build that began it"
            )
        if not self.in_twin and not algorithm(self.manifest.algorithm).resumes and self._has_begun():
            raise ConfigurationError(
                f'learning.algorithm = "{self.manifest.algorithm}": what its agents received is in their memory alone, '
                "so a run that lost all of them at once cannot go on"
            )

    def prepare_processes(self) -> None:
        """Remove what only the processes that are gone could use: their addresses, and the notes of their ends."""
        for endpoint in (self.folder / "endpoints").glob("*"):
            endpoint.unlink()
        for agent in frozenset(range(self.manifest.agents)) - self._left:
            for name in ("final.json", "final.npz", "status"):
                (agent_folder(self.folder, agent) / name).unlink(missing_ok=True)
        (self.folder / "results.json").unlink(missing_ok=True)

    def cluster(self) -> launcher.Cluster:
        """The run's processes, to be started without the agents that `left`; events do not happen again."""
        quiet = self.configuration.model_copy(update={"event": []})
        limits.check_socket_paths(quiet)
        limits.check_limits(self.folder, quiet)
        return launcher.Cluster(self.folder, quiet, self.manifest.agents)

    @property
    def left(self) -> frozenset[int]:
        """The agents that left the run on purpose, and stay away."""
        return self._left

    def run_in_twin(self) -> Watch:
        """Run the twin again from the start: it repeats what it had released, and goes on."""
        for path in (*logs_of(self.folder), self.folder / "faults.jsonl"):
            path.unlink(missing_ok=True)
        return steps.run_in_twin(self.folder)

    def _has_begun(self) -> bool:
        return any((agent_folder(self.folder, agent) / "journal.bin").exists() for agent in range(self.manifest.agents))


def _is_held(folder: Path, agent: int) -> bool:
    """Whether a process holds the agent's ledger."""
    path = agent_folder(folder, agent) / "ledger.jsonl"
    if not path.exists() or not shard_path(folder, agent).exists():
        raise ConfigurationError(f"{folder}: agent {agent} has no ledger or no shard here, so the run cannot go on")
    return is_held(path)
