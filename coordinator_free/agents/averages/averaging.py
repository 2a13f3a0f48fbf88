"""Learn alone with noise, then average once: the algorithm of Kang, Liu and Wang (WD-DP), without their server.

Each agent makes one vector of its own records, the only release that is charged:

- ``local = "gradient-descent"``: T steps  theta <- theta - h (clipped mean gradient + N(0, s^2))  from zero, and the
  last iterate, or the average of the last half (``iterate = "tail"``);
- ``local = "output-perturbation"`` or ``"objective-perturbation"``: the minimiser, perturbed once (see
  `coordinator_free.agents.personal.anchors`).

The vectors' weighted average is the model of all agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.agents.averages.arrangement import AggregatingSettings, AggregationError
from coordinator_free.agents.checks import longer_row
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.privacy.noise import Stream, standard_normal
from coordinator_free.privacy.observer import composition, contraction
from coordinator_free.release import FloatArray
from coordinator_free.settings import Count, Positive, Settings


@dataclass(frozen=True)
class Descent:
    """The public numbers of the agent's steps; ``deviation`` is that of the noise in one step of the model."""

    steps: int
    step: float
    deviation: float
    tail: bool


@dataclass(frozen=True, kw_only=True)
class AveragingSettings(AggregatingSettings):
    """Of one average of local models."""

    local: Literal["gradient-descent", "output-perturbation", "objective-perturbation"] = "gradient-descent"
    """What an agent does before the average."""
    local_steps: Count | None = None
    """Default: ``clock.updates``."""
    iterate: Literal["last", "tail"] = "last"
    """The last iterate, or the mean of the last half."""
    amplification: bool = False
    """Account for the last iterate alone; refused where that does not hold."""
    anchor_regularisation: Positive = 1.0
    """Of a perturbed minimiser."""

    def idle(self) -> Mapping[str, str]:
        found = dict(super().idle())
        if self.local == "gradient-descent":
            return found | {
                "anchor_regularisation": 'learning.local = "gradient-descent" has no minimiser to regularise'
            }
        why = f'learning.local = "{self.local}" makes no steps'
        return found | dict.fromkeys(("local_steps", "iterate", "amplification"), why)

    @property
    def anchor(self) -> AnchorSettings | None:
        """Of the perturbed minimiser; None: the agent makes steps."""
        if self.local == "gradient-descent":
            return None
        return AnchorSettings(anchor=self.local, anchor_regularisation=self.anchor_regularisation)


