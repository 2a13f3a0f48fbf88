"""The descent of agents that average in rounds, as theorems see it: the common objective, its constants, the noise.

Rules that hold here:
- The objective is F = sum_j w_j L_j with the run's own weights. Where clipping may bend gradients, L_j is the loss that
  clipped gradients descend on; a loss that is not convex has none, and no theorem speaks about it.
- L and mu are of F itself and rest on the records; so does F*, which is a local minimum where the loss is not convex.
- The noise is what agents add, no more: where its scale follows the public model, its largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.agents.averages.arrangement import MASKED, AggregatingNumbers, weights
from coordinator_free.agents.averages.averaging import Averaging, AveragingSettings
from coordinator_free.agents.averages.gradient_descent import GradientDescent, GradientDescentSettings
from coordinator_free.agents.registry import algorithm, make
from coordinator_free.aggregation import tree
from coordinator_free.aggregation.push_sum import opened
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.problem.clipped import ClippedProblem
from coordinator_free.problem.objective import LocalProblem, minimise
from coordinator_free.release import FloatArray
from coordinator_free.theory.weighted_averages import Sizes, average_variance, condition
from node.experiments.theory.subject import Subject

_MOST_PASSED = 200
_HELD = {"push-sum": opened, "tree": tree.own}
"""The vector in an agent's first message of a stage, where the message holds more."""
_RESOLVED = 1e-9
"""Of the largest gap: smaller gaps are rounding errors."""


