"""Graph smoothing without a matrix of agents by agents: it agrees with the dense path, and nothing makes it endless."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from coordinator_free.agents.personal import graph_smoothing, graph_smoothing_twice, large_smoothing
from coordinator_free.agents.personal.large_smoothing import Heat, LargeSmoothing
from coordinator_free.agents.personal.smoothing import Smoothed, grid_of, kernel, smooth
from coordinator_free.problem.losses import SQUARED
from coordinator_free.release import FloatArray
from coordinator_free.twin.run import run_asynchronous
from topology.network import Network


def drawn(agents: int, seed: int) -> tuple[Network, FloatArray, FloatArray]:
    """A connected graph with weights, releases of four coordinates, and variances that differ by up to 10,000."""
    random = np.random.default_rng(seed)
    graph = nx.connected_watts_strogatz_graph(agents, 4, 0.4, seed=seed)
    upper = sparse.triu(nx.to_scipy_sparse_array(graph, dtype=np.float64), k=1).tocsr()
    upper.data = random.uniform(0.2, 2.0, upper.nnz)
    network = Network(sparse.csr_array(upper + upper.T))
    signal = kernel(network) @ random.normal(size=(agents, 4)) * np.array([2.0, 1.0, 0.3, 0.0])
    variances = 10.0 ** random.uniform(-2.0, 2.0, agents)
    return network, signal + np.sqrt(variances)[:, None] * random.normal(size=signal.shape), variances


def agree(large: LargeSmoothing, dense: Smoothed, place: int) -> None:
    """Up to a part in a million of the posterior's deviation."""
    ours, theirs = large.at(place), dense.at(place)
    deviation = np.sqrt(theirs.variance)
    assert np.abs((ours.mean - theirs.mean) / deviation).max() < 1e-6
    assert np.abs((ours.with_own - theirs.with_own) / deviation).max() < 1e-6
    assert ours.variance == pytest.approx(theirs.variance, rel=1e-6)


class Given(LargeSmoothing):
    """With the priors that the matrices found."""

    def _evidence(self, grid: FloatArray) -> FloatArray:
        dense = smooth(self._heat @ np.eye(self._agents), self._releases, self._variances)
        return np.equal.outer(grid, dense.gammas).astype(float)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(agents=st.integers(8, 50), seed=st.integers(0, 10_000), odd=st.sampled_from(["none", "silent", "made up"]))
def test_the_posterior_is_that_of_the_matrices(agents: int, seed: int, odd: str) -> None:
    """Also where one release says nothing (a variance of 10^6), or claims to be exact."""
    network, releases, variances = drawn(agents, seed)
    if odd != "none":
        variances[3] = {"silent": 1e6, "made up": 1e-7}[odd]
    dense = smooth(kernel(network), releases, variances)
    large = Given(network, np.arange(agents), releases, variances, per_coordinate=False)
    for place in (0, 3, agents - 1):
        agree(large, dense, place)


@pytest.mark.parametrize("per_coordinate", [False, True])
def test_evidence_chooses_the_same_priors_among_some_hundred_agents(per_coordinate: bool) -> None:
    """The graph's other agents have released nothing."""
    network, releases, variances = drawn(200, 5)
    known = np.flatnonzero(np.arange(200) % 5)
    covariance, told = kernel(network)[np.ix_(known, known)], (releases[known], variances[known])
    dense = smooth(covariance, *told, per_coordinate=per_coordinate)
    large = LargeSmoothing(network, known, *told, per_coordinate=per_coordinate)
    if not per_coordinate:
        assert (large.gammas == dense.gammas).all()
        agree(large, dense, 17)
        return
    assert large.gammas == pytest.approx(dense.gammas, rel=0.1)
    apart = (large.at(17).mean - dense.mean[17]) / np.sqrt(dense.variance[17])
    assert np.abs(apart).max() < 0.02


