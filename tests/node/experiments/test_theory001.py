"""The bounds of paper 001 beside runs of M-ADMM and of penalty perturbation, and about what they are silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.experiments.theory import paper001
from node.experiments.theory.bound import Bound
from node.experiments.theory.subject import Subject, subject
from node.worlds.twin import run_twin

AGENTS, ROUNDS = 5, 15
ADMM = {"algorithm": "m-admm", "capacity": 4.0, "rho": 0.5, "penalty": 1.0, "theta": 1.0}


def table(privacy: dict[str, Any] | None = None, **learning: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "run": {"seed": 3},
        "data": {"source": "synthetic", "agents": AGENTS, "dimension": 3, "records": [10, 20]},
        "topology": {"kind": "ring"},
        "learning": {key: value for key, value in {**ADMM, **learning}.items() if value is not None},
        "clock": {"updates": ROUNDS},
    }
    return made | ({} if privacy is None else {"privacy": privacy})


def run_of(folder: Path, configuration: dict[str, Any]) -> Subject:
    deal_run(from_table(configuration), folder)
    run_twin(folder)
    return subject(folder)


def by_line(found: list[Bound]) -> dict[tuple[str, str], Bound]:
    return {(bound.name, bound.reading): bound for bound in found}


@pytest.mark.parametrize("growth", [1.0, 1.05])
def test_the_rates_of_a_run_stand_above_what_is_proven(tmp_path: Path, growth: float) -> None:
    found = by_line(paper001.convergence(run_of(tmp_path / "run", table(penalty_growth=growth))))
    assert set(found) == {
        ("inner product", "as true"),
        ("largest rate", "as true"),
        ("closed rate", "as published"),
        ("closed rate", "as true"),
    }
    largest, closed = found["largest rate", "as true"], found["closed rate", "as true"]
    assert largest.held
    assert closed.held
    assert found["inner product", "as true"].held
    assert (closed.bound <= largest.bound * (1.0 + 1e-9)).all()
    assert (found["closed rate", "as published"].bound >= closed.bound * (1.0 - 1e-9)).all()
    assert closed.constants["m_o"] == 0.5
    assert closed.unspecified == ("mu (the best, last round)",)
    assert list(closed.at) == sorted(closed.at)


def test_the_printed_closed_rate_does_not_hold_where_the_objective_is_flat(tmp_path: Path) -> None:
    flat = table(capacity=1e-3, rho=1e-4, penalty=1.0, theta=0.5)
    found = by_line(paper001.convergence(run_of(tmp_path / "run", flat)))
    assert found["closed rate", "as published"].held is False
    assert found["closed rate", "as true"].held
    assert found["largest rate", "as true"].held


def test_a_configuration_has_bounds_and_no_measurements(tmp_path: Path) -> None:
    from node.configuration.public import dump

    path = tmp_path / "run.toml"
    path.write_text(dump(from_table(table())))
    found = paper001.convergence(subject(path))
    assert {bound.name for bound in found} == {"largest rate", "closed rate"}
    assert all(bound.measured is None and bound.held is None for bound in found)


@pytest.mark.parametrize("learning", [{"theta": 2.0}, {"penalty_growth": 0.9, "theta": 0.1}])
def test_what_the_theorem_does_not_cover_has_no_bound(tmp_path: Path, learning: dict[str, Any]) -> None:
    assert paper001.convergence(run_of(tmp_path / "run", table(**learning))) == []


PRIVATE = {"mechanism": "gamma-norm", "epsilon": 4.0, "delta": 1e-3, "clip": 2.0}


def private_table(**privacy: Any) -> dict[str, Any]:
    made = table({**PRIVATE, "clip": 1.0, **privacy}, algorithm="pp", capacity=1.0, penalty=4.0, theta=4.0)
    made["data"] = {"source": "breast-cancer", "path": "examples/data/breast-cancer", "agents": AGENTS}
    made["clock"] = {"updates": 6}
    return made


def test_the_printed_total_of_penalty_perturbation_is_above_the_tight_one_and_above_what_is_accounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.helpers.places import ROOT

    monkeypatch.chdir(ROOT)
    of = run_of(tmp_path / "run", private_table())
    assert paper001.convergence(of) == []
    found = by_line(paper001.privacy(of))
    printed, true = (found["total privacy loss", reading] for reading in ("as published", "as true"))
    assert printed.held
    assert true.held
    assert (printed.bound > true.bound).all()
    assert printed.measured is not None
    assert 0.99 * 4.0 <= printed.measured[-1] <= 4.0
    assert (np.diff(printed.measured) > 0).all()
    # The tight total is the sum of the pure epsilons that the agent with the most expensive rounds charged.
    sums = [
        sum(charge.epsilon for charge in agent.charges)
        for i in range(AGENTS)
        if (agent := paper001._perturbed(paper001.algorithm("pp"), of, i)) is not None  # type: ignore[arg-type]
    ]
    assert true.bound[-1] == pytest.approx(max(sums))


def test_gaussian_rounds_have_no_total_at_delta_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.helpers.places import ROOT

    monkeypatch.chdir(ROOT)
    assert paper001.privacy(run_of(tmp_path / "run", private_table(mechanism="gaussian"))) == []
