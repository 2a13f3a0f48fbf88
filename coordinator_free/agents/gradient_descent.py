"""Gradient descent in step: in every round each agent says a noisy gradient at the common model.

    theta(t+1) = theta(t) - h sum_j (n_j/n) (clipped mean gradient of agent j at theta(t) + noise)

The common model is a function of what was said, so every agent has it. One record moves agent j's gradient by 2G/n_j,
and the sum by 2G/n (Kang, Liu and Wang, section 3; the observer decides which of them counts).
"""

from __future__ import annotations

from typing import ClassVar

from coordinator_free.agent import Setting
from coordinator_free.agents.aggregating import Aggregating
from coordinator_free.privacy.mechanisms import NORMS, Mechanism
from coordinator_free.release import FloatArray


class GradientDescent(Aggregating):
    """One agent; parameters in ``setting.learning`` as in `Aggregating`. ``updates`` steps from zero."""

    name: ClassVar[str] = "gradient-descent"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, setting.updates)

    @staticmethod
    def charged(updates: int) -> int:
        return updates

    @staticmethod
    def stages(updates: int) -> int:
        return updates

    def _contribution(self, stage: int) -> tuple[FloatArray, Mechanism | None]:
        setting, problem = self._setting, self._problem
        if setting.mechanism == "none":
            return problem.gradient(self._model), None
        gradient = problem.clipped_gradient(self._model, float(setting.clip or 0.0), NORMS[setting.mechanism])
        return gradient, self._stage_charge(stage) if self._private else None

    def _stage_charge(self, stage: int) -> Mechanism | None:
        if not self._private:
            return None
        multiplier = float(self._setting.multipliers[stage])
        moved = 2.0 * float(self._setting.clip or 0.0)
        share = float(self._shares[self._setting.agent])
        own, total = self._problem.records, sum(self._sizes)
        if self._observer == "sum":
            # The sum must be private whoever holds the record: the largest share per record counts.
            largest = max(s / size for s, size in zip(self._shares, self._sizes, strict=True) if size)
            return self._sum_charge(moved * float(max(largest, share / own)), multiplier)
        return self._release_charge(moved / own, moved / total, multiplier)

    def _apply(self, stage: int, average: FloatArray) -> None:  # noqa: ARG002
        self._model = self._model - self._step * average
