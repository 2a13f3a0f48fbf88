"""Totals against computations of their own: convolution bracketed from both sides, high precision, enumeration."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, signal, special, stats

from coordinator_free.privacy import composition, loss_distribution
from coordinator_free.privacy.accounting import (
    BINOMIAL,
    GAUSSIAN,
    KAIROUZ,
    LOSS_DISTRIBUTION,
    PLAIN,
    PLANE,
    AccountingError,
    binomial,
    calibrate,
    kairouz,
    total,
)
from coordinator_free.privacy.allocation import AllocationError, weights
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu, log_delta
from coordinator_free.privacy.families import NORMS, mechanism
from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.noise import FloatArray, Stream
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.privacy.parameters import conversion, gdp, zcdp

DELTA = math.exp(-5.0)


# --- an independent composition --------------------------------------------------------------------------------------


def bracket(
    parts: list[tuple[Callable[[FloatArray], FloatArray], float, int]], delta: float, step: float
) -> tuple[float, float]:
    """Lower and upper bound of the total epsilon, by convolution of losses rounded down and rounded up to ``step``.

    ``parts``: (P(L <= l), largest |loss|, count). Rounding a loss down (up) can only lower (raise) delta(epsilon).
    """
    bounds = []
    for up in (0, 1):
        composed, start = np.array([1.0]), 0
        for at_most, largest, count in parts:
            top = math.ceil(largest / step) + 1
            edges = np.arange(-top, top + 1)
            mass = np.diff(at_most(edges * step), prepend=0.0)  # of (edge - step, edge]
            base, shift = trimmed(mass, -top if up else -top - 1)
            for bit in bin(count)[2:][::-1]:
                if bit == "1":
                    composed, start = trimmed(signal.fftconvolve(composed, base), start + shift)
                base, shift = trimmed(signal.fftconvolve(base, base), 2 * shift)
        loss = (start + np.arange(composed.size)) * step
        upper, other = np.cumsum(composed[::-1]), np.cumsum((composed * np.exp(-loss))[::-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            epsilons = np.log((upper - delta) / other)
        bounds.append(float(np.nanmax(epsilons, initial=0.0)))
    return bounds[0], bounds[1]


def trimmed(mass: FloatArray, start: int) -> tuple[FloatArray, int]:
    """Without the ends, which hold 1e-14 of the mass and noise of the transform: far below every delta here."""
    mass = np.maximum(mass, 0.0)
    first = int(np.searchsorted(np.cumsum(mass), 1e-14))
    last = mass.size - int(np.searchsorted(np.cumsum(mass[::-1]), 1e-14))
    return mass[first:last], start + first


def laplace_loss(epsilon: float) -> Callable[[FloatArray], FloatArray]:
    """P(L <= l) of Laplace noise, with its atoms e^-eps / 2 at -eps and 1/2 at eps."""

    def at_most(loss: FloatArray) -> FloatArray:
        inside = np.exp((loss - epsilon) / 2.0) / 2.0
        return np.where(loss >= epsilon, 1.0, np.where(loss < -epsilon, 0.0, inside))

    return at_most


def gamma_norm_loss(shift: float, d: int) -> Callable[[FloatArray], FloatArray]:
    return lambda loss: loss_distribution.norm_loss_at_most(loss, shift, d, nodes=200)


def gaussian_loss(mu: float) -> Callable[[FloatArray], FloatArray]:
    return lambda loss: special.ndtr((loss - mu * mu / 2.0) / mu)


# --- known figures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("releases", "exact", "theorem"), [(10, 0.5354, 0.9337), (100, 2.4084, 3.6619), (500, 7.1766, 9.5690)]
)
def test_laplace_releases_of_epsilon_a_tenth(releases: int, exact: float, theorem: float) -> None:
    found = total([Laplace(1.0, 10.0)] * releases, DELTA)
    assert found.epsilon == found.exact == pytest.approx(exact, abs=3e-4)
    assert found.kairouz == pytest.approx(theorem, abs=1e-4)
    assert found.plain == pytest.approx(releases / 10)
    assert found.accountant == LOSS_DISTRIBUTION


@pytest.mark.parametrize(("epsilon", "releases"), [(0.1, 10), (0.1, 100), (0.05, 200), (1.0, 3)])
def test_laplace_total_lies_between_independent_bounds(epsilon: float, releases: int) -> None:
    step = (2e-3 if releases < 50 else 6e-3) * epsilon / math.sqrt(releases)
    lower, upper = bracket([(laplace_loss(epsilon), epsilon, releases)], DELTA, step)
    found = total([Laplace(epsilon, 1.0)] * releases, DELTA).exact
    assert upper - lower < 1.2e-2 * upper, "else the bounds would show nothing"
    assert lower <= found <= upper
    assert found == pytest.approx((lower + upper) / 2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"), [(0.05, 1e-3, 0.03332186086), (0.25, 1e-3, 0.1215195854), (1.0, 1e-5, 0.2680511232)]
)
def test_gaussian_golden_values(epsilon: float, delta: float, mu: float) -> None:
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize("mu", [1e-5, 0.03, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("deviations", [-6.0, 0.5, 4.0, 12.0, 37.0])
def test_gaussian_delta_to_many_digits(mu: float, deviations: float) -> None:
    """delta(epsilon) with 60 digits, from delta near 1 to 1e-300."""
    epsilon = mu * (mu / 2.0 + deviations)
    if epsilon < 0.0:
        return
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.log(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))
    assert log_delta(epsilon, mu) == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


def test_gaussian_inverses_never_understate() -> None:
    for epsilon, delta in itertools.product((1e-3, 0.5, 3.0, 40.0), (0.3, DELTA, 1e-6, 1e-15, 1e-80)):
        mu = gaussian_mu(epsilon, delta)
        assert log_delta(epsilon, mu) <= math.log(delta)
        assert log_delta(epsilon, mu * 1.001) > math.log(delta)
        assert log_delta(gaussian_epsilon(mu, delta), mu) <= math.log(delta)


def test_gaussian_releases_compose_to_the_root_of_the_sum_of_squares() -> None:
    mixed = [Gaussian(1.0, 20.0)] * 30 + [Gaussian(2.0, 25.0)] * 5
    mu = math.sqrt(30 / 20**2 + 5 * (2 / 25) ** 2)
    found = total(mixed, 1e-5)
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-9)
    assert (found.accountant, found.plain, found.kairouz) == (GAUSSIAN, None, None)


def test_half_the_noise_costs_much_more() -> None:
    for made, halved in ((Laplace(1.0, 20.0), Laplace(1.0, 10.0)), (Gaussian(1.0, 20.0), Gaussian(1.0, 10.0))):
        assert total([halved] * 100, DELTA).epsilon > 2.0 * total([made] * 100, DELTA).epsilon


# --- pure releases ---------------------------------------------------------------------------------------------------


def objective(epsilon: float) -> Mechanism:
    return ObjectivePerturbation(1.0, 2.0 / epsilon, epsilon / 2.0, 7)


@pytest.mark.parametrize(("epsilon", "releases", "delta"), [(0.3, 6, 1e-2), (1.5, 4, 1e-3), (0.01, 9, 1e-4)])
def test_binomial_by_enumeration(epsilon: float, releases: int, delta: float) -> None:
    true = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    outcomes = list(itertools.product((True, False), repeat=releases))
    here = np.array([math.prod(true if o else 1 - true for o in outcome) for outcome in outcomes])
    there = np.array([math.prod(1 - true if o else true for o in outcome) for outcome in outcomes])
    found = binomial(epsilon, releases, delta)
    assert float(np.maximum(here - math.exp(found) * there, 0).sum()) == pytest.approx(delta, rel=1e-9)


def test_equal_pure_releases_are_binomial_and_mixed_ones_agree_with_it() -> None:
    alike = total([objective(0.1)] * 60, DELTA)
    assert (alike.accountant, alike.epsilon) == (BINOMIAL, pytest.approx(binomial(0.1, 60, DELTA), rel=1e-6))
    mixed = total([objective(0.1)] * 30 + [objective(0.1 + 1e-9)] * 30, DELTA)
    assert mixed.accountant == LOSS_DISTRIBUTION
    assert mixed.epsilon == pytest.approx(alike.epsilon, rel=1e-3)
    assert mixed.epsilon >= alike.epsilon


def test_many_tiny_pure_releases_are_not_rounded_up() -> None:
    assert binomial(0.002, 2000, 1e-5) == pytest.approx(gaussian_epsilon(0.002 * math.sqrt(2000), 1e-5), rel=5e-3)


def test_kairouz_has_delta_outside_the_root() -> None:
    epsilon, releases, delta = 0.1, 10, DELTA
    drift = releases * epsilon * (math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)
    squares = releases * epsilon**2
    expected = drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta))
    assert kairouz(np.array([epsilon]), np.array([float(releases)]), delta) == pytest.approx(expected, rel=1e-14)


def test_without_delta_epsilons_add() -> None:
    found = total([Laplace(1.0, 4.0), Laplace(1.0, 2.0), None, objective(0.5)], 0.0)
    assert (found.epsilon, found.accountant) == (pytest.approx(1.25), PLAIN)
    assert found.exact is None
    assert total([Gaussian(1.0, 4.0)], 0.0).epsilon == math.inf


def test_nothing_charged_costs_nothing() -> None:
    assert total([], DELTA).epsilon == total([None, None], 0.0).epsilon == 0.0


def test_the_smallest_of_the_three_is_the_total() -> None:
    many = total([Laplace(1.0, 10.0)] * 500, 1e-6)
    assert many.epsilon == min(many.plain, many.kairouz, many.exact)
    few = total([Laplace(1.0, 0.01)] * 2, 1e-12)
    assert few.epsilon == min(few.plain, few.kairouz, few.exact)
    assert few.accountant in (PLAIN, KAIROUZ, LOSS_DISTRIBUTION)


# --- gamma-norm ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [2, 3, 10, 104, 2000])
def test_the_law_of_the_gamma_norm_loss_by_adaptive_quadrature(dimension: int) -> None:
    shift = 0.3 * math.sqrt(dimension)
    a = (dimension - 1) / 2.0
    for share in (-0.7, -0.1, 0.05, 0.4):
        loss = share * shift
        start = (shift - loss) / 2.0

        def density(radius: float, loss: float = loss) -> float:
            cosine = (2.0 * radius * loss + loss * loss - shift * shift) / (2.0 * radius * shift)
            log_gamma = (dimension - 1) * math.log(radius) - radius - math.lgamma(dimension)
            return math.exp(log_gamma) * float(special.betainc(a, a, min(1.0, max(0.0, (1.0 + cosine) / 2.0))))

        middle, width = float(dimension), 12.0 * math.sqrt(dimension)
        points = [p for p in (middle - width / 3, middle, middle + width / 3) if p > start]
        expected = integrate.quad(density, start, middle + 3 * width, points=points, limit=400, epsabs=1e-14)[0]
        found = loss_distribution.norm_loss_at_most(np.array([loss]), shift, dimension)[0]
        assert found == pytest.approx(expected, abs=loss_distribution.quadrature_error(dimension))


def test_the_nodes_are_enough_for_the_stated_error() -> None:
    for dimension, shift in itertools.product((2, 21, 104, 3000), (0.01, 5.0)):
        loss = np.linspace(-1.0, 1.0, 21) * shift
        coarse = loss_distribution.norm_loss_at_most(loss, shift, dimension)
        fine = loss_distribution.norm_loss_at_most(loss, shift, dimension, nodes=192)
        assert np.abs(coarse - fine).max() < loss_distribution.quadrature_error(dimension) / 2.0
        if dimension > 20:
            almost = loss_distribution.norm_loss_at_most(np.array([shift * (1 - 1e-14)]), shift, dimension)
            assert almost[0] == pytest.approx(1.0, abs=loss_distribution.quadrature_error(dimension))


@pytest.mark.thorough
@pytest.mark.parametrize(("multiplier", "dimension", "releases"), [(3.6571, 104, 100), (7.0, 2, 10), (4.0, 21, 30)])
def test_gamma_norm_total_lies_between_independent_bounds(multiplier: float, dimension: int, releases: int) -> None:
    shift = 1.0 / multiplier
    step = 1.6e-2 * shift / math.sqrt(dimension * releases)
    lower, upper = bracket([(gamma_norm_loss(shift, dimension), shift, releases)], 1e-5, step)
    found = total([GammaNorm(shift, 1.0, dimension)] * releases, 1e-5).exact
    assert upper - lower < 4e-2 * upper
    assert lower <= found <= upper
    assert found == pytest.approx((lower + upper) / 2.0, rel=1e-3)


def test_gamma_norm_in_many_dimensions_costs_hardly_more_than_gaussian_noise() -> None:
    """d = 104, T = 100, epsilon 1, delta 1e-5: expected length of the noise per unit of sensitivity."""
    d = 104
    numerical = calibrate("gamma-norm", 100, 1.0, 1e-5, dimension=d)[0] * d
    gaussian = calibrate("gaussian", 100, 1.0, 1e-5)[0] * math.sqrt(d - 0.5)
    assert numerical == pytest.approx(gaussian, rel=0.02)
    assert gaussian == pytest.approx(380, abs=1)
    assert binomial(d / 3843.0, 100, 1e-5) == pytest.approx(1.0, rel=1e-3), "what its pure epsilon would need"


@pytest.mark.thorough
@pytest.mark.parametrize("dimension", [2, 30])
def test_the_law_of_the_gamma_norm_loss_by_drawing_it(dimension: int) -> None:
    made, shift = GammaNorm(1.0, 1.0, dimension), np.eye(dimension)[0] * 0.8
    drawn = np.array([made.noise(dimension, Stream(bytes(32), index)) for index in range(8_000)])
    loss = np.linalg.norm(drawn + shift, axis=1) - np.linalg.norm(drawn, axis=1)

    def cdf(values: FloatArray) -> FloatArray:
        grid = np.linspace(-0.8, 0.8, 2001)
        return np.interp(values, grid, loss_distribution.norm_loss_at_most(grid, 0.8, dimension))

    assert stats.kstest(loss, cdf).pvalue > 1e-4
    assert stats.kstest(loss * 1.2, cdf).pvalue < 1e-4


def test_gamma_norm_in_one_dimension_is_laplace() -> None:
    one, other = total([GammaNorm(1.0, 9.0, 1)] * 20, DELTA), total([Laplace(1.0, 9.0)] * 20, DELTA)
    assert one.epsilon == pytest.approx(other.epsilon, rel=1e-9)


# --- mixtures --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_mixed_mechanisms_lie_between_independent_bounds() -> None:
    parts = [(laplace_loss(0.1), 0.1, 20), (gaussian_loss(0.3), 4.0, 1), (gamma_norm_loss(0.25, 30), 0.25, 10)]
    lower, upper = bracket(parts, 1e-4, 1.2e-4)
    mixed: list[Mechanism] = [Laplace(1.0, 10.0)] * 20 + [Gaussian(0.1, 1.0)] * 9 + [GammaNorm(0.25, 1.0, 30)] * 10
    found = total(mixed, 1e-4)
    assert lower <= found.epsilon <= upper
    assert upper - lower < 1.2e-2 * upper
    assert found.epsilon == pytest.approx((lower + upper) / 2.0, rel=1e-3)
    assert total(mixed[::-1], 1e-4) == found


@pytest.mark.thorough
@pytest.mark.parametrize(("rounds", "shift", "dimension"), [(20, 0.4, 105), (100, 0.05, 105), (3, 1.5, 3)])
def test_rounds_of_perturbed_objectives_lie_between_independent_bounds(
    rounds: int, shift: float, dimension: int
) -> None:
    jacobian, delta = 0.001, 1e-5
    step = 4e-3 * shift / math.sqrt(rounds * dimension)

    def at_most(loss: FloatArray) -> FloatArray:
        inside = 1.0 - loss_distribution.plane_loss_above(np.clip(loss, 0.0, shift), shift, dimension, nodes=100)
        return np.where(loss >= shift, 1.0, np.where(loss <= 0.0, 0.0, inside))

    lower, upper = bracket([(at_most, shift, rounds)], delta, step)
    made = ObjectivePerturbation(shift, 1.0, jacobian, dimension)
    found = total([made] * rounds, delta)
    assert upper - lower < 1.2e-2 * upper
    assert found.accountant == PLANE
    assert lower - 1e-9 <= found.epsilon - rounds * jacobian <= upper
    pure = total([made] * rounds, 0.0).epsilon
    assert found.epsilon < min(pure, binomial(shift + jacobian, rounds, delta))
    assert total([ObjectivePerturbation(2 * shift, 1.0, jacobian, dimension)] * rounds, delta).epsilon > found.epsilon


@pytest.mark.thorough
@pytest.mark.parametrize("dimension", [3, 30])
def test_the_bound_in_the_plane_by_drawing_it(dimension: int) -> None:
    """Noise with density exp(-|e|), and the worst shift in a plane, which may depend on the noise."""
    made, shift = GammaNorm(1.0, 1.0, dimension), 0.8
    drawn = np.array([made.noise(dimension, Stream(bytes(32), index)) for index in range(8_000)])
    in_plane = drawn[:, :2] / np.linalg.norm(drawn[:, :2], axis=1)[:, None] * shift
    moved = drawn.copy()
    moved[:, :2] += in_plane
    loss = np.linalg.norm(moved, axis=1) - np.linalg.norm(drawn, axis=1)

    def cdf(values: FloatArray) -> FloatArray:
        grid = np.linspace(1e-9, shift - 1e-9, 2001)
        return 1.0 - np.interp(values, grid, loss_distribution.plane_loss_above(grid, shift, dimension))

    assert stats.kstest(loss, cdf).pvalue > 1e-4
    assert stats.kstest(loss * 1.1, cdf).pvalue < 1e-4


@pytest.mark.thorough
def test_a_mixture_with_pure_rounds_lies_between_independent_bounds() -> None:
    def pure_loss(loss: FloatArray) -> FloatArray:
        return np.where(loss >= 0.2, 1.0, np.where(loss < -0.2, 0.0, 1.0 / (1.0 + math.exp(0.2))))

    parts = [
        (laplace_loss(0.1), 0.1, 20),
        (gaussian_loss(0.3), 4.0, 1),
        (gamma_norm_loss(0.25, 30), 0.25, 10),
        (pure_loss, 0.2, 5),
    ]
    lower, upper = bracket(parts, 1e-4, 1.2e-4)
    mixed: list[Mechanism] = [Laplace(1.0, 10.0)] * 20 + [Gaussian(0.1, 1.0)] * 9 + [GammaNorm(0.25, 1.0, 30)] * 10
    mixed += [ObjectivePerturbation(0.15, 1.0, 0.05, 2)] * 5
    found = total(mixed, 1e-4).exact
    assert upper - lower < 1.5e-2 * upper
    assert lower <= found <= upper
    assert found == pytest.approx((lower + upper) / 2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("laplace", "gaussian", "gamma", "rounds", "delta"), [(40, 0.2, 5, 3, 1e-3), (4, 0.5, 30, 1, 1e-6)]
)
def test_mixtures_in_three_dimensions_agree_with_a_composition_of_closed_forms(
    laplace: int, gaussian: float, gamma: int, rounds: int, delta: float
) -> None:
    """Nothing of the accountant is used: in three dimensions the law of the gamma-norm loss has a closed form."""
    shift = 0.3

    def norm_loss(loss: FloatArray) -> FloatArray:
        inside = np.clip(loss, -shift, shift)
        start = (shift - inside) / 2.0  # the cosine between noise and shift is uniform
        value = (shift + inside) / (2 * shift) * special.gammaincc(3, start)
        value -= (shift * shift - inside * inside) / (8 * shift) * special.gammaincc(2, start)
        return np.where(loss >= shift, 1.0, np.where(loss < -shift, 0.0, value))

    def pure_loss(loss: FloatArray) -> FloatArray:
        return np.where(loss >= 0.2, 1.0, np.where(loss < -0.2, 0.0, 1.0 / (1.0 + math.exp(0.2))))

    parts = [
        (laplace_loss(0.05), 0.05, laplace),
        (gaussian_loss(gaussian), 5.0, 1),
        (norm_loss, shift, gamma),
        (pure_loss, 0.2, rounds),
    ]
    lower, upper = bracket(parts, delta, 1.2e-4)
    mixed: list[Mechanism] = [Laplace(1.0, 20.0)] * laplace + [Gaussian(gaussian, 2.0)] * 4
    mixed += [GammaNorm(shift, 1.0, 3)] * gamma + [ObjectivePerturbation(0.15, 1.0, 0.05, 2)] * rounds
    found = total(mixed, delta).exact
    assert upper - lower < 1.5e-2 * upper
    assert lower <= found <= upper
    assert found == pytest.approx((lower + upper) / 2.0, rel=1e-3)
    assert gaussian_epsilon(gdp(mixed), delta) >= found


# --- small deltas and large budgets ----------------------------------------------------------------------------------


def pure_delta(each: float, releases: int, epsilon: float) -> float:
    """The exact delta of equal pure releases, with 50 digits."""
    with mpmath.workdps(50):
        e = mpmath.mpf(each)
        true = 1 / (1 + mpmath.exp(-e))
        k, term, found = releases, true**releases, mpmath.mpf(0)
        while k >= 0 and e * (2 * k - releases) > epsilon:
            found += term * (1 - mpmath.exp(epsilon - e * (2 * k - releases)))
            term *= mpmath.mpf(k) / (releases - k + 1) * mpmath.exp(-e)
            k -= 1
        return float(found)


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-14, 1e-15])
@pytest.mark.parametrize(("each", "releases"), [(0.005, 20_000), (0.1, 100), (1.5, 60)])
def test_pure_releases_do_not_exceed_a_small_delta(each: float, releases: int, delta: float) -> None:
    def flat(epsilon: float) -> Mechanism:
        return ObjectivePerturbation(1.0, 2.0 / epsilon, epsilon / 2.0, 2)  # nothing but its epsilon helps in a plane

    half = releases // 2
    alike = total([flat(each)] * releases, delta).exact
    # Two kinds that differ in the ninth digit go another way: by loss distributions.
    mixed = total([flat(each)] * half + [flat(each * (1 + 1e-9))] * (releases - half), delta).exact
    assert pure_delta(each, releases, alike) == pytest.approx(delta, rel=1e-6)
    assert pure_delta(each, releases, mixed) <= delta * (1 + 1e-9)
    assert mixed == pytest.approx(alike, rel=1e-3)


@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-14])
def test_laplace_releases_do_not_exceed_a_small_delta(delta: float) -> None:
    """Against sums of positive terms alone, in which no rounding can hide a tail."""
    epsilon, releases = 0.1, 64
    step = epsilon / 150
    bounds = []
    for up in (0, 1):
        edges = np.arange(-151, 152)
        mass = np.diff(laplace_loss(epsilon)(edges * step), prepend=0.0)
        start = -151 if up else -152
        for _ in range(6):
            mass, start = np.convolve(mass, mass), 2 * start
        loss = (start + np.arange(mass.size)) * step
        low, high = 0.0, epsilon * releases
        for _ in range(60):
            middle = (low + high) / 2.0
            spends = float((mass * -np.expm1(np.minimum(middle - loss, 0.0))).sum()) > delta
            low, high = (middle, high) if spends else (low, middle)
        bounds.append(high)
    found = total([Laplace(epsilon, 1.0)] * releases, delta).exact
    assert bounds[1] - bounds[0] < 0.02 * bounds[1]
    assert bounds[0] <= found <= bounds[1]


@pytest.mark.parametrize("delta", [1e-5, 1e-14, 1e-300])
def test_gaussian_losses_compose_to_the_analytic_figure(delta: float) -> None:
    mu, releases = 0.1, 100
    part = loss_distribution.gaussian(1.0 / mu, 2.0**-10)
    found = composition.composed_epsilon([(part, releases)], delta)
    exact = gaussian_epsilon(mu * math.sqrt(releases), delta)
    assert exact <= found <= exact * (1 + 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("family", sorted(NORMS))
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-15), (2.0, 1e-12), (300.0, 1e-5), (800.0, 1e-5), (1e5, 1e-5), (1e8, 1e-3)]
)
def test_every_budget_question_is_answered_in_bounded_memory(family: str, epsilon: float, delta: float) -> None:
    tracemalloc.start()
    try:
        multipliers = calibrate(family, 7, epsilon, delta, dimension=200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500e6
    made = [mechanism(family, 0.01, float(m), 200) for m in multipliers]
    assert total(made, delta).epsilon <= epsilon * (1 + 1e-9)


# --- for people who compose elsewhere --------------------------------------------------------------------------------


def test_gaussian_releases_have_their_zcdp_and_gdp_parameters() -> None:
    mixed = [Gaussian(1.0, 20.0)] * 30 + [Gaussian(2.0, 25.0)] * 5
    mu = math.sqrt(30 / 20**2 + 5 * (2 / 25) ** 2)
    assert gdp(mixed) == pytest.approx(mu, rel=1e-10)
    assert zcdp(mixed) == pytest.approx(mu * mu / 2.0, rel=1e-10)
    assert gaussian_epsilon(gdp(mixed), 1e-6) == pytest.approx(total(mixed, 1e-6).epsilon, rel=1e-9)


@pytest.mark.parametrize("made", [Laplace(1.0, 4.0), GammaNorm(1.0, 4.0, 9), ObjectivePerturbation(0.2, 1.0, 0.05, 9)])
def test_the_zcdp_and_gdp_parameters_of_pure_releases_are_bounds(made: Mechanism) -> None:
    several = [made] * 30 + [Gaussian(1.0, 5.0)]
    mu, rho = gdp(several), zcdp(several)
    for delta in (1e-2, 1e-5, 1e-9):
        exact = total(several, delta).epsilon
        assert gaussian_epsilon(mu, delta) >= exact
        assert rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)) >= exact
    assert gdp([None, made]) == gdp([made])
    assert made.name in conversion(several)


def test_what_has_no_zcdp_and_no_gdp_parameter_says_so() -> None:
    assert conversion([Gaussian(1.0, 5.0), None]).startswith("exact")
    several = [Gaussian(1.0, 5.0), GaussianObjectivePerturbation(0.2, 1.0, 0.05, 9)]
    assert (zcdp(several), gdp(several)) == (None, None)
    assert conversion(several).startswith("none")


# --- calibration -----------------------------------------------------------------------------------------------------


def spends(epsilon: float, delta: float, multipliers: FloatArray, family: str, dimension: int) -> bool:
    made = [mechanism(family, 0.01, float(m), dimension) for m in multipliers]
    return epsilon * (1 - 1e-4) <= total(made, delta).epsilon <= epsilon


@pytest.mark.parametrize("family", sorted(NORMS))
@pytest.mark.parametrize(
    ("releases", "epsilon", "delta"),
    [(1, 1.0, DELTA), (30, 0.1, 1e-5), (100, 1.0, DELTA), (7, 20.0, 1e-3), (40, 0.01, 0.3), (1000, 2.0, 1e-3)],
)
def test_calibration_spends_the_budget_and_no_more(family: str, releases: int, epsilon: float, delta: float) -> None:
    multipliers = calibrate(family, releases, epsilon, delta, dimension=9)
    assert multipliers.shape == (releases,)
    assert spends(epsilon, delta, multipliers, family, 9)
    assert not spends(epsilon, delta, multipliers / 1.01, family, 9)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["laplace", "gaussian"]),
    st.integers(1, 60),
    st.floats(0.05, 8.0),
    st.floats(1e-8, 0.1),
    st.sampled_from(["uniform", "increasing", "as_published"]),
    st.floats(0.8, 1.0),
)
def test_any_allocation_spends_the_budget_and_no_more(
    family: str, releases: int, epsilon: float, delta: float, allocation: str, r: float
) -> None:
    assert spends(epsilon, delta, calibrate(family, releases, epsilon, delta, allocation, r=r), family, 5)


def test_calibration_without_delta_is_the_plain_sum() -> None:
    assert calibrate("laplace", 8, 2.0, 0.0) == pytest.approx(np.full(8, 4.0), rel=1e-8)
    assert spends(2.0, 0.0, calibrate("laplace", 8, 2.0, 0.0), "laplace", 5)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("laplace", 10, 0.0, 0.1), "privacy.epsilon = 0.0"),
        (("laplace", 10, math.nan, 0.1), "privacy.epsilon"),
        (("laplace", 10, 1.0, 1.0), "privacy.delta = 1.0"),
        (("laplace", 10, 1.0, -0.1), "privacy.delta"),
        (("gaussian", 10, 1.0, 0.0), "privacy.delta = 0"),
        (("gamma-norm", 10, 1.0, 0.1), "dimension"),
        (("poisson", 10, 1.0, 0.1), "privacy.mechanism = 'poisson'"),
    ],
)
def test_budgets_that_cannot_be_spent(arguments: tuple[str, int, float, float], named: str) -> None:
    with pytest.raises(AccountingError, match=named):
        calibrate(*arguments)


# --- allocation ------------------------------------------------------------------------------------------------------


def test_increasing_gives_more_to_later_releases_and_as_published_less() -> None:
    k = np.arange(10)
    laplace = weights("increasing", 10, "laplace", 0.5)
    assert laplace == pytest.approx(0.5 ** ((9 - k) / 3))
    assert weights("increasing", 10, "gaussian", 0.5) == pytest.approx(0.5 ** ((9 - k) / 4))
    assert weights("as_published", 10, "laplace", 0.5) == pytest.approx(0.5 ** (k / 3))
    multipliers = calibrate("laplace", 10, 1.0, DELTA, "increasing", r=0.5)
    assert 1.0 / multipliers == pytest.approx(laplace / multipliers[-1])


@pytest.mark.parametrize(("family", "power"), [("laplace", 2.0), ("gaussian", 2.0)])
def test_increasing_is_optimal(family: str, power: float) -> None:
    """Noise that an update shrinks to a share r of its variance: at equal budgets nothing leaves less at the end."""
    releases, r = 12, 0.6
    keeps = r ** (np.arange(releases - 1, -1, -1) / 1.0)
    rng = np.random.default_rng(3)

    def left(share: FloatArray) -> float:
        # Where epsilons add, share / sum is epsilon; for Gaussian noise share / norm is 1 / sigma. The printed weights
        # r^(T-1-k) are those of the error, which goes with the variance.
        used = share / share.sum() if family == "laplace" else share / math.sqrt(float(share @ share))
        return float(keeps @ used**-power)

    best = weights("increasing", releases, family, r)
    assert all(left(best * np.exp(rng.normal(0, 0.1, releases))) > left(best) for _ in range(200))
    assert left(best) < left(np.ones(releases)) < left(weights("as_published", releases, family, r))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("falling", 10, "laplace", 0.5), "uniform, increasing, as_published"),
        (("uniform", 0, "laplace", None), "releases = 0"),
        (("increasing", 10, "laplace", None), "privacy.r = None"),
        (("increasing", 10, "laplace", 1.1), "privacy.r = 1.1"),
        (("increasing", 1000, "laplace", 0.5), "accepted: 0.9"),
    ],
)
def test_allocations_that_cannot_be(arguments: tuple[str, int, str, float | None], named: str) -> None:
    with pytest.raises(AllocationError, match=named):
        weights(*arguments)


def test_what_agents_import_is_light() -> None:
    """Nine hundred agents import noise, mechanisms and ledger: no accountant and no scipy in them."""
    code = (
        "import sys, coordinator_free.privacy.ledger; "
        "sys.exit(any(name.split('.')[0] in ('scipy', 'dp_accounting') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
