"""Regularisers other than the square: their derivatives, and exact minimisers with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.regularisers import SQUARE, WIDTH, SmoothL1, beyond_square
from coordinator_free.problem.solver import BENT_STEPS, LocalSolver, tolerance
from coordinator_free.release import FloatArray

STEP = 1e-5


def problem(records: int, dimension: int, seed: int) -> LocalProblem:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, dimension))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    return LocalProblem(x, np.where(rng.random(records) < 0.5, 1.0, -1.0), LOGISTIC, 0.0)


def pulled(f: FloatArray, rho: float) -> FloatArray:
    """The gradient of rho times the smooth L1 norm, written out."""
    return rho * f / np.sqrt(f * f + WIDTH * WIDTH)


def test_derivatives_are_those_of_the_value() -> None:
    added = SmoothL1(3.0)
    f = np.random.default_rng(1).normal(size=(6, 4)) * np.array([0.01, 0.1, 1.0, 10.0])
    for k in range(4):
        move = STEP * np.eye(4)[k]
        slope = (added.value(f + move) - added.value(f - move)) / (2.0 * STEP)
        curvature = (added.slope(f + move) - added.slope(f - move))[:, k] / (2.0 * STEP)
        np.testing.assert_allclose(added.slope(f)[:, k], slope, rtol=0, atol=1e-6)
        np.testing.assert_allclose(added.curvature(f)[:, k], curvature, rtol=0, atol=1e-6)
    assert added.value(np.zeros(4)) == 0.0
    assert added.value(np.array([100.0, -100.0])) == pytest.approx(3.0 * 200.0, rel=2e-3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_what_is_added_is_convex_and_its_curvature_has_the_stated_bound(numbers: list[float]) -> None:
    added = SmoothL1(0.5)
    curvature = added.curvature(np.array(numbers))
    assert (curvature >= 0.0).all()
    assert (curvature <= added.largest_curvature * (1.0 + 1e-12)).all()


def test_the_square_adds_nothing() -> None:
    assert beyond_square("squared", 7.0) is SQUARE
    f = np.array([1.0, -2.0])
    assert not any(added.any() for added in (SQUARE.value(f), SQUARE.slope(f), SQUARE.curvature(f)))
    assert beyond_square("smooth-l1", 7.0) == SmoothL1(7.0)


@settings(deadline=None, max_examples=40)
@given(
    records=st.integers(0, 40),
    dimension=st.integers(1, 30),
    capacity=st.floats(1e-2, 1e3),
    quadratic=st.floats(1e-2, 1e4),
    rho=st.floats(1e-3, 1e2),
    size=st.floats(0.0, 1e3),
    seed=st.integers(0, 2**16),
)
def test_the_stop_rule_holds_at_the_minimiser(
    records: int, dimension: int, capacity: float, quadratic: float, rho: float, size: float, seed: int
) -> None:
    p = problem(records, dimension, seed)
    linear = -quadratic * size * np.random.default_rng(seed).normal(size=dimension)
    for steps in (None, BENT_STEPS):
        f = LocalSolver(p, capacity, SmoothL1(rho)).minimise(quadratic, linear, np.zeros(dimension), steps)
        gradient = capacity * p.loss.gradient(f, p.x, p.y) + quadratic * f + linear + pulled(f, rho)
        # The residual is computed here with other roundings than in the solver.
        rounding = 1e-14 * (capacity + rho / WIDTH + quadratic * np.abs(f).max(initial=0.0))
        allowed = 3.0 * (tolerance(quadratic + rho / WIDTH, f, linear) + rounding * (1.0 + np.linalg.norm(f)))
        assert np.linalg.norm(gradient) <= allowed


@pytest.mark.parametrize("shape", [(60, 8), (8, 60)])
def test_a_fixed_number_of_steps_is_enough_whatever_the_noise(shape: tuple[int, int]) -> None:
    p, random = problem(*shape, seed=3), np.random.default_rng(4)
    for rho in (0.01, 1.0, 100.0):
        solver, f = LocalSolver(p, 50.0, SmoothL1(rho)), np.zeros(shape[1])
        for size in (0.01, 0.1, 1.0, 10.0, 100.0):
            f = solver.minimise(rho + 4.0, (rho + 4.0) * size * random.normal(size=shape[1]), f, BENT_STEPS)
            assert solver.steps_taken == BENT_STEPS, (rho, size)


def test_the_consensus_optimum_has_no_slope() -> None:
    problems = [problem(20, 5, seed) for seed in (1, 2, 3)]
    best = consensus_optimum(problems, 30.0, 2.0, form="smooth-l1")
    slope = sum(30.0 * p.loss.gradient(best, p.x, p.y) + 2.0 * best + pulled(best, 2.0) for p in problems)
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)
    assert np.linalg.norm(best) < np.linalg.norm(consensus_optimum(problems, 30.0, 2.0))
