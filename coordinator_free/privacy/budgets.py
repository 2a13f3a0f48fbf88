"""Budgets of the agents' own: not everybody minds alike what is told of them.

An agent's epsilon speaks of its own releases alone, so each agent may have its own (Jorgensen, Yu and Cormode 2015, on
personalised differential privacy). With epsilon 0 an agent opts out: it listens and never speaks.

Rules that hold here:
- Who has which budget is public, and must not depend on anybody's records: a rule may use sizes, names and chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coordinator_free.release import FloatArray


class BudgetError(ValueError):
    """Budgets that cannot be dealt."""


def by_levels(agents: int, levels: Sequence[tuple[float, float]], random: np.random.Generator) -> FloatArray:
    """Epsilon of each agent, shape (n,): of the (share, epsilon) ``levels``, dealt at random.

    The shares are of the agents and add up to 1; numbers are rounded by the largest remainder. Raises `BudgetError`.
    """
    shares = np.array([share for share, _ in levels], dtype=np.float64)
    epsilons = np.array([epsilon for _, epsilon in levels], dtype=np.float64)
    if not levels or not np.isfinite(shares).all() or (shares < 0).any() or not math.isclose(shares.sum(), 1.0):
        raise BudgetError(f"privacy.levels: the shares must be 0 or more and add up to 1, not to {shares.sum():g}")
    if not np.isfinite(epsilons).all() or (epsilons < 0).any():
        raise BudgetError("privacy.levels: each epsilon must be a finite number, 0 (listens only) or more")
    exact = shares * agents
    counts = np.floor(exact).astype(np.intp)
    late = np.argsort(counts - exact, kind="stable")[: agents - int(counts.sum())]
    counts[late] += 1
    dealt = np.repeat(epsilons, counts)
    if not (dealt > 0).any():
        raise BudgetError("privacy.levels: every agent would opt out, and nobody would speak")
    return np.asarray(random.permutation(dealt))
