"""Each agent's own privacy budget: from a file's column, or by a rule; epsilon 0 opts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coordinator_free.privacy.budgets import BudgetError, by_levels, check_epsilon
from node.configuration.agent_names import AgentNameError, numbered
from node.data.csv_file import read_columns

BUDGETS = 6
"""Keeps the dealing of budgets apart from the other uses of the same seed."""

Own = tuple[float, float]
"""(epsilon, delta) of one agent."""


def dealt_by_levels(agents: int, levels: Sequence[tuple[float, float]], delta: float, seed: int) -> list[Own]:
    """Budgets of (share, epsilon) levels, dealt with ``seed``."""
    epsilons = by_levels(agents, levels, np.random.default_rng([seed, BUDGETS]))
    return [(float(epsilon), delta) for epsilon in epsilons]


def from_file(path: Path, names: Sequence[str], default: Own) -> list[Own]:
    """Budgets of the columns ``agent`` (a name or a number from 0), ``epsilon`` and, if it is there, ``delta``.

    An agent that the file does not name has the ``default``. A plain number is a name where one of ``names`` holds it
    ("school 12"). Raises `BudgetError` with the row.
    """
    columns = read_columns(path)
    for needed in ("agent", "epsilon"):
        if needed not in columns:
            raise BudgetError(f"privacy.budgets = {path}: has no column {needed!r}; needed are agent and epsilon")
    own = [default] * len(names)
    seen: set[int] = set()
    deltas = columns.get("delta", [""] * len(columns["agent"]))
    try:
        places = numbered(columns["agent"], names)
    except AgentNameError as error:
        row = columns["agent"].index(error.text) + 2
        raise BudgetError(f"privacy.budgets = {path}, row {row}: {error}") from None
    cells = zip(columns["agent"], places, columns["epsilon"], deltas, strict=True)
    for row, (agent, place, epsilon, delta) in enumerate(cells, 2):
        where = f"privacy.budgets = {path}, row {row}"
        if place in seen:
            raise BudgetError(f"{where}: agent {agent!r} has a budget already")
        seen.add(place)
        number = _number(epsilon, where, "epsilon")
        if number > 0:
            try:
                check_epsilon(number)
            except ValueError as error:
                raise BudgetError(f"{where}: epsilon = {epsilon!r}: {error}, or 0") from None
        share = default[1] if delta == "" else _number(delta, where, "delta")
        if share >= 1.0:
            raise BudgetError(f"{where}: delta = {share:g}; accepted: below 1")
        own[place] = (number, share)
    if not any(epsilon > 0 for epsilon, _ in own):
        raise BudgetError(f"privacy.budgets = {path}: every agent opts out, so that no agent would send anything")
    return own


def _number(cell: str, where: str, name: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise BudgetError(f"{where}: {name} = {cell!r}; accepted: a finite number, 0 or more")
    return value
