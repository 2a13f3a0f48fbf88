"""A run's folder, read as a whole, after the run, on the machine that dealt the data. No agent ever does this."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.configuration.reading import load_dealt
from node.configuration.sections import Configuration
from node.folder.arrays import unpacked
from node.folder.counted import Counted, read_counted
from node.folder.manifest import Manifest, read_manifest
from node.folder.public import PublicNumbers
from node.folder.shard import Rows, read_rows, setting
from node.places import agent_folder, shard_path
from topology.network import Network, from_edges


@dataclass(frozen=True)
class RunFolder:
    """What a run was dealt: configuration, manifest, and of each agent its rows and public numbers, in agent order."""

    folder: Path
    configuration: Configuration
    manifest: Manifest
    rows: tuple[Rows, ...]
    public: tuple[PublicNumbers, ...]

    @property
    def agents(self) -> int:
        """The number of agents."""
        return len(self.rows)

    @property
    def run(self) -> bytes:
        """The run's id, 16 bytes."""
        return self.manifest.run

    @property
    def records(self) -> FloatArray:
        """m_i, shape (n,)."""
        return np.array([len(rows.y) for rows in self.rows], dtype=np.float64)

    @property
    def confidences(self) -> FloatArray:
        """c_i, shape (n,)."""
        return np.array([public.confidence for public in self.public])

    @cached_property
    def problems(self) -> tuple[LocalProblem, ...]:
        """Every agent's local problem, in agent order."""
        return tuple(setting(rows, public, b"").problem for rows, public in zip(self.rows, self.public, strict=True))

    @cached_property
    def network(self) -> Network:
        """The graph, with exactly the weights that the agents were given."""
        edges = [
            (public.agent, j, weight)
            for public in self.public
            for j, weight in zip(public.neighbours, public.weights, strict=True)
            if public.agent < j
        ]
        return from_edges(self.agents, edges)

    def final(self, agent: int) -> dict[str, FloatArray]:
        """``model`` and, if there was a free finish, ``finish``, each (p,); empty if the agent left none."""
        return read_final(self.folder, agent)

    def counted(self, agent: int) -> Counted | None:
        """What the agent counted of itself; None if it left nothing."""
        return read_counted(self.folder, agent)


def read_run(folder: Path) -> RunFolder:
    """Read a run's folder, all shards too; raises `RunFolderError` or another ValueError of one line."""
    manifest = read_manifest(folder)
    read = [read_rows(shard_path(folder, agent)) for agent in range(manifest.agents)]
    return RunFolder(
        folder=folder,
        configuration=load_dealt(folder / "config.toml"),
        manifest=manifest,
        rows=tuple(rows for rows, _ in read),
        public=tuple(public for _, public in read),
    )


def read_final(folder: Path, agent: int) -> dict[str, FloatArray]:
    """The arrays that an agent left at its end; empty if it left none that can be read."""
    try:
        return unpacked((agent_folder(folder, agent) / "final.npz").read_bytes())
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return {}
