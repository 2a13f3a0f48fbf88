"""Agents that figures need: a private warm start, and the printed noise of papers 000 and 001, honestly charged."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.penalty_perturbation import round_cost
from coordinator_free.agents.personal.warm_start import WarmStart
from coordinator_free.privacy.accounting import AccountingError, total
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.noise import Start
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from coordinator_free.settings import SettingError
from coordinator_free.twin.run import run_rounds
from node.configuration.reading import from_table
from node.dealing.preparation import prepare
from node.experiments.reproduce.adult import ADULT, CAPACITY, census, published
from node.experiments.reproduce.published import GivenRates, OwnPenalties, PublishedDual
from node.experiments.trial import configured, in_twin, seeded
from node.folder.shard import setting as folder_setting
from tests.helpers.admm_networks import records, ring
from tests.helpers.admm_networks import settings as settings_of
from tests.helpers.paper_data import adult_folder
from tests.helpers.tables import public

RECORDS, DIMENSION = 40, 3


def problem() -> LocalProblem:
    random = np.random.default_rng(5)
    x = random.normal(size=(RECORDS, DIMENSION))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    return LocalProblem(x, random.choice([-1.0, 1.0], size=RECORDS), LOGISTIC, 1.0 / RECORDS)


def setting(learning: dict[str, Any], multipliers: FloatArray, mechanism: str, updates: int) -> Setting:
    return Setting(
        agent=0,
        neighbours=(1, 2),
        weights=np.ones(2),
        problem=problem(),
        dimension=DIMENSION,
        updates=updates,
        learning=learning,
        mechanism=mechanism,
        multipliers=multipliers,
        clip=1.0,
        secret=bytes(32),
    )


# --- warm start ------------------------------------------------------------------------------------------------------

WARM = {"mu": 1.0, "smoothness": 0.3, "anchor": "gradient", "warm_updates": 3, "warm_epsilon": 0.4}


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_warm_start_spends_its_budget_and_no_more(mechanism: str) -> None:
    multipliers = WarmStart.calibrate(mechanism, 8, 1.0, 1e-3, WARM, DIMENSION)
    agent = WarmStart(setting(WARM, multipliers, mechanism, 8))
    plan = [agent.charge(index) for index in range(8)]
    assert [charge is not None for charge in plan] == [True, False, False, True, True, True, True, True]
    spent = total(plan, 1e-3).epsilon
    assert spent <= 1.0
    assert spent > (0.999 if mechanism == "gaussian" else 0.7)
    assert total(plan[:1], 1e-3).epsilon <= 0.4 * (1 + 1e-6)


def test_the_free_releases_of_a_warm_start_hold_nothing_new_of_the_data() -> None:
    multipliers = WarmStart.calibrate("gaussian", 8, 1.0, 1e-3, WARM, DIMENSION)
    agent = WarmStart(setting(WARM, multipliers, "gaussian", 8))
    anchor, first = agent.wake(), agent.wake()
    assert anchor is not None
    assert first is not None
    # Neighbours are silent: Eq. 16 is mu c A / (1 + mu c), a function of what was released.
    np.testing.assert_allclose(first.vector, anchor.vector / 2.0, rtol=1e-12)


def test_an_anchor_is_the_same_after_a_restart() -> None:
    multipliers = WarmStart.calibrate("gaussian", 8, 1.0, 1e-3, WARM, DIMENSION)
    one, other = (WarmStart(setting(WARM, multipliers, "gaussian", 8)) for _ in range(2))
    one.wake()
    other.wake()
    other.restore(other.snapshot(), 1)
    said, again = one.wake(), other.wake()
    assert said is not None
    assert again is not None
    np.testing.assert_array_equal(said.vector, again.vector)


def test_an_anchor_keeps_the_noise_of_the_start_that_released_it() -> None:
    multipliers = WarmStart.calibrate("gaussian", 8, 1.0, 1e-3, WARM, DIMENSION)
    given = setting(WARM, multipliers, "gaussian", 8)
    first = replace(given, starts=(Start(0, b"a" * 32),))
    second = replace(given, starts=(Start(0, b"a" * 32), Start(1, b"b" * 32)))
    one, other = WarmStart(first), WarmStart(second)
    one.wake()
    other.restore({}, 1)
    said, again = one.wake(), other.wake()
    assert said is not None
    assert again is not None
    np.testing.assert_array_equal(said.vector, again.vector)


def test_a_warm_start_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(AccountingError, match="warm_epsilon"):
        WarmStart.calibrate("gaussian", 8, 0.4, 1e-3, WARM, DIMENSION)
    with pytest.raises(SettingError, match="warm_updates = 3"):
        WarmStart.calibrate("gaussian", 3, 1.0, 1e-3, WARM, DIMENSION)


def test_a_warm_start_runs_from_a_configuration() -> None:
    table = public(
        learning={
            "algorithm": "warm-start",
            "smoothness": "bound",
            "anchor": "gradient",
            "parameters": {"warm_updates": 2, "warm_epsilon": 0.5},
        },
        clock={"updates": 5},
        privacy={"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    )
    trial = in_twin_of(table)
    assert trial.epsilon == pytest.approx(1.0, rel=1e-6)
    assert len(trial.releases) == 50


def in_twin_of(table: dict[str, Any]) -> Any:
    from node.dealing.preparation import prepare

    return in_twin(prepare(seeded(from_table(table), 3, simulation=True)))


# --- the printed noise -----------------------------------------------------------------------------------------------

ADMM = {"capacity": 10.0, "rho": 0.5, "penalty": 2.0, "agents": 3}


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_printed_dual_perturbation_is_charged_what_it_costs(alpha: float) -> None:
    agent = PublishedDual(setting(ADMM, np.full(2, 1.0 / alpha), "gamma-norm", 2))
    charge = agent.charge(0)
    assert charge is not None
    bend, w, rho = 0.25 * 10.0 / RECORDS, 0.5 + 2 * 2.0 * 2, 0.5
    hat = alpha - 2.0 * math.log(1.0 + bend / w)
    phi = 0.0
    if hat <= 0:
        assert alpha == 0.01
        hat, phi = alpha / 2.0, bend / math.expm1(alpha / 4.0) - rho
    # ln(1 + c1/k) + 2 zeta, where the paper books 2 ln(1 + c1/k) + zeta and calls it alpha.
    assert 1.0 / charge.multiplier == pytest.approx(math.log(1.0 + bend / (w + phi)) + 2.0 * hat, rel=1e-9)
    assert 1.0 / charge.multiplier > alpha


def test_given_rates_are_charged_by_the_agents_own_records() -> None:
    rates = {"alphas": [3.0, 4.0], "alpha_growths": [1.1], "starts": [2.0, 2.5], "growths": [1.2]}
    given = setting({**ADMM, "theta": 2.0, "regulariser": "shared", **rates}, np.ones(3), "gamma-norm", 3)
    for agent, first, start in ((0, 3.0, 2.0), (1, 4.0, 2.5), (2, 3.0, 2.0)):
        own = GivenRates(replace(given, agent=agent))
        for t in range(3):
            charge = own.charge(t)
            assert isinstance(charge, ObjectivePerturbation)
            rate, penalty = first * 1.1**t, start * 1.2**t
            expected = round_cost(rate, penalty, 2, RECORDS, 10.0, 0.5 / 3)
            assert 1.0 / charge.multiplier == pytest.approx(expected, rel=1e-9)
            assert charge.scale == pytest.approx(2.0 * penalty * 2 / rate, rel=1e-9)


def test_own_penalties_grow_each_at_its_own_rate() -> None:
    learning = {**ADMM, "theta": 0.5, "starts": [0.6, 0.7], "growths": [1.1, 1.2]}
    agent = OwnPenalties(setting(learning, np.empty(0), "none", 3))
    assert agent.curvature(2) == pytest.approx(0.5 + 2 * 0.6 * 1.1**2 * 2)


@pytest.mark.parametrize(
    ("thetas", "growth", "weights"),
    [([2.0], 1.0, None), ([1.5], 1.01, None), ([2.0, 1.0, 0.5], 1.0, np.array([0.5, 1.0, 2.0]))],
)
def test_dual_steps_of_the_nodes_own_weigh_their_objectives(
    thetas: list[float], growth: float, weights: FloatArray | None
) -> None:
    """A common step that changes leads to the pooled optimum, and steps of the nodes' own to another one."""
    problems, parameters = records(3, 15, 3, 5), {"starts": [3.0], "growths": [1.0], "thetas": thetas}
    learning = {"capacity": 10.0, "rho": 1.0, "theta": 2.0, "theta_growth": growth, **parameters}
    agents = [OwnPenalties(made) for made in settings_of(ring(3), problems, learning, 150)]
    run_rounds(agents, ring(3))
    for agent in agents:
        np.testing.assert_allclose(agent.model, consensus_optimum(problems, 10.0, 1.0, weights), atol=1e-6)
    if weights is not None:
        apart = consensus_optimum(problems, 10.0, 1.0, weights) - consensus_optimum(problems, 10.0, 1.0)
        assert np.linalg.norm(apart) > 1e-3


