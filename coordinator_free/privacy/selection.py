"""What the best of a random number of private trials costs (Papernot and Steinke 2022; Liu and Talwar 2019).

A selection draws a number K, makes K trials, and shows the best outcome and nothing else: neither K nor another
outcome. Each trial is the same mechanism, mu-Gaussian in one record (`coordinator_free.privacy.analytic_gaussian`): it
draws settings at random, runs with them, and adds noise to a score. Two laws of K are known here:

    poisson    K ~ Poisson(m); for K = 0 a fixed outcome is shown          Theorem 6
    geometric  P(K = k) = (1 - 1/m)^(k-1) / m, k = 1, 2, ...               Theorem 2 with eta = 1, gamma = 1/m

Both are Renyi bounds, and are converted to (epsilon, delta) by Canonne, Kamath and Steinke (2020), Proposition 12.

Rules that hold here:
- Neighbouring datasets differ in one record's value, as for the trials' own releases.
- The fixed best of k trials has no such bound, so K must stay hidden: its law is public, its value is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Final, Literal, NamedTuple

import numpy as np

from coordinator_free.privacy.analytic_gaussian import log_delta
from coordinator_free.privacy.noise import Stream

Law = Literal["poisson", "geometric"]
LAWS: Final[tuple[Law, ...]] = ("poisson", "geometric")
_ORDERS: Final = 1.0 + np.geomspace(1e-2, 1e4, 400)
_ROUND_UP: Final = 1.0 + 1e-9
_WORDS: Final = 4
"""Random words of 64 bits behind a Poisson number: its law is met within 2^-200."""


class Selection(NamedTuple):
    """The law of the number of trials, what one trial may cost, and what the selection costs."""

    law: Law
    mean: int
    mu: float
    epsilon: float
    delta: float


def poisson_renyi(order: float, trial: float, delta: float, mean: float) -> float:
    """The Renyi divergence of the best of Poisson(``mean``) trials, from above (Papernot and Steinke 2022, Theorem 6).

    Parameters
    ----------
    order
        Above 1.
    trial
        The Renyi divergence of one trial, of that order.
    delta
        One trial is (log(1 + 1/(order - 1)), delta)-private.
    mean
        Of the number of trials, 1 or more.
    """
    return trial + mean * delta + math.log(mean) / (order - 1.0)


def geometric_renyi(order: float, trial: float, least: float, mean: float) -> float:
    """The same of a geometric number of trials (ibid., Theorem 2), with ``least`` from `geometric_least`."""
    return trial + least + math.log(mean) / (order - 1.0)


def geometric_least(renyi: Callable[[float], float], mean: float) -> float:
    """2 min over orders l of (1 - 1/l) renyi(l) + log(mean) / l: the part of Theorem 2 that has an order of its own."""
    return 2.0 * min(float((1.0 - 1.0 / order) * renyi(order) + math.log(mean) / order) for order in _ORDERS)


def epsilon_of(mu: float, mean: int, delta: float, law: Law) -> float:
    """The epsilon of a selection at ``delta``, 0 < delta < 1, from ``mean`` mu-Gaussian trials on average."""

    def renyi(order: float) -> float:
        return order * mu * mu / 2.0

    least = geometric_least(renyi, mean) if law == "geometric" else 0.0
    best = math.inf
    for order in _ORDERS:
        if law == "geometric":
            bound = geometric_renyi(order, renyi(order), least, mean)
        else:
            bound = poisson_renyi(order, renyi(order), math.exp(log_delta(math.log1p(1.0 / (order - 1.0)), mu)), mean)
        best = min(best, bound + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0))
    return max(0.0, float(best)) * _ROUND_UP


def cheapest(mu: float, mean: int, delta: float) -> Selection:
    """The selection with the cheaper of the two laws: which one that is follows from public numbers."""
    epsilon, law = min((epsilon_of(mu, mean, delta, law), law) for law in LAWS)
    return Selection(law, mean, mu, epsilon, delta)


def affordable(epsilon: float, mean: int, delta: float) -> Selection:
    """The selection whose trials may cost most, of those that cost ``epsilon`` at most; mu 0 where there is none."""
    low, high = 0.0, 1.0
    while cheapest(high, mean, delta).epsilon < epsilon:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cheapest(middle, mean, delta).epsilon <= epsilon else (low, middle)
    return cheapest(low, mean, delta) if low > 0.0 else Selection("poisson", mean, 0.0, 0.0, delta)


def drawn(law: Law, mean: int, stream: Stream) -> int:
    """A number of trials."""
    if law == "geometric":
        number = 1
        while _below(mean, stream) != 0:
            number += 1
        return number
    with localcontext() as context:
        context.prec = 90
        left = Decimal(int.from_bytes(stream.words(_WORDS).tobytes(), "little")) / Decimal(2) ** (64 * _WORDS)
        number, share = 0, Decimal(-mean).exp()
        while left >= share and share > 0:
            left -= share
            number += 1
            share *= Decimal(mean) / number
        return number


def _below(bound: int, stream: Stream) -> int:
    """A whole number from 0 to ``bound`` - 1, all equally likely."""
    most = (1 << 64) // bound * bound
    while (word := int(stream.words(1)[0])) >= most:
        pass
    return word % bound


def chosen(candidates: int, stream: Stream) -> int:
    """The number of one of so many candidates, all equally likely."""
    return _below(candidates, stream)
