"""The network value: what it holds, what it refuses, and that each refusal names the culprit."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from topology import distance
from topology.network import (
    AsymmetricError,
    DisconnectedError,
    NegativeWeightError,
    Network,
    NonFiniteWeightError,
    NotSquareError,
    SelfLoopError,
    TopologyError,
    from_edges,
)


@st.composite
def connected_edges(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, float]]]:
    """Up to 14 agents: a random tree and some more edges, each with a weight."""
    agents = draw(st.integers(1, 14))
    pairs = {(draw(st.integers(0, j - 1)), j) for j in range(1, agents)}
    pairs |= draw(st.sets(st.sampled_from(list(itertools.combinations(range(max(agents, 2)), 2))), max_size=20))
    kept = sorted(pair for pair in pairs if pair[1] < agents)
    return agents, [(i, j, draw(st.floats(1e-6, 1e6))) for i, j in kept]


def dense(rows: list[list[float]]) -> sparse.csr_array:
    return sparse.csr_array(np.array(rows, dtype=np.float64))


@given(connected_edges())
def test_views_agree_with_the_matrix(graph: tuple[int, list[tuple[int, int, float]]]) -> None:
    agents, edges = graph
    network = from_edges(agents, edges)
    matrix = np.zeros((agents, agents))
    for i, j, weight in edges:
        matrix[i, j] = matrix[j, i] = weight
    assert network.edges == edges
    assert np.array_equal(network.weights.toarray(), matrix)
    np.testing.assert_allclose(network.degrees, matrix.sum(axis=1), rtol=1e-12)
    assert np.array_equal(network.degree_counts, (matrix > 0).sum(axis=1))
    for agent in range(agents):
        neighbours = tuple(np.flatnonzero(matrix[agent]).tolist())
        assert network.neighbours(agent) == neighbours
        assert np.array_equal(network.weights_of(agent), matrix[agent, list(neighbours)])


@given(connected_edges())
def test_hops_agree_with_networkx(graph: tuple[int, list[tuple[int, int, float]]]) -> None:
    agents, edges = graph
    network = from_edges(agents, edges)
    reference = nx.Graph()
    reference.add_nodes_from(range(agents))
    reference.add_edges_from((i, j) for i, j, _ in edges)
    assert network.diameter == nx.diameter(reference)
    low, high = distance.diameter_bounds(network.weights, searches=1)
    assert low <= network.diameter <= high
    assert distance.is_bipartite(network.weights) == nx.is_bipartite(reference)
    lengths = nx.single_source_shortest_path_length(reference, agents - 1)
    assert distance.depths(network.weights, agents - 1).tolist() == [lengths[agent] for agent in range(agents)]


def test_one_agent_is_a_network() -> None:
    network = Network(sparse.csr_array((1, 1)))
    assert network.agents == 1
    assert network.neighbours(0) == ()
    assert network.edges == []
    assert network.diameter == 0


@pytest.mark.parametrize(
    ("matrix", "error", "named"),
    [
        (sparse.csr_array((2, 3)), NotSquareError, "2 x 3"),
        (sparse.csr_array((0, 0)), NotSquareError, "0 x 0"),
        (dense([[0, np.nan], [np.nan, 0]]), NonFiniteWeightError, "edge 0-1"),
        (dense([[0, 1, 0], [1, 0, np.inf], [0, np.inf, 0]]), NonFiniteWeightError, "edge 1-2"),
        (dense([[0, 1, 0], [1, 0, -2], [0, -2, 0]]), NegativeWeightError, "edge 1-2 has weight -2"),
        (dense([[0, 1], [1, 3]]), SelfLoopError, "agent 1"),
        (dense([[0, 1, 2], [1, 0, 0], [0, 0, 0]]), AsymmetricError, "edge 0-2 has weight 2 from 0 to 2 and 0 back"),
        (dense([[0, 1], [np.nextafter(1, 2), 0]]), AsymmetricError, "edge 0-1"),
        (dense([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), DisconnectedError, "2 components, {0, 1} {2}"),
        (sparse.csr_array((2, 2)), DisconnectedError, "{0} {1}"),
        (dense([[0, 1e308, 1e308], [1e308, 0, 0], [1e308, 0, 0]]), NonFiniteWeightError, "agent 0"),
    ],
)
def test_each_violation_is_its_own_error(matrix: sparse.csr_array, error: type[TopologyError], named: str) -> None:
    with pytest.raises(TopologyError) as caught, np.errstate(over="ignore"):
        Network(matrix)
    assert type(caught.value) is error
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_components_are_counted_and_not_all_listed() -> None:
    with pytest.raises(DisconnectedError, match=r"300 components, \{0\} \{1\} \{2\} \{3\} \{4\} and 295 more"):
        Network(sparse.csr_array((300, 300)))


def test_the_value_is_frozen_and_its_own_copy() -> None:
    given_matrix = dense([[0, 1], [1, 0]])
    network = Network(given_matrix)
    given_matrix.data[:] = 5.0
    assert network.edges == [(0, 1, 1.0)]
    with pytest.raises(ValueError, match="read-only"):
        network.weights.data[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        network.weights_of(0)[0] = 2.0
    with pytest.raises(AttributeError):
        network.weights = given_matrix  # type: ignore[misc]


def test_there_is_no_agent_beyond_the_last_or_before_the_first() -> None:
    network = from_edges(2, [(0, 1)])
    for agent in (-1, 2):
        with pytest.raises(IndexError, match=f"no agent {agent}"):
            network.neighbours(agent)


def test_stored_zeros_and_the_order_of_storage_do_not_matter_to_the_digest() -> None:
    plain = dense([[0, 1, 2], [1, 0, 0], [2, 0, 0]])
    shuffled = sparse.csr_array(
        (np.array([2.0, 1.0, 1.0, 0.0, 2.0]), np.array([2, 1, 0, 2, 0]), np.array([0, 2, 4, 5])), shape=(3, 3)
    )
    assert Network(plain).digest() == Network(shuffled).digest()
    # A fixed point: run folders hold digests, so they must not change with the program.
    assert from_edges(2, [(0, 1)]).digest() == "23b475711e3cbd70125e514e1f246e77ebb269c21db308528ad311c213e3bd3d"


@settings(max_examples=40)
@given(connected_edges(), connected_edges())
def test_digests_are_equal_only_for_equal_graphs(
    one: tuple[int, list[tuple[int, int, float]]], other: tuple[int, list[tuple[int, int, float]]]
) -> None:
    assert (from_edges(*one).digest() == from_edges(*other).digest()) == (one == other)


def test_edges_outside_the_agents_are_named() -> None:
    with pytest.raises(TopologyError, match="edge 0-3: agents must be 0 to 2"):
        from_edges(3, [(0, 1), (0, 3)])


def test_large_graphs_are_validated_without_loops_over_edges() -> None:
    """100,000 agents, ten neighbours each."""
    agents = 100_000
    rng = np.random.default_rng(0)
    walks = [rng.permutation(agents) for _ in range(5)]
    rows, columns = np.concatenate(walks), np.concatenate([np.roll(walk, 1) for walk in walks])
    one_way = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(agents, agents))
    network = Network(sparse.csr_array(one_way + one_way.T))
    assert network.degrees.sum() == 10 * agents
    assert rows[columns == 17][0] in network.neighbours(17)
