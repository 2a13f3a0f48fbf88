"""What a run's ledgers hold, all agents together."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.ledger import Budget
from coordinator_free.privacy.mechanisms import mechanism
from node.ledger_file import LedgerFile
from node.spending import spent


def ledger(folder: Path, agent: int, budget: Budget | None, charged: int, *, noise: bool = True) -> None:
    place = folder / "agents" / f"agent-{agent:04d}"
    place.mkdir(parents=True)
    LedgerFile.create(place / "ledger.jsonl", "ab" * 32, "one row", budget)
    if charged:
        file = LedgerFile.open(place / "ledger.jsonl", "ab" * 32)
        made = mechanism("laplace", 0.02, 40.0, 5) if noise else None
        file.reserve(0, charged - 1, made, extra={"run": "00"})
        file.close()


def test_the_largest_and_the_mean_over_agents(tmp_path: Path) -> None:
    budget = Budget(3.0, 1e-3)
    for agent, charged in enumerate((0, 10, 30)):
        ledger(tmp_path, agent, budget, charged)
    expected = [total([mechanism("laplace", 0.02, 40.0, 5)] * charged, 1e-3).epsilon for charged in (0, 10, 30)]
    results = spent(tmp_path).as_results()
    assert results["charged_max"] == pytest.approx(expected[2], rel=1e-12)
    assert results["charged_mean"] == pytest.approx(sum(expected) / 3, rel=1e-12)
    assert (results["budget"], results["delta"]) == (3.0, 1e-3)
    assert spent(tmp_path).charged == 40


def test_what_was_released_without_noise_has_no_epsilon(tmp_path: Path) -> None:
    ledger(tmp_path, 0, None, 5, noise=False)
    assert spent(tmp_path).as_results()["charged_max"] is None
    assert spent(tmp_path).charged == 5
