"""Mechanisms: what is added to a vector before it is released, each described by a small frozen value.

Rules that hold here:
- Neighbouring datasets differ in one record's value (replace-one); the sizes are public. ``sensitivity`` bounds how far
  the released vector moves, in the mechanism's own ``norm``, when one record is replaced.
- A release is exact arithmetic on the public grid of step `GRID`: the noiseless value is rounded to the grid first
  (half to even), then a whole number of grid steps is added. The rounding moves each coordinate of two neighbouring
  values apart by at most one step, which `mechanism` books in the sensitivity: ``dimension * GRID`` in L1,
  ``sqrt(dimension) * GRID`` in L2.
- A mechanism does not know its accountant, and draws from a `Stream` once for each release.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from coordinator_free.privacy.noise import (
    FloatArray,
    Stream,
    discrete_laplace,
    exponential,
    standard_normal,
    standard_normals,
)

GRID = 2.0**-20
"""Step of the public grid on which every noised release lies."""
_STEPS = 2.0**20
LARGEST = 2.0**31
"""A value with a coordinate of this size or more is refused: grid arithmetic in float64 would no longer be exact."""
_LARGEST_SCALE = 2.0**24


class MechanismError(ValueError):
    """A mechanism that does not exist, a number that is not acceptable, or a value that does not fit its grid."""


class _Norms(Mapping[str, str]):
    """The known families, and on asking ``package.module:Class``, whose class says its norm itself."""

    _known: ClassVar[Mapping[str, str]] = {"laplace": "l1", "gaussian": "l2", "gamma-norm": "l2"}

    def __getitem__(self, name: str) -> str:
        return str(own_mechanism(name).norm) if ":" in name else self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


NORMS: Mapping[str, str] = _Norms()
"""Norm of each mechanism's sensitivity, which has to be the norm of the clipping too.

Asking for one's own mechanism raises `MechanismError` where it cannot be imported. Iteration lists the known families.
"""


class Mechanism(Protocol):
    """Adds noise to a vector; described by its family, its sensitivity and its scale."""

    name: ClassVar[str]
    norm: ClassVar[str]

    @property
    def sensitivity(self) -> float:
        """Largest distance between the rounded values of two neighbouring datasets, in ``norm``."""

    @property
    def scale(self) -> float:
        """Scale of the noise, in the units of the value."""

    @property
    def multiplier(self) -> float:
        """scale / sensitivity: all that an accountant needs of it."""

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        """A draw of the noise, on the grid; shape (dimension,)."""

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
        """The release: ``vector``, shape (d,), rounded to the grid plus noise; `MechanismError` if too large."""

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Log of the noise's density, shape (..., d) to (...)."""

    def describe(self) -> dict[str, Any]:
        """A dictionary of plain values for ledger records; `from_description` reads it back exactly."""


@dataclass(frozen=True)
class _Additive:
    """What the additive mechanisms on the grid share."""

    name: ClassVar[str]
    norm: ClassVar[str]

    sensitivity: float
    scale: float

    def __post_init__(self) -> None:
        if not 0.0 < self.sensitivity < math.inf:
            raise MechanismError(f"sensitivity = {self.sensitivity}; accepted: a finite number above 0")
        if not 0.0 < self.scale < _LARGEST_SCALE:
            raise MechanismError(f"noise scale = {self.scale}; accepted: above 0 and below {_LARGEST_SCALE:.0f}")

    @property
    def multiplier(self) -> float:
        return self.scale / self.sensitivity

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        """The noise in steps of the grid, none of them -0.0."""
        raise NotImplementedError

    def noise(self, dimension: int, stream: Stream) -> FloatArray:
        return self._noise_steps(dimension, stream) * GRID

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
        # Noise is far below `LARGEST` (its scale is bounded), so a value for which the arithmetic would not be exact
        # does not pass; nor does a NaN.
        if not np.maximum.reduce(np.abs(vector), initial=0.0) < LARGEST:
            raise MechanismError("a vector to be released is not finite, or not below 2^31 in each coordinate")
        steps: FloatArray = vector * _STEPS
        np.rint(steps, out=steps)
        steps += self._noise_steps(vector.shape[0], stream)
        steps *= GRID
        return steps

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "norm": self.norm, "sensitivity": self.sensitivity, "scale": self.scale}


