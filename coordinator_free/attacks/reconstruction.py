"""Reconstruction of one record from its agent's releases, by averaging residuals over rounds.

The observer knows the agent's parameters and every other record. What each release tells beyond them is the missing
record's gradient, a multiple of its features, plus the noise; over many releases the noise averages out (Zhang, Khalili
and Liu 2018, appendix E, for ADMM; the same idea for coordinate descent).

Rules that hold here:
- Only the direction of the record's features can be found, and only up to its sign.
- A cosine is judged beside what a random direction reaches.
- It is far weaker than the likelihood ratio: what it misses is no proof of privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from coordinator_free.attacks.likelihood_ratio import Environment, clip_slopes, row_norms
from coordinator_free.attacks.observed_rounds import Objective
from coordinator_free.attacks.worst_case import states
from coordinator_free.privacy.families import NORMS
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray


@dataclass(frozen=True)
class Reconstruction:
    """How close the estimated direction came to a record's features.

    ``average``: |cosine| of the mean residual (the paper's estimate); ``principal``: of the residuals' first singular
    vector, which does not cancel where the gradient's sign changes; ``chance``: what 99 of 100 random directions of
    this dimension stay below. ``without_penalties``: of the direction that an observer finds which does not know the
    penalties (`coordinator_free.attacks.hidden_penalties`); None where there are none to hide, or noise hides more.
    """

    record: int
    average: float
    principal: float
    chance: float
    without_penalties: float | None = None


def residuals(environment: Environment, vectors: FloatArray, record: int) -> FloatArray:
    """What each release of a coordinate-descent agent tells beyond all records but one: its gradient plus noise.

    Parameters
    ----------
    vectors
        The releases, shape (T, p).
    record
        The record that the observer does not know.

    Returns
    -------
    The residual of each release, shape (T, p).

    References
    ----------
    Eq. 6 of Bellet et al. (2018), solved for the missing record's part.
    """
    setting = environment.setting
    problem = setting.problem
    models = states(environment, vectors)
    moved = (vectors - (1.0 - environment.step) * models) / environment.step
    gradient = (environment.centres - moved) / environment.pull
    gradient -= problem.regularisation * problem.loss.penalty_gradient(models)
    keep = np.arange(problem.records) != record
    x, norm = problem.x[keep], NORMS.get(setting.mechanism)
    slopes = problem.loss.slope(models @ x.T, problem.y[keep])
    if norm is not None:
        slopes = clip_slopes(slopes, row_norms(x, norm), float(setting.clip or 0.0))
    rest: FloatArray = problem.records * gradient - slopes @ x
    return rest


def admm_residuals(problem: LocalProblem, capacity: float, rounds: Sequence[Objective], record: int) -> FloatArray:
    """The same for an agent of the ADMM family, (T, d): Eq. 67 of Zhang, Khalili and Liu 2018, without its factor."""
    vectors = np.stack([seen.release.vector for seen in rounds])
    known = np.stack([seen.pull(seen.release.vector) for seen in rounds])
    keep = np.arange(problem.records) != record
    slopes = problem.loss.slope(vectors @ problem.x[keep].T, problem.y[keep])
    rest: FloatArray = -(problem.records / capacity) * known - slopes @ problem.x[keep]
    return rest


def reconstruct(
    record: int, features: FloatArray, residual: FloatArray, direction: FloatArray | None = None
) -> Reconstruction:
    """Compare a record's ``features`` (p,) with the direction that its ``residual`` (T, p) shows, and ``direction``."""
    first = np.linalg.svd(residual, full_matrices=False)[2][0]
    return Reconstruction(
        record=record,
        average=_cosine(residual.mean(axis=0), features),
        principal=_cosine(first, features),
        chance=chance(features.size),
        without_penalties=None if direction is None else _cosine(direction, features),
    )


def chance(dimension: int, level: float = 0.99) -> float:
    """The quantile ``level`` of |cosine| between a fixed and a random direction in R^dimension."""
    if dimension < 2:
        return 1.0
    return math.sqrt(float(beta.ppf(level, 0.5, (dimension - 1) / 2.0)))


def _cosine(a: FloatArray, b: FloatArray) -> float:
    size = math.sqrt(float(a @ a) * float(b @ b))
    return abs(float(a @ b)) / size if size > 0 else 0.0
