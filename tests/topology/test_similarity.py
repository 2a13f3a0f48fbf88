"""Graphs from data, against the formulas written out pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from topology import similarity
from topology.errors import DisconnectedError, ParameterError
from topology.network import Network


def test_angles_give_the_weights_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = np.random.default_rng(1).standard_normal((30, 2))
    network = similarity.angle_similarity(targets, gamma=0.1, threshold=1e-3)
    for i in range(30):
        row = dict(zip(network.neighbours(i), network.weights_of(i), strict=True))
        for j in range(30):
            cosine = targets[i] @ targets[j] / np.linalg.norm(targets[i]) / np.linalg.norm(targets[j])
            weight = np.exp((cosine - 1.0) / 0.1)
            if i == j or weight < 1e-3:
                assert j not in row
            else:
                assert row[j] == pytest.approx(weight, rel=1e-12)
    monkeypatch.setattr(similarity, "_BLOCK_ENTRIES", 100)  # three agents at a time
    blocked = similarity.angle_similarity(targets, gamma=0.1, threshold=1e-3)
    np.testing.assert_allclose(blocked.weights.toarray(), network.weights.toarray(), rtol=1e-12)


def test_known_angles() -> None:
    """Right angles: exp(-1 / gamma); equal directions of other lengths: 1."""
    network = similarity.angle_similarity([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], gamma=0.5, threshold=0.0)
    assert network.edges == [(0, 1, pytest.approx(np.exp(-2))), (0, 2, 1.0), (1, 2, pytest.approx(np.exp(-2)))]


def test_a_threshold_that_cuts_the_graph_is_refused() -> None:
    with pytest.raises(DisconnectedError, match=r"\{0, 1\} \{2\}"):
        similarity.angle_similarity([[1.0, 0.0], [1.0, 0.01], [-1.0, 0.0]], gamma=0.1, threshold=1e-3)


@pytest.mark.parametrize(
    ("targets", "gamma", "threshold", "named"),
    [
        (np.ones(3), 0.1, 0.0, "targets of shape (3,)"),
        ([[1.0, np.nan]], 0.1, 0.0, "finite"),
        ([[1.0], [0.0]], 0.1, 0.0, "target of agent 1 is zero"),
        (np.ones((2, 2)), 0.0, 0.0, "topology.gamma = 0.0"),
        (np.ones((2, 2)), np.nan, 0.0, "topology.gamma = nan"),
        (np.ones((2, 2)), 0.1, 1.0, "topology.threshold = 1.0"),
    ],
)
def test_bad_input_for_angles(targets: object, gamma: float, threshold: float, named: str) -> None:
    with pytest.raises(ParameterError) as caught:
        similarity.angle_similarity(targets, gamma, threshold)  # type: ignore[arg-type]
    assert named in str(caught.value)


def neighbours_pair_by_pair(ratings: np.ndarray, k: int) -> set[tuple[int, int]]:  # type: ignore[type-arg]
    edges = set()
    for i, row in enumerate(ratings):
        cosines = [
            (-(row @ other) / np.linalg.norm(row) / np.linalg.norm(other), j)
            for j, other in enumerate(ratings)
            if j != i
        ]
        edges |= {(min(i, j), max(i, j)) for _, j in sorted(cosines)[:k]}
    return edges


def both(ratings: np.ndarray, k: int) -> Network:  # type: ignore[type-arg]
    dense = similarity.nearest_neighbours(ratings, k)
    assert similarity.nearest_neighbours(sparse.csr_array(ratings), k).digest() == dense.digest()
    return dense


def test_nearest_neighbours_are_the_most_similar_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    ratings = rng.integers(1, 6, (40, 25)) * (rng.random((40, 25)) < 0.4) + 0.01 * rng.random((40, 25))
    network = both(ratings, 4)
    assert {(i, j) for i, j, _ in network.edges} == neighbours_pair_by_pair(ratings, 4)
    assert {weight for _, _, weight in network.edges} == {1.0}
    assert network.degree_counts.min() >= 4
    monkeypatch.setattr(similarity, "_BLOCK_ENTRIES", 130)  # three agents at a time
    assert both(ratings, 4).digest() == network.digest()


def test_of_equally_similar_agents_the_lower_number_is_nearer() -> None:
    network = both(np.ones((6, 2)), 2)
    assert network.edges == [
        (0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0), (0, 4, 1.0), (0, 5, 1.0),
        (1, 2, 1.0), (1, 3, 1.0), (1, 4, 1.0), (1, 5, 1.0),
    ]  # fmt: skip


@given(st.integers(0, 1000), st.integers(2, 12), st.data())
def test_everybody_has_at_least_k_neighbours(seed: int, agents: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, agents - 1))
    # Positive entries in one common column: everybody is similar to everybody, but little.
    ratings = np.random.default_rng(seed).integers(0, 3, (agents, 4)).astype(float)
    ratings[:, 0] += 1.0
    try:
        network = similarity.nearest_neighbours(ratings, k)
    except DisconnectedError:
        assert 2 * (k + 1) <= agents  # two groups have more than k agents each
        return
    assert network.degree_counts.min() >= k


@pytest.mark.parametrize(
    ("ratings", "k", "named"),
    [
        (np.ones((3, 2)), 0, "topology.neighbours = 0: must be a whole number from 1 to 2"),
        (np.ones((3, 2)), 3, "topology.neighbours = 3"),
        (np.ones((3, 2)), 1.5, "topology.neighbours = 1.5"),
        (np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), 1, "all ratings of agent 1 are missing"),
        (np.array([[1.0, np.inf], [1.0, 0.0]]), 1, "finite"),
    ],
)
def test_bad_input_for_nearest_neighbours(ratings: object, k: int, named: str) -> None:
    with pytest.raises(ParameterError) as caught:
        similarity.nearest_neighbours(ratings, k)  # type: ignore[arg-type]
    assert named in str(caught.value)


def test_joined_neighbours_are_the_nearest_where_these_hold_together() -> None:
    vectors = np.random.default_rng(2).normal(size=(30, 5))
    assert similarity.joined_neighbours(vectors, 6).digest() == similarity.nearest_neighbours(vectors, 6).digest()


def test_parts_are_joined_where_they_are_most_similar() -> None:
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    vectors = np.array([east, east + 0.2 * north, north, north + 0.1 * east])
    graph = similarity.joined_neighbours(vectors, 1)
    assert {(i, j) for i, j, _ in graph.edges} == {(0, 1), (2, 3), (1, 3)}


def test_zeros_have_neighbours_too() -> None:
    assert similarity.joined_neighbours(np.zeros((5, 3)), 2).agents == 5
