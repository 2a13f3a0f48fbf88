"""Budgets for releases that are known by a pure epsilon each, such as objective perturbation.

Rules that hold here:
- A multiplier of such a release is 1 / (its epsilon).
- The result never costs more than the budget, by the accountant itself and not by an approximation of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import FloatArray
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation

LAST_SHARE = 0.25
"""Part of epsilon that a last round of another kind gets."""


def pure(epsilon: float) -> ObjectivePerturbation:
    """A stand-in of that cost: an accountant reads nothing of it but the multiplier."""
    return ObjectivePerturbation(sensitivity=epsilon, scale=1.0, jacobian=0.0, dimension=1)


def calibrate_pure(releases: int, epsilon: float, delta: float) -> FloatArray:
    """Multipliers of equal pure releases that cost ``epsilon`` at ``delta`` together; shape (releases,)."""

    def spent(each: float) -> float:
        return _epsilon([pure(each)] * releases, delta)

    # Composition never costs more than the sum, nor less than one release alone with its delta.
    each = _largest(spent, epsilon / releases, epsilon + math.log1p(1.0) + 1.0, epsilon)
    return np.full(releases, 1.0 / each)


def calibrate_with_pure_end(
    family: str, releases: int, epsilon: float, delta: float, dimension: int | None = None
) -> FloatArray:
    """Multipliers of ``releases`` - 1 releases of ``family`` and a pure last one with `LAST_SHARE` of ``epsilon``."""
    last = LAST_SHARE * epsilon if releases > 1 else epsilon
    if releases == 1:
        return calibrate_pure(1, epsilon, delta)

    def spent(inverse: float) -> float:
        one: Mechanism = mechanism(family, 1.0, 1.0 / inverse, dimension or 1)
        return _epsilon([one] * (releases - 1) + [pure(last)], delta)

    inverse = _largest(spent, (epsilon - last) / (50.0 * releases), epsilon, epsilon)
    return np.append(np.full(releases - 1, 1.0 / inverse), 1.0 / last)


def _largest(spent: Callable[[float], float], low: float, high: float, budget: float) -> float:
    """The largest argument that costs at most ``budget``, to one part in 100,000; ``spent`` grows, ``low`` fits."""
    while high / low > 1.0 + 1e-5:
        middle = math.sqrt(low * high)
        if spent(middle) <= budget:
            low = middle
        else:
            high = middle
    return low


def _epsilon(mechanisms: list[Mechanism], delta: float) -> float:
    from coordinator_free.privacy.accounting import total

    return total(mechanisms, delta).epsilon
