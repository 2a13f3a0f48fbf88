"""Asynchronous block coordinate descent, private or not (Bellet et al. 2018, sections 2.3 and 3.2).

At its tick agent i takes one gradient step on its block of the graph-regularised objective and tells its neighbours
(Eq. 6; without noise it is Eq. 4, whose printed bracket is misplaced):

    Theta_i <- (1 - a) Theta_i + a ( sum_j W_ij/D_ii Theta_j - mu c_i (grad L_i(Theta_i) + noise) )

with a = 1 / (1 + mu c_i L), L the smoothness of L_i: a public number whenever there is a mechanism. Only the mean of
the clipped record gradients depends on the data, so a release, seen as a function of one record, moves by at most
a mu c_i 2 clip / m_i in the norm of the clip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from coordinator_free.agent import Activation, Setting
from coordinator_free.agents.settings import checked
from coordinator_free.inbox import used
from coordinator_free.privacy.mechanisms import NORMS, Mechanism, mechanism
from coordinator_free.privacy.noise import Stream
from coordinator_free.release import FloatArray, Release


class CoordinateDescent:
    """One agent of coordinate descent.

    Parameters in ``setting.learning``: ``mu``, ``smoothness`` (of L_i, as a number), ``finish`` (bool), ``finish_mu``.
    Its neighbours' models are zero until they are heard.
    """

    name: ClassVar[str] = "coordinate-descent"
    activation: ClassVar[Activation] = Activation.POISSON
    newest_only: ClassVar[bool] = True
    addressed: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self._setting = checked(setting)
        self._problem = setting.problem
        self._pull = float(setting.learning["mu"]) * setting.confidence  # mu c_i
        self._step = 1.0 / (1.0 + self._pull * float(setting.learning["smoothness"]))  # a
        self._mixing = setting.weights / setting.weights.sum()  # W_ij / D_ii
        self._place = {j: k for k, j in enumerate(setting.neighbours)}
        self._models = np.zeros((len(setting.neighbours), setting.dimension))
        self._model = np.zeros(setting.dimension)
        self._next = 0
        self._own_last: int | None = None
        self._consumed: list[Release] = []
        self._norm = NORMS.get(setting.mechanism)
        self._clip = setting.clip or math.nan
        self._private = self._norm is not None and self._problem.records > 0

    def start(self) -> Release | None:
        return None

    def receive(self, release: Release) -> None:
        self._models[self._place[release.sender]] = release.vector
        self._consumed.append(release)

    def wake(self) -> Release | None:
        if self.finished:
            return None
        if self._norm is None:
            gradient = self._problem.gradient(self._model)
        else:
            gradient = self._problem.clipped_gradient(self._model, self._clip, self._norm)
        model: FloatArray = self._mixing @ self._models
        gradient *= self._pull
        model -= gradient
        model *= self._step
        model += (1.0 - self._step) * self._model
        charge = self.charge(self._next)
        if charge is not None:
            model = charge.perturb(model, Stream(self._setting.secret, self._next))
        release = Release(
            sender=self._setting.agent,
            index=self._next,
            vector=model,
            used=used(self._consumed, self._setting.agent, self._own_last),
        )
        self._model, self._own_last, self._next = model, self._next, self._next + 1
        self._consumed.clear()
        return release

    @property
    def finished(self) -> bool:
        return self._next >= self._setting.updates

    @property
    def model(self) -> FloatArray:
        return self._model

    def finish(self) -> FloatArray | None:
        """argmin  1/2 |theta - sum_j W_ij/D_ii Theta_j|^2 + finish_mu c_i L_i(theta), with the real, unclipped data."""
        if not self._setting.learning.get("finish", False):
            return None
        pull = float(self._setting.learning["finish_mu"]) * self._setting.confidence
        return self._problem.proximal(self._mixing @ self._models, pull)

    def charge(self, index: int) -> Mechanism | None:
        if not self._private:
            return None
        sensitivity = self._step * self._pull * 2.0 * self._clip / self._problem.records
        return mechanism(
            self._setting.mechanism, sensitivity, float(self._setting.multipliers[index]), self._setting.dimension
        )

    def snapshot(self) -> dict[str, FloatArray]:
        return {"model": self._model, "index": np.array([-1.0 if self._own_last is None else self._own_last])}

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        self._models[:] = 0.0
        self._consumed.clear()
        self._next = next_index
        if "model" in state and state["index"][0] >= 0:
            self._model, self._own_last = np.array(state["model"]), int(state["index"][0])
        else:
            self._model, self._own_last = np.zeros(self._setting.dimension), None
