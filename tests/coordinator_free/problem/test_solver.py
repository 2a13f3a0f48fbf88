"""The local solver: exact whatever the penalty, the noise or the shape of the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_free.problem.losses import LOGISTIC, SQUARED, Logistic
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.solver import FIXED_STEPS, REUSED_STEPS, LocalSolver, SolverError, tolerance
from coordinator_free.release import FloatArray


def problem(records: int, dimension: int, seed: int, squared: bool = False) -> LocalProblem:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, dimension))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = rng.normal(size=records) if squared else np.where(rng.random(records) < 0.5, 1.0, -1.0)
    return LocalProblem(x, y, SQUARED if squared else LOGISTIC, 0.0)


def gradient(p: LocalProblem, capacity: float, quadratic: float, linear: FloatArray, f: FloatArray) -> FloatArray:
    return capacity * p.loss.gradient(f, p.x, p.y) + quadratic * f + linear


@settings(deadline=None, max_examples=60)
@given(
    records=st.integers(0, 40),
    dimension=st.integers(1, 30),
    capacity=st.floats(1e-2, 1e4),
    quadratic=st.floats(1e-2, 1e5),
    size=st.floats(0.0, 1e3),
    squared=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_stop_rule_holds_at_the_minimiser(
    records: int, dimension: int, capacity: float, quadratic: float, size: float, squared: bool, seed: int
) -> None:
    p = problem(records, dimension, seed, squared)
    rng = np.random.default_rng(seed)
    centre = size * rng.normal(size=dimension)
    linear = -quadratic * centre
    for steps in (None, FIXED_STEPS):
        f = LocalSolver(p, capacity).minimise(quadratic, linear, centre, steps)
        # The residual is computed here with other roundings than in the solver.
        rounding = 1e-14 * (capacity + quadratic * np.abs(f).max(initial=0.0))
        allowed = 3.0 * (tolerance(quadratic, f, linear) + rounding * (1.0 + np.linalg.norm(f)))
        assert np.linalg.norm(gradient(p, capacity, quadratic, linear, f)) <= allowed


def test_fewer_records_than_coordinates_give_the_same_minimiser() -> None:
    few = problem(20, 50, 1)
    # Zero rows change nothing but the count, which the capacity undoes.
    padded = LocalProblem(np.vstack([few.x, np.zeros((60, 50))]), np.append(few.y, np.ones(60)), LOGISTIC, 0.0)
    linear = np.random.default_rng(2).normal(size=50)
    short = LocalSolver(few, 10.0).minimise(0.5, linear, np.zeros(50))
    long = LocalSolver(padded, 40.0).minimise(0.5, linear, np.zeros(50))
    np.testing.assert_allclose(short, long, rtol=0, atol=1e-10)


def test_blocks_of_rows_add_up() -> None:
    p = problem(2500, 4, 3)
    f = LocalSolver(p, 2500.0).minimise(1.0, np.zeros(4), np.zeros(4))
    assert np.linalg.norm(gradient(p, 2500.0, 1.0, np.zeros(4), f)) <= 1e-10


def test_a_fixed_number_of_steps_is_taken_wherever_it_starts() -> None:
    p = problem(50, 5, 4)
    solver = LocalSolver(p, 50.0)
    for start in (np.zeros(5), np.full(5, 30.0), solver.minimise(1.0, np.zeros(5), np.zeros(5))):
        solver.minimise(1.0, np.zeros(5), start, FIXED_STEPS)
        assert solver.steps_taken == FIXED_STEPS


class CountedLogistic(Logistic):
    """Notes how often each derivative is asked for."""

    slopes = 0
    curvatures_taken = 0

    def slope(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        type(self).slopes += 1
        return super().slope(prediction, y)

    def curvature(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        type(self).curvatures_taken += 1
        return super().curvature(prediction, y)


def test_what_fixed_steps_compute_does_not_depend_on_the_records() -> None:
    seen = set()
    for seed in range(40):
        p = problem(60, 8, seed)
        solver = LocalSolver(LocalProblem(p.x, p.y, CountedLogistic(), 0.0), 200.0)
        CountedLogistic.slopes = CountedLogistic.curvatures_taken = 0
        solver.minimise(2.0, 20.0 * np.random.default_rng(seed).normal(size=8), np.zeros(8), FIXED_STEPS)
        seen.add((CountedLogistic.slopes, CountedLogistic.curvatures_taken))
    # A gradient before each step and one at the end, and a line search along each; a Hessian for each fresh step.
    assert seen == {(2 * FIXED_STEPS + 1, FIXED_STEPS - REUSED_STEPS)}


def test_the_minimiser_does_not_depend_on_the_start() -> None:
    p = problem(50, 5, 5)
    solver = LocalSolver(p, 50.0)
    near = solver.minimise(1.0, np.ones(5), np.zeros(5))
    far = solver.minimise(1.0, np.ones(5), np.full(5, 300.0))
    np.testing.assert_allclose(near, far, rtol=0, atol=1e-12)


def test_no_curvature_is_refused() -> None:
    with pytest.raises(ValueError, match="quadratic = 0"):
        LocalSolver(problem(5, 2, 6), 1.0).minimise(0.0, np.zeros(2), np.zeros(2))


def test_a_problem_beyond_float64_is_named() -> None:
    p = LocalProblem(np.full((3, 2), 1e200), np.ones(3), LOGISTIC, 0.0)
    with pytest.raises(SolverError), np.errstate(all="ignore"):
        LocalSolver(p, 1.0).minimise(1.0, np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_a_fixed_number_of_steps_refuses_nothing(shape: tuple[int, int]) -> None:
    p = LocalProblem(np.full(shape, 1e200), np.ones(shape[0]), LOGISTIC, 0.0)
    with np.errstate(all="ignore"):
        found = LocalSolver(p, 1.0).minimise(1.0, np.zeros(shape[1]), np.zeros(shape[1]), FIXED_STEPS)
    assert found.shape == (shape[1],)
