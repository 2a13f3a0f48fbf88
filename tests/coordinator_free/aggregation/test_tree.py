"""Sums over a tree: the tree itself, what agents wait for, what masks hide, and what a changed message does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.agents.averages.arrangement import AggregationError, weights
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.aggregation.masked_tree import MaskedTree
from coordinator_free.aggregation.masking import GRID, MaskError
from coordinator_free.aggregation.tree import ROOT, Tree, own, spanning
from coordinator_free.release import Release
from coordinator_free.twin.reexecution import reexecute
from tests.helpers.averages_networks import problems, run, settings
from topology import distance, families
from topology.network import Network, from_edges

SIZES = [20, 40, 30, 60, 10, 25, 5]
PRIVATE = {"mechanism": "gaussian", "clip": 1.0, "multipliers": np.full(3, 2.0)}
MASKED = {"aggregation": "masked-tree", "observer": "sum", "colluders": 1}


@st.composite
def connected(draw: st.DrawFn) -> Network:
    """A random tree with more edges thrown in."""
    agents = draw(st.integers(2, 24))
    edges = {(draw(st.integers(0, i - 1)), i) for i in range(1, agents)}
    more = st.tuples(st.integers(0, agents - 1), st.integers(0, agents - 1))
    edges |= {(min(pair), max(pair)) for pair in draw(st.lists(more, max_size=20)) if pair[0] != pair[1]}
    return from_edges(agents, sorted(edges))


def heights(parents: Sequence[int]) -> list[int]:
    """Hops of each agent to the root, along parents."""
    found = []
    for agent in range(len(parents)):
        hops, at = 0, agent
        while parents[at] != ROOT:
            hops, at = hops + 1, parents[at]
            assert hops < len(parents), "a circle"
        found.append(hops)
    return found


@given(connected())
def test_the_tree_spans_the_graph_with_the_least_height(network: Network) -> None:
    parents = spanning(network)
    assert parents.count(ROOT) == 1
    for agent, parent in enumerate(parents):
        assert parent == ROOT or parent in network.neighbours(agent)
    eccentricities = [int(distance.depths(network.weights, i).max()) for i in range(network.agents)]
    assert max(heights(parents)) == min(eccentricities)


def test_a_ring_too_large_for_all_searches_has_a_tree_within_twice_the_least_height() -> None:
    ring = families.build("ring", 400, 0)
    root = distance.centre(ring.weights, searches=3)
    assert int(distance.depths(ring.weights, root).max()) <= 2 * 200


@given(connected(), st.integers(0, 2**31))
def test_the_sum_is_that_of_all_vectors_and_every_agent_has_it(network: Network, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors, parents = random.normal(size=(network.agents, 3)), spanning(network)
    shares = weights(random.integers(1, 9, network.agents).tolist(), "size")
    agents = [Tree(i, parents, 3) for i in range(network.agents)]
    order = np.argsort(heights(parents))
    for i in order[::-1]:
        assert agents[i].place.is_here(0)
        message = agents[i].send_up(float(shares[i]), vectors[i])
        assert np.array_equal(own(message), vectors[i])
        if parents[i] != ROOT:
            agents[parents[i]].place.receive(0, int(i), message)
    for i in order:
        message = agents[i].send_down()
        for child in agents[i].place.children:
            agents[child].place.receive(1, int(i), message)
    for agent in agents:
        np.testing.assert_allclose(agent.average, shares @ vectors, rtol=1e-12, atol=1e-14)
        assert np.array_equal(agent.average, agents[0].average)


# --- agents in the twin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ring", "complete", "star"])
@pytest.mark.parametrize("way", [{"aggregation": "tree"}, MASKED])
def test_an_average_takes_two_releases_of_each_agent(kind: str, way: dict[str, object]) -> None:
    graph, local = families.build(kind, 7, 0), problems(7, SIZES)
    if kind == "star" and way is MASKED:
        with pytest.raises(MaskError, match=r"privacy.colluders = 1: taking 1 agents away cuts the mask graph"):
            settings(GradientDescent, graph, local, 3, **way)
        return
    agents = [GradientDescent(s) for s in settings(GradientDescent, graph, local, 3, **PRIVATE, **way)]
    releases = run(agents, graph).releases
    keys = len(agents) if way is MASKED else 0
    assert len(releases) == keys + 2 * 3 * len(agents)
    assert all(release.index == release.round for release in releases)


def test_over_a_tree_agents_learn_what_a_flood_teaches_them_from_the_same_noise() -> None:
    graph, local = families.build("ring", 7, 0), problems(7, SIZES)
    flooded, gathered = (
        [GradientDescent(s) for s in settings(GradientDescent, graph, local, 3, aggregation=way, **PRIVATE)]
        for way in ("flood", "tree")
    )
    run(flooded, graph)
    run(gathered, graph)
    # Noise is drawn by stage from the secret: each agent draws the same numbers in both, under the same charge.
    for one, other in zip(flooded, gathered, strict=True):
        np.testing.assert_allclose(one.model, other.model, rtol=1e-9)
        flood_charges = [c for i in range(one._total_rounds) if (c := one.charge(i)) is not None]
        tree_charges = [c for i in range(other._total_rounds) if (c := other.charge(i)) is not None]
        assert [(c.sensitivity, c.scale) for c in flood_charges] == [(c.sensitivity, c.scale) for c in tree_charges]


def test_partial_sums_tell_each_agents_charged_vector_and_no_more() -> None:
    """The observer's own arithmetic: a partial sum without those of the children is the share of the charged vector."""
    graph, local = families.build("ring", 7, 0), problems(7, SIZES)
    made = settings(GradientDescent, graph, local, 3, aggregation="tree", **PRIVATE)
    agents = [GradientDescent(s) for s in made]
    releases = {(r.sender, r.index): r for r in run(agents, graph).releases}
    parents, shares = spanning(graph), weights(SIZES, "size")
    for agent in range(7):
        for stage in range(3):
            vector = releases[agent, 2 * stage].vector
            below = sum(releases[j, 2 * stage].vector[3:] for j in range(7) if parents[j] == agent)
            np.testing.assert_allclose(vector[3:] - below, shares[agent] * vector[:3], atol=1e-12)
            assert agents[agent].charge(2 * stage) is not None
            assert np.array_equal(agents[agent].noised(2 * stage, vector), vector[:3])
            assert agents[agent].charge(2 * stage + 1) is None
            assert not releases[agent, 2 * stage + 1].vector[:3].any()


