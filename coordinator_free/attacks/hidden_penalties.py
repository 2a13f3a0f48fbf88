"""Attacks by an observer that knows no penalty eta_i(t): hiding them does not hide a record.

Zhang, Khalili and Liu (2018), section 6.2, claim that an observer which knows all records but one and all releases
cannot find the last record while the penalties are private. Both cases of the claim are false:

- Without noise, Eq. 12 says  g(t) + eta(t) u(t) + C/m slope x = 0  with g and u known. So x lies in the plane of g(t)
  and u(t) in every round, and the planes of two rounds have one line in common. (`direction`)
- With noise in the objective the penalties are two numbers, a first one and a growth. The observer fits them by maximum
  likelihood, with the record as it is and with it replaced, and compares the two likelihoods. (`scores`)

Rules that hold here:
- The observer knows the dual step: neighbours must agree on it, so it is no agent's secret.
- The scale of the noise is public: a ledger's charges follow from public numbers.
- How a determinant depends on the penalty is taken from the recorded release, whose Hessian is near that of a
  trial's; its value at the start of the fit is exact.
- A run whose penalties do not grow geometrically is fitted with the nearest ones that do. Any score gives a valid lower
  bound of epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Replacement
from coordinator_free.attacks.observed_rounds import Terms
from coordinator_free.attacks.perturbed_objectives import Round, Worlds, drawn, score
from coordinator_free.privacy.gaussian_objective_perturbation import GaussianObjectivePerturbation
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

_NEWTON = 60
_HALVINGS = 20
_FLAT = 1e-4
"""Rounds whose u is shorter than this part of the longest one hardly show their plane."""
_STARTS = (np.linspace(-14.0, 14.0, 113), np.linspace(-0.2, 0.3, 21))
"""Logarithms of the first penalty, in units of the round's other curvature, and of the growth, where a fit begins."""

Scores = tuple[FloatArray, FloatArray]


# --- without noise ---------------------------------------------------------------------------------------------------


def direction(problem: LocalProblem, capacity: float, terms: Sequence[Terms], record: int) -> FloatArray:
    """The direction of a record's features, up to its sign, from minimisers without noise and without a penalty.

    Parameters
    ----------
    problem
        The agent's records; ``record`` itself is not looked at.
    capacity
        The constant C.
    terms
        Every round as observed, two or more.

    Returns
    -------
    The unit vector, shape (d,), that is nearest to all planes.

    Raises
    ------
    InversionError
        Records have fewer than three features, or fewer than two rounds show a plane.
    """
    if problem.dimension < 3:
        raise InversionError("records of fewer than three features lie in every plane")
    keep = np.arange(problem.records) != record
    others = LocalProblem(problem.x[keep], problem.y[keep], problem.loss, problem.regularisation)
    moved = [2.0 * t.degree * t.release.vector - t.towards for t in terms]
    longest = max((float(np.linalg.norm(u)) for u in moved), default=0.0)
    apart = np.zeros((problem.dimension, problem.dimension))
    planes = 0
    for t, u in zip(terms, moved, strict=True):
        f = t.release.vector
        known = capacity / problem.records * (others.loss.slope(others.x @ f, others.y) @ others.x)
        known = known + t.known(f)
        size = float(np.linalg.norm(u))
        if size <= _FLAT * longest or not known.any():
            continue
        span = np.stack([known / np.linalg.norm(known), u / size])
        _, spread, axes = np.linalg.svd(span, full_matrices=False)
        if spread[1] < 1e-9:
            continue
        planes += 1
        # A plane of two nearly parallel vectors is known less well.
        apart += spread[1] ** 2 * (np.eye(problem.dimension) - axes.T @ axes)
    if planes < 2:
        raise InversionError("fewer than two rounds show a plane of the record")
    found: FloatArray = np.linalg.eigh(apart)[1][:, 0]
    return found


# --- with noise in the objective -------------------------------------------------------------------------------------


