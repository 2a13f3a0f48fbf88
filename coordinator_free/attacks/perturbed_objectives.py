"""The likelihood-ratio attack on objective perturbation (dual and penalty perturbation, perturbed local models).

The agent releases f = argmin J(f) + e . f with noise e, J(f) = C/m sum_k loss(f . x_k, y_k) + w/2 |f|^2 + b . f
(and what the regulariser adds to the square).
An observer that knows the records solves for the noise, e = -grad J(f), and the density of f is that of e times the
determinant of J's Hessian at f (Chaudhuri, Monteleoni and Sarwate 2011).

Rules that hold here:
- States stay as they were recorded, so w and b are the same for both candidates; see `recorded_states` for why the
  accounting covers that.
- The release is rounded to the grid, so the noise is known up to (the curvature) * (half a step).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.attacks import observed_rounds
from coordinator_free.attacks.inversion import Heard
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Replacement
from coordinator_free.attacks.noise_tests import NoiseRow
from coordinator_free.attacks.observed_rounds import Objective
from coordinator_free.attacks.recorded_states import candidates
from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.regularisers import Beyond
from coordinator_free.release import FloatArray, Release

_CHORDS = 20
_NEWTON = 30
_HALVINGS = 12
_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class Round(Objective):
    """One release of a perturbed objective's minimiser, and its charge."""

    mechanism: ObjectivePerturbation


def observe(
    algorithm: type[DualPerturbation], setting: Setting, recorded: Sequence[Release], heard: Heard
) -> list[Round]:
    """Each round's objective and charge, along the recorded releases. Raises `InversionError`."""
    charges = algorithm(setting)
    rounds = []
    for seen in observed_rounds.observe(algorithm, setting, recorded, heard):
        mechanism = charges.charge(seen.release.index)
        assert isinstance(mechanism, ObjectivePerturbation)
        rounds.append(Round(seen.release, seen.curvature, seen.linear, seen.beyond, mechanism))
    return rounds


def noise_rows(agent: int, problem: LocalProblem, capacity: float, rounds: Sequence[Round]) -> list[NoiseRow]:
    """The noise of every round, for the tests of the noise."""
    return [
        NoiseRow(agent, r.release.index, r.remainder(problem, capacity), r.mechanism, on_grid=False) for r in rounds
    ]


def worst_replacement(
    setting: Setting, capacity: float, rounds: Sequence[Round], *, row_bound: float, record: int | None = None
) -> tuple[Replacement, float]:
    """The replacement that shifts the noise most, and the share of the charged sensitivity that it uses."""
    problem = setting.problem
    best: tuple[float, Replacement] | None = None
    for candidate in candidates(setting, row_bound=row_bound, record=record):
        x, y = problem.x[candidate.record], problem.y[candidate.record]
        used = 0.0
        for r in rounds:
            f = r.release.vector
            own, other = problem.loss.slope(np.array([f @ x, f @ candidate.x]), np.array([y, candidate.y]))
            used += (
                float(np.linalg.norm(own * x - other * candidate.x))
                * capacity
                / problem.records
                / r.mechanism.sensitivity
            )
        if best is None or used > best[0]:
            best = used, candidate
    assert best is not None
    return best[1], best[0] / max(1, len(rounds))


def objective_scores(
    setting: Setting,
    capacity: float,
    rounds: Sequence[Round],
    replacement: Replacement,
    trials: int,
    noise: FreshNoise,
) -> tuple[FloatArray, FloatArray]:
    """Scores of ``trials`` fresh draws of every round, with the record as it is and with it replaced."""
    scores = np.zeros((2, trials))
    worlds = Worlds.of(setting.problem, replacement, capacity)
    for world, part, releases in drawn(worlds, rounds, trials, noise):
        for r, f in zip(rounds, releases, strict=True):
            scores[world, part] += score(worlds, r, f)
    return scores[0], scores[1]


@dataclass(frozen=True, eq=False)
class Worlds:
    """The problem with ``record`` as it is and with it replaced, and the products x_k x_k^T (m, d^2) of each."""

    record: int
    problems: tuple[LocalProblem, LocalProblem]
    products: tuple[FloatArray, FloatArray]
    capacity: float

    @classmethod
    def of(cls, problem: LocalProblem, replacement: Replacement, capacity: float) -> Worlds:
        """Both worlds of one replacement."""
        m, d = problem.x.shape
        pair = (problem, replacement.apply(problem))
        first, second = (np.einsum("ki,kj->kij", p.x, p.x).reshape(m, d * d) for p in pair)
        return cls(replacement.record, pair, (first, second), capacity)

    def hessians(self, world: int, w: float, beyond: Beyond, f: FloatArray) -> FloatArray:
        """The Hessian of J at each f (n, d), shape (n, d, d)."""
        return _hessians(self.problems[world], self.products[world], self.capacity, w, beyond, f)

    def more_bent(self, r: Round, f: FloatArray) -> FloatArray:
        """ln det of the second world's Hessian at each f (n, d), less that of the first; shape (n,).

        The Hessians differ in the terms of two rows U, by U^T C U, so the difference is ln det(1 + C U H^-1 U^T).
        """
        rows = np.stack([problem.x[self.record] for problem in self.problems])
        labels = np.array([problem.y[self.record] for problem in self.problems])
        share = self.capacity / self.problems[0].records * np.array([-1.0, 1.0])
        weights = share * self.problems[0].loss.curvature(f @ rows.T, labels)
        hessian = self.hessians(0, r.curvature, r.beyond, f)
        spread = rows @ np.linalg.solve(hessian, np.broadcast_to(rows.T, (len(f), *rows.T.shape)))
        found: FloatArray = np.linalg.slogdet(np.eye(2) + weights[:, :, None] * spread)[1]
        return found


