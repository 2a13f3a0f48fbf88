"""Gaussian noise inside the objectives of several rounds: what they lose together, and that less noise loses more.

Everything is compared with densities, laws and integrals that are computed here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import AdmmError
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.attacks.bounds import attacked
from coordinator_free.attacks.likelihood_ratio import FreshNoise
from coordinator_free.attacks.noise_tests import examine
from coordinator_free.attacks.perturbed_objectives import noise_rows, objective_scores, observe, worst_replacement
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import records, ring
from tests.helpers.admm_networks import settings as settings_of

CAPACITY, DELTA = 20.0, 1e-5
SECRET = bytes(range(32))


def quadrature_delta(epsilon: float, charges: list[GaussianObjectivePerturbation]) -> float:
    """E[(1 - exp(epsilon - sum of the bounds))+] of two or three releases, by Gauss-Legendre panels over their r."""
    points, weights = leggauss(32)
    edges = np.linspace(0.0, 9.0, 7)
    r = np.concatenate([(b - a) / 2.0 * (points + 1.0) + a for a, b in pairwise(edges)])
    mass = np.concatenate([(b - a) / 2.0 * weights for a, b in pairwise(edges)])
    mass = mass * r * np.exp(-r * r / 2.0)
    ratios = [charge.sensitivity / charge.scale for charge in charges]
    certain = sum(charge.jacobian + ratio**2 / 2.0 for charge, ratio in zip(charges, ratios, strict=True))
    loss, share = np.zeros(1), np.ones(1)
    for ratio in ratios[:-1]:
        loss, share = (loss[:, None] + ratio * r).ravel(), (share[:, None] * mass).ravel()
    # The last r in closed form: P(r > x) = exp(-x^2/2), and the kink of the integrand lies at x.
    last = ratios[-1]
    least = np.maximum(epsilon - certain - loss, 0.0) / last
    far = least[:, None] + 0.5 * (points + 1.0) * 9.0
    inside = -np.expm1(np.minimum(epsilon - certain - loss[:, None] - last * far, 0.0)) * far * np.exp(-far * far / 2.0)
    return float(share @ (inside @ weights) * 4.5)


@pytest.mark.parametrize(
    "rounds", [[(0.3, 0.05), (0.2, 0.02)], [(1.5, 0.1), (0.4, 0.3)], [(0.2, 0.05), (0.25, 0.05), (0.15, 0.01)]]
)
def test_rounds_with_different_noise_cost_what_an_integral_over_their_lengths_says(
    rounds: list[tuple[float, float]],
) -> None:
    charges = [GaussianObjectivePerturbation(ratio, 1.0, jacobian, 9) for ratio, jacobian in rounds]
    found = total(charges, DELTA).epsilon
    assert quadrature_delta(found, charges) == pytest.approx(DELTA, rel=5e-3)
    assert quadrature_delta(found, charges) <= DELTA * (1.0 + 1e-6)
    # Half of one round's noise is far over the claim.
    halved = [replace(charges[0], scale=0.5), *charges[1:]]
    assert quadrature_delta(found, halved) > 3.0 * DELTA


def log_density(rows: FloatArray, labels: FloatArray, w: float, linear: FloatArray, s: float, f: FloatArray) -> float:
    """Log density of the minimiser at ``f`` with Gaussian noise of deviation ``s``, up to a constant."""
    share, margins = CAPACITY / len(labels), rows @ f
    noise = -(share * LOGISTIC.slope(margins, labels) @ rows + w * f + linear)
    hessian = share * (rows.T * LOGISTIC.curvature(margins, labels)) @ rows + w * np.eye(len(f))
    return -float(noise @ noise) / (2.0 * s * s) + float(np.linalg.slogdet(hessian)[1])


def worst_excess(scale_by: float) -> float:
    """The largest excess of a release's true loss over the bound of its charge, with ``scale_by`` times the noise.

    The bound takes the noise's length in the plane of the two records, in units of the charged deviation.
    """
    random, worst = np.random.default_rng(3), -math.inf
    charge = GaussianObjectivePerturbation(2.0 * CAPACITY / 2.0, 8.0, math.log1p(0.25 * CAPACITY / 2.0 / 5.0), 4)
    w, s = 5.0, charge.scale * scale_by
    for _ in range(300):
        pair = random.normal(size=(2, 4))
        pair /= np.linalg.norm(pair, axis=1)[:, None]
        if random.integers(2):
            pair[1] = -pair[0]
        other, labels = random.normal(size=4) / 4.0, np.array([1.0, 1.0])
        f = random.normal(size=4) * random.choice([0.1, 1.0, 30.0])
        noise = s * random.normal(size=4) * random.choice([1.0, 4.0])
        rows = [np.stack([one, other]) for one in pair]
        pull = CAPACITY / 2.0 * LOGISTIC.slope(rows[0] @ f, labels) @ rows[0]
        linear = -(pull + w * f) - noise
        loss = log_density(rows[0], labels, w, linear, s, f) - log_density(rows[1], labels, w, linear, s, f)
        plane = np.linalg.qr(pair.T)[0]
        r = float(np.linalg.norm(plane.T @ noise)) / s
        ratio = charge.sensitivity / charge.scale
        worst = max(worst, loss - (charge.jacobian + ratio * r + ratio**2 / 2.0))
    return worst


def test_no_release_loses_more_than_the_bound_of_its_charge() -> None:
    assert worst_excess(1.0) <= 1e-9
    assert worst_excess(0.5) > 0.1


def made(
    kind: type[DualPerturbation],
    *,
    epsilon: float = 2.0,
    agents: int = 3,
    updates: int = 5,
    each: int = 12,
    learning: dict[str, Any] | None = None,
) -> list[Setting]:
    """Agents with the noise that their budget buys, as dealing gives it to them."""
    own = {"capacity": CAPACITY, "rho": 0.5, "penalty": 40.0, **(learning or {})}
    plain = settings_of(ring(agents), records(agents, each, 3, 7), own, updates, "gaussian", np.ones(updates))
    settled = []
    for setting in plain:
        multipliers, more = kind.buy(setting, each, (epsilon, DELTA), np.ones(updates))
        settled.append(replace(setting, multipliers=multipliers, learning={**setting.learning, **more}, clip=1.0))
    return settled


def played(kind: type[DualPerturbation], settled: list[Setting]) -> dict[tuple[int, int], Release]:
    transcript = run_rounds([kind(setting) for setting in settled], ring(len(settled)))
    return {(release.sender, release.index): release for release in transcript.releases}


def own_releases(heard: dict[tuple[int, int], Release], agent: int) -> list[Release]:
    return [heard[key] for key in sorted(heard) if key[0] == agent]


@pytest.mark.parametrize(
    ("kind", "learning"), [(DualPerturbation, {"penalty": 2.0}), (PenaltyPerturbation, {"penalty_growth": 1.05})]
)
def test_the_noise_of_every_round_is_the_charged_noise_and_the_budget_is_spent(
    kind: type[DualPerturbation], learning: dict[str, Any]
) -> None:
    settled = made(kind, learning=learning)
    heard = played(kind, settled)
    for agent, setting in enumerate(settled):
        rounds = observe(kind, setting, own_releases(heard, agent), heard)
        for r in rounds:
            assert isinstance(r.mechanism, GaussianObjectivePerturbation)
            drawn = r.mechanism.noise(3, Stream(setting.secret, r.release.index))
            found = r.remainder(setting.problem, CAPACITY)
            assert found == pytest.approx(drawn, abs=(r.curvature + CAPACITY) * 2.0**-20)
        spent = total([r.mechanism for r in rounds], DELTA).epsilon
        assert 0.99 * 2.0 <= spent <= 2.0


def test_half_of_the_noise_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A correct run is flagged at most once in 1,000; the seed is fixed."""

    def verdict() -> float:
        settled = made(DualPerturbation, agents=20)
        heard = played(DualPerturbation, settled)
        rows = []
        for agent, setting in enumerate(settled):
            observed = observe(DualPerturbation, setting, own_releases(heard, agent), heard)
            rows += noise_rows(agent, setting.problem, CAPACITY, observed)
        return float(examine(rows).p_value)

    assert verdict() > 1e-3
    honest = GaussianObjectivePerturbation.noise
    with monkeypatch.context() as patch:
        patch.setattr(GaussianObjectivePerturbation, "noise", lambda m, d, s: honest(m, d, s) / 2.0)
        assert verdict() < 1e-6


