"""Penalties and noise rates of figures 2 to 4, and what they cost by round in three readings.

The paper prints eta(1) = theta = 0.5 and alpha(1). Of the factors a round, q1 and q2, its text prints none: those here
are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.agents.admm.penalty_perturbation import published_cost, round_cost
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, jacobian_loss
from coordinator_free.release import FloatArray
from node.experiments.reproduce.adult import ADULT, CAPACITY, DELTA, published
from node.experiments.reproduce.paper001.figure1 import PRINTED
from node.experiments.trial import Trial
from node.untyped import Changes

DEGREE = 2
"""Of every agent: the runs are on a ring."""
_EVERY = 5
"""Rounds after which the total at a delta is worked out, and at the end."""


@dataclass(frozen=True)
class Costs:
    """What the agent that loses most has lost by each round.

    ``printed`` (Eq. 26) and ``tight`` (the sum of the true pure costs) have shape (T,); ``composed`` is the true total
    at delta 1e-5 after the rounds ``at``.
    """

    printed: FloatArray
    tight: FloatArray
    at: Sequence[int]
    composed: Sequence[float]


@dataclass(frozen=True)
class Schedule:
    """Penalty eta q1^t and noise rate alpha q2^t; each number for an agent, repeated where there are more agents.

    ``theta`` is the dual step of all.
    """

    penalties: Sequence[float]
    growths: Sequence[float]
    alphas: Sequence[float]
    alpha_growths: Sequence[float]
    theta: float = 0.5

    def changes(self) -> Changes:
        """The changes of a run of penalty perturbation with this schedule."""
        rates = {"alphas": list(self.alphas), "alpha_growths": list(self.alpha_growths)}
        penalties = {"starts": list(self.penalties), "growths": list(self.growths)}
        return {
            **ADULT,
            **published("GivenRates", **rates, **penalties),
            "topology.kind": "ring",
            "learning.capacity": CAPACITY,
            "learning.rho": 1.0,
            "learning.regulariser": "shared",
            "learning.penalty": self.penalties[0],
            "learning.theta": self.theta,
        }

    def costs(self, trial: Trial) -> Costs:
        """What each round cost the agent that lost most in the end, with rho = 1 shared by the agents."""
        rounds, rho = trial.preparation.configuration.clock.updates, 1.0 / trial.preparation.agents
        worst: tuple[float, int] | None = None
        printed = np.zeros(rounds)
        for agent, records in enumerate(trial.records):
            pairs = self._pairs(agent, rounds)
            own = np.cumsum([published_cost(alpha, eta, DEGREE, records, CAPACITY) for eta, alpha in pairs])
            printed = np.maximum(printed, own)
            tight = sum(round_cost(alpha, eta, DEGREE, records, CAPACITY, rho) for eta, alpha in pairs)
            worst = max(worst or (0.0, agent), (tight, agent))
        assert worst is not None
        pairs, records = self._pairs(worst[1], rounds), trial.records[worst[1]]
        each = [round_cost(alpha, eta, DEGREE, records, CAPACITY, rho) for eta, alpha in pairs]
        charges = [_charge(alpha, eta, records, rho, trial.preparation.dealt.dimension) for eta, alpha in pairs]
        at = list(range(_EVERY, rounds, _EVERY))
        composed = [total(charges[:t], DELTA).epsilon for t in at]
        return Costs(printed, np.cumsum(each), [*at, rounds], [*composed, trial.epsilon or 0.0])

    def _pairs(self, agent: int, rounds: int) -> list[tuple[float, float]]:
        """(eta, alpha) of each round of one agent."""
        eta, q1 = (values[agent % len(values)] for values in (self.penalties, self.growths))
        alpha, q2 = (values[agent % len(values)] for values in (self.alphas, self.alpha_growths))
        return [(eta * q1**t, alpha * q2**t) for t in range(rounds)]


def _charge(alpha: float, eta: float, records: int, rho: float, dimension: int) -> ObjectivePerturbation:
    """The mechanism of a round: noise 2 eta N e in the linear term, e of rate alpha; rows of norm at most 1."""
    jacobian = jacobian_loss(0.25, 1.0, records / CAPACITY * (rho + 2.0 * eta * DEGREE))
    return ObjectivePerturbation(2.0 * CAPACITY / records, 2.0 * eta * DEGREE / alpha, jacobian, dimension)


DVP, PP = ("DVP, q2 = 1", "DVP, q2 = 1.01"), ("PP, q1 = 1.02, q2 = 1.01", "PP, q1 = q2 = 1.02")
"""Two lines of each method: the first one costs less."""
OWN, CONTROL = "PP, eta and alpha of each node's own", "control: constant penalty 5"


def schedules(alpha: float) -> dict[str, Schedule]:
    """The lines of a figure with ``alpha`` in the first round, one with numbers of the nodes' own, and a control.

    The control is a constant penalty ten times larger with the same noise in the linear term as DVP.
    """
    own = [alpha * share for share in (0.8, 0.9, 1.0, 1.1, 1.2)]
    return {
        DVP[0]: Schedule([0.5], [1.0], [alpha], [1.0]),
        DVP[1]: Schedule([0.5], [1.0], [alpha], [1.01]),
        PP[0]: Schedule([0.5], [1.02], [alpha], [1.01]),
        PP[1]: Schedule([0.5], [1.02], [alpha], [1.02]),
        OWN: Schedule(PRINTED["starts"], [1.01, 1.03, 1.02, 1.03, 1.02], own, [1.01]),
        CONTROL: Schedule([5.0], [1.0], [5.0 * alpha], [1.0], theta=5.0),
    }
