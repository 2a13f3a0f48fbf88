"""The network: the neighbours of each agent, and the weight of each neighbour.

Rules that hold here:
- A `Network` that exists is valid: square, finite, non-negative, symmetric to the last bit, no self-loops, connected.
- Agents are 0..n-1; neighbours are always listed in ascending order.
- Validation runs no Python loop over edges: a million agents with ten neighbours each take seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from topology import distance
from topology.errors import (
    AsymmetricError,
    DisconnectedError,
    NegativeWeightError,
    NonFiniteWeightError,
    NotSquareError,
    SelfLoopError,
    TopologyError,
)

__all__ = [
    "AsymmetricError",
    "DisconnectedError",
    "NegativeWeightError",
    "Network",
    "NonFiniteWeightError",
    "NotSquareError",
    "SelfLoopError",
    "TopologyError",
    "from_edges",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_Array = TypeVar("_Array", bound=npt.NDArray[np.generic])

_LISTED = 5
"""How many agents or components an error names before it only counts."""


@dataclass(frozen=True, eq=False)
class Network:
    """An undirected weighted graph of agents.

    The value holds a read-only copy of ``weights`` in canonical form (sorted, no stored zeros). One agent without
    neighbours is a network.

    Parameters
    ----------
    weights
        Shape (n, n), float64: W_ij = W_ji > 0 where i and j are neighbours.

    Raises
    ------
    TopologyError
        A subclass for each violation; the message names the edge or the components.
    """

    weights: sparse.csr_array

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _validated(self.weights))

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return int(self.weights.shape[0])

    def neighbours(self, agent: int) -> tuple[int, ...]:
        """The neighbours of ``agent``, ascending."""
        start, end = self._row(agent)
        return tuple(self.weights.indices[start:end].tolist())

    def weights_of(self, agent: int) -> FloatArray:
        """W_ij of ``agent`` = i, in the order of `neighbours`; read-only."""
        start, end = self._row(agent)
        row: FloatArray = self.weights.data[start:end]
        return row

    def _row(self, agent: int) -> tuple[int, int]:
        if not 0 <= agent < self.agents:
            raise IndexError(f"there is no agent {agent}: agents are 0 to {self.agents - 1}")
        return int(self.weights.indptr[agent]), int(self.weights.indptr[agent + 1])

    @cached_property
    def degrees(self) -> FloatArray:
        """D_ii = sum_j W_ij, shape (n,)."""
        return _read_only(np.asarray(self.weights.sum(axis=1), dtype=np.float64))

    @cached_property
    def degree_counts(self) -> IntArray:
        """The number of neighbours of each agent, shape (n,)."""
        return _read_only(np.diff(self.weights.indptr).astype(np.int64))

    @property
    def edges(self) -> list[tuple[int, int, float]]:
        """(i, j, W_ij) with i < j, ascending."""
        upper = sparse.triu(self.weights, k=1, format="csr").tocoo()
        return list(zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True))

    @cached_property
    def diameter(self) -> int:
        """The most hops between two agents. Exact; on large random graphs it may take a search from every agent."""
        return distance.diameter_bounds(self.weights, searches=None)[0]

    def digest(self) -> str:
        """SHA-256, in hex, of the canonical form: two networks are the same graph if and only if digests are equal."""
        hashed = hashlib.sha256(b"sottovoce network 1\0")
        hashed.update(self.agents.to_bytes(8, "little"))
        for array, kind in ((self.weights.indptr, "<i8"), (self.weights.indices, "<i8"), (self.weights.data, "<f8")):
            hashed.update(np.ascontiguousarray(array, dtype=kind).tobytes())
        return hashed.hexdigest()


def from_edges(agents: int, edges: Iterable[Sequence[float]]) -> Network:
    """Make a network from a list of edges.

    Parameters
    ----------
    agents
        How many there are.
    edges
        (i, j) or (i, j, weight), each edge once; the weight is 1 if it is not given.

    Raises
    ------
    TopologyError
        A subclass for each violation; the message names the edge or the components.
    """
    rows, columns, weights = [], [], []
    for edge in edges:
        i, j = int(edge[0]), int(edge[1])
        if not (0 <= i < agents and 0 <= j < agents):
            raise TopologyError(f"edge {i}-{j}: agents must be 0 to {agents - 1}")
        rows.append(i)
        columns.append(j)
        weights.append(float(edge[2]) if len(edge) > 2 else 1.0)
    one_way = sparse.coo_array((np.array(weights, dtype=np.float64), (rows, columns)), shape=(agents, agents))
    return Network((one_way + one_way.T).tocsr())


def _validated(given: sparse.csr_array) -> sparse.csr_array:
    weights = sparse.csr_array(given, dtype=np.float64, copy=True)
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] == 0:
        shape = " x ".join(str(side) for side in weights.shape)
        raise NotSquareError(f"a weight matrix must be square with at least one agent, not {shape}")
    weights.sum_duplicates()
    _refuse_where(~np.isfinite(weights.data), weights, NonFiniteWeightError, "weights must be finite")
    weights.eliminate_zeros()
    _refuse_where(weights.data < 0, weights, NegativeWeightError, "weights must not be negative")
    loops = np.flatnonzero(weights.diagonal())
    if loops.size:
        raise SelfLoopError(f"agent {loops[0]} is its own neighbour: self-loops are not accepted")
    _refuse_asymmetry(weights)
    _refuse_components(weights)
    infinite = np.flatnonzero(~np.isfinite(weights.sum(axis=1)))
    if infinite.size:
        raise NonFiniteWeightError(f"the weights of agent {infinite[0]} add up to infinity: use smaller weights")
    for array in (weights.data, weights.indices, weights.indptr):
        _read_only(array)
    return weights


def _refuse_where(bad: npt.NDArray[np.bool_], weights: sparse.csr_array, error: type[TopologyError], why: str) -> None:
    places = np.flatnonzero(bad)
    if places.size:
        place = int(places[0])
        i = int(np.searchsorted(weights.indptr, place, side="right")) - 1
        raise error(f"edge {i}-{weights.indices[place]} has weight {weights.data[place]:g}: {why}")


def _refuse_asymmetry(weights: sparse.csr_array) -> None:
    mirrored = weights.T.tocsr()
    # Both are canonical, so equal matrices have equal arrays; the difference matrix is made only to name the edge.
    if all(
        np.array_equal(a, b)
        for a, b in (
            (weights.indptr, mirrored.indptr),
            (weights.indices, mirrored.indices),
            (weights.data, mirrored.data),
        )
    ):
        return
    unequal = (weights != mirrored).tocoo()
    i, j = min(zip(unequal.row.tolist(), unequal.col.tolist(), strict=True))
    raise AsymmetricError(
        f"edge {i}-{j} has weight {weights[i, j]:g} from {i} to {j} and {weights[j, i]:g} back: both must be equal"
    )


def _refuse_components(weights: sparse.csr_array) -> None:
    reached = csgraph.breadth_first_order(weights, 0, directed=True, return_predecessors=False)
    if reached.size < weights.shape[0]:
        count, labels = csgraph.connected_components(weights, directed=False)
        raise DisconnectedError(f"the graph is not connected: {describe_components(count, labels)}")


def describe_components(count: int, labels: npt.NDArray[np.int32], names: Sequence[object] | None = None) -> str:
    """The components in words, in the order of their first agents, at most `_LISTED` of them and of their agents.

    ``names`` are the names of the agents, if these are not their numbers.
    """
    parts = []
    for label in range(min(count, _LISTED)):
        members = np.flatnonzero(labels == label)
        named = ", ".join(str(agent if names is None else names[agent]) for agent in members[:_LISTED])
        more = f", ... ({members.size} agents)" if members.size > _LISTED else ""
        parts.append("{" + named + more + "}")
    rest = f" and {count - _LISTED} more" if count > _LISTED else ""
    return f"{count} components, {' '.join(parts)}{rest}"


def _read_only(array: _Array) -> _Array:
    array.flags.writeable = False
    return array
