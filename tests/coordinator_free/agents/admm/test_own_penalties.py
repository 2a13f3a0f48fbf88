"""Penalties and noise rates of the agents' own: each agent takes its own, and pays for its own noise alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.admm.admm import AdmmError
from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, jacobian_loss
from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.twin.run import run_rounds
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing.preparation import prepare
from tests.helpers.admm_networks import records, ring
from tests.helpers.admm_networks import settings as settings_of

OWN = {"own_penalties": [1.0, 2.0, 4.0], "own_growths": [1.0, 1.0, 1.02], "theta": 1.0}


def test_agents_with_penalties_of_their_own_agree_on_the_optimum() -> None:
    problems = records(3, 15, 3, 5)
    growing = settings_of(ring(3), problems, {"capacity": 10.0, "rho": 1.0, **OWN}, 5)
    assert ModifiedAdmm(growing[2]).curvature(3) == pytest.approx(1.0 + 2.0 * 4.0 * 1.02**3 * 2)
    constant = {"capacity": 10.0, "rho": 1.0, **OWN, "own_growths": None}
    agents = [ModifiedAdmm(setting) for setting in settings_of(ring(3), problems, constant, 300)]
    run_rounds(agents, ring(3))
    for agent in agents:
        np.testing.assert_allclose(agent.model, consensus_optimum(problems, 10.0, 1.0), atol=1e-6)


def test_each_agent_buys_the_noise_of_its_own_penalties_and_budget() -> None:
    learning = {"capacity": 20.0, "rho": 0.5, "own_penalties": [20.0, 40.0, 80.0], "theta": 20.0}
    plain = settings_of(ring(3), records(3, 12, 3, 7), learning, 4, "gamma-norm", np.ones(4))
    rates = []
    for setting, epsilon in zip(plain, (1.0, 2.0, 4.0), strict=True):
        multipliers, more = PenaltyPerturbation.buy(setting, 12, (epsilon, 1e-5), np.ones(4))
        agent = PenaltyPerturbation(
            replace(setting, multipliers=multipliers, learning={**setting.learning, **more}, clip=1.0)
        )
        charges = [agent.charge(t) for t in range(4)]
        assert 0.99 * epsilon <= total(charges, 1e-5).epsilon <= epsilon
        penalty = learning["own_penalties"][setting.agent]  # type: ignore[index]
        for charge in charges:
            assert isinstance(charge, ObjectivePerturbation)
            assert charge.jacobian == pytest.approx(jacobian_loss(0.25, 1.0, 12 / 20.0 * (0.5 + 2.0 * penalty * 2)))
        assert isinstance(charges[0], ObjectivePerturbation)
        rates.append(2.0 * penalty * 2 / charges[0].scale)
    assert len({round(math.log(rate), 3) for rate in rates}) == 3, "each agent has its own alpha"


@pytest.mark.parametrize(
    ("learning", "said"),
    [
        ({**OWN, "own_penalties": [1.0, 2.0]}, "3 finite numbers > 0"),
        ({**OWN, "own_growths": [1.0, 0.0, 1.0]}, "own_growths"),
        ({**OWN, "theta": None}, r"learning\.theta is missing"),
        ({**OWN, "own_growths": [1.0, 1.0, 1e9]}, "passes 1e"),
    ],
)
def test_penalties_that_cannot_be_are_named(learning: dict[str, Any], said: str) -> None:
    last = settings_of(ring(3), records(3, 5, 2, 1), {"capacity": 1.0, "rho": 1.0, **learning}, 5)[2]
    with pytest.raises(AdmmError, match=said):
        ModifiedAdmm(last)


def test_theory_looks_at_every_agents_penalties() -> None:
    learning = {"capacity": 1.0, "rho": 1.0, **OWN, "own_penalties": [1.0, 1.0, 0.5]}
    assert any("of agent 2" in warning for warning in ModifiedAdmm.foresee(learning, 5, ring(3)))


def table(**learning: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 3},
        "data": {"source": "synthetic", "agents": 3, "dimension": 3, "records": [10, 12]},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "m-admm", "capacity": 4.0, "rho": 0.5, **OWN, **learning},
        "clock": {"updates": 4},
    }


def test_a_configuration_gives_each_agent_its_own() -> None:
    prepared = prepare(from_table(table()))
    assert prepared.public(2).learning["own_penalties"] == [1.0, 2.0, 4.0]
    with pytest.raises(ConfigurationError, match=r"learning\.penalty = 2.0: it would change nothing"):
        from_table(table(penalty=2.0))
    with pytest.raises(ConfigurationError, match="own_penalties"):
        from_table(table(algorithm="admm"))
