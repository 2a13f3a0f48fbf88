"""Objective perturbation as a ledger entry: noise in the objective whose exact minimiser is released.

An agent minimises  C/m sum_k loss(f . x_k, y_k) + w/2 |f|^2 + (b + noise) . f  and releases the minimiser. Rules that
hold here:
- Neighbouring datasets differ in one record's value; ``b`` and ``w`` are functions of earlier releases and of public
  numbers only. Then the noise that leads to a given release moves by at most ``sensitivity`` = 2 C L / m in L2, with L
  a bound of the record gradients, and the Jacobians of the two maps from release to noise differ by a factor of at most
  1 + c1 R^2 / k, k = m w / C (matrix determinant lemma; the bound is attained). The factors of Zhang and Zhu (2017),
  squared, and of Zhang, Khalili and Liu (2018), exp(2.8 c1/k), are looser.
- With noise of density ~ exp(-|e|_2 / scale) one release is pure (`jacobian` + sensitivity / scale)-differentially
  private. The shift depends on the release, but stays in the plane of two records, and the noise's law there bounds
  the privacy loss of several releases (`coordinator_free.privacy.loss_distribution.plane_gamma`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coordinator_free.privacy.mechanism import MechanismError
from coordinator_free.privacy.noise import FloatArray, Stream, exponential, standard_normal

NAME = "objective-perturbation"


def jacobian_loss(curvature_bound: float, row_bound: float, curvature: float) -> float:
    """ln(1 + c1 R^2 / k): what the two Jacobians can differ by, k = ``curvature`` = m w / C."""
    return math.log1p(curvature_bound * row_bound**2 / curvature)


@dataclass(frozen=True)
class ObjectivePerturbation:
    """One release of a perturbed objective's minimiser.

    ``sensitivity``: of the linear term, L2; ``scale``: of its noise; ``jacobian``: the privacy loss of the Jacobian.
    """

    name: ClassVar[str] = NAME
    norm: ClassVar[str] = "l2"

    sensitivity: float
    scale: float
    jacobian: float
    dimension: int

    def __post_init__(self) -> None:
        if not 0.0 < self.sensitivity < math.inf:
            raise MechanismError(f"sensitivity = {self.sensitivity}; accepted: a finite number above 0")
        if not 0.0 < self.scale < math.inf:
            raise MechanismError(f"noise scale = {self.scale}; accepted: a finite number above 0")
        if not 0.0 <= self.jacobian < math.inf:
            raise MechanismError(f"jacobian = {self.jacobian}; accepted: a finite number, 0 or more")
        if self.dimension < 1:
            raise MechanismError(f"dimension = {self.dimension}; accepted: 1 and more")

    @property
    def epsilon(self) -> float:
        """The pure privacy loss of the release."""
        return self.jacobian + self.sensitivity / self.scale

    @property
    def multiplier(self) -> float:
        """1 / epsilon, as for every pure mechanism: what an accountant needs of it."""
        return 1.0 / self.epsilon

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        """Noise of the linear term, shape (dimension,), in full float64 resolution.

        It is not on the grid: the release is, after the minimisation. Grid noise would come out of the minimisation
        as visible atoms wherever the objective's curvature is below one.
        """
        if dimension != self.dimension:
            raise MechanismError(f"a vector of dimension {dimension} does not fit noise of dimension {self.dimension}")
        length = float(exponential(stream, dimension).sum()) * self.scale
        direction = standard_normal(stream, dimension)
        direction *= length / math.sqrt(float(direction @ direction))
        return direction

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:  # noqa: ARG002
        """Refused: the noise belongs into the objective."""
        raise MechanismError(f"{self.name}: the noise belongs into the objective, not onto its minimiser")

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the density of the linear term's noise, shape (..., d) to (...)."""
        d = self.dimension
        area = math.log(2.0) + d / 2.0 * math.log(math.pi) - math.lgamma(d / 2.0)
        constant = area + math.lgamma(d) + d * math.log(self.scale)
        density: FloatArray = -constant - np.sqrt(np.square(noise).sum(axis=-1)) / self.scale
        return density

    def describe(self) -> dict[str, Any]:
        """A dictionary of plain values for ledger records."""
        return {
            "name": self.name,
            "norm": self.norm,
            "sensitivity": self.sensitivity,
            "scale": self.scale,
            "jacobian": self.jacobian,
            "dimension": self.dimension,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> ObjectivePerturbation:
        """Read `describe` back."""
        try:
            if description["name"] != cls.name or description["norm"] != cls.norm:
                raise ValueError("another mechanism")
            return cls(
                float(description["sensitivity"]),
                float(description["scale"]),
                float(description["jacobian"]),
                int(description["dimension"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise MechanismError(f"not a mechanism's description: {dict(description)!r}") from error


def curved(largest: float, per_curvature: float, w: float) -> tuple[float, float]:
    """(Phi, the Jacobian's loss): the curvature to add to ``w`` so that the loss is at most ``largest``.

    ``per_curvature`` is as in `penalised`.
    """
    jacobian = math.log1p(per_curvature / w)
    return (0.0, jacobian) if jacobian <= largest else (per_curvature / math.expm1(largest) - w, largest)


def penalised(
    sensitivity: float, epsilon: float, per_curvature: float, w: float, dimension: int
) -> tuple[float, ObjectivePerturbation]:
    """For dual variable perturbation at a pure ``epsilon`` a round: (Phi, the mechanism) (Zhang and Zhu 2017, Thm. 1).

    ``per_curvature`` is c1 R^2 C / m, so that c1 R^2 / k = per_curvature / (w + Phi). If epsilon exceeds the Jacobian's
    loss without it, Phi = 0 and the noise gets the rest; otherwise Phi is such that each gets one half. The printed
    noise rate is twice too large: it forgets that two noise vectors can differ by 2 L, not by L.
    """
    jacobian = math.log1p(per_curvature / w)
    if epsilon > jacobian:
        return 0.0, ObjectivePerturbation(sensitivity, sensitivity / (epsilon - jacobian), jacobian, dimension)
    phi = per_curvature / math.expm1(epsilon / 2.0) - w
    return phi, ObjectivePerturbation(sensitivity, 2.0 * sensitivity / epsilon, epsilon / 2.0, dimension)
