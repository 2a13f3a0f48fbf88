"""The result of dealing: one shard for each agent, and the public facts around the shards.

Rules that hold here:
- A shard holds one agent's records and nothing computed from another agent's, except what ``public_assumptions`` names.
- Everything else in `Dealt` is public.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.sparse

from coordinator_free.release import FloatArray
from node.data.records import Sources

Updates = npt.NDArray[np.int64]
"""Numbers of updates, one a record."""


@dataclass(frozen=True, eq=False)
class Shard:
    """One agent's rows: ``x`` (m, p), ``y`` (m,), ``x_test`` (t, p), ``y_test`` (t,); float64, C order."""

    x: FloatArray
    y: FloatArray
    x_test: FloatArray
    y_test: FloatArray
    arrivals: Updates | None = None
    """The first update that may use each training row (m,), where the source says so: public."""

    def __post_init__(self) -> None:
        for name in ("x", "y", "x_test", "y_test"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))

    @property
    def records(self) -> int:
        """m, the number of training records: public."""
        return len(self.y)


FeatureLaw = Callable[[int], float]
"""m -> what is publicly known of the largest eigenvalue of mean(x x^T) over m records. Times the loss's curvature
bound c1 it is the public smoothness of the mean loss (smoothness = "feature-law")."""


@dataclass(frozen=True, eq=False)
class Dealt:
    """Shards and public facts. ``row_bounds`` and ``label_bound`` hold for every possible record."""

    shards: tuple[Shard, ...]
    names: tuple[str, ...]
    """The agents' names: "school 12", "user 7"."""
    features: tuple[str, ...]
    metric: str
    """"accuracy" (labels -1 and 1) or "rmse"."""
    record: str
    """The unit of privacy in words: "one pupil"."""
    row_bounds: dict[str, float]
    """Public bounds on a row's norm, "l1" and "l2"; empty where nothing public bounds it."""
    label_bound: float | None
    public_assumptions: tuple[str, ...] = ()
    """What rests on data although it is treated as public, each in a sentence."""
    negative: tuple[str, ...] = ()
    """The labels that became -1, where they were read from the data."""
    similarity: FloatArray | scipy.sparse.csr_array | None = None
    """What graphs from data are built from, one row an agent: targets (angle-similarity) or ratings."""
    similarity_assumption: str = ""
    """What a graph that is built from ``similarity`` treats as public, in a sentence."""
    feature_law: FeatureLaw | None = None
    second_moment: FloatArray | None = None
    """What is publicly known of the mean of x x^T, shape (p, p)."""
    sources: Sources | None = None
    """The records as they were before everything; None where they belong to no person (synthetic)."""
    digest: str = field(init=False)
    """sha256 over the shards' bytes and sizes: runs that deal the same data are found by it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest(self.shards))

    @property
    def dimension(self) -> int:
        """p, the number of features."""
        return len(self.features)


def digest(shards: Sequence[Shard]) -> str:
    """sha256 (hex) over the sizes and bytes of all shards, in agent order."""
    total = hashlib.sha256()
    for shard in shards:
        for array in (shard.x, shard.y, shard.x_test, shard.y_test):
            total.update(np.array(array.shape, dtype="<i8").tobytes() + b";")
            total.update(array.astype("<f8", copy=False).tobytes())
    return total.hexdigest()


def metric_of(labels: FloatArray) -> str:
    """The metric: "accuracy" if every label is -1 or 1, else "rmse"."""
    return "accuracy" if bool(np.all(np.abs(labels) == 1.0)) else "rmse"