class Laplace(_Additive):
    """Discrete Laplace noise, independent in each coordinate: P(k steps) ~ exp(-|k| GRID / scale).

    Sensitivity in L1. One release is (sensitivity / scale)-differentially private, exactly: values on the grid differ
    by whole numbers of steps, and the ratio of the probabilities of any outcome is at most
    exp(|difference|_1 / scale) (Dwork et al. 2006, for the continuous law; Ghosh et al. 2009, for the discrete one).

    The continuous Laplace law with the same scale and multiplier dominates it, so that an accountant may use that one.
    In one coordinate the discrete law's trade-off curve is linear between points whose error probabilities have the
    product exp(-k/s) / (2 cosh(1/(2 s)))^2, for a shift of k steps and a scale of s steps; the continuous law's convex
    curve passes at or below all of these for a shift of k + 2 s ln cosh(1/(2 s)) <= k + 1/(4 s) steps. For d
    coordinates and s >= multiplier * d that is at most 1/(4 multiplier) steps more, which `mechanism` books too.
    """

    name = "laplace"
    norm = "l1"

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        return discrete_laplace(stream, dimension, self.scale * _STEPS)

    def log_density(self, noise: FloatArray) -> FloatArray:
        ratio = GRID / self.scale
        cell = math.log(math.tanh(ratio / 2.0) / GRID)  # (1 - q) / (1 + q) for a cell of width GRID
        density: FloatArray = noise.shape[-1] * cell - np.abs(noise).sum(axis=-1) / self.scale
        return density


class Gaussian(_Additive):
    """Gaussian noise of standard deviation ``scale`` in each coordinate, rounded to the grid.

    Sensitivity in L2. The rounded value plus the rounded noise is the rounded sum, a post-processing of the continuous
    Gaussian mechanism: any of its guarantees holds (Balle and Wang 2018, Theorem 8, gives the exact one).
    """

    name = "gaussian"
    norm = "l2"

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        return stream.sample(self._rounded, dimension)

    def _rounded(self, streams: Sequence[Stream], dimension: int) -> FloatArray:
        normal = standard_normals(streams, dimension) * (self.scale * _STEPS)
        np.rint(normal, out=normal)
        normal += 0.0  # turns -0.0 into 0.0
        return normal

    def log_density(self, noise: FloatArray) -> FloatArray:
        constant = noise.shape[-1] * math.log(self.scale * math.sqrt(2.0 * math.pi))
        density: FloatArray = -constant - np.square(noise / self.scale).sum(axis=-1) / 2.0
        return density


@dataclass(frozen=True)
class GammaNorm(_Additive):
    """Noise with density ~ exp(-|e|_2 / scale) in R^dimension, rounded to the grid.

    The norm is Gamma(dimension, scale), the direction uniform (Chaudhuri, Monteleoni and Sarwate 2011). Sensitivity in
    L2. Rounding is post-processing of the continuous mechanism, which is (sensitivity / scale)-differentially private;
    how much less it loses on average depends on ``dimension``, which therefore belongs to the value.
    """

    name = "gamma-norm"
    norm = "l2"

    dimension: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension < 1:
            raise MechanismError(f"dimension = {self.dimension}; accepted: 1 and more")

    def _noise_steps(self, dimension: int, stream: Stream) -> FloatArray:
        if dimension != self.dimension:
            raise MechanismError(f"a vector of dimension {dimension} does not fit noise of dimension {self.dimension}")
        length = exponential(stream, dimension).sum() * self.scale * _STEPS
        direction = standard_normal(stream, dimension)
        direction *= length / math.sqrt(float(direction @ direction))
        np.rint(direction, out=direction)
        direction += 0.0  # turns -0.0 into 0.0
        return direction

    def log_density(self, noise: FloatArray) -> FloatArray:
        d = self.dimension
        area = math.log(2.0) + d / 2.0 * math.log(math.pi) - math.lgamma(d / 2.0)  # of the unit sphere
        constant = area + math.lgamma(d) + d * math.log(self.scale)
        density: FloatArray = -constant - np.sqrt(np.square(noise).sum(axis=-1)) / self.scale
        return density

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"dimension": self.dimension}


