"""Reconstruction, membership, side channels, charges, and the attack at recorded states."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.attacks import membership, reconstruction, side_channels
from coordinator_free.attacks.charges import Account, Charge, check_charges
from coordinator_free.attacks.likelihood_ratio import FreshNoise, attack_scores
from coordinator_free.attacks.observed_rounds import observe
from coordinator_free.attacks.recorded_states import candidates, shift_scores, shifts
from coordinator_free.attacks.worst_case import sampled_states, states, worst_alternative
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.release import Release
from tests.helpers.perturbed_objectives import CAPACITY, run

SECRET = bytes(range(32))


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_without_privacy_every_record_is_rebuilt(make_run, loss):
    run = make_run(mechanism="none", loss=loss, p=6, records=10, updates=20)
    env = run.environment(0)
    for record in range(10):
        residual = reconstruction.residuals(env, run.vectors(0), record)
        found = reconstruction.reconstruct(record, env.setting.problem.x[record], residual)
        assert found.principal > 0.99
        if loss is LOGISTIC:  # its gradients never change sign
            assert found.average > 0.99


def test_without_noise_a_residual_is_the_records_own_gradient(make_run):
    run = make_run(mechanism="none", p=3)
    env, problem = run.environment(1), run.settings[1].problem
    residual = reconstruction.residuals(env, run.vectors(1), 2)
    at = states(env, run.vectors(1))
    own = problem.loss.slope(at @ problem.x[2], problem.y[2])[:, None] * problem.x[2]
    assert residual == pytest.approx(own, abs=1e-9)


def test_under_epsilon_one_reconstruction_stays_within_chance(make_run):
    # Each of 40 estimates passes the 99% quantile of chance with probability 1%; more than 4 has probability 1e-4.
    above = 0
    for seed in range(4):
        run = make_run(mechanism="gaussian", multiplier=40.0, p=20, records=10, updates=50, seed=seed)
        env = run.environment(0)
        for record in range(10):
            residual = reconstruction.residuals(env, run.vectors(0), record)
            found = reconstruction.reconstruct(record, env.setting.problem.x[record], residual)
            above += found.average > found.chance
    assert above <= 4


def test_chance_is_the_quantile_of_random_directions():
    draws = np.random.default_rng(0).normal(size=(40000, 5))
    cosines = np.abs(draws[:, 0]) / np.linalg.norm(draws, axis=1)
    assert np.quantile(cosines, 0.99) == pytest.approx(reconstruction.chance(5), abs=0.01)
    assert reconstruction.chance(1) == 1.0


def test_membership_curve_by_hand():
    found = membership.judge(np.array([3.0, 2.0, 1.0]), np.array([2.0, 0.0]))
    assert found.auc == pytest.approx((2 + 1.5 + 1) / 6)
    assert membership.judge(np.ones(5), np.ones(7)).auc == 0.5
    assert math.isnan(membership.judge(np.ones(0), np.ones(7)).auc)


def test_true_positives_are_counted_at_the_allowed_false_positives():
    others = np.arange(200.0)
    members = np.array([197.0, 197.5, 198.5, 500.0])
    found = membership.judge(members, others)  # two of 200 may be named
    assert found.true_positives == pytest.approx(3 / 4)


def test_chance_scores_have_the_stated_deviation():
    rng = np.random.default_rng(0)
    curves = [membership.judge(rng.normal(size=30), rng.normal(size=50)) for _ in range(400)]
    assert np.std([curve.auc for curve in curves]) == pytest.approx(curves[0].deviation, rel=0.15)


def test_members_show_without_privacy_and_hide_with_it(make_run):
    def curve(**options):
        members, others = [], []
        for seed in range(8):
            run = make_run(p=8, records=8, updates=30, seed=seed, **options)
            rng = np.random.default_rng(100 + seed)
            for agent in range(4):
                env, problem = run.environment(agent), run.settings[agent].problem
                x, y = rng.uniform(-1.0, 1.0, (8, 8)), rng.normal(size=8)
                members.append(membership.gradient_scores(env, run.vectors(agent), problem.x, problem.y))
                others.append(membership.gradient_scores(env, run.vectors(agent), x, y))
        return membership.judge(np.concatenate(members), np.concatenate(others))

    assert curve(mechanism="none").auc > 0.7
    hidden = curve(mechanism="gaussian", multiplier=200.0)
    assert abs(hidden.auc - 0.5) < 5 * hidden.deviation


def test_loss_scores_are_higher_for_smaller_losses():
    x, y = np.eye(2), np.array([1.0, 0.0])
    scores = membership.loss_scores(np.array([1.0, 3.0]), x, y, SQUARED)
    assert scores[0] > scores[1]


def test_a_time_that_tells_the_data_size_is_found():
    rng = np.random.default_rng(0)
    records = rng.integers(10, 100, 30).astype(float)
    measures = {"gap": 1.0 / records, "size": np.full(30, 96.0), "chance": rng.random(30)}
    found = {(c.measure, c.data): c for c in side_channels.correlations(measures, {"records": records})}
    assert found["gap", "records"].rho == pytest.approx(-1.0)
    assert found["gap", "records"].corrected < 1e-6
    assert found["size", "records"].constant
    assert found["chance", "records"].p_value > 0.01


def test_p_values_of_unrelated_numbers_are_uniform():
    # 300 tests at 10%: more than 52 has probability below 1e-4.
    rng = np.random.default_rng(1)
    for agents in (6, 20):
        draws = [
            side_channels.correlations({"a": rng.random(agents)}, {"b": rng.random(agents)})[0].p_value
            for _ in range(300)
        ]
        assert sum(p < 0.1 for p in draws) <= 52


def test_recorded_states_agree_with_the_agents_own_run_for_a_constant_shift(make_run):
    run = make_run(mechanism="gaussian", opposite=True, multiplier=4.0)
    env = run.environment(0)
    change = worst_alternative(env, sampled_states(env, run.vectors(0), 8, FreshNoise(SECRET))).replacement
    found = shifts(CoordinateDescent, run.settings[0], change, run.said(0), run.heard, env.mechanisms)
    assert found.attained == pytest.approx(1.0, abs=1e-3)
    # Both scores are normal with mean mu^2/2 and variance mu^2, mu = sqrt(10)/4, up to the grid's rounding.
    for scores in (
        shift_scores(found, 20000, FreshNoise(SECRET))[0],
        attack_scores(env, change, 20000, FreshNoise(SECRET))[0],
    ):
        assert scores.mean() == pytest.approx(10 / 32, abs=0.03)
        assert scores.std() == pytest.approx(math.sqrt(10) / 4, rel=0.03)


def test_recorded_states_without_noise_are_a_perfect_attack(make_run):
    run = make_run(mechanism="none")
    change = candidates(run.settings[0])[0]
    found = shifts(CoordinateDescent, run.settings[0], change, run.said(0), run.heard, [None] * 10)
    first, second = shift_scores(found, 10, FreshNoise(SECRET))
    assert (first == np.inf).all()
    assert (second == -np.inf).all()
    assert found.divergence == np.inf


def test_a_candidate_that_changes_nothing_shows_nothing(make_run):
    run = make_run(mechanism="gaussian")
    setting = run.settings[0]
    change = candidates(setting, record=2)[0]
    same = type(change)(2, setting.problem.x[2], float(setting.problem.y[2]))
    mechanisms = run.environment(0).mechanisms
    found = shifts(CoordinateDescent, setting, same, run.said(0), run.heard, mechanisms)
    first, second = shift_scores(found, 50, FreshNoise(SECRET))
    assert not first.any()
    assert not second.any()


NOISE = Gaussian(0.1, 1.0)
EXPECTED = {0: NOISE, 1: NOISE, 2: None}


def said(index, value=0.5):
    return Release(7, index, np.array([value]))


@pytest.mark.parametrize(
    ("releases", "charges", "word"),
    [
        ([said(0), said(1), said(2)], [Charge(0, 1, NOISE)], None),
        ([said(0), said(0)], [Charge(0, 0, NOISE)], None),
        ([said(0), said(1)], [Charge(0, 0, NOISE)], "release 1: never charged"),
        ([said(0)], [Charge(0, 0, NOISE), Charge(0, 0, NOISE)], "release 0: charged twice"),
        ([said(0)], [Charge(0, 0, None)], "release 0: charged nothing"),
        ([said(0), said(0, 0.5 + GRID)], [Charge(0, 0, NOISE)], "two different bodies"),
        ([said(0, 0.1)], [Charge(0, 0, NOISE)], "not on the public grid"),
        ([said(2, 0.1)], [], None),
        ([said(3)], [Charge(0, 1, NOISE)], "no such index"),
        ([said(0)], [Charge(0, 0, Gaussian(0.1, 0.5))], "configured is gaussian noise of scale 1 "),
    ],
)
def test_each_breach_of_the_ledger_is_one_finding(releases, charges, word):
    findings = check_charges(7, releases, Account(charges), EXPECTED)
    if word is None:
        assert findings == []
    else:
        assert len(findings) == 1
        assert word in findings[0]
        assert findings[0].startswith("agent 7")


def test_budgets_count_what_earlier_runs_charged():
    spent = total([NOISE] * 2, 1e-3).epsilon
    enough = Account([Charge(0, 1, NOISE)], budget=(spent, 1e-3))
    assert check_charges(7, [said(0)], enough, EXPECTED) == []
    before = Account([Charge(0, 1, NOISE)], earlier=[NOISE], budget=(spent, 1e-3))
    assert "over budget" in check_charges(7, [said(0)], before, EXPECTED)[0]
    assert before.mechanism(1) == NOISE
    assert before.mechanism(2) is None


def _observed(algorithm, mechanism):
    """Five agents of eight records and fifteen rounds, epsilon 1 in all: each one's records and observed rounds."""
    settings, said, heard = run(algorithm, epsilon=1 / 15, updates=15, d=20, mechanism=mechanism, seed=3)
    return [
        (setting.problem, observe(algorithm, setting, own, heard)) for setting, own in zip(settings, said, strict=True)
    ]


@pytest.mark.parametrize("kind", [Admm, PrimalPerturbation, DualPerturbation])
def test_rounds_without_privacy_give_every_record_away(kind):
    for problem, rounds in _observed(kind, "none"):
        for record in range(problem.records):
            residual = reconstruction.admm_residuals(problem, CAPACITY, rounds, record)
            own = [problem.loss.slope(r.release.vector @ problem.x[record], problem.y[record]) for r in rounds]
            assert residual == pytest.approx(np.outer(own, problem.x[record]), abs=1e-4)
            found = reconstruction.reconstruct(record, problem.x[record], residual)
            assert found.average > 0.99


@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [(PrimalPerturbation, "gaussian"), (PrimalPerturbation, "gamma-norm"), (DualPerturbation, "gamma-norm")],
)
def test_private_rounds_leave_a_record_to_chance(kind, mechanism):
    above = 0
    for problem, rounds in _observed(kind, mechanism):
        for record in range(problem.records):
            residual = reconstruction.admm_residuals(problem, CAPACITY, rounds, record)
            found = reconstruction.reconstruct(record, problem.x[record], residual)
            above += found.average > found.chance
    # Forty records at a level of 0.01 each: more than four with probability below 1e-4.
    assert above <= 4
