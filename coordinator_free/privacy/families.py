"""Mechanisms by name: the known families, a user's own class, and what a ledger's description says."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation
from coordinator_free.privacy.mechanism import GRID, Mechanism, MechanismError, boxed
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.noise import FloatArray, Stream
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation


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

Asking for a mechanism of your own raises `MechanismError` where it cannot be imported. Iteration lists known families.
"""


def mechanism(name: str, sensitivity: float, multiplier: float, dimension: int) -> Mechanism:
    """The mechanism of family ``name`` whose scale is ``multiplier`` times its sensitivity.

    ``sensitivity`` is that of the exact value, in the family's norm (`NORMS`); the rounding to the grid is added here.
    ``name`` may be ``package.module:Class``: a class of your own, made from its sensitivity and scale.
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


def deviation(name: str, dimension: int) -> float:
    """Standard deviation of one number of a family's noise, in units of its scale; 1 for a class of your own."""
    return {"laplace": math.sqrt(2.0), "gamma-norm": math.sqrt(dimension + 1.0)}.get(name, 1.0)


def from_description(description: Mapping[str, Any]) -> Mechanism:
    """The mechanism that `Mechanism.describe` described; raises `MechanismError` for anything else.

    A name of the form ``package.module:Class`` is a user's own class, made from the other entries but ``norm``.
    """
    if description.get("name") == "objective-perturbation":
        return ObjectivePerturbation.from_description(description)
    if description.get("name") == "gaussian-objective-perturbation":
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


@lru_cache
def _projecting(own: type[Mechanism]) -> type[Mechanism]:
    """The class ``own``, whose values are projected onto the public box first, like those of the known families."""

    class Projecting(own):  # type: ignore[valid-type,misc]
        def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
            released: FloatArray = super().perturb(boxed(vector), stream)
            return released

    return Projecting


def _made(name: str, sensitivity: float, multiplier: float, dimension: int) -> Mechanism:
    own = own_mechanism(name)
    steps = float(dimension) if own.norm == "l1" else math.sqrt(dimension)
    booked = sensitivity + steps * GRID
    try:
        made: Mechanism = _projecting(own)(booked, multiplier * booked)  # type: ignore[call-arg]
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
    entries = {key: value for key, value in description.items() if key not in ("name", "norm")}
    try:
        made = _projecting(own_mechanism(name))(**entries)
        described = made.describe()
    except (AttributeError, TypeError, ValueError) as error:
        raise MechanismError(f"mechanism {name!r} cannot be made: {error}") from error
    if described != dict(description):
        raise MechanismError(f"mechanism {name!r} describes itself as {described!r}, not {dict(description)!r}")
    return made
