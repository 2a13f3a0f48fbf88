"""An agent's own model under a Gaussian prior whose scales nothing public fixes: the agent's own records decide them.

The prior is N(a mean, b^2 diag(variance)). What others released fixes mean and variance up to a and b: a mean of
clipped gradients has lost the length of the models, and part of their shape. Labels without a scale (-1 and 1) fix
a = b = 1. For the squared loss each (a, b) on a grid is weighted by the marginal likelihood of the agent's own records,

    y = X theta + noise,  y ~ N(a X mean, b^2 X diag(variance) X^T + v),

with v, the variance of the noise, averaged over as well. The result is the average of the models: nothing is picked, so
a grid that contains poor scales costs little. a = 0 is the agent alone, under a prior around zero.

Rules that hold here:
- Everything here reads the agent's own records and is never released: epsilon does not cover it.

References: Rasmussen and Williams (2006), Eq. 2.30 (the marginal likelihood) and Eq. 5.2 (the weights).
"""

from __future__ import annotations

import math

import numpy as np

from coordinator_free.problem.losses import Squared
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

MEANS = np.concatenate(([0.0], 2.0 ** np.arange(-4.0, 2.0)))
"""The factors a, in units in which the mean square of X mean is that of the labels."""
DEVIATIONS = 2.0 ** np.arange(-5.0, 6.0)
"""The factors b, in units in which what the prior leaves open has, on average, the labels' mean square."""
NOISES = 2.0 ** np.arange(-8.0, 2.0)
"""The variances v, as multiples of the labels' mean square."""
_WIDTH = 1.5
"""Deviation of log2 b and of log2 v before any record is seen: around 0, models explain about half of the labels."""
_SMALLEST = 1e-300
"""Of a mean square: labels that are all zero have no scale."""


def minimise_under(problem: LocalProblem, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """The agent's own model under a prior that is known up to its scales.

    Parameters
    ----------
    problem
        The agent's own records; its regulariser is left out, because the prior stands for it.
    mean, variance
        Of each coordinate, shape (p,); for the squared loss up to the factors a and b^2.

    Returns
    -------
    FloatArray
        Shape (p,); ``mean`` where there is no record. For the squared loss the average over the scales; for others
        argmin sum_k loss(theta; x_k, y_k) + 1/2 sum_c (theta_c - mean_c)^2 / variance_c.
    """
    if problem.records == 0:
        return np.array(mean)
    if isinstance(problem.loss, Squared):
        return _average(problem, mean, variance)
    deviation: FloatArray = np.sqrt(variance)
    whitened = LocalProblem(problem.x * deviation, problem.y, problem.loss, 0.0)
    found: FloatArray = deviation * whitened.proximal(mean / deviation, float(problem.records))
    return found


def _average(problem: LocalProblem, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """In the eigenbasis of X diag(variance) X^T the labels' covariance b^2 d + v is diagonal for every (b, v)."""
    sizes, basis = np.linalg.eigh((problem.x * variance) @ problem.x.T)
    sizes = np.maximum(sizes, 0.0)
    labels, expected = basis.T @ problem.y, basis.T @ (problem.x @ mean)
    size = max(float(np.mean(labels**2)), _SMALLEST)
    noise = size * NOISES
    squares = DEVIATIONS**2 * (size / max(float(sizes.mean()), _SMALLEST))
    factors = MEANS * math.sqrt(size / max(float(np.mean(expected**2)), _SMALLEST))
    precision = 1.0 / (squares[:, None, None] * sizes + noise[:, None])  # (b, v, record)
    left = labels - factors[:, None] * expected  # (a, record)
    evidence = 0.5 * np.log(precision).sum(axis=-1) - 0.5 * np.einsum("ak,bvk->abv", left**2, precision)
    before = np.log2(DEVIATIONS)[:, None] ** 2 + np.log2(NOISES) ** 2
    evidence -= before / (2.0 * _WIDTH**2)
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    dual = np.einsum("abv,b,ak,bvk->k", weights, squares, left, precision, optimize=True)
    found: FloatArray = float(weights.sum(axis=(1, 2)) @ factors) * mean + variance * (problem.x.T @ (basis @ dual))
    return found
