"""A subject as the theorems of paper 004 see it: constants, the objective in force, and the gaps of a run.

Rules that hold here:
- The theorems are about coordinate descent with strongly convex local losses, the same agents from start to end, equal
  budgets, and clocks that are alike. About any other subject nothing is said.
- Where gradients are clipped, the objective is the one that clipped gradients descend on
  (`coordinator_free.problem.clipped`).
- Measurements end with the first agent that has made its last update: from then on not every agent is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator_free.agents.checks import bounded
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.families import NORMS
from coordinator_free.problem import baselines
from coordinator_free.problem.clipped import ClippedProblem
from coordinator_free.problem.graph_objective import graph_objective, optimum
from coordinator_free.problem.losses import loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from coordinator_free.theory import coordinate_descent as theory
from node.experiments.theory.subject import Subject

POINTS = 60
"""Moments of a run that are measured, about."""


@dataclass(frozen=True, eq=False)
class Descent:
    """A subject that the theorems speak about: constants, the objective in force, and where it starts."""

    subject: Subject
    known: theory.Constants
    problems: Sequence[LocalProblem]
    confidences: FloatArray
    mu: float
    start: FloatArray
    least: float
    constants: dict[str, float]

    def gap(self, models: FloatArray) -> float:
        """Q(models) - Q*."""
        return self._objective(models) - self.least

    def _objective(self, models: FloatArray) -> float:
        return graph_objective(self.subject.network, self.problems, self.confidences, self.mu, models)

    @property
    def updates(self) -> int:
        """Of each agent."""
        return self.subject.configuration.clock.updates

    @property
    def starts(self) -> int:
        """Releases of each agent that are no updates, but its first model."""
        return int(self.subject.configuration.learning.get("start") == "local")

    def at(self) -> FloatArray:
        """Numbers of updates at which a bound is worked out: for a run, those that it can be measured at."""
        last = self.subject.agents * (self.updates - self.starts)
        if self.subject.run is not None:
            last = len(list(self._updates()))
        return np.unique(np.linspace(0, last, min(last, POINTS) + 1).astype(np.int64)).astype(np.float64)

    def measured(self, at: FloatArray) -> FloatArray | None:
        """The gaps of a run after so many updates; None for a configuration."""
        if self.subject.run is None:
            return None
        wanted, models, found = set(at.astype(int).tolist()), np.array(self.start), []
        if 0 in wanted:
            found.append(self.gap(models))
        for number, (sender, vector) in enumerate(self._updates(), 1):
            models[sender] = vector
            if number in wanted:
                found.append(self.gap(models))
        return np.array(found)

    def _updates(self) -> Iterator[tuple[int, FloatArray]]:
        """Sender and model of each update, until the first agent has made its last one."""
        for release in self.subject.releases:
            if release.index >= self.starts:
                yield release.sender, release.vector
            if release.index == self.updates - 1:
                return


@lru_cache(maxsize=1)  # each theorem asks, and the optimum takes a while
def descent_of(subject: Subject) -> Descent | None:
    """None where the theorems are silent."""
    configuration = subject.configuration
    if not _is_covered(subject):
        return None
    problems = [_in_force(subject, agent) for agent in range(subject.agents)]
    smoothness = np.array([float(public.learning["smoothness"]) for public in subject.public])
    confidences = np.array([public.confidence for public in subject.public])
    regularisations = np.array([public.regularisation for public in subject.public])
    mu = float(configuration.learning.get("mu"))
    try:
        known = theory.constants(subject.network.degrees, confidences, smoothness, regularisations, mu)
    except theory.TheoryError:
        return None
    start = np.zeros((subject.agents, problems[0].dimension))
    if configuration.learning.get("start") == "local":
        start = baselines.alone(subject.problems)
    short = [p.smoothness_of_data() > s * (1 + 1e-9) for p, s in zip(problems, smoothness, strict=True)]
    best = optimum(subject.network, problems, confidences, mu)
    least = graph_objective(subject.network, problems, confidences, mu, best)
    constants = {**known.named(), "agents whose steps are too long": float(sum(short))}
    return Descent(subject, known, problems, confidences, mu, start, least, constants)


def _is_covered(subject: Subject) -> bool:
    configuration = subject.configuration
    moves = any(event.fault in ("join", "leave") for event in configuration.event)
    return (
        algorithm(configuration.learning.algorithm) is CoordinateDescent
        and loss(configuration.learning.loss).convex
        and configuration.learning.get("start") != "neighbours"
        and configuration.clock.drift == 0
        and not configuration.data.records_arrive
        and not moves
        and len({(public.updates, public.budget) for public in subject.public}) == 1
    )


def _in_force(subject: Subject, agent: int) -> LocalProblem:
    """The local problem on whose gradients an agent's steps go."""
    problem, clip = subject.problems[agent], subject.public[agent].clip
    if not subject.configuration.private or clip is None or problem.records == 0:
        return problem
    norm = NORMS[subject.configuration.privacy.mechanism]
    return ClippedProblem.of(bounded(subject.setting(agent)).problem, clip, norm)