def test_noise_in_a_message_has_the_charged_deviation() -> None:
    """600 numbers of each of 7 agents: a tenth too little or too much is seen but with probability 1e-9."""
    graph, local = families.build("ring", 7, 0), problems(7, SIZES, dimension=600)
    given_ = PRIVATE | {"multipliers": np.array([30.0])}
    agents = [GradientDescent(s) for s in settings(GradientDescent, graph, local, 1, aggregation="tree", **given_)]
    noise = []
    for release in run(agents, graph).releases:
        if release.index == 0:
            exact = local[release.sender].clipped_gradient(np.zeros(600), 1.0, "l2")
            charge = agents[release.sender].charge(0)
            assert charge is not None
            assert charge.sensitivity == pytest.approx(2.0 / SIZES[release.sender], rel=0.01)
            noise.append((own(release.vector) - exact) / charge.scale)
    assert np.std(noise) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("way", [{"aggregation": "tree"}, MASKED])
def test_a_recorded_run_is_executed_again_bit_for_bit_and_after_restarts(way: dict[str, object]) -> None:
    graph, local = families.build("ring", 7, 0), problems(7, SIZES)
    made = settings(GradientDescent, graph, local, 3, momentum=0.5, **PRIVATE, **way)
    releases = run([GradientDescent(s) for s in made], graph).releases
    everything = {(r.sender, r.index): r for r in releases}
    first = 1 if way is MASKED else 0
    for i, setting in enumerate(made):
        recorded = sorted((r for r in releases if r.sender == i), key=lambda r: r.index)
        assert reexecute(GradientDescent(setting), everything, recorded) is None
        for cut in range(first, len(recorded) - 1):
            agent, fresh = GradientDescent(setting), GradientDescent(setting)
            _lead(agent, recorded[: cut + 1], everything)
            fresh.restore(agent.snapshot(), cut + 1)
            again = _next(fresh, recorded[cut + 1], everything)
            assert again is not None
            assert again.same_as(recorded[cut + 1])


