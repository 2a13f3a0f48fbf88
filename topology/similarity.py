"""Graphs from data: agents that resemble each other are neighbours.

A graph made from the agents' own records is a function of these records, and nothing here adds noise. A run that
makes one from private data names it among its public assumptions. One made from noisy profiles is post-processing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from topology.errors import ParameterError
from topology.network import Network

FloatArray = npt.NDArray[np.float64]

_BLOCK_ENTRIES = 1 << 22
"""Similarities are computed for as many agents at a time as make about this many numbers (32 MiB)."""


def angle_similarity(targets: npt.ArrayLike, gamma: float, threshold: float) -> Network:
    """Make the network W_ij = exp((cos(phi_ij) - 1) / gamma), phi_ij the angle between the targets of i and j.

    Parameters
    ----------
    targets
        Shape (n, p), one target model an agent.
    gamma
        Above 0.
    threshold
        From 0 to below 1. Smaller weights become 0.

    Raises
    ------
    ParameterError
        A parameter is outside its range, or a target is zero.
    DisconnectedError
        The threshold cuts the graph.

    References
    ----------
    Bellet et al. (2018), section 4 (gamma = 0.1, "negligible weights are ignored").
    """
    vectors = np.asarray(targets, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[0] == 0 or not np.isfinite(vectors).all():
        raise ParameterError(f"targets of shape {vectors.shape}: must be finite numbers of shape (agents, dimension)")
    if not gamma > 0 or not np.isfinite(gamma):
        raise ParameterError(f"topology.gamma = {gamma!r}: must be a number above 0")
    if not 0 <= threshold < 1:
        raise ParameterError(f"topology.threshold = {threshold!r}: must be from 0 to below 1, the largest weight")
    lengths = np.linalg.norm(vectors, axis=1)
    if not lengths.all():
        raise ParameterError(f"the target of agent {int(np.argmin(lengths))} is zero: it has no angle to another")
    unit = vectors / lengths[:, None]
    agents = unit.shape[0]
    rows, columns, weights = [], [], []
    for start, end in _blocks(agents):
        block = np.exp((np.clip(unit[start:end] @ unit[start:].T, -1.0, 1.0) - 1.0) / gamma)
        # Each pair once, mirrored below: both directions are the same number to the last bit.
        i, j = np.nonzero(np.triu((block >= threshold) & (block > 0), k=1))
        rows.append(i + start)
        columns.append(j + start)
        weights.append(block[i, j])
    upper = sparse.coo_array(
        (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))), shape=(agents, agents)
    )
    return Network((upper + upper.T).tocsr())


def nearest_neighbours(ratings: npt.ArrayLike | sparse.sparray, k: int) -> Network:
    """Make agents neighbours, with weight 1, if one is among the ``k`` most similar to the other by cosine.

    Of equally similar agents the lower number is nearer.

    Parameters
    ----------
    ratings
        Shape (n, m), sparse or dense, one row an agent; a missing rating is 0.
    k
        From 1 to n - 1.

    Raises
    ------
    ParameterError
        ``k`` is outside its range, a rating is not finite, or an agent has none.
    DisconnectedError
        No edge joins two groups.

    References
    ----------
    Bellet et al. (2018), section 4 (MovieLens, k = 10).
    """
    vectors = sparse.csr_array(ratings, dtype=np.float64, copy=True)
    agents = int(vectors.shape[0])
    _check_neighbours(k, agents)
    if not np.isfinite(vectors.data).all():
        raise ParameterError("ratings must be finite numbers")
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)))
    if not lengths.all():
        raise ParameterError(f"all ratings of agent {int(np.argmin(lengths))} are missing: it has no nearest agents")
    return Network(_nearest(sparse.csr_array(sparse.diags_array(1.0 / lengths) @ vectors), int(k)))


def joined_neighbours(profiles: npt.ArrayLike, k: int) -> Network:
    """Make the graph of `nearest_neighbours` of dense vectors, and join its parts where it falls apart.

    Each part that has not the agent 0 in it is joined by one edge, of weight 1, between its agent and an agent of the
    other parts that are most similar. So there is a graph for every input: a failure would show something of it. A
    vector of zeros is at a right angle to every other.

    Parameters
    ----------
    profiles
        Shape (n, p), finite numbers, one row an agent.
    k
        From 1 to n - 1.

    Raises
    ------
    ParameterError
        ``k`` is outside its range.
    """
    vectors = np.asarray(profiles, dtype=np.float64)
    _check_neighbours(k, len(vectors))
    lengths = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    weights = sparse.lil_array(_nearest(sparse.csr_array(unit), int(k)))
    parts, labels = csgraph.connected_components(weights.tocsr(), directed=False)
    while parts > 1:
        inside = np.flatnonzero(labels == labels.max())
        outside = np.flatnonzero(labels != labels.max())
        similar = unit[inside] @ unit[outside].T
        i, j = np.unravel_index(int(np.argmax(similar)), similar.shape)
        weights[inside[i], outside[j]] = weights[outside[j], inside[i]] = 1.0
        labels[inside] = labels[outside[j]]
        parts -= 1
    return Network(weights.tocsr())


def _check_neighbours(k: int, agents: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k < agents:
        raise ParameterError(f"topology.neighbours = {k!r}: must be a whole number from 1 to {agents - 1}, agents - 1")


def _nearest(unit: sparse.csr_array, k: int) -> sparse.csr_array:
    """1 where an agent is among the ``k`` most similar to the other, either way; rows of ``unit`` have length 1."""
    agents = int(unit.shape[0])
    rows, columns = [], []
    for start, end in _blocks(agents):
        similar = np.asarray((unit[start:end] @ unit.T).todense())
        similar[np.arange(end - start), np.arange(start, end)] = -np.inf
        i, j = np.nonzero(_largest(similar, k))
        rows.append(i + start)
        columns.append(j)
    i, j = np.concatenate(rows), np.concatenate(columns)
    directed = sparse.csr_array((np.ones(i.size), (i, j)), shape=(agents, agents))
    return sparse.csr_array(directed.maximum(directed.T))


def _blocks(agents: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK_ENTRIES // agents)
    return [(start, min(start + size, agents)) for start in range(0, agents, size)]


def _largest(values: FloatArray, k: int) -> npt.NDArray[np.bool_]:
    """True at each row's ``k`` largest values; of equal ones, at the first."""
    cut = -np.partition(-values, k - 1, axis=1)[:, k - 1 : k]
    above, equal = values > cut, values == cut
    missing = k - above.sum(axis=1, keepdims=True)
    chosen: npt.NDArray[np.bool_] = above | (equal & (np.cumsum(equal, axis=1) <= missing))
    return chosen
