"""The best attack there is: the exact log-likelihood ratio of an agent's releases for two values of one record.

Rules that hold here:
- The observer knows everything but one record's value: every other record, every other agent's releases, the agent's
  parameters. It has two candidates for the record and asks which one the agent holds.
- A trial runs the agent's mechanism anew, with fresh noise, in the recorded environment: what the neighbours had
  released by each of its releases stays as it was, its own state goes on from its own noisy releases.
- By Neyman and Pearson no other test of these two candidates errs less, so what it cannot tell, no other test can.
- Trials are vectorised: shape (trials, p). Their arithmetic is that of the agent, with the same sampler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.arriving import ArrivalNumbers
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescentSettings
from coordinator_free.agents.personal.present import Present
from coordinator_free.attacks.inversion import Heard, InversionError
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.privacy.mechanisms import GammaNorm
from coordinator_free.privacy.noise import Stream, WordArray, exponential, standard_normal
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import AgentNumbers, StepNumbers

_BLOCK = 100_000
"""Numbers per array in a block of trials: small enough for the processor's cache."""


@dataclass(frozen=True, eq=False)
class Replacement:
    """Record ``record`` of an agent takes the value (x, y), x of shape (p,)."""

    record: int
    x: FloatArray
    y: float

    def apply(self, problem: LocalProblem) -> LocalProblem:
        """The neighbouring problem: the same, with this record replaced."""
        x, y = problem.x.copy(), problem.y.copy()
        x[self.record], y[self.record] = self.x, self.y
        return LocalProblem(x, y, problem.loss, problem.regularisation)


class _Words(Stream):
    """Words for many trials at once: fast uniform bits; no agent's secret rests on them."""

    __slots__ = ("_bits",)

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret, 0)
        self._bits = np.random.PCG64DXSM(int.from_bytes(super().words(4).tobytes(), "little"))

    def words(self, count: int) -> WordArray:
        return self._bits.random_raw(count)


class FreshNoise:
    """Noise for trials: the mechanisms' own samplers on words that no run uses.

    ``secret``: 16 bytes or more, of the audit's own.
    """

    def __init__(self, secret: bytes) -> None:
        self._stream = _Words(b"audit" + secret)

    def perturb(self, mechanism: Mechanism, values: FloatArray) -> FloatArray:
        """A release of each row of ``values``, shape (trials, p)."""
        if not isinstance(mechanism, GammaNorm):
            return mechanism.perturb(values.reshape(-1), self._stream).reshape(values.shape)
        length, direction = self.polar(*values.shape)
        drawn = direction * (length * (mechanism.scale / GRID))[:, None]
        released: FloatArray = (np.rint(values / GRID) + np.rint(drawn)) * GRID
        return released

    def normal(self, trials: int, dimension: int) -> FloatArray:
        """Standard normal vectors (trials, dimension)."""
        return standard_normal(self._stream, trials * dimension).reshape(trials, dimension)

    def polar(self, trials: int, dimension: int) -> tuple[FloatArray, FloatArray]:
        """Gamma(dimension, 1) lengths (trials,) and uniform directions (trials, dimension)."""
        length = exponential(self._stream, trials * dimension).reshape(trials, dimension).sum(axis=1)
        direction = standard_normal(self._stream, trials * dimension).reshape(trials, dimension)
        direction /= np.sqrt(np.square(direction).sum(axis=1))[:, None]
        return length, direction


