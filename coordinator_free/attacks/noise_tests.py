"""Is the noise in an agent's releases what was charged? Tests on the noise that an observer of every record recovers.

Rules that hold here:
- Each test gives a p-value that holds exactly for a correct mechanism, or is too large rather than too small.
- The p-values of all tests are combined by Bonferroni: a correct run is flagged at most as often as `LEVEL` says.
- Under a correct mechanism every coordinate of the noise, sent through its distribution function, is uniform, hence a
  normal score; the noise of one release is a vector of independent scores for Laplace and Gaussian noise, and a uniform
  direction with a Gamma length for gamma-norm noise. Everything below rests on these scores alone.
- Cells of the public grid are crossed at random (a fixed seed), so that discrete noise gives continuous scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special, stats

from coordinator_free.privacy.accounting import WITHOUT_EPSILON
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.privacy.mechanisms import GammaNorm
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.release import FloatArray

LEVEL = 1e-3
"""A correct run is flagged at most this often."""

POWER = 0.9
"""The probability with which a test finds the deviation that it is said to find."""

_MOST_TESTS = 9
_ROWS_FOR_ALL_PAIRS = 20_000

_LENGTHS = (GammaNorm.name, ObjectivePerturbation.name)
"""Mechanisms whose noise has a Gamma length and a uniform direction."""

_Places = Mapping[int, list[int]]
"""The rows of each agent."""


@dataclass(frozen=True, eq=False)
class NoiseRow:
    """The noise that one release of an agent contains, shape (d,), and the mechanism that it was charged.

    ``drift`` is a direction known before the release, shape (d,), in which a wrong step size would push it. Noise that
    is in an objective is not on the grid.
    """

    agent: int
    index: int
    noise: FloatArray
    mechanism: Mechanism
    drift: FloatArray | None = None
    on_grid: bool = True


@dataclass(frozen=True)
class NoiseTest:
    """One test.

    ``p_value`` is already multiplied by the number of agents or pairs that were looked at; ``detail`` names the worst.
    """

    name: str
    p_value: float
    detail: str = ""


@dataclass(frozen=True)
class NoiseVerdict:
    """All tests together. ``p_value`` is the smallest one times the number of tests."""

    tests: tuple[NoiseTest, ...]
    releases: int
    level: float = LEVEL
    off_grid: tuple[tuple[int, int], ...] = field(default=())

    @property
    def p_value(self) -> float:
        """Of all tests together, by Bonferroni; 0 where a release is off the grid."""
        if self.off_grid:
            return 0.0
        return min([1.0, *(test.p_value * len(self.tests) for test in self.tests)])

    @property
    def ok(self) -> bool:
        """Whether a correct mechanism would pass like this."""
        return self.p_value >= self.level

    @property
    def findings(self) -> list[str]:
        """One line for each test that a correct mechanism would fail less often than the level allows."""
        lines = [f"agent {a} release {i}: not on the public grid" for a, i in self.off_grid[:20]]
        if len(self.off_grid) > 20:
            lines.append(f"and {len(self.off_grid) - 20} more releases that are not on the public grid")
        for test in self.tests:
            if test.p_value * len(self.tests) < self.level:
                p_value = min(1.0, test.p_value * len(self.tests))
                lines.append(f"noise: {test.name}: {test.detail} (p = {p_value:.1e})")
        return lines


def on_grid(vector: FloatArray) -> bool:
    """Whether every coordinate is a whole multiple of the public grid's step."""
    steps = vector / GRID
    return bool((steps == np.rint(steps)).all())