def _lead(agent: GradientDescent, recorded: Sequence[Release], everything: dict[tuple[int, int], Release]) -> None:
    opening = agent.start()
    for release in recorded[int(opening is not None) :]:
        assert _next(agent, release, everything) is not None


def _next(agent: GradientDescent, place: Release, everything: dict[tuple[int, int], Release]) -> Release | None:
    for key in place.used:
        if key[0] != place.sender:
            agent.receive(everything[key])
    return agent.wake()


# --- masks -----------------------------------------------------------------------------------------------------------


def test_a_masked_sum_over_a_tree_is_exact_on_the_grid() -> None:
    graph, local = families.build("complete", 7, 0), problems(7, SIZES)
    agents = [GradientDescent(s) for s in settings(GradientDescent, graph, local, 4, **MASKED)]
    run(agents, graph)
    theta = np.zeros(3)
    for _ in range(4):
        parts = [s * p.gradient(theta) for s, p in zip(weights(SIZES, "size"), local, strict=True)]
        theta = theta - np.sum([np.rint(part / GRID) * GRID for part in parts], axis=0)
    for agent in agents:
        assert np.array_equal(agent.model, theta)


def test_what_an_observer_has_of_one_agent_is_uniform() -> None:
    """Bits of the words of 7 agents in 40 sums of 50 numbers: a share of ones apart from 1/2 by 1% has p < 1e-30."""
    graph, local = families.build("ring", 7, 0), problems(7, SIZES, dimension=50)
    made = settings(GradientDescent, graph, local, 40, **MASKED)
    releases = {(r.sender, r.index): r.vector for r in run([GradientDescent(s) for s in made], graph).releases}
    listener = GradientDescent(made[0]).aggregator()
    assert isinstance(listener, MaskedTree)
    left = []
    for stage in range(40):
        up = {agent: releases[agent, 1 + 2 * stage] for agent in range(7)}
        total, alone = listener.overhear(up)
        parents = spanning(graph)
        assert np.array_equal(total, listener.overhear(up)[0])
        assert np.array_equal(releases[parents.index(ROOT), 2 + 2 * stage], up[parents.index(ROOT)])
        left.append([(np.rint(alone[agent] / GRID)).astype(np.int64) for agent in range(7)])
    # float64 keeps the upper 53 bits of a word: of those the upper 16 are looked at.
    upper = np.array(left).astype(np.uint64) >> np.uint64(48)
    ones = np.unpackbits(upper.astype("<u2").view(np.uint8)).mean()
    assert ones == pytest.approx(0.5, abs=0.01)


def test_a_message_that_a_neighbour_changed_makes_no_average() -> None:
    graph, local = families.build("ring", 7, 0), problems(7, SIZES)
    made = settings(GradientDescent, graph, local, 1, **PRIVATE | {"multipliers": np.array([2.0])}, **MASKED)
    releases = {(r.sender, r.index): r for r in run([GradientDescent(s) for s in made], graph).releases}
    parents = spanning(graph)
    agent = next(i for i in range(7) if parents[i] != ROOT)
    victim = GradientDescent(made[agent])
    recorded = [releases[agent, index] for index in range(2)]
    _lead(victim, recorded, releases)
    lie = releases[parents[agent], 2]
    changed = np.array(lie.vector)
    changed[1] = 2.0**31  # the upper half of the first word
    victim.receive(Release(lie.sender, 2, changed, lie.used, 2))
    with pytest.raises(AggregationError, match="more than honest agents can make"):
        victim.wake()


def test_what_a_tree_needs_nothing_of_is_passed_over() -> None:
    graph, local = families.build("ring", 7, 0), problems(7, SIZES)
    made = settings(GradientDescent, graph, local, 1, aggregation="tree")
    parents = spanning(graph)
    leaf = next(i for i in range(7) if i not in parents)
    agent = GradientDescent(made[leaf])
    first = agent.wake()
    assert first is not None
    other = next(j for j in graph.neighbours(leaf) if j != parents[leaf])
    agent.receive(Release(other, 1, np.full(6, 9.0), (), 1))
    agent.receive(Release(parents[leaf], 3, np.full(6, 9.0), (), 3))
    assert agent.wake() is None
    agent.receive(Release(parents[leaf], 1, np.full(6, 1.0), (), 1))
    again = agent.wake()
    assert again is not None
    assert again.used == ((parents[leaf], 1), (leaf, 0))
