"""Theorem 3.1's inequality, Theorem 3.2 and its closed bound against runs, and the runs that refute the printed one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.problem.consensus import consensus_gradients, consensus_optimum
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from coordinator_free.theory.admm_convergence import (
    duals_of,
    inner_products,
    measured_rates,
    published_rate_bound,
    rate_bound,
    spectrum,
    theorem_rate,
)
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import records, ring, settings
from topology.network import Network

AGENTS = 5


def played(
    problems: list[LocalProblem], penalties: FloatArray, theta: float, capacity: float, rho: float
) -> FloatArray:
    agents, rounds = penalties.shape
    learning = [{"capacity": capacity, "rho": rho, "penalties": list(row), "theta": theta} for row in penalties]
    network = ring(agents)
    seen = run_rounds([ModifiedAdmm(s) for s in settings(network, problems, learning, rounds)], network)
    models = np.empty((rounds, agents, problems[0].dimension))
    for release in seen.releases:
        models[release.round, release.sender] = release.vector
    return models


def judged(
    problems: list[LocalProblem], penalties: FloatArray, theta: float, capacity: float, rho: float
) -> tuple[Network, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The network, rates and inner products by round, and each agent's convexity and smoothness."""
    network = ring(len(problems))
    models = played(problems, penalties, theta, capacity, rho)
    best = consensus_optimum(problems, capacity, rho)
    of = (duals_of(network, models, theta), penalties, theta, best, consensus_gradients(problems, capacity, rho, best))
    bend = [capacity * 0.25 * float(np.linalg.eigvalsh(p.x.T @ p.x / p.records)[-1]) for p in problems]
    smoothnesses = rho + np.array(bend)
    return network, measured_rates(network, models, *of), inner_products(network, models, *of), smoothnesses, best


@pytest.mark.parametrize(("penalty", "growth", "theta"), [(1.0, 1.0, 1.0), (3.0, 1.0, 1.0), (0.5, 1.05, 0.5)])
def test_the_theorem_holds_in_every_round_and_its_closed_bound_is_no_larger(
    penalty: float, growth: float, theta: float
) -> None:
    penalties = np.tile(penalty * growth ** np.arange(20), (AGENTS, 1))
    problems = records(AGENTS, 20, 3, 4)
    network, rates, inner, smoothnesses, _ = judged(problems, penalties, theta, 10.0, 1.0)
    assert (inner <= 1e-12).all()
    for t, rate in enumerate(rates, start=1):
        own = theorem_rate(network, penalties[:, t], theta, np.ones(AGENTS), smoothnesses).delta
        closed = rate_bound(network, penalties[:, t], theta, 1.0, float(smoothnesses.max())).delta
        assert 0.0 < closed <= own * (1.0 + 1e-9) <= rate


def test_the_largest_rate_satisfies_the_matrix_inequality_and_a_larger_one_does_not() -> None:
    """Eq. 21 and 22 themselves, over a grid of mu."""
    network, theta = ring(AGENTS), 0.7
    penalties, convexities = np.full(AGENTS, 1.3), np.linspace(0.2, 0.6, AGENTS)
    smoothnesses = np.linspace(2.0, 5.0, AGENTS)
    degree = 2.0 * np.eye(AGENTS)
    adjacency = np.roll(np.eye(AGENTS), 1, axis=0) + np.roll(np.eye(AGENTS), -1, axis=0)
    s = spectrum(network, penalties, theta)

    def allowed(delta: float, mu: float) -> bool:
        left = np.diag(mu * s.excess**2 + mu**2 * smoothnesses**2) / (theta * s.connectivity * (mu - 1.0))
        left = delta * (left + 1.3 * (degree + adjacency))
        right = 2.0 * 0.6 * (degree - adjacency) + 2.0 * np.diag(convexities)
        return (
            delta * mu**2 * s.mixing <= theta * s.connectivity * (1.0 + 1e-9)
            and float(np.linalg.eigvalsh(right - left)[0]) >= -1e-9
        )

    found = theorem_rate(network, penalties, theta, convexities, smoothnesses).delta
    grid = 1.0 + np.exp(np.linspace(-8.0, 8.0, 4000))
    assert any(allowed(found * 0.999, mu) for mu in grid)
    assert not any(allowed(found * 1.001, mu) for mu in grid)


def test_the_printed_bound_is_above_a_runs_own_rate() -> None:
    """Little curvature and a penalty above theta: agents agree at once, and then move at the rate of rho alone."""
    random = np.random.default_rng(0)
    problems = []
    for _ in range(AGENTS):
        x = 0.1 * random.normal(size=(20, 2))
        problems.append(LocalProblem(x, np.where(x[:, 0] > 0, 1.0, -1.0), LOGISTIC, 0.0))
    penalties = np.ones((AGENTS, 40))
    network, rates, _, smoothnesses, _ = judged(problems, penalties, 0.5, 1.0, 1e-3)
    largest = float(smoothnesses.max())
    assert published_rate_bound(network, penalties[:, 0], 0.5, 1e-3, largest).delta > 20.0 * rates[-1]
    assert 0.0 < rate_bound(network, penalties[:, 0], 0.5, 1e-3, largest).delta < rates.min()


def test_with_equal_penalty_and_step_both_readings_agree() -> None:
    same = (ring(AGENTS), np.ones(AGENTS), 1.0, 0.3, 4.0)
    assert published_rate_bound(*same).delta == pytest.approx(rate_bound(*same).delta, rel=1e-9)
    assert spectrum(ring(AGENTS), np.ones(AGENTS), 1.0).least_excess == 0.0


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5])])
def test_the_optimum_of_agents_that_agree_is_that_of_the_weighted_sum(weights: FloatArray | None) -> None:
    problems = [records(1, each, 3, seed)[0] for seed, each in enumerate((5, 9, 14))]
    v = np.ones(3) if weights is None else weights

    def value(f: FloatArray) -> float:
        each = [7.0 * float(p.loss.values(f, p.x, p.y).mean()) + 0.2 * float(f @ f) for p in problems]
        return float(v @ np.array(each))

    direct = minimize(value, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(consensus_optimum(problems, 7.0, 0.4, weights), direct, atol=1e-5)
