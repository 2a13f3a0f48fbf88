"""Privacy loss distributions and their exact composition.

Each function returns the `Losses` of one release on a grid of privacy losses. It is pessimistic: it dominates the
mechanism that it stands for. A mass between two grid points is moved onto them so that its probability under both
neighbouring laws stays (Doroshenko et al. 2022, "connect the dots"); the error is of second order in the step.

``multiplier`` is always scale / sensitivity.

Rules that hold here:
- Every mass is computed with a small *relative* error, far into the tails, except that of `gamma_norm`, which has an
  absolute one (`quadrature_error`) and books it.
- `composed_epsilon` tilts each distribution towards the loss that it looks for, before the Fourier transform. Rounding
  is then small beside delta, for every delta, and what is left of it is added to the masses.
- The size of every grid is bounded: a budget question takes bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.signal import lfilter
from scipy.special import betainc, erfcx, gammainc, gammaincc, gammaincinv, gammaln, log_ndtr, logsumexp, xlogy

from coordinator_free.privacy.noise import FloatArray

MOST_CELLS = 1 << 21
"""Grid cells of one distribution, at most."""
MOST_QUADRATURES = 1 << 13
"""Grid cells of a distribution that needs a quadrature of the beta law for each, at most."""
_NEGLIGIBLE = 50.0
"""exp of minus this is no part of any delta here."""
_LARGEST_GROWTH = 600.0
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
        return _grid(self.lowest, self.lowest + self.mass.size - 1, self.step)


def coarsest(step: float, width: float, cells: int = MOST_CELLS) -> float:
    """``step``, doubled until a grid over ``width`` has at most ``cells`` cells."""
    return step * 2.0 ** max(0, math.ceil(math.log2(max(width, step) / (step * cells))))


# --- one release -----------------------------------------------------------------------------------------------------


def laplace_width(multiplier: float) -> float:
    """Width of the grid of `laplace`, and of `pure` with epsilon = 1 / multiplier."""
    return min(2.0 / multiplier, 4.0 * _NEGLIGIBLE)


def laplace(multiplier: float, step: float) -> Losses:
    """Laplace noise: atoms 1/2 at eps0 = 1 / multiplier and exp(-eps0)/2 at -eps0, between them exp((l - eps0)/2)/4.

    In several dimensions, with L1 sensitivity, it loses no more than in one.
    """
    epsilon = 1.0 / multiplier
    bottom, top = _ends(epsilon, step)
    left = _grid(bottom, top - 1, step)
    here, there = np.maximum(left, -epsilon), np.minimum(left + step, epsilon)
    width = np.maximum(there - here, 0.0)
    density = np.exp((here - epsilon) / 2.0) / 2.0
    inside = density * np.expm1(width / 2.0)
    other = -density * np.expm1(-width / 2.0) * np.exp(left - here)
    mass = _onto_the_grid(inside, other, step)
    _add_atom(mass, bottom, step, epsilon, 0.5)
    _add_atom(mass, bottom, step, -epsilon, math.exp(-epsilon) / 2.0)
    mass[0] += math.exp((min(left[0], epsilon) - epsilon) / 2.0) / 2.0 if left[0] > -epsilon else 0.0
    return Losses(step, bottom, mass)


def gaussian(multiplier: float, step: float) -> Losses:
    """Gaussian noise; for several releases take 1 / sqrt(sum 1/multiplier^2). The loss is N(mu^2/2, mu^2)."""
    mu = 1.0 / multiplier
    reach = 12.0 + math.sqrt(2.0 * 16.0 * _NEGLIGIBLE)  # deviations; beyond them less than any delta here
    bottom, top = math.floor((mu * mu / 2.0 - reach * mu) / step), math.ceil((mu * mu / 2.0 + reach * mu) / step)
    grid = _grid(bottom, top, step)
    mass = _log_interval(grid / mu - mu / 2.0)
    other = _log_interval(grid / mu + mu / 2.0) + grid[:-1]
    return Losses(step, bottom, _onto_the_grid(np.exp(mass), np.exp(other), step))


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
    if top * step > _LARGEST_GROWTH:
        raise TooLargeError(f"a loss of {top * step:g}")
    loss = _grid(-top, top, step)
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
    above = plane_loss_above(_grid(0, 2 * top, step / 2.0), shift, dimension)  # at the ends and middles of the cells
    above[0], above[-1] = 1.0, 0.0
    below_middle = np.maximum(above[1::2] - above[2::2], 0.0)
    inside = np.maximum(above[:-2:2] - above[2::2], 0.0)
    # inside - other = integral over the cell of exp(-x) (P(U > left + x) - P(U > right)), by Simpson's rule; the
    # thousandth more is far above its error.
    less = step / 6.0 * (inside + 4.0 * math.exp(-step / 2.0) * below_middle) + 1e-3 * step * inside
    return Losses(step, 0, _onto_the_grid(inside, inside - less, step))


def plane_loss_above(loss: FloatArray, shift: float, dimension: int, nodes: int = 64) -> FloatArray:
    """P(U > loss) for the U of `plane_gamma`; shape of ``loss``.

    Given R, U > u where rho > c = (2 R u + u^2 - shift^2) / (2 R shift), and P(rho > c) = (1 - c^2)^((dimension-2)/2).
    """
    d, u = dimension, np.asarray(loss, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        start = np.where(u > 0.0, (shift * shift - u * u) / (2.0 * u), np.inf)  # below this R the cosine is not bounded
    if d <= 2:  # the plane is everything: rho = 1, and U = shift
        return np.where(u < shift, 1.0, 0.0)
    far = d + math.sqrt(2.0 * 8.0 * _NEGLIGIBLE * d) + 8.0 * _NEGLIGIBLE
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
    return shift * math.sqrt(2.0 * 16.0 * _NEGLIGIBLE)


def plane_gaussian(shift: float, step: float) -> Losses:
    """The loss shift r + shift^2/2, r Rayleigh(1): a bound for Gaussian noise in an objective, of deviation 1.

    As in `plane_gamma` the shift of the noise depends on the release and stays in a plane, and r is the length of the
    noise there.
    """
    start = math.floor(shift * shift / 2.0 / step)
    top = start + math.ceil(plane_gaussian_width(shift) / step) + 2
    grid = _grid(start, top, step)
    r = np.maximum(grid - shift * shift / 2.0, 0.0) / shift
    # P of a cell is a difference of exp(-r^2/2); its mean of exp(-loss) comes from the same integral, by parts.
    log_above = -r * r / 2.0
    inside = -np.exp(log_above[:-1]) * np.expm1(log_above[1:] - log_above[:-1])
    tail = np.exp(log_above) * (1.0 - shift * math.sqrt(math.pi / 2.0) * erfcx((r + shift) / math.sqrt(2.0)))
    # tail(r) = exp(shift r) * integral from r on of x exp(-x^2/2 - shift x) dx
    other = tail[:-1] - tail[1:] * np.exp(-shift * np.diff(r))
    late = (r[:-1] * shift + shift * shift / 2.0) - grid[:-1]
    return Losses(step, start, _onto_the_grid(inside, np.maximum(other, 0.0) * np.exp(-late), step))


# --- putting them on a grid ------------------------------------------------------------------------------------------


def _grid(lowest: int, highest: int, step: float) -> FloatArray:
    return np.arange(lowest, highest + 1, dtype=np.float64) * step


def _ends(epsilon: float, step: float) -> tuple[int, int]:
    """First and last grid point of a loss between -epsilon and epsilon that is mostly near its top."""
    top = math.ceil(epsilon / step)
    return max(-top, top - math.ceil(4.0 * _NEGLIGIBLE / step)), top


def _onto_the_grid(inside: FloatArray, other: FloatArray, step: float) -> FloatArray:
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


# --- composition -----------------------------------------------------------------------------------------------------


Part = tuple[Losses, int]
"""The losses of one release, and how many such releases there are."""


def composed_epsilon(parts: Sequence[Part], delta: float) -> float:
    """The smallest epsilon at ``delta``, 0 < delta < 1, of all ``parts`` together; infinite where there is none.

    Parts have one step. With K the sum of the parts' log moment generating functions, the parts are tilted by the theta
    at which the saddle point of delta lies, K(theta) - theta K'(theta) = log delta; a window around K'(theta) holds
    all but exp(-50) of the tilted sum.
    """
    infinite = -math.expm1(sum(count * math.log1p(-part.infinite) for part, count in parts))
    room = delta - infinite
    if room <= 0.0:
        return math.inf
    theta = _saddle(parts, math.log(room)) if all(part.relative for part, _ in parts) else 0.0
    for tilt in (theta, theta / 2.0, theta / 4.0, theta / 8.0, 0.0):
        found, inside = _epsilon_in_window(parts, room, tilt)
        if inside:
            break
    return found


def _epsilon_in_window(parts: Sequence[Part], room: float, theta: float) -> tuple[float, bool]:
    """An upper bound of epsilon, and whether it lies inside the window of ``theta``, where it is precise."""
    step = parts[0][0].step
    size, low, high = _window(parts, theta, step)
    composed = _tilted_sum(parts, theta, low, high)
    # delta(epsilon) = sum over l > epsilon of (1 - exp(epsilon - l)) exp(K - theta l) tilted(l), from the top down and
    # with positive terms only.
    loss = _grid(low, high, step)
    weight = composed[::-1] * np.exp(np.minimum(size - theta * loss[::-1], _LARGEST_GROWTH))
    beyond = math.exp(min(size - theta * high * step - _NEGLIGIBLE, _LARGEST_GROWTH))
    above = np.cumsum(weight) + beyond
    shrink = math.exp(-step)
    spent = lfilter([1.0], [1.0, -shrink], np.concatenate([[beyond], -math.expm1(-step) * above[:-1]]))
    first = int(np.searchsorted(spent, room, side="right"))  # from here on more than delta is spent
    if first == 0:
        return math.inf, True
    if first == composed.size:  # even the lowest loss of the window costs less
        return max(0.0, float(loss[0])), loss[0] <= 0.0
    here = first - 1
    # Between two grid points delta(epsilon) = above - exp(epsilon - l) (above - spent), l the upper one.
    rest = above[here] - spent[here]
    over = math.log((above[here] - room) / rest) if above[here] > room and rest > 0.0 else -step
    return max(0.0, float(loss[::-1][here]) + min(0.0, max(over, -step))), True


def _moments(parts: Sequence[Part], theta: float) -> tuple[float, float, float]:
    """K(theta), K'(theta), K''(theta) of the sum of all parts."""
    total = mean = variance = 0.0
    for part, count in parts:
        loss = part.loss
        used = part.mass > 0.0
        exponent = theta * loss[used] + np.log(part.mass[used])
        one = float(logsumexp(exponent))
        share = np.exp(exponent - one)
        at = float(share @ loss[used])
        total += count * one
        mean += count * at
        variance += count * float(share @ (loss[used] - at) ** 2)
    return total, mean, variance


