"""Mechanisms: grid, scale, booking, densities, and what a halved or misplaced scale would look like."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.privacy.families import NORMS, from_description, mechanism
from coordinator_free.privacy.mechanism import GRID, LARGEST, Mechanism, MechanismError, boxed
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import Release

SECRET = bytes(range(32))
RARE = 1e-4

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12).map(np.array)
families = st.sampled_from(sorted(NORMS))


def noises(of: Mechanism, dimension: int, count: int) -> np.ndarray:
    return np.array([of.noise(dimension, Stream(SECRET, index)) for index in range(count)])


@given(families, values, st.integers(0, 1000))
def test_a_release_is_on_the_grid_and_a_function_of_secret_and_index(
    family: str, vector: np.ndarray, index: int
) -> None:
    made = mechanism(family, 0.3, 2.0, vector.size)
    release = made.perturb(vector, Stream(SECRET, index))
    assert np.array_equal(release, np.rint(release / GRID) * GRID)
    assert not np.signbit(release[release == 0.0]).any()
    assert release.tobytes() == made.perturb(vector, Stream(SECRET, index)).tobytes()
    assert release.tobytes() != made.perturb(vector, Stream(SECRET, index + 1)).tobytes()
    assert release.tobytes() != made.perturb(vector, Stream(SECRET[::-1], index)).tobytes()


@given(families, values, st.integers(-(2**40), 2**40))
def test_noise_does_not_depend_on_the_value(family: str, vector: np.ndarray, shift: int) -> None:
    """Values apart by whole steps give releases exactly as far apart: the low bits say nothing of the value."""
    made = mechanism(family, 0.3, 2.0, vector.size)
    rounded = np.rint(vector / GRID) * GRID
    release = made.perturb(vector, Stream(SECRET, 1))
    assert np.array_equal(release, rounded + made.noise(vector.size, Stream(SECRET, 1)))
    assert np.array_equal(made.perturb(rounded + shift * GRID, Stream(SECRET, 1)), release + shift * GRID)


@given(
    families,
    st.lists(st.tuples(st.floats(-1, 1), st.floats(-1e-5, 1e-5)), min_size=1, max_size=20),
)
def test_the_booked_sensitivity_covers_the_rounding(family: str, pairs: list[tuple[float, float]]) -> None:
    one = np.array([a for a, _ in pairs])
    other = one + np.array([b for _, b in pairs])
    order = 1 if NORMS[family] == "l1" else 2
    booked = mechanism(family, float(np.linalg.norm(one - other, order)), 2.0, one.size).sensitivity
    rounded = np.linalg.norm((np.rint(one / GRID) - np.rint(other / GRID)) * GRID, order)
    assert rounded <= booked * (1 + 1e-12)


def test_the_booking_is_what_is_stated() -> None:
    assert mechanism("laplace", 0.5, 4.0, 9).sensitivity == 0.5 + 9 * GRID + GRID / 16
    for family in ("gaussian", "gamma-norm"):
        made = mechanism(family, 0.5, 4.0, 9)
        assert made.sensitivity == 0.5 + 3 * GRID
        assert made.scale == 4.0 * made.sensitivity
        assert made.multiplier == pytest.approx(4.0, rel=1e-15)


# --- the scale: each of these fails for noise of half the scale ----------------------------------------------------


def test_laplace_scale() -> None:
    drawn = noises(Laplace(1.0, 3.0), 50, 2000).ravel()
    assert stats.kstest(drawn / 3.0, "laplace").pvalue > RARE
    assert stats.kstest(drawn / 3.0 / 0.95, "laplace").pvalue < RARE


def test_gaussian_scale() -> None:
    drawn = noises(Gaussian(1.0, 3.0), 50, 2000).ravel()
    assert stats.kstest(drawn / 3.0, "norm").pvalue > RARE
    assert stats.kstest(drawn / 3.0 / 0.95, "norm").pvalue < RARE


def test_gamma_norm_scale_and_direction() -> None:
    drawn = noises(GammaNorm(1.0, 3.0, 5), 5, 10_000)
    length = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(length / 3.0, stats.gamma(5).cdf).pvalue > RARE
    assert stats.kstest(length / 3.0 / 0.9, stats.gamma(5).cdf).pvalue < RARE
    for axis in range(5):
        cosine = drawn[:, axis] / length
        assert stats.kstest((1.0 + cosine) / 2.0, stats.beta(2, 2).cdf).pvalue > RARE


# --- exact privacy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "shift"), [(0.7, 1), (2.5, 3), (5.0, 20)])
def test_discrete_laplace_is_exactly_epsilon_private(scale: float, shift: int) -> None:
    """log density differs by at most sensitivity / scale between grid values, and by that much somewhere."""
    made = Laplace(shift * GRID, scale * GRID)
    k = np.arange(-200, 201)[:, None] * GRID
    loss = made.log_density(k) - made.log_density(k + shift * GRID)
    assert np.abs(loss).max() == pytest.approx(made.sensitivity / made.scale, rel=1e-12)


@pytest.mark.parametrize("scale", [0.6, 1.0, 4.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_continuous_laplace_with_the_booked_sensitivity_dominates_the_discrete_one(scale: float, shift: int) -> None:
    k = np.arange(-2000, 2001)
    q = math.exp(-1.0 / scale)
    here = (1 - q) / (1 + q) * q ** np.abs(k)
    there = (1 - q) / (1 + q) * q ** np.abs(k - shift)

    def discrete(epsilon: float) -> float:
        return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())

    def continuous(epsilon: float, booked: float) -> float:
        return max(0.0, -math.expm1((epsilon - booked / scale) / 2.0))

    epsilons = np.linspace(0.0, shift / scale, 200)
    booked = shift + 1.0 / (4.0 * scale)
    assert all(discrete(e) <= continuous(e, booked) + 1e-12 for e in epsilons)
    assert any(discrete(e) > continuous(e, shift) + 1e-9 for e in epsilons), "without the booking it does not"


@pytest.mark.parametrize("multiplier", [0.3, 2.0, 50.0])
@pytest.mark.parametrize("dimension", [1, 30])
def test_what_mechanism_books_for_the_discrete_law_is_enough(multiplier: float, dimension: int) -> None:
    made = mechanism("laplace", 0.0, multiplier, dimension)  # the smallest scale that is possible
    steps = made.scale / GRID
    assert made.sensitivity / GRID >= dimension + dimension * 2 * steps * math.log(math.cosh(1 / (2 * steps)))


# --- densities -------------------------------------------------------------------------------------------------------


def test_densities_integrate_to_one() -> None:
    steps = np.arange(-400, 401)[:, None] * GRID
    laplace = Laplace(1.0, 9.0 * GRID)
    assert float(np.exp(laplace.log_density(steps)).sum()) * GRID == pytest.approx(1.0, rel=1e-12)
    gaussian = Gaussian(1.0, 9.0 * GRID)
    assert float(np.exp(gaussian.log_density(steps)).sum()) * GRID == pytest.approx(1.0, rel=1e-9)
    for d, shell in ((2, lambda r: 2 * math.pi * r), (3, lambda r: 4 * math.pi * r**2)):
        made = GammaNorm(1.0, 0.5, d)
        point = np.zeros(d)

        def mass(r: float, made: GammaNorm = made, point: np.ndarray = point, shell=shell) -> float:  # type: ignore[no-untyped-def]
            point[0] = r
            return float(np.exp(made.log_density(point))) * shell(r)

        assert integrate.quad(mass, 0.0, 40.0)[0] == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("made", [Laplace(1.0, 2.0), Gaussian(1.0, 2.0), GammaNorm(1.0, 2.0, 3)])
def test_densities_take_many_vectors_at_once(made: Mechanism) -> None:
    noise = noises(made, 3, 8).reshape(2, 4, 3)
    many = made.log_density(noise)
    assert many.shape == (2, 4)
    assert many[1, 2] == pytest.approx(float(made.log_density(noise[1, 2])), rel=1e-14)


# --- descriptions and bad input --------------------------------------------------------------------------------------


@given(families, st.floats(1e-9, 1e3), st.floats(1e-3, 1e3), st.integers(1, 300))
def test_a_description_is_read_back_exactly(family: str, sensitivity: float, multiplier: float, dimension: int) -> None:
    made = mechanism(family, sensitivity, multiplier, dimension)
    assert from_description(json.loads(json.dumps(made.describe()))) == made


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"name": "laplace", "norm": "l2", "sensitivity": 1.0, "scale": 1.0},
        {"name": "shuffle", "norm": "l1", "sensitivity": 1.0, "scale": 1.0},
        {"name": "laplace", "norm": "l1", "sensitivity": "much", "scale": 1.0},
        {"name": "gamma-norm", "norm": "l2", "sensitivity": 1.0, "scale": 1.0},
        {"name": ["laplace"], "norm": "l1", "sensitivity": 1.0, "scale": 1.0},
    ],
)
def test_other_descriptions_are_refused(description: dict[str, object]) -> None:
    with pytest.raises(MechanismError):
        from_description(description)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("laplace", -1.0, 1.0, 3), "sensitivity"),
        (("laplace", math.nan, 1.0, 3), "sensitivity"),
        (("gaussian", 1.0, 0.0, 3), "multiplier"),
        (("gaussian", 1.0, math.inf, 3), "multiplier"),
        (("gaussian", 1.0, 1e9, 3), "scale"),
        (("gamma-norm", 1.0, 1.0, 0), "dimension"),
        (("gauss", 1.0, 1.0, 3), "laplace, gaussian, gamma-norm"),
    ],
)
def test_numbers_outside_their_range_are_refused(arguments: tuple[str, float, float, int], named: str) -> None:
    with pytest.raises(MechanismError, match=named):
        mechanism(*arguments)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**31, 2.0**32, -(2.0**32), 1e308])
@pytest.mark.parametrize("family", [*sorted(NORMS), "tests.helpers.own_mechanism:Rounded"])
def test_a_value_outside_the_public_box_is_projected_before_the_noise(family: str, value: float) -> None:
    made = mechanism(family, 0.1, 1.0, 2)
    inside = LARGEST if value > 0 else -LARGEST
    released = made.perturb(np.array([0.5, value]), Stream(SECRET, 0))
    assert np.isfinite(released).all()
    assert np.array_equal(released, made.perturb(np.array([0.5, inside]), Stream(SECRET, 0)))
    assert np.array_equal(released, np.array([0.5, inside]) + made.noise(2, Stream(SECRET, 0)))
    assert from_description(made.describe()) == made


@given(
    left=st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
    right=st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
)
def test_the_projection_moves_no_two_values_further_apart(left: list[float], right: list[float]) -> None:
    one, other = boxed(np.array(left)), boxed(np.array(right))
    with np.errstate(invalid="ignore", over="ignore"):
        before = np.abs(np.array(left) - np.array(right))
    assert (np.abs(one - other) <= np.nan_to_num(before, nan=0.0, posinf=math.inf)).all()
    assert (np.abs(one) <= LARGEST).all()


def test_no_record_decides_whether_a_release_is_made() -> None:
    # A neighbour that knows all records but one aims the exact next value at the largest number of the grid.
    for index in range(50):
        for records in (np.array([1.0]), np.array([-1.0])):
            secret = hashlib.sha256(index.to_bytes(4)).digest()
            problem = LocalProblem(records[:, None], np.ones(1), LOGISTIC, 0.0)
            learning = {"mu": 1.0, "smoothness": 0.25}
            agent = CoordinateDescent(
                Setting(
                    0,
                    (1,),
                    np.ones(1),
                    problem,
                    1,
                    1,
                    learning,
                    mechanism="gaussian",
                    multipliers=np.array([3.73]),
                    clip=1.0,
                    secret=secret,
                )
            )
            agent.receive(Release(1, 0, np.array([1.25 * 2.0**31]), (), None))
            assert agent.wake() is not None


def test_gamma_norm_noise_has_one_dimension() -> None:
    with pytest.raises(MechanismError, match="dimension 4"):
        GammaNorm(1.0, 1.0, 3).noise(4, Stream(SECRET, 0))


def test_a_mechanism_is_a_frozen_value() -> None:
    with pytest.raises(FrozenInstanceError):
        Laplace(1.0, 2.0).scale = 1.0  # type: ignore[misc]
