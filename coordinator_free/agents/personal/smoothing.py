"""Graph smoothing: what any receiver can infer of every agent from one noisy release of each.

The releases G_i are noisy observations of a signal that is smooth on the graph. Per coordinate

    signal ~ N(0, gamma K),  K = exp(-t L_sym) scaled to unit diagonal,   G_i = signal_i + N(0, v_i)

with gamma by maximum marginal likelihood of the releases. For each agent the signal's posterior *without the agent's
own release* is what its own data may be combined with (Rasmussen and Williams 2006, Eq. 5.12, for leaving one out).

Everything here is post-processing of what was released and of public numbers: it costs no privacy. Work is O(n^3) for
each gamma on the grid, memory a few (n, n) matrices: for many agents there is `large_smoothing`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.special import ive

from coordinator_free.release import FloatArray
from topology.network import Network

TIME = 10.0
"""t: how far the signal is taken to spread on the graph."""
GAMMAS = tuple(2.0**k for k in range(-14, 3))
"""Prior scales tried, as multiples of the largest mean square of a coordinate of the releases."""

FLOOR = 1e-11
"""Smallest variance of a release, in units of the prior's: below it float64 has no Cholesky factor."""


@dataclass(frozen=True, eq=False)
class AtAgent:
    """Of one agent, each (p,): ``mean`` and ``variance`` by the others' releases, ``with_own`` the mean by all."""

    mean: FloatArray
    variance: FloatArray
    with_own: FloatArray


@dataclass(frozen=True, eq=False)
class Smoothed:
    """For each agent and coordinate, from all other agents' releases: ``mean`` and ``variance``, shape (n, p).

    ``with_own`` (n, p): the mean from all releases, the agent's own too. ``gammas``, shape (p,): the (expected) prior
    variance of each coordinate.
    """

    mean: FloatArray
    variance: FloatArray
    with_own: FloatArray
    gammas: FloatArray

    def at(self, place: int) -> AtAgent:
        """The agent whose release has this place among the releases."""
        return AtAgent(self.mean[place], self.variance[place], self.with_own[place])


def kernel(network: Network, time: float = TIME) -> FloatArray:
    """K = exp(-time L_sym), scaled to unit diagonal; shape (n, n).

    By Chebyshev polynomials of L_sym - 1, whose spectrum lies in [-1, 1]: exp(-t (1 + x)) has the coefficients
    2 (-1)^k exp(-t) I_k(t), which fall below float64's precision after a few times sqrt(t) terms.
    """
    roots = 1.0 / np.sqrt(network.degrees)
    shifted = -(sparse.diags_array(roots) @ network.weights @ sparse.diags_array(roots)).tocsr()
    terms = 1
    while ive(terms, time) > 1e-18:
        terms += 1
    before, now = np.eye(network.agents), shifted.toarray()
    total = ive(0, time) * before - 2.0 * ive(1, time) * now
    for k in range(2, terms):
        before, now = now, 2.0 * (shifted @ now) - before
        total += (2.0 * ive(k, time) * (-1) ** k) * now
    size = 1.0 / np.sqrt(np.diagonal(total))
    scaled: FloatArray = size[:, None] * total * size
    return scaled


def smooth(
    covariance: FloatArray, releases: FloatArray, variances: FloatArray, *, per_coordinate: bool = False
) -> Smoothed:
    """Posterior of each agent's signal given the others' ``releases`` (n, p), observed with ``variances`` (n,).

    ``covariance`` is K, (n, n). With ``per_coordinate`` each coordinate has a gamma of its own, whose distribution over
    the grid is estimated from all coordinates (empirical Bayes, Efron 2014): that finds out which coordinates carry a
    signal, and is hardly worse where all do. Otherwise all share one gamma.
    """
    grid = grid_of(releases, variances)
    evidence = np.stack([_evidence(gamma * covariance, releases, variances) for gamma in grid])
    weights = weights_of(evidence, per_coordinate=per_coordinate)
    mean, square, with_own = np.zeros_like(releases), np.zeros_like(releases), np.zeros_like(releases)
    for gamma, weight in zip(grid, weights, strict=True):
        columns = weight > 0
        if columns.any():
            one_mean, one_variance, one_with_own = _posterior(gamma * covariance, releases[:, columns], variances)
            mean[:, columns] += weight[columns] * one_mean
            square[:, columns] += weight[columns] * (one_variance + one_mean**2)
            with_own[:, columns] += weight[columns] * one_with_own
    return Smoothed(mean, square - mean**2, with_own, grid @ weights)


def grid_of(releases: FloatArray, variances: FloatArray) -> FloatArray:
    """The gammas that are tried, for ``releases`` (n, p) observed with ``variances`` (n,)."""
    size = float(np.square(releases).mean(axis=0).max()) or float(variances.min())
    grid: FloatArray = size * np.array(GAMMAS)
    return grid


def weights_of(evidence: FloatArray, *, per_coordinate: bool) -> FloatArray:
    """The weight of each gamma for each coordinate; ``evidence`` and result have the shape (gammas, p)."""
    weights = np.zeros_like(evidence)
    if per_coordinate:
        weights = _mixture(evidence)
        weights[weights < 1e-6] = 0.0
        weights /= weights.sum(axis=0)
    else:
        weights[evidence.sum(axis=1).argmax()] = 1.0
    return weights


def _mixture(evidence: FloatArray) -> FloatArray:
    """Posterior weights over the grid for each coordinate, under the grid's most likely weights; as ``evidence``."""
    likelihood: FloatArray = np.exp(evidence - evidence.max(axis=0))
    prior = np.full((len(evidence), 1), 1.0 / len(evidence))
    weights = likelihood
    for _ in range(300):
        weights = prior * likelihood
        weights /= weights.sum(axis=0)
        prior = weights.mean(axis=1, keepdims=True)
    return weights


def _factor(covariance: FloatArray, variances: FloatArray) -> FloatArray:
    matrix = covariance.copy()
    # The noise of an honest release is far above the floor, without which a made-up release could end an agent.
    matrix[np.diag_indices(len(matrix))] += np.maximum(variances, FLOOR * covariance.max(initial=0.0))
    return np.asarray(linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False), dtype=np.float64)


def _evidence(covariance: FloatArray, releases: FloatArray, variances: FloatArray) -> FloatArray:
    """Log marginal likelihood of each coordinate, without its constant; shape (p,)."""
    factor = _factor(covariance, variances)
    whitened = linalg.solve_triangular(factor, releases, lower=True, check_finite=False)
    evidence: FloatArray = -0.5 * np.square(whitened).sum(axis=0) - float(np.log(np.diagonal(factor)).sum())
    return evidence


def _posterior(
    covariance: FloatArray, releases: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and variance without the own release, and mean with it."""
    inverse, info = linalg.lapack.dpotri(_factor(covariance, variances), lower=1, overwrite_c=1)
    if info != 0:
        raise ArithmeticError("the covariance of the releases is singular")
    own = np.diagonal(inverse)[:, None]
    weighted = np.tril(inverse) @ releases + np.tril(inverse, -1).T @ releases
    # A prior that leaves nothing to learn gives a variance of 0 up to rounding.
    variance = np.maximum(1.0 / own - variances[:, None], 1e-12 * np.diagonal(covariance)[:, None])
    return releases - weighted / own, variance, releases - variances[:, None] * weighted
