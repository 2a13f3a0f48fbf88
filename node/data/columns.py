"""Columns of numbers and words become features, by public rules alone.

Rules that hold here:
- Each record is encoded by itself. No mean, maximum, rank or frequency of the data enters.
- A column of numbers is mapped to [-1, 1] (or [0, 1]) by its public bounds; a column of words becomes one 0/1 feature
  for each of its public levels. So a column adds at most 1 to a row's L1 norm and to its squared L2 norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.release import FloatArray
from node.data.errors import DataError

Cells = Sequence[str] | Sequence[float] | FloatArray


@dataclass(frozen=True)
class Number:
    """A column of numbers between public bounds, mapped linearly to [``start``, 1]; ``clip`` cuts values outside.

    Without bounds (None, None) the values stay as they are.
    """

    low: float | None
    high: float | None
    start: float = -1.0
    clip: bool = False

    def features(self, name: str) -> tuple[str, ...]:
        """The names of its features, for a column called ``name``."""
        return (name,)

    def encode(self, name: str, cells: Cells, first_row: int) -> FloatArray:
        """Its features, shape (rows, features); a cell that does not fit is a `DataError` that names its row."""
        values = numbers(name, cells, first_row)
        if self.low is None or self.high is None:
            return values[:, None]
        if self.clip:
            values = np.clip(values, self.low, self.high)
        else:
            inside(name, values, self.low, self.high, first_row)
        # start + 1 * width / span is not always 1 exactly in floating point, and a public bound must hold exactly.
        scaled = self.start + (values - self.low) * ((1.0 - self.start) / (self.high - self.low))
        return np.clip(scaled, self.start, 1.0)[:, None]


@dataclass(frozen=True)
class Words:
    """A column of words: one 0/1 feature for each public level, except for the ``base`` level if there is one."""

    levels: tuple[str, ...]
    base: str | None = None

    def features(self, name: str) -> tuple[str, ...]:
        """The names of its features, for a column called ``name``."""
        return tuple(f"{name}={level}" for level in self.levels if level != self.base)

    def encode(self, name: str, cells: Cells, first_row: int) -> FloatArray:
        """Its features, shape (rows, features); a cell that does not fit is a `DataError` that names its row."""
        kept = [level for level in self.levels if level != self.base]
        place = {level: k for k, level in enumerate(kept)}
        out = np.zeros((len(cells), len(kept)))
        for i, cell in enumerate(cells):
            k = None if isinstance(cell, float) and math.isnan(cell) else place.get(str(cell))
            if k is not None:
                out[i, k] = 1.0
            elif cell != self.base:
                raise _no_level(name, cell, first_row + i, self.levels)
        return out


@dataclass(frozen=True)
class Rated:
    """A column of words that becomes one feature: a number in [0, 1] for each level."""

    rates: Mapping[str, float]

    def features(self, name: str) -> tuple[str, ...]:
        """The names of its features, for a column called ``name``."""
        return (name,)

    def encode(self, name: str, cells: Cells, first_row: int) -> FloatArray:
        """Its feature, shape (rows, 1); a cell that does not fit is a `DataError` that names its row."""
        for i, cell in enumerate(cells):
            if cell not in self.rates:
                raise _no_level(name, cell, first_row + i, tuple(self.rates))
        return np.array([[self.rates[str(cell)]] for cell in cells]).reshape(len(cells), 1)


Rule = Number | Words | Rated
Plan = Mapping[str, Rule]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows ``x`` (n, p), before any scaling of rows."""

    x: FloatArray
    features: tuple[str, ...]
    columns: int
    """Source columns, the intercept included: a row has at most this many non-zero features."""
    bounded: bool
    """Every feature lies in [-1, 1], so the L1 norm and the squared L2 norm are at most ``columns``."""


