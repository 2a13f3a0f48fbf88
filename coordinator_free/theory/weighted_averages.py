"""What theory says about noisy gradient descent on weighted averages: Kang, Liu and Wang, Theorems 2 and 3, Table 1.

    theta(t+1) = theta(t) - h (grad F(theta(t)) + z(t)),   z(t) ~ N(0, s^2 I_p),   F = sum_j w_j L_j

where F is L-smooth and |grad F|^2 >= 2 mu (F - F*) at the iterates (strong convexity mu implies it):

    E[F(t+1)] - F* <= q (F(t) - F*) + h^2 L p s^2 / 2,     q = 1 - 2 mu h (1 - h L / 2)

With h = 1/L that is q = 1 - mu/L, and after T rounds

    q^T gap + p s^2 / (2 mu) (1 - q^T)     the last line before Eq. (11)
    q^T gap + p s^2 / (2 mu)               Eq. (11)
    q^T gap + T p s^2 / (2 L)              Remark 1, of Wang, Ye and Xu (2017)

Rules that hold here:
- All of them speak about descent in step: every round averages gradients at one common model. Local steps with one
  average at the end (the paper's Algorithm 1) converge to the average of the parties' minimisers, which is not the
  minimiser of F. `local_excess_risk` is a bound for them.
- The noise of an average of independent noises s_j is s^2 = sum_j w_j^2 s_j^2. The paper's Eq. (4) has s^2 itself.
- Eq. (11) is below the bound of Remark 1 from T = L/mu rounds on, not always; the line before it always is.
- T = O~(log(...)) hides the factor L/mu.
- O(...) is evaluated with 1 as its constant, unless a function has an argument for it.

Source: Kang, Liu and Wang, *Weighted Distributed Differential Privacy ERM*, section 4, appendix A.1, Table 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.release import FloatArray


class TheoryError(ValueError):
    """Numbers that a theorem does not cover."""


@dataclass(frozen=True)
class Descent:
    """The constants of a noisy descent in step.

    ``curvature`` is mu, of strong convexity or of the Polyak-Lojasiewicz condition; ``variance`` is s^2, of the noise
    in one coordinate of an averaged gradient; ``gap`` is F(theta(0)) - F*; ``step`` is h, None for 1/L.
    """

    smoothness: float
    curvature: float
    dimension: int
    variance: float
    gap: float
    step: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.curvature <= self.smoothness:
            raise TheoryError(f"mu = {self.curvature:g}: must be above 0 and at most L = {self.smoothness:g}")
        if not 0.0 < self.length < 2.0 / self.smoothness:
            raise TheoryError(f"h = {self.length:g}: must be above 0 and below 2/L = {2.0 / self.smoothness:g}")

    @property
    def length(self) -> float:
        """h."""
        return 1.0 / self.smoothness if self.step is None else self.step

    @property
    def kept(self) -> float:
        """q: what one round leaves of the gap."""
        return max(0.0, 1.0 - 2.0 * self.curvature * self.length * (1.0 - self.length * self.smoothness / 2.0))

    @property
    def added(self) -> float:
        """What the noise of one round adds to the gap."""
        return self.length**2 * self.smoothness * self.dimension * self.variance / 2.0

    def tight(self, rounds: FloatArray) -> FloatArray:
        """The bound after so many rounds, before anything is dropped; attained by F = mu/2 |theta|^2, L = mu."""
        power: FloatArray = self.kept**rounds
        return power * self.gap + self.added * (1.0 - power) / (1.0 - self.kept)

    def printed(self, rounds: FloatArray) -> FloatArray:
        """Eq. (11)."""
        power: FloatArray = self.kept**rounds
        return power * self.gap + self.added / (1.0 - self.kept)

    def earlier(self, rounds: FloatArray) -> FloatArray:
        """Remark 1: the bound of Wang, Ye and Xu (2017), which adds up the noise of all rounds."""
        power: FloatArray = self.kept**rounds
        return power * self.gap + self.added * rounds

    def rounds(self) -> int:
        """The fewest rounds after which the start adds no more to `printed` than the noise does."""
        floor = self.added / (1.0 - self.kept)
        if not floor > 0.0:
            raise TheoryError("without noise the bound falls for ever: no number of rounds is enough")
        if self.gap <= floor or self.kept == 0.0:
            return 1
        return max(1, math.ceil(math.log(floor / self.gap) / math.log(self.kept)))


def average_variance(shares: Sequence[float], deviations: Sequence[float]) -> float:
    """s^2 = sum_j w_j^2 s_j^2: of the noise in one coordinate of a weighted average of independent noises."""
    return float(sum((w * s) ** 2 for w, s in zip(shares, deviations, strict=True)))


def condition(gradients: FloatArray, gaps: FloatArray) -> float:
    """The largest mu with |grad F|^2 >= 2 mu (F - F*) at every point (Definition 2); infinity where no gap is above 0.

    Parameters
    ----------
    gradients
        |grad F| at each point, shape (k,).
    gaps
        F - F* there, shape (k,).
    """
    above = gaps > 0.0
    if not above.any():
        return math.inf
    return float(np.min(gradients[above] ** 2 / (2.0 * gaps[above])))


@dataclass(frozen=True)
class Party:
    """A party that descends alone: its share w_j, L_j, l_j, the deviation of its noise, |theta_j* - theta(0)|."""

    share: float
    smoothness: float
    convexity: float
    deviation: float
    distance: float

    def distances(self, steps: FloatArray, length: float, dimension: int) -> FloatArray:
        """A bound of the root of E|theta_j(t) - theta_j*|^2 after each number of steps of ``length`` h.

        A step contracts by c = max(|1 - h l|, |1 - h L|), and its noise is independent of where it starts. So the
        squares satisfy d(t+1) <= c^2 d(t) + h^2 p s^2.
        """
        kept = max(abs(1.0 - length * self.convexity), abs(1.0 - length * self.smoothness)) ** 2
        if kept > 1.0:
            raise TheoryError(f"h = {length:g}: must be at most 2/L = {2.0 / self.smoothness:g}")
        power: FloatArray = kept**steps
        noises = steps if kept == 1.0 else (1.0 - power) / (1.0 - kept)
        squares = power * self.distance**2 + length**2 * dimension * self.deviation**2 * noises
        return np.asarray(np.sqrt(squares))


def local_excess_risk(
    parties: Sequence[Party], steps: FloatArray, length: float, dimension: int, smoothness: float, apart: float
) -> FloatArray:
    """A bound of E[F(sum_j w_j theta_j(t))] - F*, where the parties descend alone (Algorithm 1).

    F is ``smoothness``-smooth, so the gap is at most L/2 times the squared distance to the minimiser of F. The root of
    that distance's mean square is at most the sum of the parties' own (Minkowski), plus ``apart``, the distance of
    sum_j w_j theta_j* from the minimiser of F. ``apart`` does not fall with the steps, and is not in the paper.
    """
    total = apart + sum(party.share * party.distances(steps, length, dimension) for party in parties)
    return np.asarray(smoothness / 2.0 * total**2)


# --- Theorem 1 and Table 1 -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """What Table 1 rests on: m parties, n records, the smallest party's n_(1), p, G and the claim (epsilon, delta)."""

    parties: int
    records: int
    smallest: int
    dimension: int
    lipschitz: float
    epsilon: float
    delta: float

    @property
    def _inverse(self) -> float:
        return math.log(1.0 / self.delta)

    @property
    def target(self) -> float:
        """p G^2 ln(1/delta) / (n^2 epsilon^2): what Theorems 2 and 3 promise, but for log(n) and the constant."""
        return self.dimension * self.lipschitz**2 * self._inverse / (self.records * self.epsilon) ** 2

    def promised(self) -> float:
        """Eq. (12), Theorems 2 and 3, and Table 1's excess risk of WD-DP: p G^2 log(n) ln(1/delta) / (n epsilon)^2."""
        return self.target * math.log(self.records)

    def rounds(self) -> float:
        """T = O~(log(n^2 epsilon^2 / (p G^2 ln(1/delta)))) as printed, with 1 as its constant."""
        return max(1.0, math.log(1.0 / self.target))

    def variance(self, rounds: FloatArray, constant: float = 1.0) -> FloatArray:
        """Eq. (3), Theorem 1, and Table 1's noise of WD-DP and of Wang, Ye and Xu (2017), with its constant c."""
        return constant * self.lipschitz**2 * rounds * self._inverse / (self.records * self.epsilon) ** 2

    def variance_by_parties(self, rounds: FloatArray) -> FloatArray:
        """Table 1, noise of Jayaraman et al. (2018): G^2 T log(1/delta) / (m n_(1) epsilon)^2."""
        return self.lipschitz**2 * rounds * self._inverse / (self.parties * self.smallest * self.epsilon) ** 2

    def second_moment(self) -> float:
        """Table 1, noise of Zhang et al. (2017): (p G^2 log(n/delta) log(1/delta) + G^2 epsilon^2) / epsilon^2."""
        noise = self.dimension * math.log(self.records / self.delta) * self._inverse / self.epsilon**2
        return self.lipschitz**2 * (noise + 1.0)

    def risk_of_minimisers(self, convexity: float) -> float:
        """Table 1, excess risk of Pathak, Rane and Raj (2010), of lambda = ``convexity``."""
        p, log = self.dimension, math.log(self.dimension / self.delta)
        others = self.parties - 1
        terms = others**2 + (p * log / self.epsilon) ** 2 + p * others * log / self.epsilon
        return (convexity + 1.0) * terms / (self.smallest * convexity) ** 2

    def risk_by_parties(self, smoothness: float, convexity: float) -> float:
        """Table 1, excess risk of Jayaraman et al. (2018)."""
        counted = self.parties * self.smallest
        top = self.dimension * self.lipschitz**2 * smoothness * math.log(counted) ** 2 * self._inverse
        return top / (counted * convexity * self.epsilon) ** 2

    def risk_of_random_rounds(self, diameter: float) -> float:
        """Table 1, excess risk of Zhang et al. (2017), of models of norm at most ``diameter`` D."""
        root = math.sqrt(self.dimension * math.log(self.records / self.delta) * self._inverse)
        return self.lipschitz * root * diameter / (self.records * self.epsilon)

    def risk_of_one_party(self) -> float:
        """Table 1, excess risk of Wang, Ye and Xu (2017): log^2(n) in the place of WD-DP's log(n)."""
        return self.promised() * math.log(self.records)
