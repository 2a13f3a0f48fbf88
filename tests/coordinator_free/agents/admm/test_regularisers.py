"""The ADMM family with a regulariser other than the square: where it converges, and what its rounds cost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agents.admm.admm import Admm, AdmmError
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.attacks.bounds import attacked
from coordinator_free.attacks.inversion import invert
from coordinator_free.attacks.likelihood_ratio import FreshNoise
from coordinator_free.attacks.noise_tests import examine
from coordinator_free.attacks.perturbed_objectives import (
    Worlds,
    noise_rows,
    objective_scores,
    observe,
    worst_replacement,
)
from coordinator_free.attacks.recorded_states import candidates, shifts
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.settings import SettingError
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import models, records, ring, settings
from tests.helpers.perturbed_objectives import CAPACITY, run

SECRET = bytes(range(32))
FORM = "smooth-l1"
OBJECTIVES = pytest.mark.parametrize("algorithm", [DualPerturbation, PenaltyPerturbation])


def test_agents_agree_on_the_optimum_with_the_regulariser() -> None:
    problems = records(4, 20, 3, seed=5)
    learning = {"capacity": 20.0, "rho": 1.0, "penalty": 3.0, "regulariser_form": FORM}
    agents = [Admm(setting) for setting in settings(ring(4), problems, learning, 300)]
    run_rounds(agents, ring(4))
    best = consensus_optimum(problems, 20.0, 1.0, form=FORM)
    np.testing.assert_allclose(models(agents), np.tile(best, (4, 1)), rtol=0, atol=1e-6)
    assert np.linalg.norm(best - consensus_optimum(problems, 20.0, 1.0)) > 0.05


def test_another_form_is_refused() -> None:
    learning = {"capacity": 20.0, "rho": 1.0, "penalty": 3.0, "regulariser_form": "l1"}
    with pytest.raises((AdmmError, SettingError), match=r'learning\.regulariser_form = .l1.: accepted: "squared"'):
        Admm(settings(ring(4), records(4, 5, 3, seed=5), learning, 3)[0])


@OBJECTIVES
def test_the_noise_that_was_drawn_is_solved_for_and_half_of_it_flagged(algorithm):
    made, said, heard = run(algorithm, epsilon=2.0, agents=20, updates=10, form=FORM)
    rows = []
    for setting, own in zip(made, said, strict=True):
        rounds = observe(algorithm, setting, own, heard)
        for r in rounds:
            drawn = r.mechanism.noise(setting.dimension, Stream(setting.secret, r.release.index))
            steepest = r.curvature + r.beyond.largest_curvature + CAPACITY
            assert r.remainder(setting.problem, CAPACITY) == pytest.approx(drawn, abs=steepest * 2.0**-20)
        rows += noise_rows(setting.agent, setting.problem, CAPACITY, rounds)
    assert examine(rows).ok
    assert examine([replace(row, noise=row.noise / 2.0) for row in rows]).p_value < 1e-6


@pytest.mark.thorough
@OBJECTIVES
def test_a_round_costs_no_more_than_with_the_square_alone(algorithm):
    """The charge is the same, the scores are likelihood ratios, and no outcome loses more than the pure bound."""
    made, said, heard = run(algorithm, epsilon=1.5, updates=1, records=4, form=FORM)
    squared, _, _ = run(algorithm, epsilon=1.5, updates=1, records=4)
    assert algorithm(made[0]).charge(0) == algorithm(squared[0]).charge(0)
    rounds = observe(algorithm, made[0], said[0], heard)
    change, attained = worst_replacement(made[0], CAPACITY, rounds, row_bound=1.0)
    assert 0.0 < attained <= 1.0
    f, step = rounds[0].release.vector, 1e-5 * np.eye(3)
    hessian = Worlds.of(made[0].problem, change, CAPACITY).hessians(0, rounds[0].curvature, rounds[0].beyond, f[None])
    there, here = (rounds[0].remainder(made[0].problem, CAPACITY, f + moved) for moved in (step, -step))
    np.testing.assert_allclose(hessian[0], (here - there) / 2e-5, rtol=1e-6, atol=1e-6)
    scores = objective_scores(made[0], CAPACITY, rounds, change, 20_000, FreshNoise(SECRET))
    for part, sign in zip(scores, (-1.0, 1.0), strict=True):
        weights = np.exp(sign * part)
        assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / math.sqrt(weights.size)
    assert np.abs(np.concatenate(scores)).max() <= rounds[0].mechanism.epsilon * (1.0 + 1e-3)
    shown = attacked(*scores, 1e-3, 0.99).epsilon
    assert 0.0 < shown <= total([r.mechanism for r in rounds], 1e-3).epsilon


@pytest.mark.parametrize("form", ["own-release", "as_published"])
def test_a_minimiser_moves_at_most_as_far_as_with_the_square_alone(form):
    made, said, heard = run(PrimalPerturbation, epsilon=0.5, updates=4, mechanism="gaussian", records=4, form=FORM)
    setting = replace(made[0], learning={**made[0].learning, "pvp_form": form})
    charged = [row.mechanism for row in invert(PrimalPerturbation(setting), said[0], heard)]
    square = replace(setting, learning={**setting.learning, "regulariser_form": "squared"})
    assert charged == [PrimalPerturbation(square).charge(index) for index in range(4)]
    shares = [
        share
        for change in candidates(setting, row_bound=1.0)
        for share in shifts(PrimalPerturbation, setting, change, said[0], heard, charged).shares()
    ]
    assert 0.0 < max(shares) <= 1.0
