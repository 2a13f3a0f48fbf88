"""PVP: the minimiser is perturbed before it is released (Zhang and Zhu 2017, Algorithm 3).

    f_i(t+1) = argmin  [the objective of Algorithm 1],      V_i(t+1) = f_i(t+1) + noise

Two forms (``pvp_form``):
- "own-release", the default: the penalty term holds the agent's own *released* V_i(t). Nothing unreleased enters a
  later step, so every round is an output perturbation of sensitivity 2 C L / (m (rho_i + 2 eta N)) in L2: the objective
  is (rho_i + 2 eta N)-strongly convex and its gradient moves by at most 2 C L / m.
- "as_published": the term holds f_i(t) - noise(t) (Eq. 22), with the unreleased minimiser. Given all releases it is
  still a function of the agent's records, whose sensitivity grows: D(1) = 2 C L / (m w), D(t+1) = (2 C L / m +
  2 eta N D(t)) / w, w = rho_i + 2 eta N. The noise's scale is the printed one, 2 C / (rho_i m) times the multiplier,
  which lies above D(t) for every t; the charge says D(t). The sign of the correction makes the agent's own noise come
  back as +2 eta N e: this form diverges at the paper's constants. It is here to be measured.

With ``last_round = "dvp"`` the last round perturbs the dual instead (Algorithm 3, lines 14 and 15).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.perturbed_rounds import PerturbedRounds
from coordinator_free.agents.admm.settings import AdmmSettings
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import GRID, Mechanism, boxed
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.release import FloatArray
from coordinator_free.settings import Settings


@dataclass(frozen=True, kw_only=True)
class PrimalPerturbationSettings(AdmmSettings):
    """Of primal variable perturbation."""

    pvp_form: Literal["own-release", "as_published"] = "own-release"
    """Whether the penalty pulls to the agent's own release, or as printed."""
    last_round: Literal["same", "dvp"] = "same"
    """Whether the last round perturbs the dual instead. Its part of the budget is fixed; the others are allocated."""


class PrimalPerturbation(PerturbedRounds):
    """One agent of primal variable perturbation. Mechanism "gaussian" or "gamma-norm"."""

    name: ClassVar[str] = "pvp"
    settings: ClassVar[type[Settings] | None] = PrimalPerturbationSettings
    mechanisms: ClassVar[tuple[str, ...]] = ("gaussian", "gamma-norm")
    varying_penalty: ClassVar[bool] = True

    def __init__(self, setting: Setting) -> None:
        own = PrimalPerturbationSettings.of(setting.learning)
        self._as_published = own.pvp_form == "as_published"
        self._last_differs = own.last_round == "dvp"
        super().__init__(setting)

    @classmethod
    def own_noise(cls, learning: Mapping[str, Any]) -> bool:
        return PrimalPerturbationSettings.of(learning).last_round == "dvp"

    @classmethod
    def bought(
        cls, setting: Setting, budget: tuple[float, float], jacobians: list[float], shares: FloatArray
    ) -> tuple[FloatArray, float] | None:
        from coordinator_free.privacy.objective_budget import buy_with_a_last

        return buy_with_a_last(setting.mechanism, shares[:-1].tolist(), jacobians[-1], *budget, setting.dimension)

    def _anchor(self) -> FloatArray:
        if not self._as_published:
            return self._own
        return 2.0 * self._minimiser - self._own  # f - e = f - (V - f)

    def _next_release(self, index: int) -> FloatArray:
        if self._is_dual(index):
            return self._dual_round(index)
        minimiser = self._minimise(index, self._linear(index))
        if self._as_published:
            self._minimiser = boxed(minimiser)
        charge = self.charge(index)
        if charge is not None:
            return charge.perturb(minimiser, self._setting.stream(index))
        return minimiser if self._setting.mechanism == "none" else self._on_grid(minimiser)

    def _is_dual(self, index: int) -> bool:
        return self._last_differs and index == self._setting.updates - 1

    def _dual_round(self, index: int) -> FloatArray:
        own = self._minimiser if self._as_published else self._own
        linear: FloatArray = len(self._place) * own + self._others.sum(axis=0)
        linear *= -self._penalties[index]
        linear += 2.0 * self._dual
        phi = 0.0
        if self._private:
            phi, perturbation = self._perturbation(index)
            linear = linear + perturbation.noise(self._setting.dimension, self._setting.stream(index))
        minimiser = self._minimise(index, linear, phi)
        return minimiser if self._setting.mechanism == "none" else self._on_grid(minimiser)

    def _perturbation(self, index: int) -> tuple[float, ObjectivePerturbation]:
        shift = self._gradient_shift()
        if self._as_published and index > 0:
            # As printed it starts from the unreleased minimiser, which moves too.
            shift += self._penalties[index] * len(self._place) * self.sensitivity(index - 1)
        return self._perturbed(index, shift)

    def sensitivity(self, index: int) -> float:
        """Of the exact minimiser of round ``index`` given all earlier releases, in L2."""
        shift = self._gradient_shift()
        if not self._as_published:
            return shift / self.curvature(index)
        moved = 0.0
        for t in range(index + 1):
            moved = (shift + 2.0 * self._penalties[t] * len(self._place) * moved) / self.curvature(t)
        return float(moved)

    def charge(self, index: int) -> Mechanism | None:
        if not self._private:
            return None
        if self._is_dual(index):
            return self._perturbation(index)[1]
        multiplier, dimension = float(self._setting.multipliers[index]), self._setting.dimension
        if not self._as_published:
            return mechanism(self._setting.mechanism, self.sensitivity(index), multiplier, dimension)
        rounding = math.sqrt(dimension) * GRID
        scale = multiplier * (self._gradient_shift() / self._rho + rounding)
        booked = self.sensitivity(index) + rounding
        return Gaussian(booked, scale) if self._setting.mechanism == "gaussian" else GammaNorm(booked, scale, dimension)

    def _reset(self, next_index: int) -> None:
        super()._reset(next_index)
        self._minimiser = self._own.copy()  # f(0) = V(0): the start has no noise

    def snapshot(self) -> dict[str, FloatArray]:
        return super().snapshot() | ({"minimiser": self._minimiser} if self._as_published else {})

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        super().restore(state, next_index)
        if "minimiser" in state:
            self._minimiser = np.array(state["minimiser"])
