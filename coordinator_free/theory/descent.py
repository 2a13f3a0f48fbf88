"""What gradient descent makes of a start and of noise, in each direction of a quadratic loss.

    v(t+1) = momentum v(t) + l (theta(t) - c) + xi(t),    theta(t+1) = theta(t) - h v(t+1),    theta(0) = v(0) = 0

with curvature l and independent noise xi(t). All is linear, so each average of iterates is

    kept c + sum_t w(t) xi(t)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coordinator_free.release import FloatArray


class Descent(NamedTuple):
    """``kept`` (p,): the share of c that arrived. ``weights`` (T, p): what became of each step's noise."""

    kept: FloatArray
    weights: FloatArray


def mean_of_iterates(curvatures: FloatArray, step: float, momentum: float, counted: FloatArray) -> Descent:
    """What the mean of some iterates holds.

    Parameters
    ----------
    curvatures
        l of each direction, shape (p,), 0 or more.
    step
        h.
    momentum
        Of the velocity, 0 up to below 1.
    counted
        For each of the T iterates its weight in the mean, shape (T,), adding up to 1.
    """
    steps = len(counted)
    moved = np.zeros((steps + 1, len(curvatures)))
    velocity, change = np.ones(len(curvatures)), np.zeros(len(curvatures))
    for after in range(1, steps + 1):  # what one unit of noise has done to the iterate so many steps later
        change = change - step * velocity
        moved[after] = change
        velocity = momentum * velocity + curvatures * change
    weights = np.stack([counted[t:] @ moved[1 : steps - t + 1] for t in range(steps)])
    return Descent(-curvatures * weights.sum(axis=0), weights)
