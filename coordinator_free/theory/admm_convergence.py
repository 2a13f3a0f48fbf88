"""What theory predicts for a run of M-ADMM, before it and beside it (Zhang, Khalili and Liu 2018, section 3).

With D the degrees, A the adjacency, W(t) = diag(eta_i(t)), 2 Lambda = sqrt(D - A) Y and Z = (Y, f):

    |Z|_J^2 = |Y|^2 / theta + <f, W(t) (D + A) f>
    (1 + delta(t)) |Z(t) - Z*|_J^2 <= |Z(t-1) - Z*|_J^2                                              (Theorem 3.2)

Rules that hold here:
- Theorem 3.1's conditions (bounded, non-decreasing, at least theta) are sufficient, not necessary; its proof has a gap
  where agents' penalties differ. So a condition that fails is a warning, never an error.
- The closed bound (23) is false as printed: its numerator must be 2 m_o alone, for (W - theta I)(D - A) is singular.
  `rate_bound` is the corrected one.
- ``network`` is unweighted here: the family counts neighbours. ``penalties`` have shape (agents, rounds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from coordinator_free.release import FloatArray
from topology.network import Network

FROZEN = 1e-3
"""A schedule freezes if this part of the distance is left after any number of rounds."""


@dataclass(frozen=True)
class Conditions:
    """Theorem 3.1 for a schedule: which conditions hold, what will happen, and the warnings.

    ``left`` is the estimated part of the distance to the optimum that is left after the rounds of the schedule,
    ``left_for_ever`` after as many more as one likes, growing at the last rounds' rate.
    """

    bounded: bool
    non_decreasing: bool
    at_least_theta: bool
    left: float
    left_for_ever: float
    warnings: tuple[str, ...]


def conditions(network: Network, penalties: FloatArray, theta: float, strong_convexity: float) -> Conditions:
    """Check a schedule before a run; ``strong_convexity`` is that of one agent's objective in its flattest direction.

    While the agents agree, their mean takes proximal steps of length 1 / (2 mean eta_i N_i) on the mean objective: a
    direction of curvature h keeps the part prod_t 1 / (1 + h / (2 mean eta_i(t) N_i)) of its distance. With eta growing
    geometrically the product stays above zero: the run freezes.
    """
    degrees = network.degree_counts.astype(np.float64)
    stiffness = 2.0 * degrees @ penalties / len(degrees)
    growth = _last_growth(stiffness)
    left = math.exp(-float(np.log1p(strong_convexity / stiffness).sum()))
    # The rest of a geometric series; log1p(x) is x up to a factor that only makes the estimate cautious.
    rest = math.inf if growth <= 1.0 else strong_convexity / stiffness[-1] / (growth - 1.0)
    for_ever = left * math.exp(-rest)
    bounded = growth <= 1.0
    non_decreasing = bool((np.diff(penalties, axis=1) >= 0).all())
    at_least = bool((penalties >= theta).all())
    return Conditions(
        bounded,
        non_decreasing,
        at_least,
        left,
        for_ever,
        _warnings(penalties, theta, bounded=bounded, non_decreasing=non_decreasing, for_ever=for_ever, left=left),
    )


def _warnings(
    penalties: FloatArray, theta: float, *, bounded: bool, non_decreasing: bool, for_ever: float, left: float
) -> tuple[str, ...]:
    found = []
    low = np.argwhere(penalties < theta)
    if low.size:
        agent, round_ = (int(number) for number in low[0])
        found.append(
            f"learning.theta = {theta:g} is above the penalty {penalties[agent, round_]:g} of agent {agent} in round "
            f"{round_}: convergence is proven only for penalties of at least theta (Theorem 3.1)"
        )
    if not non_decreasing:
        agent, round_ = (int(number) for number in np.argwhere(np.diff(penalties, axis=1) < 0)[0])
        found.append(
            f"the penalty of agent {agent} falls after round {round_}: convergence is proven only for penalties that "
            "do not decrease (Theorem 3.1)"
        )
    if not bounded and for_ever > FROZEN:
        found.append(
            f"learning.penalty_growth: penalties that grow without bound freeze the run; about {for_ever:.2g} of the "
            f"distance to the optimum in the flattest direction is left for ever ({left:.2g} after these rounds)"
        )
    return tuple(found)


def _last_growth(stiffness: FloatArray) -> float:
    """The factor a round at the end of the schedule; 1 where it has come to rest."""
    if len(stiffness) < 2:
        return 1.0
    return float(stiffness[-1] / stiffness[-2])


@dataclass(frozen=True)
class Spectrum:
    """sigma_min(D - A), nonzero; sigma_max((W - theta I)(D - A)); sigma_max(W (D + A))."""

    connectivity: float
    excess: float
    mixing: float


def spectrum(network: Network, penalties: FloatArray, theta: float) -> Spectrum:
    """The singular values that the rate bound needs, for one round's ``penalties`` (n,). Dense matrices."""
    degree, adjacency = _matrices(network)
    laplacian = degree - adjacency
    values = np.linalg.eigvalsh(laplacian)
    excess = np.linalg.norm((penalties - theta)[:, None] * laplacian, 2)
    mixing = np.linalg.norm(penalties[:, None] * (degree + adjacency), 2)
    return Spectrum(float(values[1]), float(excess), float(mixing))


