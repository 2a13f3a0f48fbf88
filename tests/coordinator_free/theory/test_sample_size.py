"""Sample sizes of Zhang and Zhu: what scaling the objective does to them, and cases that the printed ones miss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammainccinv

from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.solver import LocalSolver
from coordinator_free.theory.sample_size import (
    Demand,
    dual,
    least_spread,
    noise_excess,
    non_private,
    primal_minimiser,
    primal_release,
    printed_noise_excess,
    records_to_learn_a_sign,
)

DEMAND = Demand(
    norm=3.0, accuracy=0.2, delta=0.05, capacity=2.0, dimension=10, alpha=0.5, penalty=0.7, degree=3, c4=0.25
)
PRINTED = {
    non_private: {"estimation"},
    dual: {"noise", "estimation"},
    primal_minimiser: {"estimation"},
    primal_release: {"estimation", "other noise"},
}
"""The printed terms of each theorem that change where nothing changes but the unit of the objective."""


@pytest.mark.parametrize("theorem", PRINTED, ids=lambda theorem: theorem.__name__)
def test_the_unit_of_the_objective_changes_the_printed_terms_alone(theorem: type) -> None:
    by = 7.0
    scaled = replace(DEMAND, capacity=by * DEMAND.capacity, penalty=by * DEMAND.penalty, accuracy=by * DEMAND.accuracy)
    for as_published, changing in ((True, PRINTED[theorem]), (False, set())):
        here, there = (theorem(demand, as_published=as_published) for demand in (DEMAND, scaled))
        assert {name for name in here if here[name] != pytest.approx(there[name])} == changing
        assert all(here[name] == pytest.approx(by * there[name]) for name in changing)


def test_the_printed_terms_are_those_of_the_page() -> None:
    one = Demand(norm=2.0, accuracy=0.5, delta=0.1, capacity=3.0, dimension=4, alpha=0.25, penalty=1.5, degree=2)
    log, wide = np.log(10.0), np.log(40.0)
    assert non_private(one, as_published=True) == pytest.approx({"estimation": 3 * 4 * log / 0.25})
    assert dual(one, as_published=True) == pytest.approx(
        {"noise": 2 * 4 * wide / 0.125, "curvature": 3 * 0.25 * 4 / 0.125, "estimation": 48 * log}
    )
    assert primal_release(one, as_published=True) == pytest.approx(
        {
            "received noise": 3 * 8 * 3 * 4 * wide / (0.25 * 0.25),
            "estimation": 48 * log,
            "own noise": 4 * 3 * 2 * 4 * wide**2 / 0.125,
            "other noise": 4 * 8 * 3 * 4 * wide / (0.25 * 0.25),
            "own noise, bent": 4 * 3**1.5 * 4 * 4 * wide / (0.5**1.5 * 0.25),
        }
    )


def test_the_printed_sample_size_is_too_small_by_any_factor() -> None:
    """The records that are needed grow by 4 where the bias is halved; the printed number does not."""
    needed, printed, true = [], [], []
    for bias in (0.2, 0.1, 0.05):
        demand = Demand(norm=4 * bias, accuracy=1.0, delta=0.1, capacity=bias**-2, dimension=1)
        needed.append(records_to_learn_a_sign(bias, 0.1))
        printed.append(non_private(demand, as_published=True)["estimation"])
        true.append(non_private(demand, as_published=False)["estimation"])
    assert printed == pytest.approx([printed[0]] * 3)
    assert needed[2] > 10 * printed[2]
    assert needed[2] / needed[1] == pytest.approx(4.0, rel=0.2)
    assert all(n < t for n, t in zip(needed, true, strict=True))
    with pytest.raises(ValueError, match="most = 3"):
        records_to_learn_a_sign(0.05, 0.1, most=3)


def drawn_excess(scale: float, levels: np.ndarray) -> np.ndarray:
    """How far noise of these lengths lifts a small logistic objective of convexity 0.5, in increasing order.

    Each length is exceeded with a probability of ``levels`` under the gamma-norm law; directions are of a fixed seed.
    """
    random = np.random.default_rng(3)
    x = random.normal(size=(30, 4))
    problem = LocalProblem(x / np.linalg.norm(x, axis=1)[:, None], random.choice([-1.0, 1.0], 30), LOGISTIC, 0.0)
    solver, zero = LocalSolver(problem, 0.2), np.zeros(4)

    def value(model: np.ndarray) -> float:
        return 0.2 * float(problem.loss.values(model, problem.x, problem.y).mean()) + 0.25 * float(model @ model)

    least = value(solver.minimise(0.5, zero, zero))
    found = []
    for length in scale * gammainccinv(4, levels):
        direction = random.normal(size=4)
        noise = direction / np.linalg.norm(direction) * length
        found.append(value(solver.minimise(0.5, noise, zero)) - least)
    return np.sort(found)


def test_the_excess_of_noise_keeps_its_bound_and_that_for_half_of_the_noise_does_not() -> None:
    levels = np.linspace(0.98, 0.02, 25)
    found = drawn_excess(2.0, levels)
    assert (found <= noise_excess(levels, 4, 2.0, 0.5) * (1 + 1e-9)).all()
    assert (found > 0.5 * noise_excess(levels, 4, 2.0, 0.5)).all(), "with little curvature the bound is nearly attained"
    assert (found > noise_excess(levels, 4, 1.0, 0.5)).all()


def test_the_printed_excess_lacks_the_capacity() -> None:
    """Noise of scale 2 C / (B alpha), C = 100: the printed bound is for C = 1."""
    levels, records, alpha = np.array([0.5]), 50, 1.0
    found = drawn_excess(2.0 * 100.0 / (records * alpha), levels)
    assert found[0] > printed_noise_excess(levels, 4, records, alpha, 0.5)[0]


def test_the_spread_of_releases_is_attained_by_a_quadratic() -> None:
    random = np.random.default_rng(0)
    noise = random.normal(size=(4000, 6))
    models = -noise / 2.5
    assert np.sqrt(np.square(models).sum(axis=1).mean()) == pytest.approx(least_spread(6**0.5, 2.5), rel=0.02)


def test_a_demand_without_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="accuracy = 0"):
        replace(DEMAND, accuracy=0.0)
    with pytest.raises(ValueError, match=r"delta = 1\.5"):
        replace(DEMAND, delta=1.5)