def examine(rows: Sequence[NoiseRow], level: float = LEVEL) -> NoiseVerdict:
    """Scale, shape, independence between rounds and between agents, repetition, and drift."""
    off_grid = tuple((row.agent, row.index) for row in rows if row.on_grid and not on_grid(row.noise))
    if not rows:
        return NoiseVerdict((), 0, level)
    uniform = _uniforms(rows)
    scores = [special.ndtri(u) for u in uniform]
    lengths = np.array([float(special.gammainc(shape, value)) for value, shape in map(_statistic, rows)])
    by_agent: dict[int, list[int]] = {}
    for k, row in enumerate(rows):
        by_agent.setdefault(row.agent, []).append(k)
    tests = [
        _scale_of_all(rows),
        _scale_of_each(rows, by_agent),
        _shape(rows, uniform, lengths),
        _mean(scores, by_agent),
        _between_rounds(rows, scores, by_agent),
        _between_agents(rows, scores, by_agent),
        _any_two(rows, scores),
        _repetition(rows),
    ]
    if any(row.drift is not None for row in rows):
        tests.append(_drift(rows, scores, by_agent))
    return NoiseVerdict(tuple(tests), len(rows), level, off_grid)


def _uniforms(rows: Sequence[NoiseRow]) -> list[FloatArray]:
    """Each coordinate through its distribution function. Gamma-norm noise: through that of a direction's coordinates.

    A direction uniform on the sphere times an independent chi length of d is a normal vector: so the scores of
    gamma-norm noise are normal too.
    """
    rng = np.random.default_rng(0)
    found = []
    for row in rows:
        mechanism = row.mechanism
        noise = row.noise + (GRID * (rng.random(row.noise.shape) - 0.5) if row.on_grid else 0.0)
        if mechanism.name == "laplace":
            tail = 0.5 * np.exp(-np.abs(noise) / mechanism.scale)
            u = np.where(noise < 0, tail, 1.0 - tail)
        elif mechanism.name in _LENGTHS:
            length = math.sqrt(float(noise @ noise))
            share = special.gammainc(noise.size, length / mechanism.scale)
            share = min(max(share, 1e-300), 1.0 - 1e-16)
            chi = math.sqrt(2.0 * special.gammaincinv(noise.size / 2.0, share))
            u = special.ndtr(noise * (chi / length if length else 0.0))
        else:
            u = special.ndtr(noise / mechanism.scale)
        found.append(np.clip(u, 1e-300, 1.0 - 2.0**-53))
    return found


def _statistic(row: NoiseRow) -> tuple[float, float]:
    """(statistic, Gamma shape): the sufficient statistic of the scale, which is Gamma(shape, 1) for correct noise."""
    scaled = row.noise / row.mechanism.scale
    if row.mechanism.name == "laplace":
        return float(np.abs(scaled).sum()), float(scaled.size)
    if row.mechanism.name in _LENGTHS:
        return math.sqrt(float(scaled @ scaled)), float(scaled.size)
    return 0.5 * float(scaled @ scaled), 0.5 * scaled.size


def _two_sided(statistic: float, shape: float) -> float:
    return min(1.0, 2.0 * float(min(special.gammainc(shape, statistic), special.gammaincc(shape, statistic))))


def _scale_of_all(rows: Sequence[NoiseRow]) -> NoiseTest:
    """Sums of Gamma(k, 1) are Gamma(sum k, 1): one test for all releases together."""
    parts = np.array([_statistic(row) for row in rows])
    statistic, shape = parts.sum(axis=0)
    detail = f"{_measured(rows, statistic, shape)} of the charged; {_found(rows, shape)} of it or less would be found"
    return NoiseTest("scale of all", _two_sided(statistic, shape), f"{detail} with {POWER:.0%}")


def _found(rows: Sequence[NoiseRow], shape: float) -> str:
    """The largest scale, below the charged one, that the test of all releases finds with probability `POWER`."""
    critical = special.gammaincinv(shape, 0.5 * LEVEL / _MOST_TESTS)
    return _measured(rows, float(critical), float(special.gammaincinv(shape, POWER)))


def _scale_of_each(rows: Sequence[NoiseRow], by_agent: _Places) -> NoiseTest:
    worst = (2.0, "", 0)
    parts = np.array([_statistic(row) for row in rows])
    for agent, places in by_agent.items():
        statistic, shape = parts[places].sum(axis=0)
        p_value = _two_sided(statistic, shape)
        if p_value < worst[0]:
            worst = (p_value, f"agent {agent}: {_measured([rows[places[0]]], statistic, shape)} of the charged", agent)
    return NoiseTest("scale of each agent", min(1.0, worst[0] * len(by_agent)), worst[1])


