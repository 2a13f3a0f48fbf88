"""A run of the ADMM family without noise as the theorems of paper 001 see it: schedules, constants, and Z(t).

Rules that hold here:
- The theorems are about agents with one dual step, each with a penalty of its own in each round, that is never below
  the dual step and never falls. About any other subject nothing is said, and nothing where the regulariser is not the
  square.
- m_i is the agent's own rho, M_i is rho plus C times the largest curvature that the loss has on its records. Both rest
  on the records.
- Rounds that are so close to the optimum that float64 resolves no rate are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.registry import algorithm, make
from coordinator_free.problem.consensus import consensus_gradients, consensus_optimum
from coordinator_free.release import FloatArray
from coordinator_free.theory import admm_convergence as theory
from node.experiments.theory.subject import Subject

POINTS = 40
"""Rounds at which a bound is worked out, at most."""
MOST_AGENTS = 200
"""The matrices of more agents are not worked out: a round would take seconds."""
_RESOLVED = 1e-6


@dataclass(frozen=True, eq=False)
class Consensus:
    """A subject that the theorems speak about. ``penalties`` (n, T), ``smoothnesses`` (n,); ``rho`` is an agent's."""

    subject: Subject
    penalties: FloatArray
    theta: float
    rho: float
    capacity: float
    smoothnesses: FloatArray

    @property
    def equal_penalties(self) -> bool:
        """Whether in every round all agents have the same penalty: the theorems' proof needs it."""
        return bool((self.penalties == self.penalties[0]).all())

    @cached_property
    def best(self) -> FloatArray:
        """The optimum f*, shape (d,)."""
        return consensus_optimum(self.subject.problems, self.capacity, self.rho)

    @cached_property
    def models(self) -> FloatArray | None:
        """What was released by round, (T, n, d); None for a configuration, or where a release is missing."""
        updates, agents = self.penalties.shape[1], self.subject.agents
        if len(self.subject.releases) != updates * agents:
            return None
        models = np.full((updates, agents, len(self.best)), np.nan)
        for release in self.subject.releases:
            models[release.round or 0, release.sender] = release.vector
        return models if np.isfinite(models).all() else None

    @cached_property
    def rounds(self) -> npt.NDArray[np.int64]:
        """The rounds t = 1 .. T-1 at which bounds are worked out."""
        last = self.penalties.shape[1] - 1
        if self.models is not None:
            apart = np.sqrt(np.square(self.models - self.best).sum(axis=(1, 2)))
            far = np.flatnonzero(apart > _RESOLVED * apart[0])
            last = int(far[-1]) if far.size else 0
        found: npt.NDArray[np.int64] = np.unique(np.linspace(1, last, min(last, POINTS)).astype(np.int64))
        return found

    def rates(self) -> FloatArray | None:
        """The rates of a run at `rounds`."""
        of = self._measurable()
        return None if of is None else theory.measured_rates(*of)[self.rounds - 1]

    def inner_products(self) -> FloatArray | None:
        """The inner products of Eq. 19 of a run at `rounds`, over |Z(t) - Z*|^2."""
        of = self._measurable()
        return None if of is None else theory.inner_products(*of)[self.rounds - 1]

    def _measurable(self) -> theory.Measurable | None:
        if self.models is None:
            return None
        network = self.subject.network
        gradients = consensus_gradients(self.subject.problems, self.capacity, self.rho, self.best)
        duals = theory.duals_of(network, list(self.models), self.theta)
        return network, self.models, duals, self.penalties, self.theta, self.best, gradients


def consensus_of(subject: Subject) -> Consensus | None:
    """None where the theorems are silent."""
    configuration = subject.configuration
    kind = algorithm(configuration.learning.algorithm)
    if not issubclass(kind, Admm) or configuration.private or not 2 <= subject.agents <= MOST_AGENTS:
        return None
    if configuration.clock.updates < 2 or any(problem.records == 0 for problem in subject.problems):
        return None
    agents = [cast("Admm", make(configuration.learning.algorithm, subject.setting(i))) for i in range(subject.agents)]
    schedules = [agent.schedule for agent in agents]
    curvature = subject.problems[0].loss.curvature_bound
    if len({theta for _, theta, _ in schedules}) > 1 or not np.isfinite(curvature) or agents[0].beyond.bends:
        return None
    _, theta, rho = schedules[0]
    capacity = agents[0].capacity
    bent = [float(np.linalg.norm(problem.x, 2)) ** 2 / problem.records for problem in subject.problems]
    penalties = np.stack([own for own, _, _ in schedules])
    if not ((penalties >= theta).all() and (np.diff(penalties, axis=1) >= 0).all()):
        return None
    return Consensus(subject, penalties, theta, rho, capacity, rho + capacity * curvature * np.array(bent))
