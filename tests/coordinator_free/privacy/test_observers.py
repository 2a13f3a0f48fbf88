"""Epsilon towards single observers, against the dense covariance of everything that an observer receives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from coordinator_free.privacy import observers
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import Gaussian, Laplace
from coordinator_free.privacy.noise import FloatArray
from coordinator_free.privacy.observers import NoSurrogate, seen_by, surrogate_of, view
from topology import families
from topology.network import Network, from_edges

ROUNDS = 6
STEP = 0.3


@dataclass(frozen=True)
class Agent:
    """Releases (1 - a) h x + a (mean of its neighbours) + noise; ``made`` is charged for each."""

    neighbours: int
    made: Mechanism | None

    def charge(self, index: int) -> Mechanism | None:
        return self.made

    def surrogate(self, curvature: float) -> tuple[float, FloatArray]:
        return (1.0 - STEP) * (1.0 - curvature), np.full(self.neighbours, STEP / self.neighbours)


def crowd(network: Network, made: list[Mechanism | None]) -> list[Agent]:
    return [Agent(int(count), one) for count, one in zip(network.degree_counts, made, strict=True)]


def dense_mu(
    network: Network, agents: list[Agent], curvature: float, observer: int, heard: tuple[int, ...], of: int, sign: float
) -> float:
    """The shift of all that was received, in its covariance, both written out over all rounds."""
    n = network.agents
    update = np.zeros((n, n))
    for i, agent in enumerate(agents):
        own, others = agent.surrogate(curvature)
        update[i, i] = own
        update[i, list(network.neighbours(i))] = others
    scales = [0.0 if i == observer or a.made is None else a.made.scale for i, a in enumerate(agents)]
    made = agents[of].made
    shift = 0.0 if made is None else made.sensitivity
    from_noise, moved = [], []
    state, mean = np.zeros((n, n * ROUNDS)), np.zeros(n)
    for k in range(ROUNDS):
        state = update @ state
        state[:, k * n : (k + 1) * n] += np.diag(scales)
        mean = update @ mean
        mean[of] += sign**k * shift
        from_noise.append(state[list(heard)])
        moved.append(mean[list(heard)])
    noise, moved_by = np.concatenate(from_noise), np.concatenate(moved)
    return math.sqrt(float(moved_by @ np.linalg.pinv(noise @ noise.T, rcond=1e-12) @ moved_by))


def small() -> tuple[Network, list[Agent]]:
    network = from_edges(6, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0), (4, 5, 1.0), (0, 5, 1.0), (1, 4, 1.0)])
    made: list[Mechanism | None] = [Gaussian(0.1 * (k + 1), 0.5 + 0.3 * k) for k in range(6)]
    return network, crowd(network, made)


@pytest.mark.parametrize("curvature", [0.0, 1.0, 0.4])
@pytest.mark.parametrize("silent", [None, 3])
def test_the_filter_agrees_with_the_dense_covariance(curvature: float, silent: int | None) -> None:
    network, agents = small()
    if silent is not None:
        agents[silent] = Agent(agents[silent].neighbours, None)  # no records: what it passes on has no noise
    linear = surrogate_of(agents, ROUNDS, network, curvature)
    for observer in range(6):
        heard = network.neighbours(observer)
        found = seen_by(observer, heard, linear)
        for of in range(6):
            if of != observer:
                for row, sign in enumerate((1.0, -1.0)):
                    expected = dense_mu(network, agents, curvature, observer, heard, of, sign)
                    assert found[row, of] == pytest.approx(expected, rel=1e-7, abs=1e-9), (observer, of)


def test_an_observer_of_everything_sees_the_promise_and_no_other_sees_more() -> None:
    network, agents = small()
    promise = np.array([math.sqrt(ROUNDS) / agent.made.multiplier for agent in agents if agent.made is not None])
    for curvature in (0.0, 1.0):
        linear = surrogate_of(agents, ROUNDS, network, curvature)
        everything = seen_by(0, range(6), linear)
        assert everything[:, 1:] == pytest.approx(np.stack([promise[1:]] * 2), rel=1e-9)
        some = seen_by(0, network.neighbours(0), linear)
        assert (some[:, 1:] <= promise[1:] * (1 + 1e-9)).all()


def test_half_the_noise_of_the_others_hides_less() -> None:
    network, agents = small()
    halved = list(agents)
    for k in (0, 1, 2, 4, 5):
        made = agents[k].made
        assert made is not None
        halved[k] = Agent(agents[k].neighbours, Gaussian(made.sensitivity, made.scale / 2))
    before, after = (view(code, ROUNDS, network, 1e-3, [0]).of[0, 3] for code in (agents, halved))
    assert after > 1.1 * before


def test_schools_at_epsilon_two() -> None:
    """65 agents, ten neighbours each, 150 rounds: the figures of Muffliato's kind that the documents quote."""
    network = families.build("random-regular", 65, 1, degree=10)
    made = Gaussian(1.0, 17.7)
    agents = crowd(network, [made] * 65)
    promise = gaussian_epsilon(math.sqrt(150) / 17.7, 1e-3)
    near, far, *_ = view(agents, 150, network, 1e-3, [0, 30]).distances
    assert promise == pytest.approx(2.0, abs=0.01)
    assert 1.75 < near.flat[0] < near.flat[1] < 1.95
    assert 0.1 < far.flat[0] < far.epsilon < 0.35
    assert near.epsilon <= promise * (1 + 1e-9)


def test_agents_that_are_not_linear_and_other_noise_have_no_figure() -> None:
    network, agents = small()

    class Other(Agent):
        def surrogate(self, curvature: float) -> None:  # type: ignore[override]
            return None

    with pytest.raises(NoSurrogate, match="linear"):
        view([*agents[:5], Other(2, Gaussian(1.0, 1.0))], ROUNDS, network, 1e-3)
    with pytest.raises(NoSurrogate, match="Gaussian"):
        view([*agents[:5], Agent(2, Laplace(1.0, 1.0))], ROUNDS, network, 1e-3)


def test_agents_that_release_nothing_of_their_records_have_no_figure() -> None:
    network, agents = small()
    agents[3] = Agent(agents[3].neighbours, None)
    found = view(agents, ROUNDS, network, 1e-3)
    assert np.isnan(found.of[:, 3]).all()
    assert sum(distance.pairs for distance in found.distances) == 5 * 5
    assert all(distance.epsilon >= distance.flat[0] > 0.0 for distance in found.distances[:2])


def test_large_networks_have_fewer_observers_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    network = from_edges(40, [(k, (k + 1) % 40, 1.0) for k in range(40)])
    assert len(view(crowd(network, [Gaussian(1.0, 3.0)] * 40), 3, network, 1e-3).observers) == 16
    monkeypatch.setattr(observers, "_WORK", 1e5)
    assert len(view(crowd(network, [Gaussian(1.0, 3.0)] * 40), 3, network, 1e-3).observers) == 2
