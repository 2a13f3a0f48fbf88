"""The non-convex loss: its derivatives by differences, and its two constants, both attained."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.losses import SIGMOID_SQUARED, LossError, loss


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
