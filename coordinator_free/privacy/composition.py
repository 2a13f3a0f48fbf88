"""The exact composition of privacy loss distributions, by Fourier transforms.

Rules that hold here:
- Each distribution is tilted towards the loss that is looked for, before the transform. Rounding is then small beside
  delta, for every delta, and what is left of it is added to the masses.
- Every answer is an upper bound; the tilt decides how precise it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.signal import lfilter
from scipy.special import logsumexp

from coordinator_free.privacy.loss_distribution import LARGEST_GROWTH, NEGLIGIBLE, Losses, grid
from coordinator_free.privacy.noise import FloatArray

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
    loss = grid(low, high, step)
    weight = composed[::-1] * np.exp(np.minimum(size - theta * loss[::-1], LARGEST_GROWTH))
    beyond = math.exp(min(size - theta * high * step - NEGLIGIBLE, LARGEST_GROWTH))
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
    highest = min((_moments(parts, theta + s)[0] - size + NEGLIGIBLE) / s for s in slopes)
    lowest = max((size - _moments(parts, theta - s)[0] - NEGLIGIBLE) / s for s in slopes)
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
        -NEGLIGIBLE
    )
    return np.maximum(whole, 0.0) + error
