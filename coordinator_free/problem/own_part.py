"""An agent's own part: a model of its own around what it received of a common one, never released.

    c ~ N(0, g I)                      the common part
    z = B c + e,  e ~ N(0, E)          what was received of it
    theta ~ N(c, t I)                  the agent's model
    y_k ~ exp(-loss(theta; x_k, .))    its records

How large g and t are, how much was heard of c and how noisy the labels are is decided by evidence: the model is the
Bayesian average over a grid of them, weighted by the marginal likelihood of the agent's own records and of z. A large
t, or a z that is mostly noise, leaves a ridge of the agent's own records: so "alone" is one of the candidates.

Rules that hold here:
- The result depends on the real records. It is not covered by epsilon and must never be released.
- B and E are public but for the curvature of the common loss, for which the agent's own records stand: it decides in
  which directions a descent has not yet converged, and in which noise adds up.
- All scales are in units of the records, so that other units of labels or features give the same predictions.

Marginal likelihood: exact for the squared loss (Rasmussen and Williams 2006, Eq. 2.30 and 5.8), by Laplace's
approximation for other convex losses (ibid., Eq. 5.20), whose sum is taken for a negative log-likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator_free.problem.losses import Squared
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

COMMON = 5
"""Sizes of the common part that are weighed."""
OWN = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Variances of an own part, in units of the variance with which the records' predictions are as large as the labels."""
LABELS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.2)
"""Variances of the labels' noise, in units of their mean square."""
NOISES = (0.0, 0.1, 0.3, 1.0)
"""Variances of noise that is not known, in units of the mean square of what was received."""
LOGITS = 4.0
"""The mean square of a prediction that a loss of another kind is given for a start."""
UNSURE = 0.25
"""How sure the undoing of an early stop is: where a share b of c arrived, (1 - b) c is known up to this variance."""
PRIOR_RECORDS = 10.0
"""With how many records of equal curvature in all directions the own ones are mixed."""


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


class _Common(NamedTuple):
    """The posterior of c after z, in the basis: mean and variance (p,), and the log-likelihood of z."""

    mean: FloatArray
    variance: FloatArray
    likelihood: float


def around(problem: LocalProblem, received: Received, weight: float | None) -> FloatArray:
    """The agent's own model, shape (p,): argmin mean loss + weight/2 |theta - mean|^2; None: by evidence."""
    if weight is None:
        return own_part(problem, received)
    from coordinator_free.problem.solver import LocalSolver

    return LocalSolver(problem, 1.0).minimise(weight, -weight * received.mean, received.mean)


def own_part(problem: LocalProblem, received: Received) -> FloatArray:
    """The agent's own model, shape (p,); without records the mean of the common part."""
    x = problem.x @ received.basis
    labels, unit = _scales(problem)
    logs: list[FloatArray] = []
    models: list[FloatArray] = []
    for common in _posteriors(received, unit):
        for share in OWN:
            prior = common.mean, common.variance + share * unit
            squared = isinstance(problem.loss, Squared)
            evidence, candidates = _gaussian(x, problem.y, *prior, labels) if squared else _laplace(problem, x, *prior)
            logs.append(common.likelihood + evidence)
            models.append(candidates)
    weights = np.concatenate(logs)
    weights = np.exp(weights - weights.max())
    average = (weights / weights.sum()) @ np.concatenate(models)
    return np.asarray(received.basis @ average)


def _scales(problem: LocalProblem) -> tuple[FloatArray, float]:
    """Candidate variances of the labels' noise, and the variance of a model whose predictions are that large."""
    rows = float(np.mean(np.square(problem.x).sum(axis=1))) if problem.records else 0.0
    size = LOGITS
    if isinstance(problem.loss, Squared):
        size = float(np.mean(np.square(problem.y))) if problem.records else 0.0
    size = size if size > 0.0 else 1.0
    return size * np.array(LABELS), size / (rows if rows > 0.0 else 1.0)


def _posteriors(received: Received, unit: float) -> Iterator[_Common]:
    """One for each size of the common part, and for each size of its noise where that is not known."""
    seen, kept = received.basis.T @ received.mean, received.kept
    square = float(np.mean(seen * seen))
    variances = [received.variance] if received.variance is not None else [square * share for share in NOISES]
    for variance in variances:
        heard = max(0.0, square - float(np.mean(variance)))
        for size in np.geomspace(0.01 * unit, 10.0 * max(unit, heard), COMMON):
            spread = size * kept**2 + variance + size * (UNSURE * (1.0 - kept) ** 2 + 1e-6)
            gain = size * kept / spread
            likelihood = -0.5 * float((np.log(spread) + seen * seen / spread).sum())
            yield _Common(gain * seen, size * (1.0 - gain * kept), likelihood)


def _gaussian(
    x: FloatArray, y: FloatArray, mean: FloatArray, variance: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log-evidences (s,) and models (s, p) for each variance of the labels' noise (s,)."""
    scale = np.sqrt(variance)
    scaled, rest = x * scale, y - x @ mean
    if len(y) < len(mean):  # the smaller of the two systems
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        along = vectors.T @ rest
        values = np.maximum(values, 0.0)
        missed = (along**2 / (values + noise[:, None])).sum(axis=1)
        steps = ((along / (values + noise[:, None])) @ vectors.T) @ scaled
    else:
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        along = vectors.T @ (scaled.T @ rest)
        values = np.maximum(values, 0.0)
        missed = (rest @ rest - (along**2 / (values + noise[:, None])).sum(axis=1)) / noise
        steps = (along / (values + noise[:, None])) @ vectors.T
    spread = len(y) * np.log(noise) + np.log1p(values / noise[:, None]).sum(axis=1)
    return -0.5 * (spread + missed), mean + steps * scale


def _laplace(
    problem: LocalProblem, x: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The log-evidence (1,) and the mode (1, p)."""
    from coordinator_free.problem.solver import LocalSolver

    scale = np.sqrt(variance)
    scaled = LocalProblem(x * scale, problem.y, problem.loss, 0.0)
    centre = mean / scale
    mode = LocalSolver(scaled, float(problem.records)).minimise(1.0, -centre, centre) if problem.records else centre
    records = float(problem.records)
    bent = records * scaled.hessian(mode)
    bent[np.diag_indices(len(mode))] += 1.0
    step = mode - centre
    evidence = -records * scaled.value(mode) - 0.5 * float(step @ step) - 0.5 * float(np.linalg.slogdet(bent)[1])
    return np.array([evidence]), (mode * scale)[None, :]
