"""What algorithms declare about themselves, and the defaults that a class of somebody's own gets."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Activation
from coordinator_free.agents.registry import KNOWN, AlgorithmError, algorithm
from coordinator_free.algorithm import Algorithm, Attack
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.twin.run import run_asynchronous, run_rounds


class Mute:
    """Has the methods of an agent, and declares nothing."""

    name = "my_module:Mute"
    activation = Activation.POISSON
    newest_only = True
    addressed = False
    finished = True
    model = np.zeros(1)

    def __init__(self, setting: Any) -> None:
        self.setting = setting

    def start(self) -> None: ...
    def receive(self, release: Any) -> None: ...
    def wake(self) -> None: ...
    def charge(self, index: int) -> None: ...
    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any, next_index: int) -> None: ...


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("my_module")
    monkeypatch.setitem(sys.modules, "my_module", made)
    return made


@pytest.mark.parametrize("name", KNOWN)
def test_each_algorithm_declares_itself(name: str) -> None:
    found = algorithm(name)
    assert issubclass(found, Algorithm)
    assert found.name == name
    assert isinstance(found.attacked_by, Attack)
    assert found.finish_weight in (None, "finish_mu", "kappa")


ADMM = {"capacity": 2.0, "rho": 50.0, "penalty": 50.0}
OF_ITS_MODEL: dict[str, dict[str, Any]] = {
    "coordinate-descent": {"mu": 0.5},
    "propagation": {"mu": 0.5},
    "warm-start": {"mu": 0.5, "anchor": "gradient", "warm_updates": 3, "warm_epsilon": 0.5},
    **dict.fromkeys(("admm", "m-admm", "dvp", "pvp", "pp"), ADMM),
}


def test_the_algorithms_whose_own_model_is_the_last_release_say_so() -> None:
    assert {name for name in KNOWN if algorithm(name).releases_its_model} == set(OF_ITS_MODEL)


@pytest.mark.parametrize("name", OF_ITS_MODEL)
def test_the_own_model_of_such_an_agent_is_its_last_release(name: str, regular: Any, problems: Any, team: Any) -> None:
    network, kind, private = regular(6, 3), algorithm(name), {}
    if kind.mechanisms != ():
        noise = "gamma-norm" if "gamma-norm" in (kind.mechanisms or ()) else "gaussian"
        private = {"mechanism": noise, "multipliers": np.full(kind.charged(6), 0.4), "clip": 2.0}
    agents = team(name, network, problems(6, 3, LOGISTIC), updates=6, learning=OF_ITS_MODEL[name], **private)
    if kind.activation is Activation.ROUNDS:
        said = run_rounds(agents, network).releases
    else:
        said = run_asynchronous(agents, network, rate=1.0, seed=2).releases
    last = {release.sender: release.vector for release in said}
    assert all(np.array_equal(agent.model, last[i]) for i, agent in enumerate(agents))


def test_a_class_that_declares_nothing_gets_the_defaults(module: ModuleType) -> None:
    module.Mute = Mute  # type: ignore[attr-defined]
    found = algorithm("my_module:Mute")
    assert issubclass(found, Mute)
    assert algorithm("my_module:Mute") is found
    assert (found.releases(7, 2), found.charged(7), found.release_dimension(3)) == (7, 7, 3)
    assert (found.newest_only, found.mechanisms, found.attacked_by) == (True, None, Attack.RELEASES)
    agent = found(None)  # type: ignore[call-arg]
    assert agent.finish() is None
    assert agent.noised(0, np.ones(2)).tolist() == [1.0, 1.0]


def test_an_agent_that_does_not_say_what_it_costs_is_refused(module: ModuleType) -> None:
    module.Free = type("Free", (Algorithm,), {"name": "my_module:Free", "wake": Mute.wake})  # type: ignore[attr-defined]
    with pytest.raises(AlgorithmError, match=r"my_module:Free.*lacks .*charge"):
        algorithm("my_module:Free")