class Averaging(Aggregating):
    """One agent; ``local_steps`` steps of its own, then one weighted average."""

    name: ClassVar[str] = "averaging"
    settings: ClassVar[type[Settings] | None] = AveragingSettings
    allocates: ClassVar[bool] = False
    attacked_by: ClassVar[Attack] = Attack.LOCAL_STEPS

    def __init__(self, setting: Setting) -> None:
        own = AveragingSettings.of(setting.learning)
        self._iterate, self._amplified = own.iterate, own.amplification
        self._steps = own.local_steps or setting.updates
        super().__init__(setting, 1)
        self._anchor: Anchor | None = None
        if own.anchor is not None:
            if self._observer != "releases":
                raise AggregationError(
                    f'privacy.observer = "{self._observer}": learning.local = "{own.local}" is accounted for '
                    'observer = "releases" only'
                )
            self._anchor = Anchor(
                setting, own.anchor if setting.mechanism != "none" else AnchorSettings(anchor="local")
            )
        elif self._private:
            self._factor = self._composition()

    @staticmethod
    def charged(updates: int) -> int:  # noqa: ARG004
        return 1

    @staticmethod
    def stages(updates: int) -> int:  # noqa: ARG004
        return 1

    @staticmethod
    def calibrate(
        mechanism: str,
        releases: int,  # noqa: ARG004
        epsilon: float,
        delta: float,
        learning: Mapping[str, Any],
        dimension: int,  # noqa: ARG004
    ) -> FloatArray | None:
        """The local model's, as an anchor's. None: as for any single release."""
        own = AveragingSettings.of(learning).anchor
        return None if own is None else Anchor.calibrate(mechanism, epsilon, delta, own, learning)

    def _composition(self) -> float:
        """What T steps cost in units of one; raises `AggregationError` where amplification does not hold."""
        setting, judge = self._setting, self._problem.loss
        if setting.mechanism != "gaussian":
            raise AggregationError(f'privacy.mechanism = "{setting.mechanism}": noisy steps need "gaussian"')
        if self._observer == "sum":
            raise AggregationError(
                'privacy.observer = "sum": local steps are accounted for each release; use gradient-descent'
            )
        if not self._amplified:
            return composition(self._steps)
        if self._iterate != "last" or judge.name != "logistic":
            raise AggregationError(
                "learning.amplification = true: holds for the last iterate of a convex loss, not for "
                f'"{self._iterate}" and "{judge.name}"'
            )
        row_bound = float(setting.clip or 0.0) / judge.slope_bound
        if longer_row(self._problem, row_bound):
            raise AggregationError(
                f"learning.amplification = true: a row is longer than privacy.clip allows ({row_bound:g}), so "
                "gradients would be clipped; scale the rows, or raise the clip"
            )
        convexity = 2.0 * self._problem.regularisation
        kept = contraction(self._step, convexity, judge.curvature_bound * row_bound**2)
        if not kept < 1.0:
            raise AggregationError(
                f"learning.amplification = true: a step of {self._step:g} with strong convexity {convexity:g} does not "
                "contract; use a regularisation above 0 and a step below 2/L"
            )
        return composition(self._steps, kept)

    def _stage_charge(self, stage: int) -> Mechanism | None:  # noqa: ARG002
        """All T steps together cost as much as one Gaussian release of this sensitivity and scale.

        Both are in units of one step, h times the gradient. The release is rounded to the grid after the noise, which
        is post-processing.
        """
        if not self._private:
            return None
        if self._anchor is not None:
            return self._anchor.charge()
        moved = self._step * 2.0 * float(self._setting.clip or 0.0) / self._counted()
        return Gaussian(moved, float(self._setting.multipliers[0]) * moved)

    def descent(self) -> Descent | None:
        """The public numbers of the noisy steps, for an auditor; None where there are none."""
        due = self._stage_charge(0)
        if due is None or self._anchor is not None:
            return None
        return Descent(self._steps, self._step, self._factor * due.scale, self._iterate == "tail")

    def _counted(self) -> int:
        """The records that the noise is calibrated to."""
        return sum(self._sizes) if self._observer == "as_published" else self._problem.records

    def _contribution(self, stage: int) -> tuple[FloatArray, Mechanism | None]:
        if self._anchor is not None:
            return self._anchor.vector(self.charge(0)), None
        due = self._stage_charge(stage)
        noise: FloatArray | None = None
        if due is not None:
            shape = self._steps, self._setting.dimension
            noise = standard_normal(Stream(self._secret(stage), stage), shape[0] * shape[1]).reshape(shape)
            noise *= self._factor * due.scale
        vector = self._descend(noise)
        if due is not None:
            vector = np.rint(vector / GRID) * GRID + 0.0
        return vector, None

    def _descend(self, noise: FloatArray | None) -> FloatArray:
        """``noise`` is that of each step, already times h; shape (T, p)."""
        setting, step = self._setting, self._step
        theta = np.zeros(setting.dimension)
        tail, kept = np.zeros(setting.dimension), 0
        for t in range(self._steps):
            if setting.mechanism == "none":
                gradient = self._problem.gradient(theta)
            else:
                gradient = self._problem.clipped_gradient(theta, float(setting.clip or 0.0), NORMS[setting.mechanism])
            theta = theta - step * gradient
            if noise is not None:
                theta = theta - noise[t]
            if 2 * t >= self._steps - 1:
                tail, kept = tail + theta, kept + 1
        return tail / kept if self._iterate == "tail" else theta

    def _apply(self, stage: int, average: FloatArray) -> None:  # noqa: ARG002
        self._model = average
