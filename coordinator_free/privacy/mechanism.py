"""Mechanisms: what is added to a vector before it is released, each described by a small frozen value.

Rules that hold here:
- Neighbouring datasets differ in one record's value (replace-one); the sizes are public. ``sensitivity`` bounds how far
  the released vector moves, in the mechanism's own ``norm``, when one record is replaced.
- A release is exact arithmetic on the public grid of step `GRID`: the noiseless value is rounded to the grid first
  (half to even), then a whole number of grid steps is added. The rounding moves each coordinate of two neighbouring
  values apart by at most one step, which `coordinator_free.privacy.families.mechanism` books in the sensitivity:
  ``dimension * GRID`` in L1, ``sqrt(dimension) * GRID`` in L2.
- Nothing that depends on the records may raise, branch or overflow before the noise is added: a refusal would be a
  release without a charge. So every value is first projected onto a public box (`boxed`), which moves no two values
  further apart.
- A mechanism does not know its accountant, and draws from a `Stream` once for each release.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Protocol

import numpy as np

from coordinator_free.privacy.noise import FloatArray, Stream

GRID = 2.0**-20
"""Step of the public grid on which every noised release lies."""
STEPS = 2.0**20
LARGEST = 2.0**31
"""Half the width of the public box onto which values are projected: within it grid arithmetic in float64 is exact."""
LARGEST_SCALE = 2.0**24
LARGEST_RECEIVED = 2.0**32
"""The largest coordinate that an honest agent releases in a private run: the box, and as much for the noise."""
LARGEST_PLAIN = 2.0**256
"""The same in a run without privacy: products of such numbers are finite."""
REACH = 2.0**20
"""How far received values reach in a private computation: float64 then resolves 2^-32, far below the grid's step."""


class MechanismError(ValueError):
    """A mechanism that does not exist, a number that is not acceptable, or a value that does not fit its grid."""


def boxed(vector: FloatArray, largest: float = LARGEST, out: FloatArray | None = None) -> FloatArray:
    """Project ``vector``, shape (d,), onto the box of half width ``largest``: no two vectors move further apart.

    The projection is coordinate-wise, so it expands neither L1 nor L2 distances, and it has no branch that depends on
    a value. A NaN becomes ``-largest``. The result is a new array, or ``out``, which may be ``vector`` itself.
    """
    low, high = _edges(largest)
    inside: FloatArray = np.fmax(vector, low, out)
    np.fmin(inside, high, inside)
    return inside


@functools.lru_cache(maxsize=64)
def _edges(largest: float) -> tuple[FloatArray, FloatArray]:
    """The box's lowest and highest coordinate as arrays: numpy would make them anew of numbers in each projection."""
    return np.array(-largest), np.array(largest)


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
        """The release: ``vector``, shape (d,), projected (`boxed`) and rounded to the grid, plus noise."""

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the noise's density, shape (..., d) to (...)."""

    def describe(self) -> dict[str, Any]:
        """A dictionary of plain values for ledger records; `from_description` reads it back exactly."""
