"""Agents that join and leave: weights by hand, what is charged, and that a record tells all that happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_free.agent import Agent, Setting
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.personal.present import Present
from coordinator_free.attacks.likelihood_ratio import environment
from coordinator_free.attacks.worst_case import states
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.problem.graph_objective import optimum, relative_gap
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.reexecution import reexecute
from coordinator_free.twin.run import run_asynchronous
from topology.network import Network

WEIGHTS = np.array([1.0, 2.0, 5.0])


def test_weights_of_who_is_present_by_hand() -> None:
    present = Present(WEIGHTS, (3, 4, 9), (4, 9))
    assert present.mixing.tolist() == [1.0, 0.0, 0.0]
    present.arrived(2)
    assert present.mixing.tolist() == [1 / 6, 0.0, 5 / 6]
    present.arrived(1)
    assert present.mixing.tobytes() == (WEIGHTS / WEIGHTS.sum()).tobytes()
    present.restart()
    assert present.mixing.tolist() == [1.0, 0.0, 0.0]
    assert Present(WEIGHTS, (3, 4, 9), (3, 4, 9)).mixing.tolist() == [0.0, 0.0, 0.0]


def private(seed: int = 0, **learning: Any) -> Setting:
    """Agent 0 with five records and neighbours 3, 4, 9."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(-1, 1, (5, 4)), np.where(random.random(5) < 0.5, -1.0, 1.0)
    return Setting(
        agent=0,
        neighbours=(3, 4, 9),
        weights=WEIGHTS,
        problem=LocalProblem(x, y, LOGISTIC, 0.2),
        dimension=4,
        updates=6,
        learning={"mu": 1.5, "smoothness": 1.0, **learning},
        confidence=0.5,
        mechanism="gaussian",
        multipliers=np.full(6, 3.0),
        clip=0.7,
        secret=b"a secret of thirty-two bytes ...",
    )


def replaced(setting: Setting, seed: int) -> Setting:
    """The neighbouring data set: one record is another one, as long as records can be."""
    random, problem = np.random.default_rng(seed), setting.problem
    x, y = np.array(problem.x), np.array(problem.y)
    x[0], y[0] = 50.0 * random.normal(size=4), -y[0]
    return replace(setting, problem=LocalProblem(x, y, LOGISTIC, 0.2))


Speech = st.lists(st.lists(st.sampled_from([3, 4, 9]), max_size=3), min_size=6, max_size=6)


@settings(max_examples=60)
@given(heard=Speech, absent=st.sets(st.sampled_from([3, 4, 9])), start=st.sampled_from(["zero", "neighbours"]))
def test_no_step_moves_further_than_what_was_charged_whoever_is_present(
    heard: list[list[int]], absent: set[int], start: str
) -> None:
    setting = private(absent=sorted(absent), start=start)
    one, other = CoordinateDescent(setting), CoordinateDescent(replaced(setting, 1))
    whole = CoordinateDescent(private())
    said: dict[int, int] = {}
    random = np.random.default_rng(2)
    for index, speakers in enumerate(heard):
        charged = one.charge(index)
        assert charged == other.charge(index) == whole.charge(index), "the charge knows neither data nor who is there"
        assert charged is not None
        for j in speakers:
            vector = random.normal(size=4)
            for agent in (one, other):
                agent.receive(Release(j, said.get(j, 0), vector))
            said[j] = said.get(j, 0) + 1
        assert one.charge(index) == charged
        first, second = one.wake(), other.wake()
        assert first is not None
        assert second is not None
        # Both have the same noise, so that only the step is left between them; the sensitivity counts the grid.
        assert float(np.linalg.norm(first.vector - second.vector)) <= charged.sensitivity
        # Like the observer: from the same public state on.
        other.restore({"model": first.vector, "index": np.array([float(index)])}, index + 1)
        one.restore({"model": first.vector, "index": np.array([float(index)])}, index + 1)


def test_a_charge_is_that_of_the_step_that_is_taken() -> None:
    """At the worst record the step moves by the whole sensitivity: charging less would be a wrong epsilon."""
    setting = private(absent=[3, 4, 9])
    far = np.zeros((5, 4))
    far[0, 0] = 1e6
    problems = [LocalProblem(far, np.array([sign, 1, 1, 1, 1.0]), LOGISTIC, 0.2) for sign in (1.0, -1.0)]
    vectors = []
    for problem in problems:
        said = CoordinateDescent(replace(setting, problem=problem)).wake()
        assert said is not None
        vectors.append(said.vector)
    charged = CoordinateDescent(setting).charge(0)
    assert charged is not None
    assert float(np.linalg.norm(vectors[0] - vectors[1])) == pytest.approx(charged.sensitivity, abs=4 * GRID)


