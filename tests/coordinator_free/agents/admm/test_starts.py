"""A random start: public, the same for all who compute it, and without effect on where ADMM ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.agents.admm.settings import start_of
from coordinator_free.attacks.observed_rounds import observe
from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.problem.solver import LocalSolver
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import models, records, ring, settings

NETWORK = ring(4)
PROBLEMS = records(4, 15, 3, seed=2)
LEARNING: dict[str, Any] = {"capacity": 15.0, "rho": 0.3, "penalty": 0.7, "start": "random", "seed": 5}
FORMS: list[tuple[type[Admm], str, dict[str, Any]]] = [
    (Admm, "none", {}),
    (DualPerturbation, "gamma-norm", {}),
    (PrimalPerturbation, "gaussian", {}),
    (PrimalPerturbation, "gaussian", {"pvp_form": "as_published"}),
]


def made(kind: type[Admm], mechanism: str = "none", updates: int = 3, **extra: Any) -> list[Admm]:
    multipliers = None if mechanism == "none" else np.full(updates, 1.5)
    return [kind(s) for s in settings(NETWORK, PROBLEMS, LEARNING | extra, updates, mechanism, multipliers)]


def test_starts_are_standard_normal_and_differ_by_agent_and_seed() -> None:
    drawn = start_of("random", 5, 0, 10_000)
    assert kstest(drawn, "norm").pvalue > 1e-3, "wrong for one of a thousand seeds; this one is fixed"
    for seed, agent in ((5, 1), (6, 0)):
        other = start_of("random", seed, agent, 10_000)
        assert abs(float(np.corrcoef(drawn, other)[0, 1])) < 0.04, "four standard errors"
    assert not start_of("zero", 5, 0, 3).any()


@pytest.mark.parametrize(("kind", "mechanism", "extra"), FORMS, ids=["admm", "dvp", "pvp", "pvp-as-published"])
def test_the_first_round_pulls_to_the_starts_of_both_ends(
    kind: type[Admm], mechanism: str, extra: dict[str, Any]
) -> None:
    agents = made(kind, mechanism, **extra)
    starts = models(agents)
    assert len({start.tobytes() for start in starts}) == 4
    releases = run_rounds(agents, NETWORK).releases
    heard = {(r.sender, r.index): r for r in releases}
    multipliers = None if mechanism == "none" else np.full(3, 1.5)
    own = settings(NETWORK, PROBLEMS, LEARNING | extra, 3, mechanism, multipliers)[0]
    first = observe(kind, own, [r for r in releases if r.sender == 0], heard)[0]
    np.testing.assert_allclose(first.linear, -0.7 * (2 * starts[0] + starts[1] + starts[3]), rtol=0, atol=1e-12)


def test_the_first_release_is_the_minimiser_around_the_starts() -> None:
    agents = made(Admm)
    starts = models(agents)
    linear = -0.7 * (2 * starts[0] + starts[1] + starts[3])
    expected = LocalSolver(PROBLEMS[0], 15.0).minimise(0.3 + 2 * 0.7 * 2, linear, np.zeros(3))
    [first] = [r for r in run_rounds(agents, NETWORK).releases if (r.sender, r.index) == (0, 0)]
    np.testing.assert_allclose(first.vector, expected, rtol=0, atol=1e-9)


def test_every_start_leads_to_the_same_optimum() -> None:
    best = consensus_optimum(PROBLEMS, 15.0, 0.3)
    for seed in (5, 6):
        agents = made(Admm, updates=400, seed=seed)
        run_rounds(agents, NETWORK)
        np.testing.assert_allclose(models(agents), np.tile(best, (4, 1)), rtol=0, atol=1e-8)


def test_a_replaced_record_does_not_move_the_start() -> None:
    moved = [*records(1, 15, 3, seed=9), *PROBLEMS[1:]]
    other = [Admm(setting) for setting in settings(NETWORK, moved, LEARNING, 3)]
    assert models(other).tobytes() == models(made(Admm)).tobytes()
