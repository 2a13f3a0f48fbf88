"""The noise that a total budget buys for rounds of objective perturbation, by the accountant itself.

A round loses its Jacobian's part for certain, and a random part that composes far better. So the Jacobians may take
`SHARE` of epsilon; where the curvature that a round has anyway makes them take more, either curvature is added, or the
noise is increased, whichever needs less noise.

Rules that hold here:
- The result never costs more than the budget, and at least 99% of it.
- A Jacobian's loss is a public number: sizes, degrees, penalties and bounds.
- Jacobians are rounded up to a public grid, so that agents of nearly equal sizes need one search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.gaussian_objective_perturbation import OBJECTIVE_NOISE
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import FloatArray
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation

SHARE = 0.5
"""Part of epsilon that the Jacobians may take before curvature is added."""
LAST_SHARE = 0.25
"""Part of epsilon that a last round of another kind would cost alone."""
_STEPS = 256.0
"""Steps of the grid of Jacobians in the whole budget."""
_MARGIN = 1e-4


class Bought(NamedTuple):
    """``multiplier``: scale / sensitivity of the noise; ``jacobian``: the most that a round's Jacobian may lose."""

    multiplier: float
    jacobian: float


def buy_rounds(
    jacobians: Sequence[float],
    epsilon: float,
    delta: float,
    dimension: int,
    *,
    adds_curvature: bool,
    family: str = "gamma-norm",
    shares: Sequence[float] | None = None,
) -> Bought | None:
    """The noise of rounds with these Jacobian losses; None where they leave nothing of the budget.

    Parameters
    ----------
    jacobians
        The loss of each round's Jacobian without any curvature that is added.
    epsilon, delta
        The budget of all rounds together.
    dimension
        Of a release.
    adds_curvature
        Whether a round may add curvature, so that its Jacobian loses less.
    family
        Of the noise: "gamma-norm", or "gaussian", which needs ``delta`` > 0.
    shares
        Weights of sensitivity / scale of each round, the largest is 1; None: all rounds alike.

    Returns
    -------
    The multiplier of a round with the share 1; that of another round is this one divided by its share.
    """
    rounds = len(jacobians)
    largest = max(jacobians)
    each = tuple(shares or (1.0,) * rounds)
    found = _multiplier(_rounded_up(jacobians, epsilon / (_STEPS * rounds)), each, epsilon, delta, dimension, family)
    if adds_curvature and sum(jacobians) > SHARE * epsilon:
        most = SHARE * epsilon / rounds
        with_curvature = _multiplier(
            _rounded_up([min(j, most) for j in jacobians], epsilon / (_STEPS * rounds)),
            each,
            epsilon,
            delta,
            dimension,
            family,
        )
        if with_curvature is not None and (found is None or with_curvature < found):
            return Bought(with_curvature, most)
    return None if found is None else Bought(found, largest)


def buy_with_a_last(
    family: str, shares: Sequence[float], jacobian: float, epsilon: float, delta: float, dimension: int
) -> tuple[FloatArray, float] | None:
    """Multipliers of releases of ``family`` with these ``shares`` and a last one in an objective; and as in `Bought`.

    ``jacobian`` is that of the last one, which may add curvature. None where nothing is left of the budget.
    """
    share = LAST_SHARE * epsilon if shares else epsilon
    last = buy_rounds([jacobian], share, delta, dimension, adds_curvature=True)
    if last is None or not shares:
        return None if last is None else (np.array([last.multiplier]), last.jacobian)
    end = ObjectivePerturbation(1.0, last.multiplier, min(jacobian, last.jacobian), dimension)

    def spent(inverse: float) -> float:
        return _epsilon([*(mechanism(family, 1.0, 1.0 / (inverse * s), dimension) for s in shares), end], delta)

    inverse = _largest(spent, epsilon / (4.0 * math.sqrt(len(shares) + 1)), epsilon)
    if inverse is None:
        return None
    return np.append(1.0 / (inverse * np.asarray(shares)), last.multiplier), last.jacobian


def _rounded_up(jacobians: Sequence[float], step: float) -> tuple[float, ...]:
    return tuple(math.ceil(jacobian / step) * step for jacobian in jacobians)


@lru_cache(maxsize=512)
def _multiplier(
    jacobians: tuple[float, ...], shares: tuple[float, ...], epsilon: float, delta: float, dimension: int, family: str
) -> float | None:
    noise = OBJECTIVE_NOISE[family]

    def spent(shift: float) -> float:
        rounds = zip(shares, jacobians, strict=True)
        return _epsilon([noise(1.0, 1.0 / (shift * share), j, dimension) for share, j in rounds], delta)

    shift = _largest(spent, epsilon / sum(shares), epsilon)
    return None if shift is None else 1.0 / shift


def _largest(spent: Callable[[float], float], guess: float, budget: float) -> float | None:
    """An argument that costs nearly ``budget`` and no more, searched from ``guess``; None where none costs so little.

    ``spent`` grows, and is near to a straight line; every third step halves the bracket, so that nothing rests on that.
    """
    most, least = budget * (1.0 - _MARGIN), budget * (1.0 - 8.0 * _MARGIN)
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    at = guess
    for step in range(100):
        cost = spent(at)
        if least <= cost <= most:
            return at
        low, high = ((at, cost), high) if cost < least else (low, (at, cost))
        if high is None:
            at *= min(4.0, max(1.2, 1.1 * most / cost)) if cost > 0.0 else 4.0
        elif low is None:
            at *= max(0.25, min(0.8, 0.9 * most / cost))
            if at < 1e-6 * guess:
                return None
        elif step % 3 == 2:
            at = (low[0] + high[0]) / 2.0
        else:
            share = ((most + least) / 2.0 - low[1]) / (high[1] - low[1])
            at = low[0] + min(0.95, max(0.05, share)) * (high[0] - low[0])
    return None if low is None else low[0]


def _epsilon(mechanisms: list[Mechanism], delta: float) -> float:
    from coordinator_free.privacy.accounting import total

    return total(mechanisms, delta).epsilon
