"""Group privacy: exact for additive noise, and never below what the worst case attains."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon
from coordinator_free.privacy.group import group_epsilon
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation


def test_the_gaussian_parameter_is_multiplied() -> None:
    rounds = [Gaussian(1.0, 8.0), Gaussian(0.5, 3.0)]
    mu = math.hypot(1.0 / 8.0, 0.5 / 3.0)
    for records in (1, 2, 5):
        assert group_epsilon(rounds, 1e-5, records) == pytest.approx(gaussian_epsilon(records * mu, 1e-5), rel=1e-9)


def test_pure_epsilons_are_multiplied() -> None:
    assert group_epsilon([Laplace(1.0, 4.0)] * 3, 0.0, 5) == pytest.approx(5 * 3 / 4.0)
    objective = ObjectivePerturbation(1.0, 2.0, 0.1, 10)
    assert group_epsilon([objective, None], 0.0, 4) == pytest.approx(4 * 0.6)


def test_half_of_the_noise_costs_more() -> None:
    for mechanism in (Gaussian(1.0, 5.0), GammaNorm(1.0, 5.0, 7), ObjectivePerturbation(1.0, 5.0, 0.05, 7)):
        halved = replace(mechanism, scale=mechanism.scale / 2.0)  # type: ignore[type-var]
        assert group_epsilon([halved] * 4, 1e-4, 3) > 1.3 * group_epsilon([mechanism] * 4, 1e-4, 3)


@pytest.mark.parametrize("records", [2, 6])
def test_no_observer_distinguishes_groups_better(records: int) -> None:
    """One Laplace release in one dimension: the exact delta at the stated epsilon, by quadrature of the two laws."""
    delta, scale = 1e-3, 4.0
    epsilon = group_epsilon([Laplace(1.0, scale)], delta, records)
    x, step = np.linspace(-80.0, 90.0, 400_001, retstep=True)
    here, there = (np.exp(-np.abs(x - shift) / scale) / (2 * scale) for shift in (0.0, float(records)))
    attained = float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum() * step)
    assert attained <= delta * (1 + 1e-3)
    short = float(np.maximum(here - math.exp(0.98 * epsilon) * there, 0.0).sum() * step)
    assert short > delta, "epsilon is not larger than it need be"


@pytest.mark.thorough
@settings(max_examples=3, deadline=None)
@given(records=st.integers(2, 12), rounds=st.integers(1, 4))
def test_a_perturbed_objective_costs_more_for_more_records_and_at_most_the_sum(records: int, rounds: int) -> None:
    charged = [ObjectivePerturbation(1.0, 3.0, 0.02, 30)] * rounds
    found = group_epsilon(charged, 1e-4, records)
    assert total(charged, 1e-4).epsilon < found <= records * rounds * charged[0].epsilon * (1 + 1e-9)


def test_a_group_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="records = 0"):
        group_epsilon([Gaussian(1.0, 1.0)], 1e-5, 0)
