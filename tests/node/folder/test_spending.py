"""What a run's ledgers hold, all agents together."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation
from coordinator_free.privacy.ledger import Budget
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.privacy.parameters import gdp, zcdp
from node.folder.ledger import LedgerFile
from node.folder.spending import spent

MADE = mechanism("laplace", 0.02, 40.0, 5)
SHARD = "ab" * 32


def ledger(folder: Path, agent: int, budget: Budget | None, charged: int, made: Mechanism | None = MADE) -> Path:
    """A ledger of 60 planned releases of which some are charged."""
    place = folder / "agents" / f"agent-{agent:04d}"
    place.mkdir(parents=True)
    path = place / "ledger.jsonl"
    LedgerFile.create(path, SHARD, "one row", budget, [made] * 60)
    with LedgerFile.open(path, SHARD) as file:
        for first in range(0, charged, 2):
            file.reserve(first, min(first + 1, charged - 1), made)
    return path


def test_the_largest_and_the_mean_over_agents(tmp_path: Path) -> None:
    budget = Budget(3.0, 1e-3)
    for agent, charged in enumerate((0, 10, 30)):
        ledger(tmp_path, agent, budget, charged)
    expected = [total([MADE] * charged, 1e-3).epsilon for charged in (0, 10, 30)]
    results = spent(tmp_path).as_results()
    assert results.charged_max == pytest.approx(expected[2], rel=1e-12)
    assert results.charged_mean == pytest.approx(sum(expected) / 3, rel=1e-12)
    assert (results.budget, results.delta) == (3.0, 1e-3)
    assert spent(tmp_path).charged == 40


def test_a_ledger_of_all_families_is_accounted_for_as_one(tmp_path: Path) -> None:
    made: list[Mechanism | None] = [
        mechanism("laplace", 1.0, 10.0, 3),
        mechanism("gaussian", 0.1, 9.0, 3),
        mechanism("gamma-norm", 0.25, 4.0, 3),
        ObjectivePerturbation(0.15, 1.0, 0.05, 2),
        None,
    ]
    place = tmp_path / "agents" / "agent-0000"
    place.mkdir(parents=True)
    LedgerFile.create(place / "ledger.jsonl", SHARD, "one row", Budget(9.0, 1e-4), made)
    with LedgerFile.open(place / "ledger.jsonl", SHARD) as file:
        for index, charged in enumerate(made):
            file.reserve(index, index, charged)
    results = spent(tmp_path).as_results()
    assert results.charged_max == total(made, 1e-4).epsilon
    assert results.zcdp_rho == zcdp(made)
    assert results.gdp_mu == gdp(made)


def test_one_agent_without_a_gdp_parameter_leaves_none_for_the_run(tmp_path: Path) -> None:
    ledger(tmp_path, 0, Budget(3.0, 1e-3), 2)
    assert spent(tmp_path).as_results().gdp_mu is not None
    ledger(tmp_path, 1, Budget(30.0, 1e-3), 2, GaussianObjectivePerturbation(0.2, 1.0, 0.05, 9))
    results = spent(tmp_path).as_results()
    assert (results.gdp_mu, results.zcdp_rho) == (None, None)
    assert results.charged_max is not None


def test_a_torn_last_line_counts_for_all_that_it_could_have_covered(tmp_path: Path) -> None:
    path = ledger(tmp_path, 0, Budget(3.0, 1e-3), 10)
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    assert spent(tmp_path).charged == 10
    for cut in range(start + 1, len(whole)):
        path.write_bytes(whole[:cut])
        # Eight are whole; a group is a twentieth of sixty.
        assert spent(tmp_path).charged == 8 + 3
    path.write_bytes(whole[:start])
    assert spent(tmp_path).charged == 8


def test_what_was_released_without_noise_has_no_epsilon(tmp_path: Path) -> None:
    ledger(tmp_path, 0, None, 5, None)
    assert spent(tmp_path).as_results().charged_max is None
    assert spent(tmp_path).charged == 5


def test_under_a_budget_a_release_without_mechanism_holds_nothing_of_the_data(tmp_path: Path) -> None:
    ledger(tmp_path, 0, Budget(3.0, 1e-3), 4, None)
    assert spent(tmp_path).as_results().charged_max == 0.0
