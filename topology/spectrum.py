"""Facts about a network that the papers' conditions and rates use, and where it is weak.

Rules that hold here:
- Eigenvalues are exact (dense) up to `DENSE` agents and iterative above; one that an iteration does not find is None,
  never an unconverged number.
- The multiplicity of eigenvalue 0 is known, not judged by a threshold: a connected graph's Laplacian has it once, its
  signless Laplacian once if the graph is bipartite and never otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from topology import distance
from topology.network import Network

FloatArray = npt.NDArray[np.float64]

DENSE = 2000
"""Up to so many agents eigenvalues are computed from the full matrix, and the diameter is exact."""

_FACTORISED = 100_000
"""Up to so many agents a sparse factorisation is tried where the iteration alone does not converge..."""

_FACTORISED_DEGREE = 5
"""... if they have at most so many neighbours on average: the factors of denser graphs fill up."""

_SEARCHES = 64
"""Breadth-first searches that bound the diameter of larger networks."""

_WEAK = 50_000
"""Up to so many agents bridges and cut agents are searched for."""

_TOLERANCE = 1e-8
"""Of the residual relative to the matrix; a symmetric matrix's eigenvalue is off by its square over the gap."""

_NEAR_ZERO = 1e-5
"""Eigenvalues below this part of the matrix's norm are not taken from the iteration alone."""


@dataclass(frozen=True)
class Extremes:
    """The smallest nonzero and the largest eigenvalue of a positive semi-definite matrix; None: not found."""

    smallest_nonzero: float | None
    largest: float | None


@dataclass(frozen=True)
class Facts:
    """What `facts` finds. D is diagonal, A is 1 where two agents are neighbours, W holds the weights."""

    agents: int
    edges: int
    degrees: tuple[int, float, int]
    """Numbers of neighbours: least, mean, most."""
    weights: tuple[float, float] | None
    """Least and largest W_ij; None without edges."""
    weighted_degrees: tuple[float, float]
    """Least and largest D_ii = sum_j W_ij (Bellet et al. 2018, section 3.1)."""
    diameter: tuple[int, int]
    """Lower and upper bound, in hops; equal if known exactly."""
    bipartite: bool
    algebraic_connectivity: float | None
    """Smallest nonzero eigenvalue of the weighted Laplacian diag(D_ii) - W."""
    signed: Extremes
    """Of L_- = D - A, D the numbers of neighbours (Zhang, Khalili and Liu 2018, Theorem 3.2: sigma_min(D - A))."""
    signless: Extremes
    """Of L_+ = D + A (the same theorem: sigma_max(W(t)(D + A)))."""
    metropolis_gap: float | None
    """1 - |second largest eigenvalue in modulus| of `metropolis`: averaging by gossip contracts by 1 - gap a round."""
    lazy_gap: float | None
    """1 - second largest eigenvalue of `lazy_walk`."""
    bridges: tuple[tuple[int, int], ...] | None
    """Edges without which the network falls apart; None: not searched for."""
    cut_agents: tuple[int, ...] | None
    """Agents without which the others are not connected; None: not searched for."""


def facts(network: Network) -> Facts:
    """Compute all facts about ``network``; deterministic."""
    agents = network.agents
    adjacency = _adjacency(network)
    counts = network.degree_counts.astype(np.float64)
    signed = sparse.csr_array(sparse.diags_array(counts) - adjacency)
    bipartite = distance.is_bipartite(network.weights)
    signed_extremes = _extremes(signed, null=_constant(agents))
    if bipartite:
        # Flipping the sign of one group's coordinates turns D + A into D - A: the spectra are equal.
        signless_extremes = signed_extremes
    else:
        signless_extremes = _extremes(sparse.csr_array(sparse.diags_array(counts) + adjacency), null=None)
    unit_weights = network.weights.nnz == 0 or bool(np.all(network.weights.data == 1.0))
    if unit_weights:
        connectivity = signed_extremes.smallest_nonzero
    else:
        laplacian = sparse.csr_array(sparse.diags_array(network.degrees) - network.weights)
        connectivity = _extremes(laplacian, null=_constant(agents), largest=False).smallest_nonzero
    bridges, cut_agents = weak_points(network)
    values = network.weights.data
    return Facts(
        agents=agents,
        edges=network.weights.nnz // 2,
        degrees=(int(counts.min()), float(counts.mean()), int(counts.max())),
        weights=(float(values.min()), float(values.max())) if values.size else None,
        weighted_degrees=(float(network.degrees.min()), float(network.degrees.max())),
        diameter=distance.diameter_bounds(network.weights, None if agents <= DENSE else _SEARCHES),
        bipartite=bipartite,
        algebraic_connectivity=connectivity,
        signed=signed_extremes,
        signless=signless_extremes,
        metropolis_gap=_metropolis_gap(network),
        lazy_gap=_lazy_gap(network),
        bridges=bridges,
        cut_agents=cut_agents,
    )


def metropolis(network: Network) -> sparse.csr_array:
    """The symmetric mixing matrix P_ij = 1 / (1 + max(d_i, d_j)) for neighbours, rows adding up to 1, shape (n, n).

    d_i is the number of neighbours. The eigenvalues are above -1.

    References
    ----------
    Xiao, Boyd and Lall (2005), *A scheme for robust distributed sensor fusion based on average consensus*.
    """
    edges = network.weights.tocoo()
    counts = network.degree_counts
    values = 1.0 / (1.0 + np.maximum(counts[edges.row], counts[edges.col]))
    between = sparse.csr_array((values, (edges.row, edges.col)), shape=network.weights.shape)
    return sparse.csr_array(between + sparse.diags_array(1.0 - between.sum(axis=1)))


