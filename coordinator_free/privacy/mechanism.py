"""Mechanisms: what is added to a vector before it is released, each described by a small frozen value.

Rules that hold here:
- Neighbouring datasets differ in one record's value (replace-one); the sizes are public. ``sensitivity`` bounds how far
  the released vector moves, in the mechanism's own ``norm``, when one record is replaced.
- A release is exact arithmetic on the public grid of step `GRID`: the noiseless value is rounded to the grid first
  (half to even), then a whole number of grid steps is added. The rounding moves each coordinate of two neighbouring
  values apart by at most one step, which `coordinator_free.privacy.families.mechanism` books in the sensitivity:
  ``dimension * GRID`` in L1, ``sqrt(dimension) * GRID`` in L2.
- A mechanism does not know its accountant, and draws from a `Stream` once for each release.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from coordinator_free.privacy.noise import FloatArray, Stream

GRID = 2.0**-20
"""Step of the public grid on which every noised release lies."""
STEPS = 2.0**20
LARGEST = 2.0**31
"""A value with a coordinate of this size or more is refused: grid arithmetic in float64 would no longer be exact."""
LARGEST_SCALE = 2.0**24


class MechanismError(ValueError):
    """A mechanism that does not exist, a number that is not acceptable, or a value that does not fit its grid."""


class Mechanism(Protocol):
    """Adds noise to a vector; described by its family, its sensitivity and its scale."""

    name: ClassVar[str]
    norm: ClassVar[str]

    @property
    def sensitivity(self) -> float:
        """Largest distance between the rounded values of two neighbouring datasets, in ``norm``."""

    @property
    def scale(self) -> float:
        """Scale of the noise, in the units of the value."""

    @property
    def multiplier(self) -> float:
        """scale / sensitivity: all that an accountant needs of it."""

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        """A draw of the noise, on the grid; shape (dimension,)."""

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
        """The release: ``vector``, shape (d,), rounded to the grid plus noise; `MechanismError` if too large."""

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the noise's density, shape (..., d) to (...)."""

    def describe(self) -> dict[str, Any]:
        """A dictionary of plain values for ledger records; `from_description` reads it back exactly."""