def rate_bound(
    network: Network, penalties: FloatArray, theta: float, strong_convexity: float, smoothness: float
) -> float:
    """The corrected delta(t) of Theorem 3.2 for one round's ``penalties``, shape (n,).

    It is the largest over the free mu > 1 of

        min { theta s / (mu^2 t),  2 m_o / ( (mu^2 M^2 + mu e^2) / (theta s (mu - 1)) + t ) }

    with s, e, t the `Spectrum`; ``strong_convexity`` m_o and ``smoothness`` M over all agents' objectives.
    """
    if network.agents < 2:
        raise ValueError("a rate of agreement needs two agents or more")
    s = spectrum(network, penalties, theta)

    def bound(log_excess: float) -> float:
        mu = 1.0 + math.exp(log_excess)
        first = theta * s.connectivity / (mu**2 * s.mixing)
        spread = (mu**2 * smoothness**2 + mu * s.excess**2) / (theta * s.connectivity * (mu - 1.0))
        return min(first, 2.0 * strong_convexity / (spread + s.mixing))

    # min of one falling and one rising-then-falling function of mu has a single peak.
    best = minimize_scalar(lambda log_excess: -bound(log_excess), bounds=(-20.0, 20.0), method="bounded")
    return float(-best.fun)


def measured_rates(
    network: Network,
    models: FloatArray,
    duals: FloatArray,
    penalties: FloatArray,
    theta: float,
    best: FloatArray,
    gradients: FloatArray,
) -> FloatArray:
    """|Z(t-1) - Z*|_J(t)^2 / |Z(t) - Z*|_J(t)^2 - 1 for t = 1 .. T-1: what `rate_bound` bounds from below.

    ``models`` and ``duals`` (T, n, d) hold f(t) and lambda(t), ``penalties`` (n, T) what made f(t); ``best`` (d,) is
    the pooled optimum f*, ``gradients`` (n, d) each agent's gradient there, which give Y* (Eq. 17).
    """
    degree, adjacency = _matrices(network)
    values, vectors = np.linalg.eigh(degree - adjacency)
    inverse = np.where(values > 1e-9 * values[-1], 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    root = (vectors * inverse) @ vectors.T  # the pseudo-inverse of sqrt(D - A)
    shifts = 2.0 * np.einsum("ij,tjd->tid", root, duals) + root @ gradients  # Y(t) - Y*
    aparts = models - best

    def distance(t: int, norm_of: int) -> float:
        coupling = penalties[:, norm_of, None] * ((degree + adjacency) @ aparts[t])
        return float(np.vdot(shifts[t], shifts[t])) / theta + float(np.vdot(aparts[t], coupling))

    return np.array([distance(t - 1, t) / distance(t, t) - 1.0 for t in range(1, len(models))])


def duals_of(network: Network, models: Sequence[FloatArray], theta: float) -> FloatArray:
    """lambda(t) of every agent from what was released: 2 lambda(t) = theta (D - A) sum of f(1) .. f(t) (Eq. 14).

    ``models`` (T, n, d). Any receiver of all releases can compute it.
    """
    degree, adjacency = _matrices(network)
    duals: FloatArray = 0.5 * theta * np.einsum("ij,tjd->tid", degree - adjacency, np.cumsum(models, axis=0))
    return duals


def _matrices(network: Network) -> tuple[FloatArray, FloatArray]:
    adjacency = np.zeros((network.agents, network.agents))
    for i in range(network.agents):
        adjacency[i, list(network.neighbours(i))] = 1.0
    return np.diag(adjacency.sum(axis=1)), adjacency
