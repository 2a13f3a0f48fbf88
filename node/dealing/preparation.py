"""What a run starts from, before anything is written: data, graph, and each agent's public numbers."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.agents.personal.arriving import Arriving, windows_of
from coordinator_free.agents.registry import algorithm
from coordinator_free.clocks import own_rate, own_skew
from coordinator_free.privacy.allocation import weights
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.privacy.windows import Windows
from coordinator_free.problem.losses import LossError, loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.public_model import ROUNDING
from coordinator_free.release import FloatArray
from node.configuration.data import unused_by_source
from node.configuration.events import check_names
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.dealing.arrivals import ArrivalSettings, arrivals, check_arrivals
from node.dealing.canaries import Flipped, plant
from node.dealing.graph import check_links, network
from node.dealing.plan import Arrangement, arrangement, foreseen, multipliers, release_dimension, releases
from node.dealing.profiles import Profiles, drawn
from node.dealing.rate import with_rate
from node.dealing.rows import deal_data
from node.dealing.warnings import SMALLEST_CONFIDENCE, idle_clip, nothing_held_out, planted, warnings_of
from node.faults.joins_and_leaves import Membership, membership
from node.folder.profiles import is_learned, left
from node.folder.public import NetworkNumbers, PublicNumbers
from node.folder.shard import Rows, setting
from node.places import agents_in_words

if TYPE_CHECKING:
    from node.data import Dealt
    from topology.network import Network


@dataclass(frozen=True)
class Preparation:
    """What a run starts from, before anything is written: data, graph, and each agent's public numbers.

    ``confidences`` (n,), ``smoothness`` (n,) of L_i (empty if no step rests on it), ``regularisations`` (n,) lambda_i,
    ``multipliers`` (releases,).
    """

    configuration: Configuration
    dealt: Dealt
    network: Network
    seed: int
    confidences: FloatArray
    regularisations: FloatArray
    smoothness: FloatArray
    multipliers: FloatArray
    warnings: tuple[str, ...]
    arrangement: Arrangement = field(default_factory=Arrangement)
    own_budgets: tuple[tuple[float, float], ...] = ()
    """(epsilon, delta) of each agent, where they have their own; epsilon 0: it opts out."""
    membership: Membership = field(default_factory=Membership)
    """The agents that join and that leave."""
    profiles: Profiles | None = None
    """What the graph was learned from; None: it is given."""
    flipped: Flipped | None = None
    """The canaries among the records; None: there are none."""

    @property
    def agents(self) -> int:
        """The number of agents."""
        return self.network.agents

    def budget(self, agent: int) -> tuple[float, float] | None:
        """(epsilon, delta) of one agent, epsilon 0 if it only listens; None without a mechanism."""
        privacy = self.configuration.privacy
        if not self.configuration.private:
            return None
        return self.own_budgets[agent] if self.own_budgets else (privacy.epsilon or 0.0, privacy.delta or 0.0)

    def profile_charges(self, agent: int) -> list[Mechanism | None]:
        """What an agent released before its first release: nothing, or the profile that the graph is made of."""
        return [] if self.profiles is None else [self.profiles.charges[agent]]

    def windows(self, agent: int) -> Windows:
        """For each record of the agent, the releases that may use it; empty: all of them."""
        return windows_of(self._arrivals(agent), self.configuration.clock.updates)

    def _arrivals(self, agent: int) -> ArrivalSettings:
        shard = self.dealt.shards[agent]
        return arrivals(self.configuration, self.seed, agent, len(shard.y), shard.arrivals)

    @property
    def row_bound(self) -> float | None:
        """Public bound of every row's norm, in the mechanism's norm; None where there is none."""
        return row_bound(self.configuration, self.dealt)

    @property
    def clip(self) -> float | None:
        """The clipping norm in force: no larger than the longest gradient that rows within their bound have."""
        return clip_in_force(self.configuration, self.dealt)

    @cached_property
    def _bought(self) -> dict[tuple[float, float], FloatArray]:
        """The multipliers that each agent's own budget buys."""
        return {
            own: multipliers(with_budget(self.configuration, left(self.configuration, own)), self.dealt.dimension)
            if own[0] > 0
            else np.empty(0)
            for own in set(self.own_budgets)
        }

    def public(self, agent: int) -> PublicNumbers:
        """The public numbers of one agent, without those of one run (its id and digests)."""
        numbers, budget = self._without_own_noise(agent), self.budget(agent)
        chosen = algorithm(numbers.algorithm)
        if budget is None or budget[0] == 0 or not chosen.own_noise(numbers.learning):
            return numbers
        nothing = np.empty((0, numbers.dimension)), np.empty(0)
        spent, privacy = left(self.configuration, budget), self.configuration.privacy
        assert not isinstance(privacy.r, str)  # no theorem knows a rate of algorithms that buy their noise
        shares = weights(privacy.allocation, chosen.charged(numbers.updates), privacy.mechanism, privacy.r)
        multipliers, more = chosen.buy(setting(Rows(*nothing, *nothing), numbers, b""), numbers.records, spent, shares)
        bought = tuple(float(m) for m in multipliers)
        return replace(numbers, multipliers=bought, learning={**numbers.learning, **more})

    def _without_own_noise(self, agent: int) -> PublicNumbers:
        c, rows, budget = self.configuration, self.dealt.shards[agent], self.budget(agent)
        bought = self._bought[budget] if budget is not None and self.own_budgets else self.multipliers
        learning = {**c.learning.given(), "agents": self.agents, "seed": self.seed}
        if self.smoothness.size:
            learning["smoothness"] = float(self.smoothness[agent])
        learning.update(self.arrangement.learning)
        neighbours = self.network.neighbours(agent)
        learning.update(self.membership.learning(agent, neighbours))
        learning.update(self._arrivals(agent))
        return PublicNumbers(
            agent=agent,
            agents=self.agents,
            name=self.dealt.names[agent],
            neighbours=tuple(int(j) for j in neighbours),
            membership=self.membership.around(agent, neighbours),
            weights=tuple(float(w) for w in self.network.weights_of(agent)),
            confidence=float(self.confidences[agent]),
            dimension=self.dealt.dimension,
            records=len(rows.y),
            test_records=len(rows.y_test),
            algorithm=c.learning.algorithm,
            loss=c.learning.loss,
            regularisation=float(self.regularisations[agent]),
            learning=learning,
            updates=c.clock.updates if budget is None or budget[0] > 0 else 0,
            releases=self.arrangement.releases or releases(c, len(neighbours)),
            release_dimension=self.arrangement.release_dimension or release_dimension(c, self.dealt.dimension),
            rate=own_rate(c.clock.rate, c.clock.drift, self.seed, agent),
            skew=own_skew(c.clock.skew, self.seed, agent),
            seed=self.seed,
            mechanism=c.privacy.mechanism,
            multipliers=tuple(float(m) for m in bought),
            clip=self.clip,
            row_bound=self.row_bound,
            budget=budget,
            record=self.dealt.record,
            metric=loss(c.learning.loss).metric,
            simulation=c.run.simulation,
            network=NetworkNumbers.from_json(
                {
                    **c.network.model_dump(exclude={"folder"}, by_alias=True),
                    "eavesdropper": c.eavesdropper.enabled,
                    "encryption": c.encrypted,
                }
            ),
        )

    def rows(self, agent: int) -> Rows:
        """The training and test rows of one agent."""
        shard = self.dealt.shards[agent]
        return Rows(shard.x, shard.y, shard.x_test, shard.y_test)

    def problems(self) -> list[LocalProblem]:
        """Every agent's local problem, in agent order."""
        return [
            _problem(self.configuration, shard.x, shard.y, float(lambda_i))
            for shard, lambda_i in zip(self.dealt.shards, self.regularisations, strict=True)
        ]


