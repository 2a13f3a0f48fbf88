"""The crowd's numbers are the twin's."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.twin.run import run_asynchronous
from coordinator_free.twin.vectorised import Crowd, Noise, run_coordinate_descent


def both(regular, problems, team, judge, updates: int, **private):
    network = regular(40, 4)
    made = problems(40, 5, judge, empty=True)
    smoothness = np.array([problem.smoothness_of_data() for problem in made])
    agents = team("coordinate-descent", network, made, updates=updates, learning={"mu": 2.0}, **private)
    run_asynchronous(agents, network, rate=3.0, seed=7)
    noise = None
    if private:
        noise = Noise(**private, secrets=[simulation_secret(0, i) for i in range(40)])
    crowd = run_coordinate_descent(
        network,
        Crowd.of(made),
        confidences=np.array([agent._setting.confidence for agent in agents]),
        smoothness=smoothness,
        mu=2.0,
        updates=updates,
        rate=3.0,
        seed=7,
        noise=noise,
    )
    return crowd, np.stack([agent.model for agent in agents])


@pytest.mark.parametrize("judge", [LOGISTIC, SQUARED], ids=["logistic", "squared"])
@pytest.mark.parametrize("updates", [1, 30])
def test_without_noise(judge, updates: int, regular, problems, team) -> None:
    crowd, plain = both(regular, problems, team, judge, updates)
    assert np.abs(plain).max() > 0.01
    assert np.abs(crowd - plain).max() < 1e-12


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_with_noise(mechanism: str, regular, problems, team) -> None:
    private = {"mechanism": mechanism, "multipliers": np.full(20, 5.0), "clip": 0.5}
    crowd, plain = both(regular, problems, team, LOGISTIC, 20, **private)
    # All but values within 1e-12 of an edge of the grid round alike; with these seeds there is none.
    assert np.abs(crowd - plain).max() < 1e-12
    agents_with_records = np.arange(1, 40)
    steps = crowd[agents_with_records] / GRID
    assert (steps == np.rint(steps)).all()
