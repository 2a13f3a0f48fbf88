"""An agent's own part: a model of its own around what it received of a common one, never released.

    c ~ N(0, g I)                          the common part
    z = B c + e,  e ~ N(0, E)              what was received of it
    theta ~ N(c, t I + s J)                the agent's model; J: the coordinates that are constant in its records
    y_k ~ exp(-loss(theta; x_k, .))        its records

How large g, t, s and the labels' noise are is decided by the agent's own records: the model is the average over a grid
of them. Each point of the grid is weighted by the marginal likelihood of the records and of z, and by how much of the
labels the features would explain. Of that average and of what the agent learns alone the result is a mean, in which
the latter counts with the square of the share of noise in z: the less was received, the more it counts.

Rules that hold here:
- The result depends on the real records. It is not covered by epsilon and must never be released.
- B and E are public but for the curvature of the common loss, for which the agent's own records stand: it decides in
  which directions a descent has not yet converged, and in which noise adds up.
- All scales are in units of the records, so that other units of labels or features give the same predictions.

Marginal likelihood: exact for the squared loss (Rasmussen and Williams 2006, Eq. 2.30 and 5.8), by Laplace's
approximation for other convex losses (ibid., Eq. 5.20), whose sum is taken for a negative log-likelihood.
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
EXPLAINED = 2.0
"""A prior under which predictions are smaller than the labels, g + t < 1, counts with this power of g + t. A few
records cannot tell small models with much noise from large ones with little. Where agents have nothing in common, the
common part is small too, and the former would be taken for the truth too often."""


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
    """Candidate priors of the own model."""

    means: FloatArray
    """(c, p)."""
    factors: FloatArray
    """Cholesky factors of the covariances, (c, p, p)."""
    weights: FloatArray
    """Log-weights, (c,)."""
    noisy: FloatArray
    """Shares of noise in what was received, (c,)."""


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
        evidence, models = _exact(problem, priors, scales.labels)
        evidence += scales.weights
    else:
        evidence, models = _approximate(problem, priors)
    logs = priors.weights[:, None] + evidence
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    average: FloatArray = np.tensordot(weights, models, axes=2)
    if not problem.records or problem.regularisation <= 0.0:
        return average
    noise = float(weights.sum(axis=1) @ priors.noisy)
    return average + noise**2 * (problem.minimiser() - average)


def _noisy(kept: FloatArray, noises: FloatArray, unit: float) -> FloatArray:
    """The share of noise in what was received, for each of some (k, p) variances of the noise, shape (k,).

    Where a share b of c arrived, what was received holds b^2 of its variance: after a step or two that is little.
    """
    shares: FloatArray = np.mean(noises / (noises + kept**2 * unit + np.finfo(float).tiny), axis=1)
    return shares


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
    weights = -0.5 * (np.log(spread) + seen * seen / spread).sum(axis=-1)
    left = (sizes * (1.0 - gain * kept)).reshape(-1, len(seen))
    common = (basis * left[:, None, :]) @ basis.T
    own, sizes_of_own = _own_covariances(problem, scales)
    covariances = (common[:, None] + own).reshape(-1, *common.shape[1:])
    explained = np.array(COMMON)[:, None, None] + sizes_of_own
    return _Priors(
        np.repeat((gain * seen).reshape(-1, len(seen)) @ basis.T, len(own), axis=0),
        np.asarray(np.linalg.cholesky(covariances), dtype=np.float64),
        (weights[:, :, None] + EXPLAINED * np.log(np.minimum(explained, 1.0))).reshape(-1),
        np.tile(np.repeat(_noisy(kept, noises, unit), len(own)), len(COMMON)),
    )


def _own_covariances(problem: LocalProblem, scales: _Scales) -> tuple[FloatArray, FloatArray]:
    """t I + s J for each t and s, shape (k, p, p), and the values of t, shape (k,)."""
    same = np.zeros(problem.dimension)
    if problem.records > 1:
        same[(np.ptp(problem.x, axis=0) == 0.0) & (problem.x[0] != 0.0)] = 1.0
    square = float(np.square(problem.x[0]) @ same) if same.any() else 1.0
    even = np.eye(problem.dimension) * scales.model
    constant = np.diag(same) * (scales.size / square)
    shares = CONSTANT if same.any() else (0.0,)
    covariances = np.stack([(t + 1e-9) * even + s * constant for t in OWN for s in shares])
    return covariances, np.repeat(OWN, len(shares))


def _exact(problem: LocalProblem, priors: _Priors, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-evidences (c, s) and models (c, s, p) of c priors, for each of s variances of the labels' noise."""
    x, factors = problem.x, priors.factors
    rest = problem.y - priors.means @ x.T
    values, vectors = np.linalg.eigh(np.swapaxes(factors, 1, 2) @ (x.T @ x) @ factors)
    np.maximum(values, 0.0, out=values)
    along = np.einsum("cji,cj->ci", factors @ vectors, rest @ x)
    solved = along[:, None, :] / (values[:, None, :] + noise[:, None])
    missed = (np.square(rest).sum(axis=1)[:, None] - (along[:, None, :] * solved).sum(axis=-1)) / noise
    spread = problem.records * np.log(noise) + np.log1p(values[:, None, :] / noise[:, None]).sum(axis=-1)
    return -0.5 * (spread + missed), priors.means[:, None, :] + solved @ np.swapaxes(factors @ vectors, 1, 2)


def _approximate(problem: LocalProblem, priors: _Priors) -> tuple[FloatArray, FloatArray]:
    """Log-evidences (c, 1) and modes (c, 1, p) of c priors."""
    from coordinator_free.problem.solver import LocalSolver

    records, evidences, modes = float(problem.records), [], []
    for mean, factor in zip(priors.means, priors.factors, strict=True):
        scaled = LocalProblem(problem.x @ factor, problem.y, problem.loss, 0.0)
        centre = np.asarray(np.linalg.solve(factor, mean), dtype=np.float64)
        mode = LocalSolver(scaled, records).minimise(1.0, -centre, centre) if problem.records else centre
        bent = records * scaled.hessian(mode)
        bent[np.diag_indices(len(mode))] += 1.0
        step = mode - centre
        evidences.append(-records * scaled.value(mode) - 0.5 * float(step @ step + np.linalg.slogdet(bent)[1]))
        modes.append(factor @ mode)
    return np.array(evidences)[:, None], np.array(modes)[:, None, :]
