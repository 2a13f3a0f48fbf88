"""What theory predicts for a run of M-ADMM, before it and beside it (Zhang, Khalili and Liu 2018, section 3).

With D the degrees, A the adjacency, W(t) = diag(eta_i(t)), 2 Lambda = sqrt(D - A) Y and Z = (Y, f):

    |Z|_J^2 = |Y|^2 / theta + <f, W(t) (D + A) f>
    (1 + delta(t)) |Z(t) - Z*|_J^2 <= |Z(t-1) - Z*|_J^2                                              (Theorem 3.2)

Rules that hold here:
- Theorem 3.1's conditions (bounded, non-decreasing, at least theta) are sufficient, not necessary; its proof has a gap
  where agents' penalties differ. So a condition that fails is a warning, never an error.
- The closed bound (23) is false as printed: its numerator must be 2 m_o alone, for (W - theta I)(D - A) is singular.
  `rate_bound` is the corrected one, `published_rate_bound` the printed one.
- Where agents' penalties differ, W (D + A) and (W - theta I)(D - A) are not symmetric, and the theorem's proof does not
  hold. Their symmetric parts stand for them here: a quadratic form knows no other.
- ``network`` is unweighted here: the family counts neighbours. ``penalties`` have shape (agents, rounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
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
    """sigma_min(D - A), nonzero; sigma_max((W - theta I)(D - A)), and its sigma_min, nonzero; sigma_max(W (D + A)).

    ``least_excess`` is 0 where the matrix is.
    """

    connectivity: float
    excess: float
    mixing: float
    least_excess: float


class Rate(NamedTuple):
    """A bound ``delta`` of delta(t), and the free ``mu`` > 1 that gives it; of 0 any mu."""

    delta: float
    mu: float


def spectrum(network: Network, penalties: FloatArray, theta: float) -> Spectrum:
    """The singular values that the rate bound needs, for one round's ``penalties`` (n,). Dense matrices."""
    degree, adjacency = _matrices(network)
    laplacian = degree - adjacency
    values = np.linalg.eigvalsh(laplacian)
    excess = np.linalg.svd((penalties - theta)[:, None] * laplacian, compute_uv=False)
    mixing = np.linalg.norm(penalties[:, None] * (degree + adjacency), 2)
    nonzero = excess[excess > 1e-9 * values[-1] * max(theta, float(np.abs(penalties).max()))]
    least = float(nonzero.min()) if nonzero.size else 0.0
    return Spectrum(float(values[1]), float(excess[0]), float(mixing), least)


def rate_bound(
    network: Network, penalties: FloatArray, theta: float, strong_convexity: float, smoothness: float
) -> Rate:
    """The corrected delta(t) of Theorem 3.2 for one round's ``penalties``, shape (n,).

    It is the largest over the free mu > 1 of

        min { theta s / (mu^2 t),  2 m_o / ( (mu^2 M^2 + mu e^2) / (theta s (mu - 1)) + t ) }

    with s, e, t the `Spectrum`; ``strong_convexity`` m_o and ``smoothness`` M over all agents' objectives.
    """
    s = _checked_spectrum(network, penalties, theta)
    return _closed(s, theta, 2.0 * strong_convexity, smoothness)


def published_rate_bound(
    network: Network, penalties: FloatArray, theta: float, strong_convexity: float, smoothness: float
) -> Rate:
    """Eq. 23 as printed, with the numerator 2 m_o + 2 sigma_min((W - theta I)(D - A)): false, as `rate_bound` but that.

    Agents that agree do not move along the singular direction of (W - theta I)(D - A), so that its smallest *nonzero*
    singular value bounds nothing.
    """
    s = _checked_spectrum(network, penalties, theta)
    return _closed(s, theta, 2.0 * strong_convexity + 2.0 * s.least_excess, smoothness)


