"""Privacy loss distributions, for exact composition.

Every function returns a distribution of dp-accounting on a grid of privacy losses with the given step. Each is
pessimistic: it dominates the mechanism that it stands for, by connecting the dots of its curve delta(epsilon)
(Doroshenko et al. 2022). The error is of second order in the step.

``multiplier`` is always scale / sensitivity. The library's own event classes are not used: under replace-one they
refuse Laplace noise and double the sensitivity of Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as library
from scipy.special import betainc, gammaincinv, gammaln, xlogy

from coordinator_free.privacy.noise import FloatArray

LossDistribution = Any  # dp_accounting's PrivacyLossDistribution, which has no types

_TAIL = 1e-17
_NODES = 96


def laplace(multiplier: float, step: float) -> LossDistribution:
    """Laplace noise: delta(epsilon) = 1 - exp((epsilon - eps0) / 2) between -eps0 and eps0 = 1 / multiplier.

    In several dimensions, with L1 sensitivity, it loses no more than in one.
    """
    epsilon = 1.0 / multiplier
    grid = _grid(epsilon, step)
    return _connect(grid, -np.expm1(np.minimum((grid * step - epsilon) / 2.0, 0.0)), epsilon, step)


def gaussian(multiplier: float, step: float) -> LossDistribution:
    """Gaussian noise; for several releases take 1 / sqrt(sum 1/multiplier^2)."""
    return library.from_gaussian_mechanism(multiplier, sensitivity=1.0, value_discretization_interval=step)


def pure(epsilon: float, step: float) -> LossDistribution:
    """Any release that is ``epsilon``-private: randomised response dominates it (Kairouz et al. 2015, Theorem 3.4).

    The library's ``from_privacy_parameters`` rounds epsilon up to a whole step, which adds up over many releases.
    """
    grid = _grid(epsilon, step)
    # delta = (e^eps0 - e^eps) / (1 + e^eps0), in a form that cannot overflow.
    return _connect(grid, -np.expm1(np.minimum(grid * step - epsilon, 0.0)) / (1.0 + math.exp(-epsilon)), epsilon, step)


def gamma_norm(multiplier: float, dimension: int, step: float) -> LossDistribution:
    """Noise with density ~ exp(-|e|_2 / scale) in ``dimension`` dimensions.

    The privacy loss is L = (|e + v| - |e|) / scale, largest for a shift v as long as the sensitivity allows. Exchanging
    the two neighbours reflects it: under the other law L is distributed as -L. Hence, for every epsilon,
    delta(epsilon) = P(L > epsilon) - e^epsilon P(L < -epsilon), with both probabilities by quadrature.
    """
    if dimension == 1:
        return laplace(multiplier, step)
    shift = 1.0 / multiplier
    # L is about s^2/(2 d) plus s times a cosine, whose deviation is 1/sqrt(d); beyond ten of these it has no mass that
    # float64 could add.
    grid = _grid(min(shift, shift * (10.0 + shift) / math.sqrt(dimension)), step)
    at_most = norm_loss_at_most(grid * step, shift, dimension)
    growth = np.exp(grid * step)
    delta = (1.0 - at_most) - growth * at_most[::-1] + quadrature_error(dimension) * (1.0 + growth)
    return _connect(grid, delta, shift, step)


def repeat(part: LossDistribution, count: int) -> LossDistribution:
    """``part``, ``count`` times, at least once."""
    return part if count == 1 else part.self_compose(count)


def compose(parts: Sequence[LossDistribution]) -> LossDistribution:
    """All of ``parts``, at least one, as a tree: neighbours of like size first."""
    level = list(parts)
    while len(level) > 1:
        paired = [level[k].compose(level[k + 1]) for k in range(0, len(level) - 1, 2)]
        level = paired + level[2 * len(paired) :]
    return level[0]


def _grid(largest: float, step: float) -> FloatArray:
    top = math.ceil(largest / step)
    return np.arange(-top, top + 1, dtype=np.float64)


def _connect(grid: FloatArray, delta: FloatArray, largest: float, step: float) -> LossDistribution:
    """The distribution with these ``delta`` on ``grid``; the loss is never above ``largest`` nor below -``largest``."""
    loss = grid * step
    least = -np.expm1(np.minimum(loss, 0.0))
    delta = np.where(np.abs(loss) < largest, np.clip(delta, least, 1.0), least)
    return library.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, np.minimum.accumulate(delta))
    )


def quadrature_error(dimension: int) -> float:
    """Bound of the error of `norm_loss_at_most`: its nodes, and the cancellation in the Gamma law's logarithm."""
    return 3e-13 + 3e-15 * dimension


def norm_loss_at_most(loss: FloatArray, shift: float, dimension: int, nodes: int = _NODES) -> FloatArray:
    """P(|e + v| - |e| <= loss) for |v| = ``shift`` and e with density ~ exp(-|e|); shape of ``loss``, dimension >= 2.

    Given |e| = R, the cosine between e and v has a beta law, and the event is cosine <= c with
    (1 + c)/2 = (shift + loss)/(2 shift) (1 - R0/R), R >= R0 = (shift - loss)/2. With R = R0 + t^2 the integrand is
    smooth in t for every dimension, so Gauss-Legendre ``nodes`` converge fast.
    """
    points, point_weights = np.polynomial.legendre.leggauss(nodes)
    inside = np.clip(loss, -shift, shift)
    start = (shift - inside) / 2.0
    first = np.sqrt(np.maximum(gammaincinv(dimension, _TAIL) - start, 0.0))
    # The Gamma law's upper quantile at 1 - 1e-17 cannot be named in float64; a Chernoff bound of it can.
    last = np.sqrt(np.maximum(dimension + math.sqrt(80.0 * dimension) + 40.0 - start, 0.0))
    half = (last - first) / 2.0
    t = first[:, None] + half[:, None] * (points + 1.0)
    radius = start[:, None] + t * t
    a = (dimension - 1) / 2.0
    below = betainc(a, a, ((shift + inside) / (2.0 * shift))[:, None] * (t * t) / radius)
    log_density = xlogy(dimension - 1, radius) - radius - gammaln(dimension)
    value = (np.exp(log_density) * below * 2.0 * t) @ point_weights * half
    return np.where(loss >= shift, 1.0, np.where(loss <= -shift, 0.0, value))
