"""Families by name: what they are, that they repeat, and that a bad parameter is named with what is accepted."""

from __future__ import annotations

import sys
import types
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from topology import families
from topology.errors import DisconnectedError, ParameterError, TopologyError, UnknownKindError
from topology.network import Network, from_edges

EXAMPLES: dict[str, dict[str, Any]] = {
    "path": {},
    "ring": {},
    "torus": {},
    "complete": {},
    "star": {},
    "random-regular": {"degree": 4},
    "erdos-renyi": {"probability": 0.3},
    "watts-strogatz": {"degree": 4, "probability": 0.2},
    "barabasi-albert": {"degree": 2},
    "random-geometric": {"radius": 0.5},
}


def graph(network: Network) -> nx.Graph:
    made = nx.Graph()
    made.add_nodes_from(range(network.agents))
    made.add_weighted_edges_from(network.edges)
    return made


def test_every_kind_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(families.KINDS) == set(families.PARAMETERS)


@pytest.mark.parametrize("kind", families.KINDS)
def test_same_seed_same_graph_and_all_weights_are_1(kind: str) -> None:
    one = families.build(kind, 24, 3, **EXAMPLES[kind])
    assert one.agents == 24
    assert set(one.weights.data.tolist()) == {1.0}
    assert families.build(kind, 24, 3, **EXAMPLES[kind]).digest() == one.digest()
    digests = {families.build(kind, 24, seed, **EXAMPLES[kind]).digest() for seed in range(5)}
    assert (len(digests) == 1) == (not families.PARAMETERS[kind] or kind == "torus")


@pytest.mark.parametrize("kind", families.KINDS)
def test_no_global_random_state_is_read_or_moved(kind: str) -> None:
    import random

    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    first = families.build(kind, 24, 3, **EXAMPLES[kind]).digest()
    states = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    random.seed(2)
    assert families.build(kind, 24, 3, **EXAMPLES[kind]).digest() == first
    random.seed(1)
    assert states == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index,union-attr]  # noqa: NPY002


def test_deterministic_families_are_what_their_names_say() -> None:
    assert families.build("path", 4, 0).edges == [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)]
    assert families.build("ring", 4, 0).edges == [(0, 1, 1.0), (0, 3, 1.0), (1, 2, 1.0), (2, 3, 1.0)]
    assert families.build("star", 4, 0).edges == [(0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0)]
    assert len(families.build("complete", 6, 0).edges) == 15
    torus = families.build("torus", 12, 0)
    assert torus.neighbours(0) == (1, 3, 4, 8)  # 3 rows of 4
    assert families.build("torus", 12, 0, columns=3).neighbours(0) == (1, 2, 3, 9)
    assert set(torus.degree_counts.tolist()) == {4}


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(1, 39), st.integers(0, 1000))
def test_random_regular_is_regular_sparse_or_dense(agents: int, degree: int, seed: int) -> None:
    assume(degree < agents and agents * degree % 2 == 0 and (degree > 1 or agents == 2))
    try:
        network = families.build("random-regular", agents, seed, degree=degree)
    except DisconnectedError:
        assert degree == 2  # unions of rings: one ring alone is rare among many agents
        return
    assert set(network.degree_counts.tolist()) == {degree}


def test_watts_strogatz_without_rewiring_is_the_lattice() -> None:
    network = families.build("watts-strogatz", 10, 0, degree=4, probability=0.0)
    assert network.neighbours(0) == (1, 2, 8, 9)


def test_barabasi_albert_brings_degree_edges_with_each_agent() -> None:
    assert len(families.build("barabasi-albert", 50, 0, degree=3).edges) == 3 * 47


def test_a_sparse_random_graph_is_drawn_again_until_connected() -> None:
    """Of these graphs about one in ten is connected, so ten seeds in a row need retries (but with chance 1e-10)."""
    for seed in range(10):
        network = families.build("erdos-renyi", 30, seed, probability=0.1)
        assert nx.is_connected(graph(network))


def test_after_the_last_attempt_the_error_says_how_connected_the_best_was() -> None:
    with pytest.raises(
        DisconnectedError, match=r"none of 100 graphs .* the best had \d+ components, the largest of \d"
    ):
        families.build("erdos-renyi", 50, 1, probability=0.01)


@pytest.mark.parametrize(
    ("kind", "agents", "parameters", "named"),
    [
        ("random-regular", 5, {"degree": 3}, "topology.degree = 3: kind 'random-regular' needs agents * degree even"),
        ("random-regular", 5, {"degree": 5}, "topology.degree = 5: must be a whole number from 1 to 4"),
        ("random-regular", 5, {"degree": 2.0}, "topology.degree = 2.0"),
        ("random-regular", 5, {"degree": True}, "topology.degree = True"),
        ("random-regular", 5, {}, "topology.degree is missing"),
        ("watts-strogatz", 9, {"degree": 3, "probability": 0.1}, "topology.degree = 3: must be even"),
        ("watts-strogatz", 9, {"degree": 4, "probability": 1.5}, "topology.probability = 1.5: must be from 0 to 1"),
        ("erdos-renyi", 9, {"probability": 0}, "topology.probability = 0: must be above 0"),
        ("erdos-renyi", 9, {"probability": float("nan")}, "topology.probability = nan"),
        ("barabasi-albert", 9, {"degree": 9}, "topology.degree = 9: must be a whole number from 1 to 8"),
        ("random-geometric", 9, {"radius": -1.0}, "topology.radius = -1.0: must be above 0"),
        ("torus", 7, {}, "topology.agents = 7: kind 'torus' needs rows * columns agents"),
        ("torus", 12, {"rows": 5}, "topology.rows = 5: must divide the number of agents, 12"),
        ("torus", 12, {"rows": 2}, "topology.rows = 2: must be a whole number of at least 3"),
        ("torus", 12, {"rows": 6}, "topology.rows = 6, topology.columns = 2: must both be at least 3"),
        ("ring", 2, {}, "topology.agents = 2: must be a whole number of at least 3"),
        ("ring", 5, {"degree": 2}, "topology.degree = 2 has no meaning for kind 'ring'"),
        ("path", 0, {}, "topology.agents = 0"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value(
    kind: str, agents: int, parameters: dict[str, Any], named: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        families.build(kind, agents, 1, **parameters)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parameters_that_are_none_are_not_given() -> None:
    assert families.build("ring", 5, 1, degree=None, rows=None).digest() == families.build("ring", 5, 1).digest()


def test_an_unknown_kind_gets_the_nearest_known_one() -> None:
    with pytest.raises(UnknownKindError, match="did you mean 'erdos-renyi'"):
        families.build("erdos-reny", 5, 1)


def test_ones_own_function(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_graphs")
    module.chain = lambda agents, seed, degree=1: from_edges(agents, [(i, i + 1, degree) for i in range(agents - 1)])  # type: ignore[attr-defined]
    module.wrong = lambda agents, seed: [[0, 1], [1, 0]]  # type: ignore[attr-defined]
    module.short = lambda agents, seed: from_edges(2, [(0, 1)])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_graphs", module)
    assert families.build("my_graphs:chain", 3, 1, degree=2).edges == [(0, 1, 2.0), (1, 2, 2.0)]
    for name, message in (("wrong", "returned a list"), ("short", "2 agents where 3"), ("none", "cannot be imported")):
        with pytest.raises(UnknownKindError, match=message):
            families.build(f"my_graphs:{name}", 3, 1)


def test_every_error_is_a_topology_error() -> None:
    assert all(issubclass(error, TopologyError) for error in (ParameterError, UnknownKindError, DisconnectedError))