def prepare(
    configuration: Configuration,
    seed: int | None = None,
    dealt: Dealt | None = None,
    secret_of: Callable[[int], bytes] | None = None,
    profiles: FloatArray | None = None,
) -> Preparation:
    """Load the data, build the graph, calibrate the noise.

    ``seed`` deals rows, graph and clocks where the configuration has none; None draws it. ``dealt`` stands for the
    data where they were dealt already. A graph that is learned needs each agent's noise secret, or ``profiles`` (n, p)
    that were released already; without either, no profile is made, and a graph that holds nothing of the records
    stands in for it. Raises `ConfigurationError` or another ValueError of one line.
    """
    if configuration.run.seed is not None:
        seed = configuration.run.seed
    elif seed is None:
        seed = secrets.randbits(63)
    if dealt is None:
        dealt = deal_data(configuration, seed)
    if dealt.negative:  # what the data decided is written down, so that a prediction can say it
        data = configuration.data.model_copy(update={"negative": dealt.negative})
        configuration = configuration.model_copy(update={"data": data})
    check_agents(len(dealt.shards))
    check_arrivals(configuration, dealt)
    flipped = None
    if configuration.audit.canaries:
        dealt, flipped = plant(configuration, dealt, clip_in_force(configuration, dealt), seed)
    own = _own_budgets(configuration, dealt, seed)
    learned = _profiles(configuration, dealt, own, secret_of, profiles)
    graph = network(configuration, dealt, seed) if learned is None else learned.graph(configuration)
    check_links(configuration, graph)
    check_names(configuration.event, dealt.names)
    records = np.array([len(shard.y) for shard in dealt.shards])
    if not records.any():
        raise ConfigurationError("[data] no agent has a training record, and a run would learn nothing; deal more rows")
    regularisations = configuration.learning.regularisation / np.maximum(records, 1)
    problems = [
        _problem(configuration, shard.x, shard.y, float(lambda_i))
        for shard, lambda_i in zip(dealt.shards, regularisations, strict=True)
    ]
    stepped = algorithm(configuration.learning.algorithm).uses_smoothness
    steps = np.array(
        [longest(configuration, dealt, problem, seed, agent) for agent, problem in enumerate(problems)]
        if stepped
        else []
    )
    configuration = with_rate(configuration, graph, confidences(records), steps, regularisations)
    return Preparation(
        configuration=configuration,
        own_budgets=own,
        dealt=dealt,
        network=graph,
        seed=seed,
        confidences=confidences(records),
        regularisations=regularisations,
        smoothness=steps,
        multipliers=multipliers(_spending(configuration), dealt.dimension),
        warnings=(
            *warnings_of(configuration, records, own),
            *nothing_held_out(dealt),
            *planted(configuration),
            *idle_clip(configuration, clip_in_force(configuration, dealt)),
            *foreseen(configuration, graph),
        ),
        membership=membership(configuration.event, dealt.names, seed),
        arrangement=arrangement(configuration, graph, [int(m) for m in records], dealt),
        profiles=learned,
        flipped=flipped,
    )


