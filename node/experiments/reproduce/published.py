"""Agents that release what papers 000, 001 and 003 print, and charge what it truly costs.

Rules that hold here:
- The noise is the printed one; the charge is the right one for it. The ledger of such a run counts, it does not limit.
- None of these is for real use: each docstring states what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation, round_cost
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.agents.averages.averaging import Averaging
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.release import FloatArray
from coordinator_free.settings import Positive, Settings


@dataclass(frozen=True, kw_only=True)
class _Rates(Settings):
    """Noise rates of rounds: the first one, and a factor a round."""

    alpha: Positive
    alpha_growth: Positive = 1.0


@dataclass(frozen=True, kw_only=True)
class _NodeRates(Settings):
    """The first noise rate and its factor a round: one for each agent, repeated where there are more agents."""

    alphas: Sequence[float]
    alpha_growths: Sequence[float]

    def rates(self, agent: int, rounds: int) -> FloatArray:
        """alpha of each round, shape (rounds,)."""
        return _geometric(self.alphas, self.alpha_growths, agent, rounds)


@dataclass(frozen=True, kw_only=True)
class _NodePenalties(Settings):
    """The same of the penalties and of the dual steps; without ``thetas`` all agents have ``learning.theta``."""

    starts: Sequence[float]
    growths: Sequence[float]
    thetas: Sequence[float] | None = None
    theta_growth: Positive = 1.0

    def given_to(self, setting: Setting) -> Setting:
        """The setting of an agent with its own penalties."""
        penalties = _geometric(self.starts, self.growths, setting.agent, setting.updates)
        return replace(setting, learning={**setting.learning, "penalties": penalties.tolist()})


def _geometric(starts: Sequence[float], growths: Sequence[float], agent: int, rounds: int) -> FloatArray:
    powers: FloatArray = growths[agent % len(growths)] ** np.arange(rounds, dtype=np.float64)
    return starts[agent % len(starts)] * powers


class _Printed:
    """Noise that the paper states, in place of noise that a total buys."""

    @classmethod
    def own_noise(cls, learning: Mapping[str, Any]) -> bool:  # noqa: ARG003
        """No: a purchase would put other noise in the place of the printed one."""
        return False


class _AlphaARound(_Printed):
    """Spends ``alpha`` a round, as printed, whatever the configured total."""

    @staticmethod
    def calibrate(
        mechanism: str,  # noqa: ARG004
        releases: int,
        epsilon: float,  # noqa: ARG004
        delta: float,  # noqa: ARG004
        learning: Mapping[str, Any],
        dimension: int,  # noqa: ARG004
    ) -> FloatArray:
        """1 / alpha for each round: the printed claim."""
        return np.full(releases, 1.0 / _Rates.of(learning).alpha)


class PublishedDual(_AlphaARound, DualPerturbation):
    """DVP as printed (Zhang and Zhu 2017, Algorithm 2), ``alpha`` a round.

    It claims alpha for each round with noise of rate zeta = alpha_hat, although two noise vectors differ by up to 2,
    and claims nothing for the total. Takes alpha_hat = alpha - 2 ln(1 + c1/k) where that is above 0; otherwise
    Phi = C c1 / (B (e^(alpha/4) - 1)) - rho and alpha_hat = alpha/2.
    """

    name: ClassVar[str] = "dvp as published"

    def _perturbation(self, index: int) -> tuple[float, ObjectivePerturbation]:
        alpha, shift = 1.0 / float(self._setting.multipliers[index]), self._gradient_shift()
        bend = self._problem.loss.curvature_bound * self._capacity / self._problem.records
        w = self.curvature(index)
        hat, phi = alpha - 2.0 * math.log1p(bend / w), 0.0
        if hat <= 0.0:
            hat, phi = alpha / 2.0, max(0.0, bend / math.expm1(alpha / 4.0) - self._rho)
        # A shift of 2 L costs 2 zeta, not the printed zeta.
        jacobian = math.log1p(bend / (w + phi))
        return phi, ObjectivePerturbation(shift, shift / (2.0 * hat), jacobian, self._setting.dimension)


class PublishedPrimal(_AlphaARound, PrimalPerturbation):
    """PVP as printed (Algorithm 3), ``alpha`` a round: the agent's own noise comes back in its next step."""

    name: ClassVar[str] = "pvp as published"


class GivenRates(_Printed, PenaltyPerturbation):
    """PP with the noise rates alpha_i(t) and penalties eta_i(t) of Zhang, Khalili and Liu (2018), section 5.2.

    ``parameters``: ``alphas`` and ``starts`` the first ones, ``alpha_growths`` and ``growths`` their factors a round.
    What a round costs follows from the agent's own number of records, so small agents pay more; the paper's bound
    (Eq. 26) is looser.
    """

    name: ClassVar[str] = "pp with given rates"

    def __init__(self, setting: Setting) -> None:
        super().__init__(
            _NodePenalties.of(setting.learning).given_to(replace(setting, multipliers=np.ones(setting.updates)))
        )
        degree, records = len(setting.neighbours), max(1, setting.problem.records)
        rates = _NodeRates.of(setting.learning).rates(setting.agent, setting.updates)
        costs = [
            round_cost(float(rate), float(penalty), degree, records, self._capacity, self._rho)
            for rate, penalty in zip(rates, self._penalties, strict=True)
        ]
        self._setting = replace(self._setting, multipliers=1.0 / np.array(costs))

    @staticmethod
    def calibrate(
        mechanism: str,  # noqa: ARG004
        releases: int,
        epsilon: float,  # noqa: ARG004
        delta: float,  # noqa: ARG004
        learning: Mapping[str, Any],  # noqa: ARG004
        dimension: int,  # noqa: ARG004
    ) -> FloatArray:
        """Stand-ins: each agent works its own out."""
        return np.ones(releases)


class OwnPenalties(ModifiedAdmm):
    """M-ADMM where every agent has a penalty and a growth of its own (Zhang, Khalili and Liu 2018, section 5.1).

    ``parameters``: ``starts`` and ``growths``, one for each agent; growing without bound, they freeze the iterates.
    ``thetas`` and ``theta_growth`` do the same for the dual step, which the paper's analysis keeps fixed and equal.
    Agents with other dual steps agree on an optimum in which agent i weighs 1 / theta_i
    (`coordinator_free.problem.consensus`).
    """

    name: ClassVar[str] = "m-admm with own penalties"

    def __init__(self, setting: Setting) -> None:
        own = _NodePenalties.of(setting.learning)
        super().__init__(own.given_to(setting))
        first = [self._theta] if own.thetas is None else own.thetas
        self._steps_by_round = _geometric(first, [own.theta_growth], setting.agent, setting.updates)

    def _dual_step(self) -> None:
        self._theta = float(self._steps_by_round[self._round])
        super()._dual_step()


class SimpleAverage(Averaging):
    """Jayaraman et al. 2018 as paper 003 runs it: an equal average, each party's noise for m n_min records.

    Its claim, like the paper's, holds for no observer.
    """

    name: ClassVar[str] = "simple average as published"

    def _counted(self) -> int:
        return len(self._sizes) * min(size for size in self._sizes if size)
