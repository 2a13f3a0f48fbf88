"""Gossip ADMM (Vanhaesebrouck, Bellet and Tommasi 2017, section 4.2): the non-private competitor of coordinate descent.

Each agent holds its own model and a copy of each neighbour's, and an edge e = (i, j) ties the four together:

    min sum_i [ 1/4 sum_j W_ij |Theta_i^i - Theta_i^j|^2 + mu D_ii c_i L_i(Theta_i^i) ]
    subject to  Theta_i^i = Z_e^i = Theta_j^i,  Theta_j^j = Z_e^j = Theta_i^j   for every edge

whose minimum is that of Bellet et al. (2018), Eq. 2. At its tick an agent takes some gradient steps on its augmented
Lagrangian and exchanges, with one random neighbour, both models and both duals of their edge: four vectors of p numbers
each way, as published (Lambda / rho + Theta would be enough, two vectors). Then both ends update the edge alike:

    Z_e^i <- 1/2 ( (Lambda_i^i + Lambda_j^i) / rho + Theta_i^i + Theta_j^i ),   Lambda_i^i += rho (Theta_i^i - Z_e^i)

Rules that hold here:
- An exchange is one message each way, numbered on its edge, in any order; each end updates with what it sent, so both
  ends agree whatever happened on other edges in between.
- An agent that was asked answers at its next tick, before it asks another one.
- Nothing protects a release: no private run accepts this algorithm. A restarted agent begins again; the edges that its
  neighbours remember otherwise then keep the run from the exact optimum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from coordinator_free.agent import Activation, Setting
from coordinator_free.agents.checks import checked
from coordinator_free.algorithm import Algorithm
from coordinator_free.inbox import used
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import Count, Positive, SettingError, Settings, StepNumbers

GOSSIP = 0x676F73
"""Keeps the choice of neighbours apart from the other uses of the same seed."""


@dataclass(frozen=True, kw_only=True)
class GossipAdmmSettings(Settings):
    """Of gossip ADMM."""

    mu: Positive
    """Weight of the local losses against the graph's smoothness (Bellet et al. 2018, Eq. 2)."""
    rho: Positive = 1.0
    """The penalty."""
    local_steps: Count = 10
    """Gradient steps before a message."""
    start: Literal["zero", "local"] = "zero"
    """The first model."""


