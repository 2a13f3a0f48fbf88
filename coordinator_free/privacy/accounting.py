"""One accountant for all mechanisms: what a list of releases costs, and which noise a budget buys.

The total is the smallest of
- the plain sum of the releases' epsilons;
- Kairouz, Oh and Viswanath (2015), Theorem 3.5, with delta outside the root: log(e + sqrt(sum eps^2) / delta);
- exact composition: the analytic Gaussian mechanism where all noise is Gaussian, the binomial law where all releases
  are equal and known by their epsilon only, privacy loss distributions otherwise.

Of Gaussian noise in an objective only the bound for one release is used (`objective_perturbation`): n of them beside
others get delta / (n + 1) each, and epsilons add.

All hold for releases that are chosen in view of the earlier ones. Neighbouring datasets differ in one record's
value. A mechanism is described by its family and by its multiplier, scale / sensitivity; the accountant knows nothing
else of it; of a perturbed objective with Gaussian noise also the Jacobian's privacy loss.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.privacy.allocation import weights
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu
from coordinator_free.privacy.gaussian_objective_perturbation import NAME as GAUSSIAN_OBJECTIVE
from coordinator_free.privacy.gaussian_objective_perturbation import gaussian_objective_epsilon
from coordinator_free.privacy.mechanisms import NORMS, Mechanism
from coordinator_free.privacy.noise import FloatArray

if TYPE_CHECKING:
    from coordinator_free.privacy.loss_distribution import LossDistribution

# Loss distributions and scipy.stats take longer to import than an all-Gaussian run takes to account for: both are
# imported where they are used.

PLAIN, KAIROUZ, GAUSSIAN, BINOMIAL, LOSS_DISTRIBUTION, OBJECTIVE = (
    "plain sum",
    "Kairouz Theorem 3.5",
    "analytic Gaussian",
    "binomial",
    "privacy loss distribution",
    "Gaussian objective bound",
)
WITHOUT_EPSILON = frozenset({"gaussian", GAUSSIAN_OBJECTIVE})
"""Families whose releases have no epsilon at delta = 0."""
_STEPS = 80.0
_FEWEST_STEPS = 500.0
"""Steps of a loss grid in one deviation of one release's loss, and at least in one of the composed loss. Connecting the
dots adds a sixth of a squared step to the variance of each loss: 1.3e-5 of epsilon."""
_DIGITS = 12


class AccountingError(ValueError):
    """A budget or a list of releases cannot be accounted for."""


@dataclass(frozen=True)
class Total:
    """What releases cost together: the smallest epsilon, which accountant found it, and what each one says.

    None where an accountant does not apply: a Gaussian release has no epsilon of its own, and exact composition is
    not asked where delta = 0.
    """

    epsilon: float
    accountant: str
    plain: float | None
    kairouz: float | None
    exact: float | None


@dataclass(frozen=True, order=True)
class _Kind:
    """Releases that cost the same. ``dimension`` and ``jacobian`` are 0 where they do not matter."""

    family: str
    multiplier: float
    dimension: int = 0
    jacobian: float = 0.0

    @property
    def epsilon(self) -> float:
        """Of one release alone, with delta = 0."""
        return math.inf if self.family in WITHOUT_EPSILON else 1.0 / self.multiplier

    @property
    def spread(self) -> float:
        """About the standard deviation of the privacy loss, or a little less."""
        epsilon = min(2.0, 1.0 / self.multiplier)
        return epsilon / math.sqrt(max(1, self.dimension)) if self.family == "gamma-norm" else epsilon

    def loss(self, step: float) -> LossDistribution:
        from coordinator_free.privacy import loss_distribution

        if self.family == "laplace":
            return loss_distribution.laplace(self.multiplier, step)
        if self.family == "gamma-norm":
            return loss_distribution.gamma_norm(self.multiplier, self.dimension, step)
        return loss_distribution.pure(1.0 / self.multiplier, step)


_Counts = tuple[tuple[_Kind, int], ...]


def total(mechanisms: Iterable[Mechanism | None], delta: float) -> Total:
    """What the releases of ``mechanisms`` cost together at ``delta``, 0 <= delta < 1; None costs nothing.

    A mechanism of an unknown family must be private with epsilon = 1 / multiplier and delta = 0. Raises
    `AccountingError` for a delta outside its range.
    """
    if not 0.0 <= delta < 1.0:
        raise AccountingError(f"privacy.delta = {delta}; accepted: 0 and more, below 1")
    counts = Counter(_kind(mechanism) for mechanism in mechanisms if mechanism is not None)
    return _total(tuple(sorted(counts.items())), delta)


def calibrate(
    mechanism: str,
    releases: int,
    epsilon: float,
    delta: float,
    allocation: str = "uniform",
    *,
    r: float | None = None,
    dimension: int | None = None,
) -> FloatArray:
    """The multipliers, scale / sensitivity, that spend a budget on ``releases`` releases; shape (releases,).

    Their `total` lies between ``epsilon`` (1 - 1e-4) and ``epsilon``, never above. ``allocation`` and ``r`` are those
    of `allocation.weights`; gamma-norm noise needs the ``dimension`` of a release. Raises `AccountingError` or
    `AllocationError` for a budget that cannot be spent.
    """
    if mechanism not in NORMS:
        raise AccountingError(f"privacy.mechanism = {mechanism!r}; accepted: {', '.join(NORMS)}")
    if not 0.0 < epsilon < math.inf:
        raise AccountingError(f"privacy.epsilon = {epsilon}; accepted: a finite number above 0")
    if not 0.0 <= delta < 1.0:
        raise AccountingError(f"privacy.delta = {delta}; accepted: 0 and more, below 1")
    share = weights(allocation, releases, mechanism, r)
    if mechanism == "gaussian":
        if delta == 0.0:
            raise AccountingError("privacy.delta = 0: Gaussian noise needs a number above 0 and below 1")
        return np.asarray(math.sqrt(float(share @ share)) / (share * gaussian_mu(epsilon, delta)) * (1.0 + 1e-9))
    if mechanism == "gamma-norm" and dimension is None and delta > 0.0:
        raise AccountingError("gamma-norm noise: the dimension of a release is needed to account for it")

    def multipliers(factor: float) -> FloatArray:
        return np.asarray(1.0 / (share * factor))

    def spent(factor: float) -> float:
        counts = Counter(_Kind(mechanism, _rounded(m), _dimension(mechanism, dimension)) for m in multipliers(factor))
        return _total(tuple(sorted(counts.items())), delta).epsilon

    plain = epsilon / float(share.sum()) * (1.0 - 1e-9)
    if delta == 0.0:
        return multipliers(plain)
    # As if the noise were Gaussian with the same spread of the privacy loss.
    guess = gaussian_mu(epsilon, delta) / math.sqrt(float(share @ share))
    if mechanism == "gamma-norm":
        guess *= math.sqrt(dimension or 1)
    return multipliers(_largest(spent, epsilon, max(plain, guess)))


def _largest(spent: Callable[[float], float], budget: float, guess: float) -> float:
    """A factor that spends between ``budget`` (1 - 1e-4) and ``budget``, searched from ``guess``.

    ``spent`` is near to a power of the factor, so a secant in logarithms gets there in a few evaluations; it grows with
    the factor but for jitter where the grid of losses changes, so bisection takes over where the secant leaves the
    bracket.
    """
    aim, least = budget * (1.0 - 3e-5), budget * (1.0 - 9e-5)
    lower, upper = 0.0, math.inf
    factor, slope = guess, 1.0
    earlier: tuple[float, float] | None = None
    for _ in range(200):
        epsilon = spent(factor)
        if least <= epsilon <= budget:
            return factor
        lower, upper = (factor, upper) if epsilon < aim else (lower, factor)
        if epsilon > 0.0:
            if earlier is not None and earlier[1] != epsilon:
                slope = math.log(earlier[1] / epsilon) / math.log(earlier[0] / factor)
            earlier = (factor, epsilon)
            following = factor * math.exp(min(1.0, max(-1.0, math.log(aim / epsilon) / slope)))
        else:
            following = 2.0 * factor
        if not lower < following < upper:
            following = (lower + upper) / 2.0 if upper < math.inf else 2.0 * factor
        factor = following
    raise AccountingError(f"privacy.epsilon = {budget}: no noise was found that spends it")


def _rounded(multiplier: float) -> float:
    """Rounded down to 12 digits: releases whose sensitivities differ in the last bits still are of one kind."""
    digits = _DIGITS - 1 - math.floor(math.log10(multiplier))
    return round(multiplier * (1.0 - 10.0 ** (1 - _DIGITS)), digits)


def _dimension(family: str, dimension: int | None) -> int:
    return dimension or 0 if family == "gamma-norm" else 0


def _kind(mechanism: Mechanism) -> _Kind:
    dimension = getattr(mechanism, "dimension", None)
    jacobian = float(getattr(mechanism, "jacobian", 0.0)) if mechanism.name == GAUSSIAN_OBJECTIVE else 0.0
    return _Kind(mechanism.name, _rounded(mechanism.multiplier), _dimension(mechanism.name, dimension), jacobian)


@lru_cache(maxsize=4096)
def _total(counts: _Counts, delta: float) -> Total:
    if not counts:
        return Total(0.0, PLAIN, 0.0, 0.0, 0.0)
    if any(kind.family == GAUSSIAN_OBJECTIVE for kind, _ in counts):
        return _with_objectives(counts, delta)
    epsilons = np.array([kind.epsilon for kind, _ in counts])
    number = np.array([float(count) for _, count in counts])
    plain = float(number @ epsilons)
    found: dict[str, float] = {PLAIN: plain}
    if delta > 0.0:
        found[KAIROUZ] = kairouz(epsilons, number, delta)
        name, exact = _exact(counts, delta)
        found[name] = exact
    best = min(found, key=lambda accountant: found[accountant])
    exact_found = found.get(LOSS_DISTRIBUTION, found.get(GAUSSIAN, found.get(BINOMIAL)))
    return Total(
        found[best],
        best,
        plain if math.isfinite(plain) else None,
        found[KAIROUZ] if delta > 0.0 and math.isfinite(plain) else None,
        exact_found,
    )


def _with_objectives(counts: _Counts, delta: float) -> Total:
    """Basic composition: (epsilon, delta) of each perturbed objective, and of all the other releases together."""
    objectives = [(kind, count) for kind, count in counts if kind.family == GAUSSIAN_OBJECTIVE]
    others = tuple((kind, count) for kind, count in counts if kind.family != GAUSSIAN_OBJECTIVE)
    if delta == 0.0:
        return Total(math.inf, OBJECTIVE, None, None, None)
    share = delta / (sum(count for _, count in objectives) + bool(others))
    epsilon = _total(others, share).epsilon if others else 0.0
    for kind, count in objectives:
        epsilon += count * gaussian_objective_epsilon(share, 1.0, kind.multiplier, kind.jacobian)
    return Total(epsilon, OBJECTIVE, None, None, None)


def kairouz(epsilons: FloatArray, counts: FloatArray, delta: float) -> float:
    """Kairouz, Oh and Viswanath (2015), Theorem 3.5, all three of its terms, for releases with delta_t = 0.

    ``counts`` says how many releases have each of ``epsilons``; 0 < delta < 1.
    """
    if not np.isfinite(epsilons).all():
        return math.inf
    squares = float(counts @ epsilons**2)
    drift = float(counts @ (epsilons * np.tanh(epsilons / 2.0)))
    middle = drift + math.sqrt(2.0 * squares * math.log(math.e + math.sqrt(squares) / delta))
    last = drift + math.sqrt(2.0 * squares * math.log(1.0 / delta))
    return min(float(counts @ epsilons), middle, last)


def binomial(epsilon: float, releases: int, delta: float) -> float:
    """Exact total of ``releases`` releases, each ``epsilon``-private and no more known of it (Kairouz 2015, Thm 3.3).

    The loss is epsilon (2 k - releases), k binomial with probability e^epsilon / (1 + e^epsilon), and
    delta(total) = max_k P(K >= k) - e^total Q(K >= k).
    """
    from scipy.stats import binom

    k = np.arange(releases + 1)
    true, other = 1.0 / (1.0 + math.exp(-epsilon)), 1.0 / (1.0 + math.exp(min(epsilon, 700.0)))
    above = binom.sf(k - 1, releases, true) - delta
    useful = above > 0.0
    totals = np.log(above[useful]) - binom.logsf(k[useful] - 1, releases, other)
    return max(0.0, float(totals.max(initial=0.0)))


def _exact(counts: _Counts, delta: float) -> tuple[str, float]:
    inverse_squares = sum(count / kind.multiplier**2 for kind, count in counts if kind.family == "gaussian")
    mu = math.sqrt(inverse_squares)
    others = [(kind, count) for kind, count in counts if kind.family != "gaussian"]
    if not others:
        return GAUSSIAN, gaussian_epsilon(mu, delta)
    if mu == 0.0 and len(others) == 1 and others[0][0].family not in set(NORMS):  # known by its epsilon only
        return BINOMIAL, binomial(others[0][0].epsilon, others[0][1], delta)
    from coordinator_free.privacy import loss_distribution

    releases = sum(count for _, count in others) + (mu > 0.0)
    variance = inverse_squares + sum(count * kind.spread**2 for kind, count in others)
    step = math.sqrt(variance) / max(_FEWEST_STEPS, _STEPS * math.sqrt(releases))
    # A power of two: the grid stays the same while a budget is searched for or a ledger grows a little.
    step = 2.0 ** math.floor(math.log2(step))
    parts = [loss_distribution.repeat(kind.loss(step), count) for kind, count in others]
    if mu > 0.0:
        parts.append(loss_distribution.gaussian(1.0 / mu, step))
    return LOSS_DISTRIBUTION, float(loss_distribution.compose(parts).get_epsilon_for_delta(delta))
