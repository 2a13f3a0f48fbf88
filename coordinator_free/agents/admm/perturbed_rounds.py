"""Rounds of ADMM whose objective holds the noise: what they cost, and the noise that a budget buys for them.

Rules that hold here:
- The noise of an agent rests on its own public numbers: its size, its degree, its penalties.
- Old runs keep their meaning: without the public number ``largest_jacobian`` a multiplier is 1 / (the round's pure
  epsilon); with it, it is scale / sensitivity, as everywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm, AdmmError
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, curved, penalised
from coordinator_free.release import FloatArray
from coordinator_free.settings import NonNegative, Settings


@dataclass(frozen=True, kw_only=True)
class BoughtNoise(Settings):
    """What dealing says of an agent's noise, beside its multipliers."""

    largest_jacobian: NonNegative | None = None
    """How much a round's Jacobian may lose, at most. Default: a multiplier is 1 / (the round's pure epsilon)."""


class PerturbedRounds(Admm):
    """An agent with noise in the objective of some rounds."""

    def jacobians(self, records: int) -> list[float]:
        """What the Jacobian of each round loses with so many records, without curvature that is added."""
        weight = self._per_curvature(records)
        return [math.log1p(weight / self.curvature(index)) for index in range(self._setting.updates)]

    @classmethod
    def bought(
        cls, setting: Setting, budget: tuple[float, float], jacobians: list[float], shares: FloatArray
    ) -> tuple[FloatArray, float] | None:
        """The multipliers and the largest Jacobian loss that ``budget`` buys; None where it buys nothing.

        ``shares`` weigh sensitivity / scale of the rounds.
        """
        raise NotImplementedError

    @classmethod
    def buy(
        cls, setting: Setting, records: int, budget: tuple[float, float], shares: FloatArray
    ) -> tuple[FloatArray, Mapping[str, Any]]:
        if records == 0:
            return np.ones(setting.updates), {"largest_jacobian": 0.0}
        jacobians = cls(replace(setting, mechanism="none")).jacobians(records)
        bought = cls.bought(setting, budget, jacobians, shares)
        if bought is None:
            raise AdmmError(
                f"learning.penalty: with {records} records the Jacobians of {setting.updates} rounds lose "
                f"{sum(jacobians):.3g} of privacy.epsilon = {budget[0]:g}; take a larger penalty, fewer rounds, or dvp"
            )
        return bought[0], {"largest_jacobian": bought[1]}

    @cached_property
    def _largest_jacobian(self) -> float | None:
        return BoughtNoise.of(self._setting.learning).largest_jacobian

    @property
    def _noise_in_objective(self) -> type[ObjectivePerturbation]:
        return ObjectivePerturbation

    def _per_curvature(self, records: int) -> float:
        """c1 R^2 C/m: over a round's curvature it is what the Jacobians' ratio exceeds 1 by."""
        return self._problem.loss.curvature_bound * self.row_bound**2 * self._capacity / records

    def _perturbed(self, index: int, shift: float) -> tuple[float, ObjectivePerturbation]:
        """(Phi, the mechanism) of a round whose linear term moves by ``shift``."""
        setting, w = self._setting, self.curvature(index)
        multiplier, dimension = float(setting.multipliers[index]), setting.dimension
        per_curvature = self._per_curvature(self._problem.records)
        largest = self._largest_jacobian
        if largest is None:
            if self._noise_in_objective is not ObjectivePerturbation:
                raise AdmmError(
                    f'learning.largest_jacobian is missing: privacy.mechanism = "{setting.mechanism}" needs it, '
                    "because its rounds have no epsilon of their own"
                )
            return penalised(shift, 1.0 / multiplier, per_curvature, w, dimension)
        phi, jacobian = curved(largest, per_curvature, w)
        return phi, self._noise_in_objective(shift, multiplier * shift, jacobian, dimension)