def mechanism(name: str, sensitivity: float, multiplier: float, dimension: int) -> Mechanism:
    """The mechanism of family ``name`` whose scale is ``multiplier`` times its sensitivity.

    ``sensitivity`` is that of the exact value, in the family's norm (`NORMS`); the rounding to the grid is added here.
    ``name`` may be ``package.module:Class``: one's own, made from its sensitivity and scale.
    Raises `MechanismError` for an unknown family or numbers outside their range.
    """
    if not 0.0 <= sensitivity < math.inf:
        raise MechanismError(f"sensitivity = {sensitivity}; accepted: a finite number, 0 or more")
    if not 0.0 < multiplier < math.inf:
        raise MechanismError(f"noise multiplier = {multiplier}; accepted: a finite number above 0")
    if dimension < 1:
        raise MechanismError(f"dimension = {dimension}; accepted: 1 and more")
    if ":" in name:
        return _made(name, sensitivity, multiplier, dimension)
    if name == "laplace":
        booked = sensitivity + dimension * GRID + GRID / (4.0 * multiplier)
        return Laplace(booked, multiplier * booked)
    booked = sensitivity + math.sqrt(dimension) * GRID
    if name == "gaussian":
        return Gaussian(booked, multiplier * booked)
    if name == "gamma-norm":
        return GammaNorm(booked, multiplier * booked, dimension)
    raise MechanismError(f"privacy.mechanism = {name!r}; accepted: {', '.join(NORMS)}, or package.module:Class")


def from_description(description: Mapping[str, Any]) -> Mechanism:
    """The mechanism that `Mechanism.describe` described; raises `MechanismError` for anything else.

    A name of the form ``package.module:Class`` is a user's own class, made from the other entries but ``norm``.
    """
    if description.get("name") == "objective-perturbation":
        from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation

        return ObjectivePerturbation.from_description(description)
    if description.get("name") == "gaussian-objective-perturbation":
        from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation

        return GaussianObjectivePerturbation.from_description(description)
    try:
        name, norm = str(description["name"]), description["norm"]
        sensitivity, scale = float(description["sensitivity"]), float(description["scale"])
        dimension = int(description["dimension"]) if name == "gamma-norm" else None
    except (KeyError, TypeError, ValueError) as error:
        raise MechanismError(f"not a mechanism's description: {dict(description)!r}") from error
    if ":" in name:
        return _own(name, description)
    if name not in NORMS or norm != NORMS[name]:
        raise MechanismError(f"mechanism {name!r} with norm {norm!r}; accepted: {dict(NORMS)}")
    if dimension is not None:
        return GammaNorm(sensitivity, scale, dimension)
    return Laplace(sensitivity, scale) if name == "laplace" else Gaussian(sensitivity, scale)


def own_mechanism(name: str) -> type[Mechanism]:
    """The class at ``package.module:Class``. Raises `MechanismError` where there is none that can be used."""
    module, _, attribute = name.partition(":")
    try:
        found: type[Mechanism] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise MechanismError(f"privacy.mechanism = {name!r}: {error}") from error
    if getattr(found, "name", None) != name:
        raise MechanismError(
            f"privacy.mechanism = {name!r}: its name is {getattr(found, 'name', None)!r}; ledgers find it by its name, "
            "which has to be the same"
        )
    if getattr(found, "norm", None) not in ("l1", "l2"):
        raise MechanismError(
            f"privacy.mechanism = {name!r}: its norm is {getattr(found, 'norm', None)!r}, not l1 or l2"
        )
    return found


def _made(name: str, sensitivity: float, multiplier: float, dimension: int) -> Mechanism:
    own = own_mechanism(name)
    steps = float(dimension) if own.norm == "l1" else math.sqrt(dimension)
    booked = sensitivity + steps * GRID
    try:
        made: Mechanism = own(booked, multiplier * booked)  # type: ignore[call-arg]
        close = math.isclose(made.multiplier, multiplier, rel_tol=1e-9)
    except (AttributeError, TypeError) as error:
        raise MechanismError(
            f"privacy.mechanism = {name!r} cannot be made of sensitivity and scale: {error}"
        ) from error
    if not close:
        # The budget was calibrated for this multiplier: with another one it would be false, or wasted.
        raise MechanismError(
            f"privacy.mechanism = {name!r}: its multiplier is {made.multiplier:g}, not scale / sensitivity = "
            f"{multiplier:g}"
        )
    return made


def _own(name: str, description: Mapping[str, Any]) -> Mechanism:
    module, _, attribute = name.partition(":")
    entries = {key: value for key, value in description.items() if key not in ("name", "norm")}
    try:
        made: Mechanism = getattr(importlib.import_module(module), attribute)(**entries)
        described = made.describe()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise MechanismError(f"mechanism {name!r} cannot be made: {error}") from error
    if described != dict(description):
        raise MechanismError(f"mechanism {name!r} describes itself as {described!r}, not {dict(description)!r}")
    return made