def noise_secret(configuration: Configuration, agent: int) -> bytes:
    """A new noise secret of an agent, from the operating system; in a simulation the one that the seed gives it."""
    if configuration.run.simulation:
        assert configuration.run.seed is not None
        return simulation_secret(configuration.run.seed, agent)
    return os.urandom(32)


def _profiles(
    configuration: Configuration,
    dealt: Dealt,
    own: Sequence[tuple[float, float]],
    secret_of: Callable[[int], bytes] | None,
    released: FloatArray | None,
) -> Profiles | None:
    """The profiles of a run whose graph is learned; None for any other."""
    if not is_learned(configuration):
        return None
    problems = [_problem(configuration, shard.x, shard.y, 0.0) for shard in dealt.shards]
    whole = configuration.privacy.epsilon or 0.0, configuration.privacy.delta or 0.0
    budgets = own or [whole] * len(problems)
    bounds = clip_in_force(configuration, dealt), row_bound(configuration, dealt)
    if released is None:
        return drawn(configuration, problems, budgets, bounds, secret_of)
    return replace(drawn(configuration, problems, budgets, bounds, None), vectors=released)


def _spending(configuration: Configuration) -> Configuration:
    """The configuration with what a profile leaves of the budget that all agents share."""
    privacy = configuration.privacy
    if not is_learned(configuration) or privacy.epsilon is None:
        return configuration
    return with_budget(configuration, left(configuration, (privacy.epsilon, privacy.delta or 0.0)))


def check_agents(agents: int) -> None:
    """Raise `ConfigurationError` where there are fewer agents than a run needs."""
    if agents < 2:
        raise ConfigurationError(
            "data.agents: the rows are dealt to one agent, which has no neighbour to learn with; accepted are 2 or more"
        )


def with_budget(configuration: Configuration, own: tuple[float, float]) -> Configuration:
    """The configuration with (epsilon, delta) of one agent in the place of its budget."""
    privacy = configuration.privacy.model_copy(update={"epsilon": own[0], "delta": own[1] or None})
    return configuration.model_copy(update={"privacy": privacy})


