"""An audit as one agent of the run: what it could learn of the others from the releases that it receives.

Rules that hold here:
- The agent's figures are never compared with the promise as a failure: the promise speaks of an observer of all
  releases. Beside them stands epsilon towards this very agent, where there is a figure for it.
- A part that needs releases which the agent does not receive is named, and not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinator_free.algorithm import Attack
from coordinator_free.attacks.attacker import Attempt
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.likelihood_ratio import FreshNoise, environment
from coordinator_free.attacks.neighbour_view import NeighbourView
from coordinator_free.attacks.worst_case import Worst, worst_alternative
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.privacy.observer import epsilons_of_a_sum
from coordinator_free.privacy.observers import NoSurrogate, view
from node.audit.attack import accounted, attacked_with, shown_by
from node.audit.evidence import Evidence
from node.audit.recording import Recording
from node.audit.report import AgentAudit, AuditError, ObserverReport, Part
from topology.distance import depths

NOT_POSSIBLE = (
    "the tests of the noise need all releases that a release was computed from",
    "reconstruction needs the same",
    "guesses at masked sums need the vectors of all parties",
)
SURROGATE, MASKED = "a linear surrogate of the run", "the accounting of masked sums, for one agent of the sum"
"""How epsilon towards an observer is found."""
MOST_TARGETS = 4
"""Agents that are attacked where none is named: two neighbours of the observer, and two at two hops."""


def received(recording: Recording, observer: int) -> Recording:
    """The part of a recording that one agent receives: its neighbours' releases. Its own are what it knows."""
    kept = set(recording.run.public[observer].neighbours)
    return replace(
        recording,
        heard={key: release for key, release in recording.heard.items() if key[0] in kept | {observer}},
        said={agent: releases for agent, releases in recording.said.items() if agent in kept},
        filled={key for key in recording.filled if key[0] in kept},
        first_ns={key: ns for key, ns in recording.first_ns.items() if key[0] in kept},
        headers={agent: sizes for agent, sizes in recording.headers.items() if agent in kept},
        bodies={agent: sizes for agent, sizes in recording.bodies.items() if agent in kept},
    )


