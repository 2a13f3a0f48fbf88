"""An agent's own part: a model of its own around what it received of a common one, never released.

    c ~ N(0, g I)                          the common part
    z = B c + e,  e ~ N(0, E)              what was received of it
    theta ~ N(c, t I + s J)                the agent's model; J: the coordinates that are constant in its records
    y_k ~ exp(-loss(theta; x_k, .))        its records

How large g, t, s and the labels' noise are is decided by the agent's own records: the model is the average over a grid
of them. Each point of the grid is weighted by the probability of each record given the others (leave-one-out) and by
that of z. One more candidate is what the agent learns alone. Its weight before any record is the share of noise in z:
the less was received, the more it counts.

Rules that hold here:
- The result depends on the real records. It is not covered by epsilon and must never be released.
- B and E are public but for the curvature of the common loss, for which the agent's own records stand: it decides in
  which directions a descent has not yet converged, and in which noise adds up.
- All scales are in units of the records, so that other units of labels or features give the same predictions.

Leave-one-out: exact for the squared loss (Rasmussen and Williams 2006, Eq. 5.10 to 5.12), to second order for other
convex losses, whose sum is taken for a negative log-likelihood (Laplace's approximation). The marginal likelihood
(ibid., Eq. 2.30) would judge a wide prior by how it predicts the first records, and so trusts narrow ones too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator_free.problem.losses import Squared
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

COMMON = (0.01, 0.05, 0.25, 1.0)
"""Values of g, in units of the variance with which the records' predictions are as large as the labels."""
OWN = (0.0, 0.01, 0.05, 0.2, 0.6, 2.0, 20.0)
"""Values of t, in the same units; the last for features that vary little inside of their bounds."""
CONSTANT = (0.0, 0.05, 0.5, 5.0)
"""Values of s, in units with which a constant prediction is as large as the labels."""
LABELS = (0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.6, 0.8, 1.0, 1.25)
"""Variances of the labels' noise, in units of their mean square."""
GUESS = 0.5
"""The variance of the labels' noise that is expected, in the same units."""
COUNTED = 2.0
"""As many records does that expectation count for."""
NOISES = (0.0, 0.1, 0.3, 1.0)
"""Variances of noise that is not known, in units of the mean square of what was received."""
LOGITS = 4.0
"""The mean square of a prediction that a loss of another kind is given for a start."""
UNSURE = 0.25
"""How sure the undoing of an early stop is: where a share b of c arrived, (1 - b) c is known up to this variance."""
PRIOR_RECORDS = 10.0
"""With how many records of equal curvature in all directions the own ones are mixed."""
_LEAST = 1e-9
"""Of what a record leaves open once it has been fitted."""


@dataclass(frozen=True)
class Received:
    """What an agent received of a common part c: ``mean`` = Q (kept Q^T c + noise), Q = ``basis``.

    Parameters
    ----------
    mean
        Shape (p,).
    basis
        Orthonormal columns, shape (p, p).
    kept
        Shares of c that arrived, shape (p,).
    variance
        Of the noise, shape (p,). None: it is not known, and evidence decides that too.
    """

    mean: FloatArray
    basis: FloatArray
    kept: FloatArray
    variance: FloatArray | None

    @classmethod
    def unknown(cls, mean: FloatArray) -> Received:
        """All of c, with noise of an unknown size, the same in all directions."""
        return cls(mean, np.eye(len(mean)), np.ones(len(mean)), None)


def curvature(problem: LocalProblem, at: FloatArray) -> FloatArray:
    """The Hessian of a common loss at a model, shape (p, p), as far as one agent's records can tell.

    A mean of theirs and of a multiple of the identity with the same trace: a few records say little about directions.
    """
    own = problem.hessian(at)
    even = np.trace(own) / problem.dimension
    weight = problem.records / (problem.records + PRIOR_RECORDS)
    mixed: FloatArray = weight * own
    mixed[np.diag_indices(problem.dimension)] += (1.0 - weight) * even
    return mixed


class _Priors(NamedTuple):
    """Candidate priors of the own model: means (c, p), Cholesky factors of covariances (c, p, p), log-weights (c,)."""

    means: FloatArray
    factors: FloatArray
    weights: FloatArray


