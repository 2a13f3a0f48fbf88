"""Lower bounds on epsilon from one run: by how many of its canaries an attack names rightly, and by exact scores.

Each canary has one of two values, as a fair coin chose. An attack names values after the run, from everything that was
released. If each agent's releases are (epsilon, delta)-private for each of its canaries, too many right names are
unlikely, whatever the attack and whatever the law of the noise.

For epsilon alone each name is right with probability at most e^epsilon / (1 + e^epsilon), given all the others. So r
names have at least v right ones with probability at most b(v) = P(Binomial(r, e^epsilon / (1 + e^epsilon)) >= v), and
with delta and m canaries at most b(v) + 2 m delta max_i (b(v - i) - b(v)) / i (Steinke, Nasr and Jagielski 2023,
Privacy auditing with one training run). That holds for all canaries, also for several of one agent.

Exact scores, the log-likelihood ratios of the charged law, go into the sharp bound
(`coordinator_free.attacks.divergence_bound`). That trusts the coins, so it is used only where these fit the releases
better than others: coins that have nothing to do with the releases give each score either sign with probability 1/2,
whatever its size, and 1,999 such draws are compared with the true one.

Rules that hold here:
- How many names are given is fixed beforehand, at a few shares of all canaries; the confidence is divided among these.
- A score of exactly 0 names nothing: it counts as wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import binom

from coordinator_free.attacks.bounds import check, check_scores
from coordinator_free.attacks.divergence_bound import sharp_bound
from coordinator_free.release import FloatArray

_SHARES: Final = (1.0, 1.0 / 3.0, 1.0 / 10.0, 1.0 / 30.0)
"""Of the canaries, those that are named: with the largest scores."""
_FEWEST: Final = 8
"""Fewer names show little; then only all are named."""
_LARGEST: Final = 50.0
"""No count of names shows more."""
_DRAWS: Final = 1999
"""Coins that chance alone decides, for the comparison with true ones."""
_STEP: Final = 0.05
_WIDTH: Final = 1e-4
"""Epsilon is sought in steps from 0 up, then by bisection to this width."""


@dataclass(frozen=True)
class Named:
    """``right`` of ``names`` are right, and so epsilon is at least ``epsilon``, at the confidence asked for."""

    epsilon: float
    names: int
    right: int


def named_bound(scores: FloatArray, delta: float, confidence: float) -> Named:
    """The lower bound on epsilon that the names of canaries show, true with probability ``confidence``.

    Parameters
    ----------
    scores
        One for each canary, shape (n,): how much the attack speaks for the value that the canary had, negative where
        it speaks for the other. The sizes decide which canaries are named first.
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
    check_scores(scores)
    counts = sorted({scores.size, *(k for share in _SHARES if (k := round(share * scores.size)) >= _FEWEST)})
    # The order among equal sizes must not know which are right.
    surest = scores[np.argsort(-np.abs(scores), kind="stable")]
    level = (1.0 - confidence) / len(counts)
    found = [_named(int((surest[:names] > 0.0).sum()), names, scores.size, delta, level) for names in counts]
    return max(found, key=lambda one: one.epsilon)


def coin_bound(scores: FloatArray, delta: float, confidence: float) -> float:
    """The lower bound on epsilon that exact scores show; 0 unless the coins fit the releases better than others.

    Of coins that have nothing to do with the releases it shows more than 0 with probability 1 - ``confidence`` at most.
    Parameters and errors are those of `named_bound`; ``scores`` are log-likelihood ratios of the charged law.
    """
    sharp = sharp_bound(scores, np.empty(0), delta, confidence)
    return sharp if sharp > 0.0 and _unlike_chance(scores) <= 1.0 - confidence else 0.0


def agreement(scores: FloatArray) -> float:
    """How much better the coins fit the releases than coins that have nothing to do with them, as a logarithm.

    Given the releases, a true coin fell as it did with probability 1 / (1 + e^-score), another one with 1/2. So the
    inverse of the product of these ratios has mean 1 for true coins, and by Markov the result is below ln(level) with
    probability ``level`` at most.
    """
    return float((math.log(2.0) - np.logaddexp(0.0, -scores)).sum())


def _unlike_chance(scores: FloatArray) -> float:
    """The p-value of scores whose signs chance alone decides: exact, since the true signs are one of the draws then."""
    weights = np.tanh(np.abs(scores) / 2.0)
    reached = float((weights * np.sign(scores)).sum())
    bits = np.random.default_rng(0).integers(0, 2, size=(_DRAWS, scores.size), dtype=np.int8)
    drawn = 2.0 * (bits @ weights) - weights.sum()
    return float(1 + (drawn >= reached).sum()) / (_DRAWS + 1)


def _named(right: int, names: int, canaries: int, delta: float, level: float) -> Named:
    """The largest epsilon up to which every epsilon is too small for so many right names."""
    if _chance(right, names, canaries, 0.0, delta) > level:
        return Named(0.0, names, right)
    low = 0.0
    while low < _LARGEST and _chance(right, names, canaries, low + _STEP, delta) <= level:
        low += _STEP
    high = low + _STEP
    while high - low > _WIDTH:
        middle = 0.5 * (low + high)
        if _chance(right, names, canaries, middle, delta) <= level:
            low = middle
        else:
            high = middle
    return Named(low, names, right)


def _chance(right: int, names: int, canaries: int, epsilon: float, delta: float) -> float:
    """A bound of the probability of so many right names under (epsilon, delta)-privacy; it grows with epsilon."""
    fewer = np.arange(1, right + 1)
    truth = 1.0 / (1.0 + np.exp(-epsilon))
    enough = float(binom.sf(right - 1, names, truth))
    near = np.cumsum(binom.pmf(right - fewer, names, truth)) / fewer
    return enough + 2.0 * canaries * delta * float(near.max(initial=0.0))
