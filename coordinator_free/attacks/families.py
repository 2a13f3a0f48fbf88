"""The attacker of each family of algorithms, chosen once for a run by what the algorithm declares (`attacked_by`).

Rules that hold here:
- What an algorithm's settings hide (an anchor's noise, a masked sum) is looked up when the attacker is chosen, once.
- A family changes only what differs from `Attacker`: where the noise is, how a run is made again, what a sum shows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, cast

import numpy as np

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.settings import AdmmSettings
from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.agents.averages.arrangement import MASKED, AggregatingSettings
from coordinator_free.agents.averages.averaging import Averaging, AveragingSettings, Descent
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.algorithm import Algorithm, Attack
from coordinator_free.attacks import (
    hidden_penalties,
    local_descent,
    masked_sums,
    membership,
    observed_rounds,
    perturbed_objectives,
    reconstruction,
)
from coordinator_free.attacks.attacker import Attacker, Attempt, Guesses, Observed, Recovered, Scorer
from coordinator_free.attacks.inversion import InversionError, noised_part
from coordinator_free.attacks.likelihood_ratio import Environment, FreshNoise, Replacement, attack_scores, environment
from coordinator_free.attacks.noise_tests import NoiseRow
from coordinator_free.attacks.recorded_states import Shifts, candidates
from coordinator_free.attacks.worst_case import sampled_states, worst_alternative
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.problem.regularisers import SQUARE
from coordinator_free.release import FloatArray

RUNS: Final = 16
"""Fresh runs along which the worst replacement is sought."""
DESCENTS: Final = 1199
"""Fresh local descents that a release's noise is compared with."""


class CoordinateSteps(Attacker):
    """Coordinate descent: whole runs are made anew, many at once, and their exact likelihood ratio is the score."""

    def attack(self, agent: int, trials: int, record: int | None) -> Attempt:
        """Make whole runs of the agent anew, with either record.

        Where the noise's scale follows the agent's model, a run made anew would have other scales than the recorded
        one: each release is held at its recorded state instead. So it is where records arrive during the run.
        """
        code = self._agents[agent].code()
        if code.follows_its_model or code.windows:
            return super().attack(agent, trials, record)
        world, noise = self._environment(agent), self._fresh(agent)
        at = sampled_states(world, self._agents[agent].vectors(), RUNS, noise)
        worst = worst_alternative(world, at, record=record, row_bound=self._row_bound(self._agents[agent]))
        scores = attack_scores(world, worst.replacement, 2 * trials, noise)
        return Attempt(scores, worst.replacement.record, worst.attained, trials)

    def residuals(self, agent: int, record: int) -> FloatArray:
        """What each release tells beyond all records but one: a gradient plus noise, shape (T, p)."""
        return reconstruction.residuals(self._environment(agent), self._agents[agent].vectors(), record)

    def membership(self, agent: int) -> Scorer:
        """How far the agent's releases move along a record's gradient; by its loss where records arrive."""
        if self._agents[agent].code().windows:
            return super().membership(agent)
        world, vectors = self._environment(agent), self._agents[agent].vectors()
        return lambda x, y: membership.gradient_scores(world, vectors, x, y)

    def _environment(self, agent: int) -> Environment:
        observed = self._agents[agent]
        return environment(observed.setting, observed.recorded, observed.heard, observed.mechanisms())


class Minimisers(Attacker):
    """The ADMM family with noise added to the minimiser: what a round minimised shows a missing record."""

    def residuals(self, agent: int, record: int) -> FloatArray:
        """What each round's minimiser tells beyond all records but one, shape (T, p)."""
        return _residuals_of_rounds(self._agents[agent], record)

    def direction(self, agent: int, record: int) -> FloatArray | None:
        """The direction that the rounds' planes share, in a run without noise whose penalties may differ by round."""
        return None if self._private else _shared_direction(self._agents[agent], record)