def around(problem: LocalProblem, received: Received, weight: float | None) -> FloatArray:
    """The agent's own model, shape (p,): argmin mean loss + weight/2 |theta - mean|^2; None: by evidence."""
    if weight is None:
        return own_part(problem, received)
    from coordinator_free.problem.solver import LocalSolver

    return LocalSolver(problem, 1.0).minimise(weight, -weight * received.mean, received.mean)


def own_part(problem: LocalProblem, received: Received) -> FloatArray:
    """The agent's own model, shape (p,), averaged by evidence; without records the mean of the common part."""
    scales = _Scales.of(problem)
    priors = _priors(problem, received, scales)
    if isinstance(problem.loss, Squared):
        found = [_exact(problem, *prior, scales.labels) for prior in zip(priors.means, priors.factors, strict=True)]
        sizes = scales.weights
    else:
        found = [_approximate(problem, *prior) for prior in zip(priors.means, priors.factors, strict=True)]
        sizes = np.zeros(1)
    before = priors.weights - np.logaddexp.reduce(priors.weights)
    logs = (before[:, None] + sizes + np.stack([one[0] for one in found])).reshape(-1)
    models = np.concatenate([one[1] for one in found])
    if problem.records and problem.regularisation > 0:
        noisy = _noisy(received, scales.model)
        alone, more = _alone(problem, scales)
        logs = np.concatenate([logs + np.log1p(-noisy), alone + np.log(noisy)])
        models = np.concatenate([models, more])
    weights = np.exp(logs - logs.max())
    average: FloatArray = (weights / weights.sum()) @ models
    return average


def _noisy(received: Received, unit: float) -> float:
    """The share of noise in what was received, from 0 to 1 without the ends; a half where it is not known.

    Where a share b of c arrived, what was received holds b^2 of its variance: after a step or two that is little.
    """
    if received.variance is None:
        return 0.5
    arrived = received.kept**2 * unit
    return float(np.clip(np.mean(received.variance / (received.variance + arrived)), 1e-6, 1.0 - 1e-6))


class _Scales(NamedTuple):
    """The scales of an agent's records."""

    labels: FloatArray
    """Candidate variances of the labels' noise, (s,)."""
    weights: FloatArray
    """Their log-weights, (s,)."""
    size: float
    """The mean square of the labels."""
    model: float
    """The variance of a model's coordinates with which predictions are that large."""

    @classmethod
    def of(cls, problem: LocalProblem) -> _Scales:
        rows = float(np.mean(np.square(problem.x).sum(axis=1))) if problem.records else 0.0
        size = LOGITS
        if isinstance(problem.loss, Squared):
            size = float(np.mean(np.square(problem.y))) if problem.records else 0.0
        size = size if size > 0.0 else 1.0
        shares = np.array(LABELS)
        weights = 0.5 * COUNTED * (np.log(GUESS / shares) - GUESS / shares)
        return cls(size * shares, weights, size, size / (rows if rows > 0.0 else 1.0))


def _priors(problem: LocalProblem, received: Received, scales: _Scales) -> _Priors:
    """One for each g, t and s, and for each size of the noise where that is not known."""
    basis, kept, unit = received.basis, received.kept, scales.model
    seen = basis.T @ received.mean
    if received.variance is None:
        noises = float(np.mean(seen * seen)) * np.array(NOISES)[:, None] * np.ones(len(seen))
    else:
        noises = received.variance[None, :]
    sizes = unit * np.array(COMMON)[:, None, None]
    spread = sizes * kept**2 + noises + sizes * (UNSURE * (1.0 - kept) ** 2 + 1e-6)
    gain = sizes * kept / spread
    weights = -0.5 * (np.log(spread) + seen * seen / spread).sum(axis=-1).reshape(-1)
    left = (sizes * (1.0 - gain * kept)).reshape(-1, len(seen))
    common = (basis * left[:, None, :]) @ basis.T
    own = _own_covariances(problem, scales)
    covariances = (common[:, None] + own).reshape(-1, *common.shape[1:])
    means = np.repeat((gain * seen).reshape(-1, len(seen)) @ basis.T, len(own), axis=0)
    return _Priors(means, np.asarray(np.linalg.cholesky(covariances), dtype=np.float64), np.repeat(weights, len(own)))