def _saddle(parts: Sequence[Part], log_delta: float) -> float:
    """The theta at which K - theta K' is log delta, or less where the tilted sum would be the largest loss alone."""
    spread = max(_moments(parts, 0.0)[2], parts[0][0].step ** 2)
    low, high = 0.0, 1.0 / math.sqrt(spread)

    def beyond(theta: float) -> bool:
        size, mean, variance = _moments(parts, theta)
        return size - theta * mean <= log_delta or variance < 0.04 * spread

    while not beyond(high):
        low, high = high, 2.0 * high
    for _ in range(10):  # any tilt is sound; one near the saddle is precise
        middle = (low + high) / 2.0
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high


def _window(parts: Sequence[Part], theta: float, step: float) -> tuple[float, int, int]:
    """K(theta), and the first and last grid point that hold all but exp(-50) of the tilted sum (Chernoff)."""
    size, _, variance = _moments(parts, theta)
    deviation = math.sqrt(max(variance, step * step))
    bottom = sum(count * part.lowest for part, count in parts)
    top = bottom + sum(count * (part.mass.size - 1) for part, count in parts)
    slopes = [factor / deviation for factor in (2.0, 5.0, 8.0, 11.0, 20.0)]
    highest = min((_moments(parts, theta + s)[0] - size + _NEGLIGIBLE) / s for s in slopes)
    lowest = max((size - _moments(parts, theta - s)[0] - _NEGLIGIBLE) / s for s in slopes)
    return size, max(bottom, math.floor(lowest / step)), min(top, math.ceil(highest / step))


def _tilted_sum(parts: Sequence[Part], theta: float, low: int, high: int) -> FloatArray:
    """Masses of the tilted sum on the grid points ``low`` to ``high``, rounding errors added."""
    length = fft.next_fast_len(high - low + 1, real=True)
    product: npt.NDArray[np.complex128] | None = None
    releases, start = 0, 0
    for part, count in parts:
        exponent = theta * part.loss
        with np.errstate(divide="ignore"):
            exponent += np.log(part.mass)
        tilted = np.exp(exponent - logsumexp(exponent))
        folded = np.bincount(np.arange(tilted.size) % length, weights=tilted, minlength=length)
        turned = fft.rfft(folded) ** count
        product = turned if product is None else product * turned
        releases, start = releases + count, start + count * part.lowest
    assert product is not None
    whole: FloatArray = np.roll(fft.irfft(product, length), (start - low) % length)[: high - low + 1]
    # A transform is off by about 2^-52 log2(length) in each frequency, and a power multiplies that.
    error = 4e-16 * math.log2(length + 1) * (releases + 4) * float(np.mean(np.abs(product))) + 2.0 * math.exp(
        -_NEGLIGIBLE
    )
    return np.maximum(whole, 0.0) + error


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