def _own_budgets(configuration: Configuration, dealt: Dealt, seed: int) -> tuple[tuple[float, float], ...]:
    """(epsilon, delta) of each agent, where they have their own; else empty."""
    privacy, names = configuration.privacy, list(dealt.names)
    if privacy.budgets is None and privacy.levels is None:
        return ()
    from coordinator_free.agent import Activation
    from node.dealing.budgets import dealt_by_levels, from_file

    delta = privacy.delta or 0.0
    if privacy.budgets is not None:
        own = from_file(Path(privacy.budgets), names, (privacy.epsilon or 0.0, delta))
    else:
        levels = [(share, epsilon) for share, epsilon in privacy.levels or []]
        own = dealt_by_levels(len(names), levels, delta, seed)
    silent = [i for i, (epsilon, _) in enumerate(own) if epsilon == 0]
    if silent and algorithm(configuration.learning.algorithm).activation is Activation.ROUNDS:
        raise ConfigurationError(
            f'learning.algorithm = "{configuration.learning.algorithm}": {agents_in_words(silent)} would opt out '
            "(epsilon 0) and all agents wait for it in every round; use an asynchronous algorithm"
        )
    return tuple(own)


def row_bound(configuration: Configuration, dealt: Dealt) -> float | None:
    """Public bound of every row's norm, in the norm of the mechanism; None where there is none."""
    return dealt.row_bounds.get(NORMS[configuration.privacy.mechanism]) if configuration.private else None


def clip_in_force(configuration: Configuration, dealt: Dealt) -> float | None:
    """``privacy.clip``, or the longest gradient that the loss has with rows within their public bound."""
    clip, bound = configuration.privacy.clip, row_bound(configuration, dealt)
    if clip is None or bound is None:
        return clip
    return min(clip, loss(configuration.learning.loss).lipschitz(bound * ROUNDING))


def confidences(records: Sequence[int] | FloatArray) -> FloatArray:
    """c_i = m_i / max_j m_j (Bellet et al. 2018, section 2.2); small and positive without data. Sizes are public."""
    sizes = np.asarray(records, dtype=np.float64)
    return np.maximum(sizes / max(float(sizes.max()), 1.0), SMALLEST_CONFIDENCE)


def longest(configuration: Configuration, dealt: Dealt, problem: LocalProblem, seed: int, agent: int) -> float:
    """The smoothness of L_i, with the largest mean loss of all times where records arrive: fewer may bend more."""
    whole = smoothness(configuration, dealt, problem)
    if not configuration.data.records_arrive or configuration.learning.smoothness not in ("data", "feature-law"):
        return whole
    own = arrivals(configuration, seed, agent, problem.records, dealt.shards[agent].arrivals)
    stages = [stage.problem for stage in Arriving.of(problem, own, configuration.clock.updates).stages()]
    largest = max(smoothness(configuration, dealt, part) - 2.0 * part.regularisation for part in stages)
    return max(whole, largest + 2.0 * problem.regularisation)


def smoothness(configuration: Configuration, dealt: Dealt, problem: LocalProblem) -> float:
    """The smoothness of L_i that sets the step; a public number in a private run."""
    kind = configuration.learning.smoothness
    if kind == "data":
        return problem.smoothness_of_data()
    if kind == "bound":
        if "l2" not in dealt.row_bounds:
            raise ConfigurationError(
                'learning.smoothness = "bound": nothing public bounds the rows; scale them by public bounds, state '
                "data.row_bound, or give a public number"
            )
        return problem.smoothness_bound(dealt.row_bounds["l2"])
    if kind == "feature-law":
        if dealt.feature_law is None:
            raise ConfigurationError(
                f'learning.smoothness = "feature-law": data.source "{configuration.data.source}" has no public feature '
                'law; use "bound" or a public number'
            )
        return problem.loss.curvature_bound * dealt.feature_law(problem.records) + 2.0 * problem.regularisation
    assert isinstance(kind, float)
    return kind + 2.0 * problem.regularisation


def _problem(configuration: Configuration, x: FloatArray, y: FloatArray, regularisation: float) -> LocalProblem:
    try:
        return LocalProblem(x, y, loss(configuration.learning.loss), regularisation)
    except LossError as error:
        named = "positive" in unused_by_source(configuration.data) or configuration.data.positive is not None
        remedy = "" if named else "; name the label that becomes 1 in data.positive"
        raise ConfigurationError(f'learning.loss = "{configuration.learning.loss}": {error}{remedy}') from None
