"""The non-convex losses: derivatives by differences, constants, and what they are refused for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agents.admm.admm import Admm, AdmmError
from coordinator_free.agents.averages.averaging import Averaging
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.problem.baselines import pooled
from coordinator_free.problem.losses import LOGISTIC, LOGISTIC_NON_CONVEX, SIGMOID_SQUARED, LossError, loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.settings import SettingError
from tests.helpers.averages_networks import complete, problems, run, settings


def test_derivatives_are_those_of_the_value_and_the_constants_are_attained() -> None:
    judge = loss("sigmoid-squared")
    assert judge is SIGMOID_SQUARED
    at, step = np.linspace(-12.0, 12.0, 24001), 1e-5
    for label in (-1.0, 1.0):
        y = np.full_like(at, label)
        slope = (judge.value(at + step, y) - judge.value(at - step, y)) / (2 * step)
        np.testing.assert_allclose(judge.slope(at, y), slope, atol=1e-9)
        curvature = (judge.slope(at + step, y) - judge.slope(at - step, y)) / (2 * step)
        np.testing.assert_allclose(judge.curvature(at, y), curvature, atol=1e-9)
        assert np.abs(slope).max() == pytest.approx(judge.slope_bound, abs=1e-6)
        assert np.abs(curvature).max() == pytest.approx(judge.curvature_bound, abs=1e-4)
        assert np.abs(curvature).max() <= judge.curvature_bound
    with pytest.raises(LossError):
        judge.check_labels(np.array([0.0]))


def test_the_non_convex_regulariser_has_the_derivatives_and_the_constants_that_are_claimed() -> None:
    judge = LOGISTIC_NON_CONVEX
    assert loss("logistic-nonconvex") is judge
    at, step = np.linspace(-9.0, 9.0, 18001), 1e-5
    value = np.array([[judge.penalty(np.array([w + s])) for w in at] for s in (-step, step)])
    slope = (value[1] - value[0]) / (2 * step)
    np.testing.assert_allclose(judge.penalty_gradient(at), slope, atol=1e-9)
    curvature = (judge.penalty_gradient(at + step) - judge.penalty_gradient(at - step)) / (2 * step)
    np.testing.assert_allclose(judge.penalty_curvature(at), curvature, atol=1e-8)
    assert np.abs(slope).max() == pytest.approx(judge.penalty_slope_bound, abs=1e-6)
    assert np.abs(slope).max() <= judge.penalty_slope_bound + 1e-10
    assert judge.penalty_curvature(at).min() == pytest.approx(-0.5, abs=1e-6)
    assert judge.penalty_curvature(at).max() == 2.0


@pytest.mark.parametrize("name", ["logistic-nonconvex", "logistic"])
def test_the_whole_objective_has_the_derivatives_and_the_smoothness_that_are_claimed(name: str) -> None:
    random, lam, step = np.random.default_rng(2), 0.3, 1e-5
    x = random.normal(size=(12, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    problem = LocalProblem(x, np.sign(random.normal(size=12)), loss(name), lam)
    for theta in random.normal(size=(20, 4)):
        moves = step * np.eye(4)
        slope = [(problem.value(theta + h) - problem.value(theta - h)) / (2 * step) for h in moves]
        np.testing.assert_allclose(problem.gradient(theta), slope, atol=1e-9)
        np.testing.assert_allclose(problem.clipped_gradient(theta, 1.0, "l2"), problem.gradient(theta), atol=1e-14)
        hessian = [(problem.gradient(theta + h) - problem.gradient(theta - h)) / (2 * step) for h in moves]
        np.testing.assert_allclose(problem.hessian(theta), hessian, atol=1e-8)
        assert np.abs(np.linalg.eigvalsh(problem.hessian(theta))).max() <= problem.smoothness_bound(1.0)
        if name == "logistic-nonconvex":
            bound = 1.0 + lam * np.sqrt(4.0) * LOGISTIC_NON_CONVEX.penalty_slope_bound
            assert np.linalg.norm(problem.gradient(theta)) <= bound


def test_the_non_convex_regulariser_is_not_polyak_lojasiewicz() -> None:
    """One record (1, 1), lambda = 1: no mu > 0 has |gradient|^2 >= 2 mu (value - least value)."""
    problem = LocalProblem(np.ones((1, 1)), np.ones(1), LOGISTIC_NON_CONVEX, 1.0)
    least = problem.value(problem.minimiser())
    assert least < problem.value(np.zeros(1)) < 0.7
    far = [np.array([w]) for w in (1e1, 1e2, 1e3)]
    ratios = [float(problem.gradient(w)[0] ** 2) / (problem.value(w) - least) for w in far]
    assert all(problem.value(w) - least > 0.3 for w in far)
    assert ratios[0] < 1e-4
    assert ratios[2] < ratios[1] < ratios[0]


@pytest.mark.parametrize("name", ["logistic-nonconvex", "sigmoid-squared"])
def test_a_loss_that_is_not_convex_is_descended_to_a_stationary_point(name: str) -> None:
    random = np.random.default_rng(5)
    x = random.normal(size=(200, 5))
    problem = LocalProblem(x, np.sign(x[:, 0] + random.normal(size=200)), loss(name), 0.05)
    found = problem.minimiser()
    assert np.linalg.norm(problem.gradient(found)) < 1e-10
    assert np.linalg.eigvalsh(problem.hessian(found)).min() > 0.0
    assert problem.value(found) < problem.value(np.zeros(5))


@pytest.mark.parametrize("name", ["logistic-nonconvex", "sigmoid-squared"])
def test_nothing_that_needs_a_convex_loss_takes_another(name: str) -> None:
    local = [replace(p, loss=loss(name)) for p in problems(3, [20, 20, 20])]
    common = {"mechanism": "gaussian", "clip": 1.0, "multipliers": np.array([5.0])}
    made = settings(Averaging, complete(3), local, 1, **common)[0]
    for kind in ("output-perturbation", "objective-perturbation"):
        with pytest.raises(SettingError, match="convex"):
            Averaging(replace(made, learning={**made.learning, "local": kind}))
    made = settings(Averaging, complete(3), local, 1, finish=True, kappa=1.0)
    with pytest.raises(SettingError, match="convex"):
        Averaging(made[0])
    learning = {"capacity": 1.0, "rho": 1.0, "penalty": 1.0}
    with pytest.raises(AdmmError, match="convex"):
        Admm(replace(made[0], learning=learning))


def test_agents_descend_on_the_non_convex_objective() -> None:
    local = [replace(p, loss=LOGISTIC_NON_CONVEX, regularisation=0.1) for p in problems(4, [20, 40, 30, 60])]
    agents = [GradientDescent(s) for s in settings(GradientDescent, complete(4), local, 30, step=2.0, smoothness=0.45)]
    run(agents, complete(4))
    shares, theta = np.array([20, 40, 30, 60]) / 150, np.zeros(3)
    for _ in range(30):
        theta = theta - 2.0 * sum(share * p.gradient(theta) for share, p in zip(shares, local, strict=True))
    np.testing.assert_allclose(agents[0].model, theta, atol=1e-12)
    quadratic = [replace(p, loss=LOGISTIC) for p in local]
    assert np.linalg.norm(theta) > 1.1 * np.linalg.norm(pooled(quadratic, 0.1 * 150))
