"""What one record can do to a gradient at a public model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator_free.problem.losses import (
    LOGISTIC,
    LOGISTIC_NON_CONVEX,
    SIGMOID_SQUARED,
    SQUARED,
    Loss,
    logistic_spread,
)
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.public_model import PublicModelSensitivity

BOUNDED = [LOGISTIC, LOGISTIC_NON_CONVEX, SIGMOID_SQUARED]
KNOWN = {0.0: 1.0, 0.5: 1.03, 1.0: 1.10, 2.0: 1.27, 3.0: 1.42, 5.0: 1.62, 10.0: 1.82}


def longest(rows: np.ndarray, norm: str) -> np.ndarray:
    found: np.ndarray = np.abs(rows).sum(axis=-1) if norm == "l1" else np.sqrt(np.square(rows).sum(axis=-1))
    return found


def dual(model: np.ndarray, norm: str) -> float:
    return float(np.abs(model).max() if norm == "l1" else np.sqrt(model @ model))


@pytest.mark.parametrize("size", sorted(KNOWN))
def test_the_logistic_spread_is_the_known_one_and_is_attained(size: float) -> None:
    """Against all pairs of rows on a fine grid of the half circle: the plane of the model and one more direction."""
    angle = np.linspace(0.0, math.pi, 2001)
    slope = 1.0 / (1.0 + np.exp(-size * np.cos(angle)))
    x, y = slope * np.cos(angle), slope * np.sin(angle)
    apart = np.sqrt((x[:, None] - x[None, :]) ** 2 + (y[:, None] + y[None, :]) ** 2)
    assert apart.max() <= logistic_spread(size) <= apart.max() * (1.0 + 1e-5)
    assert logistic_spread(size) == pytest.approx(KNOWN[size], abs=0.006)


@pytest.mark.parametrize("size", [1e-9, 0.01, *np.geomspace(0.1, 64.0, 60), 1e4])
def test_the_logistic_spread_is_rounded_up_by_less_than_a_part_in_ten_to_the_eleven(size: float) -> None:
    """Against the maximum over one coordinate, by thirds of an interval."""

    def apart(u: float) -> float:
        return 2.0 * math.sqrt(1.0 - u * u) / (1.0 + math.exp(-size * u))

    low, high = 0.0, 0.75
    for _ in range(120):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (left, high) if apart(left) < apart(right) else (low, right)
    assert apart(low) * (1.0 + 2e-13) < logistic_spread(size) < apart(low) * (1.0 + 1e-11)


@pytest.mark.parametrize("loss", BOUNDED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_two_sampled_records_are_further_apart(loss: Loss, norm: str) -> None:
    random = np.random.default_rng(0)
    for dimension in (1, 2, 5):
        for bound in (0.5, 1.0, 3.0):
            for clip in (0.3, 1.0, 5.0):
                model = random.normal(size=dimension) * random.choice([0.0, 0.3, 2.0, 10.0])
                rows = random.normal(size=(2, 400, dimension)) * np.exp(random.normal(size=(2, 400, 1)))
                rows[1, :200] = -rows[0, :200]
                rows *= (bound / np.maximum(longest(rows, norm), bound))[..., None]
                labels = random.choice([-1.0, 1.0], size=(2, 400))
                slopes = loss.slope(rows @ model, labels)
                gradients = slopes[..., None] * rows
                size = dual(model, norm)
                spread = loss.gradient_spread(size, bound, norm)
                assert (longest(gradients[0] - gradients[1], norm) <= spread * (1.0 + 1e-12)).all()
                assert spread <= 2.0 * loss.lipschitz(bound) * (1.0 + 1e-12)
                assert spread <= loss.gradient_spread(1.5 * size + 0.1, bound, norm) * (1.0 + 1e-12)
                gradients *= np.minimum(1.0, clip / np.maximum(longest(gradients, norm), 1e-300))[..., None]
                moved = PublicModelSensitivity(loss, clip, norm, bound).at(model)
                assert (longest(gradients[0] - gradients[1], norm) <= moved * (1.0 + 1e-12)).all()
                assert moved <= min(2.0 * clip, 2.0 * loss.lipschitz(bound)) * (1.0 + 1e-8)


def test_an_optimiser_finds_no_pair_that_is_further_apart() -> None:
    """Climb from many starts in five dimensions, with rows inside the ball too."""
    random = np.random.default_rng(1)
    for size in (0.0, 1.0, 4.0):
        model = np.zeros(5)
        model[0] = size
        pair = random.normal(size=(200, 2, 5))
        best, scale = np.zeros(200), 0.5
        for _ in range(400):
            tried = pair + scale * random.normal(size=pair.shape)
            tried /= np.maximum(longest(tried, "l2"), 1.0)[..., None]
            gradients = tried / (1.0 + np.exp(-tried @ model))[..., None]
            apart = longest(gradients[:, 0] - gradients[:, 1], "l2")
            better = apart > best
            best[better], pair[better] = apart[better], tried[better]
            scale = max(0.01, scale * 0.985)
        assert 0.999 * logistic_spread(size) < best.max() <= logistic_spread(size)


def test_where_nothing_is_known_the_bound_is_that_for_all_models() -> None:
    zero = np.zeros(3)
    assert PublicModelSensitivity(LOGISTIC, 0.7, "l2", None).at(zero) == 1.4
    assert PublicModelSensitivity(SQUARED, 0.7, "l2", 1.0).at(zero) == 1.4
    assert PublicModelSensitivity(LOGISTIC, 0.4, "l2", 1.0).at(zero) == 0.8  # the clip is below what the loss can do
    assert not PublicModelSensitivity(LOGISTIC, 0.4, "l2", 1.0).follows
    many = PublicModelSensitivity(LOGISTIC, 5.0, "l2", 1.0)
    assert many.largest == pytest.approx(2.0, rel=1e-8)  # the clip cannot act
    for odd in (np.full(3, math.nan), np.full(3, 2.0**32), np.full(3, 40.0)):
        assert many.at(odd) == many.largest


def test_few_scales_for_many_models() -> None:
    moved = PublicModelSensitivity(LOGISTIC, 1.0, "l2", 1.0)
    sizes = np.linspace(0.0, 2.0, 5000)
    found = [moved.at(np.array([size, 0.0])) for size in sizes]
    assert len(set(found)) <= 2 * 64 + 2
    assert (np.diff(found) >= 0.0).all()
    assert all(1.0 <= f / logistic_spread(size) < 1.005 for f, size in zip(found, sizes, strict=True))


def test_rows_are_shortened_to_the_public_bound() -> None:
    x = np.array([[3.0, 4.0], [0.3, 0.4], [1.0, 0.0]])
    problem = LocalProblem(x, np.ones(3), LOGISTIC, 0.1)
    inside = problem.within(1.0, "l2")
    np.testing.assert_allclose(inside.x, [[0.6, 0.8], [0.3, 0.4], [1.0, 0.0]])
    assert (inside.x[1:] == x[1:]).all()
    assert problem.within(5.0, "l2") is problem
    assert np.abs(problem.within(1.0, "l1").x).sum(axis=1).max() == pytest.approx(1.0)
