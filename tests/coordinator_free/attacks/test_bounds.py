"""Lower bounds hold at their confidence, and come near what is true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from coordinator_free.attacks.bounds import (
    BestThreshold,
    BoundError,
    Decision,
    Fixed,
    attacked,
    ceiling,
    clopper_pearson,
    lower_bound,
    round_scores,
)


@pytest.mark.parametrize(("observations", "expected"), [(100, 3.3), (1000, 5.6), (10000, 7.9)])
def test_ceiling_of_a_perfect_attack(observations, expected):
    assert ceiling(observations, math.exp(-5), 0.95) == pytest.approx(expected, abs=0.05)


def test_ceiling_without_observations_is_zero():
    assert ceiling(0, 0.0, 0.95) == 0.0


@given(hits=st.integers(0, 50), level=st.sampled_from([0.005, 0.025, 0.1]))
def test_clopper_pearson_is_the_tail_of_the_binomial(hits, level):
    lower, upper = clopper_pearson(np.array([hits]), 50, level)
    assert 0.0 <= lower[0] <= hits / 50 <= upper[0] <= 1.0
    if hits > 0:
        assert binom.sf(hits - 1, 50, lower[0]) == pytest.approx(level, rel=1e-6)
    if hits < 50:
        assert binom.cdf(hits, 50, upper[0]) == pytest.approx(level, rel=1e-6)


def test_the_pooled_decision_is_covered_even_where_its_two_rates_differ_most():
    # A sum of two binomials with rates 0 and 0.2 against one binomial with their mean, at every possible count.
    level, n = 0.025, 40
    _, upper = clopper_pearson(np.arange(2 * n + 1), 2 * n, level)
    missed = sum(binom.pmf(k, n, 0.2) for k in range(n + 1) if upper[k] < 0.1)
    assert missed <= level


def test_a_perfect_attack_reaches_the_ceiling_and_no_more():
    bound = attacked(np.full(2000, 5.0), np.full(2000, -5.0), 0.0, 0.95)
    assert bound.epsilon == pytest.approx(bound.ceiling)
    assert bound.ceiling == pytest.approx(ceiling(2000, 0.0, 0.95))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_scores_show_nothing(value):
    assert attacked(np.full(500, value), np.full(500, value), 1e-5, 0.95).epsilon == 0.0


def test_infinite_scores_are_scores():
    bound = attacked(np.full(200, np.inf), np.full(200, -np.inf), 0.0, 0.95)
    assert bound.epsilon == pytest.approx(ceiling(200, 0.0, 0.95))


def randomised_response(rng, epsilon, trials):
    """Scores of a mechanism that is exactly epsilon-private, on either dataset."""
    p = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    draw = lambda q: np.where(rng.random(trials) < q, epsilon, -epsilon)  # noqa: E731
    return draw(p), draw(1.0 - p)


def test_bound_exceeds_the_truth_at_most_as_often_as_it_says():
    # 95% confidence, 400 audits: more than 32 excesses have probability below 0.5% if 5% is the true rate.
    rng = np.random.default_rng(1)
    exceeded = sum(attacked(*randomised_response(rng, 1.0, 400), 0.0, 0.95).epsilon > 1.0 for _ in range(400))
    assert exceeded <= 32


@pytest.mark.thorough
def test_choosing_and_judging_on_the_same_scores_would_miss_the_confidence():
    # Without any difference between the datasets, the best of many thresholds shows something far too often.
    rng = np.random.default_rng(2)
    chosen_on_itself = honest = 0
    for _ in range(200):
        first, second = rng.normal(size=(2, 100))
        decision = BestThreshold(("first", "second")).choose(first, second, 0.0, 0.9)
        chosen_on_itself += lower_bound(decision, first, second, 0.0, 0.9).epsilon > 0.0
        honest += attacked(first, second, 0.0, 0.9).epsilon > 0.0
    assert chosen_on_itself > 25
    assert honest <= 20


def test_a_known_epsilon_is_approached():
    bound = attacked(*randomised_response(np.random.default_rng(3), 1.0, 100000), 0.0, 0.95)
    assert 0.95 <= bound.epsilon <= 1.0


def test_delta_is_subtracted_from_the_true_positives():
    first, second = np.ones(1000), np.zeros(1000)
    first[:900] = 0.0
    decision = Decision("first", 0.5)
    assert lower_bound(decision, first, second, 0.2, 0.95).epsilon == 0.0
    assert lower_bound(decision, first, second, 0.0, 0.95).epsilon > 3.0


def test_directions_exchange_the_datasets():
    rng = np.random.default_rng(4)
    first, second = rng.normal(1.0, 1.0, 300), rng.normal(0.0, 1.0, 300)
    there = lower_bound(Decision("first", 1.0), first, second, 0.01, 0.95)
    back = lower_bound(Decision("second", 1.0), -second, -first, 0.01, 0.95)
    assert there.epsilon == back.epsilon


def test_a_fixed_decision_uses_only_the_second_half():
    first = np.array([9.0] * 50 + [0.0] * 50)
    second = np.zeros(100)
    assert attacked(first, second, 0.0, 0.95, strategy=Fixed(Decision("first", 5.0))).epsilon == 0.0


def test_rounding_hides_the_last_bits_and_raw_scores_show_them():
    first, second = np.full(400, 1.0), np.full(400, 1.0 + 2.0**-50)
    assert attacked(second, first, 0.0, 0.95).epsilon == 0.0
    raw = attacked(second, first, 0.0, 0.95, strategy=BestThreshold(("first",)), step=None)
    assert raw.epsilon > 3.0
    assert round_scores(first, None) is first


@pytest.mark.parametrize(
    ("delta", "confidence", "word"), [(1.0, 0.95, "delta"), (-0.1, 0.95, "delta"), (0.0, 1.0, "confidence")]
)
def test_numbers_out_of_range_are_refused(delta, confidence, word):
    with pytest.raises(BoundError, match=word):
        attacked(np.ones(10), np.ones(10), delta, confidence)


def test_too_few_trials_and_nan_are_refused():
    with pytest.raises(BoundError, match="trials"):
        attacked(np.ones(1), np.ones(10), 0.0, 0.95)
    with pytest.raises(BoundError, match="NaN"):
        attacked(np.array([np.nan, 1.0]), np.ones(2), 0.0, 0.95)
