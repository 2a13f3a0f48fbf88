"""Records that arrive during a run (data that are collected on-line: Bellet et al. 2018, section 6, leaves them open).

At its update t an agent uses the records that have arrived and are not spent. With m(t) of its m records its local
problem is that of an agent that was dealt those m(t): lambda_i(t) = lambda_i m / m(t), c_i(t) = c_i m(t) / m, and a
step for the smoothness of that problem.

Rules that hold here:
- Which records an update uses follows from its index and from public numbers. So an execution again uses the same.
- A record that is not used has no part in the update, neither in its value nor in its noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from coordinator_free.privacy.windows import Windows
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.settings import Count, SettingError, Settings


@dataclass(frozen=True, kw_only=True)
class ArrivalNumbers(Settings):
    """Public numbers of an agent whose records arrive during the run."""

    arrivals: Sequence[int] = ()
    """For each record, the first update that may use it. Empty: all are there from the start."""
    uses: Count | None = None
    """Updates that use a record at most, those from its arrival on. None: all that follow."""


def windows_of(learning: Mapping[str, Any], updates: int) -> Windows:
    """For each record, the first and the last of ``updates`` updates that use it; empty: all of them use all."""
    own = ArrivalNumbers.of(learning)
    uses = own.uses or updates
    return [(first, min(first + uses, updates) - 1) for first in own.arrivals]


@dataclass(frozen=True, eq=False)
class Stage:
    """What an update uses: the ``problem`` of the records that are there, and their ``share`` of all records."""

    problem: LocalProblem
    share: float


class Arriving:
    """The records of one agent over its updates.

    Parameters
    ----------
    problem
        With all records that the agent will have.
    windows
        For each record, the first and the last update that use it; empty: all records are there throughout.

    Raises
    ------
    SettingError
        There is not one window for each record.
    """

    def __init__(self, problem: LocalProblem, windows: Windows) -> None:
        if windows and len(windows) != problem.records:
            raise SettingError(f"{len(windows)} arrivals for {problem.records} records: one for each")
        self.windows = tuple(windows)
        self._whole = Stage(problem, 1.0)
        self._first, self._last = np.array(self.windows, dtype=np.int64).reshape(-1, 2).T
        self._there: bytes = b""
        self._stage = self._whole

    @classmethod
    def of(cls, problem: LocalProblem, learning: Mapping[str, Any], updates: int) -> Self:
        """The records of an agent with these public numbers, which makes so many updates."""
        return cls(problem, windows_of(learning, updates))

    def at(self, update: int) -> Stage:
        """What ``update`` uses."""
        if not self.windows:
            return self._whole
        there = (self._first <= update) & (update <= self._last)
        if (key := there.tobytes()) != self._there:
            self._there, self._stage = key, self._made(there)
        return self._stage

    def _made(self, there: np.ndarray[Any, np.dtype[np.bool_]]) -> Stage:
        whole, count = self._whole.problem, int(there.sum())
        if count == whole.records:
            return self._whole
        regularisation = whole.regularisation * whole.records / max(count, 1)
        problem = replace(whole, x=whole.x[there], y=whole.y[there], regularisation=regularisation)
        return Stage(problem, count / whole.records)

    def stages(self) -> list[Stage]:
        """Each different stage, in order; an agent without records has none."""
        if not self.windows:
            return [self._whole]
        changes = sorted({*self._first.tolist(), *(self._last + 1).tolist()})
        return [stage for stage in map(self.at, changes) if stage.problem.records]
