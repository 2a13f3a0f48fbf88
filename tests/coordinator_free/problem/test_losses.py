"""Losses: derivatives by finite differences, bounds, labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.problem.losses import LOGISTIC, LOSSES, SQUARED, Loss, LossError, loss

EVERY = pytest.mark.parametrize("judge", LOSSES.values(), ids=list(LOSSES))


def records(seed: int, m: int = 7, p: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=p), random.normal(size=(m, p)), np.where(random.random(m) < 0.5, 1.0, -1.0)


@EVERY
@given(seed=st.integers(0, 10_000))
def test_record_gradients_are_the_slopes_of_the_values(judge: Loss, seed: int) -> None:
    theta, x, y = records(seed)
    h = 1e-6
    for k in range(theta.size):
        step = h * np.eye(theta.size)[k]
        slope = (judge.values(theta + step, x, y) - judge.values(theta - step, x, y)) / (2 * h)
        assert judge.record_gradients(theta, x, y)[:, k] == pytest.approx(slope, abs=1e-7)


@EVERY
@given(seed=st.integers(0, 10_000))
def test_curvatures_are_the_slopes_of_the_derivatives(judge: Loss, seed: int) -> None:
    _, _, y = records(seed)
    prediction = np.random.default_rng(seed).normal(size=y.size) * 3
    h = 1e-6
    slope = (judge.slope(prediction + h, y) - judge.slope(prediction - h, y)) / (2 * h)
    assert judge.curvature(prediction, y) == pytest.approx(slope, abs=1e-7)
    assert (judge.curvature(prediction, y) <= judge.curvature_bound + 1e-15).all()


@EVERY
def test_the_mean_gradient_is_the_mean_of_the_record_gradients(judge: Loss) -> None:
    theta, x, y = records(3)
    assert judge.gradient(theta, x, y) == pytest.approx(judge.record_gradients(theta, x, y).mean(axis=0), abs=1e-14)
    assert (judge.gradient(theta, x[:0], y[:0]) == 0).all()


def test_bounds_are_attained() -> None:
    zero = np.zeros(1)
    assert LOGISTIC.curvature(zero, np.ones(1)) == LOGISTIC.curvature_bound == 0.25
    assert SQUARED.curvature(zero, np.ones(1)) == SQUARED.curvature_bound == 2.0
    assert LOGISTIC.slope(np.array([-1e3]), np.ones(1)) == -1.0
    assert LOGISTIC.lipschitz(0.5) == 0.5
    assert math.isinf(SQUARED.lipschitz(0.5))


def test_logistic_stays_finite_far_out() -> None:
    prediction = np.array([-1e4, 1e4])
    y = np.ones(2)
    assert LOGISTIC.value(prediction, y).tolist() == [1e4, 0.0]
    assert LOGISTIC.slope(prediction, y).tolist() == [-1.0, 0.0]


def test_scores() -> None:
    x = np.array([[1.0], [2.0], [0.0]])
    assert LOGISTIC.score(np.ones(1), x, np.array([1.0, -1.0, 1.0])) == pytest.approx(0.5)
    assert SQUARED.score(np.ones(1), x, np.array([0.0, 0.0, 2.0])) == pytest.approx(math.sqrt(3.0))
    assert math.isnan(LOGISTIC.score(np.ones(1), x[:0], np.empty(0)))
    assert math.isnan(SQUARED.score(np.ones(1), x[:0], np.empty(0)))


def test_labels_are_checked() -> None:
    with pytest.raises(LossError, match="label 0: the logistic loss takes labels -1 and 1"):
        LOGISTIC.check_labels(np.array([1.0, 0.0]))
    with pytest.raises(LossError, match="finite"):
        SQUARED.check_labels(np.array([np.nan]))
    LOGISTIC.check_labels(np.array([1.0, -1.0]))


def test_a_loss_of_ones_own_is_found_by_its_place() -> None:
    assert loss("squared") is SQUARED
    assert loss("coordinator_free.problem.losses:LOGISTIC") is LOGISTIC
    with pytest.raises(LossError, match=r"known are logistic, squared"):
        loss("hinge")
    with pytest.raises(LossError, match="no attribute"):
        loss("coordinator_free.problem.losses:HINGE")
    with pytest.raises(LossError, match="not an instance"):
        loss("coordinator_free.problem.losses:Squared")
