"""What the named sources with public rules share: one row a record, a label of two words, a rule for every column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from coordinator_free.release import FloatArray
from node.configuration.data import DataSection
from node.data.columns import Cells, Number, Plan, Rated, Rule, Words, encode, numbers, scale_rows
from node.data.errors import DataError
from node.data.table import Table


def without(plan: Plan, section: DataSection) -> dict[str, Rule]:
    """The plan without dropped columns and without the column that splits."""
    for name in (*section.drop, *filter(None, [section.column])):
        if name not in plan:
            raise DataError(f"no column {name!r} in data.source = {section.source!r}; it has {', '.join(plan)}")
    return {name: rule for name, rule in plan.items() if name not in section.drop and name != section.column}


def by_maxima(plan: Plan, columns: Mapping[str, Cells]) -> dict[str, Rule]:
    """The plan with numbers divided by the largest value in the data: a statistic of all records."""
    return {
        name: Number(0.0, float(numbers(name, columns[name]).max()) or 1.0, start=0.0)
        if isinstance(rule, Number)
        else rule
        for name, rule in plan.items()
    }


def by_frequency(plan: Plan, columns: Mapping[str, Cells], names: Sequence[str]) -> dict[str, Rule]:
    """The plan with the words of the columns ``names`` replaced by their frequency over that of the most frequent one.

    Both are statistics of all records. Raises `DataError` for a name that is no column of words of the plan.
    """
    words = {name: rule for name, rule in plan.items() if isinstance(rule, Words)}
    rated: dict[str, Rule] = {}
    for name in names:
        if name not in words:
            raise DataError(f"data.by_frequency: {name!r} is no feature of words; accepted are {', '.join(words)}")
        counts = Counter(str(cell) for cell in columns[name])
        most = max(counts.values(), default=1)
        rated[name] = Rated({level: counts[level] / most for level in words[name].levels})
    return {**plan, **rated}


def check_columns(columns: Mapping[str, Cells], expected: Sequence[str], source: str) -> None:
    """Raise DataError for a file that lacks a column of ``expected``, those of the published file."""
    missing = [name for name in expected if name not in columns]
    if missing:
        raise DataError(
            f"data.path: the file has no column {missing[0]!r}, so it is no file of data.source = {source!r}; expected "
            f"are {', '.join(expected)}"
        )


def signs(cells: Cells, positive: str, negative: str) -> FloatArray:
    """1 for ``positive``, -1 for ``negative``; anything else is an error that names its row."""
    for i, cell in enumerate(cells):
        if cell not in (positive, negative):
            raise DataError(f"row {i + 1}: label {cell!r} is neither {positive!r} nor {negative!r}")
    return np.array([1.0 if cell == positive else -1.0 for cell in cells])


def table(
    columns: Mapping[str, Cells],
    plan: Plan,
    y: FloatArray,
    section: DataSection,
    *,
    norm: str,
    intercept: bool,
    scaling: str,
    record: str,
    public_assumptions: tuple[str, ...] = (),
) -> Table:
    """Encode and scale with the section's choices, or else this source's defaults."""
    wanted = section.intercept if section.intercept is not None else intercept
    encoded = encode(columns, plan, intercept=wanted)
    x, row_bounds = scale_rows(encoded, section.row_scaling or scaling, norm)
    if section.column is not None:
        agents = f"{section.source}: the agents are the values of column {section.column!r} that occur in the file"
        public_assumptions = (*public_assumptions, agents)
    return Table(
        x=x,
        y=y,
        features=encoded.features,
        record=record,
        row_bounds=row_bounds,
        label_bound=1.0,
        groups=None if section.column is None else [str(cell) for cell in columns[section.column]],
        group=section.column or "agent",
        sources=columns,
        public_assumptions=public_assumptions,
    )
