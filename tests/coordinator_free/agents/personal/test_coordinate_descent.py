"""Coordinate descent: golden numbers, convergence, charges, and that its noise is what was charged."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest
from scipy import sparse

from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.registry import AlgorithmError, algorithm
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.problem.graph_objective import graph_objective, optimum, relative_gap
from coordinator_free.problem.losses import LOGISTIC, SQUARED, loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.settings import SettingError
from coordinator_free.twin.run import run_asynchronous
from topology.network import Network


@pytest.mark.parametrize("case", range(4))
def test_golden(case: int, golden, team) -> None:
    data = golden("cd.json")
    one = data["cases"][case]
    network = Network(sparse.csr_array(np.array(data["weights"])))
    judge = loss(one["loss"])
    problems = [
        LocalProblem(np.array(x), np.array(y, dtype=float), judge, 1 / len(y))
        for x, y in zip(data["x"], data["y"], strict=True)
    ]
    confidences = np.array([len(y) for y in data["y"]]) / max(len(y) for y in data["y"])
    agents = [
        team(
            "coordinate-descent",
            network,
            problems,
            updates=one["wakes"].count(i),
            learning={"mu": one["mu"], "smoothness": problems[i].smoothness_bound(data["row_bound"])},
        )[i]
        for i in range(3)
    ]
    ticks = {i: [t + 1.0 for t, awake in enumerate(one["wakes"]) if awake == i] for i in range(3)}
    clocks = [chain(np.diff([0.0, *ticks[i]]).tolist(), repeat(1.0)) for i in range(3)]
    models = np.array(one["start"], dtype=float)
    objectives = [graph_objective(network, problems, confidences, one["mu"], models)]

    def listen(_: float, release) -> None:
        models[release.sender] = release.vector
        objectives.append(graph_objective(network, problems, confidences, one["mu"], models))

    said = run_asynchronous(agents, network, rate=1.0, seed=0, clocks=clocks, on_release=listen).releases
    assert [release.sender for release in said] == one["wakes"]
    assert np.abs(np.stack([release.vector for release in said]) - np.array(one["models"])).max() < 1e-12
    assert np.abs(np.array(objectives) - np.array(one["objective"])).max() < 1e-12


@pytest.mark.parametrize("judge", [LOGISTIC, SQUARED], ids=["logistic", "squared"])
def test_without_noise_it_reaches_the_optimum(judge, regular, problems, team) -> None:
    network = regular(12, 4)
    made = problems(12, 3, judge, empty=True)
    agents = team("coordinate-descent", network, made, updates=300, learning={"mu": 2.0})
    confidences = np.maximum([problem.records / max(p.records for p in made) for problem in made], 0.01)
    run_asynchronous(agents, network, rate=1.0, seed=1)
    models = np.stack([agent.model for agent in agents])
    assert relative_gap(network, made, confidences, 2.0, models) < 1e-9


def test_the_free_finish_minimises_the_agents_own_block(regular, problems, team) -> None:
    network = regular(10, 3)
    made = problems(10, 3, SQUARED)
    learning = {"mu": 1.0, "finish": True, "finish_mu": 1.0}
    agents = team("coordinate-descent", network, made, updates=400, learning=learning)
    finishes = run_asynchronous(agents, network, rate=1.0, seed=1).finishes
    confidences = np.array([problem.records for problem in made]) / max(problem.records for problem in made)
    # At the optimum every block is at its own minimum already.
    assert np.stack(finishes) == pytest.approx(optimum(network, made, confidences, 1.0), abs=1e-6)


def private(mechanism: str, clip: float, multiplier: float, team, network, made, updates: int = 40):
    return team(
        "coordinate-descent",
        network,
        made,
        updates=updates,
        learning={"mu": 1.0, "smoothness": 2.0},
        mechanism=mechanism,
        multipliers=np.full(updates, multiplier),
        clip=clip,
    )


@pytest.mark.parametrize(("mechanism", "norm"), [("laplace", "l1"), ("gaussian", "l2")])
def test_the_charge_is_the_sensitivity_of_the_update(mechanism: str, norm: str, regular, problems, team) -> None:
    network = regular(6, 3)
    made = problems(6, 3, LOGISTIC, empty=True)
    agents = private(mechanism, 0.5, 3.0, team, network, made)
    largest = max(problem.records for problem in made)
    assert agents[0].charge(0) is None  # nothing of any data is in it
    for agent, problem in list(zip(agents, made, strict=True))[1:]:
        confidence = problem.records / largest
        step = 1.0 / (1.0 + confidence * 2.0)
        exact = step * confidence * 2 * 0.5 / problem.records
        rounding = 3 * GRID if norm == "l1" else np.sqrt(3) * GRID
        charge = agent.charge(0)
        assert charge.norm == norm
        assert charge.sensitivity >= exact + rounding
        assert charge.sensitivity == pytest.approx(exact + rounding, rel=1e-5)
        assert charge.multiplier == pytest.approx(3.0)


@pytest.mark.thorough
@pytest.mark.parametrize(("mechanism", "deviation"), [("laplace", np.sqrt(2.0)), ("gaussian", 1.0)])
def test_the_noise_in_a_release_is_the_noise_that_was_charged(
    mechanism: str, deviation: float, regular, problems, team
) -> None:
    """The noise of 6 agents x 100 releases x 40 coordinates, divided by the charged scale, has the law's deviation.

    Relative standard error of the deviation: at most 0.0072 (Laplace), so half the noise is 70 errors away; the bound
    is 6 errors, false alarm below 1e-8.
    """
    network = regular(6, 3)
    made = problems(6, 40, LOGISTIC)
    noisy = private(mechanism, 0.5, 2.0, team, network, made, updates=100)
    charges: list[float] = []
    heard: dict[tuple[int, int], np.ndarray] = {}
    ratios = []
    run = run_asynchronous(
        noisy, network, rate=1.0, seed=3, ledger=lambda release, charge: charges.append(charge.scale)
    )
    for release, scale in zip(run.releases, charges, strict=True):
        quiet = private(mechanism, 0.5, 2.0, team, network, made, updates=100)[release.sender]
        quiet._private = False
        own = heard.get((release.sender, release.index - 1))
        state = {} if own is None else {"model": own, "index": np.array([release.index - 1.0])}
        quiet.restore(state, release.index)
        quiet._models[:] = [
            max(((i, v) for (s, i), v in heard.items() if s == j), default=(0, np.zeros(40)), key=lambda pair: pair[0])[
                1
            ]
            for j in network.neighbours(release.sender)
        ]
        ratios.append((release.vector - quiet.wake().vector) / scale)
        heard[release.sender, release.index] = release.vector
    spread = float(np.sqrt(np.mean(np.square(ratios))))
    assert spread == pytest.approx(deviation, rel=6 * 0.0072)


def test_releases_sit_on_the_grid_and_differ_between_agents_and_indices(regular, problems, team) -> None:
    network = regular(6, 3)
    agents = private("gaussian", 0.5, 2.0, team, network, [problems(1, 3, LOGISTIC)[0]] * 6)
    said = run_asynchronous(agents, network, rate=1.0, seed=3).releases
    for release in said:
        assert (release.vector / GRID == np.rint(release.vector / GRID)).all()
    first = [release.vector.tobytes() for release in said if release.index == 0]
    assert len(set(first)) == len(first)


def test_a_wake_that_says_nothing_changes_nothing(regular, problems, team) -> None:
    network = regular(6, 3)
    agent = team("coordinate-descent", network, problems(6, 3, SQUARED), updates=1, learning={"mu": 1.0})[0]
    agent.wake()
    before = {name: value.tobytes() for name, value in agent.snapshot().items()}
    assert agent.finished
    assert agent.wake() is None
    assert {name: value.tobytes() for name, value in agent.snapshot().items()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"neighbours": (), "weights": np.empty(0)}, "no neighbours"),
        ({"mechanism": "gauss"}, "privacy.mechanism = 'gauss'"),
        ({"mechanism": "gaussian", "multipliers": np.ones(2), "clip": None}, "privacy.clip = None"),
        (
            {"mechanism": "gaussian", "multipliers": np.ones(1), "clip": 1.0},
            "1 noise multipliers for 2 charged releases",
        ),
        ({"mechanism": "gaussian", "multipliers": np.ones(2), "clip": 1.0, "secret": b""}, "no noise secret"),
        ({"dimension": 4}, "3 columns"),
        ({"updates": -1}, "clock.updates = -1"),
    ],
)
def test_bad_settings_are_refused(change: dict, message: str, regular, problems, team) -> None:
    network = regular(6, 3)
    good = team("coordinate-descent", network, problems(6, 3, SQUARED), updates=2, learning={"mu": 1.0})[0]._setting
    with pytest.raises(SettingError, match=message):
        CoordinateDescent(replace(good, **change))


def test_algorithms_by_name() -> None:
    assert algorithm("coordinate-descent") is CoordinateDescent
    assert algorithm("coordinator_free.agents.personal.coordinate_descent:CoordinateDescent") is CoordinateDescent
    with pytest.raises(AlgorithmError, match=r"known are .*coordinate-descent"):
        algorithm("descent")
    with pytest.raises(AlgorithmError, match="No module named"):
        algorithm("nowhere:Agent")
    with pytest.raises(AlgorithmError, match="lacks activation"):
        algorithm("coordinator_free.problem.losses:Squared")
