"""The trade-off of an attack's two errors, beside the least that the accountant allows.

A decision between two datasets has a type I error (the first taken for the second) and a type II error (the reverse).
At type I error a, (epsilon, delta)-privacy allows no type II error below max(1 - delta - e^epsilon a,
e^-epsilon (1 - delta - a)) (Kairouz, Oh and Viswanath 2015, Theorem 2.1). What the accountant knows at several deltas
holds together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from coordinator_free.release import FloatArray

_POINTS: Final = 41

Curve = tuple[tuple[float, float], ...]
"""Points (type I error, type II error), from left to right."""


@dataclass(frozen=True)
class TradeOff:
    """What the attacks on ``agents`` agents reached together, and the least that is possible by the accountant."""

    mechanism: str
    agents: int
    attack: Curve
    accountant: Curve


def reached(first: FloatArray, second: FloatArray) -> Curve:
    """The errors of all thresholds on scores of runs on the first dataset (n,) and on the second (m,).

    A score of the first below the threshold is a type I error, one of the second at it or above a type II error.
    """
    levels = np.linspace(0.0, 1.0, _POINTS)
    ordered = np.sort(second)
    found = []
    for level in levels:
        threshold = np.quantile(first, level) if level < 1.0 else np.inf
        wrong = 1.0 - np.searchsorted(ordered, threshold, side="left") / ordered.size
        found.append((float((first < threshold).mean()), float(wrong)))
    return tuple(found)


def allowed(epsilons: Mapping[float, float]) -> Curve:
    """The least type II errors that epsilons, by delta, allow together."""
    found = []
    for level in np.linspace(0.0, 1.0, _POINTS):
        least = [0.0]
        for delta, epsilon in epsilons.items():
            if math.isfinite(epsilon):
                least += [1.0 - delta - math.exp(epsilon) * level, math.exp(-epsilon) * (1.0 - delta - level)]
        found.append((float(level), float(max(least))))
    return tuple(found)


DELTAS: Final[Sequence[float]] = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
"""Where the accountant is asked."""