def theorem_rate(
    network: Network, penalties: FloatArray, theta: float, convexities: FloatArray, smoothnesses: FloatArray
) -> Rate:
    """The largest delta(t) that Eq. 21 and 22 allow for one round's ``penalties`` (n,), over the free mu > 1.

    ``convexities`` m_i and ``smoothnesses`` M_i have shape (n,). 0 where no delta(t) >= 0 does.
    """
    s = _checked_spectrum(network, penalties, theta)
    degree, adjacency = _matrices(network)
    gain = 2.0 * _symmetric((penalties - theta)[:, None] * (degree - adjacency)) + 2.0 * np.diag(convexities)
    mixing = _symmetric(penalties[:, None] * (degree + adjacency))
    if float(np.linalg.eigvalsh(gain)[0]) <= 0.0:
        return Rate(0.0, 2.0)

    def bound(mu: float) -> float:
        spread = np.diag(mu * s.excess**2 + mu**2 * smoothnesses**2) / (theta * s.connectivity * (mu - 1.0))
        # delta P <= Q for a positive definite Q: delta is one over the largest eigenvalue of P in the metric of Q.
        largest = float(eigh(spread + mixing, gain, eigvals_only=True, subset_by_index=[len(gain) - 1] * 2)[0])
        return min(_first(s, theta, mu), 1.0 / largest) if largest > 0.0 else _first(s, theta, mu)

    return _best(bound)


def _checked_spectrum(network: Network, penalties: FloatArray, theta: float) -> Spectrum:
    if network.agents < 2:
        raise ValueError("a rate of agreement needs two agents or more")
    return spectrum(network, penalties, theta)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2.0


def _first(s: Spectrum, theta: float, mu: float) -> float:
    """Eq. 21."""
    return theta * s.connectivity / (mu**2 * s.mixing)


def _closed(s: Spectrum, theta: float, numerator: float, smoothness: float) -> Rate:
    def bound(mu: float) -> float:
        spread = (mu**2 * smoothness**2 + mu * s.excess**2) / (theta * s.connectivity * (mu - 1.0))
        return min(_first(s, theta, mu), numerator / (spread + s.mixing))

    return _best(bound)


def _best(bound: Callable[[float], float]) -> Rate:
    """The largest value over mu > 1 of the smaller of one falling and one rising-then-falling function."""
    found = minimize_scalar(
        lambda log_excess: -bound(1.0 + math.exp(log_excess)), bounds=(-20.0, 20.0), method="bounded"
    )
    return Rate(float(-found.fun), 1.0 + math.exp(float(found.x)))


Measurable = tuple[Network, FloatArray, FloatArray, FloatArray, float, FloatArray, FloatArray]
"""The arguments of `measured_rates` and of `inner_products`."""


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
    shifts, aparts = _apart(network, models, duals, best, gradients)
    coupled = _coupled(network, aparts)

    def distance(t: int, norm_of: int) -> float:
        pull = float(np.vdot(aparts[t], penalties[:, norm_of, None] * coupled[t]))
        return float(np.vdot(shifts[t], shifts[t])) / theta + pull

    return np.array([distance(t - 1, t) / distance(t, t) - 1.0 for t in range(1, len(models))])


def inner_products(
    network: Network,
    models: FloatArray,
    duals: FloatArray,
    penalties: FloatArray,
    theta: float,
    best: FloatArray,
    gradients: FloatArray,
) -> FloatArray:
    """<Z(t) - Z*, J(t) (Z(t) - Z(t-1))> over |Z(t) - Z*|_J(t)^2 for t = 1 .. T-1, which Eq. 19 says is at most 0.

    Arguments as those of `measured_rates`.
    """
    shifts, aparts = _apart(network, models, duals, best, gradients)
    coupled = _coupled(network, aparts)
    found = []
    for t in range(1, len(models)):
        weighted = penalties[:, t, None] * (coupled[t] - coupled[t - 1])
        inner = float(np.vdot(shifts[t], shifts[t] - shifts[t - 1])) / theta + float(np.vdot(aparts[t], weighted))
        size = float(np.vdot(shifts[t], shifts[t])) / theta
        size += float(np.vdot(aparts[t], penalties[:, t, None] * coupled[t]))
        found.append(inner / size)
    return np.array(found)


def _apart(
    network: Network, models: FloatArray, duals: FloatArray, best: FloatArray, gradients: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Y(t) - Y* and f(t) - f*, both (T, n, d)."""
    degree, adjacency = _matrices(network)
    values, vectors = np.linalg.eigh(degree - adjacency)
    inverse = np.where(values > 1e-9 * values[-1], 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    root = (vectors * inverse) @ vectors.T  # the pseudo-inverse of sqrt(D - A)
    return 2.0 * np.einsum("ij,tjd->tid", root, duals) + root @ gradients, models - best


def _coupled(network: Network, aparts: FloatArray) -> FloatArray:
    """(D + A) times each round's differences, (T, n, d)."""
    degree, adjacency = _matrices(network)
    found: FloatArray = np.einsum("ij,tjd->tid", degree + adjacency, aparts)
    return found


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
