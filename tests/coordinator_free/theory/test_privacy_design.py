"""The optimal privacy design: curves that can be fitted, and those that cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator_free.theory.privacy_design import Curve, DesignError, Utility, fit, optimal

ALPHAS = np.repeat(np.array([0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 0.8]), 4)
PUBLISHED = Curve(c4=0.2, c5=25.0, c6=0.1, rate_error=0.0, residual=0.0)


def measured(c4: float, c5: float, c6: float, noise: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return ALPHAS, c4 * np.exp(-c5 * ALPHAS) + c6 + noise * np.random.default_rng(seed).normal(size=len(ALPHAS))


def test_exact_measurements_give_the_curve_back() -> None:
    curve = fit(*measured(0.2, 25.0, 0.1, 0.0))
    assert (curve.c4, curve.c5, curve.c6) == pytest.approx((0.2, 25.0, 0.1), rel=1e-4)


def test_the_error_bar_covers_the_truth() -> None:
    """Over 40 seeds ln c5 lies within three standard errors: missing more than two would be one in 10,000."""
    missed = 0
    for seed in range(40):
        curve = fit(*measured(0.2, 25.0, 0.1, 0.005, seed))
        missed += abs(math.log(curve.c5 / 25.0)) > 3.0 * curve.rate_error
    assert missed <= 2


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (measured(0.0, 1.0, 0.3, 0.01)[1], "do not visibly fall"),
        (measured(0.2, 0.01, 0.1, 1e-6)[1], "not determined"),
        (measured(0.01, 25.0, 0.1, 0.02)[1], "do not visibly fall"),
        (0.5 - 0.2 * ALPHAS, "not determined"),
    ],
    ids=["flat", "too slow", "drowned", "a line"],
)
def test_what_cannot_be_identified_is_refused(losses: np.ndarray, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        fit(ALPHAS, losses)


def test_three_levels_are_too_few() -> None:
    with pytest.raises(DesignError, match="3 different alphas"):
        fit(np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.1]))


def test_the_optimum_is_the_best_on_a_fine_grid() -> None:
    for utility in (Utility(), Utility(w1=0.002), Utility(w1=0.2)):
        design = optimal(PUBLISHED, utility, alpha_high=1.0, loss_limit=0.25)
        grid = np.linspace(math.log(0.2 / 0.15) / 25.0, 1.0, 200_001)
        values = [PUBLISHED.loss(float(a)) - utility.value(float(a)) for a in grid[::100]]
        assert design.objective <= min(values) + 1e-12
        assert design.loss <= 0.25 + 1e-12


def test_an_interior_optimum_balances_both_slopes() -> None:
    design = optimal(PUBLISHED, Utility(w1=0.005), alpha_low=0.01)
    assert design.interior
    balance = -PUBLISHED.c4 * PUBLISHED.c5 * math.exp(-PUBLISHED.c5 * design.alpha)
    assert balance == pytest.approx(Utility(w1=0.005).slope(design.alpha), rel=1e-6)


def test_limits_that_leave_nothing_are_named() -> None:
    with pytest.raises(DesignError, match="lower limit"):
        optimal(PUBLISHED, Utility())
    with pytest.raises(DesignError, match="never falls"):
        optimal(PUBLISHED, Utility(), loss_limit=0.05)
    with pytest.raises(DesignError, match="no alpha up to"):
        optimal(PUBLISHED, Utility(), alpha_high=0.01, loss_limit=0.11)
