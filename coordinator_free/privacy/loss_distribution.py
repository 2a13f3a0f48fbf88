"""Privacy loss distributions of single releases; `coordinator_free.privacy.composition` composes them.

Each function returns the `Losses` of one release on a grid of privacy losses. It is pessimistic: it dominates the
mechanism that it stands for. A mass between two grid points is moved onto them so that its probability under both
neighbouring laws stays (Doroshenko et al. 2022, "connect the dots"); the error is of second order in the step.

``multiplier`` is always scale / sensitivity.

Rules that hold here:
- Every mass is computed with a small *relative* error, far into the tails, except that of `gamma_norm`, which has an
  absolute one (`quadrature_error`) and books it.
- The size of every grid is bounded: a budget question takes bounded memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import betainc, erfcx, gammainc, gammaincc, gammaincinv, gammaln, log_ndtr, xlogy

from coordinator_free.privacy.noise import FloatArray

MOST_CELLS = 1 << 21
"""Grid cells of one distribution, at most."""
MOST_QUADRATURES = 1 << 13
"""Grid cells of a distribution that needs a quadrature of the beta law for each, at most."""
NEGLIGIBLE = 50.0
"""exp of minus this is no part of any delta here."""
LARGEST_GROWTH = 600.0
"""The exponential of a larger loss is no float64 that could be computed with."""
_TAIL = 1e-17
_NODES = 96


class TooLargeError(ValueError):
    """A loss so large that this way of computing has no number for it; another accountant answers."""


@dataclass(frozen=True)
class Losses:
    """A distribution of privacy losses: ``mass[k]`` at ``(lowest + k) * step``, and ``infinite`` above all.

    ``relative`` says that each mass has a small relative error, so that it may be tilted.
    """

    step: float
    lowest: int
    mass: FloatArray
    infinite: float = 0.0
    relative: bool = True

    @property
    def loss(self) -> FloatArray:
        """The grid, shape of ``mass``."""
        return grid(self.lowest, self.lowest + self.mass.size - 1, self.step)


def coarsest(step: float, width: float, cells: int = MOST_CELLS) -> float:
    """``step``, doubled until a grid over ``width`` has at most ``cells`` cells."""
    return step * 2.0 ** max(0, math.ceil(math.log2(max(width, step) / (step * cells))))


# --- one release -----------------------------------------------------------------------------------------------------


def laplace_width(multiplier: float) -> float:
    """Width of the grid of `laplace`, and of `pure` with epsilon = 1 / multiplier."""
    return min(2.0 / multiplier, 4.0 * NEGLIGIBLE)


def laplace(multiplier: float, step: float) -> Losses:
    """Laplace noise: atoms 1/2 at eps0 = 1 / multiplier and exp(-eps0)/2 at -eps0, between them exp((l - eps0)/2)/4.

    In several dimensions, with L1 sensitivity, it loses no more than in one.
    """
    epsilon = 1.0 / multiplier
    bottom, top = _ends(epsilon, step)
    left = grid(bottom, top - 1, step)
    here, there = np.maximum(left, -epsilon), np.minimum(left + step, epsilon)
    width = np.maximum(there - here, 0.0)
    density = np.exp((here - epsilon) / 2.0) / 2.0
    inside = density * np.expm1(width / 2.0)
    other = -density * np.expm1(-width / 2.0) * np.exp(left - here)
    mass = onto_the_grid(inside, other, step)
    _add_atom(mass, bottom, step, epsilon, 0.5)
    _add_atom(mass, bottom, step, -epsilon, math.exp(-epsilon) / 2.0)
    mass[0] += math.exp((min(left[0], epsilon) - epsilon) / 2.0) / 2.0 if left[0] > -epsilon else 0.0
    return Losses(step, bottom, mass)


def gaussian(multiplier: float, step: float) -> Losses:
    """Gaussian noise; for several releases take 1 / sqrt(sum 1/multiplier^2). The loss is N(mu^2/2, mu^2)."""
    mu = 1.0 / multiplier
    reach = 12.0 + math.sqrt(2.0 * 16.0 * NEGLIGIBLE)  # deviations; beyond them less than any delta here
    bottom, top = math.floor((mu * mu / 2.0 - reach * mu) / step), math.ceil((mu * mu / 2.0 + reach * mu) / step)
    loss = grid(bottom, top, step)
    mass = _log_interval(loss / mu - mu / 2.0)
    other = _log_interval(loss / mu + mu / 2.0) + loss[:-1]
    return Losses(step, bottom, onto_the_grid(np.exp(mass), np.exp(other), step))


def pure(epsilon: float, step: float) -> Losses:
    """Any release that is ``epsilon``-private: randomised response dominates it (Kairouz et al. 2015, Theorem 3.4)."""
    bottom, top = _ends(epsilon, step)
    mass = np.zeros(top - bottom + 1)
    true = 1.0 / (1.0 + math.exp(-epsilon))
    _add_atom(mass, bottom, step, epsilon, true)
    _add_atom(mass, bottom, step, -epsilon, true * math.exp(-epsilon))
    return Losses(step, bottom, mass)


def gamma_norm_width(multiplier: float, dimension: int) -> float:
    """Width of the grid of `gamma_norm`."""
    # L is about s^2/(2 d) plus s times a cosine, whose deviation is 1/sqrt(d); beyond ten of these it has no mass that
    # float64 could add.
    shift = 1.0 / multiplier
    return 2.0 * min(shift, shift * (10.0 + shift) / math.sqrt(dimension))


def gamma_norm(multiplier: float, dimension: int, step: float) -> Losses:
    """Noise with density ~ exp(-|e|_2 / scale) in ``dimension`` dimensions.

    The privacy loss is L = (|e + v| - |e|) / scale, largest for a shift v as long as the sensitivity allows. Exchanging
    the two neighbours reflects it: under the other law L is distributed as -L. Hence, for every epsilon,
    delta(epsilon) = P(L > epsilon) - e^epsilon P(L < -epsilon), with both probabilities by quadrature. Raises
    `TooLargeError`.
    """
    if dimension == 1:
        return laplace(multiplier, step)
    shift = 1.0 / multiplier
    top = math.ceil(gamma_norm_width(multiplier, dimension) / 2.0 / step)
    if top * step > LARGEST_GROWTH:
        raise TooLargeError(f"a loss of {top * step:g}")
    loss = grid(-top, top, step)
    at_most = norm_loss_at_most(loss, shift, dimension)
    growth = np.exp(loss)
    delta = (1.0 - at_most) - growth * at_most[::-1] + quadrature_error(dimension) * (1.0 + growth)
    least = -np.expm1(np.minimum(loss, 0.0))
    delta = np.where(np.abs(loss) < shift, np.clip(delta, least, 1.0), least)
    return _from_delta(step, -top, np.minimum.accumulate(delta))


def plane_width(shift: float) -> float:
    """Width of the grid of `plane_gamma`."""
    return shift


def plane_gamma(shift: float, dimension: int, step: float) -> Losses:
    """A bound of |e + D| - |e| for e with density ~ exp(-|e|) in ``dimension`` dimensions and D in a fixed plane.

    D, at most ``shift`` long, may depend on e: this is objective perturbation, whose shift depends on the release but
    stays in the plane of the two records. With R = |e| ~ Gamma(dimension) and rho^2 ~ Beta(1, (dimension - 2)/2) the
    share of e in the plane, the loss is at most U = sqrt(R^2 + 2 R rho shift + shift^2) - R whatever D is, and the law
    of U does not depend on earlier releases. So the losses of several releases are at most a sum of independent U.
    """
    top = max(1, math.ceil(shift / step))
    above = plane_loss_above(grid(0, 2 * top, step / 2.0), shift, dimension)  # at the ends and middles of the cells
    above[0], above[-1] = 1.0, 0.0
    below_middle = np.maximum(above[1::2] - above[2::2], 0.0)
    inside = np.maximum(above[:-2:2] - above[2::2], 0.0)
    # inside - other = integral over the cell of exp(-x) (P(U > left + x) - P(U > right)), by Simpson's rule; the
    # thousandth more is far above its error.
    less = step / 6.0 * (inside + 4.0 * math.exp(-step / 2.0) * below_middle) + 1e-3 * step * inside
    return Losses(step, 0, onto_the_grid(inside, inside - less, step))


def plane_loss_above(loss: FloatArray, shift: float, dimension: int, nodes: int = 64) -> FloatArray:
    """P(U > loss) for the U of `plane_gamma`; shape of ``loss``.

    Given R, U > u where rho > c = (2 R u + u^2 - shift^2) / (2 R shift), and P(rho > c) = (1 - c^2)^((dimension-2)/2).
    """
    d, u = dimension, np.asarray(loss, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        start = np.where(u > 0.0, (shift * shift - u * u) / (2.0 * u), np.inf)  # below this R the cosine is not bounded
    if d <= 2:  # the plane is everything: rho = 1, and U = shift
        return np.where(u < shift, 1.0, 0.0)
    far = d + math.sqrt(2.0 * 8.0 * NEGLIGIBLE * d) + 8.0 * NEGLIGIBLE
    points, weights = np.polynomial.legendre.leggauss(nodes)
    first = np.minimum(np.maximum(start, gammaincinv(d, 1e-300)), far)
    # Three panels: the Gamma law is narrow beside its reach where the dimension is large.
    knots = np.clip(np.array([-np.inf, d - 9.0 * math.sqrt(d), d + 9.0 * math.sqrt(d), np.inf]), None, far)
    value = gammainc(d, start)
    for low, high in pairwise(knots):
        a, b = np.maximum(first, low), np.maximum(first, high)
        half = (b - a) / 2.0
        radius = a[:, None] + half[:, None] * (points + 1.0)
        cosine = (2.0 * radius * u[:, None] + (u * u - shift * shift)[:, None]) / (2.0 * radius * shift)
        sine_squared = np.maximum(1.0 - np.clip(cosine, 0.0, 1.0) ** 2, 1e-300)
        log_share = (d - 2) / 2.0 * np.log(sine_squared)
        value += (np.exp(xlogy(d - 1, radius) - radius - gammaln(d) + log_share) @ weights) * half
    value += gammaincc(d, far)
    return np.where(u >= shift, 0.0, np.minimum(value, 1.0))


def plane_gaussian_width(shift: float) -> float:
    """Width of the grid of `plane_gaussian`."""
    return shift * math.sqrt(2.0 * 16.0 * NEGLIGIBLE)


def plane_gaussian(shift: float, step: float) -> Losses:
    """The loss shift r + shift^2/2, r Rayleigh(1): a bound for Gaussian noise in an objective, of deviation 1.

    As in `plane_gamma` the shift of the noise depends on the release and stays in a plane, and r is the length of the
    noise there.
    """
    start = math.floor(shift * shift / 2.0 / step)
    top = start + math.ceil(plane_gaussian_width(shift) / step) + 2
    loss = grid(start, top, step)
    r = np.maximum(loss - shift * shift / 2.0, 0.0) / shift
    # P of a cell is a difference of exp(-r^2/2); its mean of exp(-loss) comes from the same integral, by parts.
    log_above = -r * r / 2.0
    inside = -np.exp(log_above[:-1]) * np.expm1(log_above[1:] - log_above[:-1])
    tail = np.exp(log_above) * (1.0 - shift * math.sqrt(math.pi / 2.0) * erfcx((r + shift) / math.sqrt(2.0)))
    # tail(r) = exp(shift r) * integral from r on of x exp(-x^2/2 - shift x) dx
    other = tail[:-1] - tail[1:] * np.exp(-shift * np.diff(r))
    late = (r[:-1] * shift + shift * shift / 2.0) - loss[:-1]
    return Losses(step, start, onto_the_grid(inside, np.maximum(other, 0.0) * np.exp(-late), step))


# --- putting them on a grid ------------------------------------------------------------------------------------------


def grid(lowest: int, highest: int, step: float) -> FloatArray:
    """The losses ``lowest`` * step to ``highest`` * step, one a step."""
    return np.arange(lowest, highest + 1, dtype=np.float64) * step


def _ends(epsilon: float, step: float) -> tuple[int, int]:
    """First and last grid point of a loss between -epsilon and epsilon that is mostly near its top."""
    top = math.ceil(epsilon / step)
    return max(-top, top - math.ceil(4.0 * NEGLIGIBLE / step)), top


def onto_the_grid(inside: FloatArray, other: FloatArray, step: float) -> FloatArray:
    """Masses on the n + 1 ends of n cells, from each cell's mass and its mean of exp(-(loss - left end))."""
    upper = np.clip((inside - other) / -math.expm1(-step), 0.0, inside)
    mass = np.zeros(inside.size + 1)
    mass[:-1] = inside - upper
    mass[1:] += upper
    return mass


