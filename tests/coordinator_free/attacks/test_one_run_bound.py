"""The bound from one run: it holds, it is 0 of nothing, and sharp scores show most of epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator_free.attacks.bounds import BoundError
from coordinator_free.attacks.one_run_bound import agreement, coin_bound, named_bound
from coordinator_free.privacy.analytic_gaussian import gaussian_mu


def _gaussian(rng: np.random.Generator, mu: float, canaries: int) -> np.ndarray:
    """Log-likelihood ratios for the truth of a Gaussian mechanism of parameter mu."""
    return mu * mu / 2.0 + mu * rng.standard_normal(canaries)


@pytest.mark.thorough
def test_it_exceeds_the_truth_no_more_often_than_it_says():
    """Of 300 runs at 90% at most 30 are expected above epsilon; 47 have a probability below 1e-3."""
    rng, mu = np.random.default_rng(1), gaussian_mu(1.0, 1e-3)
    draws = [_gaussian(rng, mu, 200) for _ in range(300)]
    assert sum(named_bound(draw, 1e-3, 0.9).epsilon > 1.0 for draw in draws) <= 47
    assert sum(coin_bound(draw, 1e-3, 0.9) > 1.0 for draw in draws) <= 47


@pytest.mark.thorough
def test_of_randomised_response_it_is_tight_and_holds():
    """The worst law there is for names: each is right with probability e^epsilon / (1 + e^epsilon)."""
    rng, truth = np.random.default_rng(2), 1.0 / (1.0 + math.exp(-1.0))
    found = [named_bound(np.where(rng.random(2000) < truth, 1.0, -1.0), 0.0, 0.9).epsilon for _ in range(60)]
    assert sum(epsilon > 1.0 for epsilon in found) <= 13  # 6 are expected at most; more than 13 with 2e-3
    assert np.mean(found) > 0.85


def test_scores_that_know_nothing_show_nothing():
    """At 95% a null score shows something in 5% of the runs at most: of 200, 23 have a probability below 1e-3."""
    rng = np.random.default_rng(3)
    for kind in (lambda: rng.standard_normal(300), lambda: rng.standard_cauchy(300)):
        assert sum(named_bound(kind(), 1e-3, 0.95).epsilon > 0.0 for _ in range(200)) <= 23


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_coins_that_have_nothing_to_do_with_exact_scores_show_nothing(epsilon):
    """At 95% they show something in 5% of the runs at most: of 200, 23 have a probability below 1e-3."""
    rng, mu = np.random.default_rng(6), gaussian_mu(epsilon, 1e-3)
    shown = 0
    for _ in range(200):
        scores = _gaussian(rng, mu, 200) * rng.choice([-1.0, 1.0], size=200)
        shown += max(coin_bound(scores, 1e-3, 0.95), named_bound(scores, 1e-3, 0.975).epsilon) > 0.0
    assert shown <= 23


def test_true_coins_are_not_taken_for_others_and_exchanged_ones_are_found():
    """In a correct run the agreement is below ln(1e-3) at most once in 1,000: of 1,000, seven have 1e-4."""
    rng, mu = np.random.default_rng(7), gaussian_mu(2.0, 1e-3)
    draws = [_gaussian(rng, mu, 200) for _ in range(1000)]
    assert sum(agreement(draw) < math.log(1e-3) for draw in draws) <= 6
    assert all(agreement(-draw) < math.log(1e-3) for draw in draws[:50])


def test_a_score_of_zero_names_nothing():
    assert named_bound(np.zeros(500), 0.0, 0.95).epsilon == 0.0


def test_a_leak_that_delta_allows_is_no_evidence():
    """Delta is the chance that one agent gives away all of its canaries at once: 10 of 100 that are certain."""
    scores = np.concatenate([np.full(10, 50.0), np.full(45, 0.1), np.full(45, -0.1)])
    assert named_bound(scores, 0.05, 0.95).epsilon == 0.0
    assert named_bound(scores, 1e-9, 0.95).epsilon > 0.5


@pytest.mark.thorough
@pytest.mark.parametrize(("canaries", "least"), [(65, 0.5), (943, 0.88), (5000, 0.945)])
def test_exact_scores_of_one_run_show_most_of_epsilon(canaries, least):
    rng, mu = np.random.default_rng(4), gaussian_mu(2.0, 1e-3)
    shown = [coin_bound(_gaussian(rng, mu, canaries), 1e-3, 0.95) for _ in range(20)]
    assert least * 2.0 < np.mean(shown) <= 2.0


@pytest.mark.parametrize("scores", [np.empty(0), np.array([np.nan])])
def test_no_scores_are_refused(scores):
    with pytest.raises(BoundError, match="none, or NaN"):
        named_bound(scores, 1e-3, 0.95)
