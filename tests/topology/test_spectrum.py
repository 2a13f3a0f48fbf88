"""Facts against closed forms, and the iterative ways against the dense ones."""

from __future__ import annotations

import numpy as np
import pytest

from topology import families, spectrum
from topology.layout import places
from topology.network import Network, from_edges


def weighted(network: Network, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    return from_edges(network.agents, [(i, j, rng.uniform(0.1, 2.0)) for i, j, _ in network.edges])


def test_closed_forms_of_a_ring() -> None:
    facts = spectrum.facts(families.build("ring", 7, 0))
    cosines = np.cos(2 * np.pi * np.arange(7) / 7)
    assert facts.algebraic_connectivity == pytest.approx(2 - 2 * cosines[1])
    assert facts.signed == spectrum.Extremes(pytest.approx(2 - 2 * cosines[1]), pytest.approx(2 - 2 * cosines[3]))
    assert facts.signless == spectrum.Extremes(pytest.approx(2 + 2 * cosines[3]), pytest.approx(4.0))
    assert facts.metropolis_gap == pytest.approx(1 - (1 + 2 * cosines[1]) / 3)
    assert facts.lazy_gap == pytest.approx((1 - cosines[1]) / 2)
    assert facts.diameter == (3, 3)
    assert not facts.bipartite
    assert facts.bridges == ()
    assert facts.cut_agents == ()


def test_closed_forms_of_complete_and_star() -> None:
    complete = spectrum.facts(families.build("complete", 6, 0))
    assert complete.signed == spectrum.Extremes(pytest.approx(6.0), pytest.approx(6.0))
    assert complete.signless == spectrum.Extremes(pytest.approx(4.0), pytest.approx(10.0))
    assert complete.metropolis_gap == pytest.approx(1.0)
    star = spectrum.facts(families.build("star", 6, 0))
    assert star.bipartite
    assert star.signed == spectrum.Extremes(pytest.approx(1.0), pytest.approx(6.0))
    assert star.signless == star.signed
    assert star.degrees == (1, pytest.approx(10 / 6), 5)
    assert star.cut_agents == (0,)
    assert star.bridges == ((0, 1), (0, 2), (0, 3), (0, 4), (0, 5))


def test_two_agents_and_one() -> None:
    two = spectrum.facts(from_edges(2, [(0, 1, 3.0)]))
    assert two.algebraic_connectivity == pytest.approx(6.0)
    assert two.signed == spectrum.Extremes(pytest.approx(2.0), pytest.approx(2.0))
    assert two.weighted_degrees == (3.0, 3.0)
    one = spectrum.facts(families.build("path", 1, 0))
    assert one.algebraic_connectivity is None
    assert one.weights is None
    assert one.metropolis_gap == one.lazy_gap == 1.0


def test_weights_count_where_they_should() -> None:
    network = weighted(families.build("erdos-renyi", 20, 1, probability=0.3), seed=2)
    facts = spectrum.facts(network)
    weights, adjacency = network.weights.toarray(), (network.weights.toarray() > 0).astype(float)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    assert facts.algebraic_connectivity == pytest.approx(np.linalg.eigvalsh(laplacian)[1])
    unweighted = np.linalg.eigvalsh(np.diag(adjacency.sum(axis=1)) - adjacency)
    assert facts.signed == spectrum.Extremes(pytest.approx(unweighted[1]), pytest.approx(unweighted[-1]))
    walk = np.sort(np.linalg.eigvals(weights / weights.sum(axis=1)[:, None]).real)
    assert facts.lazy_gap == pytest.approx((1 - walk[-2]) / 2)


def test_mixing_matrices_keep_the_average_or_the_rows() -> None:
    network = weighted(families.build("barabasi-albert", 30, 1, degree=2), seed=3)
    metropolis = spectrum.metropolis(network).toarray()
    np.testing.assert_allclose(metropolis, metropolis.T, atol=0)
    np.testing.assert_allclose(metropolis.sum(axis=0), 1.0, rtol=1e-12)
    assert metropolis.min() >= 0
    i, j, _ = network.edges[0]
    assert metropolis[i, j] == 1 / (1 + max(network.degree_counts[i], network.degree_counts[j]))
    lazy = spectrum.lazy_walk(network).toarray()
    np.testing.assert_allclose(lazy.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.diag(lazy), 0.5, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "agents", "parameters"),
    [
        ("ring", 301, {}),  # near-degenerate and not bipartite: iteration alone does not converge
        ("path", 200, {}),  # bipartite
        ("random-regular", 200, {"degree": 6}),
        ("barabasi-albert", 200, {"degree": 2}),  # unequal degrees
        ("star", 200, {}),
    ],
)
def test_large_networks_take_another_way_to_the_same_facts(
    kind: str, agents: int, parameters: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = weighted(families.build(kind, agents, 1, **parameters), seed=4)
    exact = spectrum.facts(network)
    monkeypatch.setattr(spectrum, "DENSE", 1)
    iterative = spectrum.facts(network)
    for one, other in (
        (iterative.algebraic_connectivity, exact.algebraic_connectivity),
        (iterative.signed.smallest_nonzero, exact.signed.smallest_nonzero),
        (iterative.signed.largest, exact.signed.largest),
        (iterative.signless.smallest_nonzero, exact.signless.smallest_nonzero),
        (iterative.signless.largest, exact.signless.largest),
        (iterative.metropolis_gap, exact.metropolis_gap),
        (iterative.lazy_gap, exact.lazy_gap),
    ):
        assert one == pytest.approx(other, rel=1e-6)
    assert iterative.diameter[0] <= exact.diameter[0] <= iterative.diameter[1]
    assert spectrum.facts(network) == iterative


@pytest.mark.thorough
def test_what_is_not_found_is_none_and_not_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "DENSE", 1)
    monkeypatch.setattr(spectrum, "_FACTORISED", 0)
    monkeypatch.setattr(spectrum, "_WEAK", 10)
    facts = spectrum.facts(families.build("ring", 2001, 0))
    assert facts.algebraic_connectivity is None
    assert facts.metropolis_gap is None
    assert facts.bridges is None
    assert facts.cut_agents is None


@pytest.mark.parametrize(
    ("kind", "agents"), [("path", 1), ("path", 2), ("ring", 9), ("star", 9), ("complete", 9), ("path", 120)]
)
def test_every_agent_has_a_place_of_its_own(kind: str, agents: int) -> None:
    at = places(families.build(kind, agents, 0))
    assert at.shape == (agents, 2)
    assert np.abs(at).max() <= 1.0 + 1e-12
    gaps = np.linalg.norm(at[:, None] - at[None], axis=2)[~np.eye(agents, dtype=bool)]
    assert agents == 1 or gaps.min() > 1e-3
    assert np.array_equal(at, places(families.build(kind, agents, 0)))


def test_a_ring_is_drawn_as_one_whatever_its_numbers() -> None:
    order = np.random.default_rng(1).permutation(8)
    network = from_edges(8, [(order[k], order[(k + 1) % 8]) for k in range(8)])
    at = places(network)
    lengths = [np.linalg.norm(at[i] - at[j]) for i, j, _ in network.edges]
    np.testing.assert_allclose(lengths, 2 * np.sin(np.pi / 8), rtol=1e-12)
