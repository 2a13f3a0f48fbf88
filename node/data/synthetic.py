"""The linear classification task of Bellet et al. 2018, section 5.1 (from Vanhaesebrouck et al. 2017).

Each agent has a target separator; the first two entries are standard normal, the others 0. Points are uniform in
[-s, s]^p, labels are the sign of target.x, flipped with a small probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coordinator_free.release import FloatArray
from node.configuration.data import DataSection
from node.data.dealt import Dealt, Shard
from node.data.errors import DataError


@dataclass(frozen=True)
class CubeLaw:
    """Features uniform in [-scale, scale]^p, with second moment scale^2/3 per coordinate.

    The largest eigenvalue of the mean of x x^T over m such rows is about scale^2/3 (1 + sqrt(p/m))^2 (Marchenko and
    Pastur): a public number, as the law is. It sets a step; no claim rests on it.
    """

    dimension: int
    scale: float

    def __call__(self, records: int) -> float:
        """The bound for ``records`` rows."""
        if records == 0:
            return 0.0
        return self.scale**2 / 3.0 * (1.0 + math.sqrt(self.dimension / records)) ** 2


def deal(section: DataSection, seed: int) -> Dealt:
    """``section.agents`` (100) agents in ``section.dimension`` (100) dimensions; ``similarity`` holds the targets."""
    agents, p, scale = section.agents or 100, section.dimension or 100, section.feature_scale
    if p < 2:
        raise DataError(f"data.dimension is {p}: the targets of data.source = 'synthetic' need at least 2")
    random = np.random.default_rng([seed, 3])
    targets = np.zeros((agents, p))
    targets[:, :2] = random.standard_normal((agents, 2))
    low, high = section.records
    sizes = random.integers(low, high, size=agents, endpoint=True)

    def points(target: FloatArray, count: int, flips: float) -> tuple[FloatArray, FloatArray]:
        x = random.uniform(-scale, scale, size=(count, p))
        flipped = random.random(count) < flips
        return x, np.where((x @ target >= 0) != flipped, 1.0, -1.0)

    test_flips = section.flips if section.test_labels == "flipped" else 0.0
    shards = tuple(
        Shard(*points(target, int(size), section.flips), *points(target, section.test_points, test_flips))
        for target, size in zip(targets, sizes, strict=True)
    )
    return Dealt(
        shards=shards,
        names=tuple(f"agent {i}" for i in range(agents)),
        features=tuple(f"x{k}" for k in range(p)),
        metric="accuracy",
        record="one point",
        row_bounds={"l1": p * scale, "l2": math.sqrt(p) * scale},
        label_bound=1.0,
        similarity=targets,
        similarity_assumption="synthetic: the graph is built from the agents' true targets",
        feature_law=CubeLaw(p, scale),
        second_moment=scale**2 / 3.0 * np.eye(p),
    )
