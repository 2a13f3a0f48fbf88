"""The sensitivity of a gradient at a public model: a public number, and often smaller than the one for all models.

An agent whose gradient is taken at its own last release, or at another model that every observer knows, may be charged
for what one record can do to the gradient there. The noise multiplier stays, the scale follows the sensitivity: each
release may be chosen in view of earlier ones in any case, so composition does not change.

Rules that hold here:
- The model must be public. For a model that was computed from the records and not released the largest bound holds.
- Rows are not longer than the bound: its callers pass rows through `LocalProblem.within` first.
- The model's size is rounded up to a public grid, so that there are few different scales.
"""

from __future__ import annotations

import math

import numpy as np

from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray

ROUNDING = 1.0 + 2e-9
"""Rows may be longer than their bound by a part in 10^9, and the norm of a model is rounded."""
_LEVELS = 64.0
"""Steps of the grid in one unit of (row bound times size of the model)."""
_HIGHEST = 64.0
"""Beyond this (row bound times size of the model) the largest bound is taken."""


class PublicModelSensitivity:
    """By how much one record moves the *sum* of an agent's clipped record gradients, in ``norm``.

    Parameters
    ----------
    loss
        Of one record.
    clip
        The largest norm that a record gradient keeps. Clipping is a projection onto a ball in L2, and makes no two
        gradients more different. In L1 the bound is twice the longest gradient, and clipping only shortens it.
    norm
        "l1" or "l2".
    row_bound
        The largest norm of a row; None where there is no public bound.
    """

    def __init__(self, loss: Loss, clip: float, norm: str, row_bound: float | None) -> None:
        self._loss, self._norm = loss, norm
        self.largest = 2.0 * clip
        """The bound for every model."""
        self._rows = 0.0
        if row_bound is not None:
            self._rows = row_bound * ROUNDING
            self.largest = min(self.largest, 2.0 * loss.lipschitz(self._rows))
        self.follows = row_bound is not None and loss.gradient_spread(0.0, self._rows, norm) < self.largest
        """Whether it is smaller for some models."""
        self._per_size = self._rows * _LEVELS * ROUNDING
        self._known: dict[int, float] = {}

    def at(self, model: FloatArray) -> float:
        """The bound at the public ``model``, shape (p,)."""
        if not self.follows:
            return self.largest
        size = math.sqrt(model.dot(model)) if self._norm == "l2" else float(np.abs(model).max(initial=0.0))
        size *= self._per_size
        if not size < _HIGHEST * _LEVELS:
            return self.largest
        level = math.ceil(size)
        known = self._known.get(level)
        if known is None:
            size = level / (self._rows * _LEVELS)
            known = min(self.largest, self._loss.gradient_spread(size, self._rows, self._norm))
            self._known[level] = known
        return known
