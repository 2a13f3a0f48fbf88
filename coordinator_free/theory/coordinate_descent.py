"""What theory says about coordinate descent: its rate, what noise adds, when to stop, and how to share a budget.

    Q(Theta) is sigma-strongly convex,   sigma >= mu min_i D_ii c_i sigma_i,   sigma_i = 2 lambda_i
    block i of its gradient is L_i-Lipschitz,   L_i = D_ii (1 + mu c_i L),   C = 1 - sigma / (n L_max)

    E[Q(Theta(T)) - Q*] <= C^T (Q(Theta(0)) - Q*)                                            (Proposition 1)
                           + 1/(n L_min) sum_t C^(T-1-t) N(t)                                (Theorem 2, corrected)
    N(t) = 1/2 sum_i E |mu D_ii c_i eta_i(t)|^2

with eta_i(t) the noise on the gradient of L_i, a vector of p numbers. T counts the updates of all agents together; the
agent of each update is drawn uniformly, and reads the newest models.

Rules that hold here:
- As printed, Theorem 2 has sum_i (mu D_ii c_i s_i(t))^2 for N(t): it forgets that the noise has p coordinates. It has
  C^t in place of C^(T-1-t): the noise of the first update is forgotten, that of the last one is not.
- Constants rest on public numbers alone: sizes, the graph, the regularisation and the smoothness of the steps.
- A release is the step's exact result plus noise r, and mu D_ii c_i eta = L_i r: noise is counted from releases.

Source: Bellet, Guerraoui, Taziki and Tommasi (2018), sections 2 and 3, appendices A and B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from coordinator_free.release import FloatArray


class TheoryError(ValueError):
    """Numbers that a theorem does not cover."""


@dataclass(frozen=True, eq=False)
class Constants:
    """The constants of Proposition 1 and Theorem 2. ``blocks`` (n,) are the L_i, ``convexity`` is sigma."""

    blocks: FloatArray
    convexity: float

    @property
    def agents(self) -> int:
        """n."""
        return len(self.blocks)

    @property
    def least(self) -> float:
        """L_min."""
        return float(self.blocks.min())

    @property
    def largest(self) -> float:
        """L_max."""
        return float(self.blocks.max())

    @property
    def factor(self) -> float:
        """C: what one update of the network leaves of the gap, on average."""
        return 1.0 - self.convexity / (self.agents * self.largest)

    @property
    def kept(self) -> float:
        """C^n: what n updates of the network leave. So many pass, on average, between two updates of one agent."""
        return self.factor**self.agents

    def named(self) -> dict[str, float]:
        """Each constant by the name that the paper gives it."""
        return {
            "n": float(self.agents),
            "sigma": self.convexity,
            "L_min": self.least,
            "L_max": self.largest,
            "C": self.factor,
        }


def constants(
    degrees: FloatArray, confidences: FloatArray, smoothness: FloatArray, regularisations: FloatArray, mu: float
) -> Constants:
    """The constants of a network.

    Parameters
    ----------
    degrees
        D_ii, shape (n,).
    confidences
        c_i, shape (n,).
    smoothness
        Of each L_i, as the steps use it; shape (n,).
    regularisations
        lambda_i, shape (n,): L_i is 2 lambda_i-strongly convex.
    mu
        Weight of the local losses.

    Raises
    ------
    TheoryError
        Where a lambda_i is 0: the objective is not strongly convex, and the theorems are silent.
    """
    if not (regularisations > 0).all():
        raise TheoryError("learning.regularisation = 0: the objective is not strongly convex; accepted: above 0")
    pulls = mu * confidences
    return Constants(degrees * (1.0 + pulls * smoothness), float((degrees * pulls * 2.0 * regularisations).min()))


def convergence(known: Constants, gap: float, updates: FloatArray) -> FloatArray:
    """Proposition 1: the largest expected gap after ``updates`` (k,) of all agents together, from ``gap``; (k,)."""
    bound: FloatArray = gap * known.factor ** np.asarray(updates, dtype=np.float64)
    return bound


def power(known: Constants, squares: FloatArray) -> float:
    """N: half of sum_i L_i^2 E|r_i|^2, for ``squares`` (n,), the mean square of the noise vector in a release."""
    return float(0.5 * (known.blocks**2 @ squares))


def printed_power(known: Constants, scales: FloatArray) -> float:
    """N as printed: sum_i L_i^2 s_i^2 for the scales (n,) of the noise in one coordinate of a release."""
    return float(known.blocks**2 @ scales**2)


def utility_loss(known: Constants, gap: float, powers: FloatArray, updates: FloatArray) -> FloatArray:
    """Theorem 2, corrected.

    Parameters
    ----------
    gap
        Q(Theta(0)) - Q*.
    powers
        N(t) of each update, shape (T,).
    updates
        Numbers of updates from 0 to T, shape (k,), whole numbers.

    Returns
    -------
    FloatArray
        The largest expected gap after each, shape (k,).
    """
    bound = np.empty(len(powers) + 1)
    bound[0] = gap
    for t, added in enumerate(powers / (known.agents * known.least)):
        bound[t + 1] = known.factor * bound[t] + added
    return bound[np.asarray(updates, dtype=np.intp)]


def printed_utility_loss(known: Constants, gap: float, powers: FloatArray, updates: FloatArray) -> FloatArray:
    """Theorem 2 as printed: the noise of update t has the weight C^t. ``powers`` are `printed_power`; else the same."""
    early = known.factor ** np.arange(len(powers)) * powers / (known.agents * known.least)
    noise = np.concatenate(([0.0], np.cumsum(early)))
    return convergence(known, gap, updates) + noise[np.asarray(updates, dtype=np.intp)]


def floor(known: Constants, power_of_each: float) -> float:
    """a / rho of appendix B: what the noise leaves of the gap after any number of updates, if each has the same."""
    return power_of_each / (known.agents * known.least) / (1.0 - known.factor)


def after(known: Constants, gap: float, power_of_each: float, updates: int) -> float:
    """Theorem 2 where every update has the same noise: b C^T + a/rho (1 - C^T) (appendix B)."""
    left = known.factor**updates
    return gap * left + floor(known, power_of_each) * (1.0 - left)


def best_updates(
    known: Constants, gap: float, power_of_each: Callable[[int], float], candidates: Iterable[int]
) -> tuple[int, float]:
    """The number of updates of each agent with the smallest bound, and that bound.

    With noise that does not depend on T, appendix B's bound only rises or only falls with T: it falls where ``gap`` is
    above `floor`. A best T between comes from the budget, which more updates divide into more and noisier parts.

    Parameters
    ----------
    power_of_each
        N of each update, by the number of updates of each agent.
    candidates
        Numbers of updates of each agent; of equally good ones the first is taken.
    """
    bounds = {k: after(known, gap, power_of_each(k), known.agents * k) for k in candidates}
    best = min(bounds, key=lambda k: bounds[k])
    return best, bounds[best]


def mean_square(family: str, scale: float, dimension: int) -> float:
    """E|r|^2 of a noise vector of ``dimension`` numbers: Laplace, Gaussian or gamma-norm noise of this scale.

    Raises
    ------
    TheoryError
        For another family.
    """
    factors = {"laplace": 2.0 * dimension, "gaussian": float(dimension), "gamma-norm": dimension * (dimension + 1.0)}
    if family not in factors:
        raise TheoryError(f"noise of {family}: its mean square is not known; accepted: {', '.join(factors)}")
    return factors[family] * scale**2


def proposition_2(known: Constants, ticks: FloatArray, epsilon: float) -> FloatArray:
    """Proposition 2 as printed: epsilon_i(t) ~ C^(t/3) at the global updates ``ticks`` (k,) of one agent, shape (k,).

    They add up to ``epsilon``. The weights are reversed in time, see `true_proposition_2`.
    """
    return _shared(known.factor ** (ticks / 3.0), epsilon)


def true_proposition_2(known: Constants, ticks: FloatArray, last: int, epsilon: float) -> FloatArray:
    """Proposition 2, corrected: epsilon_i(t) ~ C^((T-1-t)/3), where T = ``last`` is the number of global updates."""
    return _shared(known.factor ** ((last - 1.0 - ticks) / 3.0), epsilon)


def _shared(weights: FloatArray, epsilon: float) -> FloatArray:
    share: FloatArray = weights * (epsilon / math.fsum(weights))
    return share