def _measured(rows: Sequence[NoiseRow], statistic: float, shape: float) -> str:
    ratio = statistic / shape
    if rows[0].mechanism.name in WITHOUT_EPSILON:
        ratio = math.sqrt(ratio)
    return f"{ratio:.3f}"


def _shape(rows: Sequence[NoiseRow], uniform: Sequence[FloatArray], lengths: FloatArray) -> NoiseTest:
    """Kolmogorov and Smirnov: of every coordinate where they are independent, of the lengths for gamma-norm noise."""
    parts = [u for u, row in zip(uniform, rows, strict=True) if row.mechanism.name not in _LENGTHS]
    values = np.concatenate(parts) if parts else lengths
    return NoiseTest("distribution", float(stats.kstest(values, "uniform").pvalue), "not the law that was charged")


def _mean(scores: Sequence[FloatArray], by_agent: _Places) -> NoiseTest:
    """The sum of n normal scores over sqrt(n) is standard normal; each agent and coordinate, and all together."""
    worst, detail, looked = 2.0, "", 0
    for agent, places in by_agent.items():
        block = np.stack([scores[k] for k in places])
        z = np.abs(block.sum(axis=0)) / math.sqrt(len(places))
        p_value = float(2.0 * special.ndtr(-z.max()))
        looked += z.size
        if p_value < worst:
            worst, detail = p_value, f"agent {agent}: coordinate {int(z.argmax())} is {z.max():.1f} deviations off zero"
    return NoiseTest("mean", min(1.0, worst * looked), detail)


def _cosine_p(cosine: float, n: int) -> float:
    """Two-sided p-value of the cosine between two independent normal vectors in R^n: it is a Beta variable."""
    if n < 2:
        return 1.0
    return min(1.0, float(special.betaincc(0.5, (n - 1) / 2.0, min(1.0, cosine * cosine))))


def _cosine(a: FloatArray, b: FloatArray) -> float:
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size else 0.0


def _between_rounds(rows: Sequence[NoiseRow], scores: Sequence[FloatArray], by_agent: _Places) -> NoiseTest:
    """Releases 0, 2, 4, ... against 1, 3, 5, ...: disjoint pairs, so that the cosine's law is exact."""
    worst, detail, looked = 2.0, "", 0
    left, right = [], []
    for agent, places in by_agent.items():
        ordered = sorted(places, key=lambda k: rows[k].index)
        pairs = len(ordered) // 2
        if pairs == 0:
            continue
        a = np.concatenate([scores[ordered[2 * k]] for k in range(pairs)])
        b = np.concatenate([scores[ordered[2 * k + 1]] for k in range(pairs)])
        left.append(a)
        right.append(b)
        cosine = _cosine(a, b)
        p_value = _cosine_p(cosine, a.size)
        looked += 1
        if p_value < worst:
            worst, detail = p_value, f"agent {agent}: correlation {cosine:+.2f} between successive releases"
    if looked > 1:
        a, b = np.concatenate(left), np.concatenate(right)
        cosine = _cosine(a, b)
        p_value = _cosine_p(cosine, a.size)
        looked += 1
        if p_value < worst:
            worst, detail = p_value, f"correlation {cosine:+.3f} between successive releases of all agents"
    return NoiseTest("independence between rounds", min(1.0, worst * max(1, looked)), detail)


def _between_agents(rows: Sequence[NoiseRow], scores: Sequence[FloatArray], by_agent: _Places) -> NoiseTest:
    """Every two agents, over the releases of the same indices."""
    name = "independence between agents"
    groups: dict[tuple[int, ...], list[int]] = {}
    for agent, places in by_agent.items():
        groups.setdefault(tuple(sorted(rows[k].index for k in places)), []).append(agent)
    worst, detail, looked = 2.0, "", 0
    for group in groups.values():
        if len(group) < 2:
            continue
        matrix = np.stack(
            [np.concatenate([scores[k] for k in sorted(by_agent[a], key=lambda k: rows[k].index)]) for a in group]
        )
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        cosines = matrix @ matrix.T
        np.fill_diagonal(cosines, 0.0)
        place = int(np.argmax(np.abs(cosines)))
        i, j = divmod(place, len(group))
        p_value = _cosine_p(float(cosines[i, j]), matrix.shape[1])
        looked += len(group) * (len(group) - 1) // 2
        if p_value < worst:
            worst, detail = p_value, f"agents {group[i]} and {group[j]}: correlation {cosines[i, j]:+.2f}"
    return NoiseTest(name, min(1.0, worst * max(1, looked)), detail)


