"""Penalties that nobody is told hide no record: exactly without noise, and at hardly any loss with it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.attacks.hidden_penalties import direction, scores
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.likelihood_ratio import FreshNoise
from coordinator_free.attacks.observed_rounds import Terms, observe, observe_terms
from coordinator_free.attacks.perturbed_objectives import objective_scores, worst_replacement
from coordinator_free.attacks.perturbed_objectives import observe as observe_noise
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import records, ring
from tests.helpers.admm_networks import settings as settings_of

AGENTS, DELTA, SECRET = 3, 1e-5, bytes(range(32))
Heard = dict[tuple[int, int], Release]


def played(kind: type[Admm], settled: list[Setting]) -> tuple[list[Release], Heard]:
    """Agent 0's releases, and all."""
    seen = run_rounds([kind(setting) for setting in settled], ring(AGENTS))
    heard = {(release.sender, release.index): release for release in seen.releases}
    return [heard[key] for key in sorted(heard) if key[0] == 0], heard


def open_run(d: int, penalties: list[float]) -> tuple[Setting, list[Release], list[Terms]]:
    learning = {"capacity": 20.0, "rho": 0.5, "penalties": penalties, "theta": 0.5}
    settled = settings_of(ring(AGENTS), records(AGENTS, 12, d, 7), learning, len(penalties))
    own, heard = played(ModifiedAdmm, settled)
    return settled[0], own, observe_terms(ModifiedAdmm, settled[0], own, heard)


@pytest.mark.parametrize(("d", "penalties"), [(3, [0.8, 0.9]), (8, [0.8, 3.0]), (8, [0.6, 0.5, 2.0, 2.0, 0.7])])
def test_two_rounds_without_noise_show_the_direction_of_a_record(d: int, penalties: list[float]) -> None:
    setting, _, terms = open_run(d, penalties)
    for record in (0, 5):
        x = setting.problem.x[record]
        found = direction(setting.problem, 20.0, terms, record)
        assert abs(found @ x) / np.linalg.norm(x) > 1.0 - 1e-9
    # The record itself is not looked at.
    other = setting.problem.x.copy()
    other[0] = 0.1
    again = direction(replace(setting.problem, x=other), 20.0, terms, 0)
    assert abs(again @ direction(setting.problem, 20.0, terms, 0)) > 1.0 - 1e-12


def test_one_round_shows_a_plane_and_two_features_are_too_few() -> None:
    setting, _, terms = open_run(3, [0.8, 0.9])
    with pytest.raises(InversionError, match="two rounds"):
        direction(setting.problem, 20.0, terms[:1], 0)
    setting, _, terms = open_run(2, [0.8, 0.9])
    with pytest.raises(InversionError, match="three features"):
        direction(setting.problem, 20.0, terms, 0)


def test_the_terms_without_penalty_make_the_objective_with_it() -> None:
    learning = {"capacity": 20.0, "rho": 0.5, "penalty": 0.8, "penalty_growth": 1.3, "theta": 0.5}
    settled = settings_of(ring(AGENTS), records(AGENTS, 12, 3, 7), learning, 4)
    own, heard = played(ModifiedAdmm, settled)
    for t, (whole, terms) in enumerate(
        zip(
            observe(ModifiedAdmm, settled[0], own, heard),
            observe_terms(ModifiedAdmm, settled[0], own, heard),
            strict=True,
        )
    ):
        eta = 0.8 * 1.3**t
        assert whole.curvature == pytest.approx(terms.rest + 2.0 * eta * terms.degree)
        np.testing.assert_allclose(whole.linear, terms.dual - eta * terms.towards, atol=1e-12)


def private_run(mechanism: str, updates: int, epsilon: float, **learning: Any) -> tuple[Setting, list[Release], Heard]:
    own = {"capacity": 4.0, "rho": 0.5, "penalty": 8.0, "penalty_growth": 1.1, "theta": 8.0, **learning}
    plain = settings_of(ring(AGENTS), records(AGENTS, 4, 3, 7), own, updates, mechanism, np.ones(updates))
    settled = []
    for setting in plain:
        multipliers, more = PenaltyPerturbation.buy(setting, 4, (epsilon, DELTA), np.ones(updates))
        settled.append(replace(setting, multipliers=multipliers, learning={**setting.learning, **more}, clip=1.0))
    said, heard = played(PenaltyPerturbation, settled)
    return settled[0], said, heard


def area(first: FloatArray, second: FloatArray) -> float:
    """The probability that a score of ``first`` is above one of ``second``."""
    ranks = np.concatenate([first, second]).argsort().argsort()[: len(first)]
    return float((ranks.sum() - len(first) * (len(first) - 1) / 2) / (len(first) * len(second)))


@pytest.mark.thorough
@pytest.mark.parametrize(("mechanism", "updates"), [("gamma-norm", 3), ("gaussian", 3), ("gamma-norm", 1)])
def test_fitted_penalties_tell_the_record_as_well_as_known_ones(mechanism: str, updates: int) -> None:
    """1,500 runs with either record: one deviation of an area is about 0.01; the seed is fixed."""
    setting, own, heard = private_run(mechanism, updates, 8.0)
    rounds = observe_noise(PenaltyPerturbation, setting, own, heard)
    terms = observe_terms(PenaltyPerturbation, setting, own, heard)
    change, _ = worst_replacement(setting, 4.0, rounds, row_bound=1.0)
    known, fitted = scores(setting, 4.0, rounds, terms, change, 1500, FreshNoise(SECRET))
    assert area(*known) > 0.6
    assert area(*fitted) > area(*known) - 0.02
    # The scores with known penalties are those of the attack that has always known them.
    same = objective_scores(setting, 4.0, rounds, change, 1500, FreshNoise(SECRET))
    np.testing.assert_allclose(known[0], same[0], atol=1e-12)
    # Run by run the fitted likelihoods differ by about what the known ones differ by.
    assert np.corrcoef(known[0], fitted[0])[0, 1] > 0.8


def test_a_fit_is_never_less_likely_than_the_true_penalties() -> None:
    from coordinator_free.attacks.hidden_penalties import _fit, _start, _Traces
    from coordinator_free.attacks.perturbed_objectives import Worlds, drawn

    setting, own, heard = private_run("gamma-norm", 4, 4.0)
    rounds = observe_noise(PenaltyPerturbation, setting, own, heard)
    terms = observe_terms(PenaltyPerturbation, setting, own, heard)
    change, _ = worst_replacement(setting, 4.0, rounds, row_bound=1.0)
    worlds = Worlds.of(setting.problem, change, 4.0)
    _, _, releases = next(drawn(worlds, rounds, 200, FreshNoise(SECRET)))
    traces = _Traces.of(worlds, 0, rounds, terms, releases)
    truth = np.log(8.0) + math.log(1.1) * np.arange(4)[:, None] + np.zeros((4, 200))
    value, slope, curve = traces.likelihood(truth)
    assert (_fit(traces, _start(traces)) >= value.sum(axis=0) - 1e-9).all()
    # Derivatives by differences, round by round.
    h = 1e-5
    above, below = traces.likelihood(truth + h), traces.likelihood(truth - h)
    np.testing.assert_allclose(slope, (above[0] - below[0]) / (2.0 * h), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curve, (above[1] - below[1]) / (2.0 * h), rtol=1e-5, atol=1e-6)
