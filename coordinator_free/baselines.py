"""What the agents would reach without talking, or without keeping anything to themselves; and how models are scored.

Rules that hold here:
- A baseline "at its best" picks its regularisation by the test score, which flatters the baseline and nobody else.
- Scores are one number for each agent, NaN for an agent without test records; summaries leave these out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from coordinator_free.losses import Loss
from coordinator_free.objective import LocalProblem
from coordinator_free.release import FloatArray

GRID = tuple(float(10.0**k) for k in np.arange(-2.0, 3.01, 0.25))
"""Regularisations that a baseline at its best chooses from: lambda_i = value / m_i."""

Tests = Sequence[tuple[FloatArray, FloatArray]]
"""(x_test, y_test) of each agent."""


def alone(problems: Sequence[LocalProblem]) -> FloatArray:
    """Each agent's own minimiser, shape (n, p)."""
    return np.stack([problem.minimiser() for problem in problems])


def pooled(problems: Sequence[LocalProblem], regularisation: float) -> FloatArray:
    """One model on everybody's records, shape (p,); its lambda is ``regularisation`` / all records."""
    x = np.concatenate([problem.x for problem in problems])
    y = np.concatenate([problem.y for problem in problems])
    return LocalProblem(x, y, problems[0].loss, regularisation / max(len(y), 1)).minimiser()


def best_alone(
    problems: Sequence[LocalProblem], tests: Tests, grid: Sequence[float] = GRID
) -> tuple[FloatArray, float]:
    """Each agent's own minimiser at the best lambda_i = value / m_i, one value for all: (models, value)."""
    judge = problems[0].loss
    sign = 1.0 if judge.larger_is_better else -1.0
    best: tuple[float, FloatArray, float] | None = None
    for value in grid:
        models = alone([replace(problem, regularisation=value / max(problem.records, 1)) for problem in problems])
        mean = sign * float(np.nanmean(scores(models, tests, judge)))
        if best is None or mean > best[0]:
            best = (mean, models, value)
    if best is None:
        raise ValueError("a baseline at its best needs a grid of at least one regularisation")
    return best[1], best[2]


def scores(models: FloatArray, tests: Tests, judge: Loss) -> FloatArray:
    """The metric of each agent's model on its own test records, shape (n,). One model (p,) is scored for everybody."""
    everybody = np.broadcast_to(models, (len(tests), models.shape[-1]))
    return np.array([judge.score(model, x, y) for model, (x, y) in zip(everybody, tests, strict=True)])


def smallest_quarter(records: Sequence[int]) -> npt.NDArray[np.intp]:
    """The quarter of the agents with the fewest records, as indices; ties go by agent."""
    order = np.argsort(np.asarray(records), kind="stable")
    return order[: max(1, round(len(order) / 4))]


def summary(scored: FloatArray, records: Sequence[int], *, larger_is_better: bool) -> dict[str, float | None]:
    """{"mean", "worst", "smallest_quarter"} over the agents that have a score; None where none has."""
    few = scored[smallest_quarter(records)]
    known, few = scored[np.isfinite(scored)], few[np.isfinite(few)]
    if known.size == 0:
        return {"mean": None, "worst": None, "smallest_quarter": None}
    return {
        "mean": float(known.mean()),
        "worst": float(known.min() if larger_is_better else known.max()),
        "smallest_quarter": float(few.mean()) if few.size else None,
    }
