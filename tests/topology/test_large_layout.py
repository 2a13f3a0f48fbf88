"""Places of agents: the same ones each time, within the picture, neighbours near each other."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from topology.large_layout import laid_out


def edges_of(graph: nx.Graph) -> np.ndarray:
    return np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)


@pytest.mark.parametrize(
    "graph",
    [
        *(nx.empty_graph(agents) for agents in (1, 2, 9)),
        nx.path_graph(2),
        nx.star_graph(12),
        nx.complete_graph(6),
        nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(7)),
        nx.barbell_graph(8, 3),
        nx.gnm_random_graph(60, 150, 1),
    ],
    ids=str,
)
def test_places_are_in_the_picture_and_always_the_same(graph: nx.Graph) -> None:
    places = laid_out(len(graph), edges_of(graph))
    assert places.shape == (len(graph), 2)
    assert np.isfinite(places).all()
    assert np.abs(places).max(initial=0.0) <= 1.0 + 1e-12
    assert np.array_equal(places, laid_out(len(graph), edges_of(graph)))
    assert len({tuple(place) for place in places.round(6).tolist()}) == len(graph)


def test_a_ring_is_a_circle_without_crossings() -> None:
    order = np.random.default_rng(0).permutation(20)
    edges = np.column_stack([order, np.roll(order, -1)])
    places = laid_out(20, edges)
    lengths = np.linalg.norm(places[edges[:, 0]] - places[edges[:, 1]], axis=1)
    assert np.allclose(lengths, 2 * np.sin(np.pi / 20))


def test_neighbours_are_near_each_other() -> None:
    graph = nx.random_geometric_graph(200, 0.12, seed=2)
    edges = edges_of(graph)
    places = laid_out(200, edges)
    between = np.linalg.norm(places[edges[:, 0]] - places[edges[:, 1]], axis=1)
    anywhere = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert np.median(between) < 0.35 * np.median(anywhere)
