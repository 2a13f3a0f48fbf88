"""Steps on records drawn at random: the accountant never understates, and a halved noise scale is seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon
from coordinator_free.privacy.random_records import random_record_epsilon, step_losses


def test_of_one_record_every_step_sees_it() -> None:
    for multiplier, steps in ((1.0, 1), (2.0, 4), (10.0, 50)):
        exact = gaussian_epsilon(math.sqrt(steps) / multiplier, 1e-3)
        assert exact <= random_record_epsilon(multiplier, 1, steps, 1e-3) <= exact * 1.002


@pytest.mark.parametrize(("records", "mu"), [(3, 1.0), (10, 0.5), (10, 3.0)])
def test_no_three_gradients_lose_more_than_one_step_is_charged(records: int, mu: float) -> None:
    """delta(epsilon) of explicit neighbouring mixtures, by quadrature; gradients lie in [-1, 1]."""
    deviation = 2.0 / mu
    charged = step_losses(mu, 1.0 / records, 1e-3)
    random = np.random.default_rng(0)
    z = np.linspace(-1.0 - 12.0 * deviation, 1.0 + 12.0 * deviation, 20_001)
    closest = 0.0
    worst = [(-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0)]
    for others, own, replaced in [*worst, (0.0, 1.0, -1.0), *random.uniform(-1.0, 1.0, (20, 3))]:
        rest = (records - 1) / records * norm.pdf(z, others, deviation)
        here, there = (rest + norm.pdf(z, g, deviation) / records for g in (own, replaced))
        for epsilon in (0.0, 0.02, 0.1):
            delta = float(np.trapezoid(np.maximum(here - math.exp(epsilon) * there, 0.0), z))
            above = charged.loss > epsilon
            bound = float(charged.mass[above] @ -np.expm1(epsilon - charged.loss[above])) + charged.infinite
            assert delta <= bound * (1.0 + 1e-6) + 1e-9
            closest = max(closest, delta / bound)
    assert closest > 0.99, "attained by the worst"


def test_many_steps_cost_like_a_gaussian_release_and_half_the_noise_more_than_twice() -> None:
    """sqrt(T) g mu is the limit's parameter; 546 records, 546^2 steps."""
    for multiplier in (40.0, 19.0):
        limit = gaussian_epsilon(1.0 / multiplier, 1e-3)
        found = random_record_epsilon(multiplier, 546, 546**2, 1e-3)
        assert limit < found < 1.06 * limit
        assert random_record_epsilon(multiplier / 2.0, 546, 546**2, 1e-3) > 2.0 * found
    assert random_record_epsilon(0.01, 10, 1, 1e-3) == math.inf, "next to no noise"
    for multiplier in (0.06, 0.2, 1.0):
        exact = gaussian_epsilon(1.0 / multiplier, 1e-3)
        assert exact <= random_record_epsilon(multiplier, 1, 1, 1e-3) <= 1.1 * exact
    with pytest.raises(ValueError, match="at most 1000000"):
        random_record_epsilon(1.0, 10, 2_000_000, 1e-3)
