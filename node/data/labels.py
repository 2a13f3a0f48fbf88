"""Labels and groups in a user's own file: what a cell says, and whether it says anything.

Rules that hold here:
- A label that no setting knows is an error that names its row. It never becomes a class, and never an agent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator_free.release import FloatArray
from node.configuration.data import DataSection
from node.data.columns import Cells, inside, numbers
from node.data.errors import DataError

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""How files write that a value is missing, in small letters."""


@dataclass(frozen=True, eq=False)
class Labels:
    """``y`` (n,), a public bound on its size, and the words that became -1 if they were read from the data."""

    y: FloatArray
    bound: float | None
    negative: tuple[str, ...] = ()


def text_of(cell: Any) -> str:
    """The cell as a configuration would write it: 3.0 is "3"."""
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def is_missing(text: str) -> bool:
    """Whether a cell's text is one of the usual marks of a missing value."""
    return text.strip().casefold() in MISSING


def check_groups(groups: Sequence[str], column: str) -> None:
    """Raise DataError for the first row that belongs to no group."""
    for i, group in enumerate(groups):
        if is_missing(group):
            raise DataError(
                f"row {i + 1}, column {column!r}: the group {group!r} stands for a missing value; fill it in, leave "
                f"the row out, or list {group!r} with the other groups in data.levels"
            )


def read_labels(name: str, cells: Cells, section: DataSection, *, private: bool) -> Labels:
    """The labels in column ``name``: words by data.positive and data.negative, else numbers."""
    if section.positive is not None:
        return _signs(name, [text_of(cell) for cell in cells], section.positive, section.negative)
    try:
        y = numbers(name, cells)
    except DataError as error:
        # A label of words needs another remedy than a feature of words does.
        message, words, _ = str(error).partition("; list its values")
        raise DataError(f"{message}; name the label that becomes 1 in data.positive" if words else message) from None
    bounds = section.bounds.get(name)
    if bounds is None:
        return Labels(y, 1.0 if not private and bool(np.all(np.abs(y) == 1.0)) else None)
    if section.outside == "clip":
        y = np.clip(y, *bounds)
    inside(name, y, *bounds)
    middle = section.middle
    return Labels(y - middle, max(abs(bounds[0] - middle), abs(bounds[1] - middle)))


def _signs(name: str, words: Sequence[str], positive: str, stated: Sequence[str] | None) -> Labels:
    """1 for ``positive``, -1 for the other labels: those that are stated, or the one other label of the data."""
    others = Counter(word for word in words if word != positive)
    if stated is None and sum(others.values()) == len(words):
        seen = ", ".join(repr(word) for word in sorted(others)[:8])
        raise DataError(f"data.positive is {positive!r}, but column {name!r} holds {seen}")
    usual = next((word for word, _ in others.most_common() if not is_missing(word)), None)
    read = () if stated is not None or usual is None else (usual,)
    negative = read if stated is None else tuple(stated)
    for i, word in enumerate(words):
        if word != positive and word not in negative:
            what = "stands for a missing value" if is_missing(word) else f"is none of {_some((positive, *negative))}"
            raise DataError(
                f"row {i + 1}, column {name!r}: the label {word!r} {what}; leave the row out, or list every label that "
                "becomes -1 in data.negative"
            )
    return Labels(np.where([word == positive for word in words], 1.0, -1.0), 1.0, read)


def _some(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:8])) + (" ..." if len(words) > 8 else "")
