"""The families of noise that are added to a vector on the public grid: see `coordinator_free.privacy.mechanism`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coordinator_free.privacy.mechanism import GRID, LARGEST_SCALE, STEPS, MechanismError, boxed
from coordinator_free.privacy.noise import (
    FloatArray,
    Stream,
    discrete_laplace,
    exponential,
    standard_normal,
)


@dataclass(frozen=True)
class _Additive:
    """What the additive mechanisms on the grid share."""

    name: ClassVar[str]
    norm: ClassVar[str]

    sensitivity: float
    scale: float

    def __post_init__(self) -> None:
        if not 0.0 < self.sensitivity < math.inf:
            raise MechanismError(f"sensitivity = {self.sensitivity}; accepted: a finite number above 0")
        if not 0.0 < self.scale < LARGEST_SCALE:
            raise MechanismError(f"noise scale = {self.scale}; accepted: above 0 and below {LARGEST_SCALE:.0f}")

    @property
    def multiplier(self) -> float:
        return self.scale / self.sensitivity

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        """The noise in steps of the grid, none of them -0.0."""
        raise NotImplementedError

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        return self._noise_steps(dimension, stream) * GRID

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
        # Noise is far below `LARGEST` (its scale is bounded), so within the box the arithmetic is exact.
        steps = boxed(vector)
        steps *= STEPS
        np.rint(steps, out=steps)
        steps += self._noise_steps(vector.shape[0], stream)
        steps *= GRID
        return steps

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "norm": self.norm, "sensitivity": self.sensitivity, "scale": self.scale}


class Laplace(_Additive):
    """Discrete Laplace noise, independent in each coordinate: P(k steps) ~ exp(-|k| GRID / scale).

    Sensitivity in L1. One release is (sensitivity / scale)-differentially private, exactly: values on the grid differ
    by whole numbers of steps, and the ratio of the probabilities of any outcome is at most
    exp(|difference|_1 / scale) (Dwork et al. 2006, for the continuous law; Ghosh et al. 2009, for the discrete one).

    The continuous Laplace law with the same scale and multiplier dominates it, so that an accountant may use that one.
    In one coordinate the discrete law's trade-off curve is linear between points whose error probabilities have the
    product exp(-k/s) / (2 cosh(1/(2 s)))^2, for a shift of k steps and a scale of s steps; the continuous law's convex
    curve passes at or below all of these for a shift of k + 2 s ln cosh(1/(2 s)) <= k + 1/(4 s) steps. For d
    coordinates and s >= multiplier * d that is at most 1/(4 multiplier) steps more, which `mechanism` books too.
    """

    name = "laplace"
    norm = "l1"

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        return discrete_laplace(stream, dimension, self.scale * STEPS)

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the probability of a cell of the grid over its volume, shape (..., d) to (...)."""
        ratio = GRID / self.scale
        cell = math.log(math.tanh(ratio / 2.0) / GRID)  # (1 - q) / (1 + q) for a cell of width GRID
        density: FloatArray = noise.shape[-1] * cell - np.abs(noise).sum(axis=-1) / self.scale
        return density


class Gaussian(_Additive):
    """Gaussian noise of standard deviation ``scale`` in each coordinate, rounded to the grid.

    Sensitivity in L2. The rounded value plus the rounded noise is the rounded sum, a post-processing of the continuous
    Gaussian mechanism: any of its guarantees holds (Balle and Wang 2018, Theorem 8, gives the exact one).
    """

    name = "gaussian"
    norm = "l2"

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        # What is drawn ahead for several releases has no scale: that may change from release to release.
        normal = standard_normal(stream, dimension)
        normal *= self.scale * STEPS
        np.rint(normal, out=normal)
        normal += 0.0  # turns -0.0 into 0.0
        return normal

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the normal density, shape (..., d) to (...)."""
        constant = noise.shape[-1] * math.log(self.scale * math.sqrt(2.0 * math.pi))
        density: FloatArray = -constant - np.square(noise / self.scale).sum(axis=-1) / 2.0
        return density


@dataclass(frozen=True)
class GammaNorm(_Additive):
    """Noise with density ~ exp(-|e|_2 / scale) in R^dimension, rounded to the grid.

    The norm is Gamma(dimension, scale), the direction uniform (Chaudhuri, Monteleoni and Sarwate 2011). Sensitivity in
    L2. Rounding is post-processing of the continuous mechanism, which is (sensitivity / scale)-differentially private;
    how much less it loses on average depends on ``dimension``, which therefore belongs to the value.
    """

    name = "gamma-norm"
    norm = "l2"

    dimension: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension < 1:
            raise MechanismError(f"dimension = {self.dimension}; accepted: 1 and more")

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        if dimension != self.dimension:
            raise MechanismError(f"a vector of dimension {dimension} does not fit noise of dimension {self.dimension}")
        length = exponential(stream, dimension).sum() * self.scale * STEPS
        direction = standard_normal(stream, dimension)
        direction *= length / math.sqrt(float(direction @ direction))
        np.rint(direction, out=direction)
        direction += 0.0  # turns -0.0 into 0.0
        return direction

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the density ~ exp(-|e|_2 / scale), shape (..., d) to (...)."""
        d = self.dimension
        area = math.log(2.0) + d / 2.0 * math.log(math.pi) - math.lgamma(d / 2.0)  # of the unit sphere
        constant = area + math.lgamma(d) + d * math.log(self.scale)
        density: FloatArray = -constant - np.sqrt(np.square(noise).sum(axis=-1)) / self.scale
        return density

    def describe(self) -> dict[str, Any]:
        """The description of the additive mechanisms, and the dimension."""
        return super().describe() | {"dimension": self.dimension}