class GossipAdmm(Algorithm):
    """One agent of gossip ADMM.

    A release's vector has 4 p + 1 numbers: the exchange's number on its edge, Theta_i^i, Theta_i^j, Lambda_i^i and
    Lambda_i^j.
    """

    name: ClassVar[str] = "gossip-admm"
    settings: ClassVar[type[Settings] | None] = GossipAdmmSettings
    activation: ClassVar[Activation] = Activation.POISSON
    addressed: ClassVar[bool] = True
    resumes: ClassVar[bool] = False
    mechanisms: ClassVar[tuple[str, ...]] = ()
    finishes: ClassVar[bool] = False
    seeks_the_objective: ClassVar[bool] = True

    def __init__(self, setting: Setting) -> None:
        self._setting = checked(setting, 0)
        if setting.mechanism != "none":
            raise SettingError(f'privacy.mechanism = "{setting.mechanism}": gossip-admm accepts only "none"')
        own, numbers = GossipAdmmSettings.of(setting.learning), StepNumbers.of(setting.learning)
        self._rho, self._steps, self._start = own.rho, own.local_steps, own.start
        self._seed = numbers.seed  # of the choice of neighbours
        self._pull = own.mu * float(setting.weights.sum()) * setting.confidence  # mu D_ii c_i
        half = setting.weights / 2.0
        self._pair = half / (half + self._rho)  # how much of the own model is in the best copy of a neighbour's
        # Of the augmented Lagrangian in the own model, the copies being at their best.
        bend = self._rho * float(self._pair.sum()) + self._rho * half.size
        self._step = 1.0 / (bend + self._pull * numbers.smoothness)
        self._place = {j: k for k, j in enumerate(setting.neighbours)}
        self._begin(0)

    @staticmethod
    def release_dimension(dimension: int) -> int:
        """The length of a release's vector for models of that dimension."""
        return 4 * dimension + 1

    @staticmethod
    def model_in(vector: FloatArray, dimension: int) -> FloatArray:
        """Theta_i^i, shape (dimension,)."""
        return vector[1 : 1 + dimension]

    def _begin(self, next_index: int) -> None:
        edges, p = len(self._place), self._setting.dimension
        self._model = self._setting.problem.minimiser() if self._start == "local" else np.zeros(p)
        self._copies = np.tile(self._model, (edges, 1))
        self._own_mean, self._other_mean = self._copies.copy(), self._copies.copy()  # Z_e^i, Z_e^j
        self._own_dual, self._other_dual = np.zeros((edges, p)), np.zeros((edges, p))  # Lambda_i^i, Lambda_i^j
        self._sent: list[tuple[FloatArray, FloatArray] | None] = [None] * edges
        self._received: list[dict[int, FloatArray]] = [{} for _ in range(edges)]
        self._asked: deque[int] = deque()
        self._exchange = [0] * edges
        self._next, self._own_last = next_index, None if next_index == 0 else next_index - 1
        self._consumed: list[Release] = []

    def start(self) -> Release | None:
        return None

    def receive(self, release: Release) -> None:
        self._consumed.append(release)
        k, number = self._place[release.sender], int(release.vector[0])
        # A neighbour that still waits for an answer sends the same again.
        if number >= self._exchange[k] and number not in self._received[k]:
            self._received[k][number] = release.vector
            self._advance(k)

    def wake(self) -> Release | None:
        if self.finished:
            return None
        k = self._asked.popleft() if self._asked else self._choose()
        if self._sent[k] is None:
            self._descend()
            self._sent[k] = (self._model.copy(), self._copies[k].copy())
        model, copy = self._sent[k] or (self._model, self._copies[k])
        message = np.concatenate(([self._exchange[k]], model, copy, self._own_dual[k], self._other_dual[k]))
        release = Release(
            sender=self._setting.agent,
            index=self._next,
            vector=message,
            used=used(self._consumed, self._setting.agent, self._own_last),
            recipient=self._setting.neighbours[k],
        )
        self._consumed.clear()
        self._own_last, self._next = self._next, self._next + 1
        self._advance(k)
        return release

    def _advance(self, k: int) -> None:
        """Update the edge once both messages of its current exchange are here, or note that an answer is asked for."""
        while self._exchange[k] in self._received[k]:
            if self._sent[k] is None:
                if k not in self._asked:
                    self._asked.append(k)
                return
            self._update_edge(k, self._received[k].pop(self._exchange[k]))

    def _choose(self) -> int:
        """A random edge without an unanswered message; if there is none, the message of one of them is sent again."""
        idle = [k for k, sent in enumerate(self._sent) if sent is None] or list(range(len(self._sent)))
        random = np.random.default_rng([self._seed, GOSSIP, self._setting.agent, self._next])
        return idle[int(random.integers(len(idle)))]

    def _descend(self) -> None:
        """Gradient steps on the augmented Lagrangian in the own model, the copies always at their best."""
        rho, pair = self._rho, self._pair[:, None]
        anchors = self._other_mean - self._other_dual / rho
        held = self._own_mean.sum(axis=0) * rho - self._own_dual.sum(axis=0)
        toward = rho * (pair * anchors).sum(axis=0)
        bend = rho * float(self._pair.sum()) + rho * len(self._pair)
        for _ in range(self._steps):
            gradient = bend * self._model - held - toward + self._pull * self._setting.problem.gradient(self._model)
            self._model = self._model - self._step * gradient
        self._copies = pair * self._model + (1.0 - pair) * anchors

    def _update_edge(self, k: int, received: FloatArray) -> None:
        sent = self._sent[k]
        assert sent is not None
        model, copy = sent
        their_model, their_copy, their_dual, their_other_dual = received[1:].reshape(4, -1)
        rho = self._rho
        self._own_mean[k] = 0.5 * ((self._own_dual[k] + their_other_dual) / rho + model + their_copy)
        self._other_mean[k] = 0.5 * ((self._other_dual[k] + their_dual) / rho + copy + their_model)
        self._own_dual[k] += rho * (model - self._own_mean[k])
        self._other_dual[k] += rho * (copy - self._other_mean[k])
        self._sent[k] = None
        self._exchange[k] += 1

    @property
    def finished(self) -> bool:
        return self._next >= self._setting.updates

    @property
    def model(self) -> FloatArray:
        return self._model

    def charge(self, index: int) -> Mechanism | None:  # noqa: ARG002
        return None

    def snapshot(self) -> dict[str, FloatArray]:
        return {"model": self._model}

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:  # noqa: ARG002
        self._begin(next_index)
