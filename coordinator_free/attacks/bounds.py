"""Lower bounds on epsilon from an attack's scores, at a stated confidence.

Rules that hold here:
- A score says how much an output speaks for the first of two neighbouring datasets against the second. The scores of
  runs on either dataset come in two arrays; nothing else is assumed about them.
- The decision (a direction and a threshold) is chosen on one half of the runs and judged on the other. Choosing and
  judging on the same runs misses the confidence level.
- Each error rate is bounded by Clopper and Pearson at alpha/2, so that both bounds hold together with probability
  1 - alpha.
- Scores are rounded before they are compared with a threshold: likelihood ratios that are equal on paper differ in
  their last bits, and the last bits may tell more than the mechanism released.

For an (epsilon, delta)-private mechanism and any event S, P1(S) <= e^epsilon P2(S) + delta, and the same with the
datasets exchanged (Kairouz, Oh and Viswanath 2015, Theorem 2.1). So epsilon >= ln((TPR - delta) / FPR).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from coordinator_free.release import FloatArray

Direction = Literal["first", "second", "both"]
"""Which dataset a decision names: the first (score >= t), the second (score <= -t), or each in turn, counted together.

"both" adds the two inequalities of privacy: with S1 = {score >= t} and S2 = {score <= -t},
P1(S1) + P2(S2) <= e^epsilon (P2(S1) + P1(S2)) + 2 delta. Every run then counts for both error rates. The counts are
sums of two binomials; the binomial with their mean rate has the heavier tails (Hoeffding 1956, Theorem 5), so Clopper
and Pearson still holds for alpha < 1/4.
"""

SCORE_STEP = 1e-6
"""Scores are rounded to multiples of this."""


class BoundError(ValueError):
    """Numbers from which no bound can be computed."""


@dataclass(frozen=True)
class Decision:
    """The attacker's rule: name the dataset of ``direction`` where the score passes ``threshold``."""

    direction: Direction
    threshold: float


@dataclass(frozen=True)
class Bound:
    """What an attack proves.

    ``epsilon`` is the lower bound (0 if nothing is shown), true with probability at least ``confidence``.
    ``true_positives`` and ``false_positives`` are the bounds of the two rates that it rests on, ``observations`` the
    number of outcomes behind each, ``ceiling`` what a perfect attack could have shown with as many.
    """

    epsilon: float
    delta: float
    confidence: float
    decision: Decision
    true_positives: float
    false_positives: float
    observations: int
    ceiling: float


def round_scores(scores: FloatArray, step: float | None = SCORE_STEP) -> FloatArray:
    """Scores as whole multiples of ``step``; None leaves them raw, to look for what float64 gives away."""
    if step is None:
        return scores
    rounded: FloatArray = np.rint(scores / step) * step
    return rounded


def clopper_pearson(hits: FloatArray, observations: int, level: float) -> tuple[FloatArray, FloatArray]:
    """(lower, upper) bounds of a rate, each at one-sided error ``level`` (Clopper and Pearson 1934)."""
    hits = np.asarray(hits, dtype=np.float64)
    misses = observations - hits
    lower = np.where(hits > 0, beta.ppf(level, np.maximum(hits, 1), misses + 1), 0.0)
    upper = np.where(misses > 0, beta.ppf(1.0 - level, hits + 1, np.maximum(misses, 1)), 1.0)
    return lower, upper


def ceiling(observations: int, delta: float, confidence: float) -> float:
    """The largest epsilon that an attack without a single error can show: about ln(observations)."""
    check(delta, confidence)
    if observations < 1:
        return 0.0
    level = (1.0 - confidence) / 2.0
    lower, _ = clopper_pearson(np.array([observations]), observations, level)
    _, upper = clopper_pearson(np.array([0]), observations, level)
    return float(_epsilon(lower, upper, delta)[0])


def expected(mu: float, observations: int, delta: float, confidence: float) -> float:
    """About what an attack on a Gaussian mechanism of parameter ``mu`` shows with so many outcomes for each rate.

    For a mechanism of many releases, whatever its noise, the Gaussian one of equal epsilon is a good likeness. The
    counts are taken at their means, the threshold is the best one.
    """
    level = (1.0 - confidence) / 2.0
    threshold = np.linspace(-4.0 * mu, 6.0 * mu + 6.0, 400)  # of the log-likelihood ratio
    right = np.rint(observations * ndtr(mu / 2.0 - threshold / mu))
    wrong = np.rint(observations * ndtr(-mu / 2.0 - threshold / mu))
    lower, _ = clopper_pearson(right, observations, level)
    _, upper = clopper_pearson(wrong, observations, level)
    return float(_epsilon(lower, upper, delta).max())


def lower_bound(decision: Decision, first: FloatArray, second: FloatArray, delta: float, confidence: float) -> Bound:
    """The bound that a decision, chosen elsewhere, shows on these scores of runs on either dataset."""
    check(delta, confidence)
    level = (1.0 - confidence) / 2.0
    right, wrong, observations = _counts(decision.direction, np.array([decision.threshold]), first, second)
    lower, _ = clopper_pearson(right, observations, level)
    _, upper = clopper_pearson(wrong, observations, level)
    return Bound(
        epsilon=float(_epsilon(lower, upper, delta)[0]),
        delta=delta,
        confidence=confidence,
        decision=decision,
        true_positives=float(lower[0]),
        false_positives=float(upper[0]),
        observations=observations,
        ceiling=ceiling(observations, delta, confidence),
    )


