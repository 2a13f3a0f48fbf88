"""PP: the penalty term is perturbed, and the penalty may grow (Zhang, Khalili and Liu 2018, Algorithm 1).

The noise enters as 2 eta_i(t) N_i e . f (Eq. 24 and 25) with e of density ~ exp(-alpha |e|): dual perturbation with
another name for the rate, alpha = zeta eta N m / C, and without its extra penaliser. A round is pure
ln(1 + c1 R^2/k) + C L alpha / (eta N m), k = m/C (rho_i + 2 eta N). The printed round cost, C (1.4 c1 + alpha) /
(eta N m) (Eq. 26), is `published_cost`.
"""

from __future__ import annotations

from typing import ClassVar

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import AdmmError
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.own_penalties import OwnPenaltySettings, with_own_penalties
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, jacobian_loss
from coordinator_free.settings import Settings


class PenaltyPerturbation(DualPerturbation):
    """One agent of penalty perturbation; parameters: `OwnPenaltySettings`, mechanism "gamma-norm" or "gaussian"."""

    name: ClassVar[str] = "pp"
    settings: ClassVar[type[Settings] | None] = OwnPenaltySettings
    varying_penalty: ClassVar[bool] = True
    adds_curvature: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        super().__init__(with_own_penalties(setting))

    def _perturbation(self, index: int) -> tuple[float, ObjectivePerturbation]:
        if self._largest_jacobian is not None or self._noise_in_objective is not ObjectivePerturbation:
            return super()._perturbation(index)
        curvature = self._problem.records / self._capacity * self.curvature(index)  # k
        jacobian = jacobian_loss(self._problem.loss.curvature_bound, self.row_bound, curvature)
        epsilon = 1.0 / float(self._setting.multipliers[index])
        if not epsilon > jacobian:
            raise AdmmError(
                f"learning.penalty = {self._penalties[index]:g} in round {index}: its Jacobian alone costs "
                f"{jacobian:.3g} of the round's epsilon {epsilon:.3g}; take a larger penalty, or dvp"
            )
        shift = self._gradient_shift()
        return 0.0, ObjectivePerturbation(shift, shift / (epsilon - jacobian), jacobian, self._setting.dimension)


def round_cost(
    alpha: float, penalty: float, degree: int, records: int, capacity: float, rho: float, c1: float = 0.25
) -> float:
    """The tight pure epsilon of one round with noise rate ``alpha``, rows of norm at most 1; ``rho`` the node's own."""
    curvature = records / capacity * (rho + 2.0 * penalty * degree)
    return jacobian_loss(c1, 1.0, curvature) + capacity * alpha / (penalty * degree * records)


def published_cost(alpha: float, penalty: float, degree: int, records: int, capacity: float, c1: float = 0.25) -> float:
    """The cost of one round as printed (Eq. 26), for rows of norm at most 1."""
    return capacity * (1.4 * c1 + alpha) / (penalty * degree * records)
