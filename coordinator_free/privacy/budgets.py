"""A budget for each agent.

The epsilon of an agent covers its own releases alone, so each may have its own (Jorgensen, Yu and Cormode 2015, on
personalised differential privacy). With epsilon 0 an agent opts out: it receives and never releases.

Rules that hold here:
- The budgets are public and must not depend on records: a rule may use sizes, names and chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coordinator_free.release import FloatArray

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e12
"""Beyond these the noise, or what is left beside it, is lost in floating point."""
_ACCEPTED = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"


def check_epsilon(epsilon: float) -> None:
    """Raise ValueError, which says what is accepted, for an epsilon that no noise can be found for."""
    if not epsilon > 0:
        raise ValueError("should be greater than 0")
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ValueError(f"should be {_ACCEPTED}")


class BudgetError(ValueError):
    """Budgets that cannot be dealt."""


def by_levels(agents: int, levels: Sequence[tuple[float, float]], random: np.random.Generator) -> FloatArray:
    """Epsilon of each agent, shape (n,), dealt at random.

    Parameters
    ----------
    agents
        How many there are.
    levels
        (share of the agents, epsilon). The shares add up to 1; numbers are rounded by the largest remainder.
    random
        Decides which agent has which level.

    Raises
    ------
    BudgetError
        The shares do not add up to 1, an epsilon is negative or not finite, or every agent would opt out.
    """
    shares = np.array([share for share, _ in levels], dtype=np.float64)
    epsilons = np.array([epsilon for _, epsilon in levels], dtype=np.float64)
    if not levels or not np.isfinite(shares).all() or (shares < 0).any() or not math.isclose(shares.sum(), 1.0):
        raise BudgetError(f"privacy.levels: the shares must be 0 or more and add up to 1, not to {shares.sum():g}")
    if not np.isfinite(epsilons).all() or (epsilons < 0).any():
        raise BudgetError("privacy.levels: each epsilon must be a finite number, 0 (the agent never releases) or more")
    for epsilon in epsilons[epsilons > 0]:
        try:
            check_epsilon(float(epsilon))
        except ValueError as error:
            raise BudgetError(f"privacy.levels: epsilon {epsilon:g} {error}, or 0") from None
    exact = shares * agents
    counts = np.floor(exact).astype(np.intp)
    late = np.argsort(counts - exact, kind="stable")[: agents - int(counts.sum())]
    counts[late] += 1
    dealt = np.repeat(epsilons, counts)
    if not (dealt > 0).any():
        raise BudgetError("privacy.levels: every agent would opt out, so that no agent would send anything")
    return np.asarray(random.permutation(dealt))
