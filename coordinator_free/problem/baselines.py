"""What agents reach alone and with all records in one place, and how models are scored.

Rules that hold here:
- A baseline "at its best" picks its regularisation by the test score, which flatters the baseline only.
- Scores are one number for each agent, NaN for an agent without test records; summaries leave these out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from coordinator_free.problem.losses import Loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

GRID = tuple(float(10.0**k) for k in np.arange(-2.0, 3.01, 0.25))
"""Regularisations that a baseline at its best chooses from: lambda_i = value / m_i."""

Tests = Sequence[tuple[FloatArray, FloatArray]]
"""(x_test, y_test) of each agent."""


def alone(problems: Sequence[LocalProblem]) -> FloatArray:
    """Each agent's own minimiser, shape (n, p)."""
    return np.stack([problem.minimiser() for problem in problems])


def pooled(problems: Sequence[LocalProblem], regularisation: float) -> FloatArray:
    """One model on the records of all agents, shape (p,); its lambda is ``regularisation`` / all records."""
    x = np.concatenate([problem.x for problem in problems])
    y = np.concatenate([problem.y for problem in problems])
    return LocalProblem(x, y, problems[0].loss, regularisation / max(len(y), 1)).minimiser()


def best_alone(
    problems: Sequence[LocalProblem], tests: Tests, grid: Sequence[float] = GRID
) -> tuple[FloatArray, float]:
    """Each agent's own minimiser at the best lambda_i = value / m_i, one value for all.

    Returns
    -------
    tuple[FloatArray, float]
        The models, shape (n, p), and the value, picked from ``grid`` by the mean test score.
    """
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
    """The metric of each agent's model on its own test records, shape (n,). One model (p,) is scored for all agents."""
    each = np.broadcast_to(models, (len(tests), models.shape[-1]))
    return np.array([judge.score(model, x, y) for model, (x, y) in zip(each, tests, strict=True)])


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


SPARSE_GRID = tuple(float(10.0**k) for k in np.arange(-1.25, 0.51, 0.25))
"""l1 penalties that a sparse baseline at its best chooses from: value / sqrt(m_i)."""


def best_sparse(
    problems: Sequence[LocalProblem], tests: Tests, grid: Sequence[float] = SPARSE_GRID
) -> tuple[FloatArray, float]:
    """Each agent's own minimiser of mean loss + value / sqrt(m_i) |theta|_1 at the best value, one for all.

    Returns
    -------
    tuple[FloatArray, float]
        The models, shape (n, p), and the value, picked by the mean test score.
    """
    judge = problems[0].loss
    sign = 1.0 if judge.larger_is_better else -1.0
    solver = _Sparse(problems)
    best: tuple[float, FloatArray, float] | None = None
    models = np.zeros((len(problems), problems[0].dimension))
    for value in sorted(grid, reverse=True):  # each from the sparser one before it
        models = solver.minimise(value, models)
        mean = sign * float(np.nanmean(scores(models, tests, judge)))
        if best is None or mean > best[0]:
            best = (mean, models, value)
    if best is None:
        raise ValueError("a baseline at its best needs a grid of at least one penalty")
    return best[1], best[2]


class _Sparse:
    """Accelerated proximal gradient (Beck and Teboulle 2009) for all agents at once; rows are padded with zeros."""

    STEPS = 300

    def __init__(self, problems: Sequence[LocalProblem]) -> None:
        longest, p = max(1, *(problem.records for problem in problems)), problems[0].dimension
        self._loss = problems[0].loss
        self._x = np.zeros((len(problems), longest, p))
        self._y = np.ones((len(problems), longest))
        self._weights = np.zeros((len(problems), longest))
        self._records = np.array([max(1, problem.records) for problem in problems], dtype=np.float64)
        for k, problem in enumerate(problems):
            self._x[k, : problem.records] = problem.x
            self._y[k, : problem.records] = problem.y
            self._weights[k, : problem.records] = 1.0 / self._records[k]
        smoothness = [
            problem.smoothness_of_data() - 2.0 * problem.regularisation if problem.records else 1.0
            for problem in problems
        ]
        self._step = 1.0 / np.maximum(np.array(smoothness), 1e-12)

    def minimise(self, value: float, start: FloatArray) -> FloatArray:
        shrink = (self._step * value / np.sqrt(self._records))[:, None]
        models, ahead, momentum = np.array(start), np.array(start), 1.0
        for _ in range(self.STEPS):
            margins = np.matmul(self._x, ahead[:, :, None])[:, :, 0]
            slopes = self._loss.slope(margins, self._y) * self._weights
            moved = ahead - self._step[:, None] * np.matmul(slopes[:, None, :], self._x)[:, 0, :]
            nearer = np.sign(moved) * np.maximum(np.abs(moved) - shrink, 0.0)
            following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead = nearer + (momentum - 1.0) / following * (nearer - models)
            models, momentum = nearer, following
        return models


def noised_records(problem: LocalProblem, scale: float, flip: float, random: np.random.Generator) -> LocalProblem:
    """The problem of records that are public: Laplace noise on each feature, labels flipped with a probability.

    Local differential privacy (Duchi, Jordan and Wainwright 2012): a record of L1 diameter D with ``scale`` D / eps_x
    and ``flip`` 1 / (1 + exp(eps_y)) is eps_x + eps_y private; neighbours differ in one record's value. ``flip`` > 0
    needs labels -1 and 1. The noise is a baseline's, from a generator that others may hold: nothing is released.
    """
    x = problem.x + random.laplace(scale=scale, size=problem.x.shape)
    y = np.where(random.random(problem.records) < flip, -problem.y, problem.y) if flip > 0.0 else problem.y
    return replace(problem, x=x, y=y)
