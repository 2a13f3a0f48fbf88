"""How to spend a budget: the number of steps is the best of its model, shrinks with epsilon, and fits real steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.problem.losses import LOGISTIC, SQUARED, Loss
from coordinator_free.problem.spending import COUNTS, MOMENTA, spend, usual_slope


def gaussian(mu: float, agents: int, records: int) -> Callable[[int, float], float]:
    """Of an average that is weighted by sizes, with every release seen."""
    return lambda updates, clip: 2.0 * clip * math.sqrt(updates * agents) / (mu * records)


@pytest.mark.parametrize(("epsilon", "published"), [(2.0, 100), (1.0, 60), (0.5, 30), (0.1, 10)])
def test_steps_shrink_with_epsilon_as_tuning_on_the_schools_found(epsilon: float, published: int) -> None:
    noise = gaussian(gaussian_mu(epsilon, 1e-3), 65, 2844)
    found = spend(SQUARED, 4 / 3, 1.0, 1.0, 2.0, noise)
    assert published / 1.5 < found.updates < 1.5 * published


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("mu", [0.02, 0.1, 0.4])
def test_gaussian_noise_has_the_closed_form(loss: Loss, mu: float) -> None:
    found = spend(loss, 1.0, 2.0, 2.0, loss.curvature_bound * 4.0, gaussian(mu, 30, 3000))
    one = found.deviation / math.sqrt(found.updates)
    best = found.model_size / (math.sqrt(2.0) * found.step * one)
    assert found.momentum == 0.0
    assert found.updates == min(COUNTS, key=lambda count: best / count + count / best)
    assert best == pytest.approx(mu * 3000 / (1.8 * math.sqrt(2.0) * math.sqrt(30)))  # the units cancel


def test_momentum_comes_where_the_most_steps_are_too_few() -> None:
    momenta = [
        spend(SQUARED, 1.0, 1.0, 1.0, 2.0, gaussian(0.5, 5, records)).momentum for records in (300, 3000, 30_000, 10**7)
    ]
    assert momenta[0] == MOMENTA[0]
    assert momenta[-1] == MOMENTA[-1]
    assert momenta == sorted(momenta)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_unit_of_the_labels_and_the_length_of_rows_change_no_count(unit: float) -> None:
    plain = spend(SQUARED, 1.0, 1.0, 1.0, 2.0, gaussian(0.3, 50, 2000))
    other = spend(SQUARED, unit, 1.0, 1.0, 2.0, gaussian(0.3, 50, 2000))
    longer = spend(SQUARED, 1.0, unit, unit, 2.0 * unit**2, gaussian(0.3, 50, 2000))
    assert plain.updates == other.updates == longer.updates
    assert other.clip == pytest.approx(unit * plain.clip)
    assert other.step == pytest.approx(plain.step)
    assert longer.step == pytest.approx(plain.step / unit**2)


def test_the_usual_slope_is_that_of_the_zero_model() -> None:
    assert usual_slope(SQUARED, -3.0) == pytest.approx(6.0)
    assert usual_slope(LOGISTIC, 1.0) == pytest.approx(0.5)


@pytest.mark.parametrize("mu", [0.03, 0.1, 0.3])
def test_steps_on_a_quadratic_do_nearly_as_well_as_the_best_count(mu: float) -> None:
    """The exact expected excess of the mean of the later half, over directions of very different curvature.

    The rule knows no curvature. It may cost at most 1.6 times the excess of the best count.
    """
    agents, records, step = 50, 4000, 0.9
    curvatures = 2.0 * np.array([0.25, 0.08, 0.04, 0.02, 0.01, 0.005])
    noise = gaussian(mu, agents, records)

    def excess(updates: int, clip: float) -> float:
        powers = (1.0 - step * curvatures)[:, None] ** np.arange(updates + 1)
        later = np.arange(1, updates + 1)
        later = later[2 * (later - 1) >= updates - 1]
        bias = powers[:, later].mean(axis=1) * 1.0  # b = 1
        weights = np.zeros((len(curvatures), updates))
        for t in range(updates):  # the noise of step t is in every iterate from t + 1 on
            kept = [powers[:, k - 1 - t] for k in later if k > t]
            weights[:, t] = step * np.sum(kept, axis=0) / len(later) if kept else 0.0
        spread = (weights**2).sum(axis=1) * noise(updates, clip) ** 2
        return float(curvatures @ (bias**2 + spread) / 2.0)

    found = spend(SQUARED, 1.0, 1.0, 1.0, 2.0, noise)
    assert excess(found.updates, found.clip) < 1.6 * min(excess(count, found.clip) for count in COUNTS)
