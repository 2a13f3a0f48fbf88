"""Baselines and scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator_free.problem.baselines import alone, best_alone, pooled, scores, smallest_quarter, summary
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.problem.objective import LocalProblem


def test_alone_is_ridge() -> None:
    problem = LocalProblem(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]), SQUARED, 0.5)
    # (theta - 1)^2 / 2 + (theta - 3)^2 / 2 + theta^2 / 2 is least at 4/3.
    assert alone([problem, problem]) == pytest.approx(np.full((2, 1), 4 / 3))


def test_pooled_is_one_problem_of_all_records(problems) -> None:
    made = problems(5, 3, SQUARED, empty=True)
    x = np.concatenate([problem.x for problem in made])
    y = np.concatenate([problem.y for problem in made])
    expected = np.linalg.solve(x.T @ x + 0.7 * np.eye(3), x.T @ y)
    assert pooled(made, 0.7) == pytest.approx(expected)


def test_the_best_of_a_grid_is_the_best(problems) -> None:
    made = problems(6, 3, LOGISTIC)
    tests = [(problem.x, problem.y) for problem in problems(6, 3, LOGISTIC, seed=1)]
    models, value = best_alone(made, tests, (0.01, 1.0, 100.0))
    best = np.mean(scores(models, tests, LOGISTIC))
    for other in (0.01, 1.0, 100.0):
        trial, _ = best_alone(made, tests, (other,))
        assert np.mean(scores(trial, tests, LOGISTIC)) <= best
    assert value in (0.01, 1.0, 100.0)
    with pytest.raises(ValueError, match="at least one"):
        best_alone(made, tests, ())


def test_summary_leaves_out_agents_without_test_records() -> None:
    tests = [(np.ones((1, 1)), np.array([y])) for y in (1.0, 2.0, 5.0, 3.0)] + [(np.empty((0, 1)), np.empty(0))]
    scored = scores(np.zeros(1), tests, SQUARED)
    records = [10, 3, 5, 9, 1]
    assert math.isnan(scored[4])
    assert smallest_quarter(records).tolist() == [4]
    assert summary(scored, records, larger_is_better=False) == {
        "mean": pytest.approx(11 / 4),
        "worst": 5.0,
        "smallest_quarter": None,
    }
    assert summary(scored, [10, 3, 5, 9, 20], larger_is_better=True) == {
        "mean": pytest.approx(11 / 4),
        "worst": 1.0,
        "smallest_quarter": 2.0,
    }