@pytest.fixture
def crowd(
    regular: Callable[..., Network], problems: Callable[..., list[LocalProblem]], team: Callable[..., list[Agent]]
) -> Callable[..., tuple[Network, list[LocalProblem], Callable[[], list[Agent]]]]:
    """Twelve agents, of whom those in ``joins`` are not there at the start."""

    def build(joins: dict[int, float], start: str = "zero") -> Any:
        network, own = regular(12, 4), problems(12, 3, LOGISTIC)

        def agents() -> list[Agent]:
            made = []
            for i in range(12):
                absent = [j for j in network.neighbours(i) if j in joins]
                learning = {"mu": 1.0, "absent": absent, "start": start if i in joins else "zero"}
                made.append(team("coordinate-descent", network, own, updates=150, learning=learning)[i])
            return made

        return network, own, agents

    return build


@pytest.mark.parametrize("start", ["zero", "neighbours"])
def test_who_joined_late_ends_at_the_optimum_of_all_and_the_record_tells_all(crowd: Any, start: str) -> None:
    joins = {1: 10.0, 5: 12.5, 6: 12.5, 11: 30.0}
    network, own, agents = crowd(joins, start)
    told = run_asynchronous(agents(), network, rate=1.0, seed=4, joins=joins)
    first = {i: min(t for t, r in zip(told.times, told.releases, strict=True) if r.sender == i) for i in range(12)}
    assert all(first[i] > at for i, at in joins.items())
    last: dict[int, FloatArray] = {release.sender: release.vector for release in told.releases}
    confidences = np.array([max(p.records / max(q.records for q in own), 0.01) for p in own])
    models = np.stack([last[i] for i in range(12)])
    assert relative_gap(network, own, confidences, 1.0, models, optimum(network, own, confidences, 1.0)) < 1e-3
    heard = {(r.sender, r.index): r for r in told.releases}
    for i, agent in enumerate(agents()):
        said = [r for r in told.releases if r.sender == i]
        assert reexecute(agent, heard, said) is None
        # An agent that believes all to be there from the start says something else, if a neighbour of it joined.
        absent = [j for j in network.neighbours(i) if j in joins]
        if absent and i not in joins:
            plain = crowd({})[2]()[i]
            assert reexecute(plain, heard, said) is not None


def test_who_leaves_says_nothing_more_and_its_last_model_stays(crowd: Any) -> None:
    network, _, agents = crowd({})
    told = run_asynchronous(agents(), network, rate=1.0, seed=4, leaves={2: 20.0})
    times = [t for t, r in zip(told.times, told.releases, strict=True) if r.sender == 2]
    assert 0 < len(times) < 150
    assert max(times) < 20.0
    assert {sum(r.sender == i for r in told.releases) for i in range(12) if i != 2} == {150}
    heard = {(r.sender, r.index): r for r in told.releases}
    for i, agent in enumerate(agents()):
        assert reexecute(agent, heard, [r for r in told.releases if r.sender == i]) is None


def test_an_attacker_computes_the_same_weights_and_the_same_start() -> None:
    setting = private(absent=[4], start="neighbours")
    agent = CoordinateDescent(setting)
    random = np.random.default_rng(3)
    heard = {(j, k): Release(j, k, random.normal(size=4)) for j in (3, 4, 9) for k in range(2)}
    said = []
    for used in ([(3, 0), (9, 0)], [(4, 0)], [(3, 1), (9, 1)]):
        for key in used:
            agent.receive(heard[key])
        release = agent.wake()
        assert release is not None
        said.append(release)
    known = environment(setting, said, heard, [agent.charge(k) for k in range(3)])
    by_hand = (1.0 * heard[3, 0].vector + 5.0 * heard[9, 0].vector) / 6.0
    assert known.centres[0] == pytest.approx(by_hand, abs=1e-15)
    assert states(known, np.stack([r.vector for r in said]))[0] == pytest.approx(by_hand, abs=1e-15)
    everybody = (1.0 * heard[3, 0].vector + 2.0 * heard[4, 0].vector + 5.0 * heard[9, 0].vector) / 8.0
    assert known.centres[1] == pytest.approx(everybody, abs=1e-15)
