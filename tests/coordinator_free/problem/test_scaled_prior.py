"""A prior of unknown scales: by brute force, of any unit of labels and of the prior, and the mode for other losses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.scaled_prior import DEVIATIONS, MEANS, NOISES, minimise_under


def made(records: int = 7, dimension: int = 4, seed: int = 1) -> tuple[LocalProblem, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(records, dimension))
    mean = random.normal(size=dimension)
    y = x @ (mean + 0.3 * random.normal(size=dimension)) + 0.5 * random.normal(size=records)
    return LocalProblem(x, y, SQUARED, 3.0), mean, random.uniform(0.1, 0.5, dimension)


def test_the_average_over_the_scales_by_brute_force() -> None:
    problem, mean, variance = made()
    x, y, size = problem.x, problem.y, float(np.mean(problem.y**2))
    covariance = (x * variance) @ x.T
    models, logs = [], []
    for a in MEANS * np.sqrt(size / np.mean((x @ mean) ** 2)):
        for k, b2 in enumerate(DEVIATIONS**2 * size / (np.trace(covariance) / len(y))):
            for j, v in enumerate(NOISES * size):
                whole = b2 * covariance + v * np.eye(len(y))
                logs.append(
                    multivariate_normal(a * (x @ mean), whole).logpdf(y)
                    - (np.log2(DEVIATIONS[k]) ** 2 + np.log2(NOISES[j]) ** 2) / (2 * 1.5**2)
                )
                models.append(a * mean + b2 * variance * (x.T @ np.linalg.solve(whole, y - a * (x @ mean))))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    assert minimise_under(problem, mean, variance) == pytest.approx(weights @ np.array(models), rel=1e-8)


@pytest.mark.parametrize(("labels", "prior"), [(1e-6, 1.0), (1e6, 1.0), (1.0, 1e-5), (1.0, 1e5)])
def test_no_unit_of_the_labels_or_of_the_prior_matters(labels: float, prior: float) -> None:
    problem, mean, variance = made()
    plain = minimise_under(problem, mean, variance)
    other = LocalProblem(problem.x, labels * problem.y, SQUARED, 3.0)
    found = minimise_under(other, prior * mean, prior**2 * variance)
    assert found / labels == pytest.approx(plain, rel=1e-6)


def test_a_mean_that_says_nothing_is_left_aside() -> None:
    """Many records, and a mean that points elsewhere: the model is nearly that of the records alone."""
    problem, mean, variance = made(records=400)
    elsewhere = np.array([mean[1], -mean[0], mean[3], -mean[2]])
    least = np.linalg.lstsq(problem.x, problem.y, rcond=None)[0]
    assert np.linalg.norm(minimise_under(problem, 50.0 * elsewhere, variance) - least) < 0.05 * np.linalg.norm(least)


def test_labels_that_are_all_zero_have_no_scale() -> None:
    problem, mean, variance = made()
    flat = LocalProblem(problem.x, 0.0 * problem.y, SQUARED, 3.0)
    assert minimise_under(flat, mean, variance) == pytest.approx(np.zeros(4), abs=1e-12)
    none = LocalProblem(problem.x[:0], problem.y[:0], SQUARED, 3.0)
    assert minimise_under(none, mean, variance) == pytest.approx(mean)


def test_with_labels_that_have_no_scale_it_is_the_mode_under_the_prior() -> None:
    random = np.random.default_rng(1)
    problem = LocalProblem(random.normal(size=(9, 4)), np.sign(random.normal(size=9)), LOGISTIC, 3.0)
    mean, variance = random.normal(size=4), random.uniform(0.1, 2.0, 4)
    found = minimise_under(problem, mean, variance)
    gradient = problem.loss.gradient(found, problem.x, problem.y) * 9 + (found - mean) / variance
    assert np.abs(gradient).max() < 1e-10