def test_the_evidence_is_that_of_the_matrices_but_for_two_hundredths_of_the_determinants_logarithm() -> None:
    network, releases, variances = drawn(150, 6)
    large = LargeSmoothing(network, np.arange(150), releases, variances, per_coordinate=False)
    grid, roots = grid_of(releases, variances), 1.0 / np.sqrt(variances)[:, None]
    values, vectors = np.linalg.eigh(roots * kernel(network) * roots.T)
    bent = 1.0 + grid[:, None] * values
    forms = (1.0 / bent) @ np.square(vectors.T @ (roots * releases))
    logarithms = np.log(bent).sum(axis=1)
    found = -2.0 * large._evidence(grid) - forms
    assert np.ptp(found, axis=1).max() < 1e-6, "the same for all coordinates: their quadratic forms are right"
    assert found[:, 0] == pytest.approx(logarithms, rel=0.02)


def test_the_kernel_has_a_unit_diagonal_and_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    network = drawn(40, 1)[0]
    assert Heat(network) @ np.eye(40) == pytest.approx(kernel(network), abs=1e-12)
    assert Heat(network, 0.5) @ np.eye(40) == pytest.approx(kernel(network, 0.5), abs=1e-12)
    monkeypatch.setattr(large_smoothing, "_NUMBERS", 40 * 7)  # blocks of seven vectors
    assert Heat(network) @ np.eye(40) == pytest.approx(kernel(network), abs=1e-12)
    monkeypatch.setattr(large_smoothing, "EXACT", 39)
    # 40 relative errors of 4%: five deviations.
    assert np.diagonal(Heat(network) @ np.eye(40)) == pytest.approx(np.ones(40), rel=0.22)


def test_made_up_releases_hold_no_receiver_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the agents claim to be exact up to 2^-20, and contradict each other: the products stay below a bound."""
    network, releases, variances = drawn(200, 3)
    variances[::2] = 2.0**-40
    releases[::2] *= 1e6
    products, plain = [0], Heat.__matmul__

    def counted(self: Heat, block: FloatArray) -> FloatArray:
        products[0] += 1
        return plain(self, block)

    monkeypatch.setattr(Heat, "__matmul__", counted)
    found = LargeSmoothing(network, np.arange(200), releases, variances, per_coordinate=True).at(3)
    assert products[0] <= 2 * large_smoothing._STEPS + 10
    assert all(np.isfinite(part).all() for part in (found.mean, found.variance, found.with_own))


@pytest.mark.parametrize("name", ["graph-smoothing", "graph-smoothing-2r"])
def test_agents_of_a_large_run_find_the_models_of_a_small_one(
    name: str, monkeypatch: pytest.MonkeyPatch, regular, problems, team
) -> None:
    network, made = regular(12, 3), problems(12, 3, SQUARED)
    facts = {"agents": 12, "edges": [list(edge) for edge in network.edges], "relays": 2, "finish": True}
    private = {"mechanism": "gaussian", "multipliers": np.array([2.0]), "clip": 1.0, "row_bound": 2.0}
    if name == "graph-smoothing-2r":
        facts |= {"second_moment": (np.eye(3) / 3).tolist(), "finish_mu": 2.0, "prior": "shared"}
        private["multipliers"] = np.array([2.0, 3.0])

    def models() -> FloatArray:
        graph_smoothing._smoothing.cache_clear()
        graph_smoothing_twice._estimated.cache_clear()
        agents = team(name, network, made, updates=60, learning=facts, **private)
        run_asynchronous(agents, network, rate=1.0, seed=0)
        return np.stack([np.concatenate((agent.model, agent.finish())) for agent in agents])

    small = models()
    monkeypatch.setattr(large_smoothing, "DENSE", 11)
    monkeypatch.setattr(large_smoothing, "_SIGNS", 200)  # so few agents leave the determinant to chance otherwise
    assert models() == pytest.approx(small, abs=1e-4)
    graph_smoothing._smoothing.cache_clear()
    graph_smoothing_twice._estimated.cache_clear()
