"""A lower bound on epsilon from exact log-likelihood ratios, as sharp as the scores allow.

An (epsilon, delta)-private mechanism has E[(1 - e^(epsilon - L))+] <= delta, where L is the log-likelihood ratio of a
release, drawn under the dataset that it speaks for (Balle and Wang 2018, Theorem 5). So an epsilon at which that mean
is above delta, beyond what chance allows, is a lower bound. A threshold (`coordinator_free.attacks.bounds`) keeps
only which side of it a score is on; the mean uses each score's size.

Rules that hold here:
- The scores must be the exact log-likelihood ratios of the law that was charged. The bound holds if the releases follow
  that law; the threshold's bound holds whatever the law.
- The mean is tested by betting (Waudby-Smith and Ramdas 2024): a bettor puts a fixed share of its wealth on one score
  after the other. Where each has a mean of at most delta, given those before it, no wealth grows on average. So the
  average over shares ever reaches 1 / (1 - confidence) with probability 1 - confidence at most (Ville 1939).
- What counts is the largest wealth on the way, not that at the end, so the order of the scores matters a little. It is
  the order in which they are given, which no score decides.
- Shares are chosen beforehand, by delta, the confidence and the number of scores alone.
- Wealth falls where epsilon grows, so the largest rejected epsilon is found by bisection.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from coordinator_free.attacks.bounds import check, check_scores
from coordinator_free.release import FloatArray

_ALWAYS: Final = (0.001, 0.01, 0.1, 0.5)
"""Shares of the wealth that are put on each score whatever their number, each by a twentieth of the first wealth."""
_VARIANCE: Final = 0.075
"""Of an excess whose mean is delta, a quarter of its variance as a part of delta. It is near 0.3 delta for Gaussian
noise, and twice the best share for a mean of exactly delta is best for larger ones."""
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
    usual = min(0.5, math.sqrt(2.0 * needed * delta / (_VARIANCE * ratios.size)))
    shares, weights = np.array([usual, *_ALWAYS]), np.array([0.8, *[0.05] * len(_ALWAYS)])

    def shown(epsilon: float) -> bool:
        return _log_wealth(ratios, epsilon, delta, shares, weights) >= needed

    if not shown(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < 1e3 and shown(high):
        low, high = high, 2.0 * high
    if high >= 1e3:
        return math.inf
    while high - low > _WIDTH:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shown(middle) else (low, middle)
    return low


def _log_wealth(ratios: FloatArray, epsilon: float, delta: float, shares: FloatArray, weights: FloatArray) -> float:
    """The logarithm of the largest wealth on the way, averaged over the shares, of bets on means above ``delta``."""
    excess = np.maximum(-np.expm1(np.minimum(epsilon - ratios, 0.0)), 0.0)
    # Wealth falls at a score without excess, so it is largest right after one with excess, or at the beginning.
    at = np.flatnonzero(excess)
    if at.size == 0:
        return 0.0
    logs = np.log1p(np.multiply.outer(shares / delta, excess[at] - delta)).cumsum(axis=1)
    logs += np.multiply.outer(np.log1p(-shares), at - np.arange(at.size))
    return max(0.0, float(np.logaddexp.reduce(logs + np.log(weights)[:, None], axis=0).max()))
