"""A lower bound on epsilon from exact log-likelihood ratios, as sharp as the scores allow.

An (epsilon, delta)-private mechanism has E[(1 - e^(epsilon - L))+] <= delta, where L is the log-likelihood ratio of a
release, drawn under the dataset that it speaks for (Balle and Wang 2018, Theorem 5). So an epsilon at which that mean
is above delta, beyond what chance allows, is a lower bound. A threshold (`coordinator_free.attacks.bounds`) keeps
only which side of it a score is on; the mean uses each score's size.

Rules that hold here:
- The scores must be the exact log-likelihood ratios of the law that was charged. The bound holds if the releases follow
  that law; the threshold's bound holds whatever the law.
- The mean is tested by betting (Waudby-Smith and Ramdas 2024): the wealth of a bettor that puts a fixed share on each
  score has mean at most 1 where the mean is at most delta. So has the average over shares, and by Markov it reaches
  1 / (1 - confidence) with probability 1 - confidence at most. The order of the scores does not matter.
- Wealth falls where epsilon grows, so the largest rejected epsilon is found by bisection.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from coordinator_free.attacks.bounds import check, check_scores
from coordinator_free.release import FloatArray

_SHARES: Final = np.geomspace(3e-4, 0.1, 8)
"""Shares of the wealth that are put on each score; chosen beforehand, for all data alike."""
_SMALLEST_DELTA: Final = 1e-9
"""A smaller delta is taken for this one: what is private for the smaller is private for this one."""
_WIDTH: Final = 1e-4
"""The bisection ends at intervals of this width in epsilon, at their lower end."""


def sharp_bound(first: FloatArray, second: FloatArray, delta: float, confidence: float) -> float:
    """The lower bound on epsilon that exact log-likelihood ratios show, true with probability ``confidence``.

    Parameters
    ----------
    first
        ln p1 / p2 of releases that were drawn under the first dataset, shape (n,).
    second
        The same ratio of releases that were drawn under the second, shape (n,).
    delta
        Of the promise, 0 <= delta < 1.
    confidence
        Above 0.5 and below 1.

    Raises
    ------
    BoundError
        For no scores, NaN among them, or numbers out of range.
    """
    check(delta, confidence)
    # Privacy holds in both directions, so the mean over both is at most delta too.
    ratios = np.concatenate([first, -second])
    check_scores(ratios)
    delta, needed = max(delta, _SMALLEST_DELTA), -math.log1p(-confidence)
    if _log_wealth(ratios, 0.0, delta) < needed:
        return 0.0
    low, high = 0.0, 1.0
    while high < 1e3 and _log_wealth(ratios, high, delta) >= needed:
        low, high = high, 2.0 * high
    if high >= 1e3:
        return math.inf
    while high - low > _WIDTH:
        middle = 0.5 * (low + high)
        if _log_wealth(ratios, middle, delta) >= needed:
            low = middle
        else:
            high = middle
    return low


def _log_wealth(ratios: FloatArray, epsilon: float, delta: float) -> float:
    """The logarithm of the wealth, averaged over the shares, of a bet that the mean is above ``delta``."""
    excess = np.maximum(-np.expm1(np.minimum(epsilon - ratios, 0.0)), 0.0)
    # Most scores have no excess: they are counted, not computed one by one.
    above = excess[excess > 0.0]
    stakes = _SHARES / delta
    logs = np.log1p(np.multiply.outer(stakes, above - delta)).sum(axis=1)
    logs += (ratios.size - above.size) * np.log1p(-_SHARES)
    return float(np.logaddexp.reduce(logs) - math.log(_SHARES.size))
