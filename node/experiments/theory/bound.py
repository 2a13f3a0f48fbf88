"""One bound of a paper, worked out for one subject: its constants, its values, and what was measured beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from coordinator_free.release import FloatArray
from node.untyped import Json

Reading = Literal["as published", "as true"]


ROUNDING = 1e-9
"""A bound holds that is exceeded by so small a share of itself."""


def holds(measured: FloatArray | None, bound: FloatArray, absolute: float = 0.0) -> bool | None:
    """Whether nothing measured is above its bound, but for rounding errors; None where nothing was measured."""
    return None if measured is None else bool((measured <= bound * (1.0 + ROUNDING) + absolute).all())


@dataclass(frozen=True, eq=False)
class Bound:
    """A bound of a theorem, a corollary or a proposition.

    ``source`` is the paper and the number, as "000, Theorem 3"; ``statement`` one sentence that states the bound and
    what it bounds. ``unspecified`` names the constants that the paper leaves open; ``constants`` has the value of every
    constant, and so the value that was chosen for those. ``bound`` has one value for each of ``at``, and so has
    ``measured`` where something was measured. ``held`` is None where nothing was.
    """

    name: str
    source: str
    statement: str
    reading: Reading
    x_label: str
    y_label: str
    at: FloatArray
    bound: FloatArray
    constants: Mapping[str, float] = field(default_factory=dict)
    unspecified: tuple[str, ...] = ()
    measured: FloatArray | None = None
    held: bool | None = None

    def __post_init__(self) -> None:
        for name, values in (("bound", self.bound), ("measured", self.measured)):
            if values is not None and values.shape != self.at.shape:
                raise ValueError(f"{self.name}: {name} has shape {values.shape}, at has {self.at.shape}")
        unknown = [name for name in self.unspecified if name not in self.constants]
        if unknown:
            raise ValueError(f"{self.name}: unspecified constants without a value: {', '.join(unknown)}")
        if self.held is not None and self.measured is None:
            raise ValueError(f"{self.name}: nothing was measured, so held must be None")

    def as_json(self) -> Json:
        """Everything, as plain values."""
        return {
            "name": self.name,
            "source": self.source,
            "statement": self.statement,
            "reading": self.reading,
            "constants": {name: float(value) for name, value in self.constants.items()},
            "unspecified": list(self.unspecified),
            "x_label": self.x_label,
            "y_label": self.y_label,
            "at": self.at.tolist(),
            "bound": self.bound.tolist(),
            "measured": None if self.measured is None else self.measured.tolist(),
            "held": self.held,
        }
