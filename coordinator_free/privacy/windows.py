"""Budgets of single records: which releases used a record, and what the record that is used most was charged.

A release is computed from the records that are there when it is made. To the total of a record belong the releases that
used it, its window, and no others: a record that arrives later has nothing in earlier releases, and one that was left
out has nothing in later ones.

Rules that hold here:
- When a record arrives and when it is left out is public: decided before the run, from sizes and settings alone.
- What is not known exactly is bounded from above: no record's total is understated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from coordinator_free.privacy.mechanism import Mechanism

Window = tuple[int, int]
"""The first and the last index of the releases that may use a record."""

Windows = Sequence[Window]
"""A window for each record, or each different one; empty: every release uses every record."""


def within(window: Window, index: int) -> bool:
    """Whether release ``index`` uses a record of this window."""
    return window[0] <= index <= window[1]


def most_used(charged: Iterable[tuple[int, Mechanism | None]], windows: Windows) -> list[Mechanism | None]:
    """What no record was charged more than.

    Parameters
    ----------
    charged
        The index and the mechanism of each charged release of one run.
    windows
        Of the records.

    Returns
    -------
    One mechanism for each release, as an accountant takes it. Of each kind of release (same noise, same multiplier)
    there are as many as the record has that is in most of them; where every window lies within one, or all releases are
    of one kind, that is exactly what the worst record was charged.
    """
    if not windows:
        return [mechanism for _, mechanism in charged]
    kinds: list[Mechanism | None] = []
    numbered = [(index, _kind(mechanism, kinds)) for index, mechanism in charged]
    most: Counter[int] = Counter()
    for window in set(windows):
        most |= Counter(kind for index, kind in numbered if within(window, index))
    return [kinds[kind] for kind in sorted(most.elements())]


def _kind(mechanism: Mechanism | None, kinds: list[Mechanism | None]) -> int:
    """The place in ``kinds`` of a mechanism that costs the same; it is added where there is none."""
    for place, kind in enumerate(kinds):
        if _cost_alike(mechanism, kind):
            return place
    kinds.append(mechanism)
    return len(kinds) - 1


def _cost_alike(one: Mechanism | None, other: Mechanism | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.name == other.name and math.isclose(one.multiplier, other.multiplier, rel_tol=1e-12)
