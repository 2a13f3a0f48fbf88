"""One accountant for all mechanisms: what a list of releases costs, and which noise a budget buys.

The total is the smallest of
- the plain sum of the releases' epsilons;
- Kairouz, Oh and Viswanath (2015), Theorem 3.5, with delta outside the root: log(e + sqrt(sum eps^2) / delta);
- exact composition: the analytic Gaussian mechanism where all noise is Gaussian, the binomial law where all releases
  are equal and known by their epsilon only, privacy loss distributions otherwise;
- of perturbed objectives the law of a bound of their loss: the Jacobian's, which is certain, and that of the noise in
  the plane of two records, which is a random variable of known law, independent of earlier releases.

All hold for releases that are chosen in view of the earlier ones. Neighbouring datasets differ in one record's
value. A mechanism is described by its family and by its multiplier, scale / sensitivity; the accountant knows nothing
else of it, but the dimension where the law of the loss depends on it, and of a perturbed objective the Jacobian's loss.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.privacy.allocation import weights
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.gaussian_objective_perturbation import NAME as GAUSSIAN_OBJECTIVE
from coordinator_free.privacy.gaussian_objective_perturbation import gaussian_objective_epsilon
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import FloatArray
from coordinator_free.privacy.objective_perturbation import NAME as OBJECTIVE
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation

if TYPE_CHECKING:
    from coordinator_free.privacy.loss_distribution import Losses

# Loss distributions and scipy.stats take longer to import than an all-Gaussian run takes to account for: both are
# imported where they are used.

PLAIN, KAIROUZ, GAUSSIAN, BINOMIAL, LOSS_DISTRIBUTION, PLANE = (
    "plain sum",
    "Kairouz Theorem 3.5",
    "analytic Gaussian",
    "binomial",
    "privacy loss distribution",
    "loss in the plane of two records",
)
OBJECTIVES = frozenset({OBJECTIVE, GAUSSIAN_OBJECTIVE})
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
    """What releases cost together: the smallest epsilon, the accountant that found it, and the figure of each.

    None where an accountant does not apply: a Gaussian release has no epsilon of its own, and exact composition is
    not asked where delta = 0.
    """

    epsilon: float
    accountant: str
    plain: float | None
    kairouz: float | None
    exact: float | None


@dataclass(frozen=True, order=True)
class Kind:
    """Releases that cost the same.

    ``multiplier`` is scale / sensitivity of the noise, of a mechanism of an unknown family 1 / epsilon. ``dimension``
    and ``jacobian`` are 0 where they do not matter.
    """

    family: str
    multiplier: float
    dimension: int = 0
    jacobian: float = 0.0

    @property
    def is_pure(self) -> bool:
        """Whether it may be accounted for by its epsilon at delta = 0 alone."""
        return self.family not in NORMS and self.family != GAUSSIAN_OBJECTIVE

    @property
    def epsilon(self) -> float:
        """Of one release alone, with delta = 0."""
        return math.inf if self.family in WITHOUT_EPSILON else self.jacobian + 1.0 / self.multiplier

    def spread(self, planes: bool) -> float:
        """About the standard deviation of the privacy loss, or a little less."""
        shift = 1.0 / self.multiplier
        if planes and self.family == GAUSSIAN_OBJECTIVE:
            return 0.6 * shift
        if self.family == "gamma-norm" or (planes and self.family == OBJECTIVE):
            return min(2.0, shift) / math.sqrt(max(1, self.dimension))
        return min(2.0, self.epsilon)

    def grid(self, planes: bool) -> tuple[float, int]:
        """Width of the grid that its losses need, and how many cells it may have."""
        from coordinator_free.privacy import loss_distribution as losses

        if planes and self.family == GAUSSIAN_OBJECTIVE:
            return losses.plane_gaussian_width(1.0 / self.multiplier), losses.MOST_CELLS
        if planes and self.family == OBJECTIVE:
            return losses.plane_width(1.0 / self.multiplier), losses.MOST_QUADRATURES
        if self.family == "gamma-norm" and self.dimension > 1:
            return losses.gamma_norm_width(self.multiplier, self.dimension), losses.MOST_QUADRATURES
        return losses.laplace_width(1.0 / self.epsilon), losses.MOST_CELLS

    def loss(self, step: float, planes: bool) -> Losses:
        """The losses of one release; of a perturbed objective in the plane, without the Jacobian's."""
        from coordinator_free.privacy import loss_distribution as losses

        if planes and self.family == GAUSSIAN_OBJECTIVE:
            return losses.plane_gaussian(1.0 / self.multiplier, step)
        if planes and self.family == OBJECTIVE:
            return losses.plane_gamma(1.0 / self.multiplier, self.dimension, step)
        if self.family == "laplace":
            return losses.laplace(self.multiplier, step)
        if self.family == "gamma-norm":
            return losses.gamma_norm(self.multiplier, self.dimension, step)
        return losses.pure(self.epsilon, step)


