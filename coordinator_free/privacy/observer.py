"""What an observer of averaged gradient descent learns: the accounting of Kang, Liu and Wang without their server.

Rules that hold here:
- Neighbouring datasets differ in one record's value, sizes are public, record gradients are clipped to G in L2. So the
  mean gradient of agent j moves by 2G/n_j, and the size-weighted sum of all by 2G/n, for a record of any agent.
- ``releases``: the observer sees each agent's own releases, as every neighbour and eavesdropper does. ``sum``: the
  observer sees nothing but the sum of all, because it was masked.
- ``as_published`` is the paper's Theorem 1: every agent adds noise for 2G/n and keeps its sensitivity of 2G/n_j. Its
  claim holds for neither observer; `truth` gives the true figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

OBSERVERS = ("releases", "sum", "as_published")


class ObserverError(ValueError):
    """Accounting that was asked for and does not hold."""


def contraction(step: float, convexity: float, curvature: float) -> float:
    """max(|1 - h l|, |1 - h (l + c)|): how much of a difference one gradient step keeps, at most.

    For a step h on a loss with Hessian between l and l + c; valid only where gradients are not clipped.
    """
    return max(abs(1.0 - step * convexity), abs(1.0 - step * (convexity + curvature)))


def composition(rounds: int, kept: float = 1.0) -> float:
    """What takes the place of sqrt(T) in the Gaussian parameter of T noisy gradient steps.

    ``kept`` = 1: sqrt(T), every iterate may be seen. ``kept`` = c < 1: only the last iterate is seen, and the factor is
    sqrt((1 - c^T)(1 + c) / ((1 + c^T)(1 - c))), attained by a quadratic.
    """
    if rounds < 1:
        raise ObserverError(f"learning.local_steps = {rounds}: must be 1 or more")
    if not kept < 1.0:
        return math.sqrt(rounds)
    power = kept**rounds
    return math.sqrt((1.0 - power) * (1.0 + kept) / ((1.0 + power) * (1.0 - kept)))


def noise_deviation(epsilon: float, delta: float, clip: float, records: int, rounds: int, kept: float = 1.0) -> float:
    """Deviation of the noise in each of T gradient steps, for a sensitivity of 2 clip / records."""
    from coordinator_free.privacy.analytic_gaussian import gaussian_mu  # with scipy, which settings do without

    return composition(rounds, kept) * (2.0 * clip / records) / gaussian_mu(epsilon, delta)


@dataclass(frozen=True)
class Truth:
    """The true epsilon of a claim, against an observer of the most exposed agent's releases, and of the sum only."""

    claimed: float
    releases: float
    sum: float


def truth(epsilon: float, delta: float, sizes: Sequence[int]) -> Truth:
    """What Theorem 1 of Kang, Liu and Wang really gives at ``delta``, for agents with ``sizes`` records.

    Agent j's releases have the parameter mu n/n_j, the weighted sum has mu / sqrt(sum_j (n_j/n)^2).
    """
    from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu

    mu, total = gaussian_mu(epsilon, delta), float(sum(sizes))
    squares = sum((size / total) ** 2 for size in sizes)
    return Truth(
        claimed=epsilon,
        releases=gaussian_epsilon(mu * total / min(size for size in sizes if size), delta),
        sum=gaussian_epsilon(mu / math.sqrt(squares), delta),
    )


def shared_deviation(deviation: float, agents: int, absent: int) -> float:
    """Each agent's part of a sum's noise, so that the sum keeps ``deviation`` without the parts of ``absent`` agents.

    ``absent``: colluding agents, which know their own parts, plus agents that may drop out.
    """
    if not 0 <= absent < agents:
        raise ObserverError(f"privacy.colluders + privacy.dropouts = {absent}: must be 0 to {agents - 1}")
    return deviation / math.sqrt(agents - absent)


def epsilons_of_a_sum(mu: float, delta: float, agents: int, colluders: int, dropouts: int) -> dict[str, float]:
    """Epsilon of masked sums for each observer, with ``dropouts`` agents absent from every sum.

    Parameters
    ----------
    mu
        The Gaussian parameter of all sums, as charged.
    delta
        Where epsilon is read off.
    agents
        Agents that add noise.
    colluders, dropouts
        What the noise is shared out for.

    Returns
    -------
    "outside": an observer that takes no part; "participant": one agent, which knows its own part of the noise;
    "colluders": as many agents as the run allows to pool what they know, which is the promise. Where more parts are
    known than there are, infinity.
    """
    from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon

    kept = agents - colluders - dropouts

    def seen(known: int) -> float:
        left = agents - dropouts - known
        return gaussian_epsilon(mu * math.sqrt(kept / left), delta) if left > 0 else math.inf

    return {"outside": seen(0), "participant": seen(1), "colluders": seen(colluders)}
