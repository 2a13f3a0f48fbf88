"""Budgets of the agents' own, and agents that opt out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.accounting import calibrate, total
from coordinator_free.privacy.budgets import BudgetError, by_levels
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.twin.run import run_asynchronous
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing.budgets import dealt_by_levels, from_file
from node.dealing.preparation import prepare


def test_levels_are_dealt_in_their_shares() -> None:
    epsilons = by_levels(10, [(0.25, 0.1), (0.5, 1.0), (0.25, 0.0)], np.random.default_rng(0))
    assert sorted(epsilons) == [0.0, 0.0, 0.1, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert list(epsilons) != sorted(epsilons)
    assert dealt_by_levels(4, [(0.5, 1.0), (0.5, 2.0)], 1e-5, 3) == dealt_by_levels(
        4, [(0.5, 1.0), (0.5, 2.0)], 1e-5, 3
    )


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([(0.5, 1.0)], "add up to 1, not to 0.5"),
        ([(1.5, 1.0), (-0.5, 1.0)], "0 or more"),
        ([(1.0, -1.0)], "each epsilon"),
        ([(1.0, 0.0)], "no agent would send anything"),
        ([], "add up to 1"),
    ],
)
def test_levels_that_cannot_be_dealt(levels: list, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        by_levels(10, levels, np.random.default_rng(0))


def test_budgets_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "budgets.csv"
    path.write_text("agent,epsilon,delta\nschool 2,0.5,1e-6\n0,0,\n")
    names = ["school 1", "school 2", "school 3"]
    assert from_file(path, names, (2.0, 1e-3)) == [(0.0, 1e-3), (0.5, 1e-6), (2.0, 1e-3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent\n0\n", "no column 'epsilon'"),
        ("agent,epsilon\n7,1\n", "row 2: there is no agent '7'; accepted are 0 to 1"),
        ("agent,epsilon\n0,1\nb,1\na,1\n", "row 4: agent 'a' has a budget already"),
        ("agent,epsilon\n0,-1\n", "epsilon = '-1'"),
        ("agent,epsilon\n0,much\n", "epsilon = 'much'"),
        ("agent,epsilon,delta\n0,1,1\n", "delta = 1"),
        ("agent,epsilon\n0,0\n1,0\n", "no agent would send anything"),
    ],
)
def test_columns_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "budgets.csv"
    path.write_text(text)
    with pytest.raises(BudgetError, match=message):
        from_file(path, ["a", "b"], (1.0, 1e-5))


def test_each_agent_spends_its_own_budget_and_who_opts_out_listens(regular, problems, team) -> None:
    network = regular(6, 3)
    made = problems(6, 3, LOGISTIC)
    agents = team(
        "coordinate-descent",
        network,
        made,
        updates=20,
        learning={"mu": 1.0, "finish": True, "finish_mu": 1.0},
        mechanism="gaussian",
        multipliers=np.ones(20),
        clip=0.5,
    )
    epsilons = [0.0, 0.5, 0.5, 1.0, 1.0, 2.0]
    for i, epsilon in enumerate(epsilons):
        updates = 20 if epsilon else 0
        bought = calibrate("gaussian", 20, epsilon, 1e-5) if epsilon else np.empty(0)
        agents[i] = type(agents[i])(replace(agents[i]._setting, updates=updates, multipliers=bought))
    charges: dict[int, list] = {i: [] for i in range(6)}
    run = run_asynchronous(
        agents, network, rate=1.0, seed=0, ledger=lambda release, charge: charges[release.sender].append(charge)
    )
    assert charges[0] == []
    assert all(agents[0].charge(index) is None for index in range(20))
    for i, epsilon in list(enumerate(epsilons))[1:]:
        assert total(charges[i], 1e-5).epsilon == pytest.approx(epsilon, rel=1e-3)
        assert total(charges[i], 1e-5).epsilon <= epsilon
    heard = sum(agents[j].model for j in network.neighbours(0))
    assert np.abs(agents[0]._models.sum(axis=0) - heard).max() < 1e-12
    assert run.finishes[0] is not None
    assert np.abs(run.finishes[0]).max() > 0


@pytest.mark.parametrize("name", ["propagation", "graph-smoothing", "graph-smoothing-2r"])
def test_an_agent_that_opts_out_is_charged_nothing(name: str, regular, problems, team) -> None:
    network = regular(6, 3)
    edges = {"agents": 6, "edges": [list(edge) for edge in network.edges], "second_moment": np.eye(3).tolist()}
    agent = team(
        name, network, problems(6, 3, SQUARED), updates=0, learning={"mu": 1.0, **edges}, mechanism="gaussian", clip=1.0
    )[0]
    assert algorithm(name).charged(0) == 0
    assert agent.finished
    assert [agent.charge(index) for index in range(4)] == [None] * 4


def schools(**privacy) -> dict:
    return {
        "run": {"seed": 1},
        "data": {"source": "schools"},
        "topology": {"kind": "random-regular", "degree": 4},
        "learning": {"loss": "squared", "mu": 1.0, "smoothness": 2.0},
        "clock": {"updates": 10},
        "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 0.5, **privacy},
    }


def test_a_configuration_deals_own_budgets() -> None:
    preparation = prepare(from_table(schools(levels=[[0.2, 0.0], [0.8, 1.0]])))
    public = [preparation.public(i) for i in range(65)]
    assert sorted(agent.budget[0] for agent in public if agent.budget is not None) == [0.0] * 13 + [1.0] * 52
    for agent in public:
        speaks = agent.budget is not None and agent.budget[0] > 0
        assert (agent.updates, len(agent.multipliers)) == ((10, 10) if speaks else (0, 0))
        assert agent.releases == 10  # neighbours' indices are checked against it
    assert list(agent.multipliers) == calibrate("gaussian", 10, 1.0, 1e-3).tolist() or not speaks
    assert any("with epsilon 0" in warning for warning in preparation.warnings)


def test_rounds_have_no_room_for_silence() -> None:
    table = schools(levels=[[0.5, 0.0], [0.5, 1.0]])
    table["learning"] = {"algorithm": "pvp", "loss": "logistic", "capacity": 1.0, "rho": 1.0, "penalty": 1.0}
    table["data"] = {"source": "breast-cancer", "agents": 10}
    with pytest.raises(ConfigurationError, match="would opt out"):
        prepare(from_table(table))


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"levels": [[1.0, 1.0]], "budgets": "b.csv"}, "keep one of them"),
        ({"levels": [[1.0]]}, "share of the agents, epsilon"),
        ({"mechanism": "none", "epsilon": None, "delta": None, "levels": [[1.0, 1.0]]}, "name a mechanism"),
    ],
)
def test_configurations_that_are_refused(privacy: dict, message: str) -> None:
    table = schools(**privacy)
    table["privacy"] = {key: value for key, value in table["privacy"].items() if value is not None}
    with pytest.raises(ConfigurationError, match=message):
        from_table(table)


@pytest.mark.parametrize("epsilon", [1e300, 1e-300])
def test_an_epsilon_that_no_noise_is_found_for_is_refused_by_name(epsilon: float, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"privacy\.levels: epsilon 1e.* should be from 1e-09 to 1e\+12, or 0"):
        by_levels(10, [(1.0, epsilon)], np.random.default_rng(0))
    path = tmp_path / "budgets.csv"
    path.write_text(f"agent,epsilon\n0,{epsilon}\n")
    with pytest.raises(BudgetError, match=r"row 2: epsilon = '1e.*' ?: should be from"):
        from_file(path, ["a"], (1.0, 1e-5))
