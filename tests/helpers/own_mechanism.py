"""A mechanism of the user's own, which projects nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.noise import FloatArray, Stream, discrete_laplace


@dataclass(frozen=True)
class Rounded:
    """Discrete Laplace noise, as a user would write it."""

    name: ClassVar[str] = "tests.helpers.own_mechanism:Rounded"
    norm: ClassVar[str] = "l1"

    sensitivity: float
    scale: float

    @property
    def multiplier(self) -> float:
        return self.scale / self.sensitivity

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        return discrete_laplace(stream, dimension, self.scale / GRID) * GRID

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
        if not np.isfinite(vector).all():
            raise ValueError("not finite")
        released: FloatArray = np.rint(vector / GRID) * GRID + self.noise(len(vector), stream)
        return released

    def log_density(self, noise: FloatArray) -> FloatArray:
        density: FloatArray = -np.abs(noise).sum(axis=-1) / self.scale - noise.shape[-1] * np.log(2.0 * self.scale)
        return density

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "norm": self.norm, "sensitivity": self.sensitivity, "scale": self.scale}
