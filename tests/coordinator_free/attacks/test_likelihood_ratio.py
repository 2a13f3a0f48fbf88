"""The vectorised trials are the real agent's, and their scores are exact likelihood ratios."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.attacks.bounds import attacked
from coordinator_free.attacks.inversion import InversionError, invert
from coordinator_free.attacks.likelihood_ratio import (
    FreshNoise,
    Replacement,
    attack_scores,
    environment,
    run_trials,
)
from coordinator_free.attacks.worst_case import sampled_states, states, worst_alternative
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.release import Release
from tests.helpers.reference_attacks import agent_trial, objective_score

SECRET = bytes(range(32))


class OneSecret(FreshNoise):
    """Noise of the agent's own streams, so that one trial can be compared with the agent itself."""

    def __init__(self, secret):
        self._secret, self._index = secret, 0

    def perturb(self, mechanism, values):
        self._index += 1
        return mechanism.perturb(values[0], Stream(self._secret, self._index - 1))[None, :]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("name", ["laplace", "gaussian", "gamma-norm"])
def test_a_trial_is_the_real_agents_run(make_run, name, loss, replaced):
    run = make_run(mechanism=name, loss=loss, p=3, clip=0.4)
    change = Replacement(2, np.array([0.9, -0.8, 0.1]), 1.0)
    score, said = agent_trial(
        CoordinateDescent, run.settings[1], change, run.said(1), run.heard, SECRET, replaced=replaced
    )
    trial = run_trials(run.environment(1), change, 1, OneSecret(SECRET), replaced=replaced, keep=True)
    assert trial.releases[:, 0].tobytes() == np.stack([row.release.vector for row in said]).tobytes()
    assert trial.scores[0] == pytest.approx(score, abs=1e-9)


def test_the_recorded_run_itself_comes_out_of_its_own_secret(make_run):
    run = make_run(mechanism="gaussian")
    setting = run.settings[0]
    change = Replacement(0, setting.problem.x[0], float(setting.problem.y[0]))
    trial = run_trials(run.environment(0), change, 1, OneSecret(setting.secret), replaced=False, keep=True)
    assert trial.releases[:, 0].tobytes() == run.vectors(0).tobytes()
    assert trial.scores[0] == 0.0


def test_no_replacement_gives_no_score_and_no_epsilon(make_run):
    run = make_run()
    setting = run.settings[0]
    change = Replacement(0, setting.problem.x[0], float(setting.problem.y[0]))
    first, second = attack_scores(run.environment(0), change, 200, FreshNoise(SECRET))
    assert not first.any()
    assert not second.any()
    assert attacked(first, second, 1e-5, 0.95).epsilon == 0.0


def test_worst_alternative_of_an_opposite_record_attains_the_sensitivity(make_run):
    run = make_run(opposite=True)
    env = run.environment(0)
    worst = worst_alternative(env, sampled_states(env, run.vectors(0), 8, FreshNoise(SECRET)))
    assert worst.replacement.record == 0
    assert worst.attained == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_no_shift_exceeds_the_sensitivity_and_no_alternative_beats_the_worst(make_run, name):
    run = make_run(mechanism=name, p=3, clip=0.5)
    env = run.environment(0)
    at = states(env, run.vectors(0))
    worst = worst_alternative(env, at, record=1)
    assert worst.replacement.record == 1
    best = np.abs(attack_scores(env, worst.replacement, 4000, FreshNoise(SECRET))).mean()
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.uniform(-1, 1, 3)
        other = np.abs(attack_scores(env, Replacement(1, x, rng.normal()), 4000, FreshNoise(SECRET))).mean()
        assert other <= best * 1.02


def test_an_alternative_stays_within_the_public_bounds(make_run):
    run = make_run(mechanism="gaussian", p=3)
    env = run.environment(0)
    worst = worst_alternative(env, states(env, run.vectors(0)), row_bound=0.7, label_bound=1.5)
    assert np.linalg.norm(worst.replacement.x) <= 0.7 * (1 + 1e-12)
    assert abs(worst.replacement.y) <= 1.5


def test_records_that_are_not_there_are_refused(make_run):
    run = make_run()
    env = run.environment(0)
    with pytest.raises(ValueError, match="record = 6"):
        worst_alternative(env, states(env, run.vectors(0)), record=6)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_scores_of_fresh_runs_average_to_the_divergence(make_run, name):
    # E[score | as it is] = KL > 0 and E[exp(-score) | as it is] = 1 for an exact likelihood ratio.
    run = make_run(mechanism=name, opposite=True, multiplier=8.0, updates=5)
    env = run.environment(0)
    change = worst_alternative(env, sampled_states(env, run.vectors(0), 8, FreshNoise(SECRET))).replacement
    first, second = attack_scores(env, change, 40000, FreshNoise(SECRET))
    for scores, sign in ((first, -1.0), (second, 1.0)):
        weights = np.exp(sign * scores)
        assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / math.sqrt(weights.size)
    assert first.mean() > 0 > second.mean()


def test_one_release_at_epsilon_one_is_nearly_reached(make_run):
    run = make_run(opposite=True, multiplier=1.0, updates=1)
    env = run.environment(0)
    change = worst_alternative(env, sampled_states(env, run.vectors(0), 8, FreshNoise(SECRET))).replacement
    bound = attacked(*attack_scores(env, change, 40000, FreshNoise(SECRET)), 0.0, 0.95)
    assert 0.95 <= bound.epsilon <= 1.0


