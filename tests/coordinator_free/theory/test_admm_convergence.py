"""The theorems' conditions and bounds, against runs that obey them."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.solver import LocalSolver
from coordinator_free.release import FloatArray
from coordinator_free.theory.admm_convergence import conditions, duals_of, measured_rates, rate_bound
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import path, records, ring, settings

CAPACITY, RHO = 10.0, 1.0


def run(penalties: FloatArray, theta: float, seed: int = 4) -> tuple[FloatArray, FloatArray, FloatArray]:
    """f(t), t = 1 .. T, of a ring; the pooled optimum; the gradients there."""
    agents, rounds = penalties.shape
    problems = records(agents, 20, 3, seed)
    learning = [{"capacity": CAPACITY, "rho": RHO, "penalties": list(row), "theta": theta} for row in penalties]
    network = ring(agents)
    seen = run_rounds([ModifiedAdmm(s) for s in settings(network, problems, learning, rounds)], network)
    models = np.empty((rounds, agents, 3))
    for release in seen.releases:
        models[release.round, release.sender] = release.vector
    whole = LocalProblem(
        np.concatenate([p.x for p in problems]), np.concatenate([p.y for p in problems]), LOGISTIC, 0.0
    )
    best = LocalSolver(whole, agents * CAPACITY).minimise(agents * RHO, np.zeros(3), np.zeros(3))
    gradients = np.stack([CAPACITY * LOGISTIC.gradient(best, p.x, p.y) + RHO * best for p in problems])
    return models, best, gradients


@pytest.mark.parametrize(("penalty", "growth", "theta"), [(1.0, 1.0, 1.0), (3.0, 1.0, 1.0), (0.5, 1.05, 0.5)])
def test_the_corrected_rate_bound_holds_in_every_round(penalty: float, growth: float, theta: float) -> None:
    penalties = np.tile(penalty * growth ** np.arange(25), (5, 1))
    models, best, gradients = run(penalties, theta)
    network = ring(5)
    rates = measured_rates(network, models, duals_of(network, models, theta), penalties, theta, best, gradients)
    for t, rate in enumerate(rates, start=1):
        bound = rate_bound(network, penalties[:, t], theta, RHO, RHO + CAPACITY / 4).delta
        assert 0.0 < bound <= rate


def test_the_duals_are_those_of_the_agents() -> None:
    network = path(3)
    agents = [
        ModifiedAdmm(s)
        for s in settings(network, records(3, 8, 2, 1), {"capacity": 5.0, "rho": 1.0, "penalty": 1.0}, 4)
    ]
    seen = run_rounds(agents, network)
    models = np.empty((4, 3, 2))
    for release in seen.releases:
        models[release.round, release.sender] = release.vector
    duals = duals_of(network, models, 1.0)
    for i, agent in enumerate(agents):
        np.testing.assert_allclose(agent._dual, duals[2, i], rtol=0, atol=1e-14)  # of round 3: one before the last


def test_constant_penalties_raise_no_warning() -> None:
    facts = conditions(ring(5), np.full((5, 100), 2.0), 2.0, 1.0)
    assert facts.bounded
    assert facts.non_decreasing
    assert facts.at_least_theta
    assert facts.warnings == ()
    assert facts.left_for_ever == 0.0


def test_growing_penalties_are_said_to_freeze_and_do() -> None:
    growing = np.tile(5.0 * 1.3 ** np.arange(60), (5, 1))
    facts = conditions(ring(5), growing, 5.0, RHO)
    assert not facts.bounded
    assert any("freeze" in warning for warning in facts.warnings)
    models, best, _ = run(growing, 5.0)
    left = np.linalg.norm(models[-1].mean(axis=0) - best) / np.linalg.norm(best)
    # The flattest direction is an upper bound: the records bend every other direction more.
    assert 0.05 < left <= facts.left_for_ever
    steady, _, _ = run(np.full((5, 60), 5.0), 5.0)
    assert np.linalg.norm(steady[-1].mean(axis=0) - best) < 0.05 * np.linalg.norm(best)


def test_what_the_theorem_does_not_cover_is_a_warning() -> None:
    low = conditions(ring(3), np.full((3, 5), 1.0), 2.0, 1.0)
    assert any("learning.theta = 2" in warning for warning in low.warnings)
    falling = conditions(ring(3), np.tile([3.0, 2.0, 2.0], (3, 1)), 1.0, 1.0)
    assert any("falls after round 0" in warning for warning in falling.warnings)
    settled = conditions(ring(3), np.tile([1.0, 2.0, 2.0], (3, 1)), 1.0, 1.0)
    assert settled.warnings == ()
