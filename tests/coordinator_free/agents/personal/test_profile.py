"""Profiles: what one record moves, what a budget leaves, and that no noise is shared with releases."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.agents.personal.profile import Profile, divided
from coordinator_free.privacy.accounting import calibrate, total
from coordinator_free.privacy.families import NORMS, mechanism
from coordinator_free.privacy.noise import Stream, profile_secret
from coordinator_free.problem.losses import loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

P = 4


def problem(records: int = 6, seed: int = 0, name: str = "logistic") -> LocalProblem:
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, size=(records, P))
    y = np.where(random.random(records) < 0.5, 1.0, -1.0)
    return LocalProblem(x, y, loss(name), 0.1)


def profile(problem: LocalProblem, family: str = "gaussian", row_bound: float | None = None) -> Profile:
    return Profile(problem, family, 2.0, 0.5, row_bound, bytes(32))


@pytest.mark.parametrize("family", ["gaussian", "laplace", "gamma-norm"])
@pytest.mark.parametrize("bounded", [True, False])
def test_no_replaced_record_moves_the_exact_vector_by_more_than_is_charged(family: str, *, bounded: bool) -> None:
    order = 1 if NORMS[family] == "l1" else 2
    row_bound = (float(P) if order == 1 else P**0.5) if bounded else None
    random = np.random.default_rng(3)
    made = problem()
    before, charge = profile(made, family, row_bound).exact(), profile(made, family, row_bound).charge
    assert charge is not None
    largest = 0.0
    for _ in range(200):
        x, y = np.array(made.x), np.array(made.y)
        k = random.integers(made.records)
        x[k], y[k] = np.sign(random.uniform(-1, 1, P)), -y[k]
        after = profile(LocalProblem(x, y, made.loss, 0.1), family, row_bound).exact()
        largest = max(largest, float(np.linalg.norm(after - before, ord=order)))
    assert 0.4 * charge.sensitivity < largest <= charge.sensitivity
    assert charge.scale == pytest.approx(2.0 * charge.sensitivity)


def test_the_noise_is_what_is_charged_and_a_halved_one_is_not() -> None:
    """The ratio of the mean square to scale^2 over 400 numbers: a correct one leaves 1 +- 0.35 once in 10^6."""
    made, ratios = problem(), []
    for k in range(100):
        one = Profile(made, "gaussian", 2.0, 0.5, None, bytes([k]) * 32)
        assert one.charge is not None
        ratios.append(((one.vector() - one.exact()) / one.charge.scale) ** 2)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.35)
    assert np.mean(ratios) / 4.0 != pytest.approx(1.0, abs=0.35)


def test_no_noise_is_shared_with_a_release() -> None:
    secret = bytes(range(32))
    charge = mechanism("gaussian", 1.0, 2.0, P)
    own = charge.noise(P, Stream(profile_secret(secret), 0))
    assert not np.array_equal(own, charge.noise(P, Stream(secret, 0)))
    assert profile_secret(secret) != profile_secret(bytes(32))


@pytest.mark.parametrize(
    ("family", "epsilon", "delta", "share", "releases"),
    [
        ("gaussian", 1.0, 1e-3, 0.05, 40),
        ("gaussian", 0.05, 0.0067, 0.5, 1),
        ("gaussian", 20.0, 1e-8, 0.5, 40),
        ("laplace", 1.0, 1e-3, 0.05, 40),
        ("laplace", 1.0, 1e-3, 0.5, 1),
        ("laplace", 1.0, 0.0, 0.5, 40),
        ("gamma-norm", 2.0, 1e-4, 0.05, 1),
    ],
)
def test_both_parts_stay_within_the_budget_and_use_it(
    family: str, epsilon: float, delta: float, share: float, releases: int
) -> None:
    multiplier, rest = divided(family, epsilon, delta, share)
    bought = calibrate(family, releases, rest, delta, dimension=P)
    mechanisms = [mechanism(family, 1.0, m, P) for m in (multiplier, *bought)]
    spent = total(mechanisms, delta).epsilon
    assert spent <= epsilon * (1 + 1e-9)
    if family == "gaussian" or delta == 0.0:
        assert spent > epsilon * (1 - 1e-3)


def test_an_agent_without_records_has_a_profile_of_zeros_that_costs_nothing() -> None:
    nothing = profile(LocalProblem(np.empty((0, P)), np.empty(0), loss("logistic"), 0.1))
    assert nothing.charge is None
    vector: FloatArray = nothing.vector()
    assert not vector.any()
