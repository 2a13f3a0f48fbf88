"""Side channels: whether release times or sizes tell an agent's data size or values.

Epsilon covers the content of releases, not their times and sizes. Here each measure of an agent's traffic is
correlated, over agents, with each number of its data.

Rules that hold here:
- Spearman's rank correlation: any monotone relation shows, and no single outlier decides.
- p-values are two-sided, exact by enumeration for few agents, and reported beside their Bonferroni correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy import stats

from coordinator_free.release import FloatArray

_EXACT = 7
"""Up to this many agents all orders are enumerated."""


@dataclass(frozen=True)
class Correlation:
    """Spearman's ``rho`` between a measure of the traffic and a number of the data; ``p_value`` is two-sided.

    ``corrected`` is the p-value times the number of pairs looked at. A ``constant`` measure tells nothing.
    """

    measure: str
    data: str
    rho: float
    p_value: float
    corrected: float
    constant: bool


def correlations(measures: Mapping[str, FloatArray], data: Mapping[str, FloatArray]) -> list[Correlation]:
    """Every measure with every number, arrays of shape (n agents,); the most telling first."""
    found = []
    pairs = max(1, len(measures) * len(data))
    for measure, values in measures.items():
        for name, numbers in data.items():
            rho, p_value, constant = _spearman(values, numbers)
            found.append(Correlation(measure, name, rho, p_value, min(1.0, pairs * p_value), constant))
    return sorted(found, key=lambda c: (c.p_value, c.measure, c.data))


def _spearman(a: FloatArray, b: FloatArray) -> tuple[float, float, bool]:
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0, 1.0, True
    ranks = stats.rankdata(a), stats.rankdata(b)
    x, y = (r - r.mean() for r in ranks)
    size = float(np.sqrt((x @ x) * (y @ y)))
    rho = float(x @ y) / size
    if a.size <= _EXACT:
        every = np.array(list(permutations(y)))
        p_value = float(np.mean(np.abs(every @ x) >= abs(rho) * size * (1.0 - 1e-12)))
    else:
        t = rho * np.sqrt((a.size - 2) / max(1e-300, 1.0 - rho * rho))
        p_value = float(2.0 * stats.t.sf(abs(t), a.size - 2))
    return rho, p_value, False
