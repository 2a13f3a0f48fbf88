"""What noisy steps cost when each is made on one record that was drawn at random.

A step releases the gradient of a record drawn uniformly from n, plus Gaussian noise. Gradients are at most G long, so
any two are at most 2 G apart. One record is replaced, and 1/n of the steps, on average, see it.

For every epsilon >= 0 a step has delta(epsilon) at most g D_a, g = 1/n, a = 1 + (e^epsilon - 1)/g, with D_a the delta
of the unsampled Gaussian release at log(a) (Balle, Barthe and Gaboardi 2018, advanced joint convexity: the laws that it
compares are Gaussians at most 2 G apart, and their mixtures). Neighbours may be exchanged, which gives delta for
epsilon < 0. The distribution of losses with this delta dominates a step (Zhu, Dong and Wang 2022):

    loss > 0:  log(dM/dQ) under M = (1 - g) Q + g P,     loss < 0:  log(dQ/dM) under Q,     and the rest at 0

with P and Q the two Gaussians. Its composition holds for steps that are chosen in view of the earlier ones.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from coordinator_free.privacy.composition import composed_epsilon
from coordinator_free.privacy.loss_distribution import Losses, grid, onto_the_grid
from coordinator_free.privacy.noise import FloatArray

MOST_STEPS = 1_000_000
"""More cannot be composed precisely in float64."""
_REACH = 9.0
"""Deviations of the noise; what lies beyond is booked as an infinite loss."""
_LARGEST = 20.0
"""Gaussian parameter of one release; beyond it exponentials of losses are no float64."""
_CELLS = 16.0
"""Cells in one deviation of one step's loss. Connecting the dots adds a sixth of a squared cell to its variance."""


def random_record_epsilon(multiplier: float, records: int, steps: int, delta: float) -> float:
    """The epsilon at ``delta`` of ``steps`` noisy steps, each on one of ``records`` records, all steps visible.

    Parameters
    ----------
    multiplier
        Deviation of the noise / 2 G, the largest distance of two gradients.
    records
        n.
    steps
        At most `MOST_STEPS`.
    delta
        Between 0 and 1.

    Returns
    -------
    float
        An upper bound; infinity where there is next to no noise.

    Raises
    ------
    ValueError
        Too many steps.
    """
    if steps > MOST_STEPS:
        raise ValueError(f"{steps} steps: at most {MOST_STEPS} can be accounted for")
    rate, mu = 1.0 / records, 1.0 / multiplier
    if mu > _LARGEST:
        return math.inf
    width = min(rate * math.sqrt(math.expm1(mu * mu)), mu) / _CELLS
    return composed_epsilon([(step_losses(mu, rate, width), steps)], delta)


def step_losses(mu: float, rate: float, width: float) -> Losses:
    """The losses of one step on a grid of ``width``: Gaussian parameter ``mu``, each record drawn at ``rate``."""
    top = math.ceil(math.log1p(rate * math.expm1(mu * _REACH + mu * mu / 2.0)) / width)
    edges = grid(0, top, width)
    # The noise at which the loss is at each edge: 1 - g + g exp(mu x - mu^2/2) = exp(loss).
    places = (np.log1p(np.expm1(edges) / rate) + mu * mu / 2.0) / mu
    plain, shifted = _intervals(places), _intervals(places - mu)
    mixed = (1.0 - rate) * plain + rate * shifted
    above = onto_the_grid(mixed, plain * np.exp(edges[:-1]), width)
    # Below zero the cells run downwards: the left end of a cell is minus its upper edge.
    below = onto_the_grid(plain[::-1], mixed[::-1] * np.exp(-edges[:0:-1]), width)
    mass = np.concatenate([below[:-1], [below[-1] + above[0]], above[1:]])
    beyond = float((1.0 - rate) * ndtr(-places[-1]) + rate * ndtr(mu - places[-1]))
    mass[0] += float(ndtr(-places[-1]))
    mass[top] += max(0.0, 1.0 - float(mass.sum()) - beyond)
    return Losses(width, -top, mass, beyond)


def _intervals(places: FloatArray) -> FloatArray:
    """Phi(b) - Phi(a) of neighbouring places a < b, taken in the lower tail."""
    a, b = places[:-1], places[1:]
    found: FloatArray = np.where(a > 0.0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    return found
