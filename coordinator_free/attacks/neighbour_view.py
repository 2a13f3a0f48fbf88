"""The attack of an agent that receives only what its neighbours release, on coordinate descent.

Rules that hold here:
- A trial runs the whole network anew, with fresh noise, in the order of the recorded run, and keeps what the observer
  receives. The auditor chooses the two values of a record with all that it knows; the score is computed from the
  observer's part alone.
- The score is the log-likelihood ratio of a linear surrogate of the run: a Kalman filter follows what the observer
  received, and each surprise counts by how far the replaced record would move it. Any score gives a true lower bound;
  this one is good where the surrogate is near to the run.
- The observer knows its own records, releases and noise, the graph, and when each agent woke.
- Noise that follows an agent's model keeps the scales of the recorded run.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coordinator_free.agents.personal.present import Present
from coordinator_free.attacks.attacker import Observed
from coordinator_free.attacks.inversion import InversionError, in_force, invert
from coordinator_free.attacks.likelihood_ratio import Environment, FreshNoise, Pair, Replacement
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray
from coordinator_free.settings import AgentNumbers

Key = tuple[int, int]
"""(agent, index)."""

_BLOCK = 500_000
"""Numbers in a block of trials of all agents' models."""
_WORK = 6e10
"""Numbers that all trials of one attack may compute with, about: a minute or two."""
_FEWEST = 50
_NOTHING = 1e-12
"""Share of the noise's variance below which a release holds no surprise."""


@dataclass(frozen=True, eq=False)
class Step:
    """One release of one agent, the own release that it comes from (None: the start), and its mixture's sources.

    ``sources``: (weight, release) of each neighbour from which one was received.
    """

    key: Key
    parent: Key | None
    sources: tuple[tuple[float, Key], ...]
    mechanism: Mechanism | None


@dataclass(frozen=True, eq=False)
class _Look:
    """What one step does to the filter: the states that it is made of, and what the observer takes from it.

    ``gain`` (n,) and ``deviation`` where the observer receives the release; None where it does not.
    """

    agent: int
    states: npt.NDArray[np.intp]
    weights: FloatArray
    gain: FloatArray | None
    deviation: float