_Counts = tuple[tuple[Kind, int], ...]


def total(mechanisms: Iterable[Mechanism | None], delta: float) -> Total:
    """Total cost of the releases of ``mechanisms`` at ``delta``.

    Parameters
    ----------
    mechanisms
        One for each release. None costs nothing. A mechanism of an unknown family must be private with
        epsilon = 1 / multiplier and delta = 0.
    delta
        From 0 to below 1.

    Raises
    ------
    AccountingError
        ``delta`` is outside its range.

    References
    ----------
    Kairouz, Oh and Viswanath (2015), Theorem 3.5; Balle and Wang (2018), Theorem 8.
    """
    if not 0.0 <= delta < 1.0:
        raise AccountingError(f"privacy.delta = {delta}; accepted: 0 and more, below 1")
    counts = Counter(kind_of(mechanism) for mechanism in mechanisms if mechanism is not None)
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
    """Find the multipliers that spend a budget on ``releases`` releases.

    Parameters
    ----------
    mechanism
        One of `NORMS`.
    releases
        How many share the budget.
    epsilon, delta
        The budget of all releases together.
    allocation, r
        As in `allocation.weights`.
    dimension
        Of a release; gamma-norm noise needs it.

    Returns
    -------
    FloatArray
        scale / sensitivity of each release, shape (releases,). Their `total` lies between ``epsilon`` (1 - 1e-4) and
        ``epsilon``, never above.

    Raises
    ------
    AccountingError, AllocationError
        The budget cannot be spent.
    """
    _check_budget(mechanism, epsilon, delta)
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
        counts = Counter(Kind(mechanism, _rounded(m), _dimension(mechanism, dimension)) for m in multipliers(factor))
        return _total(tuple(sorted(counts.items())), delta).epsilon

    plain = epsilon / float(share.sum()) * (1.0 - 1e-9)
    if delta == 0.0:
        return multipliers(plain)
    # As if the noise were Gaussian with the same spread of the privacy loss.
    guess = gaussian_mu(epsilon, delta) / math.sqrt(float(share @ share))
    if mechanism == "gamma-norm":
        guess *= math.sqrt(dimension or 1)
    return multipliers(_largest(spent, epsilon, max(plain, guess)))


def _check_budget(mechanism: str, epsilon: float, delta: float) -> None:
    if mechanism not in NORMS:
        raise AccountingError(f"privacy.mechanism = {mechanism!r}; accepted: {', '.join(NORMS)}")
    if not 0.0 < epsilon < math.inf:
        raise AccountingError(f"privacy.epsilon = {epsilon}; accepted: a finite number above 0")
    if not 0.0 <= delta < 1.0:
        raise AccountingError(f"privacy.delta = {delta}; accepted: 0 and more, below 1")


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


def kind_of(mechanism: Mechanism) -> Kind:
    """What the accountant knows of a release."""
    if mechanism.name in OBJECTIVES:
        assert isinstance(mechanism, ObjectivePerturbation)
        multiplier = _rounded(mechanism.scale / mechanism.sensitivity)
        return Kind(mechanism.name, multiplier, mechanism.dimension, mechanism.jacobian)
    dimension = getattr(mechanism, "dimension", None)
    return Kind(mechanism.name, _rounded(mechanism.multiplier), _dimension(mechanism.name, dimension))


