"""What agents that wake on a Poisson clock and average their neighbours' newest models have in common.

Rules that hold here:
- A neighbour's model is zero until one is received; one that joins later has no weight until then (`Present`).
- The state that a release leaves behind is the released vector itself, so that a restarted agent goes on from what
  all others received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coordinator_free.agent import Activation, Setting
from coordinator_free.agents.checks import checked
from coordinator_free.agents.personal.present import Present
from coordinator_free.algorithm import Algorithm
from coordinator_free.inbox import used
from coordinator_free.problem.own_part import Received, own_part
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import AgentNumbers, Positive


@dataclass(frozen=True, kw_only=True)
class FinishNumbers(AgentNumbers):
    """Public numbers of an agent whose free finish is weighed by ``finish_mu``."""

    finish_mu: Positive | None = None
    """Weight of the own loss in the free finish. None: evidence weighs it."""


class Asynchronous(Algorithm):
    """The neighbours' models, the own one, and what was consumed; an algorithm adds ``wake`` and ``charge``."""

    activation: ClassVar[Activation] = Activation.POISSON
    newest_only: ClassVar[bool] = True
    finish_weight: ClassVar[str | None] = "finish_mu"
    finishes_by_evidence: ClassVar[bool] = True

    def __init__(self, setting: Setting, charged: int) -> None:
        self._setting = checked(setting, charged)
        self._problem = self._setting.problem
        own = FinishNumbers.of(setting.learning)
        self._finishes, self._finish_mu = own.finish, own.finish_mu
        self._present = Present(setting.weights, setting.neighbours, own.absent)
        self._place = {j: k for k, j in enumerate(setting.neighbours)}
        self._models = np.zeros((len(setting.neighbours), setting.dimension))
        self._model = np.zeros(setting.dimension)
        self._next = 0
        self._own_last: int | None = None
        self._consumed: list[Release] = []

    def start(self) -> Release | None:
        return None

    def receive(self, release: Release) -> None:
        place = self._place[release.sender]
        self._models[place] = release.vector
        self._present.arrived(place)
        self._consumed.append(release)

    def _mixture(self) -> FloatArray:
        """sum_j W_ij / D_ii Theta_j, shape (p,)."""
        mixture: FloatArray = self._present.mixing.dot(self._models)
        return mixture

    def _release(self, model: FloatArray) -> Release:
        """Make ``model`` the agent's state and its next release."""
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
        """argmin  1/2 |theta - sum_j W_ij/D_ii Theta_j|^2 + finish_mu c_i L_i(theta), with the real, unclipped data.

        Without ``finish_mu`` evidence weighs the neighbours' mean (`coordinator_free.problem.own_part`).
        """
        if not self._finishes:
            return None
        if self._finish_mu is None:
            return own_part(self._problem, Received.unknown(self._mixture()))
        return self._problem.proximal(self._mixture(), self._finish_mu * self._setting.confidence)

    def snapshot(self) -> dict[str, FloatArray]:
        return {"model": self._model, "index": np.array([-1.0 if self._own_last is None else self._own_last])}

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        self._models[:] = 0.0
        self._present.restart()
        self._consumed.clear()
        self._next = next_index
        if "model" in state and state["index"][0] >= 0:
            self._model, self._own_last = np.array(state["model"]), int(state["index"][0])
        else:
            self._model, self._own_last = np.zeros(self._setting.dimension), None
