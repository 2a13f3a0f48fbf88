"""Asynchronous block coordinate descent, private or not (Bellet et al. 2018, sections 2.3 and 3.2).

At its tick agent i takes one gradient step on its block of the graph-regularised objective and releases its model
(Eq. 6; without noise it is Eq. 4, whose printed bracket is misplaced):

    Theta_i <- (1 - a) Theta_i + a ( sum_j W_ij/D_ii Theta_j - mu c_i (grad L_i(Theta_i) + noise) )

with a = 1 / (1 + mu c_i L), L the smoothness of L_i: a public number whenever there is a mechanism. Only the mean of
the clipped record gradients depends on the data, so a release, seen as a function of one record, moves by at most
a mu c_i 2 clip / m_i in the norm of the clip. Where rows have a public bound it may move less, by how much depends on
the agent's last release, which is public: the noise's scale follows that, and its multiplier is the same throughout.

Where records arrive during the run, L_i, c_i, L and m_i are those of the records that the update uses (`arriving`). As
c_i is a multiple of m_i, a record that is used moves a release by a mu c_i 2 clip / m_i with the c_i and m_i of all
records at every time, and only a changes; a record that is not used moves it by nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.arriving import Arriving
from coordinator_free.agents.personal.asynchronous import Asynchronous
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.families import NORMS, mechanism
from coordinator_free.privacy.mechanism import REACH, Mechanism, boxed
from coordinator_free.privacy.noise import Streams
from coordinator_free.privacy.windows import Windows
from coordinator_free.problem.objective import LocalProblem
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


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """What an update does with its records: ``pull`` is mu c_i, ``step`` is a."""

    problem: LocalProblem
    pull: float
    step: float


class CoordinateDescent(Asynchronous):
    """One agent of coordinate descent."""

    name: ClassVar[str] = "coordinate-descent"
    settings: ClassVar[type[Settings] | None] = CoordinateDescentSettings
    needs_clip: ClassVar[bool] = True
    rate_is_known: ClassVar[bool] = True
    events: ClassVar[frozenset[str]] = frozenset({"join", "leave"})
    takes_arrivals: ClassVar[bool] = True
    releases_its_model: ClassVar[bool] = True
    seeks_the_objective: ClassVar[bool] = True
    attacked_by: ClassVar[Attack] = Attack.COORDINATE_STEPS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, setting.updates)
        own, numbers = CoordinateDescentSettings.of(setting.learning), StepNumbers.of(setting.learning)
        self._mu, self._smoothness = own.mu, numbers.smoothness
        self._arriving = Arriving.of(self._problem, setting.learning, setting.updates)
        self._steps: _Step | None = None
        self._norm = NORMS.get(setting.mechanism)
        self._clip = setting.clip or math.nan
        self._private = self._norm is not None and self._problem.records > 0
        self._moved = PublicModelSensitivity(
            self._problem.loss, self._clip, self._norm or "l2", setting.row_bound if self._norm is not None else None
        )
        self._follows = self._private and self._moved.follows
        self._noise = Streams(setting.secret, setting.starts)
        self._charges: dict[tuple[float, float], Mechanism] = {}  # by multiplier and sensitivity
        self._made: Mechanism | None = None
        self._start = own.start
        if self._start == "local" and (self._norm is not None or self._arriving.windows):
            why = "a private run would release unprotected local models" if self._norm else "records are yet to arrive"
            raise SettingError(f'learning.start = "local": {why}; use "zero"')

    def start(self) -> Release | None:
        if self._start != "local" or self.finished:
            return None
        return self._release(self._problem.minimiser())

    def wake(self) -> Release | None:
        if self.finished:
            return None
        if self._start == "neighbours" and self._own_last is None:
            self._model = self._reachable(self._mixture())
        own = self._at(self._next)
        if self._norm is None:
            gradient = own.problem.gradient(self._model)
        else:
            gradient = own.problem.clipped_gradient(self._model, self._clip, self._norm)
        model = self._reachable(self._mixture())
        gradient *= own.pull
        model -= gradient
        model *= own.step
        model += (1.0 - own.step) * self._model
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

    @property
    def windows(self) -> Windows:
        return self._arriving.windows

    def _at(self, index: int) -> _Step:
        """The step of update ``index``, for the records that it uses."""
        stage, known = self._arriving.at(index), self._steps
        if known is None or known.problem is not stage.problem:
            pull = self._mu * self._setting.confidence * stage.share
            smoothness = self._smoothness + 2.0 * (stage.problem.regularisation - self._problem.regularisation)
            known = self._steps = _Step(stage.problem, pull, 1.0 / (1.0 + pull * smoothness))
        return known

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

    def _mechanism(self, index: int, moved: float) -> Mechanism | None:
        """Of a release, where one record moves the sum of the gradients by ``moved``; None where it uses no record."""
        own = self._at(index)
        if own.problem.records == 0:
            return None
        multiplier = float(self._setting.multipliers[index])
        sensitivity = own.step * own.pull * moved / own.problem.records
        found = self._charges.get((multiplier, sensitivity))
        if found is None:
            found = mechanism(self._setting.mechanism, sensitivity, multiplier, self._setting.dimension)
            self._charges[multiplier, sensitivity] = found
        return found

    def surrogate(self, curvature: float) -> tuple[float, FloatArray] | None:
        """With the gradient h L Theta - b, where h is ``curvature``, Eq. 6 is linear, and a mu c_i L = 1 - a."""
        weights = self._setting.weights
        if self.windows:
            return None
        if self._setting.updates == 0 or not len(weights):
            return 0.0, np.zeros_like(weights)
        step = self._at(0).step
        return (1.0 - step) * (1.0 - curvature), step * weights / weights.sum()