def targets(evidence: Evidence, observer: int, named: Sequence[int], record: int | None) -> Part[list[int]]:
    """The agents to attack: those that were named, or the nearest few that have records."""
    count = len(evidence.agents)
    if not 0 <= observer < count:
        raise AuditError(f"--as agent:{observer}: the run has agents 0 to {count - 1}")
    if observer in named:
        raise AuditError(f"--agent {observer}: it is the observer; name other agents")
    if named:
        return Part(sorted(set(named)))
    hops = depths(evidence.run.network.weights, observer)
    able = [a for a in range(count) if a != observer and evidence.records(a) > (record or 0)]
    near = [a for a in able if hops[a] == 1][: MOST_TARGETS // 2]
    far = [a for a in able if hops[a] == 2][: MOST_TARGETS - len(near)]
    return Part(sorted(near + far), notes=(f"attacked are agents {', '.join(map(str, sorted(near + far)))}",))


def of_others(evidence: Evidence, observer: int) -> Evidence:
    """The evidence about the other agents: the observer learns nothing new from its own releases."""
    agents = [replace(o, recorded=()) if o.setting.agent == observer else o for o in evidence.agents]
    return replace(evidence, agents=tuple(agents))


@dataclass(frozen=True, eq=False)
class As:
    """An audit as ``observer``: the whole run's ``evidence``, and what the observer has of it (``seen``)."""

    evidence: Evidence
    seen: Evidence
    observer: int
    secret: bytes

    def attack(
        self, chosen: Sequence[int], trials: int, confidence: float, record: int | None
    ) -> Part[tuple[AgentAudit, ...]]:
        """Attack the chosen agents, and account for all as in any audit."""
        tried = self._direct(chosen, trials, record)
        rest = [agent for agent in chosen if tried.get(agent) is None and self.evidence.records(agent)]
        notes = []
        try:
            tried |= self._from_afar(rest, trials, record)
        except InversionError as error:
            notes.append(f"agents {', '.join(map(str, rest))} are not attacked: {error}")
        delta = self.evidence.delta
        found = []
        for agent in range(len(self.evidence.agents)):
            attempt = tried.get(agent)
            own = accounted(self.evidence, agent, confidence)
            if attempt is None:
                why = "not chosen" if agent not in chosen else "not possible from what the observer receives"
                found.append(replace(own, why=why))
                continue
            fewer = [f"{attempt.trials} trials of the whole network, as many as a few minutes allow"]
            shown = shown_by(attempt, delta, confidence)
            found.append(attacked_with(own, attempt, shown, fewer if attempt.trials < trials else []))
        return Part(tuple(found), notes=tuple(notes))

    def report(self, results: Sequence[AgentAudit]) -> Part[ObserverReport]:
        """Epsilon of each agent towards the observer, and where an attack shows more than it."""
        by, epsilons, why = self._epsilons()
        notes = [
            f"agent {a.agent}: attacked {a.attacked:.2f} is above epsilon {epsilons[a.agent] or 0.0:.2f} towards the "
            f"observer ({by}): by chance, or because what it assumes does not hold for this run"
            for a in results
            if epsilons and a.attacked is not None and a.attacked > (epsilons[a.agent] or 0.0) + 1e-9
        ]
        hops = depths(self.evidence.run.network.weights, self.observer).tolist()
        not_possible = NOT_POSSIBLE if self.evidence.run.configuration.private else NOT_POSSIBLE[1:]
        found = ObserverReport(self.observer, tuple(hops), by, tuple(epsilons), why, not_possible)
        return Part(found, notes=tuple(notes))

    def _epsilons(self) -> tuple[str, list[float | None], str]:
        """How epsilon towards the observer is found, and each agent's; or nothing, and why."""
        run, delta = self.evidence.run, self.evidence.delta
        if not run.configuration.private:
            return "", [], "nothing is private"
        if run.configuration.privacy.observer == "sum":
            return MASKED, self._of_masked_sums(), ""
        agents = [observed.code() for observed in self.evidence.agents]
        try:
            found = view(agents, run.configuration.clock.updates, run.network, delta, [self.observer]).of[0]
        except NoSurrogate as error:
            return "", [], str(error)
        return SURROGATE, [None if np.isnan(epsilon) else float(epsilon) for epsilon in found], ""

    def _of_masked_sums(self) -> list[float | None]:
        """Each agent's epsilon towards one that takes part in the sums and knows its own part of their noise."""
        privacy, count = self.evidence.run.configuration.privacy, len(self.evidence.agents)
        noisy = sum(self.evidence.records(agent) > 0 for agent in range(count))
        found: list[float | None] = []
        for agent in range(count):
            own = accounted(self.evidence, agent, 0.95).accounted
            if agent == self.observer or not own:
                found.append(None)
                continue
            mu = gaussian_mu(own, self.evidence.delta)
            seen = epsilons_of_a_sum(mu, self.evidence.delta, noisy, privacy.colluders, privacy.dropouts)["participant"]
            found.append(seen if np.isfinite(seen) else None)
        return found

    def _direct(self, chosen: Sequence[int], trials: int, record: int | None) -> dict[int, Attempt]:
        """The attacks of any audit, where the observer receives all that an agent's releases were made of."""
        tried = {}
        for agent in chosen:
            if not self.evidence.records(agent) or not self.seen.agents[agent].recorded:
                continue
            try:
                tried[agent] = self.seen.attacker.attack(agent, trials, record)
            except InversionError:
                continue
        return tried

    def _from_afar(self, chosen: Sequence[int], trials: int, record: int | None) -> dict[int, Attempt]:
        """The attack on whole runs of the network, where there is one."""
        first = self.evidence.agents[0]
        if not chosen:
            return {}
        if first.make.attacked_by is not Attack.COORDINATE_STEPS:
            raise InversionError(f"{first.make.name} has no attack with a part of the releases")
        if not self.evidence.run.configuration.private:
            raise InversionError("without noise there is nothing to judge")
        worst = {agent: self._worst(agent, record) for agent in chosen}
        noise = FreshNoise(self.secret + self.observer.to_bytes(4, "big"))
        network = NeighbourView(self.evidence.agents, self.observer, self.evidence.recording.first_ns)
        made = network.affordable(trials, len(worst))
        scores = network.scores({agent: found.replacement for agent, found in worst.items()}, 2 * made, noise)
        return {
            agent: Attempt(scores[agent], found.replacement.record, found.attained, made, exact=False)
            for agent, found in worst.items()
        }

    def _worst(self, agent: int, record: int | None) -> Worst:
        observed = self.evidence.agents[agent]
        world = environment(observed.setting, observed.recorded, observed.heard, observed.mechanisms())
        vectors = observed.vectors()
        at = np.stack([np.zeros_like(vectors[0]) if p < 0 else vectors[p] for p in world.parents])
        return worst_alternative(world, at, record=record, row_bound=observed.setting.row_bound)