def _any_two(rows: Sequence[NoiseRow], scores: Sequence[FloatArray]) -> NoiseTest:
    """Any two releases of any agents: noise that was used again at another index, whatever its scale."""
    name = "independence of any two releases"
    size = scores[0].size
    places = [k for k, s in enumerate(scores) if s.size == size]
    if size < 2 or len(places) < 2:
        return NoiseTest(name, 1.0)
    places = places[:_ROWS_FOR_ALL_PAIRS]
    matrix = np.stack([scores[k] for k in places])
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    best, pair = 0.0, (0, 0)
    for low in range(0, len(places), 512):
        cosines = np.abs(matrix[low : low + 512] @ matrix.T)
        for k in range(cosines.shape[0]):
            cosines[k, low + k] = 0.0
        place = int(cosines.argmax())
        i, j = divmod(place, len(places))
        if cosines[i, j] > best:
            best, pair = float(cosines[i, j]), (low + i, j)
    looked = len(places) * (len(places) - 1) // 2
    one, other = (rows[places[k]] for k in pair)
    detail = f"agent {one.agent} release {one.index} and agent {other.agent} release {other.index}: {best:.4f}"
    return NoiseTest(name, min(1.0, _cosine_p(best, size) * looked), detail)


def _repetition(rows: Sequence[NoiseRow]) -> NoiseTest:
    """The same noise, bit for bit, twice. P(equal) of one coordinate is at most the largest cell's probability."""
    seen: dict[bytes, int] = {}
    twice: tuple[int, int] | None = None
    for k, row in enumerate(rows):
        first = seen.setdefault(row.noise.tobytes(), k)
        if first != k:
            twice = (first, k)
            break
    if twice is None:
        return NoiseTest("repetition", 1.0)
    one, other = rows[twice[0]], rows[twice[1]]
    cell = min(1.0, GRID / (2.0 * other.mechanism.scale))
    looked = len(rows) * (len(rows) - 1) / 2.0
    p_value = min(1.0, looked * cell**other.noise.size)
    detail = f"agent {one.agent} release {one.index} and agent {other.agent} release {other.index} share their noise"
    return NoiseTest("repetition", p_value, detail)


def _drift(rows: Sequence[NoiseRow], scores: Sequence[FloatArray], by_agent: _Places) -> NoiseTest:
    """Normal scores along directions known beforehand are standard normal whatever the directions are.

    A step size other than the public one moves each release along its update: the scores then have a mean there.
    """
    along: dict[int, float] = {}
    for k, (row, score) in enumerate(zip(rows, scores, strict=True)):
        if row.drift is not None and (size := float(np.linalg.norm(row.drift))) > 0:
            along[k] = float(score @ row.drift) / size
    worst, detail, looked = 2.0, "", 0
    total = 0.0
    for agent, places in by_agent.items():
        values = [along[k] for k in places if k in along]
        if not values:
            continue
        z = float(sum(values)) / math.sqrt(len(values))
        total += sum(values)
        looked += 1
        p_value = float(2.0 * special.ndtr(-abs(z)))
        if p_value < worst:
            worst, detail = p_value, f"agent {agent}: releases lie {z:+.1f} deviations off along its updates"
    if looked > 1:
        z = total / math.sqrt(len(along))
        looked += 1
        p_value = float(2.0 * special.ndtr(-abs(z)))
        if p_value < worst:
            worst, detail = p_value, f"releases of all agents lie {z:+.1f} deviations off along their updates"
    return NoiseTest("step size", min(1.0, worst * max(1, looked)), detail)
