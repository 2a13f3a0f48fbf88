"""One run of a configuration among several that are compared: what was released, and the models that came of it.

Rules that hold here:
- In the twin nothing leaves this process and no ledger is charged; what the releases would cost is computed from the
  agents' own charges. Over processes it is a run like any other, with its folder, its ledgers and its log.
- The process that compares holds all data, as the one that deals it does. Figures computed from it are not covered by
  epsilon.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.agent import Activation, Agent
from coordinator_free.agents.registry import algorithm, make
from coordinator_free.clocks import own_rate, waits
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.privacy.windows import most_used
from coordinator_free.problem import baselines
from coordinator_free.problem.losses import Loss, loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.run import Transcript, run_asynchronous, run_rounds
from node.configuration.data import DataSection
from node.configuration.reading import from_table, set_value
from node.configuration.sections import Configuration
from node.data import Dealt, deal
from node.dealing.preparation import Preparation, noise_secret, prepare
from node.folder.profiles import is_learned, read_profiles
from node.folder.shard import setting
from node.untyped import Tree

WORLDS = ("processes", "twin")


class TrialError(ValueError):
    """A comparison that cannot be made; one line."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What one run gave. ``models`` are the agents' own last ones, (n, p); ``finishes`` those that are never sent.

    ``epsilon`` is the largest total over agents at the configured delta, None without privacy.
    """

    preparation: Preparation
    releases: Sequence[Release]
    models: FloatArray
    finishes: FloatArray | None
    epsilon: float | None
    accountant: str | None

    @property
    def judge(self) -> Loss:
        """The loss whose metric scores the models."""
        return loss(self.preparation.configuration.learning.loss)

    @cached_property
    def problems(self) -> list[LocalProblem]:
        """The local problem of each agent."""
        return self.preparation.problems()

    @cached_property
    def tests(self) -> list[tuple[FloatArray, FloatArray]]:
        """The held-out rows and labels of each agent."""
        return [(shard.x_test, shard.y_test) for shard in self.preparation.dealt.shards]

    @property
    def records(self) -> list[int]:
        """The number of training rows of each agent."""
        return [shard.records for shard in self.preparation.dealt.shards]

    def scores(self, models: FloatArray) -> FloatArray:
        """The metric of each agent's model (or one model for all) on its own held-out rows, shape (n,)."""
        return baselines.scores(models, self.tests, self.judge)

    @property
    def is_consensus(self) -> bool:
        """Whether the agents seek one common model, and release models."""
        kind = algorithm(self.preparation.configuration.learning.algorithm)
        return kind.activation is Activation.ROUNDS and not kind.addressed and kind.releases_models

    def vector(self, release: Release) -> FloatArray:
        """The model in a release."""
        kind = algorithm(self.preparation.configuration.learning.algorithm)
        return kind.model_in(release.vector, self.preparation.dealt.dimension)

    @property
    def released_average(self) -> FloatArray:
        """The average over agents and rounds of what was released, shape (p,)."""
        return np.asarray(np.mean([self.vector(release) for release in self.releases], axis=0))

    def moments(self, count: int, start: FloatArray | None = None) -> Iterator[tuple[int, FloatArray]]:
        """(releases so far, the models as released (n, p)) at about ``count`` moments, the first and the last too.

        Models are ``start`` (zeros if not given) until their agent's first release; the array is reused.
        """
        n, p = self.preparation.agents, self.preparation.dealt.dimension
        models = np.zeros((n, p)) if start is None else np.array(start)
        every = max(1, len(self.releases) // count)
        yield 0, models
        for heard, release in enumerate(self.releases, 1):
            models[release.sender] = self.vector(release)
            if heard % every == 0 or heard == len(self.releases):
                yield heard, models


def configured(table: Mapping[str, Any], changes: Mapping[str, Any], overrides: Sequence[str] = ()) -> Configuration:
    """The configuration in ``table``, with ``overrides`` (section.key=value) and then ``changes`` ("section.key").

    What the algorithm does not use is passed over: the table serves several algorithms.
    """
    made: Tree = deepcopy(dict(table))
    for override in overrides:
        set_value(made, override)
    for path, value in changes.items():
        section, _, key = path.partition(".")
        if value is None:
            made.get(section, {}).pop(key, None)
        else:
            made.setdefault(section, {})[key] = value
    return from_table(made, lenient=True)


def seeded(
    configuration: Configuration, seed: int, *, simulation: bool = False, name: str | None = None
) -> Configuration:
    """The same with another run.seed and, if ``simulation``, noise drawn from it."""
    run = configuration.run.model_copy(
        update={"seed": seed, "simulation": simulation, "name": name or configuration.run.name}
    )
    return configuration.model_copy(update={"run": run})


def agents_in_twin(preparation: Preparation) -> list[Agent]:
    """The agents of a run in this process; noise from the seed in a simulation, else from fresh secrets."""
    c = preparation.configuration
    return [
        make(
            c.learning.algorithm,
            setting(
                preparation.rows(i),
                preparation.public(i),
                simulation_secret(preparation.seed, i) if c.run.simulation else os.urandom(32),
            ),
        )
        for i in range(preparation.agents)
    ]


def transcript_of(preparation: Preparation, agents: Sequence[Agent]) -> Transcript:
    """What the agents release on a virtual clock, and their finishes."""
    c, seed = preparation.configuration, preparation.seed
    if algorithm(c.learning.algorithm).activation is Activation.ROUNDS:
        return run_rounds(agents, preparation.network)
    clocks = [waits(seed, i, own_rate(c.clock.rate, c.clock.drift, seed, i)) for i in range(preparation.agents)]
    return run_asynchronous(agents, preparation.network, rate=c.clock.rate, seed=seed, clocks=clocks)


def in_twin(preparation: Preparation) -> Trial:
    """Run the prepared agents in this process, on a virtual clock; noise from the seed in a simulation."""
    agents = agents_in_twin(preparation)
    transcript = transcript_of(preparation, agents)
    finishes = [finish for finish in transcript.finishes if finish is not None]
    epsilon, accountant = _cost(preparation, agents) if preparation.configuration.private else (None, None)
    return Trial(
        preparation=preparation,
        releases=transcript.releases,
        models=np.stack([agent.model for agent in agents]),
        finishes=np.stack(finishes) if len(finishes) == len(agents) else None,
        epsilon=epsilon,
        accountant=accountant,
    )


def _cost(preparation: Preparation, agents: Sequence[Agent]) -> tuple[float, str]:
    """The largest total over agents, each at its own delta; those whose releases cost alike are accounted once."""
    found = [(0.0, "plain sum")]
    for i, agent in enumerate(agents):
        budget = preparation.budget(i)
        if budget is None or budget[0] == 0:  # epsilon 0: it only listens
            continue
        releases = [agent.charge(k) for k in range(preparation.public(i).releases)]
        used = most_used(enumerate(releases), agent.windows)
        spent = total([*preparation.profile_charges(i), *used], budget[1])
        found.append((spent.epsilon, spent.accountant))
    return max(found)


def over_processes(configuration: Configuration, folder: Path) -> Trial:
    """Run it with one process for each agent in the new run folder ``folder``; raises if any of them fails."""
    from node.folder.run import read_final
    from node.folder.spending import spent
    from node.traffic.run_logs import releases_of
    from node.worlds import launcher, limits, steps

    limits.check_socket_paths(configuration)
    manifest = steps.deal(configuration, folder)
    watch = launcher.run_in_processes(folder, configuration, manifest.agents)
    if watch.failures:
        failure = watch.failures[0]
        raise steps.RunFailure(f"{folder.name}: {failure.process} did not finish: {failure.words}")
    dealt = _dealt_alike(configuration)
    profiles = read_profiles(folder, manifest.agents, manifest.dimension) if is_learned(configuration) else None
    preparation = prepare(configuration, dealt=dealt, profiles=profiles)
    finals = [read_final(folder, agent) for agent in range(preparation.agents)]
    finishes = [final["finish"] for final in finals if "finish" in final]
    spending = spent(folder) if configuration.private else None
    epsilon = spending.as_results() if spending is not None else None
    return Trial(
        preparation=preparation,
        releases=[release for _, release in releases_of(folder).values()],
        models=np.stack([final["model"] for final in finals]),
        finishes=np.stack(finishes) if len(finishes) == len(finals) else None,
        epsilon=None if epsilon is None else epsilon.charged_max,
        accountant=None if epsilon is None else epsilon.accountant,
    )


def prepared_for_twin(configuration: Configuration, dealt: Dealt | None) -> Preparation:
    """What a run in this process starts from; profiles are made with noise as the agents' releases are."""
    return prepare(configuration, dealt=dealt, secret_of=partial(noise_secret, configuration))


def _dealt_alike(configuration: Configuration) -> Dealt | None:
    """The rows, kept for the next run that is dealt alike; None where no seed says how they are dealt."""
    if configuration.run.seed is None:
        return None
    norm = NORMS.get(configuration.privacy.mechanism)
    return _dealt(configuration.data.model_dump_json(), configuration.run.seed, configuration.private, norm)


@lru_cache(maxsize=2)
def _dealt(section: str, seed: int, private: bool, norm: str | None) -> Dealt:
    return deal(DataSection.model_validate_json(section), seed=seed, private=private, norm=norm)


def play(configuration: Configuration, world: str, folder: Path | None = None) -> Trial:
    """One run in ``world``; ``folder`` is the run's folder where it has one."""
    if world not in WORLDS:
        raise TrialError(f"--world {world}: accepted are {' and '.join(WORLDS)}")
    if world == "twin":
        return in_twin(prepared_for_twin(configuration, _dealt_alike(configuration)))
    if folder is None:
        raise TrialError("a run over processes needs a folder")
    return over_processes(configuration, folder)
