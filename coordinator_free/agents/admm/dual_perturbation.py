"""DVP: the dual is perturbed before each minimisation (Zhang and Zhu 2017, Algorithm 2; Zhang and Zhu 2016).

    f_i(t+1) = argmin  [the objective of Algorithm 1 around released values] + Phi/2 |f|^2 + (noise) . f

The noise has density ~ exp(-zeta m/C |e|). Replacing one record moves the linear term by at most 2 C L / m_i, and the
Jacobian costs ln(1 + c1 R^2/k); so a round is pure ln(1 + c1 R^2/k) + 2 L zeta. The printed algorithm takes twice this
zeta for the same claim (`coordinator_free.privacy.objective_perturbation.penalised`).

A multiplier is 1 / (the round's pure epsilon).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, penalised
from coordinator_free.release import FloatArray


class DualPerturbation(Admm):
    """One agent of dual variable perturbation; parameters as in `Admm`, mechanism "gamma-norm"."""

    name: ClassVar[str] = "dvp"
    mechanisms: ClassVar[tuple[str, ...]] = ("gamma-norm",)
    allocates: ClassVar[bool] = False
    attacked_by: ClassVar[Attack] = Attack.OBJECTIVES

    @staticmethod
    def calibrate(
        mechanism: str,  # noqa: ARG004
        releases: int,
        epsilon: float,
        delta: float,
        learning: Mapping[str, Any],  # noqa: ARG004
        dimension: int,  # noqa: ARG004
    ) -> FloatArray | None:
        """The multipliers that a total budget buys: rounds are pure, so they compose as such."""
        from coordinator_free.privacy.pure_budget import calibrate_pure

        return calibrate_pure(releases, epsilon, delta)

    def _next_release(self, index: int) -> FloatArray:
        linear, phi = self._linear(index), 0.0
        if self._private:
            phi, mechanism = self._perturbation(index)
            linear = linear + mechanism.noise(self._setting.dimension, self._setting.stream(index))
        return self._public(self._minimise(index, linear, phi))

    def _public(self, vector: FloatArray) -> FloatArray:
        return vector if self._setting.mechanism == "none" else self._on_grid(vector)

    def _perturbation(self, index: int) -> tuple[float, ObjectivePerturbation]:
        loss = self._problem.loss
        per_curvature = loss.curvature_bound * self.row_bound**2 * self._capacity / self._problem.records
        return penalised(
            self._gradient_shift(),
            1.0 / float(self._setting.multipliers[index]),
            per_curvature,
            self.curvature(index),
            self._setting.dimension,
        )

    def charge(self, index: int) -> Mechanism | None:
        return self._perturbation(index)[1] if self._private else None
