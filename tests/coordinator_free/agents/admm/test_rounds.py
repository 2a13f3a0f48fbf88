"""An agent of the family as a state machine: restarts, silence, settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.admm.admm import Admm, AdmmError
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.modified_admm import ModifiedAdmm
from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.agents.registry import algorithm
from coordinator_free.release import Release
from coordinator_free.settings import SettingError
from coordinator_free.twin.reexecution import reexecute
from coordinator_free.twin.run import run_rounds
from tests.helpers.admm_networks import records, ring, settings

NETWORK = ring(4)
PROBLEMS = records(4, 15, 3, seed=2)
LEARNING = {"capacity": 15.0, "rho": 0.3, "penalty": 0.7}
KINDS: list[tuple[type[Admm], str, dict[str, Any]]] = [
    (Admm, "none", {}),
    (ModifiedAdmm, "none", {"penalty_growth": 1.1, "theta": 0.5}),
    (DualPerturbation, "gamma-norm", {}),
    (PenaltyPerturbation, "gamma-norm", {"penalty_growth": 1.1}),
    (PrimalPerturbation, "gaussian", {}),
    (PrimalPerturbation, "gamma-norm", {"pvp_form": "as_published"}),
    (PrimalPerturbation, "gaussian", {"last_round": "dvp"}),
    (PrimalPerturbation, "gaussian", {"pvp_form": "as_published", "start": "random"}),
]
IDS = ["admm", "m-admm", "dvp", "pp", "pvp", "pvp-as-published", "pvp-last-dvp", "pvp-random-start"]


def made(kind: type[Admm], mechanism: str, extra: dict[str, Any], updates: int = 5) -> list[Admm]:
    multipliers = None if mechanism == "none" else np.full(updates, 1.5)
    return [kind(s) for s in settings(NETWORK, PROBLEMS, LEARNING | extra, updates, mechanism, multipliers)]


@pytest.mark.parametrize(("kind", "mechanism", "extra"), KINDS, ids=IDS)
def test_an_agent_goes_on_from_a_snapshot_bit_for_bit(kind: type[Admm], mechanism: str, extra: dict[str, Any]) -> None:
    whole = run_rounds(made(kind, mechanism, extra), NETWORK).releases
    by = {(r.sender, r.round): r for r in whole}
    for stop in range(1, 5):
        first = made(kind, mechanism, extra)[0]
        first.start()
        for t in range(stop - 1):
            for j in (1, 3):
                first.receive(by[j, t])
            first.wake()
        state = {key: value.copy() for key, value in first.snapshot().items()}
        second = made(kind, mechanism, extra)[0]
        second.restore(state, stop)
        for t in range(stop - 1, 4):
            for j in (1, 3):
                second.receive(by[j, t])
            said = second.wake()
            assert said is not None
            assert said.same_as(by[0, t + 1])
        assert second.finished
        assert second.wake() is None


@pytest.mark.parametrize(("kind", "mechanism", "extra"), KINDS, ids=IDS)
def test_a_record_is_executed_again_bit_for_bit(kind: type[Admm], mechanism: str, extra: dict[str, Any]) -> None:
    whole = run_rounds(made(kind, mechanism, extra), NETWORK).releases
    heard = {(r.sender, r.index): r for r in whole}
    for i, agent in enumerate(made(kind, mechanism, extra)):
        assert reexecute(agent, heard, [r for r in whole if r.sender == i]) is None


def test_a_silent_neighbours_edge_takes_no_dual_step() -> None:
    agent = made(Admm, "none", {})[0]
    agent.start()
    other = Release(sender=1, index=0, vector=np.ones(3), round=0)
    agent.receive(other)
    agent.wake()  # agent 3 said nothing
    expected = 0.35 * (agent._own - other.vector)
    # The step was taken with the own release of round 0, before the minimisation that followed.
    first = made(Admm, "none", {})[0].start()
    assert first is not None
    expected = 0.35 * (first.vector - other.vector)
    np.testing.assert_allclose(agent._dual, expected, rtol=0, atol=1e-15)


def test_an_agent_that_was_carried_past_jumps_to_the_newest_round() -> None:
    agent = made(Admm, "none", {}, updates=9)[0]
    agent.start()
    for j in (1, 3):
        agent.receive(Release(sender=j, index=5, vector=np.ones(3), round=5))
    said = agent.wake()
    assert said is not None
    assert (said.index, said.round) == (1, 6)
    assert said.used == ((1, 5), (3, 5), (0, 0))
    assert (agent._dual == 0.0).all()  # nobody heard its release of round 5


def test_a_release_of_an_earlier_round_is_not_consumed() -> None:
    agent = made(Admm, "none", {}, updates=9)[0]
    agent.start()
    agent.receive(Release(sender=1, index=3, vector=np.ones(3), round=3))
    agent.receive(Release(sender=1, index=2, vector=np.zeros(3), round=2))
    assert (agent._others[0] == 1.0).all()


def test_the_time_average_is_the_mean_of_what_was_said_and_heard() -> None:
    agents = made(Admm, "none", {})
    seen = run_rounds(agents, NETWORK)
    expected = np.mean([r.vector for r in seen.releases if r.sender in {3, 0, 1}], axis=0)
    np.testing.assert_allclose(agents[0].time_average(), expected, rtol=0, atol=1e-14)


def test_the_free_finish_solves_its_own_problem() -> None:
    agent = made(Admm, "none", {"finish": True, "kappa": 0.2})[0]
    agent.start()
    finish = agent.finish()
    assert finish is not None
    centre = agent.time_average()
    gradient = PROBLEMS[0].loss.gradient(finish, PROBLEMS[0].x, PROBLEMS[0].y) + 0.2 * (finish - centre)
    assert np.linalg.norm(gradient) <= 1e-10
    assert made(Admm, "none", {})[0].finish() is None


def test_an_agent_without_records_follows_its_neighbours_for_free() -> None:
    empty = replace(PROBLEMS[0], x=np.empty((0, 3)), y=np.empty(0))
    problems = [empty, *PROBLEMS[1:]]
    made_of = settings(NETWORK, problems, LEARNING, 5, "gaussian", np.full(5, 1.5))
    agents = [PrimalPerturbation(s) for s in made_of]
    seen = run_rounds(agents, NETWORK)
    assert len(seen.releases) == 20
    assert agents[0].charge(0) is None
    assert np.linalg.norm(agents[0].model) > 0.0


@pytest.mark.parametrize("name", ["admm", "m-admm", "dvp", "pvp", "pp"])
def test_the_registry_knows_the_family(name: str) -> None:
    assert algorithm(name).name == name


@pytest.mark.parametrize(
    ("kind", "learning", "said"),
    [
        (Admm, {"rho": -1.0}, "learning.rho = -1.0"),
        (Admm, {"capacity": None}, "learning.capacity is missing"),
        (Admm, {"penalty_growth": 1.1}, "constant penalty"),
        (Admm, {"theta": 0.1}, "learning.theta = 0.1"),
        (Admm, {"regulariser": "both"}, '"per-node", "shared"'),
        (ModifiedAdmm, {"penalty_growth": 1e5}, "passes 1e"),
        (ModifiedAdmm, {"penalty_growth": 1e200}, "passes 1e"),
        (ModifiedAdmm, {"penalties": [1.0, 2.0]}, "needs 5 finite numbers"),
        (PrimalPerturbation, {"pvp_form": "best"}, "own-release"),
        (Admm, {"start": "local"}, '"zero", "random"'),
        (PrimalPerturbation, {"last_round": "pp"}, '"same", "dvp"'),
    ],
)
def test_a_setting_that_cannot_be_is_named(kind: type[Admm], learning: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said) as error:
        made(kind, "none", learning)
    assert "\n" not in str(error.value)


def test_a_freezing_schedule_is_foreseen() -> None:
    growing = LEARNING | {"penalty_growth": 1.2, "theta": 0.7}
    assert any("freeze" in warning for warning in ModifiedAdmm.foresee(growing, 50, NETWORK))
    assert any("above the penalty" in warning for warning in ModifiedAdmm.foresee(growing | {"theta": 1.0}, 5, NETWORK))
    assert Admm.foresee(LEARNING, 50, NETWORK) == ()
    with pytest.raises(AdmmError, match="passes 1e"):
        ModifiedAdmm.foresee(LEARNING | {"penalty_growth": 10.0}, 50, NETWORK)
