"""Ages of used models, computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from coordinator_free.agent import Agent
from coordinator_free.problem.losses import Logistic
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import Release
from coordinator_free.theory.staleness import Ages, staleness
from coordinator_free.twin.run import run_asynchronous
from topology.network import Network

PAIR = [[1], [0]]


def made(sender: int, index: int, *used: tuple[int, int], to: int | None = None) -> Release:
    return Release(sender, index, np.zeros(1), used, recipient=to)


def counts(releases: list[Release], neighbours: list[list[int]] = PAIR, planned: int = 100) -> list[int]:
    found = staleness(enumerate(releases), neighbours, planned)
    return [] if found is None else found.counts.tolist()


def test_a_model_used_again_is_older() -> None:
    # Agent 0 uses release 0 of agent 1 as soon as it is said, and still works with it after releases 1 and 2.
    speech = [made(1, 0), made(0, 0, (1, 0)), made(1, 1, (0, 0)), made(1, 2, (1, 1)), made(0, 1, (0, 0))]
    # 0/0: age 0; 1/1: age 0 of agent 0; 1/2: still that, age 0; 0/1: 2 - 0 = 2.
    assert counts(speech) == [3, 0, 1]


def test_of_several_used_the_last_is_in_force() -> None:
    speech = [made(1, 0), made(1, 1), made(1, 2), made(0, 0, (1, 0), (1, 1))]
    assert counts(speech) == [0, 1]


def test_a_neighbour_of_whom_nothing_was_used_has_no_age() -> None:
    assert staleness([(0.0, made(0, 0)), (1.0, made(1, 0))], PAIR, 10) is None
    # Agent 0 has two neighbours and used only one of them.
    assert counts([made(1, 0), made(2, 0), made(0, 0, (1, 0))], [[1, 2], [0], [0]]) == [1]


def test_after_a_skipped_index_nothing_is_in_force() -> None:
    speech = [made(1, 0), made(0, 0, (1, 0)), made(1, 1), made(0, 7), made(0, 8, (1, 1))]
    assert counts(speech) == [2]


def test_a_listener_may_hear_the_neighbour_later_than_the_agent_did() -> None:
    assert counts([made(0, 0, (1, 0)), made(1, 0)]) == [1]


def test_an_addressed_release_makes_older_only_what_its_recipient_has() -> None:
    star = [[1], [0, 2], [1]]
    speech = [made(1, 0, to=0), made(1, 1, to=2), made(0, 0, (1, 0)), made(1, 2, to=0), made(0, 1, (0, 0))]
    assert counts(speech, star) == [1, 0, 1]


def test_times_decide_the_order() -> None:
    late = [(2.0, made(0, 0, (1, 0))), (0.0, made(1, 0)), (1.0, made(1, 1))]
    found = staleness(late, PAIR, 10)
    assert found is not None
    assert found.counts.tolist() == [0, 1]


def test_what_no_agent_can_have_said_is_passed_over() -> None:
    speech = [made(1, 0), made(0, 0, (1, 0), (7, 3), (1, 10**12)), made(1, 10**12), made(9, 0), made(0, 1)]
    assert counts(speech) == [2]


def test_figures_of_a_distribution() -> None:
    ages = Ages(PAIR, 1000)
    ages.receive(made(1, 0))
    ages.receive(made(0, 0, (1, 0)))  # age 0
    for index in range(1, 100):
        ages.receive(made(1, index))
        ages.receive(made(0, index))  # ages 1 to 99
    found = ages.staleness
    assert found is not None
    assert found.ages == 100
    assert found.mean == pytest.approx(49.5)
    assert (found.quantile(0.5), found.quantile(0.95), found.quantile(1.0), found.largest) == (49, 94, 99, 99)
    assert found.means[0] == pytest.approx(49.5)
    assert math.isnan(found.means[1])
    assert ages.mean_since() == pytest.approx(49.5)
    assert math.isnan(ages.mean_since())
    ages.receive(made(0, 100, (1, 99)))
    assert ages.mean_since() == 0.0


def test_without_delay_the_twin_uses_nothing_old_and_with_delay_just_that_old(
    regular: Callable[..., Network], problems: Callable[..., list[LocalProblem]], team: Callable[..., list[Agent]]
) -> None:
    network, updates = regular(8, 4), 40
    neighbours = [network.neighbours(i) for i in range(8)]

    def run(delay: float) -> tuple[float, float]:
        agents = team("coordinate-descent", network, problems(8, 3, Logistic()), updates=updates, learning={"mu": 1.0})
        told = run_asynchronous(agents, network, rate=2.0, seed=3, delay=lambda *_: delay)
        found = staleness(zip(told.times, told.releases, strict=True), neighbours, updates)
        assert found is not None
        # The same from times alone: what was on its way from j, or already old, when i spoke.
        stamped = list(zip(told.times, told.releases, strict=True))
        expected = []
        for at, release in stamped:
            for j in neighbours[release.sender]:
                before = [t for t, other in stamped if other.sender == j and t < at]
                arrived = [t for t in before if t + delay <= at]
                if arrived:
                    expected.append(len(before) - len(arrived))
        assert found.ages == len(expected)
        return found.mean, float(np.mean(expected))

    assert run(0.0) == (0.0, 0.0)
    mean, expected = run(0.7)
    assert mean == pytest.approx(expected)
    assert mean > 1.0
