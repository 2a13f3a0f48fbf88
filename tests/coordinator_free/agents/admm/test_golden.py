"""The arithmetic of one round, against vectors computed in 80-bit precision by an independent program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.solver import LocalSolver
from coordinator_free.release import FloatArray
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import path, settings
from tests.helpers.places import GOLDEN

GOLDEN = json.loads((GOLDEN / "admm.json").read_text())
INPUTS = GOLDEN["inputs"]
NETWORK = path(3)
PROBLEMS = [
    LocalProblem(np.array(x), np.array(y, dtype=float), LOGISTIC, 0.0)
    for x, y in zip(INPUTS["X"], INPUTS["y"], strict=True)
]
COMMON = {"capacity": INPUTS["C"], "rho": INPUTS["rho"], "penalty": INPUTS["theta"]}


def check(agents: Sequence[Admm], golden: list[dict[str, Any]]) -> None:
    duals: list[FloatArray] = []
    seen = run_rounds(agents, NETWORK)
    for step in golden:
        for i, expected in enumerate(step["f"]):
            said = next(r for r in seen.releases if r.sender == i and r.round == step["t"] - 1)
            np.testing.assert_allclose(said.vector, expected, rtol=0, atol=1e-12)
        average = np.mean(
            [
                np.mean(LOGISTIC.values(r.vector, PROBLEMS[r.sender].x, PROBLEMS[r.sender].y))
                for r in seen.releases
                if r.round == step["t"] - 1
            ]
        )
        assert average == pytest.approx(step["avg_loss"], abs=1e-12)
    # The dual of round t is seen in round t + 1; the last dual in the file is computed from the last releases.
    for i, agent in enumerate(agents):
        agent._dual_step()
        duals.append(agent._dual)
        np.testing.assert_allclose(duals[i], golden[-1]["lambda"][i], rtol=0, atol=1e-12)


def test_conventional_with_a_shared_regulariser() -> None:
    learning = COMMON | {"regulariser": "shared"}
    agents = [Admm(setting) for setting in settings(NETWORK, PROBLEMS, learning, 3)]
    check(agents, GOLDEN["conventional_reg_001"])


def test_conventional_with_a_regulariser_per_node() -> None:
    agents = [Admm(setting) for setting in settings(NETWORK, PROBLEMS, COMMON | {"regulariser": "per-node"}, 3)]
    check(agents, GOLDEN["conventional_reg_000"])


def own_penalties() -> list[dict[str, Any]]:
    return [
        COMMON | {"regulariser": "shared", "theta": INPUTS["theta"], "penalty": eta, "penalty_growth": q}
        for eta, q in zip(INPUTS["madmm_eta1"], INPUTS["madmm_q"], strict=True)
    ]


def test_penalties_of_ones_own() -> None:
    agents = [ModifiedAdmm(setting) for setting in settings(NETWORK, PROBLEMS, own_penalties(), 3)]
    check(agents, GOLDEN["madmm_reg_001"])


def test_given_penalties_are_the_geometric_ones() -> None:
    given = [
        {k: v for k, v in own.items() if k not in {"penalty", "penalty_growth"}}
        | {"penalties": [own["penalty"] * own["penalty_growth"] ** t for t in range(3)]}
        for own in own_penalties()
    ]
    agents = [ModifiedAdmm(setting) for setting in settings(NETWORK, PROBLEMS, given, 3)]
    check(agents, GOLDEN["madmm_reg_001"])


class GivenNoise(PenaltyPerturbation):
    """Penalty perturbation with the noise of the file in place of its own."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)

    def _next_release(self, index: int) -> FloatArray:
        noise = np.array(INPUTS["pp_eps[t-1][i]"][index][self._setting.agent])
        linear = self._linear(index) + 2.0 * self._penalties[index] * len(self._place) * noise
        return self._minimise(index, linear)


def test_penalty_perturbation_given_its_noise() -> None:
    agents = [GivenNoise(setting) for setting in settings(NETWORK, PROBLEMS, own_penalties(), 3)]
    check(agents, GOLDEN["pp_reg_001_given_noise"])


@pytest.mark.thorough
@pytest.mark.parametrize(("convention", "total"), [("shared", 0.1), ("per-node", 0.3)])
def test_conventional_admm_comes_to_the_pooled_optimum(convention: str, total: float) -> None:
    golden = GOLDEN["central_optimum_reg_001" if convention == "shared" else "central_optimum_reg_000"]
    learning = COMMON | {"regulariser": convention, "penalty": 1.0}
    agents = [Admm(setting) for setting in settings(NETWORK, PROBLEMS, learning, 1500)]
    run_rounds(agents, NETWORK)
    # All sizes are equal, so the pooled optimum is one agent's problem with all the records.
    pooled = LocalProblem(
        np.concatenate([p.x for p in PROBLEMS]), np.concatenate([p.y for p in PROBLEMS]), LOGISTIC, 0.0
    )
    best = LocalSolver(pooled, 3 * INPUTS["C"]).minimise(total, np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(best, golden, rtol=0, atol=1e-10)
    for agent in agents:
        np.testing.assert_allclose(agent.model, golden, rtol=0, atol=1e-10)