def lazy_walk(network: Network) -> sparse.csr_array:
    """(I + D^-1 W) / 2, D_ii = sum_j W_ij, shape (n, n): the mean over the neighbours, taken half the time."""
    if network.agents == 1:
        return sparse.csr_array(np.ones((1, 1)))
    walk = sparse.diags_array(1.0 / network.degrees) @ network.weights
    return sparse.csr_array((sparse.eye_array(network.agents) + walk) / 2.0)


def weak_points(network: Network) -> tuple[tuple[tuple[int, int], ...] | None, tuple[int, ...] | None]:
    """Bridges (i < j) and cut agents, ascending; (None, None) for more than 50,000 agents."""
    if network.agents > _WEAK:
        return None, None
    graph = nx.Graph()
    graph.add_nodes_from(range(network.agents))
    graph.add_edges_from((i, j) for i, j, _ in network.edges)
    bridges = tuple(sorted((min(edge), max(edge)) for edge in nx.bridges(graph)))
    return bridges, tuple(sorted(nx.articulation_points(graph)))


def _adjacency(network: Network) -> sparse.csr_array:
    pattern = network.weights
    return sparse.csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape)


def _constant(agents: int) -> FloatArray:
    return np.full(agents, agents**-0.5)


def _metropolis_gap(network: Network) -> float | None:
    agents = network.agents
    if agents == 1:
        return 1.0
    mixing = metropolis(network)
    if agents <= DENSE:
        eigenvalues = linalg.eigvalsh(mixing.toarray())
        return float(1.0 - max(eigenvalues[-2], -eigenvalues[0]))
    identity = sparse.eye_array(agents, format="csr")
    # Both ends as distances from 1 and -1, so that a gap near 0 keeps its digits.
    from_one = _smallest(sparse.csr_array(identity - mixing), _constant(agents))
    # By Gershgorin's circles no eigenvalue is nearer to -1 than this, which often settles it.
    if from_one is None or from_one <= 2.0 * mixing.diagonal().min():
        return from_one
    from_minus_one = _smallest(sparse.csr_array(identity + mixing), None)
    return None if from_minus_one is None else min(from_one, from_minus_one)


def _lazy_gap(network: Network) -> float | None:
    agents = network.agents
    if agents == 1:
        return 1.0
    # I - D^-1 W is similar to I - D^-1/2 W D^-1/2, which is symmetric and has the null vector D^1/2 1.
    roots = np.sqrt(network.degrees)
    scale = sparse.diags_array(1.0 / roots)
    normalised = sparse.csr_array(sparse.eye_array(agents) - scale @ network.weights @ scale)
    smallest = _extremes(normalised, null=roots / np.linalg.norm(roots), largest=False).smallest_nonzero
    return None if smallest is None else smallest / 2.0


def _extremes(matrix: sparse.csr_array, null: FloatArray | None, largest: bool = True) -> Extremes:
    """Of a positive semi-definite matrix whose null space is spanned by the unit vector ``null``, or is trivial."""
    agents = matrix.shape[0]
    if agents == 1:
        return Extremes(None, float(matrix[0, 0]))
    if agents <= DENSE:
        eigenvalues = linalg.eigvalsh(matrix.toarray())
        return Extremes(float(eigenvalues[0 if null is None else 1]), float(eigenvalues[-1]))
    return Extremes(_smallest(matrix, null), _largest(matrix) if largest else None)


def _largest(matrix: sparse.csr_array) -> float | None:
    return _converged(
        lambda: sparse_linalg.eigsh(
            matrix, k=1, which="LA", v0=_start(matrix.shape[0]), tol=1e-6, maxiter=1000, return_eigenvectors=False
        )
    )


def _smallest(matrix: sparse.csr_array, null: FloatArray | None) -> float | None:
    """The smallest eigenvalue except that of ``null``; None if it is not found.

    Lanczos is quick where the spectrum has a gap. Long, thin graphs have none: there a factorisation is quick.
    """
    agents = matrix.shape[0]
    bound = float(abs(matrix).sum(axis=1).max())

    def mirrored(vector: FloatArray) -> FloatArray:
        image: FloatArray = bound * vector - matrix @ vector
        if null is not None:
            image = image - (bound * (null @ vector)) * null
        return image

    operator = sparse_linalg.LinearOperator((agents, agents), matvec=mirrored, dtype=np.float64)
    found = _converged(
        lambda: sparse_linalg.eigsh(
            operator,
            k=1,
            which="LA",
            v0=_start(agents),
            ncv=min(80, agents - 1),
            tol=_TOLERANCE,
            maxiter=40,
            return_eigenvectors=False,
        )
    )
    # Nearer to 0, the tolerance would leave too few of the eigenvalue's own digits.
    if found is not None and bound - found > _NEAR_ZERO * bound:
        return bound - found
    if agents > _FACTORISED or matrix.nnz > (1 + _FACTORISED_DEGREE) * agents:
        return None
    # Shifted just below 0, the matrix is definite and can be factorised although it is singular itself.
    wanted = 1 if null is None else 2
    values = _converged_all(
        lambda: sparse_linalg.eigsh(
            matrix.tocsc(),
            k=wanted,
            sigma=-1e-9 * bound,
            which="LM",
            v0=_start(agents),
            maxiter=100,
            return_eigenvectors=False,
        )
    )
    return None if values is None else float(values[-1])


def _converged(solve: Callable[[], FloatArray]) -> float | None:
    values = _converged_all(solve)
    return None if values is None else float(values[0])


def _converged_all(solve: Callable[[], FloatArray]) -> FloatArray | None:
    try:
        return np.sort(solve())
    except (sparse_linalg.ArpackError, MemoryError, RuntimeError):
        return None


def _start(agents: int) -> FloatArray:
    """A fixed start, where the solver would take one from the global random state."""
    return np.random.default_rng(0).standard_normal(agents)
