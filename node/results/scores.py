"""The scores of a run's models, one for each agent, and what a summary of them holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coordinator_free.problem import baselines
from coordinator_free.release import FloatArray
from node.results.results import Summary


@dataclass(frozen=True)
class Scores:
    """The metric of each agent's model on its own held-out rows, shape (n,), by kind.

    NaN where there is none; infinite where the model is not finite.
    """

    records: FloatArray
    larger_is_better: bool
    kinds: dict[str, FloatArray]

    def summary(self, kind: str) -> Summary | None:
        """The summary of a kind of model; None where no agent has a score, or a model diverged."""
        scores = self.kinds.get(kind)
        if scores is None or np.isnan(scores).all() or np.isinf(scores).any():
            return None  # a mean over the others would hide the agents that diverged
        found = baselines.summary(scores, self.records.tolist(), larger_is_better=self.larger_is_better)
        return Summary.from_json(found)

    def quarters(self) -> list[npt.NDArray[np.intp]]:
        """Agents by number of records, in four groups, the fewest first; the same number in agent order."""
        order = np.argsort(self.records, kind="stable")
        first = len(baselines.smallest_quarter(self.records.tolist()))
        groups = [order[:first], *np.array_split(order[first:], 3)]
        return [group for group in groups if group.size]


def mean_of(values: FloatArray) -> float | None:
    """Return the mean of the values that are there; None where none is, or one of them is infinite."""
    there = values[~np.isnan(values)]
    return number(float(np.mean(there))) if there.size else None


def number(value: float | None) -> float | None:
    """Return a number that JSON has; None for NaN and infinity."""
    return None if value is None or not math.isfinite(value) else float(value)