def _own_covariances(problem: LocalProblem, scales: _Scales) -> FloatArray:
    """t I + s J for each t and s, shape (k, p, p)."""
    same = np.zeros(problem.dimension)
    if problem.records > 1:
        same[(np.ptp(problem.x, axis=0) == 0.0) & (problem.x[0] != 0.0)] = 1.0
    square = float(np.square(problem.x[0]) @ same) if same.any() else 1.0
    even = np.eye(problem.dimension) * scales.model
    constant = np.diag(same) * (scales.size / square)
    shares = CONSTANT if same.any() else (0.0,)
    return np.stack([(t + 1e-9) * even + s * constant for t in OWN for s in shares])


def _alone(problem: LocalProblem, scales: _Scales) -> tuple[FloatArray, FloatArray]:
    """Log-weights (s,) and models (s, p): the agent's own minimiser, for each variance of the labels' noise."""
    total, nothing = problem.records * problem.regularisation, np.zeros(problem.dimension)
    even = np.eye(problem.dimension)
    if not isinstance(problem.loss, Squared):
        return _approximate(problem, nothing, even * np.sqrt(0.5 / total))
    labels = scales.labels[:, None]
    found = [_exact(problem, nothing, even * np.sqrt(label[0] / total), label) for label in labels]
    return np.concatenate([one[0] for one in found]) + scales.weights, np.concatenate([one[1] for one in found])


def _exact(
    problem: LocalProblem, mean: FloatArray, factor: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log-predictions (s,) and models (s, p) under one prior, for each of s variances of the labels' noise.

    With K = X F F^T X^T + noise I and a = K^-1 (y - X mean), record k is predicted from the others with the residual
    a_k / (K^-1)_kk and the variance 1 / (K^-1)_kk.
    """
    scaled, rest = problem.x @ factor, problem.y - problem.x @ mean
    if len(rest) < len(mean):  # the smaller of the two systems
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        shrunk = 1.0 / (np.maximum(values, 0.0) + noise[:, None])
        solved, inverse = (shrunk * (vectors.T @ rest)) @ vectors.T, shrunk @ np.square(vectors).T
        steps = solved @ scaled
    else:
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        turned = scaled @ vectors
        shrunk = 1.0 / (np.maximum(values, 0.0) + noise[:, None])
        along = shrunk * (rest @ turned)
        solved = (rest - along @ turned.T) / noise[:, None]
        inverse = np.maximum(1.0 - shrunk @ np.square(turned).T, _LEAST) / noise[:, None]
        steps = along @ vectors.T
    return 0.5 * (np.log(inverse) - np.square(solved) / inverse).sum(axis=1), mean + steps @ factor.T


def _approximate(problem: LocalProblem, mean: FloatArray, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-prediction (1,) and mode (1, p) under one prior.

    Without record k the prediction of it is normal, to second order: the posterior with its slope g and curvature w
    taken out. With its variance v in the posterior, its own likelihood is there, to second order,
    exp(-loss) sqrt(1 - v w) exp(-v g^2 / (2 (1 - v w))). For the squared loss this is exact.
    """
    from coordinator_free.problem.solver import LocalSolver

    records = float(problem.records)
    scaled = LocalProblem(problem.x @ factor, problem.y, problem.loss, 0.0)
    centre = np.asarray(np.linalg.solve(factor, mean), dtype=np.float64)
    if not problem.records:
        return np.zeros(1), mean[None]
    mode = LocalSolver(scaled, records).minimise(1.0, -centre, centre)
    bent = records * scaled.hessian(mode)
    bent[np.diag_indices(len(mode))] += 1.0
    variances = np.einsum("kp,kp->k", scaled.x, np.linalg.solve(bent, scaled.x.T).T)
    left = np.maximum(1.0 - variances * problem.loss.curvatures(mode, scaled.x, scaled.y), _LEAST)
    slopes = problem.loss.derivatives(mode, scaled.x, scaled.y)
    lost = problem.loss.values(mode, scaled.x, scaled.y) + 0.5 * variances * np.square(slopes) / left
    return np.array([0.5 * np.log(left).sum() - lost.sum()]), (factor @ mode)[None]
