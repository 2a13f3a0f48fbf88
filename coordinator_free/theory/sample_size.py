"""How many records an agent needs for an accuracy (Zhang and Zhu 2017, Theorems 3 to 6; Zhang and Zhu 2016, 2 and 3).

|f0| is the norm of a reference model, a the accuracy of C times the expected loss, alpha the privacy of a round and d
the dimension. For this accuracy with probability 1 - delta (Theorem 3), 1 - 2 delta (4, 5) or 1 - 3 delta (6) an agent
needs more than

    beta max( terms )       records,

where the constant beta is left open by the paper. `non_private`, `dual`, `primal_minimiser` and `primal_release` give
the terms with beta = 1, in two readings:

- ``as published``: as printed (C^B in Theorem 6 is read as C^R).
- as true: what the proofs give. Multiplying C, rho, eta and a by one number leaves every model as it is, so it must
  leave the number of records as it is. The printed terms C |f0|^2 ln(1/delta) / a^2 and |f0| d ln(d/delta) / (a alpha)
  fail that: each lacks one factor C. So the printed Theorems 3, 4 and 6 are false for every beta
  (`records_to_learn_a_sign` is a case that needs any number of times more). The square of the logarithm in Theorem 6 is
  a slip of its last step, and c4 is missing below its last root.

Rules that hold here:
- Every bound is for rho = a / |f0|^2, the weight that the proofs choose; a run's own rho may be another one.
- Propositions 7 and 8 state convergence in distribution. Noise that is drawn in each round with one scale keeps every
  release at a distance from every point: `least_spread`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainccinv
from scipy.stats import binom

from coordinator_free.release import FloatArray


@dataclass(frozen=True)
class Demand:
    """What the theorems rest on; ``accuracy`` is that of C times the loss, ``alpha`` the privacy of one round.

    ``degree`` is N_p, ``penalty`` eta, ``c1`` bounds the loss's second derivative, ``c4`` is the Lipschitz constant of
    its first.
    """

    norm: float
    accuracy: float
    delta: float
    capacity: float
    dimension: int
    alpha: float = math.inf
    penalty: float = 0.0
    degree: int = 0
    c1: float = 0.25
    c4: float = 0.25

    def __post_init__(self) -> None:
        for name in ("norm", "accuracy", "capacity", "alpha"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} = {getattr(self, name)}; accepted: a number above 0")
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta = {self.delta}; accepted: above 0, below 1")


def non_private(demand: Demand, *, as_published: bool) -> dict[str, float]:
    """Theorem 3 (2 of Zhang and Zhu 2016): the records that ADMM without noise needs, by term."""
    c = demand.capacity if as_published else demand.capacity**2
    return {"estimation": c * demand.norm**2 * math.log(1.0 / demand.delta) / demand.accuracy**2}


def dual(demand: Demand, *, as_published: bool) -> dict[str, float]:
    """Theorem 4 (3 of Zhang and Zhu 2016): the records that dual perturbation needs, by term."""
    noise = demand.norm * demand.dimension * _log(demand) / (demand.accuracy * demand.alpha)
    return {
        "noise": noise if as_published else demand.capacity * noise,
        "curvature": demand.capacity * demand.c1 * demand.norm**2 / (demand.accuracy * demand.alpha),
        **non_private(demand, as_published=as_published),
    }


def primal_minimiser(demand: Demand, *, as_published: bool) -> dict[str, float]:
    """Theorem 5: the records that the minimiser of primal perturbation needs, before its own noise."""
    return {"received noise": demand.capacity * _received(demand), **non_private(demand, as_published=as_published)}


def primal_release(demand: Demand, *, as_published: bool) -> dict[str, float]:
    """Theorem 6: the records that a release of primal perturbation needs."""
    c, log = demand.capacity, _log(demand)
    own = 4.0 * c * demand.norm * demand.dimension * log / (demand.accuracy * demand.alpha)
    bent = 4.0 * c**1.5 * demand.norm**2 * demand.dimension * log / (demand.accuracy**1.5 * demand.alpha)
    terms = primal_minimiser(demand, as_published=as_published)
    if as_published:
        return terms | {"own noise": own * log, "other noise": 4.0 * _received(demand), "own noise, bent": bent}
    return terms | {"own noise": own, "own noise, bent": math.sqrt(demand.c4) * bent}


def _log(demand: Demand) -> float:
    return math.log(demand.dimension / demand.delta)


def _received(demand: Demand) -> float:
    """|f0|^3 eta N d ln(d/delta) / (a^2 alpha)."""
    shared = demand.penalty * demand.degree * demand.dimension * _log(demand)
    return demand.norm**3 * shared / (demand.accuracy**2 * demand.alpha)


def noise_excess(probability: FloatArray, dimension: int, scale: float, convexity: float) -> FloatArray:
    """How far noise in an objective lifts it at its minimiser, exceeded with ``probability`` at most (Lemma 11).

    Noise b of density ~ exp(-|b| / ``scale``) in a ``convexity``-strongly convex objective lifts it by at most
    |b|^2 / (2 convexity), and |b| is Gamma(d, scale).
    """
    length = scale * gammainccinv(dimension, probability)
    lifted: FloatArray = np.square(length) / (2.0 * convexity)
    return lifted


def printed_noise_excess(
    probability: FloatArray, dimension: int, records: int, alpha: float, convexity: float
) -> FloatArray:
    """The same as printed, 16 d^2 ln(d/probability)^2 / (rho B^2 alpha^2): it lacks the factor C^2."""
    lifted: FloatArray = np.square(4.0 * dimension * np.log(dimension / probability) / (records * alpha)) / convexity
    return lifted


def least_spread(noise: float, smoothness: float) -> float:
    """The least root mean square distance of a release from any point that is known before its noise is drawn.

    ``noise`` is the root mean square length of the noise in the objective, ``smoothness`` bounds the objective's
    curvature M. Models of two noises are at least |b - b'| / M apart, and half the mean square of that is a variance.
    It does not fall with the rounds, so the iterates do not converge to a point (Propositions 7 and 8).
    """
    return noise / smoothness


def records_to_learn_a_sign(bias: float, delta: float, most: int = 10**6) -> int:
    """The records that regularised logistic regression needs where Theorem 3, as printed, asks for a fixed number.

    One feature x = 1, labels +1 with probability 1/2 + ``bias``; the reference model is 4 bias, the accuracy a = 1 at
    C = 1 / bias^2, so the printed term is 16 ln(1/delta) for every bias. The excess of the expected loss over the
    reference is computed from the binomial law. Raises ValueError if ``most`` records are too few.
    """
    reference, capacity = 4.0 * bias, bias**-2
    rho = 1.0 / reference**2

    def expected(model: FloatArray) -> FloatArray:
        p = 0.5 + bias
        loss: FloatArray = capacity * (p * np.logaddexp(0.0, -model) + (1.0 - p) * np.logaddexp(0.0, model))
        return loss

    bar = float(expected(np.array([reference]))[0]) + 1.0

    def failing(records: int) -> float:
        shares = np.arange(records + 1) / records
        low, high = np.full(records + 1, -capacity / rho), np.full(records + 1, capacity / rho)
        for _ in range(60):
            middle = (low + high) / 2.0
            slope = capacity * (1.0 / (1.0 + np.exp(-middle)) - shares) + rho * middle
            low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
        wrong = expected((low + high) / 2.0) > bar
        return float(binom.pmf(np.arange(records + 1), records, 0.5 + bias)[wrong].sum())

    records = 1
    while records <= most:
        if failing(records) <= delta:
            return records
        records = math.ceil(1.1 * records)
    raise ValueError(f"most = {most}: too few records for bias = {bias:g}")
