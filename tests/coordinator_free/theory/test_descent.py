"""The linear response of gradient descent, against the descent itself."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.theory.descent import mean_of_iterates


@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("tail", [True, False])
def test_the_mean_of_iterates_is_what_is_kept_of_the_minimum_and_of_the_noise(momentum: float, tail: bool) -> None:
    random = np.random.default_rng(3)
    curvatures, minimum = np.array([0.0, 0.01, 0.3, 1.5]), random.normal(size=4)
    steps, step = 9, 0.7
    noise = random.normal(size=(steps, 4))
    theta, velocity = np.zeros(4), np.zeros(4)
    iterates = []
    for t in range(steps):
        velocity = momentum * velocity + curvatures * (theta - minimum) + noise[t]
        theta = theta - step * velocity
        iterates.append(theta)
    counted = np.array([2 * t >= steps - 1 if tail else t == steps - 1 for t in range(steps)], dtype=np.float64)
    counted /= counted.sum()
    found = mean_of_iterates(curvatures, step, momentum, counted)
    np.testing.assert_allclose(
        found.kept * minimum + (found.weights * noise).sum(axis=0), counted @ np.array(iterates), rtol=1e-12
    )