@dataclass(frozen=True, eq=False)
class Environment:
    """All that a coordinate-descent agent's releases depend on besides its records and its noise.

    ``centres``: sum_j W_ij/D_ii Theta_j at each of the T releases, shape (T, p). ``parents``: the position of the
    release that the state came from, -1 for the start at zero. ``mechanisms``: what each was charged; None: no noise.
    """

    setting: Setting
    centres: FloatArray
    parents: tuple[int, ...]
    mechanisms: tuple[Mechanism | None, ...]

    @cached_property
    def _own(self) -> CoordinateDescentSettings:
        return CoordinateDescentSettings.of(self.setting.learning)

    @cached_property
    def pull(self) -> float:
        """mu c_i."""
        return self._own.mu * self.setting.confidence

    @cached_property
    def step(self) -> float:
        """The step a = 1 / (1 + mu c_i L)."""
        return 1.0 / (1.0 + self.pull * StepNumbers.of(self.setting.learning).smoothness)

    def origin(self, position: int) -> FloatArray:
        """The model from which a release without a parent was computed, shape (p,)."""
        return self.first(self.centres[position])

    def first(self, centre: FloatArray) -> FloatArray:
        """The model before the first release, where the neighbours' mixture is ``centre``; the same shape."""
        return centre if self._own.start == "neighbours" else np.zeros_like(centre)


def environment(
    setting: Setting, recorded: Sequence[Release], heard: Heard, mechanisms: Sequence[Mechanism | None]
) -> Environment:
    """The environment of a coordinate-descent agent's recorded releases, by index.

    Raises `InversionError` if a release that one of them used is not recorded, or if records arrive during the run:
    there is no one mean of record gradients then.
    """
    if ArrivalNumbers.of(setting.learning).arrivals:
        raise InversionError("records arrive during the run")
    present = Present(setting.weights, setting.neighbours, AgentNumbers.of(setting.learning).absent)
    place = {j: k for k, j in enumerate(setting.neighbours)}
    models = np.zeros((len(place), setting.dimension))
    centres = np.zeros((len(recorded), setting.dimension))
    positions: dict[int, int] = {}
    parents = []
    expected, previous = 0, -1
    for k, release in enumerate(recorded):
        own = [index for sender, index in release.used if sender == setting.agent]
        if release.index != expected or (own[-1] if own else -1) != previous:
            models[:] = 0.0  # a restarted agent has received nothing yet
            present.restart()
        expected, previous = release.index + 1, release.index
        parent = -1
        for sender, index in release.used:
            if sender == setting.agent:
                if index not in positions:
                    raise InversionError(f"release {release.index} comes from release {index}, which was not recorded")
                parent = positions[index]
                continue
            if (sender, index) not in heard or sender not in place:
                raise InversionError(
                    f"release {release.index} of agent {setting.agent} used release {index} of agent {sender}, "
                    "which was not recorded"
                )
            models[place[sender]] = heard[sender, index].vector
            present.arrived(place[sender])
        centres[k] = present.mixing @ models
        positions[release.index] = k
        parents.append(parent)
    return Environment(setting, centres, tuple(parents), tuple(mechanisms))


