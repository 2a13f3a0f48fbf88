"""Gaussian noise in an objective whose exact minimiser is released: the privacy of one such release.

The setting is that of `coordinator_free.privacy.objective_perturbation`, with noise N(0, deviation^2 I) in the linear
term. The shift of the noise depends on the release, so the analytic Gaussian formula does not apply. For losses of a
linear predictor it stays in the plane of the two records; there the noise has a length of deviation * r, r Rayleigh(1),
and with a shift of at most ``shift`` = 2 C L / m the privacy loss of a release is at most

    ln(1 + c1 R^2/k) + (shift/deviation) r + (shift/deviation)^2 / 2

The release is (epsilon, delta)-private with delta = E[(1 - exp(epsilon - L))+], L this bound, which is a random
variable of known law. It does not depend on earlier releases, so the bounds of several releases add as independent
variables (`coordinator_free.privacy.loss_distribution.plane_gaussian`).

Rules that hold here:
- The loss is convex with bounded slopes and curvature, rows are not longer than the public R, the minimiser is exact.
  The code that releases it checks this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from coordinator_free.privacy.mechanism import MechanismError
from coordinator_free.privacy.noise import FloatArray, Stream, standard_normal
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation

NAME = "gaussian-objective-perturbation"
_PRECISION = 1e-13


class ObjectivePerturbationError(ValueError):
    """No Gaussian noise gives the privacy that is asked for."""


def gaussian_objective_delta(epsilon: float, shift: float, deviation: float, jacobian: float) -> float:
    """Delta of one release at ``epsilon``: E[(1 - exp(epsilon - L))+] over the law of the bound L of its loss.

    ``jacobian`` is ln(1 + c1 R^2/k). With t = shift/deviation and r0 = (epsilon - jacobian - t^2/2) / t >= 0 the
    integral is exp(-r0^2/2) t sqrt(pi/2) erfcx((r0 + t)/sqrt(2)); with r0 < 0 every release may lose more than epsilon.
    """
    from scipy.special import erfcx

    ratio = shift / deviation
    room = epsilon - jacobian - ratio * ratio / 2.0
    short = ratio * math.sqrt(math.pi / 2.0)
    if room < 0.0:
        return 1.0 - math.exp(room) * (1.0 - short * float(erfcx(ratio / math.sqrt(2.0))))
    least = room / ratio
    return math.exp(-least * least / 2.0) * short * float(erfcx((least + ratio) / math.sqrt(2.0)))


def gaussian_objective_epsilon(delta: float, shift: float, deviation: float, jacobian: float) -> float:
    """Epsilon of one release at ``delta``, 0 < delta < 1, rounded up; at least 0."""
    ratio = shift / deviation
    # P(L > epsilon) = delta here, and the expectation is smaller.
    high = jacobian + ratio * math.sqrt(-2.0 * math.log(delta)) + ratio * ratio / 2.0
    low = 0.0
    if gaussian_objective_delta(low, shift, deviation, jacobian) <= delta:
        return 0.0
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        spends = gaussian_objective_delta(middle, shift, deviation, jacobian) > delta
        low, high = (middle, high) if spends else (low, middle)
    return high


def gaussian_objective_deviation(epsilon: float, delta: float, shift: float, jacobian: float) -> float:
    """The smallest deviation that makes one release (``epsilon``, ``delta``)-private by this bound, rounded up.

    Raises
    ------
    ObjectivePerturbationError
        The Jacobian alone loses ``epsilon``: the objective needs more curvature.
    """
    room = epsilon - jacobian
    if not room > 0.0:
        raise ObjectivePerturbationError(
            f"epsilon = {epsilon:g}: the Jacobian alone loses {jacobian:.4g}; take a larger epsilon or more curvature"
        )
    reach = math.sqrt(-2.0 * math.log(delta))
    # The deviation at which P(L > epsilon) = delta is enough: ratio^2 / 2 + reach ratio = room, without cancellation.
    high = shift * (reach + math.sqrt(reach * reach + 2.0 * room)) / (2.0 * room)
    low = high / 2.0
    while gaussian_objective_delta(epsilon, shift, low, jacobian) <= delta:
        low /= 2.0
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        spends = gaussian_objective_delta(epsilon, shift, middle, jacobian) > delta
        low, high = (middle, high) if spends else (low, middle)
    return high


@dataclass(frozen=True)
class GaussianObjectivePerturbation(ObjectivePerturbation):
    """One release of the minimiser of an objective with Gaussian noise in its linear term.

    ``sensitivity``: of the linear term, L2 (the largest shift); ``scale``: deviation of its noise in each coordinate;
    ``jacobian``: the privacy loss of the Jacobian, which every release has.
    """

    name: ClassVar[str] = NAME

    @property
    def epsilon(self) -> float:
        """Infinite: there is no epsilon at delta = 0."""
        return math.inf

    @property
    def multiplier(self) -> float:
        """scale / sensitivity; an accountant needs the Jacobian's loss too."""
        return self.scale / self.sensitivity

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        """Noise of the linear term, shape (dimension,), in full float64 resolution: the release is on the grid."""
        if dimension != self.dimension:
            raise MechanismError(f"a vector of dimension {dimension} does not fit noise of dimension {self.dimension}")
        drawn: FloatArray = standard_normal(stream, dimension) * self.scale
        return drawn

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the density of the linear term's noise, shape (..., d) to (...)."""
        constant = self.dimension * math.log(self.scale * math.sqrt(2.0 * math.pi))
        density: FloatArray = -constant - np.square(noise / self.scale).sum(axis=-1) / 2.0
        return density


OBJECTIVE_NOISE: Final[Mapping[str, type[ObjectivePerturbation]]] = {
    "gamma-norm": ObjectivePerturbation,
    "gaussian": GaussianObjectivePerturbation,
}
"""The mechanism of a release whose objective holds noise of a family."""