def test_attacked_stays_below_accounted_and_a_tenth_of_the_noise_exceeds_it() -> None:
    """4,000 trials at confidence 0.999, seed fixed."""
    settled = made(PenaltyPerturbation, updates=3, each=4)
    heard = played(PenaltyPerturbation, settled)
    rounds = observe(PenaltyPerturbation, settled[0], own_releases(heard, 0), heard)
    change, _ = worst_replacement(settled[0], CAPACITY, rounds, row_bound=1.0)
    shown = []
    for share in (1.0, 0.1):
        weaker = [replace(r, mechanism=replace(r.mechanism, scale=share * r.mechanism.scale)) for r in rounds]
        scores = objective_scores(settled[0], CAPACITY, weaker, change, 4000, FreshNoise(SECRET))
        shown.append(attacked(*scores, DELTA, 0.999).epsilon)
    claimed = total([r.mechanism for r in rounds], DELTA).epsilon
    assert 0.0 < shown[0] <= claimed
    assert shown[1] > claimed


def test_a_round_without_its_bought_numbers_is_refused() -> None:
    setting = replace(made(DualPerturbation)[0], learning={"capacity": 1.0, "rho": 1.0, "penalty": 1.0})
    with pytest.raises(AdmmError, match="largest_jacobian is missing"):
        DualPerturbation(setting).start()
