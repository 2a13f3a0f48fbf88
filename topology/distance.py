"""Hops: depths, the diameter, the centre and two-colouring of a connected graph, from breadth-first searches.

Works on the weight matrix alone; weights count only as present or absent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

IntArray = npt.NDArray[np.int64]


def depths(weights: sparse.csr_array, source: int) -> IntArray:
    """Hops from ``source`` to every agent of a connected graph, shape (n,)."""
    order, predecessors = csgraph.breadth_first_order(weights, source, directed=True)
    agents = order.size
    position = np.empty(agents, dtype=np.int64)
    position[order] = np.arange(agents)
    # In this order predecessors' positions never decrease, so the children of a level are one stretch.
    parents = position[predecessors[order[1:]]]
    hops = np.empty(agents, dtype=np.int64)
    start, end, depth = 0, 1, 0
    while start < agents:
        hops[order[start:end]] = depth
        start, end, depth = end, 1 + int(np.searchsorted(parents, end)), depth + 1
    return hops


def diameter_bounds(weights: sparse.csr_array, searches: int | None) -> tuple[int, int]:
    """A lower and an upper bound of the diameter in hops, equal if the searches settle it.

    Each search from v narrows every agent's eccentricity, max(d, ecc(v) - d) <= ecc <= ecc(v) + d, and agents that
    can no longer move the answer are left out.

    Parameters
    ----------
    weights
        Shape (n, n), of a connected graph.
    searches
        At most this many breadth-first searches; None: no limit.

    References
    ----------
    Takes and Kosters (2011), *Determining the diameter of small world networks*.
    """
    agents = int(weights.shape[0])
    lower = np.zeros(agents, dtype=np.int64)
    upper = np.full(agents, agents - 1, dtype=np.int64)
    open_agents = np.arange(agents)
    counts = np.diff(weights.indptr)
    done = 0
    while open_agents.size and (searches is None or done < searches):
        # In turn the agent that may raise the lower bound and the one that may cut the upper bound, busiest first.
        key = -upper[open_agents] if done % 2 == 0 else lower[open_agents]
        source = int(open_agents[np.lexsort((-counts[open_agents], key))[0]])
        hops = depths(weights, source)
        eccentricity = int(hops.max())
        np.maximum(lower, np.maximum(hops, eccentricity - hops), out=lower)
        np.minimum(upper, eccentricity + hops, out=upper)
        done += 1
        least, most = int(lower.max()), int(upper.max())
        if least == most:
            break
        settled = (lower[open_agents] == upper[open_agents]) | (upper[open_agents] <= least)
        open_agents = open_agents[~settled]
    least = int(lower.max())
    return least, max(least, int(upper[open_agents].max())) if open_agents.size else least


def centre(weights: sparse.csr_array, searches: int = 1000) -> int:
    """An agent of a connected graph from which the farthest one is as near as from any other.

    Each search from v gives every agent's eccentricity a lower bound, max(d, ecc(v) - d), and agents that can no longer
    be nearer than the best one are left out.

    Parameters
    ----------
    weights
        Shape (n, n), of a connected graph.
    searches
        At most this many breadth-first searches. Where they settle nothing (a ring of many thousands), the best agent
        of those searched; no agent is more than twice as far from its farthest one as the centre is.

    References
    ----------
    Takes and Kosters (2013), *Computing the eccentricity distribution of large graphs*.
    """
    agents = int(weights.shape[0])
    lower = np.zeros(agents, dtype=np.int64)
    counts = np.diff(weights.indptr)
    best, nearest = 0, agents
    open_agents = np.arange(agents)
    for _ in range(searches):
        if not open_agents.size:
            break
        source = int(open_agents[np.lexsort((-counts[open_agents], lower[open_agents]))[0]])
        hops = depths(weights, source)
        eccentricity = int(hops.max())
        if eccentricity < nearest:
            best, nearest = source, eccentricity
        np.maximum(lower, np.maximum(hops, eccentricity - hops), out=lower)
        open_agents = open_agents[(lower[open_agents] < nearest) & (open_agents != source)]
    return best


def is_bipartite(weights: sparse.csr_array) -> bool:
    """Whether the agents of a connected graph fall into two groups that only have neighbours in the other one."""
    colour = depths(weights, 0) % 2
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    return bool(np.all(colour[rows] != colour[weights.indices]))