def encode(table: Mapping[str, Cells], plan: Plan, *, intercept: bool, first_row: int = 1) -> Encoded:
    """Encode the planned columns of ``table`` in the plan's order; rows in messages count from ``first_row``."""
    rows = len(next(iter(table.values()))) if table else 0
    blocks = [np.ones((rows, 1))] if intercept else []
    features = ["intercept"] if intercept else []
    for name, rule in plan.items():
        blocks.append(rule.encode(name, table[name], first_row))
        features.extend(rule.features(name))
    if not blocks:
        raise DataError("no column is left as a feature; leave one out of data.drop, or set data.intercept = true")
    bounded = not any(isinstance(rule, Number) and rule.low is None for rule in plan.values())
    return Encoded(np.hstack(blocks), tuple(features), len(plan) + intercept, bounded)


def numbers(name: str, cells: Cells, first_row: int = 1, remedy: str | None = None) -> FloatArray:
    """The cells as finite float64; ``remedy`` says what is accepted where a feature's remedy would mislead.

    Raises
    ------
    DataError
        A cell is no number, or not finite; the message names row, column and value.
    """
    try:
        values = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([_number(name, cell, first_row + i, remedy) for i, cell in enumerate(cells)])
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        i = int(bad[0])
        raise DataError(
            f"row {first_row + i}, column {name!r}: {values[i]} is not a finite number"
            + (f"; {remedy}" if remedy else "")
        )
    return values


def inside(name: str, values: FloatArray, low: float, high: float, first_row: int = 1) -> None:
    """Raise DataError for the first value outside its public bounds, naming row, column, value and bound."""
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        i = int(bad[0])
        raise DataError(
            f"row {first_row + i}, column {name!r}: {values[i]:g} is outside its public bounds [{low:g}, {high:g}]; "
            'widen data.bounds, or set data.outside = "clip"'
        )


def _number(name: str, cell: object, row: int, remedy: str | None) -> float:
    if cell == "":
        raise DataError(f"row {row}, column {name!r}: '' is no number; fill the missing value in, or leave the row out")
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise DataError(
            f"row {row}, column {name!r}: {str(cell)!r} is no number; "
            + (remedy or "list its values in data.levels, or put it in data.drop")
        ) from None


def _no_level(name: str, cell: object, row: int, levels: Sequence[str]) -> DataError:
    return DataError(f"row {row}, column {name!r}: {str(cell)!r} is not one of its levels, {_some(levels)}")


def _some(levels: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(level) for level in levels[:most])
    return shown if len(levels) <= most else f"{shown} and {len(levels) - most} more"


def row_norms(x: FloatArray, norm: str) -> FloatArray:
    """The "l1" or "l2" norm of every row, shape (n,)."""
    if norm == "l1":
        return np.asarray(np.abs(x).sum(axis=1), dtype=np.float64)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", x, x)), dtype=np.float64)


def scale_rows(encoded: Encoded, scaling: str, norm: str) -> tuple[FloatArray, dict[str, float]]:
    """Scale rows and bound their norms: (x, {"l1": ..., "l2": ...}), empty where no public bound exists.

    ``public``: by 1/sqrt(columns), the same for every record. ``record``: each row by its own norm (in ``norm``) where
    that is above 1, a function of that record alone. ``none``: as they are.
    """
    root = math.sqrt(encoded.columns)
    if scaling == "record":
        x = encoded.x / np.maximum(row_norms(encoded.x, norm), 1.0)[:, None]
        return x, ({"l1": 1.0, "l2": 1.0} if norm == "l1" else {"l1": root, "l2": 1.0})
    if not encoded.bounded:
        return encoded.x, {}
    if scaling == "public":
        return encoded.x / root, {"l1": root, "l2": 1.0}
    return encoded.x, {"l1": float(encoded.columns), "l2": root}


def check_rows(x: FloatArray, norm: str, bound: float, first_row: int = 1) -> None:
    """Raise DataError for the first row longer than the public ``bound``; a part in 10^9 is left for rounding."""
    norms = row_norms(x, norm)
    bad = np.flatnonzero(norms > bound * (1 + 1e-9))
    if bad.size:
        i = int(bad[0])
        raise DataError(
            f"row {first_row + i} has {norm.upper()} norm {norms[i]:g}, longer than the public bound "
            f"data.row_bound = {bound:g}; raise the bound, or scale rows with data.row_scaling"
        )
