"""Gossip ADMM: the same optimum as coordinate descent, addressed releases, re-execution."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.problem.graph_objective import optimum, relative_gap
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.settings import SettingError
from coordinator_free.twin.reexecution import reexecute
from coordinator_free.twin.run import run_asynchronous


@pytest.mark.thorough
@pytest.mark.parametrize(("judge", "start"), [(LOGISTIC, "local"), (SQUARED, "zero")], ids=["logistic", "squared"])
def test_it_reaches_the_optimum_of_the_same_objective(judge, start: str, regular, problems, team) -> None:
    network = regular(6, 3)
    made = problems(6, 3, judge, empty=True)
    agents = team("gossip-admm", network, made, updates=900, learning={"mu": 1.0, "start": start, "local_steps": 5})
    confidences = np.maximum([p.records / max(q.records for q in made) for p in made], 0.01)
    random = np.random.default_rng(0)
    run_asynchronous(agents, network, rate=1.0, seed=1, delay=lambda r, j: float(random.exponential(0.2)))
    reached = np.stack([agent.model for agent in agents])
    best = optimum(network, made, confidences, 1.0)
    assert relative_gap(network, made, confidences, 1.0, reached, best) < 1e-8
    assert np.abs(reached - best).max() < 1e-4


def test_both_ends_of_an_edge_agree_after_every_exchange(regular, problems, team) -> None:
    network = regular(8, 3)
    agents = team("gossip-admm", network, problems(8, 3, SQUARED), updates=200, learning={"mu": 1.0})
    said = run_asynchronous(agents, network, rate=1.0, seed=1).releases
    assert all(release.recipient in network.neighbours(release.sender) for release in said)
    compared = 0
    for i, j, _ in network.edges:
        one, two = agents[i], agents[j]
        k, m = one._place[j], two._place[i]
        if one._exchange[k] == two._exchange[m] > 0:
            compared += 1
            assert one._own_mean[k] == pytest.approx(two._other_mean[m], abs=1e-14)
            assert one._own_dual[k] == pytest.approx(-two._other_dual[m], abs=1e-12)
    assert compared > 6


def test_it_is_executed_again_bit_for_bit(regular, problems, team) -> None:
    network = regular(8, 3)
    made = problems(8, 3, SQUARED)
    random = np.random.default_rng(0)

    def agents():
        return team("gossip-admm", network, made, updates=60, learning={"mu": 1.0})

    said = run_asynchronous(
        agents(), network, rate=1.0, seed=1, delay=lambda r, j: float(random.exponential(0.5))
    ).releases
    everything = {(release.sender, release.index): release for release in said}
    for i, agent in enumerate(agents()):
        assert reexecute(agent, everything, [release for release in said if release.sender == i]) is None


def test_an_agent_whose_neighbours_all_owe_an_answer_still_finishes(regular, problems, team) -> None:
    network = regular(8, 3)
    agent = team("gossip-admm", network, problems(8, 3, SQUARED), updates=10, learning={"mu": 1.0})[0]
    said = [agent.wake() for _ in range(10)]
    assert {release.recipient for release in said[:3]} == set(network.neighbours(0))
    assert agent.finished
    first = {release.recipient: release.vector.tobytes() for release in said[:3]}
    assert all(release.vector.tobytes() == first[release.recipient] for release in said[3:])


def test_private_runs_are_refused(regular, problems, team) -> None:
    with pytest.raises(SettingError, match='gossip-admm accepts only "none"'):
        team(
            "gossip-admm",
            regular(8, 3),
            problems(8, 3, SQUARED),
            updates=0,
            learning={"mu": 1.0},
            mechanism="gaussian",
            clip=1.0,
        )
