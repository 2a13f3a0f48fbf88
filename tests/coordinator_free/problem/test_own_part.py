"""The own part around a common one: exact evidence, its Laplace approximation, and what it does in the limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from coordinator_free.problem import own_part as module
from coordinator_free.problem.losses import LOGISTIC, SQUARED, Loss, Squared
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.own_part import Received, around, curvature, own_part


@dataclass(frozen=True)
class Halved(Loss):
    """(z - y)^2 / (2 q): a negative log-likelihood whose Laplace approximation is exact."""

    name: ClassVar[str] = "halved"
    convex: ClassVar[bool] = True
    curvature_bound: ClassVar[float] = 2.0
    slope_bound: ClassVar[float] = float("inf")
    metric: ClassVar[str] = "rmse"
    larger_is_better: ClassVar[bool] = False
    noise: float = 0.5

    def value(self, prediction: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (prediction - y) ** 2 / (2.0 * self.noise)

    def slope(self, prediction: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (prediction - y) / self.noise

    def curvature(self, prediction: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.full_like(prediction, 1.0 / self.noise)

    def score(self, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        return SQUARED.score(theta, x, y)

    def check_labels(self, y: np.ndarray) -> None:
        SQUARED.check_labels(y)


def regression(records: int, dimension: int, seed: int = 0) -> tuple[LocalProblem, np.ndarray]:
    random = np.random.default_rng(seed)
    theta = random.normal(size=dimension)
    x = random.normal(size=(records, dimension)) / np.sqrt(dimension)
    return LocalProblem(x, x @ theta + 0.5 * random.normal(size=records), SQUARED, 0.01), theta


def received(mean: np.ndarray, variance: float) -> Received:
    return Received(mean, np.eye(len(mean)), np.ones(len(mean)), np.full(len(mean), variance))


def one_prior(mean: np.ndarray, factor: np.ndarray) -> module._Priors:
    return module._Priors(mean[None], factor[None], np.zeros(1), np.zeros(1))


@pytest.mark.parametrize(("records", "dimension"), [(3, 5), (9, 4)])
def test_the_evidence_of_the_squared_loss_is_the_density_of_the_labels(records: int, dimension: int) -> None:
    problem, theta = regression(records, dimension)
    factor = np.tril(np.random.default_rng(1).normal(size=(dimension, dimension)))
    mean, variance, noise = theta + 0.1, factor @ factor.T, np.array([0.3, 0.9])
    evidences, models = module._exact(problem, one_prior(mean, factor), noise)
    for k, level in enumerate(noise):
        covariance = problem.x @ variance @ problem.x.T + level * np.eye(records)
        density = multivariate_normal(problem.x @ mean, covariance).logpdf(problem.y)
        assert evidences[0, k] == pytest.approx(density + 0.5 * records * np.log(2.0 * np.pi), rel=1e-9)
        gain = variance @ problem.x.T @ np.linalg.inv(covariance)
        np.testing.assert_allclose(models[0, k], mean + gain @ (problem.y - problem.x @ mean), rtol=1e-8)


def test_the_approximation_is_exact_where_the_loss_is_quadratic() -> None:
    problem, theta = regression(9, 4)
    other = LocalProblem(problem.x, problem.y, Halved(), 0.01)
    prior = one_prior(theta - 0.2, np.diag([0.3, 0.7, 1.0, 1.5]) + np.tril(np.full((4, 4), 0.1), -1))
    evidence, model = module._approximate(other, prior)
    exact, models = module._exact(problem, prior, np.array([0.5]))
    assert evidence[0, 0] == pytest.approx(exact[0, 0] + 0.5 * 9 * np.log(0.5), rel=1e-9)
    np.testing.assert_allclose(model, models, rtol=1e-9)


def test_the_approximation_is_close_for_classes() -> None:
    """Against the evidence of one coordinate by quadrature."""
    random = np.random.default_rng(3)
    x, y = random.normal(size=(12, 1)), np.where(random.random(12) < 0.6, 1.0, -1.0)
    problem, grid = LocalProblem(x, y, LOGISTIC, 0.0), np.linspace(-12.0, 12.0, 4001)
    each = np.array([-LOGISTIC.values(np.array([theta]), x, y).sum() for theta in grid])
    prior = np.exp(-0.5 * np.square((grid - 0.3) / 0.8)) / (0.8 * np.sqrt(2.0 * np.pi))
    exact = np.log(np.trapezoid(prior * np.exp(each), grid))
    evidence, _ = module._approximate(problem, one_prior(np.array([0.3]), np.array([[0.8]])))
    assert evidence[0, 0] == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_where_all_is_noise_the_agent_has_what_it_learns_alone(loss: Loss) -> None:
    problem, theta = regression(9, 4)
    problem = LocalProblem(problem.x, problem.y if loss is SQUARED else np.sign(problem.y), loss, 0.01)
    np.testing.assert_allclose(own_part(problem, received(theta, 1e12)), problem.minimiser(), atol=1e-6)


def test_what_is_learned_alone_counts_with_the_square_of_the_share_of_noise() -> None:
    problem, theta = regression(9, 4)
    unit = module._Scales.of(problem).model
    heard = received(theta, unit)  # as much noise as a common part of usual size
    without = own_part(LocalProblem(problem.x, problem.y, SQUARED, 0.0), heard)
    np.testing.assert_allclose(own_part(problem, heard), 0.75 * without + 0.25 * problem.minimiser(), rtol=1e-9)


def test_agents_with_nothing_in_common_keep_models_of_their_own() -> None:
    """60 fixed draws: own models of usual size, and a common part that is zero and known exactly."""
    own, alone = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)
        x, theta = random.uniform(-1.0, 1.0, size=(18, 7)), random.normal(size=7)
        problem = LocalProblem(x, x @ theta + 0.7 * random.normal(size=18), SQUARED, 0.1 / 18)
        own.append(np.square(own_part(problem, received(np.zeros(7), 1e-4)) - theta).sum())
        alone.append(np.square(problem.minimiser() - theta).sum())
    assert np.mean(own) < np.mean(alone)


def test_a_precise_common_part_is_used_and_a_noisy_one_is_not() -> None:
    problem, theta = regression(6, 5)
    good, bad = own_part(problem, received(theta, 1e-6)), own_part(problem, received(theta, 1e9))
    assert np.linalg.norm(good - theta) < 0.3 * np.linalg.norm(bad - theta)
    # What is nearly all noise changes nothing, whatever it holds.
    np.testing.assert_allclose(own_part(problem, received(1e4 * np.ones(5), 1e9)), bad, atol=1e-3)


def test_what_has_hardly_arrived_counts_as_noise() -> None:
    """After one step a tenth of the common part is there: noise of a tenth of its size is then as large as it."""
    noises, unit = np.full((1, 5), 0.04), 4.0
    assert module._noisy(np.full(5, 0.1), noises, unit) == pytest.approx(0.5)
    assert module._noisy(np.full(5, 1e-4), noises, unit) > 0.999


def test_features_that_vary_little_inside_of_their_bounds_are_used() -> None:
    """30 fixed draws: models long where features are small, and a common part at zero that is known exactly."""
    size, own, alone = np.array([1.0, 0.05, 0.05, 0.05]), [], []
    for seed in range(30):
        random = np.random.default_rng(seed)
        x = np.concatenate([np.ones((14, 1)), 0.05 * random.normal(size=(14, 3))], axis=1)
        theta = np.concatenate([[0.3 * random.normal()], random.choice([-11.5, 11.5], 3)])
        problem = LocalProblem(x, x @ theta + 0.3 * random.normal(size=14), SQUARED, 0.1 / 14)
        own.append(np.square((own_part(problem, received(np.zeros(4), 1e-4)) - theta) * size).sum())
        alone.append(np.square((problem.minimiser() - theta) * size).sum())
    assert np.mean(own) < 0.5 * np.mean(alone)


def test_noise_of_an_unknown_size_is_found_by_evidence() -> None:
    problem, theta = regression(200, 5)
    alone = problem.minimiser()
    far = own_part(problem, Received.unknown(theta + 30.0 * np.ones(5)))
    assert np.linalg.norm(far - alone) < 0.2 * np.linalg.norm(alone)
    few = LocalProblem(problem.x[:4], problem.y[:4], SQUARED, 0.01)
    near = own_part(few, Received.unknown(theta))
    assert np.linalg.norm(near - theta) < np.linalg.norm(own_part(few, Received.unknown(np.zeros(5))) - theta)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_other_units_give_the_same_predictions(labels: float, features: float) -> None:
    problem, theta = regression(7, 3)
    one = own_part(problem, received(theta, 0.1))
    other = LocalProblem(problem.x * features, problem.y * labels, SQUARED, 0.01 * features**2)
    ratio = labels / features
    two = own_part(other, received(theta * ratio, 0.1 * ratio**2))
    np.testing.assert_allclose(two, one * ratio, rtol=1e-5, atol=1e-6 * ratio)


def test_without_records_it_is_what_was_received() -> None:
    problem = LocalProblem(np.empty((0, 3)), np.empty(0), LOGISTIC, 0.1)
    np.testing.assert_allclose(own_part(problem, received(np.array([1.0, -2.0, 3.0]), 1e-9)), [1, -2, 3], rtol=1e-3)


def test_a_given_weight_takes_the_place_of_evidence() -> None:
    problem, theta = regression(8, 3)
    assert isinstance(problem.loss, Squared)
    found = around(problem, received(theta, 1.0), 2.0)
    slope = problem.gradient(found) - 2.0 * problem.regularisation * found + 2.0 * (found - theta)
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)


def test_the_curvature_of_few_records_is_mostly_even() -> None:
    problem, _ = regression(1, 4)
    values = np.linalg.eigvalsh(curvature(problem, np.zeros(4)))
    assert values[0] > 0.5 * values.mean()
    many, _ = regression(5000, 4)
    np.testing.assert_allclose(curvature(many, np.zeros(4)), many.hessian(np.zeros(4)), rtol=0.02, atol=0.01)