@lru_cache(maxsize=4096)
def _total(counts: _Counts, delta: float) -> Total:
    if not counts:
        return Total(0.0, PLAIN, 0.0, 0.0, 0.0)
    epsilons = np.array([kind.epsilon for kind, _ in counts])
    number = np.array([float(count) for _, count in counts])
    plain = float(number @ epsilons)
    found: dict[str, float] = {PLAIN: plain}
    if delta > 0.0:
        found[KAIROUZ] = kairouz(epsilons, number, delta)
    exact = _exact(counts, delta) if delta > 0.0 else {}
    found |= exact
    best = min(found, key=lambda accountant: found[accountant])
    return Total(
        found[best],
        best,
        plain if math.isfinite(plain) else None,
        found[KAIROUZ] if delta > 0.0 and math.isfinite(plain) else None,
        min(exact.values(), default=None),
    )


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


def _exact(counts: _Counts, delta: float) -> dict[str, float]:
    """What each exact composition that applies says; empty where the numbers are too large for all of them."""
    inverse_squares = sum(count / kind.multiplier**2 for kind, count in counts if kind.family == "gaussian")
    mu = math.sqrt(inverse_squares)
    others = tuple((kind, count) for kind, count in counts if kind.family != "gaussian")
    if not others:
        return {GAUSSIAN: gaussian_epsilon(mu, delta)}
    found: dict[str, float] = {}
    if mu == 0.0 and len(others) == 1 and others[0][0].is_pure:
        found[BINOMIAL] = binomial(others[0][0].epsilon, others[0][1], delta)
    elif all(kind.family != GAUSSIAN_OBJECTIVE for kind, _ in others):
        found[LOSS_DISTRIBUTION] = _composed(others, mu, delta, planes=False)
    if [(kind.family, count) for kind, count in counts] == [(GAUSSIAN_OBJECTIVE, 1)]:
        found[PLANE] = gaussian_objective_epsilon(delta, 1.0, counts[0][0].multiplier, counts[0][0].jacobian)
    elif any(kind.family in OBJECTIVES for kind, _ in others):
        found[PLANE] = _composed(others, mu, delta, planes=True)
    return {name: epsilon for name, epsilon in found.items() if math.isfinite(epsilon)}


def _composed(others: _Counts, mu: float, delta: float, *, planes: bool) -> float:
    """Epsilon by loss distributions, of ``others`` and of Gaussian releases of ``mu`` together.

    ``planes``: of a perturbed objective the law of its noise in the plane of two records; else its pure epsilon alone.
    """
    from coordinator_free.privacy import loss_distribution as losses
    from coordinator_free.privacy.composition import composed_epsilon

    certain = sum(count * kind.jacobian for kind, count in others if planes and kind.family in OBJECTIVES)
    if planes:  # what the Jacobian loses is certain: rounds that differ in it alone are of one kind
        alike: Counter[Kind] = Counter()
        for kind, count in others:
            alike[replace(kind, jacobian=0.0) if kind.family in OBJECTIVES else kind] += count
        others = tuple(sorted(alike.items()))
    releases = sum(count for _, count in others) + (mu > 0.0)
    variance = mu * mu + sum(count * kind.spread(planes) ** 2 for kind, count in others)
    step = math.sqrt(variance) / max(_FEWEST_STEPS, _STEPS * math.sqrt(releases))
    # A power of two: the grid stays the same while a budget is searched for or a ledger grows a little.
    step = 2.0 ** math.floor(math.log2(step))
    for kind, _ in others:
        step = losses.coarsest(step, *kind.grid(planes))
    if mu > 0.0:
        step = losses.coarsest(step, 104.0 * mu)
    try:
        parts = [(kind.loss(step, planes), count) for kind, count in others]
    except losses.TooLargeError:
        return math.inf
    if mu > 0.0:
        parts.append((losses.gaussian(1.0 / mu, step), 1))
    return certain + composed_epsilon(parts, delta)
