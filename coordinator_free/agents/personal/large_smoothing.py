"""Graph smoothing of many releases, without a matrix of agents by agents.

The model is that of `coordinator_free.agents.personal.smoothing`. With V the variances of the releases, every question
about gamma K + V is one about 1 + gamma M, M = V^-1/2 K V^-1/2, and M times a vector is a sum of Chebyshev polynomials
of the graph's sparse matrix. Lanczos' method answers for all gammas at once:

- The evidence of a coordinate needs g^T (gamma K + V)^-1 g, which is found up to `TOLERANCE`, and the logarithm of a
  determinant, which is a mean over random signs z of z^T log(1 + gamma M) z (Ubaru, Chen and Saad 2017). Its error is
  made smaller by two means that are known: that of z^T M z is the trace of M, and that of (u . z)^2 is 1.
- The posterior of one agent without its own release takes one solution by conjugate gradients, up to `TOLERANCE`.

Rules that hold here:
- The random signs are the same in every process, so all receivers of the same releases choose the same gamma.
- The number of iterations is bounded: no release, however made up, holds a receiver up.

Everything here is post-processing of what was released and of public numbers: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.special import ive

from coordinator_free.agents.personal.smoothing import FLOOR, TIME, AtAgent, grid_of, kernel, smooth, weights_of
from coordinator_free.release import FloatArray
from topology.network import Network

DENSE = 1_000
"""Up to so many agents the matrices are made: exact, and quicker where all agents are in one process."""
EXACT = 20_000
"""Up to so many agents K is scaled to a diagonal of exactly 1. Above, the diagonal is estimated."""
TOLERANCE = 1e-9
"""Relative, of quadratic forms and of the residuals of solutions."""

_SIGNS = 32
"""Vectors of random signs from which the logarithm of the determinant is estimated."""
_POWERS = 5
"""Steps of the power method towards u."""
_ESTIMATES = 1_024
"""Vectors of random signs from which a diagonal is estimated: its relative error is sqrt(2 / 1024), 4%."""
_NUMBERS = 2**21
"""In one block of vectors: 16 MB."""
_STEPS = 400
"""Iterations at most."""
_ROUNDING = 1e-13
"""Relative to |b|^2, what rounding leaves of b^T f(M) b."""
_CHECKED = 8
"""Iterations before the first look at the tolerance. From one look to the next they grow by a quarter."""

_Function = Callable[[FloatArray], FloatArray]


class Posterior(Protocol):
    """What all releases say of every agent: ``gammas`` (p,), the expected prior variances, and each agent's part."""

    @property
    def gammas(self) -> FloatArray:
        """The (expected) prior variance of each coordinate, shape (p,)."""

    def at(self, place: int) -> AtAgent:
        """The agent whose release has this place among the releases."""


def smoothed(
    network: Network,
    origins: npt.NDArray[np.intp],
    releases: FloatArray,
    variances: FloatArray,
    *,
    per_coordinate: bool,
) -> Posterior:
    """The posterior by the ``releases`` (m, p) of the agents ``origins`` (m,), observed with ``variances`` (m,).

    See `coordinator_free.agents.personal.smoothing.smooth` for ``per_coordinate``. Up to `DENSE` agents it
    is exact.
    """
    if network.agents <= DENSE:
        covariance = kernel(network)[np.ix_(origins, origins)]
        return smooth(covariance, releases, variances, per_coordinate=per_coordinate)
    return LargeSmoothing(network, origins, releases, variances, per_coordinate=per_coordinate)


class Heat:
    """K = exp(-time L_sym), scaled to unit diagonal, of which only products with blocks of vectors are formed."""

    def __init__(self, network: Network, time: float = TIME) -> None:
        roots = sparse.diags_array(1.0 / np.sqrt(network.degrees))
        self._walk = sparse.csr_array(roots @ network.weights @ roots)
        self._series = _series(time)
        exact = network.agents <= EXACT
        diagonal = _diagonal(self._walk, self._series) if exact else _estimated_diagonal(self._walk, _series(time / 2))
        self._scale = 1.0 / np.sqrt(diagonal)[:, None]

    def __matmul__(self, block: FloatArray) -> FloatArray:
        """K times ``block`` (n, k)."""
        scaled: FloatArray = self._scale * _polynomial(self._walk, self._series, self._scale * block)
        return scaled