class HiddenNoise(Attacker):
    """Noise that is inside the minimised objective: solved for from the exact minimiser that is released."""

    @abstractmethod
    def rounds(self, observed: Observed) -> list[perturbed_objectives.Round]:
        """The perturbed objectives of an agent."""

    @abstractmethod
    def bound(self, observed: Observed) -> float:
        """Public bound of a row's L2 norm."""

    def fitted(self, observed: Observed) -> bool:  # noqa: ARG002
        """Whether the attack also fits penalties."""
        return False

    def capacity(self, observed: Observed) -> float:  # noqa: ARG002
        """What the mean loss is multiplied with in the minimised objective."""
        return 1.0

    def attack(self, agent: int, trials: int, record: int | None) -> Attempt:
        """Draw each round's noise anew at its recorded state, with either record."""
        if not self._private:
            return super().attack(agent, trials, record)
        observed = self._agents[agent]
        setting, capacity, rounds = observed.setting, self.capacity(observed), self.rounds(observed)
        records, dimension = setting.problem.records, setting.problem.dimension
        made = perturbed_objectives.affordable(trials, records, dimension, len(rounds), fitted=self.fitted(observed))
        if made < 2:
            raise InversionError("too many records and features for the trials of an objective perturbation")
        replacement, attained = perturbed_objectives.worst_replacement(
            setting, capacity, rounds, row_bound=self.bound(observed), record=record
        )
        scores, without = self._scores(observed, rounds, replacement, 2 * made)
        return Attempt(scores, replacement.record, attained, made, without_penalties=without)

    def _scores(
        self,
        observed: Observed,
        rounds: Sequence[perturbed_objectives.Round],
        replacement: Replacement,
        trials: int,
    ) -> tuple[hidden_penalties.Scores, hidden_penalties.Scores | None]:
        """Scores of ``trials`` runs, and those of an observer without the penalties."""
        setting, noise = observed.setting, self._fresh(observed.setting.agent)
        capacity = self.capacity(observed)
        return perturbed_objectives.objective_scores(setting, capacity, rounds, replacement, trials, noise), None

    def attainable(self, agent: int) -> float | None:
        """The share of the charged sensitivity that the worst possible record shifts the noise by, mean over rounds."""
        observed = self._adversarial(self._agents[agent])
        rounds = self.rounds(observed)
        if not self._private or not rounds:
            return None
        _, attained = perturbed_objectives.worst_replacement(
            observed.setting, self.capacity(observed), rounds, row_bound=self.bound(observed), record=0
        )
        return attained

    def _recover(self, observed: Observed, found: Recovered) -> None:
        setting, account = observed.setting, observed.account
        capacity, rounds = self.capacity(observed), self.rounds(observed)
        rows = perturbed_objectives.noise_rows(setting.agent, setting.problem, capacity, rounds)
        found.rows += [replace(row, mechanism=account.mechanism(row.index) or row.mechanism) for row in rows]


class Objectives(HiddenNoise):
    """The ADMM family with noise in each round's objective (dual and penalty perturbation)."""

    def rounds(self, observed: Observed) -> list[perturbed_objectives.Round]:
        """Every round, observed along the recorded releases."""
        make = cast("type[DualPerturbation]", observed.make)
        return perturbed_objectives.observe(make, observed.setting, observed.recorded, observed.heard)

    def fitted(self, observed: Observed) -> bool:
        """Whether the penalties grow, so that an observer may not know them."""
        return cast("type[Admm]", observed.make).varying_penalty

    def bound(self, observed: Observed) -> float:
        """Public bound of a row's L2 norm."""
        return cast("DualPerturbation", observed.code()).row_bound

    def capacity(self, observed: Observed) -> float:
        """The constant C of the papers."""
        return AdmmSettings.of(observed.setting.learning).capacity

    def residuals(self, agent: int, record: int) -> FloatArray:
        """What each round's minimiser tells beyond all records but one, shape (T, p)."""
        return _residuals_of_rounds(self._agents[agent], record)

    def direction(self, agent: int, record: int) -> FloatArray | None:
        """As for `Minimisers`."""
        return None if self._private else _shared_direction(self._agents[agent], record)

    def _scores(
        self,
        observed: Observed,
        rounds: Sequence[perturbed_objectives.Round],
        replacement: Replacement,
        trials: int,
    ) -> tuple[hidden_penalties.Scores, hidden_penalties.Scores | None]:
        make, setting = cast("type[DualPerturbation]", observed.make), observed.setting
        if not self.fitted(observed):
            return super()._scores(observed, rounds, replacement, trials)
        terms = observed_rounds.observe_terms(make, setting, observed.recorded, observed.heard)
        noise, capacity = self._fresh(setting.agent), self.capacity(observed)
        return hidden_penalties.scores(setting, capacity, rounds, terms, replacement, trials, noise)


