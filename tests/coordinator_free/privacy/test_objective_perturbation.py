"""The bound for Gaussian noise in an objective, against exact densities of one-dimensional minimisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.families import from_description
from coordinator_free.privacy.gaussian_objective_perturbation import (
    GaussianObjectivePerturbation,
    ObjectivePerturbationError,
    gaussian_objective_delta,
    gaussian_objective_deviation,
    gaussian_objective_epsilon,
)
from coordinator_free.privacy.mechanism import MechanismError
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.privacy.noise import Stream
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, jacobian_loss

M, W = 4, 0.4


def log_density(labels: np.ndarray, deviation: float, f: np.ndarray) -> np.ndarray:
    """Of the minimiser of mean_k log(1 + exp(-y_k f)) + w/2 f^2 + noise f at ``f``: noise's density times slope."""
    share = 1.0 / (1.0 + np.exp(labels[:, None] * f))
    noise = -(W * f - (labels[:, None] * share).mean(axis=0))
    slope = W + (share * (1.0 - share)).mean(axis=0)
    return -((noise / deviation) ** 2) / 2.0 - math.log(deviation * math.sqrt(2 * math.pi)) + np.log(slope)


def exact_delta(epsilon: float, deviation: float) -> float:
    f = np.linspace(-60.0, 60.0, 400_001)
    one = log_density(np.array([1.0, 1.0, -1.0, 1.0]), deviation, f)
    other = log_density(np.array([1.0, 1.0, -1.0, -1.0]), deviation, f)
    step = f[1] - f[0]
    assert np.exp(one).sum() * step == pytest.approx(1.0, abs=1e-6)
    return max(
        float(np.maximum(np.exp(a) - math.exp(epsilon) * np.exp(b), 0.0).sum() * step)
        for a, b in ((one, other), (other, one))
    )


@pytest.mark.parametrize("epsilon", [0.6, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_the_calibrated_noise_keeps_its_promise_and_a_third_of_it_does_not(epsilon: float, delta: float) -> None:
    # Both gradients of this record have one sign, so together they move by 1, not by 2.
    jacobian, shift = jacobian_loss(0.25, 1.0, M * W), 1.0 / M
    deviation = gaussian_objective_deviation(epsilon, delta, shift, jacobian)
    assert exact_delta(epsilon, deviation) <= delta
    assert exact_delta(epsilon, deviation / 3.0) > delta


@pytest.mark.parametrize("jacobian", [0.0, 0.2])
def test_the_three_forms_agree(jacobian: float) -> None:
    deviation = gaussian_objective_deviation(0.9, 1e-5, 0.03, jacobian)
    assert gaussian_objective_epsilon(1e-5, 0.03, deviation, jacobian) == pytest.approx(0.9, rel=1e-12)
    assert gaussian_objective_delta(0.9, 0.03, deviation, jacobian) == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 0.65, 0.9, 2.0, 5.0])
@pytest.mark.parametrize("shift", [0.03, 0.5, 1.0])
def test_delta_is_the_expectation_over_the_law_of_the_bound(epsilon: float, shift: float) -> None:
    jacobian = 0.1

    def excess(r: float) -> float:
        return r * math.exp(-r * r / 2.0) * -math.expm1(min(0.0, epsilon - jacobian - shift * r - shift * shift / 2.0))

    kink = max(0.0, (epsilon - jacobian - shift * shift / 2.0) / shift)
    expected = integrate.quad(excess, kink, kink + 40.0, epsabs=0.0, epsrel=1e-10, limit=400)[0]
    if kink > 37.0:  # delta is no float64
        return
    assert gaussian_objective_delta(epsilon, shift, 1.0, jacobian) == pytest.approx(expected, rel=1e-8, abs=1e-300)


def test_what_every_release_loses_needs_a_larger_epsilon() -> None:
    with pytest.raises(ObjectivePerturbationError, match="curvature"):
        gaussian_objective_deviation(0.2, 1e-5, 1.0, 0.2)


ONE = GaussianObjectivePerturbation(sensitivity=0.02, scale=0.1, jacobian=0.05, dimension=3)


def test_the_accountant_claims_the_bound_of_one_release_and_composes_several() -> None:
    bound = lambda delta: gaussian_objective_epsilon(delta, 0.02, 0.1, 0.05)  # noqa: E731
    assert total([ONE], 1e-5).epsilon == pytest.approx(bound(1e-5), rel=1e-9)
    assert total([ONE], 1e-5).epsilon >= bound(1e-5)
    assert max(bound(3e-5), 3 * 0.05) < total([ONE] * 3, 3e-5).epsilon < 3 * bound(1e-5)
    other = Gaussian(1.0, 5.0)
    both = total([ONE, other, other], 2e-5).epsilon
    assert total([other, other], 2e-5).epsilon + 0.05 < both < bound(1e-5) + total([other, other], 1e-5).epsilon
    assert total([ONE], 0.0).epsilon == math.inf
    # As wide a Gaussian on the value itself would have cost less: the Jacobian and the plane cost something.
    assert total([ONE], 1e-5).epsilon > total([Gaussian(0.02, 0.1)], 1e-5).epsilon + 0.05


def test_the_charge_is_read_back_and_its_noise_has_the_law_that_it_says() -> None:
    again = from_description(ONE.describe())
    assert again == ONE
    assert not isinstance(from_description({**ONE.describe(), "name": "objective-perturbation"}), type(ONE))
    assert isinstance(ONE, ObjectivePerturbation)
    wide = GaussianObjectivePerturbation(0.02, 0.1, 0.05, 4000)
    drawn = wide.noise(4000, Stream(bytes(16), 0))
    assert np.std(drawn) == pytest.approx(0.1, rel=0.05)
    whole = np.linspace(-1.5, 1.5, 3001)[:, None]
    density = np.exp(GaussianObjectivePerturbation(0.02, 0.1, 0.0, 1).log_density(whole))
    assert density.sum() * 1e-3 == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(MechanismError, match="into the objective"):
        ONE.perturb(np.zeros(3), Stream(bytes(16), 0))


def test_several_releases_cost_what_drawing_their_bounds_says() -> None:
    """E[(1 - exp(epsilon - sum of bounds))+] from 400,000 draws."""
    releases, ratio, delta = 12, 0.2, 1e-3
    found = total([GaussianObjectivePerturbation(0.02, 0.1, 0.05, 3)] * releases, delta).epsilon
    random = np.random.default_rng(7)
    r = random.rayleigh(size=(400_000, releases))
    loss = (0.05 + ratio * r + ratio * ratio / 2.0).sum(axis=1)
    drawn = float(np.mean(-np.expm1(np.minimum(found - loss, 0.0))))
    assert drawn == pytest.approx(delta, rel=0.1)
    halved = total([GaussianObjectivePerturbation(0.02, 0.05, 0.05, 3)] * releases, delta).epsilon
    assert halved > 1.5 * found