def drawn(
    worlds: Worlds, rounds: Sequence[Round], trials: int, noise: FreshNoise
) -> Iterator[tuple[int, slice, list[FloatArray]]]:
    """(world, which trials, the releases (n, d) of every round), until both worlds have ``trials``."""
    m, d = worlds.problems[0].x.shape
    block = max(1, _BLOCK // max(m, d * d))
    for world in (0, 1):
        problem, product = worlds.problems[world], worlds.products[world]
        for low in range(0, trials, block):
            count = min(block, trials - low)
            releases = []
            for r in rounds:
                linear = r.linear + _draw(r.mechanism, count, noise)
                f = _minimisers(problem, product, worlds.capacity, r, linear)
                releases.append(np.rint(f / GRID) * GRID)
            yield world, slice(low, low + count), releases


def score(worlds: Worlds, r: Round, f: FloatArray) -> FloatArray:
    """ln p(f | first) - ln p(f | second), shape (trials,)."""
    first, second = (r.mechanism.log_density(r.remainder(problem, worlds.capacity, f)) for problem in worlds.problems)
    difference: FloatArray = first - second - worlds.more_bent(r, f)
    return difference


def _draw(mechanism: ObjectivePerturbation, trials: int, noise: FreshNoise) -> FloatArray:
    if isinstance(mechanism, GaussianObjectivePerturbation):
        return noise.normal(trials, mechanism.dimension) * mechanism.scale
    length, direction = noise.polar(trials, mechanism.dimension)
    drawn: FloatArray = direction * (length * mechanism.scale)[:, None]
    return drawn


def _hessians(
    problem: LocalProblem, product: FloatArray, capacity: float, w: float, beyond: Beyond, f: FloatArray
) -> FloatArray:
    """The Hessian of J at each f (n, d), shape (n, d, d)."""
    curvatures = problem.loss.curvature(f @ problem.x.T, problem.y)
    d = f.shape[1]
    matrices: FloatArray = ((capacity / problem.records) * (curvatures @ product)).reshape(-1, d, d)
    matrices[:, np.arange(d), np.arange(d)] += w + beyond.curvature(f)
    return matrices


def _minimisers(
    problem: LocalProblem, product: FloatArray, capacity: float, r: Round, linear: FloatArray
) -> FloatArray:
    """argmin of J with each b (n, d) in the place of the round's, all at once, with backtracking.

    Steps with the Hessian at the recorded release come first: where records are thousands, minimisers are near to each
    other, and a Hessian costs as much as d gradients. Newton's method finishes what these have not.
    """
    share, w, beyond = capacity / problem.records, r.curvature, r.beyond

    def value(f: FloatArray, linear: FloatArray) -> FloatArray:
        fit = problem.loss.value(f @ problem.x.T, problem.y).sum(axis=1)
        total: FloatArray = share * fit + 0.5 * w * np.square(f).sum(axis=1) + (linear * f).sum(axis=1)
        total += beyond.value(f)
        return total

    f = np.broadcast_to(r.release.vector, linear.shape).copy()
    near = _hessians(problem, product, capacity, w, beyond, r.release.vector[None, :])[0]
    for step_number in range(_CHORDS + _NEWTON):
        gradient = (
            share * (problem.loss.slope(f @ problem.x.T, problem.y) @ problem.x) + w * f + linear + beyond.slope(f)
        )
        size = np.sqrt(np.square(gradient).sum(axis=1))
        left = np.flatnonzero(size > 1e-10 + 1e-14 * np.sqrt(np.square(linear).sum(axis=1)))
        if left.size == 0:
            break
        here, towards, gradient = f[left], linear[left], gradient[left]
        if step_number < _CHORDS:
            step = -np.linalg.solve(near, gradient.T).T
        else:
            step = -np.linalg.solve(_hessians(problem, product, capacity, w, beyond, here), gradient[:, :, None])[
                :, :, 0
            ]
        now, slope, length = value(here, towards), (gradient * step).sum(axis=1), np.ones(left.size)
        for _ in range(_HALVINGS):
            there = value(here + length[:, None] * step, towards)
            short = there > now + 1e-4 * length * slope + 1e-12 * np.abs(now)
            if not short.any():
                break
            length[short] *= 0.5
        f[left] += length[:, None] * step
    return f


def affordable(trials: int, records: int, dimension: int, rounds: int, *, fitted: bool = False) -> int:
    """How many trials fit into about a minute of one core, at most ``trials``.

    A Hessian costs m d^2 + d^3 a trial. Each round takes about one for steps that have not arrived and one for the
    score, and ten gradients and values of 4 m d. Where penalties are ``fitted`` it takes two Hessians more, and some 60
    likelihoods with 80 operations for each of d eigenvalues.
    """
    hessian = records * dimension**2 + dimension**3
    a_round = 2 * hessian + 40 * records * dimension
    if fitted:
        a_round += 2 * hessian + 60 * 80 * dimension
    return min(trials, math.floor(6e11 / (4 * max(1, rounds) * a_round)))
