"""Clipped gradients are the gradients of a convex loss: by finite differences, and by its optimum."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.problem.clipped import ClippedProblem
from coordinator_free.problem.losses import loss
from coordinator_free.problem.objective import LocalProblem, ProblemError, minimise


def problem(name: str) -> LocalProblem:
    random = np.random.default_rng(4)
    x = random.normal(size=(12, 4))
    y = np.where(random.random(12) < 0.5, 1.0, -1.0) if name != "squared" else random.normal(size=12)
    return LocalProblem(x, y, loss(name), 0.05)


@pytest.mark.parametrize("name", ["logistic", "squared"])
@pytest.mark.parametrize(("clip", "norm"), [(0.3, "l2"), (1.0, "l1")])
def test_the_value_has_the_clipped_gradient(name: str, clip: float, norm: str) -> None:
    clipped = ClippedProblem.of(problem(name), clip, norm)
    for seed in range(5):
        theta, h = np.random.default_rng(seed).normal(size=4), 1e-5
        along = np.eye(4) * h
        slopes = [(clipped.value(theta + step) - clipped.value(theta - step)) / (2 * h) for step in along]
        assert slopes == pytest.approx(clipped.gradient(theta), abs=1e-7)
        assert clipped.gradient(theta) == pytest.approx(clipped.clipped_gradient(theta, clip, norm))


def test_a_clip_that_cuts_nothing_changes_nothing() -> None:
    plain = problem("logistic")
    clipped, theta = ClippedProblem.of(plain, 100.0, "l2"), np.full(4, 0.3)
    assert clipped.value(theta) == pytest.approx(plain.value(theta), rel=1e-14)
    assert clipped.hessian(theta) == pytest.approx(plain.hessian(theta))


def test_its_minimiser_has_no_clipped_gradient() -> None:
    clipped = ClippedProblem.of(problem("logistic"), 0.3, "l2")
    found = minimise(clipped.value, clipped.gradient, clipped.hessian, np.zeros(4))
    assert np.linalg.norm(clipped.clipped_gradient(found, 0.3, "l2")) < 1e-9


def test_a_loss_that_is_not_convex_is_refused() -> None:
    random = np.random.default_rng(1)
    y = np.where(random.random(5) < 0.5, 1.0, -1.0)
    with pytest.raises(ProblemError, match="not convex"):
        ClippedProblem(random.normal(size=(5, 2)), y, loss("sigmoid-squared"), 0.1, 1.0, "l2")