class LargeSmoothing:
    """The posterior by the releases of more than `DENSE` agents; parameters as those of `smoothed`."""

    def __init__(
        self,
        network: Network,
        origins: npt.NDArray[np.intp],
        releases: FloatArray,
        variances: FloatArray,
        *,
        per_coordinate: bool,
    ) -> None:
        self._heat, self._agents = Heat(network), network.agents
        self._origins, self._releases = origins, releases
        grid = grid_of(releases, variances)
        self._variances = np.maximum(variances, FLOOR * grid[-1])
        self._roots = 1.0 / np.sqrt(self._variances)
        self._weights = weights_of(self._evidence(grid), per_coordinate=per_coordinate)
        self._grid = grid

    @property
    def gammas(self) -> FloatArray:
        """The (expected) prior variance of each coordinate, shape (p,)."""
        found: FloatArray = self._grid @ self._weights
        return found

    def at(self, place: int) -> AtAgent:
        """The agent whose release has this place among the releases."""
        used = np.flatnonzero(self._weights.any(axis=1))
        gammas, weights = self._grid[used], self._weights[used]
        others = np.ones((len(self._origins), 1))
        others[place] = 0.0
        toward = others[:, 0] * self._covariance(1.0 - others)[:, 0]
        solved = _solved(lambda block: others * self._covariance(block), self._variances, toward, gammas)
        means = gammas[:, None] * (solved.T @ self._releases)
        variances = np.maximum(gammas - gammas**2 * (toward @ solved), 1e-12 * gammas)[:, None]
        own, noise = self._releases[place], self._variances[place]
        both = (variances * own + noise * means) / (variances + noise)
        mean = (weights * means).sum(axis=0)
        square = (weights * (variances + means**2)).sum(axis=0)
        return AtAgent(mean, square - mean**2, (weights * both).sum(axis=0))

    def _covariance(self, block: FloatArray) -> FloatArray:
        """K times ``block`` (m, k), among the agents whose releases are known."""
        whole = np.zeros((self._agents, block.shape[1]))
        whole[self._origins] = block
        return (self._heat @ whole)[self._origins]

    def _whitened(self, block: FloatArray) -> FloatArray:
        """M times ``block`` (m, k)."""
        found: FloatArray = self._roots[:, None] * self._covariance(self._roots[:, None] * block)
        return found

    def _evidence(self, grid: FloatArray) -> FloatArray:
        """Log marginal likelihood of each gamma and coordinate, without its constant; shape (gammas, p)."""
        m, p = self._releases.shape
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(m, _SIGNS))

        def functions(nodes: FloatArray) -> FloatArray:
            bent = 1.0 + grid[:, None] * np.maximum(nodes, 0.0)
            return np.stack([1.0 / bent, np.log(bent), np.broadcast_to(nodes, bent.shape)])

        found = _quadratic_forms(self._whitened, np.hstack([self._roots[:, None] * self._releases, signs]), functions)
        along = self._roots[:, None]  # most of M along one vector: that of a signal which is the same everywhere
        for _ in range(_POWERS):
            along = self._whitened(along / np.linalg.norm(along))
        along /= np.linalg.norm(along)
        known = np.stack([found[2, 0, p:] - np.square(self._roots).sum(), np.square(signs.T @ along)[:, 0] - 1.0])
        evidence: FloatArray = -0.5 * (found[0, :, :p] + _mean(found[1, :, p:], known)[:, None])
        return evidence


def _mean(values: FloatArray, known: FloatArray) -> FloatArray:
    """The means of ``values`` (k, draws), by regression on ``known`` (c, draws), whose expectations are 0."""
    design = np.vstack([np.ones(values.shape[1]), known / np.maximum(np.abs(known).max(axis=1, keepdims=True), 1e-300)])
    means: FloatArray = np.linalg.lstsq(design.T, values.T, rcond=None)[0][0]
    return means


def _series(time: float) -> FloatArray:
    """The coefficients of exp(-time (1 - x)) in Chebyshev polynomials of x in [-1, 1]."""
    terms = 1
    while ive(terms, time) > 1e-18:
        terms += 1
    coefficients: FloatArray = 2.0 * ive(np.arange(terms), time)
    coefficients[0] /= 2.0
    return coefficients


def _polynomial(walk: sparse.csr_array, series: FloatArray, block: FloatArray) -> FloatArray:
    before, now = block, walk @ block
    total = series[0] * before + series[1] * now
    for coefficient in series[2:]:
        before, now = now, 2.0 * (walk @ now) - before
        total += coefficient * now
    return np.asarray(total)