def scores(
    setting: Setting,
    capacity: float,
    rounds: Sequence[Round],
    terms: Sequence[Terms],
    replacement: Replacement,
    trials: int,
    noise: FreshNoise,
) -> tuple[Scores, Scores]:
    """Scores of the same ``trials`` fresh draws with the penalties known, and with them fitted."""
    worlds = Worlds.of(setting.problem, replacement, capacity)
    known, fitted = np.zeros((2, trials)), np.zeros((2, trials))
    starts: list[FloatArray] | None = None
    for world, part, releases in drawn(worlds, rounds, trials, noise):
        for r, f in zip(rounds, releases, strict=True):
            known[world, part] += score(worlds, r, f)
        traces = [_Traces.of(worlds, h, rounds, terms, releases) for h in (0, 1)]
        if starts is None:
            starts = [_start(trace) for trace in traces]
        for h, sign in ((0, 1.0), (1, -1.0)):
            exact = _determinants(worlds, h, terms, releases, traces[h], starts[h])
            fitted[world, part] += sign * (_fit(traces[h], starts[h]) + exact)
    return (known[0], known[1]), (fitted[0], fitted[1])


@dataclass(frozen=True, eq=False)
class _Traces:
    """What the likelihood of a schedule needs of n trials of T rounds, if the records are those of one world.

    The noise of a round is -(base + eta u): ``squares`` hold |base|^2, base . u and |u|^2, shape (3, T, n). The Hessian
    at the recorded release has the eigenvalues ``bent`` + 2 eta ``degree``, (T, 1, d).
    ``scales`` of the noise (T,); its log density is -|e|^2 / (2 scale^2) where it is ``gaussian``, else -|e| / scale.
    """

    squares: FloatArray
    bent: FloatArray
    degree: int
    scales: FloatArray
    gaussian: bool

    @classmethod
    def of(
        cls,
        worlds: Worlds,
        world: int,
        rounds: Sequence[Round],
        terms: Sequence[Terms],
        releases: Sequence[FloatArray],
    ) -> _Traces:
        """The traces of ``releases`` (n, d) of each round."""
        problem = worlds.problems[world]
        squares, bent = [], []
        for t, f in zip(terms, releases, strict=True):
            slopes = problem.loss.slope(f @ problem.x.T, problem.y)
            base = (worlds.capacity / problem.records) * (slopes @ problem.x) + t.known(f)
            u = 2.0 * t.degree * f - t.towards
            squares.append([np.square(base).sum(axis=1), (base * u).sum(axis=1), np.square(u).sum(axis=1)])
            bent.append(np.linalg.eigvalsh(worlds.hessians(world, t.rest, t.beyond, t.release.vector[None, :])))
        mechanisms = [r.mechanism for r in rounds]
        return cls(
            np.array(squares).transpose(1, 0, 2),
            np.array(bent),
            terms[0].degree,
            np.array([m.scale for m in mechanisms]),
            isinstance(mechanisms[0], GaussianObjectivePerturbation),
        )

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.scales)

    def likelihood(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log likelihood at ln eta = ``x`` (T, n), and its first two derivatives in x, each (T, n)."""
        eta = np.exp(x)
        aa, au, uu = self.squares
        square = np.maximum(aa + 2.0 * au * eta + uu * eta**2, 1e-300)
        first, second = 2.0 * au * eta + 2.0 * uu * eta**2, 2.0 * au * eta + 4.0 * uu * eta**2
        scale = self.scales[:, None]
        if self.gaussian:
            value, slope, curve = (-part / (2.0 * scale**2) for part in (square, first, second))
        else:
            length = np.sqrt(square)
            value, slope = -length / scale, -first / (2.0 * length * scale)
            curve = (-second / (2.0 * length) + first**2 / (4.0 * length**3)) / scale
        pull = 2.0 * self.degree * eta[:, :, None]
        share = pull / (self.bent + pull)
        value = value + np.log(self.bent + pull).sum(axis=2)
        return value, slope + share.sum(axis=2), curve + (share * (1.0 - share)).sum(axis=2)


def _schedules(line: FloatArray, rounds: int) -> FloatArray:
    """ln eta of every round, (T, n), for ``line`` (2, n): its value in the first round and its slope."""
    found: FloatArray = line[0] + line[1] * np.arange(rounds)[:, None]
    return found


def _start(traces: _Traces) -> FloatArray:
    """Where to begin, shape (2,): the best schedule of a grid for one trial."""
    one = _Traces(traces.squares[:, :, :1], traces.bent, traces.degree, traces.scales, traces.gaussian)
    unit = float(np.log(np.median(one.bent) / (2.0 * one.degree)))
    slopes = _STARTS[1] if traces.rounds > 1 else np.zeros(1)
    firsts, growths = np.meshgrid(unit + _STARTS[0], slopes, indexing="ij")
    lines = np.stack([firsts.ravel(), growths.ravel()])
    best = (-np.inf, lines[:, 0])
    for line in lines.T:
        value = float(one.likelihood(_schedules(line[:, None], one.rounds))[0].sum())
        if value > best[0]:
            best = value, line
    return np.asarray(best[1])


def _determinants(
    worlds: Worlds,
    world: int,
    terms: Sequence[Terms],
    releases: Sequence[FloatArray],
    traces: _Traces,
    start: FloatArray,
) -> FloatArray:
    """What the logarithms of the trials' determinants have beyond those of the recorded releases, shape (n,)."""
    beyond = np.zeros(len(releases[0]))
    penalties = np.exp(_schedules(start[:, None], len(terms)))[:, 0]
    for t, f, bent, eta in zip(terms, releases, traces.bent, penalties, strict=True):
        pull = 2.0 * eta * t.degree
        exact = np.linalg.slogdet(worlds.hessians(world, t.rest + pull, t.beyond, f))[1]
        beyond += exact - float(np.log(bent + pull).sum())
    return beyond


def _fit(traces: _Traces, start: FloatArray) -> FloatArray:
    """The largest log likelihood of any geometric schedule, shape (n,): Newton's method with halved steps."""
    rounds = traces.rounds
    powers = np.arange(rounds, dtype=np.float64)[:, None]
    line = np.repeat(start[:, None], traces.squares.shape[2], axis=1)
    value, slope, curve = traces.likelihood(_schedules(line, rounds))
    now = value.sum(axis=0)
    for _ in range(_NEWTON):
        gradient = np.stack([slope.sum(axis=0), (powers * slope).sum(axis=0)])
        down = np.array([[(powers ** (i + j) * -curve).sum(axis=0) for j in (0, 1)] for i in (0, 1)])
        step = _ascent(down.transpose(2, 0, 1), gradient.T, one=rounds == 1).T
        length = np.ones(len(now))
        for _ in range(_HALVINGS):
            value, slope, curve = traces.likelihood(_schedules(line + length * step, rounds))
            short = value.sum(axis=0) < now - 1e-12 * np.abs(now)
            if not short.any():
                break
            length[short] *= 0.5
        length[short] = 0.0
        line = line + length * step
        value, slope, curve = traces.likelihood(_schedules(line, rounds))
        gained, now = value.sum(axis=0) - now, value.sum(axis=0)
        if bool((gained <= 1e-9).all()):
            break
    best: FloatArray = now
    return best


def _ascent(bend: FloatArray, gradient: FloatArray, *, one: bool) -> FloatArray:
    """Newton steps (n, 2) with the absolute eigenvalues of ``bend`` (n, 2, 2); of the first number alone if ``one``."""
    if one:
        step = np.zeros_like(gradient)
        step[:, 0] = gradient[:, 0] / np.maximum(np.abs(bend[:, 0, 0]), 1e-8)
        return np.clip(step, -2.0, 2.0)
    values, axes = np.linalg.eigh(bend)
    turned = np.einsum("nij,ni->nj", axes, gradient) / np.maximum(np.abs(values), 1e-8)
    step = np.einsum("nij,nj->ni", axes, turned)
    size = np.maximum(1.0, np.abs(step[:, 0]) / 2.0)
    return np.asarray(step / size[:, None])
