"""Noise that is not what was charged is flagged; noise that is, is not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from coordinator_free.attacks.noise_tests import LEVEL, NoiseRow, examine, on_grid
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.noise import Stream

P = 3
MECHANISMS = {
    "laplace": Laplace(0.02, 0.2),
    "gaussian": Gaussian(0.02, 0.2),
    "gamma-norm": GammaNorm(0.02, 0.2, P),
}


def correct(name, seed, agents=20, updates=10, p=P):
    """Noise of a correct run, by the product's own samplers."""
    mechanism = (
        MECHANISMS[name] if p == P else replace(MECHANISMS[name], **({"dimension": p} if "gamma" in name else {}))
    )
    return [
        NoiseRow(a, k, mechanism.noise(p, Stream(bytes([a]) * 24 + seed.to_bytes(8, "big"), k)), mechanism)
        for a in range(agents)
        for k in range(updates)
    ]


def failed(verdict):
    return {test.name for test in verdict.tests if test.p_value * len(verdict.tests) < LEVEL}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("p", [1, P])
def test_correct_runs_are_not_flagged_more_often_than_stated(name, p):
    # 80 runs at a level of 10%, so that too small p-values show: more than 20 has probability below 1e-4 at 10%.
    assert binom.sf(20, 80, 0.1) < 1e-4
    values = [examine(correct(name, seed, agents=8, p=p)).p_value for seed in range(80)]
    assert sum(value < 0.1 for value in values) <= 20
    assert min(values) > LEVEL / 100


@pytest.mark.thorough
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_smallest_deviation_that_is_said_to_be_found_is_found(name):
    """60 runs at the stated scale: fewer than 45 found has probability below 1e-3 at a power of 90%."""
    [scale] = [test for test in examine(correct(name, 0)).tests if test.name == "scale of all"]
    factor = float(scale.detail.split("; ")[1].split(" ")[0])
    assert 0.5 < factor < 0.95
    found = 0
    for seed in range(60):
        rows = correct(name, seed)
        found += not examine([replace(row, noise=np.rint(factor * row.noise / GRID) * GRID) for row in rows]).ok
    assert found >= 45


@pytest.mark.parametrize("name", MECHANISMS)
def test_half_the_noise_is_flagged(name):
    rows = correct(name, 0)
    halved = [replace(row, noise=np.rint(row.noise / 2.0 / GRID) * GRID) for row in rows]
    verdict = examine(halved)
    assert verdict.p_value < 1e-6
    assert not verdict.ok
    assert any("0.5" in line for line in verdict.findings)


@pytest.mark.parametrize("name", MECHANISMS)
def test_half_the_noise_of_one_dimension_is_flagged(name):
    rows = [replace(row, noise=np.rint(row.noise / 2.0 / GRID) * GRID) for row in correct(name, 0, p=1)]
    assert examine(rows).p_value < 1e-6


def test_half_the_noise_of_a_single_agent_is_flagged():
    rows = [
        replace(row, noise=np.rint(row.noise / 2.0 / GRID) * GRID) if row.agent == 7 else row
        for row in correct("gaussian", 0, updates=20)
    ]
    verdict = examine(rows)
    assert "scale of each agent" in failed(verdict)
    assert any("agent 7" in line for line in verdict.findings)


def test_twice_the_noise_is_flagged():
    assert examine([replace(row, noise=2.0 * row.noise) for row in correct("laplace", 0)]).p_value < 1e-6


def test_gaussian_noise_sold_as_laplace_of_the_same_mean_size_is_flagged():
    wide = Gaussian(0.02, 0.2 * math.sqrt(math.pi / 2.0))
    rows = [
        replace(row, noise=wide.noise(P, Stream(bytes(32), 1000 * row.agent + row.index)))
        for row in correct("laplace", 0, agents=40, updates=60)
    ]
    assert "distribution" in failed(examine(rows))


def test_two_agents_with_one_secret_are_flagged():
    rows = correct("gaussian", 0)
    twins = [replace(row, noise=rows[row.index].noise) if row.agent == 1 else row for row in rows]
    verdict = examine(twins)
    assert {"independence between agents", "repetition"} <= failed(verdict)
    assert any("agents 0 and 1" in line for line in verdict.findings)


def test_one_secret_at_two_scales_is_flagged():
    rows = correct("gaussian", 0)
    double = Gaussian(0.04, 0.4)
    twins = [
        replace(row, noise=np.rint(2.0 * rows[row.index].noise / GRID) * GRID, mechanism=double)
        if row.agent == 1
        else row
        for row in rows
    ]
    assert "independence between agents" in failed(examine(twins))


def test_noise_that_is_used_again_at_another_index_is_flagged():
    rows = correct("laplace", 0)
    again = [replace(row, noise=rows[5].noise) if (row.agent, row.index) == (3, 9) else row for row in rows]
    verdict = examine(again)
    assert "repetition" in failed(verdict)
    assert any("agent 0 release 5 and agent 3 release 9" in line for line in verdict.findings)


def test_a_zero_noise_release_is_flagged_by_its_repetition():
    rows = [
        replace(row, noise=np.zeros(P)) if row.index in (2, 6) and row.agent == 4 else row
        for row in correct("laplace", 0)
    ]
    assert "repetition" in failed(examine(rows))


def test_noise_that_remembers_the_last_round_is_flagged():
    rows = correct("gaussian", 0, updates=20)
    fresh = {(row.agent, row.index): row.noise for row in rows}
    mixed = [
        replace(row, noise=np.rint(0.8 * row.noise / GRID + 0.6 * fresh[row.agent, row.index - 1] / GRID) * GRID)
        if row.index
        else row
        for row in rows
    ]
    assert "independence between rounds" in failed(examine(mixed))


def test_a_shift_of_one_coordinate_is_flagged():
    shift = np.array([0.0, 0.3, 0.0])
    rows = [replace(row, noise=row.noise + np.rint(shift / GRID) * GRID) for row in correct("gaussian", 0)]
    assert "mean" in failed(examine(rows))


def test_a_wrong_step_size_shows_along_the_updates():
    rng = np.random.default_rng(0)
    rows = []
    for row in correct("gaussian", 0):
        drift = rng.normal(size=P)
        rows.append(replace(row, noise=row.noise + np.rint(0.1 * drift / GRID) * GRID, drift=drift))
    assert "step size" in failed(examine(rows))
    assert "step size" not in failed(
        examine([replace(row, drift=rng.normal(size=P)) for row in correct("gaussian", 0)])
    )


def test_what_is_off_the_grid_is_flagged():
    rows = correct("laplace", 0)
    rows[3] = replace(rows[3], noise=rows[3].noise + GRID / 3.0)
    verdict = examine(rows)
    assert verdict.off_grid == ((0, 3),)
    assert not verdict.ok
    assert "not on the public grid" in verdict.findings[0]
    assert not on_grid(np.array([GRID / 2.0]))
    assert on_grid(np.array([0.0, -3.0 * GRID, 2.0**30 + GRID]))


def test_without_noise_there_is_nothing_to_flag():
    verdict = examine([])
    assert verdict.ok
    assert verdict.releases == 0


def test_one_agent_with_one_release_is_enough_to_say_nothing():
    assert examine(correct("gaussian", 0, agents=1, updates=1)).ok
