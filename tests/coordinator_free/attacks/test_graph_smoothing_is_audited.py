"""The audit recovers and attacks the noise of graph smoothing's releases, and finds it halved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from coordinator_free.agent import Agent
from coordinator_free.attacks.attacker import Attacker, Observed
from coordinator_free.attacks.charges import Account, Charge
from coordinator_free.attacks.divergence_bound import sharp_bound
from coordinator_free.attacks.families import attacker
from coordinator_free.attacks.noise_tests import examine
from coordinator_free.privacy.accounting import total
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from coordinator_free.twin.run import run_asynchronous
from topology.network import Network

AGENTS, UPDATES, SECRET = 24, 60, bytes(range(32))
CHARGED = {"graph-smoothing": (0,), "graph-smoothing-2r": (0, UPDATES // 2)}


@pytest.fixture
def recorded(
    regular: Callable[..., Network], problems: Callable[..., list[LocalProblem]], team: Callable[..., list[Agent]]
) -> Callable[[str, float], Attacker]:
    """The attacker of a run whose noise has ``factor`` times the scale that its ledgers charged."""

    def run(name: str, factor: float = 1.0) -> Attacker:
        network = regular(AGENTS, 3)
        made = problems(AGENTS, 3, LOGISTIC if name == "graph-smoothing" else SQUARED)
        learning = {"agents": AGENTS, "edges": [list(edge) for edge in network.edges], "relays": 2}
        if name == "graph-smoothing-2r":
            learning |= {"second_moment": (np.eye(3) / 3).tolist(), "finish_mu": 1.0, "finish": True}
        multipliers: FloatArray = np.full(len(CHARGED[name]), 3.0)

        def agents(by: float) -> list[Agent]:
            private = {"mechanism": "gaussian", "multipliers": by * multipliers, "clip": 1.0}
            return team(name, network, made, updates=UPDATES, learning=learning, **private)

        said = run_asynchronous(agents(factor), network, rate=1.0, seed=0).releases
        everything = {(release.sender, release.index): release for release in said}
        observed = []
        for i, agent in enumerate(agents(1.0)):
            charges = [Charge(k, k, agent.charge(k)) for k in CHARGED[name]]
            own = [everything[key] for key in sorted(everything) if key[0] == i]
            observed.append(
                Observed(type(agent), agent._setting, own, everything, Account(charges, budget=(1.0, 1e-3)))
            )
        return attacker(observed, SECRET)

    return run


@pytest.mark.parametrize("name", sorted(CHARGED))
def test_the_noise_of_every_charged_release_is_tested(name: str, recorded: Callable[..., Attacker]) -> None:
    found = recorded(name).noise()
    assert not found.untested
    assert [(row.agent, row.index) for row in found.rows] == [(i, k) for i in range(AGENTS) for k in CHARGED[name]]
    assert examine(found.rows).ok


@pytest.mark.parametrize("name", sorted(CHARGED))
def test_half_of_the_noise_is_found(name: str, recorded: Callable[..., Attacker]) -> None:
    verdict = examine(recorded(name, 0.5).noise().rows)
    assert not verdict.ok
    assert verdict.p_value < 1e-6


@pytest.mark.parametrize("name", sorted(CHARGED))
def test_the_attack_shows_a_part_of_what_is_accounted_and_no_more(name: str, recorded: Callable[..., Attacker]) -> None:
    made = recorded(name)
    attempt = made.attack(0, 1000, None)
    accounted = total(made._agents[0].account.all_charged(), 1e-3).epsilon
    shown = sharp_bound(*attempt.scores, 1e-3, 0.95)
    assert attempt.exact
    assert attempt.attained is not None
    assert 0.4 < attempt.attained <= 1.0
    assert 0.4 * attempt.attained * accounted < shown <= accounted