class PerturbedAnchors(HiddenNoise):
    """One release of a perturbed local objective's minimiser; all later releases follow from released values."""

    def rounds(self, observed: Observed) -> list[perturbed_objectives.Round]:
        """The one round of the anchor, release 0."""
        setting, code = observed.setting, observed.code()
        curvature, mechanism = Anchor(setting, AnchorSettings.of(setting.learning)).perturbation()
        first = [replace(r, vector=noised_part(code, r)) for r in observed.recorded if r.index == 0]
        return [
            perturbed_objectives.Round(release, curvature, np.zeros(setting.dimension), SQUARE, mechanism)
            for release in first
        ]

    def bound(self, observed: Observed) -> float:
        """Public bound of a row's L2 norm."""
        return Anchor(observed.setting, AnchorSettings.of(observed.setting.learning)).row_bound


class LocalSteps(Attacker):
    """Noisy local steps of which only the end is released: the steps are run again, with either record."""

    def attack(self, agent: int, trials: int, record: int | None) -> Attempt:
        """Run the agent's local steps again, with either record."""
        observed = self._agents[agent]
        descent = _descent(observed)
        if descent is None:
            return super().attack(agent, trials, record)
        setting = observed.setting
        made = local_descent.affordable(trials, setting.problem.records, setting.problem.dimension, descent.steps)
        if made < 2:
            raise InversionError("too many records, features and steps for the trials of a local descent")
        change, move = local_descent.strongest(setting, descent, candidates(setting, record=record))
        scores = local_descent.scores(setting, descent, change, move, 2 * made, self._fresh(agent))
        return Attempt(scores, change.record, None, made, exact=False)

    def attainable(self, agent: int) -> float | None:
        """As for any release; None for noisy local steps, whose end has no exact value."""
        return None if _descent(self._agents[agent]) is not None else super().attainable(agent)

    def _recover(self, observed: Observed, found: Recovered) -> None:
        descent = _descent(observed)
        if descent is None:
            super()._recover(observed, found)
        else:
            found.distances[observed.setting.agent] = self._distances(observed, descent)

    def _distances(self, observed: Observed, descent: Descent) -> FloatArray:
        """How far off the agent's release and fresh ones are, at the noise that its ledger charged."""
        agent, problem, code = observed.setting.agent, observed.setting.problem, observed.code()
        first = observed.heard.get((agent, 0))
        if first is None:
            raise InversionError(f"release 0 of agent {agent} was not recorded")
        if local_descent.affordable(DESCENTS, problem.records, problem.dimension, descent.steps) < DESCENTS:
            raise InversionError("too many records, features and steps to run a local descent again often enough")
        charged, due = observed.account.mechanism(0), code.charge(0)
        if charged is not None and due is not None:
            descent = replace(descent, deviation=descent.deviation * charged.scale / due.scale)
        noise = FreshNoise(self._secret + b"law" + agent.to_bytes(4, "big"))
        return local_descent.distances(observed.setting, descent, noised_part(code, first), DESCENTS, noise)