def test_the_grid_is_part_of_every_sensitivity() -> None:
    multipliers = WarmStart.calibrate("gaussian", 8, 1.0, 1e-3, WARM, DIMENSION)
    charge = WarmStart(setting(WARM, multipliers, "gaussian", 8)).charge(0)
    assert charge is not None
    assert charge.sensitivity == pytest.approx(2.0 / RECORDS + math.sqrt(DIMENSION) * GRID, rel=1e-9)


@pytest.mark.parametrize("kind", ["PublishedDual", "PublishedPrimal"])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_a_run_as_published_has_the_printed_noise_and_not_what_a_total_buys(
    kind: str, alpha: float, tmp_path: Path
) -> None:
    census_of = census(3, updates=4)
    census_of["data"]["path"] = str(adult_folder(tmp_path / "adult", 60, 20))
    made = prepare(seeded(configured(census_of, ADULT | published(kind, alpha=alpha)), 0))
    numbers = made.public(0)
    assert numbers.multipliers == pytest.approx([1.0 / alpha] * 4)
    assert "largest_jacobian" not in numbers.learning


def test_given_rates_are_charged_alike_in_a_run(tmp_path: Path) -> None:
    census_of = census(3, updates=4, shared=True)
    census_of["data"]["path"] = str(adult_folder(tmp_path / "adult", 60, 20))
    rates = {"alphas": [2.0], "alpha_growths": [1.0], "starts": [0.5], "growths": [1.0]}
    made = prepare(seeded(configured(census_of, ADULT | published("GivenRates", **rates)), 0))
    charge = GivenRates(folder_setting(made.rows(0), made.public(0), bytes(32))).charge(3)
    assert charge is not None
    assert 1.0 / charge.multiplier == pytest.approx(round_cost(2.0, 0.5, 2, 20, CAPACITY, 1.0 / 3), rel=1e-9)
