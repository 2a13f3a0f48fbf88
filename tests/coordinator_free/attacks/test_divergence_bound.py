"""The sharp bound holds at its confidence, comes within a tenth of what is true, and shows nothing of nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.attacks.bounds import BoundError
from coordinator_free.attacks.divergence_bound import sharp_bound
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.release import FloatArray

CONFIDENCE = 0.95


def gaussian_scores(rng: np.random.Generator, mu: float, runs: int) -> tuple[FloatArray, FloatArray]:
    """Exact log-likelihood ratios of a Gaussian release of parameter ``mu``, under either dataset."""
    return rng.normal(0.5 * mu**2, mu, runs), rng.normal(-0.5 * mu**2, mu, runs)


@pytest.mark.parametrize(
    ("epsilon", "delta", "least"),
    [(2.0, 1e-3, 0.93), (1.0, 1e-3, 0.92), (6.0, 1e-3, 0.93), (0.5, 1e-2, 0.94), (1.0, 1e-5, 0.85)],
)
def test_a_thousand_trials_come_near_the_truth(epsilon: float, delta: float, least: float) -> None:
    mu, rng = float(gaussian_mu(epsilon, delta)), np.random.default_rng(5)
    shown = [sharp_bound(*gaussian_scores(rng, mu, 2000), delta, CONFIDENCE) for _ in range(20)]
    assert least * epsilon <= np.mean(shown) <= epsilon


def test_it_is_above_the_truth_no_more_often_than_it_says() -> None:
    """400 repetitions at 95%: more than 38 above the truth have probability 1e-4 where 5% are allowed."""
    epsilon, delta = 1.0, 1e-2
    mu, rng = float(gaussian_mu(epsilon, delta)), np.random.default_rng(11)
    above = sum(sharp_bound(*gaussian_scores(rng, mu, 300), delta, CONFIDENCE) > epsilon for _ in range(400))
    assert above <= 38


def test_equal_datasets_show_nothing() -> None:
    assert sharp_bound(np.zeros(2000), np.zeros(2000), 0.0, CONFIDENCE) == 0.0
    assert sharp_bound(np.zeros(2000), np.zeros(2000), 1e-3, CONFIDENCE) == 0.0


def test_a_pure_mechanism_is_shown_nearly_whole() -> None:
    """Randomised response: each ratio is epsilon or -epsilon."""
    epsilon, rng = 1.5, np.random.default_rng(3)
    first = np.where(rng.uniform(size=2000) < 1.0 / (1.0 + math.exp(-epsilon)), epsilon, -epsilon)
    shown = sharp_bound(first, -first, 0.0, CONFIDENCE)
    assert epsilon - 1e-3 <= shown <= epsilon


def test_half_of_the_noise_is_shown_beyond_the_claim() -> None:
    mu, rng = float(gaussian_mu(1.0, 1e-3)), np.random.default_rng(9)
    assert sharp_bound(*gaussian_scores(rng, 2.0 * mu, 1000), 1e-3, 0.999) > 1.5


def test_without_noise_it_is_infinite() -> None:
    assert sharp_bound(np.full(100, np.inf), np.full(100, -np.inf), 1e-3, CONFIDENCE) == math.inf


@given(seed=st.integers(0, 2**32 - 1), delta=st.sampled_from([0.0, 1e-5, 1e-2]))
def test_no_more_is_shown_than_the_largest_score_and_no_less_of_larger_ones(seed: int, delta: float) -> None:
    first, second = gaussian_scores(np.random.default_rng(seed), 1.0, 50)
    shown = sharp_bound(first, second, delta, CONFIDENCE)
    assert 0.0 <= shown <= max(first.max(), -second.min(), 0.0)
    assert sharp_bound(first + 0.1, second, delta, CONFIDENCE) >= shown


def test_a_leak_that_delta_allows_shows_nothing_more_often_than_it_says() -> None:
    """Each ratio is infinite with probability delta. Of 1,000 at 90%, 131 above have 1e-3 where 10% are allowed."""
    rng = np.random.default_rng(13)
    for runs, delta in ((65, 1e-3), (1000, 1e-2)):
        draws = np.where(rng.random((1000, runs)) < delta, np.inf, 0.0)
        assert sum(sharp_bound(draw, np.empty(0), delta, 0.9) > 0.0 for draw in draws) <= 131


@pytest.mark.parametrize(
    ("scores", "delta", "confidence", "words"),
    [
        (np.zeros(0), 0.1, 0.95, "none"),
        (np.array([np.nan]), 0.1, 0.95, "NaN"),
        (np.zeros(3), 1.0, 0.95, "delta = 1.0"),
        (np.zeros(3), 0.1, 0.5, "confidence = 0.5"),
    ],
)
def test_what_gives_no_bound_is_refused(scores: FloatArray, delta: float, confidence: float, words: str) -> None:
    with pytest.raises(BoundError, match=words):
        sharp_bound(scores, scores, delta, confidence)