class Strategy(Protocol):
    """How a decision is chosen from scores that the bound will not be computed on."""

    def choose(self, first: FloatArray, second: FloatArray, delta: float, confidence: float) -> Decision:
        """The decision for scores of runs on the first and on the second dataset."""


@dataclass(frozen=True)
class Fixed:
    """A decision known beforehand, for instance a threshold at the accounted epsilon."""

    decision: Decision

    def choose(self, first: FloatArray, second: FloatArray, delta: float, confidence: float) -> Decision:  # noqa: ARG002
        """The decision, whatever the scores."""
        return self.decision


@dataclass(frozen=True)
class BestThreshold:
    """The direction and threshold that would show the most on the scores given.

    At most ``candidates`` thresholds are tried in each direction. The bound at its confidence is compared, not the
    plain ratio, so that thresholds with a handful of errors do not win by luck.
    """

    directions: Sequence[Direction] = ("both",)
    candidates: int = 400

    def choose(self, first: FloatArray, second: FloatArray, delta: float, confidence: float) -> Decision:
        """The decision whose bound is the largest."""
        level = (1.0 - confidence) / 2.0
        best, chosen = -1.0, Decision(self.directions[0], 0.0)
        for direction in self.directions:
            thresholds = self._thresholds(direction, first, second)
            right, wrong, observations = _counts(direction, thresholds, first, second)
            lower, _ = clopper_pearson(right, observations, level)
            _, upper = clopper_pearson(wrong, observations, level)
            epsilon = _epsilon(lower, upper, delta)
            place = int(np.argmax(epsilon))
            if epsilon[place] > best:
                best, chosen = float(epsilon[place]), Decision(direction, float(thresholds[place]))
        return chosen

    def _thresholds(self, direction: Direction, first: FloatArray, second: FloatArray) -> FloatArray:
        named = {"first": [first], "second": [-second], "both": [first, -second]}[direction]
        values = np.unique(np.concatenate(named))
        if values.size > self.candidates:
            # Thresholds that matter lie where few are left above: spaced evenly in log rank.
            ranks = np.geomspace(1, values.size, self.candidates).astype(int)
            values = values[np.unique(values.size - ranks)]
        return values


def attacked(
    first: FloatArray,
    second: FloatArray,
    delta: float,
    confidence: float,
    *,
    strategy: Strategy | None = None,
    step: float | None = SCORE_STEP,
) -> Bound:
    """The lower bound that scores of independent runs on two neighbouring datasets show.

    The first half of each array chooses the decision, the second half is judged by it. ``step`` is the rounding of the
    scores (None: raw). Raises `BoundError` for fewer than two runs, NaN, or numbers out of range.
    """
    check(delta, confidence)
    if min(first.size, second.size) < 2:
        raise BoundError(f"trials = {min(first.size, second.size)}: at least 2 on each dataset")
    if np.isnan(first).any() or np.isnan(second).any():
        raise BoundError("scores: NaN among them")
    first, second = round_scores(first, step), round_scores(second, step)
    half = min(first.size, second.size) // 2
    decision = (strategy or BestThreshold()).choose(first[:half], second[:half], delta, confidence)
    return lower_bound(decision, first[half:], second[half:], delta, confidence)


def _counts(
    direction: Direction, thresholds: FloatArray, first: FloatArray, second: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """(right, wrong) decisions at each threshold, and out of how many each."""
    if direction == "first":
        if first.size != second.size:
            first, second = first[: second.size], second[: first.size]
        return _at_least(first, thresholds), _at_least(second, thresholds), first.size
    if direction == "second":
        return _counts("first", thresholds, -second, -first)
    size = min(first.size, second.size)
    first, second = first[:size], second[:size]
    right = _at_least(first, thresholds) + _at_least(-second, thresholds)
    wrong = _at_least(second, thresholds) + _at_least(-first, thresholds)
    return right, wrong, 2 * size


def _at_least(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    below = np.searchsorted(np.sort(scores), thresholds, side="left")
    return np.asarray(scores.size - below, dtype=np.float64)


def _epsilon(true_positives: FloatArray, false_positives: FloatArray, delta: float) -> FloatArray:
    """ln((TPR - delta) / FPR), 0 where that is negative or nothing is named at all."""
    shown = np.maximum(true_positives - delta, 0.0)
    with np.errstate(divide="ignore"):
        epsilon = np.log(shown) - np.log(false_positives)
    positive: FloatArray = np.maximum(epsilon, 0.0)
    return positive


def check(delta: float, confidence: float) -> None:
    """Raise `BoundError` for a delta or a confidence out of range."""
    if not 0.0 <= delta < 1.0:
        raise BoundError(f"delta = {delta}: accepted: 0 <= delta < 1")
    if not 0.5 < confidence < 1.0:
        raise BoundError(f"confidence = {confidence}: accepted: above 0.5 and below 1")


def check_scores(scores: FloatArray) -> None:
    """Raise `BoundError` for no scores, or NaN among them."""
    if scores.size == 0 or np.isnan(scores).any():
        raise BoundError("scores: none, or NaN among them")