def _diagonal(walk: sparse.csr_array, series: FloatArray) -> FloatArray:
    """Of the polynomial. As T_2k = 2 T_k^2 - 1 and T_2k+1 = 2 T_k T_k+1 - T_1, half of the products are enough."""
    agents, width = walk.shape[0], max(1, _NUMBERS // walk.shape[0])
    series = np.append(series, [0.0, 0.0])
    found = np.empty(agents)
    for start in range(0, agents, width):
        columns = np.arange(start, min(start + width, agents))
        before = np.zeros((agents, len(columns)))
        before[columns, np.arange(len(columns))] = 1.0
        now = walk @ before
        total = np.full(len(columns), series[0])
        for k in range(1, (len(series) - 1) // 2):
            before, now = now, 2.0 * (walk @ now) - before
            total += series[2 * k] * (2.0 * np.einsum("ij,ij->j", before, before) - 1.0)
            total += series[2 * k + 1] * 2.0 * np.einsum("ij,ij->j", before, now)
        found[columns] = total
    return found


def _estimated_diagonal(walk: sparse.csr_array, half: FloatArray) -> FloatArray:
    """Of the square of the polynomial ``half``: its rows' squared lengths, by projections on random signs."""
    agents, width = walk.shape[0], max(1, _NUMBERS // walk.shape[0])
    random, total = np.random.default_rng(0), np.zeros(agents)
    for start in range(0, _ESTIMATES, width):
        signs = random.choice([-1.0, 1.0], size=(agents, min(width, _ESTIMATES - start)))
        total += np.square(_polynomial(walk, half, signs)).sum(axis=1)
    return total / _ESTIMATES


def _quadratic_forms(apply: Callable[[FloatArray], FloatArray], starts: FloatArray, functions: _Function) -> FloatArray:
    """b^T f(M) b for each column b of ``starts``, by Gauss quadrature (Golub and Meurant 1994).

    ``functions`` maps nodes (k,) to the values (..., k) of each f. Returns shape (..., columns).
    """
    squares = np.square(starts).sum(axis=0)
    lengths = np.sqrt(squares)
    before, now = np.zeros_like(starts), starts / np.where(lengths > 0, lengths, 1.0)
    diagonal: list[FloatArray] = []
    beside: list[FloatArray] = []
    link = np.zeros(len(squares))
    last: FloatArray | None = None
    check = _CHECKED
    while True:
        image = apply(now) - link * before
        diagonal.append(np.einsum("ij,ij->j", now, image))
        image -= diagonal[-1] * now
        link = np.sqrt(np.square(image).sum(axis=0))
        link[link <= 1e-14 * np.abs(diagonal).max(axis=0)] = 0.0  # the space is exhausted
        if len(diagonal) >= check or not link.any():
            found: FloatArray = squares * _gauss(np.array(diagonal), np.array(beside), functions)
            size = np.abs(found).max(axis=-2, keepdims=True)
            settled = last is not None and bool((np.abs(found - last) <= TOLERANCE * size + _ROUNDING * squares).all())
            if settled or len(diagonal) >= _STEPS or not link.any():
                return found
            last, check = found, min(_STEPS, check + check // 4)
        beside.append(link)
        before, now = now, image / np.where(link > 0, link, 1.0)
        now[:, link == 0] = 0.0


def _gauss(diagonal: FloatArray, beside: FloatArray, functions: _Function) -> FloatArray:
    columns = []
    for column in range(diagonal.shape[1]):
        links = beside[:, column] if len(diagonal) > 1 else np.empty(0)
        nodes, vectors = linalg.eigh_tridiagonal(diagonal[:, column], links, check_finite=False)
        columns.append(functions(nodes) @ np.square(vectors[0]))
    return np.stack(columns, axis=-1)


def _solved(
    apply: Callable[[FloatArray], FloatArray], variances: FloatArray, right: FloatArray, gammas: FloatArray
) -> FloatArray:
    """(gamma K + V)^-1 ``right`` for each gamma, by conjugate gradients on a unit diagonal; shape (m, gammas)."""
    shape, noise = (len(right), len(gammas)), variances[:, None]
    found, left = np.zeros(shape), np.repeat(right[:, None], len(gammas), axis=1)
    scaled = left / (gammas + noise)
    towards, square = scaled.copy(), np.einsum("ij,ij->j", left, scaled)
    enough = (TOLERANCE**2) * square
    for _ in range(_STEPS):
        active = square > enough
        if not active.any():
            break
        along = towards[:, active]
        image = gammas[active] * apply(along) + noise * along
        step = square[active] / np.einsum("ij,ij->j", along, image)
        found[:, active] += step * along
        left[:, active] -= step * image
        scaled = left[:, active] / (gammas[active] + noise)
        now = np.einsum("ij,ij->j", left[:, active], scaled)
        towards[:, active] = scaled + (now / square[active]) * along
        square[active] = now
    return found
