"""Gradient descent in step: in every round each agent releases a noisy gradient at the common model.

    v(t+1)     = momentum v(t) + sum_j (n_j/n) (clipped mean gradient of agent j at theta(t) + noise)
    theta(t+1) = theta(t) - h v(t+1)

and the model is the last iterate, or the mean of the last half. Momentum and mean are computed from releases, so they
cost no privacy, and with momentum fewer noisy rounds are needed. So is the common model: every agent has it.

One record moves agent j's gradient by 2G/n_j, and the sum by 2G/n (Kang, Liu and Wang, section 3); the observer decides
which of them counts. Where rows have a public bound and every release is seen, the noise's scale follows what one
record can do at the common model, which is public. In a masked sum it does not: there the noise of one agent protects
the others too, and a neighbour may lead agents to different models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Lt

from coordinator_free.agent import Setting
from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.agents.averages.arrangement import AggregatingSettings
from coordinator_free.privacy.families import NORMS, deviation
from coordinator_free.privacy.mechanism import Mechanism, boxed
from coordinator_free.privacy.observer import shared_deviation
from coordinator_free.problem.own_part import Received, curvature
from coordinator_free.problem.public_model import PublicModelSensitivity
from coordinator_free.release import FloatArray
from coordinator_free.settings import Settings
from coordinator_free.theory.descent import mean_of_iterates


@dataclass(frozen=True, kw_only=True)
class GradientDescentSettings(AggregatingSettings):
    """Of gradient descent in step."""

    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Computed from what was released, so it costs no privacy."""
    iterate: Literal["last", "tail"] = "last"
    """The last iterate, or the mean of the last half."""


class GradientDescent(Aggregating):
    """One agent; ``updates`` steps from zero."""

    name: ClassVar[str] = "gradient-descent"
    settings: ClassVar[type[Settings] | None] = GradientDescentSettings
    descends: ClassVar[bool] = True

    _iterate: FloatArray
    _velocity: FloatArray
    _kept: int
    _deviations: FloatArray

    def __init__(self, setting: Setting) -> None:
        own = GradientDescentSettings.of(setting.learning)
        self._momentum, self._tail = own.momentum, own.iterate == "tail"
        super().__init__(setting, setting.updates)
        norm = NORMS.get(setting.mechanism)
        bound = setting.row_bound if norm is not None else None
        self._moved = PublicModelSensitivity(self._problem.loss, float(setting.clip or 0.0), norm or "l2", bound)

    @staticmethod
    def charged(updates: int) -> int:
        return updates

    @staticmethod
    def stages(updates: int) -> int:
        return updates

    def _contribution(self, stage: int) -> tuple[FloatArray, Mechanism | None]:
        setting, problem = self._setting, self._problem
        if setting.mechanism == "none":
            return problem.gradient(self._iterate), None
        gradient = problem.clipped_gradient(self._iterate, float(setting.clip or 0.0), NORMS[setting.mechanism])
        return gradient, self._stage_charge(stage) if self._private else None

    def _stage_charge(self, stage: int) -> Mechanism | None:
        return self._mechanism(stage, self._moved.largest) if self._private else None

    @property
    def follows_its_model(self) -> bool:
        return self._private and self._observer == "releases" and self._moved.follows

    def made_with(self, index: int) -> Mechanism | None:
        charge = self.charge(index)
        if charge is None or not self.follows_its_model or index not in (self._next, self._own_last):
            return charge
        return self._mechanism(self._place(index)[0], self._moved.at(self._iterate))

    def _mechanism(self, stage: int, moved: float) -> Mechanism:
        """Of one average, where one record moves the sum of an agent's gradients by ``moved``."""
        multiplier = float(self._setting.multipliers[stage])
        share = float(self._shares[self._setting.agent])
        own, total = self._problem.records, sum(self._sizes)
        if self._observer == "sum":
            # The sum must be private for a record of any agent: the largest share per record counts.
            largest = max(s / size for s, size in zip(self._shares, self._sizes, strict=True) if size)
            return self._sum_charge(moved * float(max(largest, share / own)), multiplier)
        return self._release_charge(moved / own, moved / total, multiplier)

    def _apply(self, stage: int, average: FloatArray) -> None:
        self._deviations[stage] = self._deviation(stage)
        self._velocity = self._momentum * self._velocity + average
        self._iterate = boxed(self._iterate - self._step * self._velocity, self._reach)
        if not self._tail:
            self._model = self._iterate
        elif 2 * stage >= self._stages - 1:
            self._kept += 1
            self._model = self._model + (self._iterate - self._model) / self._kept

    def _deviation(self, stage: int) -> float:
        """Of the noise in each number of the average of gradients at the present iterate: a public number.

        Agents with budgets of their own are taken to have this agent's multipliers.
        """
        if not len(self._setting.multipliers):
            return 0.0
        multiplier, sizes = float(self._setting.multipliers[stage]), np.array(self._sizes, dtype=np.float64)
        filled = sizes > 0
        if self._observer == "sum":
            share = float((self._shares[filled] / sizes[filled]).max())
            noisy, missing = self._numbers.noisy, self._numbers.missing
            return shared_deviation(multiplier * self._moved.largest * share, noisy, missing) * math.sqrt(noisy)
        each = self._shares[filled] / (sizes[filled] if self._observer == "releases" else sizes.sum())
        moved = self._moved.at(self._iterate) if self._observer == "releases" else self._moved.largest
        unit = deviation(self._setting.mechanism, self._setting.dimension)
        return unit * multiplier * moved * math.sqrt(float(each @ each))

    def _heard(self) -> Received:
        """The model as a mean of noisy iterates, with the curvature that the agent's own records show."""
        steps = np.arange(self._stages)
        counted = 2 * steps >= self._stages - 1 if self._tail else steps == self._stages - 1
        curvatures, basis = np.linalg.eigh(curvature(self._problem, self._model))
        np.clip(curvatures, 0.0, 2.0 / self._step, out=curvatures)
        found = mean_of_iterates(curvatures, self._step, self._momentum, counted / counted.sum())
        return Received(self._model, basis, found.kept, self._deviations**2 @ found.weights**2)

    def snapshot(self) -> dict[str, FloatArray]:
        state = {
            "iterate": self._iterate.copy(),
            "velocity": self._velocity.copy(),
            "kept": np.array([float(self._kept)]),
            "deviations": self._deviations.copy(),
        }
        return super().snapshot() | state

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        super().restore(state, next_index)
        if state:
            self._iterate, self._velocity = np.array(state["iterate"]), np.array(state["velocity"])
            self._kept = int(state["kept"][0])
            self._deviations = np.array(state.get("deviations", self._deviations))

    def _reset(self, next_index: int) -> None:
        super()._reset(next_index)
        self._iterate = np.zeros(self._setting.dimension)
        self._velocity = np.zeros(self._setting.dimension)
        self._kept = 0
        self._deviations = np.zeros(self._stages)
