"""Places for agents in a picture. Deterministic; no drawing happens here."""

from __future__ import annotations

import networkx as nx
import numpy as np
import numpy.typing as npt

from topology.network import Network

FloatArray = npt.NDArray[np.float64]

_STRESS = 100
"""Up to so many agents, places follow the hops between all pairs; above, springs along the edges (both quadratic)."""


def places(network: Network) -> FloatArray:
    """Where to draw each agent, shape (n, 2), within [-1, 1]; neighbours near each other as far as that goes."""
    agents = network.agents
    counts = network.degree_counts
    # On a circle if the graph is one, or if almost all agents are neighbours and no place is better than another.
    if agents < 3 or int(counts.max()) == 2 == int(counts.min()) or 2 * counts.mean() > agents - 1:
        return _circle(network)
    graph = nx.Graph()
    graph.add_nodes_from(range(agents))
    graph.add_weighted_edges_from(network.edges)
    if agents <= _STRESS:
        found = nx.kamada_kawai_layout(graph, weight=None)
    else:
        start = nx.spectral_layout(graph, weight=None)
        spread = np.random.default_rng(0).normal(scale=0.05, size=(agents, 2))
        jittered = {agent: start[agent] + spread[agent] for agent in range(agents)}
        found = nx.spring_layout(graph, pos=jittered, iterations=50, method="force", seed=0)
    at = np.array([found[agent] for agent in range(agents)], dtype=np.float64)
    at -= (at.min(axis=0) + at.max(axis=0)) / 2.0
    return at / max(float(np.abs(at).max()), np.finfo(np.float64).tiny)


def _circle(network: Network) -> FloatArray:
    """In walking order, so that a ring's edges do not cross whatever its agents' numbers are."""
    agents = network.agents
    if agents == 1:
        return np.zeros((1, 2))
    order = list(range(agents))
    if int(network.degree_counts.max()) == 2 == int(network.degree_counts.min()):
        order = [0, network.neighbours(0)[0]]
        while len(order) < agents:
            one, other = network.neighbours(order[-1])
            order.append(other if one == order[-2] else one)
    angles = np.empty(agents)
    angles[order] = np.pi / 2 - 2 * np.pi * np.arange(agents) / agents
    return np.column_stack([np.cos(angles), np.sin(angles)])