class Pair:
    """Mean gradients of two problems that differ in one record, at many models at once."""

    def __init__(self, setting: Setting, replacement: Replacement) -> None:
        problem = setting.problem
        keep = np.arange(problem.records) != replacement.record
        self._loss, self._regularisation, self._records = problem.loss, problem.regularisation, problem.records
        self._x, self._y = problem.x[keep], problem.y[keep]
        self._own = np.stack([problem.x[replacement.record], replacement.x])
        self._labels = (float(problem.y[replacement.record]), float(replacement.y))
        self._clip, self._norm = setting.clip, NORMS.get(setting.mechanism)
        self._norms = row_norms(self._x, self._norm)
        self._own_norms = row_norms(self._own, self._norm)

    def gradients(self, models: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gradients of both at ``models``, shape (trials, p): with the record as it is, and replaced."""
        shared = self._shared(models)
        return self._with(0, models, shared), self._with(1, models, shared)

    def gradient(self, which: int, models: FloatArray) -> FloatArray:
        """One of them: 0 with the record as it is, 1 with it replaced."""
        return self._with(which, models, self._shared(models))

    def _shared(self, models: FloatArray) -> FloatArray:
        slopes = self._loss.slope(models @ self._x.T, self._y)
        if self._norm is not None:
            slopes = clip_slopes(slopes, self._norms, float(self._clip or 0.0))
        shared: FloatArray = slopes @ self._x
        return shared

    def _with(self, which: int, models: FloatArray, shared: FloatArray) -> FloatArray:
        row, label, norm = self._own[which], self._labels[which], self._own_norms[which]
        slope = self._loss.slope(models @ row, np.float64(label))  # type: ignore[arg-type]
        if self._norm is not None:
            slope = clip_slopes(slope, norm, float(self._clip or 0.0))
        mean = (shared + slope[:, None] * row) / self._records
        gradient: FloatArray = mean + self._regularisation * self._loss.penalty_gradient(models)
        return gradient


def row_norms(rows: FloatArray, norm: str | None) -> FloatArray:
    """The norm of each row, shape (m,): L1 for "l1", Euclidean otherwise."""
    summed: FloatArray = np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt(np.square(rows).sum(axis=1))
    return summed


def clip_slopes(slopes: FloatArray, norms: FloatArray, clip: float) -> FloatArray:
    """Slopes (..., m) such that slope * x has at most the norm ``clip``, for rows x of norms (m,)."""
    sizes = np.abs(slopes)
    sizes *= norms
    np.maximum(sizes, clip, out=sizes)
    np.divide(clip, sizes, out=sizes)
    sizes *= slopes
    return sizes


@dataclass(frozen=True, eq=False)
class Trials:
    """What one vectorised batch of trials gave: scores (trials,), and the releases (T, trials, p) if kept."""

    scores: FloatArray
    releases: FloatArray | None


def run_trials(
    environment: Environment,
    replacement: Replacement,
    trials: int,
    noise: FreshNoise,
    *,
    replaced: bool,
    keep: bool = False,
) -> Trials:
    """Scores of fresh runs: ln p(releases | record as it is) - ln p(releases | record replaced).

    ``replaced`` says which of the two the runs really hold. Where there is no noise a score is +inf, -inf, or 0 if both
    candidates give the same releases throughout.
    """
    pair = Pair(environment.setting, replacement)
    p = environment.setting.dimension
    width = max(p, environment.setting.problem.records)
    block = max(1, min(trials, _BLOCK // width))
    scores = np.empty(trials)
    kept = np.empty((len(environment.parents), trials, p)) if keep else None
    for low in range(0, trials, block):
        count = min(block, trials - low)
        part = scores[low : low + count]
        part[:] = 0.0
        for k, released in _run_block(environment, pair, count, noise, replaced, part):
            if kept is not None:
                kept[k, low : low + count] = released
    return Trials(scores, kept)


def _run_block(
    environment: Environment, pair: Pair, count: int, noise: FreshNoise, replaced: bool, out: FloatArray
) -> Iterator[tuple[int, FloatArray]]:
    """Run ``count`` trials, add their scores to ``out``, and give (position, releases) as they are made."""
    step, pull, parents = environment.step, environment.pull, environment.parents
    last_use = {parent: k for k, parent in enumerate(parents)}
    states: dict[int, FloatArray] = {}
    for k, (parent, centre, mechanism) in enumerate(
        zip(parents, environment.centres, environment.mechanisms, strict=True)
    ):
        model = states[parent] if parent >= 0 else np.tile(environment.origin(k), (count, 1))
        kept = (1.0 - step) * model
        values = [kept + step * (centre - pull * gradient) for gradient in pair.gradients(model)]
        truth = values[1] if replaced else values[0]
        if mechanism is None:
            released = truth
            differ = (values[0] != values[1]).any(axis=1)
            out[differ] = -np.inf if replaced else np.inf
        else:
            released = noise.perturb(mechanism, truth)
            first, second = (released - np.rint(value / GRID) * GRID for value in values)
            out += mechanism.log_density(first) - mechanism.log_density(second)
        states[k] = released
        for old in [position for position in states if last_use.get(position, -1) <= k and position != k]:
            del states[old]
        yield k, released


def attack_scores(
    environment: Environment, replacement: Replacement, trials: int, noise: FreshNoise
) -> tuple[FloatArray, FloatArray]:
    """Scores of ``trials`` fresh runs with the record as it is, and of as many with it replaced."""
    first = run_trials(environment, replacement, trials, noise, replaced=False).scores
    second = run_trials(environment, replacement, trials, noise, replaced=True).scores
    return first, second
