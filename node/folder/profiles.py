"""Graphs that are learned from profiles, and the profiles in a run's folder: ``profiles.npz``, readable by anyone.

Rules that hold here:
- A profile is charged in its agent's ledger, under a run id of its own (`charged_as`), before the file is written.
- The profiles are public: they hold what the ledgers charge for, and nothing else of the records.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.agents.personal.profile import Profile, divided
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.configuration.sections import Configuration
from node.folder.arrays import packed, unpacked
from node.folder.manifest import RunFolderError
from node.folder.whole import write_whole

if TYPE_CHECKING:
    from topology.network import Network

FILE = "profiles.npz"

Budget = tuple[float, float]
"""(epsilon, delta) of an agent; epsilon 0: it opts out."""


def is_learned(configuration: Configuration) -> bool:
    """Whether the graph of a run is learned from profiles."""
    return configuration.topology.kind == "private-similarity"


def learned_graph(vectors: FloatArray, configuration: Configuration) -> Network:
    """The graph that profiles (n, p) make."""
    from topology.similarity import joined_neighbours

    return joined_neighbours(vectors, configuration.topology.neighbours or 10)


def left(configuration: Configuration, budget: Budget) -> Budget:
    """What a profile leaves of an agent's budget for its releases."""
    if not is_learned(configuration) or budget[0] == 0.0:
        return budget
    share = configuration.topology.share or 0.0
    return divided(configuration.privacy.mechanism, *budget, share)[1], budget[1]


def profile_of(
    configuration: Configuration,
    problem: LocalProblem,
    budget: Budget,
    bounds: tuple[float | None, float | None],
    secret: bytes,
) -> Profile | None:
    """One agent's profile; ``bounds`` are the clip and the row bound in force. None for an agent that opts out."""
    clip, row_bound = bounds
    if budget[0] == 0.0 or clip is None:
        return None
    family = configuration.privacy.mechanism
    multiplier, _ = divided(family, *budget, configuration.topology.share or 0.0)
    return Profile(problem, family, multiplier, clip, row_bound, secret)


def charged_as(run: str) -> str:
    """The id in hexadecimal digits under which ledgers charge the profiles of ``run``."""
    return f"{run}-profile"


def write_profiles(folder: Path, vectors: FloatArray) -> None:
    """Write the profiles (n, p) of a run's agents."""
    write_whole(folder / FILE, packed({"profiles": vectors}), 0o644)


def read_profiles(folder: Path, agents: int, dimension: int) -> FloatArray:
    """The profiles of a run's agents, shape (agents, dimension).

    Raises
    ------
    RunFolderError
        If the file is missing, damaged, or of other agents.
    """
    try:
        vectors = unpacked((folder / FILE).read_bytes())["profiles"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunFolderError(f"{folder / FILE} cannot be read: {error}") from None
    if vectors.shape != (agents, dimension) or not np.isfinite(vectors).all():
        raise RunFolderError(f"{folder / FILE} holds no {agents} profiles of {dimension} finite numbers")
    return np.asarray(vectors, dtype=np.float64)