@dataclass(frozen=True, eq=False)
class Objective:
    """F = sum_j w_j L_j of parties with records."""

    problems: tuple[LocalProblem, ...]
    shares: FloatArray

    def value(self, theta: FloatArray) -> float:
        """F at a model (p,)."""
        return float(sum(w * problem.value(theta) for w, problem in zip(self.shares, self.problems, strict=True)))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Its gradient, shape (p,)."""
        parts = [w * problem.gradient(theta) for w, problem in zip(self.shares, self.problems, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    def _hessian(self, theta: FloatArray) -> FloatArray:
        parts = [w * problem.hessian(theta) for w, problem in zip(self.shares, self.problems, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    @property
    def dimension(self) -> int:
        """p."""
        return self.problems[0].dimension

    @cached_property
    def minimiser(self) -> FloatArray:
        """The minimiser, shape (p,); of a loss that is not convex the local one that is reached from zero."""
        return minimise(self.value, self.gradient, self._hessian, np.zeros(self.dimension))

    @cached_property
    def least(self) -> float:
        """F*."""
        return self.value(self.minimiser)

    @cached_property
    def decay(self) -> float:
        """Twice the averaged lambda_j: the strong convexity that the regulariser |theta|^2 gives alone."""
        return float(
            sum(2.0 * w * problem.regularisation for w, problem in zip(self.shares, self.problems, strict=True))
        )

    @cached_property
    def smoothness(self) -> float:
        """L: c1 times the largest eigenvalue of the averaged second moment, plus `decay`."""
        moment = sum(
            w / problem.records * (problem.x.T @ problem.x)
            for w, problem in zip(self.shares, self.problems, strict=True)
        )
        return self.problems[0].loss.curvature_bound * float(np.linalg.eigvalsh(moment)[-1]) + self.decay

    def gaps(self, models: FloatArray) -> FloatArray:
        """F - F* at each of the models (k, p)."""
        return np.array([self.value(model) for model in models]) - self.least


@dataclass(frozen=True, eq=False)
class Averaged:
    """A run or a configuration whose agents average, with the parties that have records in the places of agents."""

    subject: Subject
    objective: Objective
    agents: tuple[Aggregating, ...]
    """The code of every agent, those without records too."""
    settings: GradientDescentSettings | AveragingSettings
    numbers: AggregatingNumbers

    @property
    def local(self) -> AveragingSettings | None:
        """The settings of parties that descend alone; None: all descend in step."""
        return self.settings if isinstance(self.settings, AveragingSettings) else None

    @property
    def steps(self) -> int:
        """T."""
        return (self.local.local_steps if self.local else None) or self.subject.configuration.clock.updates

    @property
    def sizes(self) -> list[int]:
        """The records of each party."""
        return [problem.records for problem in self.objective.problems]

    @property
    def owners(self) -> list[int]:
        """The agents that are parties."""
        return [agent for agent, records in enumerate(self.subject.records) if records]

    @cached_property
    def gap(self) -> float:
        """F - F* at zero, where all start."""
        return float(self.objective.gaps(np.zeros((1, self.objective.dimension)))[0])

    @cached_property
    def printed(self) -> Sizes | None:
        """What Theorem 1 and Table 1 rest on; None where no one budget is stated."""
        privacy = self.subject.configuration.privacy
        if not self.subject.configuration.private or privacy.levels is not None or privacy.budgets is not None:
            return None
        epsilon, delta, clip = privacy.epsilon, privacy.delta, privacy.clip
        if epsilon is None or clip is None or not delta:
            return None
        return Sizes(len(self.sizes), sum(self.sizes), min(self.sizes), self.objective.dimension, clip, epsilon, delta)

    @cached_property
    def printed_variance(self) -> tuple[float, float] | None:
        """s^2 of Eq. (3) and its constant c, the one that makes T releases of sensitivity 2 G / n cost epsilon exactly.

        0 without privacy; None where no one budget is stated.
        """
        sizes = self.printed
        if sizes is None:
            return None if self.subject.configuration.private else (0.0, 0.0)
        mu = gaussian_mu(sizes.epsilon, sizes.delta)
        c = 4.0 * sizes.epsilon**2 / (mu**2 * math.log(1.0 / sizes.delta))
        return float(sizes.variance(np.array([float(self.steps)]), c)[0]), c

    @cached_property
    def condition(self) -> float | None:
        """The largest mu, at most L, of the condition at the models that were passed; None where they show none.

        Of a subject that does not show its models, those of a descent without noise.
        """
        models = self.iterates
        if models is None:
            theta, step = np.zeros(self.objective.dimension), min(self.settings.step, 1.0 / self.objective.smoothness)
            passed = [theta]
            for _ in range(min(self.steps, _MOST_PASSED)):
                theta = theta - step * self.objective.gradient(theta)
                passed.append(theta)
            models = np.stack(passed)
        gaps = self.objective.gaps(models)
        resolved = gaps > _RESOLVED * float(gaps.max())
        gradients = np.array([float(np.linalg.norm(self.objective.gradient(model))) for model in models[resolved]])
        found = condition(gradients, gaps[resolved])
        return min(found, self.objective.smoothness) if 0.0 < found < math.inf else None

    @cached_property
    def _charges(self) -> list[list[float]]:
        """Of each party the scales of its noise in a sum or in its own releases, one a stage; empty without noise."""
        found = []
        for party in self.parties:
            charges = [party.charge(k) for k in range(self.subject.public[0].releases)]
            found.append([charge.scale for charge in charges if charge is not None])
        return found

    @property
    def parties(self) -> list[Aggregating]:
        """The code of the agents with records."""
        return [self.agents[agent] for agent in self.owners]

    @cached_property
    def variance(self) -> float:
        """s^2 of the noise in one coordinate of one step of the average, in the noisiest round."""
        if self.local:
            descents = [agent.descent() for agent in self.parties if isinstance(agent, Averaging)]
            deviations = [0.0 if d is None else d.deviation / d.step for d in descents]
            return average_variance(self.objective.shares.tolist(), deviations)
        scales = [max(of, default=0.0) for of in self._charges]
        if self.numbers.observer == "sum":
            # Each party adds its part of the sum's noise, and a part more for those that may be missing.
            return max(scales, default=0.0) ** 2 * self.numbers.noisy / (self.numbers.noisy - self.numbers.missing)
        return average_variance(self.objective.shares.tolist(), scales)

    @cached_property
    def iterates(self) -> FloatArray | None:
        """The common models of a descent in step, theta(0) to theta(T), shape (T + 1, p), computed from the releases.

        None where the releases do not show them: a configuration, a masked sum, a capture that is not complete.
        """
        if not self.subject.releases or self.local or self.settings.aggregation in MASKED:
            return None
        known = {(release.sender, release.index): release.vector for release in self.subject.releases}
        theta = np.zeros(self.objective.dimension)
        found = [theta]
        for stage in range(self.steps):
            index = stage * self.numbers.stage_rounds
            first = [known.get((agent, index)) for agent in self.owners]
            vectors = [vector for vector in first if vector is not None]
            if len(vectors) < len(self.owners):
                return None
            if self.settings.aggregation in _HELD:
                vectors = [_HELD[self.settings.aggregation](vector) for vector in vectors]
            theta = theta - self.settings.step * (self.objective.shares @ np.stack(vectors))
            found.append(theta)
        return np.stack(found)

    @cached_property
    def final(self) -> FloatArray | None:
        """The last common model of a run, shape (p,); None where there is none."""
        if self.subject.run is None:
            return None
        models = [
            final["model"]
            for agent in range(self.subject.agents)
            if "model" in (final := self.subject.run.final(agent))
        ]
        return np.asarray(np.mean(models, axis=0)) if models else None


@lru_cache(maxsize=1)
def averaged(subject: Subject) -> Averaged | None:
    """What the theorems of paper 003 may speak about; None where they do not."""
    learning = subject.configuration.learning
    kind = algorithm(learning.algorithm)
    if kind not in (GradientDescent, Averaging):
        return None
    made = [make(learning.algorithm, subject.setting(agent)) for agent in range(subject.agents)]
    problems = _descended([problem for problem in subject.problems if problem.records], subject)
    if not problems:
        return None
    public = subject.setting(0).learning
    numbers = AggregatingNumbers.of(public)
    settings = (GradientDescentSettings if kind is GradientDescent else AveragingSettings).of(public)
    shares = weights(numbers.sizes, settings.weighting)[np.asarray(numbers.sizes) > 0]
    agents = tuple(agent for agent in made if isinstance(agent, Aggregating))
    return Averaged(subject, Objective(tuple(problems), shares), agents, settings, numbers)


def _descended(problems: Sequence[LocalProblem], subject: Subject) -> list[LocalProblem]:
    """The problems whose gradients the agents release; none where clipped gradients are those of no function."""
    clip = subject.configuration.privacy.clip
    if not subject.configuration.private or clip is None:
        return list(problems)
    slope = problems[0].loss.slope_bound
    longest = max((float(np.linalg.norm(problem.x, axis=1).max()) for problem in problems), default=0.0)
    if math.isfinite(slope) and slope * longest <= clip:
        return list(problems)
    if not problems[0].loss.convex:
        return []
    return [ClippedProblem.of(problem, clip, "l2") for problem in problems]