def test_half_the_noise_is_attacked_beyond_what_was_accounted(make_run):
    run = make_run(opposite=True, multiplier=1.0, updates=1)
    env = run.environment(0)
    change = worst_alternative(env, sampled_states(env, run.vectors(0), 8, FreshNoise(SECRET))).replacement
    halved = replace(env, mechanisms=tuple(Laplace(m.sensitivity, m.scale / 2.0) for m in env.mechanisms))
    assert attacked(*attack_scores(halved, change, 4000, FreshNoise(SECRET)), 0.0, 0.95).epsilon > 1.5


def test_without_noise_the_attack_is_perfect(make_run):
    run = make_run(mechanism="none")
    env = run.environment(0)
    change = Replacement(0, np.array([1.0, 1.0]), 3.0)
    bound = attacked(*attack_scores(env, change, 100, FreshNoise(SECRET)), 0.0, 0.95)
    assert bound.epsilon == bound.ceiling > 3.0


def test_raw_float_noise_is_seen_by_raw_scores_only():
    # The textbook sampler in float64 is distinguishable beyond its epsilon of 1; the grid's sampler is not.
    rng = np.random.default_rng(5)
    trials = 4000

    def scores(draw):
        first = [abs(v - 1.0) - abs(v) for v in (draw() for _ in range(trials))]
        second = [abs(v - 1.0) - abs(v) for v in (1.0 + draw() for _ in range(trials))]
        return np.array(first), np.array(second)

    raw = scores(lambda: rng.laplace())
    assert attacked(*raw, 0.0, 0.95, step=None).epsilon > 1.5
    assert attacked(*raw, 0.0, 0.95).epsilon <= 1.0
    gridded = Laplace(1.0, 1.0)
    index = iter(range(4 * trials))
    grid = scores(lambda: float(gridded.noise(1, Stream(SECRET, next(index)))[0]))
    assert attacked(*grid, 0.0, 0.95, step=None).epsilon <= 1.0


def test_gamma_norm_trials_have_the_noise_of_the_mechanism():
    gamma = GammaNorm(1.0, 2.0, 5)
    released = FreshNoise(SECRET).perturb(gamma, np.zeros((20000, 5)))
    lengths = np.linalg.norm(released, axis=1)
    assert lengths.mean() == pytest.approx(10.0, rel=0.02)
    assert lengths.std() == pytest.approx(2.0 * math.sqrt(5.0), rel=0.03)
    assert np.abs(released.mean(axis=0)).max() < 0.15
    assert (released / GRID == np.rint(released / GRID)).all()


def test_objective_perturbation_adds_the_log_determinant():
    # In one dimension J(f) = (a/2) f^2 - b f + e f: f = (b - e)/a, so its density is p_e(b - a f) a.
    noise = Gaussian(1.0, 0.5)
    f, (a1, b1), (a2, b2) = 0.3, (2.0, 1.0), (3.0, 0.5)
    density = [a * math.exp(-(((b - a * f) / 0.5) ** 2) / 2.0) for a, b in ((a1, b1), (a2, b2))]
    score = objective_score(
        noise,
        (np.array([b1 - a1 * f]), np.array([b2 - a2 * f])),
        (np.array([[a1]]), np.array([[a2]])),
    )
    assert score == pytest.approx(math.log(density[0] / density[1]))


def test_inversion_gives_back_the_noise_that_was_drawn(make_run):
    run = make_run(mechanism="gaussian")
    setting = run.settings[2]
    for row in run.inverted(2):
        drawn = row.mechanism.noise(setting.dimension, Stream(setting.secret, row.release.index))
        assert row.noise.tobytes() == (drawn + 0.0).tobytes()


def test_inversion_names_what_is_missing(make_run):
    run = make_run()
    used = next(pair for release in run.said(0) for pair in release.used if pair[0] != 0)
    del run.heard[used]
    with pytest.raises(InversionError, match=f"release {used[1]} of agent {used[0]}"):
        run.inverted(0)
    with pytest.raises(InversionError, match=f"release {used[1]} of agent {used[0]}"):
        environment(run.settings[0], run.said(0), run.heard, [None] * 10)


def test_a_restart_that_skipped_an_index_is_followed(make_run):
    run = make_run(mechanism="gaussian", updates=8)
    setting = run.settings[0]
    agent = CoordinateDescent(setting)
    own: list[Release] = []
    for place in run.said(0)[:3]:
        for pair in place.used:
            if pair[0] != 0:
                agent.receive(run.heard[pair])
        own.append(agent.wake())
    after = CoordinateDescent(setting)
    after.restore(agent.snapshot(), 5)
    after.receive(run.heard[1, 0])
    own += [after.wake(), after.wake()]
    assert [release.index for release in own] == [0, 1, 2, 5, 6]
    heard = {**run.heard, **{(0, r.index): r for r in own}}
    rows = invert(CoordinateDescent(setting), own, heard)
    for row in rows:
        drawn = row.mechanism.noise(setting.dimension, Stream(setting.secret, row.release.index))
        assert row.noise.tobytes() == (drawn + 0.0).tobytes()
    env = environment(setting, own, heard, [row.mechanism for row in rows])
    assert env.parents == (-1, 0, 1, 2, 3)
    exact = run_trials(
        replace(env, mechanisms=(None,) * 5),
        Replacement(0, setting.problem.x[0], float(setting.problem.y[0])),
        1,
        FreshNoise(SECRET),
        replaced=False,
        keep=True,
    )
    assert exact.releases[0, 0] == pytest.approx(rows[0].exact, abs=1e-12)


def test_a_mechanism_of_a_longer_vector_is_the_same_sampler():
    small = mechanism("laplace", 0.1, 10.0, 3)
    values = np.random.default_rng(0).normal(size=(7, 3))
    released = FreshNoise(SECRET).perturb(small, values)
    assert released.shape == (7, 3)
    assert np.abs(released - values).max() > 0.0
