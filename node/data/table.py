"""Rows of one dataset, and how they become shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.release import FloatArray
from node.configuration.data import DataSection
from node.data import split
from node.data.columns import Cells
from node.data.dealt import Dealt, Shard, Updates, metric_of
from node.data.labels import check_groups
from node.data.records import Sources

_SPLIT_ASSUMPTIONS = {"dirichlet": ("the agent of each row was drawn from its label (Dirichlet label skew)",)}


@dataclass(frozen=True, eq=False)
class Table:
    """All rows of a dataset, encoded and scaled: ``x`` (n, p), ``y`` (n,)."""

    x: FloatArray
    y: FloatArray
    features: tuple[str, ...]
    record: str
    row_bounds: dict[str, float]
    label_bound: float | None
    groups: Sequence[str] | None = None
    """Each row's value of the column that splits, if one does."""
    group: str = "agent"
    """What an agent is called: "school"."""
    public_assumptions: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    """The labels that became -1, where they were read from the data."""
    x_test: FloatArray | None = None
    y_test: FloatArray | None = None
    """Published test rows (data.test = "published")."""
    sources: Mapping[str, Cells] | None = None
    """Every column of the source as it is, row for row with ``x``."""
    arrivals: Updates | None = None
    """The first update that may use each row, where a column says so; shape (n,)."""


def deal_table(table: Table, section: DataSection, seed: int) -> Dealt:
    """Split a table among agents and hold out test rows, with generators of their own for either."""
    parts, names = _parts(table, section, np.random.default_rng([seed, 1]))
    random = np.random.default_rng([seed, 2])
    if table.x_test is None or table.y_test is None:
        shards, training = [], []
        for rows in parts:
            train, test = split.hold_out(rows, section.held_out_in_force, random)
            when = None if table.arrivals is None else table.arrivals[train]
            shards.append(Shard(table.x[train], table.y[train], table.x[test], table.y[test], when))
            training.append(train)
    else:
        tests = split.by_sizes(len(table.y_test), split.even_sizes(len(table.y_test), len(parts)), random)
        training = [np.sort(rows) for rows in parts]
        shards = [
            Shard(table.x[rows], table.y[rows], table.x_test[test], table.y_test[test])
            for rows, test in zip(training, tests, strict=True)
        ]
    return Dealt(
        shards=tuple(shards),
        names=tuple(names),
        features=table.features,
        metric=metric_of(table.y),
        record=table.record,
        row_bounds=table.row_bounds,
        label_bound=table.label_bound,
        negative=table.negative,
        sources=None if table.sources is None else Sources(table.sources, tuple(training)),
        public_assumptions=table.public_assumptions + _SPLIT_ASSUMPTIONS.get(section.split_in_force, ()),
    )


def _parts(table: Table, section: DataSection, random: np.random.Generator) -> tuple[list[split.Rows], list[str]]:
    kind, rows = section.split_in_force, len(table.y)
    if kind == "column":
        assert table.groups is not None
        stated = section.levels.get(section.column or "")
        if stated is None:
            check_groups(table.groups, table.group)
        parts, values = split.by_groups(table.groups, section.agents, stated)
        return parts, [f"{table.group} {value}" for value in values]
    agents = section.agents or len(section.sizes or ())
    if kind == "dirichlet":
        parts = split.dirichlet(table.y, agents, section.alpha or 1.0, section.floor, random)
    else:
        if kind == "sizes":
            sizes = list(section.sizes or ())
        elif kind == "ratio":
            sizes = split.ratio_sizes(rows, agents, section.ratio or 1.0)
        elif kind == "random":
            sizes = split.random_sizes(rows, agents, section.floor, random)
        else:
            sizes = split.even_sizes(rows, agents)
        parts = split.by_sizes(rows, sizes, random)
    return parts, [f"agent {i}" for i in range(agents)]
