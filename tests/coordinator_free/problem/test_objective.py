"""Local problems and the network's objective: golden numbers, derivatives, minimisers, clipping."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from coordinator_free.problem.graph_objective import gap_at_start, graph_objective, optimum, relative_gap
from coordinator_free.problem.losses import LOGISTIC, LOSSES, SQUARED, Loss
from coordinator_free.problem.objective import LocalProblem, ProblemError
from topology.network import Network

EVERY = pytest.mark.parametrize("judge", LOSSES.values(), ids=list(LOSSES))
CONVEX = pytest.mark.parametrize("judge", [judge for judge in LOSSES.values() if judge.convex], ids=lambda j: j.name)


def local(judge: Loss, seed: int, m: int = 9, p: int = 4, regularisation: float = 0.1) -> LocalProblem:
    random = np.random.default_rng(seed)
    x = random.normal(size=(m, p))
    return LocalProblem(x, np.where(random.random(m) < 0.5, 1.0, -1.0), judge, regularisation)


extremes = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e-170, 1e300, -1e308, 5e-324, 1e-310])


@pytest.mark.parametrize("norm", ["l1", "l2"])
@given(
    row=st.lists(extremes, min_size=2, max_size=2),
    theta=st.lists(extremes.filter(lambda value: abs(value) <= 1e307), min_size=2, max_size=2),
    label=extremes,
    clip=st.sampled_from([1e-3, 1.0, 50.0]),
)
def test_a_clip_holds_for_every_finite_row_label_and_model(
    norm: str, row: list[float], theta: list[float], label: float, clip: float
) -> None:
    with np.errstate(all="ignore"):
        problem = LocalProblem(np.array([row]), np.array([label]), SQUARED, 0.0)
        gradient = problem.clipped_gradient(np.array(theta), clip, norm)
    assert np.isfinite(gradient).all()
    length = np.abs(gradient).sum() if norm == "l1" else np.hypot(*gradient)
    assert length <= clip * (1.0 + 1e-9)


def test_a_row_whose_square_is_no_float_is_clipped() -> None:
    problem = LocalProblem(np.full((1, 2), 1e-170), np.array([1e300]), SQUARED, 0.0)
    gradient = problem.clipped_gradient(np.zeros(2), 1.0, "l2")
    assert gradient == pytest.approx([-(0.5**0.5)] * 2)


@EVERY
@given(seed=st.integers(0, 10_000))
def test_gradient_and_hessian_by_finite_differences(judge: Loss, seed: int) -> None:
    problem = local(judge, seed)
    theta = np.random.default_rng(seed + 1).normal(size=4)
    h = 1e-6
    for k in range(4):
        step = h * np.eye(4)[k]
        slope = (problem.value(theta + step) - problem.value(theta - step)) / (2 * h)
        assert problem.gradient(theta)[k] == pytest.approx(slope, abs=1e-7)
        bend = (problem.gradient(theta + step) - problem.gradient(theta - step)) / (2 * h)
        assert problem.hessian(theta)[k] == pytest.approx(bend, abs=1e-7)


@EVERY
@pytest.mark.parametrize("norm", ["l1", "l2"])
@given(seed=st.integers(0, 10_000), clip=st.floats(1e-3, 1e3))
def test_clipping_is_each_records_own(judge: Loss, norm: str, seed: int, clip: float) -> None:
    problem = local(judge, seed)
    theta = np.random.default_rng(seed + 1).normal(size=4)
    order = {"l1": 1, "l2": 2}[norm]
    gradients = judge.record_gradients(theta, problem.x, problem.y)
    norms = np.linalg.norm(gradients, ord=order, axis=1)
    clipped = gradients * np.minimum(1.0, clip / norms)[:, None]
    expected = clipped.mean(axis=0) + problem.regularisation * judge.penalty_gradient(theta)
    assert problem.clipped_gradient(theta, clip, norm) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@EVERY
@pytest.mark.parametrize("norm", ["l1", "l2"])
@given(seed=st.integers(0, 10_000), clip=st.floats(1e-2, 10), size=st.floats(0, 1e6))
def test_one_replaced_record_moves_the_clipped_gradient_by_its_sensitivity_at_most(
    judge: Loss, norm: str, seed: int, clip: float, size: float
) -> None:
    problem = local(judge, seed)
    random = np.random.default_rng(seed + 1)
    theta = random.normal(size=4)
    x, y = problem.x.copy(), problem.y.copy()
    x[0], y[0] = size * random.normal(size=4), -y[0]
    other = LocalProblem(x, y, judge, problem.regularisation)
    moved = problem.clipped_gradient(theta, clip, norm) - other.clipped_gradient(theta, clip, norm)
    assert np.linalg.norm(moved, ord={"l1": 1, "l2": 2}[norm]) <= 2 * clip / problem.records * (1 + 1e-12)


def test_the_sensitivity_of_the_clipped_gradient_is_attained() -> None:
    theta = np.zeros(2)
    x = np.array([[100.0, 0.0], [1.0, 1.0]])
    one = LocalProblem(x, np.array([1.0, 1.0]), LOGISTIC, 0.0)
    two = LocalProblem(x, np.array([-1.0, 1.0]), LOGISTIC, 0.0)
    moved = one.clipped_gradient(theta, 0.5, "l1") - two.clipped_gradient(theta, 0.5, "l1")
    assert np.abs(moved).sum() == pytest.approx(2 * 0.5 / 2, rel=1e-14)


@EVERY
@pytest.mark.parametrize("m", [1, 3, 9])
def test_minimisers_have_no_gradient(judge: Loss, m: int) -> None:
    problem = local(judge, 5, m=m, p=5)
    assert np.linalg.norm(problem.gradient(problem.minimiser())) < 1e-13
    centre = np.random.default_rng(1).normal(size=5)
    for pull in (1e-3, 1.0, 1e4):
        nearby = problem.proximal(centre, pull)
        assert np.linalg.norm(nearby - centre + pull * problem.gradient(nearby)) < 1e-11 * max(1.0, pull)


def test_newton_reaches_the_stop_rule_of_objective_perturbation_from_far_away() -> None:
    problem = local(LOGISTIC, 2, m=40, p=10, regularisation=1e-6)
    nearby = problem.proximal(np.full(10, 300.0), 5.0)
    assert np.linalg.norm(nearby - 300.0 + 5.0 * problem.gradient(nearby)) < 1e-10


def test_an_agent_without_records() -> None:
    problem = LocalProblem(np.empty((0, 3)), np.empty(0), SQUARED, 0.5)
    theta = np.array([1.0, 2.0, 3.0])
    assert problem.value(theta) == 7.0
    assert problem.gradient(theta).tolist() == [1.0, 2.0, 3.0]
    assert problem.clipped_gradient(theta, 1.0, "l2").tolist() == [1.0, 2.0, 3.0]
    assert problem.minimiser().tolist() == [0.0, 0.0, 0.0]
    assert problem.proximal(theta, 1.0) == pytest.approx(theta / 2)
    assert problem.smoothness_of_data() == 1.0


def test_the_shortest_least_squares_solution() -> None:
    problem = LocalProblem(np.array([[1.0, 1.0]]), np.array([2.0]), SQUARED, 0.0)
    assert problem.minimiser() == pytest.approx([1.0, 1.0])
    with pytest.raises(ProblemError, match="may have no minimiser"):
        LocalProblem(np.array([[1.0, 1.0]]), np.array([1.0]), LOGISTIC, 0.0).minimiser()


@EVERY
def test_smoothness_bounds_the_curvature(judge: Loss) -> None:
    problem = local(judge, 7)
    for seed in range(20):
        theta = np.random.default_rng(seed).normal(size=4)
        assert np.linalg.eigvalsh(problem.hessian(theta))[-1] <= problem.smoothness_of_data() + 1e-12
    longest = float(np.linalg.norm(problem.x, axis=1).max())
    assert problem.smoothness_of_data() <= problem.smoothness_bound(longest)


@pytest.mark.parametrize(
    ("x", "y", "regularisation", "message"),
    [
        (np.ones((2, 2)), np.ones(3), 0.0, "shape"),
        (np.array([[np.nan]]), np.ones(1), 0.0, "finite"),
        (np.ones((1, 1)), np.ones(1), -1.0, "regularisation = -1"),
        (np.ones((1, 1)), np.zeros(1), 0.0, "label 0"),
    ],
)
def test_bad_problems_are_refused(x: np.ndarray, y: np.ndarray, regularisation: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalProblem(x, y, LOGISTIC, regularisation)


@CONVEX
@pytest.mark.parametrize("mu", [0.01, 1.0, 100.0])
def test_the_optimum_has_no_gradient(judge: Loss, mu: float, regular, problems) -> None:
    network = regular(20, 4)
    made = problems(20, 6, judge, empty=True)
    confidences = np.array([max(problem.records / 12, 0.01) for problem in made])
    best = optimum(network, made, confidences, mu)
    pulls = (mu * network.degrees * confidences)[:, None]
    local_gradients = np.stack([problem.gradient(model) for problem, model in zip(made, best, strict=True)])
    gradient = network.degrees[:, None] * best - network.weights @ best + pulls * local_gradients
    assert np.linalg.norm(gradient) < 1e-11 * max(1.0, mu)
    lowest = graph_objective(network, made, confidences, mu, best)
    for seed in range(5):
        other = best + 1e-3 * np.random.default_rng(seed).normal(size=best.shape)
        assert graph_objective(network, made, confidences, mu, other) > lowest
    assert relative_gap(network, made, confidences, mu, np.zeros_like(best)) == pytest.approx(1.0)
    assert relative_gap(network, made, confidences, mu, best) == pytest.approx(0.0, abs=1e-12)


def test_the_squared_optimum_solves_its_linear_system(regular, problems) -> None:
    network, mu = regular(8, 3), 2.0
    made = problems(8, 3, SQUARED)
    confidences = np.linspace(0.2, 1.0, 8)
    matrix = np.kron(np.diag(network.degrees) - network.weights.toarray(), np.eye(3))
    right = np.zeros(24)
    for i, problem in enumerate(made):
        pull, place = mu * network.degrees[i] * confidences[i], slice(3 * i, 3 * i + 3)
        matrix[place, place] += pull * problem.hessian(np.zeros(3))
        right[place] = pull * 2 * problem.x.T @ problem.y / problem.records
    assert optimum(network, made, confidences, mu).ravel() == pytest.approx(np.linalg.solve(matrix, right), rel=1e-11)


def test_one_agent_alone_learns_alone() -> None:
    problem = local(LOGISTIC, 1)
    best = optimum(Network(sparse.csr_array((1, 1))), [problem], np.ones(1), 1.0)
    assert best[0] == pytest.approx(problem.minimiser())


def test_no_gap_is_measured_where_the_zero_models_are_optimal() -> None:
    assert math.isnan(gap_at_start(2.0, 2.0))
    assert math.isnan(gap_at_start(2.0, 2.0 - 1e-15))
    assert math.isnan(gap_at_start(0.0, 0.0))
    assert gap_at_start(2.0, 1.5) == 0.5
