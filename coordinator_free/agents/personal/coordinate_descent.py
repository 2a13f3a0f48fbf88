"""Asynchronous block coordinate descent, private or not (Bellet et al. 2018, sections 2.3 and 3.2).

At its tick agent i takes one gradient step on its block of the graph-regularised objective and releases its model
(Eq. 6; without noise it is Eq. 4, whose printed bracket is misplaced):

    Theta_i <- (1 - a) Theta_i + a ( sum_j W_ij/D_ii Theta_j - mu c_i (grad L_i(Theta_i) + noise) )

with a = 1 / (1 + mu c_i L), L the smoothness of L_i: a public number whenever there is a mechanism. Only the mean of
the clipped record gradients depends on the data, so a release, seen as a function of one record, moves by at most
a mu c_i 2 clip / m_i in the norm of the clip. Where rows have a public bound it may move less, by how much depends on
the agent's last release, which is public: the noise's scale follows that, and its multiplier is the same throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.asynchronous import Asynchronous
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.families import NORMS, mechanism
from coordinator_free.privacy.mechanism import REACH, Mechanism, boxed
from coordinator_free.privacy.noise import Streams
from coordinator_free.problem.public_model import PublicModelSensitivity
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import Positive, SettingError, Settings, StepNumbers


@dataclass(frozen=True, kw_only=True)
class CoordinateDescentSettings(Settings):
    """Of coordinate descent."""

    mu: Positive
    """Weight of the local losses against the graph's smoothness (Bellet et al. 2018, Eq. 2)."""
    finish_mu: Positive | None = None
    """Of the free finish. Default: evidence of the agent's own records weighs it."""
    start: Literal["zero", "local", "neighbours"] = "zero"
    """The first model. "neighbours": the mixture of what the neighbours have released; "local": the local model, only
    without privacy."""


class CoordinateDescent(Asynchronous):
    """One agent of coordinate descent."""

    name: ClassVar[str] = "coordinate-descent"
    settings: ClassVar[type[Settings] | None] = CoordinateDescentSettings
    needs_clip: ClassVar[bool] = True
    rate_is_known: ClassVar[bool] = True
    events: ClassVar[frozenset[str]] = frozenset({"join", "leave"})
    releases_its_model: ClassVar[bool] = True
    seeks_the_objective: ClassVar[bool] = True
    attacked_by: ClassVar[Attack] = Attack.COORDINATE_STEPS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, setting.updates)
        own, numbers = CoordinateDescentSettings.of(setting.learning), StepNumbers.of(setting.learning)
        self._pull = own.mu * setting.confidence  # mu c_i
        self._step = 1.0 / (1.0 + self._pull * numbers.smoothness)  # a
        self._norm = NORMS.get(setting.mechanism)
        self._clip = setting.clip or math.nan
        self._private = self._norm is not None and self._problem.records > 0
        self._moved = PublicModelSensitivity(
            self._problem.loss, self._clip, self._norm or "l2", setting.row_bound if self._norm is not None else None
        )
        self._follows = self._private and self._moved.follows
        self._noise = Streams(setting.secret, setting.starts)
        self._charges: dict[tuple[float, float], Mechanism] = {}  # by multiplier and what a record moves
        self._made: Mechanism | None = None
        self._start = own.start
        if self._start == "local" and self._norm is not None:
            raise SettingError(
                'learning.start = "local": a private run would release unprotected local models; use "zero"'
            )

    def start(self) -> Release | None:
        if self._start != "local" or self.finished:
            return None
        return self._release(self._problem.minimiser())

    def wake(self) -> Release | None:
        if self.finished:
            return None
        if self._start == "neighbours" and self._own_last is None:
            self._model = self._reachable(self._mixture())
        if self._norm is None:
            gradient = self._problem.gradient(self._model)
        else:
            gradient = self._problem.clipped_gradient(self._model, self._clip, self._norm)
        model = self._reachable(self._mixture())
        gradient *= self._pull
        model -= gradient
        model *= self._step
        model += (1.0 - self._step) * self._model
        made = self.made_with(self._next)
        if made is not None:
            model = made.perturb(model, self._noise[self._next])
        self._made = made
        return self._release(model)

    def _reachable(self, mixture: FloatArray) -> FloatArray:
        """The mixture, projected in place in a private run: beside larger numbers float64 would lose the grid."""
        if self._norm is not None:
            return boxed(mixture, REACH, mixture)
        return mixture

    @property
    def follows_its_model(self) -> bool:
        return self._follows

    def charge(self, index: int) -> Mechanism | None:
        if not self._private or index >= self._setting.updates:
            return None
        return self._mechanism(index, self._moved.largest)

    def made_with(self, index: int) -> Mechanism | None:
        if self._follows:
            if index == self._next < self._setting.updates:
                return self._mechanism(index, self._moved.at(self._model))
            if index == self._own_last and self._made is not None:
                return self._made
        return self.charge(index)

    def _mechanism(self, index: int, moved: float) -> Mechanism:
        """Of a release, where one record moves the sum of the gradients by ``moved``."""
        multiplier = float(self._setting.multipliers[index])
        found = self._charges.get((multiplier, moved))
        if found is None:
            sensitivity = self._step * self._pull * moved / self._problem.records
            found = mechanism(self._setting.mechanism, sensitivity, multiplier, self._setting.dimension)
            self._charges[multiplier, moved] = found
        return found

    def surrogate(self, curvature: float) -> tuple[float, FloatArray] | None:
        """With the gradient h L Theta - b, where h is ``curvature``, Eq. 6 is linear, and a mu c_i L = 1 - a."""
        weights = self._setting.weights
        if self._setting.updates == 0 or not len(weights):
            return 0.0, np.zeros_like(weights)
        return (1.0 - self._step) * (1.0 - curvature), self._step * weights / weights.sum()