class MaskedSums(Attacker):
    """Masked sums: an observer sees these, and no agent's own vectors."""

    @cached_property
    def _sums(self) -> list[masked_sums.Sum]:
        agents = [cast("Aggregating", observed.code()) for observed in self._agents]
        return masked_sums.overhear(agents, self._agents[0].heard)

    def noise(self) -> Recovered:
        """The noise of each sum, as if agent 0 had released it."""
        found = Recovered()
        if not self._private:
            return found
        try:
            sums = self._sums
        except InversionError as error:
            found.notes.append(f"noise of the masked sums not tested: {error}")
            return found
        found.notes.append("the noise tested is that of the masked sums: as agent 0's")
        found.rows += [NoiseRow(0, s.index, s.noise, s.law, on_grid=False) for s in sums if isinstance(s.law, Gaussian)]
        return found

    def guesses(self) -> Guesses | None:
        """Guesses at the signs of single parties' numbers; None where no sum could be made again."""
        try:
            guesses, right, p_value = masked_sums.guessed(self._sums)
        except InversionError:
            return None
        return Guesses(len(self._sums), guesses, right, p_value)

    def _shifts(self, observed: Observed, changes: Sequence[Replacement]) -> list[Shifts]:
        found = []
        for change in changes:
            problem = change.apply(observed.setting.problem)
            changed = replace(observed, setting=replace(observed.setting, problem=problem))
            as_is, other = (cast("Aggregating", one.code()) for one in (observed, changed))
            found.append(masked_sums.shifts(as_is, other, self._sums))
        return found


def attacker(agents: Sequence[Observed], secret: bytes) -> Attacker:
    """The attacker of a run: ``agents`` are all of one algorithm, in order."""
    first = agents[0]
    return family(first.make, first.setting.learning)(agents, secret)


def family(make: type[Algorithm], learning: Mapping[str, object]) -> Callable[[Sequence[Observed], bytes], Attacker]:
    """The class of the attacker of an algorithm with these settings."""
    return _FAMILIES[make.attacked_by](learning)


_Make = Callable[[Sequence[Observed], bytes], Attacker]


def _of_anchors(learning: Mapping[str, object]) -> _Make:
    return PerturbedAnchors if AnchorSettings.of(learning).anchor == "objective-perturbation" else Attacker


def _of_averages(learning: Mapping[str, object]) -> _Make:
    return MaskedSums if AggregatingSettings.of(learning).aggregation in MASKED else Attacker


def _of_local_steps(learning: Mapping[str, object]) -> _Make:
    own = AveragingSettings.of(learning)
    if own.aggregation in MASKED:
        return MaskedSums
    return PerturbedAnchors if own.local == "objective-perturbation" else LocalSteps


_FAMILIES: Final[Mapping[Attack, Callable[[Mapping[str, object]], _Make]]] = {
    Attack.RELEASES: lambda _: Attacker,
    Attack.COORDINATE_STEPS: lambda _: CoordinateSteps,
    Attack.MINIMISERS: lambda _: Minimisers,
    Attack.OBJECTIVES: lambda _: Objectives,
    Attack.ANCHORS: _of_anchors,
    Attack.AVERAGES: _of_averages,
    Attack.LOCAL_STEPS: _of_local_steps,
}


def _residuals_of_rounds(observed: Observed, record: int) -> FloatArray:
    rounds = observed_rounds.observe(
        cast("type[Admm]", observed.make), observed.setting, observed.recorded, observed.heard
    )
    capacity = AdmmSettings.of(observed.setting.learning).capacity
    return reconstruction.admm_residuals(observed.setting.problem, capacity, rounds, record)


def _shared_direction(observed: Observed, record: int) -> FloatArray | None:
    make = cast("type[Admm]", observed.make)
    if not make.varying_penalty:
        return None
    terms = observed_rounds.observe_terms(make, observed.setting, observed.recorded, observed.heard)
    capacity = AdmmSettings.of(observed.setting.learning).capacity
    return hidden_penalties.direction(observed.setting.problem, capacity, terms, record)


def _descent(observed: Observed) -> Descent | None:
    """The noisy steps of an agent that releases only what they come to."""
    return cast("Averaging", observed.code()).descent()
