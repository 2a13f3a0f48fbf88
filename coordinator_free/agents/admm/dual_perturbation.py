"""DVP: the dual is perturbed before each minimisation (Zhang and Zhu 2017, Algorithm 2; Zhang and Zhu 2016).

    f_i(t+1) = argmin  [the objective of Algorithm 1 around released values] + Phi/2 |f|^2 + (noise) . f

The noise has density ~ exp(-zeta m/C |e|). Replacing one record moves the linear term by at most 2 C L / m_i, and the
Jacobian costs ln(1 + c1 R^2/k); so a round is pure ln(1 + c1 R^2/k) + 2 L zeta. The printed algorithm takes twice this
zeta for the same claim (`coordinator_free.privacy.objective_perturbation.penalised`). Over several rounds the noise
loses much less than its pure share: each agent's noise is chosen by the accountant (`PerturbedRounds.buy`). The paper's
alpha_p(t), another alpha in each round, is the allocation: it weighs the rounds' noise rates, and the charges follow.

With mechanism "gaussian" the noise is Gaussian (Zhang, Khalili and Liu 2018, section 6.3). A round has no pure epsilon
then. Its loss is at most ln(1 + c1 R^2/k) + D r/s + (D/s)^2/2, D = 2 C L / m_i, s the noise's deviation and r a
Rayleigh(1) variable independent of earlier rounds: the losses of rounds add as independent variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.perturbed_rounds import PerturbedRounds
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.gaussian_objective_perturbation import OBJECTIVE_NOISE
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.release import FloatArray


class DualPerturbation(PerturbedRounds):
    """One agent of dual variable perturbation; parameters as in `Admm`, mechanism "gamma-norm" or "gaussian"."""

    name: ClassVar[str] = "dvp"
    mechanisms: ClassVar[tuple[str, ...]] = ("gamma-norm", "gaussian")
    attacked_by: ClassVar[Attack] = Attack.OBJECTIVES

    adds_curvature: ClassVar[bool] = True
    """Whether a round adds curvature where its Jacobian would lose too much."""

    @classmethod
    def own_noise(cls, learning: Mapping[str, Any]) -> bool:  # noqa: ARG003
        return True

    @classmethod
    def bought(
        cls, setting: Setting, budget: tuple[float, float], jacobians: list[float], shares: FloatArray
    ) -> tuple[FloatArray, float] | None:
        from coordinator_free.privacy.objective_budget import buy_rounds

        found = buy_rounds(
            jacobians,
            *budget,
            setting.dimension,
            adds_curvature=cls.adds_curvature,
            family=setting.mechanism,
            shares=shares.tolist(),
        )
        return None if found is None else (found.multiplier / shares, found.jacobian)

    @property
    def _noise_in_objective(self) -> type[ObjectivePerturbation]:
        return OBJECTIVE_NOISE[self._setting.mechanism]

    def _next_release(self, index: int) -> FloatArray:
        linear, phi = self._linear(index), 0.0
        if self._private:
            phi, mechanism = self._perturbation(index)
            linear = linear + mechanism.noise(self._setting.dimension, self._setting.stream(index))
        return self._public(self._minimise(index, linear, phi))

    def _public(self, vector: FloatArray) -> FloatArray:
        return vector if self._setting.mechanism == "none" else self._on_grid(vector)

    def _perturbation(self, index: int) -> tuple[float, ObjectivePerturbation]:
        return self._perturbed(index, self._gradient_shift())

    def charge(self, index: int) -> Mechanism | None:
        return self._perturbation(index)[1] if self._private else None