def _add_atom(mass: FloatArray, bottom: int, step: float, loss: float, probability: float) -> None:
    place = loss / step - bottom
    if place <= 0.0:
        mass[0] += probability
        return
    left = min(int(place), mass.size - 2)
    upper = -math.expm1(-(place - left) * step) / -math.expm1(-step)
    mass[left] += probability * (1.0 - min(upper, 1.0))
    mass[left + 1] += probability * min(upper, 1.0)


def _from_delta(step: float, lowest: int, delta: FloatArray) -> Losses:
    """The distribution whose delta(epsilon) goes through ``delta`` on the grid (Doroshenko et al. 2022)."""
    fall = -np.diff(delta)
    mass = np.zeros(delta.size)
    grow = math.expm1(step)
    mass[0] = 1.0 - delta[0] - fall[0] / grow
    mass[1:-1] = (math.exp(step) * fall[:-1] - fall[1:]) / grow
    mass[-1] = math.exp(step) * fall[-1] / grow
    return Losses(step, lowest, np.maximum(mass, 0.0), float(delta[-1]), relative=False)


def _log_interval(at: FloatArray) -> FloatArray:
    """log(Phi(b) - Phi(a)) of neighbouring values a < b of ``at``, with a small relative error in both tails."""
    a, b = at[:-1], at[1:]
    low, high = np.where(a > 0.0, -b, a), np.where(a > 0.0, -a, b)
    bigger, smaller = log_ndtr(high), log_ndtr(low)
    found: FloatArray = bigger + np.log(-np.expm1(smaller - bigger))
    return found


# --- the norm of gamma-norm noise ------------------------------------------------------------------------------------


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
