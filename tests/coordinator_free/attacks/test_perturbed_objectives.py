"""Noise in an objective: solved for, tested, and attacked with the determinant's term."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.attacks.bounds import attacked
from coordinator_free.attacks.inversion import NotPerturbed, invert
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Replacement
from coordinator_free.attacks.noise_tests import examine
from coordinator_free.attacks.perturbed_objectives import (
    affordable,
    noise_rows,
    objective_scores,
    observe,
    worst_replacement,
)
from coordinator_free.attacks.recorded_states import candidates, shift_scores, shifts
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import LOGISTIC
from tests.helpers.perturbed_objectives import CAPACITY, run
from tests.helpers.reference_attacks import objective_score

SECRET = bytes(range(32))


@pytest.mark.parametrize("algorithm", [DualPerturbation, PenaltyPerturbation])
def test_the_noise_that_was_drawn_is_solved_for(algorithm):
    settings, said, heard = run(algorithm, epsilon=2.0)
    for setting, own in zip(settings, said, strict=True):
        for r in observe(algorithm, setting, own, heard):
            drawn = r.mechanism.noise(setting.dimension, Stream(setting.secret, r.release.index))
            found = r.remainder(setting.problem, CAPACITY)
            assert found == pytest.approx(drawn, abs=(r.curvature + CAPACITY) * 2.0**-20)


def test_plain_inversion_says_that_the_noise_is_not_there():
    settings, said, heard = run(DualPerturbation, epsilon=2.0)
    with pytest.raises(NotPerturbed, match="release 0 of agent 1"):
        invert(DualPerturbation(settings[1]), said[1], heard)


def test_hidden_noise_is_tested_and_half_of_it_flagged():
    settings, said, heard = run(DualPerturbation, epsilon=2.0, agents=20, updates=10)
    rows = []
    for agent, setting in enumerate(settings):
        rows += noise_rows(agent, setting.problem, CAPACITY, observe(DualPerturbation, setting, said[agent], heard))
    assert examine(rows).ok
    assert examine([replace(row, noise=row.noise / 2.0) for row in rows]).p_value < 1e-6


def test_scores_agree_with_the_definition_and_with_likelihood_ratios():
    settings, said, heard = run(DualPerturbation, epsilon=1.5, updates=1, records=4)
    setting = settings[0]
    rounds = observe(DualPerturbation, setting, said[0], heard)
    change, _ = worst_replacement(setting, CAPACITY, rounds, row_bound=1.0)
    first, second = objective_scores(setting, CAPACITY, rounds, change, 20000, FreshNoise(SECRET))
    for scores, sign in ((first, -1.0), (second, 1.0)):
        weights = np.exp(sign * scores)
        assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / math.sqrt(weights.size)
    # The pure bound of the round holds for every single outcome.
    epsilon = rounds[0].mechanism.epsilon
    assert max(np.abs(first).max(), np.abs(second).max()) <= epsilon * (1.0 + 1e-3)
    problems = (setting.problem, change.apply(setting.problem))
    f, w = rounds[0].release.vector, rounds[0].curvature

    def hessian(problem):
        weights = LOGISTIC.curvature(problem.x @ f, problem.y) * CAPACITY / problem.records
        return (problem.x.T * weights) @ problem.x + w * np.eye(3)

    direct = objective_score(
        rounds[0].mechanism,
        tuple(rounds[0].remainder(p, CAPACITY) for p in problems),
        tuple(hessian(p) for p in problems),
    )
    assert abs(direct) <= epsilon * (1.0 + 1e-3)


@pytest.mark.parametrize("algorithm", [DualPerturbation, PenaltyPerturbation])
def test_attacked_stays_below_accounted(algorithm):
    settings, said, heard = run(algorithm, epsilon=1.5, updates=3, records=4)
    rounds = observe(algorithm, settings[0], said[0], heard)
    change, attained = worst_replacement(settings[0], CAPACITY, rounds, row_bound=1.0)
    assert 0.0 < attained <= 1.0
    scores = objective_scores(settings[0], CAPACITY, rounds, change, 4000, FreshNoise(SECRET))
    shown = attacked(*scores, 1e-3, 0.99).epsilon
    assert 0.0 < shown <= total([r.mechanism for r in rounds], 1e-3).epsilon


def test_the_same_record_scores_nothing():
    settings, said, heard = run(DualPerturbation, epsilon=1.5, updates=2)
    rounds = observe(DualPerturbation, settings[0], said[0], heard)
    problem = settings[0].problem
    same = Replacement(1, problem.x[1], float(problem.y[1]))
    first, second = objective_scores(settings[0], CAPACITY, rounds, same, 50, FreshNoise(SECRET))
    assert np.abs([first, second]).max() < 1e-12


def test_perturbed_minimisers_are_attacked_at_their_recorded_states():
    settings, said, heard = run(PrimalPerturbation, epsilon=0.25, updates=4, mechanism="gaussian", records=4)
    setting = settings[0]
    rows = invert(PrimalPerturbation(setting), said[0], heard)
    for row in rows:
        drawn = row.mechanism.noise(3, Stream(setting.secret, row.release.index))
        assert row.noise == pytest.approx(drawn, abs=2.0**-19)
    mechanisms = [row.mechanism for row in rows]
    found = max(
        (
            shifts(PrimalPerturbation, setting, change, said[0], heard, mechanisms)
            for change in candidates(setting, row_bound=1.0)
        ),
        key=lambda s: s.divergence,
    )
    assert 0.0 < found.attained <= 1.0
    shown = attacked(*shift_scores(found, 4000, FreshNoise(SECRET)), 1e-3, 0.99).epsilon
    assert shown <= total(mechanisms, 1e-3).epsilon


def test_trials_are_fewer_where_newton_steps_are_dear():
    assert affordable(1000, 20, 5, 10) == 1000
    assert affordable(1000, 9000, 104, 100) < 10
    assert 1.8 < affordable(10**9, 9000, 104, 5) / affordable(10**9, 9000, 104, 5, fitted=True) < 1.9
    assert affordable(10**9, 20, 105, 5) > 1.3 * affordable(10**9, 20, 105, 5, fitted=True)
