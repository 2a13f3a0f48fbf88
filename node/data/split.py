"""The rows of each agent, and those of them that are held out for testing.

Only sizes and labels (Dirichlet) or the named column steer a split; every draw comes from the generator given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coordinator_free.release import FloatArray
from node.data.errors import DataError

Rows = npt.NDArray[np.intp]

_TRIES = 1000
_MOST_CLASSES = 50


def even_sizes(rows: int, agents: int) -> list[int]:
    """Sizes that differ by one at most."""
    if rows < agents:
        raise DataError(f"data.agents is {agents}, but there are {rows} rows to share; at most one agent a row")
    return [rows // agents + (i < rows % agents) for i in range(agents)]


def ratio_sizes(rows: int, agents: int, ratio: float) -> list[int]:
    """Two groups of agents of equal size within the group; the second half has ``ratio`` times the rows of the first.

    Kang, Liu and Wang, experiments: "level of non-average" u = n_max / n_min. A few rows may be left over.
    """
    small = agents - agents // 2
    base = rows / (small + (agents - small) * ratio)
    if base < 1:
        raise DataError(f"data.ratio is {ratio:g}: {rows} rows are too few for {agents} agents at that ratio")
    return [int(base)] * small + [int(base * ratio)] * (agents - small)


def random_sizes(rows: int, agents: int, floor: int, random: np.random.Generator) -> list[int]:
    """Sizes uniform over all ways to share ``rows`` with at least ``floor`` each (Kang, Liu and Wang, experiments)."""
    spare = rows - agents * floor
    if spare < 0:
        raise DataError(f"data.floor is {floor}: {agents} agents need {agents * floor} rows, there are {rows}")
    bars = np.sort(random.choice(spare + agents - 1, size=agents - 1, replace=False))
    edges = np.concatenate([[-1], bars, [spare + agents - 1]])
    return [int(gap) - 1 + floor for gap in np.diff(edges)]


def by_sizes(rows: int, sizes: Sequence[int], random: np.random.Generator) -> list[Rows]:
    """Deal shuffled rows in the given sizes; rows that are left over go to no agent."""
    if sum(sizes) > rows:
        raise DataError(f"data.sizes asks for {sum(sizes)} rows, there are {rows}")
    order = random.permutation(rows)
    return list(np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1]))


def dirichlet(labels: FloatArray, agents: int, alpha: float, floor: int, random: np.random.Generator) -> list[Rows]:
    """Label skew: the rows of each label are shared in proportions drawn from Dirichlet(alpha, ..., alpha).

    Drawn again until every agent has at least ``floor`` rows.
    """
    classes = np.unique(labels)
    if len(classes) > _MOST_CLASSES:
        raise DataError(f'data.split = "dirichlet" skews classes, but the label has {len(classes)} values')
    for _ in range(_TRIES):
        parts: list[list[Rows]] = [[] for _ in range(agents)]
        for value in classes:
            rows = random.permutation(np.flatnonzero(labels == value))
            shares = random.dirichlet(np.full(agents, alpha))
            cuts = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.intp)
            for part, piece in zip(parts, np.split(rows, cuts), strict=True):
                part.append(piece)
        dealt = [random.permutation(np.concatenate(part)) for part in parts]
        if min(map(len, dealt)) >= floor:
            return dealt
    raise DataError(
        f"data.alpha is {alpha:g}: none of {_TRIES} draws left each of {agents} agents {floor} of {len(labels)} rows; "
        "raise data.alpha, or lower data.floor or data.agents"
    )


def by_groups(
    groups: Sequence[str], agents: int | None, stated: Sequence[str] | None = None
) -> tuple[list[Rows], list[str]]:
    """One agent for each value, in order (as numbers if all are); the first ``agents`` values if that is given.

    ``stated`` are the values in their order, with rows or without; a row of another one is an error that names it.
    """
    values = _in_order(groups) if stated is None else list(stated)
    if agents is not None and agents > len(values):
        raise DataError(f"data.agents is {agents}, but the column has {len(values)} values, and each is one agent")
    kept = values[:agents]
    rows: dict[str, list[int]] = {value: [] for value in values}
    for i, value in enumerate(groups):
        if value not in rows:
            raise DataError(f"row {i + 1}: the group {value!r} is not in data.levels, which lists the public groups")
        rows[value].append(i)
    return [np.array(rows[value], dtype=np.intp) for value in kept], kept


def hold_out(rows: Rows, share: float, random: np.random.Generator) -> tuple[Rows, Rows]:
    """(training, test): a random ``share`` of the rows is for testing, rounded, at least one and not all of them.

    A lone row is for training.
    """
    order = random.permutation(rows)
    if share == 0.0 or len(rows) < 2:
        return np.sort(order), order[:0]
    test = min(max(round(share * len(rows)), 1), len(rows) - 1)
    return np.sort(order[test:]), np.sort(order[:test])


def _in_order(groups: Sequence[str]) -> list[str]:
    """The different values, as numbers if all are finite ones, else as text; equal numbers ("1", "01") as text."""
    values = sorted(set(groups))
    try:
        numbers = {value: float(value) for value in values}
    except ValueError:
        return values
    return sorted(values, key=numbers.__getitem__) if all(map(math.isfinite, numbers.values())) else values