class NeighbourView:
    """One observer of a recorded run.

    Parameters
    ----------
    agents
        All agents, in order, as the auditor knows them.
    observer
        Which of them looks.
    first
        When each release was recorded first.

    Raises
    ------
    InversionError
        A release that another one used is not recorded, or there is no noise.
    """

    def __init__(self, agents: Sequence[Observed], observer: int, first: Mapping[Key, int]) -> None:
        self._agents, self._observer = agents, observer
        self._heard = set(agents[observer].setting.neighbours)
        self._steps = in_order([step for observed in agents for step in steps_of(observed)], first)
        self._looks = self._filter()
        self._dimension = agents[observer].setting.dimension

    def affordable(self, trials: int, targets: int) -> int:
        """How many of ``trials`` can be made in a few minutes, on each of both datasets of each target."""
        width = [observed.setting.problem.records + 40 for observed in self._agents]
        each = float(sum(width[step.key[0]] for step in self._steps) * self._dimension)
        return min(trials, max(_FEWEST, int(_WORK / (2.0 * (1 + targets) * each))))

    def scores(
        self, targets: Mapping[int, Replacement], trials: int, noise: FreshNoise
    ) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Scores of ``trials`` runs with every record as it is, and of as many with each target's record replaced."""
        moved = self._moved(targets)
        as_is = self._run(moved, trials, noise, None)
        return {
            target: (as_is[place], self._run(moved, trials, noise, (target, change))[place])
            for place, (target, change) in enumerate(targets.items())
        }

    # -- the surrogate ------------------------------------------------------------------------------------------------

    def _filter(self) -> list[_Look]:
        n = len(self._agents)
        covariance = np.zeros((n, n))
        linear = [observed.code().surrogate(0.0) for observed in self._agents]
        looks = []
        for step in self._steps:
            agent, found = step.key[0], linear[step.key[0]]
            if found is None:
                raise InversionError("the update has no linear surrogate")
            own, total = found[0], float(found[1].sum())
            states = np.array([agent, *(key[0] for _, key in step.sources)], dtype=np.intp)
            weights = np.array([own, *(total * weight for weight, _ in step.sources)])
            gain, deviation = self._look(covariance, step, states, weights)
            looks.append(_Look(agent, states, weights, gain, deviation))
        return looks

    def _look(
        self, covariance: FloatArray, step: Step, states: npt.NDArray[np.intp], weights: FloatArray
    ) -> tuple[FloatArray | None, float]:
        """Take one step, in place, and what the observer learns from its release."""
        agent = step.key[0]
        scale = 0.0 if step.mechanism is None else step.mechanism.scale
        row = weights @ covariance[states]
        variance = float(weights @ row[states]) + scale**2
        if agent == self._observer:  # it knows its own release
            row, variance = np.zeros_like(row), 0.0
        covariance[agent], covariance[:, agent] = row, row
        covariance[agent, agent] = variance
        if agent not in self._heard or variance <= _NOTHING * scale**2 or variance == 0.0:
            return None, 0.0
        gain = covariance[:, agent] / variance
        covariance -= np.outer(gain, covariance[agent].copy())
        return gain, float(np.sqrt(variance))

    def _moved(self, targets: Mapping[int, Replacement]) -> list[FloatArray | None]:
        """By how much each surprise moves, in deviations, where a target's record is replaced: (targets, p) a step."""
        n, p = len(self._agents), self._dimension
        errors = np.zeros((n, len(targets), p))
        pulled = [self._pulls(target, change) for target, change in targets.items()]
        found: list[FloatArray | None] = []
        for step, look in zip(self._steps, self._looks, strict=True):
            errors[look.agent] = np.tensordot(look.weights, errors[look.states], 1)
            for place, pulls in enumerate(pulled):
                if step.key in pulls:
                    errors[look.agent, place] += pulls[step.key]
            if look.agent == self._observer:
                errors[look.agent] = 0.0
            if look.gain is None:
                found.append(None)
                continue
            surprise = errors[look.agent].copy()
            errors -= look.gain[:, None, None] * surprise
            found.append(surprise / look.deviation)
        return found

    def _pulls(self, target: int, change: Replacement) -> dict[Key, FloatArray]:
        """What the replaced record adds to each release of the target, at its recorded states."""
        observed = self._agents[target]
        world = Environment(observed.setting, np.empty((0, 0)), (), ())
        pair, dimension = Pair(observed.setting, change), observed.setting.dimension
        found = {}
        for step in self._steps:
            if step.key[0] == target:
                at = np.zeros(dimension) if step.parent is None else observed.heard[step.parent].vector
                as_is, changed = pair.gradients(at[None, :])
                found[step.key] = world.step * world.pull * (as_is - changed)[0]
        return found

    # -- trials -------------------------------------------------------------------------------------------------------

    def _run(
        self,
        moved: Sequence[FloatArray | None],
        trials: int,
        noise: FreshNoise,
        replaced: tuple[int, Replacement] | None,
    ) -> FloatArray:
        """Scores of fresh runs for every target, higher where its record is as it is; shape (targets, trials)."""
        gradients = [
            _gradient(observed, replaced[1] if replaced is not None and replaced[0] == agent else None)
            for agent, observed in enumerate(self._agents)
        ]
        block = max(1, min(trials, _BLOCK // (len(self._agents) * self._dimension)))
        return np.concatenate(
            [self._block(moved, min(block, trials - low), noise, gradients) for low in range(0, trials, block)], axis=1
        )

    def _block(
        self,
        moved: Sequence[FloatArray | None],
        trials: int,
        noise: FreshNoise,
        gradients: Sequence[Callable[[FloatArray], FloatArray]],
    ) -> FloatArray:
        uses = Counter(key for step in self._steps for key in _needs(step))
        released: dict[Key, FloatArray] = {}
        expected = np.zeros((len(self._agents), trials, self._dimension))
        targets = next((one.shape[0] for one in moved if one is not None), 0)
        scores = np.zeros((targets, trials))
        for step, look, surprise in zip(self._steps, self._looks, moved, strict=True):
            made = self._release(step, released, trials, noise, gradients[step.key[0]])
            for key in _needs(step):
                uses[key] -= 1
                if uses[key] == 0:
                    del released[key]
            if uses[step.key]:
                released[step.key] = made
            if look.agent == self._observer:
                expected[look.agent] = made
                continue
            expected[look.agent] = np.tensordot(look.weights, expected[look.states], 1)
            if look.gain is not None and surprise is not None:
                new = made - expected[look.agent]
                expected += look.gain[:, None, None] * new
                scores -= (surprise / look.deviation) @ new.T
        return scores

    def _release(
        self,
        step: Step,
        released: Mapping[Key, FloatArray],
        trials: int,
        noise: FreshNoise,
        gradient: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        world = Environment(self._agents[step.key[0]].setting, np.empty((0, 0)), (), ())
        centre = np.zeros((trials, self._dimension))
        for weight, key in step.sources:
            centre += weight * released[key]
        model = world.first(centre) if step.parent is None else released[step.parent]
        value = (1.0 - world.step) * model + world.step * (centre - world.pull * gradient(model))
        return value if step.mechanism is None else noise.perturb(step.mechanism, value)


def _needs(step: Step) -> list[Key]:
    return [key for _, key in step.sources] + ([] if step.parent is None else [step.parent])


def _gradient(observed: Observed, replacement: Replacement | None) -> Callable[[FloatArray], FloatArray]:
    """The clipped gradient of one agent at many models (trials, p)."""
    problem = observed.setting.problem
    if problem.records == 0:
        return lambda models: problem.regularisation * problem.loss.penalty_gradient(models)
    pair = Pair(observed.setting, replacement or Replacement(0, problem.x[0], float(problem.y[0])))
    which = 0 if replacement is None else 1
    return lambda models: pair.gradient(which, models)


# --- the recorded order ----------------------------------------------------------------------------------------------


def steps_of(observed: Observed) -> list[Step]:
    """What each recorded release of a coordinate-descent agent was made of.

    Raises
    ------
    InversionError
        A release that one of them used is not recorded.
    """
    setting, mechanisms = observed.setting, observed.mechanisms()
    if observed.code().follows_its_model:
        rows = invert(observed.code(), observed.recorded, observed.heard)
        mechanisms = [in_force(charged, row.mechanism) for charged, row in zip(mechanisms, rows, strict=True)]
    present = Present(setting.weights, setting.neighbours, AgentNumbers.of(setting.learning).absent)
    place = {j: k for k, j in enumerate(setting.neighbours)}
    newest: dict[int, int] = {}
    steps = []
    for release, mechanism in zip(observed.recorded, mechanisms, strict=True):
        parent = None
        for key in release.used:
            if key not in observed.heard:
                raise InversionError(f"release {release.index} of agent {setting.agent} used one that is not recorded")
            if key[0] == setting.agent:
                parent = key
            elif key[0] in place:
                newest[key[0]] = key[1]
                present.arrived(place[key[0]])
        sources = tuple((float(present.mixing[place[j]]), (j, index)) for j, index in sorted(newest.items()))
        steps.append(Step((setting.agent, release.index), parent, sources, mechanism))
    return steps


def in_order(steps: Sequence[Step], first: Mapping[Key, int]) -> list[Step]:
    """The steps by the time at which they were recorded first, each after all that it needs."""
    known = {step.key: step for step in steps}
    waiting = {step.key: len(set(_needs(step))) for step in steps}
    then: dict[Key, list[Key]] = {}
    for step in steps:
        for key in set(_needs(step)):
            then.setdefault(key, []).append(step.key)
    last = max(first.values(), default=0) + 1
    ready = [(first.get(key, last), key) for key, missing in waiting.items() if missing == 0]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, key = heapq.heappop(ready)
        ordered.append(known[key])
        for later in then.get(key, ()):
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, (first.get(later, last), later))
    if len(ordered) < len(steps):
        raise InversionError("the recorded releases do not say in which order they were made")
    return ordered
